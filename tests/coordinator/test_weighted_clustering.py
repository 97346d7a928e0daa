"""Phases three and four at the coordinator: weights of a grid, and k-means and k-median of weighted points."""

from itertools import combinations, product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize

from colonnade.estimation.clustering import (
    RULES,
    automatic_clusters,
    clustering_prices,
    fitted_grid,
    geometric_median,
    independent_grid,
    median_cost,
    weighted_kmeans,
    weighted_kmedian,
)
from colonnade.estimation.tables import PairTableSet, maximum_entropy
from colonnade.papers.estimation import response_rule, sketch_rule
from colonnade.papers.laws import SKETCHES
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.calibration import budget_loss, ledger_rho
from tests import kit

EVERY_RULE = {**RULES, "sketch": sketch_rule(SKETCHES), "response": response_rule(1.0)}

# k-median -------------------------------------------------------------------------------------------------------------------


def best_split(points, weights, clusters) -> float:
    """The least cost over all ways to divide a few points into clusters, each with its geometric median."""
    least = np.inf
    for labels in product(range(clusters), repeat=len(points)):
        cost = 0.0
        for cluster in range(clusters):
            inside = np.array(labels) == cluster
            if inside.any():
                cost += one_median(points[inside], weights[inside])
        least = min(least, cost)
    return least


def one_median(points, weights) -> float:
    def cost(centre):
        return weights @ np.linalg.norm(points - centre, axis=1)

    starts = [*points, weights @ points / weights.sum()]
    return float(min(min(cost(start), minimize(cost, start, method="Nelder-Mead").fun) for start in starts))


@pytest.mark.every(2)
@pytest.mark.parametrize(("count", "clusters", "width"), [(5, 1, 2), (6, 2, 2), (5, 3, 1), (6, 2, 3)])
def test_k_median_finds_what_brute_force_finds_on_tiny_sets(count, clusters, width):
    rng = kit.generator(f"tiny {count} {clusters} {width}")
    points, weights = rng.uniform(-1, 1, (count, width)), rng.uniform(0.5, 3, count)
    centres = weighted_kmedian(points, weights, clusters, seed=0)
    assert median_cost(points, weights, centres) <= best_split(points, weights, clusters) * (1 + 1e-4)


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_the_geometric_median_is_where_no_pull_is_left(seed):
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(7, 2)), rng.uniform(0.2, 2, 7)
    median = geometric_median(points, weights, points[0])
    assert weights @ np.linalg.norm(points - median, axis=1) <= one_median(points, weights) * (1 + 1e-6)


@pytest.mark.parametrize("solve", [weighted_kmeans, weighted_kmedian])
def test_weights_count_like_copies(solve):
    rng = kit.generator("copies")
    points = np.concatenate([rng.normal(mean, 0.1, (20, 2)) for mean in (-1, 0, 1)])
    times = rng.integers(1, 5, len(points))
    weighted = solve(points, times.astype(float), 3, seed=0)
    copied = solve(np.repeat(points, times, axis=0), np.ones(times.sum()), 3, seed=0)
    key = lambda centres: centres[np.argsort(centres[:, 0])]  # noqa: E731
    np.testing.assert_allclose(key(weighted), key(copied), atol=1e-4)


# The grid -------------------------------------------------------------------------------------------------------------------


def exact_pairs(joint) -> PairTableSet:
    pairs = list(combinations(range(joint.ndim), 2))
    tables = {pair: joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in pair)) for pair in pairs}
    return PairTableSet(joint.shape, tables, dict.fromkeys(pairs, 1.0))


def groups_table(name, parties, size, people=10_000, groups=6) -> np.ndarray:
    """Groups of people. Most are in their group's cluster at every party."""
    rng = kit.generator(name)
    home = rng.integers(size, size=(groups, parties))
    chosen = home[rng.integers(groups, size=people)]
    strays = rng.random((people, parties)) < 0.1
    codes = np.where(strays, rng.integers(size, size=(people, parties)), chosen)
    joint = np.zeros((size,) * parties)
    np.add.at(joint, tuple(codes.T), 1.0)
    return joint


