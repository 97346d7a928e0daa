"""Two hundred secure studies at once on four members, again and again: does anything grow?

    python benchmarks/parallel/run.py [--seconds 600] [--studies 200]

Three parties and a node without data are served on this machine, over the loopback interface with mutual TLS. A coordinator
(this process) starts 200 secure studies at once (`PCA` of two columns of two parties), waits for all of them, and starts the next
200, until the time is over. After every such wave it notes memory, threads and descriptors of every process. The first wave loads
columns, compiled code and threads, so growth is counted from the second one on, by a straight line through all waves. Every study
is a new question, so ledgers get longer. In the end their rows are counted.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.party.ledger.ledger import SqliteLedger

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "network"))

import sites  # noqa: E402  # members as processes, shared with the network benchmark

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
            print(f"{number:,} studies, the last {studies} in {found[-1]['seconds']:.1f} s", flush=True)
    return found


def paid(folder: Path, tables: dict[str, pd.DataFrame]) -> dict[str, int]:
    """How many studies each ledger holds."""
    counts = {}
    for name in tables:
        with SqliteLedger.open(folder / name / "ledger.sqlite") as ledger:
            counts[name] = sum(entry.kind == "reserve" for entry in ledger.entries())
    return counts


def run(seconds: float, studies: int) -> dict:
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
    return {
        "studies_at_once": studies,
        "waves": found,
        "same_processes": alive,
        "paid": counts,
        "expected": {
            member: sum(member in str(pair) for pair in pairs(tables)) * found[-1]["studies"] // len(pairs(tables))
            for member in tables
        },
        "circumstances": {
            "python": platform.python_version(),
            "processors": os.cpu_count(),
            "load": os.getloadavg()[0],
        },
    }


def growth(found: list[dict], process: str, what: str) -> float:
    """Return by how much something grows per thousand studies, from the second wave on."""
    later = found[1:] if len(found) > 2 else found
    if len(later) < 2:
        return float("nan")
    studies = np.array([wave["studies"] for wave in later]) / 1000
    return float(np.polyfit(studies, [wave["processes"][process][what] for wave in later], 1)[0])


def as_markdown(result: dict) -> str:
    found, where = result["waves"], result["circumstances"]
    first, last = found[min(1, len(found) - 1)]["processes"], found[-1]["processes"]
    rows = []
    for process in last:
        cells = [f"{first[process]['memory']:.0f} → {last[process]['memory']:.0f}"]
        cells += [f"{growth(found, process, 'memory'):+.2f}"]
        cells += [f"{first[process][what]:.0f} → {last[process][what]:.0f}" for what in ("threads", "descriptors")]
        rows.append(f"| {process} | {' | '.join(cells)} |")
    took = sum(wave["seconds"] for wave in found)
    short = sum(result["expected"].values()) - sum(result["paid"].values())
    return "\n".join(
        [
            "# Two hundred studies at once",
            "",
            (__doc__ or "").split("\n\n", 2)[2].strip(),
            "",
            (
                f"{found[-1]['studies']:,} studies in {took / 60:.1f} minutes, {result['studies_at_once']} at once, all of "
                f"them answered. Ledgers hold {sum(result['paid'].values()):,} reservations of "
                f"{sum(result['expected'].values()):,} expected ({short} off). Processes were replaced: "
                f"{'none' if result['same_processes'] else 'SOME'}."
            ),
            "",
            "| process | MB, second wave → last | MB per 1,000 studies | threads | descriptors |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"Python {where['python']}, {where['processors']} processors; load {where['load']:.1f}.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--studies", type=int, default=200)
    arguments = parser.parse_args()
    result = run(arguments.seconds, arguments.studies)
    report = as_markdown(result)
    print(report)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2) + "\n")
    (HERE / "README.md").write_text(report)


if __name__ == "__main__":
    main()
