"""Linear and logistic regression from noisy second moments: one solve that takes the noise into account.

Any numeric column can be the target and any set of columns the features, at any ridge penalty, from one release. Nothing is
drawn a second time and there is nothing to tune. The linear model solves the normal equations. The logistic model is a
discriminant surrogate, not a Taylor expansion of the loss (`logistic_from_moments`). Both use `NormalEquations`, which
shrinks directions in which noise outweighs the data (docs/proofs/coefficients.md#post-processing). Weights and means are
those of coded columns (columns after scaling to [−1, 1], or indicators of levels) unless a name says "own units".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments, product_covariance
from colonnade.schema.features import coefficients_to_own_units

Array = NDArray[np.float64]
PRIOR_VARIANCES = np.exp(np.linspace(np.log(1e-6), np.log(1e3), 161))
"""Candidates for τ². Coded columns lie in [−1, 1], so that coefficients from 0.001 to 30 cover what can matter."""
RANK_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Solution:
    """Coded weights and intercept of one target, and what their standard errors need.

    Parameters
    ----------
    weights, intercept
        Of coded columns.
    explained
        The part of the target's centred sum of squares that the weights explain: wᵀ(C + ridge)w with C's positive part.
    gains
        The factor on u_k in each eigen-direction (1/f_k without noise).
    residual_weights
        θ over all columns of the release: the target, minus weights and intercept.
    moment_residual
        c − (C + ridge)·weights, rotated into the eigenbasis: what shrinking left unexplained.
    """

    weights: Array
    intercept: float
    explained: float
    gains: Array
    residual_weights: Array
    moment_residual: Array


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Centred moments of some columns, decomposed once for any number of targets and ridges.

    A noisy Gram matrix can be indefinite, and its small eigenvalues are mostly noise. It is not drawn again and gets no fixed
    ridge. Instead each eigen-direction is shrunk by what the known noise variances say about it. With C = U·diag(e)·Uᵀ the
    noisy centred matrix, f = max(e, 0) (+ ridge) and u = Uᵀc, the model is ``u_k = f_k·β_k + noise`` with ``β ~ N(0, τ²)``.
    The noise of c has a variance a_k, and that of C, times coefficients of variance τ², has τ²·b_k. The posterior mean is::

        β_k = u_k · f_k / (f_k² + b_k + a_k/τ²).

    It drops non-positive directions, leaves strong ones alone and is never steeper than 1/(2√b_k): √b is the σ√d at which
    random-matrix theory puts the edge of the noise. It needs one number, τ², over which we average by its likelihood given u
    (flat in ln τ²). Putting the fitted weights instead of τ² into the noise of C looks sharper. It can cycle between weights
    that are far too large and none at all, where complete one-hot groups leave a direction of pure noise.

    Everything is a function of the release alone. Without noise it is least squares (of least norm where columns are
    collinear), or ridge regression.

    Parameters
    ----------
    moments
        The release.
    places
        Which of its columns are the features.
    means
        Their estimated means.
    eigenvalues, eigenvectors
        Of the noisy centred matrix of the features.
    """

    moments: Moments
    places: NDArray[np.intp]
    means: Array
    eigenvalues: Array
    eigenvectors: Array

    @classmethod
    def of(cls, moments: Moments, places: NDArray[np.intp]) -> "NormalEquations":
        """Centre and decompose the features at the given places."""
        if len(places) == 0:
            raise BadInput("A model needs at least one feature besides its target.", remedy="Name more columns.")
        means = moments.matrix[0, places] / moments.count
        centred = moments.matrix[np.ix_(places, places)] - moments.count * np.outer(means, means)
        eigenvalues, eigenvectors = np.linalg.eigh(centred)
        return cls(moments, places, means, eigenvalues, eigenvectors)

    def solve(self, target: Array, *, ridge: float = 0.0) -> Solution:
        """Solve for one target, a linear combination of the release's columns.

        Parameters
        ----------
        target
            Its weights over all columns of the release.
        ridge
            A penalty on the squared coded weights (not the intercept), in sums over people, as in scikit-learn.
        """
        if not 0 <= ridge < np.inf:
            raise BadInput("A ridge penalty must be finite and at least 0.", remedy="For example ridge=1.0.")
        products = self.moments.matrix @ target
        centred = products[self.places] - self.means * products[0]
        rotated = self.eigenvectors.T @ centred
        stiffness = np.maximum(self.eigenvalues, 0.0) + ridge
        stiffness = np.where(stiffness > RANK_TOLERANCE * len(stiffness) * stiffness.max(initial=0.0), stiffness, 0.0)
        gains = _gains(rotated, stiffness, *self._noise(target, products[0]))
        weights = self.eigenvectors @ (gains * rotated)
        residual = np.array(target, dtype=np.float64)
        residual[self.places] -= weights
        residual[0] -= products[0] / self.moments.count - self.means @ weights
        return Solution(
            weights=weights,
            intercept=float(target[0] - residual[0]),
            explained=float(stiffness @ (gains * rotated) ** 2),
            gains=gains,
            residual_weights=residual,
            moment_residual=rotated * (1 - stiffness * gains),
        )

    def _noise(self, target: Array, total: float) -> tuple[Array, Array]:
        """Return a and b in each eigen-direction: the variances of the noise of c, and of that of C per unit of τ²."""
        variance = self.moments.variance
        centred = np.array(target, dtype=np.float64)
        centred[0] -= total / self.moments.count
        own = variance @ centred**2
        others = variance[:, self.places].sum(axis=1)
        return self._rotate(own), self._rotate(others)

    def _rotate(self, rows: Array) -> Array:
        """Take variances of rows of the moments to the centred equations and into the eigenbasis."""
        entries = rows[self.places] + self.means**2 * rows[0]
        return np.asarray((self.eigenvectors**2).T @ entries)

    def covariance(self, solution: Solution, *, ridge: float = 0.0) -> Array:
        """Return the covariance of (weights, intercept, explained) that the noise alone causes, τ² held fixed.

        With M the solution operator and R = (F² + s²/τ²)⁻¹, a change E of the moments changes the weights by
        ``M·T·E·θ + R·T·E·Tᵀ·r`` to first order, T the centring, θ the residual weights and r the moment residual, and
        what they explain by ``tᵀEt − θᵀEθ``, t the centred target. The bias of shrinking is not in it, nor is the
        sampling of the people.
        """
        means, U = self.means, self.eigenvectors
        centring = np.zeros((len(self.places), len(self.moments.features)))
        centring[np.arange(len(self.places)), self.places] = 1.0
        centring[:, 0] = -means
        stiffness = np.maximum(self.eigenvalues, 0.0) + ridge
        inner = np.divide(solution.gains, stiffness, out=np.zeros_like(stiffness), where=stiffness > 0)
        theta, left = solution.residual_weights, centring.T @ (U @ solution.moment_residual)
        target = theta + centring.T @ solution.weights
        first = self._outputs((U * solution.gains) @ (U.T @ centring), -theta)
        first[-2, 0] += 1.0 / self.moments.count
        second = self._outputs((U * inner) @ (U.T @ centring), np.zeros_like(theta))
        third = self._outputs(np.zeros_like(centring), target)
        terms = [(first, theta), (second, left), (third, target)]
        return np.asarray(
            sum(
                one @ product_covariance(self.moments.variance, by, over) @ other.T
                for one, by in terms
                for other, over in terms
            )
        )

    def _outputs(self, weights: Array, explained: Array) -> Array:
        """Stack the responses of the weights, of the intercept that follows from them, and of what they explain."""
        return np.vstack([weights, -self.means @ weights, explained])


