"""Vertical SAGA on a coreset (paper 004, §6): residuals are sums over parties, opened batch by batch under pairwise masks.

::

    turn 0          out: hello
    turn 1          in: everyone's hello; inputs: weights            out: masked squared lengths of my whitened rows
    turn j ≥ 2      inputs: step, residuals of the batch before      out: my masked part of the next batch's residuals
    any turn        inputs: as before, and ``stop``                  out: my block of coefficients

The coordinator sees residuals, never one party's part of them. Which rows are in a batch is a public choice from the plan. Masks
are as in `colonnade.conversations.sums`, fresh in every turn and bound to everything that the coordinator has said so far:
were one party fed other residuals than the rest, to move its coefficients alone, no sum would come out from then on.
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import Conversation, Meeting, Member
from colonnade.conversations.sums import agreed_masks, inputs_digest
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Blob, Opened, Posted, Reply, pack, unpack
from colonnade.protocol.public_choice import public_subset
from colonnade.result import COORDINATOR
from colonnade.secure.mail import Session
from colonnade.steps.sums import SumTerms

__all__ = ["LARGEST_TURN", "SagaRun", "batch_of"]

LARGEST_TURN = 20_000
BATCHES = 8
SMALLEST_BATCH = 32


class Learner(Protocol):
    """What a data party brings."""

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Record, durably; return how many rows the sample has."""

    def lengths(self) -> NDArray[np.int64]:
        """Return the squared lengths of this party's rows."""

    def margins(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this party's part of the residuals of a batch."""

    def learn(self, batch: NDArray[np.int64], residuals: NDArray[np.float64], step: float) -> None:
        """Take one step."""

    def coefficients(self) -> NDArray[np.float64]:
        """Return this party's coefficients."""


def batch_of(plan: Plan, turn: int, rows: int) -> NDArray[np.int64]:
    """Return the rows whose residuals are opened in a turn."""
    return public_subset(plan, f"batch {turn}", rows, max(SMALLEST_BATCH, -(-rows // BATCHES)))


class SagaRun(Conversation):
    """One data party's side of vertical SAGA.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        The party's block of coefficients.
    secret
        32 fresh random bytes, for this run only.
    """

    name: ClassVar[str] = "saga"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: Learner | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party learns coefficients.")
        self._terms = SumTerms.read(plan, step)
        self._plan = plan
        self._part = part
        self._meeting = Meeting(member, plan, step, run, self._terms.owners, secret)
        self._session: Session | None = None
        self._seen = b""
        self._rows = 0

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if number == 0:
            return self._meeting.greet()
        self._seen = inputs_digest(inputs, self._seen)
        if number == 1:
            self._session = self._meeting.meet(letters)
            self._rows = self._part.begin(inputs)
            return self._sum(number, self._part.lengths())
        if self._session is None or number > LARGEST_TURN:
            raise ProtocolError("A turn after the end of a conversation.")
        if number > 2:
            self._learn(batch_of(self._plan, number - 1, self._rows), inputs)
        if "stop" in inputs:
            self._session = None  # told once, at the end: asked at every turn, it would tell row after row
            return Opened(share=None, own=pack(self._part.coefficients()))
        return self._sum(number, self._part.margins(batch_of(self._plan, number, self._rows)))

    def _learn(self, batch: NDArray[np.int64], inputs: Mapping[str, Array]) -> None:
        arrays = {name: unpack(array) for name, array in inputs.items()}
        residuals, step = arrays.get("residuals"), arrays.get("step")
        if residuals is None or step is None or residuals.shape != batch.shape or step.shape != (1,):
            raise ProtocolError("A turn of the training lacks its residuals or its step.")
        self._part.learn(batch, residuals.astype(np.float64), float(step.astype(np.float64)[0]))

    def _sum(self, number: int, values: NDArray[np.int64]) -> Posted:
        assert self._session is not None  # turn 1 comes first
        masked = agreed_masks(self._session, self._terms, self._seen).masked(number, values)
        return Posted(letters={COORDINATOR: Blob(masked.view(np.uint8).data)})
