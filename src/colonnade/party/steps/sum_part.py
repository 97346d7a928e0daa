"""A data party's part in a secure sum, and in training on one: recorded by name before the first masked value leaves."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PolicyRefusal, ProtocolError
from colonnade.party.steps.coreset_training import CoresetGradient
from colonnade.party.steps.ledger_words import label_of, prepare, row_terms
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Released, pack, unpack

if TYPE_CHECKING:
    from colonnade.party.gate import Gate

__all__ = ["GradientPart", "SumPart", "SumStatistic"]


class SumStatistic(Protocol):
    """What a secure sum needs to know of a statistic."""

    name: str

    def accept(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Check the coordinator's public inputs and return what of them is fixed for good."""

    @property
    def length(self) -> int:
        """How many values there are, once the inputs are accepted."""

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector."""


class SumPart:
    """A data party's part in a secure sum without noise.

    What the sum is over is kept in the ledger as the step's answer, in the row that records the release. A later run of the step
    is over the same, or it is refused: a plan opens one sum.
    """

    def __init__(self, gate: "Gate", plan: Plan, step: Step, statistic: SumStatistic) -> None:
        if step.price is not None:
            raise PolicyRefusal("A sum without noise has no price; it is allowed by name or not at all.")
        self._gate = gate
        self._plan = plan
        self._step = step
        self._statistic = statistic

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Fix what the sum is over, record it, and return how long the vectors are."""
        fixed = self._statistic.accept({name: unpack(array) for name, array in inputs.items()})
        gate = self._gate
        gate.table.load(self._step.columns)
        prepare(self._statistic, gate.table)
        self._statistic.summand(gate.table, 0, 1)  # whatever can fail fails here, before anything is recorded
        record(gate, self._plan, self._step, {name: pack(value) for name, value in fixed.items()}, self._statistic.name)
        return self._statistic.length

    def values(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector; it leaves under masks only."""
        return self._statistic.summand(self._gate.table, start, stop)

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:
        """Hand a stretch of the sum to the statistic, at the party to which it is opened."""
        take: Any = getattr(self._statistic, "deliver", None)
        if take is None:
            raise ProtocolError("This sum is not opened to a party.")
        take(self._gate.table, start, sums)


class GradientPart:
    """A data party's part in vertical SAGA: one line in the ledger, before the first masked value leaves."""

    def __init__(self, gate: "Gate", plan: Plan, step: Step, statistic: CoresetGradient) -> None:
        if step.price is not None:
            raise PolicyRefusal("Training on exact residuals has no price; it is allowed by name or not at all.")
        self._gate = gate
        self._plan = plan
        self._step = step
        self._statistic = statistic

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Prepare the block, record the release, and return how many rows the sample has."""
        self._gate.table.load(self._step.columns)
        rows = self._statistic.begin(self._gate.table, {name: unpack(array) for name, array in inputs.items()})
        record(self._gate, self._plan, self._step, dict(inputs), self._statistic.name)
        return rows

    def lengths(self) -> NDArray[np.int64]:
        """Return the squared lengths of this party's rows; they leave under masks only."""
        return self._statistic.lengths()

    def margins(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this party's part of the residuals of a batch; it leaves under masks only."""
        return self._statistic.margins(batch)

    def learn(self, batch: NDArray[np.int64], residuals: NDArray[np.float64], step: float) -> None:
        """Take one step."""
        self._statistic.learn(batch, residuals, step)

    def coefficients(self) -> NDArray[np.float64]:
        """Return this party's coefficients."""
        return self._statistic.coefficients()


def record(gate: "Gate", plan: Plan, step: Step, fixed: dict[str, Array], name: str) -> None:
    """Record a release that no budget pays for, with what it is over; refuse the same step over anything else."""
    request, body = gate.paid_as(plan, step.name)
    answer = codec.encode(Released(party=step.party, step=step.name, values=fixed, mechanism=name, loss=None))
    kept = gate.ledger.answer_to(request, body)
    if kept is None:
        gate.ledger.record_nonprivate(request, body, label=label_of(plan, step), **row_terms(gate.ledger, plan, step))
        gate.ledger.seal(request, answer)
    elif kept != answer:
        raise ProtocolError(
            "This study was carried out over other rows or weights before.",
            remedy="Run the study again with the next repeat=.",
        )
