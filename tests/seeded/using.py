"""Bugs in using what was learned: scores of people, divisions of people, models as files, outputs for one party."""

import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.coordinator.protocols.score_releases import ScoreMoments
from colonnade.errors import ProtocolError
from colonnade.estimators import catalogue, export, model_file, study
from colonnade.party.gate import AdmittedStep
from colonnade.party.guard import RowOrders
from colonnade.party.policy import Policy
from colonnade.party.steps import parts as partial_scores
from colonnade.party.steps import products as gram
from colonnade.party.steps.agreements import SplitPart
from colonnade.party.steps.products import PrivateScoreHistogram
from colonnade.secure.summation import PairwiseMasks, SumRing
from colonnade.steps.local import SquaredLength
from colonnade.steps.products import DROPPED, ScoreTable
from tests import test_coding as coding
from tests.estimators import test_evaluation as evaluation
from tests.estimators import test_prediction as prediction
from tests.estimators import test_saved_models as saved
from tests.estimators import test_split as division
from tests.federations import federation
from tests.party import test_score_statistics as scores
from tests.seeded.bug import Bug, replaced, wrapped


def _fitted():
    with federation(200, epsilon=50.0) as f:
        model = cn.LinearRegression("telco.bill", epsilon=2.0, delta=1e-5).fit(f)
        classes = cn.LogisticRegression("bank.default", method="secure", epsilon=2.0, delta=1e-5).fit(f)
    return {"numbers": model, "linear": model, "classes": classes}


def _given_a_model(test, *args, folder=False):
    """Turn a test that takes fitted models, and perhaps a folder, into one without arguments; models are fitted first."""
    models = {}

    def victim():
        made = models.get("made") or _fitted()
        if folder:
            with tempfile.TemporaryDirectory() as place:
                test(*args, made, Path(place))
        else:
            test(*args, made)

    def plant(change):
        def planted(patch):
            models["made"] = _fitted()
            change(patch)

        return planted

    return victim, plant


def _model_bug(name, change, test, *args, folder=False):
    victim, plant = _given_a_model(test, *args, folder=folder)
    return Bug(name, plant(change), victim)


def _unclamped(_, coding, table, start, stop):
    values = partial_scores.partial_scores(coding.scores, table, start, stop)
    return np.rint(values * (coding.heights / coding.largest)[:, None]).astype(np.int64)


def _centred(honest, coding, table, start, stop):
    return honest(coding, table, start, stop) + 1 - (honest(coding, table, start, stop) >= coding.heights[:, None])


def _scored_by(change):
    """Plant another function of a party's scores where a Gram matrix takes its rows from, and where its test does."""

    def plant(patch):
        for place in (gram, scores):
            wrapped(place, "bounded_scores", change)(patch)

    return plant


def _everybody_is_present(honest, self, table, start, stop):
    return np.maximum(honest(self, table, start, stop), 0)


def _gives_it_away(self, table, sampler):
    numbers = np.maximum(self.numbers(table, 0, table.people), 0)
    return np.zeros_like(numbers).astype("<u2").tobytes(), numbers.astype("<u2").tobytes()


_HONEST_FOLD = ScoreTable.__dict__["fold"].func


def _wraps_into_the_histogram(self):
    place = _HONEST_FOLD(self)
    lost = np.flatnonzero(place == DROPPED)
    place[lost] = lost % self.cells
    return place


def _own_key(honest, self, key):
    return honest(self, key + self._admitted.party.encode())


def _any_recipient(self, plan, step, terms):
    if plan.method not in self.predictions:
        raise cn.NonPrivateRefused("no")


def _readable_by_all(honest, path, flags, mode=0o777, **options):
    descriptor = honest(path, flags, mode, **options)
    if ".deliveries" in str(path):  # a ledger that everybody can read is refused before anything is delivered
        os.fchmod(descriptor, 0o644)
    return descriptor


def _reads_numbers_its_own_way(honest, values, name, column):
    return honest(pd.to_numeric(values, errors="coerce") if isinstance(column, cn.Numeric) else values, name, column)


def _refuses_what_does_not_fit(honest, self, sums):
    if not honest(self, sums):
        raise ProtocolError("A secure sum is out of its bounds.")
    return True


