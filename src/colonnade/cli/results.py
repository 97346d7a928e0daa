"""What studies found, for people (tables on a terminal) and for programs (JSON).

Results are taken from fitted attributes only, and no fitted attribute is a function of raw rows.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from colonnade.cli import screen
from colonnade.errors import BadInput, ColonnadeError
from colonnade.estimators.answers import Preview
from colonnade.estimators.study import Study
from colonnade.protocol import codec
from colonnade.service.file_preview import FilePreview
from colonnade.service.study_file import StudyEntry

__all__ = [
    "as_json",
    "plain",
    "preview_as_json",
    "print_json",
    "print_preview",
    "print_result",
    "print_table",
    "results",
    "write_results",
]

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
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_text(_text(content) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError:
        raise BadInput(
            f"The results cannot be written to {path}.",
            remedy="Correct --output and run again: what was released is returned at no further price.",
        ) from None


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)


def as_json(entry: StudyEntry) -> dict[str, Any]:
    """Return one finished study as plain JSON values."""
    estimator = entry.estimator
    transcript = estimator.transcript_
    return {
        "title": entry.title,
        "purpose": entry.purpose,
        "estimator": type(estimator).__name__,
        "parameters": plain(estimator.get_params()),
        "repeat": entry.repeat,
        "plan": codec.digest(estimator.plan_).hex(),
        "results": {name: plain(value) for name, value in _learned(estimator).items()},
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
