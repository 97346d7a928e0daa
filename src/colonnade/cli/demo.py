"""What ``colonnade demo`` shows: three invented organisations in one process, and every study that exists."""

import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.metrics import brier_score_loss, roc_auc_score

import colonnade as cn
from colonnade.cli import screen
from colonnade.cli.demo_comparisons import Comparison
from colonnade.cli.demo_studies import STUDIES, DemoStudy
from colonnade.datasets.synthetic import Federated, three_organisations
from colonnade.estimators.answers import Evaluation
from colonnade.report import document

__all__ = ["show_demo"]

CAP_EPSILON, CAP_DELTA = 6.0, 1e-6
ALIGNED_SAMPLE, ALIGNED_EPSILON = 1_500, 0.5
ROUND_TRIP_COLUMNS = ["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"]


def show_demo(people: int, report: Path | None) -> None:
    """Run every study, and print each result beside the true answer."""
    start = time.perf_counter()
    _demo(people, report)
    screen.line(f"\n{time.perf_counter() - start:.1f} s, no network.")


def _demo(people: int, report: Path | None) -> None:
    data = three_organisations(people=people)
    with tempfile.TemporaryDirectory(prefix="colonnade-demo-") as ledgers, _federation(data, ledgers) as federation:
        screen.line(f"{federation!r}. Each ledger's cap: ε={CAP_EPSILON:g}, δ={CAP_DELTA:g}.")
        screen.line("The people are invented: only for that reason can true answers stand beside private ones.")
        shown = [
            found
            for number, study in enumerate(STUDIES, start=1)
            if (found := _show(number, study, data, federation)) is not None
        ]
        _replay(shown[0].estimator, federation)
        _overspend(federation)
        _show_alignment(data)
        _show_round_trip(data)
        _close(federation)
        _report([found.estimator for found in shown], federation, report)


def _federation(data: Federated, ledgers: str) -> cn.Federation:
    parties = {name: cn.Party(organisation.frame, schema=organisation.schema) for name, organisation in data.items()}
    cap = cn.Budget(epsilon=CAP_EPSILON, delta=CAP_DELTA)
    return cn.Federation.simulate(parties, id=data.id, budget=cap, ledger_dir=ledgers)


def _show(number: int, study: DemoStudy, data: Federated, federation: cn.Federation) -> Comparison | None:
    screen.heading(f"{number}. {study.title}")
    if study.extra:
        screen.line(f"left out: it needs an extra that is not installed. pip install 'colonnade[{study.extra}]'")
        return None
    found = study.run(data, federation)
    screen.print_frame(found.table)
    screen.line(found.summary)
    screen.line("charged   " + _figures(found.charges))
    remaining = {str(party): float(left) for party, left in federation.budget()["remaining"].items()}
    screen.line("remaining " + _figures(remaining))
    screen.line(f"receipt   {found.estimator.receipt_}")
    return found


def _figures(by_party: dict[str, float]) -> str:
    return ", ".join(f"{party} ε={screen.figure(value)}" for party, value in by_party.items())


def _replay(study: Any, federation: cn.Federation) -> None:
    """Ask the first question again: the same answer, at no price."""
    screen.heading("The first question again")
    before, counts = federation.budget(), study.counts_
    study.fit(federation)
    if not (counts.equals(study.counts_) and before.equals(federation.budget())):
        raise cn.LedgerCorrupt("The same question was answered differently, or was charged twice.")
    screen.line("The same bytes, and no ledger moved.")
    screen.line(f"receipt   {study.receipt_}")


def _overspend(federation: cn.Federation) -> None:
    """Ask for more than is left: refused before anything is read."""
    screen.heading("A question that costs more than is left")
    before = federation.budget()
    try:
        cn.PatternCount(["bank.segment", "telco.churn"], method="response", epsilon=CAP_EPSILON, unit="party").fit(
            federation
        )
    except cn.BudgetExceeded as error:
        for part, words in screen.describe(error).items():
            screen.line(f"{part:<9} {words if words is not None else 'nothing'}")
    if not before.equals(federation.budget()):
        raise cn.LedgerCorrupt("A refused question was charged for.")


