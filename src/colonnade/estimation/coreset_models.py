"""Models of a weighted sample of rows, by scikit-learn (paper 004, §6: C-CENTRAL, C-KMEANS++ and the last step of C-DISTDIM).

The objective of a regression is Σ w_i (x_iθ + b − y_i)² + n·α·(2ρ‖θ‖₁ + (1−ρ)‖θ‖²) with n people, the same as that of
scikit-learn's ``ElasticNet`` on all rows, times 2n; ρ is 1 for ``"l1"`` and 0 for ``"l2"``. It is minimised in coded columns
(numbers mapped from their bounds to [−1, 1]), where the penalty is measured too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model

from colonnade.coding.features import Feature, centres, half_widths
from colonnade.estimation.weighted_clustering import weighted_kmeans

__all__ = ["CodedModel", "Penalty", "joined_clusters", "own_model", "sampled_clusters", "sampled_regression"]

Array = NDArray[np.float64]
Penalty = Literal["l1", "l2", "elasticnet"] | None


@dataclass(frozen=True, eq=False)
class CodedModel:
    """Coefficients of coded columns for a coded target."""

    coefficients: Array
    intercept: float


def sampled_regression(
    rows: Array, target: Array, weights: Array, people: int, *, penalty: Penalty, alpha: float, l1_ratio: float
) -> CodedModel:
    """Fit weighted rows.

    Parameters
    ----------
    rows, target, weights
        Coded rows, the coded target, and what each row stands for.
    people
        n, to which the penalty is relative.
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


def own_model(model: CodedModel, features: Sequence[Feature], target: Feature) -> tuple[Array, float]:
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
