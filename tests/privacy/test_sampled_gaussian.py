"""Many noisy steps on secret samples: the known answers of docs/proofs/gradient-steps.md, a bound that no rounding undercuts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from colonnade.errors import BadInput
from colonnade.privacy.accounting import ORDERS, Loss, Price
from colonnade.privacy.calibration import largest_step_rho, sampled_loss, sampled_part_loss
from colonnade.privacy.gaussian import UNIT
from tests.privacy.references import subsampled_rdp

PRICE = Price.of(1.0, 1e-5)


def _multiplier(rate: float, steps: int) -> float:
    return 1 / math.sqrt(2 * largest_step_rho(PRICE, rate, steps))


def _without_the_factor(alpha: int, rate: float, rho: float) -> float:
    """Lemma 13 of the paper as written."""
    if rho * alpha * (alpha - 1) > 700:
        return math.inf
    terms = (
        math.comb(alpha, drawn) * (1 - rate) ** (alpha - drawn) * rate**drawn * math.expm1(rho * drawn * (drawn - 1))
        for drawn in range(2, alpha + 1)
    )
    return math.log1p(math.fsum(terms)) / (alpha - 1)


def test_the_fused_gradient_has_the_known_noise() -> None:
    """ε = 1, T = 5000, b = 0.001: 0.6672 fused against 1.7652 for the paper's three vectors, which is √7 as much."""
    fused = 0.75 * _multiplier(0.001, 5_000)
    three = math.sqrt(3 * (0.25 + 0.0625 + 1.0)) * _multiplier(0.001, 5_000)
    assert round(fused, 4) == 0.6672
    assert round(three, 4) == 1.7652
    assert round(three / fused, 3) == 2.646


def test_one_sampled_step_has_the_known_divergence() -> None:
    """α = 8, q = 0.01, τ_l = 0.05·l: 6.3228112338e-5 with the factor 3, 4.2342274898e-5 without."""
    at_eight = sampled_loss(Fraction(1, 20), 0.01, 1).renyi[ORDERS.index(Fraction(8))]
    assert at_eight == math.ceil(6.3228112338e-5 * 1e9)
    assert math.isclose(subsampled_rdp(8, 0.01, lambda order: 0.05 * order), 6.3228112338e-5, rel_tol=1e-10)
    assert math.isclose(_without_the_factor(8, 0.01, 0.05), 4.2342274898e-5, rel_tol=1e-9)


@settings(max_examples=30, deadline=None)
@given(rho=st.floats(1e-8, 3.0), rate=st.floats(1e-5, 0.9), order=st.sampled_from([1.125, 2, 2.5, 7.75, 64, 256]))
def test_it_is_the_general_theorem_and_never_below_it(rho: float, rate: float, order: float) -> None:
    expected = subsampled_rdp(order, rate, lambda drawn: rho * drawn)
    found = sampled_loss(Fraction(rho), rate, 1).renyi[ORDERS.index(Fraction(order))] / 1e9
    assert expected <= found * (1 + 1e-12) + 1e-12
    assert found <= expected * (1 + 1e-6) + 3e-9


def test_steps_add_up_and_sampling_everyone_is_no_sampling() -> None:
    one, many = sampled_loss(Fraction(1, 3), 0.02, 1), sampled_loss(Fraction(1, 3), 0.02, 1_000)
    assert all(several <= 1_000 * single for several, single in zip(many.renyi, one.renyi, strict=True))
    assert sampled_loss(Fraction(1, 3), 1.0, 7) == Loss.of_zcdp(Fraction(7, 3), 7 * math.ceil(Fraction(2, 3) * UNIT))
    assert all(
        some <= everyone + 2 for some, everyone in zip(one.renyi, Loss.of_zcdp(Fraction(1, 3)).renyi, strict=True)
    )


