"""Intervals and standard errors of coefficients that solve noisy linear equations.

A regression on releases ends in equations A·β = b whose matrix A (the *information*: sums of products of columns, perhaps
weighted) and right-hand side b were both opened with noise. Without noise β would be the estimate that the same people give to
somebody who sees their rows. What is known exactly is the law of the noise in the equations at any β::

    b − A·β = e(β),   Cov e(β) = S(β),

because noise in A is multiplied by β. `infer` turns this into an estimate, an error that the noise causes, an error that the
sampling of people causes, and a verdict, for every coefficient or linear combination q·β that is asked for.

*Where A stands far out of its noise* the answer is the first-order one, covariance A⁻¹·S·A⁻¹.

*Where some direction of A is lost in its noise* (collinear columns, wide bounds, rare levels) A⁻¹ is mostly noise, and shrinking
hides it. There the coefficients outside q are taken to be moderate: centred at 0 with standard deviation t in coded units. The
quantity q·β itself is not shrunk: the prior is flat along q. The estimate is ℓ·b with ℓ = S⁻¹·A·(A·S⁻¹·A + D)⁻¹·q, D the
precision of that prior. It errs by ℓ·e(β), and by (A·ℓ − q)·β, what the other coefficients *leak* into it. The variance counts
both, leaks with a part of t: the wide prior keeps leaks small, and what is left is a sum over many coefficients. The scale
follows from the release: τ² is the mean square of a coefficient under the posterior (a fixed point, as in empirical Bayes), and
t is `NUISANCE` times τ, and at least `LEAST`. Coefficients differ in size, so a multiple is used.

*A coefficient is determined* if its own information q·ℓ stands out of the noise in it by `RESOLVED` standard errors, and if
others leak into it by less than `SEPARATED`. Otherwise a bounded interval would be an artefact of the prior, and the interval is
the whole line. The error is widened by (1 − (1.96/z)²)^−½, z the number of those standard errors, as Fieller's interval of a
ratio is, because the information that an estimate is divided by is noisy too.

The constants were settled with the six public data sets of `benchmarks/coverage` in view, so those sets are no independent check
of them; its simulated set is. The methods that this follows are in docs/references.md#noise-aware. Everything is a function of
releases alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.stats import norm

from colonnade.errors import BadInput
from colonnade.estimation.linear_algebra import root_of

__all__ = [
    "Equations",
    "Inference",
    "OpenedScore",
    "ScoreNoise",
    "infer",
    "infer_with_responses",
    "quadratic_variances",
    "second_moment_covariance",
]

Array = NDArray[np.float64]

NUISANCE = 4.0
"""t/τ: how much larger than their root mean square the other coefficients may well be."""
LEAKING = 0.75
"""The part of t with which other coefficients count where they leak."""
LEAST = 0.4
"""The least t, in coded units: 1 is a coefficient that moves the target by half its range per half range of the column."""
NOISE_SCALE = 1.25
"""The scale of the prior, in units of τ, under which the noise in the equations is computed."""
RESOLVED = 3.0
"""How many standard errors the information about a coefficient must stand out of its own noise."""
SEPARATED = 0.25
"""How much of other coefficients, as a length, may leak into one that is called determined."""
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
    """Estimates of linear combinations of coefficients, their errors, and whether the releases determine them.

    Parameters
    ----------
    estimates
        One per combination. They are not shrunk; a model that predicts may use others.
    privacy, sampling
        The covariance that the noise of the releases causes, and the one that the sampling of people causes.
    determined
        False where the releases say nothing that can be told from the noise. The interval is then the whole line.
    dispersion
        The variance that the sampling errors rest on.

    Examples
    --------
    >>> import numpy as np
    >>> exact = Inference(np.array([2.0]), np.array([[0.09]]), np.array([[0.16]]), np.array([True]), 1.0)
    >>> exact.errors().round(2), exact.interval(0.95, total=False).round(2)
    (array([0.5]), array([[1.41, 2.59]]))
    """

    estimates: Array
    privacy: Array
    sampling: Array
    determined: NDArray[np.bool_]
    dispersion: float

    def __post_init__(self) -> None:
        size = len(self.estimates)
        for name in ("privacy", "sampling"):
            if getattr(self, name).shape != (size, size):
                raise BadInput("Covariances have one row and one column per estimate.")
        if self.determined.shape != (size,):
            raise BadInput("Every estimate is determined or it is not.")

    def covariance(self, *, total: bool = True) -> Array:
        """Return the covariance of the estimates; NaN in rows and columns that are not determined."""
        whole = self.privacy + self.sampling if total else self.privacy
        known = np.outer(self.determined, self.determined)
        return np.where(known, whole, np.nan)

    def errors(self, *, total: bool = True) -> Array:
        """Return standard errors; infinite where an estimate is not determined."""
        squared = np.diag(self.privacy + self.sampling if total else self.privacy)
        return np.where(self.determined, np.sqrt(np.maximum(squared, 0.0)), np.inf)

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
        """Return two-sided p-values of no effect in the population; NaN where an estimate is not determined."""
        errors = self.errors()
        ratio = np.divide(np.abs(self.estimates), errors, out=np.full_like(errors, np.inf), where=errors > 0)
        return np.where(self.determined & ((errors > 0) | (self.estimates != 0)), 2 * norm.sf(ratio), np.nan)

    def privacy_share(self) -> Array:
        """Return the part of each variance that privacy causes; NaN where there is no variance at all."""
        noise, both = np.diag(self.privacy), np.diag(self.privacy + self.sampling)
        share = np.divide(noise, both, out=np.full_like(both, np.nan), where=both > 0)
        return np.where(self.determined, share, np.nan)


def infer(equations: Equations, combinations: Array) -> Inference:
    """Return estimates and errors of linear combinations of coefficients.

    Parameters
    ----------
    equations
        What was opened, with the law of its noise.
    combinations
        One row q per quantity q·β. A row of zeros (the reference level of a category) is 0 and has no error.

    Examples
    --------
    Two columns, the second without any variation that could be told from the noise:

    >>> import numpy as np
    >>> noise = OpenedScore(np.eye(2), np.full((2, 2), 25.0), np.zeros(2))
    >>> equations = Equations(np.diag([900.0, 3.0]), np.array([450.0, 1.0]), noise, np.zeros(2, bool), lambda _: 1.0)
    >>> infer(equations, np.eye(2)).determined
    array([ True, False])
    """
    return infer_with_responses(equations, combinations)[0]


def infer_with_responses(equations: Equations, combinations: Array) -> tuple[Inference, Array]:
    """Return `infer`, and ℓ for each combination as one column: noise e in the equations moves the estimate by ℓ·e."""
    mean, covariance, scale = _noise_in_equations(equations)
    width = max(NUISANCE**2 * scale, LEAST**2)
    _, spread, weights = equations.posterior(covariance, equations.precision / width)
    moderate = equations.moderate
    own = np.einsum("ij,jk,ik->i", combinations, moderate, combinations)
    responses = weights @ _flat_along(combinations, spread, ~equations.free, width * own)
    estimates = responses.T @ equations.products
    leaks = equations.information @ responses - combinations.T
    leaked = leaks.T @ moderate @ leaks
    widening, resolved = _fieller(equations, combinations, responses)
    privacy = responses.T @ covariance @ responses + equations.leaking**2 * width * leaked
    dispersion = equations.dispersion(mean)
    sampling = dispersion * responses.T @ _positive_part(equations.information) @ responses
    separated = np.sqrt(np.maximum(np.diag(leaked), 0.0)) <= SEPARATED * np.sqrt(_lengths(combinations, own))
    inference = Inference(
        estimates=estimates,
        privacy=np.asarray(privacy * np.outer(widening, widening)),
        sampling=np.asarray(sampling),
        determined=(resolved & separated) | ~combinations.any(axis=1),
        dispersion=dispersion,
    )
    return inference, responses


def _lengths(combinations: Array, own: Array) -> Array:
    """Return the prior variance of each combination; of one of free coefficients alone, its squared length."""
    return np.where(own > 0, own, np.einsum("ij,ij->i", combinations, combinations))


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


def _fieller(equations: Equations, combinations: Array, responses: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return by how much noise in the information widens each error, and whether the information stands out of its noise."""
    information = np.einsum("ij,ji->i", combinations, responses)
    noise = np.sqrt(equations.noise.information_variance(responses))
    scores = np.divide(information, noise, out=np.full_like(noise, np.inf), where=noise > 0)
    scores = np.where((noise == 0) & (information <= 0), 0.0, scores)
    resolved = scores >= RESOLVED
    return 1 / np.sqrt(1 - np.where(resolved, WIDTH_95 / np.maximum(scores, RESOLVED), 0.0) ** 2), resolved


def _positive_part(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
