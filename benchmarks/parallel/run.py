"""Two hundred secure studies at once on four members, again and again: does anything grow?

Three parties and a node without data are served on this machine, over the loopback interface with mutual TLS. A coordinator
(this process) starts 200 secure studies at once (`PCA` of two columns of two parties), waits for all of them, and starts the
next 200, until the time is over. After every such wave it notes memory, threads and descriptors of every process. The first
wave loads columns, compiled code and threads, so growth is counted from the second one on, by a straight line through all
waves. Every study is a new question, so ledgers get longer. In the end their rows are counted. A run is a new federation.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Claim, Part, Row, Table, below, near
from benchmarks.network import sites  # members as processes, shared with the network benchmark

import colonnade as cn
from colonnade.party.ledger.ledger import SqliteLedger

NODE = "fourth"
PEOPLE, COLUMNS = 300, 6
EPSILON, DELTA = 0.01, 1e-8


def footprint(pid: int) -> dict[str, float]:
    """Resident memory in MB, threads and open descriptors of a process."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {
        "memory": int(lines["VmRSS"].split()[0]) / 1024,
        "threads": int(lines["Threads"]),
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
    }


def pairs(tables: dict[str, pd.DataFrame]) -> list[list[str]]:
    """Two columns of two parties, in every combination of parties."""
    first = {name: f"{name}.{table.columns[1]}" for name, table in tables.items()}
    names = list(tables)
    return [[first[one], first[two]] for place, one in enumerate(names) for two in names[place + 1 :]]


def waves(
    papers: Path, processes: dict[str, int], columns: list[list[str]], studies: int, seconds: float
) -> list[dict]:
    """Run waves of studies until the time is over; return what was seen after each."""
    found, number, finish = [], 0, time.monotonic() + seconds
    with cn.Federation.connect(papers, patience=180.0) as federation:
        while not found or time.monotonic() < finish:
            start = time.monotonic()

            def study(draw: int) -> None:
                chosen = columns[draw % len(columns)]
                cn.PCA(1, columns=chosen, epsilon=EPSILON, delta=DELTA).fit(federation, repeat=draw)

            with ThreadPoolExecutor(studies) as pool:
                list(pool.map(study, range(number + 1, number + studies + 1)))
            number += studies
            seen = {name: footprint(pid) for name, pid in processes.items()}
            found.append({"studies": number, "seconds": time.monotonic() - start, "processes": seen})
    return found


def paid(folder: Path, tables: dict[str, pd.DataFrame]) -> dict[str, int]:
    """How many studies each ledger holds."""
    counts = {}
    for name in tables:
        with SqliteLedger.open(folder / name / "ledger.sqlite") as ledger:
            counts[name] = sum(entry.kind == "reserve" for entry in ledger.entries())
    return counts


def grows(_run: int, studies: int, seconds: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="cn-") as name:
        folder, tables = Path(name), sites.random_tables(PEOPLE, COLUMNS)
        papers = sites.draw_up(folder, tables, 1.0, nodes=(NODE,))
        served = {member: sites.serve(folder / member) for member in (*tables, NODE)}
        try:
            cn.Federation.connect(papers, patience=180.0).close()  # everybody is there
            processes = {"coordinator": os.getpid()}
            for member, process in served.items():
                processes[f"{member} supervisor"] = process.pid
                processes |= {f"{member} {role}": pid for role, pid in sites.children(process.pid).items()}
            found = waves(papers, processes, pairs(tables), studies, seconds)
            alive = all(Path(f"/proc/{pid}").exists() for pid in processes.values())
            counts = paid(folder, tables)
        finally:
            for process in served.values():
                sites.end(process)
    expected = 2 * found[-1]["studies"]  # each is of two parties
    took = sum(wave["seconds"] for wave in found)
    values = {
        "studies": found[-1]["studies"],
        "seconds": took,
        "reservations missing": expected - sum(counts.values()),
        "processes replaced": float(not alive),
    }
    yield Row({"studies at once": studies}, values)
    for process, last in found[-1]["processes"].items():
        first = found[min(1, len(found) - 1)]["processes"][process]
        changes = {f"more {what}": last[what] - first[what] for what in ("threads", "descriptors")}
        changes |= {"MB": last["memory"], "MB per 1,000 studies": growth(found, process, "memory")}
        yield Row({"process": process}, changes)


def growth(found: list[dict], process: str, what: str) -> float:
    """Return by how much something grows per thousand studies, from the second wave on."""
    later = found[1:] if len(found) > 2 else found
    if len(later) < 2:
        return 0.0
    studies = np.array([wave["studies"] for wave in later]) / 1000
    return float(np.polyfit(studies, [wave["processes"][process][what] for wave in later], 1)[0])


BENCHMARK = Benchmark(
    name="parallel",
    title="Two hundred studies at once",
    about=__doc__ or "",
    packages=("numpy", "nvflare"),
    parts=[
        Part(
            "waves",
            grows,
            [{"studies": 200, "seconds": 60.0}],
            3,
            3.7,
            quick=[{"studies": 20, "seconds": 5.0}],
            machine=frozenset({"studies", "seconds", "MB"}),
        )
    ],
    shown=[
        Table(
            "waves",
            {
                "studies": "studies",
                "seconds": "seconds",
                "reservations missing": "reservations missing in ledgers",
                "processes replaced": "processes replaced",
            },
            {"studies at once": "at once"},
            filled="studies",
        ),
        Table(
            "waves",
            {
                "MB": "MB at the end",
                "MB per 1,000 studies": "MB per 1,000 studies",
                "more threads": "more threads than after the second wave",
                "more descriptors": "more descriptors",
            },
            {"process": "process"},
            filled="MB",
            digits=3,
        ),
    ],
    claims=[
        Claim(
            "every study is in the ledgers of those who took part",
            "none is missing",
            lambda found: [
                near(one["reservations missing"], 0.0, 0.5) for _, one in found.rows("waves") if "studies" in one
            ],
            "our bar",
        ),
        Claim(
            "no process grows by more than 5 MB per 1,000 studies",
            "at most 5 MB",
            lambda found: [below(one["MB per 1,000 studies"], 5.0) for _, one in found.rows("waves") if "MB" in one],
            "our bar",
        ),
    ],
)
