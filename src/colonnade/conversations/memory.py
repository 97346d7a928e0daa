"""What a member remembers beyond one run: where everybody's ledger stood, and what it has heard and said itself.

Both outlive the process. A ledger that was set back is noticed by those who saw it further on (`LedgerHeads`). A step that was
cut short is run again with the same words (`RunRecords`).

*Histories* (`History`). A ledger can show that it only grew: a Merkle tree over rows, its root at every size, and proofs from
size to size. The tree is the one of certificate transparency (RFC 9162, section 2.1): the left part of n leaves is the largest
power of two below n. A root stands for all rows in their order. A consistency proof of about log₂ n hashes shows that the rows
of one root are the first rows of another. Nobody who has forgotten or exchanged a row can make one
(docs/proofs/ledger-history.md).

A leaf is a digest of a row under a secret salt of its ledger, so a proof shows nothing but how many rows there are. Leaves, inner
nodes and roots are hashed under different first bytes, and a root with the number of its rows: no node passes for a leaf, and no
history for one of another length.
"""

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import constant_time

from colonnade.errors import BadInput, LedgerCorrupt, ProtocolError, ReleaseLost
from colonnade.runtime.private_files import replacing
from colonnade.secure.keys import LARGEST_QUESTION, NONCE_BYTES, digest

HASH_BYTES = 32
MOST_HASHES = 128
"""Of a proof between sizes below 2⁶³."""


