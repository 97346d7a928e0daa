"""What is public about a column: bounds of a number or a date, levels of a category, and what a missing value counts as.

A schema is declared, never inferred. A number outside its bounds is clipped. Whatever else does not fit has a rule in the
schema, or the table is refused when its owner opens it (`colonnade.party.table.checking`): what a table really contains is
private, so no rule may follow from it.

This package is also the only place that knows how a declared column becomes coded numbers and back, for fit, predict, export and
reports. `encoders` reads stored values, as Arrow arrays, as they are spelled, as numbers and dates, and turns them into numbers
within bounds or codes of levels. This module reads and writes names ``"party.column"``, maps numbers to [−1, 1] and levels to
indicators, and maps back to the columns' own units.

A name is ``"party.column"``, read and written in one place. It may arrive as any kind of string, such as numpy's own; what
leaves is plain ``str``, because messages, plans and files hold nothing else.

A *feature* is one coded column: a number mapped from its bounds to [−1, 1], or the indicator of one level. The order is that of
the columns given: parties as in the federation, then schema order, all levels of a category. A null record has the midpoint of
every number, so it is coded as 0, and is 0 in every indicator. A missing number is what the schema declares. A missing level is
0 in every indicator, unless the schema makes it a level of its own. A category of two levels may be coded as one *sign* instead:
−1 for the first level, +1 for the second, 0 for none.

Examples
--------
>>> Schema(age=Numeric(18, 95), segment=Category(["basic", "gold"]))
Schema(age=Numeric(18, 95), segment=Category(['basic', 'gold']))
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, BoundsRequired
from colonnade.schema.column import THOUSANDS, Category, ColumnKind, Level, Number, Numeric
from colonnade.schema.kinds import DECLARED, Measured
from colonnade.schema.kinds.date import Date
from colonnade.schema.readings import AND, Bins, Centred, Crossed, Indicator

__all__ = [
    "AND",
    "DECLARED",
    "THOUSANDS",
    "Bins",
    "Category",
    "Column",
    "Crossed",
    "Date",
    "Indicator",
    "Level",
    "Number",
    "Numeric",
    "Schema",
    "bins_between",
    "coded_around",
    "equal_bins",
    "in_units_of",
    "kind_declared_by",
    "read_together",
]

Column = Measured | Category | Bins | Crossed | Indicator
"""A column of any kind. Other packages ask the column (`colonnade.schema.column.ColumnKind`), and never of which kind it is."""


def kind_declared_by(fields: Collection[str]) -> tuple[type[Number | Category], tuple[str, ...]]:
    """Return the kind of a column whose declaration has some fields, and all fields that it may have.

    It is a number, unless a field that another kind needs says otherwise; such a field may still be added.

    Examples
    --------
    >>> [kind_declared_by(fields)[0].__name__ for fields in (["levels", "missing"], ["last"], ["upper"])]
    ['Category', 'Date', 'Numeric']
    """
    for kind in DECLARED.values():
        if kind is not Numeric and set(kind.needed) & set(fields):
            return kind, kind.__struct_fields__
    others = (field for kind in DECLARED.values() for field in kind.needed if kind is not Numeric)
    return Numeric, (*Numeric.__struct_fields__, *others)


def equal_bins(column: Column, bins: int, *, missing: bool = False) -> Column:
    """Return a number or a date in bins of equal width, of whole numbers at most one per number (`Bins.equal`)."""
    return Bins.equal(column, bins, missing=missing)  # type: ignore[arg-type]  # bins check it


def bins_between(
    column: Column, edges: Sequence[float], *, missing: bool = False, codes: Sequence[float] = ()
) -> Column:
    """Return a number or a date in bins with edges of their own (`Bins`)."""
    return Bins(edges=edges, of=column, missing="level" if missing else None, codes=codes)  # type: ignore[arg-type]  # likewise


def coded_around(column: Column, least: float, most: float) -> Column:
    """Return a number that is read between narrower bounds and coded around their middle, whatever the declared bounds cut off.

    Parameters
    ----------
    column
        A number or a date.
    least, most
        The bounds in its own unit, which may lie outside the declared ones. Of whole numbers they are whole.

    Examples
    --------
    >>> found = coded_around(Numeric(0, 1_000), -30, 50)
    >>> found.low, found.high, found.midpoint, found.half_range
    (0.0, 50.0, 10.0, 40.0)
    """
    narrow = column.narrowed(least, most)
    centre = least / 2 + most / 2 - (narrow.origin - column.origin)  # type: ignore[union-attr]  # what is narrowed is a number
    return Centred(narrow, centre, max(narrow.high - centre, centre - narrow.low))  # type: ignore[arg-type]  # likewise


def in_units_of(column: Column, half: float) -> Column:
    """Return a number that `coded_around` returned, with another distance from its centre coded as 1, as large or larger."""
    return msgspec.structs.replace(column, half=half)


def read_together(names: tuple[str, str], of: tuple[Column, Column]) -> Crossed:
    """Return two columns of one party, read together."""
    return Crossed(names=names, of=of)  # type: ignore[arg-type]  # it checks them


class Schema(Mapping[str, Column]):
    """The public description of one party's columns, in order.

    Parameters
    ----------
    **columns
        A `Numeric`, a `Category` or a `Date` for each column that may ever be read; also a single mapping, for names that are
        not identifiers. Behind a column with ``indicator=True`` stands its indicator, ``NAME_missing``.

    Examples
    --------
    >>> list(Schema({"zip code": Category(["north", "south"])}, age=Numeric(0, 120, missing=40, indicator=True)))
    ['zip code', 'age', 'age_missing']
    """

    def __init__(self, mapping: Mapping[str, Column] | None = None, /, **columns: Column) -> None:
        given = {
            str(name) if isinstance(name, str) else name: one for name, one in {**(mapping or {}), **columns}.items()
        }
        if not given:
            raise BadInput(
                "A schema needs at least one column.", remedy="For example cn.Schema(age=cn.Numeric(0, 120))."
            )
        self._columns: dict[str, Column] = {}
        for name, column in given.items():
            if not isinstance(name, str) or not name or "=" in name or not name.isprintable():
                raise BadInput(
                    "A column name is a non-empty printable string without '='.",
                    remedy="Rename the column in the data source, and in the schema.",
                )
            if not isinstance(column, ColumnKind) or column.parts:
                *others, last = (f"cn.{kind.__name__}" for kind in DECLARED.values())
                raise BoundsRequired(
                    f"Column {name!r} is described by {type(column).__name__}, not by {', '.join(others)} or {last}."
                )
            self._columns.setdefault(name, column)
            if isinstance(column, Number) and column.indicator:
                self._columns[_indicator_of(name)] = Indicator(name, column)
        self._check_indicators(given)

    def _check_indicators(self, given: Mapping[str, Column]) -> None:
        """Refuse a column that has the name of an indicator, and an indicator of no column here."""
        clash = [name for name, column in given.items() if self._columns[name] != column]
        if clash:
            raise BadInput(
                f"Column {clash[0]!r} has the name of the indicator that another column adds.",
                remedy="Rename the column in the data source, and in the schema.",
            )
        for name, column in self._columns.items():
            if isinstance(column, Indicator) and (
                _as_number(self._columns.get(column.of)) != column.described
                or not column.described.indicator
                or name != _indicator_of(column.of)
            ):
                raise BadInput(
                    f"Column {name!r} is the indicator of no column here.",
                    remedy="Describe the other column with indicator=True; its indicator is then added.",
                )

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        declared = ((name, column) for name, column in self.items() if column.indicates is None)
        return "Schema(" + ", ".join(f"{name}={column!r}" for name, column in declared) + ")"

    def read_as(self, readings: Mapping[str, Column]) -> "Schema":
        """Return the same columns, some of them read as other descriptions; the indicator of a number goes with it.

        Parameters
        ----------
        readings
            By the names of the columns. Each refines what stands here (`colonnade.schema.column`), or it is refused.

        Examples
        --------
        >>> Schema(age=Numeric(0, 120)).read_as({"age": Numeric(20, 60)})
        Schema(age=Numeric(20, 60))
        """
        read: dict[str, Column] = dict(self._columns)
        for name, reading in readings.items():
            if not self.allows(name, reading):
                raise BadInput(
                    f"Column {name!r} cannot be read like that: a reading has narrower bounds, bins between the bounds, or a "
                    "level for missing values, or it is two of these together, and nothing else changes.",
                    remedy="Start from the column's own description: federation.describe().",
                )
            read[name] = reading
        for name, column in read.items():
            if isinstance(column, Indicator):
                read[name] = Indicator(column.of, _as_number(read[column.of]) or column.described)
        together = {name: column for name, column in read.items() if column.parts}
        found = Schema({name: column for name, column in read.items() if name not in together})
        found._columns |= together  # only a reading has them: an owner declares columns one by one
        return found

    def allows(self, name: str, reading: Column) -> bool:
        """Return whether a column, or two that are read together, may be read so.

        Examples
        --------
        >>> schema, bins = Schema(age=Numeric(0, 120), plan=Category(["a", "b"])), Bins.equal(Numeric(0, 120), 4)
        >>> both = Crossed(names=("age", "plan"), of=(bins, Category(["a", "b"])))
        >>> schema.allows("age", bins), schema.allows("age & plan", both), schema.allows("age", both)
        (True, True, False)
        """
        declared = self._columns.get(name)
        if declared == reading:
            return True
        if isinstance(reading, Crossed) and declared is None and name == reading.name:
            parts = zip(reading.names, reading.of, strict=True)
            return all(own in self._columns and self.allows(own, one) for own, one in parts)
        return declared is not None and isinstance(reading, ColumnKind) and reading.refines(declared)

    def stored(self, name: str) -> tuple[str, ...]:
        """Return the columns of the data source that a column is read from."""
        return self._columns[name].read_from(name)


def _as_number(column: Column | None) -> Number | None:
    """Return the number that a column is, also one in bins or around a centre."""
    column = column.of if isinstance(column, Bins | Centred) else column
    return column if isinstance(column, Number) and column.is_measured else None


def _indicator_of(name: str) -> str:
    return f"{name}_missing"


# Names of columns, and the coded features that they become ---------------------------------------------------------------


class ColumnName(NamedTuple):
    """The name of one column of a federation.

    Parameters
    ----------
    party
        Who holds the column.
    column
        What the column is called there. It may contain dots itself.

    Examples
    --------
    >>> ColumnName.of("bank.age").party
    'bank'
    >>> str(ColumnName("bank", "age"))
    'bank.age'
    """

    party: str
    column: str

    @classmethod
    def of(cls, name: object) -> "ColumnName":
        """Read ``"party.column"``; refuse anything else."""
        text = plain_name(name)
        party, dot, column = text.partition(".")
        if not dot:
            raise BadInput(
                f"{text!r} does not name a column.",
                remedy="Columns are named 'party.column', for example 'bank.age'.",
            )
        return cls(party, column)

    def __str__(self) -> str:
        return f"{self.party}.{self.column}"


def plain_name(name: object) -> str:
    """Return a name as plain ``str``, also one that numpy made.

    Examples
    --------
    >>> import numpy as np
    >>> plain_name(np.str_("bank.age"))
    'bank.age'
    """
    if not isinstance(name, str):
        raise BadInput("Columns are named 'party.column'.", remedy="For example 'bank.age'.")
    return str(name)


def id_column(id: object, party: str) -> str:  # noqa: A002  # as in `Federation.simulate`
    """Return the name of a party's id column, from one name for all parties or a mapping of party to name.

    Examples
    --------
    >>> id_column("person_id", "bank"), id_column({"bank": "person_id", "telco": "msisdn"}, "telco")
    ('person_id', 'msisdn')
    """
    name = id.get(party) if isinstance(id, Mapping) else id
    if not isinstance(name, str) or not name:
        raise BadInput(
            f"id names no column for the party {party!r}.",
            remedy=f'Name one for all parties, id="person_id", or one per party: id={{"{party}": "person_id", ...}}.',
        )
    return str(name)


def plain_names(columns: object) -> list[str]:
    """Return a list of column names as plain ``str``; refuse what is no list, an empty one, and one that repeats a name."""
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise BadInput(
            "columns takes a list such as ['bank.age', 'telco.minutes'].",
            remedy="Pass a list of names, also for a single column: ['bank.age'].",
        )
    names = [plain_name(name) for name in columns]
    if len(set(names)) != len(names):
        raise BadInput("A column is named twice.", remedy="Name each column once.")
    return names


def parties_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the parties that hold some columns, in the order in which they come first.

    Examples
    --------
    >>> parties_of(["bank.age", "telco.bill", "bank.income"])
    ('bank', 'telco')
    """
    return tuple(dict.fromkeys(ColumnName.of(name).party for name in names))


