"""Regressions by the functional mechanism: pure ε, what it costs whom top-down and bottom-up, and what comes out."""

import numpy as np
import pytest
from sklearn import linear_model

import colonnade as cn
from colonnade.coordinator.protocols.moment_releases import FunctionalRelease
from colonnade.estimation.moments import Moments, pooled_correlations
from colonnade.estimators.methods.moments import opened_variance
from colonnade.privacy.accounting import Price
from tests import kit
from tests.estimators.moment_samples import federation, numbers, split
from tests.federations import SCHEMAS

STUDIES = {
    "linear": lambda **more: cn.LinearRegression("telco.bill", **{"method": "functional", **more}),
    "logistic": lambda **more: cn.LogisticRegression("bank.default", **{"method": "functional", **more}),
    "several": lambda **more: cn.LogisticRegression("insurer.product", **{"method": "functional", **more}),
}
BUDGETS = {"bank": 0.5, "telco": 1.0, "insurer": 0.25}
NAMED = cn.methods.Functional(budgets=BUDGETS)
every_study = pytest.mark.parametrize("name", STUDIES)


# What comes out -------------------------------------------------------------------------------------------------------------


def test_with_a_generous_price_linear_regression_is_that_of_scikit_learn():
    with split(6, 3, 2_000, name="functional linear") as f:
        model = cn.LinearRegression("p0.c00", method="functional", epsilon=10_000.0).fit(f)
    frame = numbers(6, 2_000)
    truth = linear_model.LinearRegression().fit(frame[[f"c{place:02d}" for place in range(1, 6)]], frame["c00"])
    np.testing.assert_allclose(model.coef_, truth.coef_, atol=0.02)
    assert model.intercept_ == pytest.approx(truth.intercept_, abs=0.02)


@pytest.mark.parametrize("target", ["bank.default", "telco.plan"])
def test_with_a_generous_price_it_predicts_what_the_secure_method_predicts(target):
    data = cn.datasets.three_organisations(people=3_000)
    people = data.joined()
    with data.federation(budget=cn.Budget(epsilon=1e4, delta=1e-5)) as f:
        ours = cn.LogisticRegression(target, method="functional", epsilon=5_000.0).fit(f)
        secure = cn.LogisticRegression(target, method="secure", epsilon=5_000.0, delta=1e-5).fit(f)
    assert list(ours.feature_names_in_) == list(secure.feature_names_in_)
    assert ours.coef_.shape == secure.coef_.shape == ours.coef_stderr_.shape
    assert np.mean(ours.predict(people) == secure.predict(people)) > 0.97
    np.testing.assert_allclose(ours.predict_proba(people).sum(axis=1), 1)


@pytest.mark.full
def test_the_error_of_a_coefficient_is_as_large_as_it_says():
    with split(5, 3, 2_000, name="functional errors") as f:
        draws = [
            cn.LinearRegression("p0.c00", method="functional", epsilon=40.0).fit(f, repeat=r) for r in range(1, 41)
        ]
        truth = cn.LinearRegression("p0.c00", method="functional", epsilon=8_000.0).fit(f)
    errors = np.array([(draw.coef_ - truth.coef_) / draw.coef_stderr_ for draw in draws])
    assert 0.75 < errors.std() < 1.25


def test_two_and_four_parties_have_the_noise_of_one_apart_from_the_stated_factor():
    """The mechanism's utility does not depend on how columns are dealt out: variances are those of a single holder."""
    found = {}
    for parties in (2, 4):
        with split(8, parties, 300, name="functional parties", collusion=0, policies=_lenient(parties)) as f:
            columns = f.describe()
            release = FunctionalRelease(columns, "p0.c00", dict.fromkeys(f.parties, Price.of(1.0)))
            study = cn.LinearRegression("p0.c00", method="functional", epsilon=1.0)._checked()
            found[parties] = opened_variance(study, release, f)
    np.testing.assert_allclose(np.sort(found[2], axis=None), np.sort(found[4], axis=None))


def _lenient(parties):
    return {f"p{party}": cn.Policy(min_collusion=0) for party in range(parties)}


