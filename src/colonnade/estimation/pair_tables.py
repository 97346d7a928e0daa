"""Noisy pair tables made consistent: one margin a column, nothing negative, the right total (`privacy.md` §3.5, §3.6).

Each pair table of the secure channel carries noise of its own, so the margins of one column differ from table to
table, and fitting a joint table to such margins collapses to zero. Here the margins are averaged over the tables
(weighted by how noisy each table's margin is) and projected, and then every table is moved, as little as possible in
squares, to non-negative cells with exactly these margins.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.projection import project_to_simplex

__all__ = ["PairTables", "consistent_tables", "plausible_total", "project_to_margins"]

Array = NDArray[np.float64]
Pair = tuple[int, int]
LARGEST_SWEEPS = 2_000
PATIENCE = 30
LARGEST_NEWTON = 1_000
LARGEST_STEP = 2.0**60
MARGIN_TOLERANCE = 1e-11
SURPRISE = 4.0


@dataclass(frozen=True, eq=False)
class PairTables:
    """Tables of every pair of columns.

    Parameters
    ----------
    sizes
        How many levels each column has; at least two columns.
    tables
        For every pair a < b a matrix with a row a level of column a and a column a level of column b.
    variances
        The variance of the noise in each cell, by pair.
    """

    sizes: tuple[int, ...]
    tables: Mapping[Pair, Array]
    variances: Mapping[Pair, float]

    def __post_init__(self) -> None:
        pairs = set(combinations(range(len(self.sizes)), 2))
        if not pairs or set(self.tables) != pairs or set(self.variances) != pairs:
            raise BadInput("There must be one table and one variance for every pair of columns.")
        for (a, b), table in self.tables.items():
            if table.shape != (self.sizes[a], self.sizes[b]) or not np.all(np.isfinite(table)):
                raise BadInput("A pair table must be finite, with one row and column a level.")
        if not all(0 <= variance < np.inf for variance in self.variances.values()):
            raise BadInput("A variance of noise is finite and never negative.")


def consistent_tables(tables: PairTables, total: float) -> PairTables:
    """Return tables with common margins, non-negative cells and the given total.

    With two columns there is one table, and the answer is the nearest such one.
    """
    if not 0 <= total < np.inf:
        raise BadInput("The total of a table must be finite and at least 0.")
    if len(tables.sizes) == 2:
        return PairTables(tables.sizes, {(0, 1): project_to_simplex(tables.tables[0, 1], total)}, tables.variances)
    margins = [project_to_simplex(_margin(tables, column), total) for column in range(len(tables.sizes))]
    projected = {(a, b): project_to_margins(table, margins[a], margins[b]) for (a, b), table in tables.tables.items()}
    return PairTables(tables.sizes, projected, tables.variances)


def plausible_total(tables: PairTables, people: int) -> float:
    """Return the number of people, unless the tables refute it; then what they say.

    A person with a missing value is in no cell, so tables may add up to less than the public number of people. The
    noise decides: a shortfall of more than 4 standard errors is believed.
    """
    sums = np.array([table.sum() for table in tables.tables.values()])
    spreads = np.array([tables.variances[pair] * table.size for pair, table in tables.tables.items()])
    weights = _inverse(spreads)
    estimate = float(weights @ sums / weights.sum())
    doubt = SURPRISE * float(np.sqrt(weights**2 @ spreads)) / float(weights.sum())
    return float(people) if estimate > people - doubt - 1e-6 * people else max(estimate, 0.0)


def _margin(tables: PairTables, column: int) -> Array:
    """Average a column's margins over its tables, each weighted by its inverse variance."""
    margins, spreads = [], []
    for (a, b), table in tables.tables.items():
        if column in (a, b):
            axis = 1 if column == a else 0
            margins.append(table.sum(axis=axis))
            spreads.append(tables.variances[a, b] * table.shape[axis])
    weights = _inverse(np.array(spreads))
    return np.asarray(weights @ np.array(margins) / weights.sum())


