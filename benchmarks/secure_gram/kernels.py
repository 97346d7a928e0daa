"""What the arithmetic of the secure Gram channel costs: dealing, a node's product, opening; beside numpy in the same run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/secure_gram/kernels.py [--quick]

As many owners as nodes, columns divided evenly. Processor time of one thread, the best of a few runs, back to back:

deal      one dealer, its own columns, all N shares, from integers to elements (generator and rejection included)
product   one node, its shares of all columns, from elements in memory; *cross* is what the protocol needs (blocks within
          one owner are not multiplied), *full* the whole upper triangle; the bar is held to the latter
check     one node's part of the degree check of one dealing
open      the coordinator: 2t + 1 masked products to integers
numpy     a float64 ``X.T @ X`` of the same shape
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from colonnade.conversations.conversation import CheckedProduct
from colonnade.secure.keys import SeedStream
from colonnade.secure.residues import PRIME_SETS, Arithmetic, Elements, gram_bound
from colonnade.secure.shamir import Dealing, Products, ShareProduct, default_threshold, entry_pairs, reconstruct

SIZES = ((370_000, 14), (45_222, 41), (195_666, 117))
NODES = (3, 4)
BAR = 3.5
"""What a node's product may cost at most, as a multiple of numpy's."""

CHUNK_ROWS = 8192
SCALE = 4096
SEED = bytes(range(32))


def best_time(call: Callable[[], object], repetitions: int) -> float:
    """The least processor time of some repetitions, after one that does not count."""
    call()
    times = []
    for _ in range(repetitions):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def arithmetics(rows: int, columns: int) -> dict[str, Arithmetic]:
    """What a plan of this size chooses by default, and the set with the most room."""
    bound = gram_bound(rows, SCALE + int(columns**0.5) + 1, 10**18)
    return {"portable": Arithmetic.for_headroom(bound, max(NODES)), "portable, 63 bits": Arithmetic(PRIME_SETS[-1])}


def chunks(rows: int) -> Iterator[tuple[int, int]]:
    for position, start in enumerate(range(0, rows, CHUNK_ROWS)):
        yield position, min(CHUNK_ROWS, rows - start)


def uniform_shares(arithmetic: Arithmetic, rows: int, widths: list[int]) -> list[list[Elements]]:
    """A node's shares look like this, whatever the secrets."""
    held = []
    for position, count in chunks(rows):
        stream = SeedStream(SEED, position)
        held.append([arithmetic.uniform(stream, width * count).reshape(width, count) for width in widths])
    return held


def deal(arithmetic: Arithmetic, nodes: int, secrets: np.ndarray) -> None:
    dealing = Dealing(arithmetic, nodes=nodes, degree=default_threshold(nodes), seed=SEED, bound=SCALE)
    memory = np.empty((nodes, secrets.shape[1], CHUNK_ROWS), dtype=np.uint64)
    start = 0
    for position, count in chunks(len(secrets)):
        out = memory if count == CHUNK_ROWS else None
        dealing.shares(position, secrets[start : start + count], out)
        start += count


def multiply(arithmetic: Arithmetic, widths: list[int], held: list[list[Elements]], *, within: bool) -> None:
    product = Products(arithmetic, widths, within=within)
    for chunk in held:
        product.add(chunk)
    product.elements()


def check(arithmetic: Arithmetic, width: int, held: list[list[Elements]]) -> None:
    part = CheckedProduct(arithmetic, [width])
    for chunk in held:
        part.combine([chunk[0]], SEED)


def opening(arithmetic: Arithmetic, nodes: int, widths: list[int]) -> Callable[[], object]:
    """Return a call that opens a masked product of the given shape."""
    degree = 2 * default_threshold(nodes)
    noise = np.zeros(len(entry_pairs(widths)[0]), dtype=np.int64)
    masks = Dealing(arithmetic, nodes=nodes, degree=degree, seed=SEED).shares(0, noise)
    masked = {}
    for point in range(1, nodes + 1):
        product = ShareProduct(arithmetic, widths)
        masked[point] = product.masked([masks[point - 1]])
    return lambda: reconstruct(arithmetic, masked, degree=degree)


