"""What the weighted Gram matrix of a logistic model should be, from the plain one: a model of how scores spread.

The information of a logistic model at weights b is Σ w(z)·x·xᵀ over people, with z a person's score and w = P·(1 − P). The plain
Gram matrix tells means and covariances of columns and scores. So it tells which scores the people of a level have on average, and
how scores move with a number. If scores are normal around these means, the weighted sums follow in closed form::

    level i and level k        count of both · E[w]
    level i and number k       sum of both · E[w] + count · Cov(x_k, z | i) · E[w′]
    numbers i and k            sum of both · E[w] + people · (μ_i·Cov(x_k, z) + μ_k·Cov(x_i, z)) · E[w′]

(Stein's identity; the constant is a number without variance.) E is over a score that is normal around the mean of those who have
both levels. A plain multiple of the Gram matrix would give everybody the same weight, which is off by a factor of two and more
for levels whose people are seldom or mostly positive. On the four sets of benchmarks/newton this model is off by 4 to 9 % at
ε = 1, where a multiple is off by 11 to 27 %.

Everything here is a function of a release and of public weights.
"""

import numpy as np
from numpy.typing import NDArray

from colonnade.estimation.moments import Moments

__all__ = ["expected_information", "mean_weights"]

Array = NDArray[np.float64]

NODES, MASS = np.polynomial.hermite_e.hermegauss(24)
MASS = MASS / MASS.sum()
LEAST_VARIANCE = 0.01
"""The least variance of scores, in squared log-odds."""
LEAST_WITHIN = 0.1
"""The least part of the variance of scores that is left among people of one level, or of two."""
FARTHEST = 3.0
"""How many standard deviations of all scores, and one log-odds more, the people of a level are from the mean at most."""
MOST_ALIKE = 0.95
"""The largest correlation of two levels that is told from 1."""


def mean_weights(means: Array, variances: Array) -> tuple[Array, Array]:
    """Return the means of w and of its slope w′ over scores that are normal.

    Examples
    --------
    >>> weight, slope = mean_weights(np.array([0.0]), np.array([0.0]))
    >>> weight.round(3), slope.round(3)
    (array([0.25]), array([0.]))
    """
    scores = means[..., None] + np.sqrt(variances)[..., None] * NODES
    chances = 1 / (1 + np.exp(-np.clip(scores, -30, 30)))
    weights = chances * (1 - chances)
    return np.asarray(weights @ MASS), np.asarray((weights * (1 - 2 * chances)) @ MASS)


def expected_information(moments: Moments, weights: Array) -> tuple[Array, Array]:
    """Return the information matrix that moments lead one to expect, and the variance that their noise gives each entry.

    Parameters
    ----------
    moments
        A release of the columns, the constant first.
    weights
        One per column.

    Examples
    --------
    Half of the people have the level, and its coefficient is 4:

    >>> from colonnade import Category
    >>> from colonnade.coding.columns import features_of
    >>> features = features_of({"a.plan": Category(["basic", "gold"])})
    >>> moments = Moments(np.array([[90.0, 45, 45], [45, 45, 0], [45, 0, 45]]), np.zeros((3, 3)), 90, features)
    >>> matrix, _ = expected_information(moments, np.array([0.0, 0.0, 4.0]))
    >>> (np.diag(matrix) / np.diag(moments.matrix)).round(2)
    array([0.11, 0.23, 0.02])
    """
    people, gram = moments.count, moments.matrix
    levels = np.array([feature.kind == "level" for feature in moments.features])
    columns = np.array([feature.column for feature in moments.features])
    means = gram[0] / people
    shares = np.where(levels, np.clip(means, 1 / people, 1.0), 1.0)
    moved = (gram / people - np.outer(means, means)) @ weights  # the covariance of each column and the score
    variance = max(float(weights @ moved), LEAST_VARIANCE)
    noise = (weights**2 @ moments.variance) / (people * shares) ** 2
    farthest = 1 + FARTHEST * np.sqrt(variance)
    apart = np.where(levels, np.clip(moved / shares * variance / (variance + noise), -farthest, farthest), 0.0)
    explained, within = np.zeros_like(apart), np.tile(moved, (len(apart), 1))
    for column in dict.fromkeys(columns[levels]):
        at = np.flatnonzero(columns == column)
        parts = shares[at] * apart[at]
        explained[at] = parts @ apart[at]
        within[at] = moved - parts @ (gram[at] / (people * shares[at])[:, None] - means)
    single = (columns[:, None] == columns) | ~(levels[:, None] & levels)
    joint = np.where(single, 0.0, _correlations(moments, shares))
    left = variance - explained[:, None] - np.where(columns[:, None] == columns, 0.0, (1 - joint**2) * explained)
    both = np.where(single, apart[:, None] + np.where(levels[:, None], 0.0, apart), _of_both(apart, shares, joint))
    centres = float(means @ weights) + np.clip(both, -farthest, farthest)
    weight, slope = mean_weights(centres, np.maximum(left, LEAST_WITHIN * variance))
    bent = np.where(levels[:, None] & ~levels, people * shares[:, None] * slope * within, 0.0)
    numbers = np.where(levels[:, None] | levels, 0.0, people * slope * np.outer(means, moved))
    bent = bent + numbers
    hidden = np.where(
        levels, variance * noise / (variance + noise), 0.0
    )  # what stays unknown of where a level's people are
    unknown = (gram * slope) ** 2 * (hidden[:, None] + np.where(columns[:, None] == columns, 0.0, hidden))
    return np.asarray(weight * gram + bent + bent.T), np.asarray(weight**2 * moments.variance + unknown)


def _correlations(moments: Moments, shares: Array) -> Array:
    """Return how levels of different columns go together, as far as noise does not explain it."""
    spread = np.sqrt(shares * (1 - shares) + 1 / moments.count)
    scale = moments.count * np.outer(spread, spread)
    found = (moments.matrix - moments.count * np.outer(shares, shares)) / scale
    trust = np.clip(1 - moments.variance / scale**2 / np.maximum(found**2, 1e-12), 0.0, 1.0)
    return np.asarray(np.clip(trust * found, -MOST_ALIKE, MOST_ALIKE))


def _of_both(apart: Array, shares: Array, joint: Array) -> Array:
    """Return how far from the mean those are who have two levels, if the two act together as in least squares.

    Where one level lies within the other, it alone counts. Where they are independent, both do.
    """
    reach = np.maximum(np.sqrt((1 - shares) / shares), 1e-3)
    slopes = apart / reach
    alone = slopes[:, None] - joint * slopes
    return np.asarray((alone * reach[:, None] + alone.T * reach) / (1 - joint**2))
