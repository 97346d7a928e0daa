"""Bugs in the gate, the policy, the protocol and the transport."""

import hashlib
from functools import partial

import colonnade as cn
from colonnade.party import gate, guard, party, policy
from colonnade.party.gate import Gate
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.policy import Policy
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import codec
from colonnade.protocol.messages import Ask, Refused, Released
from colonnade.steps import kind
from colonnade.transport.direct import Direct, Recorded
from tests.estimators import test_bad_input as bad_input
from tests.estimators import test_pattern_count as studies
from tests.federations import SCHEMAS, TEST_KEY, frames
from tests.party import test_gate as gates
from tests.protocol import test_codec as codecs
from tests.seeded.bug import Bug, replaced, wrapped
from tests.transport.test_direct import TestInThisProcess as InThisProcess
from tests.transport.test_transcript import test_rounds_messages_and_bytes_are_counted_exactly as counted_exactly


def _draws_before_it_debits(self, ask):
    request, body = codec.request_identity(ask.plan, self.terms.party, ask.step), codec.digest(ask)
    self._ledger.answer_to(request, body)
    step = ask.plan.step(self.terms.party, ask.step)
    half = self._admit_local(ask.plan, step)
    law = half.law(step.price)
    value = law.release(half.compute(self._table), ExactSampler(self._randomness))
    self._ledger.reserve(request, body, law.loss, seed=bytes(32), **self._row(ask.plan, step))
    return self._ledger.commit(request, gate.released(step, {"value": gate.pack(value)}, law.name, law.loss))


def _forgets_answers(patch):
    """Every question is a new one: nothing stored is looked up, and no id repeats."""
    count = iter(range(10**9))
    patch.setattr(SqliteLedger, "answer_to", lambda self, request, body: None)
    patch.setattr(codec, "request_identity", lambda plan, party, step: next(count).to_bytes(32, "big"))


def _hash_of_the_plan_alone(honest, message):
    return honest(message.plan if isinstance(message, Ask) else message)


def _hash_with_the_title(honest, message):
    return hashlib.sha256(codec.encode(message)).digest() if isinstance(message, Ask) else honest(message)


def _takes_any_parameter(patch):
    """Both rules are broken: the names in a plan are not looked up, and a step reads what it knows among others."""
    patch.setattr(kind, "only_parameters", lambda step, allowed: step.parameters)
    for module in (guard, policy):
        patch.setattr(module, "require_known", lambda plan: None)


def _takes_any_noise(self, table, policy, terms, ledger, randomness):
    self._table, self._ledger, self._randomness = table, ledger, randomness
    self.policy, self.terms, self.row_orders = policy, terms, None


def _quotes_the_error(honest, self, data):
    try:
        return self._answer(data)
    except Exception as error:
        return codec.encode(Refused(code="protocol-error", message=str(error), remedy="", spent=0.5))


def _identity_without_the_repeat(honest, plan, name, step):
    fields = {field: getattr(plan, field) for field in plan.__struct_fields__}
    return honest(type(plan)(**{**fields, "repeat": 1}), name, step)


def _quotes_without_looking(self, plan):
    losses = {step.name: self._loss(plan, step) for step in plan.steps_of(self.terms.party)}
    return gate.Quoted(losses, tuple(losses), ())


def _one_at_a_time(self, requests):
    return {name: self._endpoints[name].handle(data) for name, data in requests.items()}


def _parties_draw_differently():
    """Under one key, two parties that hold the same column must not release the same bytes."""
    both = {name: cn.Party(frames()["telco"], schema=SCHEMAS["telco"]) for name in ("one", "two")}
    with cn.Federation.simulate(both, id="person_id", budget=cn.Budget(epsilon=9.0), test_key=TEST_KEY) as f:
        f.transport = seen = Recorded(f.transport, keep=True)
        cn.PatternCount(["one.plan", "two.plan"], method="response", epsilon=2.0).fit(f)
    heard = [{name: codec.decode_reply(data) for name, data in replies.items()} for _, replies in seen.exchanges]
    (released,) = [replies for replies in heard if isinstance(replies["one"], Released)]
    assert released["one"].array("value").tobytes() != released["two"].array("value").tobytes()


_CRASH = gates.test_a_release_that_was_cut_short_is_drawn_with_the_same_noise

BUGS = [
    Bug(
        "debit after the draw",
        replaced(Gate, "release", _draws_before_it_debits),
        gates.test_the_order_is_admit_debit_compute_draw_keep,
    ),
    Bug(
        "the stored answer is ignored",
        _forgets_answers,
        gates.test_the_same_request_a_thousand_times_gives_the_same_bytes_and_one_debit,
    ),
    Bug(
        "the body's hash is ignored",
        wrapped(codec, "digest", _hash_of_the_plan_alone),
        gates.test_another_body_under_the_same_id_is_refused,
    ),
    Bug(
        "a new title is a new question",
        wrapped(codec, "digest", _hash_with_the_title),
        gates.test_a_new_title_is_the_same_question_and_gets_the_same_bytes,
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
    Bug("an error quotes the data", wrapped(guard.Guard, "handle", _quotes_the_error), _CRASH),
    Bug(
        "a failed release is reported as free",
        replaced(guard.Guard, "_spent_since", lambda self, sequence: None),
        _CRASH,
    ),
    Bug(
        "a repeat is the same question",
        wrapped(codec, "request_identity", _identity_without_the_repeat),
        studies.test_fitting_again_is_free_and_identical_and_a_repeat_is_a_new_draw_at_a_new_price,
    ),
    Bug(
        "a party agrees to what it cannot pay",
        replaced(Gate, "quote", _quotes_without_looking),
        bad_input.test_a_budget_that_one_party_lacks_costs_nobody_anything,
    ),
    Bug(
        "NaN is a figure",
        replaced(codec, "_refuse_non_finite", lambda value: None),
        partial(
            codecs.test_numbers_that_are_not_finite_are_refused_in_bytes_that_are_canonical_otherwise, float("nan")
        ),
    ),
    Bug(
        "all parties draw the same noise",
        replaced(party, "_test_randomness", lambda key, name: None if key is None else KeyedRandomness(bytes(32))),
        _parties_draw_differently,
    ),
    Bug(
        "parties are asked one after the other",
        replaced(Direct, "exchange", _one_at_a_time),
        lambda: InThisProcess().test_all_of_a_round_is_delivered_at_the_same_time(),
        full=True,
    ),
    Bug(
        "replies are not counted",
        wrapped(Recorded, "_count", lambda honest, self, requests, replies: honest(self, requests, {})),
        counted_exactly,
    ),
]
