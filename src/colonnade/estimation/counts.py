"""Counts from randomised reports, and their projection onto possible counts: non-negative, with the right total.

*Decoding* (Primitives, Algorithm 1; docs/proofs/randomised-response.md#counting). With party j's report of person i, ``z_k =
(1[k in report] - q_j)/(p_j - q_j)`` has mean 1 for the true category and 0 for every other. The parties' coins are
independent, so the product over parties has mean 1 in the person's true cell and 0 elsewhere, and its sum over people is an
unbiased table of counts. Where a report can only take few values, people are tabulated by their reports first and the table
is decoded along each axis; otherwise rows are multiplied in blocks. A category that leaves people out has one more cell here,
for them (`colonnade.steps.local.report_cells`); the caller cuts it off. Where there is none, a null record reports as a
uniformly random category, so it adds 1/K to each category in expectation and the total stays the number of people. The
variance is that of the reports, given which category was drawn for it.

*Projection.* The paper clips at zero, which inflates the total. The Euclidean projection treats all directions alike,
although the noise does not: a margin of the table is known far better than a cell (for v parties by a factor of about
v0^((v-1)/2)). So the nearest table is sought in the noise's own metric (`project_counts`).

Everything here is public mathematics: it reads reports, never data, and costs nothing.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.tables import CountTable, project_to_simplex
from colonnade.privacy.laws.response import Channel, codes_of

Floats = NDArray[np.float64]
Reports = NDArray[np.uint8]

LARGEST_TABLE = 1 << 24
"""The largest number of cells of a joint table."""

_LARGEST_HISTOGRAM = 1 << 22
_ROWS = 1 << 16  # a block of rows that stays in the processor's cache
_BLOCK = 1 << 20  # numbers held at once where rows are multiplied


def joint_counts(reports: Sequence[Reports], channels: Sequence[Channel]) -> Floats:
    """Return the unbiased estimate of the joint table of counts.

    Parameters
    ----------
    reports
        One array per party, of ``report_width`` bytes per person, the same people in the same order.
    channels
        The channel that made each.

    Returns
    -------
    ndarray
        One axis per party, in order; entries may be negative and sum to the number of people (up to noise for ``"oue"``).

    Examples
    --------
    >>> channel = Channel("grr", 2, 1, 1_098_612_289)  # e^ε = 3: the truth in three reports of four
    >>> joint_counts([np.array([[0], [0], [0], [1]], dtype=np.uint8)], [channel]).round(6).tolist()
    [4.0, 0.0]
    """
    rows = _same_people(reports, channels)
    if math.prod(channel.categories for channel in channels) > LARGEST_TABLE:
        raise BadInput(f"The joint table has more than {LARGEST_TABLE} cells.", remedy="Count fewer columns together.")
    if math.prod(map(_letters, channels)) <= min(_LARGEST_HISTOGRAM, max(_ROWS, 8 * len(rows[0]))):
        return _from_histogram(rows, channels)
    return _from_blocks(rows, channels)


def variance_of_counts(counts: Floats, channels: Sequence[Channel]) -> Floats:
    """Return the variance of each cell of `joint_counts`, exact if ``counts`` are the true counts.

    ``Var(count_ρ) = Σ_i [Π_j τ_ij - 1{x_i = ρ}]`` with ``τ_ij = 1 + v1_j`` where party j's category is ρ's and ``v0_j``
    where it is not. Estimated counts give an unbiased estimate of it; projected counts one that is never negative.
    """
    if counts.shape != tuple(channel.categories for channel in channels):
        raise BadInput("Counts and channels of different shapes.")
    second = np.asarray(counts, dtype=np.float64)
    for axis, channel in enumerate(channels):
        second = channel.v0 * second.sum(axis=axis, keepdims=True) + (1 + channel.v1 - channel.v0) * second
    return np.maximum(second - counts, 0.0)


def _same_people(reports: Sequence[Reports], channels: Sequence[Channel]) -> list[Reports]:
    if not reports or len(reports) != len(channels):
        raise BadInput("There must be one array of reports per channel.")
    rows = [channel.checked(report) for report, channel in zip(reports, channels, strict=True)]
    if len({len(report) for report in rows}) != 1:
        raise ProtocolError("The parties report about different numbers of people.")
    return rows


def _letters(channel: Channel) -> int:
    """Return how many different reports there are, or too many if they do not fit in two bytes."""
    if channel.kind == "grr":
        return channel.categories
    if channel.report_width > 2:
        return _LARGEST_HISTOGRAM + 1
    return math.comb(channel.categories, channel.size) if channel.kind == "subset" else 1 << channel.categories


@lru_cache(maxsize=64)
def _alphabet(channel: Channel) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the index of each code (-1 if it is not a report), and which categories the report of each index contains."""
    K = channel.categories
    if channel.kind == "subset":
        codes = np.array([sum(1 << member for member in chosen) for chosen in combinations(range(K), channel.size)])
    else:
        codes = np.arange(_letters(channel))
    index = np.full(256**channel.report_width, -1, dtype=np.int32)
    index[codes] = np.arange(len(codes), dtype=np.int32)
    supports = codes[:, None] >> np.arange(K if channel.kind != "grr" else 0) & 1
    return index, supports.astype(np.uint8)


