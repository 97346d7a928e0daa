"""Studies that wait for a party's owner, and caps for each requester and purpose: decided from the ledger, signed, recorded."""

import dataclasses

import pytest

import colonnade as cn
from colonnade.errors import ApprovalNeeded, BadInput, BudgetExceeded, PolicyRefusal
from colonnade.party.ledger.decisions import Allowance, Approval, CapDecision
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.party import SIMULATED
from colonnade.privacy.accounting import NANO
from colonnade.protocol import messages
from colonnade.protocol.messages import Ask, Refused
from colonnade.secure.keys import Identity
from tests.federations import SCHEMAS, TEST_KEY, frames
from tests.party.ledger_children import BODY
from tests.party.ledger_samples import TENTH, fresh
from tests.party.test_gate import a_plan, gate_of, guards
from tests.party.test_requests import ANALYST

OWNER = Identity.from_seed(b"o" * 32)


def parties(people: int = 300) -> dict[str, cn.Party]:
    tables = frames(people)
    return {name: cn.Party(tables[name], schema=SCHEMAS[name]) for name in SCHEMAS}


def opened(members: dict[str, cn.Party], *, analyst=None, ledger_dir=None, **rules) -> cn.Federation:
    """A federation in which the bank has these rules."""
    return cn.Federation.simulate(
        members,
        id="person_id",
        budget=cn.Budget(epsilon=10.0, delta=1e-5),
        policies={"bank": dataclasses.replace(SIMULATED, **rules)},
        test_key=TEST_KEY,
        analyst=analyst,
        ledger_dir=ledger_dir,
    )


def counts(epsilon: float = 0.5, **more) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment"], method="response", epsilon=epsilon, **more)


def spent(f: cn.Federation) -> float:
    return float(f.budget("bank")["spent"])


def test_a_study_above_the_threshold_waits_and_runs_once_it_is_approved():
    members = parties()
    with opened(members, analyst=ANALYST, approve_above=0.5) as f:
        counts(0.5).fit(f)
        before = gate_of(f).ledger.entries()
        with pytest.raises(ApprovalNeeded) as refused:
            counts(0.25).fit(f.asking(title="Segments", purpose="planning"))
        assert refused.value.spent is None
        assert "approve" in refused.value.remedy
        assert gate_of(f).ledger.entries() == before
        assert len(members["bank"].waiting()) == 1
        (words,) = members["bank"].waiting()
        for part in ("Segments", "asked by analyst@telco", "for: planning", "ε 0.25", "1 column (1 of yours)"):
            assert part in words
        assert members["bank"].approve(reason="agreed with legal") == words
        assert members["bank"].waiting() == []
        counts(0.25).fit(f)
        approval, debit = gate_of(f).ledger.entries()[-2:]
        assert (approval.kind, debit.kind) == ("approval", "reserve")
        assert approval.decision.reason == "agreed with legal"
        assert approval.decision.plan == debit.plan.hex()
        gate_of(f)._ledger.verify()


def test_the_threshold_is_cumulative_for_each_requester():
    with opened(parties(), analyst=ANALYST, approve_above=0.5) as f:
        counts(0.4).fit(f)
        with pytest.raises(ApprovalNeeded):
            counts(0.2).fit(f)
        f._driver.words = type(f._driver.words)()  # the coordinator asks itself, unsigned: a requester of its own
        counts(0.2).fit(f)
        with pytest.raises(ApprovalNeeded):
            counts(0.45).fit(f)


def test_a_threshold_of_zero_holds_every_study_and_preview_and_asking_directly_are_held_too():
    members = parties()
    with opened(members, approve_above=0.0) as f:
        with pytest.raises(ApprovalNeeded):
            counts(0.01).preview(f)
        asked = messages.encode(Ask(plan=a_plan(f, epsilon=0.01), step="reports"))  # without proposing it first
        assert isinstance(messages.decode_reply(guards(f)["bank"].handle(asked)), Refused)
        assert spent(f) == 0


