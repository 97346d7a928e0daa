"""How much noise a joint opening gets, and what it then costs each observer.

Known answers are those of the design's §4.4 (vii): n = 117 columns, γ = 4096, ε = 1, δ = 1e-5, rows of squared length γ²
(truncation towards zero). They name Skellam noise of one mean μ on every entry; our diagonal has that μ, other entries half.
"""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.privacy.accounting import ORDERS, Loss, Price
from colonnade.privacy.calibration import skellam_rdp, summed_gaussian_rho
from colonnade.privacy.gaussian import mu_squared
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.tables import TableNoise
from colonnade.privacy.samplers import LARGEST_LAPLACE

GAMMA_SQUARED = 4096**2
PRICE = Price.of(1.0, 1e-5)
MEAN = 2.303189092e15  # the design's μ for R² = γ²
CLIENT = {2: 2.14012, 3: 1.824433, 5: 1.650300, 10: 1.548257, math.inf: 1.459993}


def bounds(parties: int, total: int = GAMMA_SQUARED) -> dict[str, int]:
    """Row bounds of some parties that add up to a total."""
    each = total // parties
    return {f"party{number}": each + (total - parties * each if number == 0 else 0) for number in range(parties)}


def gram(
    parties=3, *, total=GAMMA_SQUARED, constant=0, columns=117, price=PRICE, unit="person", collusion=0, law="gaussian"
):
    return GramNoise(bounds(parties, total), constant, columns, price, unit, collusion, law)


def epsilon(loss: Loss | None, delta: float = 1e-5) -> float:
    return math.inf if loss is None else loss.epsilon(delta)


# Known answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_skellam_shares_add_up_to_the_known_mean(parties):
    noise = gram(parties, law="skellam")
    assert float(noise.share * noise.honest) == pytest.approx(MEAN, rel=2e-6)  # the search stops within one part in 2²⁰
    assert epsilon(noise.loss()) <= 1.0


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_gaussian_shares_add_up_to_the_known_deviation_in_units_of_the_data(parties):
    """At (1, 10⁻⁵) a Gaussian needs 3.730632; Rényi curves would take 4.045385, as Skellam noise does."""
    noise = gram(parties)
    assert math.sqrt(2 * noise.own_variance) / GAMMA_SQUARED == pytest.approx(3.730632, abs=1e-5)
    assert noise.opened_variance == pytest.approx(float(noise.own_variance))


def test_the_worst_case_row_bound_of_random_rounding_gives_the_known_mean():
    squared = 16_865_943  # (γ + √n)², rounded down: integer rows cannot have more
    noise = gram(2, total=squared, law="skellam")
    assert float(noise.share * noise.honest) == pytest.approx(2.327614538e15, rel=2e-6)


@pytest.mark.parametrize(("parties", "known"), CLIENT.items())
def test_the_curve_gives_the_known_client_figures_under_replacement(parties, known):
    """Δ₂ → √2·R², Δ₁ → (n/√2 + 1)·R², and one of N shares known. The library itself debits zero-out; this is the curve."""
    left = MEAN if parties == math.inf else MEAN * (parties - 1) / parties
    l1, l2_squared = (117 / math.sqrt(2) + 1) * GAMMA_SQUARED, 2 * GAMMA_SQUARED**2
    loss = Loss.of_curve(lambda order: skellam_rdp(order, l1, l2_squared, left))
    assert loss.epsilon(1e-5) == pytest.approx(known, abs=2e-6)


# Up to c colluders cost nothing, more cost more -----------------------------------------------------------------------------

LAWS = st.sampled_from(["gaussian", "skellam"])


@st.composite
def gram_noises(draw, units=("person", "party")):
    parties = draw(st.integers(2, 6))
    scale = draw(st.sampled_from([1, 3, 200]))
    row_bounds = {f"p{number}": draw(st.integers(1, 6)) * scale**2 for number in range(parties)}
    price = Price.of(draw(st.sampled_from([0.1, 1.0, 5.0])), draw(st.sampled_from([1e-9, 1e-5])))
    unit = draw(st.sampled_from(units))
    columns = draw(st.integers(parties, 60))
    return GramNoise(row_bounds, scale**2, columns, price, unit, draw(st.integers(0, parties - 1)), draw(LAWS))


