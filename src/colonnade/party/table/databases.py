"""Rows in a DuckDB database, or those that a query returns (extra ``large``), and how DuckDB is opened.

DuckDB is asked for some columns at a time and answers in blocks of rows, under a limit on memory of its own. An alignment refers
to rows by number, so they have to come in the same order every time. A table's do. What a query returns is put into a temporary
database once, which lies in a folder that only this user can enter and goes with the source.
"""

import importlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.errors import BadInput
from colonnade.private_files import TemporaryFolder

__all__ = ["SMALLEST_MEMORY", "DuckDB", "DuckRows", "connect_duckdb", "limit_memory", "memory_limit"]

SMALLEST_MEMORY = 64 << 20
READING_MEMORY = 1 << 28
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
SPARE_DISK = 1 << 28
KEPT = "kept_rows"


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
    """Return a connection to DuckDB, which fetches nothing; without DuckDB, say which extra is missing."""
    try:
        duckdb: Any = importlib.import_module("duckdb")
    except ImportError:
        raise BadInput(
            "A table that is larger than memory, or lies in a database, is read through DuckDB, which is not installed.",
            remedy='pip install "colonnade[large]"',
        ) from None
    return duckdb.connect(database, read_only=read_only, config={"autoinstall_known_extensions": "false"})


def limit_memory(connection: Any, memory: int, folder: Path) -> None:
    """Let a connection fill so much memory, and put the rest into a folder, as far as the disk has room."""
    status = os.statvfs(folder)
    room = max(status.f_bavail * status.f_frsize - SPARE_DISK, SPARE_DISK)
    connection.execute(f"SET memory_limit = '{memory}B'")
    connection.execute(f"SET temp_directory = {_text(str(folder))}")
    connection.execute(f"SET max_temp_directory_size = '{room}B'")


@dataclass(frozen=True)
class DuckDB:
    """A table of a DuckDB database, or what a query returns, as a party's data.

    Parameters
    ----------
    database
        The database file; without one, a query reads files: ``FROM 'folder/*.parquet'``.
    table
        The table; may be left out where the database has one.
    query
        A query instead of a table: one ``SELECT``, with one row per person.

    Examples
    --------
    >>> DuckDB(query="SELECT * FROM 'bank/*.parquet' WHERE country = 'CH'")
    DuckDB(database=None, table=None, query="SELECT * FROM 'bank/*.parquet' WHERE country = 'CH'")
    """

    database: str | Path | None = None
    table: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        if (self.table is not None and self.query is not None) or (self.database is None and self.query is None):
            raise BadInput(
                "A DuckDB source is a database file with one table, a table of one, or a query.",
                remedy='cn.DuckDB("bank.duckdb", table="customers"), or cn.DuckDB(query="SELECT ... FROM \'*.parquet\'").',
            )
        if self.database is not None and not Path(self.database).is_file():
            raise BadInput("There is no DuckDB database at the given path.", remedy="Correct the path.")


class DuckRows:
    """What a `DuckDB` source holds, in blocks of rows that always come in the same order."""

    def __init__(self, data: DuckDB) -> None:
        self.label = "The DuckDB query" if data.query is not None else "The DuckDB table"
        self._folder = TemporaryFolder()
        self._database = str(data.database) if data.query is None else self._kept(data)
        self._seen = self._state()
        with self._connection(self._database) as connection:
            self._table = KEPT if data.query is not None else _table_in(connection, data.table)
            described = connection.sql(f"SELECT * FROM {self._table} LIMIT 0").to_arrow_table()  # noqa: S608
            self._schema = described.schema
            self.rows = int(connection.sql(f"SELECT count(*) FROM {self._table}").fetchall()[0][0])  # noqa: S608

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self._schema.names)

    def kind(self, name: str, *, look: bool) -> Any:  # noqa: ARG002  # typed without looking
        """Return the Arrow type of a column."""
        return self._schema.field(name).type

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Read some columns in row order."""
        if self._state() != self._seen:
            raise BadInput(
                f"{self.label} has changed since it was opened.",
                remedy="Make the party again from the new data and align again.",
            )
        with self._connection(self._database) as connection:
            wanted = ", ".join(_name(name) for name in columns)
            yield from connection.sql(f"SELECT {wanted} FROM {self._table}").to_arrow_reader(rows)  # noqa: S608

    def _state(self) -> tuple[int, int]:
        status = Path(self._database).stat()
        return status.st_size, status.st_mtime_ns

    def _connection(self, database: str) -> Any:
        connection = connect_duckdb(database, read_only=database != ":memory:")
        limit_memory(connection, READING_MEMORY, self._folder.path)
        return connection

    def _kept(self, data: DuckDB) -> str:
        """Put what a query returns into a table of a temporary database, and return its path."""
        path = str(self._folder.path / "rows.duckdb")
        with self._connection(":memory:" if data.database is None else str(data.database)) as connection:
            connection.execute(f"ATTACH {_text(path)} AS colonnade_kept (READ_WRITE)")
            connection.execute(f"CREATE TABLE colonnade_kept.{KEPT} AS {str(data.query).strip().rstrip(';')}")
        return path


def _table_in(connection: Any, table: str | None) -> str:
    """Return the name of a table as a query takes it; without a name, that of the only one."""
    if table is not None:
        return ".".join(_name(part) for part in table.split("."))
    found = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database()"
    ).fetchall()
    if len(found) != 1:
        raise BadInput(
            f"The database has {len(found)} tables.", remedy='Name one: cn.DuckDB("bank.duckdb", table="customers").'
        )
    return ".".join(_name(part) for part in found[0])


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
