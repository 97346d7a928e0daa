"""The certified μ of discrete noise is never below the exact one, and hardly above it."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import log_expit, ndtri_exp
from scipy.stats import norm

from colonnade.privacy.gaussian import (
    LARGEST_TABLE,
    UNIT,
    delta_of,
    largest_mu_squared,
    mu_squared,
    mu_squared_of_pure,
    nano_epsilon,
    squared_step,
)


def pmf(variance, shares, half):
    places = np.arange(-half, half + 1)
    one = np.exp(-(places**2.0) / (2 * float(variance)))
    law = one / one.sum()
    for _ in range(shares - 1):
        law = np.convolve(law, one / one.sum(), mode="same")
    return law


def exact_delta(variance, shares, shift, epsilon):
    """The hockey stick of noise against the same noise moved by a whole number, summed up as it stands."""
    law = pmf(variance, shares, math.ceil(40 * math.sqrt(variance * shares)) + 4 * shift + 20)
    return float(np.maximum(law[shift:] - math.exp(epsilon) * law[:-shift], 0).sum())


@pytest.mark.parametrize(("epsilon", "needed"), [(0.1, 36.3047), (1.0, 4.22468), (10.0, 0.541087)])
def test_the_noise_that_is_needed_is_the_known_one(epsilon, needed):
    assert math.sqrt(UNIT / largest_mu_squared(int(epsilon * 1e9), 1e-6)) == pytest.approx(needed, rel=1e-4)


@pytest.mark.parametrize("mu", [1e-4, 0.05, 0.3, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 8.0])
def test_delta_is_the_exact_one_rounded_up(mu, epsilon):
    with mpmath.workdps(60):
        one = mpmath.mpf(mu) ** 2
        root, eps = mpmath.sqrt(one), mpmath.mpf(epsilon)
        if eps / root > 30:  # δ is below 10⁻¹⁹⁰, and no price has so small a one
            return
        exact = mpmath.ncdf(-eps / root + root / 2) - mpmath.e**eps * mpmath.ncdf(-eps / root - root / 2)
        found = mpmath.mpf(delta_of(math.ceil(Fraction(mu) ** 2 * UNIT), epsilon))
        assert found >= exact * (1 - mpmath.mpf(10) ** -15)
        assert found <= exact * (1 + mpmath.mpf(10) ** -8) + mpmath.mpf(10) ** -300


CASES = [(Fraction(1, 10), 1), (Fraction(1, 4), 2), (Fraction(1, 2), 3), (1, 1), (2, 5), (Fraction(17, 3), 1), (90, 4)]


@pytest.mark.parametrize(("variance", "shares"), CASES)
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_no_threshold_tells_a_moved_number_better_than_the_certified_gaussian(variance, shares, shift):
    mu = shift * math.sqrt(squared_step(*Fraction(variance).as_integer_ratio(), shares))
    law = pmf(variance, shares, math.ceil(40 * math.sqrt(variance * shares)) + 20)
    tails = np.cumsum(law[::-1])[::-1]
    alarms, hits = tails[shift:], tails[:-shift]
    seen = (alarms > 1e-250) & (hits < 0.9)  # the law is symmetric
    assert np.all(norm.isf(alarms[seen]) - norm.isf(hits[seen]) <= mu * (1 + 1e-11))


@pytest.mark.parametrize(("variance", "shares"), CASES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_delta_of_discrete_noise_is_within_that_of_its_mu(variance, shares, epsilon):
    squared = mu_squared(1, Fraction(variance), shares)
    assert exact_delta(variance, shares, 1, epsilon) <= delta_of(squared, epsilon) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("variance", [4, 16, 100, 1_000])
def test_the_certificate_costs_a_twelfth_of_the_variance_and_no_more(variance):
    step = float(squared_step(variance, 1))
    assert 1 / variance < step <= 1 / (variance - 1 / 12) * (1 + 1 / variance**2)


def test_large_and_small_noise_meet():
    below, above = (float(squared_step(LARGEST_TABLE + one, 1)) * (LARGEST_TABLE + one) for one in (0, 1))
    assert 1 < below < above < 1.001


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0, 30.0])
def test_a_pure_loss_is_the_corner_of_randomised_response(epsilon):
    mu = math.sqrt(mu_squared_of_pure(int(epsilon * 1e9)) / UNIT)
    corner = 1 / (1 + math.exp(epsilon))
    assert norm.cdf(norm.isf(corner) - mu) <= corner <= norm.cdf(norm.isf(corner) - mu * (1 - 3e-9))
    assert delta_of(mu_squared_of_pure(int(epsilon * 1e9)), epsilon) > 0


@given(st.floats(-20, 20), st.floats(0.001, 20))
def test_of_all_losses_in_an_interval_the_symmetric_one_is_the_least_gaussian(place, width):
    """Of answers whose odds differ by e^η, none is told apart more easily than those of a pure η/2."""
    apart = -ndtri_exp(log_expit(-place - width)) + ndtri_exp(log_expit(-place))
    assert apart <= math.sqrt(mu_squared_of_pure(math.ceil(width / 2 * 1e9)) / UNIT) * (1 + 1e-9)


def test_epsilon_is_the_smallest_that_holds():
    for mu in (0.01, 0.2, 1.0, 2.5):
        squared = math.ceil(mu**2 * UNIT)
        nano = nano_epsilon(squared, 1e-6)
        exact = optimize.brentq(
            lambda e, m=mu: norm.cdf(-e / m + m / 2) - math.exp(e) * norm.cdf(-e / m - m / 2) - 1e-6, 1e-9, 60
        )
        assert exact <= nano / 1e9 <= exact * (1 + 1e-6) + 2e-9
