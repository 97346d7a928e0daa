"""The private half of each kind of step: how it is computed from the table, and this party's part in its conversation."""

from collections.abc import Mapping

from colonnade.errors import PolicyRefusal
from colonnade.party.steps.alignment import PrivateCohort, PrivateListMatching, PrivateUnionMatching
from colonnade.party.steps.centres import PrivateCentres
from colonnade.party.steps.coreset_training import PrivateCoresetClusters, PrivateCoresetGradient
from colonnade.party.steps.coresets import (
    PrivateCoresetDraws,
    PrivateCoresetRows,
    PrivateCoresetSample,
    PrivateCoresetScores,
    PrivateCoresetTotal,
)
from colonnade.party.steps.counts import PrivateHistogram, PrivateReports
from colonnade.party.steps.gradient import PrivateGradient
from colonnade.party.steps.gram import PrivateCoefficients, PrivateGram, PrivateUnionCross, PrivateUnionOwn
from colonnade.party.steps.keys import PrivateGroupKey, PrivateSplit
from colonnade.party.steps.membership_sketches import PrivateMembershipSketches
from colonnade.party.steps.predictions import PrivatePredictions
from colonnade.party.steps.projections import PrivateRows, PrivateSketch, PrivateSquaredLength, PrivateValueSketch
from colonnade.party.steps.tables import PrivatePairTables, PrivateScoreHistogram
from colonnade.party.steps.values import PrivateTotal, PrivateValues
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
    half = PRIVATE_HALVES.get(step.statistic)
    if half is None:
        raise PolicyRefusal("This party does not know the kind of step that was asked for.")
    return half
