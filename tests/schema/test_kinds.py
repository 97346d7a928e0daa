"""A kind of column is a class, and nothing outside `colonnade.schema` asks of which kind a column is."""

import ast
from doctest import DocTestParser
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.schema import Bins, Category, Column, Crossed, Date, Indicator, Number, Numeric, Schema, kind_declared_by
from colonnade.schema.column import ColumnKind
from colonnade.schema.encoders import encoder_for, form_of, pandas_reader
from colonnade.schema.kinds import DECLARED
from colonnade.schema.pipelines import coding_steps

SOURCE = Path(cn.__file__).parent
KINDS = {kind.__name__ for kind in (*get_args(Column), Number)}
DECLARING = {"__init__.py", "datasets.py"}
"""The public names, and a data set that declares its own columns."""

AGE, DAY = Numeric(0, 120, missing=40, indicator=True), Date("2020-01-01", "2024-12-31")
PLAN = Category(["a", "b"], missing="excluded")
EVERY = [
    AGE,
    DAY,
    PLAN,
    Indicator("age", AGE),
    Bins.equal(AGE, 4),
    Crossed(names=("age", "plan"), of=(Bins.equal(AGE, 4), PLAN)),
]


def documented(kind):
    """Return the first column that a kind's own examples declare."""
    examples = DocTestParser().get_examples(kind.__doc__)
    nodes = (node for example in examples for node in ast.walk(ast.parse(example.source)))
    calls = (node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == kind.__name__)
    return eval(ast.unparse(next(calls)), {kind.__name__: kind})


DOCUMENTED = [documented(kind) for kind in DECLARED.values()]
"""A column of each kind that an owner declares, also of one that was added after this was written."""


def kinds_named(source: str) -> set[str]:
    """Return the kinds of columns that a module imports, or takes from the package's public names."""
    tree = ast.walk(ast.parse(source))
    return KINDS & {
        name
        for node in tree
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "colonnade"
            else [node.attr]
            if isinstance(node, ast.Attribute)
            else []
        )
    }


def test_no_module_outside_the_schema_knows_a_kind_of_column():
    modules = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*.py")}
    others = {name: path for name, path in modules.items() if not name.startswith("schema/") and name not in DECLARING}
    assert len(others) > 150
    assert not {
        name: found for name, path in others.items() if (found := kinds_named(path.read_text(encoding="utf-8")))
    }


@pytest.mark.parametrize(
    "source",
    [
        "from colonnade.schema import Column, Date",
        "import colonnade as cn\nisinstance(x, cn.Numeric)",
        "schema.Category([])",
    ],
)
def test_a_module_that_knows_one_would_be_found(source):
    assert kinds_named(source)


def test_every_kind_is_among_those_that_are_asked_here():
    assert {type(column) for column in (*EVERY, *DOCUMENTED)} == set(get_args(Column))


@pytest.mark.parametrize("column", DOCUMENTED, ids=lambda column: type(column).__name__)
def test_a_declared_kind_is_sent_read_stored_and_exported_alike(column):
    assert msgspec.json.decode(msgspec.json.encode(column), type=Column) == column
    frame = pd.DataFrame({"party.own": list(column.public_cells)})
    cells, encoder, form = pandas_reader(frame["party.own"])(0, len(frame)), encoder_for(column), form_of(column)
    assert encoder.present(cells).all()
    np.testing.assert_array_equal(encoder(form.restore(form.store(cells))), encoder(cells))
    exported = coding_steps({"party.own": column}, coded=False).transform(frame)
    wanted = encoder(cells)[:, None] if column.is_number else np.eye(column.size)[encoder(cells)]
    np.testing.assert_array_equal(exported, wanted)


@pytest.mark.parametrize("column", [*EVERY, *DOCUMENTED], ids=lambda column: type(column).__name__)
def test_every_kind_answers_what_any_column_is_asked(column):
    bounds = {"low", "high", "midpoint", "half_range", "coded_bounds"} if not column.is_number else set()
    for name in set(vars(ColumnKind)) - bounds:
        assert not isinstance(vars(ColumnKind)[name], property) or getattr(column, name, Ellipsis) is not Ellipsis
    for name in bounds:
        with pytest.raises(TypeError):
            getattr(column, name)
    assert column.width == (1 if column.is_number else len(column.levels))
    assert column.is_same(column)
    assert column.in_words()
    assert not column.is_measured or column.narrowed(column.low, column.high) == column


def test_a_column_says_which_stored_columns_it_is_read_from():
    asked = [column.read_from("own") for column in EVERY]
    assert asked == [("own",), ("own",), ("own",), ("age",), ("own",), ("age", "plan")]
    assert [column.underlying for column in EVERY] == [AGE, DAY, PLAN, AGE, AGE, EVERY[-1]]


def test_an_indicator_is_the_same_whatever_the_bounds_are_and_no_other_kind_is():
    indicator = EVERY[3]
    assert indicator.is_same(Indicator("age", Numeric(10, 90, missing=40, indicator=True)))
    assert not indicator.is_same(Indicator("income", AGE))
    assert not indicator.is_same(None)
    assert not AGE.is_same(Numeric(10, 90, missing=40, indicator=True))


@pytest.mark.parametrize("wrong", [None, 7, "age", Schema])
def test_what_is_no_column_is_no_reading(wrong):
    assert not Schema(age=AGE).allows("age", wrong)


@pytest.mark.parametrize("column", DOCUMENTED, ids=lambda column: type(column).__name__)
def test_the_fields_of_a_declaration_tell_its_kind(column):
    kind, known = kind_declared_by(column.needed)
    assert kind is type(column)
    assert set(kind.__struct_fields__) <= set(known)
    assert kind.lacks(column.needed) is None
