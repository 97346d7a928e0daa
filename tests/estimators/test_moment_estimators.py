"""PCA, linear and logistic regression from one noisy Gram matrix, from estimator to gate and back."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import decomposition, discriminant_analysis, linear_model

import colonnade as cn
from colonnade.estimators.frames import design_matrix
from colonnade.party.table.private_table import PrivateTable, coded_rows
from colonnade.party.table.sources import Source
from colonnade.schema import features_of
from colonnade.steps.kind import FixedPoint
from tests.estimators.moment_samples import (
    GENEROUS,
    PRICE,
    assert_same_directions,
    coded,
    federation,
    joined_numbers,
    split,
)

STUDIES = {
    "PCA": lambda **options: cn.PCA(2, **options),
    "LinearRegression": lambda **options: cn.LinearRegression("bank.age", **options),
    "LogisticRegression": lambda **options: cn.LogisticRegression("bank.default", **{"method": "secure", **options}),
}
every_study = pytest.mark.parametrize("name", STUDIES)


# Agreement with what a trusted centre would compute -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def organisations():
    """A bank, a telco and an insurer with a generous budget, and everybody's columns side by side."""
    data = cn.datasets.three_organisations(people=4_000)
    with data.federation(budget=cn.Budget(epsilon=1e4, delta=1e-5), test_key=b"m" * 32) as f:
        yield f, data.joined()


def test_with_a_generous_price_components_are_those_of_scikit_learn(organisations):
    f, people = organisations
    pca = cn.PCA(3, **GENEROUS).fit(f)
    truth = decomposition.PCA(3).fit(coded(people, f.describe()))
    assert pca.components_.shape == (3, len(pca.feature_names_in_))
    np.testing.assert_allclose(np.linalg.norm(pca.components_, axis=1), 1)
    assert_same_directions(pca.components_, truth.components_, within=0.01)
    np.testing.assert_allclose(pca.explained_variance_, truth.explained_variance_, rtol=2e-3)
    assert pca.n_significant_ == 3
    means = dict(zip(pca.feature_names_in_, pca.mean_, strict=True))
    assert means["bank.income"] == pytest.approx(people["bank.income"].clip(0, 150_000).mean(), rel=2e-3)
    assert means["telco.churn=yes"] == pytest.approx((people["telco.churn"] == "yes").mean(), abs=2e-3)
    scores = pca.transform(people)
    assert scores.shape == (4_000, 3)
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), pca.explained_variance_, rtol=0.01)


@pytest.mark.parametrize("ridge", [0.0, 50.0])
def test_with_a_generous_price_linear_models_are_those_of_scikit_learn(organisations, ridge):
    f, people = organisations
    columns = ["bank.age", "bank.savings", "telco.minutes", "telco.plan", "insurer.claims"]
    model = cn.LinearRegression("bank.income", columns=columns, ridge=ridge, **GENEROUS).fit(f)
    rows = coded(people, f.describe(columns))
    target = people["bank.income"].clip(0, 150_000)
    truth = (linear_model.Ridge(ridge) if ridge else linear_model.LinearRegression()).fit(rows, target)
    expected = truth.predict(rows)
    assert np.std(model.predict(people) - expected) < 0.02 * np.std(expected)
    assert model.score(people, target) == pytest.approx(truth.score(rows, target), abs=2e-3)
    slope = truth.coef_[1] / 50_000  # per unit of savings, whose bounds are 0 and 100,000
    place = list(model.feature_names_in_).index("bank.savings")
    assert model.coef_[place] == pytest.approx(slope, rel=0.02, abs=3 * model.coef_stderr_[place])


def test_with_a_generous_price_a_logistic_model_predicts_as_well_as_that_of_scikit_learn(organisations):
    f, people = organisations
    columns = [name for name in f.describe() if name != "bank.default"]
    model = cn.LogisticRegression("bank.default", method="secure", **GENEROUS).fit(f)
    rows, target = coded(people, f.describe(columns)), people["bank.default"]
    truth = linear_model.LogisticRegression(max_iter=2_000).fit(rows, target)
    assert model.score(people, target) >= truth.score(rows, target) - 0.01
    chance = model.predict_proba(people)
    np.testing.assert_allclose(chance.sum(axis=1), 1)
    assert np.corrcoef(chance[:, 1], truth.predict_proba(rows)[:, 1])[0, 1] > 0.97
    assert chance[:, 1].mean() == pytest.approx((target == "yes").mean(), abs=0.03)


