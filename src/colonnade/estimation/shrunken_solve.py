"""Normal equations with a noisy matrix, solved without ever drawing again (`privacy.md` §5.5, done differently).

A noisy Gram matrix can be indefinite, and its small eigenvalues are mostly noise. Instead of a fixed ridge we shrink
each eigen-direction by what the known noise variances say about it. With C = U·diag(e)·Uᵀ the noisy centred matrix,
f = max(e, 0) (+ ridge) and u = Uᵀc, the model is ``u_k = f_k·β_k + noise`` with ``β ~ N(0, τ²)``. The noise of c has a
variance a_k, and that of C, times coefficients of variance τ², has τ²·b_k. The posterior mean

    β_k = u_k · f_k / (f_k² + b_k + a_k/τ²)

drops non-positive directions, leaves strong ones alone and is never steeper than 1/(2√b_k): √b is the σ√d at which
random-matrix theory puts the edge of the noise. It needs one number, τ², over which we average by its likelihood given
u (flat in ln τ²). Putting the fitted weights instead of τ² into the noise of C looks sharper but can cycle between
weights that are far too large and none at all, where complete one-hot groups leave a direction of pure noise.

Everything is a function of the release alone. Without noise it is least squares (of least norm where columns are
collinear), or ridge regression.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.noise_propagation import product_covariance

__all__ = ["NormalEquations", "Solution"]

Array = NDArray[np.float64]
PRIOR_VARIANCES = np.exp(np.linspace(np.log(1e-6), np.log(1e3), 161))
"""Candidates for τ². Coded columns lie in [−1, 1], so that coefficients from 0.001 to 30 cover what can matter."""
RANK_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Solution:
    """Coded weights and intercept of one target, with what is needed to say how sure they are.

    Parameters
    ----------
    weights, intercept
        In coded units.
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

    Parameters
    ----------
    moments
        The release.
    places
        Which of its columns are the features.
    means
        Their estimated means, in coded units.
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
            raise BadInput("A model needs at least one feature besides its target.")
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
            raise BadInput("A ridge penalty must be finite and at least 0.")
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
