"""The private half of each kind of step: how it is computed from the table, and this party's part in its conversation."""

from collections.abc import Mapping

from colonnade.errors import PolicyRefusal
from colonnade.party.steps.agreements import (
    PrivateCohort,
    PrivateGroupKey,
    PrivateListMatching,
    PrivateSplit,
    PrivateUnionMatching,
)
from colonnade.party.steps.coresets import (
    PrivateCoresetClusters,
    PrivateCoresetDraws,
    PrivateCoresetGradient,
    PrivateCoresetRows,
    PrivateCoresetSample,
    PrivateCoresetScores,
    PrivateCoresetTotal,
)
from colonnade.party.steps.gradient import PrivateGradient
from colonnade.party.steps.local import (
    PrivateCentres,
    PrivateHistogram,
    PrivateMembershipSketches,
    PrivateReports,
    PrivateRows,
    PrivateSketch,
    PrivateSquaredLength,
    PrivateTotal,
    PrivateValues,
    PrivateValueSketch,
)
from colonnade.party.steps.predictions import PrivatePredictions
from colonnade.party.steps.products import (
    PrivateCoefficients,
    PrivateGram,
    PrivatePairTables,
    PrivateScoreHistogram,
    PrivateUnionCross,
    PrivateUnionOwn,
)
from colonnade.plan import Step
from colonnade.steps.kind import StepKind

__all__ = ["PRIVATE_HALVES", "private_half"]

PRIVATE_HALVES: Mapping[str, type[StepKind]] = {
    half.name: half
    for half in (
        PrivateCentres,
        PrivateCoefficients,
        PrivateCohort,
        PrivateCoresetClusters,
        PrivateCoresetDraws,
        PrivateCoresetGradient,
        PrivateCoresetRows,
        PrivateCoresetSample,
        PrivateCoresetScores,
        PrivateCoresetTotal,
        PrivateGradient,
        PrivateGram,
        PrivateGroupKey,
        PrivateHistogram,
        PrivateListMatching,
        PrivateMembershipSketches,
        PrivatePairTables,
        PrivatePredictions,
        PrivateReports,
        PrivateRows,
        PrivateScoreHistogram,
        PrivateSketch,
        PrivateSplit,
        PrivateSquaredLength,
        PrivateTotal,
        PrivateUnionCross,
        PrivateUnionMatching,
        PrivateUnionOwn,
        PrivateValueSketch,
        PrivateValues,
    )
}


def private_half(step: Step) -> type[StepKind]:
    """Return the private half of a step's kind; refuse a kind that this party does not know."""
    half = PRIVATE_HALVES.get(step.kind)
    if half is None:
        raise PolicyRefusal("This party does not know the kind of step that was asked for.")
    return half
