"""What ``colonnade demo`` shows: three invented organisations in one process, and what they can find out together."""

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.metrics import brier_score_loss, roc_auc_score

import colonnade as cn
from colonnade.cli import screen
from colonnade.cli.demo_comparisons import Comparison
from colonnade.cli.demo_studies import DEFAULT_COLUMNS, MORE, STORY, DemoStudy
from colonnade.datasets.synthetic import Federated, three_organisations
from colonnade.estimators.answers import Evaluation
from colonnade.report import document

__all__ = ["show_demo"]

CAP_EPSILON, CAP_DELTA = 6.0, 1e-6
ALIGNED_SAMPLE, ALIGNED_EPSILON = 1_500, 0.5
TWO_SIDED = 1.96


def show_demo(people: int, report: Path | None, *, everything: bool = False, quick: bool = False) -> None:
    """Tell the story: a question per screen, with truth, estimate, interval and price.

    Parameters
    ----------
    people
        How many people all three organisations know.
    report
        Where to write the privacy report.
    everything
        Whether to show the other ways to ask, too.
    quick
        Whether to leave out what takes longer than a few seconds.
    """
    start = time.perf_counter()
    Demo(three_organisations(people=people), everything=everything, quick=quick).tell(report)
    screen.line(f"\n{time.perf_counter() - start:.0f} seconds, without a network.")


class Demo:
    """The demonstration: screens with numbers, and the federation that they are about.

    Parameters
    ----------
    data
        The invented organisations.
    everything
        Whether to show the other ways to ask, too.
    quick
        Whether to leave out what takes longer than a few seconds.
    """

    def __init__(self, data: Federated, *, everything: bool, quick: bool) -> None:
        self.data = data
        studies = (*STORY, *(MORE if everything else ()))
        self.studies = tuple(study for study in studies if not (quick and study.slow))
        self.screens = len(self.studies) + len(("round trip", "lists", "again", "ledgers"))
        self.number = 0

    def tell(self, report: Path | None) -> None:
        """Show every screen."""
        folder = tempfile.TemporaryDirectory(prefix="colonnade-demo-")
        with folder as ledgers, _federation(self.data, ledgers) as federation:
            self._introduce(federation)
            shown = [found for study in self.studies if (found := self._show(study, federation)) is not None]
            self._round_trip()
            self._lists()
            self._again_and_too_much(shown[1].estimator, federation)
            self._ledgers([found.estimator for found in shown], federation, report)

    def _ask(self, question: str, how: str) -> None:
        self.number += 1
        screen.heading(f"{self.number} of {self.screens}  {question}")
        screen.line(how)

    def _introduce(self, federation: cn.Federation) -> None:
        screen.line(
            f"A bank, a telco and an insurer know the same {federation.people:,} people. Nobody may see the others' rows."
        )
        columns = pd.Series(
            {name: ", ".join(map(str, organisation.schema)) for name, organisation in self.data.items()}, name="columns"
        )
        screen.print_frame(columns.rename_axis("organisation").to_frame())
        screen.line(f"Each has a ledger of its own. It stops at ε = {CAP_EPSILON:g} (δ = {CAP_DELTA:g}).")
        screen.line("The people are invented: only for that reason can true answers stand beside private ones.")

    def _show(self, study: DemoStudy, federation: cn.Federation) -> Comparison | None:
        self._ask(study.question, study.title)
        if study.extra:
            screen.line(f"Left out: it needs an extra that is not installed. pip install 'colonnade[{study.extra}]'")
            return None
        found = study.run(self.data, federation)
        screen.print_frame(_with_intervals(found))
        if study.chart:
            screen.bars(found.table["estimate"])
        screen.line(f"In all: {found.summary}.")
        screen.line(f"Price: {_figures(found.charges)}.")
        return found

    def _round_trip(self) -> None:
        """Split, fit, evaluate, save, load, predict; the parties' policies allow scores for the bank alone."""
        self._ask(
            "How good is the model, and may the bank use it?",
            "Fit on four fifths, evaluate on the rest, save, load, score. Policies allow scores for the bank alone.",
        )
        policies = {name: cn.Policy(predictions={"LogisticRegression": ["bank"]}) for name in self.data}
        with self.data.federation(budget=cn.Budget(epsilon=2.0, delta=1e-6), policies=policies) as federation:
            train, test = federation.split(test=0.2)
            model = cn.LogisticRegression("bank.default", columns=DEFAULT_COLUMNS, epsilon=1.0, delta=1e-6).fit(train)
            found = model.evaluate(test, epsilon=0.5)
            with tempfile.TemporaryDirectory(prefix="colonnade-demo-") as folder:
                model.save(Path(folder, "model.json"))
                model = cn.load(Path(folder, "model.json"))
            told = model.predict(test, to="bank").read()
            people = self.data.joined().loc[told.index]
            screen.print_frame(_against_the_truth(found, model, people))
            same = bool((told == model.to_sklearn().predict(people)).all())
            screen.line(
                f"The bank was told {len(told):,} classes, {'all' if same else 'not all'} as scikit-learn has them."
            )
            try:
                model.predict(test, to="telco")
            except cn.NonPrivateRefused as error:
                screen.line(f"The same for the telco: refused ({error.code}).")

    def _lists(self) -> None:
        """Align a part of every organisation's rows, and show what each member has learned beside the truth."""
        self._ask(
            "Who is in every list, without handing over the lists?",
            "Private matching of ids. It is not differentially private, so each policy has to allow it by name.",
        )
        frames = {name: one.frame.sort_values(self.data.id).head(ALIGNED_SAMPLE) for name, one in self.data.items()}
        parties = {name: cn.Party(frames[name], schema=one.schema) for name, one in self.data.items()}
        common = set.intersection(*(set(frame[self.data.id]) for frame in frames.values()))
        budget = cn.Budget(epsilon=1.0)
        with cn.Federation.simulate(parties, id=self.data.id, budget=budget, aligned=False) as federation:
            federation.align(epsilon=ALIGNED_EPSILON)
            learned = {
                **dict.fromkeys(parties, "which of its own ids are in every list, and nothing about its other ids"),
                "coordinator": f"{federation.people:,} people, with noise (truly {len(common):,})",
            }
            screen.print_frame(pd.Series(learned, name="what it learned").rename_axis("who").to_frame())
            screen.line("Price: " + _figures(dict.fromkeys(parties, ALIGNED_EPSILON)) + ", for the number of people.")

    def _again_and_too_much(self, study: Any, federation: cn.Federation) -> None:
        """Ask a question again, which is free, and one that costs more than is left, which is refused."""
        self._ask(
            "What if I ask again, or ask too much?",
            "The question about plans a second time. Then one for all of the budget.",
        )
        before, counts = federation.budget(), study.counts_
        study.fit(federation)
        if not (counts.equals(study.counts_) and before.equals(federation.budget())):
            raise cn.LedgerCorrupt("The same question was answered differently, or was charged twice.")
        screen.line("Again: the same bytes, and no ledger moved.")
        greedy = cn.PatternCount(["bank.segment", "telco.churn"], epsilon=CAP_EPSILON)
        try:
            greedy.fit(federation)
        except cn.BudgetExceeded as error:
            for part, words in screen.describe(error).items():
                if part != "unknown":
                    screen.line(f"  {part:<9} {words if words is not None else 'nothing'}")
        if not before.equals(federation.budget()):
            raise cn.LedgerCorrupt("A refused question was charged for.")

    def _ledgers(self, studies: list[Any], federation: cn.Federation, path: Path | None) -> None:
        """Close with the ledgers, and write what somebody who has to answer for all this would want to read and sign."""
        self._ask(
            "What did all this cost?", "What each organisation's own ledger shows, and a report to read and sign."
        )
        screen.print_budget(federation)
        person = federation.budget(unit="person")
        screen.line(f"All releases together, about one person: ε = {person['spent']:.4g} at δ = {person['delta']:g}.")
        target = path if path is not None else Path(tempfile.mkdtemp(prefix="colonnade-report-"), "demo.html")
        written = document.write(studies, target, federation=federation, title="Privacy report: the demonstration")
        screen.line(
            f"Report: {written} ({written.stat().st_size / 1000:,.0f} kB; open it in a browser, no network needed)"
        )


