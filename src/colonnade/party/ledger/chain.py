"""The rows of a ledger's file as one verified chain: read, found, appended to, and never changed.

*State.* A `LedgerState` is made by folding verified rows, one by one. The same code checks the whole file when it is opened
and, before each call, the rows that were appended since, by this process or by another. The state is a cache of a verified
prefix. It is never written from memory: it says nothing that the file does not.

*Plans.* A plan is handed over before its first row (`KeptPlans.hand_over`) and written in the transaction of that row. So the
file holds no plan without a row, and no row without its plan. Rows hold the hashes and are chained; verification compares
both tables with them.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any  # the latter is what SQLite returns

import msgspec

from colonnade.conversations.memory import Earlier, History
from colonnade.errors import BadInput, LedgerCorrupt, ProtocolError
from colonnade.party.ledger import rows
from colonnade.party.ledger.decisions import Forfeit, read_decision
from colonnade.party.ledger.file import LedgerFile
from colonnade.party.ledger.rows import Entry, Facts, Kind
from colonnade.plan import About
from colonnade.privacy.accounting import LOSS_BYTES, NOTHINGS, RENYI_GRID, Budget, Loss
from colonnade.protocol import messages

if TYPE_CHECKING:
    from colonnade.party.ledger.ledger import SqliteLedger


def first_row(genesis: rows.Genesis, written: int) -> Facts:
    """Return the row with which a ledger begins."""
    detail = msgspec.json.encode(genesis).decode()
    return Facts(0, "genesis", None, None, "genesis", written, None, None, None, detail, None, rows.BEFORE_THE_FIRST)


def folded(stored: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Facts, "LedgerState"]]:
    """Check rows one by one, each given as its facts, hash, seed, answer's hash and answer; yield what they add up to."""
    state: LedgerState | None = None
    for *row, digest, seed, kept, answer in stored:
        facts = Facts(*row)
        state = LedgerState.begin(facts, digest) if state is None else state.then(facts, digest)
        rows.check_kept(facts, digest, seed, kept, answer)
        yield facts, state


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What a verified run of rows adds up to."""

    genesis: rows.Genesis
    cap: rows.Ceiling
    sequence: int
    hash: bytes
    total: Loss
    version: int | None = None
    """The data version declared last."""
    used: int = 0
    """The highest data version that may ever have been declared, also in rows that are lost."""
    salt: bytes = b""
    """Under which peers are shown rows; none until an older ledger is migrated."""
    forfeited: int = 0
    """When the owner last wrote off what was forgotten."""
    restored: bool = False
    """Whether that was after the last version was declared, and nothing was asked since."""

    @classmethod
    def begin(cls, facts: Facts, stored_hash: object) -> "LedgerState":
        """Check the first row."""
        digest = rows.check_hash(facts, stored_hash)
        if (facts.sequence, facts.kind, facts.previous) != (0, "genesis", rows.BEFORE_THE_FIRST):
            raise rows.corrupt(0)
        try:
            genesis = msgspec.json.decode(facts.detail or "", type=rows.Genesis)
            salt = _salt(genesis.salt)
        except (msgspec.MsgspecError, BadInput):
            raise rows.corrupt(0) from None
        if genesis.format != rows.FORMAT or genesis.grid not in LOSS_BYTES:
            raise LedgerCorrupt(
                "This ledger has another format or another grid of orders; nothing was released.",
                remedy="Open it with the version that wrote it: losses on different grids cannot be added.",
            )
        return cls(genesis, genesis.cap, 0, digest, NOTHINGS[genesis.grid], salt=salt)

    def then(self, facts: Facts, stored_hash: object) -> "LedgerState":
        """Check the next row and add it. The caller asks for `within_cap` after the last one."""
        digest = rows.check_hash(facts, stored_hash)
        if (facts.sequence, facts.previous) != (self.sequence + 1, self.hash):
            raise rows.corrupt(self.sequence + 1)
        try:
            after = self._after(facts)
        except (msgspec.MsgspecError, BadInput):
            raise rows.corrupt(facts.sequence) from None
        restored = (
            after.restored and facts.request is None
        )  # once it has answered, a version says nothing about rows again
        return dataclasses.replace(after, sequence=facts.sequence, hash=digest, restored=restored)

    def _after(self, facts: Facts) -> "LedgerState":
        if facts.kind == "migrated":
            return self._migrated(facts)
        if facts.kind == "version" and facts.version is not None and facts.version > (self.version or 0):
            used = max(self.used, facts.version)
            return dataclasses.replace(self, version=facts.version, used=used, restored=False)
        if facts.version not in (None, self.version):
            raise rows.corrupt(facts.sequence)
        if facts.kind in rows.CHARGED and facts.loss is not None:
            loss = rows.read_loss(facts.loss)
            if (loss.gaussian is None) != (self.genesis.grid == RENYI_GRID):
                raise rows.corrupt(facts.sequence)
            if rows.least_entry(loss) < 1 or (facts.least, facts.pure) != (rows.least_entry(loss), loss.pure):
                raise rows.corrupt(facts.sequence)
            return dataclasses.replace(self, total=self.after(loss, facts.plan))
        if facts.kind == "cap":
            decision = read_decision(facts.detail)
            if decision is not None and decision.signer(self.genesis.ledger) is None:
                raise rows.corrupt(facts.sequence)
            cap = rows.ceiling_of(facts.detail) or self.cap
            # totals only grow: within the cap here means within it at every row since the cap was set
            if not (self.cap.holds(self.total) and cap.holds(self.total)):
                raise rows.corrupt(facts.sequence)
            if isinstance(decision, Forfeit):
                return self._written_off(decision)
            return dataclasses.replace(self, cap=cap)
        if facts.kind in rows.COSTLESS:
            return self
        raise rows.corrupt(facts.sequence)

    def _written_off(self, decision: Forfeit) -> "LedgerState":
        if decision.when <= self.forfeited:
            raise rows.corrupt(self.sequence + 1)
        used = max(self.used, decision.version)
        return dataclasses.replace(self, forfeited=decision.when, used=used, restored=True)

    def _migrated(self, facts: Facts) -> "LedgerState":
        pinned = msgspec.json.decode(facts.detail or "", type=rows.Migrated)
        salt = _salt(pinned.salt)
        if not salt or self.salt or msgspec.structs.replace(pinned, salt="") != self.pinned:
            raise rows.corrupt(facts.sequence)
        return dataclasses.replace(self, salt=salt)

    def after(self, loss: Loss, plan: bytes | None) -> Loss:
        """Return the total with one more row."""
        return self.total + rows.of_its_plan(loss, plan, self.sequence + 1)

    def within_cap(self) -> "LedgerState":
        """Refuse a ledger that has spent more than its cap."""
        if not self.cap.holds(self.total):
            raise rows.corrupt(self.sequence)
        return self

    @property
    def pinned(self) -> rows.Migrated:
        """What the row of a migration says about all rows before it."""
        return rows.Migrated(rows.FORMAT, self.sequence, self.hash.hex())

    @property
    def nano(self) -> int:
        """The total ε at the cap's δ in nano-units, rounded up."""
        nano = _certified(self.total, self.total.plan, self.cap.delta)
        assert nano is not None  # a total without any ε at this δ is not within the cap
        return nano

    def row(
        self,
        kind: Kind,
        written: int,
        label: str,
        *,
        request: bytes | None = None,
        body: bytes | None = None,
        loss: Loss | None = None,
        detail: str | None = None,
        seed: bytes | None = None,
        together: bool = False,
        event_level: bool = False,
        plan: bytes | None = None,
        about: bytes | None = None,
        version: int | None = None,
    ) -> Facts:
        """Return the row that comes next."""
        pure, least, curve = (
            (None, None, None)
            if loss is None
            else (loss.pure, rows.least_entry(loss), loss.to_bytes(self.genesis.grid))
        )
        kept = None if seed is None or request is None else rows.seed_hash(request, seed)
        return Facts(
            self.sequence + 1,
            kind,
            request,
            body,
            label,
            written,
            pure,
            least,
            curve,
            detail,
            kept,
            self.hash,
            int(together),
            int(event_level),
            plan,
            about,
            version,
        )


