"""Bugs in what people are shown: previews and reports."""

from functools import partial

import numpy as np

import colonnade
from colonnade.estimation import expected_errors
from colonnade.estimators import second_moments
from colonnade.party.gate import Gate
from colonnade.report import markup
from tests.annotations import test_user_script as annotations
from tests.cli import test_documents as documents
from tests.estimators import test_preview as previews
from tests.estimators import test_preview_accuracy as accuracy
from tests.estimators import test_preview_speed as speed
from tests.report import test_report as reports
from tests.seeded.bug import Bug, replaced, wrapped

BUGS = [
    Bug(
        "text goes into a page as it is",
        replaced(markup, "text", lambda value: markup.Html(str(value))),
        reports.test_text_is_escaped_unless_it_is_markup_by_type,
    ),
    Bug(
        "the report's promise is another than the document's",
        replaced(markup, "PROMISE", markup.PROMISE.replace("no larger", "hardly larger")),
        partial(documents.test_the_promise_is_the_same_wherever_it_stands, "docs/explanation/promise.md"),
    ),
    Bug(
        "a delta above the cap's is let through",
        replaced(Gate, "_require_delta", lambda *_: None),
        partial(previews.test_a_delta_above_the_caps_is_refused_before_anything_is_asked, "pca secure"),
    ),
    Bug(
        "an error that may be anything is given a number",
        replaced(expected_errors, "SAME", 1e9),
        partial(accuracy.test_an_error_that_data_decides_is_unknown_with_a_reason_at_every_price, "moment 2"),
    ),
    Bug(
        "a preview that decomposes a matrix",
        wrapped(
            second_moments,
            "_floor_in_words",
            lambda honest, width, variance: (
                honest(width, variance) | {"spectrum": str(np.linalg.eigvalsh(np.eye(9))[0])}
            ),
        ),
        partial(speed.test_a_preview_decomposes_no_matrix_and_draws_no_noise_at_five_hundred_coded_columns, "linear"),
    ),
    Bug(
        "completion that offers what the package is made of",
        replaced(colonnade, "__dir__", lambda: sorted(vars(colonnade))),
        annotations.test_completion_offers_the_public_names_and_nothing_else,
    ),
    Bug(
        "a learned attribute that no editor knows",
        lambda patch: patch.delitem(colonnade.PCA.__annotations__, "components_"),
        partial(annotations.test_whatever_an_estimator_learns_has_a_type, "PCA"),
    ),
]
