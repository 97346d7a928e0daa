"""Intervals of Newton steps: what they cover, what levels that add up tell, and when nothing is known."""

import numpy as np
import pytest

from colonnade.estimation.newton import (
    NewtonClass,
    OpenedGradient,
    expected_information,
    newton_inference,
    pooled_gradient,
    weighted_information,
)
from colonnade.estimation.regression import level_sums, quadratic_variances
from colonnade.families import LOGISTIC
from colonnade.schema import coefficients_to_own_units, features_of, free_coefficients, written_levels
from tests import kit
from tests.coordinator.releases import COLUMNS, coded, people, release
from tests.estimation.test_inference import refute_coverage, within

FEATURES = features_of({name: column for name, column in COLUMNS.items() if name != "insurer.premium"})
DRAWS = 120
SLOPES = {"bank.age": 1.0, "bank.segment=gold": 0.5, "telco.minutes": -1.0, "insurer.region=south": -0.8}


class Fitted:
    """People with labels, their maximum-likelihood estimate, and runs of Newton steps on them with noise of any size."""

    def __init__(self, name: str, count: int = 20_000, table: dict | None = None) -> None:
        rng = kit.generator(name)
        self.rows = coded(people(rng, count) if table is None else table, FEATURES)
        scores = self.rows @ np.array([SLOPES.get(feature.name, 0.0) for feature in FEATURES]) - 0.5
        self.labels = (rng.random(len(scores)) < 1 / (1 + np.exp(-scores))).astype(float)
        self.best = np.zeros(len(FEATURES))
        for _ in range(25):
            self.best = self.best - np.linalg.pinv(self.curvature(self.best)) @ self.gradient(self.best)

    def chances(self, weights: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-self.rows @ weights))

    def curvature(self, weights: np.ndarray) -> np.ndarray:
        chances = self.chances(weights)
        return (self.rows * (chances * (1 - chances))[:, None]).T @ self.rows

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        return self.rows.T @ (self.chances(weights) - self.labels)

    def run(
        self, rng: np.random.Generator, deviation: float, *, away: float = 0.2, shift: dict[int, float] | None = None
    ) -> NewtonClass:
        """A start, a curvature there and three gradients on the way to the estimate, each with its noise."""
        size = len(self.best)
        moments = release(self.rows, FEATURES, variance=2 * (3 * deviation) ** 2, rng=rng)
        start = self.best + away * rng.standard_normal(size)
        for place, by in (shift or {}).items():
            start[place] += by
        upper = np.triu(rng.standard_normal((size, size)))
        noise = deviation * np.sqrt(1 + np.eye(size)) * (upper + np.triu(upper, 1).T)
        gradients = []
        for part in (1.0, 0.4, 0.1):
            weights = self.best + part * (start - self.best)
            spoilt = self.gradient(weights) + deviation * rng.standard_normal(size)
            gradients.append(OpenedGradient(weights, spoilt, deviation**2))
        end = self.best + 0.03 * (start - self.best)
        return NewtonClass(LOGISTIC, end, start, moments, self.curvature(start) + noise, deviation**2, tuple(gradients))

    def written(self, weights: np.ndarray) -> np.ndarray:
        columns = list(FEATURES[1:])
        _, into = coefficients_to_own_units(columns)
        return written_levels(columns, "reference") @ into @ np.append(weights[1:], weights[0])


def inference(found: NewtonClass, coding="reference"):
    return newton_inference(found, FEATURES, np.zeros(len(FEATURES) - 1), coding=coding).written


def test_without_noise_estimates_are_those_of_maximum_likelihood_and_errors_those_of_textbooks():
    fitted = Fitted("newton inference: exact")
    found = inference(fitted.run(kit.generator("newton inference: no noise"), 1e-6, away=1e-4))
    assert np.allclose(found.estimates, fitted.written(fitted.best), rtol=1e-3, atol=1e-4)
    columns = list(FEATURES[1:])
    free, order = free_coefficients(columns), np.append(np.arange(1, len(FEATURES)), 0)
    design = fitted.rows[:, order] @ free
    chances = fitted.chances(fitted.best)
    inverse = np.linalg.inv((design * (chances * (1 - chances))[:, None]).T @ design)
    into = written_levels(columns, "reference") @ coefficients_to_own_units(columns)[1] @ free
    assert np.allclose(found.errors(), np.sqrt(np.einsum("ij,jk,ik->i", into, inverse, into)), rtol=2e-3)
    assert found.determined.all()


@pytest.mark.every(2)
@pytest.mark.parametrize("deviation", [10.0, 40.0])
def test_intervals_cover_what_the_same_people_give_without_noise(deviation):
    fitted = Fitted("newton inference: covered")
    rng = kit.generator(f"newton inference: noise {deviation}")
    draws = [inference(fitted.run(rng, deviation, away=0.1)) for _ in range(DRAWS)]
    truth = fitted.written(fitted.best)
    refute_coverage([within(draw, truth, total=False) for draw in draws])
    assert np.mean([draw.determined for draw in draws]) > 0.75
    moved = np.std([draw.estimates for draw in draws], axis=0)
    claimed = np.median([draw.errors(total=False) for draw in draws], axis=0)
    known = np.isfinite(claimed) & (moved > 0)
    assert np.median(claimed[known] / moved[known]) < 1.5  # they cover, and not because they are wide


