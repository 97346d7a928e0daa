"""Parties agree on a key that the coordinator does not learn: once, all on the same one, for one step of one plan."""

import itertools

import pytest

import colonnade as cn
from colonnade.conversations.agreements import SETTLES
from colonnade.coordinator import driver
from colonnade.coordinator.driver import agree_on_key, forget_key
from colonnade.errors import ColonnadeError, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.protocol import messages
from colonnade.protocol.messages import Blob, Post, Posted, Refused
from tests.federations import as_if_agreed, federation
from tests.party.test_gate import gate_of, guards

PARTIES = ("bank", "telco", "insurer")


class Agreement:
    """Nothing but a key."""

    def __init__(self, parties: tuple[str, ...] = PARTIES, *, forget: bool = False, **changes: object) -> None:
        self.parties = parties
        self.changes = changes
        self.forget = forget

    def steps(self) -> tuple[Step, ...]:
        fields = {"kind": "group-key", "columns": (), "price": None} | self.changes
        return tuple(Step(name="key", party=party, **fields) for party in self.parties)

    def rounds(self, plan: Plan):
        yield from agree_on_key(plan, "key")
        if self.forget:
            yield from forget_key(plan, "key")


def a_plan(f: cn.Federation, algorithm: Agreement | None = None, repeat: int = 1) -> Plan:
    return f._driver.plan(
        algorithm or Agreement(),
        task="clustering",
        method="sketch",
        price=None,
        unit="person",
        parameters={},
        repeat=repeat,
    )


def agree(f: cn.Federation, plan: Plan | None = None, *, forget: bool = False) -> driver.Outcome:
    return f._driver.run(Agreement(forget=forget), plan or a_plan(f))


def key_at(f: cn.Federation, party: str, plan: Plan) -> bytes | None:
    gate = gate_of(f, party)
    return gate._ledger.seed_of(gate.ledger_key(plan, "key")[0])


def test_every_party_keeps_the_same_key_and_another_plan_another_one():
    f = federation()
    first, second = a_plan(f), a_plan(f, repeat=2)
    agree(f, first)
    agree(f, second)
    keys = [{key_at(f, party, plan) for party in PARTIES} for plan in (first, second)]
    assert [len(one) for one in keys] == [1, 1]
    assert not keys[0] & keys[1]
    assert all(len(key) == 32 for one in keys for key in one)


def test_agreeing_costs_nothing_and_is_a_line_in_every_ledger():
    f = federation()
    outcome = agree(f)
    assert (f.budget()["spent"] == 0).all()
    assert all(not losses for losses in outcome.quote.losses.values())
    assert all(gate_of(f, party).ledger.entries()[-1].kind == "key" for party in PARTIES)


def test_the_key_appears_in_nothing_that_the_coordinator_relays():
    f = federation()
    said = []
    honest = f._driver.transport.exchange
    f._driver.transport.exchange = lambda requests: said.append(answers := honest(requests)) or answers
    plan = a_plan(f)
    agree(f, plan)
    key = key_at(f, "bank", plan)
    assert key is not None
    assert all(key not in bytes(answer) for answers in said for answer in answers.values())


def test_a_key_that_has_done_its_work_is_erased_and_never_agreed_on_again():
    f = federation()
    plan = a_plan(f)
    agree(f, plan, forget=True)
    assert {key_at(f, party, plan) for party in PARTIES} == {None}
    agree(f, plan, forget=True)  # settled, says everyone, and nothing happens
    assert {key_at(f, party, plan) for party in PARTIES} == {None}
    assert isinstance(posted(f, plan, b"r" * 16, 0)["bank"], Refused)


def posted(f: cn.Federation, plan: Plan, run: bytes, turn: int, letters=None, parties=PARTIES):
    for party in parties if turn == 0 else ():
        as_if_agreed(guards(f)[party], plan)
    return {
        party: messages.decode_reply(
            guards(f)[party].handle(
                messages.encode(
                    Post(plan=plan, step="key", run=run, turn=turn, letters=dict((letters or {}).get(party, {})))
                )
            )
        )
        for party in parties
    }


def next_letters(replies):
    if all(hasattr(reply, "hello") for reply in replies.values()):
        hellos = {party: Blob(reply.hello) for party, reply in replies.items()}
        return dict.fromkeys(replies, hellos)
    letters = {}
    for sender, reply in replies.items():
        for receiver, letter in reply.letters.items() if isinstance(reply, Posted) else ():
            letters.setdefault(receiver, {})[sender] = letter
    return letters


def played(f, plan, run, turns, parties=PARTIES):
    letters = {}
    for turn in range(turns):
        letters = next_letters(posted(f, plan, run, turn, letters, parties))
    return letters


@pytest.mark.every(2)
@pytest.mark.parametrize("settled", [set(some) for n in range(1, 3) for some in itertools.combinations(PARTIES, n)])
def test_a_coordinator_that_stops_half_way_and_starts_again_leaves_no_two_keys(settled):
    f = federation()
    plan = a_plan(f)
    letters = played(f, plan, b"1" * 16, SETTLES)
    posted(f, plan, b"1" * 16, SETTLES, letters, tuple(sorted(settled)))  # the others never hear of the reveals
    (key,) = {key_at(f, party, plan) for party in settled}
    assert {key_at(f, party, plan) for party in set(PARTIES) - settled} <= {None}
    agree(f, plan)
    assert {key_at(f, party, plan) for party in PARTIES} == {key}


@pytest.mark.every(3)
@pytest.mark.parametrize("turn", range(1, SETTLES + 1))
@pytest.mark.parametrize("fault", ["missing", "swapped", "flipped", "replayed"])
def test_a_letter_that_is_missing_swapped_flipped_or_replayed_leaves_nobody_with_a_key(turn, fault):
    f = federation()
    plan = a_plan(f)
    letters = played(f, plan, b"1" * 16, turn)
    mine = dict(letters["bank"])
    old = mine["telco"]
    if fault == "missing":
        del mine["telco"]
    elif fault == "swapped":
        mine["telco"], mine["insurer"] = mine["insurer"], mine["telco"]
    elif fault == "flipped":
        data = bytearray(old.view)
        data[len(data) // 2] ^= 1
        mine["telco"] = Blob(bytes(data))
    else:
        other = federation()
        mine["telco"] = played(other, a_plan(other), b"9" * 16, turn)["bank"]["telco"]
    reply = posted(f, plan, b"1" * 16, turn, {"bank": mine}, ("bank",))["bank"]
    assert isinstance(reply, Refused)
    assert key_at(f, "bank", plan) is None


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("algorithm", "error"),
    [
        (Agreement(("bank",)), PlanMismatch),
        (Agreement(columns=("age",)), PlanMismatch),
        (Agreement(parameters={"bits": 8}), ColonnadeError),
    ],
)
def test_a_key_step_that_asks_for_anything_else_is_refused(algorithm, error):
    f = federation()
    with pytest.raises(error):
        f._driver.run(algorithm, a_plan(f, algorithm))
