"""A gradient descent, read from a plan: whose columns, which nodes, how many steps, how much noise, which arithmetic.

Everyone who takes part reads the same plan and arrives at the same object, or refuses. Nothing in it is private.

Only the first 2t + 1 of a plan's compute nodes compute. More would make the opening redundant, and it is the redundancy that a
badly dealt table could be read from (`colonnade.conversations.gradient`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.gradient import GradientNoise, participation_bound
from colonnade.protocol import codec
from colonnade.secure.batches import Sampling, batch_capacity, batches_a_round
from colonnade.secure.residues import Arithmetic, noise_tail
from colonnade.secure.shamir import require_threshold

__all__ = ["GRADIENT", "KEY", "LARGEST_WEIGHT", "GradientTerms"]

GRADIENT = "gradient"
"""The statistic, and the step, of the descent."""
KEY = "batches"
"""The step in which the parties agree on the key of the batches."""

LARGEST_SCALE = 2**15 - 1
LARGEST_WIDTH = 20_000
LARGEST_STEPS = 1_000_000
LARGEST_WEIGHT = 2**30
"""With it a party's part of a score stays below 2⁶⁰: entries below 2¹⁵, columns below 2¹⁵."""

_COMMON = ("scale", "weight_scale", "steps", "rate", "sampling")


@dataclass(frozen=True)
class GradientTerms:
    """One descent.

    Parameters
    ----------
    parts
        The data parties' steps, by party, in the plan's order.
    nodes, threshold
        The 2t + 1 nodes in the order of their points, and t.
    people
        How many there are.
    noise
        How much noise, and what it costs whom.
    """

    parts: Mapping[str, Step]
    nodes: tuple[str, ...]
    threshold: int
    people: int
    noise: GradientNoise

    @classmethod
    def read(cls, plan: Plan, name: str) -> "GradientTerms":
        """Read a descent from a plan; refuse one that could not keep its promise. A plan is read once."""
        return _read(_Question(codec.digest(plan), name, plan))

    @classmethod
    def _of(cls, plan: Plan, name: str) -> "GradientTerms":
        parts = {step.party: step for step in plan.steps if step.name == name}
        if len(parts) < 2 or any(step.statistic != GRADIENT for step in parts.values()):
            raise PlanMismatch("A gradient is computed by two data parties or more.")
        plan.require_named()
        if any(
            step.statistic == GRADIENT and step.name != name for step in plan.steps
        ):  # they would share their batches
            raise PlanMismatch("A plan has one descent: a second one under the same key would not be amplified.")
        keyed = {step.party for step in plan.steps if step.name == KEY and step.statistic == "group-key"}
        if keyed != set(parts):
            raise PlanMismatch("The data parties of a gradient agree on the key of its batches first.")
        for parameter in _COMMON:
            if len({step.parameters.get(parameter) for step in parts.values()}) != 1:
                raise PlanMismatch("The parties of a gradient are asked for different scales or steps.")
        if sum(bool(step.parameters.get("target")) for step in parts.values()) != 1:
            raise PlanMismatch("Exactly one party holds the target.")
        require_threshold(len(plan.compute_nodes), plan.threshold)
        if len(set(plan.compute_nodes)) != len(plan.compute_nodes):
            raise PlanMismatch("A compute node is named twice.")
        if not 0 <= plan.collusion <= plan.threshold:
            raise NotEnoughComputeNodes("The collusion bound exceeds the threshold of the secret sharing.")
        return cls(
            parts, plan.compute_nodes[: 2 * plan.threshold + 1], plan.threshold, plan.people, _noise(plan, parts)
        )

    @property
    def owners(self) -> tuple[str, ...]:
        """The data parties, in the plan's order."""
        return tuple(self.parts)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Everyone who takes part, in canonical order."""
        return tuple(sorted({*self.owners, *self.nodes}))

    @cached_property
    def widths(self) -> dict[str, int]:
        """How many integers of a row each owner has, the constant one at the holder of the target included."""
        return {owner: _whole(step, "width", LARGEST_WIDTH) for owner, step in self.parts.items()}

    def places(self, owner: str) -> slice:
        """Where an owner's columns stand among all."""
        start = sum(
            width for other, width in self.widths.items() if self.owners.index(other) < self.owners.index(owner)
        )
        return slice(start, start + self.widths[owner])

    @property
    def columns(self) -> int:
        """How many weights there are, and how many numbers a step opens."""
        return self.noise.columns

    @cached_property
    def scale(self) -> int:
        """γ: entries of rows are at most γ in magnitude."""
        return _whole(self._first, "scale", LARGEST_SCALE)

    @cached_property
    def weight_scale(self) -> int:
        """ω: a weight of one is the integer ω."""
        return _whole(self._first, "weight_scale", LARGEST_WEIGHT)

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
        """How many rows a step shares, whoever takes part."""
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

    @property
    def _first(self) -> Step:
        return next(iter(self.parts.values()))


@dataclass(frozen=True)
class _Question:
    """A step by the plan's hash: equal hashes, equal plans."""

    digest: bytes
    name: str
    plan: Plan = field(compare=False)


@lru_cache(maxsize=64)
def _read(question: _Question) -> GradientTerms:
    return GradientTerms._of(question.plan, question.name)  # noqa: SLF001  # its own module


def _noise(plan: Plan, parts: Mapping[str, Step]) -> GradientNoise:
    first = next(iter(parts.values()))
    if first.price is None or len({step.price for step in parts.values()}) != 1:
        raise PlanMismatch("The parties of a gradient are offered one price.")
    steps, rate, sampling = _whole(first, "steps", LARGEST_STEPS), _rate(first), first.parameters.get("sampling")
    if sampling not in ("poisson", "balanced"):
        raise BadInput("Batches are 'poisson' or 'balanced'.")
    secret = sampling == "poisson" and rate < 1
    return GradientNoise(
        score_bounds={party: _whole(step, "score_bound", 2**50) for party, step in parts.items()},
        row_bounds={party: _whole(step, "row_bound", 2**50) for party, step in parts.items()},
        columns=sum(_whole(step, "width", LARGEST_WIDTH) for step in parts.values()),
        steps=steps,
        rate=rate,
        participations=participation_bound(rate, steps) if secret else math.ceil(steps / batches_a_round(rate)),
        secret=secret,
        price=first.price,
        unit=plan.unit,
        collusion=plan.collusion,
    )


def _whole(step: Step, parameter: str, largest: int) -> int:
    value = step.parameters.get(parameter)
    if type(value) is not int or not 1 <= value <= largest:
        raise BadInput("A gradient step lacks a parameter that must be a positive whole number.")
    return value


def _rate(step: Step) -> float:
    rate = step.parameters.get("rate")
    if not isinstance(rate, float) or not 0 < rate <= 1:
        raise BadInput("A gradient step lacks its rate, a number above 0 and at most 1.")
    return rate