BUGS = [
    Bug(
        "a frame is read in another way than a party's table",
        wrapped(export, "encoded", _reads_numbers_its_own_way),
        coding.test_true_in_a_column_of_numbers_is_one_everywhere,
    ),
    Bug(
        "a score that a plan calls small is not clamped",
        _scored_by(_unclamped),
        scores.test_no_row_of_scores_is_longer_than_its_bound_whatever_the_plan_says,
    ),
    Bug(
        "scores are centred, so that nobody's record counts for something",
        _scored_by(_centred),
        scores.test_no_row_of_scores_is_longer_than_its_bound_whatever_the_plan_says,
    ),
    Bug(
        "a person without a record is counted in a histogram of scores",
        wrapped(PrivateScoreHistogram, "numbers", _everybody_is_present),
        partial(
            scores.test_a_record_zeroed_out_at_one_party_or_at_all_moves_one_count_by_one,
            ("telco", "bank", "insurer"),
            "insurer",
        ),
    ),
    Bug(
        "sums past the bins are counted in them",
        lambda patch: patch.setattr(ScoreTable, "fold", property(_wraps_into_the_histogram)),
        partial(
            scores.test_a_record_zeroed_out_at_one_party_or_at_all_moves_one_count_by_one,
            ("telco", "bank", "insurer"),
            "insurer",
        ),
    ),
    Bug(
        "a giver hands its numbers to the right party as they are",
        replaced(PrivateScoreHistogram, "give", _gives_it_away),
        scores.test_what_left_and_right_are_given_is_uniform_whatever_the_scores_are,
    ),
    Bug(
        "half the noise on a histogram of scores",
        wrapped(PrivateScoreHistogram, "cross_noise", lambda honest, *args: honest(*args) // 2),
        partial(scores.test_the_noise_of_a_count_follows_its_law_and_no_other, "bank"),
    ),
    Bug(
        "scores are rounded down, all of them",
        wrapped(PrivateScoreHistogram, "_coins", lambda honest, *args: 0 * honest(*args)),
        scores.test_rounding_has_no_direction,
    ),
    Bug(
        "a missing level scores like the last one",
        lambda patch: patch.setattr(
            partial_scores, "_add_levels", lambda codes, weights, out: np.add(out, weights[:, codes], out=out)
        ),
        scores.test_a_part_never_leaves_the_range_that_the_schema_gives_it_and_nothing_scores_nothing,
    ),
    Bug(
        "a sum of squares is calibrated to half its height",
        wrapped(SquaredLength, "law", lambda honest, self, price: honest(_with(self, height=self.height // 2), price)),
        scores.test_a_record_zeroed_out_moves_a_sum_of_squares_by_at_most_its_height,
    ),
    Bug(
        "intervals leave half of the noise out",
        wrapped(ScoreMoments, "mean_square", lambda honest, *args: (honest(*args)[0], honest(*args)[1] / 2)),
        evaluation.test_errors_are_as_large_as_the_intervals_say_and_not_larger,
    ),
    Bug(
        "every party divides its people by a key of its own",
        wrapped(SplitPart, "keep", _own_key),
        division.test_the_parts_are_the_same_at_every_party_and_make_up_the_whole,
    ),
    Bug(
        "a division is another in another run",
        replaced(RowOrders, "add", lambda self, order: self._open(order)),
        division.test_a_second_run_gives_the_same_people_under_the_same_name,
    ),
    Bug(
        "the share of a division is not the one that was asked for",
        wrapped(division, "in_second_part", lambda honest, key, people, share: honest(key, people, share * 1.05)),
        division.test_a_share_of_people_is_about_that_share_and_does_not_depend_on_the_place,
    ),
    _model_bug(
        "scores are opened to whoever is named",
        replaced(Policy, "_check_prediction", _any_recipient),
        prediction.test_nobody_is_scored_unless_every_policy_names_the_model_and_the_recipient,
    ),
    _model_bug(
        "individual scores leave without a line in the ledger",
        replaced(AdmittedStep, "disclose", lambda self, fixed: None),
        prediction.test_the_output_is_a_line_of_its_own_in_every_ledger_and_outside_the_promise,
    ),
    Bug(
        "parts of scores travel without masks",
        lambda patch: patch.setattr(
            PairwiseMasks, "masked", lambda self, number, values: values.astype(self._ring.dtype)
        ),
        prediction.test_inputs_with_the_same_scores_leave_transcripts_that_cannot_be_told_apart,
    ),
    Bug(
        "a recipient says that a sum of scores is out of its bounds",
        wrapped(SumRing, "holds", _refuses_what_does_not_fit),
        prediction.test_a_peer_that_sends_more_than_it_may_does_not_find_out_on_which_side_of_a_bound_a_score_lies,
    ),
    _model_bug(
        "a delivery is readable by everybody on the machine",
        wrapped(os, "open", _readable_by_all),
        prediction.test_scores_are_kept_for_the_partys_own_operator_alone,
        folder=True,
    ),
    _model_bug(
        "a model file's digest is not looked at",
        replaced(model_file, "_digest", lambda document: document.get("digest", "")),
        saved.test_a_file_that_was_changed_is_refused,
        "a coefficient",
        folder=True,
    ),
    _model_bug(
        "a model's plan is not compared with its hash",
        replaced(model_file, "_check_study_attributes", lambda attributes, plan_hash: None),
        saved.test_a_forged_file_with_a_right_digest_is_refused_by_its_structure,
        "another plan under the old hash",
        folder=True,
    ),
    _model_bug(
        "a model file may set any attribute",
        replaced(catalogue, "STUDY_ATTRIBUTES", (*catalogue.STUDY_ATTRIBUTES, "predict")),
        saved.test_a_forged_file_with_a_right_digest_is_refused_by_its_structure,
        "an attribute that hides a method",
        folder=True,
    ),
    _model_bug(
        "a model is used with whatever schema there is",
        replaced(study, "as_fitted", lambda study, federation, *names: federation),
        saved.test_a_model_refuses_a_federation_whose_schema_has_changed,
        folder=True,
    ),
]


def _with(statistic, **changes):
    import copy

    other = copy.copy(statistic)
    for name, value in changes.items():
        setattr(other, name, value)
    return other
