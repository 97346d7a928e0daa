"""What a run of rows adds up to: the cap in force, the total, and the hash that the next row continues.

A `LedgerState` is made by folding verified rows, one by one. The same code checks the whole file when it is opened and,
before each call, the rows that were appended since.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any  # what SQLite returns

import msgspec

from colonnade.errors import BadInput, LedgerCorrupt
from colonnade.party.ledger.rows import (
    BEFORE_THE_FIRST,
    CHARGED,
    COSTLESS,
    FORMAT,
    OLD_FORMAT,
    Ceiling,
    Facts,
    Genesis,
    Kind,
    Migrated,
    check_hash,
    check_kept,
    corrupt,
    least_entry,
    read_loss,
    seed_hash,
)
from colonnade.privacy.loss import GRID, NOTHING, Loss

__all__ = ["LedgerState", "first_row", "folded"]


def first_row(genesis: Genesis, written: int) -> Facts:
    """Return the row with which a ledger begins."""
    detail = msgspec.json.encode(genesis).decode()
    return Facts(0, "genesis", None, None, "genesis", written, None, None, None, detail, None, BEFORE_THE_FIRST)


def folded(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Facts, "LedgerState"]]:
    """Check rows one by one, each given as its facts, hash, seed, answer's hash and answer; yield what they add up to."""
    state: LedgerState | None = None
    for *row, digest, seed, kept, answer in rows:
        facts = Facts(*row)
        state = LedgerState.begin(facts, digest) if state is None else state.then(facts, digest)
        check_kept(facts, digest, seed, kept, answer)
        yield facts, state


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What a verified run of rows adds up to."""

    genesis: Genesis
    cap: Ceiling
    sequence: int
    hash: bytes
    total: Loss
    format: int = FORMAT
    """The format of the rows that come next: 2 until a row says that the ledger was migrated."""
    version: int | None = None
    """The data version declared last."""

    @classmethod
    def begin(cls, facts: Facts, stored_hash: object) -> "LedgerState":
        """Check the first row."""
        digest = check_hash(facts, stored_hash)
        if (facts.sequence, facts.kind, facts.previous) != (0, "genesis", BEFORE_THE_FIRST):
            raise corrupt(0)
        try:
            genesis = msgspec.json.decode(facts.detail or "", type=Genesis)
        except (msgspec.MsgspecError, BadInput):
            raise corrupt(0) from None
        if (genesis.format, genesis.grid) != (facts.format, GRID):
            raise LedgerCorrupt(
                "This ledger has another format or another grid of orders; nothing was released.",
                remedy="Open it with the version that wrote it: losses on different grids cannot be added.",
            )
        return cls(genesis, genesis.cap, 0, digest, NOTHING, facts.format)

    def then(self, facts: Facts, stored_hash: object) -> "LedgerState":
        """Check the next row and add it. The caller asks for `within_cap` after the last one."""
        digest = check_hash(facts, stored_hash)
        if (facts.sequence, facts.previous) != (self.sequence + 1, self.hash):
            raise corrupt(self.sequence + 1)
        try:
            after = self._after(facts)
        except (msgspec.MsgspecError, BadInput):
            raise corrupt(facts.sequence) from None
        return dataclasses.replace(after, sequence=facts.sequence, hash=digest)

    def _after(self, facts: Facts) -> "LedgerState":
        if facts.kind == "migrated":
            return self._migrated(facts)
        if facts.format != self.format:
            raise corrupt(facts.sequence)
        if facts.kind == "version" and facts.version is not None and facts.version > (self.version or 0):
            return dataclasses.replace(self, version=facts.version)
        if facts.version not in (None, self.version):
            raise corrupt(facts.sequence)
        if facts.kind in CHARGED and facts.loss is not None:
            loss = read_loss(facts.loss)
            if least_entry(loss) < 1 or (facts.least, facts.pure) != (least_entry(loss), loss.pure):
                raise corrupt(facts.sequence)
            return dataclasses.replace(self, total=self.total + loss)
        if facts.kind == "cap":
            cap = msgspec.json.decode(facts.detail or "", type=Ceiling)
            # totals only grow: within the cap here means within it at every row since the cap was set
            if not (self.cap.holds(self.total) and cap.holds(self.total)):
                raise corrupt(facts.sequence)
            return dataclasses.replace(self, cap=cap)
        if facts.kind in COSTLESS:
            return self
        raise corrupt(facts.sequence)

    def _migrated(self, facts: Facts) -> "LedgerState":
        pinned = msgspec.json.decode(facts.detail or "", type=Migrated)
        if self.format != OLD_FORMAT or facts.format != FORMAT or pinned != self.pinned:
            raise corrupt(facts.sequence)
        return dataclasses.replace(self, format=FORMAT)

    def within_cap(self) -> "LedgerState":
        """Refuse a ledger that has spent more than its cap."""
        if not self.cap.holds(self.total):
            raise corrupt(self.sequence)
        return self

    @property
    def pinned(self) -> Migrated:
        """What the row of a migration says about all rows before it."""
        return Migrated(self.format, self.sequence, self.hash.hex())

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
        together: bool = False,
        event_level: bool = False,
        plan: bytes | None = None,
        about: bytes | None = None,
        version: int | None = None,
    ) -> Facts:
        """Return the row that comes next."""
        pure, least, curve = (None, None, None) if loss is None else (loss.pure, least_entry(loss), loss.to_bytes())
        kept = None if seed is None or request is None else seed_hash(request, seed)
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
