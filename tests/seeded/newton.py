"""Bugs in Newton steps: their noise, their bounds, their links, and how often a round leaves."""

import secrets
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from colonnade.conversations import endpoint
from colonnade.conversations import newton as conversation
from colonnade.conversations.newton import NewtonRun
from colonnade.estimation import newton_inference
from colonnade.party.gate import AdmittedStep
from colonnade.party.steps.newton import NewtonPart, PrivateNewtonSteps
from colonnade.privacy.laws.newton import CURVATURE, NewtonNoise
from colonnade.protocol.messages import unpack
from colonnade.result import Opening
from colonnade.secure import residues
from colonnade.secure.sine_link import LinkBounds, WeightedProduct
from colonnade.steps import newton as terms
from tests.conversations import test_every_kill as kills
from tests.conversations import test_newton_run as runs
from tests.coordinator import test_newton_inference as inferences
from tests.party import test_newton as parts
from tests.privacy import test_newton_noise as noises
from tests.secure import test_residues as sums
from tests.secure import test_sine_link as links
from tests.seeded.bug import Bug, replaced, wrapped


def _at_a_party(test):
    """Run a test that needs a party with a ledger."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            opened = parts.Opened(Path(folder))
            try:
                test(opened)
            finally:
                opened.federation.close()

    return run


def _constant_for_all(honest, self, table):
    rows = honest(self, table)
    if self.target:
        rows._array[:, 0] = self.terms.scale
    return rows


def _unclipped(self, rows, weights):
    return np.rint(weights @ rows.astype(float) / self.terms.scale / self.terms.bounds.link.step).astype(np.int64)


def _fresh(honest, self, number):
    return honest(self, number) + secrets.randbelow(2**20)


def _in_a_folder(test):
    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder))

    return run


def _as_given(parts, words):
    return np.vstack([0 * words, (parts % 2**16).astype(np.uint16)[None]])


def _told_to_all(honest, self, beat, turn, inputs):
    reply = honest(self, beat, turn, inputs)
    if beat.phase == terms.Phase.FACTORS and self._me == self.terms.teller:
        letter = self._to_self or conversation.NewtonLetter()
        others = {node: self._sealed(node, turn, letter) for node in self.terms.nodes if node != self._me}
        return conversation.Posted(letters=others)
    return reply


BUGS = [
    Bug(
        "a statement counts only nodes among those who know scores",
        replaced(Opening, "_knows_scores", lambda self, coalition: False),
        partial(runs.test_a_statement_promises_nothing_to_who_knows_every_score, 3, 3, apart=True),
    ),
    Bug(
        "more shares are added up than float64 adds exactly",
        replaced(residues, "LARGEST_SUM", 2**60),
        sums.test_no_more_shares_are_added_up_than_float64_adds_exactly,
    ),
    Bug(
        "the last round is taken for the last step",
        replaced(NewtonNoise, "last_step", property(lambda self: self.rounds - 1)),
        runs.test_what_is_said_of_the_last_step_is_of_a_gradient_though_there_is_one_step,
    ),
    Bug(
        "half the noise in a Newton step",
        wrapped(NewtonNoise, "draw_round", lambda honest, self, *given: honest(self, *given) // 2),
        partial(parts.test_a_partys_noise_has_the_declared_law_in_every_round, 5),
    ),
    Bug(
        "the diagonal of the curvature has the noise of the rest",
        replaced(
            NewtonNoise,
            "draw_round",
            lambda self, number, sampler: sampler.discrete_gaussian(self.shares[number], self.entries_of(number)),
        ),
        partial(parts.test_a_partys_noise_has_the_declared_law_in_every_round, CURVATURE),
    ),
    Bug(
        "a coalition is accounted as if residuals did not move on its own columns",
        wrapped(NewtonNoise, "moved_by", lambda honest, self, number, **_: honest(self, number) * 99 // 100),
        noises.test_the_bounds_are_reached,
    ),
    Bug(
        "rounds are not added up",
        wrapped(NewtonNoise, "share_of", lambda honest, self, number: honest(self, number) / len(self.parts)),
        noises.test_every_round_costs_its_part_of_the_price,
    ),
    Bug(
        "rounding is not in the bounds of a link",
        replaced(LinkBounds, "_rounded", lambda self, coefficients: 0.0),
        partial(links.test_no_numbers_of_holders_lead_past_the_bounds, 12, 2, 4, 16),
    ),
    Bug(
        "a part of a score is given away as it is",
        replaced(links, "split_parts", _as_given),
        partial(links.test_what_a_holder_is_given_is_uniform_whatever_the_part, 12_345),
    ),
    Bug(
        "a null record has a constant column, in Newton steps",
        wrapped(PrivateNewtonSteps, "coded", _constant_for_all),
        parts.test_a_null_record_adds_nothing_to_a_round,
    ),
    Bug(
        "parts of scores are not clipped",
        replaced(PrivateNewtonSteps, "in_steps", _unclipped),
        parts.test_parts_are_scores_in_whole_steps_clipped_to_the_window,
    ),
    Bug(
        "the noise of a round is another after a restart",
        wrapped(NewtonPart, "noise", _fresh),
        _at_a_party(parts.test_after_a_restart_a_round_has_the_same_noise_and_is_paid_once),
    ),
    Bug(
        "a round may be run again at other weights",
        replaced(endpoint, "inputs_digest", lambda inputs: b""),
        _in_a_folder(kills.test_a_round_that_was_begun_is_not_run_again_at_other_weights),
    ),
    Bug(
        "rounds are shared unpaid",
        replaced(AdmittedStep, "reserve", lambda self, **options: None),
        _at_a_party(parts.test_all_rounds_are_paid_for_before_the_first_is_shared),
    ),
    Bug(
        "the coordinator computes where shares are dealt again",
        replaced(terms, "COORDINATOR", "nobody"),
        runs.test_the_coordinator_is_no_node_of_a_plan_that_deals_again,
    ),
    Bug(
        "a product is sent on without being dealt again",
        replaced(conversation.link_shares, "redealt", lambda dealing, values: (values,) * dealing.nodes),
        partial(runs.test_what_is_opened_is_the_likelihoods_slope_and_bend_plus_everyones_noise, "three parties"),
    ),
    Bug(
        "a member that deals its factors is told the other number of a score too",
        replaced(terms.NewtonTerms, "evaluators", property(lambda self: self.nodes[: self.threshold + 1])),
        partial(runs.test_no_set_of_members_that_may_collude_has_all_numbers_of_a_score, 3, 3, apart=False),
    ),
    Bug(
        "the last holder tells its numbers to every node",
        wrapped(NewtonRun, "_say", _told_to_all),
        runs.test_only_evaluators_are_told_the_last_holders_numbers_and_no_masker_is,
    ),
    Bug(
        "evaluators deal their shares of a series, not their parts of it",
        replaced(conversation.link_shares, "own_part", lambda arithmetic, share, points, own: share),
        partial(runs.test_what_is_opened_is_the_likelihoods_slope_and_bend_plus_everyones_noise, "three parties"),
    ),
    Bug(
        "everybody is expected to have the same weight",
        replaced(inferences, "expected_information", lambda moments, weights: (0.2 * moments.matrix, moments.variance)),
        inferences.test_moments_tell_which_levels_people_weigh_little_because_their_answers_are_nearly_certain,
    ),
    Bug(
        "gradients that contradict each other count alike",
        replaced(
            newton_inference,
            "_disagreements",
            lambda found, information: np.zeros((len(found.gradients), len(information.matrix))),
        ),
        inferences.test_gradients_that_disagree_by_more_than_noise_count_less,
    ),
    Bug(
        "numbers are left out of products with weights, as if they were levels",
        replaced(
            PrivateNewtonSteps, "_categories", lambda self, schema: [(start, n) for start in range(9) for n in range(9)]
        ),
        parts.test_levels_are_left_out_of_products_only_where_they_are_those_of_a_category,
    ),
    Bug(
        "one party's noise is left out of a round",
        wrapped(WeightedProduct, "masked", lambda honest, self, noise: honest(self, noise[:1])),
        partial(runs.test_what_is_opened_is_the_likelihoods_slope_and_bend_plus_everyones_noise, "three parties"),
    ),
    Bug(
        "any weights are taken, in Newton steps",
        replaced(NewtonRun, "_weights", lambda self, inputs: (unpack(inputs["weights"]), np.empty(0, dtype=np.int64))),
        partial(
            runs.test_weights_that_are_not_numbers_within_bounds_are_refused_before_anything_is_taken,
            {"weights": np.full(4, np.nan), "before": np.empty(0, dtype=np.int64)},
        ),
    ),
    Bug(
        "degrees are reduced by the nodes that happen to answer",
        replaced(
            links,
            "reduced_degree",
            lambda arithmetic, shares, threshold: next(iter(shares.values())),
        ),
        links.test_a_degree_is_reduced_with_every_nodes_share_or_not_at_all,
    ),
]
