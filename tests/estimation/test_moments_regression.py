"""Linear and ridge regression from moments: exact without noise, sane with any."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge

from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import linear_from_moments, ridge_path
from colonnade.schema import INTERCEPT, Feature
from tests import kit
from tests.coordinator.releases import coded, own, people, release

TARGET = "insurer.premium"


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_without_noise_predictions_equal_least_squares_although_one_hot_groups_are_collinear(seed):
    table = people(np.random.default_rng(seed), 400)
    fit = linear_from_moments(release(coded(table)), TARGET)
    rows = own(table, fit.names)
    expected = LinearRegression().fit(rows, table[TARGET]).predict(rows)
    assert np.allclose(rows @ fit.coefficients + fit.intercept, expected, rtol=1e-6, atol=1e-5)
    assert not np.any(fit.errors)


@pytest.mark.every(2)
@pytest.mark.parametrize("ridge", [0.5, 20.0, 3000.0])
def test_without_noise_a_ridge_path_equals_ridge_regression_on_coded_columns(ridge):
    table = people(kit.generator("ridge"), 500)
    rows = coded(table)
    model = Ridge(alpha=ridge).fit(rows[:, 1:-1], table[TARGET])
    fit = ridge_path(release(rows), TARGET, [1.0, ridge])[1]
    predicted = own(table, fit.names) @ fit.coefficients + fit.intercept
    assert np.allclose(predicted, model.predict(rows[:, 1:-1]), rtol=1e-7)
    assert fit.ridge == ridge


def test_several_targets_and_feature_subsets_come_from_one_release():
    table = people(kit.generator("subsets"), 500)
    moments = release(coded(table))
    fit = linear_from_moments(moments, "telco.minutes", columns=["bank.age", "telco.roaming"])
    rows = own(table, fit.names)
    assert fit.names == ("bank.age", "telco.roaming=no", "telco.roaming=yes")
    expected = LinearRegression().fit(rows, table["telco.minutes"]).predict(rows)
    assert np.allclose(rows @ fit.coefficients + fit.intercept, expected)
    assert len(linear_from_moments(moments, "bank.age").names) == 11


def test_an_indefinite_release_is_solved_and_nothing_explodes():
    table = people(kit.generator("indefinite"), 300)
    rows = coded(table)
    for draw in range(20):
        rng = np.random.default_rng(draw)
        moments = release(rows, variance=300.0**2, rng=rng)
        assert np.linalg.eigvalsh(moments.matrix)[0] < 0
        fit = linear_from_moments(moments, TARGET)
        predicted = own(table, fit.names) @ fit.coefficients + fit.intercept
        assert np.all(np.isfinite(fit.coefficients))
        assert np.all(np.isfinite(fit.errors))
        assert np.mean(np.abs(predicted - 1000)) < 4000  # the target's bounds are 0 to 2,000


def test_a_direction_of_pure_noise_neither_explodes_nor_takes_the_others_with_it():
    # Solving with the fitted weights inside the noise cycles here: 0.4 of curvature under noise of 7 asks for a weight in
    # the hundreds, whose own noise then drowns the strong direction.
    features = (INTERCEPT, *(Feature(f"a.{name}", f"a.{name}", "numeric") for name in ("weak", "strong", "y")))
    matrix = np.diag([20_000.0, 0.4, 5_000.0, 6_000.0])
    matrix[1, 3] = matrix[3, 1] = 86.0
    matrix[2, 3] = matrix[3, 2] = 3_000.0
    variance = np.full((4, 4), 50.0) + 50.0 * np.eye(4)
    fit = linear_from_moments(Moments.of_release(matrix, variance, 20_000, features), "a.y")
    assert fit.coefficients[1] == pytest.approx(0.6, abs=0.01)
    assert abs(fit.coefficients[0]) < 10


def test_noise_alone_explains_nothing():
    rng = kit.generator("nothing to find")
    rows = np.column_stack([np.ones(20_000), rng.uniform(-1, 1, (20_000, 6))])
    features = [INTERCEPT, *(Feature(f"a.x{i}", f"a.x{i}", "numeric") for i in range(6))]
    sizes = [
        np.linalg.norm(linear_from_moments(release(rows, features, variance=2000.0**2, rng=rng), "a.x5").coefficients)
        for _ in range(40)
    ]
    assert np.median(sizes) < 0.2  # least squares would give about 2,000·√6/√2 / 6,667 = 0.5


def test_shrinking_beats_least_squares_when_noise_is_large_and_equals_it_when_noise_is_small():
    table = people(kit.generator("shrink"), 3000)
    rows = coded(table)
    best = linear_from_moments(release(rows), TARGET)
    small = linear_from_moments(release(rows, variance=0.1, rng=kit.generator("small")), TARGET)
    values = own(table, best.names)
    exact = values @ best.coefficients + best.intercept
    assert np.max(np.abs(values @ small.coefficients + small.intercept - exact)) < 10
    errors = {"shrunken": [], "plain": []}
    for _ in range(20):
        moments = release(rows, variance=150.0**2, rng=kit.generator("large"))
        fit = linear_from_moments(moments, TARGET)
        errors["shrunken"].append(np.mean((values @ fit.coefficients + fit.intercept - exact) ** 2))
        plain = np.linalg.lstsq(moments.matrix[:-1, :-1], moments.matrix[:-1, -1], rcond=None)[0]
        errors["plain"].append(np.mean((1000 + 1000 * rows[:, :-1] @ plain - exact) ** 2))
    assert np.median(errors["shrunken"]) < np.median(errors["plain"])


def test_standard_errors_are_the_spread_over_draws_of_the_noise():
    table = people(kit.generator("errors"), 20_000)
    rows = coded(table)
    rng = kit.generator("errors: noise")
    fits = [linear_from_moments(release(rows, variance=20.0**2, rng=rng), TARGET) for _ in range(300)]
    spread = np.std([fit.coefficients for fit in fits], axis=0)
    claimed = np.sqrt(np.mean([fit.errors**2 for fit in fits], axis=0))
    numeric = ["=" not in name for name in fits[0].names]
    assert np.all(np.abs(spread / claimed - 1)[numeric] < 0.15)
    # Only differences between the levels of a category are determined; their common part is shrunken, and the errors
    # are then too large rather than too small.
    assert np.all(spread < 1.15 * claimed)
    assert np.all(spread > 0.5 * claimed)
    intercepts = np.std([fit.intercept for fit in fits]) / np.mean([fit.intercept_error for fit in fits])
    assert 0.7 < intercepts < 1.3
