"""Each kind of step at a data party: how it is computed from the table, and this party's part in its conversation."""

from collections.abc import Mapping
from typing import Any

from colonnade.party.steps import agreements, coresets, local, newton, products
from colonnade.party.steps.participants import PrivateStep
from colonnade.plan import Plan, Step
from colonnade.steps.kind import StepKind

PRIVATE_STEPS: Mapping[str, type[PrivateStep[Any]] | type[StepKind]] = {
    **{
        kind.name: private
        for private in (
            agreements.PrivateCohort,
            agreements.PrivateGroupKey,
            agreements.PrivateMatching,
            agreements.PrivateSplit,
            local.PrivateCentres,
            local.PrivateColumnCounts,
            local.PrivateHistogram,
            local.PrivateQuantilePositions,
            local.PrivateReports,
            local.PrivateSquaredLength,
            products.PrivateCoefficients,
            products.PrivateGram,
            products.PrivateGroupSums,
            products.PrivateGroupTotals,
            products.PrivatePairTables,
            products.PrivatePredictions,
            products.PrivateScoreHistogram,
            products.PrivateUnionCross,
            products.PrivateUnionOwn,
        )
        for kind in private.kinds
    },
    **{
        kind.name: kind  # these are kinds of step that compute themselves
        for kind in (
            coresets.PrivateCoresetClusters,
            coresets.PrivateCoresetDraws,
            coresets.PrivateCoresetGradient,
            coresets.PrivateCoresetRows,
            coresets.PrivateCoresetSample,
            coresets.PrivateCoresetScores,
            coresets.PrivateCoresetTotal,
            local.PrivateMembershipSketches,
            local.PrivateRows,
            local.PrivateSketch,
            local.PrivateTotal,
            local.PrivateValueSketch,
            local.PrivateValues,
            newton.PrivateGradient,
            newton.PrivateNewtonSteps,
        )
    },
}


def private_step(admitted: StepKind, plan: Plan, step: Step) -> PrivateStep[Any]:
    """Return a step that was admitted as this party computes it."""
    private = PRIVATE_STEPS[step.kind]
    if issubclass(private, PrivateStep):
        return private(admitted)
    # a kind that computes itself says all that a `PrivateStep` does
    return private(plan, step, admitted.schema, admitted.earlier)  # type: ignore[return-value]
