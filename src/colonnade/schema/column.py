"""What is public about one column: bounds of a number or a date, levels of a category, and what a missing value counts as.

Descriptions are declared, never inferred (`colonnade.schema`). A column may also be *read as* another, coarser description
(`colonnade.schema.readings`).
"""

import datetime as dt
import math
import sys
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Literal

import msgspec

from colonnade.errors import BadInput, BoundsRequired

Level = str | bool | int
LARGEST_DOMAIN = 4096
MISSING_LEVEL = "missing"
THOUSANDS = (",", ".", "'", "_", " ", "\u00a0", "\u202f", "\u2019")
"""What may stand between groups of digits: comma, point, apostrophe, underscore, the spaces, and the typographic apostrophe."""


class Number(msgspec.Struct, frozen=True):
    """A column that is coded as one number between public bounds: `Numeric`, `Date` or `Indicator`.

    Whoever makes one passes here: a schema, a reading in a plan, a reading that arrives at a party. Coding divides by half the
    range, and clipping rests on that. Bounds so close that half the range is 0, or rounds to 0 beside the numbers themselves,
    would turn clipping off.
    """

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
    def low(self) -> float:
        """The lower bound."""
        raise NotImplementedError

    @property
    def high(self) -> float:
        """The upper bound."""
        raise NotImplementedError

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return True

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
            if not _is_finite(bound):
                raise BoundsRequired("The bounds of a numeric column must be finite numbers.")
            msgspec.structs.force_setattr(self, name, _plain_number(bound))
        _require_flags(integer=self.integer, indicator=self.indicator)
        super().__post_init__()
        self._check_fill()
        self._check_text()

    def _check_fill(self) -> None:
        if self.missing is None:
            _refuse_lonely_indicator(self.indicator)
            return
        if not _is_finite(self.missing) or not self.low <= self.missing <= self.high:
            raise BadInput(
                "missing= is the number that a missing value counts as, and lies between the bounds.",
                remedy=f"For example cn.Numeric({self.lower!r}, {self.upper!r}, missing={self.lower!r}).",
            )
        if self.integer and float(self.missing) != math.floor(self.missing):
            raise BadInput(
                "missing= of a column of whole numbers is a whole number.",
                remedy="Choose a whole number between the bounds.",
            )
        msgspec.structs.force_setattr(self, "missing", _plain_number(self.missing))

    def _check_text(self) -> None:
        given: object = self.na_values
        is_list = isinstance(given, Sequence) and not isinstance(given, str)
        if not is_list or any(not isinstance(value, str) and not _is_finite(value) for value in self.na_values):
            raise BadInput(
                "na_values is a list of texts or numbers.", remedy='For example na_values=["?", "NA", -999].'
            )
        kept = tuple(str(value) if isinstance(value, str) else _plain_number(value) for value in self.na_values)
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

    def __repr__(self) -> str:
        return written(self, [repr(self.lower), repr(self.upper)], skip=("lower", "upper"))


class Date(Number, frozen=True, tag="date", forbid_unknown_fields=True, omit_defaults=True):
    """A date between two public dates, as the number of days since the first. A date outside is clipped.

    Texts are read as ISO 8601 (``2024-02-29``, also with a time of day, which is dropped). Columns of dates or of time stamps
    are read as they are.

    Parameters
    ----------
    first, last
        The public bounds, as ISO texts or `datetime.date` objects.
    missing
        The public date that a missing one counts as. Without it a table with missing dates is refused.
    indicator, na_values
        As in `Numeric`.

    Examples
    --------
    >>> Date("2020-01-01", "2024-12-31").high
    1826.0
    """

    first: str
    last: str
    missing: str | None = None
    indicator: bool = False
    na_values: Sequence[str] = ()  # kept as a tuple

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            msgspec.structs.force_setattr(self, name, _iso_date(getattr(self, name)))
        if not self.first < self.last:
            raise BadInput("The first date of a column must be before its last.", remedy=_DATE_EXAMPLE)
        super().__post_init__()
        _require_flags(indicator=self.indicator)
        _require_texts(self.na_values)
        msgspec.structs.force_setattr(self, "na_values", tuple(map(str, self.na_values)))
        if self.missing is None:
            _refuse_lonely_indicator(self.indicator)
            return
        msgspec.structs.force_setattr(self, "missing", _iso_date(self.missing))
        if not self.first <= self.missing <= self.last:
            raise BadInput("missing= is a date between the first and the last.", remedy=f"For example {self.first!r}.")

    @property
    def low(self) -> float:
        """Day 0, the first date."""
        return 0.0

    @property
    def high(self) -> float:
        """The number of days from the first date to the last."""
        return float(self.days(self.last))

    @property
    def fill(self) -> float | None:
        """The day that a missing date counts as; ``None`` where the schema has no rule for it."""
        return None if self.missing is None else float(self.days(self.missing))

    def days(self, day: str) -> int:
        """Return how many days a date, in ISO form, is after the first."""
        return (dt.date.fromisoformat(day) - dt.date.fromisoformat(self.first)).days

    def __repr__(self) -> str:
        return written(self, [repr(self.first), repr(self.last)], skip=("first", "last"))


