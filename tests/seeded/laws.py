"""Bugs in noise, bounds and prices: of every law at least one."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from colonnade import result
from colonnade.papers import laws as all_sketches
from colonnade.papers import private as coreset_rows
from colonnade.papers.laws import PerturbedValues, Sketching
from colonnade.papers.steps import SketchStep
from colonnade.party.steps import participants
from colonnade.party.steps.products import PrivateCoefficients, folded_products, triangle_places
from colonnade.party.table import private_table
from colonnade.privacy import accounting as loss
from colonnade.privacy import accounting as price
from colonnade.privacy import calibration as curves
from colonnade.privacy import randomness, samplers
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import local_clustering, quantile_search, response
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace, GaussianCounts
from colonnade.privacy.laws.coefficients import CoefficientNoise
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.local_clustering import LocalClustering
from colonnade.privacy.laws.quantile_search import QuantileSearch
from colonnade.privacy.laws.response import Channel, RandomizedResponse
from colonnade.privacy.laws.tables import GroupNoise, TableNoise
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.result import PrivacyStatement
from colonnade.schema import Number, coded_block
from colonnade.schema.encoders import NumericEncoder
from colonnade.steps.products import Coefficients
from colonnade.steps.spreads import HEIGHT, Spreads
from tests.estimators import test_bad_input as bad_input
from tests.estimators import test_pattern_count as studies
from tests.papers import test_moment_statistics as values
from tests.papers import test_partition_sketch as laws_of_sketches
from tests.papers import test_partition_sketches as mechanisms
from tests.papers import test_sketch_statistics as sketched
from tests.party import test_coefficients as coefficients
from tests.party import test_integer_bounds as integer_bounds
from tests.party import test_local_clustering as local
from tests.party import test_spreads as spreads
from tests.party import test_statistics_joint as joint_statistics
from tests.party import test_table as tables
from tests.privacy import test_calibration as calibrations
from tests.privacy import test_functional_noise as sensitivities
from tests.privacy import test_group_noise as laws_of_groups
from tests.privacy import test_joint_noise as joint_noises
from tests.privacy import test_loss as losses
from tests.privacy import test_mechanisms as laws
from tests.privacy import test_quantile_search as searches
from tests.privacy import test_randomness as sources
from tests.privacy import test_samplers as draws
from tests.seeded.bug import Bug, replaced, wrapped


def _half_the_laplace_noise(honest, self, nonprivate, source):
    weak = DiscreteLaplace(Price.of(1.0), 1)
    weak.scale = self.scale / 2
    return honest(weak, nonprivate, source)


def _half_the_gaussian_noise(honest, self, nonprivate, source):
    weak = DiscreteGaussian(Price.of(1.0, 1e-5), 1)
    weak.sigma_squared = self.sigma_squared / 4
    return honest(weak, nonprivate, source)


def _noise_of_whole_steps(honest, self, nonprivate, source):
    weak = GaussianCounts(Price.of(8.0, 1e-5), 2)
    weak.sigma_squared = self.sigma_squared / self.height**2
    return honest(weak, nonprivate, source)


def _truth_too_often(honest, channel):
    return honest(Channel(channel.kind, channel.categories, channel.size, 2 * channel.nano))


def _noise_around_zero_only(honest, self, nonprivate, source):
    return np.where(nonprivate == 0, honest(self, nonprivate, source), nonprivate)


def _ties_are_won(honest, self, word, source):
    return word <= self._threshold.floor


def _one_seed_of_two(count):
    seed = int.from_bytes(np.random.bytes(4), "big") % 2
    return np.random.default_rng(seed).integers(256, size=count, dtype=np.uint8)


def _rounded_normal(honest, sigma_squared, size, source):
    one, two = (source.words(2 * size).astype(np.float64) / 2**64).reshape(2, -1)
    normal = np.sqrt(-2 * np.log(one + 1e-18)) * np.cos(2 * np.pi * two)
    return np.rint(normal * float(sigma_squared) ** 0.5).astype(np.int64)


def _law_of_narrow_noise():
    """The sampler's own test, on the sampler as its module has it now."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "discrete_gaussian", samplers.discrete_gaussian)
        draws.test_the_discrete_gaussian_has_its_law("1/2")


