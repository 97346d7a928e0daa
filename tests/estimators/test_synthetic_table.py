"""`SyntheticTable`: what is released and paid for, the rows that are drawn, files, quality, and what is refused."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.estimation import table_model
from colonnade.estimators.synthetic import WHAT_IT_IS
from tests import kit
from tests.federations import TEST_KEY

PRICE = {"epsilon": 20.0, "delta": 1e-6}
PEOPLE = 1_500
COLUMNS = ["bank.age", "bank.segment", "bank.since", "telco.bill", "telco.plan"]


def tables(people=PEOPLE):
    """Two parties' tables: plan follows segment, bills follow ages, some values are missing."""
    rng = kit.generator("synthetic table")
    age = rng.integers(18, 91, size=people)
    segment = rng.choice(["basic", "gold", "top"], size=people, p=[0.6, 0.3, 0.1])
    plan = np.where(rng.random(people) < 0.8, np.where(segment == "basic", "pre", "post"), "pre")
    bank = pd.DataFrame(
        {
            "id": range(people),
            "age": age,
            "segment": np.where(rng.random(people) < 0.1, None, segment),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(1_000, size=people), unit="D"),
        }
    )
    bill = np.clip(age * 2 + rng.normal(0, 10, people), 0, 200)
    telco = pd.DataFrame({"id": range(people), "bill": np.where(rng.random(people) < 0.2, np.nan, bill), "plan": plan})
    return {"bank": bank, "telco": telco}


SCHEMAS = {
    "bank": cn.Schema(
        age=cn.Numeric(18, 90, integer=True),
        segment=cn.Category(["basic", "gold", "top"], missing="excluded"),
        since=cn.Date("2020-01-01", "2023-12-31"),
    ),
    "telco": cn.Schema(
        bill=cn.Numeric(0, 200, missing=0, indicator=True),
        plan=cn.Category(["pre", "post"]),
    ),
}


def opened(budget=500.0, **more):
    frames = tables()
    parties = {name: cn.Party(frames[name], schema=SCHEMAS[name]) for name in SCHEMAS}
    cap = cn.Budget(epsilon=budget, delta=1e-4)
    return cn.Federation.simulate(parties, id="id", budget=cap, compute_nodes=["node"], test_key=TEST_KEY, **more)


@cache
def fitted():
    with opened() as federation:
        return cn.SyntheticTable(bins=8, **PRICE).fit(federation)


# What is asked, and what it costs ---------------------------------------------------------------------------------------------


def test_a_row_of_levels_is_exactly_as_long_as_the_noise_allows_for():
    """The bound of a party's rows is the number of its columns, and that is the squared length of every row of indicators."""
    with opened() as federation:
        _, plan = cn.SyntheticTable(bins=8, **PRICE).prepared(federation, 1)
    for step in plan.steps:
        scale = step.parameters["scale"]
        assert step.parameters["row_bound"] == scale**2 * len(step.columns)
    read = {f"{step.party}.{name}" for step in plan.steps for name in step.readings}
    assert read == {"bank.age", "bank.segment", "bank.since", "telco.bill"}


@kit.needs_mbi
def test_drawing_saving_and_estimating_quality_cost_nothing():
    with opened() as federation:
        study = cn.SyntheticTable(bins=8, **PRICE).fit(federation)
        spent = federation.budget()
        study.sample(10)
        study.sample(10, random_state=3)
        study.quality()
        assert spent.equals(federation.budget())
        assert spent["spent"].max() <= PRICE["epsilon"]
        study.quality(federation, epsilon=5.0, delta=1e-6)
        assert (federation.budget()["spent"] > spent["spent"]).all()


# Rows -------------------------------------------------------------------------------------------------------------------------


@kit.needs_mbi
def test_rows_are_distributed_like_people_one_by_one_and_together():
    people = (
        tables()["bank"]
        .merge(tables()["telco"], on="id")
        .rename(columns=dict(zip(["age", "segment", "since", "bill", "plan"], COLUMNS, strict=True)))
    )
    rows = fitted().sample()
    assert rows["bank.age"].mean() == pytest.approx(people["bank.age"].mean(), abs=2)
    assert rows["bank.segment"].isna().mean() == pytest.approx(0.1, abs=0.04)
    assert rows["telco.bill"].isna().mean() == pytest.approx(0.2, abs=0.04)
    both = [frame[["bank.age", "telco.bill"]].dropna().astype(float).corr().iloc[0, 1] for frame in (people, rows)]
    assert both[1] == pytest.approx(both[0], abs=0.1)
    post = [(frame["telco.plan"] == "post")[frame["bank.segment"] == "top"].mean() for frame in (people, rows)]
    assert post[1] == pytest.approx(post[0], abs=0.15)


