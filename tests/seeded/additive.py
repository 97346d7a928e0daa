"""Bugs in additive models: tables, plans, shapes and points."""

import dataclasses
from functools import partial

import numpy as np

from colonnade.coordinator.protocols import additive_steps
from colonnade.estimation import shapes
from colonnade.estimation.additive import TABLES, AdditiveSearch
from colonnade.estimation.shape_belief import AdditiveFit, ShapeBelief
from colonnade.estimation.shapes import OpenedTables, Overlap
from colonnade.estimators import scorecard_sql
from colonnade.estimators import shape_study as estimator
from colonnade.estimators.scorecard import Scorecard
from tests.estimators import test_additive as models
from tests.estimators import test_additive_pairs as pairs
from tests.seeded.bug import Bug, replaced


def _with_a_federation(test, **more):
    """Run a test that needs parties."""

    def run() -> None:
        with models._federation() as federation:
            test(federation=federation, **more)

    return run


def _with_a_card(test):
    """Run a test that needs a scorecard."""

    def run() -> None:
        with models._federation() as federation:
            test(models._card(federation))

    return run


def _with_a_federation_of_pairs(test):
    """Run a test that needs parties whose columns have codes."""

    def run() -> None:
        with pairs._federation() as federation:
            test(federation)

    return run


def _pulled(self: ShapeBelief, *given: object) -> AdditiveFit:
    """What it came to, with errors that take effects to be as small as they are believed to be."""
    found = _HONEST(self, *given)
    curvature, spread = self._curvature, found.believed
    variance = self._reading(found.weights)[1]
    whole, less = (
        spread - spread @ curvature @ np.linalg.solve(self._expected(spread, noise), curvature) @ spread
        for noise in (variance, 1e-5)
    )
    return dataclasses.replace(found, covariance=whole - less)


_HONEST = ShapeBelief._fit


BUGS = [
    Bug(
        "the events of a table are the people of its bin",
        replaced(OpenedTables, "events", property(lambda self: self.people)),
        models.test_two_gradients_at_constant_scores_are_the_tables_of_every_column,
    ),
    Bug(
        "the noise of a table is that of one gradient",
        replaced(OpenedTables, "people_variance", property(lambda self: self.variances[0])),
        models.test_two_gradients_at_constant_scores_are_the_tables_of_every_column,
    ),
    Bug(
        "a gradient that was opened is not taken in",
        replaced(AdditiveSearch, "_take_gradient", lambda self, gradient, variance: None),
        partial(models.test_without_noise_the_gradient_vanishes_whatever_opening_was_lost, ()),
    ),
    Bug(
        "the price goes to tables whatever it is",
        replaced(additive_steps, "chosen_division", lambda *_: TABLES),
        _with_a_federation(models.test_where_products_would_be_lost_in_noise_the_price_goes_to_tables),
    ),
    Bug(
        "a monotone effect is left as it was found",
        replaced(estimator, "_monotone", lambda effects, *_: effects),
        _with_a_federation(models.test_a_monotone_effect_is_monotone_exactly_and_stays_centred, direction="increasing"),
    ),
    Bug(
        "points are cut off instead of rounded",
        replaced(Scorecard, "_points", lambda self: np.floor(-self._factor * self.coef_[0] - 1).astype(np.int64)),
        _with_a_card(models.test_points_are_the_model_up_to_the_rounding_that_is_stated),
    ),
    Bug(
        "a pair and its own columns are taken to be independent",
        replaced(Overlap, "products", lambda self, people: np.outer(people[self.places], people[self.own]) / people[0]),
        pairs.test_what_a_pair_has_in_common_with_its_own_columns_is_known,
    ),
    Bug(
        "what a pair adds is not told apart from what its columns add",
        replaced(shapes, "_together", lambda places, column: shapes._components(places, 0, None)[0]),
        pairs.test_what_a_pair_adds_has_mean_zero_along_either_column,
    ),
    Bug(
        "a code in a table is scored in SQL like a quantity",
        replaced(scorecard_sql, "na_numbers", lambda column: ()),
        _with_a_federation_of_pairs(pairs.test_a_code_that_is_not_a_bin_of_its_own_is_missing_in_sql_too),
    ),
    Bug(
        "errors of shapes take effects to be as small as believed",
        replaced(ShapeBelief, "_fit", _pulled),
        partial(models.test_intervals_cover_effects_whether_or_not_they_are_as_small_as_believed, 0.6),
    ),
    Bug(
        "every bin is called determined",
        replaced(AdditiveFit, "determined_in", lambda self, combinations, unit: np.ones(len(combinations), bool)),
        models.test_an_effect_that_noise_hides_is_not_called_determined,
    ),
]
