"""Scores that add up over parties, and the metrics that are computed from releases of them.

Every metric of a classifier is computed twice, on the histogram and on the histogram rounded once more, and extrapolated to no
rounding (a simulation–extrapolation of one step, in closed form). The interval allows for what the extrapolation moves, besides
the noise and the coins of rounding. Shares are quotients of two sums of counts: a person without a label is in neither.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments, quadratic_variance
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.laws.tables import TableNoise
from colonnade.schema import (
    Column,
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

    Weights are those of coded columns (`colonnade.schema`), so a record without values has the score 0 at every
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


def bounded_metric(name: str, value: float, error: float, *, floor: float, ceiling: float) -> Metric:
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
    return Metric(name, kept, min(low, kept), max(high, kept))


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


@dataclass(frozen=True, eq=False)
class ScoreMoments:
    """Noisy second moments of score columns, a constant one in front, in the columns' own units.

    Parameters
    ----------
    matrix, variance
        Sums of products over people, and the variance of the noise in each.
    steps
        The size of one integer step of each column; 0 for the constant.
    people
        The number of people.
    """

    matrix: Array
    variance: Array
    steps: Array
    people: int

    def mean_square(self, direction: Array) -> tuple[float, float]:
        """Return the mean of (d·z)² over people and its standard error from noise and rounding.

        Rounding moves r = d·z by at most half a step per column, independently for practical purposes: 2·Σ r·e has the variance
        4·Σr²·Var(e), and Σe² the mean n·Var(e).
        """
        mean = float(direction @ self.matrix @ direction) / self.people
        rounding = float((direction * self.steps) ** 2 @ np.full(len(direction), 1 / 12))
        noise = quadratic_variance(self.variance, direction) / self.people**2
        return mean, float(np.sqrt(noise + (4 * max(mean, 0.0) * rounding) / self.people + rounding**2))

    def mean(self, direction: Array) -> tuple[float, float]:
        """Return the mean of d·z over people and its standard error from noise and rounding."""
        mean = float(self.matrix[0] @ direction) / self.people
        rounding = float((direction * self.steps) ** 2 @ np.full(len(direction), 1 / 12))
        noise = float(direction**2 @ self.variance[0])
        return mean, float(np.sqrt(noise / self.people**2 + rounding / self.people))


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Noisy counts of people by bin of their score and by label.

    Parameters
    ----------
    counts
        One row per bin, one column per label.
    scores
        The score at the middle of each bin.
    step
        The distance between bins.
    variance
        The variance of the noise in each count.
    dithered
        How many parties rounded, each up or down by a public coin: the rounding error of a score has the variance of that many
        triangular laws, a sixth of a squared step each.
    """

    counts: Array
    scores: Array
    step: float
    variance: float
    dithered: int

    def smoothed(self, values: Array) -> Array:
        """Return values by bin after rounding once more, as the parties did."""
        for _ in range(self.dithered):
            padded = np.concatenate([values[:1], values, values[-1:]])
            values = (padded[:-2] + 10 * padded[1:-1] + padded[2:]) / 12
        return values


CALIBRATION_BINS = 10


def binary_metrics(histogram: ScoreCounts, classes: Sequence[str], level: float) -> EvaluationResult:
    """Return accuracy, AUC and Brier score, and tables of confusion and calibration."""
    above = share_above(histogram, 0.0)
    right = np.column_stack([1 - above, above])
    chances = 1 / (1 + np.exp(-histogram.scores))
    squares = np.column_stack([chances**2, (1 - chances) ** 2])
    metrics = (
        _share(histogram, right, "accuracy", level),
        ranking_metric(histogram, 1, level, "auc"),
        _share(histogram, squares, "brier", level),
    )
    tables = {"confusion": _confusion(histogram, above, classes, level), "calibration": _calibration(histogram, level)}
    return EvaluationResult(metrics, tables)


