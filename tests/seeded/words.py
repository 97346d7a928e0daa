"""Bugs in study files, in what estimators show, and in what people are told."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import colonnade as cn
from colonnade.cli import running
from colonnade.coordinator import opening
from colonnade.estimation import moments
from colonnade.estimators.methods.moments import Functional
from colonnade.party import party
from colonnade.privacy.accounting import total
from colonnade.service.study_file import FilePreview
from tests import federations
from tests import test_mistakes as mistakes
from tests.cli import test_run as runs
from tests.estimators import test_conventions as conventions
from tests.seeded.bug import Bug, replaced, wrapped


def _in_a_folder(test: Callable[[Path], object]) -> Callable[[], object]:
    """Run a test with a folder of its own."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder))

    return run


def _on_a_federation(test: Callable[[cn.Federation], object]) -> Callable[[], object]:
    def run() -> None:
        with federations.federation(400, epsilon=500.0, delta=1e-4, test_key=None) as opened:
            test(opened)

    return run


def _mistake(what: str) -> Callable[[], object]:
    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            (one,) = (mistake for mistake in mistakes.MISTAKES if mistake.what == what)
            mistakes.test_a_mistake_is_named_with_its_place_and_its_remedy(one, mistakes.Bench(Path(folder)))

    return run


def _counted_twice(honest, studies, federation):
    found = honest(studies, federation)
    charges = {
        name: total(preview.charges[name] for _, preview in found.previews if name in preview.charges)
        for name in found.accounts
    }
    return replace(found, charges=charges)


def _of_those_asked_for(honest, *given, **more):
    fit = honest(*given, **more)
    return replace(fit, total_variance=float(fit.explained_variance.sum()))


BUGS = [
    Bug(
        "a file is run without a look at whether its studies fit together",
        replaced(FilePreview, "require_room", lambda _: None),
        _in_a_folder(
            runs.test_studies_that_do_not_fit_the_budget_together_are_refused_before_anything_is_spent,
        ),
    ),
    Bug(
        "a study that a file has twice is counted twice",
        wrapped(running, "preview_studies", _counted_twice),
        _in_a_folder(runs.test_a_study_that_the_file_has_twice_is_counted_once),
    ),
    Bug(
        "columns are standardised by nothing",
        replaced(moments, "deviations", lambda centred, *_: np.ones(len(centred))),
        conventions.test_standardised_components_are_those_of_the_correlations,
    ),
    Bug(
        "a component's share is of the components that were asked for",
        wrapped(moments, "pca_from_moments", _of_those_asked_for),
        _on_a_federation(conventions.test_a_component_says_which_share_of_all_variance_it_has),
    ),
    Bug(
        "a name that is no word is suggested",
        replaced(party, "_as_word", str),
        partial(conventions.test_a_name_that_is_no_word_is_refused_with_one_that_is, "my bank", "my_bank"),
    ),
    Bug(
        "nobody is told that a budget starts anew",
        replaced(opening, "_tell_of_temporary_ledgers", lambda: None),
        _in_a_folder(conventions.test_a_script_that_keeps_its_ledgers_is_told_nothing),
    ),
    Bug(
        "a method that the estimator does not have is suggested",
        replaced(cn.PCA, "offers", (*cn.PCA.offers, Functional)),
        _mistake("PCA without delta"),
    ),
]
