"""How the noise of a released matrix of moments spreads through what is computed from it (first order, "delta method").

With E the symmetric noise matrix, entries independent on and above the diagonal with variances V, the products E·a are
correlated in a way that has a closed form; a coefficient's standard error is a quadratic form in it.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["operator_norm", "product_covariance", "quadratic_variance"]

Array = NDArray[np.float64]


def product_covariance(variance: Array, left: Array, right: Array) -> Array:
    """Return Cov((E·left)_i, (E·right)_j).

    Entry (i, j) shares one noise variable off the diagonal, V_ij·left_j·right_i, and a whole row on it.
    """
    covariance = variance * np.outer(right, left)
    np.fill_diagonal(covariance, variance @ (left * right))
    return covariance


def quadratic_variance(variance: Array, direction: Array) -> float:
    """Return the variance of dᵀEd for a fixed direction d: each pair is drawn once and counted twice."""
    squared = direction**2
    diagonal = np.diag(variance)
    return float(2 * squared @ variance @ squared - diagonal @ squared**2)


def operator_norm(variance: Array) -> float:
    """Return the typical largest eigenvalue of the noise: 2·√(largest row sum of the variances).

    For equal variances V/2 off the diagonal this is the 2·σ√d of a Gaussian orthogonal matrix; for unequal ones it is
    an upper estimate.
    """
    return float(2 * np.sqrt(np.max(variance.sum(axis=1))))
