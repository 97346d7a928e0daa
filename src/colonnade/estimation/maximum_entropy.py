"""A joint table of several columns from all their pair tables: the one of greatest entropy (`privacy.md` §3.5).

It is a fit to pairs, not a count: exact where no three columns interact beyond their pairs, and silent about such
interactions elsewhere. Plain iterative fitting collapses to zero on noisy tables, so the tables come here consistent
(`pair_tables`) and are mixed, where they have empty cells, with a little independence, which keeps all margins and
leaves no zero that another table contradicts. Pair tables with common margins may still belong to no joint table;
iterative fitting then cycles, and a simultaneous multiplicative update, which converges all the same (to the least
divergence from the pairs), takes over. Both stay within the log-linear family.
"""

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.pair_tables import Pair, PairTables

__all__ = ["LARGEST_JOINT", "joint_errors", "maximum_entropy"]

Array = NDArray[np.float64]
LARGEST_JOINT = 2**24
"""Cells of a joint table that is held whole; a larger one needs a factored fit."""
LARGEST_PAIRS = 4096
"""Cells of all pair tables together up to which standard errors are computed."""
INDEPENDENCE = 1e-6
NOISE_SHARE = 1e-3
STALLED = 0.99
SWEEPS = 200
LARGEST_UPDATES = 5_000


def maximum_entropy(tables: PairTables, total: float, *, tolerance: float = 1e-9) -> Array:
    """Return the joint table of greatest entropy whose pair tables are the given, consistent ones.

    Parameters
    ----------
    tables
        From `consistent_tables`.
    total
        Their common total.
    tolerance
        Stop when no pair cell misses its target by more than this share of the total (or a thousandth of the noise), or
        when nothing moves any more.
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
    enough = max(tolerance * total, NOISE_SHARE * max(tables.variances.values()) ** 0.5)
    joint, missed = _iterate(_supported(tables.sizes, targets, total), targets, enough)
    return joint if missed <= enough else _settle(joint, targets, total, enough)


def _softened(tables: PairTables, total: float) -> dict[Pair, Array]:
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


def joint_errors(joint: Array, tables: PairTables) -> Array:
    """Return each cell's standard error from the noise of the pair tables, to first order.

    With D the cells and A the pair sums, a change b of the pairs changes the fit by D·Aᵀ(A·D·Aᵀ)⁺b. The cells in D
    are mixed with independence in proportion to the noise, lest a cell that noise emptied look certain. What the fit
    cannot see (interactions of three columns) is not in it.
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


def _cautious(joint: Array, tables: PairTables) -> Array:
    total = max(float(joint.sum()), 1.0)
    product = np.full(joint.shape, total)
    for axis in range(joint.ndim):
        margin = joint.sum(axis=tuple(other for other in range(joint.ndim) if other != axis))
        smooth = np.maximum(margin, 1.0)
        product = product * (smooth / smooth.sum()).reshape([-1 if axis == other else 1 for other in range(joint.ndim)])
    noise = max(np.sqrt(variance * tables.tables[pair].size) for pair, variance in tables.variances.items())
    share = min(0.5, noise / total)
    return np.asarray((1 - share) * joint + share * product)
