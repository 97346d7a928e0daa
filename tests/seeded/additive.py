"""Bugs in additive models: tables, plans, shapes and points."""

import dataclasses
from functools import partial

import numpy as np

import colonnade as cn
from colonnade.coordinator.protocols import counting, evaluation, newton_steps
from colonnade.coordinator.protocols.counting import TargetTables
from colonnade.estimation import additive, shape_belief
from colonnade.estimation.additive import TABLES, AdditiveSearch, Recalibration
from colonnade.estimation.shape_belief import AdditiveFit, OpenedTables, Overlap, ShapeBelief
from colonnade.estimators import additive as estimators
from colonnade.estimators import scorecard
from colonnade.estimators import shape_study as estimator
from colonnade.estimators import shape_study as two_stages
from colonnade.estimators.scorecard import Scorecard
from colonnade.party.guard import Guard
from tests.estimators import test_additive as models
from tests.estimators import test_additive_classes as classes
from tests.estimators import test_additive_pairs as pairs
from tests.estimators import test_additive_stages as stages
from tests.seeded.bug import Bug, replaced


def _with_a_federation(test, **more):
    """Run a test that needs parties."""

    def run() -> None:
        with models._federation() as federation:
            test(federation=federation, **more)

    return run


def _with_a_card(test, *, parties=False):
    """Run a test that needs a scorecard, and perhaps the parties that it was fitted on."""

    def run() -> None:
        with models._federation() as federation:
            test(models._card(federation), *([federation] if parties else []))

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
_HONEST_BANDS = evaluation._bands


def _with_a_federation_of_stages(test):
    """Run a test of a study in two stages."""

    def run() -> None:
        with stages._federation() as federation:
            test(federation)

    return run


def _with_evidence(test):
    """Run a test that needs a scorecard made of tables."""

    def run() -> None:
        with stages._federation() as federation:
            test(stages._model(cn.Scorecard, method=stages.EVIDENCE).fit(federation))

    return run


def _with_classes(test):
    """Run a test that needs a model of three classes."""

    def run() -> None:
        with classes._federation() as federation:
            test(classes._model().fit(federation))

    return run


def _preview_of_a_stand_in(self, federation, *, repeat: int = 1):
    """Show a second stage that stands for the one that was run."""
    checked, first = self._begun(federation, repeat)
    if first is None:
        return _HONEST_PREVIEW(self, federation, repeat=repeat)
    second = checked._going_on(first, None)
    price = checked.method.price(checked)
    words = checked._stage_words(first, second)
    shown = second.preview(federation, repeat=repeat)
    return two_stages.in_two_stages(checked._as_read(federation), first, shown, price, words)


_HONEST_PREVIEW = estimator.ShapeStudy.preview
_HONEST_SHAPES = estimators.AdditiveClassifier._shapes

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
        replaced(newton_steps, "chosen_division", lambda *_: TABLES),
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
        replaced(shape_belief, "_together", lambda places, column: shape_belief._components(places, 0, None)[0]),
        pairs.test_what_a_pair_adds_has_mean_zero_along_either_column,
    ),
    Bug(
        "a code in a table is scored in SQL like a quantity",
        replaced(scorecard, "na_numbers", lambda column: ()),
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
    Bug(
        "a party that answers one step of a plan takes every step for its own",
        replaced(Guard, "_is_asked", lambda self, plan, step: bool(plan.steps_of(self._gate.terms.party))),
        _with_a_federation_of_stages(stages.test_the_second_plan_names_the_first_and_the_statement_is_about_both),
    ),
    Bug(
        "the statement of a study in two stages is that of the second",
        replaced(two_stages, "_both", lambda first, second: second),
        _with_a_federation_of_stages(stages.test_the_second_plan_names_the_first_and_the_statement_is_about_both),
    ),
    Bug(
        "every table of a column with the target has the whole price",
        replaced(
            TargetTables,
            "prices",
            property(lambda self: (self.price, counting._pure(counting.ledger_rho(self.price)))),
        ),
        stages.test_a_person_is_in_one_cell_of_every_table_so_each_has_its_part_of_the_price,
    ),
    Bug(
        "both stages have the whole price",
        replaced(stages, "divided", lambda price, share: (price, price)),
        stages.test_two_stages_cost_no_more_than_the_price,
    ),
    Bug(
        "weights of evidence are added up as they are",
        replaced(estimators, "recalibration", lambda *_, **__: Recalibration(-1.0, 1.0, 0.1, 0.1)),
        _with_evidence(stages.test_columns_that_say_the_same_are_not_counted_twice),
    ),
    Bug(
        "a first stage is paid for whether or not the second can follow",
        replaced(estimator, "require_both", lambda *_: None),
        stages.test_a_study_whose_second_stage_cannot_follow_is_refused_before_the_first_is_paid_for,
    ),
    Bug(
        "populations of different sizes cannot be compared",
        replaced(evaluation, "_bands", lambda histogram, *_: _HONEST_BANDS(histogram, *histogram.scores[[0, -1]])),
        _with_a_card(models.test_a_population_that_has_not_changed_is_stable, parties=True),
        full=True,
    ),
    Bug(
        "columns are chosen that leave nobody else to compute with",
        replaced(two_stages, "best_columns", lambda scores, target, wanted: sorted(scores)[:wanted]),
        stages.test_a_choice_leaves_a_column_of_another_party,
    ),
    Bug(
        "errors of marginal effects leave out how far noise has pulled them",
        replaced(additive, "_pull", lambda free, *_: np.zeros(len(free))),
        stages.test_intervals_of_marginal_effects_cover_them_however_far_noise_has_pulled_them,
    ),
    Bug(
        "counts that are pulled together are taken to have all of their noise, which would cancel that of events",
        replaced(additive, "kept_apart", lambda *_: 1.0),
        stages.test_intervals_of_marginal_effects_cover_them_however_far_noise_has_pulled_them,
    ),
    Bug(
        "a second stage that was paid for is shown as if it had a price again",
        replaced(estimator.ShapeStudy, "preview", _preview_of_a_stand_in),
        _with_a_federation_of_stages(
            stages.test_after_a_fit_its_preview_charges_neither_stage_again_and_names_what_was_chosen
        ),
    ),
    Bug(
        "the traffic of a study in two stages is that of the second",
        replaced(two_stages, "_traffic", lambda first, second: second),
        _with_a_federation_of_stages(stages.test_a_preview_of_two_stages_forecasts_the_traffic_of_both),
    ),
    Bug(
        "an effect that is not determined is drawn outside its panel",
        replaced(
            classes.panel,
            "_reach",
            lambda shapes: 1.08 * float(shape_belief["effect"][np.isfinite(shape_belief["stderr"])].max()),
        ),
        classes.test_an_effect_that_is_not_determined_is_drawn_inside_its_panel,
    ),
    Bug(
        "every class has the shapes of the first",
        replaced(
            estimators.AdditiveClassifier,
            "_shapes",
            lambda self, found, *rest: _HONEST_SHAPES(self, [found[0]] * len(found), *rest),
        ),
        _with_classes(classes.test_every_class_has_a_shape_of_its_own_for_each_column),
    ),
]