def test_with_a_generous_price_a_model_of_several_classes_is_the_linear_discriminant_of_scikit_learn(organisations):
    f, people = organisations
    others = ["bank.age", "bank.income", "telco.minutes", "telco.monthly_bill", "insurer.product", "insurer.premium"]
    model = cn.LogisticRegression("telco.plan", method="secure", columns=others, **GENEROUS).fit(f)
    rows, target = coded(people, f.describe(others)), people["telco.plan"]
    truth = discriminant_analysis.LinearDiscriminantAnalysis().fit(rows, target)
    assert model.coef_.shape == (4, len(model.feature_names_in_))
    assert model.intercept_.shape == (4,)
    assert list(model.classes_) == ["prepaid", "standard", "premium", "family"]
    assert np.mean(model.predict(people) == truth.predict(rows)) > 0.98
    order = [list(truth.classes_).index(name) for name in model.classes_]
    np.testing.assert_allclose(model.predict_proba(people), truth.predict_proba(rows)[:, order], atol=0.05)


@pytest.mark.full
def test_the_error_of_a_coefficient_is_as_large_as_it_says():
    with split(6, 3, 1_500, name="coefficients") as f:
        draws = [cn.LinearRegression("p0.c00", epsilon=20.0, delta=1e-5).fit(f, repeat=r) for r in range(1, 41)]
        truth = cn.LinearRegression("p0.c00", **GENEROUS).fit(f)
    errors = np.array([(draw.coef_ - truth.coef_) / draw.coef_stderr_ for draw in draws])
    assert 0.8 < errors.std() < 1.2  # 200 numbers, dependent in groups of five
    assert np.all(np.abs(errors.mean(axis=0)) < 0.8)  # the deviation of each mean is 0.16


# Shapes, names and the contract ---------------------------------------------------------------------------------------------


# Price ----------------------------------------------------------------------------------------------------------------------


def test_studies_of_the_same_columns_share_one_release():
    columns = ["bank.age", "bank.segment", "telco.bill", "insurer.product"]
    without = lambda target: [name for name in columns if name != target]  # noqa: E731
    with federation() as f:
        cn.PCA(2, columns=columns, **PRICE).fit(f)
        spent = f.budget().spent.copy()
        cn.PCA(5, columns=columns[::-1], **PRICE).fit(f)
        cn.LinearRegression("bank.age", columns=without("bank.age"), ridge=3.0, **PRICE).fit(f)
        options = {"method": "secure", "standardise": "off"}  # standardised columns are another release
        cn.LogisticRegression("insurer.product", columns=without("insurer.product"), **options, **PRICE).fit(f)
        release = f.moments(columns, **PRICE)
        pd.testing.assert_series_equal(f.budget().spent, spent)
        assert (f.budget().releases == 1).all()
        assert "nothing spent" in release.receipt_


# Rows that a caller holds ---------------------------------------------------------------------------------------------------

ODD = cn.Schema(
    number=cn.Numeric(-1.5, 4),
    whole=cn.Numeric(0.5, 9.2, integer=True),
    flag=cn.Category([False, True]),
    code=cn.Category([0, 1, 7]),
    word=cn.Category(["nan", "None", "gold", "7", "true"]),
)
NUMBERS = st.one_of(st.none(), st.floats(allow_nan=True), st.integers(-5, 12))
CELLS = {
    "number": NUMBERS,
    "whole": NUMBERS,
    "flag": st.sampled_from([True, False, None]),
    "code": st.sampled_from([0.0, 1.0, 7.0, 2.5, np.nan, np.inf, -0.0]),
    "word": st.sampled_from(["nan", "None", "gold", "7", "7.0", "true", "TRUE", "lead", None]),
}


