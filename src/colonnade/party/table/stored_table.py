"""`StoredTable`: a party's columns on disk, in the order of the alignment, for a source that is larger than memory.

Rows are read from the source in blocks, their cells are stored as numbers (`StoredCells`), sorted through DuckDB under a limit
on memory, and written to files in the agreed order. A statistic then reads any range of people from disk, behind the same
encoders and so with the same result as from a table in memory. Peak memory is what sorting may take and a few blocks of rows,
however many rows there are.

How long that takes, and how much of the disk, follows from the number of rows and columns.

*Cells.* There is one file of plain numbers per column, from which any range of people is read. A cell is stored as what it
says, before any rule of the schema is applied: a number as a float, a date as its day, a level as its place in the list. Read
back, it is an Arrow array, which the encoders of `colonnade.schema` take for what it was: ``encode(read back(store(cells)))``
is ``encode(cells)``, under the declared description and under everything that it may be read as.

The files are `SpilledRows`: they have no names and no permissions for others, and go with the object that holds them. Their
lengths follow from the number of people alone.

*Ids* that do not fit into memory (`LargeIds`) are read in blocks, sorted on disk, and compared as sorted streams. The rules are
those of `colonnade.party.table.row_order`, and so are the names of alignments: where ids are whole numbers they are compared as
such, else as text in its usual form. Two ascending lists are merged by one pass over both, a block at a time, so an alignment
takes memory for a few blocks and for sorting.

*Sorting* more rows than fit into memory is left to DuckDB (extra ``large``), with a limit on memory and the rest on disk. Rows
go in and come out as a stream of record batches of plain numbers and text. What DuckDB puts on disk meanwhile lies in a folder
that only this user can enter, and goes when the stream ends (`TemporaryFolder`). Whatever it reports when it fails may quote a
cell, so every failure becomes an error of ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.errors import BadInput, ColonnadeError
from colonnade.party.table.dask_cluster import Cluster
from colonnade.party.table.private_table import PrivateTable, fewer_rows, require_schema
from colonnade.party.table.row_order import (
    WHOLE_IDS,
    RowOrder,
    align,
    common_ids,
    id_pieces,
    identity_hash,
    incomplete_ids,
    nobody_in_common,
    normal_text,
    order_identity,
    read_ids,
    require_nobody_lacking,
    text_bytes,
    unaligned,
    undeclared_ids,
)
from colonnade.party.table.sources import BLOCK, Source, connect_duckdb, limit_memory
from colonnade.runtime.event_log import Pace, Progress, progress_bar
from colonnade.runtime.private_files import TemporaryFolder
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.schema import Column, Schema
from colonnade.schema.encoders import CellForm, form_of, is_text

SORTING_SHARE = 0.45
"""The part of a party's memory that DuckDB may fill: the rest is for the process itself and for blocks of rows."""

Result = TypeVar("Result")


@contextmanager
def sorted_batches(schema: Any, batches: Iterable[Any], key: str, *, memory: int) -> Iterator[Iterator[Any]]:
    """Sort a stream of record batches by one column, ascending: numbers by value, text by its bytes.

    Parameters
    ----------
    schema
        The Arrow schema of the batches: whole numbers, floats, text.
    batches
        What is sorted, once.
    key
        The column.
    memory
        How many bytes the process may use; sorting takes less than half of them.

    Examples
    --------
    >>> from colonnade.party.table.sources import SMALLEST_MEMORY
    >>> numbers = pa.record_batch({"n": [3, 1, 2]})
    >>> with sorted_batches(numbers.schema, [numbers], "n", memory=SMALLEST_MEMORY) as ordered:
    ...     [one for batch in ordered for one in batch.column("n").to_pylist()]
    [1, 2, 3]
    """
    with TemporaryFolder() as folder:
        connection = connect_duckdb()
        try:
            _quietly(lambda: limit_memory(connection, int(memory * SORTING_SHARE), folder.path))
            connection.execute("SET preserve_insertion_order = false")
            failed: list[ColonnadeError] = []
            reader = pa.RecordBatchReader.from_batches(schema, _remembering(batches, failed))
            connection.register("unsorted", reader)
            quoted = '"' + key.replace('"', '""') + '"'
            relation = _quietly(lambda: connection.sql(f"SELECT * FROM unsorted ORDER BY {quoted}"), failed)  # noqa: S608  # a name of ours
            ordered = _quietly(lambda: relation.to_arrow_reader(BLOCK), failed)
            yield _steps(ordered, failed)
        finally:
            connection.close()


