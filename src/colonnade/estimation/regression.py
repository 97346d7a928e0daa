"""Linear and logistic regression from noisy second moments: one solve that takes the noise into account, and intervals.

Any numeric column can be the target and any set of columns the features, at any ridge penalty, from one release. Nothing is
drawn a second time and there is nothing to tune. The linear model solves the normal equations. The logistic model is a
discriminant surrogate, not a Taylor expansion of the loss (`logistic_from_moments`). Both use `NormalEquations`, which
shrinks directions in which noise outweighs the data (docs/proofs/coefficients.md#post-processing). Weights and means are
those of coded columns (columns after scaling to [−1, 1], or indicators of levels) unless a name says "own units".

*Intervals.* A regression on releases, also one by Newton steps, ends in equations A·β = b whose matrix A (the *information*:
sums of products of columns, perhaps weighted) and right-hand side b were both opened with noise. Without noise β would be the
estimate that the same people give to somebody who sees their rows. What is known exactly is the law of the noise in the
equations at any β::

    b − A·β = e(β),   Cov e(β) = S(β),

because noise in A is multiplied by β. `infer` turns this into an estimate, an error that the noise causes, an error that the
sampling of people causes, and a verdict, for every coefficient or linear combination q·β that is asked for.

*Where A stands far out of its noise* the answer is the first-order one, covariance A⁻¹·S·A⁻¹.

*Where some direction of A is lost in its noise* (collinear columns, wide bounds, rare levels) A⁻¹ is mostly noise, and
shrinking hides it. There the coefficients outside q are taken to be moderate: centred at 0 with standard deviation t in coded
units. The quantity q·β itself is not shrunk: the prior is flat along q. The estimate is ℓ·b with ℓ = S⁻¹·A·(A·S⁻¹·A + D)⁻¹·q, D
the precision of that prior. It errs by ℓ·e(β), and by (A·ℓ − q)·β, what the other coefficients *leak* into it. The variance
counts both, leaks with a part of t: the wide prior keeps leaks small, and what is left is a sum over many coefficients. The
scale follows from the release: τ² is the mean square of a coefficient under the posterior (a fixed point, as in empirical
Bayes), and t is `NUISANCE` times τ, and at least `LEAST`. Coefficients differ in size, so a multiple is used.

*A coefficient is determined* if its own information q·ℓ stands out of the noise in it by `RESOLVED` standard errors, and if
others leak into it by less than `SEPARATED`. Otherwise a bounded interval would be an artefact of the prior, and the interval
is the whole line. The error is widened by (1 − (1.96/z)²)^−½, z the number of those standard errors, as Fieller's interval of a
ratio is, because the information that an estimate is divided by is noisy too.

The constants were settled with the six public data sets of `benchmarks/coverage` in view, so those sets are no independent
check of them; its simulated set is. The methods that this follows are in docs/references.md#noise-aware. Everything is a
function of releases alone.

*From one release of second moments.* With A the noisy matrix of sums of products, the least-squares coefficients β of a target
solve A·β = b. At the true β the equations miss by E·θ, with E the noise matrix and θ the target minus the columns times β. So
the noise law of a release gives `infer` all it needs. Columns are those after scaling to [−1, 1]; results are in the columns'
own units.

For independent entries with variance σ² on the diagonal and σ²/2 off it, the first-order covariance that follows is
A⁻¹·(σ²/2)[(1 + ‖β‖²)·I + ββᵀ]·A⁻¹ (docs/proofs/gram.md has the variances; between two parties they are larger by P/(P − c)).

What the estimates are: least squares on the people's clipped values, without penalty, whatever a model that predicts shrinks.

*Levels add up* (`level_sums`). Everybody has exactly one level of a category that has no missing values. So its columns add up
to the constant one, and so do all sums of products with them. What is opened has more columns than can be told apart, each with
noise of its own. Least squares makes sums over the columns that can be told apart of it, which obey these equations. To leave
one level out instead would lose what its columns tell. The information about that level, with which the others are compared,
would be a small difference of large noisy numbers.

Whether values are missing is seen in the release: levels whose counts miss the number of people by more than noise are left as
they are, without their first one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.stats import norm

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments, product_covariance, quadratic_variance
from colonnade.schema import (
    Coding,
    coefficients_to_own_units,
    contrasts_of_levels,
    free_coefficients,
    written_levels,
)

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


LEAST_DIRECTION = 1e-12
"""The least part of its largest direction that a correlation matrix is taken to have along any other: rounding is about that."""


def inverse_of(matrix: Array) -> Array:
    """Return the inverse; along directions in which a singular matrix is nothing, nothing."""
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix))


def solution_of(matrix: Array, values: Array) -> Array:
    """Return x with matrix·x the values; of a singular matrix the shortest x that comes nearest."""
    try:
        return np.asarray(np.linalg.solve(matrix, values))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix) @ values)


def root_of(covariance: Array) -> Array:
    """Return a lower triangular L with L·Lᵀ the covariance, or the nearest one that can be where rounding has made it indefinite.

    "Nearest" is meant with each variable in units of its own standard deviation, so that a large one does not drown a small one.

    Examples
    --------
    >>> root = root_of(np.array([[4.0, 2e10 * (1 + 1e-13)], [2e10 * (1 + 1e-13), 1e20]]))
    >>> (root @ root.T).round(3)[0, 0]
    np.float64(4.0)
    """
    try:
        return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        sizes = np.sqrt(np.diag(covariance))
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2 / np.outer(sizes, sizes))
        possible = np.maximum(values, LEAST_DIRECTION * values[-1])
        return np.asarray(np.linalg.qr((vectors * np.sqrt(possible)).T * sizes).R.T)


NUISANCE = 4.0
"""t/τ: how much larger than their root mean square the other coefficients may well be."""
LEAKING = 0.75
"""The part of t with which other coefficients count where they leak."""
LEAST = 0.4
"""The least t, with columns scaled to [−1, 1]: 1 moves the target by half its range per half range of the column."""
NOISE_SCALE = 1.25
"""The scale of the prior, in units of τ, under which the noise in the equations is computed."""
RESOLVED = 3.0
"""How many standard errors the information about a coefficient must stand out of its own noise."""
SEPARATED = 0.25
"""How much of other coefficients, as a length, may leak into one that is not hidden."""
PRIOR = 2.5
"""How large an effect may well be, in units of score or of the target's spread: of a level, or of two spreads of a number
[Gelman et al. 2008]."""
ROUNDING = 1e-6
"""Noise below this part of the largest entry is taken to be this large: the equations are not known better than that."""
WIDTH_95 = 1.959963984540054
ROUNDS, SETTLED = 40, 1e-3
"""The most rounds of a fixed point, and the relative change of τ² at which it has settled."""


class ScoreNoise(Protocol):
    """The law of the noise in equations A·β = b, for coefficients β that are known up to a mean and a covariance."""

    def covariance(self, mean: Array, spread: Array) -> Array:
        """Return E[Cov e(β)] over coefficients with this mean and this covariance."""
        ...

    def information_variance(self, directions: Array) -> Array:
        """Return the variance of the noise in ℓᵀAℓ, for each column ℓ of ``directions``."""
        ...


def second_moment_covariance(variance: Array, second_moment: Array) -> Array:
    """Return E[Cov(E·θ)] for a symmetric noise matrix E with independent entries on and above the diagonal.

    Parameters
    ----------
    variance
        The variance of each entry of E.
    second_moment
        E[θθᵀ]; θθᵀ itself where θ is known.
    """
    covariance = variance * second_moment
    np.fill_diagonal(covariance, variance @ np.diag(second_moment))
    return covariance


def quadratic_variances(variance: Array, directions: Array) -> Array:
    """Return the variance of dᵀEd for each column d: each pair of entries is drawn once and counted twice."""
    squared = directions**2
    twice = 2 * np.einsum("ij,ij->j", squared, variance @ squared)
    return np.asarray(np.maximum(twice - np.diag(variance) @ squared**2, 0.0))


@dataclass(frozen=True, eq=False)
class OpenedScore:
    """The noise of one Newton step: a score opened at known coefficients, and an information matrix opened beside it.

    The equations are A·β = A·β₀ − g with g the noisy gradient at β₀: their solution is the step's end. Noise in A counts as far
    as β lies from β₀.

    Parameters
    ----------
    score
        The covariance of the noise in g, as it was opened.
    information
        The variance of the noise in each opened entry of A, independent on and above the diagonal; zeros if A is exact.
    start
        β₀.
    into
        The map from what was opened to the equations: one row per equation. By default they are the same.
    """

    score: Array
    information: Array
    start: Array
    into: Array | None = None

    def covariance(self, mean: Array, spread: Array) -> Array:
        """Return E[Cov e(β)]."""
        into, step = self._into, mean - self.start
        second = into.T @ (np.outer(step, step) + spread) @ into
        return np.asarray(into @ (self.score + second_moment_covariance(self.information, second)) @ into.T)

    def information_variance(self, directions: Array) -> Array:
        """Return the variance of the noise in ℓᵀAℓ."""
        return quadratic_variances(self.information, self._into.T @ directions)

    @property
    def _into(self) -> Array:
        return np.eye(len(self.start)) if self.into is None else self.into


@dataclass(frozen=True, eq=False)
class Equations:
    """Noisy equations A·β = b.

    Parameters
    ----------
    information
        A, symmetric, one row per free coefficient. After scaling columns to [−1, 1].
    products
        b.
    noise
        The law of what A and b were opened with.
    free
        Which coefficients have no prior at all: True for the intercept.
    dispersion
        The variance of an observation about its mean at given coefficients: the residual variance of a linear model, 1 for a
        likelihood whose information is A.
    prior
        How coefficients hang together a priori: their covariance in units of τ²; by default they do not. Levels of a category
        that are all compared with one level have that level in common.
    weak
        The covariance that effects may well have before anything is known. An estimate with a larger variance is hidden.
    least
        The least τ: how large coefficients may well be before anything was opened.
    leaking
        The part of t with which other coefficients count where they leak.
    """

    information: Array
    products: Array
    noise: ScoreNoise
    free: NDArray[np.bool_]
    dispersion: Callable[[Array], float]
    prior: Array | None = None
    weak: Array | None = None
    least: float = 0.0
    leaking: float = LEAKING

    def __post_init__(self) -> None:
        size = len(self.products)
        shapes = {self.information.shape, (size, size) if self.prior is None else self.prior.shape}
        if shapes != {(size, size)} or self.free.shape != (size,):
            raise BadInput("Equations have as many rows as coefficients.")

    @cached_property
    def moderate(self) -> Array:
        """The prior's covariance in units of τ²: 0 for free coefficients, on which it says nothing."""
        shrunk = np.where(self.free, 0.0, 1.0)
        return np.asarray(np.diag(shrunk) if self.prior is None else self.prior * np.outer(shrunk, shrunk))

    @cached_property
    def precision(self) -> Array:
        """The prior's precision in units of 1/τ²; 0 for free coefficients."""
        precision, kept = np.zeros_like(self.moderate), np.flatnonzero(~self.free)
        block = np.ix_(kept, kept)
        precision[block] = np.linalg.inv(self.moderate[block])
        return precision

    def posterior(self, covariance: Array, precision: Array) -> tuple[Array, Array, Array]:
        """Return the posterior mean and covariance of β for noise of a covariance, and the map S⁻¹·A."""
        floor = (ROUNDING * max(float(np.max(np.abs(np.diag(self.information)))), 1e-12)) ** 2
        root = root_of(covariance + floor * np.eye(len(covariance)))
        whitened = solve_triangular(root, self.information, lower=True)
        spread = _inverse(whitened.T @ whitened + precision)
        spread = (spread + spread.T) / 2
        weights = solve_triangular(root, whitened, lower=True, trans="T")
        return np.asarray(spread @ (weights.T @ self.products)), spread, np.asarray(weights)


