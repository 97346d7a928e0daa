"""Bugs in gradient descents: their noise, their batches, their bounds, and how often a step leaves."""

import dataclasses
import secrets
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from colonnade.conversations.gradient import GradientRun
from colonnade.party.gate import AdmittedStep
from colonnade.party.policy import Policy
from colonnade.party.steps.newton import DescentPart, PrivateGradient
from colonnade.privacy import calibration as sampled_gaussian
from colonnade.privacy.laws.gradient import GradientNoise
from colonnade.protocol.messages import unpack
from colonnade.secure.batches import Batches
from colonnade.secure.keys import SeedStream
from colonnade.secure.shamir import ShareProduct
from colonnade.steps.gradient import GradientTerms
from tests.conversations import test_gradient_run as runs
from tests.party import test_gradient as parts
from tests.privacy import test_gradient_noise as noises
from tests.privacy import test_sampled_gaussian as sampled
from tests.secure import test_batches as batches
from tests.seeded.bug import Bug, replaced, wrapped


def _at_a_party(test, **given):
    """Run a test that needs a party with a ledger."""

    def run(monkeypatch) -> None:
        with tempfile.TemporaryDirectory() as folder:
            opened = parts._Open(Path(folder))
            try:
                test(opened, **({"monkeypatch": monkeypatch} if given else {}))
            finally:
                opened.federation.close()

    return run


def _without_the_factor(rho, rate, orders):
    weights, drawn = sampled_gaussian._log_weights(rate, orders)
    excess = sampled_gaussian.logsumexp(weights + sampled_gaussian._log_expm1(rho * drawn * (drawn - 1)), axis=1)
    return np.logaddexp(0.0, excess) / np.maximum(np.array(orders) - 1, 1)


def _unclipped(self, rows, labels, weights):
    score = rows @ weights
    return score if labels is None else score - 2 * self.terms.scale * self.terms.weight_scale * labels.astype(int)


def _constant_for_all(honest, self, table):
    rows = honest(self, table)
    if self.target:
        rows._array[:, 0] = self.terms.scale
    return rows


def _one_byte(self, step):
    octets = np.frombuffer(SeedStream(self._seed, step).bytes(self._people), dtype=np.uint8)
    return np.flatnonzero(octets < round(self._rate * 256)).astype(np.int64)


def _unpadded(honest, self, position, weights):
    values, noise = honest(self, position, weights)
    return values[:, : len(self._batches.members(position))], noise


def _fresh(honest, self, position, weights):
    values, noise = honest(self, position, weights)
    return values, noise + secrets.randbelow(2**20)


def _everyone_computes(patch):
    honest = GradientTerms.read
    patch.setattr(
        GradientTerms,
        "read",
        classmethod(lambda cls, plan, name: dataclasses.replace(honest(plan, name), nodes=plan.compute_nodes)),
    )


def _unlooked(self, key):
    terms = self._half.terms
    return Batches(key, terms.people, terms.rate, terms.steps, terms.sampling)


BUGS = [
    Bug(
        "the sampling theorem without its factor 3",
        replaced(sampled_gaussian, "_bounds", _without_the_factor),
        sampled.test_one_sampled_step_has_the_known_divergence,
    ),
    Bug(
        "peers are accounted as if they did not know the batches",
        wrapped(GradientNoise, "loss", lambda honest, self, colluders=0, party=None: honest(self, party=party)),
        noises.test_whoever_knows_the_batches_is_accounted_by_participations_without_amplification,
    ),
    Bug(
        "a part of a record is accounted as if the rest stayed at home",
        replaced(
            sampled,
            "sampled_part_loss",
            lambda rho, part, rate, steps: sampled_gaussian.sampled_loss(part, rate, steps),
        ),
        partial(sampled.test_a_part_of_a_record_is_bounded_where_the_rest_of_it_takes_part, 0.05, 0.3),
    ),
    Bug(
        "scores are not clipped",
        replaced(PrivateGradient, "scores", _unclipped),
        parts.test_no_record_moves_a_step_by_more_than_declared_whatever_the_weights,
    ),
    Bug(
        "a null record has a constant column",
        wrapped(PrivateGradient, "coded", _constant_for_all),
        parts.test_a_null_record_adds_nothing_to_a_step,
    ),
    Bug(
        "half the noise in a step",
        replaced(
            GradientNoise,
            "draw_share",
            lambda self, entries, sampler: sampler.discrete_gaussian(self.share / 4, entries),
        ),
        parts.test_a_partys_noise_has_the_declared_law_in_every_step,
    ),
    Bug(
        "coins of one byte",
        replaced(Batches, "_coins", _one_byte),
        partial(batches.test_people_take_part_with_the_rate, 0.013),
    ),
    Bug(
        "the size of a batch shows",
        wrapped(DescentPart, "share", _unpadded),
        _at_a_party(parts.test_noise_is_fresh_in_every_step_and_rows_are_padded_to_the_capacity),
    ),
    Bug(
        "the noise of a step is another after a restart",
        wrapped(DescentPart, "share", _fresh),
        _at_a_party(parts.test_after_a_restart_a_step_is_shared_as_before_and_paid_once),
    ),
    Bug(
        "steps are shared unpaid",
        replaced(AdmittedStep, "reserve", lambda self, **options: None),
        _at_a_party(parts.test_all_steps_are_paid_for_before_the_first_is_shared),
    ),
    Bug(
        "nobody looks how often a person takes part",
        replaced(DescentPart, "_checked_batches", _unlooked),
        _at_a_party(
            parts.test_batches_in_which_somebody_takes_part_too_often_are_refused_before_anything_is_paid,
            monkeypatch=True,
        ),
    ),
    Bug(
        "the policy does not look at peers",
        replaced(Policy, "_check_peers", lambda self, step, admitted: None),
        parts.test_a_policy_caps_what_peers_learn,
    ),
    Bug("more nodes compute than an opening needs", _everyone_computes, runs.test_redundant_nodes_do_not_compute),
    Bug(
        "one party's noise is left out of a step",
        wrapped(ShareProduct, "masked", lambda honest, self, noise: honest(self, noise[:1])),
        partial(runs.test_what_is_opened_is_the_plain_sum_plus_everyones_noise_exactly, "three parties"),
    ),
    Bug(
        "any weights are taken",
        replaced(GradientRun, "_weights", lambda self, inputs: unpack(inputs["weights"])),
        partial(
            runs.test_weights_that_are_not_whole_numbers_within_bounds_are_refused, np.full(3, np.iinfo(np.int64).min)
        ),
    ),
]
