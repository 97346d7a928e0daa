"""`KeptFingerprint`: whether a party's owner has opened other data under a version that was declared before.

A reserved step is taken up again with the same noise, so one data version has to be one table. Where a party keeps its ledger in
a folder, a keyed hash of its ids and of each declared column stands in a file beside it, for this user alone. It is compared when
the table is opened, and what it finds is told to the owner. No request reaches it, and nothing of it is ever sent: whether rows
have changed is the party's own secret.
"""

import hashlib
import hmac
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.errors import BadInput
from colonnade.party.table.large_ids import LargeIds
from colonnade.party.table.row_order import text_bytes
from colonnade.party.table.sources import Source
from colonnade.runtime.private_files import replacing
from colonnade.schema import Schema
from colonnade.schema.cells import flatten

KEY = 32


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds: keyed hashes, by column."""

    version: int
    key: str
    ids: str
    columns: dict[str, str]


class KeptFingerprint:
    """A keyed hash of a party's data, in a file that only this user can read.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, source: Source, schema: Schema, ids: Any, *, version: int) -> None:
        """Keep the fingerprint of a version, in place of an earlier one's."""
        key = os.urandom(KEY)
        self._write(_Kept(version, key.hex(), _of_ids(ids, key), _of_columns(source, schema, key)))

    def require_same(self, source: Source, schema: Schema, ids: Any, *, version: int) -> None:
        """Refuse, towards the owner, other data than those of this version; a column that is declared newly is added."""
        kept = self._read()
        if kept is None or kept.version != version:  # a crash came between the declaration and this file
            self.record(source, schema, ids, version=version)
            return
        key = bytes.fromhex(kept.key)
        columns = _of_columns(source, schema, key)
        known = kept.columns.keys() & columns.keys()
        if kept.ids != _of_ids(ids, key) or any(kept.columns[name] != columns[name] for name in known):
            raise BadInput(
                f"The table is not the one that was opened as data version {version}.",
                remedy=f"Declare a new version (version={version + 1}), or open the table as it was.",
            )
        if known != columns.keys():
            self._write(msgspec.structs.replace(kept, columns={**kept.columns, **columns}))

    def _read(self) -> _Kept | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError):
            raise BadInput(
                f"The fingerprint of this party's data ({self._path.name}) cannot be read.",
                remedy="Restore the file, or delete it and declare a new version of the data.",
            ) from None

    def _write(self, kept: _Kept) -> None:
        with replacing(self._path) as file:
            file.write(msgspec.json.encode(kept))


class _Hash:
    """A keyed hash of a column that is read in blocks; where they are cut does not matter."""

    def __init__(self, key: bytes) -> None:
        self._lengths = hmac.new(key, b"lengths", hashlib.sha256)
        self._text = hmac.new(key, b"text", hashlib.sha256)

    def add(self, cells: Any) -> None:
        """Add some cells, as text: a number is the same in a CSV file and in a frame of texts."""
        text = _as_text(cells)
        lengths = pc.binary_length(text).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        self._lengths.update(np.ascontiguousarray(lengths, dtype="<i8").data)
        if len(present := text.drop_null()):
            self._text.update(text_bytes(present).data)

    def hexdigest(self) -> str:
        return hashlib.sha256(self._lengths.digest() + self._text.digest()).hexdigest()


def _as_text(cells: Any) -> Any:
    array = flatten(cells)
    array = flatten(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array
    try:
        return array.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a type, or bytes, that Arrow does not write as text
        return pa.array([None if one is None else repr(one) for one in array.to_pylist()], type=pa.large_string())


def _of_ids(ids: Any, key: bytes) -> str:
    state = _Hash(key)
    for block in ids.blocks() if isinstance(ids, LargeIds) else [] if ids is None else [ids]:
        state.add(block)
    return state.hexdigest()


def _of_columns(source: Source, schema: Schema, key: bytes) -> dict[str, str]:
    states = {name: _Hash(key) for name in schema if name in source.columns}
    for batch in source.batches(list(states)):
        for name, state in states.items():
            state.add(batch.column(name))
    return {name: state.hexdigest() for name, state in states.items()}
