"""A key that the parties of a plan share: nothing is computed, nothing is released, nothing is paid."""

from colonnade.node.key_run import KeyRun
from colonnade.party.statistics.categories import only_parameters
from colonnade.plan import Plan, Step
from colonnade.schema import Schema

__all__ = ["GroupKey"]


class GroupKey:
    """One party's part in agreeing on a key (`colonnade.node.key_run`)."""

    releases_nothing = True
    name = "group key"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:  # noqa: ARG002  # as every statistic is made
        only_parameters(step, frozenset())
        KeyRun.members(plan, step.name)
