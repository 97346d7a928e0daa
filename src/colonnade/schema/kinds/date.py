"""A date between two public dates."""

import datetime as dt
import math
from collections.abc import Collection, Sequence
from typing import ClassVar

import msgspec

from colonnade.errors import BadInput, BoundsRequired
from colonnade.schema.column import Number, refuse_lonely_indicator, require_flags, require_texts, written

DAY = r"^(\d{4}-\d{2}-\d{2})([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?$"
EPOCH = dt.date(1970, 1, 1)


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

    needed: ClassVar[tuple[str, ...]] = ("first", "last")
    cell_type: ClassVar[str] = "datetime64[D]"
    cells_in_words: ClassVar[str] = "dates"
    time_format: ClassVar[str] = "%Y-%m-%d"
    noun: ClassVar[str] = "date"
    example: ClassVar[str] = "2024-02-29"

    first: str
    last: str
    missing: str | None = None
    indicator: bool = False
    na_values: Sequence[str] = ()  # kept as a tuple

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            msgspec.structs.force_setattr(self, name, iso_date(getattr(self, name)))
        if not self.first < self.last:
            raise BadInput("The first date of a column must be before its last.", remedy=_DATE_EXAMPLE)
        super().__post_init__()
        require_flags(indicator=self.indicator)
        require_texts(self.na_values)
        msgspec.structs.force_setattr(self, "na_values", tuple(map(str, self.na_values)))
        if self.missing is None:
            refuse_lonely_indicator(self.indicator)
            return
        msgspec.structs.force_setattr(self, "missing", iso_date(self.missing))
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

    @classmethod
    def lacks(cls, given: Collection[str]) -> tuple[str, str] | None:
        """Return what a declaration lacks: one of the two dates."""
        if set(cls.needed) <= set(given):
            return None
        return "a first and a last date", "Write both, such as first = 2020-01-01."

    @property
    def pattern(self) -> str:
        """A day in ISO form, also with a time of day."""
        return DAY

    @property
    def origin(self) -> float:
        """The first date."""
        return float((dt.date.fromisoformat(self.first) - EPOCH).days)

    def as_written(self, number: float) -> str:
        """Return the date that lies a number of days after the first, in ISO form."""
        return (dt.date.fromisoformat(self.first) + dt.timedelta(days=math.floor(number))).isoformat()

    @property
    def public_cells(self) -> Sequence[object]:
        """Both dates."""
        return (self.first, self.last)

    def written_edges(self, edges: Sequence[float]) -> list[str]:
        """Return the edges of bins as days, unless two of them would read alike."""
        days = [self.as_written(edge) for edge in edges]
        return days if len(set(days)) >= len(set(edges)) else [f"{edge:.17g}" for edge in edges]

    def in_sql(self, number: float) -> str:
        """Return a day as a literal of SQL."""
        return f"DATE '{self.as_written(number)}'"

    def narrowed(self, low: float, high: float) -> "Date":
        """Return the column between narrower bounds.

        Examples
        --------
        >>> Date("2020-01-01", "2029-12-31").narrowed(31, 366)
        Date('2020-02-01', '2021-01-01')
        """
        low, high = max(low, self.low), min(high, self.high)
        first, last = self.as_written(low), self.as_written(math.ceil(high))
        filled = None if self.missing is None else min(max(self.missing, first), last)
        return msgspec.structs.replace(self, first=first, last=last, missing=filled)

    def in_words(self) -> str:
        """Return between which dates it is read."""
        return f"between {self.first} and {self.last}"

    def __repr__(self) -> str:
        return written(self, [repr(self.first), repr(self.last)], skip=("first", "last"))


_DATE_EXAMPLE = 'For example cn.Date("2020-01-01", "2024-12-31").'


def iso_date(value: object) -> str:
    """Return a date in ISO form, from a text or a date."""
    if isinstance(value, dt.datetime):
        value = value.date()
    try:
        return value.isoformat() if isinstance(value, dt.date) else dt.date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise BoundsRequired("A column of dates needs a public first and last date.", remedy=_DATE_EXAMPLE) from None