def measure(
    name: str, arithmetic: Arithmetic, rows: int, columns: int, nodes: int, numpy_time: float, repetitions: int
) -> dict[str, Any]:
    widths = [len(part) for part in np.array_split(np.arange(columns), nodes)]
    held = uniform_shares(arithmetic, rows, widths)
    secrets = np.asfortranarray(np.resize(np.arange(-SCALE, SCALE + 1), (rows, widths[0])))
    full = best_time(lambda: multiply(arithmetic, widths, held, within=True), repetitions)
    cross = best_time(lambda: multiply(arithmetic, widths, held, within=False), repetitions)
    return {
        "rows": rows,
        "columns": columns,
        "nodes": nodes,
        "arithmetic": name,
        "moduli": list(arithmetic.moduli),
        "numpy_ms": 1e3 * numpy_time,
        "deal_ms": 1e3 * best_time(lambda: deal(arithmetic, nodes, secrets), repetitions),
        "deal_ns_a_value": 1e9 * best_time(lambda: deal(arithmetic, nodes, secrets), repetitions) / secrets.size,
        "product_full_ms": 1e3 * full,
        "product_cross_ms": 1e3 * cross,
        "full_to_numpy": full / numpy_time,
        "cross_to_numpy": cross / numpy_time,
        "check_ms": 1e3 * best_time(lambda: check(arithmetic, widths[0], held), repetitions),
        "open_ms": 1e3 * best_time(opening(arithmetic, nodes, widths), repetitions),
        "bytes_a_value_a_recipient": arithmetic.element_bits / 8,
        "seeded_recipients": default_threshold(nodes),
        "bar": BAR,
        "within_bar": full / numpy_time <= BAR,
    }


def run(quick: bool = False) -> dict[str, Any]:
    """Measure every size; a quick run takes the smallest one only."""
    repetitions = 3 if quick else 7
    found = []
    for rows, columns in SIZES[1:2] if quick else SIZES:
        table = np.random.default_rng(0).standard_normal((rows, columns))
        for nodes in NODES:
            for name, arithmetic in arithmetics(rows, columns).items():
                numpy_time = best_time(lambda table=table: table.T @ table, repetitions)
                found.append(measure(name, arithmetic, rows, columns, nodes, numpy_time, repetitions))
    return {"name": "secure-gram kernels", "measurements": found}


def show(result: dict[str, Any]) -> None:
    head = (
        "rows × columns",
        "N",
        "arithmetic",
        "numpy",
        "deal",
        "(ns/value)",
        "product: full",
        "cross",
        "check",
        "open",
    )
    print("{:>16} {:>2} {:<18} {:>8} {:>8} {:>10}   {:>16} {:>16} {:>7} {:>7} bytes".format(*head))
    for m in result["measurements"]:
        full = f"{m['product_full_ms']:.1f} ({m['full_to_numpy']:.2f} ×)"
        cross = f"{m['product_cross_ms']:.1f} ({m['cross_to_numpy']:.2f} ×)"
        print(
            f"{m['rows']:>8} × {m['columns']:<5} {m['nodes']:>2} {m['arithmetic']:<18} {m['numpy_ms']:8.1f}"
            f" {m['deal_ms']:8.1f} {m['deal_ns_a_value']:10.1f}   {full:>16} {cross:>16} {m['check_ms']:7.1f}"
            f" {m['open_ms']:7.2f} {m['bytes_a_value_a_recipient']:>5}"
            f"{'' if m['within_bar'] else '  above the bar of ' + str(m['bar'])}"
        )
    print("milliseconds; × is the ratio to numpy; bytes a value a recipient, the seeded recipients aside")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    arguments = parser.parse_args()
    measured = run(quick=arguments.quick)
    print(json.dumps(measured, indent=2)) if arguments.json else show(measured)
