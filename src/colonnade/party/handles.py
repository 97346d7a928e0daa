"""What a gate hands out: the quote for a plan, a handle on the noise of a step that is paid for, and what leaves for a step.

Beside the gate this is the only module at a party that makes samplers. `Gate.reserve` makes a `Reservation`, after the
debit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from colonnade.plan import Step
from colonnade.privacy.accounting import Loss
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Released

__all__ = ["Quoted", "Reservation", "released"]


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


def released(step: Step, values: dict[str, Array], title: str, loss: Loss | None) -> bytes:
    """Encode what leaves for a step."""
    cost = None if loss is None else loss.to_bytes()
    return codec.encode(Released(party=step.party, step=step.name, values=values, mechanism=title, loss=cost))
