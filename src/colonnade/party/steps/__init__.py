"""Each kind of step at a data party: how it is computed from the table, and this party's part in its conversation."""

from typing import Any

from colonnade.party.steps import agreements, local, products
from colonnade.party.steps.participants import PrivateStep
from colonnade.steps.kind import Registry

PRIVATE_STEPS: Registry[str, type[PrivateStep[Any]]] = Registry("private")
PRIVATE_STEPS.register(
    __name__,
    {
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
            local.PrivateSpreads,
            local.PrivateSquaredLength,
            products.PrivateCoefficients,
            products.PrivateGram,
            products.PrivateGroupSums,
            products.PrivateGroupTotals,
            products.PrivateNewtonSteps,
            products.PrivatePairTables,
            products.PrivatePredictions,
            products.PrivateScoreHistogram,
            products.PrivateUnionCross,
            products.PrivateUnionOwn,
        )
        for kind in private.kinds
    },
)