def _inverse(precision: Array) -> Array:
    """Invert a precision. Of a direction that nothing is known about, as where nobody has a value, the variance is huge."""
    try:
        return np.asarray(np.linalg.inv(precision))
    except np.linalg.LinAlgError:
        least = ROUNDING * max(float(np.max(np.abs(np.diag(precision)))), 1e-12)
        return np.asarray(np.linalg.inv(precision + least * np.eye(len(precision))))


@dataclass(frozen=True, eq=False)
class Inference:
    """Estimates of linear combinations of coefficients, their errors, and which of them the noise hides.

    Parameters
    ----------
    estimates
        One per combination. A model that predicts may use others.
    privacy, sampling
        The covariance that the noise of the releases causes, and the one that the sampling of people causes.
    hidden
        True where a weak prior, not the releases, gives most of what is known. There is no p-value there.
    dispersion
        The variance that the sampling errors rest on.

    Examples
    --------
    >>> import numpy as np
    >>> exact = Inference(np.array([2.0]), np.array([[0.09]]), np.array([[0.16]]), np.array([False]), 1.0)
    >>> exact.errors().round(2), exact.interval(0.95, total=False).round(2)
    (array([0.5]), array([[1.41, 2.59]]))
    """

    estimates: Array
    privacy: Array
    sampling: Array
    hidden: NDArray[np.bool_]
    dispersion: float

    def __post_init__(self) -> None:
        size = len(self.estimates)
        for name in ("privacy", "sampling"):
            if getattr(self, name).shape != (size, size):
                raise BadInput("Covariances have one row and one column per estimate.")
        if self.hidden.shape != (size,):
            raise BadInput("Every estimate is hidden by the noise or it is not.")

    def covariance(self, *, total: bool = True) -> Array:
        """Return the covariance of the estimates."""
        return self.privacy + self.sampling if total else np.array(self.privacy)

    def errors(self, *, total: bool = True) -> Array:
        """Return standard errors."""
        return np.sqrt(np.maximum(np.diag(self.covariance(total=total)), 0.0))

    def interval(self, level: float = 0.95, *, total: bool = True) -> Array:
        """Return lower and upper ends, one row per estimate.

        Parameters
        ----------
        level
            The share of intervals that cover.
        total
            False: what the same people give without noise. True: what the population gives.
        """
        if not 0 < level < 1:
            raise BadInput("The level of an interval lies between 0 and 1.", remedy="For example level=0.95.")
        reach = float(norm.ppf((1 + level) / 2)) * self.errors(total=total)
        return np.column_stack([self.estimates - reach, self.estimates + reach])

    def p_values(self) -> Array:
        """Return two-sided p-values of no effect in the population; NaN where an estimate is hidden."""
        errors = self.errors()
        ratio = np.divide(np.abs(self.estimates), errors, out=np.full_like(errors, np.inf), where=errors > 0)
        return np.where(~self.hidden & ((errors > 0) | (self.estimates != 0)), 2 * norm.sf(ratio), np.nan)

    def privacy_share(self) -> Array:
        """Return the part of each variance that privacy causes; NaN where it is hidden, or there is no variance at all."""
        noise, both = np.diag(self.privacy), np.diag(self.privacy + self.sampling)
        share = np.divide(noise, both, out=np.full_like(both, np.nan), where=both > 0)
        return np.where(self.hidden, np.nan, share)


