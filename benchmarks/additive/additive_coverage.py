"""How often intervals of shapes cover what the same people give without noise."""

import numpy as np
from additive_sets import Joined

from colonnade.estimation.additive import centring, marginal_shapes
from colonnade.estimation.shape_belief import AdditiveFit, ShapePrior, TargetCounts

__all__ = ["covered", "marginal_without_noise", "without_noise"]

REACH = 1.96
EXACT = 1e-6
"""The variance of counts without noise."""


def without_noise(data: Joined, found: AdditiveFit) -> np.ndarray:
    """Return the penalised maximum of the likelihood."""
    rows, labels, spread = data.rows, data.labels, found.believed
    base = np.zeros(rows.shape[1])
    base[0] = np.log(labels.mean() / (1 - labels.mean()))
    weights = base.copy()
    for _ in range(60):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows
        slope = rows.T @ (chance - labels)
        aim = spread @ (bend @ (weights - base) - slope)
        step = base + np.linalg.solve(spread @ bend + np.eye(len(base)), aim) - weights
        weights = weights + step * min(1.0, 8.0 / max(float(np.abs(rows @ step).max()), 1e-9))
        if np.abs(step).max() < 1e-8:
            break
    return weights


def marginal_without_noise(data: Joined, found: AdditiveFit) -> np.ndarray:
    """Return what each column tells by itself on the same people, times the slope that was found."""
    prior, people = ShapePrior.of(data.features, data.columns), data.rows.sum(axis=0)
    exact = marginal_shapes(prior, data.features, TargetCounts(people, data.rows.T @ data.labels, EXACT)).weights
    centred = centring(data.features, found.people)
    told = centred @ marginal_shapes(prior, data.features, found.tables).weights
    slope = float(told[1:] @ (centred @ found.weights)[1:] / (told[1:] @ told[1:]))
    return np.append(found.weights[0], slope * exact[1:])


def covered(data: Joined, found: AdditiveFit) -> tuple[int, int]:
    """Return how many determined effects are covered, and how many there are."""
    centred = centring(data.features, found.people)
    aim = marginal_without_noise if isinstance(found.tables, TargetCounts) else without_noise
    apart = np.abs(centred @ (found.weights - aim(data, found)))
    error = np.sqrt(np.diag(centred @ found.covariance @ centred.T))
    determined = found.determined_in(centred, 1.0)
    determined[0] = False
    inside = apart[determined] <= REACH * error[determined]
    return int(inside.sum()), int(determined.sum())
