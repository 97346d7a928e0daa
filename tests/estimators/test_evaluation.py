"""How good a model is, privately: figures within their intervals of the exact ones, at the price that was asked, and no score."""

import math

import numpy as np
import pandas as pd
import pytest
from benchmarks.frame import public
from scipy import stats
from sklearn.metrics import brier_score_loss, r2_score, roc_auc_score

import colonnade as cn
from colonnade.estimation.scoring import ScoreMoments
from colonnade.estimators.frames import design_matrix
from colonnade.protocol import messages
from colonnade.protocol.messages import Opened, Posted, Released
from colonnade.transport.direct import Recorded
from tests import kit
from tests.federations import federation, frames, joined

SEEDS = 20
LEVEL = 0.95


# The exact figures ----------------------------------------------------------------------------------------------------------


def exact_regression(model, rows):
    truth, found = rows[model.target].to_numpy(dtype=float), model.predict(rows)
    error = float(np.mean((truth - found) ** 2))
    return {
        "mse": error,
        "rmse": math.sqrt(error),
        "r2": r2_score(truth, found),
        "mean_error": float(np.mean(truth - found)),
    }


def exact_classification(model, rows):
    truth, chances = rows[model.target].to_numpy() == model.classes_[1], model.predict_proba(rows)[:, 1]
    return {
        "accuracy": float(np.mean(model.predict(rows) == rows[model.target].to_numpy())),
        "auc": roc_auc_score(truth, chances),
        "brier": brier_score_loss(truth, chances),
    }


def exact_accuracy(model, rows):
    return {"accuracy": float(np.mean(model.predict(rows) == rows[model.target].to_numpy()))}


def exact_components(model, rows):
    coded, scores = design_matrix(rows, model._coded, model._columns, coded=True), model.transform(rows)
    figures = {f"explained_variance_{place + 1}": value for place, value in enumerate(scores.var(axis=0))}
    left = ((coded - model._coded_means) ** 2).sum(axis=1).mean() - (scores**2).sum(axis=1).mean()
    share = scores.var(axis=0).sum() / coded.var(axis=0).sum()
    return {**figures, "explained_variance_ratio": share, "reconstruction_error": left}


def exact_clusters(model, rows):
    coded = design_matrix(rows, model._coded, model._columns, coded=True)
    squared = ((coded[:, None] - model._coded_centres) ** 2).sum(axis=2).min(axis=1)
    if isinstance(model, cn.KMeans):
        return {"loss": float(squared.mean())}
    return {"loss": float(np.sqrt(squared).mean()), "mean_squared_distance": float(squared.mean())}


# Coverage -------------------------------------------------------------------------------------------------------------------


def divided(data, people, test_key):
    """A public data set in two federations: people to fit on, and people to evaluate on, with the latter's rows."""
    order = np.random.default_rng(1).permutation(len(data.frame))
    held_out, rest = np.sort(order[:people]), np.sort(order[people:])

    def simulated(rows):
        parties = {name: cn.Party(t.loc[rows], schema=data.schemas[name]) for name, t in data.tables().items()}
        budget = cn.Budget(epsilon=10_000.0, delta=1e-5)
        return cn.Federation.simulate(parties, id="person", budget=budget, test_key=test_key)

    frame = data.frame.loc[held_out]
    rows = pd.DataFrame({f"{name}.{c}": frame[c] for name, schema in data.schemas.items() for c in schema})
    return simulated(rest), simulated(held_out), rows


CASES = {
    "KC House, linear": ("kc_house", lambda t: cn.LinearRegression(t, epsilon=4.0, delta=1e-6), exact_regression, 8.0),
    "Adult, linear": (
        "adult",
        lambda _: cn.LinearRegression("registry.age", epsilon=4.0, delta=1e-6),
        exact_regression,
        4.0,
    ),
    "KC House, components": ("kc_house", lambda _: cn.PCA(3, epsilon=4.0, delta=1e-6), exact_components, 2.0),
    "Adult, components": ("adult", lambda _: cn.PCA(3, epsilon=4.0, delta=1e-6), exact_components, 2.0),
    "Adult, logistic": (
        "adult",
        lambda t: cn.LogisticRegression(t, method="secure", epsilon=4.0, delta=1e-6),
        exact_classification,
        1.0,
    ),
    "Adult, three and more classes": (
        "adult",
        lambda _: cn.LogisticRegression("registry.race", method="secure", epsilon=4.0, delta=1e-6),
        exact_accuracy,
        8.0,
    ),
    "KC House, k-means": ("kc_house", lambda _: cn.KMeans(3, epsilon=4.0, delta=1e-6), exact_clusters, 3.0),
    "Adult, k-means": ("adult", lambda _: cn.KMeans(3, epsilon=4.0, delta=1e-6), exact_clusters, 3.0),
    "KC House, k-median": ("kc_house", lambda _: cn.KMedian(2, epsilon=4.0, delta=1e-6), exact_clusters, 3.0),
}
SLICE = {"KC House, linear", "KC House, components"}


