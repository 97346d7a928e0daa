"""``colonnade coordinator``: run a study file over a federation of separate machines, take it up again, see where it stands."""

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen

__all__ = ["app", "resume", "run", "status"]

app = typer.Typer(help="Run studies over a federation of separate machines.", no_args_is_help=True)

StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", exists=True, dir_okay=False, help="A study file that names a federation.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", dir_okay=False, help="Also write results to this file, as JSON.")
]
Patience = Annotated[
    float | None, typer.Option("--patience", min=1.0, help="Seconds that a party may be out of reach; 45 by default.")
]


@app.command()
def run(study: StudyPath, output: Output = None, patience: Patience = None) -> None:
    """Run every study of a file over its federation; what was paid for before is returned free."""
    _run(study.resolve(), study.read_text(encoding="utf-8"), output, patience)


@app.command()
def resume(
    state: Annotated[
        Path, typer.Argument(metavar="STATE", exists=True, file_okay=False, help="The coordinator's state.")
    ],
    output: Output = None,
    patience: Patience = None,
) -> None:
    """Take up every study file that was begun and not finished. No noise is drawn for what was released before."""
    from colonnade.coordinator.journal import StudyJournal

    journal = StudyJournal(state / "studies.sqlite")
    files = journal.unfinished_files()
    journal.close()
    if not files:
        screen.line("nothing to take up: every study file that was begun is finished")
    for name, text in files:
        screen.line(f"taking up {Path(name).name}")
        _run(Path(name), text, output, patience)


@app.command()
def status(
    state: Annotated[
        Path, typer.Argument(metavar="STATE", exists=True, file_okay=False, help="The coordinator's state.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Print nothing; exit 1 unless a coordinator is running.")
    ] = False,
) -> None:
    """Show who is connected, and which step every study has reached."""
    from colonnade.coordinator.journal import StudyJournal
    from colonnade.service.checks import connected_to_coordinator

    found = connected_to_coordinator(state)
    if check:
        raise typer.Exit(0 if found is not None else 1)

    journal = StudyJournal(state / "studies.sqlite")
    rows = [(one.plan[:12], one.task, one.method, one.status, one.step, one.turn) for one in journal.studies()]
    journal.close()
    connected = "not running" if found is None else ", ".join(found) or "nobody yet"
    screen.line(f"connected {connected}")
    screen.print_table(["study", "task", "method", "status", "step", "turn"], rows)


def _run(path: Path, text: str, output: Path | None, patience: float | None) -> None:
    from colonnade.cli.run import carry_out
    from colonnade.coordinator.federation import Federation
    from colonnade.coordinator.journal import StudyJournal
    from colonnade.service.study_file import read_for_coordinator

    asked = read_for_coordinator(path, text)
    with Federation.connect(
        asked.federation, kit=asked.kit, state=asked.state, patience=patience, listen=asked.listen
    ) as federation:
        journal = federation.journal
        assert isinstance(journal, StudyJournal)
        journal.begin_file(str(path), text)
        if asked.align is not None:
            screen.line(federation.align(**asked.align).aligned_.receipt)  # type: ignore[union-attr]
        carry_out(asked.studies, federation, output)
        journal.finish_file(str(path))
