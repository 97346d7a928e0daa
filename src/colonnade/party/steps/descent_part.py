"""A data party's part in a gradient descent: pay for all steps at once, then share each of them at most once.

*A step is never shared twice.* Its noise is drawn afresh when it is shared, and follows from nothing that is kept, so there
is no noise that a restart could add to other weights. What is kept, durably, is how far this party may have gone: before the
first of every few steps it takes a lease of them, and after a restart it goes on behind the last lease, so that no more than
the steps that were paid for are ever shared. A lease is one durable write for a twenty-fifth of the steps.

The batches follow from the key that the parties agreed on, at every step's own place in its stream, also after a restart.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PolicyRefusal, ProtocolError, ReleaseLost
from colonnade.party.steps.gradient import Gradient
from colonnade.party.steps.ledger_words import label_of, row_terms
from colonnade.plan import Plan, Step
from colonnade.secure.batches import Batches
from colonnade.secure.framing import digest
from colonnade.steps.gradient_terms import KEY

if TYPE_CHECKING:
    from colonnade.party.gate import Gate

__all__ = ["DescentPart"]

Integers = NDArray[np.int64]

LEASES = 25


class DescentPart:
    """Pay, check the batches, and share one step after another.

    Parameters
    ----------
    gate
        The party's door.
    plan, step
        What is being run.
    statistic
        What the policy admitted.
    """

    def __init__(self, gate: "Gate", plan: Plan, step: Step, statistic: Gradient) -> None:
        self._gate = gate
        self._plan = plan
        self._step = step
        self._statistic = statistic
        self._request, self._body = gate.paid_as(plan, step.name)
        self._stride = max(1, math.ceil(statistic.terms.steps / LEASES))
        self._leased = 0
        self._shared = 0
        self._batches: Batches | None = None
        self._nonprivate_rows: NDArray[np.int16] | None = None
        self._nonprivate_labels: NDArray[np.int8] | None = None

    def begin(self) -> tuple[int, bytes]:
        """Pay for all steps, durably, once the batches have been checked; return where to go on, and which key this is."""
        gate, ledger = self._gate, self._gate.ledger
        if ledger.answer_to(self._request, self._body) is not None:
            raise ReleaseLost("This descent was concluded before.", remedy="Ask for what was kept of it.")
        key = ledger.seed_of(gate.paid_as(self._plan, KEY)[0])
        if key is None:
            raise ProtocolError("The parties have not agreed on the key of the batches.")
        gate.table.load(self._step.columns)
        self._batches = self._checked_batches(key)
        self._nonprivate_rows, self._nonprivate_labels = self._statistic.coded(gate.table)
        self._pay()
        self._shared = self._leased = self._find_leases()
        return self._leased, digest("colonnade batches in use v1", key)

    def last_weights(self) -> Integers | None:
        """Return the weights that the last lease was taken for."""
        if self._leased == 0:
            return None
        kept = self._gate.ledger.opening_of(self._lease(self._leased - self._stride))
        return None if kept is None else np.frombuffer(kept, dtype="<i8").astype(np.int64)

    def share(self, position: int, weights: Integers) -> tuple[Integers, Integers]:
        """Return the scores and rows of a step's batch, and fresh noise; refuse a step that may have been shared before."""
        if self._batches is None or self._nonprivate_rows is None or position < self._shared:
            raise ProtocolError("A step of a descent is shared once.")
        self._take_lease(position, weights)
        self._shared = position + 1
        terms, people = self._statistic.terms, self._batches.members(position)
        noise = self._statistic.noise(self._gate.randomness)
        nonprivate = np.zeros((terms.widths[self._step.party] + 1, terms.capacity), dtype=np.int64)
        rows = self._nonprivate_rows[people].astype(np.int64)
        labels = None if self._nonprivate_labels is None else self._nonprivate_labels[people]
        nonprivate[0, : len(people)] = self._statistic.scores(rows, labels, weights[terms.places(self._step.party)])
        nonprivate[1:, : len(people)] = rows.T
        return nonprivate, noise

    def _checked_batches(self, key: bytes) -> Batches:
        """Look at every batch before the first step: what peers learn is accounted by how often a person takes part."""
        terms = self._statistic.terms
        own = digest("colonnade batches v2", key, self._step.name)  # no other step ever draws these coins
        batches = Batches(own, terms.people, terms.rate, terms.steps, terms.sampling)
        if batches.largest_participation() > terms.noise.participations:
            raise PolicyRefusal(
                "By this key somebody takes part in more steps than the study is accounted for.",
                remedy="Run the study again with the next repeat=.",
            )
        return batches

    def _pay(self) -> None:
        """Reserve the price of all steps; the row keeps a fingerprint of the columns, so that they cannot change meanwhile."""
        gate, kept = self._gate, self._gate.ledger.seed_of(self._request)
        if kept is None:
            salt = gate.randomness.bytes(24)
            seed = salt + gate.table.fingerprint(self._step.columns, salt)
            label = label_of(self._plan, self._step)
            terms = row_terms(gate.ledger, self._plan, self._step)
            gate.ledger.reserve(self._request, self._body, self._statistic.loss, label=label, seed=seed, **terms)
        elif gate.table.fingerprint(self._step.columns, kept[:24]) != kept[24:]:
            raise ProtocolError(
                "The data has changed since this descent was paid for.",
                remedy="Run the study again with the next repeat=.",
            )

    def _take_lease(self, position: int, weights: Integers) -> None:
        """Keep, durably, that the next few steps may have been shared: before any of them is."""
        if position < self._leased:
            return
        start = position // self._stride * self._stride
        label = label_of(self._plan, self._step)
        for skipped in range(self._leased, start + 1, self._stride):  # steps that others took without us are gone too
            terms = row_terms(self._gate.ledger, self._plan, self._step)
            self._gate.ledger.record_opening(
                self._lease(skipped), weights.astype("<i8").tobytes(), label=label, **terms
            )
        self._leased = start + self._stride

    def _find_leases(self) -> int:
        """Return the end of the last lease; leases are taken in order, so the first missing one ends the search."""
        start = 0
        while start < self._statistic.terms.steps and self._gate.ledger.opening_of(self._lease(start)) is not None:
            start += self._stride
        return start

    def _lease(self, start: int) -> bytes:
        return digest("colonnade descent lease v1", self._request, start)
