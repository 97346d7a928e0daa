"""Wide tables: a PCA of thousands of columns and few people, three parties in one process.

    python benchmarks/scale/wide.py [--columns N ...] [--data FOLDER]

`gene_nakayama` (105 people, 22,283 columns) stands in for the 20,531 columns of Secure PCA; `gene_gordon` (181 people) has the
narrower ones. Each case is a process of its own. Reported: seconds until a preview has answered, seconds and processor seconds
of the fit, the largest resident set of the process in all (reading the table included), bytes sent, and how much of the variance
of the best ten components the released ones have, beside a random plane. Rows go to ``results/wide.json``, one per case.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import colonnade as cn

HERE = Path(__file__).parent
DATA = Path(os.environ.get("COLONNADE_DATA", HERE.parents[2] / "shared" / "data"))
SETS = {12_000: "gene_gordon", 22_283: "gene_nakayama"}
"""Up to how many columns which table is read."""
SIZES = (1_000, 2_500, 5_000, 10_000, 22_283)
PARTIES, COMPONENTS, BOUND, EPSILON, DELTA = 3, 10, 8_192.0, 64.0, 1e-5
MOST_SECONDS, MOST_BYTES = 900.0, 12e9


def columns_of(data: Path, columns: int) -> tuple[str, pd.DataFrame]:
    """Return a table with so many columns, cut at the declared bounds."""
    name = SETS[min(size for size in SETS if size >= columns)]
    frame = pd.read_parquet(data / f"{name}.parquet").drop(columns="label").iloc[:, :columns]
    return name, frame.set_axis([f"g{place}" for place in range(columns)], axis=1).clip(-BOUND, BOUND)


def measured(data: Path, columns: int) -> dict[str, object]:
    """Run one case in this process."""
    name, frame = columns_of(data, columns)
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
    expected = study.preview(federation).expected
    previewed, used = time.perf_counter(), time.process_time()
    study.fit(federation)
    fitted = time.perf_counter() - previewed
    rows = frame.to_numpy(float) / BOUND
    centred = rows - rows.mean(axis=0)
    best = float((np.linalg.svd(centred, compute_uv=False)[:COMPONENTS] ** 2).sum())
    plane = np.linalg.qr(np.random.default_rng(0).standard_normal((columns, COMPONENTS)))[0]
    return {
        "set": name,
        "people": len(frame),
        "columns": columns,
        "preview seconds": round(previewed - started, 2),
        "preview said": {key: expected[key] for key in ("time", "memory") if key in expected},
        "fit seconds": round(fitted, 1),
        "processor seconds": round(time.process_time() - used, 1),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "GB sent": round(study.transcript_.bytes / 1e9, 3),
        "captured": round(float(((centred @ study.components_.T) ** 2).sum()) / best, 4),
        "random plane": round(float(((centred @ plane) ** 2).sum()) / best, 4),
    }


def main() -> None:
    """Measure every case in a process of its own, and say whether the widest kept the limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, nargs="+", default=SIZES)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        warnings.simplefilter("ignore", cn.TemporaryLedgers)
        print(json.dumps(measured(given.data, given.one)))
        return
    path = HERE / "results" / "wide.json"
    kept = {row["columns"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
    for columns in given.columns:
        asked = [sys.executable, __file__, "--one", str(columns), "--data", str(given.data)]
        kept[columns] = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
        print(kept[columns], flush=True)
        about = {
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load": [round(load, 1) for load in os.getloadavg()],
        }
        rows = [kept[columns] for columns in sorted(kept)]
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    widest = kept[max(kept)]
    print("within limits:", widest["fit seconds"] <= MOST_SECONDS and widest["peak GB"] * 1e9 <= MOST_BYTES)


if __name__ == "__main__":
    main()
