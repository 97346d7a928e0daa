"""Ten million people, three parties: counts and moments in a process of its own, which prints seconds and its peak memory.

    python benchmarks/primitives/many_people.py PEOPLE FOLDER

The parties' tables are parquet files in FOLDER, made if they are not there; a column is eight bytes a row.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

import colonnade as cn

PARTIES = ("clinic", "pharmacy", "insurer")
KINDS = 5


def make(people: int, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    for name in PARTIES:
        path = folder / f"{name}-{people}.parquet"
        if not path.exists():
            table = pa.table(
                {
                    "id": rng.permutation(people),
                    "kind": rng.integers(0, KINDS, people),
                    "visits": np.minimum(rng.poisson(2, people), 20),
                }
            )
            pq.write_table(table, path, row_group_size=1 << 20, compression="none")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    people, folder = int(sys.argv[1]), Path(sys.argv[2])
    schema = cn.Schema(kind=cn.Category(list(range(KINDS))), visits=cn.Numeric(0, 20, integer=True))
    parties = {name: cn.Party(folder / f"{name}-{people}.parquet", schema=schema) for name in PARTIES}
    before, begin = peak(), time.perf_counter()
    seconds, peaks = {}, {"imports and schemas": before}
    with cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=10.0)) as federation:
        seconds["alignment"], begin, peaks["alignment"] = time.perf_counter() - begin, time.perf_counter(), peak()
        counts = cn.PatternCount([f"{name}.kind" for name in PARTIES], method="response", epsilon=3.0).fit(federation)
        seconds["counts"], begin, peaks["counts"] = time.perf_counter() - begin, time.perf_counter(), peak()
        moment = cn.Moment([f"{name}.visits" for name in PARTIES], 2, epsilon=3.0).fit(federation)
        seconds["moments"], peaks["moments"] = time.perf_counter() - begin, peak()
    read = 3 * people * 3 * 8
    result = {
        "people": people,
        "seconds": seconds,
        "people_a_second": {step: people / taken for step, taken in seconds.items()},
        "peak_bytes": peaks,
        "bytes_of_the_columns_read": read,
        "peak_over_columns_read": peaks["moments"] / read,
        "total_of_counts": float(counts.counts_.sum()),
        "moment_a_person": moment.value_ / people,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        make(int(sys.argv[1]), Path(sys.argv[2]))
    else:
        main()