@settings(max_examples=25)
@given(gram_noises())
def test_up_to_c_colluders_pay_no_more_than_the_price(noise):
    price = noise.price
    for colluders in range(noise.collusion + 1):
        if noise.unit == "person":
            assert noise.loss(colluders=colluders).fits(price.nano, price.delta)
        for party in noise.row_bounds:
            assert noise.loss(colluders=colluders, party=party).fits(price.nano, price.delta)


@settings(max_examples=25)
@given(gram_noises())
def test_every_further_colluder_costs_more_and_the_last_one_everything(noise):
    parties = len(noise.row_bounds)
    figures = [epsilon(noise.loss(colluders=colluders), noise.price.delta) for colluders in range(parties + 1)]
    assert figures[: noise.collusion + 1] == [figures[0]] * (noise.collusion + 1)
    beyond = figures[noise.collusion :]
    assert all(earlier < later for earlier, later in pairwise(beyond))
    assert figures[-1] == math.inf


@settings(max_examples=25)
@given(gram_noises())
def test_the_price_is_nearly_used_up(noise):
    """A calibration that gave too much noise would pass everything else."""
    worst = [None] if noise.unit == "person" else list(noise.row_bounds)
    spent = max(epsilon(noise.loss(party=party), noise.price.delta) for party in worst)
    floor = 0.9 if noise.family == "skellam" else 0.99
    assume(noise.share_variance > 10)  # below, a share has a least variance
    assert spent >= floor * noise.price.epsilon


# The movement itself --------------------------------------------------------------------------------------------------------

INTEGERS = st.integers(-40, 40)


def products(row):
    """T(v): all products of pairs, the diagonal once."""
    return {(i, j): row[i] * row[j] for i in range(len(row)) for j in range(i, len(row))}


def weighted(one, other):
    return sum((one[pair] - other[pair]) ** 2 * (1 if pair[0] == pair[1] else 2) for pair in one)


