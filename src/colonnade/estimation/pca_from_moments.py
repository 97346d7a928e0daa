"""Principal components of the columns mapped to [−1, 1], from one noisy Gram matrix (paper 002, Algorithm 1).

Centring is part of the release (the column sums are one more Gram column), never data-dependent preprocessing.
Eigenvalues of a noisy matrix are biased upwards: one of true size l appears near l + w²/l, w the half-width of the
noise's spectrum; the explained variances are corrected for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import to_own_units
from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.noise_propagation import operator_norm, quadratic_variance

__all__ = ["ComponentsFit", "pca_from_moments"]

Array = NDArray[np.float64]
TIE = 1e-8
"""Entries that differ by less than this part of the largest are of one size."""


@dataclass(frozen=True, eq=False)
class ComponentsFit:
    """Principal components.

    Parameters
    ----------
    names
        The coded columns.
    components
        One unit row a component, its largest entry positive.
    explained_variance
        Per component, in coded units, divided by people − 1 and corrected for the bias of noise.
    explained_variance_error
        Its standard error from the privacy noise.
    means, coded_means
        Column means in own units (shares, for levels) and in coded units.
    significant
        How many of the components stand out from the noise: an eigenvalue above the noise's operator norm.
    noise_floor
        That norm as a variance: below it noise alone explains a component.
    """

    names: tuple[str, ...]
    components: Array
    explained_variance: Array
    explained_variance_error: Array
    means: Array
    coded_means: Array
    significant: int
    noise_floor: float = 0.0


def pca_from_moments(moments: Moments, n_components: int, *, columns: Sequence[str] | None = None) -> ComponentsFit:
    """Return the leading components of some columns (all by default)."""
    places = moments.places(columns)
    features = [moments.features[place] for place in places]
    if any(feature.kind == "sign" for feature in features):
        raise BadInput(
            "Components need categories coded as levels.", remedy="Release the moments without signed columns."
        )
    if isinstance(n_components, bool) or not isinstance(n_components, int) or not 1 <= n_components <= len(places):
        raise BadInput(f"n_components must be a whole number from 1 to {len(places)}.")
    means = moments.matrix[0, places] / moments.count
    centred = moments.matrix[np.ix_(places, places)] - moments.count * np.outer(means, means)
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1][:n_components], _orient(vectors[:, ::-1][:, :n_components])
    variance = moments.variance[np.ix_(places, places)]
    people = max(moments.count - 1, 1)
    return ComponentsFit(
        names=tuple(feature.name for feature in features),
        components=vectors.T,
        explained_variance=_without_noise(values, operator_norm(variance)) / people,
        explained_variance_error=np.sqrt([quadratic_variance(variance, vector) for vector in vectors.T]) / people,
        means=to_own_units(means, features),
        coded_means=means,
        significant=int(np.sum(values > operator_norm(variance))),
        noise_floor=operator_norm(variance) / people,
    )


def _without_noise(values: Array, width: float) -> Array:
    """Invert l ↦ l + (width/2)²/l where an eigenvalue stands out of the noise; below that, noise alone explains it."""
    outside = np.maximum(values**2 - width**2, 0.0)
    return np.where(values > width, (values + np.sqrt(outside)) / 2, np.maximum(values, 0.0) / 2)


def _orient(vectors: Array) -> Array:
    """Fix the sign of each vector: its entry of largest size is positive; of entries that tie, the first.

    Two columns that vary alike give a vector such as (0.7, −0.7), and rounding would decide which of the two is larger.
    """
    sizes = np.abs(vectors)
    largest = np.argmax(sizes >= sizes.max(axis=0) * (1 - TIE), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.asarray(vectors * signs)
