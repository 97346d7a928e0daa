"""The method of `GroupBy`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.constraints import Boolean
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.grouping import GroupRelease, helpers_for
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimation.groups import GroupFigures
from colonnade.estimators.methods.method import Expectation, Method
from colonnade.privacy.accounting import Price

if TYPE_CHECKING:
    from colonnade.estimators.grouping import GroupBy

__all__ = ["Groups"]


class Groups(Method["GroupBy"]):
    """Counts and sums of all groups in one opening on secret shares. One party's own columns need none.

    Parameters
    ----------
    helpers
        Whether data parties that hold none of the columns add a share of the noise, where that makes it smaller. They spend
        nothing.
    """

    name = "secure"
    does = "every count and sum with the noise of one number, for columns of up to three parties"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and up to c colluding parties"
    delta = "optional"
    constraints = {"helpers": Boolean()}

    def __init__(self, *, helpers: bool = True) -> None:
        self.helpers = helpers

    def protocol(self, study: "GroupBy", federation: Federation, price: Price, repeat: int) -> GroupRelease:
        """Return a release of all counts and sums."""
        by, values = study._columns(federation)
        release = GroupRelease(by, values, price, tuple(federation.parties))
        if not self.helpers:
            return release
        helpers = helpers_for(release.holders, release.parties, federation.collusion)
        return GroupRelease(by, values, price, release.parties, helpers)

    def expect(self, study: "GroupBy", algorithm: GroupRelease, federation: Federation) -> Expectation:
        """Return the error of a count, which no data changes, and that of a mean in a group of average size."""
        plan = federation.plan(
            algorithm,
            task=study.task,
            method=self.name,
            price=algorithm.price,
            unit=study.unit,
            parameters={},
        )
        variance, average = algorithm.variance(plan), federation.people / algorithm.cells
        count, value = (float(np.sqrt(variance)) / one for one in self._heights(algorithm))
        words = {"95 % of counts are within": f"{2 * count:,.3g} people"}
        for name, column in algorithm.values.items():
            error = column.half_range * float(np.hypot(value, count)) / average
            words[f"95 % of means of {name} are within"] = (
                f"at most {2 * error:,.3g} in a group of {average:,.0f} people, the average; half of that in one twice as large"
            )
        warnings = []
        if count > average / 5:
            warnings.append(
                "An average group is small for its noise: ask for fewer groups, or a larger epsilon. Groups whose count is "
                "below five standard errors are flagged."
            )
        return Expectation(words, tuple(warnings), (ExpectedError("count", count, "people"),))

    def learn(self, study: "GroupBy", federation: Federation, value: GroupFigures) -> dict[str, Any]:
        """Return one row per group."""
        return study._learned_from(value, federation)

    @staticmethod
    def _heights(algorithm: GroupRelease) -> tuple[int, int]:
        return algorithm.terms.count_height, algorithm.terms.value_height
