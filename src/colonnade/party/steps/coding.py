"""Columns of a table as bounded integers (`colonnade.steps.fixed_point` says which)."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Numeric
from colonnade.steps.fixed_point import FixedPoint

__all__ = ["coded_rows"]


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
