"""How good a classifier is, from a noisy histogram of its scores by label.

Every figure is computed twice, on the histogram and on the histogram rounded once more, and extrapolated to no rounding (a
simulation–extrapolation of one step, in closed form); what the extrapolation moves is allowed for in the interval, besides the
noise and the coins of rounding. Shares are quotients of two sums of counts: a person without a label is in neither.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coordinator.protocols.score_histogram import Histogram, ScoreHistogramRelease
from colonnade.estimation.metrics import Measured, Metric, between, reach
from colonnade.plan import Plan, Step
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Rounds

__all__ = ["ClassifierEvaluation", "binary_metrics", "ranking_metric"]

Array = NDArray[np.float64]
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class ClassifierEvaluation:
    """Accuracy, confusion, calibration and AUC of a binary classifier; with more classes, what every pair of them tells.

    With more than two classes the likeliest one wins against each other one. Each of these comparisons is a score by itself, and
    its histogram is exact up to noise; that all of them hold at once is not in the histograms. The accuracy is the middle of
    what they leave open, and the interval runs from end to end: a person of class k is right at least where no single
    comparison fails, 1 − Σ_l P(s_l ≥ s_k), and at most where the hardest one holds, 1 − max_l P(s_l ≥ s_k).

    Parameters
    ----------
    histograms
        One for the log-odds of the second class, or one for every pair of classes (k, l), k < l: of s_l − s_k, among people of
        these two.
    classes
        What the labels are called.
    price
        What all of it is worth; histograms divide it.
    level
        Of the intervals.
    """

    histograms: tuple[ScoreHistogramRelease, ...]
    classes: tuple[str, ...]
    price: Price
    level: float

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party and histogram."""
        reach(self.level)
        return tuple(step for histogram in self.histograms for step in histogram.steps())

    def rounds(self, plan: Plan) -> Rounds:
        """Open the histograms and work the figures out."""
        opened = []
        for histogram in self.histograms:
            opened.append((yield from histogram.rounds(plan)))  # noqa: PERF401  # a generator cannot be a comprehension
        if len(self.classes) == 2:
            return binary_metrics(opened[0], self.classes, self.level)
        pairs = list(combinations(range(len(self.classes)), 2))
        ranks = [
            ranking_metric(one, 1, self.level, f"auc_{self.classes[k]}_{self.classes[m]}")
            for one, (k, m) in zip(opened, pairs, strict=True)
        ]
        return Measured((_accuracy_within(opened, pairs, len(self.classes), self.level), *ranks))


def binary_metrics(histogram: Histogram, classes: Sequence[str], level: float) -> Measured:
    """Return accuracy, AUC and Brier score, and tables of confusion and calibration."""
    above = _share_above(histogram, 0.0)
    right = np.column_stack([1 - above, above])
    chances = 1 / (1 + np.exp(-histogram.scores))
    squares = np.column_stack([chances**2, (1 - chances) ** 2])
    metrics = (
        _share(histogram, right, "accuracy", level),
        ranking_metric(histogram, 1, level, "auc"),
        _share(histogram, squares, "brier", level),
    )
    tables = {"confusion": _confusion(histogram, above, classes, level), "calibration": _calibration(histogram, level)}
    return Measured(metrics, tables)


def ranking_metric(histogram: Histogram, label: int, level: float, name: str) -> Metric:
    """Return how often somebody with the label scores above somebody with another one; ties count half."""
    inside = histogram.counts[:, label]
    outside = histogram.counts.sum(axis=1) - inside
    value, pull = _rank(inside, outside)
    again, _ = _rank(histogram.smoothed(inside), histogram.smoothed(outside))
    weights = np.repeat(pull[:, 1:], histogram.counts.shape[1], axis=1)
    weights[:, label] = pull[:, 0]
    noise = histogram.variance * float(np.sum(_sharpened(histogram, weights) ** 2))
    error = reach(level) * math.sqrt(noise + _coins(histogram, weights)) + abs(value - again)
    return between(name, 2 * value - again, error, floor=0.0, ceiling=1.0)


def _accuracy_within(
    histograms: Sequence[Histogram], pairs: Sequence[tuple[int, int]], classes: int, level: float
) -> Metric:
    """Return the accuracy between what all comparisons of a class leave open; every error rate at its own share of the level."""
    share = 1 - (1 - level) / (2 * len(pairs))
    people = np.zeros(classes)
    rates: list[list[tuple[float, float]]] = [[] for _ in range(classes)]
    for histogram, (first, second) in zip(histograms, pairs, strict=True):
        above = _share_above(histogram, 0.0)
        for column, own, lost in ((0, first, above), (1, second, 1 - above)):
            weights, whole = np.zeros_like(histogram.counts), np.zeros_like(histogram.counts)
            weights[:, column], whole[:, column] = lost, 1.0
            rates[own].append(_quotient(histogram, weights, whole, share))
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


