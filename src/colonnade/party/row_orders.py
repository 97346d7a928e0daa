"""The row orders that a party has agreed to, and what was opened to it alone.

There is one gate per order, before the same policy and the same ledger. A study names its order of rows, and is answered
from that order and no other. Orders are kept beside the ledger, for this user alone, so that a restarted party still knows
them: who is in common is the party's own secret. A delivery never travels. In a simulation its owner reads it from the
party's object; a served party keeps it in a file beside its ledger, readable by this user alone, with its own ids.
"""

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import feather

from colonnade.errors import BadInput, PlanMismatch
from colonnade.party.gate import Gate
from colonnade.party.table.row_order import Alignment

__all__ = ["Deliveries", "RowOrders", "read_delivery"]


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


class RowOrders:
    """A party's gates by alignment.

    Parameters
    ----------
    first
        The gate before the order of rows that the party was opened with.
    alignment
        That order.
    folder
        Where further orders are kept; ``None`` keeps them in memory, as a simulation without a ledger directory does.
    ids
        This party's own ids, all of them, in the order of its table; without them it takes part in no alignment.
    """

    def __init__(
        self, first: Gate, alignment: Alignment | None = None, folder: Path | None = None, ids: Any = None
    ) -> None:
        self.first = first
        self.ids = ids
        self._gates: dict[str, Gate] = {}
        self._alignments: dict[str, Alignment] = {}
        self._folder = folder
        self._named: str | None = None
        self.deliveries = Deliveries(None if folder is None else folder.with_suffix(".deliveries"))
        self._enter(first, alignment)
        if folder is not None:
            for path in sorted(folder.glob("*.alignment")):
                alignment, rows = _read_order(path)
                if rows == self._rows():  # an order of other rows would put people's values to others
                    self._open(alignment)

    def of(self, alignment: str) -> Gate:
        """Return the gate before one order of rows; before the first for an unknown one, whose policy then refuses the plan."""
        return self._gates.get(alignment, self.first)

    def alignment(self, identity: str) -> Alignment:
        """Return an order of rows, with the ids that it orders."""
        if identity not in self._alignments:
            raise PlanMismatch("This party knows no alignment of that name.", remedy="Align the parties first.")
        return self._alignments[identity]

    def add(self, alignment: Alignment) -> Gate:
        """Agree to a further order of rows, durably; one that is known already stays as it is."""
        if alignment.identity in self._gates:
            return self._gates[alignment.identity]
        if self._folder is not None:
            _write_order(alignment, self._rows(), self._folder / f"{alignment.identity}.alignment")
        return self._open(alignment)

    def _open(self, alignment: Alignment) -> Gate:
        terms = dataclasses.replace(
            self.first.terms, alignment=alignment.identity, people=alignment.people, union=alignment.union
        )
        gate = self.first.reordered(alignment.order, terms)
        self._enter(gate, alignment)
        return gate

    def _rows(self) -> str:
        """Name this party's rows, in the order of its table: kept orders count rows, and are for no others."""
        if self._named is None:
            state = hashlib.sha256(b"colonnade rows v1")
            for one in [] if self.ids is None else self.ids.cast(pa.large_string()).fill_null("").to_pylist():
                encoded = one.encode()
                state.update(len(encoded).to_bytes(8, "big") + encoded)
            self._named = state.hexdigest()
        return self._named

    def _enter(self, gate: Gate, alignment: Alignment | None) -> None:
        gate.row_orders = self
        self._gates[gate.terms.alignment] = gate
        if alignment is not None:
            self._alignments[alignment.identity] = alignment


def _write_order(alignment: Alignment, rows: str, path: Path) -> None:
    """Write to a file of our own and put it in place at once: a crash leaves the whole order or none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    ids = alignment.ids if alignment.ids is not None else pa.nulls(alignment.people)
    table = pa.table({"order": pa.array(alignment.order), "id": ids})
    facts = {"identity": alignment.identity, "union": str(int(alignment.union)), "rows": rows}
    table = table.replace_schema_metadata(facts)
    part = path.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        feather.write_feather(table, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _read_order(path: Path) -> tuple[Alignment, str]:
    table: Any = feather.read_table(path)
    order = table.column("order").to_numpy().astype(np.int64)
    ids = table.column("id").combine_chunks()
    identity = table.schema.metadata[b"identity"].decode()
    union = table.schema.metadata.get(b"union") == b"1"
    rows = table.schema.metadata.get(b"rows", b"").decode()
    return Alignment(identity, len(order), order, None if pa.types.is_null(ids.type) else ids, union), rows
