"""What every kind of column says about itself, and the two that every other one refines: a number, and one of a list of levels.

Descriptions are declared, never inferred (`colonnade.schema`). A column may also be *read as* another, coarser description:
numbers in bins or between narrower bounds, two columns together. A step then says so. What a person's cell becomes still depends
on that person's row alone and stays within public bounds, so sensitivities, prices and proofs are those of any column of that
description. Every party checks that a reading *refines* what its owner has declared: bounds inside the declared ones, the same
rules for what is no number, bins that cover the bounds. A reading never shows what the schema does not already say that there is.
"""

import math
import re
import sys
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from colonnade.errors import BadInput, BoundsRequired

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

    is_centred: ClassVar[bool] = False
    """Whether it is coded around another number than the midpoint of its bounds."""

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

    @property
    def coded_bounds(self) -> tuple[float, float]:
        """The numbers that are mapped to −1 and 1."""
        return self.low, self.high

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


THOUSANDS = (",", ".", "'", "_", " ", "\u00a0", "\u202f", "\u2019")
"""What may stand between groups of digits: comma, point, apostrophe, underscore, the spaces, and the typographic apostrophe."""

EXPONENT = r"([eE][+-]?\d+)?"
INFINITY = r"[iI][nN][fF]([iI][nN][iI][tT][yY])?"
NUMBER = rf"^[+-]?((\d+\.?\d*|\.\d+){EXPONENT}|{INFINITY})$"


class Number(ColumnKind, frozen=True):
    """A column that is coded as one number between public bounds: whatever an owner declares with bounds, or `Indicator`.

    Every one that is made passes here: from a schema, a reading in a plan, a reading that arrives at a party. Coding divides by
    half the range, and clipping rests on that. Bounds so close that half the range is 0, or rounds to 0 beside the numbers
    themselves, would turn clipping off.
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


LARGEST_DOMAIN = 4096
MISSING_LEVEL = "missing"


class Category(ColumnKind, frozen=True, tag="category", forbid_unknown_fields=True, omit_defaults=True):
    """One of a public list of levels.

    Parameters
    ----------
    levels
        Texts, whole numbers or booleans: every value that the column may have in any data whatever.
    missing
        ``"excluded"``: a person without a value has no level, and is left out of what is counted by this column. ``"level"``: a
        missing value counts as a further level, ``"missing"``. Without a rule a table with missing values is refused.
    other
        The level that a value outside the list counts as: one of the list, or a further one. Without it a table with such
        values is refused.
    na_values
        What else counts as missing, besides an empty cell: texts such as ``"?"``.

    Examples
    --------
    >>> Category(["basic", "gold", "platinum"]).size
    3
    >>> Category(["basic", "gold"], missing="level", other="other").levels
    ('basic', 'gold', 'other', 'missing')
    """

    needed: ClassVar[tuple[str, ...]] = ("levels",)
    cells_in_words: ClassVar[str] = "text or whole numbers"

    levels: Sequence[Level]  # kept as a tuple, with the levels that the rules add
    missing: Literal["excluded", "level"] | None = None
    other: Level | None = None
    na_values: Sequence[str] = ()  # kept as a tuple

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) or not isinstance(self.levels, Sequence):
            raise BadInput("A category takes a list of levels.", remedy='For example cn.Category(["no", "yes"]).')
        self._check_rules()
        named = [plain_level(level) for level in self.levels]
        added = [*([] if self.other is None else [self.other]), *([MISSING_LEVEL] if self.missing == "level" else [])]
        known = {str(level) for level in named}
        levels = (*named, *(level for level in added if str(level) not in known))
        msgspec.structs.force_setattr(self, "levels", levels)
        if any(not isinstance(level, str | bool | int) for level in levels):
            raise BadInput(
                "The levels of a category are strings, whole numbers or booleans.",
                remedy='For example cn.Category(["no", "yes"]) or cn.Category([1, 2, 3]).',
            )
        if not 1 <= len(levels) <= LARGEST_DOMAIN:
            raise BadInput(
                f"A category has between 1 and {LARGEST_DOMAIN} levels, not {len(levels)}.",
                remedy="Group rare levels together, or describe a number by its bounds: cn.Numeric(0, 120).",
            )
        if len({str(level) for level in levels}) != len(levels):
            raise BadInput(
                "The levels of a category must differ, also when written as text.",
                remedy="Name each level once; 1 and '1' are the same level.",
            )
        if {str(level) for level in levels} & set(self.na_values):
            raise BadInput("A level of a category is also among its na_values.", remedy="Leave it out of one of them.")

    def _check_rules(self) -> None:
        if self.missing not in (None, "excluded", "level"):
            rules = (
                '"excluded" leaves people without a value out of counts; "level" counts them as a level of their own.'
            )
            raise BadInput('missing= of a category is "excluded" or "level".', remedy=rules)
        require_texts(self.na_values)
        msgspec.structs.force_setattr(self, "na_values", tuple(map(str, self.na_values)))
        if self.other is not None:
            msgspec.structs.force_setattr(self, "other", plain_level(self.other))

    @property
    def excludes(self) -> bool:
        """Whether a person may have no level here, and is then left out of counts."""
        return self.missing == "excluded"

    @property
    def missing_code(self) -> int:
        """The place of the level that a missing value counts as; −1 for none."""
        return self._code(MISSING_LEVEL) if self.missing == "level" else -1

    @property
    def other_code(self) -> int | None:
        """The place of the level that a value outside the list counts as; ``None`` where the schema has no rule for it."""
        return None if self.other is None else self._code(str(self.other))

    def _code(self, level: str) -> int:
        return [str(one) for one in self.levels].index(level)

    @property
    def missing_rule(self) -> str:
        """What is declared about missing and unlisted values, in words; nothing where nothing is declared."""
        rules = {
            "excluded": "a person without a value is left out of counts",
            "level": "a missing value is a level of its own",
        }
        parts = [rules[self.missing]] if self.missing is not None else []
        return "; ".join(parts if self.other is None else [*parts, f"a value outside the list counts as {self.other}"])

    def with_missing_level(self) -> "Category":
        """Return the column with a level for missing values, where it would leave people out without one."""
        return msgspec.structs.replace(self, missing="level") if self.excludes else self

    def refines(self, declared: ColumnKind) -> bool:
        """Return whether a declared column may be read as this one: missing values become a level, and nothing else changes.

        Examples
        --------
        >>> segment = Category(["basic", "gold"], missing="excluded")
        >>> Category(["basic", "gold"], missing="level").refines(segment), Category(["basic"]).refines(segment)
        (True, False)
        """
        return declared.excludes and self == declared.with_missing_level()

    def __repr__(self) -> str:
        return written(self, [repr(list(self.levels))], skip=("levels",))


def plain_level(level: Level) -> Level:
    """Return text as plain text: a numpy string would not travel."""
    return str(level) if isinstance(level, str) else level
