"""Sums of all parties' vectors, computed under pairwise masks and opened exactly. Not differentially private.

This is what a plan says of a sum: whose vectors, to whom it is opened, in which integers (`colonnade.conversations.sums`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from colonnade.errors import PlanMismatch
from colonnade.plan import Plan
from colonnade.privacy.loss import Loss
from colonnade.result import COORDINATOR, Opening
from colonnade.schema import Schema
from colonnade.secure.summation import SumRing
from colonnade.steps.kind import Channel, StepKind, Steps

__all__ = ["SumStep", "SumTerms"]

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
        terms = {(step.statistic, step.parameters.get("bound"), step.parameters.get("recipient")) for step in steps}
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
    def openings(
        cls,
        plan: Plan,
        steps: Steps,
        losses: Mapping[str, Loss],
        schemas: Mapping[str, Schema],
        title: str,
    ) -> tuple[Opening, ...]:
        """Return one opening without noise: every observer of it learns the sum."""
        return (Opening(title, tuple(steps), (None,)),)

    @classmethod
    def assumptions(cls, plan: Plan, steps: Steps) -> tuple[str, ...]:
        """Return what a sum hides."""
        return (SUMMED.format(name=cls.summed),)
