"""One mechanism a module: what it costs (``loss``) and how it perturbs (``release``). Only a party may import these."""

from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from colonnade.privacy.loss import Loss
from colonnade.privacy.randomness import Randomness

__all__ = ["Mechanism"]


@runtime_checkable
class Mechanism(Protocol):
    """What turns a value computed from raw rows into one that may leave the party.

    A mechanism is complete before data is touched: its constructor refuses whatever it could not release, so that the
    gate may debit ``loss`` first and draw afterwards.
    """

    @property
    def name(self) -> str:
        """What statements call it."""

    @property
    def loss(self) -> Loss:
        """What one release costs."""

    def release(self, nonprivate: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """Perturb."""
