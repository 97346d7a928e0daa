"""What the commands about studies do: open the parties of a study file, run or price its studies, print and write results.

Results are taken from fitted attributes only, and no fitted attribute is a function of raw rows.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.cli import screen
from colonnade.coordinator.journal import StudyJournal
from colonnade.errors import BadInput, ColonnadeError
from colonnade.estimators.study import Study
from colonnade.protocol import codec
from colonnade.report import document
from colonnade.service import study_file

__all__ = [
    "deliver_scores",
    "evaluate_model",
    "preview_file",
    "print_progress",
    "resume_files",
    "run_file",
    "run_over_network",
    "write_report",
]

ROWS = 20
"""How many rows of a result are printed."""

READINGS = ("predict", "predict_proba", "transform")
"""What a model can be asked to open to one party."""

_SHOWN_ELSEWHERE = ("privacy_", "transcript_", "receipt_", "plan_")


# Study files with all parties on this machine --------------------------------------------------------------------------------


def preview_file(path: Path) -> None:
    """Print what each study of a file would cost and how exact it would be."""
    file = study_file.read(path)
    with file.federation(spend=False) as federation:
        for entry in file.studies:
            screen.heading(entry.title)
            screen.line(str(entry.estimator.preview(federation)))
            if entry.repeat > 1:
                screen.line(f"  ! draw {entry.repeat} is charged anew; the charges shown are those of draw 1")


def run_file(path: Path, *, output: Path | None, change_cap: bool, models: Path | None) -> None:
    """Run the studies of a file on the people that it does not hold out."""
    file = study_file.read(path)
    with file.federation(spend=True, change_cap=change_cap) as federation:
        fit_on, _ = file.parts(federation)
        _run_all(file.studies, fit_on, output, models)


def write_report(source: Path, target: Path) -> None:
    """Write a privacy report on a saved model, or on the finished studies of a file, which cost nothing to return."""
    title = f"Privacy report: {source.name}"
    if source.suffix != ".toml":
        written = document.write([cn.load(source)], target, title=title)
    else:
        file = study_file.read(source)
        with file.federation(spend=False) as federation, screen.progress():
            file.require_finished(federation)
            for entry in file.studies:
                entry.estimator.fit(federation, repeat=entry.repeat)
            studies = [entry.estimator for entry in file.studies]
            written = document.write(studies, target, federation=federation, title=title)
    screen.line(f"written: {written}")


def evaluate_model(model: Path, study: Path, part: str, *, epsilon: float, delta: float, repeat: int) -> None:
    """Print private figures on how good a saved model is."""
    fitted = cn.load(model)
    with _opened(study, part) as federation, screen.progress():
        found = fitted.evaluate(federation, epsilon=epsilon, delta=delta, repeat=repeat)
        screen.heading(f"{type(fitted).__name__} on {federation.people:,} people")
        screen.print_frame(found.table())
        for name, table in found.tables.items():
            screen.heading(name)
            screen.print_frame(table)
        screen.line(f"receipt: {found.receipt_}")
        screen.print_budget(federation)


def deliver_scores(model: Path, study: Path, part: str, *, to: str, what: str) -> None:
    """Open a saved model's scores to one party, and print where its operator finds them."""
    fitted = cn.load(model)
    if what not in READINGS or not hasattr(fitted, what):
        raise BadInput(f"This model has no {what!r}.", remedy=f"Use one of {', '.join(READINGS)} that it has.")
    with _opened(study, part) as federation, screen.progress():
        delivery = getattr(fitted, what)(federation, to=to)
        screen.heading(f"{federation.people:,} people scored for {to}")
        screen.line(f"kept for the operator of {to}: {delivery.place()}")
        screen.line(f"receipt: {delivery.receipt_}")
        screen.print_budget(federation)


@contextmanager
def _opened(path: Path, part: str) -> Iterator[cn.Federation]:
    file = study_file.read(path)
    file.require_part(part)
    with file.federation(spend=True) as federation:
        yield file.part(federation, part)


# Federations of separate machines --------------------------------------------------------------------------------------------


def run_over_network(path: Path, text: str, output: Path | None, patience: float | None) -> None:
    """Run the studies of a coordinator's file, and keep the file in the journal until all of them are finished."""
    file = study_file.read_for_coordinator(path, text)
    with cn.Federation.connect(
        file.federation, kit=file.kit, state=file.state, patience=patience, listen=file.listen
    ) as federation:
        journal = federation.journal
        assert isinstance(journal, StudyJournal)
        journal.begin_file(str(path), text)
        if file.align is not None:
            screen.line(federation.align(**file.align).aligned_.receipt)  # type: ignore[union-attr]
        _run_all(file.studies, federation, output)
        journal.finish_file(str(path))


def resume_files(state: Path, output: Path | None, patience: float | None) -> None:
    """Continue the study files that the coordinator's journal has as unfinished."""
    journal = StudyJournal(state / "studies.sqlite")
    files = journal.unfinished_files()
    journal.close()
    if not files:
        screen.line("nothing to resume: every study file that was begun is finished")
    for name, text in files:
        screen.line(f"resuming {Path(name).name}")
        run_over_network(Path(name), text, output, patience)


