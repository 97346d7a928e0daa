"""`DaskTable`: a party's columns with the workers of its own Dask cluster, in the order of the alignment.

The agreed order is cut into ranges, by public facts and so in the same way at every party. A worker codes a partition, which is
where the source has its rows, and cuts it into pieces, one for each range that it has people of. A worker puts the pieces of a
range together. From then on the range stays with the workers, and each question about it is one task: a fold, rows that leave as
shares, or some cells. There is no distributed shuffle: the guard knows where every row belongs, and nobody sorts.

Cells are stored as those of a table on disk are (`colonnade.party.table.stored_table`), so a worker sees a range as such a table,
behind the same encoders and with the same result. A fold adds whole numbers, whose sum does not depend on who adds what.

The guard holds the ids, the order of rows and the sums. It keeps gate, ledger and keys, and draws all noise.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.party.table.dask_cluster import Cluster, DaskRows, Sealed, partition_changed
from colonnade.party.table.private_table import PrivateTable, places_of_rows, require_schema
from colonnade.party.table.sources import BLOCK, Source
from colonnade.party.table.stored_table import StoredTable, stored_columns
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.schema import Schema
from colonnade.schema.encoders import CellForm, form_of

Result = TypeVar("Result")
Cells = tuple[bytes, NDArray[np.bool_], dict[str, NDArray[Any]]]
"""A range of people: a hash of all of it, who has a row, and stored cells by column."""

RANGE = 2 * BLOCK
"""People of a range: few enough that all workers have some, and enough that a task takes longer than sending it does."""

MOST_RANGES = 256
"""A partition has a piece for each range, so there are not more of them than this."""

SCRATCH = 1 << 28
"""Bytes of one row per person that a statistic writes and reads again, kept in the guard's memory; more of them go to disk."""