def infer(equations: Equations, combinations: Array, around: Array | None = None) -> Inference:
    """Return estimates and errors of linear combinations of coefficients.

    Parameters
    ----------
    equations
        What was opened, with the law of its noise.
    combinations
        One row q per quantity q·β. A row of zeros (the reference level of a category) is 0 and has no error.
    around
        The coefficients from which the equations count; 0 by default. Estimates count from 0.

    Examples
    --------
    Two columns, the second without any variation that could be told from the noise:

    >>> import numpy as np
    >>> noise = OpenedScore(np.eye(2), np.full((2, 2), 25.0), np.zeros(2))
    >>> equations = Equations(np.diag([900.0, 3.0]), np.array([450.0, 1.0]), noise, np.zeros(2, bool), lambda _: 1.0)
    >>> infer(equations, np.eye(2)).hidden
    array([False,  True])
    """
    return infer_with_responses(equations, combinations, around)[0]


def infer_with_responses(
    equations: Equations, combinations: Array, around: Array | None = None
) -> tuple[Inference, Array]:
    """Return `infer`, and ℓ for each combination as one column: noise e in the equations moves the estimate by ℓ·e."""
    mean, covariance, scale = _noise_in_equations(equations)
    width = max(NUISANCE**2 * scale, LEAST**2)
    _, spread, weights = equations.posterior(covariance, equations.precision / width)
    moderate = equations.moderate
    own = np.einsum("ij,jk,ik->i", combinations, moderate, combinations)
    responses = weights @ _flat_along(combinations, spread, ~equations.free, width * own)
    estimates = responses.T @ equations.products + (0.0 if around is None else combinations @ around)
    leaks = equations.information @ responses - combinations.T
    leaked = leaks.T @ moderate @ leaks
    widening, resolved = _fieller(equations, combinations, responses)
    privacy = (responses.T @ covariance @ responses + equations.leaking**2 * width * leaked) * np.outer(
        widening, widening
    )
    dispersion = equations.dispersion(mean)
    sampling = dispersion * responses.T @ positive_part(equations.information) @ responses
    separated = np.sqrt(np.maximum(np.diag(leaked), 0.0)) <= SEPARATED * np.sqrt(_lengths(combinations, own))
    known = width * moderate if equations.weak is None else equations.weak
    possible = np.einsum("ij,jk,ik->i", combinations, known, combinations)
    loose = (possible > 0) & (np.diag(privacy) > possible) & (equations.weak is not None)
    hidden = (loose | ~(resolved & separated)) & combinations.any(axis=1)
    # What noise hides is pulled towards no effect, as far as the weak prior outweighs the release
    part = np.where(hidden & (possible > 0), possible / np.maximum(possible + np.diag(privacy), 1e-300), 1.0)
    inference = Inference(
        estimates=part * estimates,
        privacy=privacy * np.sqrt(np.outer(part, part)),
        sampling=np.asarray(sampling * np.outer(part, part)),
        hidden=hidden,
        dispersion=dispersion,
    )
    return inference, responses


