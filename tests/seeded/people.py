"""Bugs that let one person do more than is declared."""

import math
from functools import partial

import numpy as np

from colonnade.party.steps import coresets as coreset_rows
from colonnade.party.steps import integers
from colonnade.party.steps import parts as coding
from colonnade.party.steps.local import PrivateHistogram, PrivateReports
from colonnade.party.table import row_order as alignment
from colonnade.privacy.accounting import NANO, Loss
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.response import RandomizedResponse, best_channel
from colonnade.schema import Number
from colonnade.schema.encoders import CategoryEncoder, NumericEncoder
from colonnade.schema.features import coded_block
from colonnade.steps.local import Reports
from tests import test_record_and_replay as replay
from tests.party import test_alignment as alignments
from tests.party import test_integer_bounds as integer_bounds
from tests.party import test_statistics as statistics
from tests.party import test_statistics_joint as joint_statistics
from tests.party import test_table as tables
from tests.seeded.bug import Bug, replaced, wrapped


def _counts_the_missing(self, table):
    codes, _ = table.joint_codes(self.columns)
    return np.bincount(np.maximum(codes, 0), minlength=self.size).astype(np.int64)


def _ends_at_the_largest_level(self, table):
    codes, _ = table.joint_codes(self.columns)
    return np.bincount(codes[codes >= 0]).astype(np.int64)


def _drops_the_missing(honest, self, table):
    codes = honest(self, table)
    return codes[codes >= 0]


def _passes_nan(self, column):
    return self._bounded(np.array(self.read(column).numbers, dtype=np.float64))


def _old_integers(numbers, middle, half, scale, low, high, out):
    """As it was: a clamp that lets NaN through, and a cast that makes −2⁶³ of it."""
    with np.errstate(all="ignore"):
        coded = np.rint((numbers - middle) / half * scale)
        out[:] = np.clip(coded, low, high).astype(np.int64)
    return True


def _old_coding(patch):
    """All three at once: any bounds, no check of integers, and no clip of coded numbers."""
    patch.setattr(Number, "__post_init__", lambda self: None)
    patch.setattr(integers, "_made", _old_integers)
    _unclipped_coding(patch)


def _unclipped_coding(patch):
    patch.setattr(coreset_rows, "coded_block", _unclipped_block)
    patch.setattr(integer_bounds, "to_unit_range", _unclipped)


def _unclipped(values, column):
    return (values - column.midpoint) / column.half_range


def _unclipped_block(cells, column):
    return _unclipped(cells, column)[None] if isinstance(column, Number) else coded_block(cells, column)


def _scales_by_the_data(honest, self, column):
    numbers = honest(self, column)
    return numbers / max(float(np.abs(numbers).max(initial=1)), 1.0)


def _claims_amplification(self, price):
    mechanism = RandomizedResponse(best_channel(self.size, price))
    secret = math.log1p(self.sample * math.expm1(price.epsilon))  # what a sample costs that nobody knows
    mechanism.loss = Loss.of_pure(math.ceil(secret * NANO))
    return mechanism


def _rounds_clipped_rows(columns, row_bound):
    for person in range(columns.shape[1]):
        length = float((columns[:, person].astype(float) ** 2).sum())
        if length > row_bound:
            columns[:, person] = np.rint(columns[:, person] * (row_bound / length) ** 0.5)


def _same_noise_on_the_diagonal(honest, noise, variance, *rest):
    return honest(noise, min(variance, noise.own_variance), *rest)


def _in_order_of_appearance(honest, ids, common, **options):
    found = honest(ids, common, **options)
    return type(found)(**{**vars(found), "rows": np.sort(found.rows)})