@given(st.lists(st.lists(INTEGERS, min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 40))
def test_a_record_moves_its_fourth_power_and_one_partys_part_what_it_adds_to_it(parts, constant):
    """‖v‖⁴ − ‖a‖⁴ in the weighted norm, exactly, with the constant column among what is held fixed."""
    row = [constant, *(entry for part in parts for entry in part)]
    squared = sum(entry**2 for entry in row)
    for party in range(len(parts)):
        kept = [part if index != party else [0] * len(part) for index, part in enumerate(parts)]
        rest = [constant, *(entry for part in kept for entry in part)]
        assert weighted(products(row), products(rest)) == squared**2 - sum(entry**2 for entry in rest) ** 2


@given(st.lists(st.lists(INTEGERS, min_size=1, max_size=4), min_size=2, max_size=4), st.integers(1, 40), st.data())
def test_nothing_moves_a_gram_matrix_by_more_than_the_noise_was_made_for(parts, constant, data):
    row_bounds = {
        f"p{index}": sum(entry**2 for entry in part) + data.draw(st.integers(1, 50)) for index, part in enumerate(parts)
    }
    columns = sum(map(len, parts))
    noise = GramNoise(row_bounds, constant**2, columns, PRICE, "person", 0)
    row = [constant, *(entry for part in parts for entry in part)]
    nobody = [constant] + [0] * columns
    assert weighted(products(row), products(nobody)) <= 2 * noise.moved()
    for index, party in enumerate(row_bounds):
        kept = [part if other != index else [0] * len(part) for other, part in enumerate(parts)]
        rest = [constant, *(entry for part in kept for entry in part)]
        assert weighted(products(row), products(rest)) <= 2 * noise.moved(party)


@given(st.lists(INTEGERS, min_size=2, max_size=8), st.lists(INTEGERS, min_size=2, max_size=8))
def test_replacing_a_record_moves_at_most_twice_the_square(one, other):
    """⟨T(v), T(w)⟩ ≥ 0 in the weighted norm: √2·R², not 2·R²."""
    size = min(len(one), len(other))
    one, other = one[:size], other[:size]
    largest = max(sum(entry**2 for entry in row) for row in (one, other))
    assert weighted(products(one), products(other)) <= 2 * largest**2


@given(st.lists(INTEGERS, min_size=1, max_size=8), st.integers(0, 40))
def test_the_l1_movement_of_skellam_noise_covers_every_row(row, constant):
    full = [constant, *row]
    total = sum(entry**2 for entry in full)
    moved = sum(abs(value) for pair, value in products(full).items() if pair != (0, 0))
    assert moved <= (len(row) + 2) / 2 * total


@given(st.lists(INTEGERS, min_size=2, max_size=5), st.integers(1, 10_000), st.sampled_from([2, 3.5, 17, 300.25]))
def test_the_skellam_curve_is_at_least_the_sum_of_its_entries_bounds(row, variance, order):
    """Entry by entry, with its own mean and its own sensitivity; at least as large a bound is declared for the whole."""
    noise = GramNoise(bounds(2, sum(x**2 for x in row) + 2), 0, len(row), PRICE, "person", 0, "skellam")
    shares, share = 2, Fraction(variance)
    declared = noise._skellam_loss(noise.moved(), share, shares, l1=(len(row) + 2) / 2 * noise.total)
    nearest = min(range(len(ORDERS)), key=lambda index: abs(float(ORDERS[index]) - order))
    at = float(ORDERS[nearest])
    total = sum(
        skellam_rdp(at, abs(value), value**2, float(share * shares) / (1 if i == j else 2))
        for (i, j), value in products(row).items()
        if value
    )
    assert declared.renyi[nearest] / 1e9 >= total * (1 - 1e-9)


def _moves(one, other):
    before, after = products(one), products(other)
    return {pair: before[pair] - after[pair] for pair in before if pair != (0, 0)}


@given(st.lists(st.tuples(INTEGERS, INTEGERS), min_size=1, max_size=8), st.integers(0, 40))
def test_the_l1_movement_of_a_replaced_record_is_covered(rows, constant):
    one, other = ([constant, *row] for row in zip(*rows, strict=True))
    total = max(sum(entry**2 for entry in row) for row in (one, other))
    assert sum(map(abs, _moves(one, other).values())) <= (len(one) / math.sqrt(2) + 1) * total + 1e-9


@settings(max_examples=25)
@given(st.lists(st.tuples(INTEGERS, INTEGERS), min_size=1, max_size=5))
def test_the_skellam_curve_of_a_replaced_record_is_at_least_the_sum_of_its_entries_bounds(rows):
    one, other = ([0, *row] for row in zip(*rows, strict=True))
    total = max(sum(entry**2 for entry in row) for row in (one, other))
    noise = GramNoise(bounds(2, total + 2), 0, len(rows), PRICE, "person", 0, "skellam")
    declared, mean = noise.replaced_loss(), float(noise.share * noise.honest)
    moves = {(i, j): abs(value) for (i, j), value in _moves(one, other).items() if value}
    for index, at in enumerate(ORDERS):
        entries = (skellam_rdp(float(at), h, h**2, mean / (1 if i == j else 2)) for (i, j), h in moves.items())
        assert declared.renyi[index] / 1e9 >= sum(entries) * (1 - 1e-9)


def test_a_replaced_record_costs_what_the_proof_says_under_skellam_noise():
    """Δ₁ = (m/√2 + 1)R² for m columns with the constant one: docs/proofs/gram.md#replace."""
    noise = GramNoise(bounds(2, 30), 0, 4, PRICE, "person", 0, "skellam")
    l1 = (5 / math.sqrt(2) + 1) * noise.total
    expected, zeroed = (
        noise._skellam_loss(noise.total**2, noise.share, noise.honest, l1=far) for far in (l1, 6 / 2 * noise.total)
    )
    assert noise.replaced_loss() == expected
    assert noise.replaced_loss().renyi[-1] > zeroed.renyi[-1]


@settings(max_examples=25)
@given(gram_noises())
def test_gaussian_losses_are_those_of_the_smallest_noise_left(noise):
    assume(noise.family == "gaussian")
    parties = len(noise.row_bounds)
    for colluders in range(noise.collusion, parties):
        left = parties - colluders
        rho = summed_gaussian_rho(noise.moved(), noise.share, left, noise.entries)
        assert rho >= noise.moved() / (2 * left * noise.share)
        assert noise.loss(colluders=colluders) == Loss.of_zcdp(rho, mu_squared(noise.moved(), noise.share, left))


# What can be drawn ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        gram(
            4, total=int(1.7 * GAMMA_SQUARED), collusion=1, law="skellam"
        ),  # one share could be drawn, the own diagonal not
        gram(3, total=60 * 2**40, collusion=1, price=Price.of(0.001, 1e-9)),
    ],
)
def test_noise_that_a_party_could_not_draw_is_refused_before_it_is_paid_for(noise):
    with pytest.raises(BadInput):
        noise.loss()


