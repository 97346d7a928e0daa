"""Files of synthetic rows: a table that any tool reads, and beside it a JSON file that says what the table is.

The second file is named after the first, with ``.json`` behind it. It carries the privacy statement, the columns' descriptions,
the quality, the plan's hash and the receipt. Hand both on together.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd

from colonnade._version import __version__
from colonnade.errors import BadInput
from colonnade.protocol import codec

if TYPE_CHECKING:
    from colonnade.estimators.synthetic import SyntheticTable

__all__ = ["FORMATS", "require_format", "write_table"]

FORMATS = (".parquet", ".csv")


def require_format(path: Path) -> None:
    """Refuse a file of another kind, before anything is done."""
    if path.suffix not in FORMATS:
        raise BadInput(
            f"A synthetic table is written to a .parquet or a .csv file, not to {path.name}.",
            remedy=f"For example {path.stem or 'people'}.parquet.",
        )


def write_table(study: "SyntheticTable", path: Path, rows: pd.DataFrame, random_state: int) -> Path:
    """Write rows, then what they are. Existing files are replaced, each at once or not at all.

    Parameters
    ----------
    study
        The fitted estimator that the rows were drawn from.
    path
        The file to write.
    rows, random_state
        The rows, and the seed they were drawn with.
    """
    require_format(path)
    beside = path.with_name(f"{path.name}.json")
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    words = msgspec.json.format(msgspec.json.encode(_described(study, path, rows, random_state)), indent=1)
    try:
        if path.suffix == ".csv":
            rows.to_csv(draft, index=False)
        else:
            rows.to_parquet(draft, index=False)
        draft.replace(path)
        draft.write_bytes(words + b"\n")
        draft.replace(beside)
    except OSError:
        draft.unlink(missing_ok=True)
        raise BadInput(
            f"The table cannot be written to {path.name}.", remedy="Check the folder and its permissions."
        ) from None
    return beside


def _described(study: "SyntheticTable", path: Path, rows: pd.DataFrame, random_state: int) -> dict[str, Any]:
    quality = study.quality()
    statement = study.privacy_.table().astype(object)
    return {
        "format": "colonnade synthetic table",
        "version": 1,
        "library": __version__,
        "table": path.name,
        "rows": len(rows),
        "random_state": random_state,
        "statement": {
            "in_words": str(study.privacy_),
            "observers": [{name: _plain(value) for name, value in row.items()} for row in statement.to_dict("records")],
        },
        "schema": {name: msgspec.to_builtins(column) for name, column in study.schema_.items()},
        "quality": {
            "column_shapes": quality.column_shapes,
            "pair_trends": quality.pair_trends,
            "by_column": {str(name): float(value) for name, value in quality.column_shapes_.items()},
        },
        "plan_hash": codec.digest(study.plan_).hex(),
        "receipt": study.receipt_,
    }


def _plain(value: Any) -> Any:
    """Return a cell of the statement as JSON knows it; an infinity as text."""
    return value if isinstance(value, str | bool | int) or value is None else _number(float(value))


def _number(value: float) -> float | str:
    return value if abs(value) < float("inf") else "infinite"
