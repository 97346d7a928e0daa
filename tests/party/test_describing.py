"""What one person can do to the counts and the quantiles of a party's columns, through a real table."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from colonnade.errors import BadInput, PlanMismatch, SchemaMismatch
from colonnade.party.steps.local import PrivateColumnCounts, PrivateQuantilePositions
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.quantile_search import LARGEST_CELLS
from colonnade.schema import Category, Date, Numeric, Schema
from colonnade.steps.describing import Cells
from tests import kit
from tests.party.test_statistics import a_plan

SCHEMA = Schema(
    age=Numeric(18, 95, integer=True),
    income=Numeric(0, 1_000, missing=0),
    day=Date("2020-01-01", "2020-12-31", missing="2020-06-01"),
    segment=Category(["basic", "gold", "platinum"], missing="excluded"),
    plan=Category(["a", "b"], missing="level"),
)
EVERY = tuple(SCHEMA)
NUMBERS = ("age", "income", "day")
AGES = st.sampled_from([18.0, 40.0, 95.0, -1e308, 1e308, 40.4, np.nan])
INCOMES = st.sampled_from([0.0, 500.0, 1_000.0, 999.999, np.inf, -np.inf, np.nan])
DAYS = st.sampled_from(["2020-01-01", "2020-12-31", "1990-01-01", "no date", None])
SEGMENTS = st.sampled_from(["basic", "gold", "platinum", "lead", None])
ROWS = st.lists(st.tuples(AGES, INCOMES, DAYS, SEGMENTS, st.sampled_from(["a", "b", None])), min_size=1, max_size=10)


def table(rows, order=None):
    frame = pd.DataFrame(rows, columns=EVERY).astype({"day": object, "segment": object, "plan": object})
    return PrivateTable(Source(frame), SCHEMA, order=order)


def without(rows, person):
    """The table in which one person has no row."""
    order = np.arange(len(rows))
    order[person] = -1
    return table(rows, order)


def made(kind, columns=EVERY, people=3, price=None, schema=SCHEMA, **parameters):
    given = {"bins": (8,) * len(columns), "groups": (4,) * len(columns)} if kind is PrivateColumnCounts else {}
    plan, step, _ = a_plan(people, kind.kinds[0].name, columns, price, **{**given, **parameters})
    return kit.private(kind, plan, step, schema)


@given(ROWS, st.data())
def test_a_person_removed_leaves_as_many_cells_as_is_declared_and_each_by_one(rows, data):
    counts = made(PrivateColumnCounts, people=len(rows))
    moved = counts.compute(table(rows)) - counts.compute(without(rows, data.draw(st.integers(0, len(rows) - 1))))
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert moved.sum() <= counts.step.sensitivity == 2 + 2 + 2 + 1 + 1


@given(ROWS, ROWS, st.data())
def test_a_person_replaced_moves_twice_as_many(rows, others, data):
    person = data.draw(st.integers(0, len(rows) - 1))
    replaced = [others[0] if index == person else row for index, row in enumerate(rows)]
    counts = made(PrivateColumnCounts, people=len(rows))
    moved = counts.compute(table(rows)) - counts.compute(table(replaced))
    assert np.abs(moved).sum() <= 2 * counts.step.sensitivity
    assert np.square(moved).sum() <= 2 * counts.step.sensitivity


def test_a_missing_value_is_counted_by_itself_and_not_at_its_fill_value():
    rows = [(40.0, np.nan, None, None, None), (40.0, 0.0, "2020-06-01", "gold", "a")]
    (found,) = (made(PrivateColumnCounts, ("income",), 2).compute(table(rows)),)
    assert found[2] == 1  # the lowest bin, in which 0 is
    assert found[-1] == 1
    positions = made(PrivateQuantilePositions, ("income", "day"), 2, quantiles=(0.5,)).compute(table(rows)).mapped()
    assert positions[0].tolist() == [-1, -1]
    assert positions[1].min() >= 0


@given(ROWS, st.data())
def test_a_person_removed_changes_their_own_place_among_the_quantiles_and_nobody_elses(rows, data):
    half = made(PrivateQuantilePositions, NUMBERS, len(rows), quantiles=(0.25, 0.75))
    person = data.draw(st.integers(0, len(rows) - 1))
    before, after = (half.compute(one).mapped() for one in (table(rows), without(rows, person)))
    assert np.all(after[person] == -1)
    np.testing.assert_array_equal(np.delete(before, person, axis=0), np.delete(after, person, axis=0))
    assert np.all(before < [cells.number for cells in half.step.cells.values()])


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e9), st.booleans(), st.floats(0, 1))
def test_cells_cover_the_bounds_and_a_value_is_near_its_cell(low, span, whole, place):
    assume(not whole or np.ceil(low) <= np.floor(low + span))  # refused elsewhere: no whole number between the bounds
    cells = Cells(Numeric(low, low + span, integer=whole))
    assert 1 <= cells.number <= LARGEST_CELLS
    assert cells.value(0) == cells.first
    assert cells.value(cells.number - 1) == cells.last
    value = cells.first + place * (cells.last - cells.first)
    found = cells.value(int(np.clip(np.rint((value - cells.first) / cells.width), 0, cells.number - 1)))
    assert abs(found - value) <= 1.01 * cells.width + 1e-9 * abs(value)
    assert cells.first <= found <= cells.last


@pytest.mark.parametrize(
    ("kind", "changes", "error"),
    [
        (PrivateColumnCounts, {"bins": (8,)}, PlanMismatch),
        (PrivateColumnCounts, {"groups": (9,) * 5}, BadInput),
        (PrivateColumnCounts, {"bins": (5_000,) * 5}, BadInput),
        (PrivateColumnCounts, {"bins": (0,) * 5}, BadInput),
        (PrivateColumnCounts, {"edges": (0.0, 1.0)}, PlanMismatch),
        (PrivateColumnCounts, {"columns": ("age", "age"), "bins": (8, 8), "groups": (4, 4)}, BadInput),
        (PrivateColumnCounts, {"columns": ("income",), "bins": (1,), "groups": (1,), "edges": (5.0, 9.0)}, BadInput),
        (PrivateQuantilePositions, {"columns": ("segment",), "quantiles": (0.5,)}, SchemaMismatch),
        (PrivateQuantilePositions, {"columns": (), "quantiles": (0.5,)}, BadInput),
        (PrivateQuantilePositions, {"columns": ("age",), "quantiles": (0.5,), "bins": (4,)}, BadInput),
    ],
)
def test_a_step_that_says_something_else_is_refused_before_anything_is_read(kind, changes, error):
    with pytest.raises(error):
        made(kind, **changes)


def test_released_counts_have_the_noise_of_their_law_and_not_that_of_half_the_sensitivity():
    step = made(PrivateColumnCounts, people=2)
    exact = step.compute(table([(44.0, 731.4, "2020-03-01", "gold", "a")] * 2))
    law = step.law(Price.of(0.5))
    noise = np.concatenate([law.release(exact, kit.sampler(f"counts {one}")) - exact for one in range(200)])
    ratio = np.exp(-1 / float(law.scale))
    chances = {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-120, 121)}
    observed = np.array([np.count_nonzero(noise == k) for k in chances])
    assert kit.chi_square_p(observed, np.array(list(chances.values()))) > kit.ALPHA
    half = np.array([np.exp(-abs(k) / (float(law.scale) / 2)) for k in chances])
    assert kit.chi_square_p(observed, half) < kit.ALPHA
