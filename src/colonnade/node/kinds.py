"""Which statistics members work out in conversation, and how each kind is held."""

from collections.abc import Mapping

from colonnade.node.cohort_run import CohortRun
from colonnade.node.conversation import Conversation
from colonnade.node.gradient_run import GradientRun
from colonnade.node.key_run import KeyRun
from colonnade.node.matching import is_aligning
from colonnade.node.matching_run import MatchingRun
from colonnade.node.run import Run
from colonnade.node.saga_run import SagaRun
from colonnade.node.score_run import ScoreRun
from colonnade.node.split_run import SplitRun
from colonnade.node.sum_run import SumRun
from colonnade.node.union_run import UnionRun
from colonnade.plan import Plan, Step

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
