"""How far noise is expected to carry a gradient descent, before anybody has looked at data.

Where no score is clipped, steps are linear in the weights: what noise adds to a path follows the same recursion as the path
itself, whatever the path is, with the curvature H = ¼·E[xxᵀ]. Privacy noise is alike in all directions, and the noise of
taking batches instead of everybody has a covariance proportional to H, so both fall apart along the eigenvectors of H. Along
each of them a weight, its velocity and its average are three numbers whose covariance is carried through all steps, exactly.
*Typical columns* (`colonnade.estimation.typical_moments`) stand in for H.
"""

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import Feature
from colonnade.estimation.optimisers import Average, Sgd
from colonnade.estimation.typical_moments import typical_matrix

__all__ = ["expected_prediction_error"]

Array = NDArray[np.float64]

RESIDUAL = 0.15
"""The mean square of a person's slope, (z − 2s)²/16, where two fifths of a class are explained."""


def expected_prediction_error(
    features: tuple[Feature, ...],
    people: int,
    *,
    steps: int,
    rate: float,
    deviation: float,
    optimiser: Sgd,
    spread: float,
) -> float:
    """Return the root mean square by which noise moves a score of somebody like those who took part, in log-odds.

    Parameters
    ----------
    features
        The coded columns, the constant one first.
    people, steps, rate
        How many people, T, and the share of people in a batch.
    deviation
        Of the privacy noise in a coordinate of a step's mean gradient.
    optimiser
        Its learning rate and momentum.
    spread
        The variance of a typical number mapped to [−1, 1].
    """
    matrix = typical_matrix(features, people, spread=spread) / people
    means = matrix[0]
    values, vectors = np.linalg.eigh(matrix / 4)
    sampled = RESIDUAL * 4 * np.maximum(values, 0.0) * (1 - rate) / (rate * people)
    variances = _carried(np.maximum(values, 0.0), deviation**2 + sampled, steps, optimiser)
    seen = np.einsum("ij,ik,kj->j", vectors, matrix - np.outer(means, means), vectors)
    return float(np.sqrt(np.sum(variances * np.maximum(seen, 0.0))))


def _carried(curvatures: Array, noise: Array, steps: int, optimiser: Sgd) -> Array:
    """Return the variance of the averaged weight along each direction after all steps."""
    rate, momentum, decay = optimiser.learning_rate, optimiser.momentum, Average().decay
    covariance = np.zeros((len(curvatures), 3, 3))
    for step in range(1, steps + 1):
        part = (decay + 1) / (step + decay)
        stepped = np.stack(
            [1 - rate * curvatures, np.full_like(curvatures, -rate * momentum), np.zeros_like(curvatures)]
        )
        velocity = np.stack([curvatures, np.full_like(curvatures, momentum), np.zeros_like(curvatures)])
        averaged = part * stepped + np.array([[0.0], [0.0], [1 - part]])
        move = np.stack([stepped, velocity, averaged]).transpose(2, 0, 1)
        kick = np.array([-rate, 1.0, -part * rate])
        covariance = move @ covariance @ move.transpose(0, 2, 1) + noise[:, None, None] * np.outer(kick, kick)
    return np.asarray(covariance[:, 2, 2])
