"""The ledger: what a party has ever released about its people, paid for before it leaves, kept so that it leaves once.

Invariants (`tests/party/test_ledger.py` has a test named after each):

1. *A release implies an earlier durable debit.* An answer is kept in the row of its debit, and the row comes first.
2. *The sum of debits never exceeds the cap, in any reachable state.* The total is read, compared and added to in one
   transaction that locks out every other writer.
3. *Same request: same bytes, no new debit.* Another body under the same id is refused.
4. *A debit never decreases and is never refunded.* Rows are appended; the database itself refuses anything else.
5. *Any error refuses and says what was spent.* After a failed write the object refuses everything.

A crash between debit and seal loses nothing: the row keeps the seed of the noise, from which the same answer is drawn again.

Holds: what a party sets aside for studies to which it is about to say yes, or has said yes, and which are not paid yet.

A hold is no row of the chain and no debit. It stands in a table of its own in the ledger's file, so that a restart keeps it. It
names the plan, who asked, and every step of this party with its loss. A step that has a row by now holds nothing any more.

*When they end.* A party pays for a plan until `DEBITS_END` after it issued the nonce that all yeses of that plan answer. Its own
hold lasts `MARGIN` longer, counted from its own yes, which came after everybody's nonce. So a party that still pays does so while
everybody else still holds. All of it is measured by each party's own clock: only durations count, and the margin is for clocks
that go at another pace. A hold without a yes lasts `UNSIGNED`.

*Limits.* There are `MOST_STUDIES` open holds at most, and `MOST_OF_ONE` of one requester. A requester's first study may hold all
that is left; once it has one, all its holds together have half of what is left at most. So nobody exhausts a cap by asking for
many studies. Only what costs something counts. A refusal for any of these reads like one for the cap.

*Whose turn it is.* A requester that has been asking for longer than a hold lasts (`_LASTS`) has had its turn: what is held for
it, and has no row yet, gives way to another requester's study that would not fit otherwise. A plan that has begun is left for
`UNSIGNED`, so that others do not pay in vain. Asking again, signing again and withdrawing do not lengthen a turn; asking for
nothing for so long ends it. So nobody exhausts a cap, or the number of alignments, by asking again and again.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, Unpack

import msgspec

from colonnade.conversations.memory import Earlier
from colonnade.errors import BadInput, BudgetExceeded, LedgerCorrupt, ProtocolError, ReleaseLost
from colonnade.party.ledger import rows
from colonnade.party.ledger.chain import LedgerState, RowChain, first_row
from colonnade.party.ledger.decisions import CapDecision, Decision
from colonnade.party.ledger.file import HeadMemory, LedgerFile
from colonnade.party.ledger.rows import FORMAT, Ceiling, Entry, Head, Kind, RowTerms
from colonnade.plan import About
from colonnade.privacy.accounting import GRID, LEAST, NANO, NOTHING, Budget, Loss, largest_offer, total

SECOND = 1_000_000  # the ledger counts microseconds
DEBITS_END = 3_600 * SECOND
"""For how long a plan is paid for, after its nonce was issued."""
MARGIN = 600 * SECOND
"""How much longer a hold lasts than anybody pays."""
UNSIGNED = 600 * SECOND
"""How long a hold lasts to which no yes was said."""
_LASTS = DEBITS_END + MARGIN
MOST_STUDIES = 64
MOST_OF_ONE = 16
MOST_ROWS = 256
"""Holds that are kept, also those that no longer hold anything open."""


@dataclass(frozen=True)
class Hold:
    """What is held for one study.

    Parameters
    ----------
    plan
        The hash of its plan.
    requester, purpose
        Who asked, and what for.
    steps
        The loss of each of this party's steps, by the id of the request; ``None`` for one without a price.
    aligns
        Whether it is an attempt to align rows.
    """

    plan: bytes
    requester: str
    purpose: str
    steps: Mapping[bytes, Loss | None]
    aligns: bool = False

    @property
    def loss(self) -> Loss:
        """What all its steps cost."""
        return total(loss for loss in self.steps.values() if loss is not None).of_plan(self.plan)


class Holds:
    """The table ``holds`` of one ledger. Every method runs inside a transaction of the caller.

    Parameters
    ----------
    file
        The ledger's file.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def open(self, now: int, spent: Loss, *, but: bytes = b"") -> list[Hold]:
        """Return what is held for other studies than one, each with the steps that have no row yet."""
        found = self._file.run(
            "SELECT plan, requester, purpose, aligns, steps FROM holds WHERE held > ? AND plan <> ? ORDER BY made",
            (now, but),
        ).fetchall()
        holds = []
        for plan, requester, purpose, aligns, steps in found:
            unpaid = self._due(plan, _read(steps), spent)
            if unpaid:
                holds.append(Hold(plan, requester, purpose, unpaid, bool(aligns)))
        return holds

    def of_plan(self, plan: bytes | None, spent: Loss) -> tuple[Hold, Hold] | None:
        """Return what is held for a plan, and the same with the steps that have no row yet; ``None`` if nothing is."""
        found = self._file.run("SELECT requester, purpose, aligns, steps FROM holds WHERE plan = ?", (plan,)).fetchone()
        if plan is None or found is None:
            return None
        whole = Hold(plan, found[0], found[1], _read(found[3]), bool(found[2]))
        return whole, replace(whole, steps=self._due(plan, whole.steps, spent))

    def giving_way(self, to: str, now: int) -> set[bytes]:
        """Return the plans of other requesters that give way to this one: they have had their turn and have no row yet."""
        found = self._file.run(
            "SELECT plan, steps FROM holds JOIN turns USING (requester) WHERE requester <> ? AND since <= ? "
            "AND (payable <= ? OR made <= ?) AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.plan = holds.plan)",
            (to, now - _LASTS, now, now - UNSIGNED),
        ).fetchall()
        return {plan for plan, steps in found if len(self._unpaid(_read(steps))) == len(_read(steps))}

    def room(self, hold: Hold, cap: rows.Ceiling, spent: Loss, now: int) -> tuple[float | None, set[bytes]]:
        """Return how much ε is left for this study where it does not fit beside the others, else ``None``; and what gives way."""
        cost = replace(hold, steps=self._due(hold.plan, hold.steps, spent)).loss
        others, late = self.open(now, spent, but=hold.plan), self.giving_way(hold.requester, now)
        ended = {one.plan for one in others if one.aligns and one.plan in late} if hold.aligns else set()
        left = _lacking(hold.requester, cost, [one for one in others if one.plan not in ended], cap, spent)
        if left is not None and late:
            ended = late
            left = _lacking(hold.requester, cost, [one for one in others if one.plan not in late], cap, spent)
        return left, ended

    def make(self, hold: Hold, now: int) -> None:
        """Hold, until a yes is said or a while has passed; one that is there stays as long as it would."""
        steps = msgspec.msgpack.encode(
            {key: None if one is None else one.to_bytes() for key, one in hold.steps.items()}
        )
        self._file.run("DELETE FROM holds WHERE held <= ?", (now,))
        self._file.run(
            "INSERT INTO holds (plan, requester, purpose, aligns, steps, made, held, payable) VALUES (?, ?, ?, ?, ?, ?, ?, 0) "
            "ON CONFLICT (plan) DO UPDATE SET payable = CASE WHEN requester = excluded.requester AND "
            "purpose = excluded.purpose THEN payable ELSE 0 END, requester = excluded.requester, "
            "purpose = excluded.purpose, steps = excluded.steps, held = max(held, excluded.held)",
            (hold.plan, hold.requester, hold.purpose, int(hold.aligns), steps, now, now + UNSIGNED),
        )
        self._file.run("DELETE FROM turns WHERE asked <= ?", (now - _LASTS,))
        if hold.aligns or any(self._unpaid(hold.steps).values()):
            self._file.run(
                "INSERT INTO turns VALUES (?, ?, ?) ON CONFLICT (requester) DO UPDATE SET asked = excluded.asked",
                (hold.requester, now, now),
            )
        self._end_spare(hold.requester, now)

    def _end_spare(self, requester: str, now: int) -> None:
        """End rows beyond a limit. Of those that hold nothing of the cap, the requester's own oldest go first."""
        counted = {one.plan for one in self.open(now, NOTHING) if one.loss != NOTHING}
        found = self._file.run("SELECT plan, requester FROM holds ORDER BY made DESC, rowid DESC").fetchall()
        own = [plan for plan, of in found if plan not in counted and of == requester][MOST_STUDIES:]
        spare = [plan for plan, _ in found if plan not in counted and plan not in own]
        for plan in (*own, *spare[MOST_ROWS - len(counted) :]):
            self.end(plan)
        self._file.run(
            "DELETE FROM turns WHERE requester NOT IN (SELECT requester FROM turns ORDER BY since LIMIT ?)",
            (MOST_ROWS,),
        )

    def sign(self, plan: bytes, now: int) -> bool:
        """Hold for as long as anybody may pay who hears our yes of now; return whether anything is held."""
        found = self._file.run("UPDATE holds SET held = ? WHERE plan = ? AND held > ?", (now + _LASTS, plan, now))
        self._file.run(
            "UPDATE turns SET asked = ? WHERE requester = (SELECT requester FROM holds WHERE plan = ?)", (now, plan)
        )
        return found.rowcount == 1

    def begin(self, plan: bytes, issued: int, now: int) -> bool:
        """Let a plan be paid for until so long after its nonce was issued; return whether anything is held."""
        found = self._file.run(
            "UPDATE holds SET payable = max(payable, ?) WHERE plan = ? AND held > ?", (issued + DEBITS_END, plan, now)
        )
        return found.rowcount == 1

    def is_payable(self, plan: bytes, requester: str, purpose: str, now: int) -> bool:
        """Return whether a plan may be paid for now, for the one who asked."""
        query = "SELECT 1 FROM holds WHERE plan = ? AND requester = ? AND purpose = ? AND payable > ? AND held > ?"
        return self._file.run(query, (plan, requester, purpose, now, now)).fetchone() is not None

    def begun(self, now: int, spent: Loss) -> Loss:
        """Return what is still to be paid for plans that everybody has said yes to."""
        found = self._file.run("SELECT plan FROM holds WHERE payable > ?", (now,)).fetchall()
        return total(one.loss for one in self.open(now, spent) if (one.plan,) in found)

    def withdraw(self, plan: bytes, now: int) -> None:
        """Hold nothing for a plan any more, unless it may be paid for now: others rest on our yes."""
        self._file.run("DELETE FROM holds WHERE plan = ? AND (payable <= ? OR held <= ?)", (plan, now, now))

    def end(self, plan: bytes) -> None:
        """Hold nothing for a plan any more."""
        self._file.run("DELETE FROM holds WHERE plan = ?", (plan,))

    def end_all(self) -> None:
        """Hold nothing any more: another version of the data was declared."""
        self._file.run("DELETE FROM holds")
        self._file.run("DELETE FROM turns")

    def _due(self, plan: bytes, steps: Mapping[bytes, Loss | None], spent: Loss) -> dict[bytes, Loss | None]:
        """Return what the steps without a row will be charged: the least, where a first row has paid for the whole plan."""
        unpaid = self._unpaid(steps)
        priced = [loss for loss in unpaid.values() if loss is not None]
        whole = total(loss for loss in steps.values() if loss is not None)
        if priced and spent.plan == plan and spent.covers(whole.less(LEAST, len(priced))):
            return {request: None if loss is None else LEAST for request, loss in unpaid.items()}
        return unpaid

    def _unpaid(self, steps: Mapping[bytes, Loss | None]) -> dict[bytes, Loss | None]:
        known = "SELECT 1 FROM entries WHERE request = ?"
        return {
            request: loss for request, loss in steps.items() if self._file.run(known, (request,)).fetchone() is None
        }


