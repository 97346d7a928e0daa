"""What a gate hands out: the quote for a plan, earlier attempts to align, and a handle on the noise of a step that is paid for.

Beside the gate this is the only module at a party that makes samplers. `Gate.reserve` makes a `Reservation`, after the
debit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from colonnade.party.ledger.rows import Entry
from colonnade.privacy.accounting import Loss
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.secure.keys import digest

__all__ = ["Attempt", "Quoted", "Reservation"]


@dataclass(frozen=True)
class Quoted:
    """What a plan would cost one party."""

    losses: Mapping[str, Loss]
    """The loss of each private step, by its name."""
    unpaid: tuple[str, ...]
    """The steps that the ledger has not paid for yet."""
    disclosed: tuple[str, ...]
    """The steps that are not private, and so not covered by the budget."""


@dataclass(frozen=True)
class Attempt:
    """An attempt to align this party's rows, as its ledger records it. All of it is public."""

    name: bytes
    """What its row is called."""
    body: bytes | None
    """The hash of the request, the same for the same step of the same plan."""
    version: int | None
    """The declared version of the data."""
    told: bool
    """Whether one of its runs has come to the letters that tell peers something."""

    @classmethod
    def since(cls, start: datetime, rows: Sequence[Entry]) -> "list[Attempt]":
        """Return the attempts after a time from all rows of a ledger."""
        sealed = {row.request for row in rows if row.sealed}
        recent = [(row, row.request or b"") for row in rows if row.kind == "list" and row.when > start]
        return [cls(name, row.body, row.version, cls.telling(name) in sealed) for row, name in recent]

    @staticmethod
    def telling(name: bytes, whom: str = "peers") -> bytes:
        """Name the row which says that an attempt tells peers, or the coordinator, something exactly."""
        return digest("colonnade alignment told v1", name, whom)


@dataclass(frozen=True)
class Reservation:
    """A step that is paid for. Its noise follows from the seed that the ledger keeps, so a restarted party draws the same."""

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
