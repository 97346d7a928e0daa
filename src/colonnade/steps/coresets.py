"""What one party contributes to a coreset (Coresets, Algorithms 1 to 3, and §6). None of it is differentially private.

A total tells the rank of the party's columns, or how many clusters they have. Draws, and scores of the drawn rows, leave only
under masks that cancel in the sum over all parties (`colonnade.conversations.sums`): together they tell which rows matter to
some party. Rows are exact values of the rows that were drawn. `docs/explanation/coresets.md` says what this gives away.

What limits the damage: the rows whose scores are summed are fixed once for each study, at most as many as its plan says, and kept
in the party's own ledger; only these rows are ever gathered, whatever a coordinator asks for later.
"""

from typing import ClassVar, Literal

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.protocol import codec
from colonnade.protocol.public_choice import public_positions
from colonnade.schema import Schema
from colonnade.steps.kind import Earlier, StepKind, Steps, nothing_earlier
from colonnade.steps.parameters import whole_parameter
from colonnade.steps.sums import SumStep, SumTerms

__all__ = [
    "LARGEST_SCORES",
    "SCORE_SCALE",
    "CoresetClusters",
    "CoresetDraws",
    "CoresetGradient",
    "CoresetRows",
    "CoresetSample",
    "CoresetScores",
    "CoresetTerms",
    "CoresetTotal",
]

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
        terms = SumTerms.read(plan, step.name)
        if terms.ring.bound < plan.people:
            raise BadInput("The bound of the sum is below the number of people.")
        self.owners = terms.owners
        self.question = codec.request_identity(plan, step.party, step.name)

    @classmethod
    def assumptions(cls, plan: Plan, steps: Steps) -> tuple[str, ...]:
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
        if SumTerms.read(plan, step.name).ring.bound < self.terms.largest_score * SCORE_SCALE:
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
        if not isinstance(ridge, float) or not 0 <= ridge < float("inf"):
            raise BadInput("A ridge penalty is a finite number, zero or more.")
        self.ridge = ridge
        SumTerms.read(plan, step.name)


def _task(value: object) -> Literal["regression", "kmeans", "uniform"]:
    if value not in ("regression", "kmeans", "uniform"):
        raise BadInput("A coreset is for a regression, for k-means, or uniform.")
    return value
