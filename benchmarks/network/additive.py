"""Memory and time of an additive model over three served parties, beside logistic regression at the same coded width.

    python benchmarks/network/additive.py [--people N] [--columns N] [--bins N] [--beside]

Each party is a process of its own (`colonnade party serve`) with its guard and its relay, and computes on shares. The columns are
numbers in bins. Memory is what the operating system says of each process afterwards, at its peak; the bar is 4 GB per process for
500,000 people, 20 columns and 16 bins. ``--beside`` also fits `LogisticRegression` with ``method="newton"`` to the same columns
read in the same bins, at the same price; the bar is twice its time. Both are measured in one run: other work on the machine
disturbs both.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import colonnade as cn
from colonnade.schema import Bins

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import sites  # noqa: E402  # beside this file

MOST_MEMORY, MOST_TIME = 4_096.0, 2.0
PRICE = {"epsilon": 1.0, "delta": 1e-6}


def tables(people: int, columns: int) -> dict:
    """Columns spread over three parties; the first also has the event, of which some columns tell something."""
    found = sites.random_tables(people, columns)
    generator = np.random.default_rng(8)
    score = sum(table.iloc[:, 1].to_numpy() for table in found.values()) - 1.0
    event = generator.uniform(size=people) < 1 / (1 + np.exp(-score))
    found["first"]["event"] = np.where(event, "yes", "no").astype(object)
    return found


def measure(people: int, columns: int, bins: int, *, beside: bool) -> dict:
    """Fit, and return seconds, bytes and the memory of every process."""
    with tempfile.TemporaryDirectory(prefix="cn-") as name:
        folder = Path(name)
        held = tables(people, columns)
        papers = sites.draw_up(folder, held, 1.0)
        served = {party: sites.serve(folder / party) for party in held}
        seconds = {}
        try:
            with cn.Federation.connect(papers, patience=600.0) as federation:
                start = time.perf_counter()
                model = cn.AdditiveClassifier("first.event", bins=bins, **PRICE).fit(federation)
                seconds["additive"] = time.perf_counter() - start
                processes = {"coordinator": sites.memory(os.getpid())}
                for party, process in served.items():
                    for role, pid in sites.children(process.pid).items():
                        processes[f"{party} {role}"] = sites.memory(pid)
                if beside:
                    start = time.perf_counter()
                    cn.LogisticRegression("first.event", method="newton", **PRICE).fit(read_in_bins(federation, bins))
                    seconds["logistic"] = time.perf_counter() - start
        finally:
            for process in served.values():
                sites.end(process)
    return {
        "people": people,
        "columns": columns,
        "bins": bins,
        "seconds": seconds,
        "bytes": model.transcript_.bytes,
        "memory": processes,
        "largest": max(one["peak"] for one in processes.values()),
    }


def read_in_bins(federation: cn.Federation, bins: int) -> cn.Federation:
    described = {name: one for name, one in federation.describe().items() if isinstance(one, cn.Numeric)}
    return federation.read_as({name: Bins.equal(column, bins) for name, column in described.items()})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--bins", type=int, default=16)
    parser.add_argument("--beside", action="store_true")
    given = parser.parse_args()
    found = measure(given.people, given.columns, given.bins, beside=given.beside)
    found["within"] = {"memory": found["largest"] <= MOST_MEMORY}
    if given.beside:
        found["within"]["time"] = found["seconds"]["additive"] <= MOST_TIME * found["seconds"]["logistic"]
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
