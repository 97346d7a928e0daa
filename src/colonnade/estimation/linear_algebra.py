"""Linear algebra of matrices that noise or rounding has made singular or indefinite: what is still known of them."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST = 1e-12
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
        possible = np.maximum(values, LEAST * values[-1])
        return np.asarray(np.linalg.qr((vectors * np.sqrt(possible)).T * sizes).R.T)
