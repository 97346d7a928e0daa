"""Calibration: known answers, and the direction of every rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ive, logsumexp

from colonnade.errors import BadInput
from colonnade.privacy import calibration as cal
from colonnade.privacy import calibration as curves
from colonnade.privacy.accounting import NANO, Loss, Price
from colonnade.privacy.gaussian import ROUNDED, UNIT
from tests.privacy.references import zcdp_rho

prices = st.builds(Price, st.integers(20_000_000, 10**11), st.floats(-12, -1.5).map(lambda power: 10**power))


# Known answers: docs/proofs/gram.md and docs/proofs/discrete-gaussian.md --------------------------------


def test_the_known_answer_of_zcdp() -> None:
    assert f"{zcdp_rho(1, 1e-5):.9f}" == "0.030556595"


def test_known_answers_of_discrete_laplace() -> None:
    assert f"{cal.discrete_laplace_variance(Fraction(2)):.9f}" == "7.835396178"
    a = math.exp(-0.5)
    assert cal.discrete_laplace_variance(2.0) == pytest.approx(2 * a / (1 - a) ** 2, rel=1e-14)


def test_known_answers_of_skellam_noise() -> None:
    assert curves.skellam_rdp(2, 1, 1, 2) == 0.390625
    assert curves.skellam_rdp(8, 5, 25, 20) == 2.56328125


def test_known_answers_of_summed_discrete_gaussians() -> None:
    assert curves.sum_correction(1, 2) == pytest.approx(5.2e-4, rel=0.01)
    assert curves.sum_correction(4, 2) == pytest.approx(7e-17, rel=0.03)
    assert curves.sum_correction(9, 2) < 1e-37
    assert curves.sum_correction(Fraction(1, 4), 1) == 0


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_parameters_that_cannot_be_meant_are_refused(bad: float) -> None:
    with pytest.raises(BadInput):
        cal.discrete_laplace_variance(bad)


# The ledger's own curve ----------------------------------------------------------------------------


@given(prices)
def test_the_ledgers_rho_fits_and_a_larger_one_does_not(price: Price) -> None:
    rho = cal.ledger_rho(price)
    assert cal.budget_loss(rho).fits(price.nano, price.delta)
    larger = rho * (1 + Fraction(1, 10**6)) + Fraction(2, NANO)
    assert not Loss.of_curve(lambda _: 10_000.0, math.ceil(2 * larger * UNIT)).fits(price.nano, price.delta)


@given(prices)
def test_the_largest_rho_of_a_curve_fits_and_a_larger_one_does_not(price: Price) -> None:
    rho = cal.renyi_rho(price)
    assert Loss.of_zcdp(rho).fits(price.nano, price.delta)
    assert not Loss.of_zcdp(rho * (1 + Fraction(1, 10**6)) + Fraction(2, NANO)).fits(price.nano, price.delta)


@given(prices, st.integers(1, 2**60))
def test_gaussian_noise_at_a_caps_price_fits_a_fresh_ledger(price: Price, squared: int) -> None:
    variance = cal.gaussian_sigma_squared(price, squared)
    assert cal.gaussian_loss(squared, variance).fits(price.nano, price.delta)
    assert variance <= (squared / (2 * cal.ledger_rho(price)) + ROUNDED) * (1 + Fraction(1, 2**30))
    odd = variance.numerator >> (variance.numerator & -variance.numerator).bit_length() - 1
    assert odd.bit_length() <= 34
    assert variance.denominator & (variance.denominator - 1) == 0


@given(st.integers(1, 10**13), st.fractions(min_value=Fraction(1, 1000), max_value=10**6))
def test_the_laplace_scale_is_exact(nano: int, sensitivity: Fraction) -> None:
    assert sensitivity / cal.laplace_scale(Price(nano, 0.0), sensitivity) == Fraction(nano, NANO)


@given(st.integers(10**8, 10**11), st.sampled_from([1e-8, 1e-6, 1e-5, 1e-3, 0.02]), st.integers(1, 6))
def test_parties_shares_of_gaussian_noise_compose_to_the_promise(nano: int, delta: float, parties: int) -> None:
    price = Price(nano, delta)
    share = cal.gaussian_party_price(price, parties, "person")
    rho = cal.ledger_rho(share)
    assert (cal.budget_loss(rho) * parties).fits(price.nano, delta)
    assert parties * rho >= cal.ledger_rho(price) * (1 - Fraction(1, 10**4))
    assert cal.gaussian_party_price(price, parties, "party") == price


@given(
    st.fractions(min_value=Fraction(1, 10**12), max_value=100),
    st.sampled_from([0.5, 0.05, 1 / 200, 1e-3, 2e-4, 1.5e-4, 1e-6, 1e-12]),
)
def test_every_rho_has_a_price_that_buys_it_and_no_more_at_this_delta_or_a_smaller_one(
    rho: Fraction, delta: float
) -> None:
    price = cal.price_of_rho(rho, delta)
    bought = cal.ledger_rho(price)
    assert price.delta <= delta
    assert bought <= rho < bought + Fraction(1, NANO)
    assert cal.budget_loss(bought).fits(price.nano, price.delta)


@given(prices, st.integers(1, 9), st.integers(1, 10**7))
def test_equal_parts_beside_another_loss_fit_a_price_together_and_larger_ones_do_not(
    price: Price, parts: int, other: int
) -> None:
    besides = cal.budget_loss(Fraction(other, 10**12))
    try:
        rho = cal.ledger_rho(price, parts, besides=besides)
    except BadInput:
        assert not (cal.budget_loss(Fraction(1, NANO)) * parts + besides).fits(price.nano, price.delta)
        return
    assert (cal.budget_loss(rho) * parts + besides).fits(price.nano, price.delta)
    larger = rho * (1 + Fraction(1, 10**6)) + Fraction(2, NANO)
    assert not (cal.budget_loss(larger) * parts + besides).fits(price.nano, price.delta)


def test_gaussian_noise_without_delta_is_refused() -> None:
    with pytest.raises(BadInput, match="delta"):
        cal.ledger_rho(Price.of(1.0))


@pytest.mark.parametrize("bad", [0, -1, 0.5, True, "1", Fraction(-1, 2)])
def test_sensitivities_are_positive_exact_rationals(bad: object) -> None:
    for function in (cal.laplace_scale, cal.gaussian_sigma_squared):
        with pytest.raises(BadInput):
            function(Price.of(1.0, 1e-5), bad)


# Rényi curves, against exact one-dimensional divergences -------------------------------------------


def divergences(log_p: np.ndarray, shift: int, orders: list[float]) -> list[float]:
    first, second = log_p[shift:], log_p[:-shift]
    return [float(logsumexp(a * first + (1 - a) * second)) / (a - 1) for a in orders]


def test_exact_skellam_divergences_stay_below_the_bound() -> None:
    for mean, shift in [(2, 1), (5, 2), (20, 5), (100, 3)]:
        values = np.arange(-600, 601)
        with np.errstate(divide="ignore"):
            log_p = np.log(ive(np.abs(values), 2.0 * mean))
        log_p = log_p[np.isfinite(log_p)]
        orders = [1.25, 1.5, 2, 2.25, 3, 3.75, 5, 8]
        for order, exact in zip(orders, divergences(log_p, shift, orders), strict=True):
            assert exact <= curves.skellam_rdp(order, shift, shift**2, mean)


def test_exact_skellam_divergences_are_the_known_ones() -> None:
    for mean, shift, order, expected in [(2, 1, 2, 0.2457213156), (20, 5, 8, 2.174941865)]:
        log_p = np.log(ive(np.abs(np.arange(-120, 121)), 2.0 * mean))
        assert divergences(log_p, shift, [order])[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.every(3)
@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("shares", [1, 2, 3, 5])
def test_exact_divergences_of_summed_discrete_gaussians_stay_below_the_bound(variance: Fraction, shares: int) -> None:
    width = 30
    one = np.exp(-(np.arange(-width, width + 1) ** 2) / (2 * float(variance)))
    law = one / one.sum()
    for _ in range(shares - 1):
        law = np.convolve(law, one / one.sum())
    kept = np.log(law[law > 1e-280])
    for shift in (1, 2):
        orders = [1.125, 1.5, 2.0, 4.0, 8.0]
        bound = float(curves.summed_gaussian_rho(shift**2, variance, shares, 1))
        for order, exact in zip(orders, divergences(kept, shift, orders), strict=True):
            assert exact <= order * bound * (1 + 1e-12)


@given(prices, st.integers(1, 2**50), st.integers(1, 20))
def test_shares_of_gaussian_noise_fit_a_fresh_ledger(price: Price, squared: int, shares: int) -> None:
    share = curves.gaussian_share_variance(price, squared, shares)
    loss = curves.gaussian_loss(squared, share, shares)
    assert loss.fits(price.nano, price.delta)
    assert loss.gaussian >= squared / (shares * share) * UNIT


def test_a_curve_between_whole_orders_lies_below_its_chord_and_meets_it_at_whole_orders() -> None:
    def gaussian(order: float) -> float:
        return 0.3 * order

    for order in (1.125, 1.5, 2, 2.25, 3, 9.75):
        between = curves.between_whole_orders(gaussian, order)
        assert between >= gaussian(order) * (1 - 1e-12)
        assert between <= gaussian(math.ceil(max(order, 2))) * (1 + 1e-12)
        if order == int(order):
            assert between == pytest.approx(gaussian(order), rel=1e-12)


@pytest.mark.parametrize("half", [1.0, 100.0, 299.0, 301.0])
def test_the_variance_of_next_to_no_laplace_noise_has_one_formula_where_it_changes_its_form(half: float) -> None:
    exact = math.exp(-2 * half) * 2 / (1 - math.exp(-2 * half)) ** 2
    assert cal.discrete_laplace_variance(Fraction(1) / Fraction(2 * half)) == pytest.approx(exact, rel=1e-12)
    assert cal.discrete_laplace_variance(Fraction(1, 10_000)) == 0
