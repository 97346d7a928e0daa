"""Scoring people with a public model and opening each score to one named party; the coordinator relays what it cannot read.

Each party multiplies its own columns by its weights; the parts are added under pairwise masks
(`colonnade.conversations.sums`) and the sums are opened to the recipient. An individual-level output: outside the
differential-privacy promise, and allowed by every party's policy by model and by recipient.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.secure_sum import relay_sum
from colonnade.errors import BadInput
from colonnade.estimation.additive_scores import PartyScores
from colonnade.plan import Parameter, Plan, Step
from colonnade.protocol.rounds import Rounds
from colonnade.schema import Level
from colonnade.steps.predictions import Predictions

__all__ = ["Prediction"]

RESOLUTION = 40
"""Scores are rounded to 2⁻⁴⁰ of the largest part's power of two."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """One scoring of all people.

    Parameters
    ----------
    parts
        Who adds what.
    offsets
        What is added to the sum of all parts, one a score.
    recipient
        To whom scores are opened.
    reading
        What the recipient makes of them: ``"numbers"``, ``"classes"``, ``"chances"``, ``"components"`` or ``"clusters"``.
    names
        Of the columns, or the classes.
    """

    parts: Sequence[PartyScores]
    offsets: Array
    recipient: str
    reading: str
    names: Sequence[Level]

    def __post_init__(self) -> None:
        if len({part.party for part in self.parts} | {self.recipient}) < 2:
            raise BadInput(
                "The model uses no column of another party than the recipient.",
                remedy="That party can score its own rows by itself: est.predict(frame).",
            )

    @property
    def name(self) -> str:
        """What the step is called, in the ledger too."""
        return f"scores-to-{self.recipient}"

    @property
    def scale(self) -> float:
        """How many integer steps one unit of a score is: a power of two."""
        largest = max((float(part.largest.max()) for part in self.parts), default=0.0) or 1.0
        return 2.0 ** (RESOLUTION - math.ceil(math.log2(largest)))

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party; a recipient without columns of its own adds nothing."""
        bound = max(math.ceil(float(part.largest.max()) * self.scale) for part in self.parts) + 1
        own = {part.party: part for part in self.parts}
        parties = [*own, *([] if self.recipient in own else [self.recipient])]
        return tuple(self._step(party, own.get(party), bound) for party in parties)

    def rounds(self, plan: Plan) -> Rounds:
        """Relay the sum; nothing comes back."""
        yield from relay_sum(plan, self.name, len(self.offsets) * plan.people)

    def _step(self, party: str, part: PartyScores | None, bound: int) -> Step:
        parameters: dict[str, Parameter] = {
            "recipient": self.recipient,
            "bound": bound,
            "outputs": len(self.offsets),
            "weights": () if part is None else tuple(part.weights.ravel().tolist()),
            "scale": self.scale,
            "offsets": tuple(self.offsets.tolist()),
            "reading": self.reading,
            "names": tuple(self.names),
        }
        columns = () if part is None else part.columns
        return Predictions.ask(name=self.name, party=party, columns=columns, parameters=parameters, price=None)
