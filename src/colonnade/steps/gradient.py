"""A gradient descent, read from a plan: whose columns, which nodes, how many steps, how much noise, which arithmetic.

Everyone who takes part reads the same plan and arrives at the same object, or refuses. Nothing in it is private.

Only the first 2t + 1 of a plan's compute nodes compute. More would make the opening redundant, and it is the redundancy that a
badly dealt table could be read from (`colonnade.conversations.gradient`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

from colonnade.errors import BadInput, PlanMismatch, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss
from colonnade.privacy.laws.gradient import GradientNoise, participation_bound
from colonnade.protocol import codec
from colonnade.result import Opening
from colonnade.schema import Schema
from colonnade.secure.batches import Sampling, batch_capacity, batches_per_round
from colonnade.secure.residues import Arithmetic, noise_tail
from colonnade.steps.kind import (
    Channel,
    Earlier,
    FixedPoint,
    Forecast,
    HashedStep,
    NoiseWords,
    WholeStep,
    check_nodes,
    nothing_earlier,
    price_words,
    secure_words,
    whole_parameter,
)
from colonnade.steps.local import key_holders
from colonnade.steps.newton import LARGEST_WIDTH, LabelledSteps, LabelledTerms

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
        return _read(HashedStep(codec.digest(plan), name, plan))

    @classmethod
    def _of(cls, plan: Plan, name: str) -> "GradientTerms":
        parts = {step.party: step for step in plan.steps if step.name == name}
        if len(parts) < 2 or any(step.kind != Gradient.name for step in parts.values()):
            raise PlanMismatch("A gradient is computed by two data parties or more.")
        plan.require_named()
        if any(step.kind == Gradient.name and step.name != name for step in plan.steps):
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


class Gradient(LabelledSteps):
    """One party's rows, scores and noise in every step of a gradient descent (Secure PCA, Algorithm 4).

    With labels s = ±1 and the sigmoid replaced by its tangent ½ + z/4, four times the gradient of one person is (⟨w, x⟩ − 2s)·x.
    In integers: entries of x are multiplied by γ, weights by ω, and v = Σ_q v_q stands for γω(⟨w, x⟩ − 2s), each v_q clipped by
    the party that makes it, the label within the part of the party that holds it. We differ from the paper in that the three
    vectors it releases are one, and that the clipping of scores, not a promise about weights, bounds them: the bound holds
    whatever weights arrive.

    The constant column is the target holder's: γ for a person who has a label, else 0, so that a null record adds nothing to a
    step. Sensitivity: `colonnade.privacy.laws.gradient.GradientNoise`. Every row has squared length at most R_q² and every
    score is at most C_q in magnitude. The party enforces both, in integers.
    """

    name: ClassVar[str] = "gradient"
    title: ClassVar[str] = "gradient steps with noise in shares"
    channel: ClassVar[Channel] = Channel.SHARES
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
        if self.terms.widths[step.party] != self.width:
            raise PlanMismatch("The plan gives this party's columns another width.")

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
    return GradientTerms._of(hashed.plan, hashed.name)  # noqa: SLF001  # its own module


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