def _salt(text: str) -> bytes:
    try:
        salt = bytes.fromhex(text)
    except ValueError:
        salt = text.encode()
    if len(salt) not in (0, 32):
        raise BadInput("A salt is 32 bytes.")
    return salt


@lru_cache(maxsize=64)
def _certified(total: Loss, plan: bytes | None, delta: float) -> int | None:  # noqa: ARG001  # equal totals may be of several plans
    """Every message says where the ledger stands, and most of them find it where it was."""
    return total.nano_epsilon(delta)


MOST_AT_HAND = 64
LARGEST_PLAN = 2**26
"""Bytes of one plan, and of all plans that were handed over and have no row yet: nobody fills a party's memory with them."""


@dataclass(frozen=True, slots=True)
class _PendingPlan:
    content: bytes
    about: About | None


class KeptPlans:
    """The tables ``plans`` and ``abouts`` of one ledger. All but `hand_over` run inside a transaction of the caller.

    Parameters
    ----------
    file
        The ledger's file.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._at_hand: OrderedDict[bytes, _PendingPlan] = OrderedDict()

    def hand_over(self, digest: bytes, content: bytes, about: About | None) -> None:
        """Take a plan, to be written with the first row that refers to it. Words once said stay unless new ones are."""
        if type(content) is not bytes or len(content) > LARGEST_PLAN or messages.plan_digest(content) != digest:
            raise BadInput("A plan is kept under the hash of its canonical bytes.")
        earlier = self._at_hand.pop(digest, None)
        if about is None and earlier is not None:
            about = earlier.about
        self._at_hand[digest] = _PendingPlan(content, about)
        while len(self._at_hand) > 1 and (len(self._at_hand) > MOST_AT_HAND or self._held() > LARGEST_PLAN):
            self._at_hand.popitem(last=False)

    def _held(self) -> int:
        return sum(len(one.content) for one in self._at_hand.values())

    def said(self, digest: bytes) -> About | None:
        """Return what was said last about a study that was handed over."""
        at_hand = self._at_hand.get(digest)
        return None if at_hand is None else at_hand.about

    def refer(self, terms: rows.RowTerms, current: int | None) -> bytes | None:
        """Make ready what a row refers to: its plan, and what was said about it; return the hash of the latter."""
        version, plan = terms.get("version"), terms.get("plan")
        if version is not None and version != current:
            raise ProtocolError("Another data version is the current one.", remedy="Ask about the current version.")
        return None if plan is None else self._write(plan)

    def _write(self, digest: bytes) -> bytes | None:
        at_hand = self._at_hand.get(digest)
        if self._file.run("SELECT 1 FROM plans WHERE hash = ?", (digest,)).fetchone() is None:
            if at_hand is None:
                raise BadInput("A row refers to a plan that was not handed over.", remedy="Call keep_plan before.")
            self._file.run("INSERT INTO plans (hash, content) VALUES (?, ?)", (digest, at_hand.content))
        if at_hand is None or at_hand.about is None:
            return None
        about, named = at_hand.about, rows.about_hash(at_hand.about)
        if self._file.run("SELECT 1 FROM abouts WHERE hash = ?", (named,)).fetchone() is None:
            self._file.run(
                "INSERT INTO abouts (hash, title, purpose, requester, signature) VALUES (?, ?, ?, ?, ?)",
                (named, about.title, about.purpose, about.requester, about.signature),
            )
        return named

    def read(self, digest: bytes) -> bytes | None:
        """Return a plan's canonical bytes; refuse one that was changed."""
        row = self._file.run("SELECT content FROM plans WHERE hash = ?", (digest,)).fetchone()
        if row is None:
            return None
        if type(row[0]) is not bytes or messages.plan_digest(row[0]) != digest:
            raise LedgerCorrupt("A plan in the ledger is not the one that its rows refer to; nothing was released.")
        content: bytes = row[0]
        return content

    def abouts(self) -> dict[bytes, About]:
        """Return everything that was said about studies, by its hash; refuse what was changed."""
        found = {}
        for digest, *words in self._file.run("SELECT hash, title, purpose, requester, signature FROM abouts"):
            try:
                about = About(title=words[0], purpose=words[1], requester=words[2], signature=words[3])
                sound = rows.about_hash(about) == digest
            except (BadInput, TypeError, AttributeError):
                sound = False
            if not sound:
                raise LedgerCorrupt("What was said about a study was changed in the ledger; nothing was released.")
            found[digest] = about
        return found

    def verify(self, plans: set[bytes | None], abouts: set[bytes | None]) -> None:
        """Refuse tables that do not hold exactly what the rows refer to (``None`` where a row refers to nothing)."""
        kept = {digest for (digest,) in self._file.run("SELECT hash FROM plans").fetchall()}
        if kept != plans - {None} or self.abouts().keys() != abouts - {None}:
            raise LedgerCorrupt("Plans were added to the ledger, or taken out of it; nothing was released.")
        for digest in kept:
            self.read(digest)


