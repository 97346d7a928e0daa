"""What a row costs as tables grow from 10⁶ to 10⁸ rows, and how much memory a party takes, alignment included.

Two parties with an id and six columns each (five numbers, one category of four levels), as generated parquet files of 5·10⁶
rows in an order of each party's own, a public list of nine tenths of the people, and a compute node without data. Every member
is a process of its own; parties have ``memory="2GB"``. Each opens its folder: it reads the ids and the list, checks every value
against the schema, sorts its rows into the order of the list, and writes them to temporary files. Then one coordinator asks for
a PCA on shares (all twelve columns, eighteen coded ones), a linear regression on shares, a table of both categories with the
means of a number by cell, and k-means with eight local clusters per party.

Processor seconds are those of all members and the coordinator together. Peak memory is the largest resident set of a party's
process since it started, from the kernel. Once, up to 10⁷ rows, the same studies run from tables in memory as well, and every
released number is compared. 10⁸ rows need about 40 GB of disk in the folder of temporary files (``TMPDIR``), and half an hour.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.frame import Claim, Part, Results, Row, Table, below, near, within
from benchmarks.frame.claims import Test
from benchmarks.frame.members import Sockets, processor_seconds
from benchmarks.scale.scale_member import NODE, PARTIES, peak_bytes, studies, warm_up

import colonnade as cn

ROOT = Path(__file__).parents[2]
SIZES, LARGEST = (1_000_000, 10_000_000), 100_000_000
COMPARED = 10_000_000
"""Up to so many rows, the same is released from tables in memory."""
MEMORY, LIMIT, FLAT = "2GB", 2.0, 1.2
STAGES = ("opening", *studies())
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
    call = [sys.executable, "-m", "benchmarks.scale.scale_member"]
    processes = {
        name: subprocess.Popen(
            [*call, name, str(folder), str(path), memory], stdout=subprocess.PIPE, env=environment, cwd=ROOT
        )
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
        found["peak"] = {name: peak_bytes(process.pid) for name, process in processes.items()}
        found["peak"]["coordinator"] = peak_bytes()
        federation.close()
    finally:
        for process in processes.values():
            process.terminate()
            process.wait()
        sockets.cleanup()
    return found


def measured(run: int, rows: int) -> Iterator[Row]:
    """One opening and all studies."""
    warm_up()
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        generate(folder, rows)
        found = measure(folder, rows)
        for stage in STAGES:
            used = found[stage]["cpu_seconds"]
            values = {"seconds": found[stage]["seconds"], "processor seconds per 10⁶ rows": used / rows * 1e6}
            yield Row({"rows": rows, "stage": stage}, values)
        opened = max(one["peak"] for one in found["opening"]["parties"].values())
        after = max(found["peak"][name] for name in PARTIES)
        memory = {"open": opened / 1e9, "after": after / 1e9, "node": found["peak"][NODE] / 1e9}
        yield Row({"rows": rows, "stage": "memory"}, memory)
        if run == 1 and rows <= COMPARED:
            again = measure(folder, rows, "none")["released"]
            same = json.dumps(again) == json.dumps(found["released"])  # also where there is no mean
            yield Row({"rows": rows, "stage": "from tables in memory"}, {"same": float(same)})


VALUE = "processor seconds per 10⁶ rows"


def _flat(found: Results) -> Iterator[Test]:
    for stage in STAGES:
        few, many = (found.sample("rows", VALUE, rows=rows, stage=stage) for rows in SIZES)
        yield within(many, few, FLAT)


def _flat_to_the_largest(found: Results) -> Iterator[Test]:
    for stage in STAGES:
        few = found.sample("rows", VALUE, rows=SIZES[0], stage=stage)
        for _, samples in found.rows("10⁸ rows", stage=stage):
            yield within(samples[VALUE], few, FLAT)


MACHINE = frozenset({"seconds", "processor seconds per 10⁶ rows", "open", "after", "node"})
PARTS = [
    Part("rows", measured, [{"rows": rows} for rows in SIZES], 3, 6.0, quick=[{"rows": 100_000}], machine=MACHINE),
    Part("10⁸ rows", measured, [{"rows": LARGEST}], 1, 30.0, machine=MACHINE, long=True),
]
SHOWN = [
    "## Rows",
    *(
        shown
        for part in ("rows", "10⁸ rows")
        for shown in (
            Table(
                part,
                {"seconds": "seconds", "processor seconds per 10⁶ rows": "processor seconds per 10⁶ rows"},
                {"rows": "rows", "stage": "stage"},
                filled="seconds",
                digits=3,
            ),
            Table(
                part,
                {"open": "peak of a party when open, GB", "after": "after all studies, GB", "node": "node, GB"},
                {"rows": "rows"},
                where={"stage": "memory"},
                digits=3,
            ),
        )
    ),
]
CLAIMS = [
    Claim(
        "a row of 10⁷ costs what one of 10⁶ costs, in processor seconds (ratio)",
        f"at most {FLAT:g} ×",
        _flat,
        "our bar",
    ),
    Claim(
        "a row of 10⁸ costs what one of 10⁶ costs, in processor seconds (ratio)",
        f"at most {FLAT:g} ×",
        _flat_to_the_largest,
        "the issue",
    ),
    Claim(
        "memory of a party, GB",
        f"at most {LIMIT:g} GB",
        lambda found: [
            below(samples["after"], LIMIT)
            for part in ("rows", "10⁸ rows")
            for _, samples in found.rows(part, stage="memory")
        ],
        "the issue",
    ),
    Claim(
        "the same numbers as from tables in memory, bit for bit",
        "always",
        lambda found: [
            near(replace(samples["same"], exact=True), 1.0, 0.0)  # the same numbers or not: that is not left to chance
            for _, samples in found.rows("rows")
            if "same" in samples
        ],
        "our bar",
    ),
]
