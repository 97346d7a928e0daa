"""Wide tables: a PCA of thousands of columns and few people, three parties in one process.

`gene_nakayama` (105 people, 22,283 columns) stands in for the 20,531 columns of Secure PCA; `gene_gordon` (181 people) has the
narrower ones. Each case is a process of its own. Seconds until a preview has answered, seconds and processor seconds of the fit,
the largest resident set of the process in all (reading the table included), bytes sent, and how much of the variance of the best
ten components the released ones have, beside a random plane.
"""

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import Claim, Part, Row, Table, below, data_file

import colonnade as cn

ROOT = Path(__file__).parents[2]
SETS = {12_000: "gene_gordon", 22_283: "gene_nakayama"}
"""Up to how many columns which table is read."""
SIZES = (1_000, 5_000, 22_283)
PARTIES, COMPONENTS, BOUND, EPSILON, DELTA = 3, 10, 8_192.0, 64.0, 1e-5
MOST_SECONDS, MOST_MEMORY = 900.0, 12.0


def set_of(columns: int) -> str:
    """Return the name of a set that has so many columns."""
    return SETS[min(size for size in SETS if size >= columns)]


def columns_of(columns: int) -> pd.DataFrame:
    """Return a table with so many columns, cut at the declared bounds."""
    frame = pd.read_parquet(data_file(set_of(columns))).drop(columns="label").iloc[:, :columns]
    return frame.set_axis([f"g{place}" for place in range(columns)], axis=1).clip(-BOUND, BOUND)


def here(columns: int) -> dict[str, float]:
    """Run one case in this process."""
    frame = columns_of(columns)
    cuts = np.linspace(0, columns, PARTIES + 1).astype(int)
    parts = {f"p{part}": list(frame.columns[cuts[part] : cuts[part + 1]]) for part in range(PARTIES)}
    parties = {
        party: cn.Party(
            frame[some].assign(id=np.arange(len(frame))),
            schema=cn.Schema({one: cn.Numeric(-BOUND, BOUND) for one in some}),
        )
        for party, some in parts.items()
    }
    federation = cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=1e4, delta=DELTA))
    norms = cn.methods.Secure(row_norms=dict.fromkeys(parties, (5 / PARTIES) ** 0.5))
    study = cn.PCA(COMPONENTS, epsilon=EPSILON, delta=DELTA, method=norms)
    started = time.perf_counter()
    study.preview(federation)
    previewed, used = time.perf_counter(), time.process_time()
    study.fit(federation)
    fitted = time.perf_counter() - previewed
    rows = frame.to_numpy(float) / BOUND
    centred = rows - rows.mean(axis=0)
    best = float((np.linalg.svd(centred, compute_uv=False)[:COMPONENTS] ** 2).sum())
    plane = np.linalg.qr(np.random.default_rng(0).standard_normal((columns, COMPONENTS)))[0]
    return {
        "people": len(frame),
        "preview seconds": previewed - started,
        "seconds": fitted,
        "processor seconds": time.process_time() - used,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "GB sent": study.transcript_.bytes / 1e9,
        "captured": float(((centred @ study.components_.T) ** 2).sum()) / best,
        "random plane": float(((centred @ plane) ** 2).sum()) / best,
    }


def measured(_run: int, columns: int) -> Iterator[Row]:
    """Run one case in a process of its own, so that its memory is counted from nothing."""
    data_file(set_of(columns))
    asked = [sys.executable, "-m", "benchmarks.scale.wide", str(columns)]
    done = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    values = json.loads(done.stdout.splitlines()[-1])
    yield Row({"set": set_of(columns), "people": int(values.pop("people")), "columns": columns}, values)


TIMES = {
    "preview seconds": "preview, s",
    "seconds": "fit, s",
    "processor seconds": "processor, s",
    "peak GB": "peak, GB",
}
PARTS = [
    Part("wide", measured, [{"columns": columns} for columns in SIZES], 2, 5.5, machine=frozenset(TIMES)),
]
SHOWN = [
    "## Wide tables",
    Table(
        "wide",
        {**TIMES, "GB sent": "GB sent", "captured": "captured, of the best ten", "random plane": "a random plane"},
        {"set": "set", "people": "people", "columns": "columns"},
        digits=3,
        words=f"PCA of {COMPONENTS} components, ε = {EPSILON:g}, {PARTIES} parties.",
    ),
]
CLAIMS = [
    Claim(
        f"22,283 columns: {what}",
        f"at most {most:g}",
        lambda found, value=value, most=most: [below(found.sample("wide", value, columns=SIZES[-1]), most)],
        "the issue",
    )
    for what, value, most in (("seconds to fit", "seconds", MOST_SECONDS), ("memory, GB", "peak GB", MOST_MEMORY))
]

if __name__ == "__main__":
    warnings.simplefilter("ignore", cn.TemporaryLedgers)
    print(json.dumps(here(int(sys.argv[1]))))
