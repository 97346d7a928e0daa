"""Where a party's rows are: frames, Arrow tables, parquet and CSV files, DuckDB tables, or several of these one after another.

A `Source` reads only the columns it is asked for, a block of rows at a time. It does not guess types: a CSV file, and a
pandas column of Python objects, is text of no declared type, and the schema says what the text means. Whatever a reader
reports when it fails may quote a cell, so every failure becomes an error of ours that names a source or a column.

Rows in a DuckDB database, or those that a query returns (extra ``large``), and how DuckDB is opened.

DuckDB is asked for some columns at a time and answers in blocks of rows, under a limit on memory of its own. An alignment refers
to rows by number, so they have to come in the same order every time. A table's do. What a query returns is put into a temporary
database once, which lies in a folder that only this user can enter and goes with the source.
"""

import codecs
import csv
import glob
import importlib
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from colonnade.errors import BadInput, ColonnadeError, SchemaMismatch
from colonnade.party.table.dask_cluster import DaskRows, is_dask_frame
from colonnade.runtime.private_files import TemporaryFolder
from colonnade.schema.encoders import pandas_kind, pandas_reader

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


BLOCK = 65_536
SEPARATORS = (";", "\t", "|", ",")
BUFFER = 1 << 20
ACCEPTED = (
    "Pass a pandas, polars or Dask frame, a pyarrow Table, a path to a .parquet or .csv file, to a folder of parquet files or "
    "to a .duckdb file, a cn.DuckDB, or a list of these."
)

Result = TypeVar("Result")


def _guarded(step: Callable[[], Result], what: str) -> Result:
    """Run one step of a reader. Our error is raised once theirs is gone, so that not even its context quotes a cell."""
    try:
        return step()
    except ColonnadeError:
        raise
    except Exception as error:  # noqa: BLE001  # readers fail in many ways, and any of their messages may quote a cell
        failure = type(error).__name__
    raise BadInput(
        f"{what} could not be read ({failure}).",
        remedy="Check that the data source is complete, readable and of the expected format.",
    )


class _Shard(Protocol):
    """One frame or file."""

    label: str

    @property
    def names(self) -> list[str]:
        """The names of its columns, as often as they occur."""

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that takes no reading."""

    def kind(self, name: str, *, look: bool) -> Any:
        """The Arrow type of a column; ``None`` for text of no declared type."""

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Read some columns in row order."""


class _Pandas:
    label = "The pandas frame"

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def names(self) -> list[str]:
        return [name for name in self._frame.columns if isinstance(name, str)]

    @property
    def rows(self) -> int:
        return len(self._frame)

    def kind(self, name: str, *, look: bool) -> Any:
        return pandas_kind(self._frame[name], look=look)

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        readers = [pandas_reader(self._frame[name]) for name in columns]
        for start in range(0, len(self._frame), rows):
            yield pa.record_batch([read(start, start + rows) for read in readers], names=columns)


class _Arrow:
    label = "The Arrow table"

    def __init__(self, table: Any) -> None:
        self._table = table

    @property
    def names(self) -> list[str]:
        return list(self._table.schema.names)

    @property
    def rows(self) -> int:
        return int(self._table.num_rows)

    def kind(self, name: str, *, look: bool) -> Any:  # noqa: ARG002  # typed without looking
        return self._table.schema.field(name).type

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        yield from self._table.select(columns).to_batches(max_chunksize=rows)


class _Polars:
    label = "The polars frame"

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def names(self) -> list[str]:
        return list(self._frame.columns)

    @property
    def rows(self) -> int:
        return int(self._frame.height)

    def kind(self, name: str, *, look: bool) -> Any:  # noqa: ARG002  # typed without looking
        return self._frame.select(name).head(0).to_arrow().schema.field(0).type

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        for piece in self._frame.select(columns).iter_slices(rows):
            yield from piece.to_arrow().combine_chunks().to_batches()


