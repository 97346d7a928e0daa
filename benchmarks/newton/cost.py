"""What Newton steps cost beside one Gram matrix of the same columns: bytes that went through the coordinator, and processor time.

    python benchmarks/newton/cost.py [--rows 50000] [--turns 3]

Four parties of made-up columns, dealt out in turn, three of whom compute, everything in one process and everything included:
50,000 × 106 coded columns and 1,000,000 × 30. Processor seconds are those of the whole federation, the least of several turns, in
turns with the Gram matrix. The bars are 5 and 15 times one Gram matrix, for bytes and for time.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import colonnade as cn

HERE = Path(__file__).parent
SHAPES = {50_000: ((42, 16, 15, 9, 7, 6, 5), 6, 5.0), 1_000_000: ((5, 4, 4, 3), 14, 15.0)}
"""By people: the levels of categories, how many numbers, and the bar."""
DELTA = 1e-6


def a_federation(people: int) -> cn.Federation:
    """Four parties, the target at the last one."""
    rng = np.random.default_rng(people)
    levels, numbers, _ = SHAPES[people]
    frames = [pd.DataFrame({"id": np.arange(people)}) for _ in range(4)]
    columns: list[dict[str, cn.Category | cn.Numeric]] = [{} for _ in range(4)]
    for place, size in enumerate((*levels, *(0,) * numbers)):
        party, name = place % 4, f"c{place}"
        if size:
            names = [f"l{level}" for level in range(size)]
            frames[party][name] = np.array(names)[rng.integers(0, size, people)]
            columns[party][name] = cn.Category(names)
        else:
            frames[party][name] = rng.uniform(0, 1, people)
            columns[party][name] = cn.Numeric(0, 1)
    frames[3]["y"] = np.array(["no", "yes"])[rng.integers(0, 2, people)]
    columns[3]["y"] = cn.Category(["no", "yes"])
    parties = {
        f"p{number}": cn.Party(frame, schema=cn.Schema(own))
        for number, (frame, own) in enumerate(zip(frames, columns, strict=True))
    }
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=1_000.0, delta=1e-3))


def measure(people: int, turns: int) -> dict:
    """Take both studies in turns, and compare the least of each."""
    steps, matrix = [], []
    with a_federation(people) as federation:
        for turn in range(turns + 1):
            begin = time.process_time()
            model = cn.LogisticRegression("p3.y", epsilon=1.0, delta=DELTA).fit(federation, repeat=turn + 1)
            middle = time.process_time()
            release = federation.moments(epsilon=1.0, delta=DELTA, repeat=turn + 1)
            matrix.append(time.process_time() - middle)
            steps.append(middle - begin)
    sent = model.transcript_.bytes, release.transcript_.bytes
    newton, gram = min(steps[1:]), min(matrix[1:])  # the first one warms up
    return {
        "people": people,
        "columns": sum(SHAPES[people][0]) + SHAPES[people][1],
        "newton_bytes": sent[0],
        "gram_bytes": sent[1],
        "bytes_ratio": sent[0] / sent[1],
        "newton_seconds": newton,
        "gram_seconds": gram,
        "time_ratio": newton / gram,
        "bar": SHAPES[people][2],
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, choices=tuple(SHAPES), help="one of the sizes; keeps nothing")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore", cn.TemporaryLedgers)
    found = [measure(people, given.turns) for people in ([given.rows] if given.rows else SHAPES)]
    print(json.dumps(found, indent=1))
    if given.rows is None:
        (HERE / "results" / "cost.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
