"""Bugs in what people are shown: previews and reports."""

from functools import partial

import numpy as np

import colonnade as cn
from colonnade.coordinator.protocols import power_moments
from colonnade.party.gate import Gate
from colonnade.report import markup
from tests.estimators import test_preview as previews
from tests.report import test_report as reports
from tests.seeded.bug import Bug, replaced, wrapped


def _evenly_spread_sums_within_the_factor() -> None:
    """The prediction of a moment's error, for the demonstration's counts, is not that of sums spread evenly."""
    with cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=2.0)) as federation:
        study = cn.Moment(["telco.late_payments", "insurer.claims"], 3, epsilon=1.0)
        assert study.preview(federation).expected_error < 1.5 * study.fit(federation).stderr_


BUGS = [
    Bug(
        "text goes into a page as it is",
        replaced(markup, "text", lambda value: markup.Html(str(value))),
        reports.test_text_is_escaped_unless_it_is_markup_by_type,
    ),
    Bug(
        "the report's promise is another than the README's",
        replaced(markup, "PROMISE", markup.PROMISE.replace("no larger", "hardly larger")),
        reports.test_the_promise_is_the_readmes_word_for_word,
    ),
    Bug(
        "a delta above the cap's is let through",
        replaced(Gate, "_require_delta", lambda *_: None),
        partial(previews.test_a_delta_above_the_caps_is_refused_before_anything_is_asked, "pca secure"),
    ),
    Bug(
        "sums are expected to be spread evenly between their bounds",
        wrapped(
            power_moments.PerturbedPowers,
            "typical",
            lambda _, self: self.for_sums(np.linspace(self.lowest, self.highest, power_moments.GRID)),
        ),
        _evenly_spread_sums_within_the_factor,
    ),
]
