"""Everybody says yes before anybody pays: refusals that cost nobody, yeses that are forged, holds, their limits and their end."""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

import colonnade as cn
from colonnade.conversations.endpoint import Yes
from colonnade.coordinator import driver
from colonnade.errors import ApprovalNeeded, BudgetExceeded, ColonnadeError, PolicyRefusal, ProtocolError
from colonnade.party.ledger.ledger import Hold, SqliteLedger
from colonnade.plan import About, Plan
from colonnade.privacy.accounting import NANO, Loss
from colonnade.protocol import messages
from colonnade.protocol.messages import (
    Acknowledged,
    Ask,
    Begin,
    GetYes,
    Post,
    Propose,
    Refused,
    Released,
    Request,
    SaidYes,
    Withdraw,
)
from colonnade.secure.keys import Identity
from tests import side_by_side as sides
from tests.federations import TEST_KEY, federation
from tests.party.ledger_children import set_cap
from tests.party.refusal_matrix import COHORT, COUNTED, REQUESTS
from tests.party.test_gate import a_plan, gate_of, guards

HOUR, MINUTE = 3_600.0, 60.0


def heads(f: cn.Federation) -> dict[str, object]:
    """Where every ledger stands."""
    return {name: gate_of(f, name).ledger.head() for name in f.parties}


def tell(f: cn.Federation, name: str, request: Request) -> object:
    return messages.decode_reply(guards(f)[name].handle(messages.encode(request)))


def said(f: cn.Federation, name: str, request: Request) -> str:
    """What a member says when it refuses."""
    reply = tell(f, name, request)
    assert isinstance(reply, Refused), reply
    return reply.message


# A refusal costs nobody anything ----------------------------------------------------------------------------------------------


def _lowers_its_cap(f: cn.Federation, who: str) -> None:
    set_cap(gate_of(f, who)._ledger, cn.Budget(epsilon=1e-6, delta=1e-5))


def _declares_a_version(f: cn.Federation, who: str) -> None:
    gate = gate_of(f, who)
    for one in guards(f)[who]._row_orders._gates.values():
        one.terms = dataclasses.replace(one.terms, version=gate.terms.version + 1)


def _stops(f: cn.Federation, who: str) -> None:
    guards(f)[who].stop()


REASONS: dict[str, tuple[Mapping[str, object], Callable[[cn.Federation, str], None] | None]] = {
    "the study": ({"allow": [], "nonprivate": []}, None),
    "a column": ({"columns": []}, None),
    "the price": ({"max_epsilon": 1e-6}, None),
    "the cap": ({}, _lowers_its_cap),
    "a requester's cap": ({"requesters": {"coordinator": 1e-6}}, None),
    "an approval": ({"approve_above": 0.0}, None),
    "alignments": ({"max_alignments": 0}, None),
    "the mode": ({"alignments": []}, None),
    "the data version": ({}, _declares_a_version),
    "it has stopped": ({}, _stops),
}


def applies(request: str, reason: str) -> bool:
    asked = REQUESTS[request]
    if request == "describe":  # asks for no study
        return False
    if reason in ("alignments", "the mode"):
        return asked.order
    if reason == "a column":
        return asked.columns and request != "predict"
    if reason in ("the price", "the cap", "a requester's cap"):
        return asked.price or asked.releases_size
    if reason == "an approval":
        return request not in ("cohort", "split")  # these tell nobody anything
    return reason != "the data version" or not asked.order  # whoever aligns asks which version there is


ALONE = {"histogram": ("bank",), "quantiles": ("telco",)}
"""Studies of one party."""
CASES = [
    (request, reason, who)
    for request in REQUESTS
    for reason in REASONS
    for who in ALONE.get(request, ("bank", "telco"))
    if applies(request, reason)
]


@contextmanager
def opened(request: str, who: str, rules: Mapping[str, object], act: Callable | None) -> Iterator[cn.Federation]:
    frames = sides.tables()
    parties = {name: cn.Party(frames[name], schema=schema) for name, schema in sides.SCHEMAS.items()}
    policies = {name: cn.Policy(**{**sides.RULES, **(rules if name == who else {})}) for name in parties}
    with cn.Federation.simulate(
        parties,
        id="person_id",
        budget=sides.BUDGET,
        compute_nodes=[sides.NODE],
        policies=policies,
        aligned=not REQUESTS[request].order,
        test_key=TEST_KEY,
    ) as f:
        if act is not None:
            act(f, who)
        yield f


