"""All kinds of step, by name: the only list of them."""

from collections.abc import Iterator, Mapping

from colonnade.errors import PlanMismatch, PolicyRefusal
from colonnade.plan import Plan, Step
from colonnade.steps import alignment, gradient, keys, local, products, score_table, sums
from colonnade.steps.joint import Joint, JointStep
from colonnade.steps.kind import Channel, StepKind, Steps

__all__ = ["KINDS", "discloses", "is_conversation", "kind_of", "read_joint", "uses_compute_nodes", "whole_steps"]

KINDS: Mapping[str, type[StepKind]] = {
    kind.name: kind
    for kind in (
        alignment.Cohort,
        alignment.ListMatching,
        alignment.UnionMatching,
        gradient.Gradient,
        keys.GroupKey,
        keys.MembershipSketches,
        keys.Split,
        local.Centres,
        local.Histogram,
        local.Reports,
        local.Rows,
        local.Sketch,
        local.SquaredLength,
        local.Total,
        local.ValueSketch,
        local.Values,
        products.Coefficients,
        products.Gram,
        products.PairTables,
        products.UnionCross,
        products.UnionOwn,
        score_table.ScoreHistogram,
        sums.CoresetClusters,
        sums.CoresetDraws,
        sums.CoresetGradient,
        sums.CoresetRows,
        sums.CoresetSample,
        sums.CoresetScores,
        sums.CoresetTotal,
        sums.Predictions,
    )
}


def kind_of(step: Step) -> type[StepKind]:
    """Return a step's kind; refuse one that nobody here knows."""
    kind = KINDS.get(step.kind)
    if kind is None:
        raise PolicyRefusal("This party does not know the kind of step that was asked for.")
    return kind


def whole_steps(plan: Plan | tuple[Step, ...]) -> Iterator[tuple[type[StepKind], Steps]]:
    """Yield every whole step of a plan with its kind, in the plan's order."""
    steps = plan.steps if isinstance(plan, Plan) else plan
    for name, kind in dict.fromkeys((step.name, step.kind) for step in steps):
        found = {step.party: step for step in steps if (step.name, step.kind) == (name, kind)}
        yield kind_of(next(iter(found.values()))), found


def is_conversation(step: Step) -> bool:
    """Return whether a step is one member's part in a conversation, and not a release of its own."""
    return bool(kind_of(step).conversation)


def discloses(step: Step) -> bool:
    """Return whether exact values leave in a step, without differential privacy."""
    return kind_of(step).discloses(step)


def uses_compute_nodes(plan: Plan | tuple[Step, ...]) -> bool:
    """Return whether something is computed on shares, so that compute nodes and a threshold are needed."""
    return any(kind.channel == Channel.SHARES for kind, _ in whole_steps(plan))


def read_joint(plan: Plan, name: str) -> Joint:
    """Read a joint opening from a plan."""
    kinds = {kind_of(step) for step in plan.steps if step.name == name}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not issubclass(kind, JointStep):
        raise PlanMismatch("A joint step is one kind of step at two or more parties.")
    return kind.read(plan, name)
