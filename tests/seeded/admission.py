"""Bugs at a party's door: what is admitted, said and shown, and what it costs."""

import dataclasses
import hashlib
from contextlib import nullcontext
from functools import partial

import msgspec
import pytest

import colonnade as cn
from colonnade.conversations import endpoint, memory
from colonnade.conversations.endpoint import Consents
from colonnade.conversations.memory import LedgerHeads
from colonnade.coordinator.driver import ComputeMembers
from colonnade.party import gate, guard, party, policy
from colonnade.party import guard as guards
from colonnade.party import policy as policies
from colonnade.party.gate import Gate, OrderRecords
from colonnade.party.ledger import backup, decisions, rows
from colonnade.party.ledger.decisions import Approval
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.policy import Permission, Policy, Terms
from colonnade.plan import About
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import agreement, messages
from colonnade.protocol.messages import Ask, Refused, Released
from colonnade.result import Opening
from colonnade.secure.shamir import default_threshold
from colonnade.service import party_folder
from colonnade.service.party_folder import Snapshots
from colonnade.steps import kind
from colonnade.steps import kind as parameters
from colonnade.steps.kind import SharingFloor
from colonnade.transport.direct import Recorded
from tests.cli import test_party_load as loads
from tests.conversations import test_floors as floors
from tests.conversations import test_heads as heads
from tests.estimators import test_bad_input as bad_input
from tests.estimators import test_names_in_plans as names
from tests.estimators import test_pooling as pooling
from tests.federations import SCHEMAS, TEST_KEY, frames
from tests.party import test_approvals as approvals
from tests.party import test_change_attacks as attacks
from tests.party import test_consent as consents
from tests.party import test_data_versions as versions
from tests.party import test_forged_plans as forged
from tests.party import test_gate as gates
from tests.party import test_ledger_backup as copies
from tests.party import test_ledger_history as shown
from tests.party import test_refusals as refusals
from tests.party import test_requests as requests
from tests.protocol import test_codec as codecs
from tests.seeded.bug import Bug, Plant, replaced, wrapped
from tests.service import test_privacy_officer as officer


def _draws_before_it_debits(self, ask):
    request, body = messages.request_identity(ask.plan, self.terms.party, ask.step), messages.digest(ask)
    self._ledger.answer_to(request, body)
    step = ask.plan.step(self.terms.party, ask.step)
    half = gate._local(step, self._admit(ask.plan, step))
    law = half.law(step.price)
    value = law.release(half.compute(self._table), ExactSampler(self._randomness))
    self._ledger.reserve(request, body, law.loss, seed=bytes(32), **self._row(ask.plan, step))
    return self._ledger.commit(request, gate.released(step, {"value": gate.pack(value)}, law.name, law.loss))


def _forgets_answers(patch):
    """Every question is a new one: nothing stored is looked up, and no id repeats."""
    count = iter(range(10**9))
    patch.setattr(SqliteLedger, "answer_to", lambda self, request, body: None)
    patch.setattr(messages, "request_identity", lambda plan, party, step: next(count).to_bytes(32, "big"))


def _hash_of_the_plan_alone(honest, message):
    return honest(message.plan if isinstance(message, Ask) else message)


def _takes_any_parameter(patch):
    """Both rules are broken: the names in a plan are not looked up, and a step reads what it knows among others."""
    patch.setattr(kind, "only_parameters", lambda step, allowed: step.parameters)
    for module in (guard, policy):
        patch.setattr(module, "require_known", lambda plan: None)


def _takes_any_noise(self, table, policy, terms, ledger, randomness):
    self._table, self._ledger, self._randomness = table, ledger, randomness
    self.policy, self.terms, self.row_orders = policy, terms, None


def _quotes_without_looking(self, plan):
    losses = {step.name: gate._loss(step, self._admit(plan, step)) for step in plan.steps_of(self.terms.party)}
    return gate.Quoted(losses, tuple(losses), ())


def _parties_draw_differently():
    """Under one key, two parties that hold the same column must not release the same bytes."""
    both = {name: cn.Party(frames()["telco"], schema=SCHEMAS["telco"]) for name in ("one", "two")}
    with cn.Federation.simulate(both, id="person_id", budget=cn.Budget(epsilon=9.0), test_key=TEST_KEY) as f:
        f._driver.transport = seen = Recorded(f._driver.transport, keep=True)
        cn.PatternCount(["one.plan", "two.plan"], method="response", epsilon=2.0).fit(f)
    heard = [{name: messages.decode_reply(data) for name, data in replies.items()} for _, replies in seen.exchanges]
    (released,) = [replies for replies in heard if isinstance(replies["one"], Released)]
    assert released["one"].array("value").tobytes() != released["two"].array("value").tobytes()


_CRASH = gates.test_a_release_that_was_cut_short_is_drawn_with_the_same_noise


def _with_a_hash_of_the_list(self):
    listed = hashlib.sha256(repr(self._admitted.row_orders.ids.to_pylist()).encode()).digest()
    self._ledger.record_list(
        bytes(28) + self._ledger.head().sequence.to_bytes(4, "big"), listed, **self._admitted.row()
    )
    return bytes(32)


