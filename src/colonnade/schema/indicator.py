"""Where a number or a date is missing."""

from typing import ClassVar

from colonnade.schema.column import ColumnKind, Number
from colonnade.schema.kinds import Measured


class Indicator(Number, frozen=True, tag="indicator", forbid_unknown_fields=True):
    """1 where the value of another column is missing, else 0. A schema adds it for a column with ``indicator=True``.

    Parameters
    ----------
    of, described
        The other column, and its description.
    """

    is_measured: ClassVar[bool] = False

    of: str
    described: Measured

    @property
    def low(self) -> float:
        """0: the value is there."""
        return 0.0

    @property
    def high(self) -> float:
        """1: it is missing."""
        return 1.0

    @property
    def indicates(self) -> str:
        """The other column."""
        return self.of

    @property
    def underlying(self) -> Measured:
        """The other column's description."""
        return self.described

    def read_from(self, name: str) -> tuple[str, ...]:
        """Return the other column."""
        return (self.of,)

    def is_same(self, other: ColumnKind | None) -> bool:
        """Return whether another description says the same: where a value is missing, whatever its bounds are."""
        return isinstance(other, Indicator) and self.of == other.of

    def __repr__(self) -> str:
        return f"Indicator({self.of!r})"