def _from_histogram(rows: list[Reports], channels: Sequence[Channel]) -> Floats:
    """Tabulate people by their reports, then decode along each axis."""
    shape = [_letters(channel) for channel in channels]
    table: Floats = np.zeros(math.prod(shape))
    step = max(_ROWS, table.size)
    for start in range(0, len(rows[0]), step):
        cell = np.zeros(len(rows[0][start : start + step]), dtype=np.int64)
        for report, channel in zip(rows, channels, strict=True):
            letter = _alphabet(channel)[0][codes_of(report[start : start + step])]
            if letter.min() < 0:
                raise ProtocolError("A party sent bytes that are not a report of its channel.")
            cell *= _letters(channel)
            cell += letter
        table += np.bincount(cell, minlength=table.size)
    counts = table.reshape(shape)
    for axis, channel in enumerate(channels):
        counts = _decoded_along(counts, axis, channel)
    return np.ascontiguousarray(counts)


def _decoded_along(counts: Floats, axis: int, channel: Channel) -> Floats:
    """Turn numbers of reports into estimated numbers of people; for "grr", by the inverse of its transition matrix."""
    reported = counts
    if channel.kind != "grr":
        supports = _alphabet(channel)[1].astype(np.float64)
        reported = np.moveaxis(np.tensordot(counts, supports, axes=(axis, 0)), -1, axis)
    return np.asarray((reported - channel.q * counts.sum(axis=axis, keepdims=True)) / channel.spread)


def _decoded(supports: NDArray[np.uint8], channel: Channel) -> Floats:
    return np.asarray((supports - channel.q) / channel.spread)


