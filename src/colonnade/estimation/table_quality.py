"""How well a model of a table agrees with the people it was made from, by their noisy tables.

A *distance* is the total variation distance: the share of people who would have to move for two tables to be equal. As in other
libraries for synthetic data, one minus it is a *column shape* (a single column) or a *pair trend* (two columns together).

*The known noise is taken out.* With D the difference between a noisy table and the model's, in people, and σ² the variance of
the noise in a cell, Σ(D² − σ²) estimates the squared differences. How they add up to a distance depends on how they are spread
over the cells. Two assumptions are on either side of what tables have: evenly over all cells (too far, where most cells are
empty), and in proportion to the model's own shares (too near). The estimate is the geometric mean of the two.

A table that the model was fitted to agrees with its noise as well. If the fit takes a part h of the noise, the squared
differences fall to (1 − h)σ² and the error of the model is hσ²: so |Σ(D² − σ²)| stands for it there. It is an estimate, without
an interval.

Against a table of its own noise, which the fit has not seen, there is an interval (`held_out_distance`). Below: the sum of
|D| − σ√(2/π) is at most the L1 distance, in expectation. Above: the L1 distance is at most √cells times the L2 distance
(Cauchy–Schwarz). Both sides allow for the noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.estimation.noisy_tables import MEAN_SIZE, NoisyTables, Pair
from colonnade.estimation.scoring import Metric
from colonnade.estimation.table_model import TableModel

__all__ = ["Differences", "differences", "fitted_distance", "held_out_distance", "quality_series"]

Array = NDArray[np.float64]
Key = TypeVar("Key", str, tuple[str, str])
SMALLEST_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Differences:
    """A noisy table less the model's.

    Parameters
    ----------
    people
        The differences in people, cell by cell.
    shares
        The model's shares of people, cell by cell.
    variance
        The variance of the noise in a cell.
    count
        How many people there are.
    """

    people: Array
    shares: Array
    variance: float
    count: int

    @property
    def squared(self) -> float:
        """The estimate of the sum of squared differences without noise; it may be below 0."""
        return float((self.people**2 - self.variance).sum())

    def distance(self, weights: Array, *, fitted: bool) -> float:
        """Return the distance, if squared differences are in proportion to some weights."""
        strength = float(((self.people**2 - self.variance) * weights).sum() / (weights**2).sum())
        strength = abs(strength) if fitted else max(strength, 0.0)
        return min(MEAN_SIZE * math.sqrt(strength) * float(np.sqrt(weights).sum()) / (2 * self.count), 1.0)


def differences(model: TableModel, tables: NoisyTables) -> tuple[dict[str, Differences], dict[Pair, Differences]]:
    """Return the differences of every column and of every pair of columns."""
    single, double = {}, {}
    for place, name in enumerate(tables.columns):
        counts, variance = tables.counts(name)
        scale, share = tables.scale(name, name), model.share(name)
        expected = tables.people * share
        single[name] = Differences(counts * scale - expected, share, variance * scale**2, tables.people)
        joint = model.pairs_with(name)
        for other in tables.columns[place + 1 :]:
            scale, shares = tables.scale(name, other), joint[other]
            apart = tables.table(name, other) * scale - tables.people * shares
            noise = tables.variance(name, other) * scale**2
            double[name, other] = Differences(apart, shares, noise, tables.people)
    return single, double


def fitted_distance(found: Differences, *, fitted: bool) -> float:
    """Return the estimated distance. ``fitted``: whether the model was fitted to this very table.

    Examples
    --------
    >>> far = Differences(np.array([100.0, -100.0]), np.array([0.5, 0.5]), 1.0, 1_000)
    >>> round(fitted_distance(far, fitted=False), 2)
    0.08
    """
    even = np.ones_like(found.shares)
    alike = np.maximum(found.shares, SMALLEST_SHARE)
    return math.sqrt(found.distance(even, fitted=fitted) * found.distance(alike, fitted=fitted))


def quality_series(model: TableModel, tables: NoisyTables, kept: Sequence[Pair]) -> tuple[pd.Series, pd.Series]:
    """Return column shapes by column and pair trends by pair, for a model that was fitted to these tables.

    Parameters
    ----------
    model, tables
        The model, and what it was fitted to.
    kept
        The pairs that it was fitted to.
    """
    single, double = differences(model, tables)
    shapes = {name: 1 - fitted_distance(found, fitted=True) for name, found in single.items()}
    trends = {pair: 1 - fitted_distance(found, fitted=pair in set(kept)) for pair, found in double.items()}
    return _by_column(shapes), _by_pair(trends)


def held_out_distance(found: Mapping[Key, Differences], reach: float, name: str) -> tuple[Metric, dict[Key, float]]:
    """Return one minus the mean distance with its interval, and the estimated distances one by one.

    Parameters
    ----------
    found
        Differences from tables whose noise the model has not seen.
    reach
        How many standard errors of the noise the interval allows for.
    name
        What the metric is called.
    """
    each = {one: fitted_distance(apart, fitted=False) for one, apart in found.items()}
    cells = sum(apart.people.size for apart in found.values())
    people = next(iter(found.values())).count
    parts = 2 * people * len(found)
    noise = math.sqrt(sum(apart.variance * apart.people.size for apart in found.values()))
    low = sum(float((np.abs(one.people) - MEAN_SIZE * math.sqrt(one.variance)).sum()) for one in found.values())
    squared = sum(apart.squared for apart in found.values())
    spread = math.sqrt(
        sum(2 * one.variance**2 * one.people.size + 4 * one.variance * max(one.squared, 0.0) for one in found.values())
    )
    high = math.sqrt(cells * max(squared + reach * spread, 0.0))
    near, far = min(max((low - reach * noise) / parts, 0.0), 1.0), min(high / parts, 1.0)
    middle = min(max(sum(each.values()) / len(each), near), max(near, far))
    return Metric(name, 1 - middle, 1 - max(near, far), 1 - near), each


def _by_column(values: Mapping[str, float]) -> pd.Series:
    return pd.Series(values, name="column shape", dtype=float).rename_axis("column")


def _by_pair(values: Mapping[Pair, float]) -> pd.Series:
    index = pd.MultiIndex.from_tuples(list(values), names=["column", "other"])
    return pd.Series(list(values.values()), index=index, name="pair trend", dtype=float)
