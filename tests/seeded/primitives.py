"""Bugs in moments, sketches and shards."""

from functools import partial

import numpy as np

from colonnade.coordinator.protocols.local_moments import SketchedMoments, SketchedSquare
from colonnade.estimation import counts
from colonnade.party.policy import Policy
from colonnade.party.steps.local import PrivateValues
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws.additive import DiscreteGaussian
from colonnade.privacy.laws.values import PerturbedValues, WholeValues
from colonnade.secure.signs import Signs
from colonnade.steps.local import Sketch
from tests.estimators import test_moment as moments
from tests.estimators import test_sketch as sketches
from tests.party import test_moment_statistics as values
from tests.party import test_shards as shards
from tests.party import test_sketch_statistics as sketched
from tests.privacy import test_unbiased_power as powers
from tests.seeded.bug import Bug, replaced, wrapped


def _half_the_noise(honest, self, people, randomness):
    return honest(self, people, randomness) // 2


def _noise_of_an_event_for_a_whole_value(honest, column, name, change):
    found = honest(column, name, change)
    return WholeValues(found.low, found.high, 1)


def _without_the_row_of_sums(self, price):
    return DiscreteGaussian(price, self.signs.rows * self.coding.row_bound)


def _signs_of_the_first_block_again(honest, self, number):
    return honest(self, 0)


def _one_party_too_few(honest, curvatures):
    return honest(curvatures[:-1])


def _any_relation(honest, self, plan, terms):
    return honest(Policy(event_level=True), plan, terms)


def _all_rows_of_one_hand(honest, self):
    return [(np.arange(self.people), self)]


BUGS = [
    Bug(
        "values have half their noise",
        wrapped(PerturbedValues, "draw", _half_the_noise),
        partial(values.test_the_noise_has_its_law_and_not_that_of_another_scale, 7),
    ),
    Bug(
        "a whole value gets the noise of a step",
        wrapped(WholeValues, "of", _noise_of_an_event_for_a_whole_value),
        values.test_a_person_decides_one_value_and_it_stays_within_the_declared_width,
    ),
    Bug(
        "values outside the bounds are not clipped",
        replaced(PrivateValues, "compute", lambda self, table: table.values(self.columns[0]).astype(np.int64) * 2),
        values.test_values_are_rounded_and_clipped_and_a_missing_one_is_the_midpoint,
        full=True,
    ),
    Bug(
        "an event level needs nobody's consent",
        wrapped(Policy, "_check_plan", _any_relation),
        moments.test_a_partys_own_policy_has_to_allow_an_event_level,
    ),
    Bug(
        "the noise of one party is not undone",
        wrapped(counts, "_symbol", _one_party_too_few),
        powers.test_the_known_answers_of_the_reference,
    ),
    Bug(
        "a sketch is priced without its row of sums",
        replaced(Sketch, "law", _without_the_row_of_sums),
        sketched.test_the_noise_is_that_of_the_exact_length_at_the_ledgers_own_rho,
    ),
    Bug(
        "every block of people has the same signs",
        wrapped(Signs, "bits", _signs_of_the_first_block_again),
        sketched.test_signs_are_fair_and_pairwise_independent,
    ),
    Bug(
        "a sketched matrix keeps most of its noise on the diagonal",
        wrapped(SketchedMoments, "entry_noise", lambda honest, self: honest(self) / 4),
        sketches.test_moments_are_unbiased_and_as_noisy_as_they_say,
        full=True,
    ),
    Bug(
        "a sketched square keeps its noise",
        replaced(SketchedSquare, "noise", property(lambda self: 0.0)),
        partial(moments.test_the_sketch_has_the_true_mean_and_the_stated_error, "bounds"),
    ),
    Bug(
        "shards are put together before they are perturbed",
        wrapped(PrivateTable, "shards", _all_rows_of_one_hand),
        partial(shards.test_no_perturbation_sees_people_of_two_shards_and_no_statistic_the_undivided_table, "counts"),
    ),
]
