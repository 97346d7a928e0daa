"""A node's products of shares on an NVIDIA GPU: in int8, exact, and the very elements that the processor gives.

An element goes to the device as it is. There each residue modulo a prime p < 2²³ is centred and written as three signed digits
of base 256, d₀ + 256·d₁ + 65,536·d₂. Products of digits are what a GPU's matrix units do best: int8 × int8, summed in int32.

*Exact.* |r| ≤ (p − 1)/2 < 2²², so |d₀|, |d₁| ≤ 128 and |d₂| ≤ 65. A product of digits is at most 2¹⁴, and a sum over `ROWS` < 2¹⁷
rows stays below 2³¹. The nine sums of a pair of columns are joined in int64: at most 2³¹·(1 + 2·2⁸ + 3·2¹⁶ + 2·2²⁴) + 65²·2¹⁷·2³²
< 2⁶², and then reduced modulo p. No step rounds, so any order of additions gives the same residues.

*Fast.* A pair of digits of a pair of columns is also a pair the other way round, so six of nine products of digits are computed,
and of those of a digit with itself only the upper triangle: half of what one large product would take. Rows are divided into
as many parts as keep all multiprocessors busy, and sums of parts are added to each other in int32 as integers, in any order.

Nothing here is random or secret-dependent in its course; shares in the device's memory are as much a node's secret as shares in
its own, and anybody who may read that memory counts as the node (SECURITY.md).

Needs torch with CUDA, and the Triton that comes with it: ``pip install 'colonnade[gpu]'``. This module imports both, so it is
imported late (`colonnade.secure.shamir`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

DIGITS = 3
ROWS = 120 * 1024
"""Rows whose digits are multiplied at a time."""
LARGEST_BUFFER = 1 << 29
BLOCK = 1024
TILE, DEPTH = 128, 128
"""A program multiplies this many columns by as many, this many rows at a time. Both are padded with zeros to a multiple of it."""
WAVES = 6
"""How many programs there are per multiprocessor, so that all of them are busy to the end."""
PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def device_name() -> str | None:
    """Return the name of the GPU that torch sees; ``None`` if there is none that multiplies int8."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (7, 5):
        return None
    return str(torch.cuda.get_device_name())


