"""Steps that open exact sums of all parties' vectors, computed under pairwise masks, and the steps of coresets. Not private.

A plan says of a sum whose vectors it is over, who it is opened to, and in which integers. `colonnade.conversations.sums`
says what a coalition sees of it.

Predictions are an individual-level output: what the recipient learns is the sum over the parties for each person, and
nothing that the sum does not tell. With two parties that is the other one's part. The weights decide what the sum tells, so
policies allow predictions by model and by recipient (`colonnade.party.policy.Policy.predictions`).

What one party contributes to a coreset (Coresets, Algorithms 1 to 3, and §6): a total tells the rank of the party's
columns, or how many clusters they have. Draws, and scores of the drawn rows, leave only under masks: together they tell
which rows matter to some party. Rows are exact values of the rows that were drawn. `docs/explanation/coresets.md` says what
this gives away. What limits the damage: the rows whose scores are summed are fixed once for each study, at most as many as
its plan says, and kept in the party's own ledger; only these rows are ever gathered, whatever a coordinator asks for later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import NOTHING, Loss
from colonnade.protocol import codec
from colonnade.protocol.public_choice import public_positions
from colonnade.result import COORDINATOR, Opening
from colonnade.schema import Schema
from colonnade.secure.summation import SumRing
from colonnade.steps.kind import (
    LARGEST_NUMBER,
    Admission,
    Channel,
    Earlier,
    ScoreWeights,
    StepKind,
    WholeStep,
    nothing_earlier,
    number_list,
    number_parameter,
    whole_parameter,
)

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

    channel: ClassVar[Channel] = Channel.SUM
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


SCORE_SCALE = 2**48
"""Scores are summed as integers, in this unit: a score of 1/people keeps eight digits with a million people."""

LARGEST_SIZE = 10_000_000
LARGEST_CLUSTERS = 4_096
LARGEST_SCORES = {"uniform": 1.0, "regression": 2.0, "kmeans": 4.0}

CORESET = frozenset({"task", "size", "clusters", "seed", "target"})
"""What every step of a coreset study says."""

DRAWN = (
    "Who drew which rows is hidden from the coordinator and from each party, as long as they do not pool what they see; of two "
    "parties, each learns what the other drew."
)


class CoresetTerms:
    """A party's columns in a coreset study.

    Parameters
    ----------
    plan, step, schema
        The step's ``task`` is ``"regression"``, ``"kmeans"`` or ``"uniform"``; ``target`` names the explained column where this
        party holds it.
    """

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = {"clusters": 1, "seed": 0, **step.parameters}
        self.task = _task(parameters.get("task"))
        self.size = whole_parameter(parameters, "size", min(LARGEST_SIZE, plan.people))
        self.clusters = whole_parameter(parameters, "clusters", LARGEST_CLUSTERS)
        self.seed = whole_parameter(parameters, "seed", 2**31 - 1, least=0)
        self.target = parameters.get("target")
        if self.target is not None and self.target not in step.columns:
            raise PlanMismatch("The target is not among the columns of its party's step.")
        self.people = plan.people
        self.columns = step.columns
        self.schema = schema

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that explain: all but the target."""
        return tuple(name for name in self.columns if name != self.target)

    @property
    def largest_score(self) -> float:
        """What no row's score exceeds."""
        return LARGEST_SCORES[self.task]


class CoresetStep(StepKind):
    """A step of a coreset study."""

    permission: ClassVar[str] = "coreset"
    parameters: ClassVar[frozenset[str]] = CORESET

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.terms = CoresetTerms(plan, step, schema)


class CoresetTotal(CoresetStep):
    """G: the sum of a party's scores. It tells the rank of the block plus one, or how many clusters have rows."""

    name: ClassVar[str] = "coreset-total"
    title: ClassVar[str] = "total of importance scores, exact"


