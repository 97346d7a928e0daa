"""Sorting more rows than fit into memory, by DuckDB (extra ``large``), with a limit on memory and the rest on disk.

Rows go in and come out as a stream of record batches of plain numbers and text. What DuckDB puts on disk meanwhile lies in a
folder that only this user can enter, and goes when the stream ends (`TemporaryFolder`). Whatever it reports when it fails may
quote a cell, so every failure becomes an error of ours.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from colonnade.errors import BadInput, ColonnadeError
from colonnade.party.table.databases import connect_duckdb, limit_memory
from colonnade.party.table.sources import BLOCK
from colonnade.private_files import TemporaryFolder

__all__ = ["sorted_batches"]

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
    >>> from colonnade.party.table.databases import SMALLEST_MEMORY
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
