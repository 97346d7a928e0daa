"""``colonnade coordinator``: run a study file over a federation of separate machines, take it up again, see where it stands."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.service.toml_parts import as_table, parse_text, refuse_unknown, text_of

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


@dataclass(frozen=True)
class Asked:
    """A study file of a coordinator: which federation, in which order of rows, and what is asked of it."""

    federation: Path
    kit: Path | None
    state: Path
    listen: str | None
    align: Mapping[str, Any] | None
    studies: tuple[Any, ...]


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
    found = _status(state)
    if check:
        raise typer.Exit(0 if found is not None else 1)
    from colonnade.coordinator.journal import StudyJournal

    journal = StudyJournal(state / "studies.sqlite")
    rows = [(one.plan[:12], one.task, one.method, one.status, one.step, one.turn) for one in journal.studies()]
    journal.close()
    connected = "not running" if found is None else ", ".join(found["connected"]) or "nobody yet"
    screen.line(f"connected {connected}")
    screen.print_table(["study", "task", "method", "status", "step", "turn"], rows)


def _run(path: Path, text: str, output: Path | None, patience: float | None) -> None:
    from colonnade.cli.run import carry_out
    from colonnade.coordinator.federation import Federation
    from colonnade.coordinator.journal import StudyJournal

    asked = _read(path, text)
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


def _read(path: Path, text: str) -> Asked:
    """Read a study file; from the text that was kept of it, where that is taken up again."""
    from colonnade.service.study_file import align_of, studies_of

    document = parse_text(text, path.name)
    refuse_unknown(document, ("federation", "kit", "state", "listen", "align", "study"), "the file")
    here = path.parent
    papers = here / text_of(document, "federation", "the file")
    return Asked(
        federation=papers,
        kit=here / text_of(document, "kit", "the file") if "kit" in document else None,
        state=here / document["state"] if "state" in document else papers.parent / "coordinator-state",
        listen=text_of(document, "listen", "the file") if "listen" in document else None,
        align=align_of(as_table(document["align"], "align")) if "align" in document else None,
        studies=studies_of(document),
    )


def _status(state: Path) -> dict[str, Any] | None:
    """Return what a running coordinator says of itself."""
    import msgspec

    try:
        found: dict[str, Any] = msgspec.json.decode((state / "coordinator.status").read_bytes())
        os.kill(found["pid"], 0)
    except (OSError, msgspec.MsgspecError):
        return None
    return found
