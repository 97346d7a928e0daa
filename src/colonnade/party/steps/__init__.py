"""The private half of each kind of step: how it is computed from the table, and this party's part in its conversation."""

from collections.abc import Mapping

from colonnade.party.steps import agreements, coresets, local, newton, products
from colonnade.steps.kind import StepKind

PRIVATE_HALVES: Mapping[str, type[StepKind]] = {
    half.name: half
    for half in (
        agreements.PrivateCohort,
        agreements.PrivateGroupKey,
        agreements.PrivateListMatching,
        agreements.PrivateSplit,
        agreements.PrivateUnionMatching,
        coresets.PrivateCoresetClusters,
        coresets.PrivateCoresetDraws,
        coresets.PrivateCoresetGradient,
        coresets.PrivateCoresetRows,
        coresets.PrivateCoresetSample,
        coresets.PrivateCoresetScores,
        coresets.PrivateCoresetTotal,
        local.PrivateColumnCounts,
        local.PrivateQuantilePositions,
        newton.PrivateGradient,
        products.PrivateGroupChain,
        products.PrivateGroupSums,
        products.PrivateGroupTotals,
        local.PrivateCentres,
        local.PrivateHistogram,
        local.PrivateMembershipSketches,
        local.PrivateReports,
        local.PrivateRows,
        local.PrivateSketch,
        local.PrivateSquaredLength,
        local.PrivateTotal,
        local.PrivateValueSketch,
        local.PrivateValues,
        newton.PrivateNewtonSteps,
        products.PrivatePredictions,
        products.PrivateCoefficients,
        products.PrivateGram,
        products.PrivatePairTables,
        products.PrivateScoreHistogram,
        products.PrivateUnionCross,
        products.PrivateUnionOwn,
    )
}
