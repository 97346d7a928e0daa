"""A key that the parties of a plan share: nothing is computed, nothing is released, nothing is paid."""

from colonnade.conversations.group_key import KeyRun
from colonnade.party.steps.categories import only_parameters
from colonnade.plan import Plan, Step
from colonnade.schema import Schema

__all__ = ["GroupKey"]


class GroupKey:
    """One party's part in agreeing on a key (`colonnade.conversations.group_key`)."""

    releases_nothing = True
    name = "group key"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:  # noqa: ARG002  # as every statistic is made
        only_parameters(step, frozenset())
        KeyRun.members(plan, step.name)
