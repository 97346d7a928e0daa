"""From unbiased counts to a table that could be one: no negative cell, the right total. Post-processing, hence free.

Clipping at zero inflates the total; the Euclidean projection treats all directions alike, although the noise does not:
a margin of the table is known far better than a cell (for v parties by a factor of about v0^((v-1)/2)). So the nearest
table is sought in the noise's own metric.

Notes
-----
If people were spread evenly over cells, the noise covariance would be ``m(⊗M_j - I/cells)``, with ``M_j`` the second
moments of party j's decoded reports: one eigenvalue for the constant direction, one for all others. The basis
below diagonalises every ``M_j``, so it splits a table into its margins and interactions, each with one noise variance.
ADMM then alternates a diagonal weighted average in that basis with a projection onto the simplex.
"""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.laws.channel import Channel

__all__ = ["independent_counts", "project_counts", "project_to_simplex", "shrink_interactions"]

Floats = NDArray[np.float64]

_ROUNDS = 2000
_WORK = 1 << 26  # rounds times cells: very large tables stop sooner, at a feasible table that is not quite the nearest
_CLOSE = 1e-9  # relative to the total
_RELAXED = 1.7


def project_to_simplex(estimate: Floats, total: float) -> Floats:
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


def project_counts(estimate: Floats, total: int, channels: Sequence[Channel]) -> Floats:
    """Return the table nearest to ``estimate`` in the metric of its noise, non-negative and with the right total.

    Parameters
    ----------
    estimate
        What `colonnade.estimation.response_counts.joint_counts` returned.
    total
        The number of people.
    channels
        The parties' channels, one an axis.
    """
    variance = _noise(estimate, channels)
    nearest = project_to_simplex(estimate, total)
    if estimate.ndim == 1 or total == 0 or not np.all(variance.ravel()[1:] > 0):
        return nearest  # one axis: both metrics agree; no noise at all: nothing to weigh
    weight = 1 / np.maximum(variance, variance.ravel()[1:].min())
    penalty = math.sqrt(float(weight.max()) * float(weight.min()))
    goal = _components(estimate)
    goal.ravel()[0] = total / math.sqrt(estimate.size)
    dual = np.zeros_like(nearest)
    for _ in range(min(_ROUNDS, max(10, _WORK // estimate.size))):
        blend = (weight * goal + penalty * _components(nearest - dual)) / (weight + penalty)
        fitted = _components(blend)
        relaxed = _RELAXED * fitted + (1 - _RELAXED) * nearest
        previous, nearest = nearest, project_to_simplex(relaxed + dual, total)
        dual += relaxed - nearest
        if max(np.abs(nearest - previous).sum(), np.abs(nearest - fitted).sum()) <= _CLOSE * total:
            break
    return nearest


def shrink_interactions(estimate: Floats, total: int, channels: Sequence[Channel]) -> Floats:
    """Return the estimate with each interaction pulled towards independence as far as it cannot be told from noise.

    James–Stein, positive part, one factor a set of two or more parties: with noise energy N and observed energy E the
    interaction is multiplied by ``max(0, 1 - N/E)``. No longer unbiased; the error is a half to a third where noise
    dominates, and the same where it does not. Project afterwards.
    """
    axes = range(estimate.ndim)
    margins = [estimate.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    baseline = independent_counts(margins, total)
    noise = total * _noise(estimate, channels)
    excess = _components(estimate - baseline)
    for members in product((False, True), repeat=estimate.ndim):
        if sum(members) > 1:
            part = tuple(slice(1, None) if member else slice(0, 1) for member in members)
            energy = float(np.sum(excess[part] ** 2))
            excess[part] *= max(0.0, 1 - float(noise[part].sum()) / energy) if energy else 0.0
    return baseline + _components(excess)


def independent_counts(margins: Sequence[Floats], total: float) -> Floats:
    """Return the table of counts that has these margins, each projected onto the total first, and no interaction.

    Examples
    --------
    >>> independent_counts([np.array([6.0, 2.0]), np.array([4.0, 4.0])], 8).tolist()
    [[3.0, 3.0], [1.0, 1.0]]
    """
    if not margins:
        raise BadInput("A table has at least one margin.")
    table = np.asarray(float(total))
    for margin in margins:
        share = project_to_simplex(np.asarray(margin, dtype=np.float64), total) / (total or 1)
        table = np.multiply.outer(table, share)
    return table


def _noise(estimate: Floats, channels: Sequence[Channel]) -> Floats:
    """Return the noise variance a person adds to each component, people spread evenly."""
    if estimate.shape != tuple(channel.categories for channel in channels):
        raise BadInput("Counts and channels of different shapes.")
    moments: Floats = np.ones(())
    for channel in channels:
        K = channel.categories
        trace = 1 + channel.v1 + (K - 1) * channel.v0
        constant = trace / K if channel.kind == "oue" else 1 / K  # other reports decode to numbers that sum to 1
        along = np.full(K, (trace - constant) / (K - 1))
        along[0] = constant
        moments = np.multiply.outer(moments, along)
    return np.asarray(moments - 1 / estimate.size)


def _components(table: Floats) -> Floats:
    """Split a table into margins and interactions; doing so twice gives it back.

    Along each axis a reflection that exchanges the constant direction with the first one.
    """
    for axis, size in enumerate(table.shape):
        normal = np.full(size, 1 / math.sqrt(size))
        normal[0] -= 1
        normal /= np.linalg.norm(normal)
        along = normal.reshape([-1 if other == axis else 1 for other in range(table.ndim)])
        table = table - 2 * along * np.sum(along * table, axis=axis, keepdims=True)
    return table
