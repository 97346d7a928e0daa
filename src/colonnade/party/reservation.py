"""A step that is paid for, as a handle on its noise."""

from dataclasses import dataclass, field

from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler

__all__ = ["Reservation"]


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