def _from_blocks(rows: list[Reports], channels: Sequence[Channel]) -> Floats:
    """Multiply each person's decoded reports out, one half of the parties against the other, in blocks of rows."""
    shape = [channel.categories for channel in channels]
    cut = min(range(len(shape) + 1), key=lambda split: math.prod(shape[:split]) + math.prod(shape[split:]))
    left, right = math.prod(shape[:cut]), math.prod(shape[cut:])
    counts: Floats = np.zeros((left, right))
    step = max(_BLOCK // (left + right), 16)
    for start in range(0, len(rows[0]), step):
        decoded = [
            _decoded(channel.supports(report[start : start + step]), channel)
            for report, channel in zip(rows, channels, strict=True)
        ]
        people = len(decoded[0])
        counts += _row_products(decoded[:cut], people).T @ _row_products(decoded[cut:], people)
    return counts.reshape(shape)


def _row_products(factors: list[Floats], people: int) -> Floats:
    """Return the row-wise Kronecker product."""
    product: Floats = np.ones((people, 1))
    for factor in factors:
        product = (product[:, :, None] * factor[:, None, :]).reshape(people, -1)
    return product


_ROUNDS = 2000
_WORK = 1 << 26  # rounds times cells: very large tables stop sooner, at a feasible table that is not quite the nearest
_CLOSE = 1e-9  # relative to the total
_RELAXED = 1.7


def project_counts(estimate: Floats, total: int, channels: Sequence[Channel]) -> Floats:
    """Return the table nearest to ``estimate`` in the metric of its noise, non-negative and with the right total.

    If people were spread evenly over cells, the noise covariance would be ``m(⊗M_j - I/cells)``, with ``M_j`` the second
    moments of party j's decoded reports: one eigenvalue for the constant direction, one for all others. The basis of
    `_components` diagonalises every ``M_j``, so it splits a table into its margins and interactions, each with one noise
    variance. ADMM then alternates a diagonal weighted average in that basis with a projection onto the simplex.

    Parameters
    ----------
    estimate
        What `colonnade.estimation.counts.joint_counts` returned.
    total
        The number of people.
    channels
        The parties' channels, one per axis.
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

    James–Stein, positive part, one factor per set of two or more parties: with noise energy N and observed energy E the
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


def independent_counts(margins: Sequence[Floats], total: float, present: Sequence[float] | None = None) -> Floats:
    """Return the table of counts that has these margins, each projected onto its own total first, and no interaction.

    Parameters
    ----------
    margins
        Noisy counts, one vector per party.
    total
        The number of people.
    present
        How many of them each margin counts; all of them by default. Who is left out is taken to be independent too.

    Examples
    --------
    >>> independent_counts([np.array([6.0, 2.0]), np.array([4.0, 4.0])], 8).tolist()
    [[3.0, 3.0], [1.0, 1.0]]
    """
    if not margins:
        raise BadInput("A table has at least one margin.")
    table = np.asarray(float(total))
    for margin, own in zip(margins, present or [total] * len(margins), strict=True):
        share = project_to_simplex(np.asarray(margin, dtype=np.float64), own) / (total or 1)
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


def response_table(
    reports: Sequence[Reports], channels: Sequence[Channel], people: int, sizes: Sequence[int], sample: float
) -> CountTable:
    """Estimate a table from all parties' randomised reports.

    Parameters
    ----------
    reports, channels
        The parties' reports, and how each was randomised.
    people
        The number of people, which is public.
    sizes
        How many levels each party has; reports may have one more, for people who are left out.
    sample
        The rate at which people were chosen to report.
    """
    if len({len(report) for report in reports}) != 1 or len(reports[0]) > people:
        raise ProtocolError("The parties reported on different numbers of people.")
    counted = tuple(slice(0, size) for size in sizes)
    unbiased = joint_counts(reports, channels) / sample
    fitted = project_counts(unbiased, people, channels)
    variance = _sampled_variance(fitted, channels, sample)
    return CountTable(fitted[counted], unbiased[counted], np.sqrt(variance[counted]))


def response_variance(counts: Floats, channels: Sequence[Channel], sample: float) -> Floats:
    """Return the variance of each unbiased count, if these are the true ones; cells of people left out are 0."""
    whole = np.pad(
        counts, [(0, channel.categories - given) for channel, given in zip(channels, counts.shape, strict=True)]
    )
    return _sampled_variance(whole, channels, sample)[tuple(slice(0, size) for size in counts.shape)]


def _sampled_variance(counts: Floats, channels: Sequence[Channel], sample: float) -> Floats:
    """Return the variance of counts of a sample: a term X/s has second moment E X²/s, so it is (Var + count)/s − count."""
    return (variance_of_counts(counts, channels) + counts) / sample - counts


def independent_table(margins: Sequence[Floats], people: int, noise: float, leaving: Sequence[bool]) -> CountTable:
    """Multiply noisy margins; the standard error covers their noise, not the error of assuming independence.

    A margin counts everybody, or as many as its own noisy total says where it leaves people out.
    """
    present = [
        min(max(float(margin.sum()), 0.0), people) if leaves_out else float(people)
        for margin, leaves_out in zip(margins, leaving, strict=True)
    ]
    raw = independent_counts(margins, float(people), present)
    return CountTable(raw, raw, np.sqrt(independent_variance(raw, noise, present)))


def independent_variance(counts: Floats, noise: float, present: Sequence[float]) -> Floats:
    """First-order variance of a product of noisy margins, Σ_j (count/margin_j)² Var, if these many people are counted."""
    variance = np.zeros_like(counts)
    for axis, own in enumerate(present):
        others = counts.sum(axis=axis, keepdims=True)  # count/margin_j, times the people that margin j counts
        variance += (others / max(own, 1.0)) ** 2 * noise
    return variance