def _remembering(batches: Iterable[Any], failed: list[ColonnadeError]) -> Iterator[Any]:
    """Pass batches on; keep an error of ours, which DuckDB would otherwise turn into one of its own."""
    try:
        yield from batches
    except ColonnadeError as error:
        failed.append(error)
        raise


def _steps(ordered: Any, failed: list[ColonnadeError]) -> Iterator[Any]:
    while (batch := _quietly(lambda: next(iter(ordered), None), failed)) is not None:
        if len(batch):
            yield batch


def _quietly(step: Callable[[], Result], failed: list[ColonnadeError] | None = None) -> Result:
    try:
        return step()
    except Exception as error:  # noqa: BLE001  # DuckDB fails in many ways, and any of its messages may quote a cell
        failure = type(error).__name__
    if failed:
        raise failed[0]
    raise BadInput(
        f"Rows could not be sorted on disk ({failure}).",
        remedy="Make room in the temporary directory, point TMPDIR to a larger disk, or allow more memory.",
    )


INTEGER_PATTERN = r"^(0|-?[1-9][0-9]{0,18})$"


class SortedIds:
    """Ids on disk, ascending, each once: numbers by value, text by its UTF-8 bytes.

    Parameters
    ----------
    is_text
        Whether they are text.
    """

    def __init__(self, *, is_text: bool) -> None:
        self.is_text = is_text
        self._numbers = SpilledRows(None, None, np.int64)  # the ids themselves, or where each text ends
        self._letters = SpilledRows(None, None, np.uint8)
        if is_text:
            self._numbers.append(np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self._numbers) - self.is_text

    def append(self, ids: Any) -> None:
        """Add ids that come behind the last one."""
        if not self.is_text:
            self._numbers.append(ids.to_numpy(zero_copy_only=False))
            return
        lengths = pc.binary_length(ids).cast(pa.int64()).to_numpy(zero_copy_only=False)
        self._numbers.append(np.cumsum(lengths) + len(self._letters))
        self._letters.append(text_bytes(ids))

    def read(self, start: int, stop: int) -> Any:
        """Return some of the ids as an Arrow array."""
        stop = min(stop, len(self))
        if not self.is_text:
            return pa.array(self._numbers.read(start, stop))
        ends = self._numbers.read(start, stop + 1)
        letters = self._letters.read(int(ends[0]), int(ends[-1]))
        buffers = [None, pa.py_buffer(ends - ends[0]), pa.py_buffer(letters)]
        return pa.Array.from_buffers(pa.large_string(), stop - start, buffers)

    def blocks(self, rows: int = BLOCK) -> Iterator[Any]:
        """Yield all ids in order, some at a time."""
        for start in range(0, len(self), rows):
            yield self.read(start, start + rows)

    def mapped(self) -> Any:
        """Return all ids as an Arrow array that is read from disk where it is looked at."""
        numbers = self._numbers.mapped()
        if not self.is_text:
            return pa.Array.from_buffers(pa.int64(), len(self), [None, pa.py_buffer(numbers)])
        buffers = [None, pa.py_buffer(numbers), pa.py_buffer(self._letters.mapped())]
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)

    def identity(self, mode: str) -> str:
        """Return the name of the alignment that these ids are, as `RowOrder.identity` has it."""
        digest = identity_hash(mode, is_text=self.is_text, count=len(self))
        if self.is_text:
            for start in range(0, len(self), BLOCK):
                ends = self._numbers.read(start, min(start + BLOCK, len(self)) + 1)
                digest.update(np.diff(ends).astype("<i8").data)
        parts = self._letters if self.is_text else self._numbers
        for start in range(0, len(parts), BLOCK):
            some = parts.read(start, start + BLOCK)
            digest.update(some.astype(some.dtype.newbyteorder("<"), copy=False).data)
        return digest.hexdigest()

    @classmethod
    def of(cls, ids: Any) -> "SortedIds":
        """Put ids that are in memory, ascending and each once, on disk."""
        found = cls(is_text=is_text(ids.type))
        for start in range(0, len(ids), BLOCK):
            found.append(ids.slice(start, BLOCK))
        return found


