"""The peer: MPyC multiplies the same integers with its vectorised arithmetic, one process a party, on this machine.

Not run by hand: ``run.py`` starts it with a Python that has mpyc, numpy and gmpy2,

    python mpyc_gram.py --kind SecInt --bits 46 --columns 14 --owners 3 --what cross --rows 18500 37000 -M3

MPyC's ``-M3`` starts two more parties. Party 0 prints a JSON object a number of rows. The clock runs from the moment at which all
parties are ready and hold their integers as field elements, to the opened matrix: sharing, multiplying, resharing, opening. No
noise, no encryption, no ledger: all in the peer's favour.

``SecInt`` are MPyC's secure integers, in a field with room for comparisons beside the integers; ``SecFld`` is a bare prime field
just large enough for the result, in which a product is cheapest.
"""

import argparse
import json
import sys
import time

import numpy as np
from mpyc import gmpy
from mpyc.runtime import mpc

SCALE = 4096


def block(owner: int, rows: int, width: int) -> np.ndarray:
    """What an owner holds; everybody can make it here, so that the result can be checked."""
    return np.random.default_rng([rows, owner]).integers(-SCALE, SCALE + 1, size=(rows, width))


def as_inputs(kind: type, tables: list[np.ndarray]) -> list:
    """Return this party's columns as field elements; of the others', the shape."""
    inputs = []
    for owner, table in enumerate(tables):
        mine = mpc.pid == owner
        inputs.append(kind.array(table.astype(object)) if mine else kind.array(None, shape=table.shape))
    return inputs


async def gram(kind: type, tables: list[np.ndarray], *, full: bool) -> tuple[float, float, list[np.ndarray]]:
    """Share, multiply and open; return seconds, processor seconds, and the whole matrix or the blocks between owners."""
    held = as_inputs(kind, tables)
    await mpc.output(mpc.sum(mpc.input(kind(1))))  # everybody is ready
    begin, used = time.perf_counter(), time.process_time()
    columns = [mpc.input(own, senders=owner) for owner, own in enumerate(held)]
    if full:
        joined = mpc.np_hstack(columns)
        opened = [await mpc.output(mpc.np_matmul(mpc.np_transpose(joined), joined))]
    else:
        products = [
            mpc.np_matmul(mpc.np_transpose(left), right)
            for place, left in enumerate(columns)
            for right in columns[place + 1 :]
        ]
        opened = [await mpc.output(product) for product in products]
    elapsed, used = time.perf_counter() - begin, time.process_time() - used
    return elapsed, sum(await mpc.transfer(used)), [_signed(part) for part in opened]


def _signed(opened: np.ndarray) -> np.ndarray:
    return np.asarray(opened.signed_() if hasattr(opened, "signed_") else opened, dtype=np.int64)


def plain(tables: list[np.ndarray], *, full: bool) -> list[np.ndarray]:
    if full:
        joined = np.hstack(tables)
        return [joined.T @ joined]
    return [left.T @ right for place, left in enumerate(tables) for right in tables[place + 1 :]]


async def measure(kind: type, rows: int, widths: list[int], *, full: bool) -> None:
    tables = [block(owner, rows, width) for owner, width in enumerate(widths)]
    elapsed, processor, opened = await gram(kind, tables, full=full)
    exact = all(np.array_equal(one, two) for one, two in zip(opened, plain(tables, full=full), strict=True))
    if mpc.pid == 0:
        case = {"rows": rows, "elapsed": elapsed, "processor": processor, "exact": exact}
        print(json.dumps(case))
        sys.stdout.flush()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, required=True)
    parser.add_argument("--owners", type=int, required=True)
    parser.add_argument("--kind", choices=("SecInt", "SecFld"), required=True)
    parser.add_argument("--bits", type=int, required=True)
    parser.add_argument("--what", choices=("cross", "full"), required=True)
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    asked, _ = parser.parse_known_args()
    field = {"modulus": int(gmpy.next_prime(1 << asked.bits))}
    kind = mpc.SecInt(asked.bits) if asked.kind == "SecInt" else mpc.SecFld(**field)
    widths = [len(part) for part in np.array_split(np.arange(asked.columns), asked.owners)]
    await mpc.start()
    await gram(kind, [block(owner, 100, width) for owner, width in enumerate(widths)], full=asked.what == "full")
    for rows in asked.rows:
        await measure(kind, rows, widths, full=asked.what == "full")
    await mpc.shutdown()


if __name__ == "__main__":
    mpc.run(main())
