"""The functions that undo discrete Laplace noise on average: unbiased, as in closed form, and of little variance."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.papers.estimation import NoiseLaw, UnbiasedPower
from colonnade.privacy.calibration import discrete_laplace_variance
from colonnade.privacy.samplers import discrete_laplace
from tests import kit

TWO = Fraction(2)  # ε = ½ at change 1
C = 3.917698089  # docs/proofs/values-and-moments.md


def mean(power: UnbiasedPower, total: int) -> tuple[float, float]:
    """E f and the size of its terms, over the law of the noise."""
    values = power(total + power.law.offsets)
    return float(power.law.weights @ values), float(power.law.weights @ np.abs(values))


def reference(power: float, scales: list[Fraction], g, y: int) -> float:
    """(I - cΔ²) applied once per party, by the definition (docs/proofs/values-and-moments.md)."""
    for scale in scales:
        a = math.exp(-1 / scale)
        c = a / (1 - a) ** 2
        g = lambda y, g=g, c=c: g(y) - c * (g(y + 1) - 2 * g(y) + g(y - 1))  # noqa: E731
    return g(y)


def test_the_known_answers_of_the_reference():
    assert discrete_laplace_variance(TWO) / 2 == pytest.approx(C, abs=1e-9)
    assert discrete_laplace_variance(TWO) == pytest.approx(7.835396178, abs=1e-9)
    y = np.array([-7, 0, 1, 12])
    np.testing.assert_allclose(UnbiasedPower(2, [TWO, TWO])(y), y**2 - 4 * C, rtol=1e-9)
    np.testing.assert_allclose(UnbiasedPower(4, [TWO])(y), y**4 - 12 * C * y**2 - 2 * C, rtol=1e-9)
    high = np.array([1, 5, 12])  # from v on the free side does not show
    np.testing.assert_allclose(UnbiasedPower(3, [TWO])(high), high**3 - 6 * C * high, rtol=1e-9)


SCALES = st.lists(
    st.sampled_from([Fraction(1, 3), Fraction(1), TWO, Fraction(5), Fraction(17, 2)]), min_size=1, max_size=3
)


@given(st.floats(0.1, 6.0), SCALES, st.integers(0, 60), st.integers(0, 80))
def test_the_mean_is_the_power_exactly_whatever_the_power_the_noise_and_the_sum(power, scales, lowest, above):
    estimate = UnbiasedPower(power, scales, lowest)
    found, size = mean(estimate, lowest + above)
    assert found == pytest.approx(float(lowest + above) ** power, abs=1e-9 * max(size, 1.0))


@pytest.mark.every(3)
@pytest.mark.parametrize("power", [0.5, 1.5, 2, 2.5, 3, 4, 5])
@pytest.mark.parametrize("scales", [[TWO], [TWO, Fraction(5)], [Fraction(10)] * 3])
def test_above_the_free_side_it_is_the_operator_applied_to_the_power(power, scales):
    estimate = UnbiasedPower(power, scales)
    for y in (len(scales), 9, 24, 25, 40):
        expected = reference(power, scales, lambda y: float(y) ** power, y)
        assert estimate(np.array([y]))[0] == pytest.approx(expected, rel=1e-7, abs=1e-5)


@pytest.mark.parametrize("power", [0.5, 2.5])
def test_far_out_no_digit_is_lost_to_differences(power):
    """At 10⁹ a sixth difference of y^p is beyond float64; the closed form is not."""
    import mpmath

    estimate = UnbiasedPower(power, [Fraction(10**5)] * 3)
    y = 10**9
    with mpmath.workdps(120):
        c = 1 / (4 * mpmath.sinh(mpmath.mpf(1) / (2 * 10**5)) ** 2)
        terms = [
            mpmath.binomial(3, k) * (-c) ** k * mpmath.binomial(2 * k, j) * (-1) ** j * mpmath.mpf(y + k - j) ** power
            for k in range(4)
            for j in range(2 * k + 1)
        ]
        exact = mpmath.fsum(terms)
    assert estimate(np.array([y]))[0] == pytest.approx(float(exact), rel=1e-12)


def test_the_stated_variance_is_that_of_draws():
    for power in (1.5, 2.0):
        estimate = UnbiasedPower(power, [TWO, Fraction(3)])
        for total in (0, 4, 30):
            draws = sum(
                discrete_laplace(scale, 100_000, kit.source(f"variance {power} {total} {scale}"))
                for scale in (TWO, Fraction(3))
            )
            found = estimate(total + draws)
            assert found.var() == pytest.approx(estimate.variance(total), rel=0.12)


def test_the_law_is_that_of_the_sum_also_where_it_is_coarse():
    fine, coarse = NoiseLaw([TWO, Fraction(5)]), NoiseLaw([Fraction(4_000), Fraction(9_000)])
    assert coarse.step > 1
    for law in (fine, coarse):
        assert law.weights.sum() == pytest.approx(1, abs=1e-9)
        assert law.weights @ law.offsets.astype(float) ** 2 == pytest.approx(law.variance, rel=1e-3)


@pytest.mark.parametrize(("power", "scales", "lowest"), [(0, [TWO], 0), (-1, [TWO], 0), (2, [], 0), (2, [TWO], -1)])
def test_what_makes_no_sense_is_refused(power, scales, lowest):
    with pytest.raises(BadInput):
        UnbiasedPower(power, scales, lowest)
