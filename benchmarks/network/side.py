"""One side of `beside.py`: a federation of three members, served by the code that is on the path, which measures on request.

    python benchmarks/network/side.py FOLDER

It uses the benchmark folder of the checkout it is to measure (`sites.py`), and nothing that a checkout may lack. Every line on
standard input is a number of rounds and a number of studies; the answer is a line of JSON with the seconds that each took, and
with the processor time per round and per study, of the coordinator and all guards and relays together.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import sites

import colonnade as cn
from colonnade.protocol import messages
from colonnade.protocol.messages import GetDescription

ROWS, COLUMNS = 2_000, 12


def main() -> None:
    folder = Path(sys.argv[1])
    tables = sites.random_tables(ROWS, COLUMNS)
    papers = sites.draw_up(folder, tables, 1.0)
    served = {name: sites.serve(folder / name) for name in tables}
    try:
        with cn.Federation.connect(papers, patience=180.0) as federation:
            federation.budget()
            asked = dict.fromkeys(tables, messages.encode(GetDescription()))
            draws = iter(range(1, 1_000_000))
            processes = [os.getpid(), *(pid for one in served.values() for pid in sites.children(one.pid).values())]
            print(json.dumps({}), flush=True)
            for line in sys.stdin:
                rounds, studies = map(int, line.split())
                found = measured("round", lambda: federation._driver.transport.exchange(asked), rounds, processes)
                found |= measured("PCA", lambda: pca().fit(federation, repeat=next(draws)), studies, processes)
                print(json.dumps(found), flush=True)
    finally:
        for process in served.values():
            sites.end(process)


def pca() -> cn.PCA:
    return cn.PCA(2, epsilon=0.1, delta=1e-7)


def measured(name: str, work: Callable[[], object], times: int, processes: list[int]) -> dict:
    before = processor_seconds(processes)
    seconds = [timed(work) for _ in range(times)]
    return {name: seconds, f"{name}, processor": [(processor_seconds(processes) - before) / max(times, 1)]}


def processor_seconds(processes: list[int]) -> float:
    """Processor time of some processes since they were started."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in processes]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