def _federation(data: Federated, ledgers: str) -> cn.Federation:
    parties = {name: cn.Party(organisation.frame, schema=organisation.schema) for name, organisation in data.items()}
    cap = cn.Budget(epsilon=CAP_EPSILON, delta=CAP_DELTA)
    return cn.Federation.simulate(parties, id=data.id, budget=cap, ledger_dir=ledgers)


def _with_intervals(found: Comparison) -> pd.DataFrame:
    """Return a comparison with an interval of 95 % in place of its standard errors; none where an error is not known."""
    shown, reach = found.table.drop(columns="stderr"), TWO_SIDED * pd.to_numeric(found.table["stderr"], errors="coerce")
    ends = found.intervals
    if ends is None:
        ends = pd.DataFrame({"lower": shown["estimate"] - reach, "upper": shown["estimate"] + reach})
    if not ends.isna().all(axis=None):
        shown["95 % interval"] = [
            "not known" if math.isnan(low) else f"{screen.figure(low)} to {screen.figure(high)}"
            for low, high in ends.to_numpy()
        ]
    return shown


def _figures(by_party: dict[str, float]) -> str:
    prices = {screen.figure(value) for value in by_party.values()}
    if len(prices) == 1:
        return f"ε = {prices.pop()} at {_listed(list(by_party))}"
    return ", ".join(f"ε = {screen.figure(value)} at {party}" for party, value in by_party.items())


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