@pytest.mark.parametrize(("rate", "steps"), [(0.01, 500), (0.3, 20), (1.0, 50), (0.001, 20_000)])
def test_a_price_buys_as_much_as_fits_and_no_more(rate: float, steps: int) -> None:
    rho = largest_step_rho(PRICE, rate, steps)
    assert sampled_loss(rho, rate, steps).fits(PRICE.nano, PRICE.delta)
    assert not sampled_loss(rho * Fraction(1001, 1000), rate, steps).fits(PRICE.nano, PRICE.delta)


def _mixtures(order: int, rate: float, one: float, other: float, sigma: float) -> float:
    """The exact Rényi divergence of one step on a line: a record at ``one`` against a record at ``other``, both sampled."""
    reach = 14 * sigma + 2 + order * abs(one - other)
    line = np.linspace(-reach, reach, 20_001)

    def log_density(place: float) -> np.ndarray:
        out, taken = stats.norm.logpdf(line, 0, sigma), stats.norm.logpdf(line, place, sigma)
        return np.logaddexp(math.log1p(-rate) + out, math.log(rate) + taken)

    powers = order * log_density(one) + (1 - order) * log_density(other)
    return float((logsumexp(powers) + math.log(line[1] - line[0])) / (order - 1))


@pytest.mark.every(3)
@pytest.mark.parametrize("sigma", [0.3, 0.9, pytest.param(3.0, marks=pytest.mark.full)])
@pytest.mark.parametrize("rate", [0.05, *(pytest.param(rate, marks=pytest.mark.full) for rate in (0.001, 0.4))])
def test_a_part_of_a_record_is_bounded_where_the_rest_of_it_takes_part(rate: float, sigma: float) -> None:
    """In both directions, at every place that a record and what is left of it may have."""
    for one, other in ((1.0, 0.5), (0.5, 1.0), (1.0, 0.9), (-0.5, 0.5), (0.0, 1.0), (1.0, 0.0)):
        whole, part = Fraction(1 / (2 * sigma**2)), Fraction((one - other) ** 2 / (2 * sigma**2))
        found = sampled_part_loss(whole, part, rate, 1)
        for order in (2, 3, 8, 32):
            exact = _mixtures(order, rate, one, other, sigma)
            assert exact <= found.renyi[ORDERS.index(Fraction(order))] / 1e9 + 1e-9


def test_the_theorem_for_whole_records_does_not_hold_for_parts() -> None:
    """Why parts have a bound of their own: a record that shows when it is sampled gives its part away in every such step."""
    sigma, rate = 0.2, 0.01
    part = Fraction(0.1**2 / (2 * sigma**2))
    claimed = sampled_loss(part, rate, 1).renyi[ORDERS.index(Fraction(8))] / 1e9
    assert _mixtures(8, rate, 1.0, 0.9, sigma) > 2 * claimed


@settings(max_examples=30, deadline=None)
@given(rho=st.floats(1e-6, 2.0), shares=st.floats(0.2, 0.8), rate=st.floats(1e-4, 0.9))
def test_parts_never_add_up_to_less_than_the_whole(rho: float, shares: float, rate: float) -> None:
    """So that adding what parties pay for their parts bounds what a person pays."""
    whole = sampled_loss(Fraction(rho), rate, 1)
    parts = [sampled_part_loss(Fraction(rho), Fraction(rho) * Fraction(one), rate, 1) for one in (shares, 1 - shares)]
    assert all(a + b >= c for a, b, c in zip(parts[0].renyi, parts[1].renyi, whole.renyi, strict=True))


def test_rates_steps_and_prices_that_make_no_sense_are_refused() -> None:
    for rate, steps in ((0.0, 5), (1.5, 5), (math.nan, 5), (0.5, 0), (0.5, True)):
        with pytest.raises(BadInput):
            sampled_loss(Fraction(1), rate, steps)
    with pytest.raises(BadInput, match="delta"):
        largest_step_rho(Price.of(1.0), 0.5, 5)
