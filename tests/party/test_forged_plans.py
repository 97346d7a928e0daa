"""Plans that no honest coordinator writes: each would have told something for nothing, and is refused or tells nothing."""

from types import SimpleNamespace

import pytest

import colonnade as cn
from colonnade.errors import BadInput, NonPrivateRefused, PartyAway, PlanMismatch, PolicyRefusal
from colonnade.papers.steps import STEP, GradientStep, GradientTerms
from colonnade.party.policy import Policy, Terms
from colonnade.party.steps import agreements
from colonnade.party.steps.agreements import MatchingPart
from colonnade.plan import Plan, Step
from colonnade.steps.kind import number_list
from tests import kit
from tests.coordinator.test_align import LISTS, SCHEMA, table, unaligned
from tests.federations import BANK
from tests.papers.test_gradient import a_descent
from tests.party.test_gate import replaced

PARTIES = ("bank", "telco", "a", "b", "c")
TERMS = Terms(party="bank", schema=BANK, federation="f", alignment="a", people=100, parties=PARTIES)


def a_plan(*steps: Step, parties=PARTIES, nodes=(), threshold=0, collusion=0, task="moments", method="secure") -> Plan:
    return kit.written(
        *steps,
        task=task,
        method=method,
        price=None,
        federation="f",
        alignment="a",
        people=100,
        parties=parties,
        compute_nodes=nodes,
        threshold=threshold,
        collusion=collusion,
        data_versions=dict.fromkeys(parties, 1),
    )


def a_step(kind: str, party: str = "bank", columns=("age",), name: str = "x", **parameters) -> Step:
    return Step(name=name, party=party, kind=kind, columns=columns, parameters=parameters, price=None)


def test_a_plan_that_asks_parties_it_does_not_name_is_refused():
    """Fewer parties named would be fewer colluders to cover with noise."""
    plan = a_plan(a_step("gram"), a_step("gram", party="telco"), parties=("bank",))
    with pytest.raises(PlanMismatch, match="does not name"):
        Policy().admit(plan, plan.steps[0], TERMS)


CORESETS = {
    "coreset-rows": "coreset",
    "coreset-sample": "uniform",
    "coreset-total": "importance",
    "coreset-scores": "coreset",
}


@pytest.mark.parametrize("kind", CORESETS)
@pytest.mark.parametrize(
    ("allowed", "task", "method"),
    [
        ("align", "alignment", "intersection"),
        ("Coreset", "moments", "secure"),
        ("Coreset", "pattern-count", "response"),
    ],
)
def test_a_study_cannot_call_itself_something_else_than_its_steps_are(kind, allowed, task, method):
    plan = a_plan(a_step(kind), task=task, method=method)
    with pytest.raises(PlanMismatch, match="kind of step"):
        Policy(nonprivate=(allowed,)).admit(plan, plan.steps[0], TERMS)


@pytest.mark.parametrize("kind", CORESETS)
def test_a_permission_is_for_what_leaves(kind):
    plan = a_plan(a_step(kind), task="coreset", method=CORESETS[kind])
    with pytest.raises(NonPrivateRefused):
        Policy(nonprivate=("align",)).admit(plan, plan.steps[0], TERMS)


@pytest.mark.parametrize("parties", [PARTIES, PARTIES[:2]])
def test_naming_few_parties_or_nodes_lowers_no_floor(parties):
    """Two of three nodes that collude would hold enough shares to read raw rows, however few members a plan names."""
    plan = a_plan(a_step("gram"), parties=parties, nodes=("a", "b", "c"), threshold=1, collusion=1)
    with pytest.raises(PolicyRefusal, match="threshold is below 2, the least that this party's policy asks for"):
        Policy(min_collusion=2).admit(plan, plan.steps[0], TERMS)


def test_a_second_descent_in_a_plan_is_refused_because_it_would_draw_the_same_batches():
    plan = a_descent()
    again = tuple(replaced(step, name="again") for step in plan.steps if step.kind == GradientStep.name)
    with pytest.raises(PlanMismatch, match="one descent"):
        GradientTerms.read(replaced(plan, steps=(*plan.steps, *again)), STEP)


