"""What a table's owner should know before it is used: which of its values do not fit the schema, and what to declare.

A table is read once, in blocks, by the encoders that every study uses. Values that are missing without a rule, that cannot be
read, or that are not declared refuse it (`TableCheck.refuse`), on its owner's side and before anything is answered. What is
merely odd (clipped values, constant columns, bounds far too wide) is shown and not refused.

Everything here is *nonprivate*: exact counts of rows, for the owner's eyes. It is never sent, and no request reaches it.
"""

import html
import io
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.party.table.row_order import ids_of
from colonnade.party.table.sources import Source
from colonnade.schema import THOUSANDS, Column, Schema
from colonnade.schema.encoders import CategoryEncoder, NumericEncoder, encoder_for, flatten, spelled_out

NOTHINGS = (
    "-",
    "--",
    ".",
    "?",
    "n/a",
    "na",
    "n.a.",
    "nan",
    "nil",
    "none",
    "null",
    "unknown",
    "missing",
    "#n/a",
    "-999",
)
"""Words that often stand for a missing value."""
FORMATS: tuple[tuple[str | None, str], ...] = (
    (",", "."),
    (None, ","),
    (".", ","),
    *((sign, point) for sign in THOUSANDS[2:] for point in (".", ",")),
)
"""Other ways to write numbers, to be suggested where they explain what could not be read."""
BINS = 10_000
NARROW = 0.01
MIDDLE = 0.99
MOST_LEVELS = 6
NARROW_WHOLE_RANGE = 100
MOSTLY_UNKNOWN = 0.5
PAGE_WIDTH = 120


@dataclass(frozen=True)
class ColumnCheck:
    """What one column of a table holds.

    Attributes
    ----------
    name, column
        The column and its description.
    rows
        How many rows there are.
    missing, unreadable, unknown, clipped
        How many values are missing; cannot be read as what the schema says; are no declared level; lie outside the bounds.
    words
        Usual words for a missing value among those that could not be read, as they are written there.
    written
        ``thousands`` and ``decimal`` that would let most of the unreadable values be read; ``None`` where none do.
    nearly
        How many unknown values are declared levels but for case, or for spaces at the ends.
    constant
        Whether all values are equal.
    used
        The share of the declared range that 99 % of the numbers lie in; ``None`` for a category, and without numbers.
    """

    name: str
    column: Column
    rows: int
    missing: int = 0
    unreadable: int = 0
    unknown: int = 0
    clipped: int = 0
    words: tuple[str, ...] = ()
    written: tuple[str | None, str] | None = None
    nearly: int = 0
    constant: bool = False
    used: float | None = None

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Why the table is refused, each with what to declare."""
        found = []
        if self.missing and not self._has_rule:
            found.append((f"{self._share(self.missing)} missing", self._remedy_for_missing()))
        if self.unreadable:
            found.append(
                (f"{self._share(self.unreadable)} not readable as {self.column.noun}s", self._remedy_for_text())
            )
        if self.unknown and not self.column.is_number and self.column.other is None:
            found.append((f"{self._share(self.unknown)} not among the declared levels", self._remedy_for_level()))
        return found

    @property
    def notes(self) -> list[str]:
        """What is odd, and not refused."""
        found = []
        if self.clipped:
            found.append(f"{self._share(self.clipped)} clipped to the bounds")
        if self.unknown > MOSTLY_UNKNOWN * self.rows:
            found.append(f"{self._share(self.unknown)} not among the declared levels, and count as another one")
        if self.constant and self.rows > 1:
            found.append("all values are equal")
        if self.used is not None and self.used < NARROW and not self.constant and not self._is_small:
            found.append(
                f"99 % of the values lie in {self.used:.2%} of the declared range: noise grows with the range, so narrow it, or "
                "let an analyst do so privately with federation.tightened(...)"
            )
        return found

    @property
    def _is_small(self) -> bool:
        """Whether the bounds hold few whole numbers, as those of a flag do: most of them may well be equal."""
        return self.column.is_number and self.column.whole and self.column.high - self.column.low <= NARROW_WHOLE_RANGE

    @property
    def _has_rule(self) -> bool:
        return self.column.missing is not None

    def _share(self, count: int) -> str:
        return f"{count:,} of {self.rows:,} values ({count / self.rows:.1%}) {'is' if count == 1 else 'are'}"

    def _remedy_for_missing(self) -> str:
        if not self.column.is_number:
            choices = [self._declared(f"missing={rule!r}") for rule in ("excluded", "level")]
            return f"{choices[0]} leaves these people out of counts, {choices[1]} counts them as a level"
        return f"{self._declared('missing=...')} with a public {self.column.noun} that a missing one counts as"

    def _declared(self, *options: str) -> str:
        """Return the description as its owner would write it with further options."""
        column = self.column
        if self.written is not None:
            column = column.written_with(*self.written)
        if column.is_measured and self.words:
            column = msgspec.structs.replace(column, na_values=(*column.na_values, *self.words))
        if column.size > MOST_LEVELS:
            column = msgspec.structs.replace(column, levels=("...",), other=None)
        return f"cn.{repr(column).removesuffix(')')}{''.join(f', {option}' for option in options)})"

    def _remedy_for_text(self) -> str:
        """Return what to declare: how numbers are written, or which words stand for nothing."""
        if self.words or self.written is not None:
            return self._declared(*([] if self._has_rule or not self.words else ["missing=..."]))
        named = self._declared("na_values=[...]")
        return f"write them as {self.column.example} in the table, or name what stands for a missing value: {named}"

    def _remedy_for_level(self) -> str:
        parts = [f"list every level, or {self._declared('other=...')} with a level for the rest"]
        if self.words:
            parts.append(f"na_values={list(self.words)!r} where these stand for a missing value")
        if self.nearly:
            parts.append(
                f"{self.nearly:,} differ from a level by case or by spaces at the ends only: correct the table"
            )
        return "; ".join(parts)


@dataclass(frozen=True)
class IdCheck:
    """What the id column of a table holds.

    Attributes
    ----------
    name
        The column.
    rows, missing, people, most
        How many rows there are, how many of them have no id, how many different ids there are, and the largest number of rows
        with one id.
    """

    name: str
    rows: int
    missing: int
    people: int
    most: int

    @property
    def repeated(self) -> int:
        """How many rows have an id that an earlier row has."""
        return self.rows - self.missing - self.people

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Why the table is refused, each with what to do."""
        counts = ((self.missing, "without an id"), (self.repeated, "with an id that another row has"))
        remedy = "every row needs an id of its own: drop these rows, or add up the rows of each person, in the table"
        return [(f"{count:,} of {self.rows:,} rows are {what}", remedy) for count, what in counts if count]


