"""Logistic regression by noisy gradient steps on secret shares, seen from the coordinator: Algorithm 4 of Secure PCA.

See docs/references.md#secure-pca and docs/proofs/gradient-steps.md#statement. We differ from the paper in four ways. The noise
of a step is one vector of discrete Gaussian shares instead of three vectors. The accounting has the factor 3 of the sampling
theorem, and counts what peers learn by how often a person takes part (docs/proofs/gradient-steps.md#sampling, #part). Parties
clip their part of the score, so that no promise about weights is needed. The released weights are an average of the iterates.

Letters: γ and ω are the fixed-point scales of rows and weights. An opened number is γ²ω·Σ(⟨w, x⟩ − 2s)·x plus noise, that is
4γ²ω times a sum of gradients. The constant column comes first among the columns of the party that holds the target. Coded columns
are columns after scaling to [−1, 1], or indicators of levels.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.driver import Relay, agree_on_key, conclude_all, forget_key, key_steps, shares_of
from colonnade.errors import BadInput, ProtocolError, SchemaMismatch
from colonnade.estimation.descent import IterateAverage, OptimiserName, StoppingRule, clip_to_length, optimiser_of
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Conclude, Recall, Released, Reply, Rounds, pack
from colonnade.schema import Column
from colonnade.schema.features import ColumnName, Feature, coded_widths, columns_at, features_of, parties_of
from colonnade.secure.batches import SMALLEST_RATE, Sampling
from colonnade.secure.shamir import reconstruct
from colonnade.steps.gradient import KEY, LARGEST_WEIGHT, STEP, Gradient, GradientTerms
from colonnade.steps.kind import LARGEST_SHORT_SCALE, valid_scale

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

SCALE = 1024
"""γ and ω by default: rounding a row or a weight to a thousandth is far below the noise."""
STEEPEST = 0.5
"""The longest long-run step. Coded rows have a squared length of some tens, and the surrogate's curvature stays below 4."""
WANDERING = 3.5
"""How far noise alone may carry the weights of a descent by default."""


@dataclass(frozen=True)
class Schedule:
    """How the descent runs. Only ``steps``, ``rate`` and ``sampling`` affect the noise.

    Parameters
    ----------
    steps
        The number of steps.
    rate
        The probability that a person takes part in a step: the expected share of people in a batch.
    sampling
        ``"poisson"``: secret batches, accounted with amplification towards the coordinator; ``"balanced"``: everyone takes part
        equally often, accounted without.
    score_bound
        The bound to which the parties' parts of a score are clipped, in sum. A small one biases, a large one adds noise.
    optimiser, learning_rate
        ``"sgd"`` (with momentum) or ``"adam"``, and the length of a step; by default as long as the noise allows.
    weight_norm
        The length to which the weights of the coded columns are clipped after every step; by default they are not.
    tolerance
        Stop once the averaged weights have moved by less than this in a tenth of the steps; 0 never stops early. What was paid
        for steps that are not taken is not refunded.
    """

    steps: int = 500
    rate: float = 0.01
    sampling: Sampling = "poisson"
    score_bound: float | None = None
    optimiser: OptimiserName = "sgd"
    learning_rate: float | None = None
    weight_norm: float | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if type(self.steps) is not int or not 1 <= self.steps <= 1_000_000:
            raise BadInput("steps is a whole number between 1 and 1,000,000.", remedy="For example steps=200.")
        if not _positive(self.rate) or not SMALLEST_RATE <= self.rate <= 1:
            raise BadInput(
                "rate, the share of people in a batch, must be above 2^-20 and at most 1.",
                remedy="For example rate=0.01.",
            )
        if self.sampling not in ("poisson", "balanced"):
            raise BadInput("sampling is 'poisson' or 'balanced'.", remedy='For example sampling="poisson".')
        if self.optimiser not in ("sgd", "adam"):
            raise BadInput("The optimiser is 'sgd' or 'adam'.", remedy='For example optimiser="adam".')
        for name in ("score_bound", "learning_rate", "weight_norm"):
            value = getattr(self, name)
            if value is not None and not _positive(value):
                raise BadInput(f"{name} is a positive number, or None.", remedy=f"For example {name}=1.0.")
        if isinstance(self.tolerance, bool) or not isinstance(self.tolerance, int | float) or not self.tolerance >= 0:
            raise BadInput("tolerance must be a number, zero or more.", remedy="For example tolerance=0.001.")


@dataclass(frozen=True, eq=False)
class Descent:
    """The result of a descent.

    Parameters
    ----------
    features
        The coded columns; the constant one first.
    weights
        The averaged weights of the coded columns, in that order.
    steps
        The number of steps that were taken.
    """

    features: tuple[Feature, ...]
    weights: Array
    steps: int


