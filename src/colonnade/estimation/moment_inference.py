"""Inference on regressions from one release of second moments: the law of its noise in the normal equations.

With A the noisy matrix of sums of products, the least-squares coefficients β of a target solve A·β = b. At the true β the
equations miss by E·θ, with E the noise matrix and θ the target minus the columns times β. So the noise law of a release gives
`inference.infer` all it needs. Columns are those after scaling to [−1, 1]; results are in the columns' own units.

For independent entries with variance σ² on the diagonal and σ²/2 off it, the first-order covariance that follows is
A⁻¹·(σ²/2)[(1 + ‖β‖²)·I + ββᵀ]·A⁻¹ (docs/proofs/gram.md has the variances; between two parties they are larger by P/(P − c)).

Columns of levels add up to the constant one, which makes the equations more precise (`level_sums`).

What the estimates are: least squares on the people's clipped values, without penalty, whatever a model that predicts shrinks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import (
    Coding,
    coefficients_to_own_units,
    contrasts_of_levels,
    free_coefficients,
    written_levels,
)
from colonnade.estimation.inference import (
    Equations,
    Inference,
    infer_with_responses,
    quadratic_variances,
    second_moment_covariance,
)
from colonnade.estimation.level_sums import level_sums
from colonnade.estimation.moments import Moments, product_covariance, quadratic_variance
from colonnade.estimation.regression import (
    NormalEquations,
    classes_and_targets,
    feature_places,
    numeric_place,
    second_share,
)

__all__ = ["MomentScore", "RegressionInference", "linear_inference", "logistic_inference"]

Array = NDArray[np.float64]
COUNTED = 30.0
"""How much more the constant's own sums count than the sums over levels: the number of people has no noise."""
SMALLEST = 1e-300
"""A sum of squares that is 0 is this, so that one can divide by it."""


@dataclass(frozen=True, eq=False)
class MomentScore:
    """The noise of second moments in the normal equations of one target: what `inference.ScoreNoise` asks for.

    Parameters
    ----------
    moments
        The release.
    design
        The free coefficients' columns, as combinations of the release's columns: one column per coefficient.
    target
        The target, as a combination of the release's columns.
    """

    moments: Moments
    design: Array
    target: Array

    @cached_property
    def tied(self) -> NDArray[np.bool_]:
        """Which columns are indicators whose square was taken from their sum: the two have one noise, not two."""
        matrix, variance = self.moments.matrix, self.moments.variance
        levels = np.array([feature.kind == "level" for feature in self.moments.features])
        return np.asarray(levels & (np.diag(matrix) == matrix[0]) & (np.diag(variance) == variance[0]))

    @cached_property
    def variance(self) -> Array:
        """The variance of independent entries: without the squares that are tied to their sums."""
        variance = np.array(self.moments.variance)
        variance[self.tied, self.tied] = 0.0
        return variance

    def covariance(self, mean: Array, spread: Array) -> Array:
        """Return E[Cov(E·θ)] over coefficients with this mean and covariance."""
        theta = self.residual(mean)
        second = np.outer(theta, theta) + self.design @ spread @ self.design.T
        covariance = second_moment_covariance(self.variance, second)
        places = np.flatnonzero(self.tied)
        noise, own = self.moments.variance[0, places], np.diag(second)[places]
        covariance[0, places] += noise * own
        covariance[places, 0] += noise * own
        covariance[places, places] += noise * (2 * second[0, places] + own)
        return np.asarray(self.design.T @ covariance @ self.design)

    def information_variance(self, directions: Array) -> Array:
        """Return the variance of the noise in ℓᵀAℓ, for each column ℓ."""
        whole = self.design @ directions
        tied, noise = whole[self.tied], self.moments.variance[0, self.tied]
        shared = noise @ (4 * whole[0] * tied**3 + tied**4)
        return np.asarray(np.maximum(quadratic_variances(self.variance, whole) + shared, 0.0))

    def residual(self, coefficients: Array) -> Array:
        """Return θ: the target minus the columns times their coefficients."""
        return np.asarray(self.target - self.design @ coefficients)

    def residual_variance(self, coefficients: Array) -> float:
        """Return the residual sum of squares per degree of freedom."""
        freedom = max(self.moments.count - len(coefficients), 1)
        return residual_sum(self.moments, self.residual(coefficients))[0] / freedom

    def equations(self, prior: Array) -> Equations:
        """Return the normal equations with a prior. Nothing is assumed about the intercept, which comes last."""
        products = self.design.T @ self.moments.matrix
        free = np.zeros(self.design.shape[1], dtype=bool)
        free[-1] = True
        return Equations(products @ self.design, products @ self.target, self, free, self.residual_variance, prior)


def residual_sum(moments: Moments, theta: Array) -> tuple[float, float]:
    """Return the sum of squares of a combination of columns, at least what the noise could hide, and its noise's variance."""
    variance = quadratic_variance(moments.variance, theta)
    return max(float(theta @ moments.matrix @ theta), math.sqrt(variance), SMALLEST), variance


@dataclass(frozen=True, eq=False)
class RegressionInference:
    """Inference on one regression: on its coefficients as a coding writes them, and on them as they were fitted.

    Parameters
    ----------
    written
        One row per name (every level of a category has one), then the intercept, in own units.
    errors
        Standard errors of the fitted coefficients, all levels, as estimates of what the same people give without noise. They
        count how far shrinking has moved a coefficient. Infinite where a coefficient is not determined.
    """

    written: Inference
    errors: Array


