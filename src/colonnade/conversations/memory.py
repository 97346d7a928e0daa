"""What a member remembers beyond one run: where everybody's ledger stood, and what it has heard and said itself.

Both outlive the process. A ledger that was set back is noticed by those who saw it further on (`LedgerHeads`). A step that was
cut short is run again with the same words (`RunRecords`).
"""

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import constant_time

from colonnade.durable_file import replacing
from colonnade.errors import BadInput, LedgerCorrupt, ProtocolError, ReleaseLost
from colonnade.secure.keys import Identity, PublicIdentity, digest, frame
from colonnade.secure.mail import NONCE_BYTES

__all__ = ["LedgerHead", "LedgerHeads", "RunRecords", "Said"]


NONCES = 1024
"""How many nonces a site remembers; the oldest go first."""

NONCE_LIFE = 3_600.0
"""Seconds for which a nonce is good: a ledger that goes back meanwhile shows at the next one."""


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

    Each party says where its ledger stands under its own signature. A ledger that was set back (restored from a back-up, run
    on a cloned disk) is sound in itself and has forgotten releases. Its party's peers, compute nodes and coordinator remember
    the highest head that they have seen, durably. They refuse a party whose ledger has gone back, whose history under the
    same sequence is another, or whose ledger is not the one in the federation's agreement.

    *What has gone back.* Studies run side by side, so heads arrive out of order: a reply that was on its way for long says where
    a ledger stood long ago. So each receiver issues a nonce (`issue`) and notes what it had seen by then. The party reads its
    ledger after that, and signs the head over the nonce. An honest ledger is then at least where it stood when anybody saw it
    before the nonce; a lower head is one that has forgotten. A head that is merely late is neither refused nor remembered.

    Parameters
    ----------
    ledgers
        The identity of each data party's ledger, from the federation's papers.
    path
        Where the highest heads are kept; ``None`` keeps them in memory.
    mine
        Where our own ledger stands; ``None`` at a site without one.
    clock
        A monotonic clock, in seconds: a nonce is good for an hour.
    """

    def __init__(
        self,
        ledgers: Mapping[str, str],
        path: str | Path | None = None,
        mine: Callable[[], LedgerHead] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledgers = dict(ledgers)
        self._path = None if path is None else Path(path)
        self._mine = mine
        self._clock = clock
        self._lock = threading.Lock()
        self._highest = self._read()  # never changed, only replaced: a nonce keeps the one of its time
        self._issued: OrderedDict[tuple[bytes, bytes], tuple[float, Mapping[str, LedgerHead]]] = OrderedDict()

    def issue(self, context: bytes) -> bytes:
        """Return a fresh nonce for one study; what has been seen by now is what its answers are measured by."""
        nonce = os.urandom(NONCE_BYTES)  # public, and never a second time the same
        with self._lock:
            self._issued[context, nonce] = self._clock(), self._highest
            while len(self._issued) > NONCES:
                self._issued.popitem(last=False)
        return nonce

    def own(self, party: str) -> bytes:
        """Return where our own ledger stands, as bytes; none at a site without a ledger. Refuse one that has gone back."""
        if self._mine is None:
            return b""
        head = self._mine()
        with self._lock:
            self._check(party, head, self._highest)  # read just now, so it is measured by all that we know
        return msgspec.msgpack.encode(head)

    def observe(self, context: bytes, said: Mapping[str, "Said"]) -> None:
        """Remember what parties say of their ledgers, durably; refuse one that has gone back since its nonce was issued."""
        with self._lock:
            seen = dict(self._highest)
            for party, one in said.items():
                if party not in self._ledgers:
                    continue
                head = _decoded(party, one.head)
                self._check(party, head, {} if one.nonce is None else self._floor(party, context, one.nonce))
                known = seen.get(party)
                if known is None or head.sequence > known.sequence:
                    seen[party] = head
                elif head.sequence == known.sequence and head != known:
                    raise _gone_back(party)
            if seen != self._highest:
                self._write(seen)
                self._highest = seen

    def known(self, party: str) -> LedgerHead | None:
        """Return the highest head seen of a party."""
        return self._highest.get(party)

    # Outside a conversation, a head is signed by itself -----------------------------------------------------------------

    def signed(self, party: str, identity: Identity, context: bytes, nonce: bytes) -> bytes:
        """Return our own head with a signature of ours over it, over what it is said in, and over the receiver's nonce."""
        head = self.own(party)
        return b"" if not head else identity.sign(_signed_head(context, nonce, head)) + head

    def observe_signed(self, party: str, identity: PublicIdentity, context: bytes, nonce: bytes, data: bytes) -> None:
        """Remember a head that travelled by itself, over a nonce of ours."""
        if party in self._ledgers:
            identity.verify(_signed_head(context, nonce, data[64:]), data[:64])
            self.observe(context, {party: Said(data[64:], nonce)})

    def _floor(self, party: str, context: bytes, nonce: bytes) -> Mapping[str, LedgerHead]:
        """Return what we had seen when we issued a nonce."""
        issued = self._issued.get((context, nonce))
        if issued is None or self._clock() - issued[0] > NONCE_LIFE:
            raise ProtocolError(
                f"Party {party!r} says where its ledger stands, and not to a question that is open here.",
                remedy="Start the study again.",
            )
        return issued[1]

    def _check(self, party: str, head: LedgerHead, floor: Mapping[str, LedgerHead]) -> None:
        if head.ledger != self._ledgers[party]:
            raise LedgerCorrupt(
                f"Party {party!r} pays from another ledger than the one in the federation's papers.",
                remedy="Have it open the ledger that the papers name; a new one needs new papers, signed by everybody.",
            )
        known = floor.get(party)
        if known is not None and head != known and head.sequence <= known.sequence:
            raise _gone_back(party)

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
        if self._path is not None:
            with replacing(self._path) as file:
                file.write(msgspec.msgpack.encode(heads))