def _without(name):
    """An opening that is counted as if one of its fields were empty."""

    def counted(honest, self, parties):
        return honest(dataclasses.replace(self, **{name: ()}), parties)

    return wrapped(Opening, "collusion", counted)


def _knows_anything(patch):
    for module in (guards, policies):
        patch.setattr(module, "require_known", lambda plan: None)


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


def _opens_what_is_there(self, version):
    return sorted(path for path in self._place(version).iterdir() if path.name != party_folder.SUMS)


def _any_nonces(honest, self, plan, yeses):
    pending = self._find(plan)
    said = endpoint.read_yeses(plan, pending.members, yeses)
    for name, yes in said.items():
        if name != self._member.name:
            endpoint.check_signature(name, yes, self._member.pinned)
    self._agreed[plan] = None
    return pending.since


def _left_out(honest, self, plan, yeses):
    pending = self._find(plan)
    pending.members = frozenset(yeses)
    return honest(self, plan, yeses)


FORGED = partial(
    requests.test_words_that_the_named_analyst_has_not_signed_for_this_plan_are_refused_and_cost_nothing,
    kind="proposed",
)


ONE_PLAN = partial(approvals.test_an_approval_is_for_one_plan_one_data_version_and_a_time, secure=False)


def _any_approval(honest, self, plan):
    return any(isinstance(entry.decision, Approval) for entry in self.entries)


def _as_before(honest, self, party, statement, floor):
    """Refuse a head that is below one seen before the question, and remember nothing of it, as 0.2.0 did."""
    known = None if floor is None else floor.stood.head
    if known is not None and statement.head != known and statement.head.sequence <= known.sequence:
        raise memory._gone_back(party)
    return True


ROLLED_BACK = (
    heads.test_a_rolled_back_ledger_is_refused_however_often_it_tries_and_however_far_it_grows_until_its_owner_forfeits
)


def _used_again(self, plan, step):
    """The admitted step is looked at, and stays."""
    return self._agreed.get((messages.digest(plan), step.name)) or self._admit(plan, step)


