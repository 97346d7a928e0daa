"""Columns read as something coarser than declared: the same people, the same ledgers, and nothing that was not declared."""

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import BadInput, PlanMismatch, PolicyRefusal, SchemaMismatch
from colonnade.party.policy import Policy, Terms
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.plan import Plan
from colonnade.privacy.accounting import Price
from colonnade.schema import Bins, Category, Column, Crossed, Date, Indicator, Numeric, Schema
from colonnade.schema.encoders import encoded
from colonnade.steps.products import PairTables
from colonnade.steps.registry import STUDIES
from tests import kit
from tests.federations import BANK, TEST_KEY, federation, frames

AGE = Numeric(18, 95)
WHOLE = Numeric(0, 9, integer=True, missing=3)
DAY = Date("2020-01-01", "2020-12-31")


# Bins ------------------------------------------------------------------------------------------------------------------------


def test_a_bin_holds_its_lower_edge_and_the_last_one_both():
    bins = Bins(edges=[0, 10, 20], of=Numeric(0, 20))
    assert encoded(pd.Series([-5, 0, 9.99, 10, 20, 99]), "x", bins).tolist() == [0, 0, 0, 1, 1, 1]


@given(bins=st.integers(1, 40), low=st.integers(-20, 20), numbers=st.integers(2, 30))
def test_bins_of_whole_numbers_hold_all_of_them_and_differ_by_at_most_one(bins, low, numbers):
    column = Numeric(low, low + numbers - 1, integer=True)
    codes = encoded(pd.Series(range(low, low + numbers)), "x", Bins.equal(column, bins))
    counts = np.bincount(codes)
    assert len(counts) == min(bins, numbers)
    assert counts.max() - counts.min() <= 1
    assert (np.diff(codes) >= 0).all()


@pytest.mark.parametrize(("rule", "code"), [(None, 3), ("level", 10)])
def test_a_missing_number_is_where_its_fill_value_is_or_in_a_bin_of_its_own(rule, code):
    bins = Bins(edges=Bins.equal(WHOLE, 10).edges, of=WHOLE, missing=rule)
    assert encoded(pd.Series([None, 7.0]), "x", bins).tolist() == [code, 7]


def test_a_number_without_a_rule_for_missing_is_in_no_bin():
    assert encoded(pd.Series([None, 50.0]), "x", Bins.equal(AGE, 2)).tolist() == [-1, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"edges": [18, 95], "of": Category(["a"])},
        {"edges": [18], "of": AGE},
        {"edges": [18, 50], "of": AGE},
        {"edges": [18, 60, 50, 95], "of": AGE},
        {"edges": [18, 50, 50, 95], "of": AGE},
        {"edges": [18, float("nan"), 95], "of": AGE},
        {"edges": ["a", "b"], "of": AGE},
        {"edges": [18, 95], "of": AGE, "missing": "excluded"},
        {"edges": [18, 95], "of": AGE, "levels": ["young", "old"]},
        {"edges": list(np.linspace(18, 95, 6_000)), "of": AGE},
    ],
)
def test_bins_that_cannot_be_are_refused_with_a_remedy(wrong):
    with pytest.raises(BadInput) as refused:
        Bins(**wrong)
    assert refused.value.remedy


# What may be read as what ----------------------------------------------------------------------------------------------------

EXCLUDED = Category(["no", "yes"], missing="excluded")
FILLED = Numeric(0, 100, missing=5, indicator=True, na_values=["?"])


@pytest.mark.parametrize(
    ("reading", "declared"),
    [
        (Numeric(20, 60), AGE),
        (FILLED.narrowed(20, 60), FILLED),
        (Bins.equal(AGE, 4), AGE),
        (Bins.equal(AGE.narrowed(20, 60), 4), AGE),
        (Date("2020-02-01", "2020-03-01"), DAY),
        (Category(["no", "yes"], missing="level"), EXCLUDED),
    ],
)
def test_a_coarser_description_refines_the_declared_one(reading, declared):
    assert reading.refines(declared)


