"""Which statistics members work out in conversation, and how each kind is held."""

from collections.abc import Mapping

from colonnade.node.conversation import Conversation
from colonnade.node.key_run import KeyRun
from colonnade.node.run import Run
from colonnade.plan import Plan, Step

__all__ = ["CONVERSATIONS", "is_conversation", "uses_compute_nodes"]

CONVERSATIONS: Mapping[str, type[Conversation]] = {
    "coefficients": Run,
    "gram": Run,
    "group-key": KeyRun,
    "pair-tables": Run,
}
"""By the step's statistic."""


def is_conversation(step: Step) -> bool:
    """Return whether a step is one member's part in a conversation, and not a release of its own."""
    return step.statistic in CONVERSATIONS


def uses_compute_nodes(plan: Plan | tuple[Step, ...]) -> bool:
    """Return whether something is computed on shares, so that compute nodes and a threshold are needed."""
    steps = plan.steps if isinstance(plan, Plan) else plan
    return any(is_conversation(step) and CONVERSATIONS[step.statistic].on_shares for step in steps)
