"""Products of one party's own columns, exactly: no library that starts threads of its own takes part.

Several parties multiply at the same time where they share a machine, and a threaded BLAS then spends its time on waiting
for itself.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["add_products", "folded_products"]

BLOCK_ROWS = 512
"""Rows multiplied in float64 at a time. With entries up to 2²⁰ a sum stays below 2⁴⁹, so that no order of adding rounds."""


def add_products(columns: NDArray[np.int64], constant: int, gram: NDArray[np.int64]) -> None:
    """Add XᵀX to the upper triangle of ``gram``, X being a constant column and the given columns, each along a row."""
    _add_products(columns, float(constant), np.empty((len(gram), BLOCK_ROWS)), gram)


def folded_products(
    rows: Callable[[int, int], NDArray[np.int64]], people: int, width: int, constant: int, block: int = 8_192
) -> NDArray[np.int64]:
    """Return all products of one party's columns, a constant one in front, from row blocks short enough for the cache."""
    gram = np.zeros((width + 1, width + 1), dtype=np.int64)
    for start in range(0, people, block):
        add_products(rows(start, min(start + block, people)), constant, gram)
    return np.triu(gram) + np.triu(gram, 1).T


@njit(cache=True, nogil=True)
def _add_products(columns: Any, constant: float, plane: Any, gram: Any) -> None:
    plane[0] = constant
    for start in range(0, columns.shape[1], BLOCK_ROWS):
        count = min(BLOCK_ROWS, columns.shape[1] - start)
        for i in range(columns.shape[0]):
            plane[i + 1, :count] = columns[i, start : start + count]
        for i in range(len(gram)):
            for j in range(i, len(gram)):
                gram[i, j] += np.int64(_dot(plane[i, :count], plane[j, :count]))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(one: Any, other: Any) -> float:
    total = 0.0
    for k in range(len(one)):
        total += one[k] * other[k]
    return total
