"""Predictions that a preview shows, held against simulations of what they predict."""

import numpy as np
import pytest

from colonnade.coding.features import features_of
from colonnade.errors import BadInput
from colonnade.estimation.expected_error import (
    expected_coefficient_error,
    expected_components_error,
    expected_table_error,
    gram_variance,
)
from colonnade.estimation.logistic_from_moments import logistic_from_moments
from colonnade.estimation.moments import noise_variance
from colonnade.estimation.pca_from_moments import pca_from_moments
from colonnade.schema import Category, Numeric
from tests import kit
from tests.coordinator.releases import release

COLUMNS = {
    "a.x": Numeric(0, 10),
    "a.c": Category(("p", "q", "r", "s")),
    "b.t": Category(("no", "yes")),
    "b.y": Numeric(-50, 50),
}


def plain(count: int, rng: np.random.Generator, *, signed: bool) -> np.ndarray:
    """Plain columns, coded: uniform numbers, equally likely levels."""
    answer = rng.integers(0, 2, count)
    coded = 2.0 * answer[:, None] - 1 if signed else np.eye(2)[answer]
    number, target = rng.uniform(-1, 1, (2, count, 1))
    return np.hstack([np.ones((count, 1)), number, np.eye(4)[rng.integers(0, 4, count)], coded, target])


def test_the_variance_of_a_gram_entry_is_that_of_the_gaussian_mechanism():
    assert gram_variance(16, 0.0305566) == pytest.approx((16 * 4.04513) ** 2, rel=1e-4)


def test_predicted_errors_of_linear_coefficients_are_those_of_plain_least_squares():
    features, rng = features_of(COLUMNS), kit.generator("preview linear")
    rows = plain(20_000, rng, signed=False)
    spread = noise_variance([None, *["a"] * 5, *["b"] * 3], 200.0, parties=2, collusion=1)
    expected = expected_coefficient_error(features, spread, 20_000, "b.y")
    noise = np.sqrt(spread[1:-1, -1]) * rng.standard_normal((3000, 7))
    means = rows.mean(axis=0)[1:-1]
    centred = rows[:, 1:-1] - means
    solved = 50 * noise @ np.linalg.pinv(centred.T @ centred, rcond=1e-9)
    assert expected.names == ("a.x", "a.c=p", "a.c=q", "a.c=r", "a.c=s", "b.t=no", "b.t=yes")
    assert np.allclose(expected.errors[1:], solved.std(axis=0)[1:], rtol=0.15)
    assert expected.errors[0] == pytest.approx(solved.std(axis=0)[0] / 5, rel=0.15)


@pytest.mark.parametrize("signed", [True, False])
def test_predicted_errors_of_log_odds_bound_what_a_fit_shows(signed):
    features = features_of(COLUMNS, signed=["b.t"] if signed else [])
    rng = kit.generator(f"preview logistic {signed}")
    rows = plain(20_000, rng, signed=signed)
    spread = np.full((len(features), len(features)), 50.0) + 50.0 * np.eye(len(features))
    expected = expected_coefficient_error(features, spread, 20_000, "b.t")
    fits = [logistic_from_moments(release(rows, features, variance=100.0, rng=rng), "b.t") for _ in range(400)]
    shown = np.std([fit.coefficients[0] for fit in fits], axis=0)
    assert expected.names == fits[0].names
    assert np.all(shown < 1.25 * expected.errors)  # a spread over 400 draws is known to 3.5 %


def test_the_expected_loss_of_components_lies_between_the_typical_and_the_worst():
    columns = {f"a.x{i}": Numeric(0, 1) for i in range(20)}
    features, rng = features_of(columns), kit.generator("preview components")
    basis = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    total = 20 / 3
    deviations = np.sqrt([total / 2 / 4] * 4 + [total / 2 / 16] * 16)
    rows = np.column_stack([np.ones(5000), (rng.standard_normal((5000, 20)) * deviations) @ basis.T])
    variance = np.full((20, 20), 50.0**2) + 50.0**2 * np.eye(20)
    expected = expected_components_error(features[1:], variance, 5000, 4)
    true = np.cov(rows[:, 1:].T)
    best = np.sort(np.linalg.eigvalsh(true))[-4:].sum()
    losses = []
    for _ in range(20):
        fit = pca_from_moments(release(rows, features, variance=2 * 50.0**2, rng=rng), 4)
        losses.append(best - np.trace(fit.components @ true @ fit.components.T))
    assert max(losses) < expected.largest_loss
    assert np.mean(losses) / best == pytest.approx(expected.typical_loss, rel=0.5)


def test_losses_vanish_with_the_noise_and_when_all_components_are_kept():
    features = features_of({"a.x": Numeric(0, 1), "a.y": Numeric(0, 1)})[1:]
    assert expected_components_error(features, np.zeros((2, 2)), 100, 1).typical_loss == 0
    assert expected_components_error(features, np.ones((2, 2)), 100, 2).typical_loss == 0
    assert 0 < expected_components_error(features, np.ones((2, 2)), 100, 1).typical_loss <= 1


def test_the_expected_error_of_a_table_is_that_of_its_noise():
    rng = kit.generator("preview table")
    expected = expected_table_error(25, 9.0, 100_000)
    drawn = np.abs(3.0 * rng.standard_normal((4000, 25))).sum(axis=1)
    assert expected.cell == 3.0
    assert expected.total == pytest.approx(drawn.mean(), rel=0.02)
    assert expected_table_error(1000, 1e12, 10).total == 20.0


def test_what_cannot_be_previewed_is_refused():
    features = features_of(COLUMNS)
    with pytest.raises(BadInput):
        gram_variance(0, 1)
    with pytest.raises(BadInput):
        expected_table_error(0, 1.0, 10)
    with pytest.raises(BadInput):
        expected_components_error(features[1:], np.ones((8, 8)), 10, 9)
    with pytest.raises(BadInput):
        expected_coefficient_error(features, np.ones((9, 9)), 10, "b.z")
