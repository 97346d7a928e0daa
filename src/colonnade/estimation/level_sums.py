"""Levels add up: what releases of all levels say about the columns that can be told apart.

Everybody has exactly one level of a category that has no missing values. So its columns add up to the constant one, and so do
all sums of products with them. What is opened has more columns than can be told apart, each with noise of its own. Least squares
makes sums over the columns that can be told apart of it, which obey these equations. To leave one level out instead would lose
what its columns tell. The information about that level, with which the others are compared, would be a small difference of large
noisy numbers.

Whether values are missing is seen in the release: levels whose counts miss the number of people by more than noise are left as
they are, without their first one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import free_coefficients
from colonnade.estimation.moments import Moments

__all__ = ["level_sums"]

Array = NDArray[np.float64]

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
    >>> from colonnade.coding.columns import features_of
    >>> features = features_of({"a.plan": Category(["basic", "gold"])})
    >>> moments = Moments(np.array([[9.0, 6, 3], [6, 6, 0], [3, 0, 3]]), np.zeros((3, 3)), 9, features)
    >>> (level_sums(moments) @ [9.0, 6.0, 3.0]).round(9)
    array([3., 9.])
    """
    columns = list(moments.features[1:])
    free = free_coefficients(columns)
    rows = np.vstack([free[-1], free[:-1]])
    used = np.ones(len(rows), dtype=bool)
    for column in dict.fromkeys(feature.column for feature in columns if feature.kind == "level"):
        first, *others = [place for place, feature in enumerate(moments.features) if feature.column == column]
        if _is_complete(moments, [first, *others]):
            rows[first] = rows[0] - rows[others].sum(axis=0)
        else:
            used[first] = False
    weights = np.ones(len(rows))
    weights[0] = constant
    into = np.zeros(rows.T.shape)
    root = np.sqrt(weights[used])
    into[:, used] = np.linalg.pinv(root[:, None] * rows[used]) * root
    return into


def _is_complete(moments: Moments, places: Sequence[int]) -> bool:
    short = moments.count - float(moments.matrix[0, places].sum())
    noise = float(np.sqrt(moments.variance[0, places].sum()))
    return abs(short) <= MISSING * noise + 1e-9 * moments.count
