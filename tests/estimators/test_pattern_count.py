"""The whole study, from estimator to gate and back."""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from tests.federations import SCHEMAS, federation, frames, joined

TWO = ["bank.segment", "telco.plan"]
THREE = ["bank.segment", "telco.plan", "insurer.product"]


def truth(tables, columns):
    index = pd.MultiIndex.from_product(
        [SCHEMAS[c.split(".")[0]][c.split(".")[1]].levels for c in columns], names=columns
    )
    return joined(tables).groupby(columns, observed=False).size().reindex(index, fill_value=0)


@pytest.mark.every(3)
@pytest.mark.parametrize("method", ["response", "independent"])
@pytest.mark.parametrize("columns", [TWO[:1], TWO, THREE, ["bank.segment", "insurer.product", "bank.default"]])
def test_counts_are_non_negative_add_up_and_are_labelled_by_the_columns_asked_for(method, columns):
    with federation() as f:
        study = cn.PatternCount(columns, method=method, epsilon=3.0).fit(f)
    assert (study.counts_ >= 0).all()
    assert study.counts_.sum() == pytest.approx(300)
    assert study.counts_.index.names == columns
    assert study.counts_.index.equals(truth(frames(), columns).index)
    assert study.stderr_.index.equals(study.counts_.index)
    assert (study.stderr_ > 0).all()


def test_with_a_generous_price_the_counts_are_the_true_ones():
    tables = frames(3_000)
    with federation(tables=tables, epsilon=300) as f:
        study = cn.PatternCount(["telco.plan", "bank.segment", "insurer.product"], method="response", epsilon=90.0).fit(
            f
        )
    expected = truth(tables, ["telco.plan", "bank.segment", "insurer.product"])
    np.testing.assert_allclose(study.counts_, expected, atol=1)


@pytest.mark.full
def test_the_errors_of_the_unbiased_counts_are_as_large_as_stderr_says():
    tables = frames(2_000)
    expected = truth(tables, TWO).to_numpy()
    with federation(tables=tables, epsilon=1000) as f:
        draws = [cn.PatternCount(TWO, method="response", epsilon=2.0).fit(f, repeat=r) for r in range(1, 61)]
    errors = np.array([draw.unbiased_.to_numpy() - expected for draw in draws])
    scaled = errors / np.mean([draw.stderr_.to_numpy() for draw in draws], axis=0)
    assert abs(scaled.mean()) < 0.35  # 60 draws of 6 dependent cells: sd of the mean below 0.06
    assert 0.75 < scaled.std() < 1.25


def test_sampling_scales_the_counts_up_and_charges_the_full_price():
    tables = frames(5_000)
    with federation(tables=tables, epsilon=100) as f:
        study = cn.PatternCount(TWO, method=cn.methods.Response(sample=0.25), epsilon=20.0).fit(f)
        whole = cn.PatternCount(TWO, method="response", epsilon=20.0).fit(f)
        assert f.budget("bank").spent == pytest.approx(20.0)
    np.testing.assert_allclose(study.unbiased_.sum(), 5_000, rtol=0.1)
    assert (study.stderr_ > whole.stderr_).all()
    assert whole.transcript_.bytes - study.transcript_.bytes > 0.6 * 2 * 5_000  # a byte a person and party


def test_the_statement_divides_a_persons_price_between_the_parties():
    with federation() as f:
        study = cn.PatternCount(THREE, method="response", epsilon=3.0).fit(f)
    statement = study.privacy_
    assert statement.epsilon(observer="coordinator", unit="person") == pytest.approx(3.0)
    assert statement.epsilon(observer="coordinator", unit="party") == pytest.approx(1.0)
    assert statement.epsilon(observer="bank", unit="person") == pytest.approx(2.0)
    assert statement.epsilon(observer=("coordinator", "bank", "telco"), unit="person") == pytest.approx(1.0)
    assert statement.epsilon(observer=("bank", "telco", "insurer"), unit="person") == 0
    assert statement.delta() == 0
    assert statement.local
    assert {"observer", "unit", "epsilon", "delta"} <= set(statement.table().columns)


def test_the_party_unit_promises_epsilon_at_every_party():
    with federation() as f:
        study = cn.PatternCount(THREE, method="independent", epsilon=1.0, unit="party").fit(f)
        assert f.budget("telco").spent == pytest.approx(1.0)
        assert f.budget(unit="person").spent == pytest.approx(3.0, rel=1e-4)  # δ of the cap pays for a little
    assert study.privacy_.epsilon(unit="party") == pytest.approx(1.0)
    assert study.privacy_.epsilon(unit="party", party="bank") == pytest.approx(1.0)
    assert study.privacy_.epsilon(unit="person") == pytest.approx(3.0)
    assert not study.privacy_.local


def test_fitting_again_is_free_and_identical_and_a_repeat_is_a_new_draw_at_a_new_price():
    with federation() as f:
        first = cn.PatternCount(TWO, method="response", epsilon=1.0).fit(f)
        spent = f.budget().spent.copy()
        again = cn.PatternCount(TWO, method="response", epsilon=1.0).fit(f)
        pd.testing.assert_series_equal(first.counts_, again.counts_)
        pd.testing.assert_series_equal(f.budget().spent, spent)
        assert "nothing spent" in again.receipt_
        new = cn.PatternCount(TWO, method="response", epsilon=1.0).fit(f, repeat=2)
        assert not np.allclose(new.unbiased_, first.unbiased_)
        assert f.budget("bank").spent == pytest.approx(2 * spent["bank"])


def test_a_release_outlives_the_process_that_drew_it(tmp_path):
    with federation(ledger_dir=tmp_path) as f:
        first = cn.PatternCount(TWO, method="response", epsilon=1.0).fit(f)
    with federation(ledger_dir=tmp_path, test_key=b"another key of thirty-two bytes.") as f:
        again = cn.PatternCount(TWO, method="response", epsilon=1.0).fit(f)
        assert f.budget("bank").releases == 1
    pd.testing.assert_series_equal(first.counts_, again.counts_)


def test_the_default_method_is_secure_and_its_noise_is_that_of_a_single_count():
    tables = frames(3_000)
    with federation(tables=tables) as f:
        study = cn.PatternCount(TWO, epsilon=1.0).fit(f)
    errors = study.unbiased_ - truth(tables, TWO)
    assert errors.abs().max() < 40  # the standard error is about two people
    assert (study.stderr_ < 4).all()
    assert study.method == "secure"


def test_a_study_at_the_caps_own_price_fits_a_fresh_ledger_and_a_further_one_does_not():
    with federation(epsilon=0.1, delta=0.0) as f:
        cn.PatternCount(TWO, method="response", epsilon=0.1, unit="party").fit(f)
        with pytest.raises(cn.BudgetExceeded) as refusal:
            cn.PatternCount(["bank.segment"], method="response", epsilon=0.001).fit(f)
        assert refusal.value.spent is None
        assert f.budget("bank").remaining == 0
        assert f.budget("insurer").remaining == pytest.approx(0.1)
