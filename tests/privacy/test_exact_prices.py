"""What is stated is never below what a release costs, and hardly above it: beside direct sums and dp-accounting."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from colonnade.coordinator.protocols.counting import Heights
from colonnade.privacy.accounting import (
    GAUSSIAN_PART,
    GRID,
    NANO,
    NOTHING,
    RENYI_GRID,
    SEVERAL,
    Loss,
    Price,
    largest_pure,
    of_several,
    total,
)
from colonnade.privacy.calibration import budget_loss, gaussian_loss, gaussian_sigma_squared, ledger_rho
from colonnade.privacy.gaussian import UNIT
from colonnade.privacy.laws.tables import GroupNoise

DELTA = 1e-6


def smallest_epsilon(delta_at, delta=DELTA) -> float:
    low, high = 0.0, 64.0
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2))


@pytest.mark.parametrize(("epsilon", "needed"), [(0.1, 36.3047), (1.0, 4.22468), (10.0, 0.541087)])
def test_the_noise_of_a_release_is_within_a_hundredth_of_what_is_needed(epsilon, needed):
    sigma = math.sqrt(gaussian_sigma_squared(Price.of(epsilon, DELTA), 10**8)) / 10**4
    assert needed * (1 - 1e-5) <= sigma <= 1.01 * needed


COALITIONS = [(3, 3, 1), (8, 3, 1), (10, 5, 2), (20, 4, 1), (12, 2, 0)]


@pytest.mark.parametrize(("epsilon", "parties", "collusion"), COALITIONS)
def test_counts_by_group_in_shares_cost_what_their_convolution_says(epsilon, parties, collusion):
    price, holders = Price.of(epsilon, DELTA), min(parties, 3)
    height = Heights.of_counts(price, holders).height ** holders
    noise = GroupNoise(tuple("abcde"[:parties]), (), height, 1, 0, 9, price, "person", collusion)
    places = np.arange(-400, 401)
    one = np.exp(-(places**2) / (2 * float(noise.share)))
    law = np.ones(1)
    for _ in range(parties - collusion):
        law = np.convolve(law, one / one.sum())
    law = np.pad(law, height)
    exact = smallest_epsilon(lambda e: np.maximum(law[height:] - math.exp(e) * law[:-height], 0).sum())
    assert exact <= noise.loss().epsilon(DELTA) <= min(1.02 * exact, epsilon)


@pytest.mark.parametrize("releases", [1, 10, 100, 1_000])
def test_ledgers_of_gaussian_plans_are_within_a_hundredth_of_privacy_loss_distributions(releases):
    rho = ledger_rho(Price.of(1.0, DELTA)) / releases
    stated = of_several([budget_loss(rho)] * releases).epsilon(DELTA)
    peer = pld.from_gaussian_mechanism(math.sqrt(1 / (2 * float(rho)))).self_compose(releases)
    exact = peer.get_epsilon_for_delta(DELTA)
    assert smallest_epsilon(lambda e: gaussian_delta(math.sqrt(2 * float(rho) * releases), e)) <= stated
    assert stated <= 1.01 * exact


@pytest.mark.parametrize("scale", [1, 4, 30])
def test_a_release_costs_less_than_by_opendps_curve_and_no_less_than_its_law_says(scale):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    peer = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=float(scale))
    by_curve = dp.c.make_zCDP_to_approxDP(peer).map(1.0).epsilon(DELTA)
    places = np.arange(-40 * scale, 40 * scale + 1)
    law = np.exp(-(places**2) / (2 * scale**2))
    law /= law.sum()
    exact = smallest_epsilon(lambda e: np.maximum(law[1:] - math.exp(e) * law[:-1], 0).sum())
    assert exact <= gaussian_loss(1, Fraction(scale**2)).epsilon(DELTA) <= by_curve


@pytest.mark.parametrize("pures", [(0.1,), (0.3,), (0.1, 0.1, 0.1), (0.5, 0.02)])
@pytest.mark.parametrize("offer", [0.2, 1.0])
def test_a_mixed_plan_costs_what_the_average_over_its_pure_losses_says(offer, pures):
    gaussian = budget_loss(ledger_rho(Price.of(offer, DELTA)))
    mu = math.sqrt(gaussian.gaussian / UNIT)

    def delta(epsilon: float) -> float:
        found = 0.0
        for signs in product((1, -1), repeat=len(pures)):
            chance = math.prod(1 / (1 + math.exp(-sign * one)) for sign, one in zip(signs, pures, strict=True))
            found += chance * gaussian_delta(mu, epsilon - sum(s * one for s, one in zip(signs, pures, strict=True)))
        return found

    plan = total([gaussian, *(Loss.of_pure(int(one * NANO)) for one in pures)])
    exact = smallest_epsilon(delta)
    assert exact <= plan.epsilon(DELTA) <= 1.001 * exact
    assert of_several([plan, NOTHING]).epsilon(DELTA) == plan.epsilon(DELTA)


def test_pure_losses_of_one_plan_are_within_a_hundredth_of_privacy_loss_distributions():
    peer = pld.from_randomized_response(1 / (1 + math.exp(0.1)) * 2, 2).self_compose(50)
    exact = peer.get_epsilon_for_delta(DELTA)
    assert total([Loss.of_pure(NANO // 10)] * 50).epsilon(DELTA) <= 1.01 * exact


# One plan and several -------------------------------------------------------------------------------------------------------


@given(st.integers(10**7, 10**10), st.sampled_from([1e-9, 1e-6, 1e-3]), st.integers(2, 6))
def test_several_plans_divide_delta_and_one_does_not(nano, delta, parts):
    price = Price(nano, delta)
    one = budget_loss(ledger_rho(price, parts))
    assert (one * parts).of_plan(b"a").fits(nano, delta)
    assert not of_several([one] * parts).fits(nano, delta)
    assert of_several([one] * parts).fits(nano, delta / GAUSSIAN_PART)


def test_parts_of_the_same_plan_stay_one_plan_whatever_their_order():
    a, b = Loss.of_pure(1).of_plan(b"a"), Loss.of_pure(2).of_plan(b"b")
    assert (a + a).plan == (NOTHING + a).plan == (a + NOTHING).plan == b"a"
    assert (a + b).plan == (a + b + a).plan == SEVERAL
    assert Loss.from_bytes((a + b).to_bytes()).plan == SEVERAL
    assert (a + b).of_plan(b"c").plan == SEVERAL


@given(st.lists(st.integers(1, 10**9), max_size=4), st.sampled_from([1e-9, 1e-6]))
def test_the_room_that_is_left_fits_and_a_nano_more_does_not(paid, delta):
    spent = of_several([Loss.of_pure(nano) for nano in paid])
    room = largest_pure(spent, 2 * NANO, delta)
    assert not room or of_several((spent, Loss.of_pure(room))).fits(2 * NANO, delta)
    assert room == 2 * NANO or not of_several((spent, Loss.of_pure(room + 1))).fits(2 * NANO, delta)


def test_a_ledger_of_before_keeps_its_figures():
    old = Loss(budget_loss(Fraction(1, 50)).renyi, None)
    data = old.to_bytes(RENYI_GRID)
    again = Loss.from_bytes(data)
    assert (again, again.gaussian) == (old, None)
    assert len(data) < len(old.to_bytes(GRID))
    assert (again.of_plan(b"a") + again.of_plan(b"b")).epsilon(DELTA) == (old * 2).epsilon(DELTA)
    assert (again + budget_loss(Fraction(1, 50))).gaussian is None


# Any ε and any δ ------------------------------------------------------------------------------------------------------------

LOSSES = {
    "gaussian": gaussian_loss(1, Fraction(20)),
    "pure": Loss.of_pure(NANO // 2),
    "mixed": gaussian_loss(1, Fraction(20)) + Loss.of_pure(NANO // 5),
    "curve": Loss.of_zcdp(Fraction(1, 30)),
    "several": of_several([gaussian_loss(1, Fraction(20)), Loss.of_pure(NANO // 5)]),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_delta_at_the_epsilon_of_a_delta_is_that_delta_at_most_and_hardly_less(loss, delta):
    epsilon = loss.epsilon(delta)
    assert loss.delta(epsilon) <= delta * (1 + 1e-6)
    if loss.pure is None and epsilon > 0:
        assert loss.delta(epsilon * 0.999) > delta * 0.99


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_no_test_misses_less_than_is_stated_and_guessing_misses_the_rest(loss):
    shares = np.linspace(0, 1, 21)
    misses = [loss.misses(float(one)) for one in shares]
    assert all(np.diff(misses) <= 1e-12)
    assert all(0 <= found <= 1 - alarms + 1e-12 for found, alarms in zip(misses, shares, strict=True))
    for epsilon in (0.1, 0.5, 2.0):
        bound = 1 - loss.delta(epsilon) - math.exp(epsilon) * shares
        assert np.all(np.array(misses) >= bound - 0.02)
