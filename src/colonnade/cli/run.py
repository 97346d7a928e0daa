"""``colonnade run study.toml`` and ``colonnade preview study.toml``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.cli import screen as refusal
from colonnade.cli.models import save_all
from colonnade.errors import ColonnadeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colonnade.coordinator.federation import Federation
    from colonnade.service.study_file import StudyEntry

__all__ = ["carry_out", "preview", "run"]

StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", exists=True, dir_okay=False, help="A study file, for example study.toml.")
]


def preview(study: StudyPath) -> None:
    """Show what a study file would cost and how exact it would be. Spends nothing."""
    from colonnade.service import study_file

    asked = study_file.read(study)
    with asked.federation(spend=False) as federation:
        for entry in asked.studies:
            screen.heading(entry.title)
            screen.line(str(entry.estimator.preview(federation)))
            if entry.repeat > 1:
                screen.line(f"  ! draw {entry.repeat} is charged anew; the charges shown are those of draw 1")


def run(
    study: StudyPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Also write results to this file, as JSON.")
    ] = None,
    change_cap: Annotated[
        bool, typer.Option("--change-cap", help="Record the file's [budget] as the new cap of ledgers that exist.")
    ] = False,
    models: Annotated[
        Path | None, typer.Option("--models", file_okay=False, help="Also save every fitted model in this folder.")
    ] = None,
) -> None:
    """Run every study of a file, print results and receipts; what was paid for before is returned free.

    All of them are previewed first, so that a mistake in the last does not cost the price of the first.
    """
    from colonnade.service import study_file

    asked = study_file.read(study)
    with asked.federation(spend=True, change_cap=change_cap) as federation:
        fit_on, _ = asked.parts(federation)
        carry_out(asked.studies, fit_on, output, models)


def carry_out(
    studies: "Sequence[StudyEntry]", federation: "Federation", output: Path | None, models: Path | None = None
) -> None:
    """Preview all studies, run them in order, print and write what they found; raise what stopped them, if anything did."""
    with screen.progress():
        for entry in studies:
            entry.estimator.preview(federation)
        finished, failure = _fit_all(studies, federation)
        screen.heading("Budget")
        screen.print_budget(federation)
    if output is not None:
        _write(output, finished, failure)
    if models is not None:
        save_all(finished, models)
    if failure is not None:
        raise failure


def _fit_all(
    studies: "Sequence[StudyEntry]", federation: "Federation"
) -> "tuple[list[StudyEntry], ColonnadeError | None]":
    """Run studies in order until one fails; what the earlier ones paid for is kept."""
    finished: list[StudyEntry] = []
    for entry in studies:
        try:
            entry.estimator.fit(federation, repeat=entry.repeat)
        except ColonnadeError as error:
            return finished, error
        finished.append(entry)
        _show(entry)
    return finished, None


def _show(entry: "StudyEntry") -> None:
    from colonnade.cli import results

    screen.heading(entry.title)
    frame = results.shown(entry.estimator)
    screen.print_frame(frame.head(results.ROWS))
    if len(frame) > results.ROWS:
        screen.line(f"… and {len(frame) - results.ROWS:,} more rows; --output writes all of them.")
    screen.line(f"receipt: {entry.estimator.receipt_}")


def _write(output: Path, finished: "list[StudyEntry]", failure: ColonnadeError | None) -> None:
    from colonnade.cli import results

    document = {
        "studies": [results.document(entry) for entry in finished],
        "failure": None if failure is None else refusal.describe(failure),
    }
    results.write(output, document)
    screen.line(f"written: {output}")
