"""What a run of rows adds up to: the cap in force, the total, and the hash that the next row continues.

A `Tally` is made by folding verified rows, one by one. The same code checks the whole file when it is opened and,
before each call, the rows that were appended since.
"""

from dataclasses import dataclass

import msgspec

from colonnade.errors import BadInput, LedgerCorrupt
from colonnade.party.ledger.rows import (
    BEFORE_THE_FIRST,
    COSTLESS,
    FORMAT,
    Ceiling,
    Facts,
    Genesis,
    Kind,
    check_hash,
    corrupt,
    least_entry,
    read_loss,
    seed_hash,
)
from colonnade.privacy.loss import GRID, NOTHING, Loss

__all__ = ["Tally", "first_row"]


def first_row(genesis: Genesis, written: int) -> Facts:
    """Return the row with which a ledger begins."""
    detail = msgspec.json.encode(genesis).decode()
    return Facts(0, "genesis", None, None, "genesis", written, None, None, None, detail, None, BEFORE_THE_FIRST)


@dataclass(frozen=True, slots=True)
class Tally:
    """What a verified run of rows adds up to."""

    genesis: Genesis
    cap: Ceiling
    sequence: int
    hash: bytes
    total: Loss

    @classmethod
    def begin(cls, facts: Facts, stored_hash: object) -> "Tally":
        """Check the first row."""
        digest = check_hash(facts, stored_hash)
        if (facts.sequence, facts.kind, facts.previous) != (0, "genesis", BEFORE_THE_FIRST):
            raise corrupt(0)
        try:
            genesis = msgspec.json.decode(facts.detail or "", type=Genesis)
        except (msgspec.MsgspecError, BadInput):
            raise corrupt(0) from None
        if (genesis.format, genesis.grid) != (FORMAT, GRID):
            raise LedgerCorrupt(
                "This ledger has another format or another grid of orders; nothing was released.",
                remedy="Open it with the version that wrote it: losses on different grids cannot be added.",
            )
        return cls(genesis, genesis.cap, 0, digest, NOTHING)

    def then(self, facts: Facts, stored_hash: object) -> "Tally":
        """Check the next row and add it. The caller asks for `within_cap` after the last one."""
        digest = check_hash(facts, stored_hash)
        if (facts.sequence, facts.previous) != (self.sequence + 1, self.hash):
            raise corrupt(self.sequence + 1)
        try:
            cap, total = self._after(facts)
        except (msgspec.MsgspecError, BadInput):
            raise corrupt(facts.sequence) from None
        return Tally(self.genesis, cap, facts.sequence, digest, total)

    def _after(self, facts: Facts) -> tuple[Ceiling, Loss]:
        if facts.kind in ("debit", "reserve") and facts.loss is not None:
            loss = read_loss(facts.loss)
            if least_entry(loss) < 1 or (facts.least, facts.pure) != (least_entry(loss), loss.pure):
                raise corrupt(facts.sequence)
            return self.cap, self.total + loss
        if facts.kind == "cap":
            cap = msgspec.json.decode(facts.detail or "", type=Ceiling)
            # totals only grow: within the cap here means within it at every row since the cap was set
            if not (self.cap.holds(self.total) and cap.holds(self.total)):
                raise corrupt(facts.sequence)
            return cap, self.total
        if facts.kind in COSTLESS:
            return self.cap, self.total
        raise corrupt(facts.sequence)

    def within_cap(self) -> "Tally":
        """Refuse a ledger that has spent more than its cap."""
        if not self.cap.holds(self.total):
            raise corrupt(self.sequence)
        return self

    @property
    def nano(self) -> int:
        """The total ε at the cap's δ in nano-units, rounded up."""
        nano = self.total.nano_epsilon(self.cap.delta)
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
    ) -> Facts:
        """Return the row that comes next."""
        pure, least, curve = (None, None, None) if loss is None else (loss.pure, least_entry(loss), loss.to_bytes())
        kept = None if seed is None or request is None else seed_hash(request, seed)
        return Facts(
            self.sequence + 1, kind, request, body, label, written, pure, least, curve, detail, kept, self.hash
        )
