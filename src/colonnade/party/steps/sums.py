"""A data party's part in a secure sum: recorded by name before the first masked value leaves."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PolicyRefusal, ProtocolError
from colonnade.party.steps.half import Arrays
from colonnade.party.table.private_table import PrivateTable
from colonnade.protocol.messages import Array, pack, unpack

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep

__all__ = ["SumHalf", "SumPart", "require_no_price"]


class SumHalf(Protocol):
    """What a secure sum needs to know of a step."""

    def accept(self, inputs: Arrays) -> Arrays:
        """Check the coordinator's public inputs and return what of them is fixed for good."""

    @property
    def length(self) -> int:
        """How many values there are, once the inputs are accepted."""

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector."""


def require_no_price(admitted: "AdmittedStep") -> None:
    """Refuse a price for exact values."""
    if admitted.step.price is not None:
        raise PolicyRefusal("A sum without noise has no price; it is allowed by name or not at all.")


class SumPart:
    """A data party's part in a secure sum without noise.

    What the sum is over is kept in the ledger as the step's answer, in the row that records the release. A later run of the step
    is over the same, or it is refused: a plan opens one sum.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        require_no_price(admitted)
        self._admitted = admitted
        self._half = cast("SumHalf", admitted.half)

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Fix what the sum is over, record it, and return how long the vectors are."""
        fixed = self._half.accept({name: unpack(array) for name, array in inputs.items()})
        self._admitted.prepare()
        self._admitted.compute(self._half.summand, 0, 1)  # whatever can fail fails here, before anything is recorded
        self._admitted.record_exact({name: pack(value) for name, value in fixed.items()})
        return self._half.length

    def values(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector; it leaves under masks only."""
        return self._admitted.compute(self._half.summand, start, stop)

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:  # noqa: ARG002
        """Refuse a stretch of the sum: it is opened to the coordinator."""
        raise ProtocolError("This sum is not opened to a party.")