@dataclass(frozen=True)
class TableCheck:
    """What a table's owner should know about it. It is not private, and nothing sends it.

    Printed, it is a table on the terminal; in a notebook, and by `to_html`, a table on a page.

    Attributes
    ----------
    rows
        How many rows there are.
    columns
        A `ColumnCheck` for each column of the schema that is stored in the table.
    ids
        An `IdCheck`, where the id column was named.
    doubts
        Signs that a file is written otherwise than declared.

    Examples
    --------
    >>> import colonnade as cn, pandas as pd
    >>> table = pd.DataFrame({"age": [31, None, 430], "segment": ["gold", "Gold", "basic"]})
    >>> party = cn.Party(table, schema=cn.Schema(age=cn.Numeric(18, 95), segment=cn.Category(["basic", "gold"])))
    >>> check = party.check()
    >>> check.fits, [column.clipped for column in check.columns], check.columns[1].nearly
    (False, [1, 0], 1)
    """

    rows: int
    columns: tuple[ColumnCheck, ...]
    ids: IdCheck | None = None
    doubts: tuple[str, ...] = ()

    @property
    def faults(self) -> list[tuple[str, str, str]]:
        """Why the table is refused: column, what is wrong, what to declare or to do."""
        parts: list[ColumnCheck | IdCheck] = [*self.columns, *([] if self.ids is None else [self.ids])]
        return [(part.name, what, remedy) for part in parts for what, remedy in part.faults]

    @property
    def notes(self) -> list[tuple[str, str]]:
        """What is odd, and not refused: column (or nothing), and what."""
        return [(column.name, note) for column in self.columns for note in column.notes] + [
            ("", doubt) for doubt in self.doubts
        ]

    @property
    def fits(self) -> bool:
        """Whether the table may be opened."""
        return not self.faults

    def refuse(self, party: str | None = None) -> None:
        """Raise an error for the owner if the table does not fit its schema, with counts by column and what to declare."""
        if self.fits:
            return
        whose = "The table" if party is None else f"The table of party {party!r}"
        found = "; ".join(f"{name}: {what}" for name, what, _ in self.faults)
        remedies = dict.fromkeys(f"{name}: {remedy}." for name, _, remedy in self.faults)
        raise SchemaMismatch(
            f"{whose} does not fit its schema, so it was not opened. {found}.",
            remedy=" ".join([*self.doubts, *remedies, "party.check() and `colonnade party check` show it all."]),
        )

    def frame(self) -> pd.DataFrame:
        """Return the counts by column."""
        rows = [
            {
                "column": one.name,
                "declared": type(one.column).__name__,
                "missing": one.missing,
                "unreadable": one.unreadable,
                "unknown": one.unknown,
                "clipped": one.clipped,
                "range used": "" if one.used is None else f"{one.used:.1%}",
            }
            for one in self.columns
        ]
        return pd.DataFrame(rows).set_index("column")

    def __repr__(self) -> str:
        return f"TableCheck({self.rows:,} rows, {len(self.columns)} columns, {len(self.faults)} faults)"

    def __str__(self) -> str:
        from rich import box, console, table, text

        grid = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        shown = self.frame().reset_index()
        for name in shown.columns:
            grid.add_column(text.Text(name), justify="left" if name in ("column", "declared") else "right")
        for row in shown.itertuples(index=False):
            grid.add_row(*(text.Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
        page = io.StringIO()
        console.Console(file=page, width=PAGE_WIDTH, highlight=False, color_system=None).print(grid)
        lines = [f"{self._people()}", *(line.rstrip() for line in page.getvalue().splitlines()), *self._lines()]
        return "\n".join(lines)

    def to_html(self) -> str:
        """Return a table for a page, every string escaped."""
        table = self.frame().to_html(escape=True, border=0)
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self._lines())
        return f"<p>{html.escape(self._people())}</p>{table}<ul>{lines}</ul>"

    _repr_html_ = to_html

    def _people(self) -> str:
        if self.ids is None:
            return f"{self.rows:,} rows"
        each = (self.ids.rows - self.ids.missing) / max(self.ids.people, 1)
        return f"{self.rows:,} rows, {self.ids.people:,} ids, {each:.3g} rows per id, at most {self.ids.most:,}"

    def _lines(self) -> list[str]:
        refused = [f"refused  {name}: {what}. Declare or do: {remedy}." for name, what, remedy in self.faults]
        odd = [f"note     {f'{name}: ' if name else ''}{note}" for name, note in self.notes]
        return [*refused, *odd, "The table fits its schema." if self.fits else "The table does not fit its schema."]


def check_table(source: Source, schema: Schema, *, id: str | None = None) -> TableCheck:  # noqa: A002  # the public name
    """Read a table once, in blocks, and return what its owner should know about it.

    Parameters
    ----------
    source, schema
        The rows, and what is declared about them.
    id
        The id column, to count repeated ids and rows per person too.
    """
    tallies = {name: _tally(name, column) for name, column in schema.items() if column.indicates is None}
    rows = 0
    for count, found in source.each(partial(_tallied, schema), list(tallies)):
        rows += count
        for name, tally in found.items():
            tallies[name].merge(tally)
    doubts = source.doubts()
    ids = None
    if id is not None:
        try:
            ids = _check_ids(ids_of(source, id, party="this table"), id)
        except BadInput as error:
            doubts.append(f"{error.message} {error.remedy}")
    return TableCheck(rows, tuple(tally.result() for tally in tallies.values()), ids, tuple(doubts))


def _tallied(schema: Schema, source: Source) -> "tuple[int, dict[str, _NumberTally | _CategoryTally]]":
    rows, tallies = 0, {name: _tally(name, schema[name]) for name in schema if schema[name].indicates is None}
    for batch in source.batches(list(tallies)):
        rows += len(batch)
        for name, tally in tallies.items():
            tally.add(flatten(batch.column(name)))
    return rows, tallies


def _check_ids(ids: Any, name: str) -> IdCheck:
    counts = pc.value_counts(ids.drop_null()).field("counts").to_numpy(zero_copy_only=False)
    return IdCheck(name, len(ids), ids.null_count, len(counts), int(counts.max(initial=0)))


class _Tally:
    """Counts of one column, block by block."""

    def __init__(self, name: str, column: Column) -> None:
        self.name = name
        self.column = column
        self.rows = self.missing = self.misfits = 0
        self.words: Counter[str] = Counter()

    def count(self, nonprivate_empty: NDArray[np.bool_], nonprivate_misfit: NDArray[np.bool_]) -> None:
        self.rows += len(nonprivate_empty)
        self.missing += int(np.count_nonzero(nonprivate_empty))
        self.misfits += int(np.count_nonzero(nonprivate_misfit))

    def merge(self, other: "_Tally") -> None:
        """Add what was counted of other rows; of floats the least counts."""
        for name, counted in vars(other).items():
            if isinstance(counted, Counter):
                getattr(self, name).update(counted)
            elif isinstance(counted, int | np.ndarray):
                setattr(self, name, getattr(self, name) + counted)
            elif isinstance(counted, float):
                setattr(self, name, min(getattr(self, name), counted))

    def named(self) -> tuple[str, ...]:
        """The usual words for nothing that were met, the most frequent first."""
        return tuple(word for word, _ in self.words.most_common(6))

    def keep_words(self, misfits: Any) -> None:
        trimmed = pc.ascii_trim_whitespace(misfits)
        known = pc.is_in(pc.ascii_lower(trimmed), value_set=pa.array(NOTHINGS, type=trimmed.type))
        self.words.update(trimmed.filter(known).to_pylist())


class _NumberTally(_Tally):
    def __init__(self, name: str, column: Column) -> None:
        super().__init__(name, column)
        encoder = encoder_for(column)
        assert isinstance(encoder, NumericEncoder)  # an indicator is not stored
        self._encoder = encoder
        self._bins = np.zeros(BINS + 1, dtype=np.int64)
        self._lowest, self._lowest_negated, self._clipped = np.inf, np.inf, 0
        self._formats: Counter[int] = Counter()

    def add(self, array: Any) -> None:
        nonprivate, empty = self._encoder.read(array)
        misfit = np.isnan(nonprivate) & ~empty
        self.count(empty, misfit)
        numbers = nonprivate[~np.isnan(nonprivate)]
        self._clipped += int(np.count_nonzero(self._encoder.outside(numbers)))
        bounded = np.clip(numbers, self.column.low, self.column.high)
        self._lowest = min(self._lowest, float(bounded.min(initial=np.inf)))
        self._lowest_negated = min(self._lowest_negated, -float(bounded.max(initial=-np.inf)))
        places = (bounded / 2 - self.column.low / 2) / self.column.half_range * BINS
        self._bins += np.bincount(np.clip(places, 0, BINS).astype(np.int64), minlength=BINS + 1)
        if misfit.any():
            self._explain(spelled_out(array).filter(pa.array(misfit)))

    def _explain(self, misfits: Any) -> None:
        self.keep_words(misfits)
        if self.column.has_round_numbers:
            trimmed = pc.ascii_trim_whitespace(misfits)
            for place, form in enumerate(FORMATS):
                pattern = self.column.written_with(*form).pattern
                self._formats[place] += int(pc.sum(pc.match_substring_regex(trimmed, pattern=pattern)).as_py() or 0)

    def result(self) -> ColumnCheck:
        best = max(self._formats, key=lambda place: (self._formats[place], -place), default=None)
        explains = best is not None and self._formats[best] > (self.misfits - self.words.total()) / 2
        return ColumnCheck(
            self.name,
            self.column,
            self.rows,
            self.missing,
            unreadable=self.misfits,
            clipped=self._clipped,
            words=self.named(),
            written=FORMATS[best] if best is not None and explains else None,
            constant=self._lowest == -self._lowest_negated,
            used=self._used(),
        )

    def _used(self) -> float | None:
        """Return the share of the declared range between the half-percent quantiles of the numbers."""
        below = np.cumsum(self._bins)
        if not below[-1]:
            return None
        rest = (1 - MIDDLE) / 2
        first, last = np.searchsorted(below, [rest * below[-1] + 0.5, (1 - rest) * below[-1]])
        return float(last - first + 1) / BINS


class _CategoryTally(_Tally):
    def __init__(self, name: str, column: Column) -> None:
        super().__init__(name, column)
        encoder = encoder_for(column)
        assert isinstance(encoder, CategoryEncoder)  # by its description
        self._encoder = encoder
        self._seen = np.zeros(column.size, dtype=np.int64)
        self._folded = pa.array([str(level).strip().casefold() for level in column.levels], type=pa.large_string())
        self._nearly = 0

    def add(self, array: Any) -> None:
        nonprivate, empty = self._encoder.read(array)
        misfit = (nonprivate < 0) & ~empty
        self.count(empty, misfit)
        self._seen += np.bincount(nonprivate[nonprivate >= 0], minlength=len(self._seen))
        if misfit.any():
            misfits = spelled_out(array).filter(pa.array(misfit))
            self.keep_words(misfits)
            folded = pc.ascii_lower(pc.ascii_trim_whitespace(misfits))
            self._nearly += int(pc.sum(pc.is_in(folded, value_set=self._folded)).as_py() or 0)

    def result(self) -> ColumnCheck:
        constant = np.count_nonzero(self._seen) == 1 and not self.missing and not self.misfits
        return ColumnCheck(
            self.name,
            self.column,
            self.rows,
            self.missing,
            unknown=self.misfits,
            words=self.named(),
            nearly=self._nearly,
            constant=bool(constant),
        )


def _tally(name: str, column: Column) -> _NumberTally | _CategoryTally:
    assert column.indicates is None  # these are not stored
    return _NumberTally(name, column) if column.is_number else _CategoryTally(name, column)
