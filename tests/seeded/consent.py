"""Bugs in how everybody says yes before anybody pays, and in what is held meanwhile."""

from functools import partial

from colonnade.conversations import consent
from colonnade.conversations.consent import Consents
from colonnade.coordinator import driver
from colonnade.party.gate import Gate
from colonnade.party.ledger import ledger
from colonnade.party.ledger.ledger import Holds
from colonnade.party.policy import Permission
from tests.party import test_consent as consents
from tests.seeded.bug import Bug, replaced, wrapped


def _any_nonces(honest, self, plan, yeses):
    pending = self._find(plan)
    said = consent.read_yeses(plan, pending.members, yeses)
    for name, yes in said.items():
        if name != self._member.name:
            consent.check_signature(name, yes, self._member.pinned)
    self._begun[plan] = None
    return pending.since


def _left_out(honest, self, plan, yeses):
    pending = self._find(plan)
    pending.members = frozenset(yeses)
    return honest(self, plan, yeses)


def _at_the_step_only(honest, self, plan, *, hold=False):
    self._refuse_alignments = lambda *_: []
    return honest(self, plan, hold=hold)


BUGS = [
    Bug(
        "anybody's signature is a yes",
        replaced(consent, "check_signature", lambda *_: None),
        partial(consents.refuse_false_yeses, "forged"),
    ),
    Bug(
        "an old yes is as good as a new one",
        wrapped(Consents, "hear", _any_nonces),
        partial(consents.refuse_false_yeses, "replayed"),
    ),
    Bug(
        "a member that is left out is not missed",
        wrapped(Consents, "hear", _left_out),
        partial(consents.refuse_false_yeses, "missing"),
    ),
    Bug(
        "a step is paid for before everybody has said yes",
        replaced(Gate, "require_begun", lambda *_: None),
        consents.test_a_step_is_neither_paid_for_nor_begun_before_everybody_has_said_yes,
    ),
    Bug(
        "a node computes for whoever asks",
        replaced(Consents, "require_begun", lambda *_: None),
        consents.test_a_compute_node_does_not_take_part_before_it_has_heard_every_yes,
    ),
    Bug(
        "an alignment is refused at its step",
        wrapped(Gate, "quote", _at_the_step_only),
        partial(
            consents.test_a_study_that_anybody_refuses_leaves_every_ledger_as_it_was, "noisy size", "alignments", "bank"
        ),
    ),
    Bug(
        "an alignment waits for nobody's approval",
        wrapped(Gate, "quote", _at_the_step_only),
        consents.test_an_alignment_waits_for_approval_like_any_study_and_is_shown_in_words,
    ),
    Bug(
        "a purpose that was not agreed to is paid for",
        wrapped(Holds, "is_payable", lambda honest, self, plan, who, _, now: honest(self, plan, who, "marketing", now)),
        consents.test_a_study_is_not_paid_for_by_another_requester_than_the_one_who_was_agreed_with,
    ),
    Bug(
        "a hold ends with the last debit",
        replaced(ledger, "MARGIN", 0),
        consents.test_a_hold_lasts_ten_minutes_without_a_yes_and_ten_minutes_longer_than_anybody_pays_with_one,
    ),
    Bug(
        "debits do not end",
        replaced(ledger, "DEBITS_END", 2 * ledger.DEBITS_END),
        consents.test_a_hold_lasts_ten_minutes_without_a_yes_and_ten_minutes_longer_than_anybody_pays_with_one,
    ),
    Bug(
        "one requester holds all of it",
        wrapped(Holds, "open", lambda honest, *args, **how: [] if how.get("but") else honest(*args, **how)),
        consents.test_a_second_study_of_one_requester_leaves_half_of_what_is_left_to_others,
    ),
    Bug(
        "there is no end to the number of holds",
        replaced(ledger, "MOST_STUDIES", 10**6),
        consents.test_holds_are_limited_in_number_for_one_requester_and_in_all,
    ),
    Bug(
        "what is held says so",
        replaced(ledger, "_left", lambda nano, of, delta: nano / 1e9),
        consents.test_a_refusal_for_what_is_held_reads_like_one_for_the_cap,
    ),
    Bug(
        "what is held is forgotten in a requester's cap",
        wrapped(Permission, "_spent", lambda honest, self, of, _: honest(self, of, lambda hold: False)),
        consents.test_what_is_held_counts_towards_a_requesters_cap_and_towards_approval,
    ),
    Bug(
        "a refused study stays held for",
        replaced(driver, "_withdraw", lambda *_: None),
        partial(
            consents.test_a_study_that_anybody_refuses_leaves_every_ledger_as_it_was,
            "pair tables",
            "the price",
            "telco",
        ),
    ),
    Bug(
        "a study that meets another's hold is refused for good",
        replaced(driver.Turn, "shared", property(lambda _: False, lambda *_: None)),
        consents.test_of_twenty_studies_at_once_with_room_for_ten_ten_are_answered_and_everybody_paid_for_these,
    ),
]
