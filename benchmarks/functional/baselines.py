"""What the functional mechanism is measured against: the paper's as written and its baselines, perturbed rows, a single holder.

Random numbers here are numpy's: these are not for use. All take coded columns in [−1, 1].
"""

from collections.abc import Mapping, Sequence

import numpy as np

from colonnade.coordinator.protocols.moment_releases import FunctionalRelease
from colonnade.estimation.moments import Moments
from colonnade.privacy import samplers
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.coefficients import CoefficientNoise, Holding, emphasis_for
from colonnade.privacy.randomness import SystemRandomness
from colonnade.schema import Column
from colonnade.steps.products import own_entries

Array = np.ndarray


# The paper's Algorithm 1, as written ---------------------------------------------------------------------------------------


def paper_logistic(rows: Array, target: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Weights from ⅛XᵀX and Xᵀ(½ − y), y in {0, 1}: every ordered pair measured, Δ = d²/4 + d."""
    d = rows.shape[1]
    scale = (d**2 / 4 + d) / epsilon
    return _argmin(rows.T @ rows / 8, rows.T @ (0.5 - target), scale, rng)


def paper_linear(rows: Array, target: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Weights from XᵀX and −2Xᵀy, y in [−1, 1]: every ordered pair measured, Δ = 2(1 + 2d + d²)."""
    d = rows.shape[1]
    return _argmin(rows.T @ rows, -2 * rows.T @ target, 2 * (d + 1) ** 2 / epsilon, rng)


def _argmin(curvature: Array, slope: Array, scale: float, rng: np.random.Generator) -> Array:
    """The least of the noisy quadratic, repaired as Zhang et al. (2012) do: add 4 deviations, drop what is not positive."""
    noisy = curvature + rng.laplace(0, scale, curvature.shape)
    noisy = (noisy + noisy.T) / 2 + 4 * np.sqrt(2) * scale * np.eye(len(curvature))
    values, vectors = np.linalg.eigh(noisy)
    kept = values > 0
    along = vectors[:, kept].T @ (slope + rng.laplace(0, scale, len(slope)))
    return -vectors[:, kept] @ (along / values[kept]) / 2


# Every holder perturbs its own rows ----------------------------------------------------------------------------------------


def local_rows(rows: Array, target: Array, bound: int, epsilon: float, rng: np.random.Generator) -> Array:
    """Weights and intercept from rows with Laplace noise on every number, ‖row‖₁ ≤ bound; the noise's squares are taken off."""
    scale = bound / epsilon
    seen = np.column_stack([np.ones(len(rows)), rows + rng.laplace(0, scale, rows.shape)])
    answers = target + rng.laplace(0, scale, len(target))
    curvature = seen.T @ seen
    inner = np.arange(1, len(curvature))
    curvature[inner, inner] -= 2 * scale**2 * len(rows)
    values, vectors = np.linalg.eigh(curvature)
    # What is left of the subtracted squares has a deviation of about √(20n)·scale²: directions below it are noise.
    kept = values > 2 * np.sqrt(20 * len(rows)) * scale**2 + 1e-9
    return vectors[:, kept] @ ((vectors[:, kept].T @ (seen.T @ answers)) / values[kept])


# Noisy Frank–Wolfe steps ----------------------------------------------------------------------------------------------------


def frank_wolfe(
    rows: Array,
    target: Array,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    *,
    radius: float = 1.0,
    steps: int = 50,
) -> Array:
    """Weights of ℓ1 length up to ``radius`` by private Frank–Wolfe (Talwar et al. 2015), everything at one place: (ε, δ).

    A record adds at most 2(1 + radius) to a coordinate of the gradient of Σ(y − x·w)², hence ``radius`` times that to the
    score of a corner; each step takes the corner that is least after Laplace noise, by advanced composition over the steps.
    """
    scale = 2 * radius * (1 + radius) * np.sqrt(8 * steps * np.log(1 / delta)) / epsilon
    weights = np.zeros(rows.shape[1])
    curvature, slope = rows.T @ rows, rows.T @ target
    for step in range(steps):
        gradient = 2 * (curvature @ weights - slope)
        scores = radius * np.concatenate([gradient, -gradient]) + rng.laplace(0, scale, 2 * len(weights))
        corner = int(np.argmin(scores))
        towards = np.zeros_like(weights)
        towards[corner % len(weights)] = radius if corner < len(weights) else -radius
        weights += 2 / (step + 2) * (towards - weights)
    return weights


def frank_wolfe_of_parties(
    rows: Array,
    target: Array,
    parties: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    *,
    radius: float = 1.0,
    steps: int = 50,
    buckets: int = 2_048,
) -> Array:
    """DPFW-K: the parties take steps on their own blocks in turn, and share noisy projections of their scores: (ε, δ).

    Lou and Cheung (2018) as far as the functional mechanism's paper describes them. A person falls into one of so many buckets
    with a sign, so a projection of scores within ±``radius`` (and of the target) changes by at most that. Half of ε pays for the
    projections, which every other party sends anew before a step (Gaussian, by zCDP), half for the choice of a corner (Laplace,
    by advanced composition over the steps).
    """
    bucket, sign = rng.integers(0, buckets, len(rows)), rng.choice([-1.0, 1.0], len(rows))
    folded = np.stack([np.bincount(bucket, sign * column, minlength=buckets) for column in rows.T], axis=1)
    blocks = np.array_split(np.arange(rows.shape[1]), parties)
    aimed = np.bincount(bucket, sign * target, minlength=buckets)
    half, chance = epsilon / 2, np.log(2 / delta)
    rho = (np.sqrt(half + chance) - np.sqrt(chance)) ** 2
    sigma = max(radius, 1.0) * np.sqrt(steps * parties / (2 * rho))
    scale = 2 * radius * (1 + radius) * np.sqrt(8 * steps * chance) / half
    weights = np.zeros(rows.shape[1])
    for step in range(steps):
        own = blocks[step % parties]
        seen = folded @ weights - aimed + rng.normal(0, sigma * np.sqrt(parties), buckets)
        gradient = 2 * folded[:, own].T @ seen
        scores = radius * np.concatenate([gradient, -gradient]) + rng.laplace(0, scale, 2 * len(own))
        corner = int(np.argmin(scores))
        towards = np.zeros_like(weights)
        towards[own[corner % len(own)]] = radius if corner < len(own) else -radius
        weights += 2 / (step + 2) * (towards - weights)
    return weights


# Noisy gradient steps -------------------------------------------------------------------------------------------------------


def noisy_steps(
    rows: Array, target: Array, epsilon: float, rng: np.random.Generator, *, batch: int = 50, rate: float = 10.0
) -> Array:
    """DPSGD as the paper compares with it: one pass of Song, Chaudhuri and Sarwate (2013), at one place, pure ε.

    Rows have Euclidean length 1 or less, so a batch's mean gradient moves by at most 2/``batch`` in length. Its noise has a
    density that falls with exp(−ε·batch·‖z‖/2). Everybody is in one batch, so the whole pass costs ε. The rate is 10/√t, the
    best of 1, 3, 10 and 30 on Adult and on the Dutch census at ε = 10.
    """
    longest = float(np.linalg.norm(rows, axis=1).max())
    seen, signs = rows / longest, 2 * target - 1
    order = rng.permutation(len(rows))
    weights = np.zeros(rows.shape[1])
    for step, start in enumerate(range(0, len(order) - batch + 1, batch), start=1):
        some = order[start : start + batch]
        pull = signs[some] / (1 + np.exp(np.clip(signs[some] * (seen[some] @ weights), -50, 50)))
        way = rng.normal(size=len(weights))
        noise = way / np.linalg.norm(way) * rng.gamma(len(weights), 2 / (epsilon * batch))
        weights -= rate / np.sqrt(step) * (noise - pull @ seen[some] / batch)
    return weights


# A single holder of everything ---------------------------------------------------------------------------------------------


def central_moments(
    coded: Array, columns: Mapping[str, Column], target: str, epsilon: float, gamma: int = 4096
) -> Moments:
    """Our mechanism with one holder: the same coefficients and the same law, no shares and no peers.

    ``coded`` has the columns of `FunctionalRelease.features`, the constant one first; the target must be the last.
    """
    parties = dict.fromkeys(name.partition(".")[0] for name in columns)
    release = FunctionalRelease(columns, target, dict.fromkeys(parties, Price.of(epsilon)))
    names = [feature.column for feature in release.features[1:]]
    widths = tuple(names.count(name) for name in dict.fromkeys(names))
    entries = own_entries(widths, target=True)
    numbers = widths[:-1].count(1)
    holdings = {"all": Holding(numbers, len(widths) - 1 - numbers, widths[-1])}
    noise = CoefficientNoise(holdings, gamma, {"all": Price.of(epsilon)}, "person", 0, emphasis_for(holdings))
    whole = np.rint(coded * gamma)
    exact = (whole.T @ whole)[entries.rows, entries.columns]
    matrix, variance = np.zeros((2, len(names) + 1, len(names) + 1))
    for slope in (False, True):
        places = entries.slope == slope
        drawn = samplers.discrete_laplace(
            noise.scale(("all", "all"), slope=slope), int(places.sum()), SystemRandomness()
        )
        matrix[entries.rows[places], entries.columns[places]] = (exact[places] + drawn) / gamma**2
        variance[entries.rows[places], entries.columns[places]] = noise.variance(("all", "all"), slope=slope) / gamma**4
    complete = release._completed  # noqa: SLF001  # what follows from the measured entries is the release's business
    return Moments.of_release(complete(matrix, len(coded)), complete(variance, 0), len(coded), release.features)


def accuracy(scores: Array, target: Array) -> float:
    """The share of rows whose score has the sign of the target, in {0, 1}."""
    return float(np.mean((scores > 0) == (target > 0.5)))


def with_constant(rows: Array) -> Array:
    return np.column_stack([np.ones(len(rows)), rows])


def mean_square(predicted: Sequence[float] | Array, target: Array) -> float:
    return float(np.mean((np.asarray(predicted) - target) ** 2))
