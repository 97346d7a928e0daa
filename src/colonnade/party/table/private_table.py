"""`PrivateTable`: a party's columns behind public bounds, in the order of the alignment.

A column is read in row blocks, encoded and written straight to its place in the aligned order; nothing else of the
source is kept. Encoded columns stay at hand up to a bound on memory, the least recently used leaving first. Columns
that are wanted together and exceed the bound lie in temporary files without a name, so a table may exceed memory.
Peak memory is the encoded columns held, 4 bytes per row of the source for where it belongs, and a few blocks of rows:
within three times the columns read.

*Row blocks.* A statistic asks for the people from one place of the agreed order to another (`codes`, `values`, `present`,
`held`), and folds over all of them in ranges of public length (`ranges`, `fold`). All parties cut the same order, so the same
range is the same people everywhere. Where the rows lie stays inside: a table on disk
(`colonnade.party.table.stored_table`) answers the same questions.

*Rows as integers.* `coded_rows` returns coded columns, and `bounded_scores` scores under public weights. `colonnade.steps.kind`
says which integers there are. `whole_numbers` makes them, for local and for shared steps, and nothing else does: every
sensitivity rests on a bound on one person's integers, so nothing else in `colonnade.party.steps` or `colonnade.papers.private`
rounds a number, or casts one to an integer (tests/party/test_integer_bounds.py). A number that is not finite is no integer at
all. It never passes as one: the step fails, and says no more than any step that fails on rows (`colonnade.party.guard.STOPPED`).
It cannot happen while coding is total (`colonnade.schema`).

*Failures.* Code that reads rows runs inside `among_rows` (`colonnade.party.guard` says why).

Everything here is *nonprivate*: it is for a statistic inside the gate, and no message ever contains it.
"""

import copy
import math
import os
import tempfile
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import BadInput, ColonnadeError, SchemaMismatch
from colonnade.party.table.sources import BLOCK, Source
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.runtime.workers import WorkersFailed
from colonnade.schema import Column, Schema, to_unit_range
from colonnade.schema.encoders import MISSING, Encoder, encoder_for, flatten, require_type
from colonnade.steps.kind import BoundedScores, FixedPoint, ScoreWeights

Result = TypeVar("Result")

MEMORY = 1 << 29
LARGEST_JOINT_DOMAIN = 2**31 - 1


