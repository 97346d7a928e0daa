"""The secure Gram matrix: from ``federation.moments`` to the noisy matrix, beside MPyC and SecretFlow's SPU in the same run.

*Ours.* Everything in one process and everything included: agreement, ledgers (durable), coding, sharing, sealing, codec,
products, degree checks, noise, opening, papers. Warm: the columns are at hand and compiled code is loaded. As many threads as
members. Best of three per run; each is a new draw. Where there are fewer data parties than three, a node without data helps.

*MPyC* (``mpyc_gram.py``) multiplies integers of the same size, one process per party on this machine, with its vectorised
arithmetic: as its secure integers (SecInt), and in a bare prime field just large enough for our result (SecFld), which is the
least that it could do. It adds no noise, encrypts nothing and records nothing. It is given a part of the rows, at two sizes,
and the better rate is extrapolated to all rows. *Full* is the whole matrix, *cross* the blocks between parties, which is what
we multiply on shares.

*SPU* (``spu_gram.py``) multiplies the whole matrix in fixed point with its own simulator, all parties in one process: ABY3
with three parties, semi2k with two. It adds no noise. Its largest error of an entry is shown; ours are exact before noise.

Times are by the clock and by processor seconds over all parties. *Kernels*: one node's exact product of shares beside a
float64 ``X.T @ X`` in one thread, and what dealing and opening cost (``kernels.py``).
"""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Claim, Part, Results, Row, Table, Unavailable, below, faster
from benchmarks.frame.claims import Test
from benchmarks.frame.peers import MPYC, PATIENCE, SPU, quiet_environment

import colonnade as cn
from colonnade.steps.kind import read_joint

HERE = Path(__file__).parent
PUBLISHED = tomllib.loads((HERE / "published.toml").read_text())
SEED, SCALE = 20_240_602, 4096
EPSILON, DELTA = 1.0, 1e-6
SIZES = {(370_000, 14): (9_250, 18_500), (45_222, 41): (2_000, 4_000), (195_666, 117): (500, 1_000)}
"""Rows and columns, and how many rows MPyC is given."""
MEMBERS = {2: 3, 3: 3, 4: 4}
"""Compute nodes by number of data parties."""
BESIDE = 3
"""Data parties where ours stands beside MPyC."""
BARS = {"full": 100.0, "cross": 50.0}
KINDS = ("SecInt", "SecFld")
LARGEST_BYTES = 8.0
PRODUCT_BAR = 3.5
BITS = 46


# Ours -----------------------------------------------------------------------------------------------------------------------


def tables(rows: int, columns: int, owners: int) -> list[np.ndarray]:
    """Columns by rows, uniform in [−1, 1], divided evenly."""
    rng = np.random.default_rng(SEED)
    return [rng.uniform(-1, 1, (len(part), rows)) for part in np.array_split(np.arange(columns), owners)]


def a_federation(blocks: list[np.ndarray], nodes: int) -> cn.Federation:
    parties = {}
    for number, block in enumerate(blocks):
        names = [f"x{place}" for place in range(len(block))]
        frame = pd.DataFrame(dict(zip(names, block, strict=True)))
        frame["id"] = np.arange(len(frame))
        schema = cn.Schema({name: cn.Numeric(-1, 1) for name in names})
        parties[f"party{number + 1}"] = cn.Party(frame, schema=schema)
    helpers = [f"node{number + 1}" for number in range(nodes - len(blocks))]
    return cn.Federation.simulate(
        parties, id="id", budget=cn.Budget(epsilon=1_000.0, delta=1e-3), compute_nodes=helpers
    )


class Ours:
    """One federation, timed again and again."""

    def __init__(self, rows: int, columns: int, owners: int, nodes: int) -> None:
        self._blocks = tables(rows, columns, owners)
        self._federation = a_federation(self._blocks, nodes)
        self.release = self._federation.moments(epsilon=EPSILON, delta=DELTA, scale=SCALE)  # warm
        self.joint = read_joint(self.release.plan_, "gram")

    def best(self, times: int) -> dict[str, float]:
        """Return the least seconds of several releases."""
        taken = []
        for repeat in range(2, times + 2):
            elapsed, processor = time.perf_counter(), time.process_time()
            self.release = self._federation.moments(epsilon=EPSILON, delta=DELTA, scale=SCALE, repeat=repeat)
            taken.append((time.perf_counter() - elapsed, time.process_time() - processor))
        return dict(zip(("elapsed", "processor"), map(min, zip(*taken, strict=True)), strict=True))

    def farthest(self) -> float:
        """How far the opened matrix is from the exact one: the largest deviation in standard errors of its noise."""
        coded = [
            np.full((1, len(self._blocks[0][0])), 1.0),
            *(np.rint(block * SCALE) / SCALE for block in self._blocks),
        ]
        whole = np.concatenate(coded)
        moments = self.release.moments
        noisy = moments.variance > 0
        return float((np.abs(moments.matrix - whole @ whole.T)[noisy] / np.sqrt(moments.variance[noisy])).max())

    def bytes_a_value(self) -> float:
        """Return the most that a data party sent, all included, per value and recipient of elements (seeds are not counted)."""
        sent = []
        for owner, width in zip(self.joint.owners, self.joint.widths, strict=True):
            nodes = self.joint.nodes  # of many members, a committee computes
            own = {nodes.index(owner) + 1} if owner in nodes else set()
            recipients = len({*range(1, len(nodes) + 1)} - own - {*self.joint.seeded(owner)})
            sent.append(self.release.transcript_.bytes_from[owner] / (self.joint.people * width * recipients))
        return max(sent)

    def close(self) -> None:
        self._federation.close()


