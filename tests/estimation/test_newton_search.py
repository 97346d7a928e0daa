"""The search of Newton steps: without noise nothing rises, with noise nothing breaks, and it says whether it has converged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Division, NewtonSearch
from colonnade.families import LOGISTIC
from colonnade.schema import features_of

WINDOW = 12


class Table:
    """Simulated people: numbers with heavy tails and a category, coded by bounds or by their spread."""

    def __init__(self, seed: int, people: int, numbers: int, strength: float, rate: float, *, centred: bool) -> None:
        rng = np.random.default_rng(seed)
        raw = rng.standard_normal((people, numbers))
        raw[:, ::2] = np.exp(1.2 * raw[:, ::2])
        if centred:
            coded = np.clip((raw - raw.mean(axis=0)) / (4 * raw.std(axis=0)), -1, 1)
        else:
            coded = 2 * (raw - raw.min(axis=0)) / np.ptp(raw, axis=0) - 1
        levels = np.eye(3)[rng.choice(3, people, p=[0.7, 0.25, 0.05])]
        self.rows = np.column_stack([np.ones(people), coded, levels])
        columns = {f"a.n{k}": cn.Numeric(-1, 1) for k in range(numbers)} | {"a.c": cn.Category(["x", "y", "z"])}
        self.features = features_of(columns)
        effects = strength * rng.standard_normal(numbers + 3) / np.append(coded.std(axis=0), np.ones(3))
        scores = self.rows[:, 1:] @ effects
        scores = scores - scores.mean() + np.log(rate / (1 - rate))
        self.labels = (rng.random(people) < LOGISTIC.mean(scores)).astype(float)

    def search(self, deviation: float = 0.0, seed: int = 0) -> NewtonSearch:
        rng, size = np.random.default_rng(seed), len(self.features)
        gram = self.rows.T @ self.rows
        noise = np.triu(deviation * rng.standard_normal((size, size)))
        variance = np.full((size, size), deviation**2)
        moments = Moments.of_release(gram + noise + np.triu(noise, 1).T, variance, len(self.rows), self.features)
        products = self.rows.T @ self.labels + deviation * rng.standard_normal(size)
        return NewtonSearch(LOGISTIC, moments, products, np.full(size, deviation**2), WINDOW)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        return self.rows.T @ (LOGISTIC.link(WINDOW).mean(self.rows @ weights) - self.labels)

    def curvature(self, weights: np.ndarray) -> np.ndarray:
        return (self.rows * LOGISTIC.link(WINDOW).weight(self.rows @ weights)[:, None]).T @ self.rows

    def deviance(self, weights: np.ndarray) -> float:
        scores = self.rows @ weights
        return float(np.sum(np.logaddexp(0, scores) - self.labels * scores))

    def potential(self, search: NewtonSearch, weights: np.ndarray) -> float:
        """Of the series that is computed, and of the weak prior."""
        link = LOGISTIC.link(WINDOW)
        scores = self.rows @ weights
        turns = 2 * np.pi / link.period
        waves = -np.imag(np.array(link.means.waves))  # of sines
        total = link.means.constant / 2**20 * scores
        for k, wave in enumerate(waves, start=1):
            total = total - wave / (k * turns) * (np.cos(k * turns * scores) - 1)
        away = (weights - search._base) / search._spread
        return float(np.sum(total - self.labels * scores) + away @ away / 2)


TABLES = st.builds(
    Table,
    seed=st.integers(0, 10**6),
    people=st.sampled_from([400, 3_000]),
    numbers=st.integers(1, 6),
    strength=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    rate=st.sampled_from([0.02, 0.2, 0.5]),
    centred=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(TABLES, st.sets(st.integers(0, 7)))
def test_without_noise_the_model_is_no_worse_than_the_constant_one_nor_than_where_its_last_step_began(table, bent):
    search = table.search()
    base = search._base
    for number in range(8):
        if number in bent | {7}:
            search.bend(table.curvature(search.weights), 0.0)
        search.see(table.gradient(search.weights), 0.0)
    began, kept, weights = search._place.weights, search._kept, search.result().weights
    slack = 1e-6 * len(table.rows)
    if all(np.max(np.abs(table.rows @ one)) <= WINDOW for one in (base, began, weights)):
        if kept:
            assert table.potential(search, weights) <= table.potential(search, began) + slack
        assert table.deviance(weights) <= table.deviance(base) + slack + 0.5


@settings(max_examples=100, deadline=None)
@given(TABLES, st.sampled_from([1.0, 30.0, 1_000.0, 1e6]), st.integers(0, 100))
def test_whatever_the_noise_there_are_finite_weights_and_a_verdict(table, deviation, seed):
    rng, search = np.random.default_rng(seed), table.search(deviation, seed)
    size = len(table.features)
    for number in range(3):
        if number == 2:
            noise = deviation * rng.standard_normal((size, size))
            search.bend(table.curvature(search.weights) + noise + noise.T, 2 * deviation**2)
        search.see(table.gradient(search.weights) + deviation * rng.standard_normal(size), deviation**2)
    found = search.result()
    assert np.isfinite(found.weights).all()
    assert 0 <= found.convergence.p_value <= 1


def test_it_finds_the_maximum_likelihood_estimate_and_says_that_it_has():
    table = Table(3, 20_000, 4, 0.5, 0.2, centred=True)
    search = table.search()
    for number in range(8):
        if number in (1, 7):
            search.bend(table.curvature(search.weights), 1e-6)
        search.see(table.gradient(search.weights), 1e-6)
    found = search.result()
    left = table.gradient(found.weights)
    errors = left @ np.linalg.pinv(table.curvature(found.weights)) @ left
    assert errors < 0.01 * len(left)  # squared sampling errors
    assert found.convergence.converged
    assert found.convergence.steps == 8
    assert str(found.convergence).startswith("converged in 8 steps")


def test_one_step_of_a_hard_table_says_that_it_has_not_converged():
    table = Table(5, 20_000, 4, 2.0, 0.05, centred=False)
    search = table.search()
    search.see(table.gradient(search.weights), 1e-3)
    found = search.result()
    assert not found.convergence.converged
    assert found.convergence.p_value < 1e-3
    assert "NOT CONVERGED" in str(found.convergence)
    assert table.deviance(found.weights) <= table.deviance(search._base) + 1


def test_without_any_gradient_it_stays_at_the_start_and_says_so():
    search = Table(7, 3_000, 2, 0.5, 0.2, centred=True).search(1.0)
    found = search.result()
    assert np.array_equal(found.weights, search.weights)
    assert not found.convergence.converged


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 12])
def test_the_curvature_is_opened_where_the_last_gradient_is(steps):
    division = Division.of(steps=steps)
    assert division.curvatures[-1] == len(division.parts) - 2
    assert len(division.parts) == steps + len(division.curvatures)


def test_more_steps_are_chosen_where_there_is_less_noise():
    chosen = [Division.chosen(13, 20, rho, 50_000) for rho in np.geomspace(1e-4, 1e4, 30)]
    assert chosen == sorted(chosen)
    assert (chosen[0], chosen[-1]) == (3, 7)
