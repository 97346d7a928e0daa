"""Bugs in who asks: signatures, approvals, caps of requesters, and what a privacy officer is shown."""

import inspect
import tempfile
from functools import partial
from pathlib import Path

from colonnade.cli import ledgers
from colonnade.party import policy
from colonnade.party.gate import Gate
from colonnade.party.ledger import decisions, words
from colonnade.party.ledger.decisions import Approval, RefusedStudies
from colonnade.party.policy import Permission
from colonnade.plan import About
from colonnade.protocol import agreement
from colonnade.secure.keys import frame
from tests.network import test_privacy_officer as officer
from tests.network.served import Site
from tests.party import test_approvals as approvals
from tests.party import test_ledger_words as shown
from tests.party import test_requests as requests
from tests.seeded.bug import Bug, replaced, wrapped

FORGED = partial(
    requests.test_words_that_the_named_analyst_has_not_signed_for_this_plan_are_refused_and_cost_nothing, kind="asked"
)
ONE_PLAN = partial(approvals.test_an_approval_is_for_one_plan_one_data_version_and_a_time, secure=False)


def _any_approval(honest, self, plan):
    return any(isinstance(entry.decision, Approval) for entry in self.entries)


def _without_an_end(honest, self, plan):
    wanted = (policy.codec.digest(plan).hex(), plan.data_versions[self.party])
    found = [entry.decision for entry in self.entries if isinstance(entry.decision, Approval)]
    return wanted in [(one.plan, one.version) for one in found]


def _decided_in_a_folder():
    with tempfile.TemporaryDirectory() as folder:
        approvals.test_a_decision_that_nobody_signed_for_this_ledger_is_not_recorded(
            approvals.DECISIONS[0], Path(folder)
        )


def _bound_to_no_plan(self, plan):
    return frame("colonnade study request v1", self.title, self.purpose, self.requester)


def _in_a_federation(test):
    """Run a test that takes a served federation."""

    def run():
        with tempfile.TemporaryDirectory() as folder:
            takes = (Site(Path(folder)), Path(folder))
            test(*takes[: len(inspect.signature(test).parameters)])

    return run


def _erases_the_table_alone(path, people):
    return 0


BUGS = [
    Bug("anybody's signature is taken", replaced(About, "require_signed", lambda *_: None), FORGED),
    Bug("a signature holds for every plan", replaced(About, "_message", _bound_to_no_plan), FORGED),
    Bug("an approval is for every study", wrapped(Permission, "approved", _any_approval), ONE_PLAN),
    Bug("an approval never ends", wrapped(Permission, "approved", _without_an_end), ONE_PLAN),
    Bug(
        "an approval is not asked for when a study is proposed",
        replaced(Gate, "_authorise", lambda *_, **__: None),
        approvals.test_a_threshold_of_zero_holds_every_study_and_preview_and_asking_directly_are_held_too,
    ),
    Bug(
        "all requesters are one",
        replaced(policy, "requester_of", lambda _: "analyst@telco"),
        approvals.test_each_requester_has_a_cap_and_others_are_refused,
    ),
    Bug(
        "what was refused is not kept",
        replaced(RefusedStudies, "record", lambda *_: None),
        approvals.test_a_study_above_the_threshold_waits_and_runs_once_it_is_approved,
    ),
    Bug(
        "a decision needs no signature",
        replaced(decisions._Decision, "signer", lambda *_: approvals.OWNER),
        _decided_in_a_folder,
    ),
    Bug(
        "control characters reach the screen",
        replaced(words, "one_line", lambda text, *_: text),
        partial(shown.test_no_text_of_a_coordinator_moves_the_cursor_or_fills_the_screen, text="a\nb"),
    ),
    Bug(
        "a cell is a formula",
        replaced(ledgers, "_cell", lambda value: value),
        lambda: shown.test_no_cell_is_a_formula("=1+1"),
    ),
    Bug(
        "what nobody signed is shown as signed",
        replaced(words.Requester, "of", classmethod(lambda cls, *_: cls("analyst@telco", words.Standing.SIGNED))),
        shown.test_who_asked_is_judged_by_the_signature_and_the_papers,
    ),
    Bug(
        "anybody introduces an analyst",
        replaced(agreement, "check_introductions", lambda *_: None),
        _in_a_federation(officer.test_introductions_and_revocations_that_their_member_has_not_signed_are_refused),
        full=True,
    ),
    Bug(
        "a revoked analyst still asks",
        replaced(
            agreement.FederationAgreement,
            "analyst_keys",
            lambda self: {name: one.key for name, one in self.analysts.items()},
        ),
        _in_a_federation(officer.test_a_revoked_analyst_asks_for_nothing_more_and_what_was_asked_stays_readable),
        full=True,
    ),
    Bug(
        "scores of an erased person stay",
        replaced(decisions, "_forget_scores", _erases_the_table_alone),
        _in_a_federation(officer.test_a_person_is_erased_from_table_orders_and_scores_and_is_told_what_stays),
        full=True,
    ),
]
