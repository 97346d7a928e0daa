"""The matrix of `tests/party/test_what_refusals_tell.py`: what is asked for, what goes wrong meanwhile, and on which tables."""

import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import colonnade as cn
from colonnade.plan import Plan, Step
from tests import side_by_side as sides
from tests.federations import TEST_KEY
from tests.side_by_side import InProcess, Served, Stage

COUNTED = ["bank.segment", "telco.plan"]
NUMBERS = ["bank.age", "telco.bill"]
DELTA = 1e-6


# Requests -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """Something to ask for, at so many times its price and for the so many-th time.

    ``rounds`` says after how many rounds of work a coordinator may hang up and leave something half done.
    """

    ask: Callable[[cn.Federation, float, int], object]
    rounds: int = 1
    price: bool = True
    columns: bool = True
    shares: bool = False
    order: bool = False
    matches: bool = False
    releases_size: bool = False
    sizes: bool = True


def study(make: Callable[[float], Any], **facts: Any) -> Request:
    return Request(lambda f, times, repeat: make(times).fit(f, repeat=repeat), **facts)


def alignment(mode: str, **options: Any) -> Request:
    return Request(
        lambda f, _, repeat: f.align(mode, **options, repeat=repeat),
        rounds=1 if mode == "cohort" else 5,
        price=False,
        columns=False,
        order=True,
        matches=mode != "cohort",
    )


@cache
def model() -> cn.LinearRegression:
    """A model of the same columns; every side is asked about this one."""
    frames = sides.tables()
    parties = {name: cn.Party(frames[name], schema=schema) for name, schema in sides.SCHEMAS.items()}
    nodes = [sides.NODE]
    with cn.Federation.simulate(
        parties, id="person_id", budget=sides.BUDGET, compute_nodes=nodes, test_key=TEST_KEY
    ) as f:
        return cn.LinearRegression("telco.bill", columns=["bank.age"], epsilon=20.0, delta=DELTA).fit(f)


COHORT = [7 * k + 3 for k in range(30)] + [4_000_000]
REQUESTS = {
    "response": study(lambda t: cn.PatternCount(COUNTED, method="response", epsilon=t)),
    "independent": study(lambda t: cn.PatternCount(COUNTED, method="independent", epsilon=t)),
    "pair tables": study(lambda t: cn.PatternCount(COUNTED, method="secure", epsilon=t), rounds=3, shares=True),
    "description": study(lambda t: cn.Describe([*COUNTED, *NUMBERS], epsilon=t)),
    "histogram": study(lambda t: cn.Histogram("bank.age", bins=4, epsilon=t)),
    "quantiles": study(lambda t: cn.Quantiles("telco.bill", [0.25, 0.75], epsilon=t)),
    "groups": study(
        lambda t: cn.GroupBy(["bank.segment"], ["telco.bill"], epsilon=t, delta=DELTA), rounds=3, shares=True
    ),
    "moment": study(lambda t: cn.Moment(["bank.visits", "telco.calls"], 2, epsilon=t)),
    "k-means": study(lambda t: cn.KMeans(2, columns=NUMBERS, method="independent", n_local_clusters=2, epsilon=2 * t)),
    "sketches": study(
        lambda t: cn.KMeans(2, columns=NUMBERS, method="sketch", n_local_clusters=2, epsilon=2 * t, delta=DELTA),
        rounds=4,
    ),
    "PCA": study(lambda t: cn.PCA(1, columns=NUMBERS, epsilon=2 * t, delta=DELTA), rounds=4, shares=True),
    "synthetic table": Request(  # the release that it asks for; its fit asks nobody anything
        lambda f, times, repeat: (
            cn.SyntheticTable(NUMBERS, bins=4)
            ._as_read(f)
            .moments(NUMBERS, epsilon=2 * times, delta=DELTA, repeat=repeat)
        ),
        rounds=4,
        shares=True,
    ),
    "functional": study(
        lambda t: cn.LinearRegression("telco.bill", columns=["bank.age"], method="functional", epsilon=t),
        rounds=3,
        shares=True,
    ),
    "gradient": study(
        lambda t: cn.LogisticRegression(
            "bank.default",
            columns=["telco.bill"],
            method=cn.methods.Gradient(steps=3, rate=0.5),
            epsilon=4 * t,
            delta=DELTA,
        ),
        rounds=8,
        shares=True,
    ),
    "newton": study(
        lambda t: cn.LogisticRegression(
            "bank.default",
            columns=["telco.bill"],
            method=cn.methods.Newton(steps=1),
            epsilon=4 * t,
            delta=DELTA,
        ),
        rounds=8,
        shares=True,
    ),
    "uniform coreset": study(
        lambda _: cn.Coreset(5, task="regression", columns=NUMBERS, method="uniform", allow_nonprivate=True),
        price=False,
    ),
    "coreset": study(
        lambda _: cn.Coreset(5, task="regression", columns=NUMBERS, allow_nonprivate=True),
        rounds=6,
        price=False,
        sizes=False,
    ),
    "evaluate": Request(
        lambda f, t, repeat: model().evaluate(f, epsilon=t, delta=DELTA, repeat=repeat), rounds=3, shares=True
    ),
    "predict": Request(lambda f, *_: model().predict(f, to="bank"), rounds=2, price=False),
    "cohort": alignment("cohort", ids=COHORT),
    "intersection": alignment("intersection", size="hidden"),
    "noisy size": Request(
        lambda f, t, repeat: f.align("intersection", epsilon=t, repeat=repeat),
        rounds=4,
        columns=False,
        order=True,
        matches=True,
        releases_size=True,
    ),
    "union": alignment("union"),
    "split": Request(lambda f, _, repeat: f.split(test=0.4, repeat=repeat), rounds=3, price=False, columns=False),
    "describe": Request(lambda f, *_: (f._driver.descriptions(), f.budget()), price=False, columns=False),
}


# Faults ---------------------------------------------------------------------------------------------------------------------

Ask = Callable[..., None]
"""Asks, at so many times the price (``times``), for the so many-th time (``repeat``), and hangs up after ``rounds`` of work; 0
for the request's own number of them.
"""


@dataclass(frozen=True)
class Fault:
    """What goes wrong, or what the coordinator tries.

    ``play`` is given the stage and a function that asks; ``later`` says that the sides have the same tables at first, and
    differ in the version that their owners declare in the course of it.
    """

    play: Callable[[Stage, Ask], None]
    fits: Callable[[Request], bool] = lambda _: True
    rules: Mapping[str, Any] = field(default_factory=dict)
    later: bool = False

    @property
    def refuses(self) -> bool:
        """Whether the plan and the policy alone decide."""
        return self.play in (beyond_the_budget, blunt) or self.play.__qualname__.startswith("forged")


def answered(stage: Stage, ask: Ask) -> None:
    ask()
    ask()
    stage.replay()


def beyond_the_budget(stage: Stage, ask: Ask) -> None:
    stage.line.is_blunt = True
    ask(times=1e3)


def blunt(stage: Stage, ask: Ask) -> None:
    stage.line.is_blunt = True
    ask()


def forged(**changes: Callable[[Plan], Any]) -> Callable[[Stage, Ask], None]:
    def play(stage: Stage, ask: Ask) -> None:
        stage.line.is_blunt = True
        stage.line.change = lambda plan: msgspec.structs.replace(
            plan, **{name: change(plan) for name, change in changes.items()}
        )
        ask()

    return play


def shorter(plan: Plan) -> tuple[Step, ...]:
    """Show every list as long as the bank's is, who has declared a larger capacity."""
    length = len(sides.tables()["bank"])
    return tuple(
        msgspec.structs.replace(step, parameters={**step.parameters, "capacity": length}) for step in plan.steps
    )