def test_what_is_not_private_waits_whatever_the_threshold():
    members = parties()
    with opened(members, approve_above=9.0) as f:
        study = cn.Coreset(20, task="regression", target="bank.age", allow_nonprivate=True)
        with pytest.raises(ApprovalNeeded):
            study.fit(f)
        members["bank"].approve()
        study.fit(f)
        assert gate_of(f).ledger.entries()[-1].loss is None


@pytest.mark.parametrize("secure", [False, True])
def test_an_approval_is_for_one_plan_one_data_version_and_a_time(secure):
    members = parties()
    make = counts if not secure else lambda epsilon, **more: cn.PCA(2, epsilon=epsilon, delta=1e-5)
    with opened(members, approve_above=0.0) as f:
        with pytest.raises(ApprovalNeeded):
            make(0.25).fit(f)
        (study,) = guards(f)["bank"].waiting()
        guards(f)["bank"].approve(study.hash, days=-1.0)  # over already
        with pytest.raises(ApprovalNeeded):
            make(0.25).fit(f)
        wrong = Approval(plan=study.hash.hex(), version=2, until=2**60)
        gate_of(f).decide(wrong, OWNER)
        with pytest.raises(ApprovalNeeded):
            make(0.25).fit(f)
        members["bank"].approve()
        with pytest.raises(ApprovalNeeded):
            make(0.26).fit(f)
        make(0.25).fit(f)


def test_each_requester_has_a_cap_and_others_are_refused():
    with opened(parties(), analyst=ANALYST, requesters={"analyst@telco": 0.6}) as f:
        counts(0.5).fit(f)
        with pytest.raises(BudgetExceeded, match="requester"):
            counts(0.2).fit(f)
        counts(0.1).fit(f)
        f._driver.words = type(f._driver.words)()
        with pytest.raises(PolicyRefusal, match="requesters"):
            counts(0.01).fit(f)
    with opened(parties(), requesters={"coordinator": 0.6}) as f:
        counts(0.5).fit(f)
        with pytest.raises(BudgetExceeded):
            counts(0.2).fit(f)


def test_an_allowance_raises_a_cap_is_signed_and_the_last_one_counts():
    with opened(parties(), analyst=ANALYST, requesters={"analyst@telco": 0.1}) as f:
        with pytest.raises(BudgetExceeded):
            counts(0.5).fit(f)
        for nano in (2 * NANO, NANO // 2):
            gate_of(f).decide(Allowance(of="requester", name="analyst@telco", nano=nano, reason="renewed"), OWNER)
        counts(0.5).fit(f)
        with pytest.raises(BudgetExceeded):
            counts(0.1).fit(f)
        gate_of(f)._ledger.verify()


DECISIONS = [
    Approval(plan="ab" * 32, version=1, until=5),
    Allowance(of="purpose", name="churn", nano=NANO),
    CapDecision(nano=3 * NANO, delta=1e-6),
]


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda one: type(one).__name__)
def test_a_decision_that_nobody_signed_for_this_ledger_is_not_recorded(decision, tmp_path):
    with fresh(tmp_path) as ledger:
        for wrong in (decision, decision.signed("another ledger", OWNER)):
            with pytest.raises(BadInput):
                ledger.decide(wrong)
        ledger.decide(decision.signed(ledger.identity, OWNER))
        ledger.verify()
        assert ledger.entries()[-1].decision == decision.signed(ledger.identity, OWNER)
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        assert ledger.entries()[-1].decision is not None


def test_a_signed_cap_is_the_cap_and_none_goes_below_what_was_spent(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.debit(b"one", BODY, TENTH, label="x")
        delta = ledger.budget.delta
        ledger.decide(CapDecision(nano=7 * NANO, delta=delta, reason="renewed").signed(ledger.identity, OWNER))
        assert ledger.budget.epsilon == 7.0
        with pytest.raises(BudgetExceeded):
            ledger.decide(CapDecision(nano=1, delta=delta).signed(ledger.identity, OWNER))
        ledger.verify()
