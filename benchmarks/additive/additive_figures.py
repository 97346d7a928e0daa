"""How good predictions of an event are. It imports nothing of the library, so that peers in a Python of their own use it too."""

import numpy as np
from sklearn.metrics import brier_score_loss, roc_auc_score

__all__ = ["figures", "parts"]

BINS = 10


def figures(chance: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return the area under the curve, the Brier score, and the mean distance of chances from shares in ten equal bins."""
    chance = np.clip(chance, 0.0, 1.0)
    bins = np.minimum((BINS * chance).astype(int), BINS - 1)
    apart = [abs(chance[bins == b].mean() - labels[bins == b].mean()) * np.mean(bins == b) for b in set(bins.tolist())]
    return {
        "auc": float(roc_auc_score(labels, chance)),
        "brier": float(brier_score_loss(labels, chance)),
        "calibration": float(sum(apart)),
    }


def parts(people: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return who is fitted on, four fifths, and who is left out."""
    order = np.random.default_rng(seed).permutation(people)
    cut = int(0.8 * people)
    return order[:cut], order[cut:]
