"""Bugs in counts and sums by group."""

from functools import partial

import numpy as np

from colonnade.conversations import products as runs
from colonnade.coordinator.protocols import grouping
from colonnade.estimation import moment_summaries as figures
from colonnade.estimation.moment_summaries import GroupFigures
from colonnade.party.steps import products as rows
from colonnade.privacy.laws.groups import GroupNoise
from colonnade.steps.groups import GroupTerms
from tests.conversations import test_group_run as stages
from tests.estimators import test_group_by as studies
from tests.party import test_group_statistics as parts
from tests.privacy import test_group_noise as laws
from tests.seeded.bug import Bug, replaced, wrapped


def _every_value_opened(honest, self, groups, one, other, wanted):
    return honest(self, groups, one, 0 * other, wanted)


def _twice_as_high(honest, part, by, scale, table, start, stop):
    return 2 * honest(part, by, scale, table, start, stop)


def _not_dealt_again(honest, dealing, values):
    shares = honest(dealing, values)
    return (values, *shares[1:])


def _exact_counts(honest, numerator, denominator, noise, level, bounds=(-1.0, 1.0)):
    return honest(numerator, denominator, noise._replace(denominator=0 * noise.denominator), level, bounds)


def _of_all_people(codes, values, largest, first, out):
    for person in range(len(codes)):
        place = max(int(codes[person]), 0)
        out[first + place, person] = np.int64(min(max(values[person], -largest), largest))


BUGS = [
    Bug(
        "a count is not counted among what a person moves",
        replaced(GroupNoise, "moved", lambda self, party=None: self.values * self.value_height**2 or 1),
        laws.test_no_person_moves_more_than_the_law_says,
    ),
    Bug(
        "a replaced record moves as much as one that is zeroed out",
        replaced(GroupNoise, "replaced", property(lambda self: self.moved())),
        laws.test_no_person_moves_more_than_the_law_says,
    ),
    Bug(
        "shares of the noise forget the colluders",
        replaced(GroupNoise, "honest", property(lambda self: len(self.parties))),
        partial(laws.test_gaussian_noise_is_that_of_one_curator_times_what_colluders_may_take_off, 1, 3, 1),
    ),
    Bug(
        "products of two values are opened",
        wrapped(GroupTerms, "_places", _every_value_opened),
        stages.test_products_of_two_values_are_not_opened,
    ),
    Bug(
        "rows are higher than the law is made for",
        wrapped(rows, "group_rows", _twice_as_high),
        partial(parts.test_a_person_has_one_indicator_and_values_within_their_bound, "groups and values"),
    ),
    Bug(
        "a person without a level is put in the first group",
        replaced(rows, "_put", _of_all_people),
        partial(parts.test_zeroing_a_record_out_takes_the_person_out_of_every_column_and_nobody_else, "groups"),
    ),
    Bug(
        "a node keeps its product and deals nothing fresh to the first node",
        wrapped(runs.link_shares, "redealt", _not_dealt_again),
        partial(stages.test_what_is_opened_is_every_count_and_sum_plus_everyones_noise, "three parties"),
    ),
    Bug(
        "the interval of a mean takes its count for exact",
        wrapped(figures, "ratio_interval", _exact_counts),
        studies.test_the_mean_of_a_group_that_may_be_empty_is_left_open,
    ),
    Bug(
        "a group that is too small for its noise is not flagged",
        replaced(GroupFigures, "small", lambda self: np.zeros(self.counts.shape, dtype=bool)),
        studies.test_the_mean_of_a_group_that_may_be_empty_is_left_open,
    ),
    Bug(
        "groups are shown in the order of parties instead of the one that was asked for",
        replaced(
            grouping.GroupRelease,
            "_arranged",
            lambda self, cells: cells.reshape([column.size for column in self.by.values()]),
        ),
        studies.test_the_same_groups_in_another_order_are_the_same_release,
    ),
]