class PrivateTable:
    """A party's columns behind public bounds, in the order of the alignment.

    Parameters
    ----------
    source
        Where the rows are.
    schema
        What is public about the columns. A column outside it is never read.
    order
        For each person of the alignment the row of the source, each row at most once; −1 for a person that this
        source lacks, who then has a null record: no category, and the midpoint of every number. ``None`` takes all
        rows as they come.
    memory
        How many bytes of encoded columns to keep in memory.

    Examples
    --------
    >>> import pandas as pd
    >>> from colonnade.schema import Category, Numeric
    >>> frame = pd.DataFrame({"age": [31, None, 430], "segment": ["gold", "basic", None]})
    >>> schema = Schema(age=Numeric(18, 95, missing=40), segment=Category(["basic", "gold"], missing="excluded"))
    >>> table = PrivateTable(Source(frame), schema, order=np.array([2, 1, 0, -1]))
    >>> table.values("age").tolist(), table.codes("segment").tolist()
    ([95.0, 40.0, 31.0, 56.5], [-1, 0, 1, -1])
    """

    in_memory: ClassVar[bool] = True
    """Whether encoded columns are kept here; otherwise they are read where they are used, as one table."""

    def __init__(
        self, source: Source, schema: Schema, *, order: NDArray[np.int64] | None = None, memory: int = MEMORY
    ) -> None:
        require_schema(source, schema)
        self._source = source
        self._place = None if order is None else places_of_rows(np.asarray(order), source.rows)
        self.people = source.count() if order is None else len(order)
        self._memory = memory
        self._read_through(schema)

    def _read_through(self, schema: Schema) -> Self:
        """Read columns as these descriptions from now on; nothing is at hand yet."""
        self.schema = schema
        self._encoders: dict[str, Encoder] = {name: encoder_for(column) for name, column in schema.items()}
        self._columns: OrderedDict[str, NDArray[Any]] = OrderedDict()
        self._split: list[tuple[NDArray[np.int64], PrivateTable]] | None = None
        self._present: dict[tuple[str, ...], NDArray[np.bool_]] = {}
        self._with_row: NDArray[np.bool_] | None = None
        self._read_last: PrivateTable | None = None
        return self

    def __repr__(self) -> str:
        return f"PrivateTable({len(self.schema)} columns, {self.people} people)"

    def reordered(self, order: NDArray[np.int64]) -> "PrivateTable":
        """Return the same source in another order of rows."""
        return PrivateTable(self._source, self.schema, order=order, memory=self._memory)

    def read_as(self, schema: Schema) -> "PrivateTable":
        """Return the same rows with columns read as a plan says (`colonnade.schema.column`). The last reading is kept."""
        if schema == self.schema:
            return self
        if self._read_last is None or self._read_last.schema != schema:
            self._read_last = copy.copy(self)._read_through(schema)  # noqa: SLF001  # its own class
        return self._read_last

    def codes(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[np.int32]:
        """Return a category as codes in the order of its levels; −1 for a person without one. Read-only.

        Parameters
        ----------
        name
            The column.
        start, stop
            Which people: a range of places of the agreed order; all by default.
        """
        self._require(name, number=False)
        return self._some(name, start, stop)

    def values(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Return a number within its bounds: the fill value where it is missing, the midpoint in a null record. Read-only."""
        self._require(name, number=True)
        return self._some(name, start, stop)

    def cells_of(self, name: str, people: NDArray[np.int64]) -> NDArray[Any]:
        """Return codes or values of some people by their places, which may be in any order."""
        return np.asarray(self._column(name)[people])

    def joint_codes(
        self, names: Sequence[str], start: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.int32], int]:
        """Return several categories as one, and its number of levels.

        Row-major, the last column fastest; −1 where any of them is missing.
        """
        sizes = [self._category(name).size for name in names]
        size = int(np.prod(sizes, dtype=object))
        if not names or size > LARGEST_JOINT_DOMAIN:
            raise BadInput(
                f"A joint category takes at least one column and at most {LARGEST_JOINT_DOMAIN} combinations of levels."
            )
        self.load(names)
        joint = self.codes(names[0], start, stop).copy()
        for name, levels in zip(names[1:], sizes[1:], strict=True):
            codes = self.codes(name, start, stop)
            lacking = (joint == MISSING) | (codes == MISSING)
            joint *= np.int32(levels)
            joint += codes
            joint[lacking] = MISSING
        return joint, size

    def held(self, start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Return for which people this party has a row at all; the others are null records here. Read-only."""
        if self._with_row is None:
            self._with_row = np.ones(self.people, dtype=np.bool_)
            if self._place is not None:
                self._with_row[:] = False
                self._with_row[self._place[self._place >= 0]] = True
            self._with_row.flags.writeable = False
        return self._with_row[start:stop]

    def present(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Return who has a value in at least one of these columns; nobody else has a record here. Read-only.

        A missing number has a value where the schema declares one. Elsewhere it is coded as a null record is, so the source is
        read once more.
        """
        key = tuple(sorted(names))
        if key not in self._present:
            self._present = {key: self._read_presence(list(key))}  # one set of columns at a time: memory stays bounded
        return self._present[key][start:stop]

    def load_present(self, names: Sequence[str]) -> None:
        """Read who has a value in at least one of these columns, where that is kept and not at hand."""
        if self.in_memory:
            self.present(names)
        else:
            self.load(names)

    def ranges(self, rows: int = BLOCK) -> Iterator[tuple[int, int]]:
        """Yield where each block of people begins and ends in the agreed order. It is the same at every party."""
        for start in range(0, self.people, rows):
            yield start, min(start + rows, self.people)

    def fold(
        self, total: NDArray[np.int64], add: Callable[[NDArray[np.int64], Self, int, int], None], rows: int = BLOCK
    ) -> NDArray[np.int64]:
        """Add something of every block of people to a total of whole numbers, and return it.

        Sums of whole numbers do not depend on who adds what, so blocks may be folded in any order, and by several hands.

        Parameters
        ----------
        total
            Zeros, to be added to in place.
        add
            Called with a total, the table, and where a block begins and ends.
        rows
            How many people a block has.

        Examples
        --------
        >>> import pandas as pd
        >>> from colonnade.schema import Category
        >>> table = PrivateTable(Source(pd.DataFrame({"kind": list("abba")})), Schema(kind=Category(["a", "b"])))
        >>> def count(total, table, start, stop):
        ...     total += np.bincount(table.codes("kind", start, stop), minlength=2)
        >>> table.fold(np.zeros(2, dtype=np.int64), count, rows=3).tolist()
        [2, 2]
        """
        for start, stop in self.ranges(rows):
            add(total, self, start, stop)
        return total

    def each(self, part: Callable[[Any, int, int], Result], ranges: Iterable[tuple[int, int]]) -> Iterator[Result]:
        """Yield what a function makes of some ranges of people, in their order. It is called where these people's rows are.

        Parameters
        ----------
        part
            Called with a table, and where a range begins and ends.
        ranges
            The ranges.
        """
        return (part(self, start, stop) for start, stop in ranges)

    def written(self, width: int | None, dtype: Any, rows: Callable[[Any, int, int], NDArray[Any]]) -> SpilledRows:
        """Return one row per person, which a function makes of a block of people at a time."""
        found = self.scratch(width, dtype)
        for some in self.each(rows, self.ranges()):
            found.append(some)
        return found

    def scratch(self, width: int | None, dtype: Any) -> SpilledRows:
        """Return room for one row per person that a statistic writes once and reads again."""
        return SpilledRows(self.people, width, dtype)

    def load(self, names: Sequence[str]) -> None:
        """Read several columns in one pass, where they are not at hand; a source that cannot be read fails here."""
        for name in names:
            self._require(name)
        wanted = [name for name in dict.fromkeys(names) if name not in self._columns]
        if wanted:
            self._make_room(keep=set(names), needed=sum(self._bytes(name) for name in wanted))
            self._columns.update(self._read(wanted))

    def shards(self) -> list[tuple[NDArray[np.int64], "PrivateTable"]]:
        """Return each shard by rows as a table of its own, with the places of its people. People in no shard come last."""
        if self._split is None:
            self._split = self._divided()
        return self._split

    def _divided(self) -> list[tuple[NDArray[np.int64], "PrivateTable"]]:
        place = np.arange(self.people) if self._place is None else self._place
        absent, divided, start = np.ones(self.people, dtype=bool), [], 0
        for source in self._source.split():
            rows = place[start : start + source.count()]
            start += source.count()
            taking_part = np.flatnonzero(rows >= 0)
            order = taking_part[np.argsort(rows[taking_part])]  # each shard's people in the agreed order
            absent[rows[order]] = False
            divided.append((rows[order].astype(np.int64), source, order))
        nobody = np.flatnonzero(absent)
        divided.append((nobody, self._source.split()[0], np.full(len(nobody), MISSING)))
        return [
            (places, PrivateTable(source, self.schema, order=order, memory=self._memory))
            for places, source, order in divided
            if len(places)
        ]

    @property
    def sharded(self) -> bool:
        """Whether the rows are kept here and come from several sources."""
        return self.in_memory and len(self._source.split()) > 1

    def forget(self) -> None:
        """Let go of every encoded column."""
        self._columns.clear()
        self._present.clear()
        self._read_last = None

    def _some(self, name: str, start: int, stop: int | None) -> NDArray[Any]:
        return self._column(name)[start:stop]

    def _column(self, name: str) -> NDArray[Any]:
        if not self.in_memory:
            return self._some(name, 0, None)
        self.load([name])
        self._columns.move_to_end(name)
        return self._columns[name]

    def _category(self, name: str) -> Column:
        self._require(name, number=False)
        return self.schema[name]

    def _require(self, name: str, number: bool | None = None) -> None:
        if name not in self.schema:
            raise SchemaMismatch(
                f"Column {name!r} is not in this party's schema.", remedy="Its columns are listed in its cn.Schema."
            )
        if number is not None and self.schema[name].is_number != number:
            described = type(self.schema[name]).__name__
            asked = "cn.Numeric or a cn.Date" if number else "cn.Category"
            raise SchemaMismatch(
                f"Column {name!r} is a cn.{described}, and a {asked} was asked for.",
                remedy="Ask for a column of the right kind, or describe it otherwise in cn.Schema.",
            )

    def _bytes(self, name: str) -> int:
        return self.people * self._encoders[name].dtype.itemsize

    def _held(self) -> int:
        return sum(column.nbytes for column in self._columns.values() if not isinstance(column, np.memmap))

    def _make_room(self, *, keep: set[str], needed: int) -> None:
        for name in [name for name in self._columns if name not in keep]:
            if self._held() + needed <= self._memory:
                return
            del self._columns[name]

    def _read(self, names: list[str]) -> dict[str, NDArray[Any]]:
        columns = self._allocate(names)
        start = 0
        for batch in self._source.batches(self._stored(names)):
            where, which = self._destination(start, len(batch))
            for name in names:
                read = [batch.column(stored) for stored in self.schema.stored(name)]
                columns[name][where] = self._encoders[name](*read)[which]
            start += len(batch)
        self._require_rows(start)
        for column in columns.values():
            column.flags.writeable = False  # it is shared with the next caller
        return columns

    def _read_presence(self, names: list[str]) -> NDArray[np.bool_]:
        present = np.zeros(self.people, dtype=np.bool_)
        start = 0
        for batch in self._source.batches(self._stored(names)):
            where, which = self._destination(start, len(batch))
            found = np.zeros(len(batch), dtype=np.bool_)
            for name in names:
                read = [flatten(batch.column(stored)) for stored in self.schema.stored(name)]
                found |= self._encoders[name].present(*read)
            present[where] = found[which]
            start += len(batch)
        self._require_rows(start)
        present.flags.writeable = False
        return present

    def _stored(self, names: list[str]) -> list[str]:
        return list(dict.fromkeys(stored for name in names for stored in self.schema.stored(name)))

    def _allocate(self, names: list[str]) -> dict[str, NDArray[Any]]:
        room, columns = self._memory - self._held(), {}
        for name in names:
            room -= self._bytes(name)
            columns[name] = _empty(self.people, self._encoders[name].dtype, on_disk=room < 0)
            if self._place is not None:
                columns[name].fill(self._encoders[name].null)
        return columns

    def _destination(self, start: int, rows: int) -> tuple[Any, Any]:
        """Where in the aligned order the next rows of the source go, and which of them take part."""
        if self._place is None:
            stop = min(start + rows, self.people)
            return slice(start, stop), slice(0, max(stop - start, 0))
        places = self._place[start : start + rows]
        taking_part = places >= 0
        if taking_part.all():
            return places, slice(0, len(places))
        return places[taking_part], np.flatnonzero(taking_part)

    def _require_rows(self, rows: int) -> None:
        if rows < (self.people if self._place is None else len(self._place)):
            raise fewer_rows()


def fewer_rows() -> SchemaMismatch:
    """Return what is wrong with a source that has become shorter."""
    return SchemaMismatch(
        "The data source has fewer rows than when it was aligned.",
        remedy="Make the party again from the present data and align again.",
    )


def places_of_rows(order: NDArray[Any], rows: int | None) -> NDArray[Any]:
    """Invert an order: for each row of the source its place among the people, −1 where it takes no part."""
    if order.ndim != 1 or order.dtype.kind != "i":
        raise BadInput("An order is a vector of row numbers.")
    span = int(order.max(initial=MISSING)) + 1
    if order.min(initial=MISSING) < MISSING or (rows is not None and span > rows):
        raise BadInput("An order names rows that the data source does not have.")
    small = np.int32 if len(order) < 2**31 else np.int64  # an order may be most of what a party holds in memory
    places: NDArray[Any] = np.full(span + 1, MISSING, dtype=small)
    places[order] = np.arange(len(order), dtype=small)
    places = places[:span]  # the extra last place took the people without a row, whose number is −1
    if np.count_nonzero(places >= 0) < np.count_nonzero(order >= 0):
        raise BadInput("An order names a row of the data source twice.")
    return places


def _empty(people: int, dtype: np.dtype[Any], *, on_disk: bool) -> NDArray[Any]:
    if not on_disk or not people:
        return np.empty(people, dtype=dtype)
    # The file has no name and no permissions for others, and goes with the array that maps it.
    with tempfile.TemporaryFile() as file:
        _reserve(file.fileno(), people * dtype.itemsize)
        return np.memmap(file, dtype=dtype, mode="r+", shape=(people,))


def _reserve(descriptor: int, size: int) -> None:
    """Claim the room on disk now: writing to a mapped page that has none kills the process."""
    try:
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
    except OSError:
        raise BadInput(
            "There is no room for the columns in the temporary directory.",
            remedy="Free some space, or point TMPDIR to a larger disk.",
        ) from None


def require_schema(source: Source, schema: Schema) -> None:
    """Refuse a source that lacks a column of the schema, or stores it as another type."""
    present = set(source.columns)
    absent = [name for name in schema if schema.stored(name) == (name,) and name not in present]
    if absent:
        raise SchemaMismatch(
            "The schema names columns that the data source does not have: " + ", ".join(map(repr, absent)) + ".",
            remedy=" ".join([*source.doubts(), "Correct the names in cn.Schema, or the data source."]),
        )
    for name, column in schema.items():
        for stored, part in zip(schema.stored(name), column.parts or (column,), strict=True):
            for kind in source.kinds(stored):
                require_type(name, part, kind)


class RowsFailed(Exception):
    """Reading or computing from rows failed. The cause is the party's own, and is shown to its operator only."""

    @classmethod
    def because(cls, cause: BaseException | None) -> Self:
        """Return a failure with a cause that was found elsewhere."""
        failure = cls()
        failure.__cause__ = cause
        return failure

    @property
    def code(self) -> str:
        """The kind of failure, in a plain word for the party's own log."""
        cause = self.__cause__
        return cause.code if isinstance(cause, ColonnadeError) else type(cause).__name__

    def for_the_owner(self) -> ColonnadeError:
        """Return what the party's own screen and log may show: words of ours, or the kind and the place of another error."""
        if isinstance(self.__cause__, ColonnadeError):
            return self.__cause__
        return BadInput(
            f"The table could not be read ({self.code} in {self.place}).",
            remedy="COLONNADE_TRACEBACK=1 shows all of it, to somebody who may see the data.",
        )

    @property
    def place(self) -> str:
        """Where it was raised: a module of ours, and a line."""
        frames = traceback.extract_tb(None if self.__cause__ is None else self.__cause__.__traceback__)
        ours = [frame for frame in frames if "colonnade" in Path(frame.filename).parts] or frames
        return f"{Path(ours[-1].filename).stem}:{ours[-1].lineno}" if ours else ""


@contextmanager
def among_rows() -> Iterator[None]:
    """Run code that reads rows. Whatever it raises becomes `RowsFailed`, of which nothing but `STOPPED` is ever said.

    Examples
    --------
    >>> try:
    ...     with among_rows():
    ...         raise ValueError("alice has no row 17")
    ... except RowsFailed as failure:
    ...     print(repr(str(failure)), failure.code)
    '' ValueError
    """
    try:
        yield
    except RowsFailed:
        raise
    except WorkersFailed as error:
        raise RowsFailed from error.__cause__
    except Exception as error:
        raise RowsFailed from error


def whole_numbers(
    numbers: NDArray[np.float64],
    largest: int,
    *,
    least: int | None = None,
    middle: float = 0.0,
    half: float = 1.0,
    scale: float = 1.0,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return the integers next to ``(numbers − middle) / half · scale``, clamped to the bounds of one person; one pass.

    Parameters
    ----------
    numbers
        A vector.
    largest, least
        The bounds: exact integers of at most 62 bits. By default ``least`` is −``largest``.
    middle, half, scale
        How a number is coded before it is rounded.
    out
        Where the integers go, in any integer type that holds the bounds; by default a new vector of eight bytes each.

    Examples
    --------
    >>> whole_numbers(np.array([0.0, 60.0, 75.0, 1e308]), 4, middle=60.0, half=60.0, scale=4)
    array([-4,  0,  1,  4])
    """
    made = np.empty(len(numbers), dtype=np.int64) if out is None else out
    low, high = -_below(largest if least is None else -least), _below(largest)
    if not _made(numbers, middle, half, float(scale), low, high, made):
        raise _outside()
    return made


def _below(bound: int) -> float:
    """Return the bound as a float, or the float below it: beyond 2⁵³ not every integer is one."""
    found = float(bound)
    return found if found <= bound else math.nextafter(found, -math.inf)


def require_within(integers: NDArray[Any], largest: int) -> None:
    """Refuse integers beyond a bound: after this nothing can fail on a row."""
    if integers.size and max(-int(integers.min()), int(integers.max())) > largest:
        raise _outside()


def _outside() -> SchemaMismatch:
    return SchemaMismatch(
        "A row is not made of integers within the bound of its step.",
        remedy="This is a fault of colonnade, and of no table: report it.",
    )


@njit(cache=True, nogil=True, error_model="numpy")  # dividing by zero gives no number, and is refused as such
def _made(numbers: Any, middle: float, half: float, scale: float, low: float, high: float, out: Any) -> bool:
    """Round and clamp; return whether all were finite. What is no number is not above the lower bound, and becomes that."""
    finite = True
    for i in range(len(numbers)):
        coded = np.rint((numbers[i] - middle) / half * scale)
        finite &= abs(coded) < np.inf
        coded = coded if coded > low else low  # noqa: FURB136  # of no number, `max` might return no number
        coded = coded if coded < high else high  # noqa: FURB136
        out[i] = np.int64(coded)
    return finite


def coded_rows(coding: FixedPoint, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's rows as integers, a column of the table along each row of the result."""
    nonprivate = np.empty((coding.width, stop - start), dtype=np.int64)
    position = 0
    for name, width in zip(coding.columns, coding.widths, strict=True):
        column = table.schema[name]  # a standardised one is coded around a centre that the coding does not know
        if column.is_number:
            whole_numbers(
                table.values(name, start, stop),
                coding.scale,
                middle=column.midpoint,
                half=column.half_range,
                scale=coding.scale,
                out=nonprivate[position],
            )
        else:
            nonprivate[position : position + width] = 0
            code = _code_signs if name in coding.signed else _code_levels
            code(table.codes(name, start, stop), coding.scale, nonprivate, position)
        position += width
    if coding.clips_numbers:
        numbers = nonprivate[coding.numbers]
        _clip_rows(numbers, coding.number_bound)
        nonprivate[coding.numbers] = numbers
    if coding.clips:
        _clip_rows(nonprivate, coding.row_bound)
    return nonprivate


@njit(cache=True, nogil=True)
def _code_levels(codes: Any, scale: int, out: Any, column: int) -> None:
    for i in range(len(codes)):
        if codes[i] >= 0:
            out[column + codes[i], i] = scale


@njit(cache=True, nogil=True)
def _code_signs(codes: Any, scale: int, out: Any, column: int) -> None:
    for i in range(len(codes)):
        if codes[i] >= 0:
            out[column, i] = scale if codes[i] == 1 else -scale


@njit(cache=True, nogil=True)
def _clip_rows(columns: Any, row_bound: int) -> None:
    """Shorten rows that are too long by scaling and truncating towards zero, until the integers themselves keep the bound."""
    for i in range(columns.shape[1]):
        length = _squared_length(columns, i)
        while length > row_bound:
            shrink = np.sqrt(row_bound / length)
            for j in range(columns.shape[0]):
                columns[j, i] = np.int64(columns[j, i] * shrink)
            shorter = _squared_length(columns, i)
            if (
                shorter == length
            ):  # scaling by a hair less than one may truncate nothing; take one off the largest entry
                _shorten_largest(columns, i)
                shorter = _squared_length(columns, i)
            length = shorter


@njit(cache=True, nogil=True)
def _squared_length(columns: Any, row: int) -> int:
    length = 0
    for j in range(columns.shape[0]):
        length += columns[j, row] * columns[j, row]
    return length


@njit(cache=True, nogil=True)
def _shorten_largest(columns: Any, row: int) -> None:
    largest = 0
    for j in range(columns.shape[0]):
        if abs(columns[j, row]) > abs(columns[largest, row]):
            largest = j
    columns[largest, row] -= np.sign(columns[largest, row])


def partial_scores(
    scores: ScoreWeights, table: PrivateTable, start: int, stop: int, output: int | None = None
) -> NDArray[np.float64]:
    """Return some people's partial scores: of one output, or of all with an output along each row."""
    weights = scores.weights if output is None else scores.weights[output : output + 1]
    nonprivate = np.zeros((len(weights), stop - start))
    place = 0
    for name, width in zip(scores.columns, scores.widths, strict=True):
        column = scores.schema[name]
        some = weights[:, place : place + width]
        if column.is_number:
            coded = to_unit_range(table.values(name, start, stop), column)  # within [−1, 1] before any weight
            _add_numbers(coded, np.ascontiguousarray(some[:, 0]), nonprivate)
        else:
            _add_levels(table.codes(name, start, stop), np.ascontiguousarray(some), nonprivate)
        place += width
    return nonprivate if output is None else np.asarray(nonprivate[0])


def bounded_scores(coding: BoundedScores, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's scores as integers, an output along each row."""
    nonprivate = partial_scores(coding.scores, table, start, stop)
    whole = np.empty(nonprivate.shape, dtype=np.int64)
    for scores, height, scale, out in zip(
        nonprivate, coding.heights.tolist(), coding.heights / coding.largest, whole, strict=True
    ):
        whole_numbers(scores, height, scale=scale, out=out)
    return whole


@njit(cache=True, nogil=True)
def _add_numbers(coded: Any, weights: Any, out: Any) -> None:
    for output in range(len(weights)):
        weight = weights[output]
        for i in range(len(coded)):
            out[output, i] += weight * coded[i]


@njit(cache=True, nogil=True)
def _add_levels(codes: Any, weights: Any, out: Any) -> None:
    for output in range(len(weights)):
        for i in range(len(codes)):
            if codes[i] >= 0:
                out[output, i] += weights[output, codes[i]]
