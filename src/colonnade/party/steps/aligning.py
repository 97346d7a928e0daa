"""Agreeing on an order of rows: what a party admits to a plan that asks for one. No column enters, and no statistic leaves.

The only number that may leave is how many people are common, and it leaves as the plan says and the policy allows: exactly
(``"public"``), with discrete Laplace noise (``"noisy"``), or not at all (``"hidden"``).
"""

from colonnade.conversations.cohort import CohortRun
from colonnade.errors import PlanMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.laplace import DiscreteLaplace
from colonnade.privacy.loss import NOTHING, Loss
from colonnade.schema import Schema
from colonnade.steps.matching_terms import IdRules, Matching

__all__ = ["CohortOrder", "ListMatching"]

RULES = frozenset({"kind", "form", "strip", "case"})


class ListMatching:
    """One party's list in a matching of lists (`colonnade.conversations.matching`).

    Sensitivity of the number of people in common: a person who leaves any party's list changes it by at most one.
    """

    releases_nothing = True
    name = "discrete Laplace on the number of people"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:  # noqa: ARG002  # as every statistic is made
        only_parameters(step, RULES | {"capacity", "size"})
        self.matching = Matching.read(plan, step.name)
        self.rules = self.matching.rules
        self.capacity = self.matching.capacities[step.party]
        price = self.matching.price
        self.mechanism = None if price is None else DiscreteLaplace(price, 1)

    @property
    def loss(self) -> Loss:
        """What this party's ledger is debited: everyone's membership enters the one number."""
        return NOTHING if self.mechanism is None else self.mechanism.loss


class CohortOrder:
    """One party's rows in the order of a public list (`colonnade.conversations.cohort`)."""

    releases_nothing = True
    name = "public list"
    loss = NOTHING

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:  # noqa: ARG002  # as every statistic is made
        only_parameters(step, RULES | {"listed"})
        CohortRun.members(plan, step.name)
        self.rules = IdRules.read(step.parameters)
        if not isinstance(step.parameters.get("listed"), str):
            raise PlanMismatch("The plan does not say which public list is meant.")
