"""Bugs in intervals and standard errors."""

import types
from functools import partial

import numpy as np

from colonnade.estimation import inference, moment_summaries, moments, newton_inference, tables
from colonnade.estimation.inference import Inference, MomentScore, OpenedScore, _LeastSquares
from colonnade.estimators.inference import RegressionStudy
from colonnade.schema.features import free_coefficients
from tests.coordinator import test_inference as equations
from tests.coordinator import test_newton_inference as newton
from tests.estimators import test_correlation as correlations
from tests.estimators import test_independence as independent
from tests.estimators import test_regression_inference as studies
from tests.seeded.bug import Bug, replaced, wrapped


def _of_the_target_alone(honest, self, mean, spread):
    return honest(self, 0 * mean, 0 * spread)


def _sampling_alone(honest, self, *, total=True):
    return np.where(self.determined, np.sqrt(np.diag(self.sampling)), np.inf) if total else honest(self, total=False)


def _without_means(honest, variance, direction):
    return honest(variance, np.concatenate([[0.0], direction[1:]]))


def _exact_slope(honest, self, scale, *, residual=None, squares=1.0):
    return honest(self, scale)


def _not_along(combinations, spread, shrunk, width):
    return spread @ combinations.T


def _always_resolved(equations, combinations, responses):
    return np.ones(len(combinations)), np.ones(len(combinations), dtype=bool)


def _as_fitted(honest, self, learned):
    return dict(learned)


def _with_people(test):
    with studies.federation(studies.frames(4_000), name="inference") as people:
        test(people)


def _without_noise(honest, table, noise, **options):
    still = tables.CountNoise(noise.variance, lambda _, shape: np.zeros(shape, dtype=np.int64))
    return honest(table, still, **options)


def _first_levels_dropped(moments):
    free = free_coefficients(list(moments.features[1:]))
    return np.vstack([free[-1], free[:-1]]).T


def _last_gradient(found, _information):
    last = found.gradients[-1]
    return newton_inference.PooledGradient(last.weights, last.values, np.full(len(last.values), last.variance))


def _deaf_to_changes():
    """Numpy for a module that combines two ways in which slopes change: neither of them counts."""
    deaf = types.ModuleType("numpy")
    deaf.__dict__.update(np.__dict__)
    deaf.hypot = lambda one, _other: np.zeros_like(one)
    return deaf


BUGS = [
    Bug(
        "a test of independence forgets the noise in the tables that it simulates",
        wrapped(independent, "independence_test", _without_noise),
        partial(independent.test_independent_columns_are_rejected_as_often_as_the_level_says, "much noise"),
    ),
    Bug(
        "noise in products of two columns is forgotten in their covariance",
        replaced(moment_summaries.MomentSummary, "_variance", property(lambda self: 0 * self.moments.variance[1:, 1:])),
        partial(correlations.test_intervals_cover_what_the_same_people_give_without_noise, 30.0),
    ),
    Bug(
        "the nearest correlation matrix is the one that was measured",
        replaced(moment_summaries, "nearest_correlation", np.array),
        correlations.test_estimates_are_positive_semi_definite_however_large_the_noise,
    ),
    Bug(
        "noise in the products of two features is forgotten",
        wrapped(MomentScore, "covariance", _of_the_target_alone),
        equations.test_the_first_order_law_holds_where_the_matrix_stands_out_of_the_noise,
    ),
    Bug(
        "a total error leaves out the privacy noise",
        wrapped(Inference, "errors", _sampling_alone),
        equations.test_intervals_with_sampling_cover_the_population,
    ),
    Bug(
        "a coefficient that is not resolved is called determined",
        replaced(inference, "_fieller", _always_resolved),
        equations.test_nothing_is_determined_by_noise_alone,
    ),
    Bug(
        "coefficients that cannot be told apart are called determined",
        replaced(inference, "SEPARATED", 1e9),
        equations.test_a_level_that_nobody_has_and_columns_that_add_up_are_not_determined,
    ),
    Bug(
        "an estimate is shrunken towards 0",
        replaced(inference, "_flat_along", _not_along),
        equations.test_no_estimate_is_shrunken_along_its_own_combination,
    ),
    Bug(
        "the error of a surrogate forgets that its slope is noisy",
        wrapped(_LeastSquares, "scaled", _exact_slope),
        equations.test_intervals_of_a_logistic_surrogate_cover_what_the_surrogate_gives_without_noise,
    ),
    Bug(
        "the square of an indicator has noise of its own",
        replaced(MomentScore, "tied", property(lambda self: np.zeros(len(self.moments.features), dtype=bool))),
        equations.test_an_indicator_whose_square_is_its_sum_has_one_noise,
    ),
    Bug(
        "an explained variance is as exact as if the means were known",
        wrapped(moments, "quadratic_variance", _without_means),
        equations.test_the_error_of_an_explained_variance_counts_the_noise_of_the_means,
    ),
    Bug(
        "levels are written as they were fitted, whatever the coding",
        wrapped(RegressionStudy, "_written", _as_fitted),
        partial(_with_people, studies.test_codings_change_coefficients_and_not_predictions),
    ),
    Bug(
        "the levels that others are compared with are known by what the others leave",
        replaced(newton, "level_sums", _first_levels_dropped),
        newton.test_what_is_opened_twice_is_known_better,
    ),
    Bug(
        "levels add up to the constant although values are missing",
        replaced(inference, "_is_complete", lambda _moments, _places: True),
        newton.test_levels_of_a_category_with_missing_values_are_left_as_they_are,
    ),
    Bug(
        "of the gradients of a run only the last one counts",
        replaced(newton_inference, "pooled_gradient", _last_gradient),
        newton.test_all_gradients_together_tell_more_than_the_last_one,
    ),
    Bug(
        "slopes do not change on the way of a run",
        replaced(newton_inference, "np", _deaf_to_changes()),
        newton.test_a_gradient_from_far_away_counts_little_where_noise_does_not_hide_that_slopes_change,
    ),
    Bug(
        "a level that hardly anybody has is told from the others by noise",
        replaced(OpenedScore, "information_variance", lambda _self, directions: np.zeros(directions.shape[1])),
        newton.test_levels_compared_with_one_that_hardly_anybody_has_are_not_determined,
    ),
    Bug(
        "the levels that others are compared with tell nothing in a linear model",
        replaced(inference, "level_sums", lambda moments, **_: _first_levels_dropped(moments)),
        equations.test_levels_that_add_up_make_intervals_narrower_than_leaving_one_out_does,
    ),
]
