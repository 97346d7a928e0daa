"""Many parties with one column each and a committee of three: what a column costs as parties grow, and the paper's setting.

    COLONNADE_DATA=folder python benchmarks/scale/many.py [--quick]

*Growth*: 2,000 people, one uniform column per party, a release of all second moments, in one process: every member's work is done
on this machine. The best of several draws, by the clock and in processor seconds. The bar is on the time per column: at most
twice that of 8 parties. Other work on the machine disturbs the clock, so both are given.

*The paper's setting* ([Secure PCA](../../docs/references.md#secure-pca)): every coded column of NSL-KDD (the
paper codes 117, we 122) and of Adult, one-hot (105 and 107), at a client of its own, all people, a PCA of five components, ε = 1.
"""

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import colonnade as cn

HERE = Path(__file__).parent
PARTIES, PEOPLE, TURNS, BAR = (8, 32, 64, 117), 2_000, 5, 2.0
BUDGET = cn.Budget(epsilon=1_000.0, delta=1e-3)


def federation(columns: np.ndarray) -> cn.Federation:
    """One party per column in [−1, 1]; the first three are the committee."""
    parties = {}
    for number, column in enumerate(columns):
        frame = pd.DataFrame({"id": np.arange(len(column)), "x": column})
        parties[f"client{number:03d}"] = cn.Party(frame, schema=cn.Schema({"x": cn.Numeric(-1, 1)}))
    return cn.Federation.simulate(parties, id="id", budget=BUDGET, committee=list(parties)[:3])


def growth(parties: tuple[int, ...] = PARTIES, turns: int = TURNS) -> list[dict]:
    """Time releases of second moments among more and more parties."""
    rng, found = np.random.default_rng(1), []
    for count in parties:
        with federation(rng.uniform(-1, 1, (count, PEOPLE))) as members:
            members.moments(epsilon=1.0, delta=1e-6)  # warm
            taken = []
            for turn in range(turns):
                elapsed, processor = time.perf_counter(), time.process_time()
                release = members.moments(epsilon=1.0, delta=1e-6, repeat=turn + 2)
                taken.append((time.perf_counter() - elapsed, time.process_time() - processor))
            elapsed, processor = map(min, zip(*taken, strict=True))
            one = {
                "parties": count,
                "seconds": elapsed,
                "processor_seconds": processor,
                "bytes": release.transcript_.bytes,
            }
            first = found[0] if found else one
            one["per_column_to_first"] = elapsed / count / (first["seconds"] / first["parties"])
            one["processor_per_column_to_first"] = processor / count / (first["processor_seconds"] / first["parties"])
            found.append(one)
            print(one, flush=True)
    return found


def papers_setting() -> list[dict]:
    """Run PCA with one coded column per client on the paper's stand-ins."""
    sys.path.insert(0, str(HERE.parents[1]))
    from benchmarks.spca.spca_sets import problem as named

    found = []
    for problem in map(named, ("NSL-KDD", "Adult")):
        columns = problem.rows(1) / problem.scale
        with federation(columns) as members:
            elapsed = time.perf_counter()
            model = cn.PCA(problem.k, epsilon=1.0, delta=1e-5).fit(members)
            elapsed = time.perf_counter() - elapsed
        one = {
            "set": problem.name,
            "clients": len(columns),
            "people": columns.shape[1],
            "seconds": elapsed,
            "bytes": model.transcript_.bytes,
            "captured": problem.captured(np.asarray(model.components_)),
        }
        found.append(one)
        print(one, flush=True)
    return found


def main() -> None:
    """Run both, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="8 and 32 parties; keeps nothing")
    parser.add_argument(
        "--papers", action="store_true", help="the paper's setting alone, beside the growth that is kept"
    )
    options = parser.parse_args()
    quick, kept = options.quick, HERE / "results" / "many.json"
    warnings.simplefilter("ignore", cn.TemporaryLedgers)
    if quick:
        growth(PARTIES[:2], 2)
        return
    result = json.loads(kept.read_text()) if options.papers else {"growth": growth(), "bar": BAR}
    kept.write_text(json.dumps(result, indent=1) + "\n")
    if "COLONNADE_DATA" in os.environ:
        result["papers_setting"] = papers_setting()
        kept.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
