"""Holds: what a party sets aside for studies to which it is about to say yes, or has said yes, and which are not paid yet.

A hold is no row of the chain and no debit. It stands in a table of its own in the ledger's file, so that a restart keeps it. It
names the plan, who asked, and every step of this party with its loss. A step that has a row by now holds nothing any more.

*When they end.* A party pays for a plan until `DEBITS_END` after it issued the nonce that all yeses of that plan answer. Its own
hold lasts `MARGIN` longer, counted from its own yes, which came after everybody's nonce. So whoever still pays does so while
everybody else still holds. All of it is measured by each party's own clock: only durations count, and the margin is for clocks
that go at another pace. A hold without a yes lasts `UNSIGNED`.

*Limits.* There are `MOST_STUDIES` open holds at most, and `MOST_OF_ONE` of one requester. A requester's first study may hold all
that is left; once it has one, all its holds together have half of what is left at most. So nobody exhausts a cap by asking for
many studies. A refusal for any of these reads like one for the cap.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from colonnade.errors import BadInput, LedgerCorrupt
from colonnade.party.ledger import rows
from colonnade.party.ledger.file import LedgerFile
from colonnade.privacy.accounting import NANO, NOTHING, Loss, total

SECOND = 1_000_000  # the ledger counts microseconds
DEBITS_END = 3_600 * SECOND
"""For how long a plan is paid for, after its nonce was issued."""
MARGIN = 600 * SECOND
"""How much longer a hold lasts than anybody pays."""
UNSIGNED = 600 * SECOND
"""How long a hold lasts to which no yes was said."""
MOST_STUDIES = 64
MOST_OF_ONE = 16
MOST_ROWS = 256
"""Holds that are kept, of which nothing is open any more included."""


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
        return total(loss for loss in self.steps.values() if loss is not None)


class Holds:
    """The table ``holds`` of one ledger. Every method runs inside a transaction of the caller.

    Parameters
    ----------
    file
        The ledger's file.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def open(self, now: int, *, but: bytes = b"") -> list[Hold]:
        """Return what is held for other studies than one, each with the steps that have no row yet."""
        found = self._file.run(
            "SELECT plan, requester, purpose, aligns, steps FROM holds WHERE held > ? AND plan <> ? ORDER BY made",
            (now, but),
        ).fetchall()
        holds = []
        for plan, requester, purpose, aligns, steps in found:
            unpaid = self._unpaid(_read(steps))
            if unpaid:
                holds.append(Hold(plan, requester, purpose, unpaid, bool(aligns)))
        return holds

    def refused(self, hold: Hold, cap: rows.Ceiling, spent: Loss, now: int) -> float | None:
        """Return how much ε is left for this study where it does not fit beside the others; ``None`` where it does."""
        unpaid = self._unpaid(hold.steps)
        if not unpaid:
            return None
        others = self.open(now, but=hold.plan)
        mine = [one.loss for one in others if one.requester == hold.requester]
        theirs = [one.loss for one in others if one.requester != hold.requester]
        if len(others) >= MOST_STUDIES or len(mine) >= MOST_OF_ONE:
            return 0.0
        before, own, cost = (
            spent + total(theirs),
            total(mine),
            total(loss for loss in unpaid.values() if loss is not None),
        )
        if cost != NOTHING and not cap.holds(before + own + cost):
            return _left(cap.nano, before + own, cap.delta)
        half = (cap.nano - (before.nano_epsilon(cap.delta) or 0)) // 2
        if NOTHING not in (cost, own) and not (own + cost).fits(half, cap.delta):
            return _left(half, own, cap.delta)
        return None

    def make(self, hold: Hold, now: int) -> None:
        """Hold, until a yes is said or a while has passed; one that is there stays as long as it would."""
        steps = msgspec.msgpack.encode(
            {key: None if one is None else one.to_bytes() for key, one in hold.steps.items()}
        )
        self._file.run(
            "INSERT INTO holds (plan, requester, purpose, aligns, steps, made, held, payable) VALUES (?, ?, ?, ?, ?, ?, ?, 0) "
            "ON CONFLICT (plan) DO UPDATE SET requester = excluded.requester, purpose = excluded.purpose, "
            "steps = excluded.steps, made = excluded.made, held = max(held, excluded.held)",
            (hold.plan, hold.requester, hold.purpose, int(hold.aligns), steps, now, now + UNSIGNED),
        )
        self._file.run("DELETE FROM holds WHERE held <= ?", (now,))
        open_now = [one.plan for one in self.open(now)]
        spare = [
            plan for (plan,) in self._file.run("SELECT plan FROM holds ORDER BY made DESC") if plan not in open_now
        ]
        for plan in spare[MOST_ROWS - len(open_now) :]:
            self.end(plan)

    def sign(self, plan: bytes, now: int) -> bool:
        """Hold for as long as anybody may pay who hears our yes of now; return whether anything is held."""
        found = self._file.run(
            "UPDATE holds SET held = ? WHERE plan = ? AND held > ?", (now + DEBITS_END + MARGIN, plan, now)
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

    def end(self, plan: bytes) -> None:
        """Hold nothing for a plan any more."""
        self._file.run("DELETE FROM holds WHERE plan = ?", (plan,))

    def end_all(self) -> None:
        """Hold nothing any more: another version of the data was declared."""
        self._file.run("DELETE FROM holds")

    def _unpaid(self, steps: Mapping[bytes, Loss | None]) -> dict[bytes, Loss | None]:
        known = "SELECT 1 FROM entries WHERE request = ?"
        return {
            request: loss for request, loss in steps.items() if self._file.run(known, (request,)).fetchone() is None
        }


def _read(steps: bytes) -> Mapping[bytes, Loss | None]:
    try:
        found = msgspec.msgpack.decode(steps, type=dict[bytes, bytes | None])
        return {key: None if loss is None else rows.read_loss(loss) for key, loss in found.items()}
    except (msgspec.MsgspecError, BadInput):
        raise LedgerCorrupt("What is held for a study was changed in the ledger; nothing was released.") from None


def _left(nano: int, of: Loss, delta: float) -> float:
    return max(nano - (of.nano_epsilon(delta) or 0), 0) / NANO
