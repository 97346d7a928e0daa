"""Names in a plan come from one registry. A plan with any other name is refused by everybody before anything is priced."""

import string
from collections.abc import Iterator

import pytest

import colonnade as cn
from colonnade.coordinator import driver
from colonnade.errors import PlanMismatch
from colonnade.estimators.catalogue import every_estimator
from colonnade.estimators.study import Study
from colonnade.papers.protocols import CoresetStudy
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import Ask, Conclude, Post, Propose, Recall, Refused
from colonnade.steps.kind import KINDS, TASKS, require_known
from colonnade.steps.registry import STUDIES
from tests import kit
from tests.conversations.test_floors import a_federation
from tests.estimators.test_every_estimator import CASES, made
from tests.federations import federation as three_parties
from tests.federations import frames
from tests.golden.studies import STUDIES as EVERY_STUDY
from tests.party.test_gate import replaced

LETTERS = string.ascii_letters + string.digits + "-_ \0é"


def offering(does: str) -> set[str]:
    """The names of the estimators that define what a study itself refuses."""
    return {kind.__name__ for kind in every_estimator() if getattr(kind, does) is not getattr(Study, does)}


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    """Every plan that the recorded studies put to parties: every estimator by every method, and whatever else has a plan."""
    found: dict[bytes, Plan] = {}
    agree = driver.agree

    def noted(plan, *more, **options):
        found[messages.digest(plan)] = plan
        return agree(plan, *more, **options)

    with pytest.MonkeyPatch.context() as patch, kit.zeroed_out():  # the recorded tables have missing values and no rule
        patch.setattr(driver, "agree", noted)
        for open_, study in EVERY_STUDY.values():
            with open_() as f:
                study(f)
        to_bank = cn.Policy(predictions={name: ["bank"] for name in offering("_prediction")})
        with three_parties(epsilon=100.0, delta=1e-3, policies=dict.fromkeys(frames(1), to_bank)) as f:
            for kind in every_estimator():  # recorded studies do not have all of them
                if kind.__name__ in offering("_evaluator"):
                    model = made(kind).fit(f)
                    model.evaluate(f, epsilon=1.0, delta=1e-6)
                    if kind.__name__ in offering("_prediction"):
                        (model.transform if kind is cn.PCA else model.predict)(f, to="bank")
    alone = ["bank.age", "bank.segment"]
    with three_parties(epsilon=100.0, delta=1e-3) as f:  # one party's columns; plans hold their price
        for method in cn.KMeans.methods[:4]:
            noted(
                cn.KMeans(2, columns=alone, method=method, epsilon=1.0, delta=1e-6).prepared(f, 1)[1],
                f._driver.transport,
            )
        for method in cn.PatternCount.methods:
            noted(cn.PatternCount(alone[1:], method=method, epsilon=1.0).prepared(f, 1)[1], f._driver.transport)
        evidence = {
            "columns": "auto:1",
            "method": {"name": "newton", "plan": "evidence"},
            "epsilon": 1.0,
            "delta": 1e-6,
        }
        for target, kind, more in (
            ("bank.default", cn.AdditiveClassifier, evidence),
            ("telco.bill", cn.AdditiveRegressor, {"columns": "auto:1", "epsilon": 1.0, "delta": 1e-6}),
        ):  # both stages of studies in two
            checked = kind(target, bins=2, **more)._checked()
            second = checked._second_stage(checked._first_stage(checked._as_read(f), 1), None)
            for study in (kind(target, bins=2, **more), second):
                noted(study.prepared(f, 1)[1], f._driver.transport)
        uniform = CoresetStudy(f.describe(["bank.age", "telco.bill"]), "kmeans", 10, f.people, None, 2, uniform=True)
        planned = {"task": "coreset", "method": "coreset", "price": None, "unit": "person", "parameters": {}}
        noted(f._driver.plan(uniform, **planned), f._driver.transport)  # as benchmarks compare it with a coreset
    return list(found.values())


def changed(name: str) -> Iterator[str]:
    """Yield every name that differs in one character: another one, one less, one more."""
    for place in range(len(name) + 1):
        yield from (name[:place] + letter + name[place:] for letter in LETTERS)
        if place < len(name):
            yield name[:place] + name[place + 1 :]
            yield from (name[:place] + letter + name[place + 1 :] for letter in LETTERS if letter != name[place])


@pytest.mark.full
def test_every_plan_that_any_estimator_makes_by_any_method_is_in_the_registry_and_the_registry_has_no_other(plans):
    for plan in plans:
        require_known(plan)
    seen = {(plan.task, plan.method) for plan in plans}
    assert seen == set(TASKS)
    for names, planned in TASKS.items():
        made_so = [plan for plan in plans if (plan.task, plan.method) == names]
        assert {step.kind for plan in made_so for step in plan.steps} == planned.kinds
    assert {kind for planned in TASKS.values() for kind in planned.kinds} == set(KINDS)


