"""Ids that do not fit into memory: read in blocks, sorted on disk, compared as sorted streams.

The rules are those of `colonnade.party.table.row_order`, and so are the names of alignments: where ids are whole numbers they are
compared as such, else as text in its usual form. Two ascending lists are merged by one pass over both, a block at a time, so an
alignment takes memory for a few blocks and for sorting.

Sorting more rows than fit into memory, by DuckDB (extra ``large``), with a limit on memory and the rest on disk.

Rows go in and come out as a stream of record batches of plain numbers and text. What DuckDB puts on disk meanwhile lies in a
folder that only this user can enter, and goes when the stream ends (`TemporaryFolder`). Whatever it reports when it fails may
quote a cell, so every failure becomes an error of ours.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.errors import BadInput, ColonnadeError
from colonnade.party.table.row_order import (
    WHOLE_IDS,
    id_pieces,
    identity_hash,
    incomplete_ids,
    nobody_in_common,
    normal_text,
    text_bytes,
    undeclared_ids,
)
from colonnade.party.table.sources import BLOCK, Source, connect_duckdb, limit_memory
from colonnade.runtime.private_files import TemporaryFolder
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.schema.cells import is_text

SORTING_SHARE = 0.45
"""The part of a party's memory that DuckDB may fill: the rest is for the process itself and for blocks of rows."""

Result = TypeVar("Result")


@contextmanager
def sorted_batches(
    schema: Any, batches: Iterable[Any], key: str, *, memory: int, rows: int = BLOCK
) -> Iterator[Iterator[Any]]:
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
    rows
        The largest number of rows in a batch that comes out.

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
            ordered = _quietly(lambda: relation.to_arrow_reader(rows), failed)
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


WIDE = r"^(0|-?[1-9][0-9]{0,18})$"


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
        whole = pc.match_substring_regex(text, WIDE)
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
