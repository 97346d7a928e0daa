"""Intervals of Newton steps: what they cover, and what levels that add up tell."""

import numpy as np

from colonnade.estimation.newton import NewtonClass, NewtonSearch, newton_inference
from colonnade.estimation.regression import level_sums, quadratic_variances
from colonnade.families import LOGISTIC
from colonnade.schema import coefficients_to_own_units, features_of, free_coefficients, written_levels
from tests import kit
from tests.coordinator.releases import COLUMNS, coded, people, release

FEATURES = features_of({name: column for name, column in COLUMNS.items() if name != "insurer.premium"})
SLOPES = {"bank.age": 1.0, "bank.segment=gold": 0.5, "telco.minutes": -1.0, "insurer.region=south": -0.8}


class Fitted:
    """People with labels, their maximum-likelihood estimate, and searches on them with noise of any size."""

    def __init__(self, name: str, count: int = 20_000) -> None:
        rng = kit.generator(name)
        self.rows = coded(people(rng, count), FEATURES)
        scores = self.rows @ np.array([SLOPES.get(feature.name, 0.0) for feature in FEATURES]) - 0.5
        self.labels = (rng.random(len(scores)) < 1 / (1 + np.exp(-scores))).astype(float)
        self.best = np.zeros(len(FEATURES))
        for _ in range(25):
            self.best = self.best - np.linalg.pinv(self.curvature(self.best)) @ self.gradient(self.best)

    def curvature(self, weights: np.ndarray) -> np.ndarray:
        chances = LOGISTIC.mean(self.rows @ weights)
        return (self.rows * (chances * (1 - chances))[:, None]).T @ self.rows

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        return self.rows.T @ (LOGISTIC.mean(self.rows @ weights) - self.labels)

    def run(self, rng: np.random.Generator, deviation: float, *, bent: bool = True) -> NewtonClass:
        """Six steps, the curvature before the last, with noise of a size."""
        size = len(self.best)
        moments = release(self.rows, FEATURES, variance=2 * deviation**2, rng=rng)
        products = self.rows.T @ self.labels + deviation * rng.standard_normal(size)
        search = NewtonSearch(LOGISTIC, moments, products, np.full(size, deviation**2), 12)
        for number in range(6):
            if number == 5 and bent:
                upper = np.triu(rng.standard_normal((size, size)))
                noise = deviation * np.sqrt(1 + np.eye(size)) * (upper + np.triu(upper, 1).T)
                search.bend(self.curvature(search.weights) + noise, deviation**2)
            search.see(self.gradient(search.weights) + deviation * rng.standard_normal(size), deviation**2)
        return search.result()

    def written(self, weights: np.ndarray) -> np.ndarray:
        columns = list(FEATURES[1:])
        _, into = coefficients_to_own_units(columns)
        return written_levels(columns, "reference") @ into @ np.append(weights[1:], weights[0])


def inference(found: NewtonClass, coding="reference"):
    return newton_inference(found, FEATURES, np.zeros(len(FEATURES) - 1), coding=coding).written


def test_without_noise_estimates_are_those_of_maximum_likelihood_and_errors_those_of_textbooks():
    fitted = Fitted("newton inference: exact")
    found = inference(fitted.run(kit.generator("newton inference: exact noise"), 1e-3))
    columns = list(FEATURES[1:])
    combinations = written_levels(columns, "reference") @ coefficients_to_own_units(columns)[1]
    order = np.append(np.arange(1, len(FEATURES)), 0)
    inverse = np.linalg.pinv(fitted.curvature(fitted.best)[np.ix_(order, order)])
    errors = np.sqrt(np.einsum("ij,jk,ik->i", combinations, inverse, combinations))
    known = errors > 0
    assert np.all(np.abs(found.estimates - fitted.written(fitted.best))[known] < 0.1 * errors[known])
    assert np.allclose(np.sqrt(np.diag(found.sampling))[known], errors[known], rtol=0.05)
    assert not found.hidden.any()


def test_intervals_cover_what_the_same_people_give_without_noise():
    fitted, rng = Fitted("newton inference: coverage"), kit.generator("newton inference: coverage noise")
    truth, inside, called = fitted.written(fitted.best), 0, 0
    for _ in range(40):
        found = inference(fitted.run(rng, 15.0))
        low, high = found.interval(0.95, total=False).T
        known = ~found.hidden & (found.errors(total=False) > 0)
        inside, called = inside + int(((low <= truth) & (truth <= high))[known].sum()), called + int(known.sum())
    assert called > 200
    assert inside >= 0.9 * called


def test_without_the_curvature_intervals_are_there_still():
    fitted = Fitted("newton inference: lost curvature")
    found = inference(fitted.run(kit.generator("newton inference: lost curvature"), 5.0, bent=False))
    assert np.isfinite(found.estimates).all()


# Levels that add up -----------------------------------------------------------------------------------------------------------


def test_sums_over_columns_that_can_be_told_apart_are_exact_without_noise():
    rows = coded(people(kit.generator("level sums"), 2_000), FEATURES)
    sums = level_sums(release(rows, FEATURES))
    order = np.append(np.arange(1, len(FEATURES)), 0)
    design = rows[:, order] @ free_coefficients(list(FEATURES[1:]))
    assert np.allclose(sums @ rows.T @ rows @ sums.T, design.T @ design)


def test_what_is_opened_twice_is_known_better():
    rows = coded(people(kit.generator("opened twice"), 2_000), FEATURES)
    sums = level_sums(release(rows, FEATURES))
    constant = sums[-1] @ sums[-1]
    assert constant < 0.5  # three categories and the constant itself tell the same sum
    # The level that others are compared with is what they leave of the constant. It was opened itself too.
    places = [place for place, feature in enumerate(FEATURES) if feature.column == "insurer.region"]
    rest = np.append(np.zeros(len(sums) - 1), 1.0)
    rest[len(sums) - len(places) : -1] = -1.0
    noise = quadratic_variances(np.ones((len(FEATURES), len(FEATURES))), sums.T @ rest[:, None])[0]
    assert noise < 2.0


def test_levels_of_a_category_with_missing_values_are_left_as_they_are():
    rows = coded(people(kit.generator("level sums: missing"), 2_000), FEATURES)
    places = [place for place, feature in enumerate(FEATURES) if feature.column == "insurer.region"]
    rows[:300, places] = 0.0
    moments = release(rows, FEATURES)
    sums = level_sums(moments)
    assert not sums[:, places[0]].any()
    order = np.append(np.arange(1, len(FEATURES)), 0)
    design = rows[:, order] @ free_coefficients(list(FEATURES[1:]))
    assert np.allclose(sums @ rows.T @ rows @ sums.T, design.T @ design)