class Indicator(Number, frozen=True, tag="indicator", forbid_unknown_fields=True):
    """1 where the value of another column is missing, else 0. A schema adds it for a column with ``indicator=True``.

    Parameters
    ----------
    of, described
        The other column, and its description.
    """

    of: str
    described: Numeric | Date

    @property
    def low(self) -> float:
        """0: the value is there."""
        return 0.0

    @property
    def high(self) -> float:
        """1: it is missing."""
        return 1.0

    def __repr__(self) -> str:
        return f"Indicator({self.of!r})"


class Category(msgspec.Struct, frozen=True, tag="category", forbid_unknown_fields=True, omit_defaults=True):
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

    levels: Sequence[Level]  # kept as a tuple, with the levels that the rules add
    missing: Literal["excluded", "level"] | None = None
    other: Level | None = None
    na_values: Sequence[str] = ()  # kept as a tuple

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) or not isinstance(self.levels, Sequence):
            raise BadInput("A category takes a list of levels.", remedy='For example cn.Category(["no", "yes"]).')
        self._check_rules()
        named = [_plain_level(level) for level in self.levels]
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
        _require_texts(self.na_values)
        msgspec.structs.force_setattr(self, "na_values", tuple(map(str, self.na_values)))
        if self.other is not None:
            msgspec.structs.force_setattr(self, "other", _plain_level(self.other))

    @property
    def size(self) -> int:
        """How many levels there are."""
        return len(self.levels)

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

    def __repr__(self) -> str:
        return written(self, [repr(list(self.levels))], skip=("levels",))


_DATE_EXAMPLE = 'For example cn.Date("2020-01-01", "2024-12-31").'


def _plain_level(level: Level) -> Level:
    """Return text as plain text: a numpy string would not travel."""
    return str(level) if isinstance(level, str) else level


def _plain_number(value: object) -> float | int:
    """Return a number as Python's own: neither a numpy number nor a whole one of more than 64 bits would travel."""
    if isinstance(value, Integral) and -(2**63) <= int(value) < 2**63:
        return int(value)
    return float(value)  # type: ignore[arg-type]  # checked to be a number


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:  # a whole number beyond any float
        return False


def _iso_date(value: object) -> str:
    """Return a date in ISO form, from a text or a date."""
    if isinstance(value, dt.datetime):
        value = value.date()
    try:
        return value.isoformat() if isinstance(value, dt.date) else dt.date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise BoundsRequired("A column of dates needs a public first and last date.", remedy=_DATE_EXAMPLE) from None


def _require_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise BadInput(f"{name} is True or False.", remedy=f"Write {name}=True, or leave it out.")


def _require_texts(values: object) -> None:
    if isinstance(values, str) or not isinstance(values, Sequence) or any(not isinstance(one, str) for one in values):
        raise BadInput("na_values is a list of texts.", remedy='For example na_values=["?", "NA"].')


def _refuse_lonely_indicator(indicator: bool) -> None:
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
