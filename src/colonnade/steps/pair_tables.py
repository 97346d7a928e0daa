"""Counts of people for every pair of parties' categories, opened with noise in shares."""

from typing import ClassVar

from colonnade.errors import PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import JointLaw
from colonnade.privacy.laws.tables import TableNoise
from colonnade.schema import Schema
from colonnade.secure.products import entry_pairs
from colonnade.steps.categories import MEMBERSHIP, category_of
from colonnade.steps.joint import JointStep, shared_price
from colonnade.steps.kind import Earlier, RowOrder, Steps, nothing_earlier
from colonnade.steps.parameters import whole_parameter

__all__ = ["PairTables"]


class PairTables(JointStep):
    """One party's category in the pair tables of all parties' categories.

    Sensitivity: `colonnade.privacy.laws.tables.TableNoise`. A person moves one cell of each table by one.
    """

    name: ClassVar[str] = "pair-tables"
    title: ClassVar[str] = "pair tables with noise in shares"
    parameters: ClassVar[frozenset[str]] = frozenset({"width"}) | MEMBERSHIP
    row_order: ClassVar[RowOrder] = RowOrder.ANY

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        self.category = category_of(plan, step, schema, earlier)
        if step.parameters.get("width") != self.category.size:
            raise PlanMismatch("The plan gives this party's categories another number of levels.")

    @property
    def width(self) -> int:
        """How many levels the category has."""
        return self.category.size

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> JointLaw:
        """Return the noise of all tables together."""
        widths = [whole_parameter(step.parameters, "width") for step in steps.values()]
        cells = len(entry_pairs(widths)[0])
        return TableNoise(tuple(steps), shared_price(steps), plan.unit, plan.collusion, cells)

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:
        """Indicators are multiplied."""
        return 1, 1
