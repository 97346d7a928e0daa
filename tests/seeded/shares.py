"""Bugs in what parties work out together: rounds, masks, alignments, and runs that are taken up again."""

import secrets
from functools import partial

import numpy as np

from colonnade.conversations import endpoint
from colonnade.conversations import newton as conversation
from colonnade.conversations.memory import RunRecords
from colonnade.conversations.products import TiledRun
from colonnade.papers.laws import GradientNoise
from colonnade.papers.private import DescentPart, PrivateGradient
from colonnade.party import party as opening
from colonnade.party.gate import AdmittedStep, Gate, Reservation
from colonnade.party.policy import Policy
from colonnade.party.steps import agreements
from colonnade.party.steps import products as gram
from colonnade.party.steps.products import NewtonPart, PrivateNewtonSteps, PrivateScoreHistogram
from colonnade.party.table import dask_cluster
from colonnade.party.table.dask_cluster import Failure
from colonnade.party.table.private_table import partial_scores
from colonnade.privacy import calibration as sampled_gaussian
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.newton import NewtonNoise
from colonnade.secure import matching
from colonnade.secure.summation import PairwiseMasks
from tests.conversations import test_every_kill as kills
from tests.conversations import test_newton_run as runs
from tests.conversations import test_opened_once as once
from tests.conversations import test_side_by_side as side_by_side
from tests.conversations import test_tiles as tiles
from tests.coordinator import test_align as aligned
from tests.papers import test_coreset as studies
from tests.papers import test_gradient as parts_of_gradient
from tests.party import test_alignment_refusals as refusals
from tests.party import test_dask as dask
from tests.party import test_gate as gates
from tests.party import test_newton as parts
from tests.party import test_score_statistics as scores
from tests.privacy import test_newton_noise as noises
from tests.privacy import test_sampled_gaussian as sampled
from tests.secure import test_matching as matchings
from tests.secure import test_sine_link as links
from tests.secure import test_summation as masks
from tests.seeded.bug import Bug, replaced, wrapped


def _unclipped(self, rows, weights):
    return np.rint(weights @ rows.astype(float) / self.step.terms.scale / self.step.terms.bounds.link.step).astype(
        np.int64
    )


def _fresh(honest, self, number):
    return honest(self, number) + secrets.randbelow(2**20)


def _as_given(parts, words):
    return np.vstack([0 * words, (parts % 2**16).astype(np.uint16)[None]])


def _without_the_factor(rho, rate, orders):
    weights, drawn = sampled_gaussian._log_weights(rate, orders)
    excess = sampled_gaussian.logsumexp(weights + sampled_gaussian._log_expm1(rho * drawn * (drawn - 1)), axis=1)
    return np.logaddexp(0.0, excess) / np.maximum(np.array(orders) - 1, 1)


def _unclipped_of_gradient(self, rows, labels, weights):
    score = rows @ weights
    return (
        score
        if labels is None
        else score - 2 * self.step.terms.scale * self.step.terms.weight_scale * labels.astype(int)
    )


def _fresh_of_gradient(honest, self, position, weights):
    values, noise = honest(self, position, weights)
    return values, noise + secrets.randbelow(2**20)


def _every_tile_the_noise_of_the_first(honest, self, sizes, sampler):
    first = next(honest(self, [max(sizes)], sampler))
    yield from (first[:size] for size in sizes)


def _checked_or_not(honest, self, turn, letters):
    self._verified = True
    return honest(self, turn, letters)


def _unclamped(_, coding, table, start, stop):
    values = partial_scores(coding.scores, table, start, stop)
    return np.rint(values * (coding.heights / coding.largest)[:, None]).astype(np.int64)


def _scored_by(change):
    """Plant another function of a party's scores where a Gram matrix takes its rows from, and where its test does."""

    def plant(patch):
        for place in (gram, scores):
            wrapped(place, "bounded_scores", change)(patch)

    return plant


