"""The kinds of step that papers brought, as everybody knows them. The end of this module registers them.

*A gradient descent*, read from a plan: whose columns, which nodes, how many steps, how much noise, which arithmetic. Everyone
who takes part reads the same plan and arrives at the same object, or refuses. Nothing in it is private.

Only the first 2t + 1 of a plan's compute nodes compute. More would make the opening redundant, and it is the redundancy that a
badly dealt table could be read from (`colonnade.papers.conversations`).

*What one party contributes to a coreset* (Coresets, Algorithms 1 to 3, and §6): a total tells the rank of the party's
columns, or how many clusters they have. Draws, and scores of the drawn rows, leave only under masks: together they tell
which rows matter to some party. Rows are exact values of the rows that were drawn. `docs/explanation/coresets.md` says what
this gives away. What limits the damage: the rows whose scores are summed are fixed once for each study, at most as many as
its plan says, and kept in the party's own ledger; only these rows are ever gathered, whatever a coordinator asks for later.

*Sketches* of columns are the sketch-and-perturb of Primitives, Algorithm 4 and Theorems E.4 and E.5. We differ from the paper
in the signs (±1, so that every person's column of G has length √s exactly and integers stay integers; no check that can fail),
in the noise (discrete, at the exact sensitivity; the paper's Θ(·) taken as 1 would not be private enough), and in one more
row, of ones: it carries the column sums, which let the reader centre the columns. Sketches of who is in which local cluster
are Private vertical clustering, Algorithm 3, mended (docs/proofs/sketches.md).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import ClassVar, Literal

from colonnade.errors import BadInput, PlanMismatch, ProtocolError, SchemaMismatch
from colonnade.papers.draws import Sampling, Signs, batch_capacity, batches_per_round
from colonnade.papers.laws import (
    GradientNoise,
    NarrowGaussian,
    PairSide,
    PartitionSketches,
    PerturbedValues,
    WholeValues,
    participation_bound,
    sketching,
    valid_change,
)
from colonnade.plan import EVENT, Plan, Step
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace
from colonnade.protocol import messages
from colonnade.protocol.public_choice import public_positions
from colonnade.result import COORDINATOR, Opening
from colonnade.schema import Schema
from colonnade.secure.residues import Arithmetic, noise_tail
from colonnade.steps.kind import (
    KINDS,
    LARGEST_NUMBER,
    TASKS,
    Earlier,
    FixedPoint,
    Forecast,
    HashedStep,
    NoiseWords,
    PlannedMethod,
    StepChannel,
    StepKind,
    WholeStep,
    check_nodes,
    nothing_earlier,
    price_words,
    require_width,
    secure_words,
    seed_parameter,
    whole_parameter,
)
from colonnade.steps.local import KEY_BYTES, MEMBERSHIP, GroupKey, Membership, Reports, key_holders
from colonnade.steps.newton import LARGEST_WIDTH, LabelledSteps, LabelledTerms
from colonnade.steps.registry import CLUSTERS
from colonnade.steps.sums import SumStep, SumTerms

STEP = "gradient"
"""The step of the descent."""
KEY = "batches"
"""The step in which the parties agree on the key of the batches."""

LARGEST_STEPS = 1_000_000
LARGEST_WEIGHT = 2**30
"""With it a party's part of a score stays below 2⁶⁰: entries below 2¹⁵, columns below 2¹⁵."""

_COMMON = ("scale", "weight_scale", "steps", "rate", "sampling")


