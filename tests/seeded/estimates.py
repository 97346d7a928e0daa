"""Bugs in what the coordinator makes of releases."""

from contextlib import nullcontext
from functools import partial

import numpy as np

from colonnade.coordinator import driver
from colonnade.coordinator.protocols import counting as pattern_counts
from colonnade.coordinator.protocols.counting import ResponseCounts
from colonnade.estimation import inference
from colonnade.estimators import study
from colonnade.estimators.methods.moments import Newton
from colonnade.privacy.laws.response import Channel
from tests.estimators import test_degenerate_releases as degenerate
from tests.estimators import test_pattern_count as studies
from tests.privacy import test_response as responses
from tests.seeded.bug import Bug, replaced, wrapped


def _without_decoding(reports, channels):
    one, other = (channel.supports(report).astype(float) for report, channel in zip(reports, channels, strict=True))
    return one.T @ other


def _leading_term_only(counts, channels):
    return np.full(counts.shape, counts.sum() * np.prod([channel.v0 for channel in channels]))


def _as_if_all_reported(honest, self, reports):
    return honest(ResponseCounts(self.layout, self.price, self.people), reports)


BUGS = [
    Bug(
        "counts are clipped at zero, not fitted",
        replaced(pattern_counts, "project_counts", lambda estimate, total, channels: np.maximum(estimate, 0)),
        partial(
            studies.test_counts_are_non_negative_add_up_and_are_labelled_by_the_columns_asked_for,
            "response",
            studies.THREE,
        ),
    ),
    Bug(
        "reports are counted without decoding",
        replaced(pattern_counts, "joint_counts", _without_decoding),
        studies.test_the_errors_of_the_unbiased_counts_are_as_large_as_stderr_says,
    ),
    Bug(
        "a variance forgets the matching cell",
        replaced(responses, "variance_of_counts", _leading_term_only),
        partial(
            responses.test_the_joint_estimate_is_unbiased_and_its_variance_exact, [Channel("grr", 3, 1, 2 * 10**9)]
        ),
    ),
    Bug(
        "a failure after payment is passed on as it is",
        lambda patch: [patch.setattr(one, "estimating", lambda *_: nullcontext()) for one in (driver, study)],
        partial(
            degenerate.test_a_failure_of_ours_says_what_it_cost_and_the_same_call_after_an_upgrade_is_free,
            Newton,
            "learn",
            finished=True,
        ),
    ),
    Bug(
        "a covariance that is indefinite by rounding has no root",
        replaced(inference, "root_of", np.linalg.cholesky),
        degenerate.test_equations_whose_noise_is_known_to_different_scales_have_an_answer,
    ),
    Bug(
        "a sample is not scaled up",
        wrapped(ResponseCounts, "combine", _as_if_all_reported),
        studies.test_sampling_scales_the_counts_up_and_charges_the_full_price,
    ),
]
