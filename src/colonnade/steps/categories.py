"""A person's category at one party: a combination of category columns, or the nearest of centres released earlier.

Steps over categories (reports, histograms, pair tables) count either. A step that names ``centres_of`` counts the second: the
party takes the centres from its own ledger, where an earlier step of the same plan kept them, never from a request. They are an
adaptive input: with the centres fixed, a person's record decides that person's category and no other, so sensitivities are as
for any category, and the losses of the two steps add.

A person without a value in any of the columns has no category. On the secure channel and in a histogram such a person is counted
nowhere. In randomised response the report is uniformly random. Both are as for a missing category, so zeroing a record out moves
one cell by one, or changes one report.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, ProtocolError, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.schema import Category, Schema
from colonnade.steps.centres import Centres
from colonnade.steps.kind import Earlier

__all__ = ["MEMBERSHIP", "Combination", "Membership", "category_of"]

MEMBERSHIP = frozenset({"centres_of", "clusters"})
"""The parameters that turn a step over categories into one over memberships."""

LARGEST_JOINT_CATEGORY = 65_536


class Combination:
    """The combination of a party's category columns."""

    def __init__(self, step: Step, schema: Schema) -> None:
        self.columns = step.columns
        self.size = _joint_size(step.columns, schema)


class Membership:
    """The nearest of the centres that an earlier step of the plan released at this party."""

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier) -> None:
        self.centres_of = str(step.parameters.get("centres_of"))
        source = plan.step(step.party, self.centres_of)
        if source.statistic != Centres.name or source.columns != step.columns:
            raise PlanMismatch("A step counts memberships of centres of other columns, or of no centres.")
        self.source = Centres(plan, source, schema)
        self.size = self.source.clusters
        if step.parameters.get("clusters") != self.size:
            raise PlanMismatch("A step counts another number of clusters than were asked for.")
        self.columns = step.columns
        self._earlier = earlier

    def centres(self) -> NDArray[np.int64]:
        """Return the centres as they were released."""
        centres = self._earlier(self.centres_of).get("value")
        if centres is None or centres.shape != (self.size, self.source.block.coding.width):
            raise ProtocolError("The centres that this step rests on were released in another shape.")
        return centres.astype(np.int64)


def category_of(plan: Plan, step: Step, schema: Schema, earlier: Earlier) -> Combination | Membership:
    """Return what a step over categories counts."""
    if "centres_of" in step.parameters:
        return Membership(plan, step, schema, earlier)
    return Combination(step, schema)


def _joint_size(columns: Sequence[str], schema: Schema) -> int:
    """Return how many joint levels some category columns have; refuse columns that are not categories."""
    sizes = []
    for name in columns:
        column = schema[name]
        if not isinstance(column, Category):
            raise SchemaMismatch(
                f"Column {name!r} is numeric; counting needs categories.",
                remedy="Declare it as cn.Category, or bin it at the source.",
            )
        sizes.append(column.size)
    size = math.prod(sizes)
    if size > LARGEST_JOINT_CATEGORY:
        raise BadInput(f"The columns of one party have more than {LARGEST_JOINT_CATEGORY} joint levels.")
    return size
