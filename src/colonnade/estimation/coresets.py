"""Coresets: sizes, totals and weights of a sample drawn by importance, and models fitted on it.

Algorithms 1 to 3 of Coresets (Huang, Li, Sun, Zhao, 2022; docs/references.md#coresets). The paper's letters: T parties; G^(j)
party j's total score and G their sum; m draws, S the multiset of drawn rows, g_i the sum of row i's scores over parties.

*Weights* belong to *occurrences*: each of the m draws of row i weighs G/(m·g_i), and a row that was drawn c times weighs c
times as much (docs/proofs/non-private.md#weights). Counting distinct rows instead gives 0.73 of the cost, and the formula as
printed 0.35.

*Totals.* A party's total is bounded by what its public schema allows, so a greedy party cannot seize the sample. Leverage
scores sum to the rank of the block and the constant terms to one; a party's scores for k-means sum to 2(k + 1). A larger
total is refused.

*Sizes.* `proved_size` is that of Theorem G.2, with the constant 1 where the paper leaves it open. It exceeds any table that we
have seen. `estimated_size` is how many draws serve in practice (docs/proofs/non-private.md#size).

*Models* of the weighted sample are fitted by scikit-learn (Section 6 of the paper: C-CENTRAL, C-KMEANS++ and the last step of
C-DISTDIM).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model

from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.clustering import weighted_kmeans
from colonnade.schema.features import Feature, centres, half_widths

Array = NDArray[np.float64]
Task = Literal["regression", "kmeans"]
SLACK = 1e-6
"""Relative room for rounding in a total."""


@dataclass(frozen=True, eq=False)
class WeightedSample:
    """A weighted sample of rows.

    Parameters
    ----------
    rows
        Places in the alignment, each once, ascending.
    counts
        How often each was drawn.
    weights
        The number of people that each row represents, for all its occurrences together.
    """

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: Array

    @property
    def size(self) -> int:
        """The number of draws, with multiplicity."""
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
    """Return the totals; refuse one that is larger than any data could give."""
    for party, total in totals.items():
        if not math.isfinite(total) or not 0 < total <= maxima[party] * (1 + SLACK):
            raise ProtocolError(
                f"Party {party!r} claims a total score that its columns cannot have.",
                remedy="Leave the party out, or find out what it computes.",
            )
    return dict(totals)


def allocate_draws(totals: Mapping[str, float], uniforms: Array) -> dict[str, int]:
    """Return how many of the draws each party makes: one per uniform number, with probability G^(j)/G each.

    Examples
    --------
    >>> allocate_draws({"a": 1.0, "b": 3.0}, np.array([0.1, 0.3, 0.9]))
    {'a': 1, 'b': 2}
    """
    cumulative = np.cumsum(list(totals.values()))
    drawn = np.minimum(np.searchsorted(cumulative, uniforms * cumulative[-1], side="right"), len(cumulative) - 1)
    counts = np.bincount(drawn, minlength=len(cumulative))
    return {party: int(count) for party, count in zip(totals, counts, strict=True)}


def weighted_coreset(sample: NDArray[np.int64], scores: Array, total: float) -> WeightedSample:
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
    >>> weighted_coreset(np.array([7, 3, 7]), np.array([0.5, 0.25, 0.5]), 3.0).weights.tolist()
    [4.0, 4.0]
    """
    if scores.shape != sample.shape or not np.all(np.isfinite(scores)) or not np.all(scores > 0):
        raise ProtocolError("The scores of the drawn rows are not positive.")
    rows, first, counts = np.unique(sample, return_index=True, return_counts=True)
    each = total / (len(sample) * scores[first])
    return WeightedSample(rows, counts, counts * each)


# How many draws are enough ------------------------------------------------------------------------------------------------

DISTORTION = 0.5
"""How far the sample may distort a direction, or a cluster's weight, before the estimate of the excess loss stops to hold."""


def estimated_size(task: Task, features: int, clusters: int, totals: float, *, error: float, failure: float) -> int:
    """Return about how many draws bring the loss of the best model of the sample within ``1 + error`` of the best one.

    With scores that sum to G and are at least a row's share of the loss, the excess loss of a model with p unknowns has a mean
    of at most G/m times the loss, once no direction is distorted by more than a half (docs/proofs/non-private.md#size). It is an
    estimate and no guarantee: the scores of parties whose columns nearly repeat each other's are too small, and k-means
    may find another local optimum.

    Parameters
    ----------
    task, features, clusters
        The problem: coded columns of all parties without target and constant, or k.
    totals
        G, or its public maximum.
    error, failure
        The excess of the loss, in parts of the smallest one, and how often it may be larger.

    Examples
    --------
    >>> estimated_size("regression", 18, 0, 28.0, error=0.1, failure=0.05)
    1331
    """
    _require_shares(error=error, failure=failure)
    unknowns = features + 1 if task == "regression" else clusters
    chance = math.log(1 / failure)
    excess = totals / error * (1 + math.sqrt(2 * chance / unknowns)) ** 2
    undistorted = 2 * totals / DISTORTION**2 * (math.log(unknowns) + chance)
    return math.ceil(max(excess, undistorted))