@dataclass(frozen=True)
class GradientDescent:
    """The study: agree on a key for the batches, take the steps, keep the weights.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order, the target among them; of two parties or more.
    target
        A category of two levels.
    price
        The price of all steps together; δ must be positive.
    schedule
        How the descent runs.
    scale
        The fixed-point scales γ and ω.
    people
        The number of people.
    """

    columns: Mapping[str, Column]
    target: str
    price: Price
    schedule: Schedule
    people: int
    scale: int = SCALE

    def __post_init__(self) -> None:
        target = self.columns[self.target]
        if target.is_number or target.size != 2:
            raise SchemaMismatch(
                f"method='gradient' takes a target of two levels, and {self.target!r} is not one.",
                remedy="Use method='secure', which fits one row per class.",
            )
        if len(self.parties) < 2:
            raise BadInput(
                "A gradient on shares takes columns of at least two parties.",
                remedy="Name columns of another party too.",
            )
        if len(self.columns) < 2:
            raise BadInput(
                "A regression needs a column besides its target.",
                remedy='Name at least one more column: columns=["bank.age", ...].',
            )
        if self.price.delta == 0:
            raise BadInput(
                "method='gradient' needs a positive delta.",
                remedy="For example delta=1e-6, well below 1/people.",
            )
        valid_scale(self.scale, LARGEST_SHORT_SCALE, example="method=cn.methods.Gradient(scale=1024)")

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of({name: column for name, column in self.columns.items() if name != self.target})

    def steps(self) -> tuple[Step, ...]:
        """Return each party's part in agreeing on the key and in the descent."""
        return (*key_steps(self.parties, KEY), *(self._step(party) for party in self.parties))

    def rounds(self, plan: Plan) -> Rounds:
        """Run the descent, or return what the parties have kept of it."""
        terms = GradientTerms.read(plan, STEP)
        kept = yield {member: Recall(plan=plan, step=STEP) for member in terms.members}
        for reply in kept.values():
            if isinstance(reply, Released):
                yield from conclude_all(plan, STEP, kept, reply.values)
                yield from forget_key(plan, KEY)
                return self._descent(reply.array("weights").astype(float), int(reply.array("steps")[0]))
        yield from agree_on_key(plan, KEY)
        weights, taken = yield from self._descend(plan, terms)
        values = {"weights": pack(weights), "steps": pack(np.array([taken], dtype=np.int64))}
        yield {member: Conclude(plan=plan, step=STEP, values=values) for member in terms.members}
        yield from forget_key(plan, KEY)
        return self._descent(weights, taken)

    def deviation(self, terms: GradientTerms) -> float:
        """Return the standard deviation of the noise in one coordinate of a step's mean gradient, for coded columns."""
        return terms.noise.gradient_deviation(4.0 * self.scale**3) / (terms.rate * terms.people)

    def learning_rate(self, terms: GradientTerms) -> float:
        """Return the length of a step: as given, or short enough that noise alone does not carry the weights away."""
        if self.schedule.learning_rate is not None:
            return float(self.schedule.learning_rate)
        wander = self.deviation(terms) * math.sqrt(terms.steps * terms.columns)
        long_run = min(STEEPEST, WANDERING / wander)
        return (
            long_run * 0.1
            if self.schedule.optimiser == "sgd"
            else min(0.02, WANDERING / math.sqrt(terms.columns * terms.steps))
        )

    # How it runs --------------------------------------------------------------------------------------------------------

    def _descend(self, plan: Plan, terms: GradientTerms) -> Rounds:
        relay = Relay(plan, STEP, terms.members)
        yield from relay.greet()
        yield from relay.turn()
        weights = np.zeros(terms.columns)
        optimiser = optimiser_of(self.schedule.optimiser, self.learning_rate(terms))
        average, settling, taken = IterateAverage(), StoppingRule(self.schedule.tolerance, terms.steps), 0
        while taken < terms.steps:
            yield from relay.turn({"weights": pack(self._whole(weights))})
            opened = yield from relay.last()
            weights = clip_to_length(
                weights + optimiser.change(self._gradient(terms, opened)), self.schedule.weight_norm
            )
            taken += 1
            if settling.has_settled(average.add(weights)):
                break
        return (weights if average.value is None else average.value), taken

    def _gradient(self, terms: GradientTerms, replies: Mapping[str, Reply]) -> Array:
        shares = shares_of(terms.nodes, replies, terms.columns)
        opened = reconstruct(terms.arithmetic, shares, degree=2 * terms.threshold, bound=terms.bound)
        return opened / (4.0 * self.scale**3 * terms.rate * terms.people)

    def _whole(self, weights: Array) -> Integers:
        return np.clip(np.rint(weights * self.scale), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int64)

    def _descent(self, weights: Array, taken: int) -> Descent:
        """Put the constant column, which stands at the target's holder, in front."""
        constant = self._constant_place()
        if weights.shape != (len(self.features),):
            raise ProtocolError("The kept weights are of another shape.")
        return Descent(
            self.features, np.concatenate([weights[constant : constant + 1], np.delete(weights, constant)]), taken
        )

    def _constant_place(self) -> int:
        holder = self.parties.index(self._holder)
        earlier = self.parties[:holder]
        return sum(coded_widths(self.features)[party] for party in earlier)

    @property
    def _holder(self) -> str:
        return ColumnName.of(self.target).party

    def _step(self, party: str) -> Step:
        own = columns_at(party, self.columns)
        target = ColumnName.of(self.target).column if party == self._holder else ""
        width = coded_widths(self.features)[party] + bool(target)
        return Gradient.ask(
            name=STEP,
            party=party,
            columns=own,
            parameters={
                "scale": self.scale,
                "weight_scale": self.scale,
                "row_bound": self.scale**2 * len(own),  # the constant column takes the target's place in the count
                "score_bound": self._score_bound(party),
                "width": width,
                "target": target,
                "steps": self.schedule.steps,
                "rate": float(self.schedule.rate),
                "sampling": self.schedule.sampling,
            },
            price=self.price,
        )

    def _score_bound(self, party: str) -> int:
        """Divide the bound on scores by the square roots of the parties' columns; the label adds 2 where it is."""
        roots = {name: math.sqrt(len(columns_at(name, self.columns))) for name in self.parties}
        bound = 2.0 + len(self.parties) if self.schedule.score_bound is None else float(self.schedule.score_bound)
        own = bound * roots[party] / sum(roots.values()) + (2.0 if party == self._holder else 0.0)
        steps = math.floor(own * self.scale**2)
        if steps < 1:
            raise BadInput(
                f"score_bound leaves party {party!r} less than one step of the fixed point: every score would be 0.",
                remedy="Raise score_bound, or scale=.",
            )
        return steps


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
