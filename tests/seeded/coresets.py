"""Bugs in coresets and secure sums: masks that do not mask, weights of the wrong multiset, consent that nobody gave."""

from contextlib import suppress
from functools import partial

import numpy as np

from colonnade.conversations import sums as sum_run
from colonnade.coordinator import findings as statement
from colonnade.errors import ProtocolError
from colonnade.estimation import coresets as importance_sampling
from colonnade.estimators.methods import coresets as methods
from colonnade.party.gate import AdmittedStep
from colonnade.party.policy import Policy
from colonnade.party.steps import coresets
from colonnade.party.steps import coresets as cluster_scores
from colonnade.party.steps import coresets as leverage
from colonnade.party.steps.coresets import PrivateCoresetDraws, PrivateCoresetRows, coded_columns
from colonnade.secure.summation import PairwiseMasks, SumRing
from tests.conversations import test_sum_run as sums
from tests.coordinator import test_importance_sampling as sampling
from tests.estimators import test_coreset as studies
from tests.party import test_cluster_scores as clusters
from tests.party import test_leverage as blocks
from tests.secure import test_summation as masks
from tests.seeded.bug import Bug, replaced, wrapped


def _distinct_rows(sample, scores, total):
    rows, first, counts = np.unique(sample, return_index=True, return_counts=True)
    return importance_sampling.WeightedSample(rows, counts, total / (len(rows) * scores[first]))


def _rank_of_the_width(honest, gram, found, rest, smallest):
    del smallest
    return honest(gram + 1e-3 * np.eye(len(gram)), found, rest, 0.0)


def _any_rows(honest, self, table, inputs, randomness):
    if "rows" in inputs:
        return {"value": np.ascontiguousarray(coded_columns(self.terms, table, self.columns, inputs["rows"]).T)}
    return honest(self, table, inputs, randomness)


def _as_often_as_asked(honest, *arguments):
    with suppress(ProtocolError):
        honest(*arguments)


def _any_counts(self, inputs):
    self._counts = tuple(int(count) for count in inputs["counts"])
    return {"counts": inputs["counts"]}


def _price_or_not(honest, self, plan, kind, step, terms):
    if step.price is not None:
        honest(self, plan, kind, step, terms)


def _nearest_centres(honest, blocks_, centres, room):
    found = honest(blocks_, centres, room)
    return cluster_scores.LocalClusters(centres, found.nonprivate_labels, found.nonprivate_distances)


BUGS = [
    Bug(
        "draws that forget the scores of earlier blocks",
        wrapped(coresets, "_running", lambda honest, scores, before: honest(scores, 0.0) + (0.5 if before else 0.0)),
        partial(studies.test_draws_from_many_rows_in_blocks_are_those_of_one_search_among_all_of_them, None),
    ),
    Bug(
        "one mask for every position",
        wrapped(PairwiseMasks, "_words", lambda honest, self, secret, _, count: honest(self, secret, 0, count)),
        masks.test_every_position_has_masks_of_its_own,
    ),
    Bug(
        "vectors that leave without masks",
        replaced(PairwiseMasks, "masked", lambda self, _, values: self._ring.encode(values)),
        partial(masks.test_a_masked_vector_is_uniform_whatever_is_in_it, 1_000),
    ),
    Bug(
        "masks of sixteen bits",
        wrapped(
            PairwiseMasks, "_words", lambda honest, self, *rest: honest(self, *rest) & self._ring.dtype.type(0xFFFF)
        ),
        partial(masks.test_a_masked_vector_is_uniform_whatever_is_in_it, 2**50),
    ),
    Bug(
        "a ring without headroom",
        replaced(SumRing, "__post_init__", lambda _: None),
        partial(masks.test_a_sum_without_headroom_is_refused, 2**60, 8),
    ),
    Bug(
        "masks that do not depend on what was asked",
        wrapped(sum_run, "agreed_masks", lambda honest, session, terms, _: honest(session, terms, b"")),
        sums.test_parties_that_were_shown_different_inputs_do_not_add_up,
    ),
    Bug(
        "weights by distinct rows",
        replaced(sampling, "weighted_coreset", _distinct_rows),
        sampling.test_merged_duplicates_weigh_as_much_as_their_occurrences,
    ),
    Bug(
        "totals that nobody checks",
        replaced(importance_sampling, "checked_totals", lambda totals, _: dict(totals)),
        studies.test_a_party_that_claims_too_much_is_refused,
    ),
    Bug(
        "a rank that is taken for the width",
        wrapped(leverage, "_resolve", _rank_of_the_width),
        blocks.test_plain_orthogonalisation_of_a_dependent_block_gives_more_than_its_rank,
    ),
    Bug(
        "centres that are not centroids",
        wrapped(cluster_scores, "_settled", _nearest_centres),
        clusters.test_centres_are_the_centroids_of_their_clusters,
    ),
    Bug(
        "rows gathered as the coordinator says",
        wrapped(PrivateCoresetRows, "disclose", _any_rows),
        studies.test_rows_are_gathered_of_the_sample_only_and_the_sample_is_fixed_once,
    ),
    Bug(
        "a sample that can be fixed twice",
        wrapped(AdmittedStep, "disclose", _as_often_as_asked),
        studies.test_rows_are_gathered_of_the_sample_only_and_the_sample_is_fixed_once,
    ),
    Bug(
        "draws without a limit",
        replaced(PrivateCoresetDraws, "accept", _any_counts),
        partial(studies.test_parties_draw_as_many_rows_together_as_the_plan_says, [50, 50, 51]),
    ),
    Bug(
        "every party's draws side by side",
        replaced(coresets, "_shuffled", lambda _, count: np.arange(count)),
        studies.test_the_coordinator_sees_rows_and_not_who_drew_them,
    ),
    Bug(
        "consent that nobody gave",
        replaced(methods, "require_consent", lambda *_: None),
        partial(studies.test_nothing_runs_without_the_users_consent, "regression"),
    ),
    Bug(
        "a policy that lets anything without a price through",
        wrapped(Policy, "_check_step", _price_or_not),
        partial(studies.test_nothing_runs_where_one_party_does_not_allow_it_by_name, "coreset"),
    ),
    Bug(
        "a statement that does not say it",
        replaced(statement, "NOT_PRIVATE", "Exact values left the parties."),
        partial(studies.test_it_says_everywhere_that_it_is_not_private, "coreset"),
    ),
    Bug(
        "a theoretical size that is cut down in silence",
        wrapped(
            importance_sampling,
            "proved_size",
            lambda honest, *rest, **more: min(honest(*rest, **more), 400),
        ),
        studies.test_a_proved_size_that_exceeds_the_data_says_so_and_what_to_type,
    ),
    Bug(
        "an estimated size that forgets how many unknowns there are",
        wrapped(
            sampling,
            "estimated_size",
            lambda honest, task, features, clusters, totals, **more: honest(task, 0, 1, totals / 40, **more),
        ),
        sampling.test_an_estimated_size_keeps_its_word_on_heavy_tailed_rows,
    ),
]