def _noise_in_equations(equations: Equations) -> tuple[Array, Array, float]:
    """Return the posterior mean under the release's own scale τ², the noise in the equations, and τ².

    τ² starts at 1 and is the mean square of a coefficient in every round. Directions without information keep the mean square
    that they are given, so what decides are the others.
    """
    scale, count = 1.0, int(np.sum(~equations.free))
    mean, spread = np.zeros(len(equations.free)), equations.moderate
    for _ in range(ROUNDS if count else 0):
        covariance = equations.noise.covariance(mean, spread)
        mean, spread, _ = equations.posterior(covariance, equations.precision / scale)
        squares = float(mean @ equations.precision @ mean + np.sum(equations.precision * spread))
        latest = max(squares / count, equations.least**2, ROUNDING**2)
        settled = abs(math.log(latest / scale)) < SETTLED
        scale = latest
        if settled:
            break
    wide = NOISE_SCALE**2 * scale
    for _ in range(ROUNDS):
        before = mean
        covariance = equations.noise.covariance(mean, spread)
        mean, spread, _ = equations.posterior(covariance, equations.precision / wide)
        if np.max(np.abs(mean - before)) < SETTLED * math.sqrt(wide):
            break
    return mean, equations.noise.covariance(mean, spread), scale


def _flat_along(combinations: Array, spread: Array, shrunk: NDArray[np.bool_], room: Array) -> Array:
    """Return the posterior covariance times each q, with the prior taken away along q: one column per combination.

    A prior of covariance C loses qqᵀ/(qᵀCq) of its precision, which makes it flat along q and leaves it as it is across. The
    inverse of the posterior's precision changes by a matrix of rank one.
    """
    kept = combinations * shrunk
    images = spread @ kept.T
    left = room - np.einsum("ij,ji->i", kept, images)
    along = np.einsum("ij,ji->i", combinations, images)
    known = np.maximum(left, 1e-12 * np.maximum(room, 1e-300))
    return np.asarray(spread @ combinations.T + images * np.where(room > 0, along / known, 0.0))