@pytest.mark.every(4)
@pytest.mark.parametrize("case", [pytest.param(c, marks=() if c in SLICE else pytest.mark.full) for c in CASES])
def test_intervals_cover_the_exact_figure_as_often_as_they_say(case, shared_data):
    name, make, exact, epsilon = CASES[case]
    data = getattr(public, name)(shared_data)
    fitted_on, evaluated_on, rows = divided(data, 3_000, kit.source(case).bytes(32))
    with fitted_on, evaluated_on:
        model = make(data.target).fit(fitted_on)
        figures = exact(model, rows)
        missed = dict.fromkeys(figures, 0)
        for repeat in range(1, SEEDS + 1):
            found = model.evaluate(evaluated_on, epsilon=epsilon, delta=1e-6, repeat=repeat, level=LEVEL)
            for figure, value in figures.items():
                missed[figure] += not found[figure].covers(value)
    for figure, count in missed.items():
        assert stats.binom.sf(count - 1, SEEDS, 1 - LEVEL) > kit.ALPHA, (figure, count)
    assert sum(missed.values()) <= 0.15 * SEEDS * len(missed) + 2


def noisy(moments, generator):
    upper = np.triu(generator.normal(size=moments.matrix.shape) * np.sqrt(moments.variance))
    return ScoreMoments(moments.matrix + upper + np.triu(upper, 1).T, moments.variance, moments.steps, moments.people)


def test_errors_are_as_large_as_the_intervals_say_and_not_larger():
    """Squared errors over squared standard errors, over many draws of the noise: ×0.9 and ×1.1 would show."""
    generator, draws, people = kit.generator("moment metrics"), 20_000, 500
    columns = np.column_stack([np.ones(people), generator.normal(size=(people, 4))])
    variance = np.triu(generator.uniform(50, 200, (5, 5)))
    variance = variance + np.triu(variance, 1).T
    variance[0, 0] = 0.0
    exact = ScoreMoments(columns.T @ columns, variance, np.zeros(5), people)
    direction = np.array([0.5, -1.0, 1.0, -1.0, 0.3])
    for figure in (ScoreMoments.mean_square, ScoreMoments.mean):
        truth = figure(exact, direction)[0]
        found = np.array([figure(noisy(exact, generator), direction) for _ in range(draws)])
        squares = float(np.sum(((found[:, 0] - truth) / found[:, 1]) ** 2))
        low, high = stats.chi2.ppf([kit.ALPHA / 2, 1 - kit.ALPHA / 2], draws)
        assert low < squares < high
        assert not low < squares / 0.9**2 < high
        assert not low < squares / 1.1**2 < high


# With enough budget, the figures are the exact ones -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generous():
    tables = frames(600, seed=3)
    with federation(tables=tables, epsilon=10_000.0) as f:
        yield f, joined(tables)


def test_with_almost_no_noise_regression_figures_are_the_exact_ones(generous):
    f, rows = generous
    model = cn.LinearRegression("telco.bill", epsilon=10.0, delta=1e-5).fit(f)
    found = model.evaluate(f, epsilon=500.0, delta=1e-5)
    for name, value in exact_regression(model, rows).items():
        assert found[name].value == pytest.approx(value, rel=2e-2, abs=2e-2)
        assert found[name].covers(value)


def test_with_almost_no_noise_classification_figures_are_the_exact_ones_up_to_rounding(generous):
    f, rows = generous
    model = cn.LogisticRegression("bank.default", method="secure", epsilon=10.0, delta=1e-5).fit(f)
    found = model.evaluate(f, epsilon=200.0)
    for name, value in exact_classification(model, rows).items():
        assert found[name].value == pytest.approx(value, abs=0.02)
        assert found[name].covers(value)
    confusion = found.tables["confusion"]["count"].unstack()
    expected = pd.crosstab(rows["bank.default"], model.predict(rows)).reindex(columns=confusion.columns, fill_value=0)
    assert confusion.to_numpy().sum() == pytest.approx(600, abs=1)
    assert np.max(np.abs(confusion.to_numpy() - expected.to_numpy())) < 15
    calibration = found.tables["calibration"]
    assert calibration["people"].sum() == pytest.approx(600, abs=1)
    assert list(calibration.columns) == ["people", "predicted", "observed", "low", "high"]


