"""Where every party's ledger stands, said by itself under its signature and remembered by its peers.

A ledger that was set back (restored from a back-up, run on a cloned disk) is sound in itself and has forgotten releases. Its
party's peers, compute nodes and coordinator remember the highest sequence that they have seen, durably, and refuse a party
whose sequence goes back, whose history under the same sequence is another, or whose ledger is not the one in the papers.
"""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from colonnade.errors import BadInput, LedgerCorrupt, ProtocolError
from colonnade.secure.framing import frame
from colonnade.secure.keys import Identity, PublicIdentity

__all__ = ["LedgerHead", "LedgerHeads"]


class LedgerHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Where one ledger stands.

    Parameters
    ----------
    ledger
        The ledger's identity.
    sequence, hash
        Its last row, and the hash that covers all rows up to it.
    total
        The spent ε at the cap's δ, in nano-units.
    """

    ledger: str
    sequence: int
    hash: bytes
    total: int

    def __post_init__(self) -> None:
        if len(self.hash) != 32 or self.sequence < 0 or self.total < 0 or len(self.ledger) > 64:
            raise BadInput("A ledger's head is an identity, a sequence, a hash of 32 bytes and a total.")


class LedgerHeads:
    """What one site knows of everybody's ledger.

    Parameters
    ----------
    ledgers
        The identity of each data party's ledger, from the federation's papers.
    path
        Where the highest heads are kept; ``None`` keeps them in memory.
    mine
        Where our own ledger stands; ``None`` at a site without one.
    """

    def __init__(
        self,
        ledgers: Mapping[str, str],
        path: str | Path | None = None,
        mine: Callable[[], LedgerHead] | None = None,
    ) -> None:
        self._ledgers = dict(ledgers)
        self._path = None if path is None else Path(path)
        self._mine = mine
        self._lock = threading.Lock()
        self._highest = self._read()

    def own(self) -> bytes:
        """Return where our own ledger stands, as bytes; none at a site without a ledger."""
        return b"" if self._mine is None else msgspec.msgpack.encode(self._mine())

    def observe(self, heads: Mapping[str, bytes]) -> None:
        """Remember what parties say of their ledgers, durably; refuse one that has gone back."""
        with self._lock:
            seen = dict(self._highest)
            for party, data in heads.items():
                if party in self._ledgers:
                    seen[party] = self._checked(party, _decoded(party, data))
            if seen != self._highest:
                self._write(seen)
                self._highest = seen

    def known(self, party: str) -> LedgerHead | None:
        """Return the highest head seen of a party."""
        return self._highest.get(party)

    # Outside a conversation, a head is signed by itself -----------------------------------------------------------------

    def signed(self, identity: Identity, context: bytes) -> bytes:
        """Return our own head with a signature of ours over it and over what it is said in."""
        head = self.own()
        return b"" if not head else identity.sign(_said(context, head)) + head

    def observe_signed(self, party: str, identity: PublicIdentity, context: bytes, data: bytes) -> None:
        """Remember a head that travelled by itself."""
        if party in self._ledgers:
            identity.verify(_said(context, data[64:]), data[:64])
            self.observe({party: data[64:]})

    def _checked(self, party: str, head: LedgerHead) -> LedgerHead:
        if head.ledger != self._ledgers[party]:
            raise LedgerCorrupt(
                f"Party {party!r} pays from another ledger than the one in the federation's papers.",
                remedy="Have it open the ledger that the papers name; a new one needs new papers, signed by everybody.",
            )
        known = self._highest.get(party)
        if known is None or head.sequence > known.sequence or head == known:
            return head
        raise LedgerCorrupt(
            f"The ledger of party {party!r} has gone back: it has forgotten releases.",
            remedy="Stop that party. A ledger restored from a back-up is not spent from: see the deployment guide.",
        )

    def _read(self) -> dict[str, LedgerHead]:
        if self._path is None or not self._path.exists():
            return {}
        try:
            return msgspec.msgpack.decode(self._path.read_bytes(), type=dict[str, LedgerHead])
        except (OSError, msgspec.MsgspecError, BadInput):
            raise LedgerCorrupt(
                "The file of the peers' ledger heads cannot be read.", remedy="Restore it from a back-up."
            ) from None

    def _write(self, heads: Mapping[str, LedgerHead]) -> None:
        """Put the new file in place at once, on disk, before anything that depends on it leaves."""
        if self._path is None:
            return
        part = self._path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            file.write(msgspec.msgpack.encode(heads))
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)


def _decoded(party: str, data: bytes) -> LedgerHead:
    try:
        return msgspec.msgpack.decode(data, type=LedgerHead)
    except (msgspec.MsgspecError, BadInput):
        raise ProtocolError(f"Party {party!r} does not say where its ledger stands.") from None


def _said(context: bytes, head: bytes) -> bytes:
    return frame("colonnade ledger head v1", context, head)