_ADDITIVE = laws.test_additive_noise_has_its_law_and_not_that_of_another_scale


_REPORTS = laws.test_reports_have_their_law_and_not_that_of_another_price


def _old_integers(numbers, middle, half, scale, low, high, out):
    """As it was: a clamp that lets NaN through, and a cast that makes −2⁶³ of it."""
    with np.errstate(all="ignore"):
        coded = np.rint((numbers - middle) / half * scale)
        out[:] = np.clip(coded, low, high).astype(np.int64)
    return True


def _old_coding(patch):
    """All three at once: any bounds, no check of integers, and no clip of coded numbers."""
    patch.setattr(Number, "__post_init__", lambda self: None)
    patch.setattr(private_table, "_made", _old_integers)
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


def _null_is_the_midpoint(honest, self, column, null=None):  # that is the bug
    return honest(self, column)


def _same_noise_on_the_diagonal(honest, noise, variance, *rest):
    return honest(noise, min(variance, noise.own_variance), *rest)


def _largest(some):
    return max(some, key=lambda one: one.renyi, default=loss.NOTHING)


def _one_gaussian(l2_sensitivity_squared, share_variance, shares, entries):
    return Fraction(l2_sensitivity_squared) / (2 * shares * share_variance)


_STATEMENT = studies.test_the_statement_divides_a_persons_price_between_the_parties


_MOVEMENT = joint_noises.test_nothing_moves_a_gram_matrix_by_more_than_the_noise_was_made_for


def _half_the_noise(honest, self, price, *rest):
    honest(self, price, *rest)
    self._rate *= 2


def _half_the_noise_of_primitives(honest, self, people, randomness):
    return honest(self, people, randomness) // 2


def _without_the_row_of_sums(self, price):
    return DiscreteGaussian(price, self.signs.rows * self.coding.row_bound)


def _no_squares(honest, self, block):
    curvature, slope = honest(self, block)
    return curvature - (self.holdings[block[0]].numbers if block[0] == block[1] else 0), slope


def _whole_loss_nowhere(self):
    return self.joint.noise.loss(party=self.party)


def _own_part_without_noise(self, table, sampler):
    nonprivate = folded_products(table, self.rows, self.step.width, self.step.coding.scale)
    return nonprivate[triangle_places(self.step.entries.rows, self.step.entries.columns, self.step.width + 1)]


def _unclipped_of_clustering(honest, rows, labels, references, radius, *, squared, squares):
    return honest(rows, labels, references, 2**30 if radius else 0, squared=squared, squares=squares)


def _half_the_noise_of_clustering(honest, self, sensitivity, share):
    return honest(self, sensitivity, share) / (4 if self.euclidean else 2)


