"""Bugs in prices, losses and their composition."""

from fractions import Fraction
from functools import partial

from colonnade import result
from colonnade.coordinator.protocols import moment_releases
from colonnade.errors import BadInput
from colonnade.estimation import clustering
from colonnade.privacy import accounting as loss
from colonnade.privacy import accounting as price
from colonnade.privacy import calibration as curves
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.tables import TableNoise
from colonnade.result import PrivacyStatement
from tests.coordinator import test_weighted_clustering as grids
from tests.estimators import test_bad_input as bad_input
from tests.estimators import test_pattern_count as studies
from tests.estimators import test_rounding_to_nothing as roundings
from tests.party import test_statistics_joint as joint_statistics
from tests.privacy import test_calibration as calibrations
from tests.privacy import test_joint_noise as joint_noises
from tests.privacy import test_loss as losses
from tests.seeded.bug import Bug, replaced


def _largest(some):
    return max(some, key=lambda one: one.renyi, default=loss.NOTHING)


def _one_gaussian(l2_sensitivity_squared, share_variance, shares, entries):
    return Fraction(l2_sensitivity_squared) / (2 * shares * share_variance)


def _own_square(self, party=None):
    return Fraction((self.total if party is None else self.row_bounds[party]) ** 2, 2)


_STATEMENT = studies.test_the_statement_divides_a_persons_price_between_the_parties
_MOVEMENT = joint_noises.test_nothing_moves_a_gram_matrix_by_more_than_the_noise_was_made_for


def _at_this_delta_only(rho, delta):
    nano = curves._nano_of_rho(rho, delta)
    if nano < 1:
        raise BadInput("epsilon is too small to be shared between the parties.", remedy="Raise epsilon.")
    return Price(nano, delta)


def _at_least_one_step(norms, party, columns, scale):
    return max(1, min(scale**2 * columns, int(scale**2 * (norms or {}).get(party, columns) ** 2)))


BUGS = [
    Bug(
        "rows cut to nothing pass as rows of one step",
        replaced(moment_releases, "row_bound", _at_least_one_step),
        partial(
            roundings.test_rows_cut_below_one_step_of_the_fixed_point_are_refused_and_rows_of_one_step_are_not,
            roundings.cn.methods.Secure,
        ),
    ),
    Bug(
        "a share of a price that is rounded to nothing",
        replaced(Price, "share", lambda self, parts: Price(self.nano // parts, self.delta / parts)),
        roundings.test_a_price_that_has_no_such_share_says_how_often_it_was_to_be_divided,
    ),
    Bug(
        "a small part of a price is refused where delta alone pays for it",
        replaced(clustering, "price_of_rho", _at_this_delta_only),
        partial(grids.test_parts_whose_own_epsilon_would_be_nought_are_priced_at_a_smaller_delta, "secure"),
    ),
    Bug(
        "losses are rounded down",
        replaced(loss, "nano_up", lambda value: int(value * 10**9)),
        losses.test_a_curve_given_as_a_function_is_rounded_up_at_every_order,
    ),
    Bug(
        "pure curves are rounded down",
        replaced(loss, "nano_up", lambda value: int(value * 10**9)),
        partial(losses.test_a_pure_curve_is_that_of_binary_randomised_response_rounded_up, 500_000_000),
    ),
    Bug(
        "releases do not compose",
        replaced(Loss, "__add__", lambda self, other: _largest([self, other])),
        losses.test_composition_adds_exactly_and_in_any_order,
    ),
    Bug("parties' releases do not compose for a person", replaced(result, "total", _largest), _STATEMENT),
    Bug("every party gets a person's whole price", replaced(Price, "share", lambda self, parts: self), _STATEMENT),
    Bug(
        "a statement forgets that peers know their own columns",
        replaced(PrivacyStatement, "_visible", lambda self, *_: [one.losses[0] for one in self.openings]),
        _STATEMENT,
    ),
    Bug(
        "a price is rounded up",
        replaced(Price, "of", classmethod(lambda cls, epsilon, delta=0.0: cls(price.nano_epsilon(epsilon) + 1, delta))),
        studies.test_a_study_at_the_caps_own_price_fits_a_fresh_ledger_and_a_further_one_does_not,
    ),
    Bug(
        "NaN is a price",
        replaced(price, "nano_epsilon", lambda epsilon, what="epsilon": 10**9),
        partial(bad_input.test_an_epsilon_that_cannot_be_meant_is_refused, float("nan"), "response"),
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
    Bug("one party's part is charged without its products", replaced(GramNoise, "moved", _own_square), _MOVEMENT),
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
]