def _lengths(combinations: Array, own: Array) -> Array:
    """Return the prior variance of each combination; of one of free coefficients alone, its squared length."""
    return np.where(own > 0, own, np.einsum("ij,ij->i", combinations, combinations))


def _fieller(equations: Equations, combinations: Array, responses: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return by how much noise in the information widens each error, and whether the information stands out of its noise."""
    information = np.einsum("ij,ji->i", combinations, responses)
    noise = np.sqrt(equations.noise.information_variance(responses))
    scores = np.divide(information, noise, out=np.full_like(noise, np.inf), where=noise > 0)
    scores = np.where((noise == 0) & (information <= 0), 0.0, scores)
    return 1 / np.sqrt(1 - (WIDTH_95 / np.maximum(scores, RESOLVED)) ** 2), scores >= RESOLVED


def positive_part(matrix: Array) -> Array:
    """Return the nearest matrix without negative directions."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


MISSING = 4.0
"""How many standard errors the counts of a category must be short of the number of people for values to be missing."""


def level_sums(moments: Moments, *, constant: float = 1.0) -> Array:
    """Return the map from sums over all coded columns to those over columns that can be told apart, by least squares.

    One row per free coefficient (`free_coefficients`, the constant last), one column per coded column, the constant first.

    Parameters
    ----------
    moments
        A release of the columns. Its counts tell which categories have missing values.
    constant
        How much more the constant's own sums count than those of others: more where the number of people is exact.

    Examples
    --------
    >>> from colonnade import Category
    >>> from colonnade.schema import features_of
    >>> features = features_of({"a.plan": Category(["basic", "gold"])})
    >>> moments = Moments(np.array([[9.0, 6, 3], [6, 6, 0], [3, 0, 3]]), np.zeros((3, 3)), 9, features)
    >>> (level_sums(moments) @ [9.0, 6.0, 3.0]).round(9)
    array([3., 9.])
    """
    columns = list(moments.features[1:])
    free = free_coefficients(columns)
    rows = np.vstack([free[-1], free[:-1]])
    used = np.ones(len(rows), dtype=bool)
    firsts = {
        feature.column: place for place, feature in reversed([*enumerate(moments.features)]) if feature.kind == "level"
    }
    used[list(firsts.values())] = False
    for first, *others in complete_categories(moments):
        rows[first], used[first] = rows[0] - rows[others].sum(axis=0), True
    weights = np.ones(len(rows))
    weights[0] = constant
    into = np.zeros(rows.T.shape)
    root = np.sqrt(weights[used])
    into[:, used] = np.linalg.pinv(root[:, None] * rows[used]) * root
    return into


def weak_spreads(moments: Moments) -> Array:
    """Return how far each coefficient of coded columns may well be from 0, in units of score; of the constant, as of a level."""
    means = moments.matrix[0] / moments.count
    variances = np.diag(moments.matrix) / moments.count - means**2
    variances = np.maximum(variances, np.sqrt(np.diag(moments.variance)) / moments.count)
    numbers = np.array([feature.kind not in ("level", "intercept") for feature in moments.features])
    return np.where(numbers, PRIOR / 2 / np.sqrt(np.maximum(variances, 1e-12)), PRIOR)


def complete_categories(moments: Moments) -> list[list[int]]:
    """Return where the levels of each category stand that has no missing values, as far as its counts tell."""
    columns = dict.fromkeys(feature.column for feature in moments.features if feature.kind == "level")
    found = [[place for place, one in enumerate(moments.features) if one.column == name] for name in columns]
    return [places for places in found if _is_complete(moments, places)]


def _is_complete(moments: Moments, places: Sequence[int]) -> bool:
    short = moments.count - float(moments.matrix[0, places].sum())
    noise = float(np.sqrt(moments.variance[0, places].sum()))
    return abs(short) <= MISSING * noise + 1e-9 * moments.count


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
        count how far shrinking has moved a coefficient.
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
        return Inference(estimates, privacy * scale**2, one.sampling * scale**2, one.hidden, one.dispersion * scale**2)


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
    written, unique = part_of(whole, slice(0, solved.size)), part_of(whole, slice(solved.size, 2 * solved.size - 1))
    return RegressionInference(written, np.hypot(unique.errors(total=False), fitted - unique.estimates))


def part_of(inference: Inference, rows: slice) -> Inference:
    """Return inference on some of the estimates."""
    return Inference(
        np.array(inference.estimates[rows]),
        np.array(inference.privacy[rows, rows]),
        np.array(inference.sampling[rows, rows]),
        np.array(inference.hidden[rows]),
        inference.dispersion,
    )
