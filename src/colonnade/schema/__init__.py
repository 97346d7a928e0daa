"""What is public about a column: bounds of a number or a date, levels of a category, and what a missing value counts as.

A schema is declared, never inferred. A number outside its bounds is clipped. Whatever else does not fit has a rule in the
schema, or the table is refused when its owner opens it (`colonnade.party.table.checking`): what a table really contains is
private, so no rule may follow from it.

This package is also the only place that knows how a declared column becomes coded numbers and back, for fit, predict, export and
reports. `encoders` reads stored values, as Arrow arrays, as they are spelled, as numbers and dates, and turns them into numbers
within bounds or codes of levels. `features` reads and writes names ``"party.column"``, maps numbers to [−1, 1] and
levels to indicators, and maps back to the columns' own units.

Examples
--------
>>> Schema(age=Numeric(18, 95), segment=Category(["basic", "gold"]))
Schema(age=Numeric(18, 95), segment=Category(['basic', 'gold']))
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from colonnade.errors import BadInput, BoundsRequired
from colonnade.schema.bins import Bins
from colonnade.schema.column import ColumnKind, Level
from colonnade.schema.crossed import AND, Crossed
from colonnade.schema.indicator import Indicator
from colonnade.schema.kinds import DECLARED, Measured
from colonnade.schema.kinds.category import Category
from colonnade.schema.kinds.date import Date
from colonnade.schema.kinds.number import THOUSANDS, Number, Numeric

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
    "equal_bins",
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
    """Return the number that a column is, also one in bins."""
    column = column.of if isinstance(column, Bins) else column
    return column if isinstance(column, Number) and column.is_measured else None


def _indicator_of(name: str) -> str:
    return f"{name}_missing"