def linear_inference(
    moments: Moments, target: str, fitted: Array, *, columns: Sequence[str], coding: Coding
) -> RegressionInference:
    """Return inference on a linear model.

    Parameters
    ----------
    moments
        The release as it was opened, not as a method repaired it.
    target
        A numeric column of it.
    fitted
        The model's own coefficients, all levels, in own units.
    columns
        The features' columns.
    coding
        How levels are written. ``"full"`` has no unique coefficients and is written as ``"reference"``.
    """
    place = numeric_place(moments, target)
    feature = moments.features[place]
    solved = _least_squares(moments, np.eye(len(moments.features))[place], target, columns, coding)
    whole = solved.scaled(feature.half_width)
    whole.estimates[solved.size - 1] += feature.centre
    return _regression(solved, whole, fitted)


def logistic_inference(
    moments: Moments, target: str, fitted: Array, *, columns: Sequence[str], coding: Coding
) -> RegressionInference | None:
    """Return inference on the surrogate of a logistic model of two classes; None for more classes.

    The surrogate's coefficients are those of least squares on a target of −1 and 1, times 2n/RSS (`regression`): the slope that
    two Gaussian classes of one variance have. Its intercept is that of least squares times the same, plus
    ln(p/(1 − p)) + (1 − 2p)/(2p(1 − p)) for a share p of the second class. Noise in the residual sum of squares and in p counts.
    The intervals cover what the surrogate gives without noise, not the maximum-likelihood estimate.
    """
    classes, targets = classes_and_targets(moments, target)
    if len(classes) != 2:
        return None
    solved = _least_squares(moments, targets[0], target, columns, coding)
    theta = NormalEquations.of(moments, feature_places(moments, target, columns)).solve(targets[0]).residual_weights
    squares, _ = residual_sum(moments, theta)
    whole = solved.scaled(2 * moments.count / squares, residual=theta, squares=squares)
    share = second_share(moments, targets[0])
    product = share * (1 - share)
    steepness = 1 / product - (product + 2 * (0.5 - share) ** 2) / product**2
    whole.estimates[solved.size - 1] += math.log(share / (1 - share)) + (0.5 - share) / product
    doubt = float((targets[0] / 2) ** 2 @ moments.variance[0]) / moments.count**2
    whole.privacy[solved.size - 1, solved.size - 1] += steepness**2 * doubt
    return _regression(solved, whole, fitted)


@dataclass(frozen=True, eq=False)
class _LeastSquares:
    """Inference on coded least squares: coefficients as they are written, then those that the fitted ones estimate.

    Parameters
    ----------
    inference
        Of both, one after the other.
    responses
        How noise E·θ moves each: one row over the release's columns per coefficient.
    moments
        The release.
    size
        How many coefficients are written, the intercept included.
    """

    inference: Inference
    responses: Array
    moments: Moments
    size: int

    def scaled(self, scale: float, *, residual: Array | None = None, squares: float = 1.0) -> Inference:
        """Return the coefficients times a factor. With a residual θ the factor is in proportion to 1/RSS, whose noise counts.

        Noise E moves RSS by θᵀEθ, and so a coefficient b/RSS by (ℓ − b·θ/RSS)ᵀEθ per RSS.
        """
        one = self.inference
        estimates, privacy = one.estimates * scale, one.privacy
        if residual is not None:
            noise = product_covariance(self.moments.variance, residual, residual) @ residual / squares
            shared = np.outer(one.estimates, self.responses @ noise)
            again = float(residual @ noise) / squares
            privacy = privacy - shared - shared.T + again * np.outer(one.estimates, one.estimates)
        return Inference(
            estimates, privacy * scale**2, one.sampling * scale**2, one.determined, one.dispersion * scale**2
        )


def _least_squares(
    moments: Moments, weights: Array, target: str, columns: Sequence[str], coding: Coding
) -> _LeastSquares:
    """Solve for a target. Least squares of least norm (a fit on all levels, without noise) has levels that add up to 0."""
    places = feature_places(moments, target, columns)
    features = [moments.features[place] for place in places]
    kept = np.append(0, places)
    block = np.ix_(kept, kept)
    explaining = Moments(
        moments.matrix[block], moments.variance[block], moments.count, (moments.features[0], *features)
    )
    free = free_coefficients(features)
    design = np.zeros((len(moments.features), free.shape[1]))
    design[kept] = level_sums(explaining, constant=COUNTED).T
    _, into = coefficients_to_own_units(features)
    shown: tuple[Coding, Coding] = ("reference", "sum") if coding == "full" else (coding, coding)
    combinations = np.vstack([written_levels(features, one) @ into @ free for one in shown])
    contrasts = contrasts_of_levels(features)
    equations = MomentScore(moments, design, weights).equations(contrasts @ contrasts.T)
    inference, responses = infer_with_responses(equations, combinations)
    return _LeastSquares(inference, (design @ responses).T, moments, len(into))


def _regression(solved: _LeastSquares, whole: Inference, fitted: Array) -> RegressionInference:
    written, unique = _part(whole, slice(0, solved.size)), _part(whole, slice(solved.size, 2 * solved.size - 1))
    return RegressionInference(written, np.hypot(unique.errors(total=False), fitted - unique.estimates))


def _part(inference: Inference, rows: slice) -> Inference:
    return Inference(
        np.array(inference.estimates[rows]),
        np.array(inference.privacy[rows, rows]),
        np.array(inference.sampling[rows, rows]),
        np.array(inference.determined[rows]),
        inference.dispersion,
    )
