"""Counts, sums and means by group from noisy totals, with what the noise does to each.

A count N and a coded sum S of a group are unbiased, with noise that is independent from number to number. With m and h the middle
and the half range of a column's bounds, the sum in own units is m·N + h·S and the mean m + h·S/N. The mean divides by a noisy
count, because how many people are in a group is private. Its standard error is that of the delta method, and its interval
Fieller's, which holds for groups of any size (`colonnade.estimation.ratios`, docs/proofs/group-by.md#intervals).

Every group is measured alike, so a margin is the sum of its groups: rolled-up figures agree with the figures that they are made
of, and no further constraint is needed. `GroupFigures.consistent` also makes counts non-negative, with the right total.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.estimation.counts import project_to_simplex
from colonnade.estimation.ratios import RatioNoise, quantile, ratio_error, ratio_interval
from colonnade.estimation.tables import NoisyTables, plausible_total

__all__ = ["GroupFigures", "Span"]

Array = NDArray[np.float64]
SMALL = 5.0
"""A group whose count is below so many standard errors is flagged as small: its count errs by more than a fifth."""


@dataclass(frozen=True)
class Span:
    """The bounds of a column in its own unit."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The value that is coded as 0."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """How many own units one coded unit is."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, eq=False)
class GroupFigures:
    """Noisy totals by group.

    Parameters
    ----------
    counts
        Estimated numbers of people, one axis per column that groups are made of.
    sums
        Estimated sums of coded values, by value; of the same shape.
    count_variance, sum_variance
        The variance of the noise in a count, and in a coded sum. One number each, or one per group.
    spans
        The bounds of every value.
    """

    counts: Array
    sums: Mapping[str, Array]
    count_variance: Array
    sum_variance: Array
    spans: Mapping[str, Span]

    def rolled_up(self, axes: Sequence[int]) -> "GroupFigures":
        """Return the figures of fewer, larger groups: those of the axes that are kept, in this order."""
        gone = tuple(axis for axis in range(self.counts.ndim) if axis not in axes)
        kept = sorted(axes)
        order = [kept.index(axis) for axis in axes]

        def added(table: Array) -> Array:
            return np.asarray(np.broadcast_to(table, self.counts.shape).sum(axis=gone).transpose(order))

        return GroupFigures(
            added(self.counts),
            {name: added(one) for name, one in self.sums.items()},
            added(self.count_variance),
            added(self.sum_variance),
            self.spans,
        )

    def count_error(self) -> Array:
        """Return the standard error of every count."""
        return np.broadcast_to(np.sqrt(self.count_variance), self.counts.shape)

    def total(self, name: str) -> tuple[Array, Array]:
        """Return the sum of a value in every group in own units, and its standard error."""
        span = self.spans[name]
        variance = span.middle**2 * self.count_variance + span.half**2 * self.sum_variance
        error = np.broadcast_to(np.sqrt(variance), self.counts.shape)
        return np.asarray(span.middle * self.counts + span.half * self.sums[name]), error

    def mean(self, name: str) -> tuple[Array, Array]:
        """Return the mean of a value in every group in own units, within its bounds, and its standard error.

        A group whose noisy count is not positive has no mean, and an infinite error.
        """
        span, noise = self.spans[name], self._ratio_noise()
        ratio = np.clip(self.sums[name] / np.where(self.counts > 0, self.counts, 1.0), -1.0, 1.0)
        error = ratio_error(self.sums[name], self.counts, noise) * span.half
        return np.where(self.counts > 0, span.middle + span.half * ratio, np.nan), error

    def count_interval(self, level: float, people: int) -> tuple[Array, Array]:
        """Return an interval of every count, between 0 and the number of people."""
        reach = quantile(level) * self.count_error()
        return np.clip(self.counts - reach, 0, people), np.clip(self.counts + reach, 0, people)

    def total_interval(self, name: str, level: float) -> tuple[Array, Array]:
        """Return an interval of every sum."""
        value, error = self.total(name)
        return value - quantile(level) * error, value + quantile(level) * error

    def mean_interval(self, name: str, level: float) -> tuple[Array, Array]:
        """Return an interval of every mean: the column's bounds, where the count may be nothing but noise."""
        span = self.spans[name]
        low, high = ratio_interval(self.sums[name], self.counts, self._ratio_noise(), level)
        return span.middle + span.half * low, span.middle + span.half * high

    def small(self) -> NDArray[np.bool_]:
        """Return which groups are too small for their noise."""
        return np.asarray(self.counts < SMALL * self.count_error())

    def consistent(self, people: int, *, leaves_out: bool) -> Array:
        """Return the nearest counts that are not negative and add up: to the number of people, or to what noise says of it."""
        flat = self.counts.reshape(1, -1)
        tables = NoisyTables(flat.shape, {(0, 1): flat}, {(0, 1): float(np.mean(self.count_variance))})
        return project_to_simplex(self.counts, plausible_total(tables, people, leaves_out=leaves_out))

    def _ratio_noise(self) -> RatioNoise:
        shape = self.counts.shape
        return RatioNoise(
            np.broadcast_to(self.sum_variance, shape), np.broadcast_to(self.count_variance, shape), np.zeros(shape)
        )
