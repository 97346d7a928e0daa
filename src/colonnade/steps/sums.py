"""Steps that open exact sums of all parties' vectors, computed under pairwise masks. Not private.

A plan says of a sum whose vectors it is over, who it is opened to, and in which integers. `colonnade.conversations.sums`
says what a coalition sees of it.

Predictions are an individual-level output: what the recipient learns is the sum over the parties for each person, and
nothing that the sum does not tell. With two parties that is the other one's part. The weights decide what the sum tells, so
policies allow predictions by model and by recipient (`colonnade.party.policy.Policy.predictions`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import NOTHING, Loss
from colonnade.result import COORDINATOR, Opening
from colonnade.schema import Schema
from colonnade.secure.summation import SumRing
from colonnade.steps.kind import (
    Admission,
    Earlier,
    ScoreWeights,
    StepChannel,
    StepKind,
    WholeStep,
    nothing_earlier,
    number_list,
    number_parameter,
    whole_parameter,
)
from colonnade.steps.newton import family_of

SUMMED = (
    "Of {name} only sums over the parties were opened: no party's own part is seen unless all other parties pool theirs with "
    "the one that was told the sum."
)


@dataclass(frozen=True)
class SumTerms:
    """The terms of a secure sum.

    Parameters
    ----------
    owners
        Whose vectors are added, in canonical order.
    recipient
        To whom the sum is opened: the coordinator, or one of the owners.
    ring
        The integers it is computed in; they have room for the sum by proof.
    """

    owners: tuple[str, ...]
    recipient: str
    ring: SumRing

    @classmethod
    def read(cls, plan: Plan, name: str) -> "SumTerms":
        """Read a sum from a plan; refuse one that its parties would understand differently, or that could wrap."""
        steps = [step for step in plan.steps if step.name == name]
        owners = tuple(sorted(step.party for step in steps))
        if len(owners) < 2 or len(set(owners)) != len(owners) or not set(owners) <= set(plan.parties):
            raise PlanMismatch("A secure sum is one step at two or more of the plan's data parties.")
        terms = {(step.kind, step.parameters.get("bound"), step.parameters.get("recipient")) for step in steps}
        if len(terms) != 1:
            raise PlanMismatch("The parties of a secure sum are asked for different sums.")
        (_, bound, recipient) = terms.pop()
        recipient = COORDINATOR if recipient is None else recipient
        if type(bound) is not int or recipient not in (COORDINATOR, *owners):
            raise PlanMismatch("A secure sum has a bound, and opens to the coordinator or to one of its parties.")
        return cls(owners, str(recipient), SumRing.for_headroom(bound, len(owners)))


class SumStep(StepKind):
    """One party's vector in a secure sum without noise."""

    channel: ClassVar[StepChannel] = StepChannel.SUM
    conversation: ClassVar[str] = "sum"
    summed: ClassVar[str]
    """What is added up, in words."""

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the data parties of the sum. The ring is chosen here, so a sum that could wrap is refused."""
        return SumTerms.read(plan, name).owners

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return one opening without noise: every observer of it learns the sum."""
        return (Opening(title, tuple(whole.steps), (None,)),)

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what a sum hides."""
        return (SUMMED.format(name=cls.summed),)


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
        {"recipient", "bound", "weights", "outputs", "scale", "offsets", "reading", "family", "names"}
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
            raise PlanMismatch("The plan's number of weights does not match its scores.")
        if self.scale <= 0 or len(self.offsets) != self.outputs:
            raise BadInput("A step of predictions lacks its scale or its offsets.")
        reading = READINGS.get(str(step.parameters.get("reading")))
        if reading is None or not isinstance(names, tuple):
            raise BadInput("A step of predictions does not say how scores are read.")
        self._reading = reading
        self.family = family_of(step.parameters)
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
        chances = self.family.chances(scores.T).T
        return {str(name): chance for name, chance in zip(self.names, chances, strict=True)}

    def classes(self, scores: Scores) -> Columns:
        """Return the most probable class."""
        best = (scores[0] > 0).astype(np.intp) if self.outputs == 1 else scores.argmax(axis=0)
        return {"prediction": np.array(self.names, dtype=object)[best]}

    def clusters(self, scores: Scores) -> Columns:
        """Return the nearest centre."""
        return {"cluster": np.vstack([np.zeros((1, self.people)), scores]).argmax(axis=0)}

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return scores that one party alone is told: nothing is guaranteed towards it, and nobody else sees anything."""
        recipient = str(whole.first.parameters.get("recipient"))
        scope = tuple(party for party, step in whole.steps.items() if step.columns)
        return (Opening(f"individual scores opened to {recipient}", scope, (NOTHING,), key_holders=(recipient,)),)

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what the recipient learns."""
        return (DELIVERED.format(recipient=whole.first.parameters["recipient"]),)


READINGS = {
    "numbers": Predictions.numbers,
    "components": Predictions.numbers,
    "classes": Predictions.classes,
    "chances": Predictions.chances,
    "clusters": Predictions.clusters,
}
"""How scores are read, by the name that a plan gives it."""
