"""Which statistics members work out in conversation, and how each kind is held."""

from collections.abc import Mapping

from colonnade.conversations.cohort import CohortRun
from colonnade.conversations.conversation import Conversation
from colonnade.conversations.gradient import GradientRun
from colonnade.conversations.group_key import KeyRun
from colonnade.conversations.matching import MatchingRun
from colonnade.conversations.products import Run
from colonnade.conversations.saga import SagaRun
from colonnade.conversations.scores import ScoreRun
from colonnade.conversations.split import SplitRun
from colonnade.conversations.sums import SumRun
from colonnade.conversations.union import UnionRun
from colonnade.plan import Plan, Step
from colonnade.steps.matching_terms import is_aligning

__all__ = ["CONVERSATIONS", "discloses", "is_conversation", "uses_compute_nodes"]

CONVERSATIONS: Mapping[str, type[Conversation]] = {
    "coefficients": Run,
    "cohort": CohortRun,
    "coreset-draws": SumRun,
    "coreset-gradient": SagaRun,
    "coreset-scores": SumRun,
    "gradient": GradientRun,
    "gram": Run,
    "group-key": KeyRun,
    "matching": MatchingRun,
    "pair-tables": Run,
    "predictions": SumRun,
    "score-table": ScoreRun,
    "split": SplitRun,
    "union": UnionRun,
    "union-cross": Run,
    "union-own": Run,
}
"""By the step's statistic."""


def is_conversation(step: Step) -> bool:
    """Return whether a step is one member's part in a conversation, and not a release of its own."""
    return step.statistic in CONVERSATIONS


def discloses(step: Step) -> bool:
    """Return whether exact values leave in a step, without differential privacy."""
    if is_aligning(step):
        return step.parameters.get("size") == "public"
    return step.price is None and step.statistic not in ("group-key", "split")


def uses_compute_nodes(plan: Plan | tuple[Step, ...]) -> bool:
    """Return whether something is computed on shares, so that compute nodes and a threshold are needed."""
    steps = plan.steps if isinstance(plan, Plan) else plan
    return any(is_conversation(step) and CONVERSATIONS[step.statistic].on_shares for step in steps)