def print_progress(state: Path, connected: list[str] | None) -> None:
    """Print who is connected to the coordinator (``None``: it is not running), and where its studies are."""
    journal = StudyJournal(state / "studies.sqlite")
    rows = [(one.plan[:12], one.task, one.method, one.status, one.step, one.turn) for one in journal.studies()]
    journal.close()
    screen.line(f"connected {'not running' if connected is None else ', '.join(connected) or 'nobody yet'}")
    screen.print_table(["study", "task", "method", "status", "step", "turn"], rows)


# Running, and what came out --------------------------------------------------------------------------------------------------


def _run_all(
    studies: Sequence[study_file.StudyEntry],
    federation: cn.Federation,
    output: Path | None,
    models: Path | None = None,
) -> None:
    """Preview all studies, run them in order, print and write what they found. Raise the error that stopped them, if any."""
    with screen.progress():
        for entry in studies:
            entry.estimator.preview(federation)
        finished, failure = _fit_all(studies, federation)
        screen.heading("Budget")
        screen.print_budget(federation)
    if output is not None:
        _write_results(output, finished, failure)
    if models is not None:
        _save_models(finished, models)
    if failure is not None:
        raise failure


def _fit_all(
    studies: Sequence[study_file.StudyEntry], federation: cn.Federation
) -> tuple[list[study_file.StudyEntry], ColonnadeError | None]:
    """Run studies in order until one fails; what the earlier ones paid for is kept."""
    finished: list[study_file.StudyEntry] = []
    for entry in studies:
        try:
            entry.estimator.fit(federation, repeat=entry.repeat)
        except ColonnadeError as error:
            return finished, error
        finished.append(entry)
        _print_result(entry)
    return finished, None


def _print_result(entry: study_file.StudyEntry) -> None:
    screen.heading(entry.title)
    frame = _as_table(entry.estimator)
    screen.print_frame(frame.head(ROWS))
    if len(frame) > ROWS:
        screen.line(f"… and {len(frame) - ROWS:,} more rows; --output writes all of them.")
    screen.line(f"receipt: {entry.estimator.receipt_}")


def _learned(estimator: Study) -> dict[str, Any]:
    """Return what an estimator learned, by attribute."""
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_") and name not in _SHOWN_ELSEWHERE
    }


def _as_table(estimator: Study) -> pd.DataFrame:
    """Return the result as a table: columns with one index side by side, largest first; else one row per attribute."""
    attributes = _learned(estimator)
    series = {name: value for name, value in attributes.items() if isinstance(value, pd.Series)}
    if not series:
        rows = [(name, str(value)) for name, value in attributes.items()]
        return pd.DataFrame(rows, columns=["attribute", "value"]).set_index("attribute")
    first = next(iter(series))
    frame = pd.DataFrame({name.rstrip("_"): value for name, value in series.items()})
    return frame.sort_values(first.rstrip("_"), ascending=False, kind="stable")


def _write_results(path: Path, finished: list[study_file.StudyEntry], failure: ColonnadeError | None) -> None:
    """Write results as JSON in one step, so that a reader never meets half of them."""
    content = {
        "studies": [_as_json(entry) for entry in finished],
        "failure": None if failure is None else screen.describe(failure),
    }
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        raise BadInput(
            f"The results cannot be written to {path}.",
            remedy="Correct --output and run again: what was released is returned at no further price.",
        ) from None
    screen.line(f"written: {path}")


def _as_json(entry: study_file.StudyEntry) -> dict[str, Any]:
    """Return one finished study as plain JSON values."""
    estimator = entry.estimator
    transcript = estimator.transcript_
    return {
        "title": entry.title,
        "estimator": type(estimator).__name__,
        "parameters": _plain(estimator.get_params()),
        "repeat": entry.repeat,
        "plan": codec.digest(estimator.plan_).hex(),
        "results": {name: _plain(value) for name, value in _learned(estimator).items()},
        "privacy": _plain(estimator.privacy_.table()),
        "transcript": {"rounds": transcript.rounds, "messages": transcript.messages, "bytes": transcript.bytes},
        "receipt": estimator.receipt_,
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it; an infinity or a NaN becomes text, because JSON has neither."""
    if isinstance(value, pd.Series):
        value = value.reset_index()
    if isinstance(value, pd.DataFrame):
        value = value.to_dict(orient="records")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    finite = isinstance(value, float) and math.isfinite(value)
    return value if finite or value is None or isinstance(value, str | bool | int) else str(value)


def _save_models(finished: list[study_file.StudyEntry], folder: Path) -> None:
    """Save every fitted model of a study file, by its number and estimator."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise BadInput(
            f"The folder {folder} cannot be made.", remedy="Correct --models: name a folder you can write to."
        ) from None
    for number, entry in enumerate(finished, start=1):
        path = folder / f"{number}-{type(entry.estimator).__name__}.json"
        entry.estimator.save(path)
        screen.line(f"model: {path}")
