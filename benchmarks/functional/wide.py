"""One wide study in a process of its own: 80,000 people, 800 numbers, from Parquet files to a fitted model.

Not run by hand: ``run.py`` starts it with a folder that holds one Parquet file a party (columns x000 …, and y at the first) and a
file of held-out rows, and reads the JSON object that it prints: seconds, the most memory the process ever held, the error.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet

import colonnade as cn

NUMBER = cn.Numeric(-1, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epsilon", type=float, required=True)
    asked = parser.parse_args()
    files = sorted(asked.folder.glob("party*.parquet"))
    columns = {file.stem: [name for name in parquet.read_schema(file).names if name != "id"] for file in files}
    begin = time.perf_counter()
    parties = {file.stem: cn.Party(file, schema=cn.Schema(dict.fromkeys(columns[file.stem], NUMBER))) for file in files}
    with cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=100.0)) as federation:
        opened = time.perf_counter() - begin
        model = cn.LinearRegression("party1.y", method="functional", epsilon=asked.epsilon).fit(federation)
        rounds, sent = model.transcript_.rounds, model.transcript_.bytes
    took = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    test = pd.read_parquet(asked.folder / "test.parquet")
    test.columns = [column if "." in column else f"party1.{column}" for column in test.columns]
    error = float(np.mean((model.predict(test) - test["party1.y"]) ** 2))
    found = {
        "seconds": took,
        "seconds_to_open": opened,
        "peak_bytes": peak,
        "rounds": rounds,
        "bytes": sent,
        "error": error,
        "features": len(model.coef_),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
