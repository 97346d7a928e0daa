"""One statistic a module: its sensitivity, its mechanism, and how it is computed from a private table.

A statistic is constructed from a plan's step and public facts only; it raises there if the step makes no sense. Its
`mechanism` turns a price into noise, and only its `compute` touches data. One that ``looks_back`` is also given what this party
released earlier in the same plan (`colonnade.party.statistics.memberships.Earlier`). One that has a ``prepare`` is asked to fail
there, if it must, before anything is paid.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from colonnade.party.statistics.aligning import CohortOrder, ListMatching
from colonnade.party.statistics.centres import Centres
from colonnade.party.statistics.coefficients import Coefficients
from colonnade.party.statistics.coreset import (
    CoresetDraws,
    CoresetRows,
    CoresetSample,
    CoresetScores,
    CoresetTotal,
)
from colonnade.party.statistics.coreset_training import CoresetClusters, CoresetGradient
from colonnade.party.statistics.gradient import Gradient
from colonnade.party.statistics.group_key import GroupKey
from colonnade.party.statistics.histogram import Histogram
from colonnade.party.statistics.joint import Gram, JointStatistic, PairTables
from colonnade.party.statistics.membership_sketches import MembershipSketches
from colonnade.party.statistics.memberships import Earlier, nothing_earlier
from colonnade.party.statistics.predictions import Predictions
from colonnade.party.statistics.reports import Reports
from colonnade.party.statistics.rows import Rows
from colonnade.party.statistics.score_table import ScoreHistogram
from colonnade.party.statistics.sketch import Sketch, ValueSketch
from colonnade.party.statistics.split import Split
from colonnade.party.statistics.squared_length import SquaredLength
from colonnade.party.statistics.union import UnionCross, UnionOwn
from colonnade.party.statistics.values import Total, Values
from colonnade.party.table import PrivateTable
from colonnade.privacy.mechanisms import Mechanism
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
