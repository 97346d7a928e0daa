"""The gate: admit, debit, compute, draw, seal, in that order; and what a coordinator gone bad can do about it."""

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator.protocols.counting import IndependentCounts, ResponseCounts, table_layout
from colonnade.errors import PlanMismatch, PolicyRefusal
from colonnade.party import gate as gate_module
from colonnade.party.gate import Gate
from colonnade.party.guard import Guard
from colonnade.plan import About, Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.protocol import messages
from colonnade.protocol.messages import Agreed, Ask, GetAccount, Propose, Refused, Released, pack
from tests.federations import as_if_agreed, federation


def guards(f: cn.Federation) -> dict[str, Guard]:
    return f._driver.transport._endpoints


def gate_of(f: cn.Federation, party: str = "bank") -> Gate:
    return guards(f)[party]._gate


def a_plan(f: cn.Federation, *, epsilon: float = 0.5, kind: type = ResponseCounts, repeat: int = 1, **changes) -> Plan:
    algorithm = kind(table_layout(f, ["bank.segment", "telco.plan"]), Price.of(epsilon), f.people)
    plan = f._driver.plan(
        algorithm,
        task="pattern-count",
        method="response" if kind is ResponseCounts else "independent",
        price=Price.of(2 * epsilon),
        unit="person",
        parameters={},
        repeat=repeat,
    )
    return replaced(plan, **changes)


def replaced(struct, **changes):
    return type(struct)(**{field: getattr(struct, field) for field in struct.__struct_fields__} | changes)


def ask(f: cn.Federation, plan: Plan, step: str = "reports", party: str = "bank", **inputs):
    as_if_agreed(guards(f)[party], plan)
    return messages.decode_reply(guards(f)[party].handle(messages.encode(Ask(plan=plan, step=step, inputs=inputs))))


def spent(f: cn.Federation, party: str = "bank") -> float:
    return gate_of(f, party).ledger.spent().epsilon(1e-5)


class Trace:
    """Records the order in which a gate touches ledger, table and noise."""

    def __init__(self, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        for owner, method in [
            (gate._ledger, "answer_to"),
            (gate.policy.__class__, "admit"),
            (gate._ledger, "reserve"),
            (gate._table, "joint_codes"),
            (KeyedRandomness, "words"),
            (gate._ledger, "commit"),
        ]:
            self._watch(owner, method, monkeypatch)

    def _watch(self, owner, method, monkeypatch) -> None:
        real = getattr(owner, method)

        def watched(*args, **kwargs):
            self.events.append(method)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, method, watched)

    def first(self, method: str) -> int:
        return self.events.index(method)


def test_the_order_is_admit_debit_compute_draw_keep(monkeypatch):
    with federation() as f:
        trace = Trace(gate_of(f), monkeypatch)
        assert isinstance(ask(f, a_plan(f)), Released)
    order = [trace.first(event) for event in ("answer_to", "admit", "reserve", "joint_codes", "words", "commit")]
    assert order == sorted(order)


def test_a_refused_request_reads_no_data_and_draws_no_noise(monkeypatch):
    with federation(epsilon=0.1) as f:
        trace = Trace(gate_of(f), monkeypatch)
        reply = ask(f, a_plan(f, epsilon=0.5))
    assert isinstance(reply, Refused)
    assert reply.code == "budget-exceeded"
    assert reply.spent is None
    assert "joint_codes" not in trace.events
    assert "words" not in trace.events


def test_the_same_request_a_thousand_times_gives_the_same_bytes_and_one_debit():
    with federation() as f:
        data = messages.encode(Ask(plan=as_if_agreed(guards(f)["bank"], a_plan(f)), step="reports"))
        answers = {guards(f)["bank"].handle(data) for _ in range(1_000)}
        assert len(answers) == 1
        assert spent(f) == pytest.approx(0.5)


def test_a_new_title_is_the_same_question_and_gets_the_same_bytes():
    with federation() as f:
        plan = as_if_agreed(guards(f)["bank"], a_plan(f))
        asked = [
            Ask(plan=plan, step="reports", about=about)
            for about in (About(title="one"), None, About(title="two", purpose="why", requester="who"))
        ]
        assert len({guards(f)["bank"].handle(messages.encode(one)) for one in asked}) == 1
        assert spent(f) == pytest.approx(0.5)
        assert [entry.about for entry in gate_of(f).ledger.entries()[2:]] == [About(title="one")]