def _half_the_phantoms(honest, law, sketches, clusters, source):
    return honest(all_sketches.sketch_law(max(1, law.phantoms // 2)), sketches, clusters, source)


BUGS = [
    # noise
    Bug(
        "half the Laplace noise",
        wrapped(DiscreteLaplace, "release", _half_the_laplace_noise),
        partial(_ADDITIVE, laws.ADDITIVE[0]),
    ),
    Bug(
        "half the Gaussian noise",
        wrapped(DiscreteGaussian, "release", _half_the_gaussian_noise),
        partial(_ADDITIVE, laws.ADDITIVE[2]),
    ),
    Bug(
        "counts in finer steps keep the noise of whole ones",
        wrapped(GaussianCounts, "release", _noise_of_whole_steps),
        partial(_ADDITIVE, laws.ADDITIVE[4]),
    ),
    Bug(
        "the truth is reported at twice the price",
        wrapped(response, "_threshold", _truth_too_often),
        partial(_REPORTS, laws.CHANNELS[1], 0),
    ),
    Bug(
        "noise that depends on the value",
        wrapped(DiscreteLaplace, "release", _noise_around_zero_only),
        partial(laws.test_noise_does_not_depend_on_the_value, laws.ADDITIVE[0]),
    ),
    Bug(
        "a tie with a probability is always won",
        wrapped(RandomizedResponse, "_below", _ties_are_won),
        laws.test_a_tie_is_resolved_by_further_bits_not_by_convention,
    ),
    Bug(
        "a rounded float instead of an exact draw",
        wrapped(samplers, "discrete_gaussian", _rounded_normal),
        _law_of_narrow_noise,
    ),
    Bug(
        "a generator with a seed of one bit",
        replaced(randomness, "_fresh", _one_seed_of_two),
        sources.test_the_system_never_repeats_itself,
    ),
    # people
    Bug(
        "numbers are not clipped",
        replaced(NumericEncoder, "_bounded", lambda self, numbers: numbers),
        partial(tables.test_a_number_is_clipped_and_a_missing_one_is_the_midpoint, *tables.NUMBERS[4]),
    ),
    Bug(
        "a forged reading switches clipping off",
        _old_coding,
        integer_bounds.test_a_forged_reading_that_switches_clipping_off_is_refused_the_same_for_every_table_and_stops_nobody,
    ),
    Bug(
        "NaN becomes an integer",
        replaced(private_table, "_made", _old_integers),
        partial(integer_bounds.test_what_is_no_finite_number_never_becomes_an_integer, math.nan),
    ),
    Bug(
        "nobody checks that shared rows keep their bound",
        replaced(participants, "require_within", lambda rows, largest: None),
        integer_bounds.test_rows_beyond_their_bound_are_not_shared,
        slow=True,
    ),
    Bug(
        "numbers are scaled by the data's own maximum",
        wrapped(NumericEncoder, "__call__", _scales_by_the_data),
        joint_statistics.test_a_person_decides_their_own_row_and_no_other,
        slow=True,
    ),
    Bug(
        "rows are not clipped",
        replaced(private_table, "_clip_rows", lambda columns, bound: None),
        joint_statistics.test_every_row_is_made_of_integers_within_the_scale_and_no_longer_than_its_bound,
    ),
    Bug(
        "numbers of a standardised row are not clipped together",
        replaced(private_table, "_clip_rows", lambda columns, bound: None),
        spreads.test_rows_keep_their_bound_whatever_was_released_before,
    ),
    Bug(
        "a null record is coded as the declared midpoint",
        wrapped(NumericEncoder, "__init__", _null_is_the_midpoint),
        spreads.test_rows_keep_their_bound_whatever_was_released_before,
    ),
    Bug(
        "means and spreads have the noise of a single sum",
        replaced(Spreads, "noise_of", staticmethod(lambda price, columns: DiscreteGaussian(price, HEIGHT**2))),
        spreads.test_the_released_sums_have_the_noise_of_their_law,
    ),
    Bug(
        "the diagonal of a party's own block has the noise of the rest",
        wrapped(GramNoise, "_draw", _same_noise_on_the_diagonal),
        partial(
            joint_statistics.test_a_party_noises_its_own_block_with_v_on_the_diagonal_and_half_of_it_elsewhere,
            "gaussian",
        ),
        slow=True,
    ),
    # prices
    Bug(
        "losses are rounded down",
        replaced(loss, "nano_up", lambda value: int(value * 10**9)),
        losses.test_a_curve_given_as_a_function_is_rounded_up_at_every_order,
    ),
    Bug(
        "releases do not compose",
        replaced(Loss, "__add__", lambda self, other: _largest([self, other])),
        losses.test_composition_adds_exactly_and_in_any_order,
    ),
    Bug("parties' releases do not compose for a person", replaced(result, "total", _largest), _STATEMENT),
    Bug(
        "a statement forgets that peers know their own columns",
        replaced(PrivacyStatement, "_visible", lambda self, *_: [one.losses[0] for one in self.openings]),
        _STATEMENT,
    ),
    Bug(
        "NaN is a price",
        replaced(price, "nano_epsilon", lambda epsilon, what="epsilon": 10**9),
        bad_input.test_an_epsilon_that_cannot_be_meant_is_refused,
    ),
    Bug(
        "colluders are forgotten when shares are sized",
        replaced(GramNoise, "honest", property(lambda self: len(self.row_bounds))),
        joint_noises.test_up_to_c_colluders_pay_no_more_than_the_price,
    ),
    Bug(
        "a Gram matrix is charged by its rows' length, not its square",
        replaced(GramNoise, "moved", lambda self, party=None: Fraction(self.total)),
        _MOVEMENT,
    ),
    Bug(
        "pair tables are charged as one table",
        replaced(TableNoise, "moved", lambda self, party=None: 1),
        joint_statistics.test_a_person_moves_one_cell_of_each_pair_table_by_at_most_one,
    ),
    Bug(
        "a sum of discrete Gaussians is taken for one",
        replaced(curves, "summed_gaussian_rho", _one_gaussian),
        partial(
            calibrations.test_exact_divergences_of_summed_discrete_gaussians_stay_below_the_bound, Fraction(1, 4), 2
        ),
    ),
    # describing
    Bug(
        "the weights of quantiles fall twice as fast as was paid for",
        wrapped(QuantileSearch, "__init__", _half_the_noise),
        partial(searches.test_weights_are_positive_whole_numbers_that_fall_no_faster_than_allowed, 1.0),
    ),
    Bug(
        "levels of a search are not paid for",
        replaced(quantile_search, "search_levels", lambda quantiles: 1),
        searches.test_the_price_is_divided_between_levels_and_columns,
    ),
    # primitives
    Bug(
        "values have half their noise",
        wrapped(PerturbedValues, "draw", _half_the_noise_of_primitives),
        partial(values.test_the_noise_has_its_law_and_not_that_of_another_scale, 7),
    ),
    Bug(
        "a sketch is priced without its row of sums",
        replaced(SketchStep, "law", _without_the_row_of_sums),
        sketched.test_the_noise_is_that_of_the_exact_length_at_the_ledgers_own_rho,
    ),
    # functional
    Bug(
        "squares are free",
        wrapped(CoefficientNoise, "moves", _no_squares),
        sensitivities.test_nobody_moves_coefficients_by_more_than_the_noise_was_made_for,
    ),
    Bug(
        "a ledger is debited a part where the whole record was promised",
        replaced(Coefficients, "loss", property(_whole_loss_nowhere)),
        partial(coefficients.test_a_ledger_is_debited_the_whole_loss_or_that_of_its_part, "person"),
    ),
    Bug(
        "own coefficients leave without noise",
        replaced(PrivateCoefficients, "own", _own_part_without_noise),
        coefficients.test_a_partys_own_noise_is_discrete_laplace_and_of_no_other_scale,
    ),
    # groups
    Bug(
        "a count is not counted among what a person moves",
        replaced(GroupNoise, "moved", lambda self, party=None: self.values * self.value_height**2 or 1),
        laws_of_groups.test_no_person_moves_more_than_the_law_says,
    ),
    # clustering
    Bug(
        "displacements that nobody clips",
        wrapped(local_clustering, "fold", _unclipped_of_clustering),
        local.test_a_record_zeroed_out_moves_one_cell_of_each_question_within_its_bound,
        slow=True,
    ),
    Bug(
        "half the noise in every round",
        wrapped(LocalClustering, "parameter", _half_the_noise_of_clustering),
        partial(
            local.test_the_questions_of_a_conversation_cost_exactly_the_budget, local.PRICES["gaussian"], 8, 20_000
        ),
        slow=True,
    ),
    # sketches
    Bug(
        "half the phantoms",
        wrapped(all_sketches, "phantom_values", _half_the_phantoms),
        partial(
            mechanisms.test_values_have_the_law_of_so_many_people_and_phantoms_and_of_no_tenth_more_or_fewer, 0, 20
        ),
    ),
    Bug(
        "sketches of one pair that pay for all pairs",
        wrapped(Sketching, "loss", lambda honest, self, unit: honest(Sketching(2, self.phantoms, self.sketches), unit)),
        partial(laws_of_sketches.test_a_person_costs_as_much_as_a_part_or_more_and_a_replacement_twice_one_cell, 4),
    ),
    Bug(
        "one key stream for every pair",
        replaced(KeyedRandomness, "spawn", lambda self, label: self),
        partial(mechanisms.test_another_key_or_pair_gives_other_values, {"side": mechanisms.PairSide("other", True)}),
    ),
    # additive
]
