"""What the gate needs of the private half of a kind of step.

A private half is a subclass of its kind (`colonnade.steps`) that can also compute from the table. It is constructed from public
facts only, and only the methods that take a table touch data.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws import Mechanism, Sampler
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import Price
from colonnade.privacy.randomness import Randomness

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep

__all__ = ["Arrays", "Disclosed", "Joined", "JointHalf", "Local", "Prepared", "prepare"]

Arrays = Mapping[str, NDArray[Any]]


@runtime_checkable
class Local(Protocol):
    """A statistic of one party's own, which a law perturbs."""

    def law(self, price: Price) -> Mechanism:
        """Return the noise that this price buys."""

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the exact statistic. Its result is ``nonprivate`` until a law has released it."""


@runtime_checkable
class Disclosed(Protocol):
    """A statistic without a law: it leaves as it is, where the party's policy allows that by name."""

    def disclose(self, table: PrivateTable, inputs: Arrays, randomness: Randomness) -> Arrays:
        """Return exact values. ``inputs`` are the coordinator's; with inputs, the answer must follow from data and inputs."""


@runtime_checkable
class Joined(Protocol):
    """A step that members work out in conversation."""

    def join(self, admitted: "AdmittedStep") -> object:
        """Return what this party brings to the conversation."""


@runtime_checkable
class Prepared(Protocol):
    """A step that can fail on the table, and is asked to before anything is paid."""

    def prepare(self, table: PrivateTable) -> None:
        """Read what will be needed."""


class JointHalf(Protocol):
    """A statistic that several parties open together."""

    @property
    def loss(self) -> Loss:
        """What this party's ledger is debited."""

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's share of the noise, one number for each entry between two parties."""

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows, a column of the table along each row of the result."""

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64] | None:
        """Return the part of the release that concerns this party alone, noised by it alone."""


def prepare(half: object, table: PrivateTable) -> None:
    """Let a step fail, if it must, before anything is paid."""
    if isinstance(half, Prepared):
        half.prepare(table)
