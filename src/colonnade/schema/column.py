"""What every kind of column says about itself. A kind is a class of its own: a module beside this one.

Descriptions are declared, never inferred (`colonnade.schema`). A column may also be *read as* another, coarser description:
numbers in bins or between narrower bounds, two columns together. A step then says so. What a person's cell becomes still depends
on that person's row alone and stays within public bounds, so sensitivities, prices and proofs are those of any column of that
description. Every party checks that a reading *refines* what its owner has declared: bounds inside the declared ones, the same
rules for what is no number, bins that cover the bounds. A reading never shows what the schema does not already say that there is.
"""

import math
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, ClassVar

import msgspec

from colonnade.errors import BadInput

if TYPE_CHECKING:
    from colonnade.schema import Column

Level = str | bool | int


class ColumnKind(msgspec.Struct, frozen=True):
    """What anybody may ask of a column, with the answers of one that has nothing special to say."""

    needed: ClassVar[tuple[str, ...]] = ()
    """The fields that the declaration of such a column must have: they tell the kinds apart."""

    cell_type: ClassVar[str] = "object"
    """NumPy's type for a cell: an object that has levels, a number, or a time or a length of time in the unit that counts."""

    cells_in_words: ClassVar[str] = ""
    """What the cells have to be, where they are not texts."""

    @classmethod
    def lacks(cls, given: Collection[str]) -> tuple[str, str] | None:
        """Return what a declaration with some fields lacks, and how to write it; ``None`` where the class itself says so."""
        return None

    # What it is ----------------------------------------------------------------------------------------------------------

    is_number: ClassVar[bool] = False
    """Whether it is coded as one number between bounds; otherwise as the indicators of its levels."""

    is_measured: ClassVar[bool] = False
    """Whether it is a number, or a date, of the data source: one with quantiles, that may be narrowed or put in bins."""

    is_binned: ClassVar[bool] = False
    """Whether its levels are bins of a number or a date."""

    has_round_numbers: ClassVar[bool] = False
    """Whether its values are written as numbers, some of which are rounder than others."""

    noun: ClassVar[str] = "level"
    """What one of its values is, in a word."""

    example: ClassVar[str] = ""
    """How a value is written as text."""

    @property
    def pattern(self) -> str:
        """A regular expression of all texts that are read as a number of this column; Arrow and Python both know it."""
        return ""

    @property
    def public_cells(self) -> Sequence[object]:
        """Cells that follow from the description alone: all levels, or both bounds."""
        return (self.low, self.high) if self.is_number else self.levels

    # Where it comes from --------------------------------------------------------------------------------------------------

    @property
    def underlying(self) -> "Column":
        """The description of the cells that it is read from: its own, but for bins and indicators."""
        return self  # type: ignore[return-value]  # every kind is a column

    @property
    def indicates(self) -> str | None:
        """The column whose missing values it indicates; ``None`` for any other kind."""
        return None

    @property
    def parts(self) -> "tuple[Column, ...]":
        """What two columns that are read together are read as; nothing for a single column."""
        return ()

    def read_from(self, name: str) -> tuple[str, ...]:
        """Return the columns of the data source that it is read from, if it has this name itself."""
        return (name,)

    # Numbers --------------------------------------------------------------------------------------------------------------

    @property
    def low(self) -> float:
        """The lower bound of a number."""
        raise TypeError("Only a number has bounds.")

    @property
    def high(self) -> float:
        """The upper bound of a number."""
        raise TypeError("Only a number has bounds.")

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return False

    @property
    def fill(self) -> float | None:
        """The number that a missing value counts as; ``None`` where the schema has no rule for it."""
        return None

    @property
    def midpoint(self) -> float:
        """What a null record has: a person without a row at this party."""
        return self.low / 2 + self.high / 2

    @property
    def half_range(self) -> float:
        """How far each bound is from the midpoint: one unit once the bounds are mapped to [−1, 1]."""
        return self.high / 2 - self.low / 2

    def as_written(self, number: float) -> object:
        """Return a number of this column as its owner would write it."""
        return number

    # Levels ---------------------------------------------------------------------------------------------------------------

    @property
    def levels(self) -> Sequence[Level]:
        """The public list of levels; none of a number."""
        return ()

    @property
    def size(self) -> int:
        """How many levels there are."""
        return len(self.levels)

    @property
    def width(self) -> int:
        """How many coded columns it becomes, where it is not coded as a sign."""
        return 1 if self.is_number else self.size

    @property
    def edges(self) -> Sequence[float]:
        """Where bins begin and end."""
        return ()

    @property
    def inner(self) -> tuple[float, ...]:
        """The edges between bins."""
        return ()

    @property
    def middles(self) -> tuple[float, ...]:
        """The middle of every bin, in the column's own unit; a code and a bin of missing values have none."""
        return ()

    @property
    def codes(self) -> Sequence[float]:
        """Numbers that are bins of their own."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """What the party calls two columns that are read together."""
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        """How many levels each of two columns has that are read together."""
        return tuple(part.size for part in self.parts)

    # What does not fit ----------------------------------------------------------------------------------------------------

    @property
    def missing(self) -> object:
        """The rule for missing values; ``None`` for no rule."""
        return None

    @property
    def indicator(self) -> bool:
        """Whether a second column says where this one is missing."""
        return False

    @property
    def other(self) -> Level | None:
        """The level that a value outside the list counts as."""
        return None

    @property
    def na_values(self) -> Sequence[str | float | int]:
        """What else counts as missing, besides an empty cell."""
        return ()

    @property
    def excludes(self) -> bool:
        """Whether a person may have no level here, and is then left out of counts."""
        return False

    @property
    def missing_code(self) -> int:
        """The place of the level that a missing value counts as; −1 for none."""
        return -1

    @property
    def other_code(self) -> int | None:
        """The place of the level that a value outside the list counts as; ``None`` where the schema has no rule for it."""
        return None

    @property
    def missing_rule(self) -> str:
        """What is declared about missing and unlisted values, in words; nothing where nothing is declared."""
        return "" if self.missing is None else f"a missing value counts as {self.missing}"

    def with_missing_level(self) -> "Column":
        """Return the column with a level for missing values, where it would leave people out without one."""
        return self  # type: ignore[return-value]  # every kind is a column

    def written_with(self, thousands: str | None, decimal: str) -> "Column":
        """Return the column with numbers that are written otherwise, where they are written as numbers."""
        return self  # type: ignore[return-value]  # every kind is a column

    # Read as something else -----------------------------------------------------------------------------------------------

    def narrowed(self, low: float, high: float) -> "Column":
        """Return a number or a date between narrower bounds, everything else as it was. A fill value is clipped with the rest.

        Parameters
        ----------
        low, high
            The bounds in its own unit (days since the first date for dates). They are clipped to the column's own.
        """
        raise TypeError("Only a number or a date has bounds to narrow.")

    def refines(self, declared: "ColumnKind") -> bool:
        """Return whether a declared column may be read as this one."""
        return False

    def is_same(self, other: "ColumnKind | None") -> bool:
        """Return whether another description says the same."""
        return self == other

    def in_words(self) -> str:
        """Return how a column is read, to stand behind its name."""
        return "with missing values as a level"


def plain_number(value: object) -> float | int:
    """Return a number as Python's own: neither a numpy number nor a whole one of more than 64 bits would travel."""
    if isinstance(value, Integral) and -(2**63) <= int(value) < 2**63:
        return int(value)
    return float(value)  # type: ignore[arg-type]  # checked to be a number