def test_tasks_and_methods_are_those_of_the_estimators():
    assert {task for task, _ in TASKS} == set(STUDIES.values())
    for kind in every_estimator():
        assert kind.task in STUDIES.values()
        assert kind.task == STUDIES.get(kind.__name__, kind.task)  # a policy names some by themselves
    offered = {(kind.task if method.private else "coreset", method.name) for kind, method in CASES}
    others = ("evaluation", "prediction", "alignment", "split")
    listed = {(task, method) for task, method in TASKS if task not in others}
    assert offered == listed - {("moments", "tables")}  # the first stage of a study in two


@pytest.mark.full
def test_every_change_of_one_character_in_a_name_is_refused_with_words_that_do_not_depend_on_it(plans):
    tried, texts = 0, set()
    for plan in {(plan.task, plan.method): plan for plan in plans}.values():
        first = plan.steps[0]
        wrong = [replaced(plan, task=name) for name in changed(plan.task)]
        wrong += [replaced(plan, method=name) for name in changed(plan.method)]
        for kind in {step.kind for step in plan.steps}:
            steps = [step for step in plan.steps if step.kind == kind]
            rest = tuple(step for step in plan.steps if step is not steps[0])
            wrong += [replaced(plan, steps=(replaced(steps[0], kind=name), *rest)) for name in changed(kind)]
        for parameter, value in plan.parameters.items():
            others = {name: entry for name, entry in plan.parameters.items() if name != parameter}
            wrong += [replaced(plan, parameters={**others, name: value}) for name in changed(parameter)]
        for parameter, value in first.parameters.items():
            others = {name: entry for name, entry in first.parameters.items() if name != parameter}
            wrong += [
                replaced(plan, steps=(replaced(first, parameters={**others, name: value}), *plan.steps[1:]))
                for name in changed(parameter)
                if name
                not in KINDS[first.kind].parameters  # "width" and "widths" are both known: the kind reads their values
            ]
        for one in wrong:
            with pytest.raises(PlanMismatch) as refusal:
                require_known(one)
            texts.add((refusal.value.message, refusal.value.remedy))
        tried += len(wrong)
    assert tried > 100_000
    assert len(texts) == 5  # one for each kind of name


def requests(plan: Plan) -> list[object]:
    step = plan.steps[0].name
    return [
        Propose(plan=plan),
        Ask(plan=plan, step=step),
        Post(plan=plan, step=step, run=bytes(16), turn=0, letters={}),
        Recall(plan=plan, step=step),
        Conclude(plan=plan, step=step, values={}),
    ]


def test_a_plan_that_nobody_meant_is_neither_quoted_nor_debited():
    with three_parties() as f:
        honest = {
            "secure": cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.5),
            "response": cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=0.5),
        }
        before = {party: account.sequence for party, account in f._driver.accounts().items()}
        for method, study in honest.items():
            plan = study.prepared(f, 1)[1]
            flipped = tuple(replaced(step, kind=chr(ord(step.kind[0]) ^ 1) + step.kind[1:]) for step in plan.steps)
            wrong = [
                replaced(plan, method="secupe"),
                replaced(plan, method=method.upper()),
                replaced(plan, task="xattern-count"),
                replaced(plan, task="moments"),
                replaced(plan, steps=flipped),
                replaced(plan, parameters={**plan.parameters, "note": "free text"}),
            ]
            for one in wrong:
                for request in requests(one):
                    for party in f.parties:  # the insurer would only compute
                        reply = messages.decode_reply(
                            f._driver.transport.exchange({party: messages.encode(request)})[party]
                        )
                        assert isinstance(reply, Refused)
                        assert reply.code == PlanMismatch.code
                        assert reply.spent is None
        assert {party: account.sequence for party, account in f._driver.accounts().items()} == before
        honest["secure"].fit(f)


def test_a_node_without_data_refuses_unknown_names_too():
    with a_federation(("bank", "telco"), collusion=1, nodes=["notary"]) as f:
        plan = cn.PatternCount(["bank.k", "telco.k"], epsilon=0.5).prepared(f, 1)[1]
        answered = [
            request for request in requests(replaced(plan, method="secupe")) if not isinstance(request, Ask | Conclude)
        ]
        for request in answered:
            reply = messages.decode_reply(f._driver.transport.exchange({"notary": messages.encode(request)})["notary"])
            assert isinstance(reply, Refused)
            assert reply.code == PlanMismatch.code


def test_the_coordinator_makes_no_plan_that_is_not_in_the_registry():
    with three_parties() as f:
        study = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.5)._checked()
        algorithm = study._plan(f, 1)[0]
        with pytest.raises(PlanMismatch, match="method that its task does not have"):
            f._driver.plan(
                algorithm,
                task="pattern-count",
                method="secupe",
                price=algorithm.price,
                unit="person",
                parameters={},
            )