# Price, statement, secrecy --------------------------------------------------------------------------------------------------

MODELS = {
    "linear": lambda: cn.LinearRegression("telco.bill", epsilon=1.0, delta=1e-5),
    "logistic": lambda: cn.LogisticRegression("bank.default", method="secure", epsilon=1.0, delta=1e-5),
    "three classes": lambda: cn.LogisticRegression("bank.segment", method="secure", epsilon=1.0, delta=1e-5),
    "pca": lambda: cn.PCA(2, epsilon=1.0, delta=1e-5),
    "k-means": lambda: cn.KMeans(3, epsilon=2.0, delta=1e-5),
}


@pytest.mark.every(6)
@pytest.mark.parametrize("unit", ["person", "party"])
@pytest.mark.parametrize("name", MODELS)
def test_an_evaluation_costs_what_was_offered_and_asking_again_nothing(name, unit):
    with federation(200, epsilon=50.0) as f:
        model = MODELS[name]().fit(f)
        before = f.budget()["spent"]
        found = model.evaluate(f, epsilon=1.5, delta=1e-5, unit=unit)
        assert 0 < found.privacy_.epsilon(observer="coordinator", unit=unit) <= 1.5
        assert found.privacy_.epsilon(observer=("coordinator", "telco"), unit=unit) <= 1.5 + 1e-9
        after = f.budget()["spent"]
        assert (after > before).all()
        again = model.evaluate(f, epsilon=1.5, delta=1e-5, unit=unit)
        assert f.budget()["spent"].equals(after)
        assert again.table().equals(found.table())
        assert model.evaluate(f, epsilon=1.5, delta=1e-5, unit=unit, repeat=2).table().equals(found.table()) is False


@pytest.mark.every(3)
@pytest.mark.parametrize("name", MODELS)
def test_what_leaves_is_shares_letters_and_private_releases_and_sizes_tell_nothing(name):
    """Two neighbouring data sets: the same messages in the same order, of the same sizes, whoever is missing."""

    def exchanges(tables):
        with kit.zeroed_out(), federation(tables=tables, epsilon=50.0) as f:
            model = MODELS[name]().fit(public_federation)
            f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
            model.evaluate(f, epsilon=1.0, delta=1e-5)
            return recorded.exchanges

    with federation(200, epsilon=50.0) as public_federation:
        one, other = frames(200), frames(200)
        for frame in other.values():
            values = [column for column in frame.columns if column != "person_id"]
            frame.loc[frame.person_id == 17 * 7 + 3, values] = None
        seen = [exchanges(tables) for tables in (one, other)]
    for (requests, replies), (requests_again, replies_again) in zip(*seen, strict=True):
        assert {party: len(data) for party, data in requests.items()} == {p: len(d) for p, d in requests_again.items()}
        assert {party: len(data) for party, data in replies.items()} == {p: len(d) for p, d in replies_again.items()}
        for data in replies.values():
            reply = messages.decode_reply(data)
            if isinstance(reply, Posted | Opened):
                continue
            assert not isinstance(reply, Released) or reply.loss is not None


def test_a_pure_price_is_enough_for_a_classifier_and_not_for_moments():
    with federation(200, epsilon=50.0) as f:
        found = (
            cn.LogisticRegression("bank.default", method="secure", epsilon=1.0, delta=1e-5)
            .fit(f)
            .evaluate(f, epsilon=1.0)
        )
        assert found.privacy_.delta() == 0
        assert found.privacy_.epsilon() == pytest.approx(1.0, abs=1e-6)
        for model in (cn.LinearRegression("telco.bill", epsilon=1.0, delta=1e-5), cn.PCA(2, epsilon=1.0, delta=1e-5)):
            with pytest.raises(cn.BadInput, match="delta"):
                model.fit(f).evaluate(f, epsilon=1.0)


def test_a_policy_can_refuse_evaluations():
    with federation(200, policies={"telco": cn.Policy(allow=["LinearRegression"])}) as f:
        model = cn.LinearRegression("telco.bill", epsilon=1.0, delta=1e-5).fit(f)
        with pytest.raises(cn.PolicyRefusal, match="kind of study"):
            model.evaluate(f, epsilon=1.0, delta=1e-5)
