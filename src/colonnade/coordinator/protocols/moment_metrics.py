"""How good a linear model or components are, as functions of one Gram release of their scores (`score_gram`)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.gram_release import GramRelease
from colonnade.coordinator.protocols.score_gram import ScoreGram, ScoreMoments
from colonnade.estimation.additive_scores import party_scores
from colonnade.estimation.metrics import Measured, Metric, between, reach
from colonnade.estimation.moments import Moments
from colonnade.plan import Plan, Step
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Rounds
from colonnade.schema import Column, Numeric

__all__ = ["ComponentsEvaluation", "RegressionEvaluation"]

Array = NDArray[np.float64]


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
        What is offered, and of the intervals.
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
        """Return one step a party."""
        reach(self.level)
        return self.gram.steps()

    def rounds(self, plan: Plan) -> Rounds:
        """Open the moments and work the figures out."""
        moments = yield from self.gram.rounds(plan)
        return Measured(self.metrics(moments))

    def metrics(self, moments: ScoreMoments) -> tuple[Metric, ...]:
        """Return mean squared error, its root, R² and the mean error.

        R² is 1 − error/variance; its interval takes the worst of both, each at half the error rate.
        """
        residual, target = self._directions(len(moments.matrix))
        (error, error_doubt), (mean, mean_doubt) = moments.mean_square(residual), moments.mean(residual)
        spread, spread_doubt = _variance(moments, target)
        far, further = reach(self.level), reach(self.level, among=2)
        squared = between("mse", error, far * error_doubt, floor=0.0, ceiling=math.inf)
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
    def _target(self) -> Numeric:
        target = list(self.columns.values())[-1]
        assert isinstance(target, Numeric)  # the estimator was fitted on it
        return target

    def _directions(self, size: int) -> tuple[Array, Array]:
        """Return residual and target as combinations of the constant and two columns a party: prediction part, target part."""
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
        The model, in coded columns.
    level
        Of the intervals.
    """

    gram: GramRelease
    components: Array
    means: Array
    level: float

    @property
    def price(self) -> Price:
        """What the release offers to pay."""
        return self.gram.price

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party."""
        reach(self.level)
        return self.gram.steps()

    def rounds(self, plan: Plan) -> Rounds:
        """Open the moments and work the figures out."""
        moments = yield from self.gram.rounds(plan)
        return Measured(self.metrics(moments))

    def metrics(self, moments: Moments) -> tuple[Metric, ...]:
        """Return each component's variance, the share of all variance that they explain, and the error of reconstruction."""
        far, size = reach(self.level), len(moments.features)
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
                between(f"explained_variance_{place + 1}", value, far * doubt, floor=0.0, ceiling=math.inf)
                for place, (value, doubt) in enumerate(variances)
            ),
            between("explained_variance_ratio", ratio, far * ratio_doubt, floor=0.0, ceiling=1.0),
            between("reconstruction_error", left, far * left_doubt, floor=0.0, ceiling=math.inf),
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