def _report(studies: list[Any], federation: cn.Federation, path: Path | None) -> None:
    """Write what somebody who has to answer for all this would want to read and sign."""
    target = path if path is not None else Path(tempfile.mkdtemp(prefix="colonnade-report-"), "demo.html")
    written = document.write(studies, target, federation=federation, title="Privacy report: the demonstration")
    screen.heading("The privacy report")
    screen.line(f"written: {written} ({written.stat().st_size / 1000:,.0f} kB, no network needed)")


def _close(federation: cn.Federation) -> None:
    screen.heading("What every ledger shows at the end")
    screen.print_budget(federation)
    person = federation.budget(unit="person")
    screen.line(f"All parties' releases together, about one person: ε={person['spent']:.4g} at δ={person['delta']:g}.")


def _show_alignment(data: Federated) -> None:
    """Align a part of every organisation's rows, and show what each member has learned beside the truth."""
    screen.heading("Who is in every list, without handing over the lists")
    frames = {name: one.frame.head(ALIGNED_SAMPLE) for name, one in data.items()}
    parties = {name: cn.Party(frames[name], schema=one.schema) for name, one in data.items()}
    common = set.intersection(*(set(frame[data.id]) for frame in frames.values()))
    budget = cn.Budget(epsilon=1.0)
    with cn.Federation.simulate(parties, id=data.id, budget=budget, aligned=False) as federation:
        federation.align(epsilon=ALIGNED_EPSILON)
        assert federation.aligned_ is not None  # it was just aligned
        learned = {
            **dict.fromkeys(parties, "which of its own ids are in every list, and nothing about its other ids"),
            "coordinator": f"{federation.people:,} people, give or take discrete Laplace noise (truly {len(common):,})",
        }
        screen.print_frame(pd.Series(learned, name="what it learned").to_frame())
        screen.line("charged   " + ", ".join(f"{party} ε={ALIGNED_EPSILON:g}" for party in parties))
        screen.line(f"receipt   {federation.aligned_.receipt}")


def _show_round_trip(data: Federated) -> None:
    """Split, fit, evaluate, save, load, predict; parties with policies of their own, which allow scores for the bank alone."""
    screen.heading("Split, fit, evaluate, predict")
    policies = {name: cn.Policy(predictions={"LogisticRegression": ["bank"]}) for name in data}
    with data.federation(budget=cn.Budget(epsilon=2.0, delta=1e-6), policies=policies) as federation:
        train, test = federation.split(test=0.2)
        screen.line(f"{train.people:,} people to fit on, {test.people:,} held out; the coordinator does not know who.")
        model = cn.LogisticRegression("bank.default", columns=ROUND_TRIP_COLUMNS, epsilon=1.0, delta=1e-6).fit(train)
        found = model.evaluate(test, epsilon=0.5)
        with tempfile.TemporaryDirectory(prefix="colonnade-demo-") as folder:
            model.save(Path(folder, "model.json"))
            model = cn.load(Path(folder, "model.json"))
        delivery = model.predict(test, to="bank")
        told = delivery.read()
        people = data.joined().loc[told.index]
        screen.print_frame(_against_the_truth(found, model, people))
        screen.line(f"receipt   {found.receipt_}")
        same = bool((told == model.to_sklearn().predict(people)).all())
        screen.line(
            f"the bank was told {len(told):,} classes, {'all' if same else 'not all'} as scikit-learn has them."
        )
        screen.line(f"receipt   {delivery.receipt_}")
        try:
            model.predict(test, to="telco")
        except cn.NonPrivateRefused as error:
            screen.line(f"the same for the telco: refused, {error.code}.")


def _against_the_truth(found: Evaluation, model: cn.LogisticRegression, people: pd.DataFrame) -> pd.DataFrame:
    truth, chances = people[model.target] == model.classes_[1], model.predict_proba(people)[:, 1]
    exact = {
        "accuracy": model.score(people, people[model.target]),
        "auc": roc_auc_score(truth, chances),
        "brier": brier_score_loss(truth, chances),
    }
    table = found.table()[["value", "low", "high"]].rename(columns={"value": "estimate"})
    table.insert(0, "true", pd.Series(exact))
    return table
