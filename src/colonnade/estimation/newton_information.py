"""What the releases of a Newton run say about the information matrix, and about the gradient.

*Two releases tell about the same matrix.* The weighted Gram matrix has noise of its own. The plain one, times the mean weight,
has less noise in many entries, and is off by as much as weights differ between people. Each entry is the mean of the two,
weighted by these variances. How much weights differ follows from all entries together (`weighted_information`).

*All gradients tell about the same estimate*, as far as the information is the same where they were opened
(`pooled_gradient`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import MEAN_WEIGHT, NewtonClass, OpenedGradient

__all__ = ["WeightedInformation", "pooled_gradient", "weighted_information"]

Array = NDArray[np.float64]

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
