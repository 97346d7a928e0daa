"""Running studies, and showing what they found: to people as tables on a terminal, to programs as JSON.

Results are taken from fitted attributes only, and no fitted attribute is a function of raw rows.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.cli import screen
from colonnade.coordinator.connect import StudyJournal
from colonnade.errors import BadInput, ColonnadeError
from colonnade.estimators.answers import Preview
from colonnade.estimators.study import Study
from colonnade.protocol import messages
from colonnade.runtime.private_files import put_in_place
from colonnade.service import study_file
from colonnade.service.study_file import Bounds, FilePreview, StudyEntry, preview_studies

ROWS = 20
"""How many rows of a result are printed."""
COLUMNS = 6
"""A table with more columns than this is printed on its side, if it is then narrower."""
_SHOWN_ELSEWHERE = ("privacy_", "transcript_", "receipt_", "plan_")


# For people ------------------------------------------------------------------------------------------------------------------


def print_result(entry: StudyEntry) -> None:
    """Print one finished study: its title, its result as a table, and its receipt."""
    screen.heading(entry.title)
    print_table(entry.estimator.table())
    screen.line(f"receipt: {entry.estimator.receipt_}")


def print_table(frame: pd.DataFrame) -> None:
    """Print the first rows of what a study found."""
    if frame.shape[1] > max(COLUMNS, len(frame)):
        frame = frame.T.rename_axis(index=str(frame.index.name))
    screen.print_frame(frame.head(ROWS))
    if len(frame) > ROWS:
        screen.line(f"… and {len(frame) - ROWS:,} more rows; --output writes all of them.")
    if frame.attrs.get("note"):
        screen.line(frame.attrs["note"])


def print_preview(found: FilePreview) -> None:
    """Print the preview of every study of a file, and what they would cost together."""
    for entry, preview in found.previews:
        screen.heading(entry.title)
        screen.line(str(preview))
        if entry.repeat > 1:
            screen.line(f"  ! draw {entry.repeat} is charged anew")
    many = len(found.previews)
    screen.heading("The study would cost" if many == 1 else f"All {many} studies together would cost")
    screen.print_frame(found.table())


# For programs ----------------------------------------------------------------------------------------------------------------


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    screen.print_json(plain(content))


def results(finished: list[StudyEntry], failure: ColonnadeError | None) -> dict[str, Any]:
    """Return the finished studies of a file, and the error that stopped the rest, as plain JSON values."""
    return {
        "studies": [as_json(entry) for entry in finished],
        "failure": None if failure is None else screen.describe(failure),
    }


def write_results(path: Path, content: Mapping[str, Any]) -> None:
    """Write results as JSON in one step, so that a reader never meets half of them."""
    text = json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        put_in_place(path, f"{text}\n".encode())
    except OSError:
        raise BadInput(
            f"The results cannot be written to {path}.",
            remedy="Correct --output and run again: what was released is returned at no further price.",
        ) from None


def as_json(entry: StudyEntry) -> dict[str, Any]:
    """Return one finished study as plain JSON values."""
    estimator = entry.estimator
    transcript, table = estimator.transcript_, estimator.table()
    shown = {"table": plain(table.reset_index()), **table.attrs} if "note" in table.attrs else {}
    return {
        "title": entry.title,
        "purpose": entry.purpose,
        "estimator": type(estimator).__name__,
        "parameters": plain(estimator.get_params()),
        "repeat": entry.repeat,
        "plan": messages.digest(estimator.plan_).hex(),
        "results": {**{name: plain(value) for name, value in _learned(estimator).items()}, **shown},
        "privacy": plain(estimator.privacy_.table()),
        "transcript": {
            "rounds": transcript.rounds,
            "messages": transcript.messages,
            "bytes": transcript.bytes,
            "direct": sum(transcript.direct.values()),
        },
        "receipt": estimator.receipt_,
    }


def preview_as_json(found: FilePreview) -> dict[str, Any]:
    """Return the preview of a file as plain JSON values."""
    return {
        "studies": [_previewed(entry, preview) for entry, preview in found.previews],
        "total": plain(found.table().reset_index()),
    }


def _previewed(entry: StudyEntry, preview: Preview) -> dict[str, Any]:
    return {
        "title": entry.title,
        "purpose": entry.purpose,
        "estimator": type(entry.estimator).__name__,
        "repeat": entry.repeat,
        "charges": plain(preview.table().reset_index()),
        "privacy": plain(preview.statement.table()),
        "expected": dict(preview.expected),
        "expected_error": preview.expected_error,
        "warnings": list(preview.warnings),
    }


def _learned(estimator: Study) -> dict[str, Any]:
    """Return what an estimator learned, by attribute."""
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_") and name not in _SHOWN_ELSEWHERE
    }


def plain(value: Any) -> Any:
    """Return a value as JSON knows it; an infinity or a NaN becomes text, because JSON has neither."""
    if isinstance(value, pd.Series):
        value = value.reset_index()
    if isinstance(value, pd.DataFrame):
        value = value.to_dict(orient="records")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    finite = isinstance(value, float) and math.isfinite(value)
    return value if finite or value is None or isinstance(value, str | bool | int) else str(value)


def fitted_again(
    studies: Sequence[study_file.StudyEntry], federation: cn.Federation
) -> tuple[list[Any], dict[str, str]]:
    """Return the studies that were run, fitted again at no price; and why the others are left out."""
    finished: list[Any] = []
    left_out: dict[str, str] = {}
    for entry in studies:
        quote = federation._driver.quote(entry.estimator.prepared(federation, entry.repeat)[1])
        if any(quote.disclosed.values()):  # asking again would let exact values leave again
            left_out[entry.title] = "it is not private, and would run again; report on the model that --models saved"
        elif any(quote.unpaid.values()):
            left_out[entry.title] = "it has not been run"
        else:
            finished.append(entry.estimator.fit(entry.asked_of(federation), repeat=entry.repeat))
    if not finished:
        raise BadInput(
            f"There is nothing to report: {'; '.join(f'{title}: {reason}' for title, reason in left_out.items())}.",
            remedy="Run the file first: colonnade run STUDY.",
        )
    return finished, left_out


@contextmanager
def opened(path: Path, part: str) -> Iterator[cn.Federation]:
    """Open the parties of a study file, for one part of the people."""
    file = study_file.read(path)
    file.require_part(part)
    with file.federation(spend=True) as federation:
        yield file.part(federation, part)


# Federations of separate machines --------------------------------------------------------------------------------------------


def run_over_network(path: Path, text: str, output: Path | None, patience: float | None, *, as_json: bool) -> None:
    """Run the studies of a coordinator's file, and keep the file in the journal until all of them are finished."""
    file = study_file.read_for_coordinator(path, text)
    with cn.Federation.connect(
        file.federation,
        kit=file.kit,
        state=file.state,
        patience=patience,
        listen=file.listen,
        analyst=file.analyst,
    ) as federation:
        journal = federation._driver.journal
        assert isinstance(journal, StudyJournal)
        journal.begin_file(str(path), text)
        if file.align is not None:
            receipt = federation.align(**file.align).aligned_.receipt  # type: ignore[union-attr]
            if not as_json:
                screen.line(receipt)
        fit_on = federation if file.split is None else federation.split(**file.split)[0]
        run_all(file.studies, with_bounds(file, fit_on, quiet=as_json), output=output, models=None, as_json=as_json)
        journal.finish_file(str(path))


