"""A person's category at one party: a combination of category columns, or the nearest of centres released earlier.

Statistics over categories (`reports`, `histogram`, `pair-tables`) count either. A step that names ``centres_of`` counts the
second: the party takes the centres from its own ledger, where an earlier step of the same plan kept them, never from a request.
They are an adaptive input: with the centres fixed, a person's record decides that person's category and no other, so
sensitivities are as for any category, and the losses of the two steps add.

A person without a value in any of the columns has no category (−1). On the secure channel and in a histogram such a person is
counted nowhere; in randomised response the report is uniformly random: both as for a missing category, so zeroing a record out
moves one cell by one, or changes one report.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanMismatch, ProtocolError
from colonnade.party.steps.categories import joint_size
from colonnade.party.steps.centres import Centres
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws._clustering_cells import Nearest
from colonnade.schema import Schema

__all__ = ["MEMBERSHIP", "Combination", "Earlier", "Membership", "category_of", "nothing_earlier"]

Earlier = Callable[[str], Mapping[str, NDArray[Any]]]
"""What this party released in an earlier step of the same plan, by the step's name."""

MEMBERSHIP = frozenset({"centres_of", "clusters"})
"""The parameters that turn a statistic over categories into one over memberships."""

BLOCK = 65_536
MISSING = -1


def nothing_earlier(_: str) -> Mapping[str, NDArray[Any]]:
    """Refuse: where nobody says what was released before, nothing was."""
    raise ProtocolError("This step rests on an earlier step of its plan, which has not been released.")


class Combination:
    """The combination of a party's category columns."""

    def __init__(self, step: Step, schema: Schema) -> None:
        self.columns = step.columns
        self.size = joint_size(step.columns, schema)

    def prepare(self, table: PrivateTable) -> None:
        """Nothing but the columns is needed."""

    def codes(self, table: PrivateTable, start: int = 0, stop: int | None = None) -> NDArray[np.int32]:
        """Return people's categories, −1 where any column is missing."""
        nonprivate_codes, _ = table.joint_codes(self.columns)
        return nonprivate_codes[start:stop]


class Membership:
    """The nearest of the centres that an earlier step of the plan released at this party."""

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier) -> None:
        self.centres_of = str(step.parameters.get("centres_of"))
        source = plan.step(step.party, self.centres_of)
        if source.statistic != "centres" or source.columns != step.columns:
            raise PlanMismatch("A step counts memberships of centres of other columns, or of no centres.")
        self.source = Centres(plan, source, schema)
        self.size = self.source.clusters
        if step.parameters.get("clusters") != self.size:
            raise PlanMismatch("A step counts another number of clusters than were asked for.")
        self.columns = step.columns
        self._earlier = earlier

    def prepare(self, table: PrivateTable) -> None:
        """Require the centres, and read who has a record, before anything is paid."""
        self.centres()
        table.present(self.columns)

    def centres(self) -> NDArray[np.int64]:
        """Return the centres as they were released."""
        centres = self._earlier(self.centres_of).get("value")
        if centres is None or centres.shape != (self.size, self.source.block.coding.width):
            raise ProtocolError("The centres that this step rests on were released in another shape.")
        return centres.astype(np.int64)

    def codes(self, table: PrivateTable, start: int = 0, stop: int | None = None) -> NDArray[np.int32]:
        """Return people's nearest centres, −1 for a person without a record."""
        nearest, stop = Nearest(self.centres()), table.people if stop is None else stop
        nonprivate_codes = np.empty(stop - start, dtype=np.int32)
        for first in range(start, stop, BLOCK):
            rows = self.source.block.rows(table, first, min(first + BLOCK, stop))
            some = np.where(rows[:, 0] == 1, nearest.labels(rows), MISSING)
            nonprivate_codes[first - start : first - start + len(some)] = some
        return nonprivate_codes


def category_of(plan: Plan, step: Step, schema: Schema, earlier: Earlier) -> Combination | Membership:
    """Return what a statistic over categories counts."""
    if "centres_of" in step.parameters:
        return Membership(plan, step, schema, earlier)
    return Combination(step, schema)
