"""Bugs in the functional mechanism: what moves, what it costs whom, whose noise is in it, and when."""

from functools import partial

import numpy as np

from colonnade.estimation import moments as repair
from colonnade.party.steps.products import PrivateCoefficients, folded_products, triangle_places
from colonnade.privacy.laws.coefficients import CoefficientNoise
from colonnade.steps import products as kind
from colonnade.steps.products import Coefficients
from tests.conversations import test_functional_secrecy as secrecy
from tests.estimators import test_functional as studies
from tests.party import test_coefficients as coefficients
from tests.privacy import test_functional_noise as sensitivities
from tests.seeded.bug import Bug, replaced, wrapped


def _cross_pairs_for_nobody(honest, self, party=None):
    return honest(self) if party is None else self.weight((party, party))


def _no_squares(honest, self, block):
    curvature, slope = honest(self, block)
    return curvature - (self.holdings[block[0]].numbers if block[0] == block[1] else 0), slope


def _one_move_a_pair_of_parties(honest, self, block):
    return honest(self, block) if block[0] == block[1] else (1, 1)


def _emphasis_twice(honest, self, block, slope=False):
    return honest(self, block, slope=slope) / (self.emphasis if slope else 1)


def _half_the_noise(honest, self, block, slope=False):
    return honest(self, block, slope=slope) / 2


def _own_blocks_spend_everything(self, honest=CoefficientNoise._epsilons.func):
    return honest(self) | {(party, party): self.prices[party].exact for party in self.holdings}


def _shares_of_everybody(self):
    return len(self.holdings)


def _whole_loss_nowhere(self):
    return self.joint.noise.loss(party=self.party)


def _only_the_first_party_adds_noise(honest, self, entries, sampler):
    return honest(self, entries, sampler) * (self.party == next(iter(self.own_noise.holdings)))


def _own_part_without_noise(self, table, sampler):
    nonprivate = folded_products(table, self.rows, self.width, self.coding.scale)
    return nonprivate[triangle_places(self.entries.rows, self.entries.columns, self.width + 1)]


def _every_entry(honest, widths, *, target):
    rows, columns = (places[1:].astype(np.int64) for places in np.triu_indices(sum(widths) + 1))
    del honest
    return kind.Entries(rows, columns, (columns > sum(widths[:-1])) & target)


def _pulls_the_slope_too(honest, moments, target):
    del target
    return honest(moments, "nothing")


BUGS = [
    Bug(
        "a party's part leaves out what it shares with others",
        wrapped(CoefficientNoise, "moved", _cross_pairs_for_nobody),
        sensitivities.test_a_partys_part_of_fourteen_numbers_at_two_parties_is_the_known_one,
    ),
    Bug(
        "squares are free",
        wrapped(CoefficientNoise, "moves", _no_squares),
        sensitivities.test_nobody_moves_coefficients_by_more_than_the_noise_was_made_for,
    ),
    Bug(
        "a pair of parties is charged for one product",
        wrapped(CoefficientNoise, "moves", _one_move_a_pair_of_parties),
        coefficients.test_a_record_of_extremes_costs_exactly_the_price,
    ),
    Bug(
        "slope has less noise than it is charged for",
        wrapped(CoefficientNoise, "scale", _emphasis_twice),
        coefficients.test_a_record_of_extremes_costs_exactly_the_price,
    ),
    Bug(
        "half the noise on coefficients, seen by the audit",
        wrapped(CoefficientNoise, "scale", _half_the_noise),
        coefficients.test_the_audit_does_not_convict_the_release,
    ),
    Bug(
        "shares that suffice only if nobody colludes",
        replaced(CoefficientNoise, "honest", property(_shares_of_everybody)),
        partial(
            coefficients.test_what_the_honest_parties_add_between_them_is_discrete_laplace_and_of_no_other_scale, 1
        ),
    ),
    Bug(
        "a party's own block spends all that it named, and its pairs some more",
        replaced(CoefficientNoise, "_epsilons", property(_own_blocks_spend_everything)),
        sensitivities.test_bottom_up_every_part_costs_what_its_party_named_and_a_record_the_sum_of_all_blocks,
    ),
    Bug(
        "a ledger is debited a part where the whole record was promised",
        replaced(Coefficients, "loss", property(_whole_loss_nowhere)),
        partial(coefficients.test_a_ledger_is_debited_the_whole_loss_or_that_of_its_part, "person"),
    ),
    Bug(
        "one party alone noises what is between parties",
        wrapped(PrivateCoefficients, "cross_noise", _only_the_first_party_adds_noise),
        partial(secrecy.test_what_is_opened_carries_the_noise_of_every_party_so_that_none_can_take_it_off, "linear"),
    ),
    Bug(
        "own coefficients leave without noise",
        replaced(PrivateCoefficients, "own", _own_part_without_noise),
        coefficients.test_a_partys_own_noise_is_discrete_laplace_and_of_no_other_scale,
    ),
    Bug(
        "own coefficients that nobody was charged for",
        wrapped(kind, "own_entries", _every_entry),
        coefficients.test_a_record_of_extremes_costs_exactly_the_price,
    ),
    Bug(
        "the slope is pulled with the rest",
        wrapped(studies, "pooled_correlations", _pulls_the_slope_too),
        studies.test_under_heavy_noise_products_come_closer_to_the_truth_and_the_slope_stays,
    ),
    Bug(
        "exact products are pulled",
        replaced(
            studies,
            "pooled_correlations",
            lambda moments, target: repair.Moments(
                moments.matrix * 0.99, moments.variance, moments.count, moments.features
            ),
        ),
        studies.test_without_noise_nothing_is_pulled,
    ),
]