@pytest.mark.every(11)
@pytest.mark.parametrize(("request_", "reason", "who"), CASES)
def test_a_study_that_anybody_refuses_leaves_every_ledger_as_it_was(request_, reason, who):
    rules, act = REASONS[reason]
    with opened(request_, who, rules, act) as f:
        before = heads(f)
        with pytest.raises(ColonnadeError) as refusal:
            REQUESTS[request_].ask(f, 1.0, 1)
        assert heads(f) == before
        assert not refusal.value.spent
        if reason != "it has stopped":  # a study that waits for somebody who is away is taken up again
            assert all(gate_of(f, name)._ledger.held() == [] for name in f.parties)


def test_an_alignment_waits_for_approval_like_any_study_and_is_shown_in_words():
    """The script `appr.py`: it could not be approved, and the others paid 0.25 and a line that is not private."""
    frames = sides.tables()
    parties = {name: cn.Party(frames[name], schema=schema) for name, schema in sides.SCHEMAS.items()}
    rules = {name: cn.Policy(**{**sides.RULES, "approve_above": 0.6 if name == "bank" else None}) for name in parties}
    with cn.Federation.simulate(
        parties, id="person_id", budget=cn.Budget(epsilon=4.0), policies=rules, aligned=False
    ) as f:
        before = heads(f)
        with pytest.raises(ApprovalNeeded):
            f.align("intersection", epsilon=0.25)
        assert heads(f) == before
        (words,) = parties["bank"].waiting()
        assert "align(mode='intersection')" in words
        assert "who is in common" in words
        parties["bank"].approve()
        assert parties["bank"].waiting() == []
        f.align("intersection", epsilon=0.25)
        assert f.budget()["spent"].tolist() == [0.25, 0.25]


# Yeses that are not what they should be -----------------------------------------------------------------------------------------


