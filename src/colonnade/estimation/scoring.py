"""Scores that add up over parties, and the metrics that are computed from releases of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.laws.tables import TableNoise
from colonnade.schema import Column
from colonnade.schema.features import (
    ColumnName,
    centres,
    columns_at,
    consecutive_places,
    features_of,
    half_widths,
    parties_of,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PartyScores:
    """One party's part in some scores.

    Parameters
    ----------
    party, columns
        The party, and the names of its columns.
    weights
        One row per score, one column per coded column.
    low, high
        The smallest and the largest value of each part; 0 lies between them.
    """

    party: str
    columns: tuple[str, ...]
    weights: Array
    low: Array
    high: Array

    @property
    def largest(self) -> Array:
        """The largest magnitude of each part."""
        return np.maximum(-self.low, self.high)


def coded_weights(columns: Mapping[str, Column], coefficients: Array, intercepts: Array) -> tuple[Array, Array]:
    """Turn coefficients in own units, one row per score, into weights of coded columns, and intercepts that go with them."""
    features = features_of(columns)[1:]
    return coefficients * half_widths(features), intercepts + coefficients @ centres(features)


def party_scores(columns: Mapping[str, Column], weights: Array) -> list[PartyScores]:
    """Divide weights of coded columns, one row per score, between the parties that hold the columns.

    Weights are those of coded columns (`colonnade.schema.features`), so a record without values has the score 0 at every
    party, and the largest magnitude of a party's part follows from the schema alone.
    """
    places = consecutive_places({name: column.width for name, column in columns.items()})
    blocks = {name: weights[:, places[name]] for name in columns}
    return [_part(party, columns, blocks) for party in parties_of(columns)]


def _part(party: str, columns: Mapping[str, Column], weights: Mapping[str, Array]) -> PartyScores:
    own = columns_at(party, columns)
    names = [str(ColumnName(party, column)) for column in own]
    blocks = [weights[name] for name in names]
    ranges = [_range(block, columns[name]) for name, block in zip(names, blocks, strict=True)]
    low, high = (np.sum([one[side] for one in ranges], axis=0) for side in (0, 1))
    return PartyScores(party, own, np.concatenate(blocks, axis=1), low, high)


def _range(block: Array, column: Column) -> tuple[Array, Array]:
    """Return the smallest and the largest value that one column can add. A missing value adds nothing."""
    if not column.is_number:
        return np.minimum(block.min(axis=1), 0.0), np.maximum(block.max(axis=1), 0.0)
    size = np.abs(block[:, 0])
    return -size, size


@dataclass(frozen=True)
class Metric:
    """One measured number and its interval.

    Parameters
    ----------
    name
        What is measured.
    value
        The estimate.
    low, high
        An interval for the number that the exact scores of the same people would give. It covers noise and rounding, not the
        choice of these people.
    kind
        ``"exact"`` where only noise and rounding separate the estimate from that number; otherwise what else does.
    """

    name: str
    value: float
    low: float
    high: float
    kind: str = "exact"

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise BadInput("An interval runs from low to high.")

    def covers(self, value: float) -> bool:
        """Return whether a number lies within the interval."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found: metrics in order, and tables (such as calibration) by name."""

    metrics: tuple[Metric, ...]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def interval_reach(level: float, *, among: int = 1) -> float:
    """Return how many standard errors an interval reaches; the error rate is divided among several that must hold at once."""
    if isinstance(level, bool) or not isinstance(level, float) or not 0 < level < 1:
        raise BadInput("The level of an interval lies between 0 and 1.", remedy="For example level=0.95.")
    return NormalDist().inv_cdf(1 - (1 - level) / 2 / among)


def bounded_metric(
    name: str, value: float, error: float, *, floor: float, ceiling: float, kind: str = "exact"
) -> Metric:
    """Return a metric with an interval of ± error, within what the metric can be.

    An estimate that noise has carried past an end is moved to that end. The interval then reaches as far from there, and is
    not narrower than it would have been.

    Examples
    --------
    >>> metric = bounded_metric("mse", -3.0, 2.0, floor=0.0, ceiling=10.0)
    >>> metric.low, metric.value, metric.high
    (0.0, 0.0, 2.0)
    """
    kept = min(max(value, floor), ceiling)
    low, high = max(min(value, kept) - error, floor), min(max(value, kept) + error, ceiling)
    return Metric(name, kept, min(low, kept), max(high, kept), kind)


TYPICAL_CELLS = 100


def histogram_price(price: Price, count: int) -> Price:
    """Return what each of some histograms may cost: of the two ways to divide a price, the one with less noise per count.

    A person is in one count of each, so one histogram is best with Laplace noise; the noise of many adds up more slowly where it
    is Gaussian, if the price has a δ.

    Examples
    --------
    >>> histogram_price(Price.of(1.0, 1e-6), 1).delta, histogram_price(Price.of(1.0, 1e-6), 30).delta > 0
    (0.0, True)
    """
    pure = Price(price.nano, 0.0).share(count)
    if price.delta == 0 or count == 1:
        return pure
    gaussian = gaussian_party_price(price, count, "person")
    noises = {
        one: TableNoise(("left", "right"), one, "person", 1, TYPICAL_CELLS).opened_variance for one in (pure, gaussian)
    }
    return min(noises, key=lambda one: noises[one])
