"""What declared columns are read as: a number in bins or around a centre, two columns together, and where a value is missing."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import msgspec

from colonnade.errors import BadInput
from colonnade.schema.column import MISSING_LEVEL, Category, ColumnKind, Level, Number
from colonnade.schema.kinds import Measured


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
    >>> from colonnade.schema import Numeric
    >>> Bins(edges=[0, 10, 50, 100], of=Numeric(0, 100, missing=0), missing="level").levels
    ('[0, 10)', '[10, 50)', '[50, 100]', 'missing')
    >>> Bins(edges=[0, 50, 100], of=Numeric(0, 100, missing=0, na_values=[-999]), missing="level", codes=[-999]).levels
    ('[0, 50)', '[50, 100]', '-999', 'missing')
    """

    is_binned: ClassVar[bool] = True

    levels: Sequence[Level] = ()  # follows from the edges
    edges: Sequence[float]  # kept as a tuple of floats
    of: Measured
    codes: Sequence[float] = ()  # kept as a tuple of floats

    def __post_init__(self) -> None:
        if not isinstance(self.of, ColumnKind) or not self.of.is_measured:
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
    def equal(cls, of: Measured, bins: int, *, missing: bool = False) -> "Bins":
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

    @property
    def underlying(self) -> Measured:
        """The number or the date."""
        return self.of

    @property
    def missing_rule(self) -> str:
        """That of the number or the date, unless missing values have a bin of their own."""
        return self.of.missing_rule if self.missing is None else super().missing_rule

    def refines(self, declared: ColumnKind) -> bool:
        """Return whether a declared column may be read in these bins."""
        return self.of == declared or self.of.refines(declared)

    def in_words(self) -> str:
        """Return in how many bins it is read."""
        return f"in {self.size} bins"

    def __repr__(self) -> str:
        rule = ", missing='level'" if self.missing else ""
        special = f", codes={list(self.codes)!r}" if self.codes else ""
        return f"Bins(edges={list(self.edges)!r}, of={self.of!r}{rule}{special})"


def _checked_edges(edges: object, of: Measured) -> tuple[float, ...]:
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


def _checked_codes(codes: object, of: Measured) -> tuple[float, ...]:
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
    if not of.has_round_numbers or not set(numbers) <= declared:
        raise BadInput(
            "A code of bins is a number that the column's owner has declared among na_values.", remedy=example
        )
    return tuple(dict.fromkeys(numbers))


def _is_number(value: str | float) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _written_bins(edges: Sequence[float], of: Measured) -> list[str]:
    texts = of.written_edges(edges)
    bins = [f"[{low}, {high})" for low, high in pairwise(texts)]
    bins[-1] = f"[{texts[-2]}, {texts[-1]}]"
    return bins


AND = " & "
"""What stands between two columns, or two levels, that are read together."""


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
    >>> from colonnade.schema import Numeric
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
    def parts(self) -> "tuple[Bins | Category, Bins | Category]":
        """What each of the two is read as."""
        return self.of

    def read_from(self, name: str) -> tuple[str, ...]:
        """Return the two columns."""
        return self.names

    @property
    def missing_rule(self) -> str:
        """Those of the two."""
        return "; ".join(dict.fromkeys(part.missing_rule for part in self.of if part.missing_rule))

    def refines(self, declared: ColumnKind) -> bool:
        """No: it is a column of its own, which a schema checks by its parts (`Schema.allows`)."""
        return False

    def in_words(self) -> str:
        """Return in how many combinations the two are read."""
        return f"together in {self.size} combinations"

    def __repr__(self) -> str:
        return f"Crossed(names={self.names!r}, of={self.of!r})"


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


class Centred(Number, frozen=True):
    """A number that is coded around a centre of its own. A null record has the centre, and so is coded as 0.

    No plan and no message holds one. A party makes it from a release of its own that its ledger keeps, and the coordinator from
    the same release (`colonnade.steps.spreads`).

    Parameters
    ----------
    of
        The number between its bounds, to which values are clipped.
    centre, half
        The number that is coded as 0, and how far from it one is that is coded as 1: no nearer than the bounds.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> Centred(Numeric(0, 50), 10.0, 40.0).coded_bounds
    (-30.0, 50.0)
    """

    is_measured: ClassVar[bool] = False
    is_centred: ClassVar[bool] = True

    of: Number
    centre: float
    half: float

    @property
    def low(self) -> float:
        """The lower bound."""
        return self.of.low

    @property
    def high(self) -> float:
        """The upper bound."""
        return self.of.high

    @property
    def coded_bounds(self) -> tuple[float, float]:
        """The numbers that are mapped to −1 and 1."""
        return self.centre - self.half, self.centre + self.half

    @property
    def midpoint(self) -> float:
        """The centre, which a null record has."""
        return self.centre

    @property
    def half_range(self) -> float:
        """How far from the centre a number is that is coded as 1."""
        return self.half

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return self.of.whole

    @property
    def fill(self) -> float | None:
        """The number that a missing value counts as; ``None`` where the schema has no rule for it."""
        return self.of.fill

    @property
    def underlying(self) -> "Measured":
        """The number between its bounds."""
        return self.of

    def refines(self, declared: ColumnKind) -> bool:
        """Return whether a declared column may be read as this one: its bounds lie inside."""
        return self.of == declared or self.of.refines(declared)
