"""Scale: what a row costs as tables grow from 10⁶ to 10⁸ rows, and how much memory a party takes, alignment included.

    python benchmarks/scale/run.py [--quick] [--rows N ...] [--data FOLDER] [--check]

Two parties with an id and six columns each (five numbers, one category of four levels), as generated parquet files of 5·10⁶
rows in an order of each party's own, a public list of nine tenths of the people, and a compute node without data. Every member
is a process of its own; parties have ``memory="2GB"``. Each opens its folder: it reads the ids and the list, checks every value
against the schema, sorts its rows into the order of the list, and writes them to temporary files. Then one coordinator asks for
a PCA on shares (all twelve columns, eighteen coded ones), a linear regression on shares, a table of both categories with the
means of a number by cell, and k-means with eight local clusters per party.

Seconds are wall-clock on a machine that other work shares. Processor seconds are those of all members and the coordinator
together, the least of three runs at 10⁶ rows. Peak memory is the largest resident set of a party's process since it started,
from the kernel. ``--check`` runs the same studies from tables in memory and compares every released number.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.frame.members import Sockets, processor_seconds
from scale_member import NODE, PARTIES, SCHEMA, peak_bytes, studies, warm_up

import colonnade as cn

HERE = Path(__file__).parent
SIZES = (1_000_000, 10_000_000, 100_000_000)
MEMORY, LIMIT, FLAT = "2GB", 2_000_000_000, 1.2
FEW = 1_000_000
"""So few rows are measured three times, and the least counts: other work disturbs short runs more."""
FILE_ROWS, BLOCK = 5_000_000, 500_000
ODD = 0x9E3779B97F4A7C15
SHARE = 10
"""Nine of so many people are on the list."""


def ids_of(people: np.ndarray) -> np.ndarray:
    """An id for every person: a bijection, so that no two are equal, and in no order."""
    return (people.astype(np.uint64) * np.uint64(ODD) >> np.uint64(2)).astype(np.int64)


def generate(folder: Path, rows: int) -> None:
    """Write both parties' files, and the list."""
    for number, name in enumerate((*PARTIES, "people")):
        (folder / name).mkdir(parents=True)
        for first in range(0, rows, FILE_ROWS):
            last = min(first + FILE_ROWS, rows)
            writer = None
            for start in range(first, last, BLOCK):
                batch = _block(number, np.arange(start, min(start + BLOCK, last)), rows, listed=name == "people")
                path = folder / name / f"{first:010d}.parquet"
                writer = writer or pq.ParquetWriter(path, batch.schema, compression="none", use_dictionary=["kind"])
                writer.write_batch(batch)
            writer.close()


def _block(number: int, places: np.ndarray, rows: int, *, listed: bool) -> pa.RecordBatch:
    people = places if number == 0 else (rows - 1 - places)
    if listed:
        return pa.record_batch({"id": ids_of(people[people % SHARE != 0])})
    generator = np.random.default_rng([number, int(places[0])])
    hidden = (people % 997) / 499 - 1  # what both parties' columns have in common
    columns = {f"x{one}": hidden * (one % 3) + 2 * generator.random(len(people)) - 1 for one in range(5)}
    places = ((people + generator.integers(0, 2, len(people), dtype=np.int8)) % 4).astype(np.int8)
    kinds = pa.DictionaryArray.from_arrays(pa.array(places), pa.array(list("abcd"))).cast(pa.string())
    return pa.record_batch({"id": ids_of(people), **columns, "kind": kinds})


