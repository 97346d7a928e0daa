"""A data party's part in a joint opening: reserve, then share."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError, ReleaseLost
from colonnade.party.steps import JointStatistic
from colonnade.party.steps.ledger_words import label_of, prepare, row_terms
from colonnade.plan import Plan, Step
from colonnade.privacy.randomness import KeyedRandomness

if TYPE_CHECKING:
    from colonnade.party.gate import Gate

__all__ = ["JointPart"]


class JointPart:
    """A data party's part in a run: reserve, then share.

    The 32 bytes that the ledger keeps are 24 random ones and a fingerprint of the columns under them. A restart adds the same
    noise; if the columns have changed meanwhile it refuses, because the same masks over other values would
    show the difference.
    """

    def __init__(self, gate: "Gate", plan: Plan, step: Step, statistic: JointStatistic) -> None:
        self._gate = gate
        self._plan = plan
        self._step = step
        self._statistic = statistic
        self._noise: KeyedRandomness | None = None

    def begin(self) -> bytes:
        """Pay, durably, and return the seed of this party's shares."""
        gate, (request, body) = self._gate, self._gate.paid_as(self._plan, self._step.name)
        if gate.ledger.answer_to(request, body) is not None or gate.ledger.opening_of(request) is not None:
            raise ReleaseLost(
                "This step was opened before, and is opened once.",
                remedy="Run the study again with the next repeat=; it is a new draw at a new price.",
            )
        gate.table.load(self._step.columns)
        prepare(self._statistic, gate.table)
        presence = "centres_of" in self._step.parameters or getattr(self._statistic, "looks_at_presence", False)
        kept = gate.ledger.seed_of(request)
        if kept is None:
            key = gate.randomness.bytes(24)
            kept = key + gate.table.fingerprint(self._step.columns, key, presence=presence)
            terms = row_terms(gate.ledger, self._plan, self._step)
            label = label_of(self._plan, self._step)
            gate.ledger.reserve(request, body, self._statistic.loss, label=label, seed=kept, **terms)
        elif gate.table.fingerprint(self._step.columns, kept[:24], presence=presence) != kept[24:]:
            raise ProtocolError(
                "The data has changed since this step was paid for.",
                remedy="Run the study again with the next repeat=.",
            )
        self._noise = KeyedRandomness(kept).spawn("noise")
        return KeyedRandomness(kept).spawn("shares").bytes(32)

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows; they leave as shares only."""
        return self._statistic.rows(self._gate.table, start, stop)

    def noise(self, entries: int) -> NDArray[np.int64]:
        """Return this party's share of the noise of the entries between parties."""
        assert self._noise is not None  # the run begins first
        return self._statistic.cross_noise(entries, self._noise.spawn("cross"))

    def own(self) -> NDArray[np.int64] | None:
        """Return this party's own part, noised by it alone."""
        assert self._noise is not None  # the run begins first
        return self._statistic.own(self._gate.table, self._noise.spawn("own"))

    def opening(self, answer: bytes) -> None:
        """Keep, durably, what is about to be opened; a step is opened once."""
        request, _ = self._gate.paid_as(self._plan, self._step.name)
        ledger, terms = self._gate.ledger, row_terms(self._gate.ledger, self._plan, self._step)
        ledger.record_opening(request, answer, label=label_of(self._plan, self._step), **terms)