class RowChain:
    """The rows of one ledger. Every method runs inside a transaction of the caller.

    Parameters
    ----------
    file
        The ledger's file.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._state: LedgerState | None = None
        self._last: list[tuple[Any, ...]] = []  # the last known row, as it was when it was verified
        self._history = History()
        self.plans = KeptPlans(file)

    @property
    def known(self) -> LedgerState:
        """What the rows added up to when they were last read."""
        assert self._state is not None  # a ledger is verified before it is handed out
        return self._state

    def verify(self) -> None:
        """Check the whole file: its pages, its schema, every row, answer and plan; refuse it if anything is amiss."""
        self._file.check()
        state: LedgerState | None = None
        anchored = self._state is None
        plans: set[bytes | None] = {None}
        abouts: set[bytes | None] = {None}
        every = f"SELECT {rows.FACTS}, hash, seed, answer_hash, answer FROM entries ORDER BY sequence"  # noqa: S608
        for facts, state in folded(self._file.run(every)):
            plans.add(facts.plan)
            abouts.add(facts.about)
            anchored = anchored or (self._state is not None and self._state.hash == state.hash)
        if state is None or not anchored:
            raise rows.corrupt(0 if self._state is None else self._state.sequence)
        self.plans.verify(plans, abouts)
        self._state, self._history = state.within_cap(), History()

    def catch_up(self) -> LedgerState:
        """Verify and add the rows appended since, and that the last known row is still there."""
        state = self.known
        found = self._file.run(
            f"SELECT {rows.FACTS}, hash FROM entries WHERE sequence >= ? ORDER BY sequence",  # noqa: S608
            (state.sequence,),
        ).fetchall()
        if found and found == self._last:
            return state  # every request asks several times, and mostly there is nothing new
        if not found or rows.check_hash(Facts(*found[0][:-1]), found[0][-1]) != state.hash:
            raise rows.corrupt(state.sequence)
        for row in found[1:]:
            state = state.then(Facts(*row[:-1]), row[-1])
        self._state, self._last = state.within_cap(), found[-1:]
        return state

    def find(self, request_id: bytes) -> tuple[Facts, bytes | None, bytes | None] | None:
        """Return the row of a request, with its seed and its answer; refuse one that was changed."""
        row = self._file.run(
            f"SELECT {rows.FACTS}, hash, seed, answer_hash, answer FROM entries WHERE request = ?",  # noqa: S608
            (request_id,),
        ).fetchone()
        if row is None:
            return None
        facts, (digest, seed, kept, answer) = Facts(*row[:-4]), row[-4:]
        rows.check_kept(facts, rows.check_hash(facts, digest), seed, kept, answer)
        return facts, seed, answer

    def knows(self, request_id: bytes) -> bool:
        """Return whether a row stands under this id."""
        return self._file.run("SELECT 1 FROM entries WHERE request = ?", (request_id,)).fetchone() is not None

    def head(self) -> rows.Head:
        """Return where the ledger stands (after `catch_up`)."""
        state = self.known
        root = self._grown().root()
        return rows.Head(state.genesis.ledger, state.sequence, state.hash, state.nano, root, state.forfeited)

    def earlier(self, since: Iterable[int]) -> tuple[Earlier, ...]:
        """Return the roots at earlier rows, each with the proof that all rows up to now extend it (after `catch_up`)."""
        history = self._grown()
        asked = sorted({row for row in since if 0 <= row < self.known.sequence})
        return tuple(Earlier(row, history.root(row + 1), history.proof(row + 1)) for row in asked)

    def root_of(self, sequence: int) -> bytes | None:
        """Return the root at one row (after `catch_up`)."""
        return self._grown().root(sequence + 1) if 0 <= sequence <= self.known.sequence else None

    def _grown(self) -> History:
        """Return the tree of all rows; those that were appended since are added, each at the cost of a few hashes."""
        state, history, last = self.known, self._history, b""
        if len(history) <= state.sequence:
            query = "SELECT hash FROM entries WHERE sequence BETWEEN ? AND ? ORDER BY sequence"
            for (last,) in self._file.run(query, (len(history), state.sequence)):
                history.append(rows.row_digest(state.salt, last))
            if last != state.hash or len(history) != state.sequence + 1 or not state.salt:
                raise rows.corrupt(state.sequence)
        return history

    def hash_of(self, sequence: int) -> bytes | None:
        """Return the hash of one row."""
        row = self._file.run("SELECT hash FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        return None if row is None else row[0]

    def entries(self, after: int = -1) -> list[Entry]:
        """Return the rows after one, all of them by default, for reading."""
        abouts = self.plans.abouts()
        found = self._file.run(
            f"SELECT {rows.FACTS}, answer IS NOT NULL FROM entries WHERE sequence > ? ORDER BY sequence",  # noqa: S608
            (after,),
        )
        entries = ((Facts(*row[:-1]), bool(row[-1])) for row in found)
        return [rows.as_entry(facts, sealed, abouts.get(facts.about or b"")) for facts, sealed in entries]

    def append(self, facts: Facts, seed: bytes | None = None) -> None:
        """Write the next row."""
        places = ", ".join("?" * (len(facts) + 2))
        self._file.run(
            f"INSERT INTO entries ({rows.FACTS}, hash, seed) VALUES ({places})",  # noqa: S608
            (*facts, rows.row_hash(facts), seed),
        )

    def answer(self, facts: Facts, answer: bytes) -> None:
        """Write the answer into its row, and erase the seed."""
        self._file.run(
            "UPDATE entries SET seed = NULL, answer_hash = ?, answer = ? WHERE sequence = ?",
            (rows.answer_hash(rows.row_hash(facts), answer), answer, facts.sequence),
        )


class LedgerView:
    """What may be read of a party's ledger from outside the gate. No row can be written through it."""

    def __init__(self, ledger: "SqliteLedger") -> None:
        self.identity = ledger.identity
        # read when it is asked for: every request looks at the ledger, and few at the cap
        self._budget: Callable[[], Budget] = lambda: ledger.budget
        self.head = ledger.head
        self.shown = ledger.shown
        self.spent = ledger.spent
        self.remember_head = ledger.remember_head
        self.refuse_set_back = ledger.refuse_set_back
        self.now = ledger.now
        self.path = ledger.path
        self.plan = ledger.plan
        self._entries = ledger.entries

    @property
    def budget(self) -> Budget:
        """The cap in force."""
        return self._budget()

    def entries(self, after: int = -1) -> list[Entry]:
        """Return the rows after one, all of them by default."""
        return list(self._entries(after))