BUGS = [
    Bug(
        "numbers are not clipped",
        replaced(NumericEncoder, "_bounded", lambda self, numbers: numbers),
        partial(tables.test_a_number_is_clipped_and_a_missing_one_is_the_midpoint, *tables.NUMBERS[4]),
    ),
    Bug(
        "NaN passes through",
        replaced(NumericEncoder, "__call__", _passes_nan),
        joint_statistics.test_every_row_is_made_of_integers_within_the_scale_and_no_longer_than_its_bound,
    ),
    Bug(
        "bounds between which no number can be told apart are accepted",
        replaced(Number, "__post_init__", lambda self: None),
        partial(
            integer_bounds.test_bounds_too_close_together_or_too_far_apart_to_compute_with_are_refused,
            *integer_bounds.REFUSED[0],
        ),
    ),
    Bug(
        "bounds between which no number can be told apart are accepted, seen by the steps",
        replaced(Number, "__post_init__", lambda self: None),
        integer_bounds.test_no_column_no_reading_and_no_cell_takes_any_kind_of_step_past_its_bound,
        full=True,
    ),
    Bug(
        "a forged reading switches clipping off",
        _old_coding,
        integer_bounds.test_a_forged_reading_that_switches_clipping_off_is_refused_the_same_for_every_table_and_stops_nobody,
    ),
    Bug(
        "a reading switches clipping off, seen by the steps",
        _old_coding,
        integer_bounds.test_no_column_no_reading_and_no_cell_takes_any_kind_of_step_past_its_bound,
        full=True,
    ),
    Bug(
        "NaN becomes an integer",
        replaced(integers, "_made", _old_integers),
        partial(integer_bounds.test_what_is_no_finite_number_never_becomes_an_integer, math.nan),
    ),
    Bug(
        "nobody checks that shared rows keep their bound",
        replaced(coding, "require_within", lambda rows, largest: None),
        integer_bounds.test_rows_beyond_their_bound_are_not_shared,
    ),
    Bug(
        "coded numbers leave [-1, 1] where a midpoint was rounded",
        _unclipped_coding,
        partial(
            integer_bounds.test_every_cell_of_a_column_that_is_accepted_is_coded_between_minus_one_and_one,
            *integer_bounds.ACCEPTED[2],
        ),
    ),
    Bug(
        "an unknown category is the first level",
        wrapped(CategoryEncoder, "__call__", lambda honest, self, column: np.maximum(honest(self, column), 0)),
        statistics.test_what_is_no_level_is_in_no_cell,
    ),
    Bug(
        "numbers are scaled by the data's own maximum",
        wrapped(NumericEncoder, "__call__", _scales_by_the_data),
        joint_statistics.test_a_person_decides_their_own_row_and_no_other,
    ),
    Bug(
        "parties' rows are not in the same order",
        wrapped(alignment, "align", _in_order_of_appearance),
        lambda: _places_agree(),
    ),
    Bug(
        "the missing are counted in the first cell",
        replaced(PrivateHistogram, "compute", _counts_the_missing),
        statistics.test_what_is_no_level_is_in_no_cell,
    ),
    Bug(
        "a histogram ends at the largest level that occurs",
        replaced(PrivateHistogram, "compute", _ends_at_the_largest_level),
        statistics.test_the_shape_of_a_histogram_depends_on_the_schema_alone,
    ),
    Bug(
        "a histogram counts everybody twice",
        wrapped(PrivateHistogram, "compute", lambda honest, self, table: 2 * honest(self, table)),
        statistics.test_a_person_removed_moves_one_cell_of_a_histogram_by_at_most_one,
    ),
    Bug(
        "people without a category send no report",
        wrapped(PrivateReports, "compute", _drops_the_missing),
        partial(replay.test_a_person_removed_changes_nothing_but_the_gates_own_outputs, "response, two parties", 57),
    ),
    Bug(
        "a sample is charged as if it were secret",
        replaced(Reports, "law", _claims_amplification),
        statistics.test_a_sample_buys_no_privacy,
    ),
    Bug(
        "rows are not clipped",
        replaced(coding, "_clip_rows", lambda columns, bound: None),
        joint_statistics.test_every_row_is_made_of_integers_within_the_scale_and_no_longer_than_its_bound,
    ),
    Bug(
        "clipped rows are rounded to the nearest integer",
        replaced(coding, "_clip_rows", _rounds_clipped_rows),
        joint_statistics.test_clipping_shortens_a_row_no_more_than_truncation_asks_for,
    ),
    Bug(
        "the diagonal of a party's own block has the noise of the rest",
        wrapped(GramNoise, "_draw", _same_noise_on_the_diagonal),
        partial(
            joint_statistics.test_a_party_noises_its_own_block_with_v_on_the_diagonal_and_half_of_it_elsewhere,
            "gaussian",
        ),
    ),
]


def _places_agree():
    """The alignment's own property, on the function as its module has it now."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignments, "align", alignment.align)
        alignments.test_everybody_in_common_stands_in_the_same_place_at_every_party()
