"""Every kind of source reads the same rows, reads no more than it was asked for, and fails without quoting a cell."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from colonnade.errors import BadInput
from colonnade.party.table.sources import Source

CANARY = "canary-4242"
KINDS = ["pandas", "arrow", "polars", "parquet", "csv"]


def make(kind: str, frame: pd.DataFrame, folder: Path) -> object:
    """The same rows as another kind of source."""
    if kind == "pandas":
        return frame
    if kind == "arrow":
        return pa.Table.from_pandas(frame, preserve_index=False)
    if kind == "polars":
        return pytest.importorskip("polars").from_arrow(pa.Table.from_pandas(frame, preserve_index=False))
    path = folder / f"rows-{len(list(folder.iterdir()))}.{kind}"
    if kind == "parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def everything_said(error: BaseException) -> str:
    """The error's text, its traceback, and all that is chained to it, suppressed or not."""
    said = "".join(traceback.format_exception(error))
    for chained in (error.__context__, error.__cause__):
        said += "" if chained is None else everything_said(chained)
    return said + repr(vars(error))


def frame(rows: int = 10) -> pd.DataFrame:
    return pd.DataFrame(
        {"age": np.arange(rows), "diary": [f"{CANARY}-{row}" for row in range(rows)], "plan": ["a", "b"] * (rows // 2)}
    )


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_same_rows_in_blocks(kind: str, tmp_path: Path) -> None:
    source = Source(make(kind, frame(), tmp_path))
    assert source.columns == ("age", "diary", "plan")
    assert source.rows == (None if kind == "csv" else 10)
    assert source.count() == 10
    batches = list(source.batches(["plan", "age"], rows=4))
    assert [batch.schema.names for batch in batches] == [["plan", "age"]] * len(batches)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    cells = [str(cell) for batch in batches for cell in batch.column("age").to_pylist()]
    assert cells == [str(row) for row in range(10)]


class Spy(pd.DataFrame):
    """A frame that remembers which columns were taken from it."""

    _metadata: ClassVar[list[str]] = ["taken"]

    def __getitem__(self, key: object) -> object:
        self.taken.append(str(key))
        return super().__getitem__(key)


def test_a_frame_gives_up_no_column_that_was_not_asked_for() -> None:
    spy = Spy(frame())
    spy.taken = []
    source = Source(spy)
    list(source.batches(["age"]))
    source.kinds("age")
    assert set(spy.taken) == {"age"}


def test_a_parquet_column_that_was_not_asked_for_may_be_rubble(tmp_path: Path) -> None:
    path = make("parquet", frame(1000), tmp_path)
    chunk = pa.parquet.ParquetFile(path).metadata.row_group(0).column(1)
    assert chunk.path_in_schema == "diary"
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)
    source = Source(path)
    assert sum(len(batch) for batch in source.batches(["age", "plan"])) == 1000
    with pytest.raises(BadInput):  # or else this test shows nothing
        list(source.batches(["diary"]))


@pytest.mark.parametrize("keep", [0, 3, 0.5, 0.99])
def test_a_truncated_parquet_file_is_a_typed_error(keep: float, tmp_path: Path) -> None:
    path = make("parquet", frame(1000), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if keep < 1 else int(keep)])
    with pytest.raises(BadInput, match=path.name) as caught:
        Source(path)
    assert caught.value.remedy
    assert CANARY not in everything_said(caught.value)


def broken_row(text: str) -> str:
    return text + f"1,{CANARY},x,y,z\n"


def unclosed_quote(text: str) -> str:
    return text + f'1,"{CANARY},x\n'


def cut_off(text: str) -> str:
    return text[: text.index(CANARY) + len(CANARY)]


@pytest.mark.parametrize("damage", [broken_row, unclosed_quote, cut_off])
def test_a_damaged_csv_file_is_an_error_that_quotes_no_cell(damage: Callable[[str], str], tmp_path: Path) -> None:
    path = make("csv", frame(), tmp_path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(BadInput, match=path.name) as caught:
        list(Source(path).batches(["age"]))
    assert CANARY not in everything_said(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_that_changed_since_it_was_opened_is_refused(kind: str, tmp_path: Path) -> None:
    path = make(kind, frame(), tmp_path)
    source = Source(path)
    (frame(8).to_parquet if kind == "parquet" else frame(8).to_csv)(path, index=False)
    with pytest.raises(BadInput, match="changed"):
        list(source.batches(["age"]))
    path.unlink()
    with pytest.raises(BadInput):
        list(source.batches(["age"]))


@pytest.mark.parametrize("data", [None, 3, [], {"age": [1]}, np.zeros(3), "table.xlsx", "absent.csv", [None]])
def test_what_is_no_data_source_is_refused(data: object) -> None:
    with pytest.raises(BadInput) as caught:
        Source(data)
    assert caught.value.code == "bad-input"


# Written to another file -----------------------------------------------------------------------------------------------------

ODD = [
    "plain",
    "",
    " spaced ",
    'a "quoted" word',
    "one;two,three\ttab",
    "line\nbreak",
    "line\r\nbreak",
    "\u00e9t\u00e9",
    "?",
    "NULL",
    "1,234.50",
    "0",
]


def cells(source: Source, columns: list[str]) -> list[list]:
    return [
        pa.concat_tables([pa.table(batch) for batch in source.batches(columns)])[name].to_pylist() for name in columns
    ]


@pytest.mark.every(3)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_columns_of_a_csv_file_are_written_cell_by_cell(tmp_path, separator, encoding):
    frame = pd.DataFrame({'kept; "a"': ODD, "left out": "secret", "also": ODD[::-1]})
    frame.to_csv(tmp_path / "one.csv", index=False, sep=separator, encoding=encoding)
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    source, columns = Source(tmp_path / "one.csv", separator=separator, encoding=declared), ["also", 'kept; "a"']
    with (tmp_path / "other.csv").open("wb") as file:
        source.write(columns, file)
    other = Source(tmp_path / "other.csv", separator=separator, encoding=declared)
    assert other.columns == tuple(columns)
    assert cells(other, columns) == cells(source, columns) == [ODD[::-1], ODD]
    assert "secret".encode(declared) not in (tmp_path / "other.csv").read_bytes()