def _share(histogram: Histogram, weights: Array, name: str, level: float) -> Metric:
    """Return Σ weights·counts / Σ counts."""
    value, error = _quotient(histogram, weights, np.ones_like(weights), level)
    return between(name, value, error, floor=0.0, ceiling=1.0)


def _quotient(histogram: Histogram, above: Array, below: Array, level: float) -> tuple[float, float]:
    """Return a quotient of two weighted sums of counts, extrapolated to no rounding, and the reach of its interval."""
    counts = histogram.counts
    sharp = [_sharpened(histogram, weights) for weights in (above, below)]
    total = float(np.sum(sharp[1] * counts))
    if total <= 2 * math.sqrt(histogram.variance * float(np.sum(sharp[1] ** 2))):
        return 0.5, math.inf  # nobody to speak of: the noise hides how many there are
    value = float(np.sum(sharp[0] * counts)) / total
    plain = float(np.sum(above * counts)) / max(float(np.sum(below * counts)), 1.0)
    pull = (above - value * below) / total
    noise = histogram.variance * float(np.sum(_sharpened(histogram, pull) ** 2))
    half_a_person = float(np.max(np.abs(pull))) / 2  # few coins are not Gaussian: a continuity correction
    return value, reach(level) * math.sqrt(noise + _coins(histogram, pull)) + abs(plain - value) + half_a_person


def _sharpened(histogram: Histogram, weights: Array) -> Array:
    """Return the weights that give twice a sum minus the sum after rounding once more."""
    return np.column_stack([2 * column - histogram.smoothed(column) for column in weights.T])


def _coins(histogram: Histogram, weights: Array) -> float:
    """Return the variance that the coins of rounding give a weighted sum of counts."""
    spread = np.column_stack([histogram.smoothed(column**2) - histogram.smoothed(column) ** 2 for column in weights.T])
    return max(float(np.sum(np.maximum(spread, 0.0) * np.maximum(histogram.counts, 0.0))), 0.0)


def _share_above(histogram: Histogram, threshold: float) -> Array:
    """Return which share of each bin, as wide as the step around its score, lies above a threshold."""
    return np.clip((histogram.scores - threshold) / histogram.step + 0.5, 0.0, 1.0)


def _confusion(histogram: Histogram, above: Array, classes: Sequence[str], level: float) -> pd.DataFrame:
    rows = []
    for truth in (0, 1):
        for guess, share in ((0, 1 - above), (1, above)):
            weights = np.zeros_like(histogram.counts)
            weights[:, truth] = share
            sharp = _sharpened(histogram, weights)
            value, plain = float(np.sum(sharp * histogram.counts)), float(np.sum(weights * histogram.counts))
            noise = histogram.variance * float(np.sum(sharp**2)) + _coins(histogram, weights)
            error = reach(level) * math.sqrt(noise) + abs(value - plain)
            metric = between("count", value, error, floor=0.0, ceiling=math.inf)
            rows.append((classes[truth], classes[guess], metric.value, metric.low, metric.high))
    return pd.DataFrame(rows, columns=["true", "predicted", "count", "low", "high"]).set_index(["true", "predicted"])


def _calibration(histogram: Histogram, level: float) -> pd.DataFrame:
    """Return, for each tenth of predicted probability, the predicted and the observed share of the second class."""
    edges = np.linspace(0, 1, CALIBRATION_BINS + 1)
    cuts = [-math.inf, *(math.log(edge / (1 - edge)) for edge in edges[1:-1]), math.inf]
    chances = 1 / (1 + np.exp(-histogram.scores))
    rows = []
    for low, high in pairwise(cuts):
        inside = (_share_above(histogram, low) if low > -math.inf else 1.0) - _share_above(histogram, high)
        both = np.column_stack([inside, inside])
        people = between(
            "people",
            float(np.sum(both * histogram.counts)),
            reach(level) * math.sqrt(histogram.variance * float(np.sum(both**2)) + _coins(histogram, both)),
            floor=0.0,
            ceiling=math.inf,
        )
        observed, error = _quotient(histogram, both * np.array([0.0, 1.0]), both, level)
        rate = between("observed", observed, error, floor=0.0, ceiling=1.0)
        expected = float(np.sum(inside * chances * histogram.counts.sum(axis=1)))
        predicted = expected / people.value if people.value > 0 else math.nan
        rows.append((people.value, predicted, rate.value, rate.low, rate.high))
    index = pd.IntervalIndex.from_breaks(edges, closed="left", name="probability")
    return pd.DataFrame(rows, columns=["people", "predicted", "observed", "low", "high"], index=index)
