"""Repeated runs of one number: mean, interval, and what a further run should show."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95
ALIKE, ENOUGH = 0.1, 10
"""Of runs that are all the same: how far a further one may lie from them, and how many can tell that it lies farther."""


@dataclass(frozen=True)
class Sample:
    """The values of one number over runs.

    Parameters
    ----------
    values
        One per run.
    exact
        It depends neither on chance nor on the machine: one run is all.
    """

    values: tuple[float, ...]
    exact: bool = False

    @property
    def runs(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return Student's interval of the mean. With one run that is not exact it is the whole line: nothing is known."""
        return _student(np.array(self.values), level) if not self.exact else (self.mean, self.mean)

    def foretells(self, value: float, alpha: float) -> bool | None:
        """Return whether a further run is where one of these runs would be; ``None`` if too few runs can tell."""
        spread = float(np.std(self.values, ddof=1)) if self.runs > 1 else 0.0
        if self.exact:
            return math.isclose(value, self.mean, rel_tol=1e-6, abs_tol=1e-9)
        if self.runs < 3:
            return None
        if spread <= 1e-9 * abs(self.mean):  # all the same, up to a bit of the mean
            alike = math.isclose(value, self.mean, rel_tol=ALIKE, abs_tol=1e-9)
            return alike if alike or self.runs >= ENOUGH else None
        reach = stats.t.ppf(1 - alpha / 2, self.runs - 1) * spread * math.sqrt(1 + 1 / self.runs)
        return bool(abs(value - self.mean) <= max(reach, 1e-9))  # what is smaller is rounding


def difference(one: Sample, other: Sample, level: float) -> tuple[float, float]:
    """Return the interval of a difference of means: by pairs where both have the same runs, otherwise by Welch."""
    if one.exact and other.exact:
        return (one.mean - other.mean,) * 2
    if one.exact or other.exact:
        low, high = (one if other.exact else other).interval(level)
        return (low - other.mean, high - other.mean) if other.exact else (one.mean - high, one.mean - low)
    if one.runs == other.runs:
        return _student(np.subtract(one.values, other.values), level)
    if min(one.runs, other.runs) < 2:
        return -math.inf, math.inf
    parts = [np.var(sample.values, ddof=1) / sample.runs for sample in (one, other)]
    if sum(parts) == 0:
        return (one.mean - other.mean,) * 2
    freedom = sum(parts) ** 2 / sum(part**2 / (s.runs - 1) for part, s in zip(parts, (one, other), strict=True))
    half = float(stats.t.ppf((1 + level) / 2, freedom) * math.sqrt(sum(parts)))
    middle = one.mean - other.mean
    return middle - half, middle + half


def ratio(one: Sample, other: Sample, level: float) -> tuple[float, float]:
    """Return the interval of a ratio of positive numbers, from that of the difference of their logarithms."""
    logs = [Sample(tuple(map(math.log, sample.values)), sample.exact) for sample in (one, other)]
    low, high = difference(*logs, level)
    return math.exp(low) if low > -700 else 0.0, math.exp(high) if high < 700 else math.inf


def proportion(successes: float, trials: float, level: float) -> tuple[float, float]:
    """Return the exact (Clopper–Pearson) interval of a share of independent trials."""
    if trials <= 0:
        return 0.0, 1.0
    tail = (1 - level) / 2
    low = float(stats.beta.ppf(tail, successes, trials - successes + 1)) if successes > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, successes + 1, trials - successes)) if successes < trials else 1.0
    return low, high


def _student(values: Sequence[float] | np.ndarray, level: float) -> tuple[float, float]:
    if len(values) < 2:
        return -math.inf, math.inf
    mean = float(np.mean(values))
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean - half, mean + half
