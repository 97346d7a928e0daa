"""What the arithmetic of the secure Gram channel costs: dealing, a node's product, opening; beside numpy in the same run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/secure_gram/kernels.py ROWS COLUMNS

As many owners as nodes, columns divided evenly. Processor time of one thread, the best of a few runs, back to back:

deal      one dealer, its own columns, all N shares, from integers to elements (generator and rejection included)
product   one node, its shares of all columns, from elements in memory; *cross* is what the protocol needs (blocks within
          one owner are not multiplied), *full* the whole upper triangle; the bar is held to the latter
check     one node's part of the degree check of one dealing
open      the coordinator: 2t + 1 masked products to integers
numpy     a float64 ``X.T @ X`` of the same shape
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from colonnade.conversations.conversation import CheckedProduct
from colonnade.secure.keys import SeedStream
from colonnade.secure.residues import PRIME_SETS, Arithmetic, Elements, gram_bound
from colonnade.secure.shamir import Dealing, Products, ShareProduct, default_threshold, entry_pairs, reconstruct

NODES = (3, 4)
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
        "nodes": nodes,
        "arithmetic": f"{name}, {len(arithmetic.moduli)} moduli",
        "numpy ms": 1e3 * numpy_time,
        "deal ms": 1e3 * best_time(lambda: deal(arithmetic, nodes, secrets), repetitions),
        "full ms": 1e3 * full,
        "cross ms": 1e3 * cross,
        "full to numpy": full / numpy_time,
        "check ms": 1e3 * best_time(lambda: check(arithmetic, widths[0], held), repetitions),
        "open ms": 1e3 * best_time(opening(arithmetic, nodes, widths), repetitions),
    }


def run(rows: int, columns: int, repetitions: int = 5) -> list[dict[str, Any]]:
    """Measure one size."""
    table, found = np.random.default_rng(0).standard_normal((rows, columns)), []
    for nodes in NODES:
        for name, arithmetic in arithmetics(rows, columns).items():
            numpy_time = best_time(lambda: table.T @ table, repetitions)
            found.append(measure(name, arithmetic, rows, columns, nodes, numpy_time, repetitions))
    return found


if __name__ == "__main__":
    print(json.dumps(run(*map(int, sys.argv[1:3]))))
