"""Private evaluations of fitted models: classifiers by histograms of scores, regressions and components by moments."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.coordinator.protocols.score_releases import (
    ScoreCounts,
    ScoreGram,
    ScoreHistogramRelease,
    ScoreMoments,
    bins_for,
)
from colonnade.estimation.moments import Moments
from colonnade.estimation.scoring import (
    EvaluationResult,
    Metric,
    bounded_metric,
    histogram_price,
    interval_reach,
    party_scores,
)
from colonnade.estimation.table_model import GramTables, TableModel, differences, held_out_distance
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Rounds
from colonnade.schema import Column

Array = NDArray[np.float64]
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class ClassifierEvaluation:
    """Accuracy, confusion, calibration and AUC of a binary classifier; with more classes, what every pair of classes tells.

    Every metric is computed twice, on the histogram and on the histogram rounded once more, and extrapolated to no rounding
    (a simulation–extrapolation of one step, in closed form). The interval allows for what the extrapolation moves, besides
    the noise and the coins of rounding. Shares are quotients of two sums of counts: a person without a label is in neither.

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
        The names of the labels.
    price
        The price of the evaluation; histograms divide it.
    level
        The level of the intervals.
    """

    histograms: tuple[ScoreHistogramRelease, ...]
    classes: tuple[str, ...]
    price: Price
    level: float

    @classmethod
    def of_scores(
        cls,
        columns: Mapping[str, Column],
        weights: Array,
        intercepts: Array,
        *,
        target: str,
        classes: tuple[str, ...],
        price: Price,
        level: float,
        repeat: int,
        people: int,
    ) -> Self:
        """Return the evaluation of scores of coded columns: one row of weights per class, or one of log-odds for two."""
        if len(weights) == 1:
            weights, intercepts = np.vstack([0 * weights, weights]), np.append(0.0, intercepts)
        pairs = list(combinations(range(len(weights)), 2))
        share = histogram_price(price, len(pairs))
        histograms = tuple(
            ScoreHistogramRelease(
                f"{k}-{m}",
                party_scores(columns, (weights[m] - weights[k])[None]),
                float(intercepts[m] - intercepts[k]),
                target,
                (k, m),
                share,
                repeat,
                bins_for(people),
            )
            for k, m in pairs
        )
        return cls(histograms, classes, Price(price.nano, price.delta if share.delta else 0.0), level)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party and histogram."""
        interval_reach(self.level)  # refuses a level outside (0, 1)
        return tuple(step for histogram in self.histograms for step in histogram.steps())

    def rounds(self, plan: Plan) -> Rounds:
        """Open the histograms and compute the metrics."""
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
        return EvaluationResult((_accuracy_within(opened, pairs, len(self.classes), self.level), *ranks))


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