class LargeIds:
    """A party's ids as they stand in its source, read in blocks. Missing and repeated ones are refused here.

    Parameters
    ----------
    source, column
        Where they are.
    party
        Whose ids these are, for the error messages: they name the party and a count, never an id.
    memory
        How many bytes the process may use.
    """

    def __init__(self, source: Source, column: str, *, party: str, memory: int) -> None:
        self.party = party
        self._source = source
        self._column = column
        self._memory = memory
        self.is_text = self._holds_text()
        self._as_they_are = self._in_order(self.blocks(), is_text=self.is_text)
        self._as_text: SortedIds | None = None

    def __len__(self) -> int:
        return len(self._as_they_are)

    def blocks(self) -> Iterator[Any]:
        """Yield all ids in the order of the source, as 64-bit integers or text, null where one is missing."""
        kind = pa.large_string() if self.is_text else pa.int64()
        for piece in self._pieces():
            yield piece.cast(kind)

    def as_compared(self, ids: Any, *, as_text: bool) -> Any:
        """Return ids in the form in which they are compared; null for one that no whole number is equal to.

        Where this party has text and the list has whole numbers, a text counts as the number that it is the usual spelling of.
        """
        if not self.is_text:
            return ids if not as_text else normal_text(ids)
        text = normal_text(ids)
        if as_text:
            return text
        whole = pc.match_substring_regex(text, INTEGER_PATTERN)
        numbers = pc.if_else(whole, text, pa.scalar(None, type=text.type))
        return pa.array([_as_whole(one) for one in numbers.to_pylist()], type=pa.int64())

    def in_order(self, *, as_text: bool) -> SortedIds:
        """Return the ids sorted as they are compared; refuse ids that are missing or repeated then."""
        if not (as_text or self.is_text):
            return self._as_they_are
        if self._as_text is None:
            blocks = (self.as_compared(ids, as_text=True) for ids in self.blocks())
            self._as_text = self._in_order(blocks, is_text=True)
        return self._as_text

    def _in_order(self, blocks: Iterator[Any], *, is_text: bool) -> SortedIds:
        found, missing, total, repeated, last = SortedIds(is_text=is_text), 0, 0, 0, None
        kind = pa.large_string() if is_text else pa.int64()
        batches = (pa.record_batch([ids], names=["id"]) for ids in blocks)
        with sorted_batches(pa.schema([("id", kind)]), batches, "id", memory=self._memory) as ordered:
            for batch in ordered:
                ids = batch.column(0).cast(kind)
                total, missing = total + len(ids), missing + ids.null_count
                ids = ids.drop_null()
                fresh = _is_first(ids, last)
                repeated += int(np.count_nonzero(~fresh))
                if len(ids):
                    last = ids[-1]
                    found.append(ids.filter(pa.array(fresh)))
        if missing or repeated:
            raise incomplete_ids(self.party, total, missing, repeated)
        return found

    def _pieces(self) -> Iterator[Any]:
        return id_pieces(self._source, self._column, party=self.party)

    def _holds_text(self) -> bool:
        """Return whether these ids are text: not, where all text of no declared type is written as whole numbers are."""
        texts, numbers, whole = False, False, undeclared_ids(self._source, self._column)
        if not whole and all(not is_text(kind) for kind in self._source.kinds(self._column, look=True) if kind):
            return False  # numbers by their type: nothing to look at
        for piece in self._pieces():
            if is_text(piece.type):
                texts = True
                whole = whole and pc.all(pc.match_substring_regex(piece, WHOLE_IDS)).as_py() is not False
            else:
                numbers = numbers or piece.null_count < len(piece)
        if texts and not whole and numbers:
            raise BadInput(
                f"Party {self.party!r}: some ids are text and some are numbers.", remedy="Give all ids one type."
            )
        return texts and not whole


def _as_whole(text: str | None) -> int | None:
    number = None if text is None else int(text)
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _is_first(ids: Any, last: Any) -> NDArray[np.bool_]:
    """Return which of ascending ids differ from the one before."""
    if not len(ids):
        return np.empty(0, dtype=np.bool_)
    first = last is None or ids[0].as_py() != last.as_py()
    rest = pc.not_equal(ids.slice(0, len(ids) - 1), ids.slice(1)).to_numpy(zero_copy_only=False)
    return np.concatenate([[first], rest]).astype(np.bool_)


