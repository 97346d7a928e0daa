"""Columns read as something coarser than declared: numbers in bins, or between narrower bounds.

A step may say that a declared column is read as another public description. What a person's cell becomes still depends on that
cell alone and stays within public bounds, so sensitivities, prices and proofs are those of any column of that description.
Nothing but the step says how a column is read, and every party checks that the reading *refines* what its owner has declared
(`refines`): bounds inside the declared ones, the same rules for what is no number, bins that cover the bounds. A reading never
shows what the schema does not already say that there is.

Two columns of one party may also be read together, as one category (`Crossed`). It depends on two cells of one person's row, and
a person is in one of its levels: it counts as one more column.

Examples
--------
>>> age = Numeric(18, 95, integer=True)
>>> Bins.equal(age, 4).levels
('[18, 38)', '[38, 57)', '[57, 77)', '[77, 95]')
>>> refines(Numeric(20, 60, integer=True), age), refines(Numeric(0, 60, integer=True), age)
(True, False)
"""

import datetime as dt
import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from colonnade.errors import BadInput
from colonnade.schema.column import MISSING_LEVEL, Category, Date, Level, Numeric

_DIGITS = (6, 9, 12, 17)
AND = " & "
"""What stands between two columns, or two levels, that are read together."""


class Bins(Category, frozen=True, tag="bins", kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A number or a date as one of several public bins. It is a category, whose levels are the bins in order.

    A value is first clipped to the bounds, and rounded where the column has whole numbers. A bin holds its lower edge and not its
    upper one; the last holds both. A null record is in no bin.

    Parameters
    ----------
    edges
        Where bins begin and end, in the column's own unit (days since the first date for dates): one more than there are bins.
        The first and the last are the bounds. A last bin that holds a single number has both its edges there.
    of
        The column, as it is declared or read.
    missing
        ``"level"`` makes a missing value a bin of its own, the last. By default it is where its declared fill value is.
    codes
        Numbers that stand for something else than a quantity, such as -999 for "not asked". Each is a bin of its own. The owner
        has declared them among the column's ``na_values``.

    Examples
    --------
    >>> Bins(edges=[0, 10, 50, 100], of=Numeric(0, 100, missing=0), missing="level").levels
    ('[0, 10)', '[10, 50)', '[50, 100]', 'missing')
    >>> Bins(edges=[0, 50, 100], of=Numeric(0, 100, missing=0, na_values=[-999]), missing="level", codes=[-999]).levels
    ('[0, 50)', '[50, 100]', '-999', 'missing')
    """

    levels: Sequence[Level] = ()  # follows from the edges
    edges: Sequence[float]  # kept as a tuple of floats
    of: Numeric | Date
    codes: Sequence[float] = ()  # kept as a tuple of floats

    def __post_init__(self) -> None:
        if not isinstance(self.of, Numeric | Date):
            raise BadInput("Only a number or a date is put in bins.", remedy="A category has its levels already.")
        if self.missing not in (None, "level") or self.other is not None or self.na_values:
            raise BadInput(
                'missing= of bins is "level", or left out.', remedy="Other rules are those of the column itself."
            )
        msgspec.structs.force_setattr(self, "edges", _checked_edges(self.edges, self.of))
        msgspec.structs.force_setattr(self, "codes", _checked_codes(self.codes, self.of))
        special = [f"{code:.17g}" for code in self.codes]
        found = (*_written_bins(self.edges, self.of), *special, *([MISSING_LEVEL] if self.missing == "level" else []))
        if self.levels and tuple(self.levels) != found:
            raise BadInput("The levels of bins follow from their edges.", remedy="Leave levels= out.")
        msgspec.structs.force_setattr(self, "levels", found)
        super().__post_init__()

    @classmethod
    def equal(cls, of: Numeric | Date, bins: int, *, missing: bool = False) -> "Bins":
        """Return bins of equal width; of whole numbers at most one per number.

        Parameters
        ----------
        of
            The column.
        bins
            How many.
        missing
            Whether a missing value is a bin of its own.
        """
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
            raise BadInput("The number of bins is a positive whole number.", remedy="For example bins=16.")
        low, high = of.low, of.high
        if of.whole:
            first, numbers = math.ceil(low), math.floor(high) - math.ceil(low) + 1
            count = min(bins, numbers)
            inner = [float(first + math.ceil(place * numbers / count)) for place in range(1, count)]
        else:
            inner = [low + (high - low) * place / bins for place in range(1, bins)]
        return cls(edges=(low, *inner, high), of=of, missing="level" if missing else None)

    @property
    def inner(self) -> tuple[float, ...]:
        """The edges between bins."""
        return tuple(self.edges[1:-1])

    @property
    def middles(self) -> tuple[float, ...]:
        """The middle of every bin, in the column's own unit; a code and a bin of missing values have none."""
        return tuple(low / 2 + high / 2 for low, high in pairwise(self.edges))

    def __repr__(self) -> str:
        rule = ", missing='level'" if self.missing else ""
        special = f", codes={list(self.codes)!r}" if self.codes else ""
        return f"Bins(edges={list(self.edges)!r}, of={self.of!r}{rule}{special})"


class Crossed(Category, frozen=True, tag="crossed", kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Two columns of one party, read together: a category with one level per combination, the second column's fastest.

    A person who has no level in one of them has none here.

    Parameters
    ----------
    names
        What the party calls the two columns.
    of
        What each is read as: a category or bins.

    Examples
    --------
    >>> age, segment = Bins.equal(Numeric(18, 95), 2), Category(["basic", "gold"])
    >>> crossed = Crossed(names=("age", "segment"), of=(age, segment))
    >>> crossed.name, crossed.levels[0], crossed.size
    ('age & segment', '[18, 56.5) & basic', 4)
    """

    levels: Sequence[Level] = ()  # follows from those of the two
    names: tuple[str, str]
    of: tuple[Bins | Category, Bins | Category]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "names", tuple(map(str, self.names)))
        msgspec.structs.force_setattr(self, "of", tuple(self.of))
        both = all(isinstance(one, Category) and not isinstance(one, Crossed) for one in self.of)
        if not both or len(self.of) != 2 or len(set(self.names)) != 2 or len(self.names) != 2:
            raise BadInput(
                "Two columns that are read together are two different categories, or numbers in bins.",
                remedy='For example Crossed(names=("age", "segment"), of=(Bins.equal(age, 4), segment)).',
            )
        if self.missing is not None or self.other is not None or self.na_values:
            raise BadInput("Columns that are read together have no rules but their own.", remedy="Leave them out.")
        found = tuple(f"{one}{AND}{other}" for one in self.of[0].levels for other in self.of[1].levels)
        if self.levels and tuple(self.levels) != found:
            raise BadInput("The levels of columns that are read together are theirs.", remedy="Leave levels= out.")
        msgspec.structs.force_setattr(self, "levels", found)
        super().__post_init__()

    @property
    def name(self) -> str:
        """What it is called at the party."""
        return AND.join(self.names)

    @property
    def shape(self) -> tuple[int, int]:
        """How many levels each of the two has."""
        return self.of[0].size, self.of[1].size

    def __repr__(self) -> str:
        return f"Crossed(names={self.names!r}, of={self.of!r})"


def narrowed(column: Numeric | Date, low: float, high: float) -> Numeric | Date:
    """Return a column between narrower bounds, everything else as it was. A fill value is clipped with the rest.

    Parameters
    ----------
    column
        The column.
    low, high
        The bounds in its own unit (days since the first date for dates). They are clipped to the column's own.

    Examples
    --------
    >>> narrowed(Numeric(0, 1_000, missing=0), 20, 60)
    Numeric(20, 60, missing=20)
    >>> narrowed(Date("2020-01-01", "2029-12-31"), 31, 366)
    Date('2020-02-01', '2021-01-01')
    """
    low, high = max(low, column.low), min(high, column.high)
    if isinstance(column, Date):
        start = dt.date.fromisoformat(column.first)
        first, last = ((start + dt.timedelta(days=days)).isoformat() for days in (math.floor(low), math.ceil(high)))
        filled = None if column.missing is None else min(max(column.missing, first), last)
        return msgspec.structs.replace(column, first=first, last=last, missing=filled)
    if column.integer:
        low, high = math.floor(low), math.ceil(high)  # a fill value stays a whole number between them
        low, high = max(low, column.low), min(high, column.high)
    fill = None if column.missing is None else min(max(column.missing, low), high)
    return msgspec.structs.replace(column, lower=low, upper=high, missing=fill)


def refines(reading: object, declared: object) -> bool:
    """Return whether a declared column may be read as another description.

    Examples
    --------
    >>> segment = Category(["basic", "gold"], missing="excluded")
    >>> refines(Category(["basic", "gold"], missing="level"), segment), refines(Category(["basic"]), segment)
    (True, False)
    """
    if isinstance(reading, Crossed) or isinstance(declared, Crossed):
        return False  # it is a column of its own, which a schema checks by its parts (`Schema.allows`)
    if isinstance(reading, Bins):
        return not isinstance(declared, Bins) and (reading.of == declared or refines(reading.of, declared))
    if isinstance(reading, Numeric) and isinstance(declared, Numeric):
        inside = declared.low <= reading.low and reading.high <= declared.high
        return inside and reading == narrowed(declared, reading.low, reading.high)
    if isinstance(reading, Date) and isinstance(declared, Date):
        inside = declared.first <= reading.first and reading.last <= declared.last
        return inside and reading == narrowed(declared, declared.days(reading.first), declared.days(reading.last))
    if isinstance(reading, Category) and isinstance(declared, Category) and not isinstance(declared, Bins):
        return declared.excludes and reading == msgspec.structs.replace(declared, missing="level")
    return False


def in_words(reading: object) -> str:
    """Return how a column is read, to stand behind its name.

    Examples
    --------
    >>> in_words(Numeric(20, 60)), in_words(Bins.equal(Numeric(0, 1), 4))
    ('between 20 and 60', 'in 4 bins')
    """
    if isinstance(reading, Bins):
        return f"in {reading.size} bins"
    if isinstance(reading, Crossed):
        return f"together in {reading.size} combinations"
    if isinstance(reading, Numeric):
        return f"between {reading.lower:g} and {reading.upper:g}"
    if isinstance(reading, Date):
        return f"between {reading.first} and {reading.last}"
    return "with missing values as a level"


def _checked_edges(edges: object, of: Numeric | Date) -> tuple[float, ...]:
    example = f"For example edges=[{of.low:g}, {of.midpoint:g}, {of.high:g}]."
    if isinstance(edges, str) or not isinstance(edges, Sequence) or len(edges) < 2:
        raise BadInput("Bins take a list of at least two edges.", remedy=example)
    try:
        numbers = tuple(float(edge) for edge in edges)
    except (TypeError, ValueError, OverflowError):
        raise BadInput("The edges of bins are numbers.", remedy=example) from None
    if numbers[0] != of.low or numbers[-1] != of.high:
        raise BadInput("The first and the last edge of bins are the column's bounds.", remedy=example)
    rising = all(low < high for low, high in pairwise(numbers[:-1]))
    if not rising or not numbers[-2] <= numbers[-1]:
        raise BadInput("The edges of bins rise.", remedy=example)
    return numbers


def _checked_codes(codes: object, of: Numeric | Date) -> tuple[float, ...]:
    example = "Declare it: cn.Numeric(0, 100, missing=0, na_values=[-999])."
    if isinstance(codes, str) or not isinstance(codes, Sequence):
        raise BadInput("The codes of bins are a list of numbers.", remedy="For example codes=[-999].")
    if not codes:
        return ()
    try:
        numbers = tuple(float(code) for code in codes)
        declared = {float(value) for value in of.na_values if _is_number(value)}
    except (TypeError, ValueError, OverflowError):
        raise BadInput("The codes of bins are numbers.", remedy="For example codes=[-999].") from None
    if isinstance(of, Date) or not set(numbers) <= declared:
        raise BadInput(
            "A code of bins is a number that the column's owner has declared among na_values.", remedy=example
        )
    return tuple(dict.fromkeys(numbers))


def _is_number(value: str | float) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _written_bins(edges: Sequence[float], of: Numeric | Date) -> list[str]:
    texts = _written_edges(edges, of)
    bins = [f"[{low}, {high})" for low, high in pairwise(texts)]
    bins[-1] = f"[{texts[-2]}, {texts[-1]}]"
    return bins


def _written_edges(edges: Sequence[float], of: Numeric | Date) -> list[str]:
    if isinstance(of, Date):
        start = dt.date.fromisoformat(of.first)
        days = [(start + dt.timedelta(days=math.floor(edge))).isoformat() for edge in edges]
        return days if len(set(days)) >= len(set(edges)) else [f"{edge:.17g}" for edge in edges]
    for digits in _DIGITS:
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) >= len(set(edges)):
            return texts
    return texts
