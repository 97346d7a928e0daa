"""Partitions of people and sums over them, in integers and row by row.

Everything here is exact: a person's cell and clipped displacement are functions of that person's integers and of what was
released before, computed in 64-bit integers (the factor of a clipped row is a float, but the integers that result are checked
against the bound, and no other row enters). So one person's record moves one cell, by at most the radius, with no rounding error
to account for.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Half", "Nearest", "Partition", "Tree", "Whole", "fold"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Whole:
    """Everybody in one cell."""

    cells = 1

    def labels(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Return the cell of each row."""
        return np.zeros(len(rows), dtype=np.int32)


@dataclass(frozen=True)
class Nearest:
    """The cell of the nearest centre; of equally near ones, the first."""

    centres: Integers

    @property
    def cells(self) -> int:
        """How many centres there are."""
        return len(self.centres)

    def labels(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Return the cell of each row."""
        return np.asarray(_nearest(rows, self.centres))


@dataclass(frozen=True)
class Half:
    """A half-space: the side on which ``row · normal > offset``."""

    normal: Integers
    offset: int


@dataclass(frozen=True)
class Tree:
    """Leaves of a binary tree whose nodes of one level are all cut by the same half-space.

    Parameters
    ----------
    halves
        One per level.
    children
        For every node its two children; −1 for a leaf. Node 0 is the root.
    """

    halves: tuple[Half, ...]
    children: NDArray[np.int32]

    @property
    def cells(self) -> int:
        """How many nodes there are; inner ones stay empty."""
        return len(self.children)

    def labels(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Return the leaf of each row."""
        normals = np.array([half.normal for half in self.halves], dtype=np.int64).reshape(len(self.halves), -1)
        offsets = np.array([half.offset for half in self.halves], dtype=np.int64)
        return np.asarray(_walk(rows, normals, offsets, self.children))


Partition = Whole | Nearest | Tree


def fold(
    rows: NDArray[Any], labels: NDArray[np.int32], references: Integers, radius: int, *, squared: bool, squares: int
) -> tuple[Integers, Integers]:
    """Return how many rows each cell has, and the sum of their displacements from the cell's reference, clipped.

    Parameters
    ----------
    rows
        Integers; in the first column 1 for a person with a record, 0 for one without, who is in no cell.
    labels
        The cell of each row.
    references
        One point per cell.
    radius
        No displacement is longer than this.
    squared
        Whether its length is Euclidean or the sum of magnitudes.
    squares
        Also sum the squares of displacements, divided by this number and rounded down; 0 for not. Displacements are then clamped
        to this number too, so that squares are no longer than displacements.
    """
    width = references.shape[1]
    counts = np.zeros(len(references), dtype=np.int64)
    sums = np.zeros((len(references), width * (2 if squares else 1)), dtype=np.int64)
    _fold(rows, labels, references, radius, squared, squares, counts, sums)
    return counts, sums


@njit(cache=True, nogil=True)
def _nearest(rows: Any, centres: Any) -> Any:
    labels = np.zeros(rows.shape[0], dtype=np.int32)
    for i in range(rows.shape[0]):
        best = np.int64(-1)
        for cell in range(centres.shape[0]):
            distance = np.int64(0)
            for j in range(centres.shape[1]):
                step = np.int64(rows[i, j + 1]) - centres[cell, j]
                distance += step * step
            if best < 0 or distance < best:
                best = distance
                labels[i] = cell
    return labels


@njit(cache=True, nogil=True)
def _walk(rows: Any, normals: Any, offsets: Any, children: Any) -> Any:
    labels = np.zeros(rows.shape[0], dtype=np.int32)
    for i in range(rows.shape[0]):
        node = 0
        for level in range(normals.shape[0]):
            if children[node, 0] < 0:
                break
            height = np.int64(0)
            for j in range(normals.shape[1]):
                height += np.int64(rows[i, j + 1]) * normals[level, j]
            node = children[node, 1 if height > offsets[level] else 0]
        labels[i] = node
    return labels


@njit(cache=True, nogil=True)
def _fold(
    rows: Any, labels: Any, references: Any, radius: int, squared: bool, squares: int, counts: Any, sums: Any
) -> None:
    width = references.shape[1]
    step = np.empty(width, dtype=np.int64)
    for i in range(rows.shape[0]):
        if rows[i, 0] == 0:
            continue
        cell = labels[i]
        for j in range(width):
            step[j] = np.int64(rows[i, j + 1]) - references[cell, j]
            if squares:
                step[j] = min(max(step[j], -squares), squares)
        _clip(step, radius, squared)
        counts[cell] += 1
        for j in range(width):
            sums[cell, j] += step[j]
            if squares:
                sums[cell, width + j] += step[j] * step[j] // squares


@njit(cache=True, nogil=True)
def _length(step: Any, squared: bool) -> Any:
    length = np.int64(0)
    for j in range(len(step)):
        length += step[j] * step[j] if squared else abs(step[j])
    return length


@njit(cache=True, nogil=True)
def _clip(step: Any, radius: int, squared: bool) -> None:
    """Shorten by scaling and truncating towards zero, until the integers themselves keep the bound."""
    bound = radius * radius if squared else radius
    length = _length(step, squared)
    while length > bound:
        ratio = bound / length
        factor = np.sqrt(ratio) if squared else ratio
        largest = 0
        for j in range(len(step)):
            step[j] = np.int64(step[j] * factor)
            if abs(step[j]) > abs(step[largest]):
                largest = j
        shorter = _length(step, squared)
        if shorter == length:  # a factor just below one may truncate nothing
            step[largest] -= np.sign(step[largest])
            shorter = _length(step, squared)
        length = shorter