@dataclass(frozen=True)
class GradientTerms(LabelledTerms):
    """One descent.

    Parameters
    ----------
    noise
        How much noise there is, and what each party's ledger is debited for it.
    """

    noise: GradientNoise

    @classmethod
    def read(cls, plan: Plan, name: str) -> "GradientTerms":
        """Read a descent from a plan; refuse one that could not keep its promise. A plan is read once."""
        return _read(HashedStep(messages.digest(plan), name, plan))

    @classmethod
    def _of(cls, plan: Plan, name: str) -> "GradientTerms":
        parts = {step.party: step for step in plan.steps if step.name == name}
        if len(parts) < 2 or any(step.kind != GradientStep.name for step in parts.values()):
            raise PlanMismatch("A gradient is computed by two data parties or more.")
        plan.require_named()
        if any(step.kind == GradientStep.name and step.name != name for step in plan.steps):
            raise PlanMismatch("A plan has one descent: a second one under the same key would not be amplified.")
        if set(key_holders(plan, KEY)) != set(parts):
            raise PlanMismatch("The data parties of a gradient agree on the key of its batches first.")
        for parameter in _COMMON:
            if len({step.parameters.get(parameter) for step in parts.values()}) != 1:
                raise PlanMismatch("The parties of a gradient are asked for different scales or steps.")
        if sum(bool(step.parameters.get("target")) for step in parts.values()) != 1:
            raise PlanMismatch("Exactly one party holds the target.")
        check_nodes(plan)
        return cls(
            parts, plan.compute_nodes[: 2 * plan.threshold + 1], plan.threshold, plan.people, _noise(plan, parts)
        )

    @cached_property
    def weight_scale(self) -> int:
        """ω: a weight of one is the integer ω."""
        return whole_parameter(self.first.parameters, "weight_scale", LARGEST_WEIGHT)

    @property
    def steps(self) -> int:
        """T."""
        return self.noise.steps

    @property
    def rate(self) -> float:
        """The share of people in a batch."""
        return self.noise.rate

    @property
    def sampling(self) -> Sampling:
        """How people are drawn into batches."""
        return "poisson" if self.noise.secret else "balanced"

    @cached_property
    def capacity(self) -> int:
        """How many rows a step shares. It does not depend on who takes part."""
        return batch_capacity(self.people, self.rate, self.steps, self.sampling)

    @property
    def largest(self) -> int:
        """The largest magnitude of a shared integer."""
        return max(self.scale, *self.noise.score_bounds.values())

    @cached_property
    def bound(self) -> int:
        """No opened integer exceeds this: at most `capacity` rows of |v| ≤ C and |x| ≤ γ, and the noise."""
        reached = self.capacity * sum(self.noise.score_bounds.values()) * self.scale
        return reached + noise_tail(math.ceil(self.noise.opened_variance))

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """The cheapest arithmetic in which nothing can wrap: the headroom proof, at plan time."""
        return Arithmetic.for_headroom(self.bound, len(self.nodes))


BATCHES = (
    "Who takes part in a step follows from a key that {parties} agreed on and the coordinator does not know. Towards anybody who "
    "holds it, or the coordinator with one of them, only the noise protects a person, in at most {participations} of {steps} "
    "steps: every party checked this on the key before the first. The key is erased at the end."
)


