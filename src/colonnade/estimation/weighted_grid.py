"""The grid of local centres and its weights (papers 000, Algorithm 3, and 001, Algorithm 1, phase 3), bounded in size.

A cell names one local cluster at every party; its weight is how many people are in all of them. There are k′^S cells, so a large
grid is never written down: parties are added one at a time, and after each the cells are fitted to all pair tables among the
parties so far (the table of greatest entropy, by iterative proportional fitting on the cells that are left) and only the
heaviest are kept. What is dropped is spread over the rest by the fit, so pair tables and total stay right wherever a cell is
left.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.maximum_entropy import maximum_entropy
from colonnade.estimation.pair_tables import PairTables
from colonnade.estimation.projection import project_to_simplex

__all__ = ["LARGEST_GRID", "Grid", "dense_grid", "fitted_grid", "independent_grid"]

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
        A row a cell: the number of a local cluster at each party.
    weights
        Non-negative, one a cell.
    sizes
        How many local clusters each party has.
    """

    cells: NDArray[np.intp]
    weights: Array
    sizes: tuple[int, ...]

    def points(self, centres: Sequence[Array]) -> Array:
        """Return the cells' points: the local centres of all parties, side by side."""
        return np.concatenate([block[self.cells[:, party]] for party, block in enumerate(centres)], axis=1)


def dense_grid(table: Array) -> Grid:
    """Return every cell of a table with an axis a party."""
    cells = np.indices(table.shape).reshape(table.ndim, -1).T
    return Grid(cells, np.asarray(table, dtype=np.float64).ravel(), table.shape)


def fitted_grid(tables: PairTables, total: float, *, largest: int = LARGEST_GRID) -> Grid:
    """Return the grid of greatest entropy with given, consistent pair tables; its heaviest cells where it is large."""
    if len(tables.sizes) == 2:
        return dense_grid(tables.tables[0, 1])
    if math.prod(tables.sizes) <= largest:
        return dense_grid(maximum_entropy(tables, total))
    targets = {pair: _softened(table, total) for pair, table in tables.tables.items()}
    grid = dense_grid(targets[0, 1])
    for party in range(2, len(tables.sizes)):
        margin = targets[0, party].sum(axis=0)
        grid = _fit(_extended(grid, margin / total), targets, total)
        grid = _heaviest(grid, largest)
    return _fit(grid, targets, total)


def independent_grid(margins: Sequence[Array], total: float, *, largest: int = LARGEST_GRID) -> Grid:
    """Return the grid of a product of margins, each made non-negative with the right total first; its heaviest cells."""
    if not margins:
        raise BadInput("A grid has at least one party.")
    shares = [project_to_simplex(np.asarray(margin, dtype=np.float64), total) / (total or 1.0) for margin in margins]
    grid = dense_grid(shares[0] * total)
    for share in shares[1:]:
        grid = _heaviest(_extended(grid, share), largest)
    weights = grid.weights * (total / max(float(grid.weights.sum()), 1e-300))
    return Grid(grid.cells, weights, grid.sizes)


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


def _fit(grid: Grid, targets: dict[tuple[int, int], Array], total: float) -> Grid:
    """Fit the cells to all pair tables of the parties in the grid."""
    weights = grid.weights
    pairs = list(combinations(range(len(grid.sizes)), 2))
    codes = {(a, b): grid.cells[:, a] * grid.sizes[b] + grid.cells[:, b] for a, b in pairs}
    for _ in range(SWEEPS):
        before = weights
        for pair in pairs:
            target = targets[pair].ravel()
            current = np.bincount(codes[pair], weights=weights, minlength=target.size)
            ratio = np.divide(target, current, out=np.zeros_like(target), where=current > 0)
            weights = weights * ratio[codes[pair]]
        weights = weights * (total / max(float(weights.sum()), 1e-300))
        if float(np.abs(weights - before).sum()) <= SETTLED * total:
            break
    return Grid(grid.cells, weights, grid.sizes)


def _softened(table: Array, total: float) -> Array:
    """Mix a table with the product of its margins, lest a cell that noise emptied contradict another table."""
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / (total or 1.0)
    return np.asarray((1 - SOFT) * table + SOFT * product)
