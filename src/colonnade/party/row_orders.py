"""The row orders that a party has agreed to, and the deliveries that were opened to it alone.

There is one gate per row order, with the same policy and the same ledger. A study names its row order and is answered from
that order only. Orders are kept in files beside the ledger, so that a restarted party still knows them. Only this user can
read them: who is in common is the party's own secret.

A *delivery* is a table of individual scores that was opened to this party alone. It never travels. In a simulation its owner
reads it from the party's object. A served party keeps it, with its own ids, in a file beside its ledger that only this user
can read.
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
from colonnade.party.table.row_order import RowOrder

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

    def keep(self, request: bytes, order: RowOrder, columns: dict[str, NDArray[Any]]) -> None:
        """Keep a table with one row per person for whom this party has an id of its own."""
        table = _table(order, columns)
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


def _table(order: RowOrder, columns: dict[str, NDArray[Any]]) -> Any:
    here = np.flatnonzero(order.rows >= 0)
    ids = pa.array(here) if order.ids is None else order.ids.take(pa.array(here))
    whole = len(here) == order.people
    kept = {name: pa.array(value if whole else value[here]) for name, value in columns.items()}
    return pa.table({"id": ids, **kept})


def _frame(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame.set_index("id")


def _write(table: Any, path: Path) -> None:
    """Write a file for this user alone, and put it in place at once: a crash leaves all of it or nothing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        feather.write_feather(table, file, compression="uncompressed")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class RowOrders:
    """A party's gates, one for each row order.

    Parameters
    ----------
    first
        The gate before the row order that the party was opened with.
    order
        That order.
    folder
        Where further orders are kept; ``None`` keeps them in memory, as a simulation without a ledger directory does.
    ids
        This party's own ids, all of them, in the order of its table; without them it takes part in no alignment.
    """

    def __init__(self, first: Gate, order: RowOrder | None = None, folder: Path | None = None, ids: Any = None) -> None:
        self.first = first
        self.ids = ids
        self._gates: dict[str, Gate] = {}
        self._orders: dict[str, RowOrder] = {}
        self._folder = folder
        self._hashed: str | None = None
        self.deliveries = Deliveries(None if folder is None else folder.with_suffix(".deliveries"))
        self._enter(first, order)
        if folder is not None:
            for path in sorted(folder.glob("*.alignment")):
                kept, rows = _read_order(path)
                if rows == self._rows_hash():  # in an order of other rows, values would be those of other people
                    self._open(kept)

    def gate_for(self, identity: str) -> Gate:
        """Return the gate before one row order. For an unknown one return the first gate: its policy then refuses the plan."""
        return self._gates.get(identity, self.first)

    def order(self, identity: str) -> RowOrder:
        """Return a row order, with the ids that it orders."""
        if identity not in self._orders:
            raise PlanMismatch("This party knows no alignment of that name.", remedy="Align the parties first.")
        return self._orders[identity]

    def add(self, order: RowOrder) -> Gate:
        """Agree to a further row order, durably; one that is known already stays as it is. Return the gate before it."""
        if order.identity in self._gates:
            return self._gates[order.identity]
        if self._folder is not None:
            _write_order(order, self._rows_hash(), self._folder / f"{order.identity}.alignment")
        return self._open(order)

    def _open(self, order: RowOrder) -> Gate:
        terms = dataclasses.replace(self.first.terms, alignment=order.identity, people=order.people, union=order.union)
        gate = self.first.reordered(order.rows, terms)
        self._enter(gate, order)
        return gate

    def _rows_hash(self) -> str:
        """Hash this party's ids in the order of its table. A kept order holds row numbers, so it is for these rows only."""
        if self._hashed is None:
            state = hashlib.sha256(b"colonnade rows v1")
            for one in [] if self.ids is None else self.ids.cast(pa.large_string()).fill_null("").to_pylist():
                encoded = one.encode()
                state.update(len(encoded).to_bytes(8, "big") + encoded)
            self._hashed = state.hexdigest()
        return self._hashed

    def _enter(self, gate: Gate, order: RowOrder | None) -> None:
        gate.row_orders = self
        self._gates[gate.terms.alignment] = gate
        if order is not None:
            self._orders[order.identity] = order


def _write_order(order: RowOrder, rows: str, path: Path) -> None:
    """Write a row order, with the hash of the rows that it counts."""
    ids = order.ids if order.ids is not None else pa.nulls(order.people)
    table = pa.table({"order": pa.array(order.rows), "id": ids})
    facts = {"identity": order.identity, "union": str(int(order.union)), "rows": rows}
    _write(table.replace_schema_metadata(facts), path)


def _read_order(path: Path) -> tuple[RowOrder, str]:
    table: Any = feather.read_table(path)
    places = table.column("order").to_numpy().astype(np.int64)
    ids = table.column("id").combine_chunks()
    identity = table.schema.metadata[b"identity"].decode()
    union = table.schema.metadata.get(b"union") == b"1"
    rows = table.schema.metadata.get(b"rows", b"").decode()
    return RowOrder(identity, len(places), places, None if pa.types.is_null(ids.type) else ids, union), rows