# What it costs --------------------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@every_study
def test_top_down_epsilon_is_pure_and_every_partys_part_is_reported(name):
    with federation(budget=cn.Budget(epsilon=10.0)) as f:  # a cap without any delta
        study = STUDIES[name](epsilon=1.0).fit(f)
        spent = f.budget().spent
        assert (spent == 1.0).all()
        assert f.budget(unit="person").spent == 1.0  # once, not once a party
    statement = study.privacy_
    assert (statement.epsilon(), statement.delta()) == (1.0, 0.0)
    parts = {party: statement.epsilon(unit="party", party=party) for party in SCHEMAS}
    assert all(0 < part < 1.0 for part in parts.values())
    assert sum(parts.values()) > 1.0  # a pair's block is in both parts
    assert statement.epsilon(observer=("coordinator", "bank")) == 1.0
    assert 1.0 <= statement.epsilon_if_replaced() <= 2.0


@pytest.mark.every(2)
@every_study
def test_bottom_up_every_ledger_is_debited_what_its_party_named(name):
    with federation(budget=cn.Budget(epsilon=10.0)) as f:
        study = STUDIES[name](method=NAMED).fit(f)
        assert f.budget().spent.to_dict() == BUDGETS
        composed = f.budget(unit="person").spent
    statement = study.privacy_
    assert {party: statement.epsilon(unit="party", party=party) for party in BUDGETS} == BUDGETS
    assert max(BUDGETS.values()) < statement.epsilon() < sum(BUDGETS.values())
    assert composed >= statement.epsilon()  # ledgers never show less than was released
    assert study.plan_.unit == "party"


@pytest.mark.every(2)
@every_study
def test_the_party_unit_promises_epsilon_for_the_largest_part(name):
    with federation() as f:
        study = STUDIES[name](epsilon=1.0, unit="party").fit(f)
        spent = f.budget().spent
    assert study.privacy_.epsilon(unit="party") == 1.0
    assert study.privacy_.epsilon() > 1.0
    assert {party: study.privacy_.epsilon(unit="party", party=party) for party in SCHEMAS} == pytest.approx(
        spent.to_dict()
    )


# Refusals -------------------------------------------------------------------------------------------------------------------


# The repair -----------------------------------------------------------------------------------------------------------------


def release(noise, people=5_000, columns=12, draw=""):
    """Moments of plain correlated numbers, the target first, with Laplace noise of one scale on everything but the count."""
    frame = numbers(columns, people).drop(columns="person_id")
    coded = np.column_stack([np.ones(people), (frame.to_numpy() - 1) / 4])
    exact = coded.T @ coded
    drawn = np.triu(kit.generator(f"repair{draw}").laplace(0, noise or 1.0, exact.shape)) * (noise > 0)
    features = FunctionalRelease(
        {f"p{place % 2}.c{place:02d}": cn.Numeric(-3, 5) for place in range(columns)},
        "p0.c00",
        dict.fromkeys(["p0", "p1"], Price.of(1.0)),
    ).features
    named = {feature.name: place for place, feature in enumerate(features)}
    order = [0, *(named[f"p{place % 2}.c{place:02d}"] for place in range(columns))]
    back = np.argsort(order)
    whole = np.triu(drawn) + np.triu(drawn, 1).T
    whole[0, 0] = 0
    variance = np.full(exact.shape, 2.0 * noise**2)
    variance[0, 0] = 0
    return Moments((exact + whole)[np.ix_(back, back)], variance, people, features), exact[np.ix_(back, back)]


def test_under_heavy_noise_products_come_closer_to_the_truth_and_the_slope_stays():
    before = after = 0.0
    for draw in range(10):
        moments, exact = release(400.0, draw=draw)
        pulled = pooled_correlations(moments, "p0.c00")
        places = [place for place, feature in enumerate(moments.features) if place and feature.column != "p0.c00"]
        aim = next(place for place, feature in enumerate(moments.features) if feature.column == "p0.c00")
        block = np.ix_(places, places)
        before, after = (
            total + np.abs(one.matrix - exact)[block].sum() for total, one in ((before, moments), (after, pulled))
        )
        np.testing.assert_array_equal(pulled.matrix[aim], moments.matrix[aim])
        np.testing.assert_array_equal(np.diag(pulled.matrix), np.diag(moments.matrix))
        assert np.all(pulled.variance <= moments.variance)
    assert after < 0.85 * before  # of one draw the ratio is 0.63, give or take 0.10
