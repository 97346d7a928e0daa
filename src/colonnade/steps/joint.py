"""A joint opening, read from a plan: whose columns, which nodes, how much noise, which arithmetic.

Everyone who takes part reads the same plan and arrives at the same object, or refuses. Nothing in it is private.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.coefficients import CoefficientNoise
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.tables import TableNoise
from colonnade.privacy.laws.union import UnionNoise
from colonnade.protocol import codec
from colonnade.secure.products import entry_pairs
from colonnade.secure.residues import Arithmetic, gram_bound
from colonnade.secure.shamir import require_threshold
from colonnade.steps.coefficient_entries import coefficient_noise
from colonnade.steps.score_bins import ScoreTable
from colonnade.steps.union_moments import union_noise

__all__ = ["JOINT", "Joint", "is_joint"]

JOINT = frozenset({"coefficients", "gram", "pair-tables", "score-table", "union-cross", "union-own"})
"""Statistics that several parties open together."""

LARGEST_WIDTH = 20_000
CHUNK_ELEMENTS = 1 << 20
CHUNK_UNIT = 8_192


def is_joint(step: Step) -> bool:
    """Return whether a step is one party's part of a joint opening."""
    return step.statistic in JOINT


@dataclass(frozen=True)
class Joint:
    """One joint opening.

    Parameters
    ----------
    steps
        The data parties' steps, by party, in the plan's order.
    noise
        How much noise, and what it costs whom.
    nodes, threshold
        The compute nodes in the order of their points 1 … N, and t.
    people
        How many rows.
    largest
        The largest magnitude of a shared integer.
    """

    steps: Mapping[str, Step]
    noise: CoefficientNoise | GramNoise | TableNoise | UnionNoise
    nodes: tuple[str, ...]
    threshold: int
    people: int
    largest: int
    table: ScoreTable | None = None
    largest_other: int | None = None
    """The largest magnitude of what it is multiplied by, where that is another."""

    @classmethod
    def read(cls, plan: Plan, name: str) -> "Joint":
        """Read a joint opening from a plan; refuse one that could not keep its promise.

        Every message of a run carries the plan, and calibrating the noise takes milliseconds: a plan is read once.
        """
        return _read(_Question(codec.digest(plan), name, plan))

    @classmethod
    def _of(cls, plan: Plan, name: str) -> "Joint":
        steps = {step.party: step for step in plan.steps if step.name == name}
        kinds = {step.statistic for step in steps.values()}
        if len(steps) < 2 or len(kinds) != 1 or not kinds <= JOINT:
            raise PlanMismatch("A joint step is one statistic at two or more parties.")
        if not _named_prices(steps) and len({step.price for step in steps.values()}) != 1:
            raise PlanMismatch("The parties of a joint step are offered different prices.")
        _check_nodes(plan)
        table = ScoreTable.read(plan, steps) if kinds == {"score-table"} else None
        if table is not None:
            counting = table.noise(plan, steps[table.left])
            shared = {owner: steps[owner] for owner in table.widths}
            return cls(shared, counting, plan.compute_nodes, plan.threshold, plan.people, 1, table=table)
        if sum(_whole(step, "width") for step in steps.values()) > LARGEST_WIDTH:
            raise BadInput(f"A joint step has at most {LARGEST_WIDTH:,} columns.", remedy="Ask for fewer columns.")
        noise = _NOISES[kinds.pop()](plan, steps)
        largest = 1 if isinstance(noise, TableNoise) else max(_whole(step, "scale") for step in steps.values())
        if isinstance(noise, UnionNoise) and noise.part != "cross":  # products, multiplied by an indicator
            scale = largest**2
            return cls(steps, noise, plan.compute_nodes, plan.threshold, plan.people, scale, largest_other=1)
        return cls(steps, noise, plan.compute_nodes, plan.threshold, plan.people, largest)

    @property
    def owners(self) -> tuple[str, ...]:
        """The data parties, in the plan's order."""
        return tuple(self.steps)

    @property
    def data_parties(self) -> tuple[str, ...]:
        """The owners, and whoever adds to what they share."""
        return self.owners if self.table is None else (*self.owners, *self.table.givers)

    @property
    def fold(self) -> NDArray[np.int64] | None:
        """Which entries are added up before they are opened; ``None`` where each is opened by itself."""
        return None if self.table is None else self.table.fold

    @property
    def turns(self) -> int:
        """How many turns a run has whose answers are letters, the greeting not counted."""
        return len(self.chunks) + 2 + (self.table is not None)

    @cached_property
    def widths(self) -> list[int]:
        """How many columns each owner shares."""
        if self.table is not None:
            return list(self.table.widths.values())
        return [_whole(step, "width") for step in self.steps.values()]

    @cached_property
    def entries(self) -> int:
        """How many entries there are between two parties, or sums of them."""
        if self.table is not None:
            return self.table.cells
        return len(entry_pairs(self.widths)[0])

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Everyone who takes part, in canonical order."""
        return tuple(sorted({*self.data_parties, *self.nodes}))

    @cached_property
    def bound(self) -> int:
        """No opened integer exceeds this (`colonnade.secure.residues.gram_bound`)."""
        if self.largest_other is not None:
            return gram_bound(self.people * self.largest * self.largest_other, 1, self._variance_for_tail())
        return gram_bound(self.people, self.largest, self._variance_for_tail())

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """The cheapest arithmetic in which nothing can wrap: the headroom proof, at plan time."""
        return Arithmetic.for_headroom(self.bound, len(self.nodes))

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Ranges of rows that are shared at a time, so that memory stays bounded."""
        rows = max(1, CHUNK_ELEMENTS // sum(self.widths) // CHUNK_UNIT) * CHUNK_UNIT
        return [(start, min(start + rows, self.people)) for start in range(0, self.people, rows)]

    def _variance_for_tail(self) -> int:
        """A Laplace tail is exponential: P(|x| > z) = e^(-z/b), so 128·b per share covers what the others cover with √(256·V)."""
        if self.noise.family == "laplace":
            return 64 * math.ceil(self.noise.share * len(self.steps)) ** 2
        return math.ceil(self.noise.opened_variance)


@dataclass(frozen=True)
class _Question:
    """A joint step by the plan's hash: equal hashes, equal plans."""

    digest: bytes
    name: str
    plan: Plan = field(compare=False)


@lru_cache(maxsize=64)
def _read(question: _Question) -> Joint:
    return Joint._of(question.plan, question.name)  # noqa: SLF001  # its own module


def _named_prices(steps: Mapping[str, Step]) -> bool:
    """Return whether every party named a price of its own, which only the functional mechanism lets them do."""
    return all(
        step.statistic == "coefficients" and step.parameters.get("protocol") == "bottom_up" for step in steps.values()
    )


def _check_nodes(plan: Plan) -> None:
    nodes = plan.compute_nodes
    if len(set(nodes)) != len(nodes):
        raise PlanMismatch("A compute node is named twice.")
    require_threshold(len(nodes), plan.threshold)
    if not 0 <= plan.collusion <= plan.threshold:
        raise NotEnoughComputeNodes("The collusion bound exceeds the threshold of the secret sharing.")


def _gram_noise(plan: Plan, steps: Mapping[str, Step]) -> GramNoise:
    scales = {_whole(step, "scale") for step in steps.values()}
    families = {step.parameters.get("noise", "gaussian") for step in steps.values()}
    if len(scales) != 1 or len(families) != 1:
        raise PlanMismatch("The parties of a Gram matrix are asked for different scales or noise.")
    first = next(iter(steps.values()))
    if first.price is None:
        raise PlanMismatch("A joint opening has a price.")
    return GramNoise(
        row_bounds={party: _whole(step, "row_bound") for party, step in steps.items()},
        constant=scales.pop() ** 2,
        columns=sum(_whole(step, "width") for step in steps.values()),
        price=first.price,
        unit=plan.unit,
        collusion=plan.collusion,
        family=families.pop(),  # type: ignore[arg-type]  # checked by the noise itself
    )


def _table_noise(plan: Plan, steps: Mapping[str, Step]) -> TableNoise:
    first = next(iter(steps.values()))
    if first.price is None:
        raise PlanMismatch("A joint opening has a price.")
    widths = [_whole(step, "width") for step in steps.values()]
    return TableNoise(tuple(steps), first.price, plan.unit, plan.collusion, len(entry_pairs(widths)[0]))


_NOISES: Mapping[str, Callable[[Plan, Mapping[str, Step]], CoefficientNoise | GramNoise | TableNoise | UnionNoise]] = {
    "coefficients": coefficient_noise,
    "gram": _gram_noise,
    "pair-tables": _table_noise,
    "union-cross": union_noise,
    "union-own": union_noise,
}


def _whole(step: Step, parameter: str) -> int:
    value = step.parameters.get(parameter)
    if type(value) is not int or not 1 <= value < 2**62:
        raise BadInput("A joint step lacks a parameter that must be a positive whole number.")
    return value