def _decoded(party: str, data: bytes) -> LedgerHead:
    try:
        return msgspec.msgpack.decode(data, type=LedgerHead)
    except (msgspec.MsgspecError, BadInput):
        raise ProtocolError(f"Party {party!r} does not say where its ledger stands.") from None


def _signed_head(context: bytes, nonce: bytes, head: bytes) -> bytes:
    return frame("colonnade ledger head v2", context, nonce, head)


def _gone_back(party: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"The ledger of party {party!r} has gone back: it has forgotten releases.",
        remedy="Stop that party. A ledger restored from a back-up is not spent from: see the deployment guide.",
    )


@dataclass(frozen=True)
class Said:
    """What a party said of its ledger, and to which nonce of ours; ``None`` for what we say of ourselves."""

    head: bytes
    nonce: bytes | None


ANSWERS = 256
"""Openings whose bytes are kept, to be sent again without another run."""

RUNS = 65_536
"""Steps whose secrets are kept where nobody says that a study has ended; of all others it is kept that they were."""

_RUNS = """
CREATE TABLE IF NOT EXISTS runs (number INTEGER PRIMARY KEY, step BLOB UNIQUE NOT NULL, secret BLOB);
CREATE TABLE IF NOT EXISTS turns (
    number INTEGER PRIMARY KEY, step BLOB NOT NULL, turn INTEGER NOT NULL, digest BLOB NOT NULL, tile INTEGER, answer BLOB,
    UNIQUE (step, turn)
);
CREATE INDEX IF NOT EXISTS answers ON turns (number) WHERE answer IS NOT NULL;
CREATE TABLE IF NOT EXISTS openings (number INTEGER PRIMARY KEY, step BLOB UNIQUE NOT NULL, answer BLOB);
INSERT OR IGNORE INTO runs (step) SELECT step FROM openings;
"""
"""The last table is of earlier releases, which kept no secrets: what was opened then is not opened again."""


