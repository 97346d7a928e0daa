"""Clustering of a weighted grid: the combinations of the parties' local centres, and k-means or k-median on them.

Phases 3 and 4 of Private vertical clustering, Algorithm 1, and Primitives, Algorithm 3. All of it is post-processing of
released values.

*Grid.* A cell names one local cluster at every party; its weight is how many people are in all of them. There are k′^S cells,
so a large grid is never written down (`fitted_grid`). Parties are added one at a time. After each the cells are fitted to all
pair tables among the parties so far (the table of greatest entropy, by iterative proportional fitting on the cells that are
left) and only the heaviest are kept. What is dropped is spread over the rest by the fit, so pair tables and total stay right
wherever a cell is left.

*Centres.* k-means is scikit-learn's. k-median minimises Σ w‖x − c‖, not its square (`weighted_kmedian`): Lloyd-style
alternation with the geometric median of each cluster as its update (Weiszfeld's iteration, with Vardi and Zhang's step where
a centre stands on a point). Then single swaps of a centre for a point are made as long as they pay, which gives the
constant-factor guarantee of local search.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus

from colonnade.errors import BadInput
from colonnade.estimation.counts import project_to_simplex
from colonnade.estimation.tables import NoisyTables, maximum_entropy

__all__ = [
    "LARGEST_GRID",
    "Grid",
    "dense_grid",
    "fitted_grid",
    "independent_grid",
    "median_cost",
    "weighted_kmeans",
    "weighted_kmedian",
]


Array = NDArray[np.float64]
LARGEST_GRID = 2**14
"""Cells that are kept; a grid up to this size is exact."""
SWEEPS = 40
SETTLED = 1e-6
SOFT = 1e-6


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of a grid, and their weights.

    Parameters
    ----------
    cells
        One row per cell: the number of a local cluster at each party.
    weights
        Non-negative, one per cell.
    sizes
        The number of local clusters of each party.
    """

    cells: NDArray[np.intp]
    weights: Array
    sizes: tuple[int, ...]

    def points(self, centres: Sequence[Array]) -> Array:
        """Return the cells' points: the local centres of all parties, side by side."""
        return np.concatenate([block[self.cells[:, party]] for party, block in enumerate(centres)], axis=1)


def dense_grid(table: Array) -> Grid:
    """Return every cell of a table with one axis per party."""
    cells = np.indices(table.shape).reshape(table.ndim, -1).T
    return Grid(cells, np.asarray(table, dtype=np.float64).ravel(), table.shape)


def fitted_grid(tables: NoisyTables, total: float, *, largest: int = LARGEST_GRID) -> Grid:
    """Return the grid of greatest entropy with given, consistent pair tables; its heaviest cells where it is large."""
    if len(tables.sizes) == 2:
        return dense_grid(tables.tables[0, 1])
    if math.prod(tables.sizes) <= largest:
        return dense_grid(maximum_entropy(tables, total))
    targets: dict[tuple[int, ...], Array] = {pair: _softened(table, total) for pair, table in tables.tables.items()}
    grid = dense_grid(targets[0, 1])
    for party in range(2, len(tables.sizes)):
        margin = targets[0, party].sum(axis=0)
        grid = _fit(_extended(grid, margin / total), targets, total)
        grid = _heaviest(grid, largest)
    return _fit(grid, targets, total)


def independent_grid(margins: Sequence[Array], total: float, *, largest: int = LARGEST_GRID) -> Grid:
    """Return the grid of a product of margins, each made non-negative with the right total first.

    Of a large one the heaviest cells are kept, and fitted to the margins again: else small clusters would lose to large ones.
    """
    if not margins:
        raise BadInput("A grid has at least one party.")
    shares = [project_to_simplex(np.asarray(margin, dtype=np.float64), total) / (total or 1.0) for margin in margins]
    grid = dense_grid(shares[0] * total)
    for share in shares[1:]:
        grid = _heaviest(_extended(grid, share), largest)
    if math.prod(grid.sizes) <= largest:
        weights = grid.weights * (total / max(float(grid.weights.sum()), 1e-300))
        return Grid(grid.cells, weights, grid.sizes)
    return _fit(grid, {(party,): share * total for party, share in enumerate(shares)}, total)


def _extended(grid: Grid, share: Array) -> Grid:
    """Divide every cell between another party's clusters."""
    cells = np.column_stack(
        [np.repeat(grid.cells, len(share), axis=0), np.tile(np.arange(len(share)), len(grid.cells))]
    )
    return Grid(cells, np.outer(grid.weights, share).ravel(), (*grid.sizes, len(share)))


def _heaviest(grid: Grid, largest: int) -> Grid:
    """Keep the heaviest cells, in their order; of equal ones the first."""
    if len(grid.weights) <= largest:
        return grid
    kept = np.sort(np.argsort(-grid.weights, kind="stable")[:largest])
    return Grid(grid.cells[kept], grid.weights[kept], grid.sizes)


def _fit(grid: Grid, targets: Mapping[tuple[int, ...], Array], total: float) -> Grid:
    """Fit the cells to all tables, of one party or of a pair, whose parties are in the grid."""
    weights = grid.weights
    known = sorted(parties for parties in targets if max(parties) < len(grid.sizes))
    codes = {
        parties: np.ravel_multi_index(tuple(grid.cells[:, list(parties)].T), targets[parties].shape)
        for parties in known
    }
    for _ in range(SWEEPS):
        before = weights
        for parties in known:
            target = targets[parties].ravel()
            current = np.bincount(codes[parties], weights=weights, minlength=target.size)
            ratio = np.divide(target, current, out=np.zeros_like(target), where=current > 0)
            weights = weights * ratio[codes[parties]]
        weights = weights * (total / max(float(weights.sum()), 1e-300))
        if float(np.abs(weights - before).sum()) <= SETTLED * total:
            break
    return Grid(grid.cells, weights, grid.sizes)


def _softened(table: Array, total: float) -> Array:
    """Mix a table with the product of its margins, so that a cell that noise emptied does not contradict another table."""
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / (total or 1.0)
    return np.asarray((1 - SOFT) * table + SOFT * product)


RESTARTS = 10
ALTERNATIONS = 100
WEISZFELD = 200
SETTLED_CENTRES = 1e-9
SWAPS = 50
CANDIDATES = 256
BLOCK = 4_096


def weighted_kmeans(points: Array, weights: Array, n_clusters: int, *, seed: int) -> Array:
    """Return the centres of weighted k-means.

    Parameters
    ----------
    points, weights
        The points, and their weights, which are not negative.
    n_clusters
        The number of centres.
    seed
        The seed of the starting points.
    """
    points, weights = _heavy(points, weights, n_clusters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about points that coincide, which noise can cause
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
        if cost >= before * (1 - SETTLED_CENTRES):
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
        if float(np.linalg.norm(moved - median)) <= SETTLED_CENTRES * spread:
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
