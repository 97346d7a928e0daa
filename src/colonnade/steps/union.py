"""Moments of the people in common on a union of lists. Indicators multiply rows on shares, so that nobody learns who is in both.

In the order of a union each party has null records where it lacks a person. Products between the parties then count the people in
common by themselves. What a party could compute alone, the products of its own columns, would count all its people. So they are
shared too, and multiplied by the other party's indicator. That is still of degree two.
"""

from typing import ClassVar

from colonnade.errors import PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import JointLaw
from colonnade.privacy.laws.union import UnionNoise
from colonnade.schema import Schema
from colonnade.steps.fixed_point import FixedPoint
from colonnade.steps.joint import JointStep, shared_price
from colonnade.steps.kind import Earlier, RowOrder, Steps, nothing_earlier
from colonnade.steps.parameters import whole_parameter, word_list

__all__ = ["UnionCross", "UnionOwn"]

CROSS = "cross"


class UnionCross(JointStep):
    """One party's columns, with its indicator in front, in the products between the two parties.

    For the party unit the loss is that of a whole record: a record at one party is what puts a person in common.
    """

    name: ClassVar[str] = "union-cross"
    title: ClassVar[str] = "Gram matrix of the people in common, with noise in shares"
    parameters: ClassVar[frozenset[str]] = frozenset({"scale", "signed", "row_bound", "width", "coded", "part"})
    row_order: ClassVar[RowOrder] = RowOrder.UNION

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self._owner = None
        self.joint = self.read(plan, step.name)
        assert isinstance(self.joint.noise, UnionNoise)  # see `noise` below
        self.own_noise = self.joint.noise
        self.coding = FixedPoint(
            step.columns,
            schema,
            scale=whole_parameter(step.parameters, "scale"),
            signed=word_list(step.parameters, "signed"),
            row_bound=whole_parameter(step.parameters, "row_bound"),
        )
        if step.parameters.get("coded") != self.coding.width or step.parameters.get("width") != self.width:
            raise PlanMismatch("The plan gives this party's columns another width.")

    @property
    def width(self) -> int:
        """How many integers a row has: the indicator and the coded columns."""
        return 1 + self.coding.width

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> JointLaw:
        """Return the noise of one of the three steps; it is calibrated for all of them, whichever are asked for."""
        shared = {(step.parameters.get("scale"), step.parameters.get("part")) for step in steps.values()}
        if len(shared) != 1 or len(steps) != 2:
            raise PlanMismatch("The parties of a union are asked for different parts, or without a price.")
        scale, part = shared.pop()
        if type(scale) is not int or not isinstance(part, str) or not cls._opens(part):
            raise PlanMismatch("A step of a union does not say which part of the moments it opens.")
        noise = UnionNoise(
            row_bounds={party: whole_parameter(step.parameters, "row_bound") for party, step in steps.items()},
            widths={party: whole_parameter(step.parameters, "coded") for party, step in steps.items()},
            constant=scale**2,
            price=shared_price(steps),
            unit=plan.unit,
            collusion=plan.collusion,
            part=part,
        )
        if any(step.parameters.get("width") != cls._width(noise, party) for party, step in steps.items()):
            raise PlanMismatch("A step of a union has another width than its part.")
        return noise

    @classmethod
    def _opens(cls, part: str) -> bool:
        return part == CROSS

    @classmethod
    def _width(cls, noise: UnionNoise, party: str) -> int:
        return noise.widths[party] + 1


class UnionOwn(UnionCross):
    """One party's own products, or the indicator that the other party multiplies them by."""

    name: ClassVar[str] = "union-own"
    title: ClassVar[str] = "own products of the people in common, with noise in shares"

    @property
    def width(self) -> int:
        """The upper triangle of this party's products, if they are the part; otherwise the indicator."""
        coded = self.coding.width
        return coded * (coded + 1) // 2 if self.own_noise.part == self.party else 1

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:
        """Products are multiplied by an indicator."""
        scale, other = super().largest(plan, steps)
        return scale * other, 1

    @classmethod
    def _opens(cls, part: str) -> bool:
        return part != CROSS

    @classmethod
    def _width(cls, noise: UnionNoise, party: str) -> int:
        return noise.entries_of(party) if noise.part == party else 1
