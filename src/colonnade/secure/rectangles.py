"""Which products of columns a node takes: rectangles of pairs of columns, of one owner with another or within one owner."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput

__all__ = ["Indices", "Rectangle", "cut", "entry_pairs", "pairs_of", "rectangles"]

Indices = NDArray[np.int64]


class Rectangle(NamedTuple):
    """Products of some columns, ``top`` to ``bottom``, with some others, ``left`` to ``right``, counted over all owners."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def entries(self) -> int:
        """How many products it has."""
        return (self.bottom - self.top) * (self.right - self.left)


def rectangles(widths: Sequence[int], *, within: bool = False) -> list[Rectangle]:
    """Return where the products of owners' columns stand: for each owner, its columns by those of the owners after it.

    Read rectangle by rectangle and row by row they are the entries of a product, in their order (`entry_pairs`). With ``within``
    an owner's own columns come along, of which row i then counts from column i on.

    Examples
    --------
    >>> rectangles([1, 2])
    [Rectangle(top=0, bottom=1, left=1, right=3)]
    """
    if not widths or any(type(width) is not int or width < 1 for width in widths):
        raise BadInput("Every owner has a positive number of columns.")
    ends = list(accumulate(widths))
    found = [
        Rectangle(end - width, end, end - width if within else end, ends[-1])
        for end, width in zip(ends, widths, strict=True)
    ]
    return [one for one in found if one.entries]


def cut(widths: Sequence[int], most: int) -> list[Rectangle]:
    """Return the same rectangles, cut between rows so that none has more entries than ``most``, but for one of a single row.

    Examples
    --------
    >>> [tile.entries for tile in cut([3, 2], most=4)]
    [4, 2]
    """
    tiles = []
    for one in rectangles(widths):
        rows = max(1, most // (one.right - one.left))
        starts = range(one.top, one.bottom, rows)
        tiles += [Rectangle(top, min(top + rows, one.bottom), one.left, one.right) for top in starts]
    return tiles


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
    pairs = [pairs_of(one, within=within) for one in rectangles(widths, within=within)]
    none = np.empty(0, dtype=np.int64)
    return np.concatenate([none, *(first for first, _ in pairs)]), np.concatenate(
        [none, *(second for _, second in pairs)]
    )


def pairs_of(one: Rectangle, *, within: bool) -> tuple[Indices, Indices]:
    """Return the columns of every product of a rectangle; within one owner those of the upper triangle alone."""
    rows, columns = np.arange(one.top, one.bottom), np.arange(one.left, one.right)
    first, second = np.repeat(rows, len(columns)), np.tile(columns, len(rows))
    kept = second >= first if within else slice(None)
    return first[kept], second[kept]