def test_levels_compared_with_one_that_hardly_anybody_has_are_not_determined():
    rng = kit.generator("newton inference: rare")
    table = people(rng, 20_000)
    table["insurer.region"] = np.where(np.arange(20_000) < 8, 0, rng.integers(1, 4, 20_000))
    fitted = Fitted("newton inference: rare people", table=table)
    places = [place - 1 for place, feature in enumerate(FEATURES) if feature.column == "insurer.region"]
    draws = [fitted.run(rng, 40.0) for _ in range(20)]
    assert not any(inference(draw).determined[places[1:]].any() for draw in draws)
    others = [place for place in range(len(FEATURES) - 1) if place not in places]
    assert np.mean([inference(draw).determined[others] for draw in draws]) > 0.7


def test_all_gradients_together_tell_more_than_the_last_one():
    fitted = Fitted("newton inference: together")
    found = fitted.run(kit.generator("newton inference: together"), 10.0, away=0.02)
    last = NewtonClass(
        LOGISTIC,
        *(
            found.weights,
            found.curvature_at,
            found.moments,
            found.curvature,
            found.curvature_variance,
            found.gradients[-1:],
        ),
    )
    whole, alone = (inference(one).errors(total=False)[:-1] for one in (found, last))
    known = np.isfinite(alone) & (alone > 0)
    assert np.median(whole[known] / alone[known]) < 0.9


def test_a_gradient_from_far_away_counts_little_where_noise_does_not_hide_that_slopes_change():
    fitted = Fitted("newton inference: far")
    near = fitted.run(kit.generator("newton inference: near"), 0.1, away=2.0)
    mean = pooled_gradient(near, weighted_information(near))
    apart = [np.linalg.norm(mean.weights - one.weights) for one in near.gradients]
    assert apart[-1] < 0.05 * apart[0]


def test_moments_tell_which_levels_people_weigh_little_because_their_answers_are_nearly_certain():
    fitted = Fitted("newton inference: weights")
    certain = {"bank.segment=gold": -4.0, "insurer.region=south": 3.0, "bank.age": 2.0}
    weights = np.array([certain.get(feature.name, 0.0) for feature in FEATURES])
    moments = release(fitted.rows, FEATURES, variance=1e-9, rng=kit.generator("newton inference: weights"))
    truth, (expected, _) = fitted.curvature(weights), expected_information(LOGISTIC, moments, weights)
    alike = moments.matrix * np.sum(truth * moments.matrix) / np.sum(moments.matrix**2)
    assert np.linalg.norm(expected - truth) < 0.5 * np.linalg.norm(alike - truth)
    places = np.flatnonzero([feature.kind == "level" for feature in FEATURES])
    parts = (np.diag(expected) / np.diag(truth))[places]
    assert np.all((parts > 0.75) & (parts < 1.35))
    assert (
        np.min((np.diag(alike) / np.diag(truth))[places]) < 0.8 or np.max((np.diag(alike) / np.diag(truth))[places]) > 2
    )


def test_a_curvature_that_was_lost_is_made_up_for_by_what_moments_lead_to_expect():
    fitted = Fitted("newton inference: lost curvature")
    found = fitted.run(kit.generator("newton inference: lost curvature"), 10.0, away=0.1)
    lost = NewtonClass(
        LOGISTIC, found.weights, found.curvature_at, found.moments, None, found.curvature_variance, found.gradients
    )
    truth, expected = fitted.curvature(found.curvature_at), weighted_information(lost)
    assert np.linalg.norm(expected.matrix - truth) < 0.1 * np.linalg.norm(truth)
    assert np.all(inference(lost).errors(total=False)[:-1] >= inference(found).errors(total=False)[:-1] * 0.9)


def skewed() -> Fitted:
    """People of whom few use many minutes, and these decide how steep the slope is."""
    rng = kit.generator("newton inference: skewed")
    table = people(rng, 20_000)
    table["telco.minutes"] = np.where(rng.random(20_000) < 0.03, rng.random(20_000), 0.0) * 5_000
    return Fitted("newton inference: skewed people", table=table)


def test_a_column_of_few_large_values_is_covered_though_its_peoples_weights_change_on_the_way():
    fitted = skewed()
    place = [feature.name for feature in FEATURES].index("telco.minutes")
    rng, covered, truth = kit.generator("newton inference: skewed noise"), [], fitted.written(fitted.best)
    for away in (0.7, 2.0):
        for _ in range(15):
            found = inference(fitted.run(rng, 3.0, away=0.0, shift={0: away, place: away}))
            low, high = found.interval(0.95, total=False)[place - 1]
            covered.append(low <= truth[place - 1] <= high)
            assert found.determined.sum() >= len(found.determined) - 2  # errors grow, and coefficients are not refused
    assert sum(covered) >= 24  # of 30 at 95 %: fewer with a chance of 10⁻³


def test_gradients_that_disagree_by_more_than_noise_count_less():
    fitted = Fitted("newton inference: disagreeing")
    found = fitted.run(kit.generator("newton inference: disagreeing"), 5.0, away=0.02)
    information = weighted_information(found)
    first = found.gradients[0]
    values = first.values.copy()
    values[3] += 500.0
    spoilt = (OpenedGradient(first.weights, values, first.variance), *found.gradients[1:])
    other = NewtonClass(
        LOGISTIC, *(found.weights, found.curvature_at, found.moments, found.curvature, found.curvature_variance, spoilt)
    )
    honest, wrong = pooled_gradient(found, information), pooled_gradient(other, information)
    assert abs(wrong.values[3] - honest.values[3]) < 20.0  # a third of 500 if all counted alike
    assert np.allclose(np.delete(wrong.variance, 3), np.delete(honest.variance, 3))


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
