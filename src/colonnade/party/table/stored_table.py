"""`StoredTable`: a party's columns on disk, in the order of the alignment, for a source that is larger than memory.

Rows are read from the source in blocks, their cells are stored as numbers (`colonnade.party.table.stored_table`), sorted through
DuckDB under a limit on memory, and written to files in the agreed order. A statistic then reads any range of people from disk,
behind the same encoders and so with the same result as from a table in memory. Peak memory is what sorting may take and a few
blocks of rows, however many rows there are.

How long that takes, and how much of the disk, follows from the number of rows and columns.

Cells on disk in the agreed order: one file of plain numbers per column, from which any range of people is read.

A cell is stored as what it says, before any rule of the schema is applied: a number as a float, a date as its day, a level as its
place in the list. Read back, it is an Arrow array, which the encoders of `colonnade.schema` take for what it was: ``encode(read
back(store(cells)))`` is ``encode(cells)``, under the declared description and under everything that it may be read as.

The files are `SpilledRows`: they have no names and no permissions for others, and go with the object that holds them. Their
lengths follow from the number of people alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.party.table.dask_cluster import Cluster
from colonnade.party.table.large_ids import LargeIds, Listed, SortedIds, common_sorted, matches, sorted_batches
from colonnade.party.table.private_table import PrivateTable, fewer_rows, require_schema
from colonnade.party.table.row_order import (
    RowOrder,
    align,
    common_ids,
    order_identity,
    read_ids,
    require_nobody_lacking,
    unaligned,
)
from colonnade.party.table.sources import BLOCK, Source
from colonnade.runtime.event_log import Pace, Progress, progress_bar
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.schema import Column, Schema
from colonnade.schema.cells import is_text
from colonnade.schema.stored import CellForm, form_of

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

    def load_present(self, names: Sequence[str]) -> None:
        """Require that these columns are there; who has a value is read where it is used."""
        self.load(names)

    @property
    def sharded(self) -> bool:
        """Whether the rows come from several sources: here they are one table on disk."""
        return False

    def _column(self, name: str) -> NDArray[Any]:
        return self._some(name, 0, None)

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
