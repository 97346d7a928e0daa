"""One coding: a cell becomes the same number in a party's table, in a frame that is scored and in an exported model."""

import datetime as dt
import re
from decimal import Decimal
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimators.frames import design_matrix, linear_pipeline
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.schema import (
    Category,
    Column,
    ColumnName,
    Date,
    Indicator,
    Number,
    Numeric,
    Schema,
    coded_block,
    columns_at,
    features_of,
    parties_of,
    plain_names,
    to_coded_units,
    to_own_units,
)
from colonnade.schema.encoders import encoder_for, pandas_reader
from tests.federations import federation, frames, joined

COLUMNS: dict[str, Column] = {
    "number": Numeric(-1.5, 2000),
    "whole": Numeric(0.5, 9.2, integer=True),
    "flag": Category([False, True]),
    "code": Category([0, 1, 7]),
    "word": Category(["nan", "None", "gold", "7", "true", "0.5"]),
    "both": Category([True, 1, "0.5", "inf"]),
    "large": Category([10**16, "1e16", "-0.0", "2020-02-01"]),
    "filled": Numeric(-1.5, 2000, missing=7.25, na_values=["?", "x", -3, "1e3", "0.5"]),
    "whole, filled": Numeric(0, 9, integer=True, missing=3, na_values=["5"]),
    "English": Numeric(0, 5000, missing=1, thousands=","),
    "German": Numeric(0, 5000, missing=1, thousands=".", decimal=",", na_values=["1.234,5"]),
    "Swiss": Numeric(0, 5000, thousands="\u2019"),
    "spaced": Numeric(0, 5000, missing=0, thousands=" ", decimal=","),
    "excluded": Category(["gold", "7", "x"], missing="excluded", na_values=["?", "0.5", "1"]),
    "level": Category(["gold", 7], missing="level", na_values=["?"]),
    "other": Category(["gold", True], other="x"),
    "both rules": Category(["gold", 7], missing="level", other="else", na_values=["?", "0"]),
    "one of the list": Category(["gold", "7"], missing="excluded", other="7"),
    "constant": Category(["gold"]),
    "constant, excluded": Category([7], missing="excluded", other=7),
    "day": Date("2020-01-01", "2024-12-31"),
    "day, filled": Date("1960-01-01", "2024-12-31", missing="1999-12-31", na_values=["2020-02-01", "1969-12-31"]),
}
COLUMNS |= {
    f"{name}, whether missing": Indicator("x", msgspec.structs.replace(COLUMNS[name], indicator=True))  # type: ignore[arg-type]
    for name in ("filled", "whole, filled", "English", "German", "day, filled")
}
TEXTS = (
    "1,234.50", "1.234,5", "1,23", "1.567", "12,34,567", "1 234", "1\u2019234", "-3", "-3.0", "missing", "else", " ? ",
    "2020-02-01", "2021-02-30", " 2020-02-29 ", "2020-02-01T05:06", "2020-02-01 23:59:59.123+02:00", "1969-12-31", "2020-2-1",
    "20200201",
    "true", " TRUE ", "tRue\n", "False", " 5 ", "1e3", "1E+2", "?", "nan", "", "None", "inf", "-Infinity", "+5", "-.5", "5.",
    "1_000", "0x10", "٣", "１", "1 2", "++5", "1e", "\u00a05", "gold", "Gold", "7", "7.0", "0.5", "-0.0", "1e16", "1e+16", "x",
)  # fmt: skip
OBJECTS = (
    None, True, False, 0, 1, 7, -3, 10**16, 2**70, 0.0, -0.0, 0.5, 1.0, 7.0, 2.5, 1e16, 1e300, float("nan"), float("inf"),
    -float("inf"), pd.NA, pd.NaT, np.bool_(True), np.bool_(False), np.int8(7), np.uint64(2**63 + 5), np.float16(0.5),
    np.float32(0.1), np.float64(7.0), np.longdouble(7), np.str_("gold"), np.str_("true"), Decimal(7), dt.date(2020, 2, 1),
    dt.datetime(2020, 2, 1), dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC), pd.Timestamp("2020-02-29 12:00"), 1.567, 1234.5,
    1000.0, -3, "", b"7", (), [],
)  # fmt: skip
MIXED = st.lists(st.sampled_from([*TEXTS, *OBJECTS]), min_size=1, max_size=12)
FLOATS = st.lists(st.floats(width=32) | st.sampled_from([0.0, 1.0, 7.0, 0.5]), min_size=1, max_size=8)
WHOLES = st.lists(st.integers(-5, 12), min_size=1, max_size=8)
TYPED = st.one_of(
    st.builds(pd.Series, FLOATS, dtype=st.sampled_from(["float64", "float32", "Float64", "double[pyarrow]"])),
    st.builds(pd.Series, WHOLES, dtype=st.sampled_from(["int64", "int8", "Int16", "int64[pyarrow]", "category"])),
    st.builds(
        pd.Series,
        st.lists(st.sampled_from([1, 0, None, 7]), min_size=1, max_size=8),
        dtype=st.sampled_from(["Int64", "Float32", "UInt8", "object"]),
    ),
    st.builds(
        pd.Series,
        st.lists(st.booleans() | st.none(), min_size=1, max_size=8),
        dtype=st.sampled_from(["boolean", "object", "bool[pyarrow]"]),
    ),
    st.builds(
        pd.Series,
        st.lists(st.sampled_from(TEXTS) | st.none(), min_size=1, max_size=8),
        dtype=st.sampled_from(["object", "category"]),
    ),
    st.builds(pd.Series, MIXED, dtype=st.just("object")),
    st.builds(
        pd.Series,
        st.lists(st.datetimes(dt.datetime(1930, 1, 1), dt.datetime(2030, 1, 1)) | st.none(), min_size=1, max_size=8),
        dtype=st.sampled_from(
            ["datetime64[us]", "datetime64[ns]", "datetime64[s]", "datetime64[us, Asia/Tokyo]", "date32[pyarrow]"]
        ),
    ),
)


