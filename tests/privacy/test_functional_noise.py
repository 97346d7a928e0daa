"""What one person can do to an objective's coefficients, how much Laplace noise that takes, and what it then costs each observer.

Known answers are those of docs/proofs/coefficients.md.
"""

import math
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.coefficients import CoefficientNoise, Holding, emphasis_for


def noise_of(holdings, *, epsilon=1.0, unit="person", collusion=0, gamma=1, emphasis=1, budgets=None):
    prices = (
        dict.fromkeys(holdings, Price.of(epsilon)) if budgets is None else {p: Price.of(e) for p, e in budgets.items()}
    )
    unit = unit if budgets is None else "party"
    return CoefficientNoise(holdings, gamma, prices, unit, collusion, emphasis, budgets is not None)


def epsilon(loss):
    return math.inf if loss is None else loss.epsilon(0.0)


# Known answers --------------------------------------------------------------------------------------------------------------


def test_a_partys_part_of_fourteen_numbers_at_two_parties_is_the_known_one():
    """Upper triangle once: Δ^k = d_k(d_k+1)/2 + d_k(d − d_k) + d_k, plus d − d_k at the target's holder; then our sums."""
    d, own = 14, 7
    noise = noise_of({"one": Holding(own, 0, 1), "other": Holding(own, 0)})
    plain = own * (own + 1) // 2 + own * (d - own) + own
    assert noise.moved("other") == plain + own  # with the sums of its own columns
    assert noise.moved("one") == plain + (d - own) + own + 1  # and with that of the target
    assert noise.moved() == d * (d + 3) // 2 + d + 1
    assert epsilon(noise.loss(party="other")) == pytest.approx((plain + own) / (d * (d + 3) / 2 + d + 1), abs=1e-9)


def test_adults_coefficients_cost_what_its_schema_says_and_not_what_its_columns_count():
    """Six numbers, eight categories, an intercept: 22.5 in the paper's units, not 2,808; what the coding says saves the rest."""
    holdings = {"one": Holding(3, 4, 1), "other": Holding(3, 4)}
    curvature = sum(noise_of(holdings).moves(block)[0] for block in noise_of(holdings).blocks)
    slope = sum(noise_of(holdings).moves(block)[1] for block in noise_of(holdings).blocks)
    assert (curvature, slope) == (120 - 1 - 8, 15)  # neither n nor the squares of indicators
    paper_units = Fraction(curvature, 8) + Fraction(slope, 2)
    assert paper_units < Fraction(45, 2) < Fraction(105**2, 4) + 105
    assert emphasis_for(holdings) == 2


# The movement itself --------------------------------------------------------------------------------------------------------

LEVELS = 3


@st.composite
def layouts(draw):
    """Some parties' columns, and who holds the target: a list of kinds by party, and the same as holdings."""
    parties = [f"p{number}" for number in range(draw(st.integers(1, 4)))]
    kinds = {party: draw(st.lists(st.sampled_from(["number", "group"]), max_size=3)) for party in parties}
    holder = draw(st.sampled_from(parties))
    target = draw(st.sampled_from([1, LEVELS]))
    assume(any(kinds.values()))
    kinds = {party: kinds[party] or (["number"] if party != holder else []) for party in parties}
    return kinds, holder, target


def holdings_of(kinds, holder, target):
    return {
        party: Holding(own.count("number"), own.count("group"), target if party == holder else 0)
        for party, own in kinds.items()
    }


@st.composite
def records(draw, kinds, holder, target, gamma):
    """A coded record: by party, its features' vectors, and the target's."""
    one = st.integers(-gamma, gamma) | st.sampled_from([-gamma, gamma])

    def vector(kind):
        if kind == "number":
            return (draw(one),)
        level = draw(st.integers(-1, LEVELS - 1))
        return tuple(gamma * (level == place) for place in range(LEVELS))

    features = {party: [vector(kind) for kind in own] for party, own in kinds.items()}
    return features, vector("number" if target == 1 else "group")


def nothing(record):
    features, target = record
    return {p: [(0,) * len(x) for x in own] for p, own in features.items()}, (0,) * len(target)


def without(record, party, holder):
    features, target = record
    gone = {p: own if p != party else [(0,) * len(x) for x in own] for p, own in features.items()}
    return gone, (0,) * len(target) if party == holder else target


def measured(record, holder, gamma):
    """Every measured coefficient by what it multiplies, with whether it is slope: straight from the definition."""
    features, target = record
    named = [(party, place, x) for party, own in features.items() for place, x in enumerate(own)]
    found = {}
    for party, place, x in named:
        for level, value in enumerate(x):
            found["sum", party, place, level] = (value * gamma, False)
            if len(x) == 1:
                found["square", party, place] = (value**2, False)
    for (p, i, x), (q, j, y) in combinations(named, 2):
        for a, b in product(range(len(x)), range(len(y))):
            found["pair", p, i, a, q, j, b] = (x[a] * y[b], False)
    for level, value in enumerate(target):
        found["target", level] = (value * gamma, True)
        for p, i, x in named:
            for a in range(len(x)):
                found["slope", p, i, a, level] = (x[a] * value, True)
    return found


def distance(one, other, emphasis):
    return sum(abs(one[key][0] - other[key][0]) * (emphasis if one[key][1] else 1) for key in one)


