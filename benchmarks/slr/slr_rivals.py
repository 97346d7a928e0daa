"""What SLR is measured against: central DPSGD, Frank–Wolfe with a noisy choice, perturbed rows, and no privacy at all.

All of them see the same coded columns with the same public bounds, and are accounted by the same code. Their noise is numpy's:
for measuring accuracy only. Learning rates, clipping norms and radii are the best of a few on the first split, without charge,
which favours them.
"""

import math
import warnings

import numpy as np
from benchmarks.slr.slr_sets import DELTA, Matrix
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from colonnade.papers.estimation import IterateAverage, Sgd
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import largest_step_rho, ledger_rho

CHOICES = tuple((clip, rate) for clip in (1.0, 2.0) for rate in (0.02, 0.05, 0.1, 0.2))
RADII = (4.0, 8.0, 16.0)


def dpsgd(train: Matrix, epsilon: float, steps: int, rate: float, choice: tuple[float, float], seed: int) -> np.ndarray:
    """Central DPSGD [Abadi 2016]: true logistic gradients, each clipped, on secret Poisson batches; our optimiser and average."""
    clip, learning_rate = choice
    generator = np.random.default_rng(seed)
    deviation = clip / math.sqrt(2 * largest_step_rho(Price.of(epsilon, DELTA), rate, steps))
    weights, optimiser, average = np.zeros(train.rows.shape[1]), Sgd(learning_rate), IterateAverage()
    for _ in range(steps):
        batch = np.flatnonzero(generator.random(len(train.rows)) < rate)
        rows, labels = train.rows[batch], train.labels[batch]
        slopes = -labels * expit(-labels * (rows @ weights))
        norms = np.abs(slopes) * np.linalg.norm(rows, axis=1)
        total = rows.T @ (slopes * np.minimum(1, clip / np.maximum(norms, 1e-12)))
        noisy = total + generator.normal(0, deviation, len(weights))
        weights = weights + optimiser.change(noisy / (rate * len(train.rows)))
        average.add(weights)
    return average.value


def frank_wolfe(
    train: Matrix, epsilon: float, steps: int, radius: float, seed: int, *, blocks: bool = False
) -> np.ndarray:
    """DP Frank–Wolfe over an ℓ1 ball [Talwar 2015]: the exponential mechanism picks a corner, ρ = ε₀²/8 a step.

    ``blocks`` lets one party choose within its own columns each time (the multiparty rival of docs/references.md#functional).
    Everyone's scores are at hand for free: neither paper says what sharing them
    would cost, so this is more than that variant could reach.
    """
    generator = np.random.default_rng(seed)
    per_step = math.sqrt(8 * float(ledger_rho(Price.of(epsilon, DELTA))) / steps)
    weights, parties = np.zeros(train.rows.shape[1]), list(train.blocks)
    for step in range(steps):
        gradient = train.rows.T @ (-train.labels * expit(-train.labels * (train.rows @ weights)))
        allowed = train.owners == parties[step % len(parties)] if blocks else np.ones(len(weights), dtype=bool)
        corners = np.concatenate([gradient, -gradient]) * radius  # a person moves each by at most the radius
        scores = -corners * per_step / (2 * radius) + generator.gumbel(size=2 * len(weights))
        chosen = int(np.argmax(np.where(np.concatenate([allowed, allowed]), scores, -np.inf)))
        corner = np.zeros_like(weights)
        corner[chosen % len(weights)] = radius if chosen < len(weights) else -radius
        weights += 2 / (step + 2) * (corner - weights)
    return weights


def perturbed_rows(train: Matrix, epsilon: float, seed: int) -> np.ndarray:
    """The paper's baseline: every party adds Gaussian noise to its rows, and somebody fits what arrives."""
    generator = np.random.default_rng(seed)
    deviation = math.sqrt((train.bound + 1) / (2 * float(ledger_rho(Price.of(epsilon, DELTA)))))
    rows = train.rows + generator.normal(0, deviation, train.rows.shape)
    labels = train.labels + generator.normal(0, deviation, len(train.labels))
    return _fitted(rows[:, 1:], labels > 0)


def without_privacy(train: Matrix) -> np.ndarray:
    """Maximum likelihood."""
    return _fitted(train.rows[:, 1:], train.labels > 0)


def without_noise(train: Matrix) -> np.ndarray:
    """What our steps would reach without noise, clipping and rounding: the minimum of the quadratic surrogate."""
    return np.linalg.lstsq(train.rows, 2 * train.labels, rcond=None)[0]


def _fitted(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=60).fit(rows, labels)
    return np.concatenate([model.intercept_, model.coef_[0]])
