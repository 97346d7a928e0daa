"""What ``colonnade demo`` shows: the study files in ``demo_studies``, on three invented organisations, beside the truth."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn import linear_model

import colonnade as cn
from colonnade.cli import running, screen
from colonnade.datasets import Federated, three_organisations
from colonnade.estimation.table_model import has_library
from colonnade.report import document
from colonnade.service import study_file

FILES = Path(__file__).with_name("demo_studies")


def show_demo(people: int, report: Path | None, keep: Path | None, *, everything: bool) -> None:
    """Tell the story: a question per screen, with the true answer where there is one, and the price."""
    start = time.perf_counter()
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise cn.BadInput(f"The folder {keep} is not empty.", remedy="Name a new folder with --keep.")
    with tempfile.TemporaryDirectory(prefix="colonnade-demo-") as temporary:
        folder = keep or Path(temporary)
        shutil.copytree(FILES, folder, dirs_exist_ok=True)
        data = three_organisations(people=people)
        for name, organisation in data.items():
            organisation.frame.to_parquet(folder / f"{name}.parquet")
        target = report or (keep or Path(tempfile.mkdtemp(prefix="colonnade-report-"))) / "demo.html"
        _tell(folder, _clipped(data), ["story.toml", *(["more.toml"] if everything else [])], target)
    if keep is not None:
        screen.line(f"The same answers again, at no further price: colonnade run {keep / 'story.toml'}")
    screen.line(f"\n{time.perf_counter() - start:.0f} seconds, without a network.")


def _tell(folder: Path, people: pd.DataFrame, names: list[str], report: Path) -> None:
    screen.line(
        f"A bank, a telco and an insurer know the same {len(people):,} people. Nobody may see the others' rows."
    )
    screen.line("Each has a ledger of its own, which says what was told about its people and stops at a cap.")
    screen.line("The people are invented: only for that reason can true answers stand beside private ones.")
    asked = []
    for file in (study_file.read(folder / name) for name in names):
        with file.federation(spend=True) as federation:
            for entry in file.studies:
                asked += _show(entry, federation, people)
    _model(study_file.read(folder / "model.toml"), people)
    with study_file.read(folder / names[0]).federation(spend=True) as federation:
        _again_and_too_much(asked[1], federation)
        screen.heading("What did all this cost?")
        screen.print_budget(federation)
        person = federation.budget(unit="person")
        screen.line(f"All releases together, about one person: ε = {person['spent']:.4g} at δ = {person['delta']:g}.")
        written = document.write(asked, report, federation=federation, title="Privacy report: the demonstration")
        screen.line(f"A report to read and sign: {written} (open it in a browser; no network needed)")


def _clipped(data: Federated) -> pd.DataFrame:
    """The joined table as the parties read it: values outside the declared bounds are clipped."""
    people = data.joined()
    for name, organisation in data.items():
        for column, kind in organisation.schema.items():
            if kind.is_measured:
                people[f"{name}.{column}"] = people[f"{name}.{column}"].clip(kind.low, kind.high)
    return people


def _show(entry: study_file.StudyEntry, federation: cn.Federation, people: pd.DataFrame) -> list[Any]:
    """Run one study and print what it found; return it, unless a library that it needs is not installed."""
    screen.heading(entry.title)
    screen.line(entry.purpose)
    study: Any = entry.estimator
    if isinstance(study, cn.SyntheticTable) and not has_library():
        screen.line("Left out here: pip install 'colonnade[synthetic]'")
        return []
    study.fit(entry.asked_of(federation))
    entry.write_table()
    running.print_table(_beside_the_truth(study, people))
    screen.line(study.receipt_.splitlines()[0])
    return [study]


def _model(file: study_file.StudyFile, people: pd.DataFrame) -> None:
    """Fit on a part of the people, evaluate on the others, and open scores to the bank, which its policies allow."""
    entry = file.studies[0]
    screen.heading(entry.title)
    screen.line(entry.purpose)
    with file.federation(spend=True) as federation:
        train, test = file.parts(federation)
        model: Any = entry.estimator.fit(entry.asked_of(train))
        screen.print_frame(model.evaluate(test, epsilon=0.5).table())
        told = model.predict(test, to="bank").read()
        same = (told == model.to_sklearn().predict(people.loc[told.index])).mean()
        screen.line(f"The bank was told {len(told):,} classes; scikit-learn gives the same for {same:.0%} of them.")
        try:
            model.predict(test, to="telco")
        except cn.NonPrivateRefused as error:
            screen.line(f"The same for the telco: refused ({error.code}).")


def _again_and_too_much(study: Any, federation: cn.Federation) -> None:
    screen.heading("What if I ask again, or ask too much?")
    before, counts = federation.budget(), study.counts_
    study.fit(federation)
    if not (counts.equals(study.counts_) and before.equals(federation.budget())):
        raise cn.LedgerCorrupt("The same question was answered differently, or was charged twice.")
    screen.line("The question about plans again: the same answer, and no ledger moved.")
    try:
        cn.PatternCount(["bank.segment", "telco.plan"], epsilon=6.0).fit(federation)
    except cn.BudgetExceeded as error:
        screen.line(f"The same for all of the budget: refused ({error.code}), and it cost {error.cost.words}.")


def _beside_the_truth(study: Any, people: pd.DataFrame) -> pd.DataFrame:
    """What a study found, beside what pandas and scikit-learn find on the joined table, which only invented people have."""
    table: pd.DataFrame = study.table()
    true: Any
    match type(study).__name__:
        case "Describe":
            true, names = people[study.columns].mean(), ("mean", "mean_stderr")
        case "PatternCount":
            true = people.groupby(study.columns, observed=False).size().reindex(table.index, fill_value=0)
            names = ("count", "stderr")
        case "GroupBy":
            value = study.values[0]
            true = people.groupby(study.by, observed=False)[value].mean()
            names = (f"{value}_mean", f"{value}_mean_stderr")
        case "Correlation":
            true, names = people[study.columns].corr().stack(), ("estimate", "stderr")
        case "Quantiles":
            true, names = people[study.column].quantile(study.q), ("value", "")
        case "Scorecard":
            return pd.DataFrame(study.points_).set_index("column")
        case "LinearRegression" | "LogisticRegression":
            linear, scale = isinstance(study, cn.LinearRegression), people[study.columns].abs().max()
            exact = linear_model.LinearRegression() if linear else linear_model.LogisticRegression(C=1e9)
            exact.fit(people[study.columns] / scale, people[study.target])
            true = pd.Series(exact.coef_.ravel(), study.columns) / scale
            true["intercept"] = float(exact.intercept_.ravel()[0])
            table.insert(0, "true", true.reindex(table.index))
            return table.drop(columns="total error")
        case _:
            return table
    shown = {"true": true.reindex(table.index), "estimate": table[names[0]], "standard error": table.get(names[1])}
    return pd.DataFrame(shown).dropna(axis="columns", how="all")