class Earlier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a root was at an earlier row, and the proof that the present one extends it."""

    sequence: int
    root: bytes
    proof: tuple[bytes, ...]

    def __post_init__(self) -> None:
        sound = self.sequence >= 0 and len(self.proof) <= MOST_HASHES
        if not sound or any(len(one) != HASH_BYTES for one in (self.root, *self.proof)):
            raise BadInput("An earlier root is a row's number, a hash, and a proof of hashes.")


class History:
    """All rows of one history, as a tree. Memory: 64 bytes a row.

    Examples
    --------
    >>> history = History(bytes([row]) * 32 for row in range(7))
    >>> proof = history.proof(3)
    >>> extends(3, history.root(3), 7, history.root(), proof)
    True
    >>> extends(3, bytes(32), 7, history.root(), proof)
    False
    """

    def __init__(self, digests: Iterable[bytes] = ()) -> None:
        self._levels: list[bytearray] = [
            bytearray()
        ]  # level k: the roots of whole subtrees of 2^k leaves, one after another
        for one in digests:
            self.append(one)

    def __len__(self) -> int:
        return len(self._levels[0]) // HASH_BYTES

    def append(self, digest: bytes) -> None:
        """Add a row by its salted digest; takes one hash more for every subtree that it completes."""
        position, level, node = len(self), 0, _leaf(digest)
        while True:
            self._levels[level] += node
            if position % 2 == 0:
                return
            node = _node(self._at(level, position - 1), node)
            position, level = position // 2, level + 1
            if level == len(self._levels):
                self._levels.append(bytearray())

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the first ``size`` rows; by default of all."""
        rows = self._checked(len(self) if size is None else size)
        return _root(rows, self._subtree(0, rows))

    def proof(self, first: int, second: int | None = None) -> tuple[bytes, ...]:
        """Return the proof that the first ``second`` rows, by default all, begin with the first ``first``."""
        last = self._checked(len(self) if second is None else second)
        if self._checked(first) > last:
            raise BadInput("A history grows: the earlier size is the smaller one.")
        return tuple(self._steps(first, 0, last))

    def _steps(self, first: int, begin: int, end: int) -> list[bytes]:
        """Return the proof for the first rows of a subtree."""
        if first == end - begin:
            return [self._subtree(begin, end)]
        middle = begin + _split(end - begin)
        if first <= middle - begin:
            return [*self._steps(first, begin, middle), self._subtree(middle, end)]
        return [*self._steps(first - (middle - begin), middle, end), self._subtree(begin, middle)]

    def _subtree(self, begin: int, end: int) -> bytes:
        size = end - begin
        if size & (size - 1) == 0:  # whole subtrees begin at multiples of their size, and are kept
            return self._at(size.bit_length() - 1, begin // size)
        middle = begin + _split(size)
        return _node(self._subtree(begin, middle), self._subtree(middle, end))

    def _at(self, level: int, position: int) -> bytes:
        return bytes(self._levels[level][position * HASH_BYTES : (position + 1) * HASH_BYTES])

    def _checked(self, size: int) -> int:
        if not 1 <= size <= len(self):
            raise BadInput("A history has a root at each of its sizes, from one row on.")
        return size


def extends(first: int, earlier: bytes, second: int, later: bytes, proof: tuple[bytes, ...]) -> bool:
    """Return whether a proof shows that ``second`` rows of root ``later`` begin with ``first`` rows of root ``earlier``."""
    if not 1 <= first <= second or any(len(one) != HASH_BYTES for one in (earlier, later, *proof)):
        return False
    path = list(reversed(proof))
    try:
        part, whole = _subtrees(first, second, path)
    except IndexError:  # it ends too early
        return False
    return not path and (_root(first, part), _root(second, whole)) == (earlier, later)


def _subtrees(first: int, size: int, path: list[bytes]) -> tuple[bytes, bytes]:
    """Return two nodes that a proof is about in a subtree of ``size`` rows: over its first rows, and over all."""
    if first == size:
        node = path.pop()
        return node, node
    middle = _split(size)
    if first <= middle:
        part, left = _subtrees(first, middle, path)
        return part, _node(left, path.pop())
    part, right = _subtrees(first - middle, size - middle, path)
    left = path.pop()
    return _node(left, part), _node(left, right)


def _split(size: int) -> int:
    """Return the largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def _leaf(digest: bytes) -> bytes:
    return hashlib.sha256(b"\x00colonnade ledger row v1" + digest).digest()


def _root(size: int, node: bytes) -> bytes:
    return hashlib.sha256(b"\x02colonnade ledger root v1" + size.to_bytes(8, "big") + node).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01colonnade ledger node v1" + left + right).digest()


NONCES = 1024
"""How many questions a site remembers; the oldest go first."""

NONCE_LIFE = 3_600.0
"""Seconds for which a question is good: a ledger that goes back meanwhile shows at the next one."""

IN_FLIGHT = 64
"""How many of the rows that a party has named lately it names again: heads that are under way are held against these."""

MOST_ROOTS = 1024
"""How many roots of one ledger a site has at hand, for heads that come late."""

ROUNDING = 1_000
"""In nano-ε. A forfeit that uses a cap up may end a few units below it."""


class LedgerHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Where one ledger stands.

    Parameters
    ----------
    ledger
        The ledger's identity.
    sequence, root
        Its last row, and the root of all rows up to it (`colonnade.conversations.memory`).
    total
        The spent ε at the cap's δ, in nano-units.
    forfeited
        When its owner last wrote off what it had forgotten: microseconds since 1970, 0 for never.
    read
        When the party read its ledger, by its own clock, in the same unit.
    """

    ledger: str
    sequence: int
    root: bytes
    total: int
    forfeited: int = 0
    read: int = 0

    def __post_init__(self) -> None:
        least = min(self.sequence, self.total, self.forfeited, self.read)
        if len(self.root) != 32 or least < 0 or len(self.ledger) > 64:
            raise BadInput("A ledger's head is an identity, a row's number, a root of 32 bytes, a total and two times.")


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a party says of its ledger: where it stands, and that it extends where it stood at the rows it was asked about."""

    head: LedgerHead
    earlier: tuple[Earlier, ...] = ()

    def roots(self) -> dict[int, bytes]:
        """Return every root that it says."""
        return {**{one.sequence: one.root for one in self.earlier}, self.head.sequence: self.head.root}

    def holds(self) -> bool:
        """Return whether its proofs hold."""
        size, root = self.head.sequence + 1, self.head.root
        return all(extends(one.sequence + 1, one.root, size, root, one.proof) for one in self.earlier)


class SignedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A head with the message that it was in and the party's signature over that message: evidence for anybody with its key."""

    head: LedgerHead
    message: bytes
    signature: bytes


class Remembered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What one site knows of one ledger.

    Parameters
    ----------
    stood
        The highest head that it has seen.
    evidence
        Two heads that cannot share a history: the ledger has gone back, and its party is refused until its owner forfeits.
    """

    stood: SignedHead
    evidence: tuple[SignedHead, SignedHead] | None = None

    @property
    def total(self) -> int:
        """The highest total that was said."""
        heads = [one.head for one in (self.stood, *(self.evidence or ()))]
        return max((head.total for head in heads), default=0)

    def joined(self, other: "Remembered | None") -> "Remembered":
        """Return what two processes of one site know together."""
        if other is None or other.stood.head.forfeited < self.stood.head.forfeited:
            return self
        if self.stood.head.forfeited < other.stood.head.forfeited or other.evidence is not None:
            return other
        return self if self.evidence is not None or self.stood.head.sequence > other.stood.head.sequence else other


@dataclass(frozen=True)
class Said:
    """What a party said of its ledger, to which question of ours (``None``: we said it ourselves), and how it is signed."""

    statement: bytes
    nonce: bytes | None
    message: bytes = b""
    signature: bytes = b""


class LedgerHeads:
    """What one site knows of everybody's ledger.

    Each party says where its ledger stands under its own signature. A ledger that was set back (restored from a back-up, run
    on a cloned disk) is sound in itself and has forgotten releases. Its party's peers, compute nodes and coordinator remember
    the highest head that they have seen, durably. They accept another one only with a proof that it extends what they remember
    (`colonnade.conversations.memory`). The number of rows alone shows nothing: a ledger that went back grows too.

    *Questions.* A receiver asks with a nonce and with the rows that it remembers (`issue`). The party reads its ledger after
    that, and signs its head over the nonce, with the root that it had at each of these rows and a proof from there. The roots
    that others remember never leave them, so nobody can say them who does not have the rows.

    *Late heads.* Studies run side by side, so heads arrive out of order. An honest ledger stands at least where anybody saw it
    before the question. A party says again which rows it has named lately. So a head that comes late is held against the root
    that a later one gave for its row; it is neither refused nor remembered. It must have been read earlier, too: a ledger that
    went back could otherwise answer questions that were asked before, as if its answer had been under way for long.

    *Bans.* Two signed statements that give one row two roots, or a head below one that was seen before the question, cannot come
    from one ledger that only grew. Both are kept, and the party is refused from then on, until its owner forfeits: a head that
    names a later forfeit, and no smaller total, begins a new history. A proof that is missing, or a question that is not open,
    bans nobody: a coordinator can bring both about.

    Parameters
    ----------
    ledgers
        The identity of each data party's ledger, from the federation's papers.
    path
        Where the highest heads are kept; ``None`` keeps them in memory.
    mine
        Where our own ledger stands, and its roots at earlier rows with proofs; ``None`` at a site without one.
    clock
        A monotonic clock, in seconds: a question is good for an hour.
    """

    def __init__(
        self,
        ledgers: Mapping[str, str],
        path: str | Path | None = None,
        mine: Callable[[Iterable[int]], Statement] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledgers = dict(ledgers)
        self._path = None if path is None else Path(path)
        self._mine = mine
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: Mapping[str, Remembered] = (
            self._read()
        )  # never changed, only replaced: a question keeps the one of its time
        self._roots: dict[str, dict[int, tuple[bytes, SignedHead]]] = {}  # and who said them, in which message
        self._named: OrderedDict[int, None] = OrderedDict()  # rows of our own ledger that we signed lately
        self._issued: OrderedDict[tuple[bytes, bytes], tuple[float, Mapping[str, Remembered]]] = OrderedDict()

    def issue(self, context: bytes) -> bytes:
        """Return a question for one study: a fresh nonce, and the rows that we remember. Its answers are measured by these."""
        nonce = os.urandom(NONCE_BYTES)  # public, and never a second time the same
        with self._lock:
            self._seen = self._with_the_file()
            self._issued[context, nonce] = self._clock(), self._seen
            while len(self._issued) > NONCES:
                self._issued.popitem(last=False)
        return nonce + msgspec.msgpack.encode(self.remembered())

    def remembered(self) -> dict[str, int]:
        """Return the last row that we have seen of every ledger."""
        return {party: known.stood.head.sequence for party, known in sorted(self._seen.items())}

    def own(self, party: str, questions: Mapping[str, bytes]) -> bytes:
        """Return what we say of our own ledger to these questions; nothing at a site without one. Refuse if it has gone back."""
        if self._mine is None:
            return b""
        with self._lock:  # read and noted together: who names a later row also names this one
            known = self._seen.get(party)
            asked = {0 if known is None else known.stood.head.sequence}
            asked |= {_asked(question).get(party, 0) for question in questions.values()}
            statement = self._mine(sorted(asked | {row for row in self._named if row >= min(asked)}))
            try:
                self._measure(party, statement, known)  # read just now, so it is measured by all that we know
            except _Contradiction:
                raise _gone_back(party) from None
            self._named[statement.head.sequence] = None
            self._named.move_to_end(statement.head.sequence)
            while len(self._named) > IN_FLIGHT:
                self._named.popitem(last=False)
        return msgspec.msgpack.encode(statement)

    def observe(self, context: bytes, said: Mapping[str, Said]) -> None:
        """Remember what parties say of their ledgers, durably; refuse one that does not extend what is remembered of it."""
        with self._lock:
            self._seen = self._with_the_file()
            seen = dict(self._seen)
            new: dict[str, tuple[Statement, SignedHead]] = {}
            for party, one in said.items():
                if party not in self._ledgers:
                    continue
                statement = _decoded(party, one.statement)
                signed = SignedHead(statement.head, one.message, one.signature)
                floor = {} if one.nonce is None else self._floor(party, context, one.nonce[:NONCE_BYTES])
                try:
                    higher = self._measure(party, statement, floor.get(party))
                except _Contradiction as found:
                    self._keep({**self._seen, party: Remembered(self._seen[party].stood, (found.stood, signed))})
                    raise _gone_back(party) from None
                if higher:
                    new[party] = statement, signed
                    seen[party] = Remembered(signed)
            self._keep(seen)
            for party, (statement, signed) in new.items():
                self._learn(party, statement, signed)

    def known(self, party: str) -> LedgerHead | None:
        """Return the highest head seen of a party."""
        found = self._seen.get(party)
        return None if found is None else found.stood.head

    def evidence(self, party: str) -> tuple[SignedHead, SignedHead] | None:
        """Return the two signed heads that cannot share one history, if a party is refused for them."""
        found = self._seen.get(party)
        return None if found is None else found.evidence

    def _floor(self, party: str, context: bytes, nonce: bytes) -> Mapping[str, Remembered]:
        """Return what we had seen when we asked."""
        issued = self._issued.get((context, nonce))
        if issued is None or self._clock() - issued[0] > NONCE_LIFE:
            raise _unanswered(party)
        return issued[1]

    def _measure(self, party: str, statement: Statement, floor: Remembered | None) -> bool:
        """Return whether a statement is further on than what we know; refuse one that does not fit it."""
        head = statement.head
        if head.ledger != self._ledgers[party]:
            raise LedgerCorrupt(
                f"Party {party!r} pays from another ledger than the one in the federation's papers.",
                remedy="Have it open the ledger that the papers name; a new one needs new papers, signed by everybody.",
            )
        if not statement.holds():
            raise ProtocolError(f"Party {party!r} gives a proof of its ledger's history that does not hold.")
        known = self._seen.get(party)
        if known is None:
            return True
        if head.forfeited > known.stood.head.forfeited:
            return _mended(party, head, known)
        if known.evidence is not None:
            raise _gone_back(party)
        if floor is not None and _place(head) < _place(floor.stood.head):
            raise _Contradiction(known.stood)
        if head.forfeited < known.stood.head.forfeited:
            raise _unanswered(party)  # under way since before the forfeit
        return self._fits(party, statement, known.stood)

    def _fits(self, party: str, statement: Statement, stood: SignedHead) -> bool:
        said, head = statement.roots(), statement.head
        if not stood.signature and not any(stood.head.root):  # of a version that knew no roots
            return head.sequence >= stood.head.sequence
        roots = {stood.head.sequence: (stood.head.root, stood), **self._roots.get(party, {})}
        for row, root in said.items():
            if row in roots and roots[row][0] != root:
                raise _Contradiction(roots[row][1])
        is_late = head.sequence < stood.head.sequence
        told = head.sequence in roots and head.read <= stood.head.read if is_late else stood.head.sequence in said
        if not told:
            raise ProtocolError(
                f"Party {party!r} does not show that its ledger extends what is remembered of it.",
                remedy="Start the study again.",
            )
        return not is_late and head.sequence > stood.head.sequence

    def _learn(self, party: str, statement: Statement, signed: SignedHead) -> None:
        kept = self._roots.get(party, {})
        if kept and next(iter(kept.values()))[1].head.forfeited != statement.head.forfeited:
            kept = {}
        learnt = {row: (root, signed) for row, root in statement.roots().items()}
        self._roots[party] = dict(sorted({**learnt, **kept}.items())[-MOST_ROOTS:])

    # The file -----------------------------------------------------------------------------------------------------------

    def _with_the_file(self) -> Mapping[str, Remembered]:
        """Return what we know, with what another process of this site has written meanwhile."""
        found = self._read()
        if all(self._seen.get(party) == known for party, known in found.items()):
            return self._seen
        return {**self._seen, **{party: known.joined(self._seen.get(party)) for party, known in found.items()}}

    def _read(self) -> dict[str, Remembered]:
        if self._path is None or not self._path.exists():
            return {}
        try:
            data = self._path.read_bytes()
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, BadInput):
                return msgspec.msgpack.decode(data, type=dict[str, Remembered])
            older = msgspec.msgpack.decode(data, type=dict[str, tuple[str, int, bytes, int]])
            return {
                party: Remembered(SignedHead(LedgerHead(ledger, row, bytes(32), total), b"", b""))
                for party, (ledger, row, _, total) in older.items()
            }
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, BadInput):
            raise LedgerCorrupt(
                "The file of the peers' ledger heads cannot be read.", remedy="Restore it from a back-up."
            ) from None

    def _keep(self, seen: Mapping[str, Remembered]) -> None:
        """Put the new file in place at once, on disk, before anything that depends on it leaves."""
        if seen != self._seen and self._path is not None:
            with replacing(self._path) as file:
                file.write(msgspec.msgpack.encode(seen))
        self._seen = seen


class _Contradiction(Exception):
    """Two signed heads cannot share one history; ``stood`` is the one that was there."""

    def __init__(self, stood: SignedHead) -> None:
        super().__init__()
        self.stood = stood


def addressed(question: bytes, party: str) -> bytes:
    """Return what one party has to know of a question: its nonce, and the row that is remembered of this party's ledger."""
    rows = _asked(question)
    return question[:NONCE_BYTES] + msgspec.msgpack.encode({party: rows[party]} if party in rows else {})


def _asked(question: bytes) -> dict[str, int]:
    """Return the rows that a question names; none if it is not understood, for then no proof can be asked of us."""
    try:
        return msgspec.msgpack.decode(question[NONCE_BYTES:LARGEST_QUESTION], type=dict[str, int])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _place(head: LedgerHead) -> tuple[int, int]:
    return head.forfeited, head.sequence


def _mended(party: str, head: LedgerHead, known: Remembered) -> bool:
    if head.total + ROUNDING < known.total:
        raise LedgerCorrupt(
            f"Party {party!r} has forfeited what its ledger forgot, and its total is below what was seen before.",
            remedy="Have its owner write off at least that: colonnade ledger restore FOLDER --forfeit --spent EPSILON. If its "
            "cap was higher, raise it first: colonnade ledger raise FOLDER.",
        )
    return True


def _decoded(party: str, data: bytes) -> Statement:
    try:
        return msgspec.msgpack.decode(data, type=Statement)
    except (msgspec.MsgspecError, UnicodeDecodeError, BadInput):
        raise ProtocolError(f"Party {party!r} does not say where its ledger stands.") from None


def _unanswered(party: str) -> ProtocolError:
    return ProtocolError(
        f"Party {party!r} says where its ledger stands, but to a question that is not open here.",
        remedy="Start the study again.",
    )


def _gone_back(party: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"The ledger of party {party!r} has gone back: it has forgotten releases.",
        remedy="Stop that party. It is refused until its owner writes off what it forgot: colonnade ledger restore --forfeit.",
    )


ANSWERS = 256
"""Steps, the last ones, whose opened bytes are kept to be sent again without another run. What is opened in several tiles is
kept until the step is concluded, too."""

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
    says the same, and a member that hears or would say anything else stops. All runs of a step together show no more than one
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
                        "UPDATE turns SET answer = NULL WHERE number IN (SELECT turns.number FROM turns JOIN runs USING (step) "
                        "WHERE answer IS NOT NULL AND runs.number <= (SELECT max(number) FROM runs) - ? AND (secret IS NULL "
                        "OR NOT EXISTS (SELECT 1 FROM turns AS more WHERE more.step = turns.step AND more.tile > 0)))",
                        (ANSWERS,),
                    )
                file.execute(f"PRAGMA user_version = {_count(file) + 1}")
            count = _count(file)
        self._remember(count)
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

    def _remember(self, count: int) -> None:
        """Keep beside the file how many turns it has kept, before the last one's answer leaves: an old copy has fewer."""
        if self._path is None:
            return
        try:
            head = os.open(self._head, os.O_CREAT | os.O_WRONLY, 0o600)
            try:
                os.pwrite(head, count.to_bytes(8, "big"), 0)
                os.fsync(head)
            finally:
                os.close(head)
        except OSError:
            raise _unreadable() from None

    @property
    def _head(self) -> Path:
        assert self._path is not None  # only asked where there is one
        return self._path.with_name(f"{self._path.name}.head")

    def _refuse_set_back(self, file: sqlite3.Connection, *, new: bool) -> None:
        seen = int.from_bytes(self._head.read_bytes(), "big") if self._head.exists() else 0
        if new:  # it knows no step, and so goes on with none that was begun
            file.execute(f"PRAGMA user_version = {seen}")
        elif _count(file) < seen:
            raise LedgerCorrupt(
                "The record of what this member has said has gone back: it was restored from a copy.",
                remedy="Delete that member's openings.sqlite. Steps that were under way are lost; run those studies again "
                "with the next repeat=.",
            )

    @contextlib.contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            yield self._memory
            return
        assert self._path is not None  # one of the two is given
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            new = self._path.stat().st_size == 0
            with contextlib.closing(sqlite3.connect(self._path, timeout=30.0)) as file:
                file.executescript(
                    "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; PRAGMA secure_delete = ON;"
                )
                self._refuse_set_back(file, new=new)
                yield file
        except (sqlite3.Error, OSError):
            raise _unreadable() from None


def _count(file: sqlite3.Connection) -> int:
    """Return how many turns a file has kept, those that it has forgotten since among them."""
    return int(file.execute("PRAGMA user_version").fetchone()[0])


def _unreadable() -> LedgerCorrupt:
    return LedgerCorrupt(
        "What this member has said cannot be kept or read; nothing was opened.",
        remedy="Make room on that member's disk. If openings.sqlite is damaged, delete it and never restore a copy: steps that "
        "were under way are lost.",
    )


def _step_key(plan: bytes, step: str) -> bytes:
    return digest("colonnade opened step v1", plan, step)
