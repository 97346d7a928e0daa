"""Coded columns as bounded integers: what `colonnade.coding.features` maps to [−1, 1], times γ and rounded.

Rounding to the nearest integer keeps |entry| ≤ γ because γ is an integer. A category adds γ² to a row's squared length however
many levels it has. So a row of b columns has squared length at most bγ² by construction, and nothing needs clipping unless the
plan allows less. A missing number is the midpoint, which is coded as 0. A missing category is 0 in every indicator.

This is the public half: which integers there are. `colonnade.party.steps.coding` makes them from a table.
"""

from collections.abc import Sequence

from colonnade.coding.features import coded_width
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema import Category, Numeric, Schema

__all__ = ["FixedPoint"]

LARGEST_SCALE = 1 << 20


class FixedPoint:
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

    def _width(self, name: str) -> int:
        column = self.schema[name]
        if name not in self.signed:
            return coded_width(column)
        if isinstance(column, Category) and column.size != 2:
            raise SchemaMismatch(f"Column {name!r} has more than two levels and cannot be coded as a sign.")
        if isinstance(column, Numeric):
            raise SchemaMismatch(f"Column {name!r} is numeric and cannot be coded as a sign.")
        return 1