@pytest.mark.parametrize(
    ("reading", "declared"),
    [
        (Numeric(0, 60), AGE),
        (Numeric(96, 120), AGE),
        (Numeric(20, 60, missing=30), AGE),
        (Numeric(20, 60, integer=True), AGE),
        (Numeric(20, 60, missing=30, indicator=True, na_values=["?"]), FILLED),
        (Numeric(20, 60, missing=20, indicator=True), FILLED),
        (Bins.equal(Numeric(0, 120), 4), AGE),
        (Bins.equal(AGE, 4), Bins.equal(AGE, 8)),
        (Date("2019-02-01", "2020-03-01"), DAY),
        (Date("2021-02-01", "2021-03-01"), DAY),
        (Category(["no", "yes", "maybe"], missing="level"), EXCLUDED),
        (Category(["no", "yes"], missing="level"), Category(["no", "yes"])),
        (Category(["18", "95"]), AGE),
        (AGE, Category(["18", "95"])),
        (Indicator("x", FILLED), FILLED),
    ],
)
def test_anything_else_does_not(reading, declared):
    assert not reading.refines(declared)


# At a party ------------------------------------------------------------------------------------------------------------------

TERMS = Terms(party="bank", schema=BANK, federation="f", alignment="a", people=100, parties=("bank", "telco"))


def a_plan(readings, columns=("age",), width=4) -> Plan:
    price = Price.of(1.0, 0.0)
    steps = tuple(
        msgspec.structs.replace(
            PairTables.ask(name="tables", party=party, columns=own, parameters={"width": size}, price=price),
            readings=how,
        )
        for party, own, size, how in (("bank", columns, width, readings), ("telco", ("plan",), 2, msgspec.UNSET))
    )
    return kit.written(
        *steps,
        task=STUDIES["PatternCount"],
        federation="f",
        alignment="a",
        people=100,
        compute_nodes=("bank", "telco", "node"),
        data_versions={"bank": 1, "telco": 1},
    )


def test_a_party_admits_a_reading_that_refines_its_schema():
    plan = a_plan({"age": Bins.equal(AGE, 4)})
    assert Policy().admit(plan, plan.steps[0], TERMS).width == 4


@pytest.mark.parametrize(
    "readings",
    [
        {"age": Bins.equal(Numeric(0, 120), 4)},
        {"age": Category(["1", "2", "3", "4"])},
        {"segment": Category(["basic", "gold", "platinum"], missing="level"), "age": Bins.equal(AGE, 4)},
        {"age": Bins.equal(AGE, 4), "salary": AGE},
        {},
    ],
)
def test_a_party_refuses_a_reading_that_its_schema_does_not_allow(readings):
    plan = a_plan(readings)
    with pytest.raises(PlanMismatch, match="read"):
        Policy().admit(plan, plan.steps[0], TERMS)


def test_a_table_gives_each_reading_its_own_values():
    table = PrivateTable(Source(pd.DataFrame({"age": [20, 50, 90]})), Schema(age=AGE), order=np.array([2, 0, -1]))
    binned = table.read_as(Schema(age=Bins.equal(AGE, 2)))
    narrow = table.read_as(Schema(age=Numeric(30, 60)))
    assert binned.codes("age").tolist() == [1, 0, -1]
    assert narrow.values("age").tolist() == [60.0, 30.0, 45.0]
    assert table.values("age").tolist() == [90.0, 20.0, 56.5]
    assert table.read_as(Schema(age=AGE)) is table


# In a federation -------------------------------------------------------------------------------------------------------------


