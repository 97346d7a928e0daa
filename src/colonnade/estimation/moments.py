"""Second moments of all columns from one release of the secure Gram channel (paper 002), as every estimator reads them.

The coordinator holds a noisy symmetric matrix of sums of products of *coded* columns, how noisy each entry is, and
nothing else. Whatever is computed from it is post-processing and costs nothing more. Coding is public
(`colonnade.coding.features`): a two-level category may become a single ±1 column (half the noise variance of two
indicators), and a constant column of ones comes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import Feature
from colonnade.errors import BadInput

__all__ = ["Moments", "row_bound"]

Array = NDArray[np.float64]
SYMMETRY_TOLERANCE = 1e-9


def row_bound(features: Sequence[Feature]) -> int:
    """Return B: the squared length of any coded row is at most the number of columns, however many levels they have.

    A number, a one-hot group of any size, a sign and the intercept each contribute at most 1 (`privacy.md` §1.5).
    """
    return len({feature.column for feature in features})


@dataclass(frozen=True, eq=False)
class Moments:
    """One noisy matrix of sums of products, and what is known about its noise.

    Parameters
    ----------
    matrix
        Symmetric, in coded units: entry (i, j) estimates the sum over people of column i times column j.
    variance
        The variance of the noise in each entry; 0 where the entry is known exactly.
    count
        The public number of people.
    features
        What the columns are; the first is `INTERCEPT`.
    """

    matrix: Array
    variance: Array
    count: int
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        for name in ("matrix", "variance"):
            object.__setattr__(self, name, _square(getattr(self, name), len(self.features)))
        if np.any(self.variance < 0):
            raise BadInput("A variance of noise is never negative.")
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise BadInput("The number of people must be a positive whole number.")
        if self.features[0].kind != "intercept" or sum(f.kind == "intercept" for f in self.features) != 1:
            raise BadInput("The first column of moments, and no other, is the intercept.")
        if len({feature.name for feature in self.features}) != len(self.features):
            raise BadInput("The columns of moments must have different names.")

    @classmethod
    def of_release(cls, matrix: Array, variance: Array, count: int, features: Sequence[Feature]) -> "Moments":
        """Read a release, and replace by the truth what the coding already says.

        Products of two levels of one category are exactly 0, and the intercept times itself is the number of people.
        """
        columns = np.array([feature.column for feature in features])
        known = (columns[:, None] == columns[None, :]) & ~np.eye(len(columns), dtype=bool)
        matrix, variance = np.where(known, 0.0, matrix), np.where(known, 0.0, variance)
        matrix[0, 0], variance[0, 0] = count, 0.0
        return cls(matrix, variance, count, tuple(features))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns coded here, without the intercept, in order."""
        return tuple(dict.fromkeys(feature.column for feature in self.features[1:]))

    def places(self, columns: Sequence[str] | None = None) -> NDArray[np.intp]:
        """Return the indices that code the given columns (all by default), in the order of the matrix."""
        wanted = set(self.columns if columns is None else columns)
        missing = sorted(wanted - set(self.columns))
        if missing or not wanted:
            raise BadInput(
                f"The release does not hold {', '.join(map(repr, missing))}."
                if missing
                else "No column was asked for.",
                remedy=f"It holds {', '.join(self.columns)}.",
            )
        return np.array([place for place, feature in enumerate(self.features) if feature.column in wanted])

    def select(self, columns: Sequence[str]) -> "Moments":
        """Return the moments of some of the columns alone."""
        places = np.concatenate([[0], self.places(columns)])
        block = np.ix_(places, places)
        return Moments(
            self.matrix[block], self.variance[block], self.count, tuple(self.features[place] for place in places)
        )


def _square(values: object, size: int) -> Array:
    array = np.array(values, dtype=np.float64)
    if size < 2 or array.shape != (size, size) or not np.all(np.isfinite(array)):
        raise BadInput("Moments are finite square matrices with one row and column a feature, at least two.")
    scale = float(np.max(np.abs(array)))
    if np.max(np.abs(array - array.T)) > SYMMETRY_TOLERANCE * scale:
        raise BadInput("A matrix of moments must be symmetric.", remedy="Measure each pair once and mirror it.")
    array.setflags(write=False)
    return array