class RunRecords:
    """What a member has heard and said in steps that members work out together, so that it never says anything else.

    All that a member draws in a step follows from a secret that it keeps before it says anything. For every turn it keeps, before
    its answer leaves, a hash of what it heard and said in it. So a step that was cut short is run again, however often: everybody
    says the same, and whoever hears or would say anything else stops. All runs of a step together show no more than one
    (docs/proofs/secure-arithmetic.md#runs).

    Parameters
    ----------
    path
        The file; ``None`` keeps everything in memory, as a simulation does.

    Examples
    --------
    >>> records = RunRecords()
    >>> records.secret(bytes(32), "tables", b"drawn now")
    b'drawn now'
    >>> records.secret(bytes(32), "tables", b"drawn after a restart")
    b'drawn now'
    >>> records.keep(bytes(32), "tables", 4, digest=b"heard and said", opened=(0, b"a share"))
    >>> records.opened(bytes(32), "tables", 0), records.opened(bytes(32), "another step", 0)
    (b'a share', None)
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._memory = sqlite3.connect(":memory:", check_same_thread=False) if path is None else None
        if self._memory is not None:
            weakref.finalize(self, self._memory.close)
        with self._file() as file:
            file.executescript(_RUNS)

    def knows(self, plan: bytes, step: str) -> bool:
        """Return whether a step of a plan, named by its hash, was begun here."""
        with self._file() as file:
            found = file.execute("SELECT 1 FROM runs WHERE step = ?", (_step_key(plan, step),)).fetchone()
        return found is not None

    def secret(self, plan: bytes, step: str, drawn: bytes) -> bytes:
        """Return the secret of a step: the one that is kept, or else the one given, once it is kept."""
        key = _step_key(plan, step)
        with self._file() as file, file:
            file.execute("INSERT OR IGNORE INTO runs (step, secret) VALUES (?, ?)", (key, drawn))
            (kept,) = file.execute("SELECT secret FROM runs WHERE step = ?", (key,)).fetchone()
            old = "SELECT step FROM runs WHERE secret IS NOT NULL AND number <= (SELECT max(number) FROM runs) - ?"
            self._forget(file, [step for (step,) in file.execute(old, (RUNS,)).fetchall()])
        if kept is None:
            raise ReleaseLost(
                "This step was concluded before, and is opened once.",
                remedy="Ask for what was kept of it, or run the study again with the next repeat=, at a new price.",
            )
        return bytes(kept)

    def keep(
        self, plan: bytes, step: str, turn: int, *, digest: bytes, opened: tuple[int, bytes] | None = None
    ) -> None:
        """Keep what was heard and said in a turn, and what it opens, by its number; refuse anything but the same again."""
        key, (tile, answer) = _step_key(plan, step), opened or (None, None)
        with self._file() as file, file:
            kept = file.execute("SELECT digest FROM turns WHERE step = ? AND turn = ?", (key, turn)).fetchone()
            if kept is None:
                values = (key, turn, digest, tile, answer)
                file.execute("INSERT INTO turns (step, turn, digest, tile, answer) VALUES (?, ?, ?, ?, ?)", values)
                if opened is not None:
                    file.execute(
                        "UPDATE turns SET answer = NULL WHERE number IN (SELECT number FROM turns WHERE answer IS NOT NULL "
                        "ORDER BY number DESC LIMIT -1 OFFSET ?)",
                        (ANSWERS,),
                    )
        if kept is not None and not constant_time.bytes_eq(kept[0], digest):
            raise ReleaseLost(
                "Something else was said in this step before, by this member or to it. A step is opened once.",
                remedy="Run the study again with the next repeat=, at a new price.",
            )

    def opened(self, plan: bytes, step: str, tile: int) -> bytes | None:
        """Return what was opened of a step; ``None`` if nothing was, or if its bytes are no longer kept."""
        wanted = (_step_key(plan, step), tile)
        with self._file() as file:
            found = file.execute("SELECT answer FROM turns WHERE step = ? AND tile = ?", wanted).fetchone()
        return None if found is None else found[0]

    def conclude(self, plan: bytes, step: str) -> None:
        """Forget the secret of a step that is over, and all of its turns but those that opened something."""
        with self._file() as file, file:
            self._forget(file, [_step_key(plan, step)])

    @staticmethod
    def _forget(file: sqlite3.Connection, steps: Sequence[bytes]) -> None:
        for step in steps:
            file.execute("UPDATE runs SET secret = NULL WHERE step = ?", (step,))
            file.execute("DELETE FROM turns WHERE step = ? AND tile IS NULL", (step,))

    @contextlib.contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            yield self._memory
            return
        assert self._path is not None  # one of the two is given
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            with contextlib.closing(sqlite3.connect(self._path, timeout=30.0)) as file:
                file.executescript(
                    "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; PRAGMA secure_delete = ON;"
                )
                yield file
        except (sqlite3.Error, OSError):
            raise LedgerCorrupt(
                "What this member has said cannot be kept or read; nothing was opened.",
                remedy="Make room on that member's disk, or restore its openings.sqlite from a back-up.",
            ) from None


def _step_key(plan: bytes, step: str) -> bytes:
    return digest("colonnade opened step v1", plan, step)
