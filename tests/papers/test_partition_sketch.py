"""The law of one sketch, what sketches cost, and how many phantoms a price buys (docs/proofs/sketches.md)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from colonnade.errors import BadInput
from colonnade.papers import laws as partition_sketch
from colonnade.papers.laws import (
    GAMMA,
    SKETCHES,
    Sketching,
    SketchLaw,
    least_phantoms,
    sketching,
)
from colonnade.privacy.accounting import ORDERS, Loss, Price
from tests.privacy.references import kov_epsilon_each

ONE = 2**64


# Known answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "papers", "phantoms_then", "each", "phantoms"),
    [
        (0.245, 5e-6, 2.7393e-4, 3651, 1.099722e-3, 909),
        (0.49, 1e-5, 5.6411e-4, 1773, 2.181706e-3, 458),
        (1.0, 1e-5, 1.15124e-3, 869, 4.189281e-3, 239),
    ],
)
def test_the_phantoms_of_the_papers_and_of_the_optimal_composition(
    epsilon, delta, papers, phantoms_then, each, phantoms
):
    assert epsilon / (4 * math.sqrt(SKETCHES * math.log(1 / delta))) == pytest.approx(papers, rel=2e-5)
    assert least_phantoms(papers) == pytest.approx(phantoms_then, abs=1)
    assert kov_epsilon_each(epsilon, delta, SKETCHES) == pytest.approx(each, abs=5e-10)
    assert least_phantoms(kov_epsilon_each(epsilon, delta, SKETCHES)) == phantoms
    assert sketching(Price.of(epsilon, delta), 2, "person").phantoms < phantoms  # and ours needs fewer still


# The law in integers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phantoms", [1, 2, 7, 182, 1_000, 100_000])
def test_every_ratio_of_the_tables_is_within_the_claimed_range(phantoms):
    law = SketchLaw(phantoms)
    hashed = [Fraction(ONE - int(one), ONE) for one in law.thresholds[:: max(1, len(law.thresholds) // 400)]]
    joint = [Fraction(int(one), ONE) for one in law.phantom_thresholds[:: max(1, len(law.thresholds) // 400)]]
    up, down = Fraction(phantoms + 1, phantoms), hashed[0]
    assert math.log1p(1 / phantoms) <= law.up
    assert -math.log1p(-float(1 - down)) <= law.down
    for people in (0, 1, 5):
        outcomes = [(joint[0] * hashed[0] ** people, joint[0] * hashed[0] ** (people + 1))]
        for (f, g), (f_before, g_before) in zip(
            zip(hashed[1:], joint[1:], strict=True), zip(hashed, joint, strict=False), strict=False
        ):
            outcomes.append(
                (
                    g * f**people - g_before * f_before**people,
                    g * f ** (people + 1) - g_before * f_before ** (people + 1),
                )
            )
        last = joint[-1] * hashed[-1] ** people, joint[-1] * hashed[-1] ** (people + 1)
        outcomes.append((1 - last[0], 1 - last[1]))  # the cap
        assert all(fewer > 0 and down <= more / fewer <= up for fewer, more in outcomes)


@pytest.mark.parametrize("phantoms", [2, 182])
def test_neighbouring_values_of_the_tables_keep_the_range_too(phantoms):
    law = SketchLaw(phantoms)
    hashed, joint = [ONE - int(one) for one in law.thresholds], [int(one) for one in law.phantom_thresholds]
    for place in range(1, len(hashed)):
        fewer = joint[place] - joint[place - 1]
        more = Fraction(joint[place] * hashed[place] - joint[place - 1] * hashed[place - 1], ONE)
        assert fewer * phantoms * 1 > 0
        assert more * phantoms <= fewer * (phantoms + 1)


def test_values_are_geometric_and_phantoms_the_maximum_of_so_many():
    law = SketchLaw(182)
    places = np.arange(law.floor, law.cap)
    exact = np.exp(-places * math.log1p(GAMMA))
    assert np.allclose(law.thresholds / 2.0**64, exact, rtol=1e-9)
    assert np.allclose(law.phantom_thresholds / 2.0**64, (1 - exact) ** 182, rtol=1e-12)
    assert 2.0**64 / float(law.thresholds[-1]) > 1e9  # the cap is beyond a billion people
    assert law.cap < 2**16


# What sketches cost ---------------------------------------------------------------------------------------------------------


@given(st.floats(1e-4, 0.7), st.sampled_from([float(order) for order in ORDERS]))
def test_a_range_as_wide_either_way_is_randomised_response(each, order):
    curve = Loss.of_pure(math.ceil(each * 1e9)).renyi[[float(one) for one in ORDERS].index(order)] / 1e9
    ours = partition_sketch._divergence(order, each, each)
    assert ours >= curve - 3e-9
    if order * each <= partition_sketch.LARGEST_EXPONENT:  # beyond, the largest log ratio bounds the divergence
        assert ours == pytest.approx(curve, rel=1e-5, abs=3e-9)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(-1, 1)), min_size=2, max_size=6),
    st.floats(1.1, 60),
    st.floats(0.05, 0.6),
    st.floats(0.01, 0.6),
)
def test_no_pair_within_the_range_has_a_greater_divergence(points, order, up, down):
    weights = np.array([weight for weight, _ in points])
    logs = np.array([up * x if x > 0 else down * x for _, x in points])
    ratio, base = np.exp(logs), weights / weights.sum()
    if not ratio.min() < 1 < ratio.max():
        return
    low, high = ratio < 1, ratio >= 1  # shift mass until the mean is 1
    gain, lack = base[high] @ (ratio[high] - 1), base[low] @ (1 - ratio[low])
    base = np.where(high, base * lack, base * gain)
    base /= base.sum()
    assert base @ ratio == pytest.approx(1)
    divergence = math.log(base @ ratio**order) / (order - 1)
    assert divergence <= partition_sketch._divergence(order, up, down) * (1 + 1e-9) + 1e-12


def exact_delta(law, count, epsilon):
    """δ of the composition of two-point pairs, exactly: what the ledger's curve must not fall short of."""
    gain, waste = math.expm1(law.up), -math.expm1(-law.down)
    chance = waste / (gain + waste) * math.exp(law.up)
    high = np.arange(count + 1)
    total = high * law.up - (count - high) * law.down
    return float(np.sum(binom.pmf(high, count, chance) * np.maximum(-np.expm1(epsilon - total), 0)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.245, 5e-6), (0.49, 1e-5), (1.0, 1e-5), (2.0, 5e-5)])
