"""Bugs in descriptions of columns, in quantiles, and in bounds that are tightened."""

from fractions import Fraction
from functools import partial

import numpy as np

from colonnade.coordinator import tightening
from colonnade.coordinator.protocols.describing import ColumnTables
from colonnade.estimation.describing import BinCounts
from colonnade.estimators.methods import describing as methods
from colonnade.party.steps import local as private
from colonnade.privacy.laws import quantile_search
from colonnade.privacy.laws.quantile_search import Ascending, QuantileSearch
from colonnade.schema.indicator import Indicator
from colonnade.steps.describing import ColumnCounts, CountedColumn
from tests.estimators import test_describing as described
from tests.party import test_describing as parties
from tests.privacy import test_quantile_search as searches
from tests.seeded.bug import Bug, replaced, wrapped


def _half_the_noise(honest, self, price, *rest):
    honest(self, price, *rest)
    self._rate *= 2


def _everybody_again(self, question, people, low, high, sampler):
    """Ask the next questions about everybody: a person is then in all of them."""
    yield question.place, self.draw(question, people, low, high, sampler)
    for after in (question.below, question.above):
        if after is not None:
            yield from self._search(after, people, low, high, sampler)


def _without_rounding(self, question, people, first=0, last=None):
    under, over = question.weights()
    below = np.arange(first, people + 1 if last is None else last, dtype=np.int64)
    return np.abs(under * below - over * (people - below))


class _Everywhere:
    """A table in which nobody's value is missing."""

    def __init__(self, table) -> None:
        self.people = table.people

    def codes(self, name, start=0, stop=None):
        return np.zeros(self.people, dtype=np.int32)[start:stop]

    def load(self, names) -> None:
        """Nothing is read."""


BUGS = [
    Bug(
        "the weights of quantiles fall twice as fast as was paid for",
        wrapped(QuantileSearch, "__init__", _half_the_noise),
        partial(searches.test_weights_are_positive_whole_numbers_that_fall_no_faster_than_allowed, 1.0),
    ),
    Bug(
        "the rank error is not counted in people",
        replaced(QuantileSearch, "scores", _without_rounding),
        searches.test_one_person_less_moves_a_rank_error_by_at_most_one,
    ),
    Bug(
        "every question of a search is about everybody",
        replaced(QuantileSearch, "_search", _everybody_again),
        searches.test_a_person_is_in_one_question_per_level,
    ),
    Bug(
        "a search leaves out a person next to those that it looks at",
        wrapped(
            QuantileSearch, "_near", lambda honest, self, *given: (honest(self, *given)[0] + 1, honest(self, *given)[1])
        ),
        searches.test_a_draw_that_looks_around_one_rank_is_the_draw_among_all_people,
    ),
    Bug(
        "people of one run of a search stand for all",
        wrapped(Ascending, "_places", lambda honest, self, *given: honest(self, *given)[:1] * len(self._runs)),
        searches.test_people_in_several_runs_stand_in_the_order_of_one,
    ),
    Bug(
        "people with one value all stand at one place",
        replaced(quantile_search, "PLACES", 1),
        searches.test_people_with_one_value_stand_in_any_order,
    ),
    Bug(
        "levels of a search are not paid for",
        replaced(quantile_search, "search_levels", lambda quantiles: 1),
        searches.test_the_price_is_divided_between_levels_and_columns,
    ),
    Bug(
        "the zCDP of a question is a half of the squared step and not an eighth",
        replaced(quantile_search, "_root_below", lambda value: Fraction(2 * float(value) ** 0.5)),
        searches.test_the_curve_is_that_of_an_eighth_of_the_squared_step_and_never_above_the_pure_one,
    ),
    Bug(
        "groups of bins are not counted in the sensitivity",
        replaced(CountedColumn, "levels", property(lambda self: 1)),
        parties.test_a_person_removed_leaves_as_many_cells_as_is_declared_and_each_by_one,
    ),
    Bug(
        "the noise of counts is that of a single column",
        replaced(ColumnCounts, "sensitivity", property(lambda self: 2)),
        parties.test_the_noise_of_counts_is_that_of_the_cells_that_one_person_is_in,
    ),
    Bug(
        "a missing number stands among the quantiles at its fill value",
        replaced(private.PrivateQuantilePositions, "_presence", lambda self, table: _Everywhere(table)),
        parties.test_a_missing_value_is_counted_by_itself_and_not_at_its_fill_value,
    ),
    Bug(
        "a table is not fitted to its groups",
        replaced(BinCounts, "_fitted", lambda self, bins, groups, total: bins),
        described.test_the_fitted_table_is_the_least_squares_one_and_its_variances_are_exact,
    ),
    Bug(
        "every party's counts cost the whole price",
        replaced(methods, "party_share", lambda price, parties, unit: price),
        described.test_one_price_covers_all_columns_and_is_divided_between_parties,
    ),
    Bug(
        "bounds that touch stay where they are",
        replaced(tightening, "widened", lambda low, high, least, most, width: (low, high)),
        described.test_bounds_that_touch_widen_to_the_least_width_inside_the_declared_ones,
    ),
    Bug(
        "a model's indicator is taken for another column where its bounds are others",
        replaced(Indicator, "is_same", lambda self, other: self == other),
        described.test_a_model_of_a_tightened_federation_is_evaluated_on_the_declared_one_with_the_bounds_that_it_was_fitted_with,
    ),
    Bug(
        "a summary does not say that values were clipped",
        replaced(described.cn.LinearRegression, "_clipped", lambda self: {}),
        described.test_a_study_of_the_tightened_federation_is_the_same_code_and_says_that_values_were_clipped,
    ),
    Bug(
        "errors are those of half the noise",
        wrapped(ColumnTables, "noise", lambda honest, self, party: honest(self, party) / 8),
        partial(described.test_errors_are_as_large_as_they_are_said_to_be, {"epsilon": 1.0}),
    ),
]