def is_finite(value: object) -> bool:
    """Return whether something is a finite number, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:  # a whole number beyond any float
        return False


def require_flags(**flags: object) -> None:
    """Refuse an option that is neither true nor false."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise BadInput(f"{name} is True or False.", remedy=f"Write {name}=True, or leave it out.")


def require_texts(values: object) -> None:
    """Refuse ``na_values`` that are no list of texts."""
    if isinstance(values, str) or not isinstance(values, Sequence) or any(not isinstance(one, str) for one in values):
        raise BadInput("na_values is a list of texts.", remedy='For example na_values=["?", "NA"].')


def refuse_lonely_indicator(indicator: bool) -> None:
    """Refuse an indicator of a column without a rule for missing values."""
    if indicator:
        raise BadInput(
            "indicator=True needs missing=: the public value that stands where the indicator is 1.",
            remedy="For example cn.Numeric(0, 120, missing=40, indicator=True).",
        )


def written(column: msgspec.Struct, first: list[str], *, skip: tuple[str, ...]) -> str:
    """Return a description as code: its first arguments, and those options that are not the default."""
    usual = {field.name: field.default for field in msgspec.structs.fields(column)} | {"integer": False}
    given = [(name, getattr(column, name)) for name in column.__struct_fields__ if name not in skip]
    options = [f"{name}={value!r}" for name, value in given if value != usual[name]]
    return f"{type(column).__name__}({', '.join([*first, *options])})"
