"""Losses never understate: against 60-digit arithmetic, against exact rationals, against arbitrary mechanisms."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from colonnade.errors import BadInput
from colonnade.privacy.accounting import NANO, NOTHING, ORDERS, Loss, conversion_nano, nano_up, of_several, total

NANOS = [1, 999, 10**6, 5 * 10**7, 5 * 10**8, 10**9, 3 * 10**9, 4 * 10**10, 10**13]
DELTAS = [1e-100, 1e-12, 1e-6, 1e-5, 0.01, 0.5, 0.99]
nanos = st.integers(1, 10**13)
rhos = st.fractions(min_value=Fraction(1, 10**12), max_value=100)


def exact(order: Fraction) -> mpmath.mpf:
    return mpmath.mpf(order.numerator) / order.denominator


def is_just_above(entry: int, value: mpmath.mpf) -> bool:
    """Rounded up in nano-units, and no more than the stated pad and one unit too high."""
    nano = value * NANO
    return nano <= entry <= nano * (1 + mpmath.mpf("1.1e-12")) + 1.001


@pytest.mark.every(3)
@pytest.mark.parametrize("nano", NANOS)
def test_a_pure_curve_is_that_of_binary_randomised_response_rounded_up(nano: int) -> None:
    with mpmath.workdps(60):
        epsilon = mpmath.mpf(nano) / NANO
        p = 1 / (1 + mpmath.exp(-epsilon))
        for entry, order in zip(Loss.of_pure(nano).renyi, ORDERS, strict=True):
            alpha = exact(order)
            moment = p * mpmath.exp((alpha - 1) * epsilon) + (1 - p) * mpmath.exp((1 - alpha) * epsilon)
            assert is_just_above(entry, mpmath.log(moment) / (alpha - 1)), order


@pytest.mark.parametrize("delta", DELTAS)
def test_the_conversion_is_rounded_up(delta: float) -> None:
    with mpmath.workdps(60):
        for entry, order in zip(conversion_nano(delta), ORDERS, strict=True):
            alpha = exact(order)
            term = -mpmath.log(delta) + (alpha - 1) * mpmath.log(1 - 1 / alpha) - mpmath.log(alpha)
            nano = term / (alpha - 1) * NANO
            assert nano <= entry <= nano + abs(nano) * mpmath.mpf("1.1e-12") + 1.001, order


@given(rhos)
def test_a_zcdp_curve_is_exact_and_rounded_up(rho: Fraction) -> None:
    assert Loss.of_zcdp(rho).renyi == tuple(math.ceil(rho * order * NANO) for order in ORDERS)


@given(st.floats(0, 1e6))
def test_rounding_to_nano_units_is_upwards_past_the_last_digits(value: float) -> None:
    assert Fraction(value) * NANO < nano_up(value) <= Fraction(value) * NANO * (1 + Fraction(11, 10**13)) + 2


@given(
    st.lists(st.floats(0.01, 1), min_size=2, max_size=6),
    st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    st.sampled_from([10**7, 10**8, 10**9, 3 * 10**9]),
)
def test_no_mechanism_with_bounded_ratios_passes_the_pure_curve(
    base: list[float], tilt: list[float], nano: int
) -> None:
    epsilon = nano / NANO
    weights = np.array(base)
    first = weights * np.exp(epsilon / 2 * np.array(tilt[: len(base)]))  # after normalising, ratios stay within e^ε
    p, q = first / first.sum(), weights / weights.sum()
    assert np.abs(np.log(p / q)).max() <= epsilon * (1 + 1e-12)
    for entry, order in zip(Loss.of_pure(nano).renyi, ORDERS, strict=True):
        alpha = float(order)
        divergence = logsumexp(alpha * np.log(p) + (1 - alpha) * np.log(q)) / (alpha - 1)
        assert divergence <= entry / NANO + 1e-12


@given(nanos, nanos, rhos, st.sampled_from(DELTAS))
def test_composition_adds_exactly_and_in_any_order(first: int, second: int, rho: Fraction, delta: float) -> None:
    a, b, c = Loss.of_pure(first), Loss.of_pure(second), Loss.of_zcdp(rho)
    assert total([a, b, c]) == c + b + a == a + (b + c) + NOTHING
    assert (a + b).pure == first + second
    assert (a + c).pure is None
    assert (a + b + c).epsilon(delta) >= c.epsilon(delta)
    several = of_several([a, b, c]).epsilon(delta)
    assert several >= max((a + c).epsilon(delta), (b + c).epsilon(delta), (a + b + c).epsilon(delta))


@given(nanos, st.sampled_from(DELTAS))
def test_a_single_pure_release_costs_at_most_its_epsilon(nano: int, delta: float) -> None:
    loss = Loss.of_pure(nano)
    assert loss.nano_epsilon(0.0) == nano
    assert loss.nano_epsilon(delta) <= nano
    assert loss.fits(nano, 0.0)
    assert not loss.fits(nano - 1, 0.0)


def test_a_loss_that_is_not_pure_has_no_epsilon_at_delta_zero() -> None:
    loss = Loss.of_zcdp(Fraction(1, 32))
    assert loss.epsilon(0.0) == math.inf
    assert not loss.fits(10**13, 0.0)


def test_a_curve_given_as_a_function_is_rounded_up_at_every_order() -> None:
    loss = Loss.of_curve(lambda alpha: 0.1 * alpha)
    assert all(entry >= Fraction(0.1 * float(order)) * NANO for entry, order in zip(loss.renyi, ORDERS, strict=True))
    assert loss.pure is None


@given(nanos, rhos)
def test_bytes_are_read_back(nano: int, rho: Fraction) -> None:
    for loss in (Loss.of_pure(nano), Loss.of_zcdp(rho), NOTHING):
        assert Loss.from_bytes(loss.to_bytes()) == loss
        assert hash(Loss.from_bytes(loss.to_bytes())) == hash(loss)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "1", None])
def test_only_positive_whole_nano_units_make_a_pure_loss(bad: object) -> None:
    with pytest.raises(BadInput):
        Loss.of_pure(bad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_a_curve_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(BadInput):
        Loss.of_curve(lambda _: bad)