# What is measured -----------------------------------------------------------------------------------------------------------


def product_of(_run: int, rows: int, columns: int, owners: int, who: str) -> Iterator[Row]:
    labels = {"size": f"{rows:,} × {columns}", "owners": owners, "who": who}
    if who == "ours":
        values = _ours(rows, columns, owners)
    elif who.startswith("MPyC"):
        what, kind = who.removeprefix("MPyC, ").split(", ")
        values = mpyc(what, kind, SIZES[rows, columns], rows, columns, owners)
    else:
        protocol = who.removeprefix("SPU, ")
        values = SPU.ask(HERE / "spu_gram.py", rows=rows, columns=columns, parties=owners, protocol=protocol)
    yield Row(labels, values)


def _ours(rows: int, columns: int, owners: int) -> dict[str, float]:
    ours = Ours(rows, columns, owners, MEMBERS[owners])
    try:
        taken = ours.best(3)
        if ours.farthest() > 8:
            raise RuntimeError("The opened matrix is not the exact one with noise.")
        sent = sum(ours.release.transcript_.bytes_from.values()) / 1e6
        return {**taken, "MB": sent, "bytes": ours.bytes_a_value(), "rounds": ours.release.transcript_.rounds}
    finally:
        ours.close()


def mpyc(what: str, kind: str, given: tuple[int, ...], rows: int, columns: int, owners: int) -> dict[str, float]:
    """Let MPyC compute at several numbers of rows, refuse a result that is not exact, and extrapolate the better rate."""
    nodes = MEMBERS[owners]
    command = [MPYC.python(), str(HERE / "mpyc_gram.py"), "--what", what, "--kind", kind, "--bits", str(BITS)]
    command += ["--columns", str(columns), "--owners", str(owners), "--rows", *map(str, given)]
    command += [f"-M{nodes}", "--no-log", "-B", str(20_000 + os.getpid() % 20_000)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=quiet_environment()
    ) as process:
        try:
            printed, _ = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # it started the other parties
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    if process.returncode or len(found) != len(given) or not all(one["exact"] for one in found):
        raise Unavailable("MPyC failed, or computed something else")
    return {one: min(part[one] / part["rows"] for part in found) * rows for one in ("elapsed", "processor")}