def measure(folder: Path, rows: int, memory: str = MEMORY) -> dict:
    """Start the members on tables that are there, and run the studies."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(folder)}
    sockets = tempfile.TemporaryDirectory()
    paths = {name: Path(sockets.name) / name for name in (*PARTIES, NODE)}
    call = [sys.executable, str(HERE / "scale_member.py")]
    processes = {
        name: subprocess.Popen([*call, name, str(folder), str(path), memory], stdout=subprocess.PIPE, env=environment)
        for name, path in paths.items()
    }
    try:
        opened = {name: json.loads(process.stdout.readline()) for name, process in processes.items()}
        members = ["self", *(process.pid for process in processes.values())]
        parties = {name: opened[name] for name in PARTIES}
        opening = {
            "seconds": max(sum(one["seconds"].values()) for one in parties.values()),
            "cpu_seconds": sum(one["cpu_seconds"] for one in parties.values()),
            "parties": parties,
        }
        found: dict = {"rows": rows, "memory": memory, "opening": opening}
        federation = cn.Federation(Sockets(paths), parties=PARTIES, compute_nodes=[NODE])
        found["people"], found["released"] = federation.people, {}
        for name, (study, released) in studies().items():
            before, clock = [processor_seconds(member) for member in members], time.perf_counter()
            study.fit(federation)
            seconds = time.perf_counter() - clock
            used = sum(map(processor_seconds, members)) - sum(before)
            found[name] = {"seconds": seconds, "cpu_seconds": used}
            found["released"][name] = np.asarray(released(study)).tolist()
            print(f"{rows:,} rows, {name}: {seconds:.1f} s", file=sys.stderr, flush=True)
        found["peak"] = {name: peak_bytes(process.pid) for name, process in processes.items()}
        found["peak"]["coordinator"] = peak_bytes()
        federation.close()
    finally:
        for process in processes.values():
            process.terminate()
            process.wait()
        sockets.cleanup()
    return found


def run(quick: bool = False, rows: list[int] | None = None, data: Path | None = None, check: bool = False) -> dict:
    """Measure; the result says whether the bars are met."""
    sizes = rows or ([100_000] if quick else list(SIZES))
    cases, same = [], {}
    warm_up()
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=data) as kept:
            folder = Path(kept)
            clock = time.perf_counter()
            generate(folder, size)
            print(f"{size:,} rows generated in {time.perf_counter() - clock:.0f} s", file=sys.stderr, flush=True)
            cases.append(least([measure(folder, size) for _ in range(3 if size <= FEW else 1)]))
            if check or quick:
                again = measure(folder, size, "none")["released"]
                same[str(size)] = json.dumps(again) == json.dumps(cases[-1]["released"])  # also where there is no mean
            shutil.rmtree(folder / "people")
    return {"cases": cases, "same_in_memory": same, "circumstances": circumstances(), "quick": quick}


def least(found: list[dict]) -> dict:
    """Of several runs the least processor seconds of each stage, and the largest peaks."""
    best = dict(found[0])
    for stage in ("opening", *studies()):
        best[stage] = min((one[stage] for one in found), key=lambda one: one["cpu_seconds"])
    best["peak"] = {name: max(one["peak"][name] for one in found) for name in found[0]["peak"]}
    return best


def circumstances() -> dict:
    import duckdb

    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "numpy": np.__version__,
        "duckdb": duckdb.__version__,
        "columns": len(SCHEMA) * len(PARTIES),
        "date": time.strftime("%Y-%m-%d"),
    }


def per_million(case: dict, what: str, kind: str = "cpu_seconds") -> float:
    return case[what][kind] / case["rows"] * 1e6


def flatness(cases: list[dict], what: str) -> float:
    """The dearest row over the cheapest, in processor seconds."""
    found = [per_million(case, what) for case in cases]
    return max(found) / min(found)


def as_markdown(result: dict) -> str:
    cases = result["cases"]
    lines = ["| rows | stage | seconds | processor seconds per 10⁶ rows |", "|---:|---|---:|---:|"]
    stages = [stage for stage in ("opening", *studies()) if all(stage in case for case in cases)]
    for case in cases:
        lines += [
            f"| {case['rows']:,} | {stage} | {case[stage]['seconds']:.1f} | {per_million(case, stage):.2f} |"
            for stage in stages
        ]
    lines += [
        "",
        "| rows | peak of a party when open | peak of a party after all studies | node |",
        "|---:|---:|---:|---:|",
    ]
    for case in cases:
        opened = max(one["peak"] for one in case["opening"]["parties"].values()) / 1e9
        after = max(case["peak"][name] for name in PARTIES) / 1e9
        lines.append(f"| {case['rows']:,} | {opened:.2f} GB | {after:.2f} GB | {case['peak'][NODE] / 1e9:.2f} GB |")
    if len(cases) > 1:
        ratios = ", ".join(f"{stage} {flatness(cases, stage):.2f}" for stage in stages)
        lines += ["", f"Dearest row over cheapest, in processor seconds: {ratios} (the bar is {FLAT})."]
    if result["same_in_memory"]:
        words = {True: "the same numbers, bit for bit", False: "OTHER NUMBERS"}
        lines += [
            f"From tables in memory at {int(size):,} rows: {words[same]}."
            for size, same in result["same_in_memory"].items()
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rows", type=int, nargs="*")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = run(given.quick, given.rows, given.data, given.check)
    out = given.out or (None if given.quick or given.rows else HERE / "results" / "latest.json")
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
    print(as_markdown(result))


if __name__ == "__main__":
    main()