def ranking_metric(histogram: ScoreCounts, label: int, level: float, name: str) -> Metric:
    """Return how often somebody with the label scores above somebody with another one; ties count half."""
    inside = histogram.counts[:, label]
    outside = histogram.counts.sum(axis=1) - inside
    value, pull = _rank(inside, outside)
    again, _ = _rank(histogram.smoothed(inside), histogram.smoothed(outside))
    weights = np.repeat(pull[:, 1:], histogram.counts.shape[1], axis=1)
    weights[:, label] = pull[:, 0]
    noise = histogram.variance * float(np.sum(_sharpened(histogram, weights) ** 2))
    error = interval_reach(level) * math.sqrt(noise + coins(histogram, weights)) + abs(value - again)
    return bounded_metric(name, 2 * value - again, error, floor=0.0, ceiling=1.0)


def _accuracy_within(
    histograms: Sequence[ScoreCounts], pairs: Sequence[tuple[int, int]], classes: int, level: float
) -> Metric:
    """Return the accuracy between what all comparisons of a class leave open; every error rate at its own share of the level."""
    share = 1 - (1 - level) / (2 * len(pairs))
    people = np.zeros(classes)
    rates: list[list[tuple[float, float]]] = [[] for _ in range(classes)]
    for histogram, (first, second) in zip(histograms, pairs, strict=True):
        above = share_above(histogram, 0.0)
        for column, own, lost in ((0, first, above), (1, second, 1 - above)):
            weights, whole = np.zeros_like(histogram.counts), np.zeros_like(histogram.counts)
            weights[:, column], whole[:, column] = lost, 1.0
            rates[own].append(quotient(histogram, weights, whole, share))
            people[own] += max(float(histogram.counts[:, column].sum()), 0.0) / (classes - 1)
    shares = people / max(float(people.sum()), 1.0)
    losses = [(sum(min(r + e, 1.0) for r, e in one), max(max(r - e, 0.0) for r, e in one)) for one in rates]
    low = float(shares @ [max(1 - most, 0.0) for most, _ in losses])
    high = float(shares @ [1 - least for _, least in losses])
    plain = [(min(sum(r for r, _ in one), 1.0), max(r for r, _ in one)) for one in rates]
    middle = float(shares @ [1 - (most + least) / 2 for most, least in plain])
    return Metric("accuracy", min(max(middle, low), high), low, high, "between what pairs of classes leave open")


def _rank(inside: Array, outside: Array) -> tuple[float, Array]:
    """Return the probability that inside ranks above outside, and how it moves with every count of either."""
    first, second = max(float(inside.sum()), 1.0), max(float(outside.sum()), 1.0)
    below = np.cumsum(outside) - outside / 2
    over = first - np.cumsum(inside) + inside / 2
    value = float(inside @ below) / (first * second)
    return value, np.column_stack([(below / second - value) / first, (over / first - value) / second])


def _share(histogram: ScoreCounts, weights: Array, name: str, level: float) -> Metric:
    """Return Σ weights·counts / Σ counts."""
    value, error = quotient(histogram, weights, np.ones_like(weights), level)
    return bounded_metric(name, value, error, floor=0.0, ceiling=1.0)


def quotient(histogram: ScoreCounts, above: Array, below: Array, level: float) -> tuple[float, float]:
    """Return a quotient of two weighted sums of counts, extrapolated to no rounding, and the reach of its interval."""
    counts = histogram.counts
    sharp = [_sharpened(histogram, weights) for weights in (above, below)]
    total = float(np.sum(sharp[1] * counts))
    if total <= 2 * math.sqrt(histogram.variance * float(np.sum(sharp[1] ** 2))):
        return 0.5, math.inf  # the noise hides how many people there are
    value = float(np.sum(sharp[0] * counts)) / total
    plain = float(np.sum(above * counts)) / max(float(np.sum(below * counts)), 1.0)
    pull = (above - value * below) / total
    noise = histogram.variance * float(np.sum(_sharpened(histogram, pull) ** 2))
    half_a_person = float(np.max(np.abs(pull))) / 2  # few coins are not Gaussian: a continuity correction
    return value, interval_reach(level) * math.sqrt(noise + coins(histogram, pull)) + abs(plain - value) + half_a_person


def _sharpened(histogram: ScoreCounts, weights: Array) -> Array:
    """Return the weights that give twice a sum minus the sum after rounding once more."""
    return np.column_stack([2 * column - histogram.smoothed(column) for column in weights.T])