def _inverse(variances: Array) -> Array:
    """Return inverse variances; exact measurements, if there are any, count alone and alike."""
    exact = variances == 0
    weights = exact.astype(float) if np.any(exact) else variances.min() / variances  # only ratios count
    return np.asarray(weights, dtype=np.float64)


def _shifts(rows: Array, totals: Array) -> Array:
    """Return for each row the shift after which its positive part has the wanted total."""
    descending = -np.sort(-rows, axis=1)
    candidates = (totals[:, None] - np.cumsum(descending, axis=1)) / np.arange(1, rows.shape[1] + 1)
    inside = np.sum(descending + candidates > 0, axis=1)
    return np.asarray(candidates[np.arange(len(rows)), np.maximum(inside, 1) - 1])


def project_to_margins(table: Array, rows: Array, columns: Array) -> Array:
    """Return the nearest non-negative table with the given margins, in squares.

    The answer is max(table + α_i + β_j, 0); α and β are found by exact alternating maximisation of the concave dual,
    helped by Newton steps. What is left of the margins' error is about 1e-11 of the largest number involved.
    """
    total = float(np.sum(rows))
    if np.any(rows < 0) or np.any(columns < 0) or abs(total - float(np.sum(columns))) > 1e-6 * max(total, 1.0):
        raise BadInput("The margins of a table must be non-negative and have one total.")
    projected = np.zeros(np.shape(table))
    filled = np.ix_(rows > 0, columns > 0)
    if total > 0:
        projected[filled] = _alternate(table[filled], rows[rows > 0], columns[columns > 0])
    return projected


def _alternate(table: Array, rows: Array, columns: Array) -> Array:
    enough = MARGIN_TOLERANCE * max(float(rows.sum()), float(np.max(np.abs(table))))
    across = np.zeros(len(columns))
    for sweep in range(LARGEST_SWEEPS):
        down = _shifts(table + across, rows)
        across = _shifts((table + down[:, None]).T, columns)
        projected = np.maximum(table + down[:, None] + across, 0.0)
        if np.max(np.abs(projected.sum(axis=1) - rows)) <= enough:
            break
        if sweep >= PATIENCE and sum(table.shape) <= LARGEST_NEWTON:
            across = _newton(table, rows, columns, down, across)
    return projected


def _newton(table: Array, rows: Array, columns: Array, down: Array, across: Array) -> Array:
    """Return a better β: alternation crawls where few cells are positive, and Newton steps on the dual do not.

    The dual r·α + c·β − ½‖max(table + α + β, 0)‖² is concave and piecewise quadratic. Where the positive cells fall into
    unconnected parts its curvature is singular; what the Newton step leaves of the slope then moves whole parts against
    each other, until a cell between them turns positive.
    """
    wanted, split = np.concatenate([rows, columns]), len(rows)

    def slope(point: Array) -> Array:
        projected = np.maximum(table + point[:split, None] + point[split:], 0.0)
        return np.asarray(wanted - np.concatenate([projected.sum(axis=1), projected.sum(axis=0)]))

    point = np.concatenate([down, across])
    positive = (table + down[:, None] + across > 0).astype(np.float64)
    curvature = np.block([[np.diag(positive.sum(axis=1)), positive], [positive.T, np.diag(positive.sum(axis=0))]])
    step = np.linalg.lstsq(curvature, slope(point), rcond=1e-10)[0]
    for direction in (slope(point) - curvature @ step, step):
        point = point + _highest(slope, point, direction) * direction
    return np.asarray(point[split:])


def _highest(slope: Callable[[Array], Array], point: Array, direction: Array) -> float:
    """Return how far along a direction a concave function is highest: where it stops rising, by doubling and halving."""

    def rises(far: float) -> bool:
        return bool(slope(point + far * direction) @ direction > 0)

    if not rises(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while rises(high) and high < LARGEST_STEP:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) else (low, middle)
    return high
