"""What one person can do to a party's own statistics, through a real table: hypothesis tries to find more than is declared.

Neighbours are made in both ways in which a record can be missing: its cells are empty, or its owner has no row.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import BadInput
from colonnade.party.steps.local import PrivateHistogram, PrivateReports, chosen
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.plan import Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.schema import Category, Numeric, Schema
from colonnade.steps.local import HistogramStep
from tests import kit

SCHEMA = Schema(
    segment=Category(["basic", "gold", "platinum"]),
    flag=Category([0, 1]),
    age=Numeric(18, 95),
)
COLUMNS = st.sampled_from([("segment",), ("flag",), ("segment", "flag"), ("flag", "segment")])

# Cells as they arrive: declared levels, undeclared ones, near misses, nothing, and numbers that are none.
WORDS = st.sampled_from(["basic", "gold", "platinum", "lead", "GOLD", "gold ", "", "nan", None])
NUMBERS = st.sampled_from([0.0, 1.0, -0.0, -1.0, 2.0, 0.5, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf])
ROWS = st.lists(st.tuples(WORDS, NUMBERS, NUMBERS), min_size=1, max_size=12)


def frame(rows):
    words, flags, ages = zip(*rows, strict=True)
    return pd.DataFrame({"segment": pd.Series(words, dtype=object), "flag": flags, "age": ages})


def table(rows, order=None):
    return PrivateTable(Source(frame(rows)), SCHEMA, order=order)


def without(rows, person):
    """Two tables in which one person's record is nothing: empty cells, and no row at all."""
    emptied = [(None, np.nan, np.nan) if index == person else row for index, row in enumerate(rows)]
    order = np.arange(len(rows))
    order[person] = -1
    return table(emptied), table(rows, order)


def a_plan(people, statistic, columns, price=None, **parameters):
    step = Step(
        name="s",
        party="bank",
        kind=statistic,
        columns=columns,
        parameters=parameters,
        price=price or Price.of(0.5),
    )
    plan = kit.written(step, task="pattern-count", method="response", people=people)
    return plan, step, SCHEMA


def made(kind, columns, people=3, **parameters):
    return kit.private(kind, *a_plan(people, kind.kinds[0].name, columns, **parameters))


# Histograms -----------------------------------------------------------------------------------------------------------------


@given(ROWS, COLUMNS, st.data())
def test_a_person_removed_moves_one_cell_of_a_histogram_by_at_most_one(rows, columns, data):
    histogram = made(PrivateHistogram, columns, len(rows))
    before = histogram.compute(table(rows))
    for neighbour in without(rows, data.draw(st.integers(0, len(rows) - 1))):
        difference = before - histogram.compute(neighbour)
        assert np.abs(difference).sum() <= histogram.step.sensitivity
        assert difference.min() >= 0


@given(ROWS, st.tuples(WORDS, NUMBERS, NUMBERS), COLUMNS, st.data())
def test_a_person_replaced_moves_two_cells_of_a_histogram_by_at_most_one_each(rows, other, columns, data):
    histogram = made(PrivateHistogram, columns, len(rows))
    person = data.draw(st.integers(0, len(rows) - 1))
    replaced = [other if index == person else row for index, row in enumerate(rows)]
    difference = histogram.compute(table(rows)) - histogram.compute(table(replaced))
    assert np.abs(difference).max() <= 1
    assert np.abs(difference).sum() <= 2 * histogram.step.sensitivity


def test_a_histogram_is_priced_at_the_price_and_noised_at_its_sensitivity():
    mechanism = made(PrivateHistogram, ("segment",)).law(Price.of(0.25))
    assert mechanism.loss.pure == 250_000_000
    assert mechanism.scale * Price.of(0.25).exact == HistogramStep.sensitivity


# Reports --------------------------------------------------------------------------------------------------------------------


@given(ROWS, COLUMNS, st.sampled_from([{}, {"sample": 0.5, "seed": "ab" * 32}]), st.data())
def test_a_person_decides_their_own_report_and_no_other(rows, columns, sampling, data):
    reports = made(PrivateReports, columns, len(rows), **sampling)
    before = reports.compute(table(rows))
    for neighbour in without(rows, data.draw(st.integers(0, len(rows) - 1))):
        after = reports.compute(neighbour)
        assert after.shape == before.shape
        assert np.count_nonzero(before != after) <= 1


@given(ROWS, COLUMNS, st.integers(0, 2**32), st.data())
def test_with_the_same_coins_a_person_removed_changes_their_own_bytes_and_no_others(rows, columns, key, data):
    reports = made(PrivateReports, columns, len(rows))
    person = data.draw(st.integers(0, len(rows) - 1))
    mechanism = reports.law(Price.of(0.5))

    def released(one):
        return mechanism.release(reports.compute(one), ExactSampler(KeyedRandomness(key.to_bytes(32, "big"))))

    before, after = released(table(rows)), released(without(rows, person)[0])
    assert before.shape == after.shape == (len(rows), mechanism.channel.report_width)
    others = np.arange(len(rows)) != person
    np.testing.assert_array_equal(before[others], after[others])


@pytest.mark.every(2)
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.99])
def test_the_sample_has_the_rate_that_was_asked_for(rate):
    drawn = chosen(kit.source(f"sample {rate}").bytes(32), rate, 200_000).sum()
    assert stats.binomtest(int(drawn), 200_000, rate).pvalue > kit.ALPHA
    assert stats.binomtest(int(drawn), 200_000, rate * 0.9).pvalue < kit.ALPHA


# What both refuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (PrivateHistogram, {"scale": 1}),
        (PrivateHistogram, {"sample": 0.5}),
        (PrivateReports, {"epsilon": 9.0}),
        (PrivateReports, {"sample": 0.0}),
        (PrivateReports, {"sample": -0.5}),
        (PrivateReports, {"sample": 1.5}),
        (PrivateReports, {"sample": float("nan")}),
        (PrivateReports, {"sample": True}),
        (PrivateReports, {"sample": "0.5"}),
        (PrivateReports, {"sample": 0.5, "seed": ""}),
        (PrivateReports, {"sample": 0.5, "seed": "ab" * 31}),
        (PrivateReports, {"sample": 0.5, "seed": "g" * 64}),
        (PrivateReports, {"sample": 0.5, "seed": 7}),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused_before_data_is_seen(kind, parameters):
    with pytest.raises(BadInput):
        made(kind, ("segment",), **parameters)
