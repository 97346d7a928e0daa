"""A number between public bounds."""

import math
import re
import sys
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from colonnade.errors import BadInput, BoundsRequired
from colonnade.schema.column import ColumnKind, is_finite, plain_number, refuse_lonely_indicator, require_flags, written

THOUSANDS = (",", ".", "'", "_", " ", "\u00a0", "\u202f", "\u2019")
"""What may stand between groups of digits: comma, point, apostrophe, underscore, the spaces, and the typographic apostrophe."""

EXPONENT = r"([eE][+-]?\d+)?"
INFINITY = r"[iI][nN][fF]([iI][nN][iI][tT][yY])?"
NUMBER = rf"^[+-]?((\d+\.?\d*|\.\d+){EXPONENT}|{INFINITY})$"


class Number(ColumnKind, frozen=True):
    """A column that is coded as one number between public bounds: whatever an owner declares with bounds, or `Indicator`.

    Whoever makes one passes here: a schema, a reading in a plan, a reading that arrives at a party. Coding divides by half the
    range, and clipping rests on that. Bounds so close that half the range is 0, or rounds to 0 beside the numbers themselves,
    would turn clipping off.
    """

    is_number: ClassVar[bool] = True
    is_measured: ClassVar[bool] = True  # unless it is an indicator

    time_format: ClassVar[str] = ""
    """How a time is written as text, as `datetime.datetime.strptime` has it."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise BadInput(
                f"The lower bound of a column must be below its upper bound: {self.low:g} is not below {self.high:g}.",
                remedy="For example cn.Numeric(0, 120).",
            )
        farthest = max(abs(self.low), abs(self.high))
        apart = self.half_range >= sys.float_info.min and self.half_range > math.ulp(farthest)
        if not apart or not math.isfinite(abs(self.low) + abs(self.high)):
            raise BadInput(
                f"The bounds {self.low!r} and {self.high!r} are too close together, or too far apart, to compute with.",
                remedy="Count in another unit at the source, so that the bounds are ordinary numbers: cn.Numeric(0, 120).",
            )
        if self.whole and math.ceil(self.low) > math.floor(self.high):
            raise BadInput(
                "There is no whole number between the bounds of an integer column.",
                remedy="Widen the bounds, or leave integer=True out of cn.Numeric.",
            )

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return True

    # How its cells are read. `colonnade.schema.encoders` does it, and knows no kind.

    @property
    def pattern(self) -> str:
        """Of times and lengths of time, the first group is what is read."""
        return NUMBER

    @property
    def signs(self) -> Sequence[tuple[str, str, str]]:
        """What stands in a number that is written as text, by a name: the sign, and what is read instead."""
        return ()

    @property
    def origin(self) -> float:
        """The time that counts as 0, in units since 1970. Numbers and lengths of time have their own 0."""
        return 0.0

    def written_edges(self, edges: Sequence[float]) -> list[str]:
        """Return the edges of bins in as few digits as tell them apart."""
        for digits in (6, 9, 12, 17):
            texts = [f"{edge:.{digits}g}" for edge in edges]
            if len(set(texts)) >= len(set(edges)):
                break
        return texts

    def in_sql(self, number: float) -> str:
        """Return a number of this column as a literal of SQL."""
        return f"{number:.17g}"

    def refines(self, declared: ColumnKind) -> bool:
        """Return whether a declared column may be read as this one: bounds inside, and nothing else changes.

        Examples
        --------
        >>> Numeric(20, 60).refines(Numeric(18, 95)), Numeric(0, 60).refines(Numeric(18, 95))
        (True, False)
        """
        if not isinstance(declared, type(self)) or not self.is_measured:
            return False
        later = self.origin - declared.origin
        low, high = self.low + later, self.high + later
        return declared.low <= low <= high <= declared.high and self == declared.narrowed(low, high)


class Numeric(Number, frozen=True, tag="numeric", forbid_unknown_fields=True, omit_defaults=True):
    """A number with public bounds. A value outside them is clipped.

    Parameters
    ----------
    lower, upper
        Finite bounds that hold for any data whatever, not the extremes of this table. Floats between them can be told apart.
    integer
        Whether values are whole numbers (moments need that); others are then rounded.
    missing
        The public number that a missing value counts as. Choose it without looking at this table. Without it a table with
        missing values is refused.
    indicator
        Whether a second column goes wherever this one goes: 1 where the value is missing, else 0. Its name is this column's
        with ``_missing`` after it.
    na_values
        What else counts as missing, besides an empty cell: texts such as ``"?"``, numbers such as −999.
    thousands, decimal
        How numbers are written as text: what stands between groups of digits (nothing by default), and before the fraction.

    Examples
    --------
    >>> Numeric(0, 120).midpoint
    60.0
    >>> Numeric(0, 1_000_000, missing=0, na_values=["?"], thousands=",")
    Numeric(0, 1000000, missing=0, na_values=('?',), thousands=',')
    """

    needed: ClassVar[tuple[str, ...]] = ("lower", "upper")
    cell_type: ClassVar[str] = "float64"
    cells_in_words: ClassVar[str] = "numbers"
    has_round_numbers: ClassVar[bool] = True
    noun: ClassVar[str] = "number"
    example: ClassVar[str] = "1234.5"

    lower: float | int | None = None
    upper: float | int | None = None
    integer: bool = msgspec.field(default_factory=bool)  # always written: the names of schemas are hashes with it
    missing: float | int | None = None
    indicator: bool = False
    na_values: Sequence[str | float | int] = ()  # kept as a tuple
    thousands: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            bound = getattr(self, name)
            if bound is None:
                raise BoundsRequired("A numeric column needs a public lower and upper bound.")
            if not is_finite(bound):
                raise BoundsRequired("The bounds of a numeric column must be finite numbers.")
            msgspec.structs.force_setattr(self, name, plain_number(bound))
        require_flags(integer=self.integer, indicator=self.indicator)
        super().__post_init__()
        self._check_fill()
        self._check_text()

    def _check_fill(self) -> None:
        if self.missing is None:
            refuse_lonely_indicator(self.indicator)
            return
        if not is_finite(self.missing) or not self.low <= self.missing <= self.high:
            raise BadInput(
                "missing= is the number that a missing value counts as, and lies between the bounds.",
                remedy=f"For example cn.Numeric({self.lower!r}, {self.upper!r}, missing={self.lower!r}).",
            )
        if self.integer and float(self.missing) != math.floor(self.missing):
            raise BadInput(
                "missing= of a column of whole numbers is a whole number.",
                remedy="Choose a whole number between the bounds.",
            )
        msgspec.structs.force_setattr(self, "missing", plain_number(self.missing))

    def _check_text(self) -> None:
        given: object = self.na_values
        is_list = isinstance(given, Sequence) and not isinstance(given, str)
        if not is_list or any(not isinstance(value, str) and not is_finite(value) for value in self.na_values):
            raise BadInput(
                "na_values is a list of texts or numbers.", remedy='For example na_values=["?", "NA", -999].'
            )
        kept = tuple(str(value) if isinstance(value, str) else plain_number(value) for value in self.na_values)
        msgspec.structs.force_setattr(self, "na_values", kept)
        if self.decimal not in (".", ","):
            raise BadInput('decimal is "." or ",".', remedy='For example decimal="," for 3,50.')
        if self.thousands is not None and (self.thousands not in THOUSANDS or self.thousands == self.decimal):
            raise BadInput(
                "thousands is one sign that stands between groups of digits, and another one than decimal.",
                remedy='For example thousands="," for 1,234.00, or thousands=".", decimal="," for 1.234,00.',
            )

    @property
    def low(self) -> float:
        """The lower bound as a float."""
        return float(self.lower)  # type: ignore[arg-type]  # checked above

    @property
    def high(self) -> float:
        """The upper bound as a float."""
        return float(self.upper)  # type: ignore[arg-type]  # checked above

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return self.integer

    @property
    def fill(self) -> float | None:
        """The number that a missing value counts as; ``None`` where the schema has no rule for it."""
        return None if self.missing is None else float(self.missing)

    @property
    def pattern(self) -> str:
        """Groups have three digits, or two where a group of three comes last: 1,23 is no number where a comma stands between.

        Examples
        --------
        >>> bool(re.match(Numeric(0, 1, thousands=",").pattern, "1,234.50"))
        True
        """
        if self.thousands is None and self.decimal == ".":
            return NUMBER
        point = re.escape(self.decimal)
        grouped = ""
        if self.thousands is not None:
            between = re.escape(self.thousands)
            grouped = rf"\d{{1,3}}({between}\d{{2,3}})*{between}\d{{3}}({point}\d*)?|"
        return rf"^[+-]?(({grouped}(\d+({point}\d*)?|{point}\d+){EXPONENT})|{INFINITY})$"

    @property
    def signs(self) -> Sequence[tuple[str, str, str]]:
        """Those between groups of digits and before the fraction, where they are not the usual ones."""
        groups = [] if self.thousands is None else [("groups", self.thousands, "")]
        return groups if self.decimal == "." else [*groups, ("decimal", self.decimal, ".")]

    def written_with(self, thousands: str | None, decimal: str) -> "Numeric":
        """Return the column with numbers that are written otherwise."""
        return msgspec.structs.replace(self, thousands=thousands, decimal=decimal)

    def narrowed(self, low: float, high: float) -> "Numeric":
        """Return the column between narrower bounds.

        Examples
        --------
        >>> Numeric(0, 1_000, missing=0).narrowed(20, 60)
        Numeric(20, 60, missing=20)
        """
        low, high = max(low, self.low), min(high, self.high)
        if self.integer:
            low, high = math.floor(low), math.ceil(high)  # a fill value stays a whole number between them
            low, high = max(low, self.low), min(high, self.high)
        fill = None if self.missing is None else min(max(self.missing, low), high)
        return msgspec.structs.replace(self, lower=low, upper=high, missing=fill)

    def in_words(self) -> str:
        """Return between which bounds it is read."""
        return f"between {self.lower:g} and {self.upper:g}"

    def __repr__(self) -> str:
        return written(self, [repr(self.lower), repr(self.upper)], skip=("lower", "upper"))
