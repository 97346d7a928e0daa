"""Means, covariances and correlations from one release of second moments, with what the noise does to each.

A centred sum of products is c_ij = G_ij − n·m_i·m_j, with G the noisy matrix, n the public number of people and m_i = G_0i/n. To
first order noise E moves it by E_ij − m_j·E_0i − m_i·E_0j. An indicator is its own square, so its spread c_ii = G_0i − G_0i²/n
follows from its sum alone. A correlation is c_ij/√(c_ii·c_jj): a ratio of two noisy numbers, whose interval is Fieller's
(`colonnade.estimation.moment_summaries`).

The number of people is taken as known. On a union of lists it is released with noise itself, which errors here do not count.

What an interval covers: the figure that the same people's clipped values give without noise; with ``total=True`` that of the
population they were drawn from. Estimates are projected afterwards: a covariance matrix to the nearest one without negative
eigenvalues, a correlation matrix to the nearest one with ones on its diagonal as well. Intervals are of the figures before that,
since each of them is about one pair.

Intervals of ratios of two noisy numbers.

A mean in a group is a noisy sum over a noisy count, and a correlation is a noisy product over a noisy spread. Where the
denominator stands far out of its noise the delta method says how far the ratio errs. Where it does not, Fieller's argument still
holds: r is the ratio exactly if numerator − r·denominator is 0, and that is a number with a known noise at every r. So the r that
noise could explain at a level are an interval, a half line, or everything (docs/proofs/group-by.md#intervals).

Counts, sums and means by group from noisy totals, with what the noise does to each.

A count N and a coded sum S of a group are unbiased, with noise that is independent from number to number. With m and h the middle
and the half range of a column's bounds, the sum in own units is m·N + h·S and the mean m + h·S/N. The mean divides by a noisy
count, because how many people are in a group is private. Its standard error is that of the delta method, and its interval
Fieller's, which holds for groups of any size (`colonnade.estimation.moment_summaries`, docs/proofs/group-by.md#intervals).

Every group is measured alike, so a margin is the sum of its groups: rolled-up figures agree with the figures that they are made
of, and no further constraint is needed. `GroupFigures.consistent` also makes counts non-negative, with the right total.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.tables import PairTableSet, plausible_total, project_to_simplex
from colonnade.schema import Column, half_widths, to_own_units

Array = NDArray[np.float64]


class RatioNoise(NamedTuple):
    """The noise of numerators and denominators: their variances, and the covariance of the two."""

    numerator: Array
    denominator: Array
    covariance: Array


def quantile(level: float) -> float:
    """Return z: a normal number is within z standard deviations with this probability.

    Examples
    --------
    >>> round(quantile(0.95), 2)
    1.96
    """
    return float(norm.ppf((1 + level) / 2))


def ratio_error(numerator: Array, denominator: Array, noise: RatioNoise) -> Array:
    """Return the standard error of each ratio to first order; infinite where the denominator is not positive."""
    positive = denominator > 0
    below = np.where(positive, denominator, 1.0)
    ratio = numerator / below
    variance = noise.numerator - 2 * ratio * noise.covariance + ratio**2 * noise.denominator
    return np.where(positive, np.sqrt(np.maximum(variance, 0.0)) / below, np.inf)


def ratio_interval(
    numerator: Array, denominator: Array, noise: RatioNoise, level: float, bounds: tuple[float, float] = (-1.0, 1.0)
) -> tuple[Array, Array]:
    """Return Fieller's intervals of ratios that are known to lie within bounds.

    Parameters
    ----------
    numerator, denominator
        Unbiased estimates. The true denominators are positive, or the interval is that of bounds.
    noise
        What is known about their noise.
    level
        The probability with which each interval covers its ratio.
    bounds
        Public bounds of every ratio. Where noise could explain any ratio, they are the interval.

    Examples
    --------
    >>> noise = RatioNoise(np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.zeros(2))
    >>> low, high = ratio_interval(np.array([50.0, 1.0]), np.array([100.0, 1.0]), noise, 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.478, -1.0], [0.522, 1.0])
    """
    squared = quantile(level) ** 2
    a = denominator**2 - squared * noise.denominator
    b = numerator * denominator - squared * noise.covariance
    c = numerator**2 - squared * noise.numerator
    bounded = (a > 0) & (denominator > 0)
    width = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    below = np.where(bounded, a, 1.0)
    low = np.where(bounded, (b - width) / below, bounds[0])
    high = np.where(bounded, (b + width) / below, bounds[1])
    return np.clip(low, *bounds), np.clip(high, *bounds)


ROUNDS = 200
SETTLED = 1e-10


@dataclass(frozen=True, eq=False)
class PairEstimates:
    """One estimate for each pair of columns, with its error and interval. Each is a frame with a row and a column per column.

    Parameters
    ----------
    values
        The estimates, positive semi-definite together.
    stderr
        The standard error that the noise causes in each, before the projection; infinite where it is not determined.
    low, high
        The interval of each.
    level
        The probability with which an interval covers.
    """

    values: pd.DataFrame
    stderr: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame
    level: float

    def table(self) -> pd.DataFrame:
        """Return one row per pair of columns, each pair once, the largest estimates first."""
        names = list(self.values.columns)
        first, second = np.triu_indices(len(names), 1)
        frame = pd.DataFrame(
            {
                "column": [names[place] for place in first],
                "with": [names[place] for place in second],
                "estimate": self.values.to_numpy()[first, second],
                "stderr": self.stderr.to_numpy()[first, second],
                "low": self.low.to_numpy()[first, second],
                "high": self.high.to_numpy()[first, second],
            }
        )
        order = np.argsort(-frame["estimate"].abs().to_numpy(), kind="stable")
        return frame.iloc[order].set_index(["column", "with"])

    def __repr__(self) -> str:
        return f"PairEstimates at level {self.level:g}\n{self.table()}"


@dataclass(frozen=True, eq=False)
class MomentSummary:
    """What second moments say about columns one by one and two by two.

    Parameters
    ----------
    moments
        The release.
    columns
        The public descriptions of its columns.
    """

    moments: Moments
    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if any(feature.kind == "sign" for feature in self.moments.features):
            raise BadInput(
                "Summaries need categories coded as levels.", remedy="Release the moments without signed columns."
            )

    @property
    def names(self) -> list[str]:
        """The coded columns: numbers by their names, categories level by level."""
        return [feature.name for feature in self.moments.features[1:]]

    @cached_property
    def _levels(self) -> NDArray[np.bool_]:
        return np.array([feature.kind == "level" for feature in self.moments.features[1:]])

    @cached_property
    def _means(self) -> Array:
        return np.asarray(self.moments.matrix[0, 1:] / self.moments.count)

    @cached_property
    def _sum_variance(self) -> Array:
        return np.asarray(self.moments.variance[0, 1:])

    @cached_property
    def _centred(self) -> Array:
        """Sums of products of centred columns, without the bias that noise in the sums gives the squares."""
        means, count = self._means, self.moments.count
        centred = self.moments.matrix[1:, 1:] - count * np.outer(means, means)
        own = np.where(self._levels, count * means * (1 - means), np.diag(centred))
        np.fill_diagonal(centred, own + self._sum_variance / count)
        return np.asarray(centred)

    @cached_property
    def _variance(self) -> Array:
        """The variance of the noise in each of them."""
        means, sums = self._means, self._sum_variance
        variance = self.moments.variance[1:, 1:] + np.outer(sums, means**2) + np.outer(means**2, sums)
        np.fill_diagonal(variance, self._own_square + self._slope**2 * sums)
        return np.asarray(variance)

    @cached_property
    def _own_square(self) -> Array:
        """The variance that a column's measured square adds to its spread: none, for an indicator."""
        return np.where(self._levels, 0.0, np.diag(self.moments.variance)[1:])

    @cached_property
    def _slope(self) -> Array:
        """How noise in a column's sum moves its spread."""
        return np.where(self._levels, 1 - 2 * self._means, -2 * self._means)

    def mean(self, level: float = 0.95, *, total: bool = False) -> pd.DataFrame:
        """Return mean, error and interval of every coded column, in own units; of a level, the share of people.

        The levels of a category that leaves people out are shares of those who have one, whose number is noisy.
        """
        require_level(level)
        count, features = self.moments.count, self.moments.features[1:]
        sampling = np.maximum(np.diag(self._centred), 0.0) / count if total else np.zeros(len(features))
        spread = np.sqrt(self._sum_variance / count**2 + sampling / count) * half_widths(features)
        values, reach = to_own_units(self._means, features), quantile(level) * spread
        frame = pd.DataFrame(
            {"mean": values, "stderr": spread, "low": values - reach, "high": values + reach},
            index=pd.Index(self.names, name="column"),
        )
        for name, column in self.columns.items():
            if column.excludes:
                places = [place for place, feature in enumerate(features) if feature.column == name]
                frame.iloc[places] = self._shares_of_present(places, level, sampling)
        return frame

    def _shares_of_present(self, places: list[int], level: float, sampling: Array) -> Array:
        sums, noise = self.moments.matrix[0, 1:][places], self._sum_variance[places]
        own = noise + self.moments.count * sampling[places]
        present, every = np.full(len(places), sums.sum()), np.full(len(places), noise.sum())
        ratios = RatioNoise(own, every, noise)
        shares = np.clip(sums / np.maximum(present, 1.0), 0.0, 1.0)
        low, high = ratio_interval(sums, present, ratios, level, (0.0, 1.0))
        return np.column_stack([shares, ratio_error(sums, present, ratios), low, high])

    def covariance(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return the covariance of every two coded columns, in own units."""
        require_level(level)
        people = max(self.moments.count - 1, 1)
        units = np.outer(*[half_widths(self.moments.features[1:])] * 2) / people
        spread = np.maximum(np.diag(self._centred), 0.0)
        sampling = (np.outer(spread, spread) + self._centred**2) / people if total else 0.0  # of Gaussian columns
        errors = np.sqrt(self._variance + sampling) * units
        low, high = (self._centred * units + sign * quantile(level) * errors for sign in (-1, 1))
        np.fill_diagonal(low, np.maximum(np.diag(low), 0.0))
        return self._pairs(nearest_covariance(self._centred) * units, errors, low, high, level)

    def correlation(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return the correlation of every two coded columns. One that the noise leaves open has −1 to 1 as its interval."""
        require_level(level)
        centred, variance = self._centred, self._variance
        own, noise = np.diag(centred), np.diag(variance)
        known = own > 0
        spread = np.where(known, own, 1.0)
        scale = np.sqrt(np.outer(spread, spread))
        relative = noise / spread**2
        shared = -self._slope * self._sum_variance / spread  # what noise in a sum does to the product and to the spread
        ratios = RatioNoise(
            variance,
            scale**2 / 4 * (relative[:, None] + relative[None, :]),
            scale / 2 * (np.outer(shared, self._means) + np.outer(self._means, shared)),
        )
        raw = np.clip(centred / scale, -1.0, 1.0)
        if total:
            drawn = (scale * (1 - raw**2)) ** 2 / self.moments.count
            ratios = ratios._replace(numerator=ratios.numerator + drawn)
        open_ended = ~np.outer(known, known)
        errors = np.where(open_ended, np.inf, ratio_error(centred, scale, ratios))
        low, high = ratio_interval(centred, np.where(open_ended, 0.0, scale), ratios, level)
        for matrix, one in ((raw, 1.0), (errors, 0.0), (low, 1.0), (high, 1.0)):
            np.fill_diagonal(matrix, one)
        raw = np.where(np.isfinite(errors), raw, 0.0)
        return self._pairs(nearest_correlation(raw), errors, low, high, level)

    def _pairs(self, values: Array, errors: Array, low: Array, high: Array, level: float) -> PairEstimates:
        shown = [pd.DataFrame(one, index=self.names, columns=self.names) for one in (values, errors, low, high)]
        return PairEstimates(shown[0], shown[1], shown[2], shown[3], level)


def require_level(level: object) -> None:
    """Refuse what is no probability."""
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise BadInput("level must be a number between 0 and 1.", remedy="For example level=0.95.")


def nearest_covariance(matrix: Array) -> Array:
    """Return the nearest symmetric matrix without negative eigenvalues.

    Examples
    --------
    >>> nearest_covariance(np.array([[1.0, 2.0], [2.0, 1.0]])).round(3).tolist()
    [[1.5, 1.5], [1.5, 1.5]]
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def nearest_correlation(matrix: Array) -> Array:
    """Return the nearest correlation matrix, by alternating projections with Dykstra's correction [Higham 2002].

    Examples
    --------
    >>> nearest_correlation(np.array([[1.0, 0.5], [0.5, 1.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    if np.linalg.eigvalsh(matrix)[0] >= 0:
        return np.array(matrix)
    present, correction = np.array(matrix), np.zeros_like(matrix)
    for _ in range(ROUNDS):
        projected = nearest_covariance(present - correction)
        correction = projected - (present - correction)
        following = np.array(projected)
        np.fill_diagonal(following, 1.0)
        if np.max(np.abs(following - present)) < SETTLED:
            break
        present = following
    projected = nearest_covariance(following)  # what is left of negative eigenvalues, taken off by scaling
    deviations = np.sqrt(np.maximum(np.diag(projected), SETTLED))
    scaled = projected / np.outer(deviations, deviations)
    np.fill_diagonal(scaled, 1.0)
    return np.asarray(scaled)


SMALL = 5.0
"""A group whose count is below this many standard errors is flagged as small: its count errs by more than a fifth."""


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
        tables = PairTableSet(flat.shape, {(0, 1): flat}, {(0, 1): float(np.mean(self.count_variance))})
        return project_to_simplex(self.counts, plausible_total(tables, people, leaves_out=leaves_out))

    def _ratio_noise(self) -> RatioNoise:
        shape = self.counts.shape
        return RatioNoise(
            np.broadcast_to(self.sum_variance, shape), np.broadcast_to(self.count_variance, shape), np.zeros(shape)
        )