def coins(histogram: ScoreCounts, weights: Array) -> float:
    """Return the variance that the coins of rounding give a weighted sum of counts."""
    spread = np.column_stack([histogram.smoothed(column**2) - histogram.smoothed(column) ** 2 for column in weights.T])
    return max(float(np.sum(np.maximum(spread, 0.0) * np.maximum(histogram.counts, 0.0))), 0.0)


def share_above(histogram: ScoreCounts, threshold: float) -> Array:
    """Return which share of each bin, as wide as the step around its score, lies above a threshold."""
    return np.clip((histogram.scores - threshold) / histogram.step + 0.5, 0.0, 1.0)


def _confusion(histogram: ScoreCounts, above: Array, classes: Sequence[str], level: float) -> pd.DataFrame:
    rows = []
    for truth in (0, 1):
        for guess, share in ((0, 1 - above), (1, above)):
            weights = np.zeros_like(histogram.counts)
            weights[:, truth] = share
            sharp = _sharpened(histogram, weights)
            value, plain = float(np.sum(sharp * histogram.counts)), float(np.sum(weights * histogram.counts))
            noise = histogram.variance * float(np.sum(sharp**2)) + coins(histogram, weights)
            error = interval_reach(level) * math.sqrt(noise) + abs(value - plain)
            metric = bounded_metric("count", value, error, floor=0.0, ceiling=math.inf)
            rows.append((classes[truth], classes[guess], metric.value, metric.low, metric.high))
    return pd.DataFrame(rows, columns=["true", "predicted", "count", "low", "high"]).set_index(["true", "predicted"])


def _calibration(histogram: ScoreCounts, level: float) -> pd.DataFrame:
    """Return, for each tenth of predicted probability, the predicted and the observed share of the second class."""
    edges = np.linspace(0, 1, CALIBRATION_BINS + 1)
    cuts = [-math.inf, *(math.log(edge / (1 - edge)) for edge in edges[1:-1]), math.inf]
    chances = 1 / (1 + np.exp(-histogram.scores))
    rows = []
    for low, high in pairwise(cuts):
        inside = (share_above(histogram, low) if low > -math.inf else 1.0) - share_above(histogram, high)
        both = np.column_stack([inside, inside])
        people = bounded_metric(
            "people",
            float(np.sum(both * histogram.counts)),
            interval_reach(level) * math.sqrt(histogram.variance * float(np.sum(both**2)) + coins(histogram, both)),
            floor=0.0,
            ceiling=math.inf,
        )
        observed, error = quotient(histogram, both * np.array([0.0, 1.0]), both, level)
        rate = bounded_metric("observed", observed, error, floor=0.0, ceiling=1.0)
        expected = float(np.sum(inside * chances * histogram.counts.sum(axis=1)))
        predicted = expected / people.value if people.value > 0 else math.nan
        rows.append((people.value, predicted, rate.value, rate.low, rate.high))
    shown = np.arange(CALIBRATION_BINS + 1) / CALIBRATION_BINS  # 0.3, and not 0.30000000000000004 as among the edges
    index = pd.IntervalIndex.from_breaks(shown, closed="left", name="probability")
    return pd.DataFrame(rows, columns=["people", "predicted", "observed", "low", "high"], index=index)


def metrics_of_classes(histograms: Sequence[ScoreCounts], classes: Sequence[str], level: float) -> EvaluationResult:
    """Return what the histograms of every pair of classes tell: the accuracy, between bounds, and an AUC for each pair.

    The likeliest class wins against each other one. Each of these comparisons is a score by itself, and its histogram is exact up
    to noise; that all of them hold at once is not in the histograms. The accuracy is the middle of what they leave open, and the
    interval runs from end to end: a person of class k is right at least where no single comparison fails, 1 − Σ_l P(s_l ≥ s_k),
    and at most where the hardest one holds, 1 − max_l P(s_l ≥ s_k).
    """
    pairs = list(combinations(range(len(classes)), 2))
    ranks = [
        ranking_metric(one, 1, level, f"auc_{classes[k]}_{classes[m]}")
        for one, (k, m) in zip(histograms, pairs, strict=True)
    ]
    return EvaluationResult((_accuracy_within(histograms, pairs, len(classes), level), *ranks))