def table_of(source: Source, column: Column) -> np.ndarray:
    """The coded columns of a party's table, one person along each row."""
    name = "x_missing" if isinstance(column, Indicator) else "x"
    table = PrivateTable(source, Schema(x=column.described if isinstance(column, Indicator) else column))
    return coded_block(table.values(name) if isinstance(column, Number) else table.codes(name), column).T


def table_rows(values: pd.Series, column: Column) -> np.ndarray:
    return table_of(Source(pd.DataFrame({"x": values})), column)


def named(column: Column) -> dict[str, Column]:
    return {"a.x_missing" if isinstance(column, Indicator) else "a.x": column}


def scored_rows(values: pd.Series, column: Column) -> np.ndarray:
    columns = named(column)
    return design_matrix(pd.DataFrame({"a.x": values}), features_of(columns)[1:], columns, coded=True)


@cache
def exported(column: Column):
    return linear_pipeline(named(column), np.zeros(column.width), 0.0).named_steps["coding"]


def exported_rows(values: pd.Series, column: Column) -> np.ndarray:
    own = exported(column).transform(pd.DataFrame({"a.x": values}))
    return to_coded_units(own, features_of(named(column))[1:])


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=5)
@given(values=TYPED)
@example(
    values=pd.Series(["1,23", "1,234.50", "-3", None], dtype=object)
)  # what seeded bugs misread, whatever is drawn
def test_fitting_prediction_and_export_code_every_cell_alike(name, values):
    try:
        fitted = table_rows(values, COLUMNS[name])
    except SchemaMismatch:  # of a type that no party holds
        with pytest.raises(SchemaMismatch):
            scored_rows(values, COLUMNS[name])
        return
    np.testing.assert_array_equal(scored_rows(values, COLUMNS[name]), fitted)
    np.testing.assert_array_equal(exported_rows(values, COLUMNS[name]), fitted)


@given(
    texts=st.lists(st.sampled_from([text for text in TEXTS if "\n" not in text]), min_size=1),
    column=st.sampled_from(list(COLUMNS.values())),
)
def test_text_of_a_typed_column_is_read_as_text_of_a_file_is(texts, column, tmp_path_factory):
    path = Path(tmp_path_factory.mktemp("csv")) / "cells.csv"
    path.write_text("x,y\n" + "".join(f'"{text}",0\n' for text in texts), encoding="utf-8")
    stored = table_of(Source(path), column)
    for dtype in ("string", "object", "category"):
        np.testing.assert_array_equal(table_rows(pd.Series(texts, dtype=dtype), column), stored)
        np.testing.assert_array_equal(scored_rows(pd.Series(texts, dtype=dtype), column), stored)
        np.testing.assert_array_equal(exported_rows(pd.Series(texts, dtype=dtype), column), stored)


def test_true_in_a_column_of_numbers_is_one_everywhere():
    column, values = Numeric(0, 4), pd.Series(["true", "3", None], dtype=object)
    for rows in (table_rows, scored_rows, exported_rows):
        np.testing.assert_array_equal(
            to_own_units(rows(values, column), features_of({"a.x": column})[1:])[:, 0], [1, 3, 2]
        )


def test_a_frame_is_refused_where_a_party_would_refuse_its_column():
    when = pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"]))
    for column in (Numeric(0, 1), Category(["a", "b"])):
        with pytest.raises(SchemaMismatch, match="'x' holds the type timestamp"):
            PrivateTable(Source(pd.DataFrame({"x": when})), Schema(x=column))
        with pytest.raises(SchemaMismatch, match=r"'a\.x' holds the type timestamp"):
            scored_rows(when, column)
        with pytest.raises(SchemaMismatch, match=r"'a\.x' of the frame cannot be read"):
            scored_rows(pd.Series([1j, 2j]), column)
    columns = {"a.x": Numeric(0, 1)}
    twice = pd.DataFrame([[0.5, 0.5]], columns=["a.x", "a.x"])
    with pytest.raises(SchemaMismatch, match="more than one column"):
        design_matrix(twice, features_of(columns)[1:], columns, coded=True)