def ids_in_memory(ids: Any) -> Any:
    """Return a party's ids as one Arrow array, in the order of its source."""
    return pa.concat_arrays(list(ids.blocks())) if isinstance(ids, LargeIds) else ids


def common_sorted(lists: Sequence[SortedIds]) -> SortedIds:
    """Return the ids that all of these lists have."""
    common, *others = sorted(lists, key=len)
    for other in others:
        found = SortedIds(is_text=common.is_text)
        for block, places, _ in matches((pa.record_batch([ids], names=["id"]) for ids in other.blocks()), common):
            found.append(block.take(pa.array(places)))
        common = found
    if not len(common):
        raise nobody_in_common()
    return common


class Listed(Protocol):
    """An ascending list."""

    def blocks(self) -> Iterator[Any]:
        """Yield it in order, some at a time."""


def matches(own: Iterator[Any], listed: Listed) -> Iterator[tuple[Any, NDArray[np.int64], list[Any]]]:
    """Merge rows that ascend by their ids with an ascending list.

    Parameters
    ----------
    own
        Record batches, whose first column are ids: ascending over all batches, each once, none missing.
    listed
        The list.

    Yields
    ------
    tuple
        A stretch of the list, which places of it have a row, and these rows in order. All stretches together are the list.
    """
    batch = next(own, None)
    for block in listed.blocks():
        wanted, places, rows = _comparable(block), [np.empty(0, dtype=np.int64)], []
        while batch is not None:
            have = _comparable(batch.column(0))
            reached = int(np.searchsorted(have, wanted[-1], side="right"))
            at = np.searchsorted(wanted, have[:reached])
            equal = np.flatnonzero(wanted[at] == have[:reached])
            places.append(at[equal])
            rows.append(batch.slice(0, reached) if len(equal) == reached else batch.take(pa.array(equal)))
            if reached < len(have):
                batch = batch.slice(reached)
                break
            batch = next(own, None)
        yield block, np.concatenate(places), rows


def _comparable(ids: Any) -> NDArray[Any]:
    """Return ids as an array that numpy compares as DuckDB does."""
    if not is_text(ids.type):
        return np.asarray(ids.to_numpy(zero_copy_only=False))
    found = np.empty(len(ids), dtype=object)
    found[:] = ids.cast(pa.large_binary()).to_pylist()
    return found


UNKNOWN, EMPTY = -1, -2
NO_ROW = -1