def test_a_study_of_bins_counts_what_pandas_counts():
    with federation(300, epsilon=9_000.0, test_key=TEST_KEY) as f:
        read = f.read_as({"bank.age": Bins(edges=[18, 40, 95], of=AGE)})
        counts = cn.PatternCount(["bank.age", "telco.plan"], epsilon=2_000.0).fit(read).counts_
        plain = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=2_000.0).fit(read)
        assert all(step.readings is msgspec.UNSET for step in plain.plan_.steps)
    tables = frames(300)
    people = tables["bank"].merge(tables["telco"], on="person_id").merge(tables["insurer"], on="person_id")
    ages = np.where(people["age"] < 40, "[18, 40)", "[40, 95]")
    truth = people.groupby([ages, "plan"]).size()
    assert counts.index.names == ["bank.age", "telco.plan"]
    assert [counts[key] for key in truth.index] == pytest.approx(truth.tolist(), abs=1)


def test_a_narrower_reading_gives_the_estimate_on_the_clipped_table():
    with federation(300, epsilon=9_000.0, delta=1e-3, test_key=TEST_KEY) as f:
        read = f.read_as({"bank.age": Numeric(40, 60)})
        study = cn.PCA(1, columns=["bank.age", "telco.bill"], epsilon=5_000.0, delta=1e-5).fit(read)
        assert f.budget("bank")["spent"] > 0  # the same ledgers
    assert 40 < study.mean_[0] < 60
    assert study.schema_["bank.age"] == Numeric(40, 60)


def test_another_reading_is_another_study_and_the_same_reading_is_free():
    with federation(300, epsilon=10.0, test_key=TEST_KEY) as f:
        study = cn.PatternCount(["bank.age", "telco.plan"], epsilon=1.0)
        plans = [study.fit(f.read_as({"bank.age": Bins.equal(AGE, size)})).plan_ for size in (2, 3, 2)]
        spent = f.budget("bank")["spent"]
    assert plans[0] == plans[2] != plans[1]
    assert spent == pytest.approx(2.0, rel=0.01)


def test_a_model_reads_a_federation_as_it_was_fitted():
    with federation(300, epsilon=9_000.0, delta=1e-3, test_key=TEST_KEY) as f:
        read = f.read_as({"bank.age": Bins.equal(AGE, 3)})
        model = cn.LinearRegression("telco.bill", epsilon=2_000.0, delta=1e-5).fit(read)
        on_read, on_plain = (model.evaluate(one, epsilon=1_000.0, delta=1e-5) for one in (read, f))
        assert on_plain.plan_ == on_read.plan_
        plain = cn.LinearRegression("telco.bill", epsilon=2_000.0, delta=1e-5).fit(f)
        with pytest.raises(SchemaMismatch, match="otherwise"):
            plain.evaluate(read, epsilon=1_000.0, delta=1e-5)
    frame = pd.DataFrame(
        {
            "bank.age": [18, 50, 95],
            "bank.segment": "gold",
            "bank.default": "no",
            "telco.plan": "prepaid",
            "insurer.product": "car",
        }
    )
    assert model.to_sklearn().predict(frame) == pytest.approx(model.predict(frame), abs=1e-9)


def test_an_exported_model_puts_missing_and_extreme_numbers_in_the_same_bins():
    declared = {"a": Numeric(0, 10, missing=4), "b": Numeric(0, 10, missing=4, integer=True)}
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"id": range(400), **{name: rng.integers(0, 11, 400) for name in declared}, "y": rng.random(400)}
    )
    parties = {
        "p": cn.Party(frame[["id", "a", "b"]], schema=cn.Schema(declared)),
        "q": cn.Party(frame[["id", "y"]], schema=cn.Schema(y=cn.Numeric(0, 1))),
    }
    budget = cn.Budget(epsilon=9_000.0, delta=1e-3)
    with cn.Federation.simulate(parties, id="id", budget=budget, compute_nodes=["node"], test_key=TEST_KEY) as f:
        readings = {"p.a": Bins.equal(declared["a"], 3, missing=True), "p.b": Bins.equal(declared["b"], 5)}
        model = cn.LinearRegression("q.y", epsilon=2_000.0, delta=1e-5).fit(f.read_as(readings))
    cells = [None, -3, 0, 3.3, 10, 99, "7", "?", np.inf, 3.3333333333333335]
    odd = pd.DataFrame({"p.a": cells, "p.b": cells[::-1]})
    assert model.to_sklearn().predict(odd) == pytest.approx(model.predict(odd), abs=1e-9)