class GradientStep(LabelledSteps):
    """One party's rows, scores and noise in every step of a gradient descent (Secure PCA, Algorithm 4).

    With labels s = ±1 and the sigmoid replaced by its tangent ½ + z/4, four times the gradient of one person is (⟨w, x⟩ − 2s)·x.
    In integers: entries of x are multiplied by γ, weights by ω, and v = Σ_q v_q stands for γω(⟨w, x⟩ − 2s), each v_q clipped by
    the party that makes it, the label within the part of the party that holds it. We differ from the paper in that the three
    vectors it releases are one, and that the clipping of scores, not a promise about weights, bounds them: the bound holds
    whatever weights arrive.

    The constant column is the target holder's: γ for a person who has a label, else 0, so that a null record adds nothing to a
    step. Sensitivity: `colonnade.papers.laws.GradientNoise`. Every row has squared length at most R_q² and every
    score is at most C_q in magnitude. The party enforces both, in integers.
    """

    name: ClassVar[str] = "gradient"
    title: ClassVar[str] = "gradient steps with noise in shares"
    channel: ClassVar[StepChannel] = StepChannel.SHARES
    conversation: ClassVar[str] = "gradient"
    together: ClassVar[bool] = True
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"scale", "weight_scale", "row_bound", "score_bound", "width", "target", "steps", "rate", "sampling"}
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.terms = GradientTerms.read(plan, step.name)
        self.target = str(step.parameters.get("target", ""))
        self.score_bound = self.terms.noise.score_bounds[step.party]
        constant = self.terms.scale**2 if self.target else 0
        row_bound = self.terms.noise.row_bounds[step.party]
        features = [name for name in step.columns if name != self.target]
        if self.target and (self.target not in step.columns or schema[self.target].size != 2):
            raise SchemaMismatch("The target of a gradient is a category of two levels.")
        self.coding = (
            FixedPoint(features, schema, scale=self.terms.scale, row_bound=row_bound - constant) if features else None
        )
        if not features and row_bound < constant:
            raise PlanMismatch("The plan bounds this party's rows below the constant column.")
        require_width(self.terms.widths[step.party], self.width)

    @property
    def loss(self) -> Loss:
        """What all steps together cost, to be debited before the first of them."""
        loss = self.terms.noise.loss(party=self._owner)
        assert loss is not None  # all parties' noise is there
        return loss

    @property
    def limits_peers(self) -> bool:
        """Peers know the batches."""
        return True

    @property
    def peer_loss(self) -> Loss | None:
        """What a peer learns, who knows the batches and its own noise; ``None`` if nothing is left to protect."""
        return self.terms.noise.loss(colluders=1, party=self._owner)

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return who takes part. The arithmetic is chosen here, so a plan in which something could wrap is refused."""
        terms = GradientTerms.read(plan, name)
        terms.arithmetic  # noqa: B018  # the headroom proof
        return terms.members

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return one opening for all steps of a descent: secret batches count towards anybody who does not hold their key."""
        terms = GradientTerms.read(whole.plan, whole.name)
        noise, counts = terms.noise, range(len(terms.owners))
        seen = counts[:1] if noise.secret else counts
        return (
            Opening(
                mechanism=title,
                scope=terms.owners,
                losses=tuple(noise.loss(colluders=count) for count in seen),
                party_losses={
                    owner: tuple(noise.loss(colluders=count, party=owner) for count in seen) for owner in terms.owners
                },
                nodes=terms.nodes,
                threshold=terms.threshold,
                key_holders=terms.owners if noise.secret else (),
                keyed_losses=tuple(noise.loss(colluders=max(count, 1)) for count in counts),
            ),
        )

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what is assumed of the batches' key, compute nodes, colluders and inputs."""
        terms = GradientTerms.read(whole.plan, whole.name)
        secure = secure_words(whole.plan, 0 if terms.noise.secret else whole.plan.collusion)
        if not terms.noise.secret:
            return secure
        batches = BATCHES.format(
            parties=", ".join(terms.owners), participations=terms.noise.participations, steps=f"{terms.steps:,}"
        )
        return (batches, *secure)

    @classmethod
    def noise_words(cls, whole: WholeStep) -> tuple[NoiseWords, ...]:
        """Return the noise of one step."""
        first = whole.first
        terms = GradientTerms.read(whole.plan, first.name)
        noise, unit = terms.noise, 4.0 * terms.scale**2 * terms.weight_scale  # integers per coded unit of a gradient
        sensitivity, scale = noise.describe(unit)
        return (
            NoiseWords(
                step=first.name,
                parties=terms.owners,
                kind=cls.name,
                mechanism=f"gaussian noise in shares of {len(whole.steps)} parties, in each of {terms.steps:,} steps",
                sensitivity=sensitivity,
                scale=scale,
                price=price_words(first),
                proof=GradientNoise,
            ),
        )

    @classmethod
    def forecast(cls, whole: WholeStep, forecast: Forecast, *, kept: bool) -> bool:
        """Say that it is not possible: nobody has counted the bytes of a descent yet."""
        return False


@lru_cache(maxsize=64)
def _read(hashed: HashedStep) -> GradientTerms:
    return GradientTerms._of(hashed.plan, hashed.name)  # its own module