def _admits(cap: rows.Ceiling, whole: Loss) -> bool:
    """Return whether a total fits a cap as part of what several plans cost, or alone, as a row can say it."""
    return cap.holds(whole.followed_by_others()) or cap.holds(whole.as_kept())


def _lacking(requester: str, cost: Loss, others: list[Hold], cap: rows.Ceiling, spent: Loss) -> float | None:
    """Return how much ε is left where a study of this requester does not fit beside these; ``None`` where it does."""
    if cost == NOTHING:
        return None
    mine = [one.loss for one in others if one.requester == requester and one.loss != NOTHING]
    theirs = [one.loss for one in others if one.requester != requester and one.loss != NOTHING]
    if len(mine) + len(theirs) >= MOST_STUDIES or len(mine) >= MOST_OF_ONE:
        return 0.0
    before, own = spent + total(theirs), total(mine)
    if not _admits(cap, before + own + cost):
        return _left(cap.nano, before + own, cap.delta)
    half = (cap.nano - (before.nano_epsilon(cap.delta) or 0)) // 2
    if mine and not (own + cost).fits(half, cap.delta):
        return _left(half, own, cap.delta)
    return None


def _read(steps: bytes) -> Mapping[bytes, Loss | None]:
    try:
        found = msgspec.msgpack.decode(steps, type=dict[bytes, bytes | None])
        return {key: None if loss is None else rows.read_loss(loss) for key, loss in found.items()}
    except (msgspec.MsgspecError, BadInput):
        raise LedgerCorrupt("What is held for a study was changed in the ledger; nothing was released.") from None


