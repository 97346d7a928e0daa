"""One party's rows in counts and sums by group: what one person can do to them, and that they are what the plan says."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.coordinator.protocols.counting import GroupRelease
from colonnade.errors import ColonnadeError, PlanMismatch, SchemaMismatch
from colonnade.party.steps.products import PrivateGroupSums, PrivateGroupTotals
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.schema import Category, Numeric, Schema
from colonnade.steps.describing import GroupSums
from tests import kit
from tests.conversations.sites import replaced
from tests.conversations.stage import a_plan

BANK = Schema(
    segment=Category(["basic", "gold", "platinum"]),
    region=Category(["east", "west"], missing="excluded"),
    income=Numeric(0, 1_000),
    savings=Numeric(-50, 50, missing=0),
)
TELCO = Schema(plan=Category(["prepaid", "standard"]), bill=Numeric(0, 200))
PRICE = Price.of(1.0, 1e-5)
WORDS = st.sampled_from(["basic", "gold", "platinum", "lead", None])
REGIONS = st.sampled_from(["east", "west", "north", None])
NUMBERS = st.floats(width=64) | st.sampled_from([0.0, 1_000.0, 500.0, np.nan, np.inf, -np.inf])
RECORDS = st.tuples(WORDS, REGIONS, NUMBERS, NUMBERS)
NOTHING = (None, None, np.nan, np.nan)


def table(records, order=None):
    segment, region, income, savings = zip(*records, strict=True)
    words = {"segment": pd.Series(segment, dtype=object), "region": pd.Series(region, dtype=object)}
    return PrivateTable(Source(pd.DataFrame({**words, "income": income, "savings": savings})), BANK, order=order)


def plan_of(by, values, people, *, parties=("bank", "telco"), price=PRICE) -> Plan:
    described = {f"bank.{name}": column for name, column in BANK.items()}
    described |= {f"telco.{name}": column for name, column in TELCO.items()}
    release = GroupRelease(
        {name: described[name] for name in by}, {name: described[name] for name in values}, price, parties
    )
    steps = release.steps()
    base = a_plan({step.party: 1 for step in steps}, people=people, nodes=("bank", "telco", "eva"))
    return replaced(base, task="groups", steps=steps, parties=tuple(step.party for step in steps))


def bank_half(by, values, people, kind=PrivateGroupSums):
    plan = plan_of(by, values, people)
    return kit.private(kind, plan, next(step for step in plan.steps if step.party == "bank"), BANK)


CASES = {
    "groups": (["bank.segment", "telco.plan"], ["telco.bill"]),
    "groups and values": (["bank.segment", "bank.region", "telco.plan"], ["bank.income", "bank.savings", "telco.bill"]),
    "values alone": (["telco.plan"], ["bank.income"]),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("case", CASES)
@given(records=st.lists(RECORDS, min_size=1, max_size=6))
def test_a_person_has_one_indicator_and_values_within_their_bound(case, records):
    half = bank_half(*CASES[case], len(records))
    rows = half.rows(table(records), 0, len(records))
    groups, terms = half.step.part.groups, half.step.group_terms
    assert rows.shape == (half.step.part.width, len(records))
    assert np.all(np.isin(rows[:groups], [0, half.step.part.height]))
    assert np.all(np.count_nonzero(rows[:groups], axis=0) <= 1)
    assert np.all(np.abs(rows[groups:]) <= terms.scale)
    apart = rows.reshape(-1, groups, len(records))
    assert not np.any(apart[1:] * (apart[0] == 0))  # a value stands where the indicator does, and nowhere else


@pytest.mark.every(2)
@pytest.mark.parametrize("case", CASES)
@given(records=st.lists(RECORDS, min_size=1, max_size=6), place=st.integers(0, 5))
def test_zeroing_a_record_out_takes_the_person_out_of_every_column_and_nobody_else(case, records, place):
    half = bank_half(*CASES[case], len(records))
    place %= len(records)
    rows = half.rows(table(records), 0, len(records))
    order = np.array([-1 if person == place else person for person in range(len(records))])
    without = half.rows(table(records, order=order), 0, len(records))
    assert not without[:, place].any()
    np.testing.assert_array_equal(np.delete(rows, place, axis=1), np.delete(without, place, axis=1))


@given(records=st.lists(RECORDS, min_size=1, max_size=6), place=st.integers(0, 5))
def test_one_partys_own_totals_move_by_no_more_than_the_law_is_made_for(records, place):
    by, values = ["bank.segment"], ["bank.income", "bank.savings"]
    half = bank_half(by, values, len(records), PrivateGroupTotals)
    order = np.array([-1 if person == place % len(records) else person for person in range(len(records))])
    moved = half.compute(table(records)) - half.compute(table(records, order=order))
    noise = half.step.group_terms.noise(PRICE, "person", 0)
    assert np.sum(moved**2) <= noise.moved()
    assert np.count_nonzero(moved) <= 3
    assert half.law(PRICE).loss.epsilon(1e-5) <= 1.0


def test_a_helper_shares_nothing_but_zeros():
    plan = plan_of(["bank.segment"], ["telco.bill"], 3)
    step = Step(
        name=plan.steps[0].name,
        party="insurer",
        kind=GroupSums.name,
        columns=(),
        parameters={**plan.steps[0].parameters, "by": (), "values": (), "groups": 1, "width": 1},
        price=PRICE,
    )
    helped = replaced(plan, steps=(*plan.steps, step), parties=(*plan.parties, "insurer"))
    half = kit.private(PrivateGroupSums, helped, step, Schema(x=Numeric(0, 1)))
    assert not half.rows(table([NOTHING] * 3), 0, 3).any()
    assert half.loss.epsilon(0.0) == 1e-9
    assert half.step.part.helps


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"groups": 4, "width": 4}, PlanMismatch),
        ({"by": ("income",), "groups": 1, "width": 1}, SchemaMismatch),
        ({"other": 1}, ColonnadeError),
    ],
)
def test_a_step_about_other_groups_than_the_schema_has_is_refused(change, error):
    plan = plan_of(["bank.segment"], ["telco.bill"], 3)
    first = plan.steps[0]
    columns = change.get("by", first.columns)
    forged = replaced(first, parameters={**first.parameters, **change}, columns=columns)
    with pytest.raises(error):
        kit.private(PrivateGroupSums, replaced(plan, steps=(forged, *plan.steps[1:])), forged, BANK)
