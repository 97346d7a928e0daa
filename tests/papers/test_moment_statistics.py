"""Noise on whole numbers, person by person or on their total: its law, its price, and what one person can do to it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.audit import audit
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.papers.laws import PerturbedValues, WholeValues
from colonnade.papers.private import PrivateTotal, PrivateValues
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.plan import EVENT, RELATION, Step
from colonnade.privacy.accounting import Price
from colonnade.schema import Category, Numeric, Schema
from tests import kit

SCHEMA = Schema(
    visits=Numeric(0, 21, integer=True),
    odd=Numeric(2.5, 9.9, integer=True),
    wide=Numeric(0, 10**6, integer=True),
    share=Numeric(0, 1),
    signed=Numeric(-5, 5, integer=True),
    single=Numeric(0, 0.5, integer=True),
    kind=Category(["a", "b"]),
)
NUMBERS = st.sampled_from([0.0, 1.0, 2.5, 3.0, 20.6, 21.0, 22.0, -4.0, 1e300, np.nan, np.inf, -np.inf])
ROWS = st.lists(NUMBERS, min_size=1, max_size=12)
SAMPLES = 100_000


def made(kind, column="visits", people=3, change=1, relation=None, **parameters):
    step = Step(
        name="s",
        party="clinic",
        kind=kind.kinds[0].name,
        columns=(column,) if isinstance(column, str) else column,
        parameters={"change": change, **parameters},
        price=Price.of(0.5),
    )
    plan = kit.written(
        step,
        task="moment",
        method="local",
        relation=relation or (RELATION if change == "bounds" else EVENT),
        people=people,
    )
    return kit.private(kind, plan, step, SCHEMA)


def table(rows, order=None):
    frame = pd.DataFrame({name: rows for name in SCHEMA if name != "kind"} | {"kind": "a"})
    return PrivateTable(Source(frame), SCHEMA, order=order)


def without(rows, person):
    emptied = [np.nan if index == person else row for index, row in enumerate(rows)]
    order = np.arange(len(rows))
    order[person] = -1
    return table(emptied), table(rows, order)


# Sensitivity ----------------------------------------------------------------------------------------------------------------


@given(ROWS, st.sampled_from(["visits", "odd"]), st.data())
def test_a_person_decides_one_value_and_it_stays_within_the_declared_width(rows, column, data):
    values = made(PrivateValues, column, len(rows), change="bounds")
    before = values.compute(table(rows))
    assert before.min() >= values.step.values.low
    assert before.max() <= values.step.values.high
    for neighbour in without(rows, data.draw(st.integers(0, len(rows) - 1))):
        difference = values.compute(neighbour).astype(int) - before
        assert np.count_nonzero(difference) <= 1
        assert np.abs(difference).sum() <= values.step.values.sensitivity


@given(ROWS, NUMBERS, st.data())
def test_a_person_replaced_moves_a_total_by_no_more_than_the_width(rows, other, data):
    total = made(PrivateTotal, "visits", len(rows), change="bounds")
    person = data.draw(st.integers(0, len(rows) - 1))
    replaced = [other if index == person else row for index, row in enumerate(rows)]
    difference = total.compute(table(rows)) - total.compute(table(replaced))
    assert np.abs(difference).sum() <= total.step.values.sensitivity == 21


@given(st.lists(st.integers(0, 21), min_size=1, max_size=12), st.integers(1, 30), st.data())
def test_at_event_level_a_change_of_one_value_is_all_that_moves(rows, change, data):
    person = data.draw(st.integers(0, len(rows) - 1))
    moved = list(rows)
    moved[person] = data.draw(st.integers(max(0, rows[person] - change), min(21, rows[person] + change)))
    for kind in (PrivateValues, PrivateTotal):
        statistic = made(kind, "visits", len(rows), change=change)
        difference = statistic.compute(table(moved)).astype(int) - statistic.compute(table(rows))
        assert np.abs(difference).sum() <= statistic.step.values.sensitivity
    assert statistic.step.values.sensitivity == min(change, 21)


def test_values_are_rounded_and_clipped_and_a_missing_one_is_the_midpoint():
    values = made(PrivateValues, people=6).compute(table([3.0, 20.6, -4.0, np.inf, np.nan, 2.5]))
    assert values.tolist() == [3, 21, 0, 21, 10, 2]
    assert made(PrivateTotal, people=6).compute(table([3.0, 20.6, -4.0, np.inf, np.nan, 2.5])).tolist() == [57]


# Price and noise ------------------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("value", [0, 7, 20])
def test_the_noise_has_its_law_and_not_that_of_another_scale(value):
    mechanism = PerturbedValues(Price.of(0.5), WholeValues(0, 20, 1))
    released = mechanism.carrier.unpack(mechanism.release(np.full(SAMPLES, value), kit.sampler(f"values {value}")))
    observed = np.bincount(np.clip(released - value, -90, 90) + 90, minlength=181)
    law = {factor: np.exp(-np.abs(np.arange(-90, 91)) / (2 * factor)) for factor in (0.9, 1.0, 1.1)}
    assert kit.chi_square_p(observed, law[1.0]) > kit.ALPHA
    assert kit.chi_square_p(observed, law[0.9]) < kit.ALPHA
    assert kit.chi_square_p(observed, law[1.1]) < kit.ALPHA


@pytest.mark.parametrize("values", [WholeValues(0, 20, 1), WholeValues(0, 20, 20)])
def test_an_audit_acquits_the_mechanism_and_convicts_one_with_half_the_noise(values):
    honest = PerturbedValues(Price.of(2.0), values)
    assert not audit(honest, 0, values.sensitivity, randomness=kit.source("audit"), samples=SAMPLES).caught
    weak = PerturbedValues(Price.of(4.0), values)
    weak.loss = honest.loss
    assert audit(weak, 0, values.sensitivity, randomness=kit.source("audit"), samples=SAMPLES).caught


# What is refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PrivateValues, PrivateTotal])
@pytest.mark.parametrize("column", ["share", "signed", "kind"])
def test_what_is_not_whole_or_may_be_negative_is_refused_with_a_remedy(kind, column):
    with pytest.raises(SchemaMismatch) as refusal:
        made(kind, column)
    assert refusal.value.remedy


@pytest.mark.parametrize("kind", [PrivateValues, PrivateTotal])
def test_other_steps_that_make_no_sense_are_refused(kind):
    for change in (0, -1, 1.5, True, "bound", None):
        with pytest.raises(BadInput):
            made(kind, change=change)
    with pytest.raises(BadInput):
        made(kind, ("visits", "odd"))
    with pytest.raises(BadInput):
        made(kind, "single")
    with pytest.raises(BadInput):
        made(kind, scale=1)
    with pytest.raises(BadInput):
        made(kind, "wide", people=2**45)