def hung_up_at_once(stage: Stage, ask: Ask) -> None:
    ask(rounds=1)
    stage.replay()
    ask()


def hung_up(stage: Stage, ask: Ask) -> None:
    ask(rounds=0)
    stage.replay()
    ask()


def spoilt(stage: Stage, ask: Ask) -> None:
    stage.line.spoilt = 2
    ask()
    stage.line.spoilt = None
    ask()


def restarted(stage: Stage, ask: Ask) -> None:
    ask(rounds=0)
    stage.restart()
    stage.replay()
    ask()


def declared_meanwhile(stage: Stage, ask: Ask) -> None:
    ask(rounds=0)
    stage.declare()
    stage.replay()
    ask()


def declared_afterwards(stage: Stage, ask: Ask) -> None:
    ask()
    stage.declare()
    stage.replay()
    ask()


def refused_to_its_owner(stage: Stage, ask: Ask) -> None:
    ask(rounds=0)
    stage.fail_to_declare()
    stage.replay()
    ask()


def on_a_kept_order(stage: Stage, ask: Ask) -> None:
    stage.hear(lambda f: f.align("cohort", ids=COHORT))
    order = stage.federation._driver.alignment
    ask()
    stage.declare()
    stage.hear(lambda f: f._driver.descriptions(order))
    stage.federation._driver.alignment = order
    stage.replay()
    ask()