def _spread(cells: NDArray[Any], held: NDArray[np.bool_], absent: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the cells of people who have a row among those who have none."""
    if len(cells) == len(held):
        return cells
    spread = np.full(len(held), absent, dtype=dtype)
    spread[held] = cells
    return spread


class CellsInOrder(Protocol):
    """Stored cells in the agreed order, wherever they lie."""

    def cells(self, name: str, start: int, stop: int) -> Any:
        """Return some people's cells; of those without a row they mean nothing."""

    def cells_of(self, name: str, people: NDArray[np.int64]) -> Any:
        """Return the cells of people by their places."""

    def held(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return who of some people has a row."""

    def held_of(self, people: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return who of some people, by their places, has a row."""


class StoredCells:
    """Columns on disk, in the agreed order, and who has a row at all.

    Parameters
    ----------
    forms
        How each column is stored.
    """

    def __init__(self, forms: dict[str, CellForm]) -> None:
        self.forms = forms
        self._files = {name: SpilledRows(None, None, form.dtype) for name, form in forms.items()}
        self._held = SpilledRows(None, None, np.bool_)
        self.rows = SpilledRows(None, None, np.int64)
        self.rows_held = 0

    @property
    def people(self) -> int:
        """How many people there are by now."""
        return len(self._held)

    def append(self, held: NDArray[np.bool_], rows: NDArray[np.int64], columns: dict[str, NDArray[Any]]) -> None:
        """Write the next people: who of them has a row, and the stored cells of those who have."""
        self._held.append(held)
        self.rows_held += int(np.count_nonzero(held))
        self.rows.append(_spread(rows, held, NO_ROW, self.rows.dtype))
        for name, file in self._files.items():
            file.append(_spread(columns[name], held, 0, file.dtype))

    def cells(self, name: str, start: int, stop: int) -> Any:
        """Return some people's cells; of those without a row they mean nothing."""
        return self.forms[name].restore(self._files[name].read(start, stop))

    def cells_of(self, name: str, people: NDArray[np.int64]) -> Any:
        """Return the cells of people by their places."""
        return self.forms[name].restore(self._files[name].take(people))

    def held(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return who of some people has a row."""
        return self._held.read(start, stop)

    def held_of(self, people: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return who of some people, by their places, has a row."""
        return self._held.take(people)


KEY, ROW = "key", "row"


class StoredTable(PrivateTable):
    """A party's columns on disk, in the order of the alignment.

    Parameters
    ----------
    source, schema
        The rows, and what is public about their columns.
    cells
        The columns in order.
    memory
        How many bytes the process may use.
    """

    in_memory = False

    def __init__(self, source: Source, schema: Schema, cells: StoredCells, *, memory: int) -> None:
        require_schema(source, schema)
        self._source = source
        self._declared = schema
        self._cells: CellsInOrder = cells
        self._place = None
        self._memory = memory
        self.people = cells.people
        self._read_through(schema)

    def reordered(self, order: NDArray[np.int64]) -> "StoredTable":
        """Return the same source in another order of rows."""
        cells = StoredCells({name: form_of(column) for name, column in stored_columns(self._declared)})
        _sort_by_place(self._source, self._declared, np.asarray(order), cells, self._memory)
        return StoredTable(self._source, self._declared, cells, memory=self._memory)

    def load(self, names: Sequence[str]) -> None:
        """Require that these columns are there; they are read where they are used."""
        for name in names:
            self._require(name)

    def scratch(self, width: int | None, dtype: Any) -> SpilledRows:
        """Return room for one row per person: on disk, where it would take an eighth of the memory."""
        return SpilledRows(self.people, width, dtype, memory=self._memory // 8)

    def cells_of(self, name: str, people: NDArray[np.int64]) -> NDArray[Any]:
        """Return codes or values of some people by their places, which may be in any order."""
        self._require(name)
        cells = [self._cells.cells_of(stored, people) for stored in self.schema.stored(name)]
        return self._encoded(name, cells, self._cells.held_of(people))

    def held(self, start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Return for which people this party has a row at all; the others are null records here."""
        return self._cells.held(start, self.people if stop is None else stop)

    def present(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Return who has a value in at least one of these columns; nobody else has a record here."""
        stop = self.people if stop is None else stop
        present = np.empty(max(0, min(stop, self.people) - start), dtype=np.bool_)
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            found = np.zeros(last - first, dtype=np.bool_)
            for name in names:
                found |= self._encoders[name].present(*self._stored_cells(name, first, last))
            present[first - start : last - start] = found & self.held(first, last)
        return present

    def _some(self, name: str, start: int, stop: int | None) -> NDArray[Any]:
        stop = self.people if stop is None else stop
        if stop - start <= BLOCK:
            return self._encoded(name, self._stored_cells(name, start, stop), self.held(start, stop))
        found = np.empty(stop - start, dtype=self._encoders[name].dtype)
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            found[first - start : last - start] = self._some(name, first, last)
        return found

    def _stored_cells(self, name: str, start: int, stop: int) -> list[Any]:
        """Return the cells of each column of the source that a column is read from."""
        return [self._cells.cells(stored, start, stop) for stored in self.schema.stored(name)]

    def _encoded(self, name: str, cells: list[Any], held: NDArray[np.bool_]) -> NDArray[Any]:
        encoder = self._encoders[name]
        encoded: NDArray[Any] = encoder(*cells)
        encoded[~held] = encoder.null
        return encoded


def party_ids(source: Source, column: str, *, party: str, memory: int | None) -> Any:
    """Read a party's ids, and refuse any that is missing or occurs twice: in memory, or `LargeIds` under a limit on memory."""
    if memory is None:
        return read_ids(source, column, party=party)
    return LargeIds(source, column, party=party, memory=memory)


def ordered_table(
    source: Source,
    schema: Schema,
    ids: Any,
    common: Any,
    *,
    party: str,
    mode: str = "intersection",
    memory: int | None = None,
    cluster: Cluster | None = None,
) -> tuple[RowOrder, PrivateTable]:
    """Return one party's part in an alignment, and its table in that order.

    Parameters
    ----------
    source, schema
        The rows, and what is public about their columns.
    ids
        This party's ids (`party_ids`).
    common
        The ids that take part (`common_list`); ``None`` while rows have no order.
    party, mode
        As in `colonnade.party.table.row_order.align`.
    memory
        How many bytes the process may use; ``None`` keeps columns in memory.
    cluster
        The party's own Dask cluster, whose workers keep the columns; ``None`` for none.
    """
    if memory is None:
        order = unaligned() if common is None else align(ids, _in_memory(common), party=party, mode=mode)
        if cluster is None:
            return order, PrivateTable(source, schema, order=order.rows)
        from colonnade.party.table.dask_table import DaskTable

        return order, DaskTable(source, schema, order.rows, cluster)
    cells = StoredCells({name: form_of(column) for name, column in stored_columns(schema)})
    order = unaligned()
    if common is not None:
        order = _align_on_disk(source, schema, ids, common, cells, party=party, mode=mode, memory=memory)
    return order, StoredTable(source, schema, cells, memory=memory)


def common_list(ids_by_party: Mapping[str, Any]) -> Any:
    """Return the ids that every party has: in memory, or on disk where any party's ids are."""
    if not any(isinstance(ids, LargeIds) for ids in ids_by_party.values()):
        return common_ids(ids_by_party)
    as_text = any(ids.is_text if isinstance(ids, LargeIds) else is_text(ids.type) for ids in ids_by_party.values())
    return common_sorted([_sorted(ids, party, as_text=as_text) for party, ids in ids_by_party.items()])


def list_identity(common: Any, mode: str) -> str:
    """Return the name of the alignment that a list of ids is (`RowOrder.identity`)."""
    return common.identity(mode) if isinstance(common, SortedIds) else order_identity(common, mode)


def part_of(order: RowOrder, identity: str, taken: NDArray[np.bool_]) -> RowOrder:
    """Return the order of some of an order's people, under a name of its own: in memory, or on disk where the whole is."""
    if not isinstance(order.rows, np.memmap):
        places = np.flatnonzero(taken)
        known = None if order.ids is None else order.ids.take(pa.array(places))
        return RowOrder(identity, len(places), order.rows[places], known, order.union)
    rows, ids = SpilledRows(None, None, np.int64), SortedIds(is_text=is_text(order.ids.type))
    for start in range(0, order.people, BLOCK):
        some = taken[start : start + BLOCK]
        rows.append(order.rows[start : start + BLOCK][some])
        ids.append(order.ids.slice(start, BLOCK).filter(pa.array(some)))
    return RowOrder(identity, len(rows), rows.mapped(), ids.mapped(), order.union)


def _sorted(ids: Any, party: str, *, as_text: bool) -> SortedIds:
    if isinstance(ids, LargeIds):
        return ids.in_order(as_text=as_text)
    return SortedIds.of(common_ids({party: ids.cast(pa.large_string()) if as_text else ids}))


def _in_memory(common: Any) -> Any:
    return common.mapped() if isinstance(common, SortedIds) else common


def stored_columns(schema: Schema) -> Iterator[tuple[str, Column]]:
    """Yield the columns that are stored; an indicator is read from the column that it indicates."""
    return ((name, column) for name, column in schema.items() if column.indicates is None)


def _align_on_disk(
    source: Source,
    schema: Schema,
    ids: LargeIds,
    common: Any,
    cells: StoredCells,
    *,
    party: str,
    mode: str,
    memory: int,
) -> RowOrder:
    """Write a party's columns in the order of a list, and return that order."""
    listed = common if isinstance(common, SortedIds) else SortedIds.of(common)
    if ids.is_text or listed.is_text:
        ids.in_order(as_text=True)  # refuses ids that become equal once they are compared
    compared = (ids.as_compared(some, as_text=listed.is_text) for some in ids.blocks())
    with _sorted_rows(source, schema, compared, memory, is_text=listed.is_text) as ordered:
        _write(cells, ordered, listed)
    require_nobody_lacking(len(listed) - cells.rows_held, len(listed), party=party, mode=mode)
    return RowOrder(listed.identity(mode), len(listed), cells.rows.mapped(), listed.mapped())


@dataclass(frozen=True)
class _Places:
    """All places of an order, as a list to merge rows with."""

    people: int

    def blocks(self) -> Iterator[Any]:
        for start in range(0, self.people, BLOCK):
            yield pa.array(np.arange(start, min(start + BLOCK, self.people)))


def _sort_by_place(source: Source, schema: Schema, order: NDArray[np.int64], cells: StoredCells, memory: int) -> None:
    """Write a party's columns in an order of its rows."""
    keys = (pa.array(some, mask=some < 0) for some in _places_of_rows(order, memory))
    with _sorted_rows(source, schema, keys, memory, is_text=False) as ordered:
        _write(cells, ordered, _Places(len(order)))


def _places_of_rows(order: NDArray[np.int64], memory: int) -> SpilledRows:
    """Invert an order, on disk: for each row of the source, up to the last that takes part, its place; −1 where it has none."""
    columns = pa.schema([(ROW, pa.int64()), (KEY, pa.int64())])

    def pairs() -> Iterator[Any]:
        for start in range(0, len(order), BLOCK):
            rows = np.asarray(order[start : start + BLOCK])
            here = np.flatnonzero(rows >= 0)
            yield pa.record_batch([pa.array(rows[here]), pa.array(here + start)], schema=columns)

    places = SpilledRows(None, None, np.int64)
    with sorted_batches(columns, pairs(), ROW, memory=memory) as ordered:
        for batch in ordered:
            rows, here = (column.to_numpy() for column in batch.columns)
            if rows[0] < len(places) or np.any(np.diff(rows) == 0):
                raise BadInput("An order names a row of the data source twice.")
            for start in range(len(places), int(rows[-1]) + 1, BLOCK):
                some = np.full(min(BLOCK, int(rows[-1]) + 1 - start), NO_ROW)
                mine = slice(*np.searchsorted(rows, [start, start + len(some)]))
                some[rows[mine] - start] = here[mine]
                places.append(some)
    return places


@contextmanager
def _sorted_rows(
    source: Source, schema: Schema, keys: Iterator[Any], memory: int, *, is_text: bool
) -> Iterator[Iterator[Any]]:
    """Read a source with a key for each of its first rows, and sort the stored cells of those that have one."""
    forms = {name: form_of(column) for name, column in stored_columns(schema)}
    kinds = [(name, pa.from_numpy_dtype(form.dtype)) for name, form in forms.items()]
    key = (KEY, pa.large_string() if is_text else pa.int64())
    arrow = pa.schema([key, (ROW, pa.int64()), *((f"cell {name}", kind) for name, kind in kinds)])

    def stored(say: Progress) -> Iterator[Any]:
        pace = None if source.rows is None else Pace(source.rows, say, "read")
        start, waiting = 0, pa.array([], type=key[1])
        for batch in source.batches(list(forms)):
            while len(waiting) < len(batch) and (more := next(keys, None)) is not None:
                waiting = pa.concat_arrays([waiting, more.cast(key[1])])
            some = batch.slice(0, len(waiting))
            cells = [pa.array(form.store(some.column(name))) for name, form in forms.items()]
            rows = pa.array(np.arange(start, start + len(some)))
            found = pa.record_batch([waiting.slice(0, len(some)), rows, *cells], schema=arrow)
            start, waiting = start + len(some), waiting.slice(len(some))
            if pace is not None:
                pace.reached(start)
            yield found.filter(found.column(0).is_valid()) if found.column(0).null_count else found
        if len(waiting) or next(keys, None) is not None:
            raise fewer_rows()

    with progress_bar("table") as say, sorted_batches(arrow, stored(say), KEY, memory=memory) as ordered:
        yield ordered


def _write(cells: StoredCells, ordered: Iterator[Any], listed: Listed) -> None:
    """Write sorted rows at their places in a list, and null records at the others."""
    for block, places, batches in matches(ordered, listed):
        held = np.zeros(len(block), dtype=np.bool_)
        held[places] = True
        rows = pa.Table.from_batches(batches) if batches else None
        columns = {
            name: np.empty(0, dtype=form.dtype) if rows is None else rows.column(f"cell {name}").to_numpy()
            for name, form in cells.forms.items()
        }
        cells.append(held, np.empty(0, dtype=np.int64) if rows is None else rows.column(ROW).to_numpy(), columns)
