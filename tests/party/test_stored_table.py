"""A table on disk: the same cells, orders and refusals as in memory, for any source, in blocks, under a limit on memory."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import BadInput
from colonnade.party.table import stored_table
from colonnade.party.table.private_table import PrivateTable, places_of_rows
from colonnade.party.table.sources import BLOCK, SMALLEST_MEMORY, Source
from colonnade.party.table.stored_table import (
    StoredTable,
    common_list,
    ordered_table,
    party_ids,
)
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.schema import Bins, Category, Date, Numeric, Schema
from colonnade.schema.encoders import form_of
from tests import kit
from tests.party.test_table import cells_of

SCHEMA = Schema(
    income=Numeric(-2, 2, missing=0, indicator=True),
    kind=Category(["x", "y"], missing="excluded", other="rest"),
    level=Category([0, 1, 2]),
    since=Date("2020-01-01", "2021-12-31", missing="2020-06-01"),
)
FINER = SCHEMA.read_as(
    {
        "income": Bins.equal(Numeric(-2, 2, missing=0, indicator=True), 5, missing=True),
        "kind": Category(["x", "y"], missing="level", other="rest"),
        "since": Date("2020-03-01", "2021-01-31", missing="2020-06-01"),
    }
)


def people(rows: int = 2_000, ids: str = "whole") -> pd.DataFrame:
    drawn = kit.generator("stored people")
    numbers = drawn.permutation(2 * rows)[:rows]
    frame = pd.DataFrame(
        {
            "id": numbers if ids == "whole" else [f" p{number}é " for number in numbers],
            "income": drawn.normal(size=rows),
            "kind": drawn.choice(["x", "y", "z", "missing", None], rows),
            "level": drawn.integers(-1, 4, rows),
            "since": pd.Timestamp("2019-10-01") + pd.to_timedelta(drawn.integers(0, 1000, rows), unit="D"),
        }
    )
    frame.loc[::7, "income"] = np.nan
    frame.loc[::11, "since"] = pd.NaT
    return frame


def both(source: Source, common: object, mode: str = "intersection") -> list[tuple]:
    """The same alignment in memory and on disk."""
    found = []
    for memory in (None, SMALLEST_MEMORY):
        ids = party_ids(source, "id", party="bank", memory=memory)
        found.append(ordered_table(source, SCHEMA, ids, common, party="bank", mode=mode, memory=memory))
    return found


def require_same(one: PrivateTable, other: PrivateTable, rows: int = 700) -> None:
    assert isinstance(other, StoredTable)
    assert not isinstance(one, StoredTable)
    assert one.people == other.people
    for schema in (SCHEMA, FINER):
        first, second = one.read_as(schema), other.read_as(schema)
        for name in schema:
            for start, stop in [*first.ranges(rows), (0, None)]:
                assert np.array_equal(cells_of(first, name, start, stop), cells_of(second, name, start, stop)), name
                assert np.array_equal(first.present([name], start, stop), second.present([name], start, stop)), name
    assert np.array_equal(one.held(), other.held())
    assert np.array_equal(one.joint_codes(["kind", "level"], 3, 90)[0], other.joint_codes(["kind", "level"], 3, 90)[0])


@pytest.mark.every(2)
@pytest.mark.parametrize("ids", ["whole", "text"])
@pytest.mark.parametrize("mode", ["intersection", "cohort"])
def test_a_table_on_disk_reads_as_in_memory_in_the_same_order_under_the_same_name(ids: str, mode: str) -> None:
    frame = people(ids=ids)
    source = Source(frame)
    own = party_ids(source, "id", party="bank", memory=None)
    chosen = own.take(pa.array(np.arange(0, len(own), 3)))
    if mode == "cohort":
        listed = [f"p{number}é" for number in range(0, 4_000, 3)] if ids == "text" else list(range(0, 4_000, 3))
        chosen = pa.array(listed)
    common = common_list({"everybody": chosen})
    (order, table), (stored_order, stored) = both(source, common, mode)
    assert (stored_order.identity, stored_order.people) == (order.identity, order.people)
    assert stored_order.rows.tolist() == order.rows.tolist()
    assert stored_order.ids.to_pylist() == order.ids.to_pylist()
    require_same(table, stored)


def test_another_order_of_rows_is_the_same_too() -> None:
    source = Source(people())
    everybody = common_list({"bank": party_ids(source, "id", party="bank", memory=None)})
    (_, table), (_, stored) = both(source, everybody)
    order = np.append(kit.generator("order").permutation(2_000)[:500], [-1, -1]).astype(np.int64)
    require_same(table.reordered(order), stored.reordered(order))
    places = np.array([501, 3, 3, 499, 0])
    for name in SCHEMA:
        one, other = (found.reordered(order).cells_of(name, places) for found in (table, stored))
        assert np.array_equal(one, other)


@pytest.mark.every(2)
@pytest.mark.parametrize("block", [3, 64, BLOCK])
def test_an_order_is_inverted_on_disk_as_in_memory_however_far_apart_its_rows_are(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_table, "BLOCK", block)
    for order in ([5, -1, 400, 2, 401, -1, 0], list(range(70, 0, -1)), [], [-1]):
        rows = np.array(order, dtype=np.int64)
        found = stored_table._places_of_rows(rows, SMALLEST_MEMORY)
        assert found.mapped().tolist() == places_of_rows(rows, None).tolist()


CELLS = st.lists(st.none() | st.sampled_from(["x", "y", "missing", "?", "", "z", "1", "1.0", "inf", "2020-02-03"]))
COLUMNS = [
    Category(["x", "y"]),
    Category(["x", "y"], missing="excluded", other="rest", na_values=["?"]),
    Category(["x", "missing"], missing="level"),
    Category([1, 0], missing="excluded"),
    Numeric(0, 10, na_values=["?"]),
    Numeric(0, 10, missing=3, indicator=True),
    Date("2020-01-01", "2020-12-31"),
]


@given(CELLS, st.sampled_from(COLUMNS))
def test_a_stored_cell_says_what_it_said_under_every_reading(cells: list, column: Category) -> None:
    from colonnade.schema.encoders import encoder_for

    given_cells, form = pa.array(cells, type=pa.string()), form_of(column)
    again = form.restore(form.store(given_cells))
    readings = [column]
    if isinstance(column, Category):
        readings += [Schema(c=column).read_as({"c": finer})["c"] for finer in finer_categories(column)]
    else:
        readings += [Bins.equal(column, 3, missing=True), Bins.equal(column, 3)]
    for reading in readings:
        encoder = encoder_for(reading)
        assert encoder(again).tolist() == encoder(given_cells).tolist()
        assert encoder.present(again).tolist() == encoder.present(given_cells).tolist()


def finer_categories(column: Category) -> list[Category]:
    import msgspec

    return [msgspec.structs.replace(column, missing="level")] if column.excludes else []


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([1, 2, 2, None, None, 2], "of 6 ids, 2 missing and 2 repeated"),
        (["a", "b", "a"], "of 3 ids, 1 repeated"),
        (["a", "b", ""], "of 3 ids, 1 missing"),
    ],
)
def test_ids_that_are_missing_or_repeated_are_refused_in_the_same_words(ids: list, said: str) -> None:
    source = Source(pa.table({"id": pa.array(ids)}))
    for memory in (None, SMALLEST_MEMORY):
        with pytest.raises(BadInput, match=said) as refused:
            party_ids(source, "id", party="bank", memory=memory)
        assert refused.value.__cause__ is None


def test_a_folder_a_pattern_a_database_and_a_query_hold_the_same_rows(tmp_path: Path) -> None:
    frame = people()
    (tmp_path / "parts" / "later").mkdir(parents=True)
    frame.iloc[:900].to_parquet(tmp_path / "parts" / "a.parquet")
    frame.iloc[900:].to_parquet(tmp_path / "parts" / "later" / "b.parquet")
    with duckdb.connect(str(tmp_path / "bank.duckdb")) as database:
        database.register("given", pa.Table.from_pandas(frame))
        database.execute('CREATE TABLE "the people" AS SELECT * FROM given')
    pattern = f"{tmp_path}/parts/**/*.parquet"
    sources = [
        frame,
        tmp_path / "parts",
        pattern,
        tmp_path / "bank.duckdb",
        cn.DuckDB(tmp_path / "bank.duckdb", table="the people"),
        cn.DuckDB(query=f"SELECT *, 1 AS more FROM '{pattern}' ORDER BY hash(id)"),
        cn.DuckDB(tmp_path / "bank.duckdb", query='SELECT * FROM "the people" WHERE id >= 0;'),
    ]
    tables = []
    for data in sources:
        source = Source(data)
        ids = party_ids(source, "id", party="bank", memory=SMALLEST_MEMORY)
        tables.append(ordered_table(source, SCHEMA, ids, common_list({"b": ids}), party="b", memory=SMALLEST_MEMORY)[1])
        assert source.count() == len(frame)
    for table in tables[1:]:
        for name in SCHEMA:
            assert np.array_equal(cells_of(table, name), cells_of(tables[0], name))


def test_a_database_that_changes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "bank.duckdb"
    for rows in (10, 20_000):
        with duckdb.connect(str(path)) as database:
            database.execute(f"CREATE OR REPLACE TABLE people AS SELECT range AS id FROM range({rows})")
        if rows == 10:
            source = Source(path)
    with pytest.raises(BadInput, match="changed since it was opened"):
        list(source.batches(["id"]))


def test_what_lies_on_disk_has_no_name_and_a_length_of_the_public_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lengths, honest = [], SpilledRows.append
    for kind in ("x", None):
        frame = people()
        frame["kind"] = kind
        written: list[int] = []
        with monkeypatch.context() as watched:
            watched.setattr(
                SpilledRows, "append", lambda self, new, w=written: (w.append(len(new)), honest(self, new))[1]
            )
            source = Source(frame)
            ids = party_ids(source, "id", party="bank", memory=SMALLEST_MEMORY)
            listed = pa.array(np.arange(0, 4_000, 3) if kind else np.arange(100_000, 101_334))
            ordered_table(
                source, SCHEMA, ids, common_list({"l": listed}), party="b", mode="cohort", memory=SMALLEST_MEMORY
            )
        assert list(tmp_path.iterdir()) == []
        lengths.append(written)
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("memory", [None, 0])
def test_rows_that_are_read_again_are_those_that_were_written(memory: int | None) -> None:
    rows = kit.generator("spilled").integers(-100, 100, (5_000, 3)).astype(np.int16)
    kept = SpilledRows(5_000, 3, np.int16, memory=memory)
    for start in range(0, 5_000, 1_234):
        kept.append(rows[start : start + 1_234])
    assert kept.on_disk is (memory == 0)
    assert (len(kept), kept.shape, kept.dtype) == (5_000, (5_000, 3), np.dtype(np.int16))
    assert np.array_equal(np.concatenate(list(kept)), rows)
    assert np.array_equal(kept.read(77, 4_001), rows[77:4_001])
    places = kit.generator("places").integers(0, 5_000, 300)
    assert np.array_equal(kept.take(places), rows[places])
    assert kept.take(np.empty(0, dtype=np.int64)).shape == (0, 3)
    assert np.array_equal(kept.mapped(), rows)
