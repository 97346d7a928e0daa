"""The noise of counts and sums by group: how much there is, what it costs whom, and that half of it would be found out."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.audit import distinguish
from colonnade.errors import BadInput
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import discrete_laplace_variance, ledger_rho
from colonnade.privacy.laws.tables import GroupNoise, value_to_count
from tests import kit

GAUSSIAN, PURE = Price.of(1.0, 1e-5), Price.of(1.0)


def noise_of(
    *, holders=("a", "b"), helpers=(), count=3, value=4, values=1, cells=6, price=GAUSSIAN, unit="person", collusion=1
):
    return GroupNoise(holders, helpers, count, value, values, cells, price, unit, collusion)


# Known answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("values", [0, 1, 5])
@pytest.mark.parametrize(("parties", "collusion"), [(1, 0), (2, 1), (3, 1), (3, 0), (5, 2)])
def test_gaussian_noise_is_that_of_one_curator_times_what_colluders_may_take_off(values, parties, collusion):
    """Δ₂² = H² + kG², and P shares are opened of which P − c suffice."""
    holders = tuple("abcde"[:parties])
    noise = noise_of(holders=holders, count=300, value=400, values=values, collusion=collusion)
    curator = (300**2 + values * 400**2) / (2 * float(ledger_rho(GAUSSIAN)))
    assert noise.opened_variance == pytest.approx(curator * parties / (parties - collusion), rel=1e-5)


def test_laplace_noise_has_the_scale_of_all_that_a_person_moves():
    noise = noise_of(price=PURE, values=2)
    assert noise.share == Fraction(3 + 2 * 4)
    assert noise.opened_variance == pytest.approx(2 * discrete_laplace_variance(Fraction(11)))
    assert noise.loss().epsilon(0.0) == 1.0


def test_helpers_make_the_noise_smaller_and_are_charged_next_to_nothing():
    alone, helped = noise_of(), noise_of(helpers=("c",))
    assert helped.opened_variance / alone.opened_variance == pytest.approx(1.5 / 2, rel=1e-3)
    assert helped.loss(party="c").epsilon(0.0) == 1e-9
    assert helped.loss(party="a") == helped.loss()


def test_the_division_between_counts_and_sums_is_the_best_for_means():
    """The variance of a mean of size ½ at a fixed H² + kG², over a fine grid of G/H."""
    for values in (1, 3, 10):
        ratios = np.geomspace(0.2, 5, 2_001)
        price = 1 + values * ratios**2
        variance = price / ratios**2 + 0.25 * price
        assert ratios[np.argmin(variance)] == pytest.approx(value_to_count(values), rel=0.01)


# What a person moves ----------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(data=st.data())
def test_no_person_moves_more_than_the_law_says(data):
    """Zero-out and replacement, for any groups and values."""
    count, value, values = (data.draw(st.integers(1, 9)) for _ in range(3))
    cells = data.draw(st.integers(1, 4))
    record = st.tuples(
        st.integers(0, cells - 1), st.lists(st.integers(-value, value), min_size=values, max_size=values)
    )

    def moved(person):
        table = np.zeros((1 + values, cells), dtype=np.int64)
        if person is not None:
            table[:, person[0]] = [count, *person[1]]
        return table

    one, other = data.draw(record), data.draw(record)
    for price, norm in ((PURE, lambda table: np.abs(table).sum()), (GAUSSIAN, lambda table: (table**2).sum())):
        noise = noise_of(count=count, value=value, values=values, cells=cells, price=price)
        assert norm(moved(one)) <= noise.moved()
        assert norm(moved(one) - moved(other)) <= noise.replaced


def test_the_bounds_are_reached():
    noise = noise_of(price=GAUSSIAN)
    assert noise.moved() == 3**2 + 4**2
    assert noise.replaced == max(2 * (9 + 16), 4 * 16)
    assert noise_of(price=PURE).replaced == 2 * (3 + 4)


@pytest.mark.parametrize("price", [GAUSSIAN, PURE])
@pytest.mark.parametrize("unit", ["person", "party"])
def test_up_to_c_colluders_cost_nothing_and_more_cost_more(price, unit):
    noise = noise_of(holders=("a", "b", "c"), price=price, unit=unit)
    assert noise.loss() == noise.loss(colluders=1) == noise.loss(party="b")
    assert noise.loss().epsilon(price.delta) <= 1.0
    more = noise.loss(colluders=2)
    assert more is None if price is PURE else more.epsilon(price.delta) > 1.0
    assert noise.loss(colluders=3) is None
    assert noise.replaced_loss().epsilon(price.delta) > noise.loss().epsilon(price.delta)


@pytest.mark.parametrize("changes", [{"count": 0}, {"value": 0}, {"cells": 0}, {"values": -1}, {"collusion": 2}])
def test_what_makes_no_sense_is_refused(changes):
    with pytest.raises(BadInput):
        noise_of(**changes)


# What is drawn ---------------------------------------------------------------------------------------------------------------

DRAWS = 20_000


@pytest.mark.parametrize("price", [GAUSSIAN, PURE])
def test_the_shares_that_are_drawn_have_the_variance_that_the_law_says(price):
    noise = noise_of(holders=("a", "b", "c"), price=price)
    drawn = sum(noise.draw_share(DRAWS, kit.sampler(f"share {number} {price}")) for number in range(3)).astype(float)
    fourth = np.mean((drawn**2 / noise.opened_variance) ** 2)

    def refuted(variance):
        far = abs(np.mean(drawn**2) / variance - 1) / np.sqrt((fourth - 1) / DRAWS)
        return 2 * stats.norm.sf(far) < kit.ALPHA

    assert not refuted(noise.opened_variance)
    assert refuted(noise.opened_variance * 1.2)  # a wrong scale would be found out


SAMPLES = 50_000


def views(noise: GroupNoise, share: Fraction, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of one group with and without a person, under the shares that a coalition of c does not know."""
    numbers = 1 + noise.values
    moved = np.array([noise.count_height] + [noise.value_height] * noise.values)
    given_up = noise_of(holders=noise.holders, price=noise.price, values=noise.values)
    object.__setattr__(given_up, "share", share)
    sides = []
    for present in (0, 1):
        drawn = [
            given_up.draw_share(SAMPLES * numbers, kit.sampler(f"{name} {number} {present}"))
            for number in range(noise.honest)
        ]
        sides.append(sum(drawn).reshape(-1, numbers) + present * moved)
    return sides[0], sides[1]