@pytest.mark.full
@kit.needs_mbi
def test_a_part_of_the_people_and_narrower_bounds_are_the_same_code():
    columns = ["bank.age", "telco.bill"]
    with opened() as federation:
        train, test = federation.split(test=0.3)
        study = cn.SyntheticTable(columns, bins=4, **PRICE).fit(train)
        assert len(study.sample()) == train.people < PEOPLE
        assert study.quality(test, **PRICE).score > 0.8
        age = cn.Numeric(30, 60, integer=True)
        narrow = cn.SyntheticTable(columns, bins=4, **PRICE).fit(federation.read_as({"bank.age": age}))
        assert narrow.sample()["bank.age"].between(30, 60).all()
        assert study.schema_["bank.age"] != narrow.schema_["bank.age"]


@pytest.mark.full
@kit.needs_mbi
@pytest.mark.parametrize("mode", ["union", "cohort"])
def test_where_nobody_knows_who_is_in_common_rows_are_about_those_who_are(mode):
    """A third of the bank's people are nobody at the telco, and the other way round."""
    frames = {"bank": tables()["bank"].iloc[:1_000], "telco": tables()["telco"].iloc[500:]}
    rules = {name: cn.Policy(alignments=("union", "cohort"), capacity=1_100) for name in frames}
    parties = {name: cn.Party(frames[name], schema=SCHEMAS[name]) for name in frames}
    cap = cn.Budget(epsilon=500.0, delta=1e-4)
    with cn.Federation.simulate(
        parties, id="id", budget=cap, compute_nodes=["node"], policies=rules, aligned=False, test_key=TEST_KEY
    ) as federation:
        federation.align(mode, kind="whole", **({"ids": list(range(PEOPLE))} if mode == "cohort" else {}))
        study = cn.SyntheticTable(["bank.segment", "telco.plan"], **PRICE).fit(federation)
    assert abs(len(study.sample()) - (500 if mode == "union" else PEOPLE)) < 30
    people = frames["bank"].merge(frames["telco"], on="id")
    rows = study.sample(20_000)
    common = (people["segment"] == "basic") & (people["plan"] == "pre")
    found = (rows["bank.segment"] == "basic") & (rows["telco.plan"] == "pre")
    assert found.mean() == pytest.approx(common.mean(), abs=0.06)


# Files ------------------------------------------------------------------------------------------------------------------------


@kit.needs_mbi
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_written_table_has_a_file_beside_it_that_says_what_it_is(tmp_path, suffix):
    study, path = fitted(), tmp_path / f"people{suffix}"
    beside = study.write(path, n=40, random_state=2)
    read = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path)
    assert list(read) == COLUMNS
    assert len(read) == 40
    np.testing.assert_array_equal(read["bank.age"], study.sample(40, random_state=2)["bank.age"])
    words = json.loads(beside.read_text())
    assert beside.name == f"people{suffix}.json"
    assert (words["rows"], words["random_state"], words["table"]) == (40, 2, path.name)
    assert WHAT_IT_IS in words["statement"]["in_words"]
    assert words["statement"]["observers"][0]["epsilon"] == pytest.approx(20.0, abs=1e-6)
    assert set(words["schema"]) == set(COLUMNS)
    assert words["receipt"] == study.receipt_
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([path.name, beside.name])


# Quality ----------------------------------------------------------------------------------------------------------------------


@kit.needs_mbi
def test_quality_is_near_what_the_people_s_own_table_shows():
    study = fitted()
    quality = study.quality()
    assert 0.9 < quality.pair_trends < quality.column_shapes <= 1
    assert quality.score == pytest.approx((quality.column_shapes + quality.pair_trends) / 2)
    assert quality.details()["pair trend"].is_monotonic_increasing
    assert list(quality.table().index) == COLUMNS
    assert "nothing spent" in str(quality)
    with opened() as federation:
        measured = study.quality(federation, epsilon=20.0, delta=1e-6)
    assert abs(measured.pair_trends - quality.pair_trends) < 0.05
    found = measured.evaluation["pair_trends"]
    assert found.low <= measured.pair_trends <= found.high
    assert "measured on people" in str(measured)
    assert "evaluate" in measured.evaluation.receipt_


# What is refused --------------------------------------------------------------------------------------------------------------


def refused(study, error=cn.BadInput, **more):
    with opened(**more) as federation:
        before = federation.budget()
        with pytest.raises(error) as refusal:
            study.fit(federation)
        assert before.equals(federation.budget())
        return refusal.value


def without_the_library(patch):
    patch.setattr(table_model, "has_library", lambda: False)
    patch.setattr("colonnade.estimators.methods.additive.has_library", lambda: False)


def test_without_the_library_it_is_refused_before_anything_is_spent_and_the_extra_is_named(monkeypatch):
    without_the_library(monkeypatch)
    error = refused(cn.SyntheticTable(COLUMNS, **PRICE))
    assert "mbi" in error.message
    assert error.remedy == "pip install 'colonnade[synthetic]'"
    with opened() as federation:
        preview = cn.SyntheticTable(COLUMNS, **PRICE).preview(federation)
    assert any("colonnade[synthetic]" in warning for warning in preview.warnings)