# Two columns together, and codes ---------------------------------------------------------------------------------------------

SEGMENT = BANK["segment"]
TOGETHER = Crossed(names=("age", "segment"), of=(Bins.equal(AGE, 2), SEGMENT))


def test_two_columns_that_are_read_together_have_a_level_per_combination_and_none_where_one_has_none():
    ages, segments = pd.Series([20, 90, 90, None]), pd.Series(["gold", "basic", None, "gold"])
    declared = Category(["basic", "gold"], missing="excluded")
    both = Crossed(names=("age", "segment"), of=(Bins.equal(AGE, 2), declared))
    assert encoded([ages, segments], "age & segment", both).tolist() == [1, 2, -1, -1]
    assert both.levels[1] == "[18, 56.5) & gold"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(both), type=Column) == both


def test_a_table_reads_two_columns_together_and_leaves_them_as_they_are():
    frame = pd.DataFrame({"age": [20, 50, 90], "segment": ["gold", "basic", "gold"]})
    schema = Schema(age=AGE, segment=Category(["basic", "gold"]))
    table = PrivateTable(Source(frame), schema, order=np.array([2, 0, -1]))
    both = Crossed(names=("age", "segment"), of=(Bins.equal(AGE, 2), schema["segment"]))
    read = table.read_as(schema.read_as({both.name: both}))
    assert read.codes("age & segment").tolist() == [3, 1, -1]
    assert read.present(["age & segment"]).tolist() == [True, True, False]
    assert read.values("age").tolist() == [90.0, 20.0, 56.5]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (Crossed(names=("age", "segment"), of=(Bins.equal(Numeric(0, 120), 2), SEGMENT)), "age & segment"),
        (Crossed(names=("age", "salary"), of=(Bins.equal(AGE, 2), SEGMENT)), "age & salary"),
        (Crossed(names=("age", "segment"), of=(Bins.equal(AGE, 2), Category(["a", "b"]))), "age & segment"),
        (TOGETHER, "segment & age"),
        (TOGETHER, "age"),
    ],
)
def test_a_party_refuses_two_columns_together_of_which_it_would_refuse_one(wrong, name):
    plan = a_plan({name: wrong}, columns=(name,), width=wrong.size)
    with pytest.raises(PlanMismatch, match="read"):
        Policy().admit(plan, plan.steps[0], TERMS)


def test_a_policy_that_names_columns_is_about_both_of_two_that_are_read_together():
    plan = a_plan({TOGETHER.name: TOGETHER}, columns=(TOGETHER.name,), width=TOGETHER.size)
    assert Policy(columns=["age", "segment"]).admit(plan, plan.steps[0], TERMS).width == TOGETHER.size
    with pytest.raises(PolicyRefusal, match="columns"):
        Policy(columns=["age"]).admit(plan, plan.steps[0], TERMS)


CODED = Numeric(0, 100, missing=0, na_values=[-999, "-998", "?"])


@pytest.mark.parametrize(("rule", "rest"), [("level", 4), (None, 0)])
def test_a_declared_code_is_a_bin_of_its_own_and_other_missing_values_stay_where_they_were(rule, rest):
    bins = Bins(edges=[0, 50, 100], of=CODED, missing=rule, codes=[-999, -998])
    cells = pd.Series(["-999", "-998", "?", "", "70", "-5", "500"])
    assert encoded(cells, "x", bins).tolist() == [2, 3, rest, rest, 1, 0, 1]
    assert encoded(pd.Series([-999.0, None, 20.0]), "x", bins).tolist() == [2, rest, 0]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(bins), type=Column) == bins
    assert bins.refines(CODED)
