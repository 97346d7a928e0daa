"""Bugs in what a party says when it does not answer, and in what belongs to a version of its data."""

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from colonnade.party import gate, guard
from colonnade.party.gate import AdmittedStep, Gate
from colonnade.party.guard import Guard
from colonnade.party.policy import Terms
from colonnade.party.steps import coresets
from colonnade.party.table.checking import ColumnCheck
from colonnade.party.table.fingerprint import KeptFingerprint
from colonnade.protocol.messages import Refused
from colonnade.schema import Numeric
from tests.party import refusal_table
from tests.party import test_change_attacks as attacks
from tests.party import test_data_versions as versions
from tests.party import test_forged_plans as forged
from tests.party import test_refusal_table as table
from tests.party import test_refusals as refusals
from tests.party import test_table_check as checks
from tests.seeded.bug import Bug, Plant, replaced, wrapped


def in_a_folder(test: Callable[..., None], **options: object) -> Callable[[], None]:
    """Turn a test that takes a folder into one without arguments."""

    def victim() -> None:
        with tempfile.TemporaryDirectory() as folder:
            test(tmp_path=Path(folder), **options)

    return victim


def both(*plants: Plant) -> Plant:
    """Make several changes."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for one in plants:
            one(patch)

    return plant


def _any_version(honest, path):
    """Read an order as if it were of the version that is open now."""
    order, _ = honest(path)
    return order, 2


def _quoting(error: Exception, spent: float | None) -> Refused:
    return Refused(code="protocol-error", message=f"{error} {error.__cause__}", remedy="", spent=spent)


def _with_its_runs(honest, self, *args, **options):
    runs = self._runs
    honest(self, *args, **options)
    self._runs = runs


def _takes_nulls_for_misfits(check):
    """A column of nothing but nulls was refused as one that holds something else than declared."""
    return [(f"{check.name}: none of its rows holds a number", "Compare it.")] if check.missing == check.rows else []


BUGS = [
    Bug(
        "a reservation is bound to the values of its columns, and says so",
        both(replaced(Terms, "require_version", lambda *_: None), attacks.as_it_was),
        in_a_folder(attacks.test_a_pending_step_does_not_tell_whether_a_record_has_changed),
    ),
    Bug(
        "a step that is pending is resumed on another version of the data",
        replaced(Terms, "require_version", lambda *_: None),
        in_a_folder(attacks.test_a_pending_step_does_not_tell_whether_a_record_has_changed),
    ),
    Bug(
        "a kept answer outlives its version",
        replaced(Terms, "require_version", lambda *_: None),
        in_a_folder(versions.test_a_kept_answer_ends_with_its_version_and_the_same_study_is_paid_for_again),
    ),
    Bug(
        "a kept order outlives its version",
        wrapped(guard, "_read_order", _any_version),
        in_a_folder(
            forged.test_an_order_that_was_kept_for_an_older_version_is_not_used_whether_or_not_rows_have_changed,
            flip=False,
        ),
    ),
    Bug(
        "a run outlives its version",
        both(replaced(Terms, "require_version", lambda *_: None), wrapped(Guard, "replace", _with_its_runs)),
        in_a_folder(versions.test_a_run_under_way_ends_with_its_version, moved=True),
    ),
    Bug(
        "a version goes back",
        replaced(Gate, "declare_version", lambda _: False),
        in_a_folder(versions.test_a_version_never_goes_back),
    ),
    Bug(
        "other data under one version are taken",
        replaced(KeptFingerprint, "require_same", lambda *_, **__: None),
        in_a_folder(versions.test_other_data_under_the_same_version_are_refused_to_the_owner),
    ),
    Bug(
        "what is raised among rows is said",
        replaced(gate, "among_rows", nullcontext),
        in_a_folder(
            refusals.test_a_file_that_changed_under_a_party_stops_it_and_neither_its_name_nor_what_changed_is_said,
            kind="csv",
            change="a cell",
        ),
    ),
    Bug(
        "a party goes on after its rows could not be read",
        replaced(Guard, "stop", lambda *_: None),
        partial(
            refusals.test_a_party_whose_rows_cannot_be_read_stops_and_says_what_a_stopped_party_says,
            "local",
            ValueError,
        ),
    ),
    Bug(
        "an unforeseen error is quoted",
        replaced(guard, "refusal", _quoting),
        refusals.test_an_unforeseen_error_elsewhere_is_one_constant_message_and_stops_nobody,
    ),
    Bug(
        "a coordinator's weights are not looked at before rows are",
        replaced(coresets, "HEAVIEST", float("inf")),
        partial(refusals.test_weights_that_could_make_a_computation_fail_are_refused_before_a_row_is_read, 1e300),
    ),
    Bug(
        "a step that rests on nothing is computed",
        replaced(gate, "require_earlier", lambda _: None),
        partial(refusals.test_no_forged_plan_stops_a_party_and_every_refusal_is_in_the_table, "sketches", 1),
    ),
    Bug(
        "a column of nulls is taken for one that holds something else",
        replaced(ColumnCheck, "faults", property(_takes_nulls_for_misfits)),
        partial(checks.test_an_empty_column_is_missing_throughout, Numeric(0, 1)),
    ),
    Bug(
        "words of a refusal may come from anywhere",
        replaced(refusal_table.Text, "_fact", lambda *_: refusal_table.PLAN),
        partial(
            table.test_words_that_come_from_somewhere_else_are_noticed, 'raise BadInput(f"There are {len(rows)} rows.")'
        ),
    ),
    Bug(
        "a part of a conversation is handed its rows outside",
        replaced(
            AdmittedStep,
            "compute",
            lambda self, function, *args, **options: function(self._gate._table, *args, **options),
        ),
        partial(
            refusals.test_a_party_whose_rows_cannot_be_read_stops_and_says_what_a_stopped_party_says,
            "shares",
            ValueError,
        ),
    ),
]
