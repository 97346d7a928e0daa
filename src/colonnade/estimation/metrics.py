"""A figure about a model, with an interval that covers the noise it was released with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

import pandas as pd

from colonnade.errors import BadInput

__all__ = ["Measured", "Metric", "between", "reach"]


@dataclass(frozen=True)
class Metric:
    """One figure.

    Parameters
    ----------
    name
        What it is.
    value
        The estimate.
    low, high
        An interval for the figure that the exact scores of the same people would give: noise and discretisation are in it,
        the choice of these people is not.
    kind
        ``"exact"`` where nothing but noise and rounding stands between estimate and figure; otherwise what else does.
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
        """Return whether a figure lies within the interval."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Measured:
    """What an evaluation found: figures in order, and figures that are tables, such as calibration, by name."""

    metrics: tuple[Metric, ...]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def reach(level: float, *, among: int = 1) -> float:
    """Return how many standard errors an interval reaches; the error rate is divided among several that must hold at once."""
    if isinstance(level, bool) or not isinstance(level, float) or not 0 < level < 1:
        raise BadInput("The level of an interval lies between 0 and 1.", remedy="For example level=0.95.")
    return NormalDist().inv_cdf(1 - (1 - level) / 2 / among)


def between(name: str, value: float, error: float, *, floor: float, ceiling: float, kind: str = "exact") -> Metric:
    """Return a metric with an interval of ± error, within what the metric can be.

    An estimate that noise has carried past an end is moved to it, and the interval reaches as far from there: it is never
    narrower for having been impossible.

    Examples
    --------
    >>> metric = between("mse", -3.0, 2.0, floor=0.0, ceiling=10.0)
    >>> metric.low, metric.value, metric.high
    (0.0, 0.0, 2.0)
    """
    kept = min(max(value, floor), ceiling)
    low, high = max(min(value, kept) - error, floor), min(max(value, kept) + error, ceiling)
    return Metric(name, kept, min(low, kept), max(high, kept), kind)