@dataclass(frozen=True)
class RegressionEvaluation:
    """Mean squared error and R² of a linear model, from the moments of parts of its predictions and of the target.

    Parameters
    ----------
    columns
        The features' columns and, last, the target's.
    weights, intercept
        The model, on coded columns, in the target's own units.
    price, level
        The price, and the level of the intervals.
    """

    columns: Mapping[str, Column]
    weights: Array
    intercept: float
    price: Price
    level: float

    @property
    def gram(self) -> ScoreGram:
        """Two scores: the prediction's parts, and the target, which one party holds whole."""
        target = self._target
        half = target.half_range
        wide = np.zeros((2, len(self.weights) + 1))
        wide[0, :-1], wide[1, -1] = self.weights, half
        return ScoreGram(party_scores(self.columns, wide), self.price)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party."""
        interval_reach(self.level)  # refuses a level outside (0, 1)
        return self.gram.steps()

    def rounds(self, plan: Plan) -> Rounds:
        """Open the moments and compute the metrics."""
        moments = yield from self.gram.rounds(plan)
        return EvaluationResult(self.metrics(moments))

    def metrics(self, moments: ScoreMoments) -> tuple[Metric, ...]:
        """Return mean squared error, its root, R² and the mean error.

        R² is 1 − error/variance; its interval takes the worst of both, each at half the error rate.
        """
        residual, target = self._directions(len(moments.matrix))
        (error, error_doubt), (mean, mean_doubt) = moments.mean_square(residual), moments.mean(residual)
        spread, spread_doubt = _variance(moments, target)
        far, further = interval_reach(self.level), interval_reach(self.level, among=2)
        squared = bounded_metric("mse", error, far * error_doubt, floor=0.0, ceiling=math.inf)
        worst = max(error + further * error_doubt, 0.0), spread - further * spread_doubt
        best = max(error - further * error_doubt, 0.0), spread + further * spread_doubt
        low = 1 - worst[0] / worst[1] if worst[1] > 0 else -math.inf
        high = 1 - best[0] / best[1] if best[1] > 0 else 1.0
        ratio = 1 - squared.value / spread if spread > 0 else low
        return (
            squared,
            Metric("rmse", math.sqrt(squared.value), math.sqrt(squared.low), math.sqrt(squared.high)),
            Metric("r2", min(max(ratio, low), high), low, high),
            Metric("mean_error", mean, mean - far * mean_doubt, mean + far * mean_doubt),
        )

    @property
    def _target(self) -> Column:
        target = list(self.columns.values())[-1]
        assert target.is_number  # the estimator was fitted on it
        return target

    def _directions(self, size: int) -> tuple[Array, Array]:
        """Return residual and target as combinations of the constant and two columns per party: prediction part, target part."""
        residual, target = np.zeros(size), np.zeros(size)
        residual[1::2], residual[2::2], target[2::2] = -1.0, 1.0, 1.0
        residual[0] = self._target.midpoint - self.intercept
        return residual, target


def _variance(moments: ScoreMoments, direction: Array) -> tuple[float, float]:
    """Return the variance of a score over people and its standard error, to first order in the noise of the mean."""
    square, doubt = moments.mean_square(direction)
    mean, mean_doubt = moments.mean(direction)
    return square - mean**2 + mean_doubt**2, math.hypot(doubt, 2 * abs(mean) * mean_doubt, mean_doubt**2)


@dataclass(frozen=True)
class ComponentsEvaluation:
    """Variance along each component and what the components leave over, as functions of one Gram release of the columns.

    Components have length 1, so the noise of a variance is that of one entry of the columns' own Gram matrix, whose row bound
    counts a category once; parts of scores would have to be bounded one by one, and cost more.

    Parameters
    ----------
    gram
        The release.
    components, means
        The model, in coded columns, each divided by its scale.
    scales
        What each coded column is divided by: 1 if the model is not standardised.
    level
        The level of the intervals.
    """

    gram: GramRelease
    components: Array
    means: Array
    scales: Array
    level: float

    @property
    def price(self) -> Price:
        """The price of the release."""
        return self.gram.price

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party."""
        interval_reach(self.level)  # refuses a level outside (0, 1)
        return self.gram.steps()

    def rounds(self, plan: Plan) -> Rounds:
        """Open the moments and compute the metrics."""
        moments = yield from self.gram.rounds(plan)
        return EvaluationResult(self.metrics(moments.divided(self.scales)))

    def metrics(self, moments: Moments) -> tuple[Metric, ...]:
        """Return each component's variance, the share of all variance that they explain, and the error of reconstruction."""
        far, size = interval_reach(self.level), len(moments.features)
        forms = [np.outer(self._score(place), self._score(place)) for place in range(len(self.components))]
        variances = [_spread(moments, self._score(place)[1:]) for place in range(len(self.components))]
        whole, average = np.eye(size), moments.matrix[0, 1:] / moments.count
        whole[0, 0], whole[0, 1:], whole[1:, 0] = self.means @ self.means, -self.means, -self.means
        left, left_doubt = _form(moments, whole - np.sum(forms, axis=0))
        total = np.trace(moments.matrix[1:, 1:]) / moments.count - float(average @ average)
        total += float(np.sum(moments.variance[0, 1:])) / moments.count**2
        explained = sum(value for value, _ in variances)
        gradient = self._ratio_gradient(average, explained, total)
        _, ratio_doubt = _form(moments, gradient)
        ratio = explained / total if total > 0 else 1.0
        return (
            *(
                bounded_metric(f"explained_variance_{place + 1}", value, far * doubt, floor=0.0, ceiling=math.inf)
                for place, (value, doubt) in enumerate(variances)
            ),
            bounded_metric("explained_variance_ratio", ratio, far * ratio_doubt, floor=0.0, ceiling=1.0),
            bounded_metric("reconstruction_error", left, far * left_doubt, floor=0.0, ceiling=math.inf),
        )

    def _score(self, place: int) -> Array:
        """A component's score as a combination of the constant and the coded columns."""
        component = self.components[place]
        return np.concatenate([[-float(component @ self.means)], component])

    def _ratio_gradient(self, average: Array, explained: float, total: float) -> Array:
        """Return how the ratio moves with the matrix (over people), to first order: that of a quotient."""
        inside = self.components.T @ self.components
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


@dataclass(frozen=True)
class ScorecardEvaluation(ClassifierEvaluation):
    """The evaluation of a scorecard: also what every cut-off would approve, and how many people are in which band of scores."""

    def rounds(self, plan: Plan) -> Rounds:
        """Open the histogram and compute metrics and tables."""
        opened = yield from self.histograms[0].rounds(plan)
        found = binary_metrics(opened, self.classes, self.level)
        gains = _gains(opened, self.level)
        farthest = int(gains["ks"].argmax())
        apart, error = float(gains["ks"].iloc[farthest]), float(gains["ks_error"].iloc[farthest])
        ks = bounded_metric("ks", apart, error, floor=0.0, ceiling=1.0)
        tables = {
            **found.tables,
            "gains": gains.drop(columns="ks_error"),
            "bands": _bands(opened, *self.histograms[0].span),
        }
        return EvaluationResult((*found.metrics, ks), tables)


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


@dataclass(frozen=True)
class TableEvaluation:
    """Column shapes and pair trends of a model, each with an interval that covers them for the people measured.

    Parameters
    ----------
    release
        The release of all pair tables, at the price of the evaluation.
    model
        The model.
    level
        The level of the intervals.
    """

    release: GramRelease
    model: TableModel
    level: float

    @property
    def price(self) -> Price:
        """What is spent."""
        return self.release.price

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its part in the matrix of all pair tables."""
        return self.release.steps()

    def rounds(self, plan: Plan) -> Rounds:
        """Open the tables and compare them with the model's."""
        moments = yield from self.release.rounds(plan)
        single, double = differences(self.model, GramTables(moments))
        reach = interval_reach(self.level, among=2)  # the score's interval needs both of them
        shapes, by_column = held_out_distance(single, reach, "column_shapes")
        trends, by_pair = held_out_distance(double, reach, "pair_trends")
        middle, low, high = ((getattr(shapes, one) + getattr(trends, one)) / 2 for one in ("value", "low", "high"))
        score = Metric("score", middle, low, high)
        pairs = pd.MultiIndex.from_tuples(list(by_pair), names=["column", "other"])
        tables = {
            "column shapes": pd.DataFrame({"column shape": {name: 1 - apart for name, apart in by_column.items()}}),
            "pair trends": pd.DataFrame({"pair trend": [1 - apart for apart in by_pair.values()]}, index=pairs),
        }
        return EvaluationResult((score, shapes, trends), tables)