def _noise(plan: Plan, parts: Mapping[str, Step]) -> GradientNoise:
    first = next(iter(parts.values()))
    if first.price is None or len({step.price for step in parts.values()}) != 1:
        raise PlanMismatch("The parties of a gradient are offered one price.")
    steps, rate, sampling = (
        whole_parameter(first.parameters, "steps", LARGEST_STEPS),
        _rate(first),
        first.parameters.get("sampling"),
    )
    if sampling not in ("poisson", "balanced"):
        raise BadInput("Batches are 'poisson' or 'balanced'.")
    secret = sampling == "poisson" and rate < 1
    return GradientNoise(
        score_bounds={party: whole_parameter(step.parameters, "score_bound", 2**50) for party, step in parts.items()},
        row_bounds={party: whole_parameter(step.parameters, "row_bound", 2**50) for party, step in parts.items()},
        columns=sum(whole_parameter(step.parameters, "width", LARGEST_WIDTH) for step in parts.values()),
        steps=steps,
        rate=rate,
        participations=participation_bound(rate, steps) if secret else math.ceil(steps / batches_per_round(rate)),
        secret=secret,
        price=first.price,
        unit=plan.unit,
        collusion=plan.collusion,
    )


def _rate(step: Step) -> float:
    rate = step.parameters.get("rate")
    if not isinstance(rate, float) or not 0 < rate <= 1:
        raise BadInput("A gradient step lacks its rate, a number above 0 and at most 1.")
    return rate


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
        self.question = messages.request_identity(plan, step.party, step.name)

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


