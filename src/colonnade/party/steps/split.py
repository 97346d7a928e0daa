"""Dividing the people in two: nothing is computed from a column, nothing is released, nothing is paid."""

from colonnade.conversations.split import SplitRun
from colonnade.party.steps.categories import only_parameters
from colonnade.plan import Plan, Step
from colonnade.schema import Schema

__all__ = ["Split"]


class Split:
    """One party's part in a division (`colonnade.conversations.split`)."""

    releases_nothing = True
    name = "division of people by a keyed hash"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:  # noqa: ARG002  # as every statistic is made
        only_parameters(step, frozenset({"test"}))
        SplitRun.members(plan, step.name)
