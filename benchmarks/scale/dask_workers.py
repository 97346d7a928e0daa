"""A party on Dask: how much faster two workers are than one in ordering, folding, dealing, and a node's products of shares.

    python benchmarks/scale/dask_workers.py [--quick] [--people N]

One party with numbers between −1 and 1, in partitions that workers make, in an order of their own. One worker and two, each a
process with one thread, on this machine. *Ordering* is coding and putting in order. *Folding* is the Gram matrix of all columns.
The workers are warm, and of several turns the fastest counts. The bar is on folding: two workers at least 1.6 times as fast as
one, by the clock, on two idle cores.

Where other work shares the cores the clock means little. *By processor seconds* is what the clock could show at most: those of
one worker alone over those of the busier of two. It counts uneven and repeated work, and not waiting for the guard.
"""

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

import colonnade as cn
from colonnade.party.party import Party
from colonnade.party.steps.parts import coded_rows, folded_products
from colonnade.party.table.stored_table import common_list, ordered_table, party_ids
from colonnade.secure import shamir
from colonnade.secure.residues import Arithmetic
from colonnade.secure.shamir import Dealing, Products
from colonnade.steps.terms import FixedPoint

HERE = Path(__file__).parent
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


def processor_seconds(client: Client) -> dict[str, float]:
    """Each worker's processor seconds by now."""
    return client.run(time.process_time)


def timed(client: Client, work) -> tuple[float, list[float]]:
    """Seconds by the clock, and the processor seconds of each worker."""
    before, started = processor_seconds(client), time.perf_counter()
    work()
    elapsed, after = time.perf_counter() - started, processor_seconds(client)
    return elapsed, sorted(after[worker] - before[worker] for worker in after)


def shared(table, coding: FixedPoint, people: int) -> None:
    """Deal all rows, as a data party does."""
    arithmetic = Arithmetic.for_headroom(people * coding.scale**2, nodes=3)
    dealing = Dealing(arithmetic, nodes=3, degree=1, seed=bytes(32), bound=coding.scale)
    rows = max(1, (1 << 20) // COLUMNS)
    for _ in table.each(partial(dealt, coding, dealing, rows), table.ranges(rows)):
        pass


def dealt(coding: FixedPoint, dealing: Dealing, rows: int, table, start: int, stop: int):
    """Code and deal one chunk."""
    return dealing.shares(1 + start // rows, coded_rows(coding, table, start, stop).T)


def multiplied(workers) -> np.ndarray:
    """Multiply shares, as a node does."""
    arithmetic, drawn = Arithmetic.for_headroom(10**12, nodes=3), np.random.default_rng(1)
    products = Products(arithmetic, [SHARE_COLUMNS // 2, SHARE_COLUMNS // 2], workers=workers)
    for _ in range(SHARE_CHUNKS):
        shape = (SHARE_COLUMNS // 2, SHARE_ROWS)
        products.add([drawn.integers(0, arithmetic.modulus, shape).astype(np.uint64) for _ in range(2)])
    return products.elements()


def measured(workers: int, people: int, turns: int) -> tuple[dict, np.ndarray, np.ndarray]:
    """Run all stages with so many workers; return the best of several turns, and what came out."""
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        make = partial(partition, people=people, parts=PARTITIONS)
        frame = dd.from_map(make, range(PARTITIONS), meta=partition(0, PARTITIONS, PARTITIONS).iloc[:0])
        party = Party(frame, schema=schema(), dask=client)
        ids = party_ids(party.source, "id", party="bank", memory=None)
        common = common_list({"bank": ids})
        coding = FixedPoint(tuple(schema()), schema(), scale=1_000, row_bound=COLUMNS * 1_000**2)
        kept: dict[str, object] = {}

        def order() -> None:
            kept["table"] = ordered_table(party.source, party.schema, ids, common, party="bank", cluster=party.cluster)[
                1
            ]

        def fold() -> None:
            kept["gram"] = folded_products(kept["table"], partial(coded_rows, coding), coding.width, coding.scale)

        def multiply() -> None:
            kept["products"] = multiplied(party.cluster)

        stages = {
            "ordering": order,
            "folding": fold,
            "dealing": lambda: shared(kept["table"], coding, people),
            "node products": multiply,
        }
        found = {}
        for name, work in stages.items():
            work()  # warm: compiled, connected
            taken = [timed(client, work) for _ in range(1 if name == "ordering" else turns)]
            processor = min((one for _, one in taken), key=sum)
            found[name] = {"seconds": min(one for one, _ in taken), "processor_seconds": processor}
        return found, kept["gram"], kept["products"]


def main() -> None:
    """Measure, print, and keep the results of a full run."""
    reading = argparse.ArgumentParser(description=__doc__)
    reading.add_argument("--quick", action="store_true", help="few people and turns; nothing is kept")
    reading.add_argument("--people", type=int, default=PEOPLE, help="how many; only the default is kept")
    options = reading.parse_args()
    quick = options.quick or options.people != PEOPLE
    people, turns = (300_000, 2) if options.quick else (options.people, TURNS)
    shamir.FEWEST_COLUMNS = 1
    one, gram, products = measured(1, people, turns)
    two, again, products_again = measured(2, people, turns)
    assert np.array_equal(gram, again)
    assert np.array_equal(products, products_again)
    assert np.array_equal(products, multiplied(None))
    result = {"people": people, "columns": COLUMNS, "bar": BAR, "stages": {}}
    for stage in one:
        work = {count: found[stage]["processor_seconds"] for count, found in ((1, one), (2, two))}
        result["stages"][stage] = {
            "one_worker": one[stage],
            "two_workers": two[stage],
            "ratio": one[stage]["seconds"] / two[stage]["seconds"],
            "even": sum(work[1]) / max(work[2]),
        }
        line = result["stages"][stage]
        sys.stdout.write(
            f"{stage:14} one {one[stage]['seconds']:.2f} s, two {two[stage]['seconds']:.2f} s: "
            f"{line['ratio']:.2f} by the clock, {line['even']:.2f} by processor seconds\n"
        )
    if not quick:
        (HERE / "results" / "dask.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