def _gains(rotated: Array, stiffness: Array, own: Array, others: Array) -> Array:
    """Return the posterior-mean factors, averaged over τ²; without noise, the pseudo-inverse."""
    if not (np.any(own > 0) or np.any(others > 0)):
        return np.divide(1.0, stiffness, out=np.zeros_like(stiffness), where=stiffness > 0)
    prior = PRIOR_VARIANCES[:, None]
    spread = np.maximum(prior * (stiffness**2 + others) + own, np.finfo(float).tiny)
    surprise = np.sum(np.log(spread) + rotated**2 / spread, axis=1) / 2
    belief = np.exp(surprise.min() - surprise)
    return np.asarray((belief / belief.sum()) @ (prior * stiffness / spread))


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A linear model in the columns' own units.

    Parameters
    ----------
    names
        What each coefficient belongs to: ``"party.column"`` or ``"party.column=level"``, all levels.
    coefficients, intercept
        The model.
    errors, intercept_error
        Standard errors that the privacy noise causes. Neither the sampling of people nor the bias of shrinking is in
        them.
    ridge
        The penalty, on coded weights.
    """

    names: tuple[str, ...]
    coefficients: Array
    intercept: float
    errors: Array
    intercept_error: float
    ridge: float


def linear_from_moments(
    moments: Moments, target: str, *, columns: Sequence[str] | None = None, ridge: float = 0.0
) -> LinearFit:
    """Fit one linear model.

    Parameters
    ----------
    moments
        The release.
    target
        A numeric column of it.
    columns
        The features' columns; all but the target by default.
    ridge
        Penalty on the squared coded weights (columns mapped to [−1, 1]), the intercept excepted.
    """
    return ridge_path(moments, target, [ridge], columns=columns)[0]


def ridge_path(
    moments: Moments, target: str, ridges: Sequence[float], *, columns: Sequence[str] | None = None
) -> tuple[LinearFit, ...]:
    """Fit one target at several penalties; the matrix is decomposed once."""
    place = numeric_place(moments, target)
    equations = NormalEquations.of(moments, feature_places(moments, target, columns))
    weights = np.zeros(len(moments.features))
    weights[place] = 1.0
    return tuple(_fit(equations, equations.solve(weights, ridge=ridge), place, float(ridge)) for ridge in ridges)


def feature_places(moments: Moments, target: str, columns: Sequence[str] | None) -> NDArray[np.intp]:
    """Return the places of the features. The target is not one of them."""
    if columns is not None and target in columns:
        raise BadInput(f"Column {target!r} is the target and a feature at once.", remedy="Leave it out of columns.")
    wanted = [name for name in moments.columns if name != target] if columns is None else columns
    return moments.places(wanted)


def numeric_place(moments: Moments, target: str) -> int:
    """Return the place of a numeric target. Refuse a category."""
    (place, *others) = moments.places([target])
    if others or moments.features[place].kind != "numeric":
        raise BadInput(f"The target {target!r} is a category.", remedy="Use LogisticRegression for categories.")
    return int(place)


def _fit(equations: NormalEquations, solution: Solution, place: int, ridge: float) -> LinearFit:
    moments = equations.moments
    names, into = coefficients_to_own_units([moments.features[index] for index in equations.places])
    target = moments.features[place]
    into = into * target.half_width
    values = into @ np.append(solution.weights, solution.intercept)
    errors = standard_errors(into, equations.covariance(solution, ridge=ridge)[:-1, :-1])
    return LinearFit(names, values[:-1], float(values[-1]) + target.centre, errors[:-1], float(errors[-1]), ridge)


def standard_errors(into: Array, covariance: Array) -> Array:
    """Return the square roots of the diagonal of A·Cov·Aᵀ."""
    squared = np.einsum("ij,jk,ik->i", into, covariance, into, optimize=True)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


LARGEST_EXPLAINED = 0.95
"""The largest share of variance that classes are taken to explain. Beyond it the slope is only noise."""


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
        One row for two classes (log-odds of the second), one per class otherwise.
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


def logistic_from_moments(
    moments: Moments, target: str, *, columns: Sequence[str] | None = None, ridge: float = 0.0
) -> LogisticFit:
    """Fit one logistic model.

    Secure PCA and Functional mechanism across parties expand the logistic loss at 0, which fits ¼·XᵀX·w = Xᵀ(y − ½). That is
    the least-squares direction with a scale and an intercept that are right only for coefficients near 0 and balanced
    classes. We keep the direction (for elliptical columns it is the logistic one, for any link). Scale and intercept come
    from the same moments by the Gaussian model of the classes. With B the least-squares coefficients of the class indicators
    (`NormalEquations`), P the diagonal of class shares and S = BᵀCB/n what they explain, the linear discriminant of class k
    is::

        δ_k(x) = (x − x̄)·B(P − S)⁻¹e_k − ½·e_kᵀP⁻¹S(P − S)⁻¹e_k + ln p_k.

    So nothing but the solve sees the noise. For two classes this is slope 1/(2p(1−p)(1−R²)) on the ±1 least-squares score.
    With more, every class has a row against the share-weighted average of all (one-vs-rest); probabilities are their softmax.

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
    classes, targets = classes_and_targets(moments, target)
    equations = NormalEquations.of(moments, feature_places(moments, target, columns))
    solutions = [equations.solve(weights, ridge=ridge) for weights in targets]
    if len(classes) == 2:
        return _binary(equations, classes, targets[0], solutions[0], ridge)
    return _several(equations, classes, targets, solutions, ridge)


def classes_and_targets(moments: Moments, target: str) -> tuple[tuple[str, ...], list[Array]]:
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
    share = second_share(equations.moments, target)
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


def second_share(moments: Moments, target: Array) -> float:
    """Return the share of the second of two classes, from a target of −1 and 1."""
    half = target / 2
    ones = np.zeros_like(half)
    ones[0] = 0.5
    return float(_shares(moments, np.array([ones - half, ones + half]))[1])


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