@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=6))
def test_rows_are_coded_as_the_parties_code_them(cells):
    frame = pd.DataFrame({name: pd.Series([cell[name] for cell in cells], dtype=object) for name in CELLS})
    frame[["number", "whole", "code"]] = frame[["number", "whole", "code"]].astype(float)
    columns = {f"bank.{name}": column for name, column in ODD.items()}
    ours = design_matrix(frame.add_prefix("bank."), features_of(columns)[1:], columns, coded=True)
    scale = 1 << 20
    coding = FixedPoint(tuple(ODD), ODD, scale=scale, row_bound=scale**2 * len(ODD))
    theirs = coded_rows(coding, PrivateTable(Source(frame), ODD), 0, len(frame)).T / scale
    np.testing.assert_allclose(ours, theirs, atol=1 / scale)


# Who computes, and against whom ---------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@every_study
def test_the_party_unit_promises_epsilon_for_a_record_at_one_party(name):
    with federation() as f:
        study = STUDIES[name](unit="party", **PRICE).fit(f)
        spent = f.budget().spent
    statement = study.privacy_
    assert statement.epsilon(unit="party") == pytest.approx(1.0, rel=1e-6)
    assert statement.epsilon(unit="person") > 1.05
    assert max(spent) == pytest.approx(1.0, rel=1e-6)
    for party in ("bank", "telco", "insurer"):
        assert spent[party] == pytest.approx(statement.epsilon(unit="party", party=party), rel=1e-9)


@pytest.mark.every(3)
@every_study
def test_skellam_noise_keeps_the_promise_and_is_priced_by_its_curve(name):
    with federation() as f:
        study = STUDIES[name](method=cn.methods.Secure(noise="skellam"), **PRICE).fit(f)
        skellam, gaussian = (f.moments(noise=noise, **PRICE).moments.variance for noise in ("skellam", "gaussian"))
        assert study.preview(f).statement.epsilon() == study.privacy_.epsilon()
    assert 0.999 < study.privacy_.epsilon() <= 1.0 + 1e-9
    assert 1.1 < skellam[1, 2] / gaussian[1, 2] < 1.2  # no μ is known of Skellam noise


def test_shorter_rows_take_less_noise():
    with split(12, 3, 500) as f:
        norms = dict.fromkeys(("p0", "p1", "p2"), 1.0)
        free, short = (f.moments(row_norms=given, **PRICE).moments.variance[1, 1] for given in (None, norms))
        assert short / free == pytest.approx((4**2 - 1) / (13**2 - 1), rel=1e-6)
        assert (
            cn.PCA(2, method=cn.methods.Secure(row_norms=norms), **PRICE).fit(f).privacy_.epsilon()
        ) == pytest.approx(1.0, rel=1e-6)


# The baseline ---------------------------------------------------------------------------------------------------------------


def test_local_components_take_no_peers_and_far_more_noise():
    with split(6, 3, 2_000) as f:
        truth = decomposition.PCA(2).fit(coded(joined_numbers(f, 6, 2_000), f.describe()))
        studies = {m: cn.PCA(2, method=m, epsilon=20.0, delta=1e-5) for m in ("local", "secure")}
        previews = {method: study.preview(f) for method, study in studies.items()}
        spent = f.budget().spent.copy()
        fits = {method: study.fit(f) for method, study in studies.items()}
    assert (spent == 0).all()
    captured = {m: float(np.sum((fit.components_ @ truth.components_.T) ** 2)) for m, fit in fits.items()}
    assert captured["secure"] > 1.99
    assert captured["local"] > 1.5
    assert fits["local"].explained_variance_stderr_.min() > 10 * fits["secure"].explained_variance_stderr_.max()
    assert fits["local"].privacy_.local
    assert not fits["secure"].privacy_.local
    assert fits["local"].privacy_.epsilon() == pytest.approx(20.0, rel=1e-3)
    assert fits["local"].privacy_.epsilon(observer=("coordinator", "p0", "p1")) < 20
    assert "noise floor" in str(previews["local"])
    assert not hasattr(fits["local"].plan_, "noise")
    assert fits["local"].plan_.compute_nodes == ()
