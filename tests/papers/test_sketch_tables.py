"""Tables from sketches: the joint likelihood of a pair, and tables made consistent (docs/proofs/sketches.md#decoding)."""

import math

import numpy as np
import pytest

from colonnade.estimation.clustering import (
    CLEAR,
    ClusteringPrices,
    automatic_clusters,
    clustering_prices,
    weight_noise,
)
from colonnade.estimation.tables import consistent_tables, plausible_total
from colonnade.papers.estimation import (
    cell_spread,
    read_sketches,
    sketch_rule,
    sketched_table,
    sketched_tables,
)
from colonnade.papers.laws import SKETCHES, PairSide, PartitionSketches, Sketching, sketching
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import budget_loss, ledger_rho
from colonnade.privacy.randomness import SystemRandomness
from colonnade.privacy.samplers import ExactSampler
from tests import kit

SKETCH_RULE = sketch_rule(SKETCHES)

# One pair -------------------------------------------------------------------------------------------------------------------


def memberships(name, people, clusters, noise=0.15):
    rng = kit.generator(name)
    group = rng.integers(clusters, size=people)
    return [np.where(rng.random(people) < noise, rng.integers(clusters, size=people), group) for _ in range(2)]


def both(first, second, bought, clusters, key):
    return tuple(
        PartitionSketches(bought, "person", clusters, (PairSide("pair", one),), lambda: key).release(
            codes.astype(np.int32), ExactSampler(SystemRandomness())
        )[0]
        for codes, one in ((first, True), (second, False))
    )


def crossed(first, second, clusters):
    table = np.zeros((clusters, clusters))
    here = (first >= 0) & (second >= 0)
    np.add.at(table, (first[here], second[here]), 1)
    return table


def test_every_cell_is_found_within_its_predicted_error():
    clusters, people, repeats = 4, 12_000, 12
    bought = Sketching(2, 150)
    scores = []
    for repeat in range(repeats):
        first, second = memberships(f"cells {repeat}", people, clusters, noise=0.6)
        fitted = sketched_table(
            bought.law, *both(first, second, bought, clusters, kit.source(f"key {repeat}").bytes(32)), people
        )
        true = crossed(first, second, clusters)
        cells = true + bought.phantoms
        rows, columns = (cells.sum(axis=axis, keepdims=True) + bought.phantoms for axis in (1, 0))
        scores.append((fitted.table - true) / cell_spread(cells, rows, columns, SKETCHES))
        assert fitted.table.sum() == pytest.approx(people)
        assert (fitted.table >= 0).all()
        assert fitted.only_first.sum() == fitted.only_second.sum() == 0
    scores = np.array(scores)
    assert np.abs(scores.mean(axis=0)).max() < 6 / repeats**0.5  # no bias
    assert 0.5 < scores.std() < 1.15  # and the error is what is foreseen, or less


@pytest.mark.every(2)
@pytest.mark.parametrize(("epsilon", "bar"), [(0.5, 0.06), (1.0, 0.05), (2.0, 0.04)])
def test_half_the_price_of_a_study_gives_tables_within_the_bar(epsilon, bar):
    prices = clustering_prices(Price.of(epsilon, 5e-5), 2, "person", SKETCH_RULE)
    bought = sketching(prices.weights, 2, "person")
    first, second = memberships(f"bar {epsilon}", 20_000, 5)
    fitted = sketched_table(bought.law, *both(first, second, bought, 5, kit.source(f"{epsilon}").bytes(32)), 20_000)
    assert np.abs(fitted.table - crossed(first, second, 5)).sum() / 20_000 < bar


def test_people_whom_one_party_has_no_record_of_are_noticed():
    clusters, people = 3, 9_000
    bought = Sketching(2, 100)
    first, second = memberships("partial", people, clusters)
    first[:1_500] = -1
    second[1_500:2_000] = -1
    fitted = sketched_table(bought.law, *both(first, second, bought, clusters, b"p" * 32), people)
    true = crossed(first, second, clusters)
    assert fitted.only_second.sum() == pytest.approx(1_500, abs=500)
    assert fitted.only_first.sum() == pytest.approx(500, abs=500)
    assert np.abs(fitted.table - true).sum() / people < 0.15