def refuted(noise: GroupNoise, share: Fraction, name: str) -> bool:
    """Whether samples show a larger ε than the law claims towards the coordinator and one colluder."""
    sides, claimed = views(noise, share, name), noise.loss(colluders=1)
    moved = np.array([noise.count_height] + [noise.value_height] * noise.values)
    if noise.family == "laplace":
        found = distinguish(*sides, alpha=kit.ALPHA, statistic=lambda cells: np.clip(cells, 0, moved))
        return found.epsilon > claimed.epsilon(0.0)
    along = [(side @ moved)[:, None] for side in sides]  # the direction in which a person moves them
    deltas = (1e-4, 1e-3, 1e-2, 0.05, 0.2)
    findings = [distinguish(*along, delta=delta, alpha=kit.ALPHA / len(deltas)) for delta in deltas]
    return any(finding.epsilon > claimed.epsilon(finding.delta) for finding in findings)


@pytest.mark.parametrize("price", [GAUSSIAN, PURE])
def test_an_audit_does_not_refute_the_loss_and_convicts_half_the_noise(price):
    noise = noise_of(holders=("a", "b", "c"), price=price)
    assert not refuted(noise, noise.share, f"honest {price}")
    assert refuted(noise, noise.share / (2 if price is PURE else 4), f"half {price}")


def test_shares_that_forget_the_colluders_are_convicted():
    """Five of six parties may collude: then every share is the whole noise, and a sixth of it is far too little."""
    noise = noise_of(holders=tuple("abcdef"), collusion=5)
    careless = noise_of(holders=tuple("abcdef"), collusion=0).share
    assert float(noise.share / careless) == pytest.approx(6, rel=1e-2)
    assert not refuted(noise, noise.share, "careful")
    assert refuted(noise, careless, "careless")
