"""The maximum-likelihood estimate of a set, how near weights are to it, and how good predictions are."""

import numpy as np
from newton_sets import Joined
from sklearn.metrics import brier_score_loss, roc_auc_score

LARGEST_ERROR = 3.0


def maximum_likelihood(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the maximum-likelihood weights; of least norm where they are not unique."""
    weights = np.zeros(rows.shape[1])
    for _ in range(60):
        chance = sigmoid(rows @ weights)
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows + 1e-8 * np.eye(len(weights))
        step = np.linalg.solve(bend, rows.T @ (chance - labels) + 1e-8 * weights)
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """Return probabilities."""
    return 1 / (1 + np.exp(-np.clip(scores, -30, 30)))


def contrasts(data: Joined) -> np.ndarray:
    """Return the map from weights of all levels to coefficients against each category's first level."""
    found, first, constant = [], {}, np.zeros(len(data.features))
    constant[0] = 1.0
    for place, feature in enumerate(data.features[1:], start=1):
        row = np.zeros(len(data.features))
        row[place] = 1.0
        if feature.kind == "level" and feature.column not in first:
            first[feature.column], constant[place] = place, 1.0
            continue
        if feature.kind == "level":
            row[first[feature.column]] = -1.0
        found.append(row)
    return np.vstack([constant, *found])


class Nearness:
    """How far weights are from the maximum-likelihood estimate, in sampling errors."""

    def __init__(self, data: Joined) -> None:
        self._map = contrasts(data)
        self.best = maximum_likelihood(data.exact_rows, data.labels)
        chance = sigmoid(data.exact_rows @ self.best)
        rows = data.exact_rows @ np.linalg.pinv(self._map)
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows + 1e-9 * np.eye(rows.shape[1])
        self._errors = np.sqrt(np.diag(np.linalg.inv(bend)))

    def largest(self, weights: np.ndarray) -> float:
        """Return the largest distance of an identified coefficient."""
        away = np.abs(self._map @ (weights - self.best)) / self._errors
        return float(away[self._errors < LARGEST_ERROR].max())


def figures(data: Joined, weights: np.ndarray) -> dict[str, float]:
    """Return how good predictions are."""
    chance = sigmoid(data.rows @ weights)
    bins = np.minimum((10 * chance).astype(int), 9)
    apart = [abs(chance[bins == b].mean() - data.labels[bins == b].mean()) * np.mean(bins == b) for b in set(bins)]
    return {
        "auc": float(roc_auc_score(data.labels, chance)),
        "accuracy": float(np.mean((chance > 0.5) == data.labels)),
        "brier": float(brier_score_loss(data.labels, chance)),
        "calibration": float(sum(apart)),
    }
