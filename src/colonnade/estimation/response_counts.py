"""Counting from randomised reports: the unbiased joint estimator and its exact variance. Paper 000, Algorithm 1.

With party j's report of person i, ``z_k = (1[k in report] - q_j)/(p_j - q_j)`` has mean 1 for the true category and 0
for every other. The parties' coins are independent, so the product over parties has mean 1 in the person's true cell
and 0 elsewhere, and its sum over people is an unbiased table of counts. Where a report can only take few values, people
are tabulated by their reports first and the table is decoded along each axis; otherwise rows are multiplied in blocks.

We differ from the paper: it clips at zero, which inflates the total; see `colonnade.estimation.projection`. A null record
reports as a uniformly random category, so it adds 1/K to each category in expectation and the total stays the number of
people; the variance is that of the reports, given which category was drawn for it.

Everything here is public mathematics: it reads reports, never data.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.privacy.laws.channel import Channel, codes_of

__all__ = ["LARGEST_TABLE", "joint_counts", "variance_of_counts"]

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
        One array a party, of ``report_width`` bytes a person, the same people in the same order.
    channels
        The channel that made each.

    Returns
    -------
    ndarray
        One axis a party, in order; entries may be negative and sum to the number of people (up to noise for ``"oue"``).

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
        raise BadInput("There is one array of reports a channel.")
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
    """Return the index of each code, -1 if it is no report, and which categories the report of each index contains."""
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
                raise ProtocolError("Bytes that are no report of this channel.")
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
