"""Pattern counts from secure pair tables: near the truth at a price at which randomised response is all noise."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import colonnade as cn
from tests import kit
from tests.estimators.moment_samples import federation, frames, joined
from tests.federations import SCHEMAS

TWO = ["bank.segment", "telco.plan"]
THREE = ["bank.segment", "telco.plan", "insurer.product"]
MIXED = ["insurer.product", "bank.segment", "bank.default"]


def truth(tables, columns):
    levels = [SCHEMAS[name.split(".")[0]][name.split(".")[1]].levels for name in columns]
    index = pd.MultiIndex.from_product(levels, names=columns)
    return joined(tables).groupby(columns, observed=False).size().reindex(index, fill_value=0)


@pytest.mark.every(3)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("columns", [TWO, THREE, MIXED, TWO[::-1], ["bank.segment"]])
def test_counts_are_non_negative_add_up_and_are_labelled_by_the_columns_asked_for(columns, delta):
    with federation() as f:
        study = cn.PatternCount(columns, epsilon=1.0, delta=delta).fit(f)
    assert (study.counts_ >= 0).all()
    assert study.counts_.sum() == pytest.approx(300, rel=0.05)
    assert study.counts_.index.equals(truth(frames(), columns).index)
    assert (study.stderr_ > 0).all()
    assert 0.9999 <= study.privacy_.epsilon() <= 1.0


@pytest.mark.every(2)
@pytest.mark.parametrize("columns", [TWO, MIXED, TWO[::-1]])
def test_with_a_generous_price_counts_of_two_parties_are_the_true_ones(columns):
    tables = frames(2_000)
    with federation(tables) as f:
        study = cn.PatternCount(columns, epsilon=100.0).fit(f)
    np.testing.assert_allclose(study.counts_, truth(tables, columns), atol=0.5)


def test_with_a_generous_price_the_pairs_of_a_fit_are_the_true_ones():
    tables = frames(3_000)
    with federation(tables) as f:
        study = cn.PatternCount(THREE, epsilon=300.0).fit(f)
    for pair in (THREE[:2], THREE[1:], THREE[::2]):
        fitted = study.counts_.groupby(level=pair, sort=False).sum()
        expected = truth(tables, pair)
        np.testing.assert_allclose(fitted.reindex(expected.index), expected, atol=2)


@pytest.mark.full
def test_the_error_is_far_below_that_of_responses():
    tables = frames(4_000)
    expected = truth(tables, TWO)
    with federation(tables, name="far below") as f:
        errors = {
            method: np.mean(
                [
                    np.abs(cn.PatternCount(TWO, method=method, epsilon=0.1).fit(f, repeat=r).counts_ - expected).sum()
                    for r in range(1, 9)
                ]
            )
            for method in ("secure", "response")
        }
    assert errors["secure"] < errors["response"] / 15
    assert errors["secure"] < 0.05 * 4_000


@pytest.mark.full
def test_the_errors_of_the_unbiased_counts_are_as_large_as_stderr_says():
    tables = frames()
    expected = truth(tables, TWO).to_numpy()
    for delta in (0.0, 1e-6):
        with federation(tables, name=f"counts {delta}") as f:
            draws = [cn.PatternCount(TWO, epsilon=1.0, delta=delta).fit(f, repeat=r) for r in range(1, 61)]
        scaled = np.array([(draw.unbiased_ - expected) / draw.stderr_ for draw in draws])
        # a Laplace number has fourth moment 6, hence the variance of a square is 5
        far = abs(np.mean(scaled**2) - 1) / np.sqrt(5 / scaled.size)
        assert 2 * stats.norm.sf(far) > kit.ALPHA
        assert 2 * stats.norm.sf(abs(scaled.sum()) / np.sqrt(scaled.size)) > kit.ALPHA
        assert far < 5 < abs(np.mean((scaled / 2) ** 2) - 1) / np.sqrt(5 / scaled.size)


def test_more_than_two_parties_are_a_fit_and_everything_says_so():
    with federation() as f:
        study = cn.PatternCount(THREE, epsilon=1.0)
        assert "A fit" in str(study.preview(f))
        assert "response" in str(study.preview(f))
        assert "a fit" in study.fit(f).receipt_
        for columns in (TWO, MIXED):  # three columns, but two parties: counts
            pair = cn.PatternCount(columns, epsilon=1.0)
            assert "fit to all pairs" not in str(pair.preview(f))
            assert "a fit" not in pair.fit(f).receipt_


def test_one_party_answers_alone_without_shares():
    with federation() as f:
        study = cn.PatternCount(["bank.segment", "bank.default"], epsilon=1.0).fit(f)
        assert list(f.budget().releases) == [1, 0, 0]
    assert study.plan_.compute_nodes == ()
    assert study.counts_.shape == (6,)


def test_gaussian_noise_is_stated_with_its_delta():
    with federation() as f:
        pure = cn.PatternCount(THREE, epsilon=1.0).fit(f)
        approximate = cn.PatternCount(THREE, epsilon=1.0, delta=1e-6).fit(f)
    assert (pure.privacy_.delta(), approximate.privacy_.delta()) == (0, 1e-6)
    assert pure.privacy_.epsilon(unit="party") == pytest.approx(2 / 3)
    assert approximate.privacy_.epsilon(unit="party") < 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_party_unit_promises_epsilon_for_a_record_at_one_party(delta):
    with federation() as f:
        study = cn.PatternCount(THREE, epsilon=1.0, delta=delta, unit="party").fit(f)
        np.testing.assert_allclose(f.budget().spent, study.privacy_.epsilon(unit="party"), rtol=0.15)
    assert 0.9999 <= study.privacy_.epsilon(unit="party") <= 1.0
    assert study.privacy_.epsilon(unit="person") > 1.1


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_stated_error_grows_with_the_colluders_by_the_stated_factor(delta):
    spread = []
    for collusion in (0, 1, 2):
        with federation(compute_nodes=["auditor", "ombudsman"], collusion=collusion) as f:
            pair = cn.PatternCount(TWO, epsilon=0.5, delta=delta).fit(f)
            spread.append(pair.stderr_.iloc[0] ** 2)
            assert pair.plan_.collusion == min(collusion, 1)  # one of two parties is all that may collude
            towards = pair.privacy_.epsilon(observer=("coordinator", "bank"))
            assert (0.4999 <= towards <= 0.5) if collusion else (towards > 0.5)
    assert spread[1] / spread[0] == pytest.approx(2, rel=0.01)
    assert spread[2] == spread[1]