def _left(nano: int, of: Loss, delta: float) -> float:
    return max(nano - (of.nano_epsilon(delta) or 0), 0) / NANO


LARGEST_ANSWER = 2**28
YEAR_10000 = 253_402_300_800
LARGEST_VERSION = 2**31
SALT = 32


class SqliteLedger:
    """A ledger in one SQLite file; see the module for its invariants. Made by `create` or `open`.

    Threads may share one, and processes may open the same file. Every method refuses with a `ColonnadeError`.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SqliteLedger.create(folder.name + "/bank.ledger", party="bank", budget=Budget(epsilon=1.0)) as ledger:
    ...     ledger.debit(b"first question", bytes(32), Loss.of_pure(250_000_000), label="histogram")
    ...     ledger.seal(b"first question", b"noisy counts")
    ...     ledger.answer_to(b"first question", bytes(32))
    ...     ledger.remaining()
    1
    b'noisy counts'
    b'noisy counts'
    0.75
    >>> folder.cleanup()
    """

    def __init__(self, file: LedgerFile, clock: Callable[[], float]) -> None:
        self._file = file
        self.path = file.path
        self._clock = clock
        self._chain = RowChain(file)
        self._holds = Holds(file)
        self._memory = HeadMemory(file.path)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        party: str,
        budget: Budget,
        test: bool = False,
        clock: Callable[[], float] = time.time,
        patience: float = 30.0,
    ) -> Self:
        """Create a ledger; refuse if there is one at this path.

        Parameters
        ----------
        path
            The file, in a folder that exists. It is created for this user alone.
        party
            Whose ledger it is, for good.
        budget
            The cap.
        test
            Whether this is a ledger for tests, for good: only such a one accepts deterministic randomness.
        clock
            Seconds since 1970, for the time written in each row.
        patience
            Seconds to wait for another process that is writing.
        """
        if type(test) is not bool:
            raise BadInput("test is True or False.")
        genesis = rows.Genesis(
            FORMAT,
            GRID,
            os.urandom(16).hex(),
            rows.checked_name(party, "party"),
            test,
            Ceiling.of(budget),
            os.urandom(SALT).hex(),
        )
        first = first_row(genesis, _now(clock))
        HeadMemory(Path(path)).check(lambda _: False)  # a ledger was here: a new one would forget what was spent
        ledger = cls(LedgerFile.make(path, patience=patience), clock)
        try:
            with ledger._file.writing():
                ledger._file.lay_out()
                ledger._chain.append(first)
            ledger.verify()
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        party: str | None = None,
        clock: Callable[[], float] = time.time,
        patience: float = 30.0,
    ) -> Self:
        """Open a ledger and verify all of it; refuse one that is damaged, set back, or not this party's.

        A ledger of 0.2.0 gets its salt, and the table of holds.
        """
        ledger = cls(LedgerFile(path, patience=patience), clock)
        try:
            ledger._add_tables()
            ledger.verify()
            ledger._require_salt()
            ledger.refuse_set_back()
            if party is not None and ledger.party != party:
                raise LedgerCorrupt("This ledger belongs to another party; nothing was released.")
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _add_tables(self) -> None:
        with self._file.reading():
            lacking = self._file.run("PRAGMA user_version").fetchone()[0] == FORMAT and self._file.missing()
        if lacking:
            self._file.add_tables()

    def _require_salt(self) -> None:
        """Add the salt to a ledger of before peers were shown roots, by a row of its own."""
        if self._chain.known.salt:
            return
        with self._file.writing():
            state = self._chain.catch_up()
            if not state.salt:  # unless another process was quicker
                pinned = msgspec.structs.replace(state.pinned, salt=os.urandom(SALT).hex())
                detail = msgspec.json.encode(pinned).decode()
                self._chain.append(state.row("migrated", _now(self._clock), "migrated", detail=detail))
        self._read()

    @property
    def identity(self) -> str:
        """The ledger's random name, in its first row; a ledger that was created anew has another."""
        return self._chain.known.genesis.ledger

    @property
    def party(self) -> str:
        """Whose ledger this is."""
        return self._chain.known.genesis.party

    @property
    def test(self) -> bool:
        """Whether this ledger was created for tests."""
        return self._chain.known.genesis.test

    @property
    def budget(self) -> Budget:
        """The cap in force, rounded down to whole nano-ε."""
        return self._read().cap.budget

    def decide(self, decision: Decision) -> int:
        """Record a decision of the party's owner, signed, by a row of its own; return its sequence number."""
        if decision.signer(self.identity) is None:
            raise BadInput("A decision is signed for this ledger.", remedy="Sign it with the party's identity key.")
        cap = Ceiling.of(decision.budget) if isinstance(decision, CapDecision) else None
        written = _now(self._clock)
        with self._file.writing():
            state = self._chain.catch_up()
            if cap is not None and not cap.holds(state.total + self._holds.begun(written, state.total)):
                raise BudgetExceeded(
                    "More than this has been spent already, or is about to be, by studies that have begun.",
                    remedy="A cap can be lowered to what was spent, no further. What has begun is paid within an hour, or never.",
                )
            facts = state.row("cap", written, "cap", detail=msgspec.json.encode(decision).decode())
            self._chain.append(facts)
        return facts.sequence

    def declare_version(self, version: int, table: bytes = b"") -> int:
        """Declare that this party's data are now of this version, by a row of its own; return its sequence number.

        Versions are whole numbers that grow. They are public, and say nothing about whether rows have changed. Of ``table``, a
        hash of the table where there is one, a mark is kept beside the rows that only this ledger can compare
        (`restored_version`).
        """
        if type(version) is not int or not 1 <= version <= LARGEST_VERSION:
            raise BadInput("A data version is a whole number from 1.", remedy="For example 1, then 2.")
        written = _now(self._clock)
        with self._file.writing():
            state = self._chain.catch_up()
            if version <= state.used:
                raise BadInput(f"Version {state.used} was declared before.", remedy="Declare a higher one.")
            facts = state.row("version", written, f"data version {version}", version=version)
            self._chain.append(facts)
            if table:
                self._file.run("INSERT INTO loaded VALUES (?, ?)", (version, rows.table_mark(state.salt, table)))
            self._holds.end_all()  # their plans name the version before
        return facts.sequence

    def next_version(self) -> int:
        """Return the lowest data version that was never declared, also not in rows that are lost."""
        return self._read().used + 1

    def restored_version(self, table: bytes) -> int | None:
        """Return the current data version if this is its table, and nothing was declared or asked since a restore."""
        with self._file.reading():
            state = self._chain.catch_up()
            kept = self._file.run("SELECT mark FROM loaded WHERE version = ?", (state.version,)).fetchone()
        same = state.restored and kept is not None and kept[0] == rows.table_mark(state.salt, table)
        return state.version if same else None

    def current_version(self) -> int | None:
        """Return the data version declared last; ``None`` if none ever was."""
        return self._read().version

    def forfeit(self, loss: Loss, *, label: str) -> int:
        """Charge a loss without any release: what is known to have been spent and is not in this file."""
        cost, written = rows.checked_cost(loss, self._chain.known.genesis.grid), _now(self._clock)
        rows.checked_name(label, "label")
        with self._file.writing() as transaction:
            state = self._chain.catch_up()
            self._refuse_beyond_the_cap(state, cost, None)
            facts = state.row("forfeit", written, label, loss=cost)
            self._chain.append(facts)
            self._holds.end_all()  # nobody knows what was said yes to since the back-up
            transaction.at_risk = self._figure(facts.loss)
        return facts.sequence

    def keep_plan(self, digest: bytes, content: bytes, about: About | None = None) -> None:
        """Hand over a plan, and what is said about the study, to be written with the next row that refers to it.

        Parameters
        ----------
        digest
            The plan's hash (`colonnade.protocol.messages.digest`): what rows say in ``plan``.
        content
            Its canonical bytes.
        about
            Title, purpose and requester. They are no part of the request: the same plan with others is the same question.
        """
        self._chain.plans.hand_over(digest, content, about)

    def said(self, digest: bytes) -> About | None:
        """Return what was said last about a study whose plan was handed over."""
        return self._chain.plans.said(digest)

    def plan(self, digest: bytes) -> bytes | None:
        """Return the canonical bytes of a plan that rows refer to."""
        with self._file.reading():
            self._chain.catch_up()
            return self._chain.plans.read(digest)

    def answer_to(self, request_id: bytes, body_hash: bytes) -> bytes | None:
        """Return the answer that was kept for a request; ``None`` if it was never asked.

        ``None`` also for a step that was reserved and not committed: it is resumed from its seed (`seed_of`), and for one that
        is exact. A release that was paid for without a seed and not kept raises `ReleaseLost`: it is not drawn a second time.
        """
        rows.check_identified(request_id, body_hash)
        with self._file.reading():
            self._chain.catch_up()
            found = self._chain.find(request_id)
            if found is None:
                return None
            facts, seed, answer = found
            if facts.body != body_hash:
                raise ProtocolError(
                    "Another request was made under this id.", remedy="Give every request an id of its own."
                )
            if answer is None and seed is None and facts.kind in rows.CHARGED:
                raise ReleaseLost(
                    "This release was paid for and not kept: lost in a crash, or still being computed.",
                    spent=self._figure(facts.loss),
                )
            return answer

    def knows(self, request_id: bytes) -> bool:
        """Return whether this request was paid for."""
        rows.check_identified(request_id)
        with self._file.reading():
            self._chain.catch_up()
            return self._chain.find(request_id) is not None

    # Holds (`colonnade.party.ledger.ledger`) -----------------------------------------------------------------------------

    def require_room(self, hold: Hold) -> None:
        """Refuse a study that does not fit under the cap beside all that was spent and is held for others. Holds nothing."""
        with self._file.reading():
            self._refuse_without_room(hold)

    def hold(self, hold: Hold) -> None:
        """Set aside what a study still costs, durably; refuse as `require_room` does. The same study has one hold."""
        with self._file.writing():
            for plan in self._refuse_without_room(hold):
                self._holds.end(plan)
            self._holds.make(hold, _now(self._clock))

    def sign_hold(self, plan: bytes) -> None:
        """Let a hold last for as long as anybody may pay who hears the yes that is about to be said."""
        with self._file.writing():
            held = self._holds.sign(plan, _now(self._clock))
        if not held:
            raise _nothing_held()

    def begin_hold(self, plan: bytes, issued: float) -> None:
        """Let a plan be paid for from now on: everybody has said yes to a nonce that was issued at this time."""
        with self._file.writing():
            held = self._holds.begin(plan, int(issued * 1_000_000), _now(self._clock))
        if not held:
            raise _nothing_held()

    def end_hold(self, plan: bytes) -> None:
        """Hold nothing for a plan any more, unless it has begun and may be paid for now."""
        with self._file.writing():
            self._holds.withdraw(plan, _now(self._clock))

    def held(self, but: bytes = b"", to: str | None = None) -> list[Hold]:
        """Return what is held for all studies but one, and but those that give way to a requester."""
        with self._file.reading():
            now = _now(self._clock)
            late = set() if to is None else self._holds.giving_way(to, now)
            spent = self._chain.catch_up().total
            return [one for one in self._holds.open(now, spent, but=but) if one.plan not in late]

    def is_payable(self, plan: bytes, requester: str, purpose: str) -> bool:
        """Return whether a plan may be paid for now: everybody has said yes, in time, to a study of this requester."""
        with self._file.reading():
            return self._holds.is_payable(plan, requester, purpose, _now(self._clock))

    def _refuse_without_room(self, hold: Hold) -> set[bytes]:
        state = self._chain.catch_up()
        left, ended = self._holds.room(hold, state.cap, state.total, _now(self._clock))
        if left is not None:
            raise self._past_the_cap(left)
        return ended

    def debit(self, request_id: bytes, body_hash: bytes, loss: Loss, *, label: str, **terms: Unpack[RowTerms]) -> int:
        """Pay for a release, durably, before a bit of it is drawn; return the sequence number of the row.

        Raises
        ------
        BudgetExceeded
            If the total would pass the cap.
        ProtocolError
            If something was paid under this id before.
        BadInput
            If the loss is not a `Loss` that is positive at every order.
        """
        return self._append("debit", request_id, body_hash, label, terms, loss=loss)

    def reserve(
        self, request_id: bytes, body_hash: bytes, loss: Loss, *, label: str, seed: bytes, **terms: Unpack[RowTerms]
    ) -> int:
        """Pay for a step of several rounds before its first share leaves; keep the seed that regenerates its shares."""
        return self._append("reserve", request_id, body_hash, label, terms, loss=loss, seed=seed)

    def keep_key(
        self, request_id: bytes, body_hash: bytes, key: bytes, *, label: str, **terms: Unpack[RowTerms]
    ) -> int:
        """Keep a key that the parties agreed on, durably, once. `seed_of` returns it, `commit` erases it."""
        return self._append("key", request_id, body_hash, label, terms, seed=key)

    def record_alignment(self, request_id: bytes, body_hash: bytes, *, label: str, **terms: Unpack[RowTerms]) -> int:
        """Record that this party keeps an agreed order of rows."""
        return self._append("alignment", request_id, body_hash, label, terms)

    def record_list(self, request_id: bytes, body_hash: bytes, *, label: str, **terms: Unpack[RowTerms]) -> int:
        """Record an attempt to align this party's rows; ``body_hash`` stands for the request, so nothing in it is private."""
        return self._append("list", request_id, body_hash, label, terms)

    def record_nonprivate(self, request_id: bytes, body_hash: bytes, *, label: str, **terms: Unpack[RowTerms]) -> int:
        """Record that something will leave that the budget does not cover. Whether it may is the policy's decision."""
        return self._append("nonprivate", request_id, body_hash, label, terms)

    def seal(self, request_id: bytes, answer: bytes) -> bytes:
        """Keep the answer in the row of its debit, durably, and return it. Only then may it leave."""
        return self._keep(request_id, answer, ("debit", "nonprivate", "alignment"))

    def commit(self, request_id: bytes, answer: bytes) -> bytes:
        """Keep the answer of a reserved step, erase its seed from the file, and return the answer.

        A step that was aborted is committed too, with what says so: it stays paid, and its seed goes.
        """
        return self._keep(request_id, answer, ("reserve", "key"))

    def seed_of(self, request_id: bytes) -> bytes | None:
        """Return the seed of a step that was reserved and not committed."""
        rows.check_identified(request_id)
        with self._file.reading():
            self._chain.catch_up()
            found = self._chain.find(request_id)
            return None if found is None else found[1]

    def spent(self) -> Loss:
        """Return everything that was ever paid, composed."""
        return self._read().total

    def remaining(self) -> float:
        """Return the largest ε that one more plan may offer within the cap: of Gaussian noise, or pure if all that was spent is.

        What was spent and what remains may add up to more than the cap, because losses compose better than by adding their ε.
        """
        state = self._read()
        return largest_offer(state.total, state.cap.nano, state.cap.delta) / NANO

    def now(self) -> datetime:
        """Return what this ledger's clock shows."""
        return datetime.fromtimestamp(_now(self._clock) / 1_000_000, tz=UTC)

    def head(self) -> Head:
        """Return where the ledger stands; messages carry it, so that peers notice a ledger that was set back."""
        return self.shown()[0]

    def shown(self, since: Iterable[int] = ()) -> tuple[Head, tuple[Earlier, ...]]:
        """Return where the ledger stands, and for each of these earlier rows the root then, with a proof that this extends it."""
        with self._file.reading():
            self._chain.catch_up()
            return self._chain.head(), self._chain.earlier(since)

    def remember_head(self) -> None:
        """Keep durably, outside this file, where the ledger stands. Before any message leaves that rests on it."""
        try:
            with self._file.reading():  # nobody commits meanwhile, so that an older head never replaces a newer one
                self._chain.catch_up()
                self._memory.keep(self._chain.head())
        except OSError:
            raise LedgerCorrupt("The ledger's highest head cannot be written durably; nothing was released.") from None

    def refuse_set_back(self) -> None:
        """Refuse if this ledger does not continue the highest head that was remembered."""
        self._memory.check(self.continues)

    def continues(self, head: Head) -> bool:
        """Return whether this ledger once stood at ``head``, with nothing taken back since.

        Rows cut off the end leave a shorter ledger that is sound in itself; only a head kept elsewhere shows the cut.
        """
        with self._file.reading():
            state = self._chain.catch_up()
            if head.root:
                return state.genesis.ledger == head.ledger and self._chain.root_of(head.sequence) == head.root
            return state.genesis.ledger == head.ledger and self._chain.hash_of(head.sequence) == head.hash

    def entries(self, after: int = -1) -> list[Entry]:
        """Return the rows after one, all of them by default, for reading."""
        with self._file.reading():
            self._chain.catch_up()
            return self._chain.entries(after)

    def verify(self) -> None:
        """Check the whole file: its pages, its schema, every row, answer and plan; refuse it if anything is amiss."""
        with self._file.reading():
            self._chain.verify()

    def close(self) -> None:
        """Close the file. Everything that was recorded is durable already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SqliteLedger(party={self.party!r}, test={self.test})"

    def _read(self) -> LedgerState:
        with self._file.reading():
            return self._chain.catch_up()

    def _append(
        self,
        kind: Kind,
        request_id: bytes,
        body_hash: bytes,
        label: str,
        terms: RowTerms,
        *,
        loss: Loss | None = None,
        seed: bytes | None = None,
    ) -> int:
        rows.check_identified(request_id, body_hash)
        rows.checked_name(label, "label")
        cost = None if kind in rows.COSTLESS else rows.checked_cost(loss, self._chain.known.genesis.grid)
        if kind in rows.SEEDED and (type(seed) is not bytes or len(seed) != 32):
            raise BadInput("A seed is 32 bytes.")
        written = _now(self._clock)
        with self._file.writing() as transaction:
            state = self._chain.catch_up()
            self._refuse_a_repeated(request_id)
            charged = cost and self._paid_at_once(state, request_id, cost, terms.get("plan"))
            if charged != cost:
                # it pays for other steps too: no part of a joint opening, which a person's total counts once
                cost, terms = charged, {**terms, "together": False}
            self._refuse_beyond_the_cap(state, cost, terms.get("plan"))
            about = self._chain.plans.refer(terms, state.version)
            facts = state.row(
                kind, written, label, request=request_id, body=body_hash, loss=cost, seed=seed, about=about, **terms
            )
            self._chain.append(facts, seed)
            transaction.at_risk = self._figure(facts.loss)
        return facts.sequence

    def _paid_at_once(self, state: LedgerState, request_id: bytes, cost: Loss, plan: bytes | None) -> Loss:
        """Return what a row is charged: where the first plan fits the cap only alone, all of it at its first row.

        Such a plan makes use of all of δ. If it could be broken off, depending on its first answers, and another plan be begun,
        that would be a choice which nobody has divided δ for (docs/proofs/gaussian-losses.md#plans). Later rows are charged the
        least, as long as the total covers the plan: the cap may have changed in between.
        """
        if state.total.gaussian is None or state.total.plan not in (None, plan):
            return cost  # most rows: no hold is read for them
        held = self._holds.of_plan(plan, state.total)
        if held is None or held[0].steps.get(request_id) != cost:
            return cost
        whole, due = held
        if due.steps[request_id] != cost:
            return LEAST
        if state.cap.holds(whole.loss.followed_by_others()):
            return cost
        later = sum(loss is not None for loss in due.steps.values()) - 1
        return whole.loss.less(LEAST, later).less(state.total, 1)

    def _refuse_a_repeated(self, request_id: bytes) -> None:
        if self._chain.knows(request_id):
            raise ProtocolError("This request was paid for before.", remedy="Ask for the answer that was kept.")

    def _refuse_beyond_the_cap(self, state: LedgerState, cost: Loss | None, plan: bytes | None) -> None:
        if cost is not None and not state.cap.holds(state.after(cost, plan)):
            raise self._past_the_cap((state.cap.nano - state.nano) / NANO)

    def _past_the_cap(self, left: float) -> BudgetExceeded:
        return BudgetExceeded(f"This would take the ledger of {self.party!r} past its cap; ε={left:.6g} is left.")

    def _keep(self, request_id: bytes, answer: bytes, kinds: tuple[Kind, ...]) -> bytes:
        rows.check_identified(request_id)
        with self._file.writing() as transaction:
            self._chain.catch_up()
            found = self._chain.find(request_id)
            if found is None or found[0].kind not in kinds:
                raise ProtocolError("Nothing was paid for this answer in this way.", remedy="Debit before drawing.")
            facts, _, kept = found
            if kept is not None:
                return _unchanged(kept, answer)
            transaction.paid = self._figure(facts.loss)
            if type(answer) is not bytes or len(answer) > LARGEST_ANSWER:
                raise BadInput(f"An answer is at most {LARGEST_ANSWER} bytes.", spent=transaction.paid)
            self._chain.answer(facts, answer)
        return answer

    def _figure(self, loss: bytes | None) -> dict[str, float] | None:
        return None if loss is None else {self.party: rows.read_loss(loss).epsilon(self._chain.known.cap.delta)}


def _nothing_held() -> ProtocolError:
    return ProtocolError("Nothing is held here for this study any more.", remedy="Start the study again.")


def _unchanged(kept: bytes, answer: bytes) -> bytes:
    if kept != answer:
        raise ProtocolError("Another answer was kept for this request.", remedy="Send the one that was kept.")
    return kept


def _now(clock: Callable[[], float]) -> int:
    seconds = clock()
    if not 0 <= seconds < YEAR_10000:  # written so that NaN fails
        raise BadInput("The clock gives no time between 1970 and 9999.", remedy="Set the clock of this machine.")
    return int(seconds * 1_000_000)
