"""Noisy second moments of thousands of columns, held once: components without a matrix being copied or decomposed.

A matrix of d columns is held as its upper triangle, in the upper half of a square whose lower half is never touched and so takes
no memory: 2 GB for 22,000 columns. The variance of its noise is not held at all. It has three values (between two parties, within
one, and on the diagonal), so sums over it have closed forms. Leading components come from products of the matrix with vectors
[Lanczos], as `colonnade.estimation.moments.pca_from_moments` has them from a whole decomposition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from colonnade.coding.columns import Feature, to_own_units
from colonnade.errors import BadInput
from colonnade.estimation.moments import ComponentsFit, Moments, deviations, orient, without_noise

__all__ = ["MOST_COMPONENTS", "MatrixNoise", "WideMoments", "pca_from_wide"]

Array = NDArray[np.float64]

MOST_COMPONENTS = 0.1
"""Above this share of the columns a whole decomposition is faster."""
PRECISION = 1e-10
"""Relative to the largest eigenvalue: far below the noise, and what makes equal releases give equal components."""


@dataclass(frozen=True, eq=False)
class MatrixNoise:
    """The variance of the noise in each entry of a Gram matrix, as three numbers. The constant column is not counted.

    Parameters
    ----------
    owners, columns
        For each coded column, who holds it and which column it codes, as numbers.
    between, within
        The variance of an entry between two parties, and inside one; on the diagonal twice the latter. Sums of columns have the
        latter, and products of two levels of one category, which are known, none.
    """

    owners: NDArray[np.int64]
    columns: NDArray[np.int64]
    between: float
    within: float

    @classmethod
    def of(cls, features: Sequence[Feature], between: float, within: float) -> "MatrixNoise":
        """Return the noise of a release whose coded columns are these, without the constant one."""
        owners = np.unique([feature.party for feature in features], return_inverse=True)[1]
        columns = np.unique([feature.column for feature in features], return_inverse=True)[1]
        return cls(owners.reshape(-1), columns.reshape(-1), between, within)

    def times(self, weights: Array) -> Array:
        """Return the matrix of variances times a vector."""
        held = np.bincount(self.owners, weights)[self.owners]
        known = np.bincount(self.columns, weights)[self.columns] - weights
        return np.asarray(self.between * (weights.sum() - held) + self.within * (held + weights - known))

    @property
    def mean(self) -> float:
        """The average over all entries."""
        ones = np.ones(len(self.owners))
        return float(self.times(ones).mean() / len(ones))

    def quadratic(self, direction: Array, constant: float) -> float:
        """Return the variance of dᵀEd, the constant column's part of the direction given by itself."""
        squared, first = direction**2, constant**2
        whole = squared @ self.times(squared) + 2 * first * self.within * squared.sum()
        return float(2 * whole - 2 * self.within * (squared @ squared))


@dataclass(frozen=True, eq=False)
class WideMoments:
    """One noisy matrix of sums of products, as `Moments`, of columns that are too many for several matrices.

    Parameters
    ----------
    matrix
        The upper triangle of the sums of products of coded columns, without the constant one. Below the diagonal it is 0.
    sums
        The sums of the coded columns.
    noise
        The variance of every entry.
    count
        The public number of people.
    features
        What the columns are; the first is the constant one.
    """

    matrix: Array
    sums: Array
    noise: MatrixNoise
    count: int
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        size = len(self.features) - 1
        if self.matrix.shape != (size, size) or self.sums.shape != (size,) or not self.matrix.flags.c_contiguous:
            raise BadInput("Moments are square matrices with one row and one column per feature.")

    @classmethod
    def of_release(
        cls, matrix: Array, sums: Array, noise: MatrixNoise, count: int, features: Sequence[Feature]
    ) -> "WideMoments":
        """Return the moments of a release. Products of two levels of one category are exactly 0, and are made so in place."""
        starts = np.flatnonzero(np.diff(noise.columns, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(noise.columns)], strict=True):
            if stop - start > 1:
                block = matrix[start:stop, start:stop]
                block[...] = np.diag(np.diag(block))
        return cls(matrix, sums, noise, count, tuple(features))

    @cached_property
    def means(self) -> Array:
        """The means of the coded columns."""
        return self.sums / self.count

    def times(self, vector: Array) -> Array:
        """Return the symmetric matrix times a vector."""
        return np.asarray(dsymv(1.0, self.matrix.T, vector, lower=1))

    def dense(self) -> Moments:
        """Return the same moments as whole matrices, the constant column among them."""
        size = len(self.features)
        matrix, variance = np.empty((size, size)), np.empty((size, size))
        matrix[1:, 1:] = self.matrix + np.triu(self.matrix, 1).T
        matrix[0, 1:] = matrix[1:, 0] = self.sums
        same = self.noise.owners[:, None] == self.noise.owners
        variance[1:, 1:] = np.where(same, self.noise.within, self.noise.between)
        np.fill_diagonal(variance, 2 * self.noise.within)
        variance[0, 1:] = variance[1:, 0] = self.noise.within
        return Moments.of_release(matrix, variance, self.count, self.features)


def pca_from_wide(moments: WideMoments, n_components: int, *, standardise: bool = False) -> ComponentsFit:
    """Return the leading components of all columns; everything else as in `pca_from_moments`.

    Centring and scaling are done on the way: (D(M − n·m·mᵀ)D)x is a product of M with one vector, and a few with others.
    """
    features, count, means, noise = moments.features[1:], moments.count, moments.means, moments.noise
    diagonal = np.diag(moments.matrix) - count * means**2
    size = len(features)
    scales = deviations(diagonal, np.full(size, 2 * noise.within), count) if standardise else np.ones(size)

    def centred(vector: Array) -> Array:
        scaled = np.ravel(vector) / scales
        return np.asarray((moments.times(scaled) - count * means * (means @ scaled)) / scales)

    values, vectors = _largest(centred, size, n_components)
    vectors, people = orient(vectors), max(count - 1, 1)
    width = float(2 * np.sqrt(np.max(noise.times(scales**-2.0) / scales**2)))
    explained = without_noise(values, width) / people
    directions = vectors / scales[:, None]
    errors = [noise.quadratic(one, float(means @ one)) for one in directions.T]
    total = float((diagonal / scales**2).sum()) / people
    return ComponentsFit(
        names=tuple(feature.name for feature in features),
        components=vectors.T,
        explained_variance=explained,
        explained_variance_error=np.sqrt(errors) / people,
        means=to_own_units(means, features),
        coded_means=means,
        significant=int(np.sum(values > width)),
        noise_floor=width / people,
        scales=scales,
        total_variance=max(total, float(explained.sum())),
    )


def _largest(product: object, size: int, count: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues, the largest first, and their vectors. It starts from a fixed vector, so that it repeats."""
    start = np.cos(np.arange(1.0, size + 1.0))  # in no column's direction
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        values, vectors = eigsh(
            operator, k=count, which="LA", v0=start, ncv=min(size, max(4 * count, 60)), tol=PRECISION
        )
    except ArpackNoConvergence:
        raise BadInput(
            "The components of this matrix cannot be told apart.", remedy="Ask for fewer components."
        ) from None
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]
