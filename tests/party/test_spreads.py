"""Means and spreads, and steps that read columns by them: bounded whatever the rows and whatever was released before."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats

import colonnade as cn
from colonnade.errors import BadInput, PlanMismatch, ProtocolError
from colonnade.party.steps.local import PrivateSpreads
from colonnade.party.steps.products import PrivateGram
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.additive import DiscreteGaussian
from colonnade.schema import Column
from colonnade.steps.spreads import HEIGHT, NARROWEST, centred_columns
from tests import kit
from tests.federations import SCHEMAS as FEDERATED
from tests.federations import federation

SCHEMA = cn.Schema(
    income=cn.Numeric(-40, 1_000),
    claims=cn.Numeric(0, 50, integer=True, missing=0, indicator=True),
    since=cn.Date("2000-01-01", "2024-12-31"),
    plan=cn.Category(["a", "b"]),
)
NUMBERS = ("income", "claims", "since")
COLUMNS = (*NUMBERS, "claims_missing", "plan")
PRICE = Price.of(1.0, 1e-6)
SCALE, PEOPLE = 256, 50
CELLS = {
    "income": st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(-50, 1_100)),
    "claims": st.one_of(st.none(), st.integers(-5, 70)),
    "since": st.one_of(st.none(), st.dates().map(str)),
    "plan": st.sampled_from(["a", "b", None, "c"]),
}
RELEASED = st.lists(st.one_of(st.integers(-(2**62), 2**62), st.just(0)), min_size=6, max_size=6)


def the_plan(*, columns: tuple[str, ...] = NUMBERS, kind: str = "spreads", **changes: object) -> Plan:
    """Spreads at the bank, and a Gram matrix of two parties that rests on them."""
    asked = {"standardised": "spreads", "reach": 3.0, "norm": 1.5, "scale": SCALE, "signed": (), "noise": "gaussian"}
    asked |= {"row_bound": int(SCALE**2 * 1.5) + 2 * SCALE**2, "width": 6}
    other = {"scale": SCALE, "signed": (), "row_bound": SCALE**2, "width": 1, "noise": "gaussian"}
    return kit.written(
        Step(name="spreads", party="bank", kind=kind, columns=columns, price=PRICE),
        Step(name="gram", party="bank", kind="gram", columns=COLUMNS, parameters={**asked, **changes}, price=PRICE),
        Step(name="gram", party="shop", kind="gram", columns=("income",), parameters=other, price=PRICE),
        task="moments",
        method="secure",
        people=PEOPLE,
        compute_nodes=("bank", "shop", "helper"),
        threshold=1,
        collusion=1,
    )


def private(name: str, plan: Plan | None = None, released: object = None) -> PrivateGram | PrivateSpreads:
    plan = the_plan() if plan is None else plan
    value = np.zeros(6, dtype=np.int64) if released is None else released
    made = PrivateSpreads if name == "spreads" else PrivateGram
    return kit.private(made, plan, plan.step("bank", name), SCHEMA, lambda _: {"value": value})


def table(rows: list[dict[str, object]], order: np.ndarray | None = None) -> PrivateTable:
    frame = pd.DataFrame([{name: row.get(name) for name in CELLS} for row in rows], dtype=object)
    frame["income"], frame["claims"] = pd.to_numeric(frame["income"]), pd.to_numeric(frame["claims"])
    return PrivateTable(Source(frame), SCHEMA, order=order)


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries(CELLS), st.fixed_dictionaries(CELLS))
def test_no_record_moves_the_sums_by_more_than_declared(row: dict[str, object], other: dict[str, object]) -> None:
    """Zeroed out, which adds nothing, and replaced by another record."""
    step = private("spreads")
    one, two, nothing = (
        step.compute(table([each], order)) for each, order in ((row, None), (other, None), (row, np.array([-1])))
    )
    assert not nothing.any()
    bound = 2 * len(NUMBERS) * HEIGHT**2
    assert sum(int(entry) ** 2 for entry in one) <= bound
    assert sum((int(a) - int(b)) ** 2 for a, b in zip(one, two, strict=True)) <= 2 * bound


@pytest.mark.parametrize("height", [4, 8, 64, 512])
def test_rounding_adds_nothing_to_what_a_replaced_record_moves(height: int) -> None:
    """All pairs of integers, on a coarser grid than the real one; of squares rounded by themselves this does not hold."""
    whole = np.arange(-height, height + 1)
    square = np.rint(whole**2 / height)
    assert (np.subtract.outer(whole, whole) ** 2 + np.subtract.outer(square, square) ** 2).max() <= 4 * height**2


def test_just_inside_a_bound_both_sums_are_those_of_the_bound() -> None:
    step, near = private("spreads"), 1_000 - 0.4 * 520 / HEIGHT
    one, two = (step.compute(table([{"income": value}])) for value in (near, -40))
    assert (one[0], one[3], two[0], two[3]) == (HEIGHT, HEIGHT, -HEIGHT, HEIGHT)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=5), RELEASED, st.floats(1, 1_000), st.floats(1, 9))
def test_rows_keep_their_bound_whatever_was_released_before(rows, released, reach: float, norm: float) -> None:
    """A forged release, and any reach and norm: numbers are short, levels are whole, and no record is 0."""
    numbers, others = max(1, int(SCALE**2 * norm)), 2 * SCALE**2
    plan = the_plan(reach=reach, norm=norm, row_bound=numbers + others)
    step = private("gram", plan, np.array(released))
    order = np.array([*range(len(rows)), -1])
    coded = step.rows(table(rows, order).read_as(step.schema), 0, len(order))
    assert np.abs(coded).max(initial=0) <= SCALE
    assert (coded[:3] ** 2).sum(axis=0).max() <= min(numbers, 3 * SCALE**2)
    assert set(np.unique(coded[3])) <= {-SCALE, 0, SCALE}  # the indicator of a missing value
    assert set(np.unique(coded[4:])) <= {0, SCALE}
    assert not coded[:, -1].any()
    alone = step.rows(table(rows[:1]).read_as(step.schema), 0, 1)
    np.testing.assert_array_equal(alone[:, 0], coded[:, 0])  # a person's row depends on nobody else


@settings(max_examples=60, deadline=None)
@given(RELEASED, st.floats(1, 1_000), st.floats(1, 9))
def test_whatever_was_released_bounds_lie_inside_the_declared_ones(released, reach: float, norm: float) -> None:
    declared = {name: SCHEMA[name] for name in NUMBERS}
    found = centred_columns(declared, np.array(released), PEOPLE, 0.0, reach, norm)
    for name, column in found.items():
        assert column == SCHEMA[name] or column.refines(SCHEMA[name])
        least, most = column.coded_bounds
        assert least <= column.low + 1e-6 * (most - least)
        assert column.high <= most + 1e-6 * (most - least)
        assert column.half_range >= min(1.0, NARROWEST) * SCHEMA[name].half_range * 0.999


def released_of(column: Column, mean: float, spread: float) -> np.ndarray:
    unit, deviation = (mean - column.midpoint) / column.half_range, spread / column.half_range
    return np.array([unit, deviation**2 + unit**2]) * PEOPLE * HEIGHT


@pytest.mark.parametrize(
    ("mean", "spread", "bounds", "coded"),
    [
        (500.0, 20.0, (440.0, 560.0), (440.0, 560.0)),  # inside: three spreads to either side
        (-30.0, 20.0, (-40.0, 30.0), (-90.0, 30.0)),  # cut on one side: still coded around the mean
        (480.0, 400.0, (-40.0, 1_000.0), (-40.0, 1_000.0)),  # beyond both: as declared
    ],
)
def test_a_number_is_read_around_its_mean_up_to_its_reach(mean, spread, bounds, coded) -> None:
    column = SCHEMA["income"]
    (found,) = centred_columns({"income": column}, released_of(column, mean, spread), PEOPLE, 0.0, 3.0, 1.0).values()
    assert (found.low, found.high) == pytest.approx(bounds)
    assert found.coded_bounds == pytest.approx(coded)


def test_noise_and_a_public_part_of_the_range_keep_a_spread_from_nothing() -> None:
    """A variance that came out below 0 is one deviation of its noise; without noise it is the narrowest."""
    column = cn.Numeric(-1, 1)
    released = np.array([0.0, -0.5]) * PEOPLE * HEIGHT
    noise = 0.01 * PEOPLE * HEIGHT
    for variance, spread in ((0.0, NARROWEST), (noise**2, math.sqrt(0.01))):
        (found,) = centred_columns({"x": column}, released, PEOPLE, variance, 3.0, 1.0).values()
        assert found.half_range == pytest.approx(3 * spread)


def test_numbers_of_a_party_share_a_unit_in_which_no_row_is_too_long() -> None:
    """Bounds come before the reach in both: the unit is smaller than the reach, and a row at both bounds has the norm."""
    columns = {"x": cn.Numeric(-1, 1), "y": cn.Numeric(-1, 1)}
    released = np.array([0.0, 0.0, 0.25, 0.25]) * PEOPLE * HEIGHT  # spreads of a half: bounds are two spreads away
    found = centred_columns(columns, released, PEOPLE, 0.0, 8.0, 1.25)
    assert [column.half_range for column in found.values()] == pytest.approx([math.sqrt(2 / 1.25)] * 2)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "quantiles"},
        {"columns": ("income",)},
        {"columns": ("claims", "income", "since")},
        {"standardised": "gram"},
        {"standardised": "elsewhere"},
        {"norm": 0.5},
        {"reach": math.nan},
        {"reach": 0.0},
        {"reach": 2.0**30},
    ],
    ids=str,
)
def test_a_step_that_rests_on_anything_else_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((PlanMismatch, BadInput)):
        private("gram", the_plan(**change))


def test_a_step_that_reads_columns_otherwise_than_its_spreads_did_is_refused() -> None:
    plan = the_plan()
    read = {"income": cn.Numeric(0, 100)}
    other = replace(plan.step("bank", "spreads"), readings=read)
    forged = replace(plan, steps=(other, *plan.steps[1:]))
    with pytest.raises(PlanMismatch):
        private("gram", forged)


def test_spreads_that_come_later_are_refused() -> None:
    plan = the_plan()
    with pytest.raises(PlanMismatch):
        private("gram", replace(plan, steps=(*plan.steps[1:], plan.steps[0])))


@pytest.mark.parametrize("columns", [("plan",), ("claims_missing",), ("income", "income")])
def test_spreads_are_of_numbers_and_dates_alone(columns: tuple[str, ...]) -> None:
    with pytest.raises(PlanMismatch):
        private("spreads", the_plan(columns=columns))


@pytest.mark.parametrize("kept", [{}, {"value": np.zeros(5, dtype=np.int64)}, {"value": np.zeros(6)}])
def test_a_release_of_another_shape_is_refused_before_a_row_is_read(kept: dict[str, np.ndarray]) -> None:
    plan = the_plan()
    step = kit.private(PrivateGram, plan, plan.step("bank", "gram"), SCHEMA, lambda _: kept)
    with pytest.raises(ProtocolError):
        step.require_earlier()


def test_nothing_is_answered_before_the_spreads_are_released() -> None:
    plan = the_plan()
    step = kit.private(PrivateGram, plan, plan.step("bank", "gram"), SCHEMA)
    with pytest.raises(ProtocolError):
        step.require_earlier()


def test_the_released_sums_have_the_noise_of_their_law() -> None:
    """Known answer: Δ₂² = 2k·HEIGHT², and the deviation of the draws is that of the law; half of it would be found."""
    law = private("spreads").step.law(PRICE)
    assert law.sigma_squared == DiscreteGaussian(PRICE, 6 * HEIGHT**2).sigma_squared
    assert law.loss.epsilon(PRICE.delta) <= PRICE.epsilon
    drawn = law.release(np.zeros(4_000, dtype=np.int64), kit.sampler("spreads")) / math.sqrt(law.variance)
    assert stats.kstest(drawn, "norm").pvalue > kit.ALPHA
    assert stats.kstest(drawn / 2, "norm").pvalue < kit.ALPHA


@pytest.mark.parametrize("unit", ["person", "party"])
def test_a_study_costs_its_price_with_the_release_in_it(unit: str) -> None:
    with federation(200) as f:
        model = cn.LogisticRegression("bank.default", epsilon=2.0, delta=1e-5, unit=unit).fit(f)
        spent = f.budget().spent
        assert {step.kind for step in model.plan_.steps} == {"spreads", "gram", "newton"}
        assert model.privacy_.epsilon(unit=unit) <= 2.0
        assert model.privacy_.epsilon(unit=unit) > 1.9
        model.fit(f)
        pd.testing.assert_series_equal(f.budget().spent, spent)


def test_a_study_without_numbers_has_nothing_to_standardise() -> None:
    with federation(200) as f:
        columns = [
            f"{party}.{name}" for party, schema in FEDERATED.items() for name in schema if not schema[name].is_number
        ]
        study = cn.LogisticRegression(
            "bank.default", columns=[c for c in columns if c != "bank.default"], epsilon=2.0, delta=1e-5
        )
        off = study.prepared(f)[1]
        assert {step.kind for step in off.steps} == {"gram", "newton"}
        study.standardise = "off"
        assert study.prepared(f)[1] == off
