"""Logistic regression from one noisy Gram matrix (papers 002, 003): a discriminant surrogate, not a Taylor expansion.

Papers 002 and 003 expand the logistic loss at 0, which fits ¼·XᵀX·w = Xᵀ(y − ½): the least-squares direction with a
scale and an intercept that are right only for coefficients near 0 and balanced classes. The direction is kept (for
elliptical columns it is the logistic one, whatever the link), but scale and intercept come from the same moments by
the Gaussian model of the classes: with B the least-squares coefficients of the class indicators (`shrunken_solve`), P
the diagonal of class shares and S = BᵀCB/n what they explain, the linear discriminant of class k is

    δ_k(x) = (x − x̄)·B(P − S)⁻¹e_k − ½·e_kᵀP⁻¹S(P − S)⁻¹e_k + ln p_k,

so that nothing but the solve sees the noise. For two classes this is slope 1/(2p(1−p)(1−R²)) on the ±1 least-squares
score. With more, every class has a row against the share-weighted average of all (one-vs-rest); probabilities are
their softmax.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import coefficients_to_own_units
from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression_from_moments import feature_places, standard_errors
from colonnade.estimation.shrunken_solve import NormalEquations, Solution

__all__ = ["LogisticFit", "logistic_from_moments"]

Array = NDArray[np.float64]
LARGEST_EXPLAINED = 0.95
"""Classes are never taken to be better separated than this share of variance: beyond it the slope is all noise."""


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """A logistic model in the columns' own units.

    Parameters
    ----------
    classes
        The target's coded levels, in schema order.
    names
        What each coefficient belongs to: ``"party.column"`` or ``"party.column=level"``, all levels.
    coefficients, intercepts
        One row for two classes (log-odds of the second), one a class otherwise.
    errors
        Standard errors of the coefficients that the privacy noise causes, the class shares (with more than two classes,
        also the scale) held fixed.
    shares
        The estimated share of each class.
    """

    classes: tuple[str, ...]
    names: tuple[str, ...]
    coefficients: Array
    intercepts: Array
    errors: Array
    shares: Array

    def probabilities(self, rows: Array) -> Array:
        """Return the probability of every class for rows in own units, levels as indicators."""
        scores = rows @ self.coefficients.T + self.intercepts
        if scores.shape[1] == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def logistic_from_moments(
    moments: Moments, target: str, *, columns: Sequence[str] | None = None, ridge: float = 0.0
) -> LogisticFit:
    """Fit one logistic model.

    Parameters
    ----------
    moments
        The release.
    target
        A category of it, coded as a sign or as levels.
    columns
        The features' columns; all but the target by default.
    ridge
        Penalty on the squared coded weights of the least-squares step.
    """
    classes, targets = _targets(moments, target)
    equations = NormalEquations.of(moments, feature_places(moments, target, columns))
    solutions = [equations.solve(weights, ridge=ridge) for weights in targets]
    if len(classes) == 2:
        return _binary(equations, classes, targets[0], solutions[0], ridge)
    return _several(equations, classes, targets, solutions, ridge)


def _targets(moments: Moments, target: str) -> tuple[tuple[str, ...], list[Array]]:
    """Return the classes and each regression's target over all columns; two classes need one, from −1 to 1."""
    places = moments.places([target])
    features = [moments.features[place] for place in places]
    if features[0].kind == "numeric":
        raise BadInput(f"The target {target!r} is numeric.", remedy="Use LinearRegression for numbers.")
    indicators = list(np.eye(len(moments.features))[places])
    if features[0].kind == "sign":
        return features[0].levels, indicators
    classes = tuple(feature.name for feature in features)
    return classes, [indicators[1] - indicators[0]] if len(classes) == 2 else indicators


def _binary(
    equations: NormalEquations, classes: tuple[str, ...], target: Array, solution: Solution, ridge: float
) -> LogisticFit:
    """Scale the ±1 least-squares score to log-odds: two Gaussian classes with one variance."""
    count = equations.moments.count
    half = target / 2
    ones = np.zeros_like(half)
    ones[0] = 0.5
    share = float(_shares(equations.moments, np.array([ones - half, ones + half]))[1])
    spread = 4 * share * (1 - share)
    explained = float(np.clip(solution.explained / count / spread, 0.0, LARGEST_EXPLAINED))
    slope = 2 / (spread * (1 - explained))
    level = np.log(share / (1 - share)) - (1 - 2 * share) * slope * explained
    offset = level - slope * float(equations.means @ solution.weights)
    names, into = coefficients_to_own_units([equations.moments.features[place] for place in equations.places])
    values = into @ np.append(slope * solution.weights, offset)
    # The slope is noisy too: it grows with what the weights seem to explain.
    steeper = slope / (1 - explained) / count / spread if explained < LARGEST_EXPLAINED else 0.0
    response = np.column_stack([slope * into[:-1], steeper * (into[:-1, :-1] @ solution.weights)])
    errors = standard_errors(response, equations.covariance(solution, ridge=ridge))
    shares = np.array([1 - share, share])
    return LogisticFit(classes, names, values[None, :-1], values[-1:], errors[None, :], shares)


def _several(
    equations: NormalEquations, classes: tuple[str, ...], targets: list[Array], solutions: list[Solution], ridge: float
) -> LogisticFit:
    """Turn the classes' least-squares scores into linear discriminants, centred over the classes."""
    moments = equations.moments
    shares = _shares(moments, np.array(targets))
    fitted = np.column_stack([solution.weights for solution in solutions])
    along = np.column_stack([equations.eigenvectors.T @ solution.weights for solution in solutions])
    explained = along.T @ ((np.maximum(equations.eigenvalues, 0.0) + ridge)[:, None] * along) / moments.count
    mixing, levels = _discriminants(explained, shares)
    weights = fitted @ mixing
    offsets = levels - equations.means @ weights
    names, into = coefficients_to_own_units([moments.features[place] for place in equations.places])
    values = into @ np.vstack([weights, offsets])
    covariances = [equations.covariance(solution, ridge=ridge)[:-1, :-1] for solution in solutions]
    squared = np.array([standard_errors(into[:-1], covariance) ** 2 for covariance in covariances])
    return LogisticFit(classes, names, values[:-1].T, values[-1], np.sqrt((mixing**2).T @ squared), shares)


def _shares(moments: Moments, targets: Array) -> Array:
    """Return the share of each class, none below what the noise could hide."""
    counts = targets @ moments.matrix[0]
    doubt = np.sqrt(targets**2 @ moments.variance[0])
    kept = np.maximum(counts, np.maximum(doubt, 1.0))
    return np.asarray(kept / kept.sum())


def _discriminants(explained: Array, shares: Array) -> tuple[Array, Array]:
    """Return (P − S)⁻¹, its columns centred over the classes, and each class's constant; S kept within [0, 0.95·P]."""
    root = np.sqrt(shares)
    ratio = (explained + explained.T) / 2 / np.outer(root, root)
    values, vectors = np.linalg.eigh(ratio)
    values = np.clip(values, 0.0, LARGEST_EXPLAINED)
    inverse = (vectors / (1 - values)) @ vectors.T / np.outer(root, root)
    reached = np.einsum("ij,j,ij->i", vectors, values / (1 - values), vectors) / shares
    levels = np.log(shares) - reached / 2
    average = inverse @ shares
    return inverse - average[:, None], levels - float(shares @ levels)