@pytest.mark.parametrize("number", [1.7e308, -1e300, float("nan"), float("inf"), 2.0**201])
def test_weights_that_could_overflow_past_a_clamp_are_refused(number):
    with pytest.raises(BadInput):
        number_list({"weights": (1.0, number)}, "weights")


def test_a_declared_size_is_what_was_declared_and_never_what_was_found():
    """Any earlier order made the number of people look declared, and the exact overlap was then told for nothing."""
    with unaligned() as f:
        f.align("cohort", ids=["nobody at all"])
        assert f.people == 1
        gate = f._driver.transport._endpoints["bank"]._row_orders.gate_for(f._driver.alignment)
        step = SimpleNamespace(matching=SimpleNamespace(size="declared", places=100), size_law=None)
        part = MatchingPart(
            SimpleNamespace(
                private=SimpleNamespace(step=step),
                row_orders=gate.row_orders,
                plan=SimpleNamespace(alignment=f._driver.alignment),
                order_records=SimpleNamespace(kept=lambda: None),
            )
        )
        with pytest.raises(PlanMismatch, match="declared public"):
            agreements._refuse_an_undeclared_size(part._admitted, part._step)
        assert part.places(30) == 0
    with unaligned(aligned=True) as f:
        declared = f.people
        f.align("intersection", size="declared")
        assert f.people == declared


@pytest.mark.parametrize("mode", ["intersection", "union", "cohort"])
def test_a_run_that_fails_is_an_attempt_that_was_counted_before(mode, tmp_path):
    """Whatever fails once the list is read: the row stands in the ledger before, and the next attempt is one too many."""
    lists = dict(list(LISTS.items())[:2])
    rules = Policy(max_alignments=1, alignments=("intersection", "union", "cohort"))
    options = {"ids": ["p1"]} if mode == "cohort" else {"size": "hidden", "capacity": 100}
    with unaligned(lists, policies=dict.fromkeys(lists, rules), ledger_dir=tmp_path) as f:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("colonnade.party.steps.agreements.comparable_ids", lambda *_: 1 / 0)
            with pytest.raises(PartyAway):
                f.align(mode, **options)
        kinds = [entry.kind for entry in f._driver.transport._endpoints["bank"]._gate.ledger.entries()]
        assert kinds.count("list") == 1
    refused = pytest.raises(PolicyRefusal, match="allows 1 alignments")
    with unaligned(lists, policies=dict.fromkeys(lists, rules), ledger_dir=tmp_path) as f, refused:
        f.align(mode, **options, repeat=2)


def test_rows_of_attempts_say_which_request_and_nothing_about_the_list():
    bodies = []
    for lists in (LISTS, {**LISTS, "bank": LISTS["bank"][:-1]}):
        with unaligned(lists, test_key=b"k") as f:
            f.align(size="hidden", capacity=100)
            f.align(size="hidden", capacity=100, repeat=2)
            ledger = f._driver.transport._endpoints["bank"]._gate.ledger
            bodies.append([entry.body for entry in ledger.entries() if entry.kind == "list"])
    assert bodies[0] == bodies[1]
    assert len(set(bodies[0])) == 2


@pytest.mark.parametrize("flip", [False, True])
def test_an_order_that_was_kept_for_an_older_version_is_not_used_whether_or_not_rows_have_changed(tmp_path, flip):
    def simulate(version: int) -> cn.Federation:
        frames = {name: table(ids) for name, ids in LISTS.items()}
        frames["bank"] = frames["bank"].iloc[::-1].reset_index(drop=True) if flip and version == 2 else frames["bank"]
        return cn.Federation.simulate(
            {name: cn.Party(frame, schema=SCHEMA, version=version) for name, frame in frames.items()},
            id="id",
            budget=cn.Budget(epsilon=3.0, delta=1e-5),
            aligned=False,
            ledger_dir=tmp_path,
        )

    with simulate(1) as f:
        f.align(size="hidden", capacity=100)
        name = f._driver.alignment
    with simulate(1) as f:
        assert cn.Federation(f._driver.transport, parties=f.parties, alignment=name).people > 0
    with simulate(2) as f, pytest.raises(PlanMismatch):
        cn.Federation(f._driver.transport, parties=f.parties, alignment=name)
    assert not list(tmp_path.rglob("*.alignment"))