def test_a_small_grid_is_the_table_of_greatest_entropy():
    joint = groups_table("small", 3, 4)
    grid = fitted_grid(exact_pairs(joint), 10_000.0)
    np.testing.assert_allclose(grid.weights, maximum_entropy(exact_pairs(joint), 10_000.0).ravel())
    assert len(grid.cells) == 64


def test_a_pruned_grid_keeps_the_pairs_and_the_heavy_cells():
    joint = groups_table("pruned", 5, 5)
    tables = exact_pairs(joint)
    whole, pruned = fitted_grid(tables, 10_000.0), fitted_grid(tables, 10_000.0, largest=600)
    assert len(pruned.cells) == 600
    assert pruned.weights.sum() == pytest.approx(10_000)
    heaviest = whole.weights.reshape(joint.shape)
    for cell, weight in zip(
        pruned.cells[np.argsort(-pruned.weights)[:5]], np.sort(pruned.weights)[::-1][:5], strict=True
    ):
        assert weight == pytest.approx(heaviest[tuple(cell)], rel=0.2)
    codes = pruned.cells[:, 0] * 5 + pruned.cells[:, 1]
    pair = np.bincount(codes, weights=pruned.weights, minlength=25)
    assert np.abs(pair - tables.tables[0, 1].ravel()).sum() < 0.03 * 10_000


def test_an_independent_grid_is_the_product_of_its_margins_also_when_pruned():
    margins = [np.array([60.0, 30.0, 10.0]), np.array([80.0, 25.0, -5.0]), np.array([50.0, 50.0])]
    grid = independent_grid(margins, 100.0)
    assert len(grid.cells) == 18
    assert grid.weights.sum() == pytest.approx(100)
    assert np.all(grid.weights >= 0)
    pruned = independent_grid(margins, 100.0, largest=6)
    assert len(pruned.cells) == 6
    assert {tuple(cell) for cell in pruned.cells} == {tuple(cell) for cell in grid.cells[np.argsort(-grid.weights)[:6]]}


# Who pays what --------------------------------------------------------------------------------------------------------------


@pytest.mark.every(9)
@pytest.mark.parametrize("method", ["secure", "response", "independent"])
@pytest.mark.parametrize("unit", ["person", "party"])
@pytest.mark.parametrize("parties", [1, 2, 5])
@pytest.mark.parametrize(
    "price", [Price.of(0.3), Price.of(0.3, 1e-6), Price.of(8.0, 1e-5), Price.of(0.5, 1 / 500)], ids=str
)
@pytest.mark.parametrize("split", [None, 0.1, 0.9])
def test_the_parts_add_up_to_the_price_and_leave_next_to_nothing(method, unit, parties, price, split):
    prices = clustering_prices(price, parties, unit, EVERY_RULE[method], split)
    times = parties if unit == "person" else 1
    joint = method == "secure" and parties > 1

    def loss(part):
        return budget_loss(ledger_rho(part)) if part.delta else Loss.of_pure(part.nano)

    total = loss(prices.centres) * times + loss(prices.weights) * (1 if joint else times)
    assert total.fits(price.nano, price.delta)
    assert total.as_kept().epsilon(price.delta) > 0.99 * price.epsilon
    assert prices.weights.delta == (0.0 if method == "response" and parties > 1 else price.delta)


@pytest.mark.every(2)
@pytest.mark.parametrize("method", ["secure", "response", "independent"])
def test_more_people_or_budget_never_means_fewer_local_clusters(method):
    def chosen(people, epsilon):
        prices = clustering_prices(Price.of(epsilon, 1e-6), 3, "person", EVERY_RULE[method])
        return automatic_clusters(6, people, [4, 4, 4], prices, rule=EVERY_RULE[method], unit="person", collusion=1)

    by_people = [chosen(people, 1.0) for people in (100, 1_000, 10_000, 100_000)]
    by_budget = [chosen(10_000, epsilon) for epsilon in (0.1, 0.5, 2.0)]
    assert by_people == sorted(by_people)
    assert by_budget == sorted(by_budget)
    assert by_people[0] ** 3 >= 6