@triton.jit
def _digits(  # type: ignore[no-untyped-def]  # compiled for the device; its arguments are pointers and constants
    elements,
    digits,
    rows,
    row_stride,
    column_stride,
    plane_stride,
    above,
    modulus: tl.constexpr,
    prime: tl.constexpr,
    block: tl.constexpr,
):
    column = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * block + tl.arange(0, block)
    inside = row < rows
    value = tl.load(elements + column * row_stride + row, mask=inside, other=0)
    tl.store(above, 1, mask=tl.sum(((value < 0) | (value >= modulus)).to(tl.int32)) > 0)
    rest = value % prime
    rest = tl.where(rest > (prime - 1) // 2, rest - prime, rest)
    place = digits + column * column_stride + row
    first = ((rest + 128) & 255) - 128
    rest = (rest - first) >> 8
    second = ((rest + 128) & 255) - 128
    third = (rest - second) >> 8
    tl.store(place, first.to(tl.int8), mask=inside)
    tl.store(place + plane_stride, second.to(tl.int8), mask=inside)
    tl.store(place + 2 * plane_stride, third.to(tl.int8), mask=inside)


@triton.jit
def _products(  # type: ignore[no-untyped-def]
    digits,
    sums,
    tiles,
    rows,
    part,
    wide,
    plane_stride,
    column_stride,
    tile: tl.constexpr,
    depth: tl.constexpr,
):
    which = tl.program_id(0) * 5
    pair, one, other = tl.load(tiles + which), tl.load(tiles + which + 1), tl.load(tiles + which + 2)
    top, left = tl.load(tiles + which + 3), tl.load(tiles + which + 4)
    side = tl.arange(0, tile)
    row = tl.program_id(1) * part + tl.arange(0, depth)
    first = digits + one.to(tl.int64) * plane_stride + (top + side)[:, None].to(tl.int64) * column_stride + row[None, :]
    second = (
        digits + other.to(tl.int64) * plane_stride + (left + side)[:, None].to(tl.int64) * column_stride + row[None, :]
    )
    total = tl.zeros((tile, tile), dtype=tl.int32)
    for _ in range(0, tl.minimum(part, rows - tl.program_id(1) * part), depth):
        total = tl.dot(tl.load(first), tl.trans(tl.load(second)), total, out_dtype=tl.int32)
        first += depth
        second += depth
    place = sums + pair * wide * wide + (top + side)[:, None] * wide + (left + side)[None, :]
    tl.atomic_add(place, total, sem="relaxed")


def _tiles(wide: int) -> list[tuple[int, int, int, int, int]]:
    """Return every tile to compute: which pair of digits, the two digits, and the first columns of the tile."""
    places = range(0, wide, TILE)
    return [
        (pair, one, other, top, left)
        for pair, (one, other) in enumerate(PAIRS)
        for top in places
        for left in places
        if one != other or left >= top
    ]


class GramOnDevice:
    """A running sum of XᵀX over rows, modulo several primes, on the GPU.

    Parameters
    ----------
    moduli
        Different primes below 2²³ with a product below 2⁶³.
    columns
        How many columns X has.
    """

    def __init__(self, moduli: Sequence[int], columns: int) -> None:
        self._moduli = tuple(moduli)
        self._modulus = int(np.prod(np.array(moduli, dtype=object)))
        self._columns = columns
        wide = columns + -columns % TILE
        room = LARGEST_BUFFER // (len(self._moduli) * DIGITS * wide)
        self._rows = max(min(ROWS, room // BLOCK * BLOCK), BLOCK)
        shape = (len(self._moduli), DIGITS, wide, self._rows)
        self._digits = torch.zeros(shape, dtype=torch.int8, device="cuda")
        self._totals = torch.zeros((len(self._moduli), wide, wide), dtype=torch.int64, device="cuda")
        self._tiles = torch.tensor(_tiles(wide), dtype=torch.int32, device="cuda")
        processors = torch.cuda.get_device_properties("cuda").multi_processor_count
        self._parts = max(1, round(WAVES * processors / len(self._tiles)))
        self._above = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._filled = 0

    def add(self, parts: Sequence[NDArray[np.uint64]]) -> bool:
        """Add the products of some rows: arrays of elements below each other, columns along the first axis.

        Returns true: whether all are `in_range` is asked once, at the end, because the answer would wait for the device.
        """
        rows, start = parts[0].shape[1], 0
        while start < rows:
            count = min(rows - start, self._rows - self._filled)
            column = 0
            for part in parts:
                block = np.ascontiguousarray(part[:, start : start + count]).view(np.int64)
                self._write(torch.from_numpy(block).to("cuda", non_blocking=True), column)
                column += len(part)
            start += count
            self._filled += count
            if self._filled == self._rows:
                self.multiply()
        return True

    def _write(self, elements: Any, column: int) -> None:
        """Write the digits of some columns behind the rows that are there."""
        columns, rows = elements.shape
        for index, prime in enumerate(self._moduli):
            digits = self._digits[index, :, column:, self._filled :]
            _digits[(triton.cdiv(rows, BLOCK), columns)](
                elements,
                digits,
                rows,
                elements.stride(0),
                digits.stride(1),
                digits.stride(0),
                self._above,
                self._modulus,
                prime,
                BLOCK,
            )

    def multiply(self) -> None:
        """Multiply the rows that are in the buffer, and empty it."""
        if not self._filled:
            return
        rows = self._filled + -self._filled % DEPTH
        self._digits[:, :, :, self._filled : rows] = 0
        for index, prime in enumerate(self._moduli):
            self._totals[index] = (self._totals[index] + self._gram(self._digits[index], rows)) % prime
        self._filled = 0

    def _gram(self, digits: Any, rows: int) -> Any:
        wide = digits.shape[1]
        sums = torch.zeros((len(PAIRS), wide, wide), dtype=torch.int32, device="cuda")
        part = triton.cdiv(triton.cdiv(rows, self._parts), DEPTH) * DEPTH
        grid = (len(self._tiles), triton.cdiv(rows, part))
        _products[grid](
            digits,
            sums,
            self._tiles,
            rows,
            part,
            wide,
            digits.stride(0),
            digits.stride(1),
            TILE,
            DEPTH,
            num_warps=4,
            num_stages=3,
        )
        total = torch.zeros((wide, wide), dtype=torch.int64, device="cuda")
        for product, (one, other) in zip(sums.to(torch.int64), PAIRS, strict=True):
            whole = product.triu() + product.triu(1).T if one == other else product + product.T
            total += whole << 8 * (one + other)
        return total

    def in_range(self) -> bool:
        """Return whether all elements so far were below the product of the moduli; sums are worthless otherwise."""
        return not int(self._above.item())

    def residues(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sums so far of some pairs of columns, moduli by pairs, each from 0 to p − 1."""
        self.multiply()
        sums = self._totals[:, torch.from_numpy(first).to("cuda"), torch.from_numpy(second).to("cuda")]
        return np.ascontiguousarray(sums.cpu().numpy())
