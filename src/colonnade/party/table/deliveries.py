"""What was opened to this party and to nobody else: kept where only its own operator can read it.

A delivery never travels. In a simulation its owner reads it from the party's object; a served party keeps it in a file beside its
ledger, readable by this user alone, with its own ids.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import feather

from colonnade.errors import BadInput
from colonnade.party.table.row_order import Alignment

__all__ = ["Deliveries", "read_delivery"]


class Deliveries:
    """A party's deliveries, by request.

    Parameters
    ----------
    folder
        Where they are kept; ``None`` keeps them in memory, as a simulation without a ledger directory does.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[bytes, Any] = {}

    def keep(self, request: bytes, alignment: Alignment, columns: dict[str, NDArray[Any]]) -> None:
        """Keep a table with a row for every person whom this party knows by an id of its own."""
        table = _table(alignment, columns)
        if self._folder is None:
            self._held[request] = table
        else:
            _write(table, self._path(request))

    def read(self, request: bytes) -> pd.DataFrame:
        """Return a delivery, by id."""
        if self._folder is not None and self._path(request).exists():
            return read_delivery(self._path(request))
        if request not in self._held:
            raise BadInput("Nothing was delivered to this party for that request.", remedy="Run the prediction first.")
        return _frame(self._held[request])

    def path(self, request: bytes) -> Path | None:
        """Return where a delivery is kept; ``None`` in memory."""
        return None if self._folder is None else self._path(request)

    def _path(self, request: bytes) -> Path:
        assert self._folder is not None  # only asked where there is one
        return self._folder / f"{request.hex()[:32]}.feather"


def read_delivery(path: str | Path) -> pd.DataFrame:
    """Return a delivery from its file, by id."""
    try:
        table = feather.read_table(path)
    except (OSError, pa.ArrowInvalid):
        raise BadInput("The file is not a delivery, or cannot be read.") from None
    return _frame(table)


def _table(alignment: Alignment, columns: dict[str, NDArray[Any]]) -> Any:
    here = np.flatnonzero(alignment.order >= 0)
    ids = pa.array(here) if alignment.ids is None else alignment.ids.take(pa.array(here))
    whole = len(here) == alignment.people
    kept = {name: pa.array(value if whole else value[here]) for name, value in columns.items()}
    return pa.table({"id": ids, **kept})


def _frame(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame.set_index("id")


def _write(table: Any, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        feather.write_feather(table, file, compression="uncompressed")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
