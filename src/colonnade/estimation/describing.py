"""From noisy counts of one column to its share of missing values, mean, standard deviation, quantiles and histogram.

Counts of bins and of groups of bins are two noisy views of one table. The least-squares table that fits both is a linear function
of them (docs/proofs/histograms.md#least-squares), so the variance of every sum over bins is known exactly: `BinCounts.variance`.

Means and deviations come from that table as it is, negative counts and all, so noise does not push them in one direction. They
see every value in the middle of its bin. Quantiles need ranks that rise. Both ends are first taken as empty as far as noise alone
explains them: bounds are often much wider than the values, and a quantile in a tail would otherwise be somewhere in the empty
part. Then ranks are made to rise by isotonic regression.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from colonnade.privacy.laws.quantile_search import Question
from colonnade.steps.describing import CountedColumn

Array = NDArray[np.float64]

CLEARLY = 4.0
"""How many standard errors a number of people must have to be clearly more than noise: it is asked at many edges."""


@dataclass(frozen=True)
class Figure:
    """A number, and the standard error that noise gives it."""

    value: float
    stderr: float


@dataclass(frozen=True)
class BinCounts:
    """Noisy counts of one number's bins, and what follows from them.

    Parameters
    ----------
    edges
        Where bins begin and end.
    middles
        The value that stands for each bin in means.
    noisy
        The noisy counts of the bins.
    groups
        The noisy counts of groups of neighbouring bins; empty if there are none.
    group
        How many bins a group has.
    absent
        The noisy number of people whose value is missing.
    noise
        The variance of every noisy count.
    total
        The number of people in bins, where that is public; otherwise ``None``.
    whole
        Whether values are whole numbers.

    Examples
    --------
    >>> counts = BinCounts.of([0.0, 1.0, 2.0, 3.0], [10, 20, 10], noise=1.0, total=40)
    >>> counts.mean().value, round(counts.quantile(0.5).value, 3)
    (1.5, 1.5)
    """

    edges: Array
    middles: Array
    noisy: Array
    groups: Array
    group: int
    absent: float
    noise: float
    total: float | None
    whole: bool

    @classmethod
    def of(
        cls,
        edges: Sequence[float],
        noisy: Sequence[float] | Array,
        *,
        noise: float,
        total: float | None,
        groups: Sequence[float] | Array = (),
        group: int = 1,
        absent: float = 0.0,
        whole: bool = False,
    ) -> "BinCounts":
        """Return the counts of bins between edges; bins of whole numbers end one below the next edge."""
        ends = np.asarray(edges, dtype=np.float64)
        upper = ends[1:].copy()
        if whole:
            upper[:-1] = np.ceil(upper[:-1]) - 1
        middles = (np.ceil(ends[:-1]) + np.floor(upper)) / 2 if whole else (ends[:-1] + upper) / 2
        return cls(
            ends,
            middles,
            np.asarray(noisy, dtype=np.float64),
            np.asarray(groups, dtype=np.float64),
            group,
            float(absent),
            noise,
            total,
            whole,
        )

    # The table that fits -----------------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> Array:
        """The least-squares counts of the bins; they may be negative."""
        return self._fitted(self.noisy, self.groups, self.total)

    def _fitted(self, bins: Array, groups: Array, total: float | None) -> Array:
        """Return the least-squares table for counts of bins and groups, all with the same noise, and a total if it is known."""
        fitted = bins
        variance = np.ones(len(bins))
        if len(groups):
            sums, size = self._summed(bins), self._sizes
            shift = (groups - sums) / (size + 1)  # each bin's part: the group's total becomes (k·group + sum)/(k + 1)
            fitted = bins + np.repeat(shift, size)
            variance = np.repeat(1 / (size + 1), size)  # of a bin within a sum over all bins of its group
        if total is not None:
            fitted = fitted + (total - fitted.sum()) * variance / variance.sum()
        return np.asarray(fitted, dtype=np.float64)

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        starts = np.arange(0, len(self.noisy), self.group)
        return np.diff(np.append(starts, len(self.noisy)))

    def _summed(self, bins: Array) -> Array:
        return np.asarray(np.add.reduceat(bins, np.arange(0, len(bins), self.group)))

    def variance(self, weights: Array) -> float:
        """Return the variance of a weighted sum of the fitted counts.

        The fitted table is ``G⁻¹Aᵀy`` for noisy counts y with ``G = AᵀA``, so a sum ``cᵀx`` has variance ``σ²cᵀG⁻¹c``, and
        ``G⁻¹c`` is the table that fits c in the bins and 0 in the groups.
        """
        known = None if self.total is None else 0.0
        solved = self._fitted(weights, np.zeros(len(self.groups)), known)
        return max(float(weights @ solved), 0.0) * self.noise

    # What a description says --------------------------------------------------------------------------------------------------

    @property
    def present(self) -> float:
        """How many people have a value: the public number, or a noisy one."""
        return max(float(self.counts.sum()) if self.total is None else self.total, 1.0)

    def missing(self, people: int) -> Figure:
        """Return the share of people whose value is missing."""
        if self.total is not None:
            return Figure(0.0, 0.0)
        return Figure(min(max(self.absent / people, 0.0), 1.0), math.sqrt(self.noise) / people)

    def mean(self) -> Figure:
        """Return the mean of the people who have a value."""
        value = self._clipped(float(self.counts @ self.middles) / self.present)
        return Figure(value, math.sqrt(self.variance((self.middles - value) / self.present)))

    def deviation(self) -> Figure:
        """Return the standard deviation of the people who have a value, and its error to first order."""
        mean = self.mean().value
        squares = (self.middles - mean) ** 2
        variance = max(float(self.counts @ squares) / self.present, 0.0)
        spread = math.sqrt(
            self.variance((squares - variance) / self.present)
        )  # the mean's own error is of second order
        value = math.sqrt(variance)
        return Figure(value, spread / (2 * value) if value * value > spread else math.sqrt(spread))

    def quantile(self, share: float) -> Figure:
        """Return a quantile of the people who have a value.

        Its error is a quarter of the width between the values two errors of the rank away. Ends are not taken as empty for that:
        where noise hides a tail, nobody knows how far out it goes. A whole number may be the next one if that is as near: half
        of one is added then.
        """
        value = self.at(share)
        place = int(np.clip(np.searchsorted(self.edges, value), 1, len(self.edges) - 1))
        error = float(self.rank_errors[place - 1 : place + 1].max()) / self.present
        low, high = (self._inverted(self._rising, min(max(share + side * error, 0.0), 1.0)) for side in (-2, 2))
        low, high = min(low, value), max(high, value)
        if not self.whole:
            return Figure(value, (high - low) / 4)
        other = 0.5 if math.floor(low) < math.floor(high) else 0.0
        return Figure(math.floor(value), math.hypot((high - low) / 4, other))

    @cached_property
    def _parts(self) -> Array:
        """What each bin adds to the variance of all bins together, in parts of the noise: the row sums of G⁻¹."""
        return np.repeat(1 / (self._sizes + 1), self._sizes) if len(self.groups) else np.ones(len(self.noisy))

    @cached_property
    def rank_errors(self) -> Array:
        """The standard error of the number of people below each edge, for a share of a total that is as it was found."""
        inside = np.arange(len(self.noisy)) % self.group + 1.0 if len(self.groups) else np.ones(len(self.noisy))
        before = np.arange(len(self.noisy)) // self.group if len(self.groups) else np.arange(len(self.noisy))
        size = np.repeat(self._sizes, self._sizes) if len(self.groups) else np.zeros(len(self.noisy))
        full = np.concatenate([[0.0], np.cumsum(self._sizes / (self._sizes + 1))]) if len(self.groups) else before
        own = full[before] + inside - (inside**2 / (size + 1) if len(self.groups) else 0.0)
        summed = np.concatenate([[0.0], np.cumsum(self._parts)])
        base = np.concatenate([[0.0], own])
        share = summed / summed[-1]
        if self.total is None and self.counts.sum() > 0:
            share = np.clip(np.concatenate([[0.0], np.cumsum(self.counts)]) / self.counts.sum(), 0.0, 1.0)
        variance = base - 2 * share * summed + share**2 * summed[-1]
        return np.asarray(np.sqrt(np.maximum(variance, 0.0) * self.noise))

    @cached_property
    def _noisy_ranks(self) -> Array:
        """How many people are below each edge, as the fitted table has it; it may fall."""
        found = np.concatenate([[0.0], np.cumsum(self.counts)])
        return found if self.total is not None else found * (self.present / max(float(found[-1]), 1.0))

    @cached_property
    def _rising(self) -> Array:
        """The ranks made to rise from 0 to all."""
        return np.asarray(isotonic_regression(self._noisy_ranks, y_min=0.0, y_max=self.present))

    @cached_property
    def ranks(self) -> Array:
        """How many people are below each edge, rising from 0 to all.

        Both ends are taken as empty as far as the people up to there are not clearly more than noise.
        """
        found, total, errors = self._noisy_ranks.copy(), self.present, self.rank_errors
        clear = np.flatnonzero(found[1:] > CLEARLY * errors[1:])
        first = int(clear[0]) if len(clear) else 0  # the bin in which the people up to there become clear
        clear = np.flatnonzero(total - found[:-1] > CLEARLY * errors[:-1])
        last = max(int(clear[-1]) if len(clear) else len(found) - 2, first)
        found[: first + 1], found[last + 1 :] = 0.0, total
        return np.asarray(isotonic_regression(found, y_min=0.0, y_max=total))

    def at(self, share: float) -> float:
        """Return the value below which a share of the people who have one are, between whole numbers too."""
        return self._inverted(self.ranks, share)

    def _inverted(self, ranks: Array, share: float) -> float:
        target = share * ranks[-1]
        place = int(np.searchsorted(ranks[1:], target, side="left" if share > 0.5 else "right"))
        place = min(max(place, 0), len(self.noisy) - 1)
        low, high = ranks[place : place + 2]
        inside = 0.5 if high <= low else min(max((target - low) / (high - low), 0.0), 1.0)
        return float(self.edges[place] + inside * (self.edges[place + 1] - self.edges[place]))

    def _clipped(self, value: float) -> float:
        return min(max(value, float(self.edges[0])), float(self.edges[-1]))

    def grouped(self) -> tuple[Array, Array, Array]:
        """Return the histogram that is shown: edges, counts and their standard errors, of groups where there are some."""
        if not len(self.groups):
            error = math.sqrt(self.variance(np.eye(1, len(self.noisy)).ravel()))
            return self.edges, self.counts, np.full(len(self.counts), error)
        starts = np.arange(0, len(self.noisy), self.group)
        errors = [math.sqrt(self.variance(self._membership(place))) for place in range(len(starts))]
        return np.append(self.edges[starts], self.edges[-1]), self._summed(self.counts), np.array(errors)

    def _membership(self, group: int) -> Array:
        return np.asarray(np.repeat(np.arange(len(self._sizes)) == group, self._sizes), dtype=np.float64)


def search_errors(question: Question, step: float, places: int) -> Array:
    """Return the standard error of each found quantile's rank, in people, if values are spread evenly where it is.

    The rank error of a question then has the law of a two-sided exponential with ``2·max(q, 1 − q)/η`` for its scale. What a
    question finds moves the people of the next ones: a share of its error passes on.

    Parameters
    ----------
    question
        The first question of a search.
    step
        η.
    places
        How many quantiles there are.

    Examples
    --------
    >>> from colonnade.privacy.laws.quantile_search import searched
    >>> search_errors(searched([0.5]), 0.1, 1).round(2).tolist()
    [14.14]
    """
    variances = np.zeros(places)

    def follow(one: Question | None, passed: Callable[[float], float]) -> None:
        if one is None:
            return
        share = float(one.share)
        own = 2 * (2 * max(share, 1 - share) / step) ** 2 + passed(share)
        variances[one.place] = own
        follow(one.below, lambda inner: own * inner**2)
        follow(one.above, lambda inner: own * (1 - inner) ** 2)

    follow(question, lambda _: 0.0)
    return np.sqrt(variances)


@dataclass(frozen=True)
class CountedTable:
    """What the noisy counts of one column say.

    Parameters
    ----------
    column
        How it was counted.
    counts
        The noisy counts: groups, then bins or levels, then missing values.
    noise
        The variance of each.
    people
        The number of people, which is public.
    """

    column: CountedColumn
    counts: NDArray[np.int64]
    noise: float
    people: int

    @property
    def cells(self) -> Array:
        """The noisy counts of bins, or of levels, without groups; missing values of a number last."""
        return self.counts[self.column.groups :].astype(np.float64)

    def numbers(self) -> BinCounts:
        """Return the counts of a number's bins."""
        bins = self.column.counted
        assert bins.is_binned
        number = self.column.bins
        return BinCounts.of(
            bins.edges,
            self.cells[:number],
            noise=self.noise,
            total=float(self.people) if bins.underlying.fill is None else None,
            groups=self.counts[: self.column.groups].astype(np.float64),
            group=self.column.group,
            absent=float(self.cells[number:].sum()),
            whole=bins.underlying.whole,
        )
