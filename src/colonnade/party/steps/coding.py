"""Coded columns as bounded integers: what `colonnade.coding.features` maps to [−1, 1], times γ and rounded.

Rounding to the nearest integer keeps |entry| ≤ γ because γ is an integer, and a category adds γ² to a row's squared length
however many levels it has, so a row of b columns has squared length at most bγ² by construction: nothing needs clipping unless
the plan allows less (`privacy.md` §1.5). A missing number is the midpoint, hence 0; a missing category is 0 in every indicator.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.coding.features import coded_width
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Category, Numeric, Schema

__all__ = ["Coding"]

LARGEST_SCALE = 1 << 20


class Coding:
    """How one party's columns become integers.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    scale
        γ.
    signed
        Categories of two levels coded as one column: −γ, γ, or 0 if missing.
    row_bound
        The squared length that no row may exceed. Rows are scaled down and truncated towards zero where it is below bγ².
    """

    def __init__(
        self, columns: Sequence[str], schema: Schema, *, scale: int, signed: Sequence[str] = (), row_bound: int
    ) -> None:
        if type(scale) is not int or not 1 <= scale <= LARGEST_SCALE:
            raise BadInput(f"scale is a whole number between 1 and {LARGEST_SCALE}.")
        if type(row_bound) is not int or row_bound < 1:
            raise BadInput("row_bound is a positive whole number.")
        if not set(signed) <= set(columns) or len(set(columns)) != len(columns):
            raise BadInput("A column is named twice, or signed and not asked for.")
        self.columns = tuple(columns)
        self.schema = schema
        self.scale = scale
        self.signed = frozenset(signed)
        self.widths = [self._width(name) for name in columns]
        self.row_bound = row_bound
        self.clips = row_bound < scale**2 * len(columns)

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return sum(self.widths)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's rows as integers, a column of the table along each row of the result."""
        nonprivate = np.empty((self.width, stop - start), dtype=np.int64)
        position = 0
        for name, width in zip(self.columns, self.widths, strict=True):
            column = self.schema[name]
            if isinstance(column, Numeric):
                middle, half = column.midpoint, column.half_range
                _code_numbers(table.values(name)[start:stop], middle, half, self.scale, nonprivate, position)
            else:
                nonprivate[position : position + width] = 0
                code = _code_signs if name in self.signed else _code_levels
                code(table.codes(name)[start:stop], self.scale, nonprivate, position)
            position += width
        if self.clips:
            _clip_rows(nonprivate, self.row_bound)
        return nonprivate

    def _width(self, name: str) -> int:
        column = self.schema[name]
        if name not in self.signed:
            return coded_width(column)
        if isinstance(column, Category) and column.size != 2:
            raise SchemaMismatch(f"Column {name!r} has more than two levels and cannot be coded as a sign.")
        if isinstance(column, Numeric):
            raise SchemaMismatch(f"Column {name!r} is numeric and cannot be coded as a sign.")
        return 1


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
