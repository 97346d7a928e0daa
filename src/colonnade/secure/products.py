"""Exact products of shares: a node multiplies its shares of one owner's columns by those of another's.

Blocks within one owner are not multiplied unless asked for: that owner knows them already. The sum runs over chunks of
rows in a fixed amount of memory.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure import _kernels
from colonnade.secure.residues import Arithmetic, Elements

__all__ = ["Products", "ShareProduct", "entry_pairs"]

Indices = NDArray[np.int64]

SLICE_ELEMENTS = 1 << 17
CACHE_PADDING = 16  # a stride of 4,096 bytes would map all columns of a tile to one set of the first-level cache
SMALLEST_SLICE, LARGEST_SLICE = 2048, 16_384
PANEL = 16 * _kernels.TILE  # columns whose plane is reused from the cache while a strip of tiles runs over them


def entry_pairs(widths: Sequence[int], *, within: bool = False) -> tuple[Indices, Indices]:
    """Return the entries of a product, in their fixed order: row indices and column indices, row by row.

    Parameters
    ----------
    widths
        How many columns each owner has.
    within
        Whether pairs within one owner are included (then this is the upper triangle).

    Examples
    --------
    >>> [pair.tolist() for pair in entry_pairs([1, 2])]
    [[0, 0], [1, 2]]
    """
    if not widths or any(type(width) is not int or width < 1 for width in widths):
        raise BadInput("Every owner has a positive number of columns.")
    owner = np.repeat(np.arange(len(widths)), widths)
    first, second = np.triu_indices(len(owner))
    kept = slice(None) if within else owner[first] != owner[second]
    return first[kept].astype(np.int64), second[kept].astype(np.int64)


class Products:
    """A running sum of XᵀX over rows, modulo M, of the columns of several owners.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    widths
        How many columns each owner has.
    within
        Whether blocks within one owner are multiplied too.

    Notes
    -----
    Two owners of widths a and b give the general product XᵀY. Centred residues are multiplied in float64, sixteen products at
    a time in registers; at these shapes that is faster than a BLAS.

    Examples
    --------
    >>> product = Products(Arithmetic.for_headroom(100, 3), [1, 1])
    >>> product.add([np.array([[2, 3]], np.uint64), np.array([[5, 7]], np.uint64)])
    >>> product.elements()
    array([31], dtype=uint64)
    """

    def __init__(self, arithmetic: Arithmetic, widths: Sequence[int], *, within: bool = False) -> None:
        self.arithmetic = arithmetic
        self.widths = tuple(widths)
        columns, side = sum(self.widths), _kernels.TILE
        first, second = entry_pairs(self.widths, within=within)
        across = columns // side + 1
        found, which = np.unique(first // side * across + second // side, return_inverse=True)
        tiles = np.stack([found // across, found % across], axis=1)
        order = np.lexsort((tiles[:, 1], tiles[:, 0], tiles[:, 1] * side // PANEL))
        place = np.argsort(order)[which.reshape(-1)]
        self._tiles = np.ascontiguousarray(tiles[order] * side, dtype=np.int64)
        self._where = (place * side + first % side) * side + second % side
        self._plane = np.zeros((columns + -columns % side, _kernels.BLOCK_ROWS + CACHE_PADDING))
        self._sums = np.zeros((len(tiles), side * side))
        self._totals = np.zeros((len(arithmetic.moduli), len(tiles), side * side))
        self._slice = _slice_rows(columns)
        self._joined = np.zeros((columns, self._slice), dtype=np.uint64)

    def add(self, chunk: Sequence[Elements]) -> None:
        """Add the products of one chunk of rows: an array for each owner, its columns along the first axis."""
        rows = self._checked_rows(chunk)
        for start in range(0, rows, self._slice):
            count = min(self._slice, rows - start)
            np.concatenate([part[:, start : start + count] for part in chunk], out=self._joined[:, :count])
            if not self._accumulate(count):
                raise ProtocolError("A share is out of the range of its arithmetic.")

    def _accumulate(self, rows: int) -> bool:
        modulus, constants = self.arithmetic.modulus, self.arithmetic.constants
        in_range = _kernels.accumulate_products(
            self._joined, rows, modulus, constants, self._tiles, self._plane, self._sums, self._totals
        )
        return bool(in_range)

    def _checked_rows(self, chunk: Sequence[Elements]) -> int:
        if len(chunk) != len(self.widths):
            raise ProtocolError("A chunk has one array of shares per owner.")
        rows = {part.shape[1] for part in chunk if isinstance(part, np.ndarray) and part.ndim == 2}
        if len(rows) != 1 or any(part.shape[0] != width for part, width in zip(chunk, self.widths, strict=True)):
            raise ProtocolError("The shares of a chunk have the plan's columns and equally many rows.")
        if any(part.dtype != np.uint64 for part in chunk):
            raise ProtocolError("Elements are 64-bit words.")
        return int(rows.pop())

    def elements(self) -> Elements:
        """Return the sums so far, in the order of `entry_pairs`."""
        residues = self._totals.reshape(len(self._totals), -1)[:, self._where].astype(np.int64)
        return self.arithmetic.from_residues(residues)


def _slice_rows(columns: int) -> int:
    """Return how many rows, in whole blocks, are joined at a time: few enough to stay in the cache."""
    return (
        min(max(SLICE_ELEMENTS // columns, SMALLEST_SLICE), LARGEST_SLICE) // _kernels.BLOCK_ROWS * _kernels.BLOCK_ROWS
    )


class ShareProduct:
    """A node's share of a product of shared columns: of degree 2t, and not to be opened as it is.

    The polynomial behind a product of shares is a product of polynomials, which is not random and tells more about the
    factors than their product. `masked` is therefore the only way out: it adds shares of fresh random polynomials of
    degree 2t, which also carry the noise.
    """

    def __init__(self, arithmetic: Arithmetic, widths: Sequence[int], *, within: bool = False) -> None:
        self._products = Products(arithmetic, widths, within=within)

    def add(self, chunk: Sequence[Elements]) -> None:
        """Add one chunk of rows: this node's shares, an array per owner, columns along the first axis."""
        self._products.add(chunk)

    def masked(self, noise_shares: Sequence[Elements]) -> Elements:
        """Return the product plus this node's shares of every data party's noise; refuse to go without any."""
        if not noise_shares:
            raise ProtocolError("A product of shares is never opened without a fresh mask of its own degree.")
        return self._products.arithmetic.add(self._products.elements(), *noise_shares)
