"""Noisy pair tables: made consistent with each other, and fitted by the joint distribution of maximum entropy.

Each pair table of the secure channel carries noise of its own, so the margins of one column differ from table to table, and
fitting a joint table to such margins collapses to zero. `consistent_tables` averages the margins over the tables (weighted by
how noisy each table's margin is) and projects them. Then every table is moved, as little as possible in squares, to
non-negative cells with exactly these margins (docs/proofs/pair-tables.md#post-processing).

A test of independence on a table of counts with known noise: the p-value counts what noise and chance do together.

The usual chi-squared test takes counts for exact. On noisy counts it rejects far too often, because noise alone makes cells
differ from what their margins say. Here the statistic is Σ (x − e)²/(e + V), with x the noisy cells, e what the noisy margins say
and V the variance of the noise of a cell. Its law without dependence is simulated: people are drawn from the product of the
margins, the same noise is added, and the statistic is computed as it was for the data (a parametric bootstrap). The p-value is
(1 + how many simulated statistics are as large)/(1 + draws) (docs/explanation/intervals.md#independence).

Gaboardi, Lim, Rogers and Vadhan (2016) proposed the test for one curator (docs/references.md#independence).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.runtime.public_coins import PublicGenerator

Array = NDArray[np.float64]
Pair = tuple[int, int]
LARGEST_SWEEPS = 2_000
PATIENCE = 30
LARGEST_NEWTON = 1_000
LARGEST_STEP = 2.0**60
MARGIN_TOLERANCE = 1e-11
SURPRISE = 4.0


def project_to_simplex(estimate: Array, total: float) -> Array:
    """Return the table nearest to ``estimate``, cell by cell, among those that are non-negative and sum to ``total``.

    Examples
    --------
    >>> project_to_simplex(np.array([5.0, 4.0, -3.0]), 6.0).tolist()
    [3.5, 2.5, 0.0]
    """
    if not 0 <= total < math.inf:
        raise BadInput("A total is finite and not negative.")
    descending = np.sort(estimate, axis=None)[::-1]
    shifts = (np.cumsum(descending) - total) / np.arange(1, descending.size + 1)
    last = np.flatnonzero(descending > shifts)
    shift = shifts[last[-1]] if last.size else shifts[0]  # no cell is above its shift only if the total is 0
    return np.asarray(np.maximum(estimate - shift, 0.0))


@dataclass(frozen=True)
class CountTable:
    """Estimated counts, one axis per party or per column: projected, unbiased, and standard errors of the unbiased ones."""

    counts: Array
    unbiased: Array
    stderr: Array

    def arranged(self, arrange: Callable[[Array], Array]) -> "CountTable":
        """Return the same table with its axes in another order."""
        return CountTable(arrange(self.counts), arrange(self.unbiased), arrange(self.stderr))


@dataclass(frozen=True, eq=False)
class PairTableSet:
    """Tables of every pair of columns.

    Parameters
    ----------
    sizes
        The number of levels of each column; at least two columns.
    tables
        For every pair a < b a matrix with one row per level of column a and one column per level of column b.
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
                raise BadInput("A pair table must be finite, with one row and one column per level.")
        if not all(0 <= variance < np.inf for variance in self.variances.values()):
            raise BadInput("The variance of noise must be finite and not negative.")


def consistent_tables(tables: PairTableSet, total: float) -> PairTableSet:
    """Return tables with common margins, non-negative cells and the given total.

    With two columns there is one table, and the answer is the nearest such one.
    """
    if not 0 <= total < np.inf:
        raise BadInput("The total of a table must be finite and at least 0.")
    if len(tables.sizes) == 2:
        return PairTableSet(tables.sizes, {(0, 1): project_to_simplex(tables.tables[0, 1], total)}, tables.variances)
    margins = [project_to_simplex(_margin(tables, column), total) for column in range(len(tables.sizes))]
    projected = {(a, b): project_to_margins(table, margins[a], margins[b]) for (a, b), table in tables.tables.items()}
    return PairTableSet(tables.sizes, projected, tables.variances)


