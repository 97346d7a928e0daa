"""``colonnade demo``: three invented organisations in one process, and every study that exists."""

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import refusal, screen
from colonnade.errors import BudgetExceeded, LedgerCorrupt

if TYPE_CHECKING:
    from colonnade.cli.demo_studies import Comparison, DemoStudy

__all__ = ["demo"]

CAP_EPSILON, CAP_DELTA = 6.0, 1e-6


def demo(
    people: Annotated[int, typer.Option(min=1_000, max=5_000_000, help="How many people all three have.")] = 50_000,
    report: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Where to write the privacy report; by default a new temporary folder."),
    ] = None,
) -> None:
    """Run every study on three invented organisations: the result beside the true answer, its price, a receipt, a report."""
    start = time.perf_counter()
    with screen.progress():
        _demo(people, report)
    screen.line(f"\n{time.perf_counter() - start:.1f} s, no network.")


def _demo(people: int, report: Path | None) -> None:
    from colonnade.cli.demo_alignment import show_alignment
    from colonnade.cli.demo_round_trip import show_round_trip
    from colonnade.cli.demo_studies import STUDIES
    from colonnade.datasets.synthetic import three_organisations

    data = three_organisations(people=people)
    with tempfile.TemporaryDirectory(prefix="colonnade-demo-") as ledgers, _federation(data, ledgers) as federation:
        screen.line(f"{federation!r}. Each ledger's cap: ε={CAP_EPSILON:g}, δ={CAP_DELTA:g}.")
        screen.line("The people are invented: only for that reason can true answers stand beside private ones.")
        shown = [_show(number, study, data, federation) for number, study in enumerate(STUDIES, start=1)]
        _replay(shown[0].estimator, federation)
        _overspend(federation)
        show_alignment(data)
        show_round_trip(data)
        _close(federation)
        _report([found.estimator for found in shown], federation, report)


def _federation(data: Any, ledgers: str) -> Any:
    import colonnade as cn

    parties = {name: cn.Party(organisation.frame, schema=organisation.schema) for name, organisation in data.items()}
    cap = cn.Budget(epsilon=CAP_EPSILON, delta=CAP_DELTA)
    return cn.Federation.simulate(parties, id=data.id, budget=cap, ledger_dir=ledgers)


def _show(number: int, study: "DemoStudy", data: Any, federation: Any) -> "Comparison":
    screen.heading(f"{number}. {study.title}")
    found = study.run(data, federation)
    screen.print_frame(found.table)
    screen.line(found.summary)
    screen.line("charged   " + _figures(found.charges))
    screen.line("remaining " + _figures(federation.budget()["remaining"].to_dict()))
    screen.line(f"receipt   {found.estimator.receipt_}")
    return found


def _figures(by_party: dict[str, float]) -> str:
    return ", ".join(f"{party} ε={screen.figure(value)}" for party, value in by_party.items())


def _replay(study: Any, federation: Any) -> None:
    """Ask the first question again: the same answer, at no price."""
    screen.heading("The first question again")
    before, counts = federation.budget(), study.counts_
    study.fit(federation)
    if not (counts.equals(study.counts_) and before.equals(federation.budget())):
        raise LedgerCorrupt("The same question was answered differently, or was charged twice.")
    screen.line("The same bytes, and no ledger moved.")
    screen.line(f"receipt   {study.receipt_}")


def _overspend(federation: Any) -> None:
    """Ask for more than is left: refused before anything is read."""
    from colonnade.estimators.pattern_count import PatternCount

    screen.heading("A question that costs more than is left")
    before = federation.budget()
    try:
        PatternCount(["bank.segment", "telco.churn"], method="response", epsilon=CAP_EPSILON, unit="party").fit(
            federation
        )
    except BudgetExceeded as error:
        for part, words in refusal.describe(error).items():
            screen.line(f"{part:<9} {words if words is not None else 'nothing'}")
    if not before.equals(federation.budget()):
        raise LedgerCorrupt("A refused question was charged for.")


def _report(studies: list[Any], federation: Any, path: Path | None) -> None:
    """Write what somebody who has to answer for all this would want to read and sign."""
    from colonnade.report import document

    target = path if path is not None else Path(tempfile.mkdtemp(prefix="colonnade-report-"), "demo.html")
    written = document.write(studies, target, federation=federation, title="Privacy report: the demonstration")
    screen.heading("The privacy report")
    screen.line(f"written: {written} ({written.stat().st_size / 1000:,.0f} kB, no network needed)")


def _close(federation: Any) -> None:
    screen.heading("What every ledger shows at the end")
    screen.print_budget(federation)
    person = federation.budget(unit="person")
    screen.line(f"All parties' releases together, about one person: ε={person['spent']:.4g} at δ={person['delta']:g}.")