def test_another_body_under_the_same_id_is_refused():
    with federation() as f:
        plan = a_plan(f)
        assert isinstance(ask(f, plan), Released)
        reply = ask(f, plan, extra=pack(np.zeros(1)))
        assert isinstance(reply, Refused)
        assert reply.code == "protocol-error"
        assert spent(f) == pytest.approx(0.5)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "change",
    [
        {"alignment": "0" * 64},
        {"federation": "0" * 64},
        {"people": 7},
        {"relation": "replace"},
        {"version": 1},
        {"version": 3},
        {"data_versions": {}},
        {"data_versions": {"bank": 1}},
        {"data_versions": {"bank": 1, "telco": 1, "mint": 1}},
        {"parties": ("bank", "bank")},
        {"parties": ("bank", "mint")},
    ],
)
def test_a_plan_for_other_terms_is_refused(change):
    with federation() as f:
        reply = ask(f, a_plan(f, **change))
        assert isinstance(reply, Refused)
        assert reply.code == PlanMismatch.code
        assert spent(f) == 0


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"kind": "everything"}, PlanMismatch.code),
        ({"columns": ("person_id",)}, "schema-mismatch"),
        ({"columns": ("age",)}, "schema-mismatch"),
        ({"columns": ()}, "schema-mismatch"),
        ({"parameters": {"scale": 0.001}}, PlanMismatch.code),
        ({"parameters": {"sample": 2.0}}, "bad-input"),
        ({"parameters": {"sample": 0.5, "seed": "zz"}}, "bad-input"),
        ({"price": None}, "nonprivate-refused"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused_before_data_is_read(change, code, monkeypatch):
    with federation() as f:
        trace = Trace(gate_of(f), monkeypatch)
        plan = a_plan(f)
        steps = tuple(replaced(step, **change) if step.party == "bank" else step for step in plan.steps)
        reply = ask(f, replaced(plan, steps=steps))
        assert isinstance(reply, Refused)
        assert reply.code == code
        assert "joint_codes" not in trace.events
        assert spent(f) == 0


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (cn.Policy(max_epsilon=0.4), False),
        (cn.Policy(max_epsilon=0.5), True),
        (cn.Policy(columns=["age"]), False),
        (cn.Policy(columns=["segment"]), True),
        (cn.Policy(allow=["PCA"]), False),
        (cn.Policy(allow=["PatternCount"]), True),
        (cn.Policy(min_people=301), False),
        (cn.Policy(min_people=300), True),
    ],
)
def test_a_policy_decides_what_is_answered(policy, allowed):
    with federation(policies={"bank": policy}) as f:
        reply = ask(f, a_plan(f))
        assert isinstance(reply, Released) == allowed
        if not allowed:
            assert reply.code == PolicyRefusal.code
            assert spent(f) == 0


def test_a_release_that_was_cut_short_is_drawn_with_the_same_noise(monkeypatch):
    """Were it drawn anew, whoever can have a party killed while it draws could choose among noises."""
    with federation() as f:
        plan, drawn = a_plan(f), []
        gate = gate_of(f)

        def crash(_: bytes, answer: bytes) -> None:
            drawn.append(answer)
            raise MemoryError(f"row 17 is {gate._table.codes('segment')[17]}")

        monkeypatch.setattr(gate._ledger, "commit", crash)
        failed = ask(f, plan)
        assert isinstance(failed, Refused)
        assert failed.spent == pytest.approx(0.5)
        assert "row" not in failed.message
        monkeypatch.undo()
        again = ask(f, plan)
        assert isinstance(again, Released)
        assert messages.encode(again) == drawn[0]
        assert spent(f) == pytest.approx(0.5)


def test_agreeing_costs_nothing_and_quotes_what_is_then_charged():
    with federation() as f:
        plan = a_plan(f)
        agreed = messages.decode_reply(guards(f)["bank"].handle(messages.encode(Propose(plan=plan))))
        assert isinstance(agreed, Agreed)
        assert agreed.plan_hash == messages.digest(plan)
        assert agreed.unpaid == ("reports",)
        assert spent(f) == 0
        released = ask(f, plan)
        assert isinstance(released, Released)
        assert released.loss == agreed.losses["reports"]


def test_a_party_gives_no_account_that_depends_on_its_data():
    with federation() as one, federation(tables=None) as other:
        ask(one, a_plan(one))
        ask(other, a_plan(other))
        accounts = [
            messages.decode_reply(guards(f)["bank"].handle(messages.encode(GetAccount()))) for f in (one, other)
        ]
        assert accounts[0].spent == accounts[1].spent
        assert accounts[0].entries == accounts[1].entries


def test_deterministic_noise_needs_a_test_ledger():
    with federation() as f:
        gate = gate_of(f)

        class Production:
            test = False

        with pytest.raises(PolicyRefusal):
            Gate(gate._table, gate.policy, gate.terms, Production(), gate._randomness)


def test_the_noise_scale_is_never_taken_from_outside():
    """A step has no field for a scale, and statistics refuse parameters they do not know."""
    assert not {"scale", "sigma", "noise", "p", "q"} & set(Step.__struct_fields__)
    with federation() as f:
        plan = a_plan(f, kind=IndependentCounts)
        steps = tuple(replaced(step, parameters={"sigma": 0.0}) for step in plan.steps)
        reply = ask(f, replaced(plan, steps=steps), step="histogram")
        assert isinstance(reply, Refused)


def test_what_was_admitted_at_the_yes_is_used_once_and_after_that_the_policy_is_asked_again():
    """A step may keep what a run gave it: used twice, it would add that up twice."""
    with federation(60) as f:
        gate, plan = gate_of(f), a_plan(f)
        step = plan.step("bank", "reports")
        gate.quote(plan, hold=True)
        first, second, third = (gate._admitted(plan, step) for _ in range(3))
        assert len({id(first), id(second), id(third)}) == 3
        assert not gate._agreed


def test_a_gate_keeps_only_so_many_admitted_steps(monkeypatch):
    monkeypatch.setattr(gate_module, "MOST_AGREED", 2)
    with federation(60) as f:
        gate = guards(f)["bank"]._gate
        for repeat in range(1, 6):
            gate.quote(a_plan(f, repeat=repeat), hold=True)
        assert len(gate._agreed) == 2


def test_a_step_is_admitted_once_from_the_yes_to_its_release(monkeypatch):
    admitted, honest = [], cn.Policy.admit
    monkeypatch.setattr(
        cn.Policy,
        "admit",
        lambda self, plan, step, *rest: admitted.append((step.party, step.name)) or honest(self, plan, step, *rest),
    )
    with federation(60) as f:
        cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0).fit(f)
        assert sorted(admitted) == [("bank", "reports"), ("telco", "reports")]
        cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0).fit(f)
        assert len(admitted) == 4  # agreed to anew; what was kept is answered without it
