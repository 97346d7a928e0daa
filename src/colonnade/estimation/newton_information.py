"""What the releases of a Newton run say about the information matrix, and about the sums that it is made of.

*Two releases tell about the same matrix.* The weighted Gram matrix has noise of its own. The plain one, times the mean weight,
has less noise in many entries, and is off by as much as weights differ between people. Each entry is the mean of the two,
weighted by these variances. How much weights differ follows from all entries together (`weighted_information`).

*Levels add up.* Everybody has exactly one level of a category that has no missing values. So its columns add up to the constant
one, in every release. What was opened has more columns than can be told apart, and least squares makes one matrix, and one
gradient, of them that obeys these sums (`level_sums`). Without it the information about the level that others are compared with
would be a small difference of large noisy numbers: that decides whether a coefficient is determined. Whether values are missing
is seen in the release: levels whose counts miss the number of people by more than noise are left as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import free_coefficients
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import MEAN_WEIGHT, NewtonClass, OpenedGradient

__all__ = ["WeightedInformation", "level_sums", "pooled_gradient", "weighted_information"]

Array = NDArray[np.float64]

MISSING = 4.0
"""How many standard errors the counts of a category must be short of the number of people for values to be missing."""
CHANGE = 1.0
"""By which part weights change per log-odds that scores move, where the slope is that of another place."""
SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class WeightedInformation:
    """The information matrix as well as it is known.

    Parameters
    ----------
    matrix
        Over all coded columns, the constant first.
    variance
        Of the noise in each entry, independent on and above the diagonal.
    """

    matrix: Array
    variance: Array


def weighted_information(found: NewtonClass) -> WeightedInformation:
    """Return the information matrix at the start, from the opened curvature and the moments together.

    Parameters
    ----------
    found
        What the rounds came to.
    """
    moments = found.moments
    columns = np.array([feature.column for feature in moments.features])
    diagonal = np.eye(len(columns), dtype=bool)
    known = (columns[:, None] == columns[None, :]) & ~diagonal
    gram, gram_variance = (np.where(known, 0.0, one) for one in (moments.matrix, moments.variance))
    if found.curvature is None:
        return WeightedInformation(MEAN_WEIGHT * gram, MEAN_WEIGHT**2 * gram_variance + (MEAN_WEIGHT / 2 * gram) ** 2)
    opened = np.where(known, 0.0, found.curvature)
    noise = np.where(known, 0.0, found.curvature_variance * (1 + diagonal))
    factor = float(np.sum(opened * gram) / max(float(np.sum(gram * gram)), SMALLEST))
    apart = opened - factor * gram
    size = (factor * _sizes(moments)) ** 2
    other = factor**2 * gram_variance
    excess = max(float(np.sum(apart**2 - noise - other)), 0.0) / max(
        float(np.sum(np.where(known, 0.0, size))), SMALLEST
    )
    other = other + excess * size
    kept = np.where(known, 0.0, other / np.maximum(other + noise, SMALLEST))
    return WeightedInformation(factor * gram + kept * apart, kept * noise)


def _sizes(moments: Moments) -> Array:
    """Return how large sums of products of two columns' magnitudes are, if columns are unrelated; on the diagonal the squares."""
    people = moments.count
    levels = np.array([feature.kind == "level" for feature in moments.features])
    squares = np.clip(np.diag(moments.matrix), 1.0, people)
    sizes = np.where(levels, np.clip(moments.matrix[0], 1.0, people) / people, np.sqrt(squares / people))
    return np.where(np.eye(len(sizes), dtype=bool), np.diag(squares), people * np.outer(sizes, sizes))


def level_sums(moments: Moments) -> Array:
    """Return the map from sums over all coded columns to those over columns that can be told apart, by least squares.

    One row per free coefficient (`free_coefficients`, the constant last), one column per coded column, the constant first.

    Examples
    --------
    >>> from colonnade import Category, Numeric
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
    into = np.zeros(rows.T.shape)
    into[:, used] = np.linalg.pinv(rows[used])
    return into


def _is_complete(moments: Moments, places: Sequence[int]) -> bool:
    short = moments.count - float(moments.matrix[0, places].sum())
    noise = float(np.sqrt(moments.variance[0, places].sum()))
    return abs(short) <= MISSING * noise + 1e-9 * moments.count


def pooled_gradient(found: NewtonClass, information: WeightedInformation) -> OpenedGradient:
    """Return one gradient that stands for all: the mean of the opened ones, at the mean of their weights.

    A gradient at b is H·(b − b*) plus noise, with b* what is sought. So means of gradients belong to means of weights, as far as
    H is the same. Each counts by its precision: the noise, what H changes on the way to the end, and what noise in H does over
    that distance.

    Parameters
    ----------
    found
        What the rounds came to.
    information
        H.
    """
    matrix, blur = information.matrix, float(information.variance.mean())
    if not found.gradients:  # all were lost: nothing is known
        return OpenedGradient(found.start, np.zeros_like(found.start), float(np.max(np.abs(matrix))) ** 2)
    variances = []
    for one in found.gradients:
        moved = one.weights - found.weights
        change = matrix @ moved
        squared = max(float(moved @ change), 0.0) / max(float(matrix[0, 0]), 1.0)
        bent = CHANGE**2 * squared * float(np.mean(change**2))
        variances.append(one.variance + bent + blur * float(moved @ moved))
    precisions = 1 / np.array(variances)
    shares = precisions / precisions.sum()
    return OpenedGradient(
        np.asarray(shares @ np.array([one.weights for one in found.gradients])),
        np.asarray(shares @ np.array([one.values for one in found.gradients])),
        float(1 / precisions.sum()),
    )