def test_the_likelihood_is_concave_and_the_fit_its_summit():
    clusters, people = 3, 3_000
    bought = Sketching(2, 60, 512)
    first, second = memberships("concave", people, clusters)
    evidence = read_sketches(bought.law, *both(first, second, bought, clusters, b"c" * 32))
    rng, only = kit.generator("directions"), np.full(clusters, 60.0)

    def value(cells):
        return evidence.pull(cells, only, only)[0]

    for _ in range(20):
        one, other = (rng.uniform(60, 900, (clusters, clusters)) for _ in range(2))
        assert value((one + other) / 2) >= (value(one) + value(other)) / 2 - 1e-6
    fitted = sketched_table(bought.law, *both(first, second, bought, clusters, b"c" * 32), people).table
    best = value(fitted + 60)
    for _ in range(50):
        step = rng.normal(size=fitted.shape) * 20
        step -= step.mean()
        moved = np.maximum(fitted + step, 0.0)
        assert value(moved * (people / moved.sum()) + 60) <= best + 0.05


def test_values_outside_the_law_are_read_as_its_ends():
    law = Sketching(2, 50).law
    wild = np.array([[0, 65_535], [law.floor, law.cap]] * 32, dtype=np.uint16)
    table = sketched_table(law, wild, wild, 100).table
    assert np.isfinite(table).all()
    assert table.sum() == pytest.approx(100)


# Several pairs --------------------------------------------------------------------------------------------------------------


def test_three_parties_tables_are_made_to_agree():
    clusters, people = 3, 6_000
    bought = Sketching(3, 150)
    codes = [*memberships("three", people, clusters), memberships("third", people, clusters)[0]]
    pairs = [(0, 1), (0, 2), (1, 2)]
    law_of_two = Sketching(2, 150)
    raw = {(a, b): both(codes[a], codes[b], law_of_two, clusters, bytes([a, b]) * 16) for a, b in pairs}
    tables = sketched_tables(bought.law, raw, (clusters,) * 3, people)
    agreed = consistent_tables(tables, plausible_total(tables, people))
    for (a, b), table in agreed.tables.items():
        assert np.abs(table - crossed(codes[a], codes[b], clusters)).sum() / people < 0.2
        assert (table >= 0).all()
    assert np.allclose(agreed.tables[0, 1].sum(axis=1), agreed.tables[0, 2].sum(axis=1), rtol=1e-6)
    assert agreed.tables[1, 2].sum() == pytest.approx(people)


# Who pays what --------------------------------------------------------------------------------------------------------------


@pytest.mark.every(8)
@pytest.mark.parametrize("unit", ["person", "party"])
@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("price", [Price.of(0.3, 1e-6), Price.of(2.0, 5e-5)], ids=str)
@pytest.mark.parametrize("split", [None, 0.1, 0.9])
def test_centres_and_sketches_add_up_to_the_price_and_leave_little(unit, parties, price, split):
    prices = clustering_prices(price, parties, unit, SKETCH_RULE, split)
    bought = sketching(prices.weights, parties, unit)
    times = parties if unit == "person" else 1
    total = budget_loss(ledger_rho(prices.centres)) * times + bought.loss(unit)
    assert total.fits(price.nano, price.delta)
    assert total.epsilon(price.delta) > 0.93 * price.epsilon
    assert isinstance(prices, ClusteringPrices)


def test_an_average_cell_of_the_automatic_grid_is_clear_of_its_noise_with_the_right_constant():
    prices = clustering_prices(Price.of(0.5, 1e-6), 2, "person", SKETCH_RULE)
    clusters = automatic_clusters(50, 20_000, [4, 4], prices, rule=SKETCH_RULE, unit="person", collusion=1)
    noise = weight_noise(SKETCH_RULE, clusters, 20_000, 2, prices.weights, "person", 1)
    assert CLEAR * noise <= 20_000 / clusters**2
    finer = weight_noise(SKETCH_RULE, clusters + 1, 20_000, 2, prices.weights, "person", 1)
    assert CLEAR * finer > 20_000 / (clusters + 1) ** 2
    phantoms = sketching(prices.weights, 2, "person").phantoms
    cell, row = 20_000 / clusters**2 + phantoms, 20_000 / clusters + (clusters + 1) * phantoms
    assert noise == pytest.approx(1.04 * math.sqrt(cell * (2 * row - cell) / 4096))
