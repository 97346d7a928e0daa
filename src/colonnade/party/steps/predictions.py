"""One party's part of everybody's score; at the recipient, where the scores are kept."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.party.refusals import among_rows
from colonnade.party.steps.integers import whole_numbers
from colonnade.party.steps.parts import Arrays, SumPart, partial_scores
from colonnade.party.table.private_table import PrivateTable
from colonnade.protocol.messages import Array
from colonnade.steps.sums import Predictions

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep


class PrivatePredictions(Predictions):
    """Partial scores as integers."""

    def join(self, admitted: "AdmittedStep") -> "PredictionPart":
        """Return this party's part."""
        return PredictionPart(admitted)

    def accept(self, inputs: Arrays) -> Arrays:
        """Take no inputs: the plan says everything."""
        if inputs:
            raise BadInput("Predictions take no inputs.")
        return {}

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's integers."""
        nonprivate = np.zeros(stop - start, dtype=np.int64)
        place = start
        while place < stop and self.scores is not None:
            output, first = divmod(place, self.people)
            last = min(self.people, first + stop - place)
            some = partial_scores(self.scores, table, first, last, output)
            whole = nonprivate[place - start : place - start + last - first]
            whole_numbers(some, self.bound, scale=self.scale, out=whole)
            place += last - first
        return nonprivate


class PredictionPart(SumPart):
    """A part in a secure sum whose recipient is a party."""

    def __init__(self, admitted: "AdmittedStep") -> None:
        super().__init__(admitted)
        self._sums: NDArray[np.int64] | None = None
        self._arrived = 0

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Record the output in the ledger, as one that the budget does not cover; return how many integers there are."""
        length = super().begin(inputs)
        receives = self._predictions.recipient == self._admitted.party
        self._sums = np.empty(length if receives else 0, dtype=np.int64)
        return length

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:
        """Take a stretch of the sums; once all are here, keep what this party is told, for its own operator alone.

        Where a stretch did not come, because it cannot be right, nothing is kept, and only the operator sees that.
        """
        assert self._sums is not None  # a run begins first
        self._sums[start : start + len(sums)] = sums
        self._arrived += len(sums)
        if self._arrived == len(self._sums):
            orders = self._admitted.row_orders
            with among_rows():  # other parties' rows, in scores that are this party's own now
                columns = self._predictions.read_sums(self._sums)
                orders.deliveries.keep(self._admitted.request, orders.order(self._admitted.plan.alignment), columns)

    @property
    def _predictions(self) -> PrivatePredictions:
        return cast("PrivatePredictions", self._half)