class Tampering:
    """A coordinator that changes what it carries, and goes on as if nothing had happened."""

    def __init__(self, inner, change: Callable[[str, Request], Request] = lambda _, request: request) -> None:
        self.inner, self.change = inner, change
        self.yeses: list[dict[str, bytes]] = []
        self._endpoints = inner._endpoints

    def exchange(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        decoded = {name: messages.decode_request(data) for name, data in requests.items()}
        first = next(iter(decoded.values()))
        if isinstance(first, Begin):
            self.yeses.append(dict(first.yeses))
        changed = {name: messages.encode(self.change(name, one)) for name, one in decoded.items()}
        answers = self.inner.exchange(changed)
        for name, one in decoded.items():  # nobody is told that a beginning was refused
            if isinstance(one, Begin):
                answers[name] = messages.encode(Acknowledged())
        return answers

    def close(self) -> None:
        self.inner.close()


STRANGER = Identity.from_seed(b"x" * 32)


def _forged(yes: bytes) -> bytes:
    bare = msgspec.structs.replace(messages.decode(yes, Yes), signature=b"")
    return messages.encode(msgspec.structs.replace(bare, signature=STRANGER.sign(bare.words())))


def _changed(yes: bytes, **changes: object) -> bytes:
    return messages.encode(msgspec.structs.replace(messages.decode(yes, Yes), **changes))


FALSE: dict[str, Callable[[dict[str, bytes], dict[str, bytes], dict[str, bytes]], dict[str, bytes]]] = {
    "forged": lambda now, old, other: {**now, "bank": _forged(now["bank"])},
    "with another head": lambda now, old, other: {**now, "bank": _changed(now["bank"], head=b"")},
    "replayed": lambda now, old, other: {**now, "bank": old["bank"]},
    "replayed, all of them": lambda now, old, other: old,
    "to another plan": lambda now, old, other: {**now, "bank": other["bank"]},
    "to another plan, renamed": lambda now, old, other: {
        **now,
        "bank": _changed(other["bank"], plan=messages.decode(now["bank"], Yes).plan),
    },
    "another member's": lambda now, old, other: {**now, "bank": _changed(now["telco"], party="bank")},
    "missing": lambda now, old, other: {name: one for name, one in now.items() if name != "bank"},
    "one too many": lambda now, old, other: {**now, "mallory": _forged(_changed(now["bank"], party="mallory"))},
    "no yes at all": lambda now, old, other: {**now, "bank": b""},
}


def refuse_false_yeses(kind: str) -> None:
    with federation() as f:
        line = f._driver.transport = Tampering(f._driver.transport)
        with pytest.raises(ProtocolError):  # it hangs up once everybody has said yes
            f._driver.run(_Stops(), a_plan(f))
        with pytest.raises(ProtocolError):
            f._driver.run(_Stops(), a_plan(f, repeat=2))
        old, other = line.yeses
        before = heads(f)
        for guard in guards(f).values():
            with guard._gate._ledger._file.writing():
                guard._gate._ledger._holds.end_all()

        def change(name: str, request: Request) -> Request:
            if isinstance(request, Begin):
                return Begin(plan=request.plan, yeses=FALSE[kind](request.yeses, old, other))
            return request

        line.change = change
        driver.agree(a_plan(f), f._driver.transport)  # so it believes, and asks everybody
        for name in ("bank", "telco"):
            said(f, name, Ask(plan=a_plan(f), step="reports"))
        assert heads(f) == before


class _Stops:
    """An algorithm whose coordinator hangs up once everybody has said yes."""

    def steps(self):
        return ()

    def rounds(self, plan: Plan):
        raise ProtocolError("hung up")
        yield {}


def secure_plan(f: cn.Federation, repeat: int) -> Plan:
    found: list[Plan] = []
    model = cn.PatternCount(COUNTED, method="secure", epsilon=1.0)
    real, f._driver.study = f._driver.study, lambda algorithm, plan, **_: found.append(plan) or _enough()
    try:
        model.fit(f, repeat=repeat)
    except _Enough:
        pass
    finally:
        f._driver.study = real
    return found[0]


class _Enough(Exception):
    pass


def _enough() -> None:
    raise _Enough


@pytest.mark.parametrize("kind", FALSE)
def test_nobody_pays_after_a_yes_that_is_forged_replayed_missing_or_to_another_plan(kind):
    refuse_false_yeses(kind)


def test_a_party_that_refused_is_not_left_out_and_its_yes_is_not_made_up():
    """The bank refuses. A coordinator that pretends otherwise, in every way that it can, makes nobody pay."""
    rules = {"bank": cn.Policy(allow=[])}
    with federation(policies=rules, parties=("bank", "telco")) as f:
        plan = a_plan(f)
        before = heads(f)
        assert isinstance(tell(f, "bank", Propose(plan=plan, hold=True)), Refused)
        agreed = tell(f, "telco", Propose(plan=plan, hold=True))
        hashed, mallory = messages.digest(plan), b"m" * 16
        assert isinstance(tell(f, "telco", GetYes(plan=hashed, nonces={"telco": agreed.nonce})), Refused)
        own = tell(f, "telco", GetYes(plan=hashed, nonces={"telco": agreed.nonce, "bank": mallory}))
        assert isinstance(own, SaidYes)
        for yeses in ({"telco": own.yes}, {"telco": own.yes, "bank": _forged(_changed(own.yes, party="bank"))}):
            assert isinstance(tell(f, "telco", Begin(plan=hashed, yeses=yeses)), Refused)
            assert "every member's yes" in said(f, "telco", Ask(plan=plan, step="reports"))
        assert heads(f) == before


def test_a_step_is_neither_paid_for_nor_begun_before_everybody_has_said_yes():
    with federation() as f:
        before, plan = heads(f), a_plan(f)
        for request in (Propose(plan=plan), Propose(plan=plan, hold=True)):
            tell(f, "bank", request)
            assert "every member's yes" in said(f, "bank", Ask(plan=plan, step="reports"))
        joint = secure_plan(f, 1)
        greeting = Post(plan=joint, step=joint.steps[0].name, run=bytes(16), turn=0, letters={})
        assert "every member's yes" in said(f, "bank", greeting)
        assert heads(f) == before
        driver.agree(plan, f._driver.transport)
        assert heads(f) == before
        assert isinstance(tell(f, "bank", Ask(plan=plan, step="reports")), Released)


def test_a_compute_node_does_not_take_part_before_it_has_heard_every_yes():
    with federation(parties=("bank", "telco"), compute_nodes=["notary"]) as f:
        plan = secure_plan(f, 1)
        assert "notary" in plan.compute_nodes
        greeting = Post(plan=plan, step=plan.steps[0].name, run=bytes(16), turn=0, letters={})
        assert "every member's yes" in said(f, "notary", greeting)


def test_a_study_is_not_paid_for_by_another_requester_than_the_one_who_was_agreed_with():
    with federation() as f:
        plan = a_plan(f)
        driver.agree(plan, f._driver.transport, about=About(title="churn", purpose="marketing"))
        asked = Ask(plan=plan, step="reports", about=About(title="churn", purpose="research"))
        assert "every member's yes" in said(f, "bank", asked)
        reply = tell(f, "bank", Ask(plan=plan, step="reports", about=About(title="churn", purpose="marketing")))
        assert isinstance(reply, Released)


# Holds -------------------------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def loss(epsilon: float) -> Loss:
    return Loss.of_pure(round(epsilon * NANO))


def held(number: int, epsilon: float, requester: str = "ana") -> Hold:
    return Hold(bytes([number]) * 32, requester, "", {bytes([number]): loss(epsilon)})


@contextmanager
def a_ledger(epsilon: float = 10.0) -> Iterator[tuple[SqliteLedger, Clock, Path]]:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank.sqlite"
        with SqliteLedger.create(path, party="bank", budget=cn.Budget(epsilon=epsilon), clock=clock) as ledger:
            yield ledger, clock, path


def pay(ledger: SqliteLedger, number: int, epsilon: float) -> None:
    ledger.debit(bytes([number]), bytes(32), loss(epsilon), label="x")


def test_a_hold_lasts_ten_minutes_without_a_yes_and_ten_minutes_longer_than_anybody_pays_with_one():
    with a_ledger() as (ledger, clock, _):
        one, start = held(1, 6.0), clock.now
        ledger.hold(one)
        clock.now = start + 10 * MINUTE - 1
        assert ledger.held() == [one]
        ledger.sign_hold(one.plan)
        said = clock.now
        assert not ledger.is_payable(one.plan, "ana", "")
        ledger.begin_hold(one.plan, start)
        for seconds, payable, is_held in (
            (0.0, True, True),
            (start + HOUR - 1 - said, True, True),
            (start + HOUR - said, False, True),
            (HOUR + 10 * MINUTE - 1, False, True),
            (HOUR + 10 * MINUTE, False, False),
        ):
            clock.now = said + seconds
            assert ledger.is_payable(one.plan, "ana", "") is payable
            assert (ledger.held() == [one]) is is_held
        with pytest.raises(ProtocolError):
            ledger.begin_hold(one.plan, clock.now)
        ledger.hold(held(2, 9.0, "bo"))
        clock.now += 10 * MINUTE
        with pytest.raises(ProtocolError):
            ledger.sign_hold(held(2, 9.0).plan)
        ledger.hold(held(3, 9.0, "cy"))


def test_a_hold_is_kept_when_the_ledger_is_opened_again_and_ends_with_the_version_of_the_data():
    with a_ledger() as (ledger, clock, path):
        ledger.hold(held(1, 6.0))
        ledger.sign_hold(held(1, 6.0).plan)
        ledger.begin_hold(held(1, 6.0).plan, clock.now)
        ledger.close()
        with SqliteLedger.open(path, clock=clock) as again:
            assert again.is_payable(held(1, 6.0).plan, "ana", "")
            with pytest.raises(BudgetExceeded):
                again.hold(held(2, 5.0, "bo"))
            again.declare_version(1)
            assert again.held() == []
            again.hold(held(2, 5.0, "bo"))


def test_a_refusal_for_what_is_held_reads_like_one_for_the_cap():
    with a_ledger() as (ledger, _, __), a_ledger() as (other, _, __):
        ledger.hold(held(1, 6.0))
        pay(other, 1, 6.0)
        heard = []
        for one in (ledger, other):
            with pytest.raises(BudgetExceeded) as refusal:
                one.hold(held(2, 5.0, "bo"))
            heard.append((refusal.value.message, refusal.value.remedy, refusal.value.spent))
        assert heard[0] == heard[1]
        assert "ε=4 is left" in heard[0][0]


def test_the_same_study_is_held_once_and_what_is_paid_is_held_no_longer():
    with a_ledger() as (ledger, _, __):
        for _ in range(3):
            ledger.hold(held(1, 6.0))
        assert [one.loss for one in ledger.held()] == [loss(6.0)]
        pay(ledger, 1, 6.0)
        assert ledger.held() == []
        ledger.hold(held(2, 4.0))
        with pytest.raises(BudgetExceeded):
            ledger.hold(held(3, 0.5, "bo"))
        ledger.end_hold(held(2, 4.0).plan)
        ledger.hold(held(3, 0.5, "bo"))


def test_a_second_study_of_one_requester_leaves_half_of_what_is_left_to_others():
    with a_ledger() as (ledger, _, __):
        for number in range(5):
            ledger.hold(held(1 + number, 1.0))
        with pytest.raises(BudgetExceeded, match="ε=0 is left"):
            ledger.hold(held(6, 1.0))
        ledger.hold(held(7, 5.0, "bo"))
    with a_ledger() as (ledger, _, __):  # a first study may take all of it
        ledger.hold(held(1, 10.0))


def test_holds_are_limited_in_number_for_one_requester_and_in_all():
    with a_ledger() as (ledger, _, __):
        for number in range(16):
            ledger.hold(held(number, 1e-3))
        with pytest.raises(BudgetExceeded):
            ledger.hold(held(99, 1e-3))
        for number in range(16, 64):
            ledger.hold(held(number, 1e-3, f"analyst {number}"))
        with pytest.raises(BudgetExceeded):
            ledger.hold(held(99, 1e-3, "bo"))
        ledger.hold(held(3, 1e-3))  # one that is held already


@pytest.mark.parametrize("again", ["proposes", "signs", "begins", "withdraws and proposes", "proposes another"])
def test_a_requester_that_asks_again_and_again_and_pays_nothing_gives_way_after_its_turn(again):
    """For its first 70 minutes a study of all that is left is held; from then on it is held until another one asks."""
    with a_ledger() as (ledger, clock, _):
        start, number = clock.now, 1

        def ask() -> None:
            ledger.hold(held(number, 10.0))
            if again in ("signs", "begins"):
                ledger.sign_hold(held(number, 10.0).plan)
            if again == "begins" and clock.now == start:
                ledger.begin_hold(held(number, 10.0).plan, clock.now)

        ask()
        while clock.now < start + 6 * HOUR:
            clock.now += 9 * MINUTE
            if again.startswith("withdraws"):
                ledger.end_hold(held(number, 10.0).plan)
            if again.endswith("another"):
                ledger.end_hold(held(number, 10.0).plan)
                number += 1
            ask()
            if clock.now < start + 70 * MINUTE:
                with pytest.raises(BudgetExceeded):
                    ledger.hold(held(99, 0.01, "bo"))
            else:
                ledger.require_room(held(99, 0.01, "bo"))
        ledger.hold(held(99, 0.01, "bo"))
        assert [one.requester for one in ledger.held()] == ["bo"]
        with pytest.raises(BudgetExceeded):
            ask()
        ledger.sign_hold(held(99, 0.01).plan)
        ledger.begin_hold(held(99, 0.01).plan, clock.now)
        pay(ledger, 99, 0.01)


def test_a_turn_ends_when_nothing_is_asked_for_and_what_has_paid_a_step_or_has_just_begun_does_not_give_way():
    with a_ledger() as (ledger, clock, _):
        two = Hold(b"p" * 32, "ana", "", {b"first": loss(1.0), b"second": loss(9.0)})
        ledger.hold(two)
        ledger.sign_hold(two.plan)
        clock.now += HOUR
        ledger.debit(b"first", bytes(32), loss(1.0), label="x")
        ledger.hold(two)
        ledger.sign_hold(two.plan)
        clock.now += HOUR
        with pytest.raises(BudgetExceeded):
            ledger.hold(held(99, 0.01, "bo"))
    with a_ledger() as (ledger, clock, _):
        ledger.hold(held(1, 10.0))
        clock.now += HOUR
        ledger.hold(held(2, 10.0))
        clock.now += HOUR
        ledger.hold(held(3, 10.0))
        ledger.sign_hold(held(3, 10.0).plan)
        ledger.begin_hold(held(3, 10.0).plan, clock.now)
        with pytest.raises(BudgetExceeded):  # others may be paying for it
            ledger.hold(held(99, 0.01, "bo"))
        clock.now += 10 * MINUTE
        ledger.require_room(held(99, 0.01, "bo"))
        clock.now += 70 * MINUTE
        ledger.hold(held(4, 10.0))
        with pytest.raises(BudgetExceeded):
            ledger.hold(held(99, 0.01, "bo"))


def test_holds_without_a_price_keep_nobody_out_and_are_limited_in_number():
    with a_ledger() as (ledger, _, __):
        for number in range(240):
            ledger.hold(Hold(bytes([number]) * 32, f"analyst {number % 4}", "", {bytes([number]): None}))
        ledger.hold(held(250, 10.0, "bo"))
        for number in range(80):
            ledger.hold(Hold(bytes([number]) * 31 + b"x", "mallory", "", {bytes([number]) + b"x": None}))
        kept = [one.requester for one in ledger.held()]
        assert (kept.count("mallory"), kept.count("bo")) == (64, 1)
        assert len(kept) <= 256


def test_a_study_that_another_proposes_again_or_for_another_purpose_has_not_begun():
    with a_ledger() as (ledger, clock, _):
        one = held(1, 1.0)
        ledger.hold(one)
        ledger.sign_hold(one.plan)
        ledger.begin_hold(one.plan, clock.now)
        ledger.hold(one)
        assert ledger.is_payable(one.plan, "ana", "")
        for requester, purpose in (("ana", "marketing"), ("bo", "marketing")):
            ledger.hold(dataclasses.replace(one, requester=requester, purpose=purpose))
            assert not ledger.is_payable(one.plan, requester, purpose)
            ledger.begin_hold(one.plan, clock.now)


def test_a_cap_is_not_lowered_below_what_is_held_for_studies_that_have_begun():
    with a_ledger() as (ledger, clock, _):
        pay(ledger, 9, 1.0)
        ledger.hold(held(1, 3.0))
        set_cap(ledger, cn.Budget(epsilon=5.0))
        ledger.hold(held(2, 1.0, "bo"))
        ledger.sign_hold(held(1, 3.0).plan)
        ledger.begin_hold(held(1, 3.0).plan, clock.now)
        with pytest.raises(BudgetExceeded, match="studies that have begun"):
            set_cap(ledger, cn.Budget(epsilon=3.9))
        set_cap(ledger, cn.Budget(epsilon=4.0))
        pay(ledger, 1, 3.0)
        with pytest.raises(BudgetExceeded):
            set_cap(ledger, cn.Budget(epsilon=3.9))


def test_what_is_held_counts_towards_a_requesters_cap_and_towards_approval():
    for rules, error in (
        ({"requesters": {"coordinator": 0.7}}, BudgetExceeded),
        ({"approve_above": 0.7}, ApprovalNeeded),
    ):
        with federation(policies={"bank": cn.Policy(**rules)}) as f:
            driver.agree(a_plan(f, repeat=1), f._driver.transport)
            with pytest.raises(error):
                driver.agree(a_plan(f, repeat=2), f._driver.transport)


def test_an_alignment_that_was_agreed_to_counts_as_an_attempt():
    with opened("cohort", "bank", {"max_alignments": 1}, None) as f:
        plans: list[Plan] = []
        real, f._driver.study = f._driver.study, lambda algorithm, plan, **_: plans.append(plan) or _enough()
        for repeat in (1, 2):
            with pytest.raises(_Enough):
                f.align("cohort", ids=COHORT, repeat=repeat)
        driver.agree(plans[0], f._driver.transport)
        with pytest.raises(PolicyRefusal, match="1 alignments"):
            driver.agree(plans[1], f._driver.transport)
        f._driver.study = real
        f.align("cohort", ids=COHORT, repeat=1)


def test_an_alignment_that_is_agreed_to_again_and_again_gives_way_to_another_requesters():
    with opened("cohort", "bank", {"max_alignments": 1}, None) as f:
        plans: list[Plan] = []
        real, f._driver.study = f._driver.study, lambda algorithm, plan, **_: plans.append(plan) or _enough()
        for repeat in (1, 2):
            with pytest.raises(_Enough):
                f.align("cohort", ids=COHORT, repeat=repeat)
        f._driver.study = real
        ledgers = [gate_of(f, name)._ledger for name in f.parties]
        driver.agree(plans[0], f._driver.transport)
        for _ in range(2):
            for ledger in ledgers:
                ledger._clock = lambda real=ledger._clock: real() + HOUR
            driver.agree(plans[0], f._driver.transport)
        bank = gate_of(f, "bank")._ledger
        other = dataclasses.replace(bank.held()[0], plan=bytes(32), requester="bo", steps={b"x": None})
        assert [one.plan for one in bank.held(other.plan, "ana of nowhere")] == []
        assert len(bank.held(other.plan, bank.held()[0].requester)) == 1
        bank.hold(other)
        assert [one.requester for one in bank.held()] == ["bo"]
        with pytest.raises(PolicyRefusal, match="1 alignments"):
            driver.agree(plans[0], f._driver.transport)


# Many at once, and what is cut short -------------------------------------------------------------------------------------------


def test_of_twenty_studies_at_once_with_room_for_ten_ten_are_answered_and_everybody_paid_for_these():
    with federation(60, epsilon=10.0, delta=0.0) as f:

        def run(repeat: int) -> bool:
            try:
                cn.PatternCount(COUNTED, method="secure", epsilon=1.0).fit(f, repeat=repeat)
            except BudgetExceeded:
                return False
            return True

        with ThreadPoolExecutor(20) as threads:
            answered = sum(threads.map(run, range(1, 21)))
        assert answered == 10
        assert [round(one, 6) for one in f.budget()["spent"][["bank", "telco"]]] == [10.0, 10.0]


def test_what_was_agreed_to_is_resumed_after_a_restart_and_after_the_deadline_only_with_new_yeses():
    with tempfile.TemporaryDirectory() as folder:
        with federation(ledger_dir=Path(folder)) as f:
            plan = a_plan(f)
            driver.agree(plan, f._driver.transport)
            assert isinstance(tell(f, "bank", Ask(plan=plan, step="reports")), Released)
        with federation(ledger_dir=Path(folder)) as f:  # everybody was killed between a yes and a debit
            assert isinstance(tell(f, "telco", Ask(plan=plan, step="reports")), Released)
            later = a_plan(f, repeat=2)
            driver.agree(later, f._driver.transport)
            ledgers = [gate_of(f, name)._ledger for name in f.parties]
            for ledger in ledgers:
                ledger._clock = lambda real=ledger._clock: real() + HOUR
            assert "its time to pay is over" in said(f, "bank", Ask(plan=later, step="reports"))
            driver.agree(later, f._driver.transport)
            before = heads(f)
            driver.agree(plan, f._driver.transport)  # what was paid is not paid again
            assert heads(f) == before
            assert isinstance(tell(f, "bank", Ask(plan=later, step="reports")), Released)


def test_a_withdrawn_study_is_held_for_by_nobody_and_not_paid_for():
    with federation() as f:
        plan = a_plan(f)
        driver._yeses(plan, f._driver.transport, driver.NoJournal(), None)
        driver._withdraw(plan, f._driver.transport)
        assert all(gate_of(f, name)._ledger.held() == [] for name in f.parties)
        assert isinstance(tell(f, "bank", Ask(plan=plan, step="reports")), Refused)


def test_what_has_begun_is_not_withdrawn_while_anybody_may_pay():
    with federation() as f:
        plan = a_plan(f)
        driver.agree(plan, f._driver.transport)
        driver._withdraw(plan, f._driver.transport)
        for name in ("bank", "telco"):
            assert isinstance(tell(f, name, Ask(plan=plan, step="reports")), Released)
    with federation() as f:
        bank = gate_of(f, "bank")._ledger
        driver.agree(plan := a_plan(f), f._driver.transport)
        bank._clock = lambda real=bank._clock: real() + HOUR
        driver._withdraw(plan, f._driver.transport)
        assert bank.held() == []


def test_a_coordinator_withdraws_what_failed_before_it_began_and_nothing_later():
    for fails, withdrawn in ((_Refuses(), False), (None, True)):
        with federation(policies={} if fails else {"bank": cn.Policy(allow=[])}) as f:
            line = f._driver.transport = _Listening(f._driver.transport)
            with pytest.raises(PolicyRefusal):
                f._driver.run(fails or _Stops(), a_plan(f))
            assert line.heard is withdrawn


class _Refuses(_Stops):
    def rounds(self, plan: Plan):
        raise PolicyRefusal("a step was refused")
        yield {}


class _Listening:
    def __init__(self, inner) -> None:
        self.inner, self.heard = inner, False

    def exchange(self, requests):
        self.heard |= any(isinstance(messages.decode_request(one), Withdraw) for one in requests.values())
        return self.inner.exchange(requests)

    def close(self) -> None:
        self.inner.close()
