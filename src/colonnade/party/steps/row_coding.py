"""Some people's rows as integers: `coded_rows` returns coded columns, and `bounded_scores` scores under public weights.

`colonnade.steps.terms` says which integers there are, and `colonnade.party.steps.integers` makes them.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.party.steps.integers import whole_numbers
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema.features import to_unit_range
from colonnade.steps.terms import BoundedScores, FixedPoint, ScoreWeights


def coded_rows(coding: FixedPoint, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's rows as integers, a column of the table along each row of the result."""
    nonprivate = np.empty((coding.width, stop - start), dtype=np.int64)
    position = 0
    for name, width in zip(coding.columns, coding.widths, strict=True):
        column = coding.schema[name]
        if column.is_number:
            whole_numbers(
                table.values(name, start, stop),
                coding.scale,
                middle=column.midpoint,
                half=column.half_range,
                scale=coding.scale,
                out=nonprivate[position],
            )
        else:
            nonprivate[position : position + width] = 0
            code = _code_signs if name in coding.signed else _code_levels
            code(table.codes(name, start, stop), coding.scale, nonprivate, position)
        position += width
    if coding.clips:
        _clip_rows(nonprivate, coding.row_bound)
    return nonprivate


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


Floats = NDArray[np.float64]


def partial_scores(
    scores: ScoreWeights, table: PrivateTable, start: int, stop: int, output: int | None = None
) -> Floats:
    """Return some people's partial scores: of one output, or of all with an output along each row."""
    weights = scores.weights if output is None else scores.weights[output : output + 1]
    nonprivate = np.zeros((len(weights), stop - start))
    place = 0
    for name, width in zip(scores.columns, scores.widths, strict=True):
        column = scores.schema[name]
        some = weights[:, place : place + width]
        if column.is_number:
            coded = to_unit_range(table.values(name, start, stop), column)  # within [−1, 1] before any weight
            _add_numbers(coded, np.ascontiguousarray(some[:, 0]), nonprivate)
        else:
            _add_levels(table.codes(name, start, stop), np.ascontiguousarray(some), nonprivate)
        place += width
    return nonprivate if output is None else np.asarray(nonprivate[0])


def bounded_scores(coding: BoundedScores, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's scores as integers, an output along each row."""
    nonprivate = partial_scores(coding.scores, table, start, stop)
    whole = np.empty(nonprivate.shape, dtype=np.int64)
    for scores, height, scale, out in zip(
        nonprivate, coding.heights.tolist(), coding.heights / coding.largest, whole, strict=True
    ):
        whole_numbers(scores, height, scale=scale, out=out)
    return whole


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
