"""Many parties with one column each and a committee of three: what a column costs as parties grow, and the paper's setting.

*Growth*: 2,000 people, one uniform column per party, a release of all second moments, in one process: every member's work is done
on this machine. The best of several draws, by the clock and in processor seconds. The bar is on the time per column: at most
twice that of 8 parties.

*The paper's setting* ([Secure PCA](../../docs/references.md#secure-pca)): every coded column of NSL-KDD (the
paper codes 117, we 122) and of Adult, one-hot (105 and 107), at a client of its own, all people, a PCA of five components, ε = 1.
"""

import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
from benchmarks.frame import Claim, Part, Results, Row, Table, within
from benchmarks.frame.claims import Test
from benchmarks.spca.spca_sets import problem

import colonnade as cn

PARTIES, PEOPLE, TURNS, BAR = (8, 32, 64, 117), 2_000, 5, 2.0
BUDGET = cn.Budget(epsilon=1_000.0, delta=1e-3)


def federation(columns: np.ndarray) -> cn.Federation:
    """One party per column in [−1, 1]; the first three are the committee."""
    parties = {}
    for number, column in enumerate(columns):
        frame = pd.DataFrame({"id": np.arange(len(column)), "x": column})
        parties[f"client{number:03d}"] = cn.Party(frame, schema=cn.Schema({"x": cn.Numeric(-1, 1)}))
    return cn.Federation.simulate(parties, id="id", budget=BUDGET, committee=list(parties)[:3])


def growth(run: int, parties: int) -> Iterator[Row]:
    """Time releases of second moments among so many parties."""
    columns = np.random.default_rng([run, parties]).uniform(-1, 1, (parties, PEOPLE))
    with federation(columns) as members:
        members.moments(epsilon=1.0, delta=1e-6)  # warm
        taken = []
        for turn in range(TURNS):
            elapsed, processor = time.perf_counter(), time.process_time()
            release = members.moments(epsilon=1.0, delta=1e-6, repeat=turn + 2)
            taken.append((time.perf_counter() - elapsed, time.process_time() - processor))
    elapsed, processor = map(min, zip(*taken, strict=True))
    values = {
        "seconds": elapsed,
        "processor seconds": processor,
        "ms per column": 1e3 * elapsed / parties,
        "MB": release.transcript_.bytes / 1e6,
    }
    yield Row({"parties": parties}, values)


def papers_setting(_run: int, set: str) -> Iterator[Row]:  # noqa: A002  # the page's label
    """Run PCA with one coded column per client on the paper's stand-ins."""
    held = problem(set)
    columns = held.rows(1) / held.scale
    with federation(columns) as members:
        elapsed = time.perf_counter()
        model = cn.PCA(held.k, epsilon=1.0, delta=1e-5).fit(members)
        elapsed = time.perf_counter() - elapsed
    labels = {"set": held.name, "clients": len(columns), "people": columns.shape[1]}
    captured = held.captured(np.asarray(model.components_))
    yield Row(labels, {"seconds": elapsed, "MB": model.transcript_.bytes / 1e6, "captured": captured})


def _per_column(found: Results) -> Iterator[Test]:
    first, *more = (found.sample("parties", "ms per column", parties=parties) for parties in PARTIES)
    for one in more:
        yield within(one, first, BAR)


PARTS = [
    Part(
        "parties",
        growth,
        [{"parties": parties} for parties in PARTIES],
        3,
        2.0,
        machine=frozenset({"seconds", "processor seconds", "ms per column"}),
    ),
    Part(
        "one column per client",
        papers_setting,
        [{"set": "Adult"}, {"set": "NSL-KDD"}],
        2,
        1.0,
        machine=frozenset({"seconds"}),
    ),
]
SHOWN = [
    "## Parties",
    Table(
        "parties",
        {"seconds": "seconds", "processor seconds": "processor seconds", "ms per column": "ms per column", "MB": "MB"},
        {"parties": "parties"},
        digits=3,
    ),
    Table(
        "one column per client",
        {"seconds": "seconds", "MB": "MB", "captured": "captured variance, of the best"},
        {"set": "set", "clients": "clients", "people": "people"},
        words="The paper's setting: one coded column per client.",
    ),
]
CLAIMS = [
    Claim(
        "time per column among 32, 64 and 117 parties, beside 8 (ratio)", f"at most {BAR:g} ×", _per_column, "our bar"
    ),
]