class ValueStep(StepKind):
    """A step about one column of whole numbers. Neighbours differ in one value by at most ``change``."""

    parameters: ClassVar[frozenset[str]] = frozenset({"change"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        if len(step.columns) != 1:
            raise BadInput(
                "A moment takes one column per party.",
                remedy='For example columns=["clinic.visits", "pharmacy.purchases"]: one per party.',
            )
        self.change = valid_change(step.parameters.get("change"))
        if (plan.relation == EVENT) != (self.change != "bounds"):
            raise PlanMismatch("The plan's relation is not the one that its change of a value belongs to.")
        self.values = WholeValues.of(schema[step.columns[0]], step.columns[0], self.change)
        if plan.people * self.values.high >= 2**62:
            raise BadInput("A total of this column could exceed eight bytes.", remedy="Narrow its bounds.")

    def replaced_loss(self, loss: Loss) -> Loss | None:
        """Return the same loss where the whole value is protected: any value may take its place."""
        return loss if self.change == "bounds" else None


class Values(ValueStep):
    """Each person's whole number at this party, perturbed person by person.

    Sensitivity: a person's record decides one entry. Between neighbours it changes by at most ``change``, or by the width of the
    bounds for ``"bounds"``. Checked by tests/papers/test_moment_statistics.py.
    """

    name: ClassVar[str] = "values"
    title: ClassVar[str] = "whole numbers with discrete Laplace noise, person by person"

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise on every entry."""
        return PerturbedValues(price, self.values)

    @property
    def release_bytes(self) -> int | None:
        """One packed number per person."""
        if self.price is None:
            return None
        return self.people * int(self.values.carrier(self.price).dtype[-1])


class Total(ValueStep):
    """The sum of one column.

    Sensitivity: one person moves it by at most ``change``, or by the width of the bounds for ``"bounds"``. Checked by
    tests/papers/test_moment_statistics.py.
    """

    name: ClassVar[str] = "total"
    title: ClassVar[str] = "sum of one column with discrete Laplace noise"

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise."""
        return DiscreteLaplace(price, self.values.sensitivity)

    @property
    def release_bytes(self) -> int:
        """One number."""
        return 8


class Rows(StepKind):
    """All rows of one party as integers, each entry perturbed: the local-perturbation baseline of Secure PCA, Algorithm 3.

    Sensitivity: zeroing a person's record zeroes one row, whose squared length is at most ``row_bound``, so Δ₂² = ``row_bound``.
    The number of rows is public. Under add/remove it would give the person away (the paper claims that relation, wrongly).
    Checked by tests/party/test_statistics.py.
    """

    name: ClassVar[str] = "rows"
    title: ClassVar[str] = "rows with discrete Gaussian noise"
    parameters: ClassVar[frozenset[str]] = frozenset({"scale"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        scale = whole_parameter(step.parameters, "scale")
        self.coding = FixedPoint(step.columns, schema, scale=scale, row_bound=scale**2 * len(step.columns))

    def law(self, price: Price) -> Mechanism:
        """Return discrete Gaussian noise on every entry, in four bytes each."""
        return NarrowGaussian(price, self.coding.row_bound, self.coding.scale)

    @property
    def release_bytes(self) -> int:
        """Four bytes per entry."""
        return 4 * self.people * self.coding.width

    def replaced_loss(self, loss: Loss) -> Loss:
        """Return four times the loss: a row moves twice as far."""
        return loss * 4


class SketchStep(StepKind):
    """G times one party's coded columns, under a row of column sums; s + 1 rows in all.

    Sensitivity: a neighbour's rows differ in one person's integers x. The sketch then differs in that person's column of G, signs
    and a one, times x: Δ₂² = (s + 1)·‖x‖², exactly. Zero-out makes a person's coded row zero, so ‖x‖² is at most ``row_bound``.
    Checked by tests/papers/test_sketch_statistics.py.
    """

    name: ClassVar[str] = "sketch"
    title: ClassVar[str] = "random combinations of rows with discrete Gaussian noise"
    parameters: ClassVar[frozenset[str]] = frozenset({"size", "seed", "scale", "row_bound", "width"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.signs = signs_of(step)
        self.coding = FixedPoint(
            step.columns,
            schema,
            scale=whole_parameter(step.parameters, "scale"),
            row_bound=whole_parameter(step.parameters, "row_bound"),
        )
        require_width(step.parameters.get("width"), self.coding.width)

    def law(self, price: Price) -> Mechanism:
        """Return discrete Gaussian noise on every entry."""
        return DiscreteGaussian(price, (self.signs.rows + 1) * self.coding.row_bound)

    @property
    def release_bytes(self) -> int:
        """Eight bytes per entry."""
        return 8 * (self.signs.rows + 1) * self.coding.width

    def replaced_loss(self, loss: Loss) -> Loss:
        """Return four times the loss: a row moves twice as far."""
        return loss * 4


class ValueSketch(ValueStep):
    """One column of whole numbers, sketched; neighbours differ in one person's value by the stated change."""

    name: ClassVar[str] = "value-sketch"
    title: ClassVar[str] = "random combinations of one column with discrete Gaussian noise"
    parameters: ClassVar[frozenset[str]] = frozenset({"size", "seed", "change"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.signs = signs_of(step)

    def law(self, price: Price) -> Mechanism:
        """Return discrete Gaussian noise on every entry."""
        return DiscreteGaussian(price, (self.signs.rows + 1) * self.values.sensitivity**2)

    @property
    def release_bytes(self) -> int:
        """Eight bytes per entry."""
        return 8 * (self.signs.rows + 1)


def signs_of(step: Step) -> Signs:
    """Return the public signs of a sketch."""
    return Signs(seed_parameter(step.parameters), whole_parameter(step.parameters, "size"))


LARGEST_SKETCHES = 2**16


SKETCHES = (
    "The sketches of memberships rest on a key that {parties} agreed on and the coordinator does not know, and on every one of "
    "them hashing with it. Nothing is guaranteed towards anybody who holds the key and sees sketches: a party, or the "
    "coordinator with one. A key that leaks later uncovers what was released under it. "
    "It serves this study alone, is refused for any other, "
    "and is erased at its end."
)


class MembershipSketches(StepKind):
    """The largest hash of each local cluster, M times for every pair of parties.

    The guarantee is about all parties' sketches together, so a party insists that the others are asked for the same: as many
    clusters, sketches and phantoms, under the same key, which nobody else in the plan holds. The centres and the key come from
    the party's own ledger.

    Sensitivity: under zero-out a person leaves one cell of every pair;
    `colonnade.papers.laws.PartitionSketches` has the proof. Checked by
    tests/papers/test_membership_sketches.py.
    """

    name: ClassVar[str] = "membership-sketches"
    title: ClassVar[str] = "sketches of memberships"
    parameters: ClassVar[frozenset[str]] = MEMBERSHIP | {"key_of", "sketches"}
    together: ClassVar[bool] = True

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.category = Membership(plan, step, schema, earlier)
        self.sketches = whole_parameter(step.parameters, "sketches", LARGEST_SKETCHES)
        self.unit = plan.unit
        self.parties = _agreeing(plan, step)
        self._key_of = str(step.parameters.get("key_of"))
        if sorted(key_holders(plan, self._key_of)) != sorted(self.parties):
            raise PlanMismatch("Sketches need a key that exactly the sketching parties agree on.")
        self.sides = tuple(
            PairSide(f"{step.name} {one}|{other}", one == step.party)  # of this step alone
            for one, other in combinations(self.parties, 2)
            if step.party in (one, other)
        )

    def law(self, price: Price) -> Mechanism:
        """Return the sketches with as many phantoms as this price demands."""
        bought = sketching(price, len(self.parties), self.unit, self.sketches)
        return PartitionSketches(bought, self.unit, self.category.size, self.sides, self.key)

    def key(self) -> bytes:
        """Return the key that the parties agreed on."""
        key = self.earlier(self._key_of).get("key")
        if key is None or key.nbytes != KEY_BYTES:
            raise ProtocolError("The parties have not agreed on the key of this study.")
        return key.tobytes()

    @property
    def limits_peers(self) -> bool:
        """Every party has the key, so what a peer that sees sketches learns has no bound."""
        return True

    @property
    def release_bytes(self) -> int:
        """Two bytes for every sketch of every local cluster, for every pair of parties that the party belongs to."""
        return 2 * len(self.sides) * self.sketches * self.category.size

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return one opening for all parties' sketches: they share their randomness."""
        first = whole.first
        if first.price is None:
            return super().openings(whole, losses, title)
        scope, count = tuple(whole.steps), first.parameters.get("sketches")
        bought = sketching(first.price, len(scope), whole.plan.unit, count if isinstance(count, int) else 0)
        return (
            Opening(
                mechanism=title,
                scope=scope,
                losses=(bought.loss("person"),),
                party_losses=dict.fromkeys(scope, (bought.loss("party"),)),
                replaced=(bought.replaced_loss,),
                key_holders=scope,
            ),
        )

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what rests on the key."""
        return (SKETCHES.format(parties=", ".join(whole.steps)),)


def _agreeing(plan: Plan, step: Step) -> tuple[str, ...]:
    """Return the sketching parties, in the order of their steps, having checked that all are asked for the same."""
    steps = {one.party: one for one in plan.steps if one.name == step.name}
    for one in steps.values():
        if (one.kind, one.price, one.parameters) != (step.kind, step.price, step.parameters):
            raise PlanMismatch("The parties are asked for different sketches, which would not hide anybody.")
    if len(steps) < 2:
        raise PlanMismatch("Sketches are compared between two or more parties.")
    return tuple(steps)


KINDS.register(
    __name__,
    {
        kind.name: kind
        for kind in (
            CoresetClusters,
            CoresetDraws,
            CoresetGradient,
            CoresetRows,
            CoresetSample,
            CoresetScores,
            CoresetTotal,
            GradientStep,
            MembershipSketches,
            Rows,
            SketchStep,
            Total,
            ValueSketch,
            Values,
        )
    },
)

_IMPORTANCE = (GroupKey, CoresetTotal, CoresetDraws, CoresetScores)
_TRAININGS = (CoresetRows, CoresetClusters, CoresetGradient)
_SCHEDULE = (
    "steps",
    "rate",
    "sampling",
    "score_bound",
    "optimiser",
    "learning_rate",
    "weight_norm",
    "tolerance",
)

TASKS.register(
    __name__,
    {
        ("moment", "local"): PlannedMethod.of(Total, Values),
        ("moment", "sketch"): PlannedMethod.of(ValueSketch),
        ("clustering", "sketch"): PlannedMethod.of(*CLUSTERS, GroupKey, MembershipSketches),
        ("clustering", "response"): PlannedMethod.of(*CLUSTERS, Reports),
        ("moments", "sketch"): PlannedMethod.of(SketchStep),
        ("moments", "local"): PlannedMethod.of(Rows),
        ("moments", "gradient"): PlannedMethod.of(GroupKey, GradientStep, parameters=_SCHEDULE),
        ("coreset", "importance"): PlannedMethod.of(*_IMPORTANCE),
        ("coreset", "uniform"): PlannedMethod.of(CoresetSample),
        ("coreset", "coreset"): PlannedMethod.of(*_IMPORTANCE, CoresetSample, *_TRAININGS),
    },
)