def scorecard_metrics(
    histogram: ScoreCounts, classes: Sequence[str], span: tuple[float, float], level: float
) -> EvaluationResult:
    """Return the metrics of a classifier, and what every cut-off would approve, and how many people are in which band."""
    found, gains = binary_metrics(histogram, classes, level), _gains(histogram, level)
    farthest = int(gains["ks"].argmax())
    apart, error = float(gains["ks"].iloc[farthest]), float(gains["ks_error"].iloc[farthest])
    ks = bounded_metric("ks", apart, error, floor=0.0, ceiling=1.0)
    tables = {**found.tables, "gains": gains.drop(columns="ks_error"), "bands": _bands(histogram, *span)}
    return EvaluationResult((*found.metrics, ks), tables)


def regression_metrics(moments: ScoreMoments, offset: float, level: float) -> EvaluationResult:
    """Return mean squared error, its root, R² and the mean error, from the moments of parts of predictions and of the target.

    R² is 1 − error/variance; its interval takes the worst of both, each at half the error rate.

    Parameters
    ----------
    moments
        Of two columns for each party: its part of the prediction, and of the target.
    offset
        What a residual is, besides these parts.
    level
        The level of the intervals.
    """
    residual, target = np.zeros((2, len(moments.matrix)))
    residual[0], residual[1::2], residual[2::2], target[2::2] = offset, -1.0, 1.0, 1.0
    (error, error_doubt), (mean, mean_doubt) = moments.mean_square(residual), moments.mean(residual)
    spread, spread_doubt = _variance(moments, target)
    far, further = interval_reach(level), interval_reach(level, among=2)
    squared = bounded_metric("mse", error, far * error_doubt, floor=0.0, ceiling=math.inf)
    worst = max(error + further * error_doubt, 0.0), spread - further * spread_doubt
    best = max(error - further * error_doubt, 0.0), spread + further * spread_doubt
    low = 1 - worst[0] / worst[1] if worst[1] > 0 else -math.inf
    high = 1 - best[0] / best[1] if best[1] > 0 else 1.0
    ratio = 1 - squared.value / spread if spread > 0 else low
    return EvaluationResult(
        (
            squared,
            Metric("rmse", math.sqrt(squared.value), math.sqrt(squared.low), math.sqrt(squared.high)),
            Metric("r2", min(max(ratio, low), high), low, high),
            Metric("mean_error", mean, mean - far * mean_doubt, mean + far * mean_doubt),
        )
    )


def _variance(moments: ScoreMoments, direction: Array) -> tuple[float, float]:
    """Return the variance of a score over people and its standard error, to first order in the noise of the mean."""
    square, doubt = moments.mean_square(direction)
    mean, mean_doubt = moments.mean(direction)
    return square - mean**2 + mean_doubt**2, math.hypot(doubt, 2 * abs(mean) * mean_doubt, mean_doubt**2)


def component_metrics(moments: Moments, components: Array, means: Array, level: float) -> EvaluationResult:
    """Return each component's variance, the share of all variance that they explain, and the error of reconstruction.

    Components have length 1, so the noise of a variance is that of one entry of the columns' own Gram matrix, whose row bound
    counts a category once; parts of scores would have to be bounded one by one, and cost more.
    """
    far, size = interval_reach(level), len(moments.features)
    scores = [np.concatenate([[-float(component @ means)], component]) for component in components]
    variances = [_spread(moments, score[1:]) for score in scores]
    whole, average = np.eye(size), moments.matrix[0, 1:] / moments.count
    whole[0, 0], whole[0, 1:], whole[1:, 0] = means @ means, -means, -means
    left, left_doubt = _form(moments, whole - np.sum([np.outer(score, score) for score in scores], axis=0))
    total = np.trace(moments.matrix[1:, 1:]) / moments.count - float(average @ average)
    total += float(np.sum(moments.variance[0, 1:])) / moments.count**2
    explained = sum(value for value, _ in variances)
    _, ratio_doubt = _form(moments, _ratio_gradient(components, average, explained, total))
    ratio = explained / total if total > 0 else 1.0
    return EvaluationResult(
        (
            *(
                bounded_metric(f"explained_variance_{place + 1}", value, far * doubt, floor=0.0, ceiling=math.inf)
                for place, (value, doubt) in enumerate(variances)
            ),
            bounded_metric("explained_variance_ratio", ratio, far * ratio_doubt, floor=0.0, ceiling=1.0),
            bounded_metric("reconstruction_error", left, far * left_doubt, floor=0.0, ceiling=math.inf),
        )
    )


