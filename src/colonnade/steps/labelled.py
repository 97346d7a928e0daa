"""Runs that take several steps over labelled rows, at public weights: what gradient and Newton steps read alike from a plan.

One party holds the target. Its first column is constant: γ for a person who has a label, else 0, so that a null record adds
nothing to a step. 2t + 1 of a plan's compute nodes compute.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from colonnade.plan import Step
from colonnade.steps.kind import StepKind
from colonnade.steps.terms import LARGEST_SHORT_SCALE, FixedPoint, valid_scale, whole_parameter

LARGEST_WIDTH = 20_000


@dataclass(frozen=True)
class LabelledTerms:
    """Whose columns, and which nodes.

    Parameters
    ----------
    asked
        The data parties' steps, by party, in the plan's order.
    nodes, threshold
        The 2t + 1 nodes in the order of their points, and t.
    people
        How many there are.
    """

    asked: Mapping[str, Step]
    nodes: tuple[str, ...]
    threshold: int
    people: int

    @property
    def owners(self) -> tuple[str, ...]:
        """The data parties, in the plan's order."""
        return tuple(self.asked)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Everyone who takes part, in canonical order."""
        return tuple(sorted({*self.owners, *self.nodes}))

    def point(self, member: str) -> int | None:
        """Return a member's point, or ``None`` if it does not compute."""
        return self.nodes.index(member) + 1 if member in self.nodes else None

    @cached_property
    def widths(self) -> dict[str, int]:
        """How many integers of a row each owner has, the constant one at the holder of the target included."""
        return {owner: whole_parameter(step.parameters, "width", LARGEST_WIDTH) for owner, step in self.asked.items()}

    def places(self, owner: str) -> slice:
        """Where an owner's columns stand among all."""
        before = self.owners[: self.owners.index(owner)]
        start = sum(self.widths[other] for other in before)
        return slice(start, start + self.widths[owner])

    @cached_property
    def columns(self) -> int:
        """How many columns there are over all owners: how many weights, and how many numbers a gradient has."""
        return sum(self.widths.values())

    @cached_property
    def scale(self) -> int:
        """γ: entries of rows are at most γ in magnitude."""
        return valid_scale(self.first.parameters.get("scale"), LARGEST_SHORT_SCALE)

    @property
    def first(self) -> Step:
        """The first party's step; what all parties are asked for alike is read from it."""
        return next(iter(self.asked.values()))


class LabelledSteps(StepKind):
    """One party's rows in such a run: whether the label is among them, and how its other columns are coded."""

    target: str
    """The name of the label's column, empty at parties that do not hold it."""
    coding: FixedPoint | None
    """How the other columns become integers; ``None`` where there are none."""

    @property
    def constant(self) -> int:
        """How many constant columns the party has: one where it holds the target."""
        return 1 if self.target else 0

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.constant + (0 if self.coding is None else self.coding.width)