def proved_size(
    task: Task,
    features: int,
    clusters: int,
    totals: float,
    parties: int,
    *,
    error: float,
    outliers: float,
    failure: float,
) -> int:
    """Return the size m of Theorems G.3 and G.4.

    With it, all but a share ``outliers`` of the rows are approximated within ``error``.
    For a regression, sensitivities sum to at most the rank of [1, X, y] and the pseudo-dimension is taken as d², as in the paper;
    for k-means they sum to at most 2(k + 1), and it is taken as dk.

    Parameters
    ----------
    task, features, clusters, totals
        As in `estimated_size`.
    parties
        T.
    error, outliers, failure
        ε, β and δ of the theorem.
    """
    _require_shares(error=error, outliers=outliers, failure=failure)
    regression = task == "regression"
    sensitivities = features + 2.0 if regression else 2.0 * (clusters + 1)
    dimension = features**2 if regression else features * clusters
    gap = 2 * sensitivities / (outliers * parties)
    return math.ceil((gap * totals / error) ** 2 * (dimension + math.log(1 / failure)))


def _require_shares(**shares: float) -> None:
    for name, value in shares.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise BadInput(f"{name} is a number between 0 and 1.", remedy=f"For example {name}=0.1.")


Penalty = Literal["l1", "l2", "elasticnet"] | None


@dataclass(frozen=True, eq=False)
class CodedModel:
    """Coefficients of coded columns for a coded target."""

    coefficients: Array
    intercept: float


def sampled_regression(
    rows: Array, target: Array, weights: Array, people: int, *, penalty: Penalty, alpha: float, l1_ratio: float
) -> CodedModel:
    """Return a linear regression of weighted rows.

    The objective is Σ w_i (x_iθ + b − y_i)² + n·α·(2ρ‖θ‖₁ + (1−ρ)‖θ‖²) with n people, the same as that of scikit-learn's
    ``ElasticNet`` on all rows, times 2n; ρ is 1 for ``"l1"`` and 0 for ``"l2"``. It is minimised in coded columns (numbers
    mapped from their bounds to [−1, 1]), where the penalty is measured too.

    Parameters
    ----------
    rows, target, weights
        Coded rows, the coded target, and the weight of each row.
    people
        The number of people; the penalty is relative to it.
    penalty, alpha, l1_ratio
        Which penalty, how strong (α) and how it is mixed (ρ, for ``"elasticnet"``).
    """
    model: linear_model.LinearRegression | linear_model.Ridge | linear_model.ElasticNet
    if penalty is None:
        model = linear_model.LinearRegression()
    elif penalty == "l2":
        model = linear_model.Ridge(alpha=people * alpha)
    else:
        # scikit-learn divides by the sum of weights, which is n only in the mean
        strength = alpha * people / float(weights.sum())
        ratio = 1.0 if penalty == "l1" else l1_ratio
        model = linear_model.ElasticNet(alpha=strength, l1_ratio=ratio, max_iter=100_000, tol=1e-6)
    model.fit(rows, target, sample_weight=weights)
    return CodedModel(np.asarray(model.coef_, dtype=np.float64), float(model.intercept_))


def model_in_own_units(model: CodedModel, features: Sequence[Feature], target: Feature) -> tuple[Array, float]:
    """Return coefficients and intercept in the columns' own units."""
    coefficients = model.coefficients * target.half_width / half_widths(features)
    return coefficients, float(target.centre + model.intercept * target.half_width - coefficients @ centres(features))


def sampled_clusters(rows: Array, weights: Array, clusters: int, *, seed: int) -> Array:
    """Return k-means centres of weighted rows."""
    return _clustered(rows, weights, clusters, seed)


def joined_clusters(
    local: Mapping[str, tuple[Array, NDArray[np.int64]]], weights: Array, clusters: int, *, seed: int
) -> Array:
    """Return k-means centres of the grid of local centres, each cell weighing what its rows weigh [Ding et al. 2016]."""
    labels = np.stack([labels for _, labels in local.values()], axis=1)
    cells, place = np.unique(labels, axis=0, return_inverse=True)
    points = np.concatenate([centres[cells[:, party]] for party, (centres, _) in enumerate(local.values())], axis=1)
    masses = np.bincount(place.ravel(), weights, minlength=len(cells)).astype(np.float64)
    return _clustered(points, masses, clusters, seed)


def _clustered(points: Array, weights: Array, clusters: int, seed: int) -> Array:
    """Cluster weighted points; where there are no more of them than clusters each is a centre, some of them twice."""
    if len(points) <= clusters:
        return np.resize(points, (clusters, points.shape[1]))
    return weighted_kmeans(points, weights, clusters, seed=seed)
