"""Summaries, intervals and codings of regressions, on the real channel."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

import colonnade as cn
from colonnade.cli import running
from colonnade.estimators.regression import Summary
from colonnade.service.study_file import StudyEntry
from tests import kit
from tests.estimators.moment_samples import GENEROUS, PRICE, federation, numbers, split
from tests.federations import frames, joined

COLUMNS = ["bank.age", "bank.segment", "insurer.product"]


@pytest.fixture(scope="module")
def people():
    with federation(frames(4_000), name="inference") as f:
        yield f


def fitted(f, **options):
    return cn.LinearRegression("telco.bill", columns=COLUMNS, **{**GENEROUS, **options}).fit(f)


@pytest.mark.full
def test_intervals_of_secure_regression_cover_what_the_same_people_give_without_noise():
    draws = 60
    with split(6, 3, 2_000, name="intervals") as f:
        fits = [cn.LinearRegression("p0.c00", epsilon=8.0, delta=1e-5).fit(f, repeat=r) for r in range(1, draws + 1)]
    table = numbers(6, 2_000).drop(columns="person_id").clip(-3, 5)
    truth = LinearRegression().fit(table.iloc[:, 1:], table.iloc[:, 0])
    ends = np.array([fit.conf_int(total=False) for fit in fits])
    inside = (ends[:, :-1, 0] <= truth.coef_) & (truth.coef_ <= ends[:, :-1, 1])
    assert np.all(stats.binom.cdf(inside.sum(axis=0), draws, 0.95) > kit.ALPHA)
    assert np.isfinite(ends[:, :-1]).mean() > 0.9
    wider = np.array([fit.conf_int() for fit in fits])
    finite = np.isfinite(ends[:, :, 0])
    assert np.all((wider[:, :, 1] - wider[:, :, 0])[finite] > (ends[:, :, 1] - ends[:, :, 0])[finite])


@pytest.mark.parametrize("method", ["secure", "functional"])
def test_with_a_generous_price_every_coefficient_is_that_of_scikit_learn(people, method):
    f, rows = people, joined(frames(4_000))
    model = fitted(f, method=method, coding="reference", epsilon=1_500.0, delta=1e-5 if method == "secure" else 0.0)
    levels = pd.get_dummies(rows[["bank.segment", "insurer.product"]], prefix_sep="=").astype(float)
    design = pd.concat([rows[["bank.age"]].clip(18, 95), levels], axis=1)
    names = [name for name in model.feature_names_in_ if model.coef_[list(model.feature_names_in_).index(name)] != 0]
    exact = LinearRegression().fit(design[names], rows["telco.bill"].clip(0, 200))
    ends = model.conf_int(0.999_999, total=False)
    assert np.all(ends.loc[names, "lower"] <= exact.coef_)
    assert np.all(exact.coef_ <= ends.loc[names, "upper"])
    assert ends.loc["intercept", "lower"] <= exact.intercept_ <= ends.loc["intercept", "upper"]
    assert model.determined_.all()
    references = [name for name in model.feature_names_in_ if name not in names]
    assert references == ["bank.segment=basic", "insurer.product=car"]
    assert not ends.loc[references].to_numpy().any()


def test_codings_change_coefficients_and_not_predictions(people):
    rows = joined(frames(4_000))
    models = {coding: fitted(people, coding=coding) for coding in ("full", "reference", "sum")}
    full = models["full"]
    assert all(
        "nothing spent" in models[coding].receipt_ for coding in ("reference", "sum")
    )  # one release, paid for once
    for model in models.values():
        np.testing.assert_allclose(model.predict(rows), full.predict(rows))
        np.testing.assert_allclose(model.to_sklearn().predict(rows), full.predict(rows))
    levels = [place for place, name in enumerate(full.feature_names_in_) if name.startswith("bank.segment")]
    assert models["reference"].coef_[levels[0]] == 0
    assert models["sum"].coef_[levels].sum() == pytest.approx(0, abs=1e-9)
    assert full.summary().head["levels"] == "difference from the first level"
    assert models["sum"].summary().head["levels"] == "difference from the average of the levels"


def test_a_summary_shows_what_it_rests_on_and_every_column(people):
    model = fitted(people, **PRICE)
    summary = model.summary()
    assert isinstance(summary, Summary)
    assert list(summary.frame.index) == [*model.feature_names_in_, "intercept"]
    shown = repr(summary)
    for words in (
        "4,000",
        "ε, δ",
        "1, 1e-05 per person",
        "bank.age 18 to 95",
        "least squares",
        "coefficient",
        "privacy share",
    ):
        assert words in shown, words
    frame = summary.frame[~summary.frame["hidden"] & (summary.frame["total error"] > 0)]
    np.testing.assert_allclose(frame["total error"] ** 2, frame["privacy error"] ** 2 + frame["sampling error"] ** 2)
    np.testing.assert_allclose(frame["privacy share"], (frame["privacy error"] / frame["total error"]) ** 2)
    np.testing.assert_allclose(frame["upper"] - frame["lower"], 2 * 1.959963984540054 * frame["total error"])
    np.testing.assert_allclose(
        frame["p"], 2 * stats.norm.sf(abs(frame["coefficient"] / frame["total error"])), atol=1e-12
    )
    pd.testing.assert_frame_equal(model.conf_int(), summary.frame[["lower", "upper"]])
    covariance = model.cov_params()
    np.testing.assert_allclose(np.sqrt(np.diag(covariance.loc[frame.index, frame.index])), frame["total error"])
    assert "<table>" in summary._repr_html_()
    assert "nan" not in shown  # of the level that others are compared with


def test_what_noise_hides_is_marked_and_has_a_finite_interval_and_no_p_value(people):
    model = fitted(people, epsilon=0.02, delta=1e-5)
    assert model.hidden_[1:4].any()
    assert np.array_equal(model.determined_, ~model.hidden_)
    hidden = [name for name, one in zip(model.feature_names_in_, model.hidden_, strict=True) if one]
    assert np.all(np.isfinite(model.conf_int()))
    assert np.all(np.isfinite(model.cov_params()))
    printed = model.summary().printed()
    assert set(printed.loc[hidden, "noise"]) == {"hidden"}
    assert all(printed.loc[hidden, ["coefficient", "lower", "upper"]].to_numpy().ravel())
    assert not any(printed.loc[hidden, "p"])
    assert np.all(np.isfinite(model.coef_))  # it still predicts
    model.plot()


def test_every_place_that_shows_a_regression_shows_one_table_one_mark_and_what_would_help(people, tmp_path, capsys):
    model = fitted(people, epsilon=0.02, delta=1e-5)
    entry = StudyEntry("Bills", model)
    running.print_result(entry)
    table = model.table()
    assert list(table.columns) == ["coefficient", "total error", "lower", "upper", "p", "noise"]
    hidden = int((table["noise"] == "hidden").sum())
    assert hidden == int(model.summary().frame["hidden"].sum()) > 0
    results = running.as_json(entry)["results"]
    shown = {
        "summary": str(model.summary()),
        "summary in a notebook": model.summary()._repr_html_(),
        "notebook": model._repr_html_(),
        "command line": capsys.readouterr().out,
        "report": model.report(tmp_path / "report.html", federation=people).read_text(),
        "study file": json.dumps(results, ensure_ascii=False),
    }
    for place, words in shown.items():
        assert f"{hidden} of {len(table)} rows are hidden by noise" in " ".join(words.split()), place
        assert "a larger ε would help" in " ".join(words.split()), place
    assert not {"inf", "-inf"} & set(shown["summary"].split() + shown["command line"].split())
    assert [row["noise"] for row in results["table"]] == list(table["noise"])
    assert "hollow: hidden by noise" in model.plot().get_supxlabel()
    clear = fitted(people)
    assert "hidden" not in str(clear.summary()) + clear._repr_html_()
    assert "hollow" not in clear.plot().get_supxlabel()


def test_methods_without_a_law_of_their_errors_refuse_intervals(people):
    few = ["bank.age", "telco.bill"]
    without = [
        fitted(people, method="sketch"),
        cn.LinearRegression("telco.bill", columns=COLUMNS, method="coreset", size=50, allow_nonprivate=True).fit(
            people
        ),
        cn.LogisticRegression("bank.default", columns=few, method=cn.methods.Gradient(steps=3, rate=0.1), **PRICE).fit(
            people
        ),
        cn.LogisticRegression("bank.segment", columns=few, method="secure", **PRICE).fit(people),
    ]
    for model in without:
        for ask in (model.summary, model.conf_int, model.cov_params, lambda model=model: model.determined_):
            with pytest.raises(cn.ColonnadeError) as refusal:
                ask()
            assert "has no intervals" in str(refusal.value)
            assert "secure" in refusal.value.remedy