def with_bounds(
    file: study_file.StudyFile | study_file.CoordinatorFile, federation: cn.Federation, *, quiet: bool
) -> cn.Federation:
    """Return the federation with the narrower bounds that a file asks for, and print them."""
    narrow = Bounds(file.tighten, federation).paid(file.studies)
    if narrow.tightened_ is not None and not quiet:
        screen.heading("Narrower bounds")
        screen.print_frame(narrow.tightened_.bounds)
        screen.line(f"receipt: {narrow.tightened_.receipt_}")
    return narrow


def run_all(
    studies: Sequence[study_file.StudyEntry],
    federation: cn.Federation,
    *,
    output: Path | None,
    models: Path | None,
    as_json: bool,
) -> None:
    """Preview all studies together, run them in order, print and write what they found. Raise the error that stopped them."""
    preview_studies(studies, federation).require_room()
    finished, failure = _fit_all(studies, federation, quiet=as_json)
    content = results(finished, failure)
    if as_json:
        print_json(content)
    else:
        screen.heading("Budget")
        screen.print_budget(federation)
    if output is not None:
        write_results(output, content)
        if not as_json:
            screen.line(f"written: {output}")
    if models is not None:
        _save_models(finished, models, quiet=as_json)
    if failure is not None:
        raise failure


def _fit_all(
    studies: Sequence[study_file.StudyEntry], federation: cn.Federation, *, quiet: bool
) -> tuple[list[study_file.StudyEntry], ColonnadeError | None]:
    """Run studies in order until one fails; what the earlier ones paid for is kept."""
    finished: list[study_file.StudyEntry] = []
    for entry in studies:
        try:
            entry.estimator.fit(entry.asked_of(federation), repeat=entry.repeat)
            written = entry.write_table()
        except ColonnadeError as error:
            return finished, error
        finished.append(entry)
        if not quiet:
            print_result(entry)
            if written is not None:
                screen.line(f"table: {written}, with {written.name}.json beside it")
    return finished, None


def _save_models(finished: list[study_file.StudyEntry], folder: Path, *, quiet: bool) -> None:
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
        if not quiet:
            screen.line(f"model: {path}")