def plausible_total(tables: PairTableSet, people: int, *, leaves_out: bool = False) -> float:
    """Return the number of people that the tables count.

    Parameters
    ----------
    tables
        As they were opened.
    people
        The public number of people.
    leaves_out
        Whether a category leaves people out. Their number is private then, and so is the number of the others: the tables' own
        total estimates it. Otherwise only null records are in no cell, and the noise decides: a shortfall of more than 4
        standard errors is believed.
    """
    sums = np.array([table.sum() for table in tables.tables.values()])
    spreads = np.array([tables.variances[pair] * table.size for pair, table in tables.tables.items()])
    weights = _inverse(spreads)
    estimate = float(weights @ sums / weights.sum())
    doubt = SURPRISE * float(np.sqrt(weights**2 @ spreads)) / float(weights.sum())
    if leaves_out:
        return min(max(estimate, 0.0), float(people))
    return float(people) if estimate > people - doubt - 1e-6 * people else max(estimate, 0.0)


def _margin(tables: PairTableSet, column: int) -> Array:
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
    """Return inverse variances. Exact measurements, if there are any, get equal weights and the others none."""
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


LARGEST_JOINT = 2**24
"""Cells of a joint table that is held whole; a larger one needs a factored fit."""
LARGEST_PAIRS = 4096
"""Cells of all pair tables together up to which standard errors are computed."""
INDEPENDENCE = 1e-6
NOISE_SHARE = 1e-3
STALLED = 0.99
SWEEPS = 200
LARGEST_UPDATES = 5_000


def maximum_entropy(tables: PairTableSet, total: float) -> Array:
    """Return the joint table of greatest entropy whose pair tables are the given, consistent ones.

    It is a fit to pairs, not a count: exact where no three columns interact beyond their pairs, and silent about such
    interactions elsewhere. Plain iterative fitting collapses to zero on noisy tables. So the tables come here consistent and
    are mixed, where they have empty cells, with a little independence, which keeps all margins and leaves no zero that
    another table contradicts. Pair tables with common margins may still belong to no joint table. Iterative fitting then
    cycles, and a simultaneous multiplicative update takes over, which converges all the same (to the least divergence from
    the pairs). Both stay within the log-linear family.

    Parameters
    ----------
    tables
        From `consistent_tables`.
    total
        Their common total.
    """
    if math.prod(tables.sizes) > LARGEST_JOINT:
        raise BadInput(
            f"The joint table would have more than {LARGEST_JOINT:,} cells.", remedy="Ask for fewer columns."
        )
    if any(np.any(table < 0) or abs(table.sum() - total) > 1e-6 * max(total, 1.0) for table in tables.tables.values()):
        raise BadInput("Pair tables must be non-negative and have one total.", remedy="Make them consistent first.")
    if total == 0:
        return np.zeros(tables.sizes)
    targets = _softened(tables, total)
    # It stops when no pair cell misses its target by more than this, or when nothing moves any more.
    enough = max(1e-9 * total, NOISE_SHARE * max(tables.variances.values()) ** 0.5)
    joint, missed = _iterate(_supported(tables.sizes, targets, total), targets, enough)
    return joint if missed <= enough else _settle(joint, targets, total, enough)


def _softened(tables: PairTableSet, total: float) -> dict[Pair, Array]:
    """Mix tables, if some have empty cells, with the products of their margins: the margins stay as they are."""
    products = {pair: np.outer(table.sum(axis=1), table.sum(axis=0)) / total for pair, table in tables.tables.items()}
    emptied = any(np.any((table == 0) & (products[pair] > 0)) for pair, table in tables.tables.items())
    share = INDEPENDENCE if emptied else 0.0
    return {pair: (1 - share) * table + share * products[pair] for pair, table in tables.tables.items()}


