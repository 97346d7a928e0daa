"""How each kind of step is talked about: conversations by the name that a kind gives."""

from collections.abc import Mapping

from colonnade.conversations.cohort import CohortRun
from colonnade.conversations.conversation import Conversation
from colonnade.conversations.gradient import GradientRun
from colonnade.conversations.group_key import KeyRun
from colonnade.conversations.matching import MatchingRun
from colonnade.conversations.products import ProductRun
from colonnade.conversations.saga import SagaRun
from colonnade.conversations.scores import ScoreRun
from colonnade.conversations.sums import SumRun
from colonnade.conversations.union import UnionRun
from colonnade.errors import PlanMismatch
from colonnade.plan import Plan
from colonnade.steps.kind import StepKind
from colonnade.steps.registry import kind_of

__all__ = ["CONVERSATIONS", "conversation_kind"]

CONVERSATIONS: Mapping[str, type[Conversation]] = {
    conversation.name: conversation
    for conversation in (
        CohortRun,
        GradientRun,
        KeyRun,
        MatchingRun,
        ProductRun,
        SagaRun,
        ScoreRun,
        SumRun,
        UnionRun,
    )
}


def conversation_kind(plan: Plan, name: str) -> type[StepKind]:
    """Return the kind of a step that members work out in conversation; a conversation is of one kind."""
    kinds = {kind_of(step) for step in plan.steps if step.name == name}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not kind.conversation:
        raise PlanMismatch("The plan has no conversation of that name, or one of two kinds.")
    return kind