def test_rows_are_read_in_blocks_as_they_are_read_at_once():
    values = pd.Series([*TEXTS, *OBJECTS], dtype=object)
    for column in COLUMNS.values():
        encode, read = encoder_for(column), pandas_reader(values)
        pieces = [encode(read(start, start + 7)) for start in range(0, len(values), 7)]
        np.testing.assert_array_equal(np.concatenate(pieces), encode(read(0, len(values))))


# Features -------------------------------------------------------------------------------------------------------------------

DESCRIBED: dict[str, Column] = {
    "bank.age": Numeric(18, 95),
    "bank.segment": Category(["basic", "gold", "platinum"]),
    "telco.bill": Numeric(-10, 200),
    "telco.roaming": Category([False, True]),
}


@given(st.lists(st.floats(-1, 1), min_size=5, max_size=5))
def test_own_units_and_back(coded):
    features = features_of({name: DESCRIBED[name] for name in ("bank.age", "bank.segment", "telco.bill")})[1:]
    own = to_own_units(np.array([coded]), features)
    assert 18 <= own[0, 0] <= 95
    np.testing.assert_array_equal(own[0, 1:4], coded[1:4])
    np.testing.assert_allclose(to_coded_units(own, features), [coded], atol=1e-12)


# Names ----------------------------------------------------------------------------------------------------------------------


def test_a_name_is_read_and_written_back():
    assert ColumnName.of("bank.age.months") == ("bank", "age.months")
    assert str(ColumnName.of(np.str_("bank.age"))) == "bank.age"
    assert parties_of(["b.x", "a.y", "b.z"]) == ("b", "a")
    assert columns_at("b", ["b.x", "a.y", "bb.q", "b.z"]) == ("x", "z")
    for wrong in ("age", 7, None, b"a.x"):
        with pytest.raises(BadInput):
            ColumnName.of(wrong)
    for wrong in ("bank.age", [], None, {"bank.age"}, [7], ["a.x", np.str_("a.x")]):
        with pytest.raises(BadInput):
            plain_names(wrong)


def test_names_are_divided_and_joined_in_one_place():
    source = Path(cn.__file__).parent
    by_hand = re.compile(r"""partition\("\."\)|f"\{(\w+\.)*party\}\.\{|startswith\(f"\{(\w+\.)*party\}\.""")
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if by_hand.search(path.read_text())}
    assert found <= {"schema/__init__.py", "party/table/sources.py", "coordinator/connect.py"}  # names of modules


def names(*texts: str) -> list[np.str_]:
    return [np.str_(text) for text in texts]


PRICE = {"epsilon": 4.0, "delta": 1e-5}
AGE, BILL, PRODUCT, DEFAULT = names("bank.age", "telco.bill", "insurer.product", "bank.default")
STUDIES = {
    "components": lambda: cn.PCA(
        2, columns=[AGE, BILL, PRODUCT], method=cn.methods.Secure(row_norms={np.str_("bank"): 1.0}), **PRICE
    ),
    "regression": lambda: cn.LinearRegression(BILL, columns=[AGE, PRODUCT], **PRICE),
    "budgets": lambda: cn.LinearRegression(
        BILL, columns=[AGE], method=cn.methods.Functional(budgets={np.str_("bank"): 1.0, np.str_("telco"): 1.0})
    ),
    "coreset": lambda: cn.LinearRegression(BILL, columns=[AGE], method="coreset", size=20, allow_nonprivate=True),
    "classes": lambda: cn.LogisticRegression(DEFAULT, method="secure", columns=[AGE, BILL], **PRICE),
    "gradient": lambda: cn.LogisticRegression(
        DEFAULT, columns=[AGE, BILL], method=cn.methods.Gradient(steps=2, rate=0.1), **PRICE
    ),
    "clusters": lambda: cn.KMeans(2, columns=[AGE, BILL], method="independent", **PRICE),
    "patterns": lambda: cn.PatternCount(names("bank.segment", "telco.plan"), method="response", epsilon=4.0),
}


@pytest.fixture(scope="module")
def data():
    with federation(120, epsilon=1000.0) as f:
        yield f


@pytest.mark.parametrize("study", STUDIES)
def test_numpy_strings_name_columns_targets_and_frames(study, data, tmp_path):
    model = STUDIES[study]().fit(data)
    model.save(tmp_path / "model.json")
    again = cn.load(tmp_path / "model.json")
    rows = joined(frames(120))
    numpys = rows.set_axis(names(*rows.columns), axis=1)
    call = {"components": "transform", "patterns": None}.get(study, "predict")
    if call is not None:
        np.testing.assert_array_equal(getattr(model, call)(numpys), getattr(again, call)(rows))
