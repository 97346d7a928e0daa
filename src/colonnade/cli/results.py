"""A fitted estimator as a table to read and as a JSON document.

Only fitted attributes enter, and no fitted attribute is a function of raw rows.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from colonnade.errors import BadInput
from colonnade.estimators.study import Study
from colonnade.protocol import codec
from colonnade.service.study_file import StudyEntry

__all__ = ["ROWS", "document", "shown", "write"]

ROWS = 20
"""How many rows a screen shows."""

_APART = ("privacy_", "transcript_", "receipt_", "plan_")


def learned(estimator: Study) -> dict[str, Any]:
    """Return what an estimator learned, by attribute."""
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_") and name not in _APART
    }


def shown(estimator: Study) -> pd.DataFrame:
    """Return the result as a table: columns with one index side by side, largest first; else one row per attribute."""
    attributes = learned(estimator)
    series = {name: value for name, value in attributes.items() if isinstance(value, pd.Series)}
    if not series:
        rows = [(name, str(value)) for name, value in attributes.items()]
        return pd.DataFrame(rows, columns=["attribute", "value"]).set_index("attribute")
    first = next(iter(series))
    frame = pd.DataFrame({name.rstrip("_"): value for name, value in series.items()})
    return frame.sort_values(first.rstrip("_"), ascending=False, kind="stable")


def document(entry: StudyEntry) -> dict[str, Any]:
    """Return one finished study as plain JSON values."""
    estimator = entry.estimator
    transcript = estimator.transcript_
    return {
        "title": entry.title,
        "estimator": type(estimator).__name__,
        "parameters": _plain(estimator.get_params()),
        "repeat": entry.repeat,
        "plan": codec.digest(estimator.plan_).hex(),
        "results": {name: _plain(value) for name, value in learned(estimator).items()},
        "privacy": _plain(estimator.privacy_.table()),
        "transcript": {"rounds": transcript.rounds, "messages": transcript.messages, "bytes": transcript.bytes},
        "receipt": estimator.receipt_,
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a document in one step, so that a reader never meets half of it."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        raise BadInput(
            "The output file cannot be written.",
            remedy="Correct --output and run again: what was released is returned at no further price.",
        ) from None


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
