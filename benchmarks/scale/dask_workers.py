"""A party on Dask: how much faster two workers are than one in ordering, folding, dealing, and a node's products of shares.

One party with numbers between −1 and 1, in partitions that workers make, in an order of their own. One worker and two, each a
process with one thread, on this machine. *Ordering* is coding and putting in order. *Folding* is the Gram matrix of all columns.
The workers are warm, and of several turns the fastest counts. The bar is on folding: two workers at least 1.6 times as fast as
one, by the clock, on two idle cores.

Where other work shares the cores the clock means little. *By processor seconds* is what the clock could show at most: those of
one worker alone over those of the busier of two. It counts uneven and repeated work, and not waiting for the guard.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.frame import Claim, Part, Row, Table, Unavailable, above, near

import colonnade as cn
from colonnade.party.party import Party
from colonnade.party.steps.products import folded_products
from colonnade.party.table.private_table import coded_rows
from colonnade.party.table.stored_table import common_list, ordered_table, party_ids
from colonnade.secure.residues import Arithmetic
from colonnade.secure.shamir import Dealing, Products
from colonnade.steps.kind import FixedPoint

PEOPLE, COLUMNS, PARTITIONS, TURNS, BAR = 2_000_000, 64, 16, 5, 1.6
SHARE_COLUMNS, SHARE_ROWS, SHARE_CHUNKS = 256, 4_096, 16
STRIDE = 7_919
"""Ids go up in steps of this, modulo the number of people, so that every partition has people of every range."""


def partition(number: int, people: int, parts: int) -> pd.DataFrame:
    """Make the rows of one partition, always the same."""
    rows, drawn = np.arange(number, people, parts), np.random.default_rng(number)
    frame = pd.DataFrame(drawn.uniform(-1, 1, (len(rows), COLUMNS)), columns=[f"x{i:02d}" for i in range(COLUMNS)])
    frame.insert(0, "id", rows * STRIDE % people)
    return frame


def schema() -> cn.Schema:
    """All columns lie within [−1, 1]."""
    return cn.Schema({f"x{i:02d}": cn.Numeric(-1, 1) for i in range(COLUMNS)})


def processor_seconds(client: Any) -> dict[str, float]:
    """Each worker's processor seconds by now."""
    return client.run(time.process_time)


def timed(client: Any, work: Callable[[], object]) -> tuple[float, list[float]]:
    """Seconds by the clock, and the processor seconds of each worker."""
    before, started = processor_seconds(client), time.perf_counter()
    work()
    elapsed, after = time.perf_counter() - started, processor_seconds(client)
    return elapsed, sorted(after[worker] - before[worker] for worker in after)


def shared(table: Any, coding: FixedPoint, people: int) -> None:
    """Deal all rows, as a data party does."""
    arithmetic = Arithmetic.for_headroom(people * coding.scale**2, nodes=3)
    dealing = Dealing(arithmetic, nodes=3, degree=1, seed=bytes(32), bound=coding.scale)
    rows = max(1, (1 << 20) // COLUMNS)
    for _ in table.each(partial(dealt, coding, dealing, rows), table.ranges(rows)):
        pass


def dealt(coding: FixedPoint, dealing: Dealing, rows: int, table: Any, start: int, stop: int) -> Any:
    """Code and deal one chunk."""
    return dealing.shares(1 + start // rows, coded_rows(coding, table, start, stop).T)


def multiplied(workers: Any) -> np.ndarray:
    """Multiply shares, as a node does."""
    arithmetic, drawn = Arithmetic.for_headroom(10**12, nodes=3), np.random.default_rng(1)
    products = Products(arithmetic, [SHARE_COLUMNS // 2, SHARE_COLUMNS // 2], workers=workers)
    for _ in range(SHARE_CHUNKS):
        shape = (SHARE_COLUMNS // 2, SHARE_ROWS)
        products.add([drawn.integers(0, arithmetic.modulus, shape).astype(np.uint64) for _ in range(2)])
    return products.elements()


def stages(workers: int, people: int, turns: int) -> tuple[dict[str, tuple[float, list[float]]], dict[str, Any]]:
    """Run all stages with so many workers; return the best of several turns, and what came out."""
    try:
        import dask.dataframe as dd
        from distributed import Client, LocalCluster
    except ImportError:
        raise Unavailable("Dask is not installed (extra `dask`).") from None
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        make = partial(partition, people=people, parts=PARTITIONS)
        frame = dd.from_map(make, range(PARTITIONS), meta=partition(0, PARTITIONS, PARTITIONS).iloc[:0])
        party = Party(frame, schema=schema(), dask=client)
        ids = party_ids(party.source, "id", party="bank", memory=None)
        common = common_list({"bank": ids})
        coding = FixedPoint(tuple(schema()), schema(), scale=1_000, row_bound=COLUMNS * 1_000**2)
        kept: dict[str, Any] = {}

        def order() -> None:
            kept["table"] = ordered_table(party.source, party.schema, ids, common, party="bank", cluster=party.cluster)[
                1
            ]

        def fold() -> None:
            kept["folding"] = folded_products(kept["table"], partial(coded_rows, coding), coding.width, coding.scale)

        def multiply() -> None:
            kept["node products"] = multiplied(party.cluster)

        found = {}
        for name, work in (
            ("ordering", order),
            ("folding", fold),
            ("dealing", lambda: shared(kept["table"], coding, people)),
            ("node products", multiply),
        ):
            work()  # warm: compiled, connected
            taken = [timed(client, work) for _ in range(1 if name == "ordering" else turns)]
            found[name] = min(one for one, _ in taken), min((one for _, one in taken), key=sum)
        return found, {name: kept[name] for name in ("folding", "node products")}


def measured(_run: int, people: int, turns: int) -> Iterator[Row]:
    """Compare one worker with two."""
    (one, first), (two, second) = (stages(workers, people, turns) for workers in (1, 2))
    for stage in one:
        values = {
            "one worker, s": one[stage][0],
            "two workers, s": two[stage][0],
            "ratio": one[stage][0] / two[stage][0],
            "by processor seconds": sum(one[stage][1]) / max(two[stage][1]),
        }
        if stage in first:
            values["same"] = float(np.array_equal(first[stage], second[stage]))
        yield Row({"stage": stage, "people": people}, values)


MACHINE = ("one worker, s", "two workers, s", "ratio", "by processor seconds")
PARTS = [
    Part(
        "Dask workers",
        measured,
        [{"people": PEOPLE, "turns": TURNS}],
        3,
        6.0,
        quick=[{"people": 200_000, "turns": 1}],
        machine=frozenset(MACHINE),
    )
]
SHOWN = [
    "## A party on Dask: two workers beside one",
    Table("Dask workers", {name: name for name in MACHINE}, {"stage": "stage", "people": "people"}, digits=3),
]
CLAIMS = [
    Claim(
        "two Dask workers beside one, folding (ratio by the clock)",
        f"at least {BAR:g} ×",
        lambda found: [above(samples["ratio"], BAR) for _, samples in found.rows("Dask workers", stage="folding")],
        "the issue",
    ),
    Claim(
        "one Dask worker and two give the same numbers, bit for bit",
        "always",
        lambda found: [
            near(samples["same"], 1.0, 0.0) for _, samples in found.rows("Dask workers") if "same" in samples
        ],
        "our bar",
    ),
]
