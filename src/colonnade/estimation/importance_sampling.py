"""Importance sampling across parties (paper 004, Algorithm 1): who draws how many rows, what they weigh, how many are enough.

The paper's letters: T parties; G^(j) party j's total score and G their sum; m draws, S the multiset of drawn rows, g_i the sum of
row i's scores over parties. Weights belong to *occurrences*: each of the m draws of row i weighs G/(m·g_i), and a row that was
drawn c times weighs c times as much (`privacy.md` §6: counting distinct rows instead gives 0.73 of the cost, and the formula as
printed 0.35).

A party's total is bounded by what its public schema allows, so a greedy party cannot seize the sample: leverage scores sum to the
rank of the block and the constant terms to one; a party's scores for k-means sum to 2(k + 1). A larger total is refused.

Sizes are those of Theorem G.2, with the constant 1 where the paper leaves it open.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError

__all__ = ["Coreset", "Task", "allocate", "checked_totals", "kmeans_size", "largest_total", "regression_size", "weigh"]

Array = NDArray[np.float64]
Task = Literal["regression", "kmeans"]
SLACK = 1e-6
"""Relative room for rounding in a total."""


@dataclass(frozen=True, eq=False)
class Coreset:
    """Rows and weights.

    Parameters
    ----------
    rows
        Places in the alignment, each once, ascending.
    counts
        How often each was drawn.
    weights
        What each stands for, all its occurrences together.
    """

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: Array

    @property
    def size(self) -> int:
        """m: draws, with multiplicity."""
        return int(self.counts.sum())


def largest_total(task: Task, width: int, people: int, clusters: int, *, target: bool) -> float:
    """Return the public maximum of a party's total.

    Parameters
    ----------
    task
        Leverage scores or k-means scores.
    width, people
        Coded columns of the party's features, and rows.
    clusters
        k.
    target
        Whether the party also holds the target.

    Examples
    --------
    >>> largest_total("regression", 4, 1_000, 0, target=False)  # rank of four columns and a constant, plus one
    6.0
    >>> largest_total("kmeans", 4, 1_000, 10, target=False)
    22.0
    """
    if task == "kmeans":
        return 2.0 * (clusters + 1)
    return float(min(width + 1 + target, people) + 1)


def checked_totals(totals: Mapping[str, float], maxima: Mapping[str, float]) -> dict[str, float]:
    """Return the totals; refuse one that no data could have."""
    for party, total in totals.items():
        if not math.isfinite(total) or not 0 < total <= maxima[party] * (1 + SLACK):
            raise ProtocolError(
                f"Party {party!r} claims a total score that its columns cannot have.",
                remedy="Leave the party out, or find out what it computes.",
            )
    return dict(totals)


def allocate(totals: Mapping[str, float], uniforms: Array) -> dict[str, int]:
    """Return how many of the draws each party makes: one a uniform number, with probability G^(j)/G each.

    Examples
    --------
    >>> allocate({"a": 1.0, "b": 3.0}, np.array([0.1, 0.3, 0.9]))
    {'a': 1, 'b': 2}
    """
    cumulative = np.cumsum(list(totals.values()))
    drawn = np.minimum(np.searchsorted(cumulative, uniforms * cumulative[-1], side="right"), len(cumulative) - 1)
    counts = np.bincount(drawn, minlength=len(cumulative))
    return {party: int(count) for party, count in zip(totals, counts, strict=True)}


def weigh(sample: NDArray[np.int64], scores: Array, total: float) -> Coreset:
    """Return the coreset of a multiset of rows.

    Parameters
    ----------
    sample
        The drawn rows, repeats included.
    scores
        g of each, summed over parties.
    total
        G.

    Examples
    --------
    >>> weigh(np.array([7, 3, 7]), np.array([0.5, 0.25, 0.5]), 3.0).weights.tolist()
    [4.0, 4.0]
    """
    if scores.shape != sample.shape or not np.all(np.isfinite(scores)) or not np.all(scores > 0):
        raise ProtocolError("The scores of the drawn rows are not positive.")
    rows, first, counts = np.unique(sample, return_index=True, return_counts=True)
    each = total / (len(sample) * scores[first])
    return Coreset(rows, counts, counts * each)


# How many draws are enough ------------------------------------------------------------------------------------------------


def regression_size(
    features: int, totals: float, parties: int, *, error: float, outliers: float, failure: float
) -> int:
    """Return m of Theorem G.3: with it, all but a share ``outliers`` of the rows are approximated within ``error``.

    The sensitivities of rows for a least-squares problem sum to at most the rank of [1, X, y], and its pseudo-dimension is taken
    as d², as in the paper.

    Parameters
    ----------
    features
        d: coded columns of all parties, without target and constant.
    totals
        G, or its public maximum.
    parties
        T.
    error, outliers, failure
        ε, β and δ of the theorem.
    """
    return _size(features + 2.0, totals, features**2, parties, error, outliers, failure)


def kmeans_size(
    features: int, clusters: int, totals: float, parties: int, *, error: float, outliers: float, failure: float
) -> int:
    """Return m of Theorem G.4; sensitivities for k-means sum to at most 2(k + 1), the pseudo-dimension is taken as dk."""
    return _size(2.0 * (clusters + 1), totals, features * clusters, parties, error, outliers, failure)


def _size(
    sensitivities: float, totals: float, dimension: int, parties: int, error: float, outliers: float, failure: float
) -> int:
    for name, value in (("error", error), ("outliers", outliers), ("failure", failure)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise BadInput(f"{name} is a number between 0 and 1.")
    gap = 2 * sensitivities / (outliers * parties)
    return math.ceil((gap * totals / error) ** 2 * (dimension + math.log(1 / failure)))