BUGS = [
    # gate
    Bug(
        "an admitted step is used twice",
        replaced(Gate, "_admitted", _used_again),
        gates.test_what_was_admitted_at_the_yes_is_used_once_and_after_that_the_policy_is_asked_again,
    ),
    Bug(
        "debit after the draw",
        replaced(Gate, "release", _draws_before_it_debits),
        gates.test_the_order_is_admit_debit_compute_draw_keep,
    ),
    Bug(
        "the stored answer is ignored",
        _forgets_answers,
        gates.test_the_same_request_a_thousand_times_gives_the_same_bytes_and_one_debit,
        slow=True,
    ),
    Bug(
        "the body's hash is ignored",
        wrapped(messages, "digest", _hash_of_the_plan_alone),
        gates.test_another_body_under_the_same_id_is_refused,
    ),
    Bug(
        "the policy is not asked about a step",
        replaced(Policy, "_check_step", lambda self, plan, kind, step, terms: None),
        partial(gates.test_a_policy_decides_what_is_answered, cn.Policy(max_epsilon=0.4), False),
    ),
    Bug(
        "the policy is not asked about a plan",
        replaced(Policy, "_check_plan", lambda self, plan, terms: None),
        partial(gates.test_a_plan_for_other_terms_is_refused, {"people": 7}),
    ),
    Bug(
        "unknown parameters are ignored",
        _takes_any_parameter,
        gates.test_the_noise_scale_is_never_taken_from_outside,
    ),
    Bug(
        "deterministic noise in production",
        replaced(Gate, "__init__", _takes_any_noise),
        gates.test_deterministic_noise_needs_a_test_ledger,
    ),
    Bug(
        "a failed release is reported as free",
        replaced(guard.Guard, "_spent_since", lambda self, sequence: None),
        _CRASH,
    ),
    Bug(
        "a party agrees to what it cannot pay",
        replaced(Gate, "quote", _quotes_without_looking),
        bad_input.test_a_budget_that_one_party_lacks_costs_nobody_anything,
    ),
    Bug(
        "NaN is a figure",
        replaced(messages, "_refuse_non_finite", lambda value: None),
        partial(
            codecs.test_numbers_that_are_not_finite_are_refused_in_bytes_that_are_canonical_otherwise, float("nan")
        ),
    ),
    Bug(
        "all parties draw the same noise",
        replaced(party, "_test_randomness", lambda key, name: None if key is None else KeyedRandomness(bytes(32))),
        _parties_draw_differently,
    ),
    # forged
    Bug(
        "the floor of secret sharing is that of the members a plan happens to name",
        wrapped(
            SharingFloor,
            "check",
            lambda honest, self, plan, asker: honest(
                dataclasses.replace(self, threshold=min(self.threshold, default_threshold(len(plan.compute_nodes)))),
                plan,
                asker,
            ),
        ),
        partial(forged.test_naming_few_parties_or_nodes_lowers_no_floor, forged.PARTIES[:2]),
    ),
    Bug(
        "weights of any size are taken",
        replaced(parameters, "LARGEST_NUMBER", 1.7e308),
        partial(forged.test_weights_that_could_overflow_past_a_clamp_are_refused, -1e300),
    ),
    Bug(
        "the row of an attempt holds a hash of the list",
        replaced(OrderRecords, "record_attempt", _with_a_hash_of_the_list),
        forged.test_rows_of_attempts_say_which_request_and_nothing_about_the_list,
        slow=True,
    ),
    # floors
    Bug(
        "a policy's floor of collusion is no floor under the threshold",
        wrapped(
            Policy,
            "_check_sharing",
            lambda honest, self, plan, party: SharingFloor(self.min_threshold or 1).check(plan, "this party's policy"),
        ),
        partial(floors.test_noise_covers_what_a_policy_insists_on_or_all_parties_but_one, 1, True),
    ),
    Bug(
        "too few nodes for the requested collusion will do",
        wrapped(
            ComputeMembers, "choose", lambda honest, self, asked, threshold, dealing=(): honest(self, asked, 1, dealing)
        ),
        partial(floors.test_too_few_compute_nodes_are_refused_with_the_number_to_add_and_that_number_suffices, 3, 2),
    ),
    Bug(
        "c counts on a coordinator that is itself a compute node",
        _without("nodes"),
        partial(pooling.test_c_is_true_for_every_shape_of_a_federation, "two parties and the coordinator"),
    ),
    Bug(
        "names in a plan are not looked up",
        _knows_anything,
        names.test_a_plan_that_nobody_meant_is_neither_quoted_nor_debited,
    ),
    # refusals
    Bug(
        "a step that is pending is resumed on another version of the data",
        replaced(Terms, "require_version", lambda *_: None),
        attacks.test_a_pending_step_does_not_tell_whether_a_record_has_changed,
        slow=True,
    ),
    Bug(
        "a kept order outlives its version",
        wrapped(guard, "_read_order", _any_version),
        partial(
            forged.test_an_order_that_was_kept_for_an_older_version_is_not_used_whether_or_not_rows_have_changed,
            flip=False,
        ),
    ),
    Bug(
        "a version goes back",
        replaced(Gate, "declare_version", lambda _: False),
        versions.test_a_version_never_goes_back,
    ),
    Bug(
        "what is raised among rows is said",
        replaced(gate, "among_rows", nullcontext),
        partial(
            refusals.test_a_file_that_changed_under_a_party_stops_it_and_neither_its_name_nor_what_changed_is_said,
            kind="csv",
            change="a cell",
        ),
    ),
    Bug(
        "an unforeseen error is quoted",
        replaced(guard, "refusal", _quoting),
        refusals.test_an_unforeseen_error_elsewhere_is_one_constant_message_and_stops_nobody,
    ),
    # loading
    Bug(
        "a copy is not compared with its hashes",
        replaced(Snapshots, "files", _opens_what_is_there),
        partial(loads.test_a_copy_that_is_not_what_was_loaded_is_not_answered_from, damage=loads.without_sums),
    ),
    # showing
    # consent
    Bug(
        "anybody's signature is a yes",
        replaced(endpoint, "check_signature", lambda *_: None),
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
        "what is held is forgotten in a requester's cap",
        wrapped(Permission, "_spent", lambda honest, self, of, _: honest(self, of, lambda hold: False)),
        consents.test_what_is_held_counts_towards_a_requesters_cap_and_towards_approval,
    ),
    # asking
    Bug("anybody's signature is taken", replaced(About, "require_signed", lambda *_: None), FORGED, slow=True),
    Bug("an approval is for every study", wrapped(Permission, "approved", _any_approval), ONE_PLAN),
    Bug(
        "a decision needs no signature",
        replaced(decisions._Decision, "signer", lambda *_: approvals.OWNER),
        partial(
            approvals.test_a_decision_that_nobody_signed_for_this_ledger_is_not_recorded,
            decision=approvals.DECISIONS[0],
        ),
    ),
    Bug(
        "a revoked analyst still asks",
        replaced(
            agreement.FederationAgreement,
            "analyst_keys",
            lambda self: {name: one.key for name, one in self.analysts.items()},
        ),
        officer.test_a_revoked_analyst_asks_for_nothing_more_and_what_was_asked_stays_readable,
        slow=True,
    ),
    # history
    Bug("row numbers alone are compared", wrapped(LedgerHeads, "_measure", _as_before), partial(ROLLED_BACK, rows=1)),
    Bug(
        "every proof holds",
        replaced(memory, "extends", lambda *_: True),
        heads.test_the_peers_own_root_sent_back_proves_nothing,
    ),
    Bug(
        "rows are shown without salt",
        replaced(rows, "row_digest", lambda salt, row: row),
        shown.test_nobody_without_the_salt_can_try_out_what_a_row_says,
    ),
    Bug(
        "nobody signs a forfeit",
        wrapped(
            backup.Forfeit, "signed", lambda honest, self, ledger, owner: msgspec.structs.replace(self, signature="")
        ),
        partial(copies.test_a_forfeit_charges_the_highest_total_and_its_owner_signs_for_it, lost=1),
    ),
]
