"""k-means and k-median of weighted points at the coordinator (papers 000, Algorithm 3, and 001, Algorithm 1, phase 4).

Post-processing of released values. k-means is scikit-learn's. k-median minimises Σ w‖x − c‖, not its square: Lloyd-style
alternation whose update is the geometric median of each cluster (Weiszfeld's iteration, with Vardi and Zhang's step where a
centre stands on a point), then single swaps of a centre for a point as long as they pay, which is what carries the
constant-factor guarantee of local search.
"""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus

from colonnade.errors import BadInput

__all__ = ["median_cost", "weighted_kmeans", "weighted_kmedian"]

Array = NDArray[np.float64]
RESTARTS = 10
ALTERNATIONS = 100
WEISZFELD = 200
SETTLED = 1e-9
SWAPS = 50
CANDIDATES = 256
BLOCK = 4_096


def weighted_kmeans(points: Array, weights: Array, n_clusters: int, *, seed: int) -> Array:
    """Return the centres of weighted k-means.

    Parameters
    ----------
    points, weights
        Where, and how much; weights are not negative.
    n_clusters
        How many centres.
    seed
        Of the starting points.
    """
    points, weights = _heavy(points, weights, n_clusters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of points that coincide, which noise can bring about
        fitted = KMeans(n_clusters, n_init=RESTARTS, random_state=seed).fit(points, sample_weight=weights)
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)


def weighted_kmedian(points: Array, weights: Array, n_clusters: int, *, seed: int) -> Array:
    """Return the centres of weighted Euclidean k-median. Parameters as in `weighted_kmeans`."""
    points, weights = _heavy(points, weights, n_clusters)
    best: Array | None = None
    lowest = np.inf
    for restart in range(RESTARTS):
        start, _ = kmeans_plusplus(points, n_clusters, sample_weight=weights, random_state=seed + restart)
        centres = _alternate(points, weights, start)
        cost = median_cost(points, weights, centres)
        if cost < lowest:
            best, lowest = centres, cost
    assert best is not None  # a cost is finite
    return _swap(points, weights, best)


def median_cost(points: Array, weights: Array, centres: Array) -> float:
    """Return Σ w·min ‖x − c‖."""
    return float(weights @ _nearest(points, centres)[1])


def _heavy(points: Array, weights: Array, n_clusters: int) -> tuple[Array, Array]:
    """Leave out points without weight, unless too few would be left."""
    if len(points) < n_clusters:
        raise BadInput("There are fewer grid points than clusters.", remedy="Raise n_local_clusters.")
    if np.count_nonzero(weights > 0) >= n_clusters:
        return points[weights > 0], weights[weights > 0]
    floor = 1e-9 * max(float(weights.sum()), 1.0)
    return points, np.maximum(weights, floor)


def _nearest(points: Array, centres: Array) -> tuple[NDArray[np.intp], Array]:
    labels, distances = np.empty(len(points), dtype=np.intp), np.empty(len(points))
    for start in range(0, len(points), BLOCK):
        gaps = np.linalg.norm(points[start : start + BLOCK, None] - centres, axis=2)
        labels[start : start + BLOCK] = gaps.argmin(axis=1)
        distances[start : start + BLOCK] = gaps.min(axis=1)
    return labels, distances


def _alternate(points: Array, weights: Array, centres: Array) -> Array:
    labels, distances = _nearest(points, centres)
    cost = float(weights @ distances)
    for _ in range(ALTERNATIONS):
        centres = centres.copy()
        for cluster in range(len(centres)):
            inside = labels == cluster
            if np.any(inside):
                centres[cluster] = geometric_median(points[inside], weights[inside], centres[cluster])
        labels, distances = _nearest(points, centres)
        before, cost = cost, float(weights @ distances)
        if cost >= before * (1 - SETTLED):
            break
    return centres


def geometric_median(points: Array, weights: Array, start: Array) -> Array:
    """Return the point of least weighted distance: Weiszfeld's iteration, which never gets worse."""
    spread = max(float(np.max(np.abs(points - start))), 1e-300)
    median = np.asarray(weights @ points / weights.sum())
    for _ in range(WEISZFELD):
        gaps = np.linalg.norm(points - median, axis=1)
        here = gaps <= 1e-12 * spread
        pull = np.zeros(len(points))
        pull[~here] = weights[~here] / gaps[~here]
        if not pull.any():
            return median
        towards = pull @ points / pull.sum()
        force = float(np.linalg.norm(pull @ (points - median)))
        held = float(weights[here].sum())
        keep = min(1.0, held / force) if force > 0 else 1.0  # standing on a point holds the centre back by its weight
        moved = (1 - keep) * towards + keep * median
        if float(np.linalg.norm(moved - median)) <= SETTLED * spread:
            return np.asarray(moved)
        median = np.asarray(moved)
    return median


def _swap(points: Array, weights: Array, centres: Array) -> Array:
    """Exchange a centre for a point while that, with alternation afterwards, lowers the cost."""
    cost = median_cost(points, weights, centres)
    for _ in range(SWAPS):
        swapped = _best_swap(points, weights, centres)
        if swapped is None:
            return centres
        improved = _alternate(points, weights, swapped)
        lower = median_cost(points, weights, improved)
        if lower >= cost * (1 - 1e-6):
            return centres
        centres, cost = improved, lower
    return centres


def _best_swap(points: Array, weights: Array, centres: Array) -> Array | None:
    """Return the centres after the one swap of least cost, over the points that cost most now; ``None`` if none pays."""
    gaps = np.linalg.norm(points[:, None] - centres, axis=2) if len(points) <= BLOCK else _gaps(points, centres)
    order = np.argsort(gaps, axis=1)
    first = gaps[np.arange(len(points)), order[:, 0]]
    second = gaps[np.arange(len(points)), order[:, 1]] if len(centres) > 1 else np.full(len(points), np.inf)
    cost, lowest, best = float(weights @ first), np.inf, None
    for candidate in np.argsort(-weights * first, kind="stable")[:CANDIDATES]:
        reach = np.linalg.norm(points - points[candidate], axis=1)
        for leaving in range(len(centres)):
            others = np.where(order[:, 0] == leaving, second, first)
            swapped = float(weights @ np.minimum(others, reach))
            if swapped < lowest:
                lowest, best = swapped, (leaving, candidate)
    if best is None or lowest >= cost * (1 - 1e-6):
        return None
    exchanged = centres.copy()
    exchanged[best[0]] = points[best[1]]
    return exchanged


def _gaps(points: Array, centres: Array) -> Array:
    return np.stack([np.linalg.norm(points - centre, axis=1) for centre in centres], axis=1)
