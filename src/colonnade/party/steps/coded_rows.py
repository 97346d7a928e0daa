"""Rows of a table as integers: coded columns, scores under public weights, and products of one party's own columns.

`colonnade.steps.terms` and `colonnade.steps.terms` say which integers there are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.coding.columns import to_unit_range
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Numeric
from colonnade.steps.terms import BoundedScores, FixedPoint, ScoreWeights

__all__ = ["add_products", "bounded_scores", "coded_rows", "folded_products", "partial_scores"]


def coded_rows(coding: FixedPoint, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's rows as integers, a column of the table along each row of the result."""
    nonprivate = np.empty((coding.width, stop - start), dtype=np.int64)
    position = 0
    for name, width in zip(coding.columns, coding.widths, strict=True):
        column = coding.schema[name]
        if isinstance(column, Numeric):
            middle, half = column.midpoint, column.half_range
            _code_numbers(table.values(name)[start:stop], middle, half, coding.scale, nonprivate, position)
        else:
            nonprivate[position : position + width] = 0
            code = _code_signs if name in coding.signed else _code_levels
            code(table.codes(name)[start:stop], coding.scale, nonprivate, position)
        position += width
    if coding.clips:
        _clip_rows(nonprivate, coding.row_bound)
    return nonprivate


@njit(cache=True, nogil=True)
def _code_numbers(values: Any, middle: float, half: float, scale: int, out: Any, column: int) -> None:
    """Map to [−γ, γ] and round; the clamp also catches what rounding in the map itself could add."""
    for i in range(len(values)):
        coded = np.rint((values[i] - middle) / half * scale)
        out[column, i] = np.int64(min(max(coded, -float(scale)), float(scale)))


@njit(cache=True, nogil=True)
def _code_levels(codes: Any, scale: int, out: Any, column: int) -> None:
    for i in range(len(codes)):
        if codes[i] >= 0:
            out[column + codes[i], i] = scale


@njit(cache=True, nogil=True)
def _code_signs(codes: Any, scale: int, out: Any, column: int) -> None:
    for i in range(len(codes)):
        if codes[i] >= 0:
            out[column, i] = scale if codes[i] == 1 else -scale


@njit(cache=True, nogil=True)
def _clip_rows(columns: Any, row_bound: int) -> None:
    """Shorten rows that are too long by scaling and truncating towards zero, until the integers themselves keep the bound."""
    for i in range(columns.shape[1]):
        length = _squared_length(columns, i)
        while length > row_bound:
            shrink = np.sqrt(row_bound / length)
            for j in range(columns.shape[0]):
                columns[j, i] = np.int64(columns[j, i] * shrink)
            shorter = _squared_length(columns, i)
            if (
                shorter == length
            ):  # scaling by a hair less than one may truncate nothing; take one off the largest entry
                _shorten_largest(columns, i)
                shorter = _squared_length(columns, i)
            length = shorter


@njit(cache=True, nogil=True)
def _squared_length(columns: Any, row: int) -> int:
    length = 0
    for j in range(columns.shape[0]):
        length += columns[j, row] * columns[j, row]
    return length


@njit(cache=True, nogil=True)
def _shorten_largest(columns: Any, row: int) -> None:
    largest = 0
    for j in range(columns.shape[0]):
        if abs(columns[j, row]) > abs(columns[largest, row]):
            largest = j
    columns[largest, row] -= np.sign(columns[largest, row])


Array = NDArray[np.float64]


def partial_scores(
    scores: ScoreWeights, table: PrivateTable, start: int, stop: int, output: int | None = None
) -> Array:
    """Return some people's partial scores: of one output, or of all with an output along each row."""
    weights = scores.weights if output is None else scores.weights[output : output + 1]
    nonprivate = np.zeros((len(weights), stop - start))
    place = 0
    for name, width in zip(scores.columns, scores.widths, strict=True):
        column = scores.schema[name]
        some = weights[:, place : place + width]
        if isinstance(column, Numeric):
            coded = to_unit_range(table.values(name)[start:stop], column)  # within [−1, 1] before any weight
            _add_numbers(coded, np.ascontiguousarray(some[:, 0]), nonprivate)
        else:
            _add_levels(table.codes(name)[start:stop], np.ascontiguousarray(some), nonprivate)
        place += width
    return nonprivate if output is None else np.asarray(nonprivate[0])


def bounded_scores(coding: BoundedScores, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's scores as integers, an output along each row."""
    nonprivate = partial_scores(coding.scores, table, start, stop)
    spread = nonprivate * (coding.heights / coding.largest)[:, None]
    limits = coding.heights[:, None].astype(np.float64)
    return np.asarray(np.clip(np.rint(spread), -limits, limits), dtype=np.int64)


@njit(cache=True, nogil=True)
def _add_numbers(coded: Any, weights: Any, out: Any) -> None:
    for output in range(len(weights)):
        weight = weights[output]
        for i in range(len(coded)):
            out[output, i] += weight * coded[i]


@njit(cache=True, nogil=True)
def _add_levels(codes: Any, weights: Any, out: Any) -> None:
    for output in range(len(weights)):
        for i in range(len(codes)):
            if codes[i] >= 0:
                out[output, i] += weights[output, codes[i]]


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