def _price_or_not(honest, self, plan, kind, step, terms):
    if step.price is not None:
        honest(self, plan, kind, step, terms)


def _draws_again(honest, self, *rest):
    honest(self, *rest)
    return Reservation(self.random_bytes(32))


def _quoting(error):
    return Failure("", str(error))


BUGS = [
    # newton
    Bug(
        "half the noise in a Newton step",
        wrapped(NewtonNoise, "draw_round", lambda honest, self, *given: honest(self, *given) // 2),
        partial(parts.test_a_partys_noise_has_the_declared_law_in_every_round, 3),
    ),
    Bug(
        "rounds are not added up",
        wrapped(NewtonNoise, "share_of", lambda honest, self, number: honest(self, number) / len(self.parts)),
        noises.test_every_round_costs_its_part_of_the_price,
    ),
    Bug(
        "a part of a score is given away as it is",
        replaced(links, "split_parts", _as_given),
        partial(links.test_what_a_holder_is_given_is_uniform_whatever_the_part, 12_345),
    ),
    Bug(
        "parts of scores are not clipped",
        replaced(PrivateNewtonSteps, "in_steps", _unclipped),
        parts.test_parts_are_scores_in_whole_steps_clipped_to_the_window,
    ),
    Bug(
        "the noise of a round is another after a restart",
        wrapped(NewtonPart, "noise", _fresh),
        parts.test_after_a_restart_a_round_has_the_same_noise_and_is_paid_once,
        slow=True,
    ),
    Bug(
        "a round may be run again at other weights",
        replaced(endpoint, "inputs_digest", lambda inputs: b""),
        kills.test_a_round_that_was_begun_is_not_run_again_at_other_weights,
        slow=True,
    ),
    Bug(
        "a product is sent on without being dealt again",
        replaced(conversation.sine_link, "redealt", lambda dealing, values: (values,) * dealing.nodes),
        partial(runs.test_what_is_opened_is_the_likelihoods_slope_and_bend_plus_everyones_noise, "three parties"),
        slow=True,
    ),
    # gradient
    Bug(
        "the sampling theorem without its factor 3",
        replaced(sampled_gaussian, "_bounds", _without_the_factor),
        sampled.test_one_sampled_step_has_the_known_divergence,
    ),
    Bug(
        "scores are not clipped",
        replaced(PrivateGradient, "scores", _unclipped_of_gradient),
        parts_of_gradient.test_no_record_moves_a_step_by_more_than_declared_whatever_the_weights,
        slow=True,
    ),
    Bug(
        "half the noise in a step",
        replaced(
            GradientNoise,
            "draw_share",
            lambda self, entries, sampler: sampler.discrete_gaussian(self.share / 4, entries),
        ),
        parts_of_gradient.test_a_partys_noise_has_the_declared_law_in_every_step,
    ),
    Bug(
        "the noise of a step is another after a restart",
        wrapped(DescentPart, "share", _fresh_of_gradient),
        parts_of_gradient.test_after_a_restart_a_step_is_shared_as_before_and_paid_once,
    ),
    Bug(
        "steps are shared unpaid",
        replaced(AdmittedStep, "reserve", lambda self, **options: None),
        parts_of_gradient.test_all_steps_are_paid_for_before_the_first_is_shared,
    ),
    # wide
    Bug(
        "all tiles have the noise of the first",
        wrapped(GramNoise, "draw_tiles", _every_tile_the_noise_of_the_first),
        partial(tiles.test_a_release_in_tiles_is_that_of_one_opening_bit_for_bit, 7, 1 << 20),
    ),
    Bug(
        "a tile is multiplied before the dealings were checked",
        wrapped(TiledRun, "_add_noise", _checked_or_not),
        tiles.test_no_tile_is_multiplied_before_every_dealing_was_checked,
    ),
    # using
    Bug(
        "a score that a plan calls small is not clamped",
        _scored_by(_unclamped),
        scores.test_no_row_of_scores_is_longer_than_its_bound_whatever_the_plan_says,
    ),
    Bug(
        "half the noise on a histogram of scores",
        wrapped(PrivateScoreHistogram, "cross_noise", lambda honest, *args: honest(*args) // 2),
        partial(scores.test_the_noise_of_a_count_follows_its_law_and_no_other, "bank"),
    ),
    # coresets
    Bug(
        "vectors that leave without masks",
        replaced(PairwiseMasks, "masked", lambda self, _, values: self._ring.encode(values)),
        partial(masks.test_a_masked_vector_is_uniform_whatever_is_in_it, 1_000),
    ),
    Bug(
        "a policy that lets anything without a price through",
        wrapped(Policy, "_check_step", _price_or_not),
        partial(studies.test_nothing_runs_where_one_party_does_not_allow_it_by_name, "coreset"),
    ),
    # parallel
    Bug(
        "nobody minds hearing something else in another run",
        replaced(RunRecords, "keep", lambda *_, **__: None),
        partial(once.test_a_step_is_not_opened_a_second_time_by_nodes_that_did_not_open_it_before, ()),
    ),
    Bug(
        "a member says something else after a restart",
        replaced(RunRecords, "secret", lambda self, plan, step, drawn: drawn),
        partial(
            side_by_side.test_a_member_that_was_killed_as_the_others_opened_opens_too_when_it_is_asked_again,
            name="auditor",
        ),
    ),
    Bug(
        "a release that was cut short is drawn anew",
        wrapped(Gate, "reserve", _draws_again),
        gates.test_a_release_that_was_cut_short_is_drawn_with_the_same_noise,
    ),
    # aligning
    Bug(
        "shares of zero under the leader's keys only: it sees who holds what",
        wrapped(
            matching,
            "zero_shares",
            lambda honest, digests, keys: honest(digests, {"leader": keys["leader"]} if "leader" in keys else {}),
        ),
        matchings.test_the_leader_cannot_tell_which_peers_hold_an_id_that_is_not_common_to_all,
    ),
    Bug(
        "the plan chooses how long a list looks",
        refusals._capacity_from_the_plan,
        partial(refusals.test_no_question_about_the_length_of_a_list_is_answered, None),
        slow=True,
    ),
    Bug(
        "a longer list than declared is opened, and fails on request",
        replaced(opening, "require_capacity", lambda ids, capacity, party: None),
        aligned.test_a_longer_list_than_its_capacity_is_refused_to_its_owner_when_the_table_is_opened,
    ),
    Bug(
        "a list that has changed is refused, and only such a one",
        refusals._refuses_a_changed_list,
        refusals.test_a_match_under_a_new_version_is_refused_whether_or_not_anybody_has_come,
        slow=True,
    ),
    Bug(
        "an error counts the ids that repeat",
        replaced(agreements, "comparable_ids", refusals._counting(agreements.comparable_ids)),
        refusals.test_a_public_list_tells_nothing_of_ids_that_repeat_and_every_attempt_counts,
    ),
    Bug(
        "an intersection is allowed by default",
        refusals._intersections_by_default_and_off_the_account,
        refusals.test_nobody_learns_whom_a_bank_has_unless_it_says_so_and_then_its_account_shows_it,
        slow=True,
    ),
    # dask
    Bug(
        "the seed of a step's noise on its way to a worker",
        replaced(Reservation, "__reduce__", object.__reduce__),
        dask.test_nothing_with_the_ledger_the_keys_or_the_noise_of_a_party_can_be_sent,
    ),
    Bug(
        "a worker that quotes a cell when it fails",
        replaced(Failure, "of", _quoting),
        partial(dask.test_a_task_that_fails_says_so_without_a_cell_and_never_raises),
    ),
    Bug(
        "workers that are reached over a network without TLS",
        replaced(dask_cluster, "_require_private", lambda addresses, **_: None),
        dask.test_every_worker_counts_not_the_scheduler_alone,
    ),
]