def too_often(stage: Stage, ask: Ask) -> None:
    for repeat in (1, 2, 3):
        ask(repeat=repeat)


def once_more_under_a_new_version(stage: Stage, ask: Ask) -> None:
    ask()
    stage.declare()
    ask(repeat=2)


def stopped(stage: Stage, ask: Ask) -> None:
    ask(rounds=0)
    stage.stop()
    stage.replay()
    ask()


def set_back(stage: Stage, ask: Ask) -> None:
    before = stage.ledger("bank").read_bytes()
    ask()
    stage.ledger("bank").write_bytes(before)
    ask(repeat=2)
    stage.question()
    stage.hear(lambda _: stage.restart())


FAULTS = {
    "none": Fault(answered),
    "beyond the budget": Fault(beyond_the_budget, lambda r: r.price),
    "a column that is not allowed": Fault(blunt, lambda r: r.columns, {"columns": []}),
    "a study that is not allowed": Fault(blunt, rules={"allow": [], "nonprivate": []}),
    "another version": Fault(forged(data_versions=lambda plan: {**plan.data_versions, "bank": 7})),
    "an unknown method": Fault(forged(method=lambda plan: plan.method + "x")),
    "below the floor": Fault(forged(threshold=lambda _: 0), lambda r: r.shares),
    "a shorter list": Fault(forged(steps=shorter), lambda r: r.matches),
    "other people": Fault(forged(people=lambda plan: plan.people + 1)),
    "hung up at once": Fault(hung_up_at_once),
    "hung up": Fault(hung_up, lambda r: r.rounds > 1),
    "spoilt letters": Fault(spoilt, lambda r: r.rounds > 1),
    "restarted": Fault(restarted),
    "declared meanwhile": Fault(declared_meanwhile, later=True),
    "declared afterwards": Fault(declared_afterwards, later=True),
    "a table refused to its owner": Fault(refused_to_its_owner, later=True),
    "on a kept order": Fault(on_a_kept_order, lambda r: not r.order, later=True),
    "too often": Fault(too_often, lambda r: r.order, {"max_alignments": 1}),
    "once more under a new version": Fault(once_more_under_a_new_version, lambda r: r.order, later=True),
    "stopped": Fault(stopped),
    "set back": Fault(set_back),
}


# Neighbours, and the matrix -------------------------------------------------------------------------------------------------