def _supported(sizes: tuple[int, ...], targets: Mapping[Pair, Array], total: float) -> Array:
    """Return the uniform table over levels that occur at all."""
    joint = np.ones(sizes)
    for pair, target in targets.items():
        joint *= _spread(np.sign(target), pair, len(sizes))
    return np.asarray(joint * (total / joint.sum()))


def _iterate(joint: Array, targets: Mapping[Pair, Array], enough: float) -> tuple[Array, float]:
    """Fit the pairs in turn (iterative proportional fitting); return the largest miss in the last sweep too."""
    missed = np.inf
    for _ in range(SWEEPS):
        before, missed = missed, 0.0
        for pair, target in targets.items():
            current = _pair(joint, pair)
            missed = max(missed, float(np.max(np.abs(current - target))))
            joint = joint * _spread(_ratio(target, current), pair, joint.ndim)
        if missed <= enough or missed > STALLED * before:
            break
    return joint, missed


def _settle(joint: Array, targets: Mapping[Pair, Array], total: float, enough: float) -> Array:
    """Fit all pairs at once, each by the same root of its ratio; converges whether or not a joint table exists."""
    for _ in range(LARGEST_UPDATES):
        step = np.zeros_like(joint)
        for pair, target in targets.items():
            step += _spread(np.log(np.where(target > 0, _ratio(target, _pair(joint, pair)), 1.0)), pair, joint.ndim)
        updated = joint * np.exp(step / len(targets))
        updated *= total / updated.sum()
        moved = float(np.max(np.abs(updated - joint)))
        joint = updated
        if moved <= enough / 10:
            break
    return joint


def _ratio(target: Array, current: Array) -> Array:
    return np.divide(target, current, out=np.zeros_like(target), where=current > 0)


def _pair(joint: Array, pair: Pair) -> Array:
    return np.asarray(joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in pair)))


def _spread(table: Array, pair: Pair, dimensions: int) -> Array:
    """Give a pair table an axis of length 1 for every other column."""
    return np.expand_dims(table, tuple(axis for axis in range(dimensions) if axis not in pair))


def joint_errors(joint: Array, tables: PairTableSet) -> Array:
    """Return each cell's standard error from the noise of the pair tables, to first order.

    With D the cells and A the pair sums, a change b of the pairs changes the fit by D·Aᵀ(A·D·Aᵀ)⁺b. The cells in D
    are mixed with independence in proportion to the noise, so that a cell that noise emptied does not look certain. What
    the fit cannot see (interactions of three columns) is not in it.
    """
    pairs = list(combinations(range(joint.ndim), 2))
    sizes = [tables.tables[pair].size for pair in pairs]
    if sum(sizes) > LARGEST_PAIRS:
        raise BadInput(f"Standard errors are computed for up to {LARGEST_PAIRS:,} pair cells.")
    cells = _cautious(joint, tables)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    codes = np.stack([start + _codes(joint.shape, pair) for start, pair in zip(starts, pairs, strict=False)])
    information = np.zeros((sum(sizes), sum(sizes)))
    for one in codes:
        for other in codes:
            np.add.at(information, (one, other), cells.ravel())
    response = np.linalg.pinv(information, hermitian=True, rcond=1e-10)
    noise = np.repeat([tables.variances[pair] for pair in pairs], sizes)
    spread = (response * noise) @ response
    variance = sum(spread[one, other] for one in codes for other in codes)
    return np.asarray(cells * np.sqrt(np.maximum(variance, 0.0)).reshape(joint.shape))


def _codes(shape: tuple[int, ...], pair: Pair) -> NDArray[np.intp]:
    """Return the index of every cell's pair of levels, in the pair table read row by row."""
    first, second = (
        np.arange(shape[axis]).reshape([-1 if axis == other else 1 for other in range(len(shape))]) for axis in pair
    )
    return np.broadcast_to(first * shape[pair[1]] + second, shape).ravel()


