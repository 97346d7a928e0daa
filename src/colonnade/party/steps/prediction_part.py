"""A data party's part in opening individual scores to one party; at that party, where they are kept."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.predictions import Predictions
from colonnade.party.steps.sum_part import SumPart
from colonnade.plan import Plan, Step
from colonnade.protocol.messages import Array

if TYPE_CHECKING:
    from colonnade.party.gate import Gate

__all__ = ["PredictionPart"]


class PredictionPart(SumPart):
    """A part in a secure sum whose recipient is a party."""

    _statistic: Predictions

    def __init__(self, gate: "Gate", plan: Plan, step: Step, statistic: Predictions) -> None:
        super().__init__(gate, plan, step, statistic)
        self._sums: NDArray[np.int64] | None = None
        self._arrived = 0

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Record the output in the ledger, as one that no budget pays for, and return how many integers there are."""
        length = super().begin(inputs)
        self._sums = np.empty(length if self._statistic.recipient == self._step.party else 0, dtype=np.int64)
        return length

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:
        """Take a stretch of the sums; once all are here, keep what this party is told, for its own operator alone."""
        assert self._sums is not None  # a run begins first
        self._sums[start : start + len(sums)] = sums
        self._arrived += len(sums)
        if self._arrived == len(self._sums):
            gate = self._gate
            assert gate.views is not None  # a gate in a conversation stands before a guard
            request, _ = gate.paid_as(self._plan, self._step.name)
            columns = self._statistic.read(self._sums)
            gate.views.deliveries.keep(request, gate.views.alignment(gate.terms.alignment), columns)