@settings(max_examples=80)
@given(st.data(), layouts(), st.sampled_from([1, 3, 50]), st.integers(1, 4))
def test_nobody_moves_coefficients_by_more_than_the_noise_was_made_for(data, layout, gamma, emphasis):
    kinds, holder, target = layout
    noise = noise_of(holdings_of(*layout), gamma=gamma, emphasis=emphasis)
    record, other = (data.draw(records(kinds, holder, target, gamma)) for _ in range(2))
    there = measured(record, holder, gamma)
    assert distance(there, measured(nothing(record), holder, gamma), emphasis) <= gamma**2 * noise.moved()
    assert distance(there, measured(other, holder, gamma), emphasis) <= gamma**2 * noise.replaced_moved()
    for party in kinds:
        rest = measured(without(record, party, holder), holder, gamma)
        assert distance(there, rest, emphasis) <= gamma**2 * noise.moved(party)


@given(layouts(), st.integers(1, 4))
def test_a_record_of_extremes_moves_them_exactly_so_far(layout, emphasis):
    kinds, holder, target = layout
    noise = noise_of(holdings_of(*layout), gamma=5, emphasis=emphasis)
    full = {"number": (5,), "group": (0, 5, 0)}
    record = (
        {party: [full[kind] for kind in own] for party, own in kinds.items()},
        full["number" if target == 1 else "group"],
    )
    there = measured(record, holder, 5)
    assert distance(there, measured(nothing(record), holder, 5), emphasis) == 25 * noise.moved()
    for party in kinds:
        rest = measured(without(record, party, holder), holder, 5)
        assert distance(there, rest, emphasis) == 25 * noise.moved(party)


# What it costs --------------------------------------------------------------------------------------------------------------


@given(layouts(), st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.integers(1, 4), st.sampled_from([1, 4096]))
def test_top_down_the_price_is_what_a_whole_record_costs(layout, price, emphasis, gamma):
    holdings = holdings_of(*layout)
    noise = noise_of(holdings, epsilon=price, emphasis=emphasis, gamma=gamma)
    assert epsilon(noise.loss()) == price
    assert len({noise.scale(block) for block in noise.blocks}) == 1
    parts = [epsilon(noise.loss(party=party)) for party in holdings]
    assert max(parts) <= price <= sum(parts) + 1e-9
    assert price <= epsilon(noise.replaced_loss()) <= 2 * price
    by_party = noise_of(holdings, epsilon=price, emphasis=emphasis, gamma=gamma, unit="party")
    assert max(epsilon(by_party.loss(party=party)) for party in holdings) == price
    assert by_party.share <= noise.share


@given(layouts(), st.data())
def test_bottom_up_every_part_costs_what_its_party_named_and_a_record_the_sum_of_all_blocks(layout, data):
    holdings = holdings_of(*layout)
    budgets = {party: data.draw(st.sampled_from([0.1, 0.5, 0.7, 2.0])) for party in holdings}
    noise = noise_of(holdings, budgets=budgets, emphasis=2, gamma=64)
    assert {party: epsilon(noise.loss(party=party)) for party in holdings} == budgets
    costs = {block: Fraction(64**2 * noise.weight(block)) / noise.scale(block) for block in noise.blocks}
    assert epsilon(noise.loss()) == pytest.approx(float(sum(costs.values())), abs=1e-9)
    assert epsilon(noise.loss()) <= sum(budgets.values()) + 1e-9
    for one, other in combinations(holdings, 2):
        offers = [Fraction(repr(budgets[p])) * noise.weight((one, other)) / noise.moved(p) for p in (one, other)]
        assert costs[one, other] == min(offers)


@given(layouts(), st.data())
def test_up_to_c_colluders_cost_nothing_and_for_more_nothing_is_claimed(layout, data):
    holdings = holdings_of(*layout)
    collusion = data.draw(st.integers(0, len(holdings) - 1))
    noise = noise_of(holdings, collusion=collusion)
    for colluders in range(len(holdings) + 1):
        expected = 1.0 if colluders <= collusion else math.inf
        assert epsilon(noise.loss(colluders=colluders)) == expected
        assert (noise.replaced_loss(colluders=colluders) is None) == (colluders > collusion)
    assert noise.opened_variance == pytest.approx(noise.share_variance * len(holdings))
    own, pair = noise.blocks[0], noise.blocks[-1]
    factor = 1 if pair[0] == pair[1] else len(holdings) / (len(holdings) - collusion)
    assert noise.variance(pair) == pytest.approx(noise.variance(own) * factor)


PLAIN = {"one": Holding(1, 0, 1), "other": Holding(1, 0)}


@pytest.mark.parametrize(
    "change",
    [
        {"holdings": {"one": Holding(1, 0), "other": Holding(1, 0)}},
        {"holdings": {"one": Holding(1, 0, 1), "other": Holding(1, 0, 1)}},
        {"holdings": {"one": Holding(0, 0, 1), "other": Holding(0, 0)}},
        {"prices": {"one": Price.of(1.0)}},
        {"prices": {"one": Price.of(1.0), "other": Price.of(2.0)}},
        {"prices": dict.fromkeys(PLAIN, Price.of(1.0, 1e-5))},
        {"bottom_up": True},
        {"collusion": 2},
        {"collusion": -1},
        {"gamma": 0},
        {"emphasis": 0},
        {"gamma": 2**20, "prices": dict.fromkeys(PLAIN, Price.of(1e-6))},
    ],
)
def test_noise_that_makes_no_sense_or_cannot_be_drawn_is_refused(change):
    plain = {
        "holdings": PLAIN,
        "gamma": 16,
        "prices": dict.fromkeys(PLAIN, Price.of(1.0)),
        "unit": "person",
        "collusion": 1,
    }
    with pytest.raises(BadInput):
        CoefficientNoise(**{**plain, **change})