def _cautious(joint: Array, tables: PairTableSet) -> Array:
    total = max(float(joint.sum()), 1.0)
    product = np.full(joint.shape, total)
    for axis in range(joint.ndim):
        margin = joint.sum(axis=tuple(other for other in range(joint.ndim) if other != axis))
        smooth = np.maximum(margin, 1.0)
        product = product * (smooth / smooth.sum()).reshape([-1 if axis == other else 1 for other in range(joint.ndim)])
    noise = max(np.sqrt(variance * tables.tables[pair].size) for pair, variance in tables.variances.items())
    share = min(0.5, noise / total)
    return np.asarray((1 - share) * joint + share * product)


BATCH = 1 << 22
TAIL = 12


@dataclass(frozen=True)
class CountNoise:
    """The noise of a count: independent from cell to cell.

    Parameters
    ----------
    variance
        The variance of one count.
    draw
        A function that draws the noise of an array of counts, given a generator and the array's shape.
    """

    variance: float
    draw: Callable[[PublicGenerator, tuple[int, ...]], NDArray[np.int64]]


def discrete_gaussians(variance: float, shares: int) -> CountNoise:
    """Return the noise that is a sum of discrete Gaussian shares, each with this variance."""
    reach = max(int(np.ceil(TAIL * np.sqrt(variance))), TAIL)
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values**2) / (2 * variance))
    below = np.cumsum(weights / weights.sum())

    def draw(generator: PublicGenerator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        drawn = np.searchsorted(below[:-1], generator.random((shares, *shape)), side="right")
        return np.asarray(values[drawn].sum(axis=0))

    return CountNoise(shares * variance, draw)


def discrete_laplaces(scale: float, share: float) -> CountNoise:
    """Return the noise of Pólya shares. Those whose shares add up to 1 make up one discrete Laplace number of this scale."""
    ratio = float(np.exp(-1 / scale))

    def draw(generator: PublicGenerator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        first, second = (generator.negative_binomial(share, 1 - ratio, shape) for _ in range(2))
        return np.asarray(first - second)

    return CountNoise(2 * share * ratio / (1 - ratio) ** 2, draw)


@dataclass(frozen=True)
class IndependenceTest:
    """The result of a test of independence of two columns.

    Parameters
    ----------
    columns
        The two columns.
    statistic
        How far the table is from what its margins say, in units that count the noise. Only its p-value has a meaning.
    p_value
        The probability of a statistic at least as large if the columns were independent.
    draws
        How many tables were simulated. The p-value is at least 1/(draws + 1).
    """

    columns: tuple[str, str]
    statistic: float
    p_value: float
    draws: int

    def __repr__(self) -> str:
        one, other = self.columns
        return f"independence of {one} and {other}: p = {self.p_value:.3g} ({self.draws:,} simulated tables)"


def independence_test(
    table: Array,
    noise: CountNoise,
    *,
    people: int | None,
    cells: int = 1,
    draws: int,
    generator: PublicGenerator,
) -> tuple[float, float]:
    """Return the statistic of a noisy table with two axes, and its p-value.

    Parameters
    ----------
    table
        Unbiased counts.
    noise
        The noise of a count as it was released.
    people
        How many people there are in the table; ``None`` if that is private.
    cells
        How many released counts were added up to one count of the table.
    draws
        How many tables to simulate.
    generator
        The coins of the simulation. They are public: the test uses what was released, and reveals nothing more.
    """
    if table.ndim != 2 or min(table.shape) < 2:
        raise BadInput(
            "A test of independence takes two columns with two levels or more.", remedy="Name other columns."
        )
    variance = noise.variance * cells
    statistic = float(_statistics(table[None], variance, people)[0])
    total, likely = _likely(table, variance, people)
    size = max(1, BATCH // (table.size * cells))
    larger = 0
    for start in range(0, draws, size):
        count = min(size, draws - start)
        drawn = generator.multinomial(total, likely.ravel(), size=count)
        noisy = drawn + noise.draw(generator, (count, table.size, cells)).sum(axis=2)
        simulated = _statistics(noisy.reshape(count, *table.shape).astype(np.float64), variance, people)
        larger += int(np.sum(simulated >= statistic))
    return statistic, (1 + larger) / (1 + draws)


def _statistics(tables: Array, variance: float, people: int | None) -> Array:
    expected, _ = _expected(tables, people)
    return np.asarray(((tables - expected) ** 2 / (expected + variance)).sum(axis=(1, 2)))


def _expected(tables: Array, people: int | None) -> tuple[Array, Array]:
    """Return what each table's margins say about its cells, and its number of people; noise makes no margin negative."""
    total = np.maximum(tables.sum(axis=(1, 2)), 1.0) if people is None else np.full(len(tables), float(people))
    shares = []
    for axis in (2, 1):
        margin = np.maximum(tables.sum(axis=axis), 0.0)
        whole = margin.sum(axis=1, keepdims=True)
        shares.append(np.where(whole > 0, margin / np.where(whole > 0, whole, 1.0), 1 / margin.shape[1]))
    return total[:, None, None] * shares[0][:, :, None] * shares[1][:, None, :], total


def _likely(table: Array, variance: float, people: int | None) -> tuple[int, Array]:
    """Return a number of people, and the shares of cells if columns are independent, from which tables are simulated.

    Noisy margins are further apart than margins are. They are pulled together by what the noise explains (James and Stein's
    estimate), or the simulated tables would have noise on top of noise.
    """
    total = max(float(table.sum()), 1.0) if people is None else float(people)
    shares = []
    for axis in (1, 0):
        margin, noise = table.sum(axis=axis), variance * table.shape[axis]
        apart = float(np.sum((margin - margin.mean()) ** 2))
        kept = max(1 - max(len(margin) - 3, 1) * noise / apart, 0.0) if apart > 0 else 0.0
        pulled = np.maximum(total / len(margin) + kept * (margin - margin.mean()), 0.0)
        shares.append(pulled / pulled.sum())
    return round(total), np.outer(*shares)


LARGEST_EXACT = 2_000


def table_of_pairs(tables: PairTableSet, people: int, *, leaves_out: bool) -> CountTable:
    """Make the margins of all pair tables agree, and fit one table to them; with two parties the pair table is the answer."""
    total = plausible_total(tables, people, leaves_out=leaves_out)
    agreed = consistent_tables(tables, total)
    if len(tables.sizes) == 2:
        raw = tables.tables[0, 1]
        return CountTable(agreed.tables[0, 1], raw, np.full(raw.shape, tables.variances[0, 1] ** 0.5))
    joint = maximum_entropy(agreed, total)
    return CountTable(joint, joint, _fit_stderr(joint, agreed))


def variance_from_pairs(counts: Array, cell_variance: float) -> Array:
    """Return the variance of each count of `table_of_pairs`, if these are the true ones."""
    pairs = list(combinations(range(counts.ndim), 2))
    tables = {pair: counts.sum(axis=tuple(a for a in range(counts.ndim) if a not in pair)) for pair in pairs}
    if counts.ndim == 2:
        return np.full(counts.shape, cell_variance)
    return _fit_stderr(counts, PairTableSet(counts.shape, tables, dict.fromkeys(pairs, cell_variance))) ** 2


def _fit_stderr(joint: Array, tables: PairTableSet) -> Array:
    """Return the standard error that the tables' noise gives each cell of the fit.

    For very large tables the relative errors of a cell's pair cells are added instead, as if they acted alike.
    """
    if sum(table.size for table in tables.tables.values()) <= LARGEST_EXACT:
        return joint_errors(joint, tables)
    return _relative_stderr(joint, tables)


def _relative_stderr(joint: Array, tables: PairTableSet) -> Array:
    squares = np.zeros(joint.shape)
    for pair, table in tables.tables.items():
        sigma = tables.variances[pair] ** 0.5
        relative = (sigma / np.maximum(table, sigma)) ** 2
        squares += np.expand_dims(relative, tuple(axis for axis in range(joint.ndim) if axis not in pair))
    return np.asarray(joint * np.sqrt(squares))
