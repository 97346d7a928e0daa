"""Handles that a gate gives away: a paid step whose noise can be drawn, and a ledger that can be read and not written."""

from dataclasses import dataclass, field

from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import Entry
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler

__all__ = ["LedgerView", "Reservation"]


@dataclass(frozen=True)
class Reservation:
    """A step that is paid for: its noise follows from the seed that the ledger keeps, and can be drawn again after a restart."""

    seed: bytes = field(repr=False)

    def secret(self) -> bytes:
        """Return the seed of this party's shares."""
        return KeyedRandomness(self.seed).spawn("shares").bytes(32)

    def noise(self, label: str) -> ExactSampler:
        """Return a sampler on one of the step's own streams."""
        return ExactSampler(KeyedRandomness(self.seed).spawn("noise").spawn(label))

    def stream(self, label: str) -> ExactSampler:
        """Return a sampler on a stream directly under the seed."""
        return ExactSampler(KeyedRandomness(self.seed).spawn(label))


class LedgerView:
    """What may be read of a party's ledger from outside the gate. Nothing can be written through it."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self.identity = ledger.identity
        self.budget = ledger.budget
        self.head = ledger.head
        self.spent = ledger.spent
        self._entries = ledger.entries

    def entries(self) -> list[Entry]:
        """Return every row."""
        return list(self._entries())
