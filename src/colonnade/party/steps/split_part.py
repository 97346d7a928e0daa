"""A data party's part in dividing the people: two orders of rows, kept before anyone is told, and the key forgotten."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade.conversations.split import PARTS, belongs, part_identity, share_of
from colonnade.errors import BadInput, ReleaseLost
from colonnade.party.steps.ledger_words import label_of, row_terms
from colonnade.party.steps.split import Split
from colonnade.party.table.row_order import Alignment
from colonnade.plan import Plan, Step
from colonnade.protocol import codec
from colonnade.protocol.messages import Settled

if TYPE_CHECKING:
    from colonnade.party.gate import Gate

__all__ = ["SplitPart"]


class SplitPart:
    """Where the two parts are kept.

    Parameters
    ----------
    gate
        The door before the order of rows that is divided.
    plan, step
        What is asked.
    statistic
        Says that the step is in order.
    """

    def __init__(self, gate: "Gate", plan: Plan, step: Step, statistic: Split) -> None:
        self._gate = gate
        self._plan = plan
        self._step = step
        self._statistic = statistic

    def begin(self) -> None:
        """Refuse a second run: with another key it would give the same names to other people."""
        if self._gate.ledger.knows(self._gate.paid_as(self._plan, self._step.name)[0]):
            raise ReleaseLost(
                "The parties divided their people before, and not all of them kept the parts.",
                remedy="Split again with the next repeat=.",
            )

    def keep(self, key: bytes) -> None:
        """Divide, and keep both parts, durably. The row in the ledger comes first: after it, no second key is ever used."""
        gate, (request, body) = self._gate, self._gate.paid_as(self._plan, self._step.name)
        views = gate.views
        assert views is not None  # a gate in a conversation stands before a guard
        whole = views.alignment(gate.terms.alignment)
        second = belongs(key, whole.people, share_of(self._plan, gate.terms.party, self._step.name))
        if second.all() or not second.any():
            raise BadInput("A part of the division would be empty.", remedy="Split more people, or by another share.")
        terms = row_terms(gate.ledger, self._plan, self._step)
        gate.ledger.record_alignment(request, body, label=label_of(self._plan, self._step), **terms)
        for part, taken in zip(PARTS, (~second, second), strict=True):
            places = np.flatnonzero(taken)
            ids = None if whole.ids is None else whole.ids.take(pa.array(places))
            views.add(Alignment(part_identity(self._plan, part), len(places), whole.order[places], ids, whole.union))
        gate.ledger.seal(request, codec.encode(Settled(step=self._step.name)))
