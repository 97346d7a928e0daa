"""Logistic regression from moments: close to the real thing without noise, calm under it."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from colonnade.estimation.regression import LogisticFit, logistic_from_moments
from colonnade.families import LOGISTIC
from colonnade.schema import INTERCEPT, Feature, features_of
from tests import kit
from tests.coordinator.releases import COLUMNS, coded, own, people, release

SIGNED = features_of(COLUMNS, signed=["telco.roaming"])


def chances_of(fit: LogisticFit, rows: np.ndarray) -> np.ndarray:
    return LOGISTIC.chances(rows @ fit.coefficients.T + fit.intercepts)


def log_loss(chances: np.ndarray, labels: np.ndarray) -> float:
    return float(-np.mean(np.log(chances[np.arange(len(labels)), labels])))


def test_without_noise_two_classes_are_the_linear_discriminant():
    rng = kit.generator("binary discriminant")
    labels = (rng.random(2000) < 0.3).astype(int)
    rows = rng.standard_normal((2000, 3)) * 0.2 + 0.2 * labels[:, None] * np.array([1.0, -0.5, 0.0])
    features = (INTERCEPT, *(Feature(f"a.x{i}", f"a.x{i}", "numeric") for i in range(3)))
    features += (Feature("a.y", "a.y", "sign", levels=("a.y=no", "a.y=yes")),)
    fit = logistic_from_moments(release(np.column_stack([np.ones(2000), rows, 2 * labels - 1]), features), "a.y")
    model = LinearDiscriminantAnalysis(solver="lsqr").fit(rows, labels)
    assert np.allclose(fit.coefficients, model.coef_, rtol=5e-3)  # scikit-learn divides by n, n_k, n − K in turn
    assert np.allclose(fit.intercepts, model.intercept_, rtol=5e-3, atol=5e-3)
    assert fit.shares == pytest.approx([1 - labels.mean(), labels.mean()])


def test_without_noise_several_classes_are_the_linear_discriminants():
    table = people(kit.generator("several classes"), 3000)
    fit = logistic_from_moments(
        release(coded(table)), "bank.segment", columns=["bank.age", "telco.minutes", "insurer.premium"]
    )
    rows = own(table, fit.names)
    model = LinearDiscriminantAnalysis(solver="lsqr").fit(rows, table["bank.segment"])
    assert fit.classes == ("bank.segment=basic", "bank.segment=gold", "bank.segment=platinum")
    assert np.allclose(chances_of(fit, rows), model.predict_proba(rows), atol=0.02)
    assert np.mean(chances_of(fit, rows).argmax(axis=1) == model.predict(rows)) > 0.99


def test_on_gaussian_columns_it_beats_the_taylor_expansion_at_zero():
    rng = kit.generator("taylor")
    rows = 0.3 * rng.standard_normal((40_000, 4))
    labels = (rng.random(40_000) < expit(rows @ [6.0, -4.0, 2.0, 0.0] - 2.5)).astype(int)
    design = np.column_stack([np.ones(40_000), rows, 2 * labels - 1.0])
    features = (INTERCEPT, *(Feature(f"a.x{i}", f"a.x{i}", "numeric") for i in range(4)))
    features += (Feature("a.y", "a.y", "sign", levels=("a.y=no", "a.y=yes")),)
    fit = logistic_from_moments(release(design, features), "a.y")
    taylor = np.linalg.solve(design[:, :5].T @ design[:, :5] / 4, design[:, :5].T @ (labels - 0.5))
    chance = expit(design[:, :5] @ taylor)
    expanded = log_loss(np.column_stack([1 - chance, chance]), labels)
    assert log_loss(chances_of(fit, rows), labels) < expanded - 0.02
    assert fit.coefficients[0] == pytest.approx([6.0, -4.0, 2.0, 0.0], abs=1.0)


def test_indefinite_noise_gives_finite_models_that_do_not_pretend_to_know():
    table = people(kit.generator("noisy classes"), 2000)
    labels = table["telco.roaming"]
    losses = []
    for draw in range(20):
        moments = release(coded(table, SIGNED), SIGNED, variance=1500.0**2, rng=np.random.default_rng(draw))
        assert np.linalg.eigvalsh(moments.matrix)[0] < 0
        for target in ("telco.roaming", "bank.segment", "insurer.region"):
            fit = logistic_from_moments(moments, target)
            chances = chances_of(fit, own(table, fit.names))
            assert np.all(np.isfinite(chances))
            assert np.allclose(chances.sum(axis=1), 1)
            assert np.all(fit.shares > 0)
            if target == "telco.roaming":
                losses.append(log_loss(np.clip(chances, 1e-9, 1), labels))
    assert np.median(losses) < 1.5


def test_moderate_noise_costs_little_accuracy():
    table = people(kit.generator("moderate"), 20_000)
    labels = table["telco.roaming"]
    exact = logistic_from_moments(release(coded(table, SIGNED), SIGNED), "telco.roaming")
    rows = own(table, exact.names)
    best = np.mean(chances_of(exact, rows).argmax(axis=1) == labels)
    rng = kit.generator("moderate noise")
    for _ in range(10):
        fit = logistic_from_moments(release(coded(table, SIGNED), SIGNED, variance=20.0**2, rng=rng), "telco.roaming")
        assert np.mean(chances_of(fit, rows).argmax(axis=1) == labels) > best - 0.03


def test_standard_errors_of_numeric_coefficients_are_the_spread_over_draws():
    table = people(kit.generator("logistic errors"), 20_000)
    rng = kit.generator("logistic errors: noise")
    rows = coded(table, SIGNED)
    fits = [logistic_from_moments(release(rows, SIGNED, variance=100.0, rng=rng), "telco.roaming") for _ in range(200)]
    numeric = ["=" not in name for name in fits[0].names]
    spread = np.std([fit.coefficients[0] for fit in fits], axis=0)
    claimed = np.mean([fit.errors[0] for fit in fits], axis=0)
    assert np.all(np.abs(spread / claimed - 1)[numeric] < 0.3)


def test_a_class_nobody_belongs_to_is_never_predicted():
    table = people(kit.generator("empty class"), 500)
    table["insurer.region"] = np.minimum(table["insurer.region"], 2)
    fit = logistic_from_moments(release(coded(table)), "insurer.region")
    assert np.max(chances_of(fit, own(table, fit.names))[:, 3]) < 0.05