def columns_at(party: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return what one party calls those of the columns that it holds.

    Examples
    --------
    >>> columns_at("bank", ["bank.age", "telco.bill", "bank.income"])
    ('age', 'income')
    """
    return tuple(name.column for name in map(ColumnName.of, names) if name.party == party)


def with_indicators(names: Sequence[str] | None, available: Mapping[str, Column]) -> list[str]:
    """Return columns with their indicators: one whose schema says ``indicator=True`` brings its indicator along.

    Parameters
    ----------
    names
        The columns that a study names; ``None`` for all.
    available
        All columns, by ``"party.column"``.

    Examples
    --------
    >>> from colonnade.schema import Schema
    >>> schema = Schema(age=Numeric(18, 95, missing=40, indicator=True))
    >>> with_indicators(["bank.age"], {f"bank.{name}": column for name, column in schema.items()})
    ['bank.age', 'bank.age_missing']
    """
    named = list(available) if names is None else plain_names(names)
    found = {name: indicated(name, column) for name, column in available.items()}
    return [*named, *(name for name, of in found.items() if of in named and name not in named)]


def indicated(name: str, column: Column) -> str | None:
    """Return the column that an indicator is about; ``None`` for any other column."""
    return None if column.indicates is None else str(ColumnName(ColumnName.of(name).party, column.indicates))


def stored_names(name: str, column: Column) -> list[str]:
    """Return the columns of a frame that a column of the model is read from.

    For an indicator that is the column that it is about, and for two columns that are read together these two.
    """
    party, own = ColumnName.of(name)
    return [str(ColumnName(party, stored)) for stored in column.read_from(own)]


Array = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Feature:
    """One coded column: where it comes from and how it was coded.

    Parameters
    ----------
    name
        ``"party.column"``, or ``"party.column=level"`` for an indicator.
    column
        The column it codes.
    kind
        ``"intercept"`` (always 1), ``"numeric"``, ``"level"`` (an indicator) or ``"sign"`` (−1 for the first of two
        levels, +1 for the second, 0 for none).
    low, high
        What is coded as −1 and 1 of a numeric column, its public bounds by default; what is no number has one coded unit in its
        own unit.
    levels
        The two names a sign column stands for.
    """

    name: str
    column: str
    kind: Literal["intercept", "numeric", "level", "sign"]
    low: float = -1.0
    high: float = 1.0
    levels: tuple[str, ...] = ()

    @property
    def party(self) -> str:
        """Who holds the column; nobody holds the intercept."""
        return "" if self.kind == "intercept" else ColumnName.of(self.column).party

    @property
    def centre(self) -> float:
        """The value in own units that is coded as 0."""
        return Numeric(self.low, self.high).midpoint

    @property
    def half_width(self) -> float:
        """How many own units one coded unit is."""
        return Numeric(self.low, self.high).half_range


INTERCEPT = Feature("1", "1", "intercept")
"""The constant column, first in every matrix: its products are the column sums."""


def features_of(columns: Mapping[str, Column], *, signed: Collection[str] = ()) -> tuple[Feature, ...]:
    """Return the coded columns of a public schema, the intercept first.

    Parameters
    ----------
    columns
        ``"party.column"`` to its public description, in the order of the federation.
    signed
        Two-level categories to code as one ±1 column, such as the target of a binary logistic regression.

    Examples
    --------
    >>> from colonnade.schema import Category
    >>> [f.name for f in features_of({"a.age": Numeric(0, 100), "b.plan": Category(["basic", "gold"])})]
    ['1', 'a.age', 'b.plan=basic', 'b.plan=gold']
    """
    unknown = set(signed) - set(columns)
    if not columns or unknown:
        raise BadInput(
            "Moments need at least one column, and a signed column must be one of them.",
            remedy="Add the column to columns=.",
        )
    coded = [INTERCEPT]
    for name, column in columns.items():
        coded.extend(_coded(name, column, signed=name in signed))
    return tuple(coded)


def _coded(name: str, column: Column, *, signed: bool) -> list[Feature]:
    if column.is_number:
        if signed:
            raise BadInput(
                f"Column {name!r} is numeric; only a category of two levels can be coded as a sign.",
                remedy="Choose a target with two levels, or describe the column as cn.Category([...]).",
            )
        return [Feature(name, name, "numeric", *column.coded_bounds)]
    levels = tuple(f"{name}={level}" for level in column.levels)
    if not signed:
        return [Feature(level, name, "level") for level in levels]
    if len(levels) != 2:
        raise BadInput(
            f"Column {name!r} has {len(levels)} levels; only a category of two can be coded as a sign.",
            remedy="Choose a target with two levels.",
        )
    return [Feature(name, name, "sign", levels=levels)]


# How wide, and where ---------------------------------------------------------------------------------------------------------


def coded_widths(features: Iterable[Feature]) -> Counter[str]:
    """Return how many coded columns each party has, in order; 0 for a party that has none."""
    return Counter(feature.party for feature in features if feature.kind != "intercept")


def consecutive_places(widths: Mapping[str, int], *, first: int = 0) -> dict[str, Places]:
    """Return where blocks of given widths stand when they follow one another.

    Examples
    --------
    >>> consecutive_places({"bank": 2, "telco": 1}, first=1)
    {'bank': array([1, 2]), 'telco': array([3])}
    """
    ends = first + np.cumsum(list(widths.values()), dtype=np.int64)
    return {name: np.arange(end - width, end) for (name, width), end in zip(widths.items(), ends, strict=True)}


def places_beside_constant(parties: Sequence[str], widths: Sequence[int]) -> dict[str, Places]:
    """Return where each party's columns stand in a matrix, the constant column in front of each party's."""
    places = consecutive_places(dict(zip(parties, widths, strict=True)), first=1)
    return {party: np.concatenate([[0], own]) for party, own in places.items()}


# Values ----------------------------------------------------------------------------------------------------------------------


def to_unit_range(values: NDArray[Any], column: Column) -> Array:
    """Map numbers from their bounds to [−1, 1]: also where the midpoint of close bounds was rounded."""
    coded: Array = np.subtract(values, column.midpoint, dtype=np.float64)
    coded /= column.half_range
    np.clip(coded, -1.0, 1.0, out=coded)
    return coded


def coded_block(cells: NDArray[Any], column: Column) -> Array:
    """Return the coded columns of one column, one along each row of the result.

    Parameters
    ----------
    cells
        Numbers within their bounds, or codes of levels with −1 where there is none.
    column
        Which of the two, and its public description.
    """
    if column.is_number:
        return to_unit_range(cells, column)[None]
    return np.asarray(cells == np.arange(column.size)[:, None], dtype=np.float64)


def to_own_units(coded: Array, features: Sequence[Feature]) -> Array:
    """Map coded values back from [−1, 1], one feature per column; an indicator stays a share between 0 and 1."""
    return np.asarray(coded * half_widths(features) + centres(features))


def to_coded_units(own: Array, features: Sequence[Feature]) -> Array:
    """Map values in own units to [−1, 1], one feature per column; an indicator stays a share between 0 and 1."""
    return np.asarray((own - centres(features)) / half_widths(features))


def shares_of_present(means: Array, features: Sequence[Feature], columns: Mapping[str, Column]) -> Array:
    """Return means in own units, with the levels of a category that leaves people out as shares of those who have one.

    How many these are is private. The sum over its levels estimates it, and the shares are divided by that.
    """
    shares = np.array(means)
    coding: dict[str, list[int]] = {}
    for place, feature in enumerate(features):
        coding.setdefault(feature.column, []).append(place)
    for name, column in columns.items():
        places = coding.get(name, [])
        if column.excludes and len(places) == column.size:
            present = float(shares[places].sum())
            shares[places] /= present if present > 0 else 1.0
    return shares


def centres(features: Sequence[Feature]) -> Array:
    """Return the value of each feature in own units that is coded as 0."""
    return np.array([feature.centre for feature in features])


def half_widths(features: Sequence[Feature]) -> Array:
    """Return how many own units one coded unit of each feature is."""
    return np.array([feature.half_width for feature in features])


# Coefficients ----------------------------------------------------------------------------------------------------------------


def coefficients_to_own_units(features: Sequence[Feature]) -> tuple[tuple[str, ...], Array]:
    """Return names, and the linear map from coded (weights, intercept) to coefficients in the columns' own units.

    The map has one row per name (every level of a category has one) and a last row for the intercept; its columns are the
    coded weights in the order of ``features``, then the coded intercept.
    """
    names: list[str] = []
    rows: list[tuple[int, float]] = []
    shift = np.zeros(len(features) + 1)
    shift[-1] = 1.0
    for place, feature in enumerate(features):
        if feature.kind == "sign":
            names.extend(feature.levels)
            rows.extend([(place, -1.0), (place, 1.0)])
            continue
        names.append(feature.name)
        rows.append((place, 1.0 / feature.half_width if feature.kind == "numeric" else 1.0))
        if feature.kind == "numeric":
            shift[place] = -feature.centre / feature.half_width
    into = np.zeros((len(rows) + 1, len(features) + 1))
    for row, (place, factor) in enumerate(rows):
        into[row, place] = factor
    into[-1] = shift
    return tuple(names), into


Coding = Literal["full", "reference", "sum"]
"""How the levels of a category are written in coefficients.

All levels beside an intercept have no unique coefficients: a number can be added to every level and taken off the intercept.
``"full"`` shows the levels as they were fitted. ``"reference"`` shows the difference from the category's first level, and 0 for
that level. ``"sum"`` shows the difference from the average of the levels. A person without a level counts as the reference, or
as the average.
"""

CODINGS: tuple[Coding, ...] = ("full", "reference", "sum")


def free_coefficients(features: Sequence[Feature]) -> Array:
    """Return the map from coefficients that can be told apart to all coded weights and the intercept.

    The first level of each category is left out: with an intercept it adds nothing. The last row and column are the intercept's.

    Examples
    --------
    >>> from colonnade.schema import Category
    >>> free_coefficients(features_of({"a.age": Numeric(0, 100), "b.plan": Category(["basic", "gold"])})[1:])
    array([[1., 0., 0.],
           [0., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    first = {feature.column: place for place, feature in reversed(list(enumerate(features))) if feature.kind == "level"}
    kept = [place for place in range(len(features) + 1) if place not in set(first.values())]
    return np.asarray(np.eye(len(features) + 1)[:, kept])


def contrasts_of_levels(features: Sequence[Feature]) -> Array:
    """Return each coefficient that can be told apart as a combination of all coded weights: a level less the first one.

    Rows are the columns of `free_coefficients`.

    Examples
    --------
    >>> from colonnade.schema import Category
    >>> contrasts_of_levels(features_of({"a.age": Numeric(0, 100), "b.plan": Category(["basic", "gold"])})[1:])
    array([[ 1.,  0.,  0.,  0.],
           [ 0., -1.,  1.,  0.],
           [ 0.,  0.,  0.,  1.]])
    """
    contrasts = free_coefficients(features).T.copy()
    for column in dict.fromkeys(feature.column for feature in features if feature.kind == "level"):
        first, *others = [place for place, feature in enumerate(features) if feature.column == column]
        contrasts[contrasts[:, others].any(axis=1), first] = -1.0
    return contrasts


def written_levels(features: Sequence[Feature], coding: Coding) -> Array:
    """Return the linear map from coefficients of all levels, and the intercept, to the same model in another coding.

    Rows and columns are the names that `coefficients_to_own_units` returns, then the intercept.

    Examples
    --------
    >>> from colonnade.schema import Category
    >>> features = features_of({"a.age": Numeric(0, 100), "b.plan": Category(["basic", "gold"])})[1:]
    >>> written_levels(features, "reference") @ [0.1, 3.0, 5.0, 7.0]
    array([ 0.1,  0. ,  2. , 10. ])
    >>> written_levels(features, "sum") @ [0.1, 3.0, 5.0, 7.0]
    array([ 0.1, -1. ,  1. , 11. ])
    """
    columns = [feature.column for feature in features for _ in range(2 if feature.kind == "sign" else 1)]
    levels = [
        feature.kind in ("level", "sign") for feature in features for _ in range(2 if feature.kind == "sign" else 1)
    ]
    written: Array = np.eye(len(columns) + 1)
    if coding == "full":
        return written
    for column in dict.fromkeys(name for name, level in zip(columns, levels, strict=True) if level):
        places = [place for place, name in enumerate(columns) if name == column]
        compared = places[:1] if coding == "reference" else places
        share = np.zeros(len(columns) + 1)
        share[compared] = 1 / len(compared)
        written[places] -= share
        written[-1] += share
    return written