def _ratio_gradient(components: Array, average: Array, explained: float, total: float) -> Array:
    """Return how the ratio moves with the matrix (over people), to first order: that of a quotient."""
    inside = components.T @ components
    change = (inside - np.eye(len(inside)) * (explained / total)) / total if total > 0 else np.zeros_like(inside)
    gradient = np.zeros((len(inside) + 1,) * 2)
    gradient[1:, 1:] = change
    gradient[0, 1:] = gradient[1:, 0] = -change @ average
    return gradient


def _form(moments: Moments, form: Array) -> tuple[float, float]:
    """Return the mean over people of a symmetric quadratic form, and its standard error from the noise."""
    value = float(np.sum(form * moments.matrix)) / moments.count
    upper = np.triu_indices(len(form))
    weights = np.where(upper[0] == upper[1], 1.0, 2.0) * form[upper]
    return value, math.sqrt(float(weights**2 @ moments.variance[upper])) / moments.count


def _spread(moments: Moments, direction: Array) -> tuple[float, float]:
    """Return the variance over people along a direction of the coded columns, and its standard error."""
    mean = float(moments.matrix[0, 1:] @ direction) / moments.count
    doubt = float(moments.variance[0, 1:] @ direction**2) / moments.count**2
    form = np.zeros((len(direction) + 1,) * 2)
    form[1:, 1:] = np.outer(direction, direction)
    square, _ = _form(moments, form)
    form[0, 1:] = form[1:, 0] = -mean * direction
    return square - mean**2 + doubt, math.hypot(_form(moments, form)[1], doubt)


CUT_OFFS, BANDS = 19, 10
"""How many cut-offs a table of gains has, and how many bands the scores of a population are counted in."""


def _gains(histogram: ScoreCounts, level: float) -> pd.DataFrame:
    """Return, for cut-offs in log-odds of the event: who is approved (below it), and events among approved and refused."""
    everybody = np.ones_like(histogram.counts)
    event, other = everybody * np.array([0.0, 1.0]), everybody * np.array([1.0, 0.0])
    rows, cuts = [], np.linspace(histogram.scores[0], histogram.scores[-1], CUT_OFFS + 2)[1:-1]
    for cut in cuts:
        above = np.repeat(share_above(histogram, cut)[:, None], 2, axis=1)
        row: list[float] = []
        for parts, whole in (
            (1 - above, everybody),
            ((1 - above) * event, 1 - above),
            (above * event, above),
        ):
            value, error = quotient(histogram, parts, whole, level)
            metric = bounded_metric("share", value, error, floor=0.0, ceiling=1.0)
            row += [metric.value, metric.low, metric.high]
        caught, caught_error = quotient(histogram, above * event, event, level)
        lost, lost_error = quotient(histogram, above * other, other, level)
        rows.append([*row, caught - lost, math.hypot(caught_error, lost_error)])
    shares = [
        f"{name}{end}"
        for name in ("approved", "approved_bad_rate", "refused_bad_rate")
        for end in ("", "_low", "_high")
    ]
    return pd.DataFrame(rows, columns=[*shares, "ks", "ks_error"], index=pd.Index(cuts, name="cut_off"))


def _bands(histogram: ScoreCounts, lowest: float, highest: float) -> pd.DataFrame:
    """Return people by band of the log-odds, and the standard error of that count.

    Bands divide what the card can say, and not the histogram, whose steps depend on the number of people: two populations are
    counted in the same bands. Rounding may put somebody a little outside, who belongs to the outermost band.
    """
    edges = np.linspace(lowest, highest, BANDS + 1)
    rows = []
    for low, high in pairwise([-math.inf, *edges[1:-1], math.inf]):
        inside = np.repeat((share_above(histogram, low) - share_above(histogram, high))[:, None], 2, axis=1)
        spread = histogram.variance * float(np.sum(inside**2)) + coins(histogram, inside)
        rows.append((float(np.sum(inside * histogram.counts)), math.sqrt(spread)))
    index = pd.IntervalIndex.from_breaks(edges, closed="left", name="log_odds")
    return pd.DataFrame(rows, columns=["people", "stderr"], index=index)