@pytest.mark.parametrize(
    "change",
    [
        {"row_bounds": {"a": 0, "b": 1}},
        {"row_bounds": {"a": 1.0, "b": 1}},
        {"row_bounds": {"a": True, "b": 1}},
        {"row_bounds": {"a": -4, "b": 1}},
        {"constant": -1},
        {"collusion": 2},
        {"collusion": -1},
        {"family": "laplace"},
        {"family": "none"},
    ],
)
def test_noise_that_makes_no_sense_is_refused(change):
    plain = {
        "row_bounds": {"a": 1, "b": 1},
        "constant": 1,
        "columns": 2,
        "price": PRICE,
        "unit": "person",
        "collusion": 1,
    }
    with pytest.raises(BadInput):
        GramNoise(**{**plain, **change})


def test_gaussian_noise_needs_a_positive_delta():
    with pytest.raises(BadInput):
        _ = gram(price=Price.of(1.0)).share


# Pair tables ----------------------------------------------------------------------------------------------------------------


def tables(parties=3, *, price=None, unit="person", collusion=1, cells=27):
    names = tuple(f"p{number}" for number in range(parties))
    return TableNoise(names, price or Price.of(0.5), unit, collusion, cells)


def test_two_parties_tables_have_the_known_deviation():
    """Discrete Laplace at ε = 0.49: standard deviation 2.86 a cell (design, §3.6)."""
    noise = tables(2, price=Price.of(0.49), collusion=0)
    assert math.sqrt(noise.opened_variance) == pytest.approx(2.86, abs=0.005)


@pytest.mark.every(3)
@pytest.mark.parametrize("parties", [2, 3, 6])
@pytest.mark.parametrize("unit", ["person", "party"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("collusion", [0, 1])
def test_tables_cost_the_price_for_their_unit_up_to_c_colluders(parties, unit, delta, collusion):
    price = Price.of(0.5, delta)
    noise = tables(parties, price=price, unit=unit, collusion=collusion)
    assert noise.family == ("laplace" if delta == 0 else "gaussian")
    promised = None if unit == "person" else "p0"
    for colluders in range(collusion + 1):
        loss = noise.loss(colluders=colluders, party=promised)
        assert loss.fits(price.nano, price.delta)
        assert loss.epsilon(delta) > 0.99 * 0.5
    assert (noise.loss().pure is not None) == (delta == 0)


def test_nothing_pure_is_claimed_for_too_few_polya_shares():
    noise = tables(4, collusion=1)
    assert noise.loss(colluders=1) is not None
    assert noise.loss(colluders=2) is None


def test_the_shares_of_laplace_noise_have_the_declared_variance_together():
    noise = tables(5, collusion=2)
    assert noise.share_variance * noise.honest == pytest.approx(tables(5, collusion=0).opened_variance)
    assert noise.share <= LARGEST_LAPLACE


@pytest.mark.parametrize("change", [{"parties": 1, "collusion": 0}, {"collusion": 3}, {"collusion": -1}])
def test_tables_that_make_no_sense_are_refused(change):
    with pytest.raises(BadInput):
        tables(**change)