def range_length(people: int) -> int:
    """Return how many people a range has: the same at every party, and whole blocks.

    Examples
    --------
    >>> range_length(1_000), range_length(10**9)
    (131072, 3932160)
    """
    return RANGE * max(1, -(-people // (RANGE * MOST_RANGES)))


class DaskTable(PrivateTable):
    """A party's columns with the workers of its own cluster, in the order of the alignment.

    Parameters
    ----------
    source, schema
        The rows, and what is public about their columns.
    order
        As in `PrivateTable`.
    cluster
        The workers.
    """

    in_memory = False

    def __init__(self, source: Source, schema: Schema, order: NDArray[np.int64], cluster: Cluster) -> None:
        require_schema(source, schema)
        self._source = source
        self._declared = schema
        self._cluster = cluster
        self._place = None
        self._memory = SCRATCH
        self._rows_held = np.asarray(order) >= 0
        self.people = len(order)
        self._length = range_length(self.people)
        self._cuts = list(self.ranges(self._length))
        self._ranges = self._arrange(places_of_rows(np.asarray(order), None)) if self.people else []
        self._hashes = self._cluster.ask_each(_hash_of, self._ranges)
        self._read_through(schema)

    def reordered(self, order: NDArray[np.int64]) -> "DaskTable":
        """Return the same source in another order of rows."""
        return DaskTable(self._source, self._declared, order, self._cluster)

    # What workers do ----------------------------------------------------------------------------------------------------

    def fold(
        self, total: NDArray[np.int64], add: Callable[[NDArray[np.int64], Self, int, int], None], rows: int = BLOCK
    ) -> NDArray[np.int64]:
        """Add something of every block of people to a total of whole numbers: workers fold ranges, and their sums are added."""
        for part in self.each(partial(_folded, add, total.shape, rows), self._cuts):
            total += part
        return total

    def each(self, part: Callable[[Any, int, int], Result], ranges: Iterable[tuple[int, int]]) -> Iterator[Result]:
        """Yield what a function makes of some ranges of people, in their order: each is worked out by one worker."""
        return self._cluster.each(self._call(part, start, stop) for start, stop in ranges)

    def _call(self, part: Callable[[Any, int, int], Any], start: int, stop: int) -> tuple[Sealed, Sequence[Any]]:
        first, last = start // self._length, -(-stop // self._length)
        starts = [self._cuts[number][0] for number in range(first, last)]
        hashes = self._hashes[first:last]
        sealed = Sealed.of(_of_range, part, self._declared, self.schema, self.people, start, stop, starts, hashes)
        return sealed, self._ranges[first:last]

    def _arrange(self, places: NDArray[Any]) -> list[Any]:
        """Have every partition coded and cut into pieces, and every range put together."""
        columns = [name for name, _ in stored_columns(self._declared)]
        partitions: list[Any] = []
        code: list[Sealed] = []
        pieces: list[list[tuple[int, int]]] = [[] for _ in self._cuts]
        row = 0
        for where, length, file in _partitions(self._source, columns, self._cluster):
            some = np.full(length, -1, dtype=places.dtype)
            known = places[row : row + length]
            some[: len(known)] = known
            row += length
            wanted = np.unique(some[some >= 0] // self._length).tolist()
            for place, number in enumerate(wanted):
                pieces[number].append((len(code), place))
            cuts = [self._cuts[number] for number in wanted]
            code.append(Sealed.of(_coded, self._declared, some, cuts, *([] if file is None else [file])))
            partitions.append(where)
        if row < len(places):
            raise partition_changed()
        arrange = [(Sealed.of(_arranged, self._declared, *cut), pieces[k]) for k, cut in enumerate(self._cuts)]
        return self._cluster.arranged(partitions, code, arrange)

    # What the guard reads -----------------------------------------------------------------------------------------------

    def load(self, names: Sequence[str]) -> None:
        """Require that these columns are declared, and that workers hold all ranges as they were first; nothing else is read."""
        for name in names:
            self._require(name)
        if self._cluster.ask_each(_hash_of, self._ranges) != self._hashes:
            raise partition_changed()

    def scratch(self, width: int | None, dtype: Any) -> SpilledRows:
        """Return room for one row per person, in the guard: on disk beyond a bound."""
        return SpilledRows(self.people, width, dtype, memory=self._memory)

    def held(self, start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Return for which people this party has a row at all; the others are null records here."""
        return self._rows_held[start:stop]

    def present(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Return who has a value in at least one of these columns; nobody else has a record here."""
        for name in names:
            self._require(name)
        key = "present in " + repr(sorted(names))
        return self._fetched(key, partial(_present, tuple(names)), np.dtype(np.bool_), start, stop)

    def cells_of(self, name: str, people: NDArray[np.int64]) -> NDArray[Any]:
        """Return codes or values of some people by their places, which may be in any order."""
        self._require(name)
        found = np.empty(len(people), dtype=self._encoders[name].dtype)
        numbers = np.asarray(people) // self._length
        wanted = [(number, np.flatnonzero(numbers == number)) for number in np.unique(numbers).tolist()]
        calls = (self._call(partial(_taken, name, people[which]), *self._cuts[number]) for number, which in wanted)
        for (_, which), cells in zip(wanted, self._cluster.each(calls), strict=True):
            found[which] = cells
        return found

    def _some(self, name: str, start: int, stop: int | None) -> NDArray[Any]:
        self._require(name)
        return self._fetched(f"cells of {name}", partial(_encoded, name), self._encoders[name].dtype, start, stop)

    def _fetched(
        self, what: str, part: Callable[[Any, int, int], Any], dtype: np.dtype[Any], start: int, stop: int | None
    ) -> NDArray[Any]:
        """Return something of some people: the ranges that they are in are asked for together, and the latest are kept."""
        stop = self.people if stop is None else min(stop, self.people)
        numbers = range(start // self._length, max(-(-stop // self._length), start // self._length))
        absent = [number for number in numbers if f"{number} {what}" not in self._columns]
        found = {number: self._columns.pop(f"{number} {what}") for number in numbers if number not in absent}
        found.update(zip(absent, self.each(part, [self._cuts[number] for number in absent]), strict=True))
        for number in numbers:
            found[number].flags.writeable = False  # it is shared with the next caller
            self._columns[f"{number} {what}"] = found[number]
        self._make_room(keep=set(), needed=0)
        if len(numbers) == 1:
            first = self._cuts[numbers[0]][0]
            return found[numbers[0]][start - first : stop - first]
        parts = [found[number] for number in numbers]
        whole = np.concatenate([np.empty(0, dtype=dtype), *parts]) if parts else np.empty(0, dtype=dtype)
        first = numbers[0] * self._length if parts else start
        return whole[start - first : stop - first]


def _partitions(source: Source, columns: list[str], cluster: Cluster) -> Iterator[tuple[Any, int, Source | None]]:
    """Yield where each partition is, how many rows it has, and the file that a worker is to open for it, if it is one."""
    for one in source.split():
        rows = one.only
        if isinstance(rows, DaskRows):
            yield from zip(
                cluster.partitions_of(rows.frame, columns), rows.lengths, [None] * len(rows.lengths), strict=True
            )
        elif one.in_files:
            yield None, one.count(), one
        else:
            raise BadInput(
                f"{rows.label} lies in the guard's own memory or database, where no worker can read it.",
                remedy="With Dask a party's data are a Dask dataframe, or .parquet and .csv files that every worker can read.",
            )


# At a worker ----------------------------------------------------------------------------------------------------------------


def _coded(
    declared: Schema, places: NDArray[Any], cuts: Sequence[tuple[int, int]], data: Any
) -> list[tuple[NDArray[Any], dict[str, NDArray[Any]]]]:
    """Return a piece of a partition for each range that it has people of: their places in it, and their stored cells."""
    forms = _forms(declared)
    source = data if isinstance(data, Source) else Source(data)
    found: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, dtype=form.dtype)] for name, form in forms.items()}
    rows = 0
    for batch in source.batches(list(forms)):
        rows += len(batch)
        for name, form in forms.items():
            found[name].append(form.store(batch.column(name)))
    if rows != len(places):
        raise partition_changed()
    cells = {name: np.concatenate(parts) for name, parts in found.items()}
    taking_part = np.flatnonzero(places >= 0)
    order = taking_part[np.argsort(places[taking_part], kind="stable")]
    ascending = places[order]
    pieces = []
    for start, stop in cuts:
        some = order[slice(*np.searchsorted(ascending, [start, stop]))]
        pieces.append((places[some] - start, {name: column[some] for name, column in cells.items()}))
    return pieces


def _arranged(
    declared: Schema, start: int, stop: int, pieces: Sequence[tuple[NDArray[Any], dict[str, NDArray[Any]]]]
) -> Cells:
    """Put the pieces of a range together."""
    held = np.zeros(stop - start, dtype=np.bool_)
    columns = {name: np.zeros(stop - start, dtype=form.dtype) for name, form in _forms(declared).items()}
    for places, cells in pieces:
        held[places] = True
        for name, column in columns.items():
            column[places] = cells[name]
    found = hashlib.blake2b(held.tobytes(), digest_size=32)
    for column in columns.values():
        found.update(column.data)
    return found.digest(), held, columns


def _hash_of(cells: Cells) -> bytes:
    return cells[0]


def _of_range(
    part: Callable[[PrivateTable, int, int], Result],
    declared: Schema,
    schema: Schema,
    people: int,
    start: int,
    stop: int,
    starts: Sequence[int],
    hashes: Sequence[bytes],
    *ranges: Cells,
) -> Result:
    """Call a function on the ranges that some people are in, as a table; refuse one that was lost and is not what it was."""
    if [_hash_of(cells) for cells in ranges] != list(hashes):
        raise partition_changed()
    table = RangeTable(declared, schema, RangeCells(_forms(declared), starts[0], ranges), people)
    return part(table, start, stop)


def _folded(
    add: Callable[[NDArray[np.int64], Any, int, int], None],
    shape: tuple[int, ...],
    rows: int,
    table: PrivateTable,
    start: int,
    stop: int,
) -> NDArray[np.int64]:
    total = np.zeros(shape, dtype=np.int64)
    for first in range(start, stop, rows):
        add(total, table, first, min(first + rows, stop))
    return total


def _encoded(name: str, table: PrivateTable, start: int, stop: int) -> NDArray[Any]:
    return table._some(name, start, stop)  # noqa: SLF001  # whatever its kind is


def _present(names: tuple[str, ...], table: PrivateTable, start: int, stop: int) -> NDArray[np.bool_]:
    return table.present(names, start, stop)


def _taken(name: str, people: NDArray[np.int64], table: PrivateTable, _start: int, _stop: int) -> NDArray[Any]:
    return table.cells_of(name, people)


def _forms(declared: Schema) -> dict[str, CellForm]:
    return {name: form_of(column) for name, column in stored_columns(declared)}


class RangeCells:
    """The stored cells of adjoining ranges, in memory; places are those of the whole order.

    Parameters
    ----------
    forms
        How each column is stored.
    start
        The place of the first person.
    ranges
        Who has a row, and the cells, of each range.
    """

    def __init__(self, forms: dict[str, CellForm], start: int, ranges: Sequence[Cells]) -> None:
        self._forms = forms
        self._start = start
        self._held = _joined([held for _, held, _ in ranges])
        self._columns = [columns for _, _, columns in ranges]
        self._joined: dict[str, NDArray[Any]] = {}

    def cells(self, name: str, start: int, stop: int) -> Any:
        """Return some people's cells; of those without a row they mean nothing."""
        return self._forms[name].restore(self._column(name)[start - self._start : stop - self._start])

    def cells_of(self, name: str, people: NDArray[np.int64]) -> Any:
        """Return the cells of people by their places."""
        return self._forms[name].restore(self._column(name)[people - self._start])

    def held(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return who of some people has a row."""
        return self._held[start - self._start : stop - self._start]

    def held_of(self, people: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return who of some people, by their places, has a row."""
        return self._held[people - self._start]

    def _column(self, name: str) -> NDArray[Any]:
        if name not in self._joined:
            self._joined[name] = _joined([columns[name] for columns in self._columns])
        return self._joined[name]


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(list(parts))


class RangeTable(StoredTable):
    """Some ranges of a party's people as a table, at a worker: what is asked of it stays within them.

    Parameters
    ----------
    declared, schema
        What is declared about the columns, and what they are read as.
    cells
        The ranges.
    people
        How many people the whole order has.
    """

    def __init__(self, declared: Schema, schema: Schema, cells: RangeCells, people: int) -> None:
        self._declared = declared
        self._cells = cells
        self._place = None
        self._memory = SCRATCH
        self.people = people
        self._read_through(schema)
