"""Sorting more rows than fit into memory, by DuckDB (extra ``large``), with a limit on memory and the rest on disk.

Rows go in and come out as a stream of record batches of plain numbers and text. What DuckDB puts on disk meanwhile lies in a
folder that only this user can enter, and goes when the stream ends. Whatever it reports when it fails may quote a cell, so every
failure becomes an error of ours.
"""

import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from colonnade.errors import BadInput, ColonnadeError
from colonnade.party.table.sources import BLOCK

__all__ = ["SMALLEST_MEMORY", "connect_duckdb", "memory_limit", "sorted_batches", "working_folder"]

SMALLEST_MEMORY = 64 << 20
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
SORTING_SHARE = 0.45
"""The part of a party's memory that DuckDB may fill: the rest is for the process itself and for blocks of rows."""

Result = TypeVar("Result")


def memory_limit(given: str | int | None) -> int | None:
    """Return a limit on memory in bytes.

    Parameters
    ----------
    given
        Such as ``"2GB"``, or a number of bytes; ``None`` for no limit.

    Examples
    --------
    >>> memory_limit("2GB"), memory_limit("512MiB"), memory_limit(None)
    (2000000000, 536870912, None)
    """
    if given is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?B)\s*", str(given), re.IGNORECASE)
    size = int(float(found[1]) * UNITS[found[2].upper()]) if found else given
    if not isinstance(size, int) or isinstance(size, bool) or size < SMALLEST_MEMORY:
        raise BadInput(
            f"A limit on memory is a size of at least {SMALLEST_MEMORY >> 20} MiB.", remedy='For example memory="2GB".'
        )
    return size


def connect_duckdb(database: str = ":memory:", *, read_only: bool = False) -> Any:
    """Return a connection to DuckDB, which reaches nothing outside this machine; say which extra is missing without it."""
    try:
        duckdb: Any = importlib.import_module("duckdb")
    except ImportError:
        raise BadInput(
            "A table that is larger than memory, or lies in a database, is read through DuckDB, which is not installed.",
            remedy='pip install "colonnade[large]"',
        ) from None
    return duckdb.connect(database, read_only=read_only, config={"autoinstall_known_extensions": "false"})


@contextmanager
def working_folder() -> Iterator[str]:
    """Make a folder for temporary files that only this user can enter, and remove it with what is in it."""
    folder = tempfile.mkdtemp(prefix="colonnade-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
    >>> numbers = pa.record_batch({"n": [3, 1, 2]})
    >>> with sorted_batches(numbers.schema, [numbers], "n", memory=SMALLEST_MEMORY) as ordered:
    ...     [one for batch in ordered for one in batch.column("n").to_pylist()]
    [1, 2, 3]
    """
    with working_folder() as folder:
        connection = connect_duckdb()
        try:
            _quietly(lambda: _limit(connection, memory, folder))
            failed: list[ColonnadeError] = []
            reader = pa.RecordBatchReader.from_batches(schema, _remembering(batches, failed))
            connection.register("unsorted", reader)
            quoted = '"' + key.replace('"', '""') + '"'
            relation = _quietly(lambda: connection.sql(f"SELECT * FROM unsorted ORDER BY {quoted}"), failed)  # noqa: S608  # a name of ours
            ordered = _quietly(lambda: relation.to_arrow_reader(rows), failed)
            yield _steps(ordered, failed)
        finally:
            connection.close()


def _limit(connection: Any, memory: int, folder: str) -> None:
    status = os.statvfs(folder)
    room = status.f_bavail * status.f_frsize
    connection.execute(f"SET memory_limit = '{int(memory * SORTING_SHARE)}B'")
    connection.execute(f"SET temp_directory = '{folder.replace(chr(39), chr(39) * 2)}'")
    connection.execute(f"SET max_temp_directory_size = '{max(room - (1 << 28), 1 << 28)}B'")
    connection.execute("SET preserve_insertion_order = false")


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
