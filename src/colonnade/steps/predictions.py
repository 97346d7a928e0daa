"""Individual scores under a public model, added under masks and opened to one party: an individual-level output.

What the recipient learns is the sum over the parties for each person, and nothing that the sum does not tell. With two parties
that is the other one's part. The weights decide what the sum tells, so policies allow predictions by model and by recipient
(`colonnade.party.policy.Policy.predictions`).
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.loss import NOTHING, Loss
from colonnade.result import Opening
from colonnade.schema import Schema
from colonnade.steps.kind import Admission, Earlier, Steps, nothing_earlier
from colonnade.steps.parameters import number_list, number_parameter, whole_parameter
from colonnade.steps.scores import ScoreWeights
from colonnade.steps.sums import SumStep, SumTerms

__all__ = ["Predictions"]

DELIVERED = (
    "Individual-level output: everybody's score under the plan's weights was opened to {recipient}, outside the "
    "differential-privacy promise. Only sums over the parties were opened; with two parties, or if all others pool theirs with "
    "{recipient}, a party's own part is seen. The coordinator relayed sealed letters."
)

Scores = NDArray[np.float64]
Columns = dict[str, NDArray[np.generic]]


class Predictions(SumStep):
    """Partial scores as integers, one output after the other, each over all people; and what the recipient makes of the sums."""

    name: ClassVar[str] = "predictions"
    title: ClassVar[str] = "individual scores opened to one party, without noise"
    summed: ClassVar[str] = "scores"
    admission: ClassVar[Admission] = Admission.PREDICTION
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"recipient", "bound", "weights", "outputs", "scale", "offsets", "reading", "names"}
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.recipient = SumTerms.read(plan, step.name).recipient
        if self.recipient not in plan.parties:
            raise PlanMismatch("Individual scores are opened to a party, never to the coordinator.")
        self.bound = whole_parameter(step.parameters, "bound")
        self.outputs = whole_parameter(step.parameters, "outputs")
        self.scale = number_parameter(step.parameters, "scale")
        self.offsets = np.array(number_list(step.parameters, "offsets"))
        names = step.parameters.get("names")
        weights = number_list(step.parameters, "weights")
        self.scores = ScoreWeights(step.columns, schema, weights) if step.columns else None
        if self.scores is not None and self.scores.outputs != self.outputs:
            raise PlanMismatch("The plan has weights for another number of scores.")
        if self.scale <= 0 or len(self.offsets) != self.outputs:
            raise BadInput("A step of predictions lacks its scale or its offsets.")
        reading = READINGS.get(str(step.parameters.get("reading")))
        if reading is None or not isinstance(names, tuple):
            raise BadInput("A step of predictions does not say how scores are read.")
        self._reading = reading
        self.names = names

    @property
    def length(self) -> int:
        """How many integers there are."""
        return self.outputs * self.people

    def read_sums(self, sums: NDArray[np.int64]) -> Columns:
        """Return what the recipient is told, by column, from the sums of all integers."""
        return self._reading(self, sums.reshape(self.outputs, self.people) / self.scale + self.offsets[:, None])

    def numbers(self, scores: Scores) -> Columns:
        """Return the scores as they are."""
        return {str(name): score for name, score in zip(self.names, scores, strict=True)}

    def chances(self, scores: Scores) -> Columns:
        """Return the probability of each class."""
        scores = np.vstack([np.zeros((1, self.people)), scores]) if self.outputs == 1 else scores
        odds = np.exp(scores - scores.max(axis=0))
        return {str(name): chance for name, chance in zip(self.names, odds / odds.sum(axis=0), strict=True)}

    def classes(self, scores: Scores) -> Columns:
        """Return the most probable class."""
        best = (scores[0] > 0).astype(np.intp) if self.outputs == 1 else scores.argmax(axis=0)
        return {"prediction": np.array(self.names, dtype=object)[best]}

    def clusters(self, scores: Scores) -> Columns:
        """Return the nearest centre."""
        return {"cluster": np.vstack([np.zeros((1, self.people)), scores]).argmax(axis=0)}

    @classmethod
    def openings(
        cls,
        plan: Plan,
        steps: Steps,
        losses: Mapping[str, Loss],
        schemas: Mapping[str, Schema],
        title: str,
    ) -> tuple[Opening, ...]:
        """Return scores that one party alone is told: nothing is guaranteed towards it, and nobody else sees anything."""
        recipient = str(next(iter(steps.values())).parameters.get("recipient"))
        scope = tuple(party for party, step in steps.items() if step.columns)
        return (Opening(f"individual scores opened to {recipient}", scope, (NOTHING,), key_holders=(recipient,)),)

    @classmethod
    def assumptions(cls, plan: Plan, steps: Steps) -> tuple[str, ...]:
        """Return what the recipient learns."""
        return (DELIVERED.format(recipient=next(iter(steps.values())).parameters["recipient"]),)


READINGS = {
    "numbers": Predictions.numbers,
    "components": Predictions.numbers,
    "classes": Predictions.classes,
    "chances": Predictions.chances,
    "clusters": Predictions.clusters,
}
"""How scores are read, by the name that a plan gives it."""