AS_IT_IS = "as it is"
TABLES: dict[str, Callable[[sides.Tables], sides.Tables]] = {
    AS_IT_IS: lambda before: before,
    "a record changed": sides.a_record_changed,
    "a person without values": sides.a_person_without_values,
    "a value missing": sides.a_value_missing,
    "a level that is not listed": sides.a_level_that_is_not_listed,
    "levels that are not listed": sides.levels_that_are_not_listed,
    "a person gone": sides.a_person_gone,
    "a person come": sides.a_person_come,
    "another list": sides.another_list,
    "a column of nothing": sides.a_column_of_nothing,
    "nobody in common": sides.nobody_in_common,
    "a file changed afterwards": lambda before: before,
}
"""Neighbours of the first. A file that its owner goes on working with is the same table: see `Served`."""


def neighbours(setting: str, request: Request) -> list[str]:
    """The tables that may be compared.

    Who is in common is public in a simulation whose rows are in order, and a noisy number of them is a release like any other.
    """
    names = ["a record changed", "a person without values", "a person come", "another list", "a column of nothing"]
    names += ["a value missing", "a level that is not listed", "levels that are not listed"]
    if (request.order or setting == "served") and not request.releases_size:
        names += ["a person gone", "nobody in common"]
    return names + ["a file changed afterwards"] * (setting == "served")


@dataclass(frozen=True)
class Case:
    setting: str
    request: str
    fault: str
    tables: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.request}: {self.fault}: {self.tables}"


def crossed() -> Iterator[Case]:
    """Every request with every fault that fits it. Tables take turns: one for what a plan alone decides, three elsewhere."""
    for setting in ("in process", "served"):
        turn = 0
        for request, fault in itertools.product(REQUESTS, FAULTS):
            if FAULTS[fault].fits(REQUESTS[request]):
                names = neighbours(setting, REQUESTS[request])
                for _ in range(1 if FAULTS[fault].refuses else 3):
                    turn += 1
                    yield Case(setting, request, fault, names[turn % len(names)])


def slice_of(cases: Iterable[Case]) -> set[Case]:
    """Return cases enough that every request, every fault and every table is there in every setting."""
    chosen, there = set(), set()
    for case in sorted(cases, key=lambda case: hashlib.sha256(str(case).encode()).digest()):
        parts = {(case.setting, part) for part in (case.request, case.fault, case.tables)}
        if parts - there:
            chosen.add(case)
            there |= parts
    return chosen


class Theatre:
    """Plays cases, each of them once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template: sides.Site | None = None
        self._seen: dict[Case, tuple] = {}

    def seen(self, case: Case) -> tuple:
        """Return all that a coordinator hears, all that the ledgers record, and in which order the parties read which columns."""
        if case not in self._seen:
            self._seen[case] = self.played(case)
        return self._seen[case]

    def played(self, case: Case) -> tuple:
        request, fault = REQUESTS[case.request], FAULTS[case.fault]
        if case.request in ("evaluate", "predict"):
            model()  # made before the clock stops
        folder = self._folder / "stage"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        template = self._prepared() if case.setting == "served" else None
        with sides.everything_else_the_same(), sides.reads_noted() as reads:
            stage = self._set_up(case, folder, template)
            stage.open()

            def ask(times: float = 1.0, repeat: int = 1, rounds: int | None = None) -> None:
                stage.hear(lambda f: request.ask(f, times, repeat), request.rounds if rounds == 0 else rounds)

            fault.play(stage, ask)
            stage.question()
            stage.federation.close()
        return tuple(stage.noted), tuple(stage.rows()), reads

    def _set_up(self, case: Case, folder: Path, template: sides.Site | None) -> Stage:
        request, fault, base = REQUESTS[case.request], FAULTS[case.fault], sides.tables()
        other = TABLES[case.tables](base)
        frames, options = (
            (base if fault.later else other, other),
            {"aligned": not request.order, "sizes": request.sizes},
        )
        if template is None:
            return InProcess(folder, *frames, fault.rules, **options)
        touched = case.tables == "a file changed afterwards"
        return Served(template, folder, *frames, fault.rules, touched=touched, **options)

    def _prepared(self) -> sides.Site:
        if self._template is None:
            (self._folder / "template").mkdir()
            self._template = Served.template(self._folder / "template")
        return self._template
