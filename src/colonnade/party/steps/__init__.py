"""The private half of each kind of step: how it is computed from the table, and this party's part in its conversation."""

from colonnade.party.steps import agreements, local, newton, predictions, products
from colonnade.steps.kind import Registry, StepKind

PRIVATE_HALVES: Registry[str, type[StepKind]] = Registry("private")
PRIVATE_HALVES.register(
    __name__,
    {
        half.name: half
        for half in (
            agreements.PrivateCohort,
            agreements.PrivateGroupKey,
            agreements.PrivateListMatching,
            agreements.PrivateSplit,
            agreements.PrivateUnionMatching,
            local.PrivateColumnCounts,
            local.PrivateQuantilePositions,
            products.PrivateGroupChain,
            products.PrivateGroupSums,
            products.PrivateGroupTotals,
            local.PrivateCentres,
            local.PrivateHistogram,
            local.PrivateReports,
            local.PrivateSquaredLength,
            newton.PrivateNewtonSteps,
            predictions.PrivatePredictions,
            products.PrivateCoefficients,
            products.PrivateGram,
            products.PrivatePairTables,
            products.PrivateScoreHistogram,
            products.PrivateUnionCross,
            products.PrivateUnionOwn,
        )
    },
)
