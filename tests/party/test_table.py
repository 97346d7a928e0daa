"""Columns behind public bounds: the same from every source, in the order given, and one cell never moves another."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import ColonnadeError, SchemaMismatch
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.schema import Category, Numeric, Schema
from colonnade.schema.encoders import CategoryEncoder, NumericEncoder
from tests import kit
from tests.party.test_sources import CANARY, KINDS, make

SEGMENT = Category(["basic", "gold", "platinum"])


def people(rows: int = 200) -> pd.DataFrame:
    generator = kit.generator("people")
    ages = generator.normal(50, 40, rows)
    ages[::11] = np.nan
    segments = generator.choice(["basic", "gold", "platinum", "unheard-of"], rows).astype(object)
    segments[::13] = None
    children = generator.integers(0, 5, rows).astype(float)
    children[::17] = np.nan
    return pd.DataFrame(
        {
            "age": ages,
            "segment": segments,
            "children": children,
            "member": generator.integers(0, 2, rows).astype(bool),
            "floor": generator.integers(-2, 60, rows),
            "diary": [CANARY] * rows,
        }
    )


SCHEMA = Schema(
    age=Numeric(18, 95),
    segment=SEGMENT,
    children=Category([0, 1, 2, 3]),
    member=Category([False, True]),
    floor=Numeric(0, 40, integer=True),
)


def blocks_of(table: PrivateTable, names: list[str], rows: int = 65_536) -> list[dict]:
    """All people in the agreed order, some at a time."""
    table.load(names)
    return [{name: cells_of(table, name, start, stop) for name in names} for start, stop in table.ranges(rows)]


def cells_of(table: PrivateTable, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
    ask = table.codes if isinstance(table.schema[name], Category) else table.values
    return ask(name, start, stop)


def expected(frame: pd.DataFrame) -> dict[str, list[float]]:
    """The same by plain Python, a cell at a time."""
    levels = {"segment": ["basic", "gold", "platinum"], "children": [0, 1, 2, 3], "member": [False, True]}
    columns = {
        name: [known.index(cell) if cell in known else -1 for cell in frame[name]] for name, known in levels.items()
    }
    columns["age"] = [56.5 if np.isnan(cell) else min(max(cell, 18.0), 95.0) for cell in frame["age"]]
    columns["floor"] = [float(min(max(cell, 0), 40)) for cell in frame["floor"]]
    return columns


def read(table: PrivateTable) -> dict[str, list[float]]:
    return {
        name: (table.values(name) if isinstance(column, Numeric) else table.codes(name)).tolist()
        for name, column in table.schema.items()
    }


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_codes_and_values(kind: str, tmp_path: Path) -> None:
    frame = people()
    assert read(PrivateTable(Source(make(kind, frame, tmp_path)), SCHEMA)) == expected(frame)


class SpySource(Source):
    """A source that remembers which columns it was asked for."""

    def __init__(self, data: object) -> None:
        super().__init__(data)
        self.asked: list[tuple[str, ...]] = []

    def batches(self, columns, rows=65_536):  # type: ignore[no-untyped-def]
        self.asked.append(tuple(columns))
        return super().batches(columns, rows)


def test_a_column_outside_the_schema_is_never_read_and_each_column_once() -> None:
    source = SpySource(people())
    table = PrivateTable(source, SCHEMA)
    read(table)
    read(table)
    blocks_of(table, ["age", "segment"])
    assert [name for asked in source.asked for name in asked] == list(SCHEMA)
    with pytest.raises(SchemaMismatch, match="'diary'"):
        table.codes("diary")


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("column", "cells", "codes"),
    [
        (["1", "2"], [1, 2, 3], [0, 1, -1]),
        (["1", "2"], [1.0, None, 2.0], [0, -1, 1]),
        ([1, 2], ["1", "2", "1.0", "01", "1.5", "", " 1"], [0, 1, 0, -1, -1, -1, -1]),
        ([1, 2], [1.0, 1.5, float("nan"), float("inf")], [0, -1, -1, -1]),
        ([0, 1], [True, False, None], [1, 0, -1]),
        ([False, True], [1, 0, 2], [1, 0, -1]),
        ([False, True], ["true", "False", "TRUE", "1", "yes"], [1, 0, 1, 1, -1]),
        (["no", "yes"], [True, False], [-1, -1]),
        (["true", "false"], [True, False], [0, 1]),
        (["1.0", "1"], [1, 1.0], [1, 1]),
        (["1.0", "1"], ["1.0", "1"], [0, 1]),
        ([0, 1], [-0.0, 0.0], [0, 0]),
        (["NA", "EU"], ["NA", "EU", None, ""], [0, 1, -1, -1]),
        ([2**53, 2**53 + 1], [2**53, 2**53 + 1, 2**53 + 2], [0, 1, -1]),
        ([-1, 1], np.array([2**64 - 1, 1], dtype=np.uint64), [-1, 1]),
        ([1, 1000], np.array([1, -24], dtype=np.int8), [0, -1]),
        (["0.5", "1.5"], [0.5, 1.5], [0, 1]),
        (["2024-02-29", "x"], [dt.date(2024, 2, 29), None], [0, -1]),
        (["é", "e\u0301"], ["e\u0301", "é"], [1, 0]),
    ],
)
def test_a_level_is_found_however_it_is_stored(column: list, cells: list, codes: list[int]) -> None:
    encode = CategoryEncoder(Category(column))
    typed = pa.array(cells, from_pandas=True)
    assert encode(typed).tolist() == codes
    assert encode(typed.dictionary_encode()).tolist() == codes
    as_objects = pd.DataFrame({"x": pd.Series(list(cells), dtype=object)})
    table = PrivateTable(Source(as_objects), Schema(x=Category(column)))
    assert table.codes("x").tolist() == codes
    assert table.codes("x").dtype == np.int32


NUMBERS = [
    (["12", " 7.5 ", "+3", "-1e1", ".5", "5.", "1e999", "-inf"], [12, 7.5, 3, -10, 0.5, 5, 20, -10]),
    (["", "n/a", "nan", "1,5", "0x10", "1_0", "--1", "1 2", "e5", "½"], [5] * 10),
    (["True", "false", "TRUE"], [1, 0, 1]),
    ([True, False, None], [1, 0, 5]),
    ([1, 2**60, -(2**60), None], [1, 20, -10, 5]),
    ([0.25, float("nan"), float("inf"), float("-inf"), None], [0.25, 5, 20, -10, 5]),
    ([Decimal("1.50"), Decimal("-99.25"), None], [1.5, -10, 5]),
]


@pytest.mark.every(2)
@pytest.mark.parametrize(("cells", "values"), NUMBERS)
def test_a_number_is_clipped_and_a_missing_one_is_the_midpoint(cells: list, values: list[float]) -> None:
    encode = NumericEncoder(Numeric(-10, 20))
    typed = pa.array(cells)
    assert encode(typed).tolist() == values
    assert encode(typed.dictionary_encode()).tolist() == values
    assert PrivateTable(
        Source(pd.DataFrame({"x": pd.Series([*cells, 1], dtype=object)})), Schema(x=Numeric(-10, 20))
    ).values("x").tolist() == [*values, 1]


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("column", "cells", "values"),
    [
        (Numeric(0, 5, integer=True), [0.4, 0.6, 2.5, 3.5, 9.0, None], [0, 1, 2, 4, 5, 2.5]),
        (Numeric(0.5, 4.5, integer=True), [0.1, 0.5, 4.4, 99.0, -99.0, None], [1, 1, 4, 4, 1, 2.5]),
        (Numeric(-0.5, 0.5, integer=True), [-0.5, 0.5, 7.0, None], [0, 0, 0, 0]),
    ],
)
def test_rounding_never_leaves_the_bounds(column: Numeric, cells: list, values: list[float]) -> None:
    found = NumericEncoder(column)(pa.array(cells))
    assert found.tolist() == values
    assert found.min() >= column.low
    assert found.max() <= column.high


cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(),
    st.sampled_from(["a", "b", "1", "1.0", "-2", "2.5", "true", "False", "inf", "nan", "", " 1 ", "é"]),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=4),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.dates(),
    st.just([CANARY]),
)


@given(st.lists(cells, min_size=1, max_size=12), st.integers(0, 11), cells)
def test_one_persons_cell_never_changes_what_anothers_becomes(column: list, at: int, other: object) -> None:
    schema = Schema({"x": Category(["a", "b", 1, -2, True]), "y": Numeric(-5, 5)})
    neighbour = list(column)
    neighbour[at % len(column)] = other
    tables = [
        PrivateTable(
            Source(pd.DataFrame({"x": pd.Series(rows, dtype=object), "y": pd.Series(rows, dtype=object)})), schema
        )
        for rows in (column, neighbour)
    ]
    try:
        codes, values = ([table.codes("x") for table in tables], [table.values("y") for table in tables])
    except ColonnadeError:
        pytest.fail("an error that depends on the data")
    elsewhere = np.arange(len(column)) != at % len(column)
    assert np.array_equal(codes[0][elsewhere], codes[1][elsewhere])
    assert np.array_equal(values[0][elsewhere], values[1][elsewhere])
    for found in values:
        assert np.all((found >= -5) & (found <= 5))
    for found in codes:
        assert np.all((found >= -1) & (found < 5))


@given(
    st.integers(1, 40).flatmap(
        lambda rows: st.tuples(
            st.lists(st.one_of(st.none(), st.integers(-3, 5)), min_size=rows, max_size=rows),
            st.lists(st.one_of(st.none(), st.sampled_from("abcd")), min_size=rows, max_size=rows),
            st.permutations(range(rows)),
            st.integers(1, rows),
            st.integers(1, 7),
        )
    )
)
def test_any_table_in_any_order_equals_the_plain_reading(drawn: tuple) -> None:
    numbers, letters, order, kept, rows = drawn
    order = np.array(order[:kept], dtype=np.int64)
    arrow = pa.table({"n": pa.array(numbers, pa.int64()), "l": pa.array(letters, pa.string())})
    table = PrivateTable(Source(arrow), Schema(n=Numeric(-2, 4), l=Category(["a", "b", "c"])), order=order)
    plain_numbers = [1.0 if numbers[row] is None else min(max(numbers[row], -2), 4) for row in order]
    plain_letters = [-1 if letters[row] in (None, "d") else "abc".index(letters[row]) for row in order]
    assert table.values("n").tolist() == plain_numbers
    assert table.codes("l").tolist() == plain_letters
    blocks = blocks_of(table, ["l", "n"], rows)
    assert all(len(block["n"]) == len(block["l"]) <= rows for block in blocks)
    assert np.concatenate([block["n"] for block in blocks]).tolist() == plain_numbers
    assert np.concatenate([block["l"] for block in blocks]).tolist() == plain_letters


def test_a_joint_category_runs_over_the_last_column_fastest() -> None:
    frame = pd.DataFrame({"a": ["x", "x", "y", "y", None, "x"], "b": [0, 1, 2, 7, 1, 2], "c": [True] * 5 + [False]})
    schema = Schema(a=Category(["x", "y"]), b=Category([0, 1, 2]), c=Category([False, True]))
    table = PrivateTable(Source(frame), schema)
    codes, size = table.joint_codes(["a", "b", "c"])
    assert size == 12
    assert codes.tolist() == [1, 3, 11, -1, -1, 4]
    assert codes.dtype == np.int32
    assert table.joint_codes(["b"])[0].tolist() == [0, 1, 2, -1, 1, 2]


def test_what_a_table_hands_out_cannot_be_changed() -> None:
    table = PrivateTable(Source(people()), SCHEMA)
    for column in (table.codes("segment"), table.values("age"), table.values("age", 1, 5), table.held()):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
    joint, _ = table.joint_codes(["segment"])
    joint[0] = 2  # a copy is the caller's own
    assert CANARY not in repr(table)


def test_a_person_without_a_row_has_a_null_record() -> None:
    frame = people()
    table = PrivateTable(Source(frame), SCHEMA, order=np.array([-1, 5, -1, 3]))
    whole = expected(frame)
    assert table.codes("segment").tolist() == [-1, whole["segment"][5], -1, whole["segment"][3]]
    assert table.values("age").tolist() == [56.5, whole["age"][5], 56.5, whole["age"][3]]
    assert table.values("floor").tolist()[0] == 20


def test_a_source_that_lost_rows_since_it_was_aligned_is_refused(tmp_path: Path) -> None:
    path = make("csv", people(), tmp_path)
    with pytest.raises(SchemaMismatch, match="fewer rows"):
        PrivateTable(Source(path), SCHEMA, order=np.array([0, 200])).values("age")


@pytest.mark.every(2)
@pytest.mark.parametrize("memory", [0, 1000, 2000, 5000])
def test_a_table_larger_than_its_memory_reads_the_same(memory: int) -> None:
    frame = people()
    table = PrivateTable(Source(frame), SCHEMA, memory=memory)
    assert read(table) == expected(frame)
    for _ in range(2):
        blocks = blocks_of(table, list(SCHEMA), 7)
        assert {name: np.concatenate([block[name] for block in blocks]).tolist() for name in SCHEMA} == expected(frame)
    held = [column for column in table._columns.values() if not isinstance(column, np.memmap)]
    assert sum(column.nbytes for column in held) <= memory


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pa.array([[1], [2]]), "list"),
        (pa.array([{CANARY: 1}]), "struct"),
        (pa.array([b"x"]), "binary"),
        (pa.array([dt.datetime(2020, 1, 1)]), "timestamp"),
    ],
)
@pytest.mark.parametrize("column", [SEGMENT, Numeric(0, 1)])
def test_types_that_no_schema_describes_are_refused(cells: object, kind: str, column: Category | Numeric) -> None:
    with pytest.raises(SchemaMismatch, match=f"'x' holds the type {kind}") as caught:
        PrivateTable(Source(pa.table({"x": cells})), Schema(x=column))
    assert CANARY not in str(caught.value)
