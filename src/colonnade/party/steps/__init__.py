"""One statistic a module: its sensitivity, its mechanism, and how it is computed from a private table.

A statistic is constructed from a plan's step and public facts only; it raises there if the step makes no sense. Its
`mechanism` turns a price into noise, and only its `compute` touches data. One that ``looks_back`` is also given what this party
released earlier in the same plan (`colonnade.party.steps.memberships.Earlier`). One that has a ``prepare`` is asked to fail
there, if it must, before anything is paid.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from colonnade.party.steps.aligning import CohortOrder, ListMatching
from colonnade.party.steps.centres import Centres
from colonnade.party.steps.coefficients import Coefficients
from colonnade.party.steps.coreset import (
    CoresetDraws,
    CoresetRows,
    CoresetSample,
    CoresetScores,
    CoresetTotal,
)
from colonnade.party.steps.coreset_training import CoresetClusters, CoresetGradient
from colonnade.party.steps.gradient import Gradient
from colonnade.party.steps.group_key import GroupKey
from colonnade.party.steps.histogram import Histogram
from colonnade.party.steps.joint import Gram, JointStatistic, PairTables
from colonnade.party.steps.membership_sketches import MembershipSketches
from colonnade.party.steps.memberships import Earlier, nothing_earlier
from colonnade.party.steps.predictions import Predictions
from colonnade.party.steps.reports import Reports
from colonnade.party.steps.rows import Rows
from colonnade.party.steps.score_table import ScoreHistogram
from colonnade.party.steps.sketch import Sketch, ValueSketch
from colonnade.party.steps.split import Split
from colonnade.party.steps.squared_length import SquaredLength
from colonnade.party.steps.union import UnionCross, UnionOwn
from colonnade.party.steps.values import Total, Values
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.price import Price
from colonnade.privacy.randomness import Randomness

__all__ = [
    "JOINT_STATISTICS",
    "STATISTICS",
    "Earlier",
    "JointStatistic",
    "OpenStatistic",
    "Statistic",
    "nothing_earlier",
]


class Statistic(Protocol):
    """What the gate needs to know of a statistic."""

    def mechanism(self, price: Price) -> Mechanism:
        """Return the perturbation that this price buys; the party's own computation, never taken from outside."""
        ...

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the exact statistic. Its result is ``nonprivate`` until a mechanism has released it."""
        ...


class OpenStatistic(Protocol):
    """A statistic without a mechanism: it leaves as it is, where the party's policy allows that by name."""

    name: str

    def disclose(
        self, table: PrivateTable, inputs: Mapping[str, NDArray[Any]], randomness: Randomness
    ) -> Mapping[str, NDArray[Any]]:
        """Return exact values. ``inputs`` are the coordinator's; with inputs, the answer must follow from data and inputs."""
        ...


STATISTICS: Mapping[str, Callable[..., Statistic | OpenStatistic]] = {
    "centres": Centres,
    "coreset-clusters": CoresetClusters,
    "coreset-rows": CoresetRows,
    "coreset-sample": CoresetSample,
    "coreset-total": CoresetTotal,
    "histogram": Histogram,
    "membership-sketches": MembershipSketches,
    "reports": Reports,
    "rows": Rows,
    "sketch": Sketch,
    "squared-length": SquaredLength,
    "total": Total,
    "value-sketch": ValueSketch,
    "values": Values,
}

JOINT_STATISTICS: Mapping[str, Callable[..., Any]] = {
    "coefficients": Coefficients,
    "cohort": CohortOrder,
    "coreset-draws": CoresetDraws,
    "coreset-gradient": CoresetGradient,
    "coreset-scores": CoresetScores,
    "gradient": Gradient,
    "gram": Gram,
    "group-key": GroupKey,
    "matching": ListMatching,
    "pair-tables": PairTables,
    "predictions": Predictions,
    "score-table": ScoreHistogram,
    "split": Split,
    "union": ListMatching,
    "union-cross": UnionCross,
    "union-own": UnionOwn,
}