class CoresetSample(CoresetStep):
    """A uniform sample: every party repeats the same public choice of rows, which says nothing about anybody."""

    name: ClassVar[str] = "coreset-sample"
    title: ClassVar[str] = "public uniform choice of rows"

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.sample = public_positions(plan, step.name, self.terms.size)


class CoresetRows(CoresetStep):
    """The exact coded values of the sampled rows."""

    name: ClassVar[str] = "coreset-rows"
    title: ClassVar[str] = "rows of a coreset, exact"


class CoresetClusters(CoresetStep):
    """Local clusters of the sampled rows (DISTDIM): centres, and each row's cluster."""

    name: ClassVar[str] = "coreset-clusters"
    title: ClassVar[str] = "local clusters of a coreset, exact"


class CoresetDraws(SumStep, CoresetStep):
    """Rows drawn with probability g/G, with replacement, for a secure sum that hides who drew which.

    The sum has one place per draw. A key that the parties agreed on says which places are whose. A party puts the rows that it
    drew there (counted from one) and nothing elsewhere. The coordinator thus learns which rows were drawn and not by which party;
    so does a peer, which knows whose the places are but is shown the rows in another order. The two together learn it.

    The draw follows from the data and the plan: its seed is a hash of the scores themselves. Asking again tells nothing new, and
    nobody who lacks some of the party's scores can foresee or steer it.
    """

    name: ClassVar[str] = "coreset-draws"
    title: ClassVar[str] = "rows drawn by importance, exact"
    summed: ClassVar[str] = "rows drawn"
    parameters: ClassVar[frozenset[str]] = CORESET | {"bound", "recipient"}

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        terms = _of_the_coordinator(plan, step.name)
        if terms.ring.bound < plan.people:
            raise BadInput("The bound of the sum is below the number of people.")
        self.owners = terms.owners
        self.question = codec.request_identity(plan, step.party, step.name)

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what hides the draws."""
        return (DRAWN,)


class CoresetScores(SumStep, CoresetStep):
    """A party's scores of the drawn rows, for the secure sum."""

    name: ClassVar[str] = "coreset-scores"
    title: ClassVar[str] = "sum of importance scores, exact"
    summed: ClassVar[str] = "importance scores"
    parameters: ClassVar[frozenset[str]] = CORESET | {"bound", "recipient"}

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        if _of_the_coordinator(plan, step.name).ring.bound < self.terms.largest_score * SCORE_SCALE:
            raise BadInput("The bound of the sum is below the largest score.")


class CoresetGradient(SumStep, CoresetStep):
    """One party's block of coefficients in vertical SAGA, where residuals are sums over parties.

    The label's party holds the intercept and subtracts the label, so that the sum over parties is the residual.
    """

    name: ClassVar[str] = "coreset-gradient"
    title: ClassVar[str] = "residuals of a coreset, exact"
    conversation: ClassVar[str] = "saga"
    summed: ClassVar[str] = "residuals"
    parameters: ClassVar[frozenset[str]] = CORESET | {"bound", "recipient", "ridge"}

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        ridge = step.parameters.get("ridge", 0.0)
        if not isinstance(ridge, float) or not 0 <= ridge <= LARGEST_NUMBER:
            raise BadInput("A ridge penalty is a number of ordinary size, zero or more.")
        self.ridge = ridge
        _of_the_coordinator(plan, step.name)


def _of_the_coordinator(plan: Plan, name: str) -> SumTerms:
    """Read a sum that is opened to the coordinator, and refuse one that is opened to a party."""
    terms = SumTerms.read(plan, name)
    if terms.recipient != COORDINATOR:
        raise PlanMismatch("What a coreset adds up is opened to the coordinator, and to no party.")
    return terms


def _task(value: object) -> Literal["regression", "kmeans", "uniform"]:
    if value not in ("regression", "kmeans", "uniform"):
        raise BadInput("A coreset is for a regression, for k-means, or uniform.")
    return value
