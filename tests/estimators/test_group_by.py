"""GroupBy: true figures at a generous price, honest errors and intervals at a small one, and refusals that say what to type."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import colonnade as cn
from colonnade.estimation.moment_summaries import GroupFigures, Span
from tests import kit
from tests.estimators.moment_samples import federation, frames, joined
from tests.federations import SCHEMAS

PRICE = {"epsilon": 1.0, "delta": 1e-5}
GENEROUS = {"epsilon": 1_000.0, "delta": 1e-5}
STUDIES = {
    "one party": (["bank.segment"], ["bank.age"]),
    "two parties": (["bank.segment", "telco.plan"], ["telco.bill"]),
    "values at both": (["telco.plan", "bank.segment"], ["bank.age", "telco.bill"]),
    "a value elsewhere": (["bank.segment", "bank.default"], ["telco.bill"]),
    "three parties": (["bank.segment", "insurer.product"], ["telco.bill"]),
    "three parties, values at two": (["insurer.product", "bank.segment"], ["telco.bill", "bank.age"]),
    "counts of three parties": (["bank.segment", "telco.plan", "insurer.product"], None),
}


def truth(tables, by, values, schemas=SCHEMAS):
    levels = [list(schemas[name.split(".")[0]][name.split(".")[1]].levels) for name in by]
    index = pd.MultiIndex.from_product(levels, names=by) if len(by) > 1 else pd.Index(levels[0], name=by[0])
    groups = joined(tables).groupby(by, observed=False)
    found = {"count": groups.size()}
    for name in values or []:
        found |= {f"{name}_mean": groups[name].mean(), f"{name}_sum": groups[name].sum()}
    return pd.DataFrame(found).reindex(index)


@pytest.mark.every(2)
@pytest.mark.parametrize("study", STUDIES)
def test_with_a_generous_price_the_figures_are_the_true_ones(study):
    by, values = STUDIES[study]
    tables = frames(1_500)
    with federation(tables) as f:
        found = cn.GroupBy(by, values, **GENEROUS).fit(f).table_
    expected = truth(tables, by, values)
    assert found.index.equals(expected.index)
    np.testing.assert_allclose(found["count"], expected["count"].fillna(0), atol=5)
    for name in values or []:
        known = expected["count"] > 20
        np.testing.assert_allclose(found[f"{name}_mean"][known], expected[f"{name}_mean"][known], atol=1.5)
        np.testing.assert_allclose(found[f"{name}_sum"], expected[f"{name}_sum"].fillna(0), atol=60)


def test_a_pure_price_gives_a_pure_guarantee():
    with federation() as f:
        study = cn.GroupBy(["bank.segment"], ["telco.bill"], epsilon=1.0).fit(f)
    assert study.privacy_.epsilon() == pytest.approx(1.0)
    assert study.privacy_.delta() == 0


@pytest.mark.every(2)
@pytest.mark.parametrize("unit", ["person", "party"])
@pytest.mark.parametrize("study", ["two parties", "three parties"])
def test_every_party_whose_columns_enter_is_charged_the_whole_and_a_helper_next_to_nothing(study, unit):
    by, values = STUDIES[study]
    with federation() as f:
        before = f.budget()["spent"]
        fitted = cn.GroupBy(by, values, unit=unit, **PRICE).fit(f)
        spent = f.budget()["spent"] - before
    entering = {name.split(".")[0] for name in (*by, *values)}
    for party in spent.index:
        assert spent[party] == pytest.approx(1.0 if party in entering else 0.0, abs=1e-3)
    assert fitted.privacy_.epsilon(unit=unit) == pytest.approx(1.0, rel=1e-3)
    assert fitted.privacy_.epsilon(observer=("coordinator", "bank")) <= 1.0 + 1e-6


def test_the_error_for_a_pair_of_parties_is_at_most_1_3_times_a_central_one():
    """A curator with Gaussian noise at the same price and the same division between counts and sums."""
    with federation() as f:
        pair = cn.GroupBy(["bank.segment", "telco.plan"], ["telco.bill"], **PRICE).fit(f).table_
        central = cn.GroupBy(["bank.segment"], ["bank.age"], **PRICE).fit(f).table_  # one party's own noise
    assert pair["count_stderr"].iloc[0] <= 1.3 * central["count_stderr"].iloc[0]


# Errors and intervals ---------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.every(2)
@pytest.mark.parametrize("study", ["two parties", "three parties, values at two"])
def test_errors_are_as_large_as_they_say_and_intervals_cover(study):
    by, values = STUDIES[study]
    tables = frames(1_500)
    expected = truth(tables, by, values)
    squares, covered = [], []
    with federation(tables, name=f"covering {study}") as f:
        for repeat in range(1, 41):
            fitted = cn.GroupBy(by, values, epsilon=1.0, delta=1e-5).fit(f, repeat=repeat)
            ends = fitted.conf_int()
            for column in expected:
                known = expected["count"] > 0
                low, high, true = (
                    one[known] for one in (ends[f"{column}_low"], ends[f"{column}_high"], expected[column])
                )
                covered.append(((low <= true + 1e-9) & (true <= high + 1e-9)).to_numpy())
                if not column.endswith("_mean"):
                    errors = (fitted.table_[column] - expected[column].fillna(0)) / fitted.table_[f"{column}_stderr"]
                    squares.append(errors.to_numpy() ** 2)
    pooled = np.concatenate(squares)
    far = abs(pooled.mean() - 1) / np.sqrt(2 * 3 / pooled.size)  # counts and sums of a group share their noise in part
    assert 2 * stats.norm.sf(far) > kit.ALPHA
    hits = np.concatenate(covered)
    assert 0.93 <= hits.mean() <= 0.98, hits.mean()


def test_the_mean_of_a_group_that_may_be_empty_is_left_open():
    figures = GroupFigures(
        np.array([-3.0, 1.0, 400.0, 40.0]),
        {"a.x": np.array([2.0, 1.0, 40.0, 32.0])},
        np.array(4.0),
        np.array(4.0),
        {"a.x": Span(0, 10)},
    )
    value, error = figures.mean("a.x")
    assert np.isnan(value[0])
    assert np.isinf(error[0])
    low, high = figures.mean_interval("a.x", 0.95)
    assert (low[0], high[0], low[1], high[1]) == (0, 10, 0, 10)
    assert low[2] < 5.5 < high[2] < 5.6
    assert (low[3], high[3]) == pytest.approx((8.407, 9.671), abs=1e-3)  # 8.51 to 9.49 if the count were exact
    assert figures.small().tolist() == [True, True, False, False]


# People that are left out, bins, and the like -------------------------------------------------------------------------------


def test_people_without_a_level_are_in_no_group_and_means_divide_by_those_who_are():
    tables = frames(1_200)
    tables["bank"].loc[tables["bank"].index % 3 == 0, "segment"] = None
    levels = ["basic", "gold", "platinum"]
    for missing in ("excluded", "level"):
        schemas = SCHEMAS | {"bank": cn.Schema(segment=cn.Category(levels, missing=missing))}
        with federation(tables, schemas) as f:
            study = cn.GroupBy(["bank.segment"], ["telco.bill"], **GENEROUS).fit(f)
        frame = joined(tables)
        means = frame.groupby("bank.segment")["telco.bill"].mean()
        np.testing.assert_allclose(study.table_["telco.bill_mean"][levels], means[levels], atol=1.0)
        assert study.consistent_.sum() == pytest.approx(
            len(frame) if missing == "level" else frame["bank.segment"].count(), abs=2
        )


def test_on_a_union_people_that_one_party_lacks_are_in_no_group():
    tables = {name: frame for name, frame in frames(300).items() if name != "insurer"}
    tables["telco"] = tables["telco"].iloc[:200]
    with federation(tables, id="person_id", collusion=1) as f:
        aligned = f.align("union")
        study = cn.GroupBy(["bank.segment"], ["telco.bill"], **GENEROUS).fit(aligned)
        with pytest.raises(cn.PolicyRefusal, match="union"):  # it would count people that the telco does not have
            cn.GroupBy(["bank.segment"], **GENEROUS).fit(aligned)
    frame = joined(tables)
    expected = frame.groupby("bank.segment").size()
    np.testing.assert_allclose(study.table_["count"][expected.index], expected, atol=1.5)


# Refusals -----------------------------------------------------------------------------------------------------------------


def test_a_helper_whose_policy_is_against_it_refuses_and_says_what_to_type():
    policies = {"insurer": cn.Policy(compute_for_others=False)}
    with federation(policies=policies, compute_nodes=["auditor"]) as f:
        with pytest.raises(cn.PolicyRefusal) as refusal:
            cn.GroupBy(["bank.segment"], ["telco.bill"], **PRICE).fit(f)
        assert "helpers=False" in refusal.value.remedy
        cn.GroupBy(["bank.segment"], ["telco.bill"], method=cn.methods.Groups(helpers=False), **PRICE).fit(f)


def test_three_parties_need_nodes_besides_the_coordinator_and_four_are_too_many():
    tables = frames(100)
    four = {**tables, "clinic": tables["bank"][["person_id", "segment"]]}
    schemas = SCHEMAS | {"clinic": cn.Schema(segment=SCHEMAS["bank"]["segment"])}
    with federation(four, schemas) as f, pytest.raises(cn.BadInput, match="at most 3 parties"):
        cn.GroupBy(["bank.segment", "telco.plan", "insurer.product", "clinic.segment"], **PRICE).fit(f)