def test_the_ledgers_figure_is_a_little_above_the_exact_composition(epsilon, delta):
    bought = sketching(Price.of(epsilon, delta), 2, "person")
    spent = bought.loss("person").epsilon(delta)
    assert 0.93 * epsilon < spent <= epsilon
    assert exact_delta(bought.law, 2 * SKETCHES, spent) <= delta
    assert exact_delta(bought.law, 2 * SKETCHES, 0.86 * spent) > delta  # at most a seventh is given away


def test_one_phantom_fewer_would_not_fit():
    price = Price.of(0.49, 1e-5)
    bought = sketching(price, 3, "person")
    fewer = Sketching(3, bought.phantoms - 1)
    assert bought.loss("person").fits(price.nano, price.delta)
    assert not fewer.loss("person").fits(price.nano, price.delta)


@pytest.mark.parametrize("parties", [2, 3, 4, 8])
def test_a_person_costs_as_much_as_a_part_or_more_and_a_replacement_twice_one_cell(parties):
    bought = Sketching(parties, 300)
    person, part, replaced = bought.loss("person"), bought.loss("party"), bought.replaced_loss
    cells = {2: (2, 2, 2), 3: (4, 4, 6), 4: (6, 6, 12), 8: (28, 14, 56)}[parties]
    one = Sketching(2, 300).loss("party")  # two cells
    for loss, count in zip((person, part, replaced), cells, strict=True):
        assert loss.pure == pytest.approx(one.pure * count / 2, abs=count)
        assert np.allclose(loss.renyi, np.array(one.renyi) * count / 2, rtol=1e-6, atol=count)


def test_all_parties_together_cost_no_more_than_the_price():
    price = Price.of(1.0, 1e-6)
    for parties in (2, 5):
        assert sketching(price, parties, "person").loss("person").fits(price.nano, price.delta)
        assert sketching(price, parties, "party").loss("party").fits(price.nano, price.delta)


def test_a_pure_price_or_a_hopeless_one_is_refused():
    with pytest.raises(BadInput, match="positive delta"):
        sketching(Price.of(1.0), 2, "person")
    with pytest.raises(BadInput, match="too small"):
        sketching(Price.of(1e-5, 1e-9), 2, "person")
    with pytest.raises(BadInput, match="two or more"):
        sketching(Price.of(1.0, 1e-6), 1, "person")