def kernels(_run: int, rows: int, columns: int) -> Iterator[Row]:
    """One node's product beside numpy's, in a process with one thread of BLAS."""
    script = [sys.executable, str(HERE / "kernels.py"), str(rows), str(columns)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(script, env={**os.environ, **threads}, capture_output=True, text=True, check=True)
    for one in json.loads(done.stdout):
        labels = {"size": f"{rows:,} × {columns}", "nodes": one.pop("nodes"), "arithmetic": one.pop("arithmetic")}
        yield Row(labels, one)


# Claims ---------------------------------------------------------------------------------------------------------------------


def times_mpyc(what: str, kind: str) -> Claim:
    def tests(found: Results) -> Iterator[Test]:
        for rows, columns in SIZES:
            pick = {"size": f"{rows:,} × {columns}", "owners": BESIDE}
            for clock in ("elapsed", "processor"):
                ours = found.sample("products", clock, who="ours", **pick)
                yield faster(ours, found.sample("products", clock, who=f"MPyC, {what}, {kind}", **pick), BARS[what])

    bar = f"at least {BARS[what]:g} ×"
    return Claim(f"every size, {BESIDE} data parties: faster than MPyC, {what}, {kind}", bar, tests, "our bar")


def times_published() -> Claim:
    def tests(found: Results) -> Iterator[Test]:
        for theirs in PUBLISHED["functional_mechanism"]["runs"]:
            for owners, seconds in theirs["seconds"].items():
                size = f"{theirs['rows']:,} × {theirs['columns']}"
                yield below(
                    found.sample("products", "elapsed", size=size, owners=int(owners), who="ours"), seconds / 10
                )

    seconds = "; ".join(f"{one['data']}: {one['seconds']}" for one in PUBLISHED["functional_mechanism"]["runs"])
    return Claim(
        "at most a tenth of the published seconds (another machine: orders of magnitude only)",
        f"{seconds} s by number of parties".replace("{", "").replace("}", "").replace("'", ""),
        tests,
        PUBLISHED["functional_mechanism"]["where"],
    )


CLAIMS = [
    *(times_mpyc(what, kind) for what in BARS for kind in KINDS),
    Claim(
        "faster than SPU at every size measured",
        "at least 50 ×",
        lambda found: [
            faster(
                found.sample("products", "elapsed", size=labels["size"], owners=labels["owners"], who="ours"),
                samples["elapsed"],
                50.0,
            )
            for labels, samples in found.rows("products")
            if str(labels["who"]).startswith("SPU")
        ],
        "our bar",
    ),
    times_published(),
    Claim(
        f"a data party sends at most {LARGEST_BYTES:g} bytes per value and recipient of elements",
        f"at most {LARGEST_BYTES:g}",
        lambda found: [below(samples["bytes"], LARGEST_BYTES) for _, samples in found.rows("products", who="ours")],
        "our bar",
    ),
    Claim(
        f"one node's full product costs at most {PRODUCT_BAR:g} times numpy's",
        f"at most {PRODUCT_BAR:g} ×",
        lambda found: [below(samples["full to numpy"], PRODUCT_BAR) for _, samples in found.rows("kernels")],
        "our bar",
    ),
]
WHO = ["ours", *(f"MPyC, {what}, {kind}" for what in BARS for kind in KINDS)]
CASES = [
    {"rows": rows, "columns": columns, "owners": owners, "who": who}
    for rows, columns in SIZES
    for owners in MEMBERS
    for who in (WHO if owners == BESIDE else WHO[:1])
] + [
    {"rows": rows, "columns": columns, "owners": owners, "who": f"SPU, {protocol}"}
    for rows, columns, owners, protocol in (
        (45_222, 41, 3, "ABY3"),
        (45_222, 41, 2, "semi2k"),
        (370_000, 14, 3, "ABY3"),
    )
]
ROLES = {"ours": "ours", **dict.fromkeys(WHO[1:], "peer"), "SPU, ABY3": "peer", "SPU, semi2k": "peer"}
SMALL = [case for case in CASES if case["rows"] == 45_222 and case["owners"] == 3]
WHERE = {"size": "size", "owners": "data parties"}
BENCHMARK = Benchmark(
    name="secure_gram",
    title=(
        "The secure Gram matrix ([Secure PCA](../../docs/references.md#secure-pca) and "
        "[Functional mechanism across parties](../../docs/references.md#functional))"
    ),
    about=__doc__ or "",
    packages=("numpy", "numba"),
    parts=[
        Part(
            "products",
            product_of,
            CASES,
            3,
            9.0,
            quick=SMALL,
            machine=frozenset({"elapsed", "processor"}),
        ),
        Part(
            "kernels",
            kernels,
            [{"rows": rows, "columns": columns} for rows, columns in SIZES],
            3,
            1.0,
            quick=[{"rows": 45_222, "columns": 41}],
            machine=frozenset({"numpy ms", "deal ms", "full ms", "cross ms", "check ms", "open ms", "full to numpy"}),
        ),
    ],
    shown=[
        "## End to end, beside MPyC and SPU",
        Table(
            "products",
            {"elapsed": "seconds"},
            WHERE,
            across="who",
            digits=3,
            words="Seconds by the clock.",
            roles=ROLES,
            higher=False,
            costs=True,
        ),
        Table(
            "products", {"processor": "seconds"}, WHERE, across="who", digits=3, words="Processor seconds, all parties."
        ),
        Table(
            "products",
            {
                "MB": "MB sent, everything included",
                "bytes": "bytes per value and recipient, at most",
                "rounds": "rounds",
            },
            WHERE,
            where={"who": "ours"},
            words="What is sent.",
            costs=True,
        ),
        Table(
            "products",
            {"error": "largest error of an entry"},
            {**WHERE, "who": "who"},
            filled="error",
            words="Errors of fixed point.",
        ),
        "## One node's product, beside numpy",
        Table(
            "kernels",
            {
                "numpy ms": "numpy `X.T @ X`, ms",
                "full ms": "full, ms",
                "full to numpy": "× numpy",
                "cross ms": "cross, ms",
                "deal ms": "deal, ms",
                "check ms": "check, ms",
                "open ms": "open, ms",
            },
            {"size": "size", "nodes": "nodes", "arithmetic": "arithmetic"},
            digits=3,
        ),
    ],
    claims=CLAIMS,
)