class _File:
    """A file, which must stay as it was: an alignment refers to its rows by number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.label = f"The file {path.name!r}"
        self._seen = _guarded(self._fingerprint, self.label)

    def _fingerprint(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_size, status.st_mtime_ns

    def _require_unchanged(self) -> None:
        if self._fingerprint() != self._seen:
            raise BadInput(
                f"{self.label} has changed since it was opened.",
                remedy="Make the party again from the new file and align again.",
            )


class _Parquet(_File):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._open() as file:
            self._schema, self.rows = file.schema_arrow, int(file.metadata.num_rows)
            self._leaves = [file.schema.column(leaf).path for leaf in range(len(file.schema))]

    def _open(self) -> Any:
        # Otherwise a reader holds the whole column of a row group, and a file may be one row group.
        return _guarded(
            lambda: pyarrow.parquet.ParquetFile(self._path, pre_buffer=False, buffer_size=BUFFER), self.label
        )

    @property
    def names(self) -> list[str]:
        return list(self._schema.names)

    def kind(self, name: str, *, look: bool) -> Any:  # noqa: ARG002  # typed without looking
        return self._schema.field(name).type

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        self._require_unchanged()
        self._require_flat(columns)
        with self._open() as file:
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                yield batch.select(columns)

    def _require_flat(self, columns: list[str]) -> None:
        """Refuse a name that is also a prefix, since the reader would then read more than it was asked for."""
        for name in columns:
            if any(leaf.startswith(name + ".") for leaf in self._leaves):
                raise SchemaMismatch(
                    f"Column {name!r} is nested, or another column's name begins with {name + '.'!r}.",
                    remedy="Store the column flat and under a name of its own.",
                )


class _Csv(_File):
    rows = None

    def __init__(self, path: Path, separator: str = ",", encoding: str = "utf-8") -> None:
        super().__init__(path)
        self._separator = separator
        self._encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        self.names = _guarded(self._header, self.label)

    def _header(self) -> list[str]:
        with self._path.open(newline="", encoding=self._encoding, errors="replace") as file:
            return next(csv.reader(file, delimiter=self._separator))

    def doubts(self) -> list[str]:
        """Look at the first megabyte, for signs that separator or encoding are others than declared."""
        with self._path.open("rb") as file:
            start = file.read(BUFFER)
        found = []
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and "16" not in self._encoding:
            return [f"{self.label} begins as UTF-16 text does: encoding='utf-16'?"]
        try:
            codecs.getincrementaldecoder(self._encoding)().decode(start)
        except UnicodeDecodeError:
            found.append(f"{self.label} is not valid {self._encoding.removesuffix('-sig')} text: encoding='cp1252'?")
        others = [sign for sign in SEPARATORS if sign != self._separator and len(self.names) == 1]
        signs = [sign for sign in others if sign in self.names[0]]
        return found + [
            f"{self.label} has one column, whose name contains {sign!r}: separator={sign!r}?" for sign in signs
        ]

    def kind(self, name: str, *, look: bool) -> Any:  # noqa: ARG002  # no column of a CSV file has a type
        return None

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        self._require_unchanged()
        text = pyarrow.csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns, pa.string()),
            strings_can_be_null=False,
            check_utf8=False,  # a cell of broken text is a value outside the schema, not a reason to stop
        )
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=self._separator)
        read = pyarrow.csv.ReadOptions(encoding=self._encoding.removesuffix("-sig"))
        with pyarrow.csv.open_csv(self._path, read_options=read, parse_options=parse, convert_options=text) as reader:
            for batch in reader:
                for start in range(0, len(batch), rows):
                    yield batch.slice(start, rows)

    @contextmanager
    def writing(self, columns: list[str], file: BinaryIO) -> Iterator[Callable[[Any], object]]:
        plain = self._encoding == "utf-8-sig"  # read as bytes, so that broken text stays as broken as it is
        encode = None if plain else codecs.getincrementalencoder(self._encoding)().encode

        def write(text: bytes) -> None:
            file.write(text if encode is None else encode(text.decode()))

        def write_batch(batch: Any) -> None:
            text = io.BytesIO()
            how = pyarrow.csv.WriteOptions(include_header=False, delimiter=self._separator)
            pyarrow.csv.write_csv(batch, text, how)  # all cells in quotes
            write(text.getvalue())

        header = io.StringIO()
        csv.writer(header, delimiter=self._separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(columns)
        write(header.getvalue().encode())
        yield write_batch


def _shard(data: object, separator: str, encoding: str) -> _Shard:
    if isinstance(data, _Pandas | _Arrow | _Polars | _Parquet | _Csv | DuckRows | DaskRows):
        return data  # one that was opened before
    if isinstance(data, DuckDB):
        return _guarded(lambda: DuckRows(data), "The DuckDB source")
    if is_dask_frame(data):
        return DaskRows(data)
    if isinstance(data, pd.DataFrame | pa.Table):
        return _Pandas(data) if isinstance(data, pd.DataFrame) else _Arrow(data)
    if isinstance(data, str | Path):
        return _file(Path(data), separator, encoding)
    # Told by its name, so that polars need not be installed.
    if type(data).__module__.partition(".")[0] == "polars" and type(data).__name__ == "DataFrame":
        return _Polars(data)
    raise BadInput(f"A {type(data).__name__} is not a data source.", remedy=ACCEPTED)


def _file(path: Path, separator: str, encoding: str) -> _Shard:
    kind = path.suffix.lower()
    if kind not in (".parquet", ".csv", ".duckdb"):
        raise BadInput(f"The file {path.name!r} is neither .parquet nor .csv.", remedy=ACCEPTED)
    if not path.is_file():
        raise BadInput(f"There is no file {path.name!r} at the given path.", remedy="Correct the path.")
    if kind == ".duckdb":
        return _guarded(lambda: DuckRows(DuckDB(path)), f"The file {path.name!r}")
    return _Parquet(path) if kind == ".parquet" else _Csv(path, separator, encoding)


def files_in(data: object) -> list[object]:
    """Return the parquet files of a folder, or the files that a pattern such as ``"people/*.parquet"`` names, by their names.

    Anything else is returned as it is.
    """
    if not isinstance(data, str | Path):
        return [data]
    path = Path(data)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.parquet") if file.is_file())
        where = f"The folder {path.name!r} has no .parquet file."
    elif any(sign in str(data) for sign in "*?[") and not path.exists():
        found = sorted(Path(file) for file in glob.glob(str(data), recursive=True))  # noqa: PTH207  # absolute patterns too
        where = f"No file is named by the pattern {path.name!r}."
    else:
        return [data]
    if not found:
        raise BadInput(where, remedy="Correct the path.")
    return list(found)


def _check_reading(separator: object, encoding: object) -> None:
    if not isinstance(separator, str) or len(separator) != 1 or separator.isalnum() or separator in '"\r\n':
        raise BadInput(
            "separator is the one sign that stands between the columns of a CSV file.",
            remedy='For example separator=";".',
        )
    try:
        "a".encode(str(encoding))
    except (LookupError, ValueError):
        raise BadInput(
            "encoding is the name of an encoding of text.", remedy='For example encoding="cp1252".'
        ) from None


class Source:
    """A party's rows, wherever they are.

    Parameters
    ----------
    data
        A pandas or polars frame, a pyarrow Table, a path to a ``.parquet`` or ``.csv`` file, to a folder of parquet files, a
        pattern such as ``"people/*.parquet"``, a `DuckDB` table or query, or a list of these, whose rows follow one another.
    separator, encoding
        How CSV files are written: what stands between columns, and how letters are stored.

    Examples
    --------
    >>> source = Source(pd.DataFrame({"age": [31, 45], "diary": ["…", "…"]}))
    >>> source.columns, source.rows
    (('age', 'diary'), 2)
    >>> [batch.schema.names for batch in source.batches(["age"])]
    [['age']]
    """

    def __init__(self, data: object, *, separator: str = ",", encoding: str = "utf-8") -> None:
        given = list(data) if isinstance(data, list | tuple) else [data]
        pieces = [piece for one in given for piece in files_in(one)]
        if not pieces:
            raise BadInput("A list of data sources is empty.", remedy=ACCEPTED)
        _check_reading(separator, encoding)
        self._shards = [_shard(piece, separator, encoding) for piece in pieces]
        self._named = [
            Counter(shard.names) for shard in self._shards
        ]  # looked up once: tables may have thousands of columns

    def split(self) -> list["Source"]:
        """Return each shard as a source of its own."""
        return [Source(shard) for shard in self._shards]

    def each(self, part: Callable[["Source"], Result], columns: Sequence[str]) -> Iterator[Result]:
        """Yield what a function makes of some columns of each shard, or of each partition of one, in order, where they are."""
        for one in self.split():
            if isinstance(one.only, DaskRows):
                yield from one.only.each(partial(_of_rows, part), list(columns))
            else:
                yield part(one)

    @property
    def only(self) -> Any:
        """The one shard of a source that has one."""
        (shard,) = self._shards
        return shard

    @property
    def in_files(self) -> bool:
        """Whether all of it is in files that another process can open by their paths."""
        return all(isinstance(shard, _Parquet | _Csv) for shard in self._shards)

    def doubts(self) -> list[str]:
        """Return signs that CSV files are written otherwise than declared. For their owner alone: they follow from the files."""
        files = [shard for shard in self._shards if isinstance(shard, _Csv)]
        return [doubt for file in files for doubt in _guarded(file.doubts, file.label)]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that every shard has."""
        first, *others = self._named
        return tuple(name for name in first if all(name in names for names in others))

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that takes no reading."""
        counts = [shard.rows for shard in self._shards]
        return None if None in counts else sum(count for count in counts if count is not None)

    def count(self) -> int:
        """Count the rows, by reading one column if need be."""
        known = self.rows
        return sum(len(batch) for batch in self.batches(self.columns[:1])) if known is None else known

    def kinds(self, name: str, *, look: bool = False) -> list[Any]:
        """Return a column's Arrow type in each shard; ``None`` stands for text of no declared type.

        Parameters
        ----------
        name
            The column.
        look
            Whether to read a column of Python objects, which counts as text if all of it is. Only for ids: for any
            other column the answer would depend on private cells.
        """
        self._require([name])
        return [self._kind(shard, name, look=look) for shard in self._shards]

    def _kind(self, shard: _Shard, name: str, *, look: bool) -> Any:
        return _guarded(lambda: shard.kind(name, look=look), f"Column {name!r}")

    def batches(self, columns: Sequence[str], rows: int = BLOCK) -> Iterator[Any]:
        """Read some columns, in row order.

        Parameters
        ----------
        columns
            What to read; nothing else is.
        rows
            The largest number of rows in a batch.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Types may differ between shards.
        """
        names = list(columns)
        if not names or rows < 1:
            raise BadInput(
                "Reading takes at least one column and at least one row at a time.", remedy="Name a column to read."
            )
        self._require(names)
        return (batch for shard in self._shards for batch in _steps(shard, names, rows) if len(batch))

    def write(self, columns: Sequence[str], file: BinaryIO) -> None:
        """Write some columns of a source that is one file to another file of its kind, cell by cell as they are."""
        shard = self._shards[0]
        if len(self._shards) != 1 or not isinstance(shard, _Parquet | _Csv | DuckRows):
            raise BadInput("Only a source that is one file is written.", remedy="Pass one path.")
        batches = self.batches(columns)
        kinds = [(name, shard.kind(name, look=False)) for name in columns]
        writing = shard.writing(list(columns), file) if isinstance(shard, _Csv) else _writing_parquet(kinds, file)
        with writing as write:
            for batch in batches:
                write(batch)

    def _require(self, names: list[str]) -> None:
        for shard, named in zip(self._shards, self._named, strict=True):
            absent = [name for name in names if name not in named]
            if absent:
                raise SchemaMismatch(
                    f"{shard.label} has no column {_listed(absent)}.",
                    remedy="Correct the name (cn.Schema, or id=), or the data source.",
                )
            doubled = [name for name in names if named[name] > 1]
            if doubled:
                raise SchemaMismatch(
                    f"{shard.label} has more than one column {_listed(doubled)}.",
                    remedy="Give each column its own name.",
                )


def _of_rows(part: Callable[[Source], Result], rows: pd.DataFrame) -> Result:
    return part(Source(rows))


@contextmanager
def _writing_parquet(kinds: list[tuple[str, Any]], file: BinaryIO) -> Iterator[Callable[[Any], object]]:
    schema = pa.schema(kinds)  # and no word about other columns
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        yield lambda batch: writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _steps(shard: _Shard, names: list[str], rows: int) -> Iterator[Any]:
    """Read a shard with every single step guarded."""
    batches = shard.batches(names, rows)
    while (batch := _guarded(lambda: next(batches, None), shard.label)) is not None:
        yield batch
