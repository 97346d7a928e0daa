"""Noisy second moments, and what follows from them without a model.

A `Moments` object holds the noisy matrix, the variance of its noise and its coded columns: columns after scaling to [−1, 1],
or indicators of levels. The coordinator holds nothing else. What it computes from them is post-processing and costs nothing
more. Coding is public (`colonnade.coding.columns`): a two-level category may become a single ±1 column (half the noise
variance of two indicators), and a constant column of ones comes first.

The module also has the propagation of noise through quadratic forms, the moments of typical data for previews, a matrix whose
weak correlations are pulled towards none, and principal components.

*Propagation* is to first order (the delta method). With E the symmetric noise matrix, entries independent on and above the
diagonal with variances V, the products E·a are correlated in a way that has a closed form (`product_covariance`). A
coefficient's standard error is a quadratic form in it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr, ndtri

from colonnade.coding.columns import Feature, to_own_units
from colonnade.errors import BadInput

__all__ = [
    "EVEN",
    "NARROW",
    "SPREAD",
    "TYPICAL",
    "ComponentsFit",
    "Moments",
    "fit_deviations",
    "noisy_releases",
    "operator_norm",
    "pca_from_moments",
    "pooled_correlations",
    "product_covariance",
    "quadratic_variance",
    "sketched_grams",
    "typical_matrix",
]


Array = NDArray[np.float64]
SYMMETRY_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Moments:
    """One noisy matrix of sums of products, and what is known about its noise.

    Parameters
    ----------
    matrix
        Symmetric. Entry (i, j) estimates the sum over people of coded column i times coded column j.
    variance
        The variance of the noise in each entry; 0 where the entry is known exactly.
    count
        The public number of people.
    features
        What the columns are; the first is `INTERCEPT`.
    """

    matrix: Array
    variance: Array
    count: int
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        for name in ("matrix", "variance"):
            object.__setattr__(self, name, _square(getattr(self, name), len(self.features)))
        if np.any(self.variance < 0):
            raise BadInput("The variance of noise must not be negative.")
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise BadInput("The number of people must be a positive whole number.")
        if self.features[0].kind != "intercept" or sum(f.kind == "intercept" for f in self.features) != 1:
            raise BadInput("The first column of moments, and no other, is the intercept.")
        if len({feature.name for feature in self.features}) != len(self.features):
            raise BadInput("The columns of moments must have different names.")

    @classmethod
    def of_release(cls, matrix: Array, variance: Array, count: int, features: Sequence[Feature]) -> "Moments":
        """Return the moments of a release. Entries that the coding already determines are replaced by their exact values.

        Products of two levels of one category are exactly 0, and the intercept times itself is the number of people.
        """
        columns = np.array([feature.column for feature in features])
        known = (columns[:, None] == columns[None, :]) & ~np.eye(len(columns), dtype=bool)
        matrix, variance = np.where(known, 0.0, matrix), np.where(known, 0.0, variance)
        matrix[0, 0], variance[0, 0] = count, 0.0
        return cls(matrix, variance, count, tuple(features))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns coded here, without the intercept, in order."""
        return tuple(dict.fromkeys(feature.column for feature in self.features[1:]))

    def places(self, columns: Sequence[str] | None = None) -> NDArray[np.intp]:
        """Return the indices that code the given columns (all by default), in the order of the matrix."""
        wanted = set(self.columns if columns is None else columns)
        missing = sorted(wanted - set(self.columns))
        if missing or not wanted:
            raise BadInput(
                f"The release does not hold {', '.join(map(repr, missing))}."
                if missing
                else "No column was asked for.",
                remedy=f"It holds {', '.join(self.columns)}.",
            )
        return np.array([place for place, feature in enumerate(self.features) if feature.column in wanted])

    def select(self, columns: Sequence[str]) -> "Moments":
        """Return the moments of some of the columns alone."""
        places = np.concatenate([[0], self.places(columns)])
        block = np.ix_(places, places)
        return Moments(
            self.matrix[block], self.variance[block], self.count, tuple(self.features[place] for place in places)
        )


def _square(values: object, size: int) -> Array:
    array = np.array(values, dtype=np.float64)
    if size < 2 or array.shape != (size, size) or not np.all(np.isfinite(array)):
        raise BadInput("Moments are finite square matrices with one row and one column per feature, at least two.")
    scale = float(np.max(np.abs(array)))
    if np.max(np.abs(array - array.T)) > SYMMETRY_TOLERANCE * scale:
        raise BadInput("A matrix of moments must be symmetric.", remedy="Measure each pair once and mirror it.")
    array.setflags(write=False)
    return array


def product_covariance(variance: Array, left: Array, right: Array) -> Array:
    """Return Cov((E·left)_i, (E·right)_j).

    Entry (i, j) shares one noise variable off the diagonal, V_ij·left_j·right_i, and a whole row on it.
    """
    covariance = variance * np.outer(right, left)
    np.fill_diagonal(covariance, variance @ (left * right))
    return covariance


def quadratic_variance(variance: Array, direction: Array) -> float:
    """Return the variance of dᵀEd for a fixed direction d: each pair is drawn once and counted twice."""
    squared = direction**2
    diagonal = np.diag(variance)
    return float(2 * squared @ variance @ squared - diagonal @ squared**2)


def operator_norm(variance: Array) -> float:
    """Return the typical largest eigenvalue of the noise: 2·√(largest row sum of the variances).

    For equal variances V/2 off the diagonal this is the 2·σ√d of a Gaussian orthogonal matrix; for unequal ones it is
    an upper estimate.
    """
    return float(2 * np.sqrt(np.max(variance.sum(axis=1))))


SPREAD = 1 / 12
"""The variance of a typical number mapped to [−1, 1]."""
EXPLAINED = 4 / 3
"""The factor on the variance of a number that is to be explained."""
EVEN, NARROW = 1 / 3, 1 / 36
"""The same variance for a number spread evenly between its bounds, and for bounds twelve standard deviations apart."""
TRAIT = 0.6
"""The part of a typical number's variance that comes from what all columns have in common."""
CLASS = 0.4
"""The same for a class that is to be explained."""
DRAWS = 32
TYPICAL = "typical columns: a standard deviation of a seventh of the bounds, much in common, levels equally frequent"


def typical_matrix(
    features: Sequence[Feature],
    people: int,
    *,
    target: str | None = None,
    spread: float = SPREAD,
    unequal: bool = False,
) -> Array:
    """Return the sums of products of typical columns, the intercept's first.

    For a preview it is known how noisy each entry will be. What that does to a model depends on how far its columns spread
    between their bounds and on how they hang together. *Typical columns* stand in for both. A number's standard deviation is
    a seventh of the distance between its bounds (as it is where somebody who knows the subject declares them; spread evenly,
    a column would vary four times as much). Three fifths of its variance come from one trait that all columns have in common.
    A number that is to be explained *is* that trait and spreads a little wider, by a sixth; a class shares two fifths with
    it. Levels are equally frequent and have nothing to do with the rest. Where nothing is to be explained, columns spread by
    a sixth on average and unequally.

    These fractions are a choice. They make predictions right within a factor of 1.5 on the demonstration's data, which a test
    checks. On columns that are nearly copies of each other errors are larger, and a preview's interval says by how much.

    Parameters
    ----------
    features
        The coded columns, the intercept first.
    people
        The number of people.
    target
        The column to be explained, if there is one.
    spread
        The variance of a number.
    unequal
        Whether nothing is to be explained. Variances then fall from twice the typical one to half of it, column by column,
        since columns with equal variances have no principal direction.
    """
    columns = [feature.column for feature in features]
    sizes = np.array([columns.count(column) for column in columns], dtype=np.float64)
    kinds = np.array([feature.kind for feature in features])
    explained = np.array([column == target for column in columns]) & (kinds == "numeric")
    spreads = spread * np.where(explained, EXPLAINED, 1.0)
    if unequal:
        spreads = spread * EXPLAINED * np.geomspace(2.0, 0.5, len(features))
    deviation = np.where(kinds == "numeric", np.sqrt(spreads), np.where(kinds == "sign", 1.0, 0.0))
    shared = deviation * np.sqrt(np.where(explained, 1.0, np.where(kinds == "sign", CLASS, TRAIT)))
    matrix = np.outer(shared, shared)
    matrix[np.diag_indices_from(matrix)] = deviation**2
    mean = np.where(kinds == "level", 1 / sizes, np.where(kinds == "intercept", 1.0, 0.0))
    matrix += np.outer(mean, mean)
    levels = kinds == "level"
    same = np.array(columns)[:, None] == np.array(columns)[None, :]
    exclusive = levels[:, None] & levels[None, :] & same
    matrix[exclusive] = 0.0
    matrix[levels, levels] = mean[levels]
    return np.asarray(people * matrix)


def fit_deviations(exact: Moments, releases: Iterable[Moments], fit: Callable[[Moments], Array]) -> Array:
    """Return by how much noise moves each number of a fit, one row per release.

    The very same fit is run on typical moments without noise and with public draws of noise. So the effects of shrinking, of
    units and of noise that exceeds the data are all included.

    Parameters
    ----------
    exact
        The moments without noise.
    releases
        The same moments with noise.
    fit
        The function from moments to the numbers in question.
    """
    return np.asarray([fit(release) for release in releases]) - fit(exact)


def noisy_releases(exact: Moments, variance: Array) -> Iterator[Moments]:
    """Yield the moments with public draws of independent noise of these variances in every entry."""
    rows, columns = np.triu_indices(len(variance))
    for draw in _normal("entries", (DRAWS, len(rows))):
        noise = np.zeros_like(variance)
        noise[rows, columns] = noise[columns, rows] = draw
        noisy = exact.matrix + noise * np.sqrt(variance)
        yield Moments.of_release(noisy, variance, exact.count, exact.features)


def sketched_grams(centred: Array, noise: Array, size: int) -> Iterator[Array]:
    """Yield Gram matrices of noisy sketches, the noise's own variance subtracted: Wishart, by Bartlett's decomposition.

    The error of a sketch of few rows is mostly its own, and correlated over entries. Independent noise would not show it.

    Parameters
    ----------
    centred
        The true centred Gram matrix of typical columns.
    noise
        The variance of the noise in each column of a sketch.
    size
        The number s of rows of a sketch.
    """
    width = len(noise)
    root = np.linalg.cholesky(centred + np.diag(noise) + 1e-9 * np.trace(centred) * np.eye(width))
    degrees = np.maximum(size - np.arange(width), 1)
    below = _normal("sketch", (DRAWS, width, width))
    for draw in below:
        uniform = ndtr(np.diag(draw))
        factor = root @ (np.tril(draw, -1) + np.diag(np.sqrt(2 * gammaincinv(degrees / 2, uniform))))
        yield factor @ factor.T / size - np.diag(noise)


def _normal(purpose: str, shape: tuple[int, ...]) -> Array:
    """Return standard normal numbers of a public stream, so that the same question gets the same preview."""
    count = prod(shape)
    stream = hashlib.shake_256(f"colonnade/typical/1/{purpose}".encode()).digest(8 * count)
    uniform = (np.frombuffer(stream, dtype=np.uint64) >> np.uint64(11)).astype(np.float64) + 0.5
    return np.asarray(ndtri(uniform * 2.0**-53)).reshape(shape)


def pooled_correlations(moments: Moments, target: str) -> Moments:
    """Return moments whose products of two features (not those with the target) are pulled towards no correlation.

    For the noisy curvature of Functional mechanism across parties, repaired without a second draw. With pure ε most products
    of two features can be smaller than their noise, and inverting the matrix then inverts noise. Known before anybody looks:
    a product of centred columns is a correlation times the two deviations. If correlations are alike in size, r² on average,
    an entry C_ij = truth + noise has a truth of variance r²·C_ii·C_jj. Its best linear estimate is::

        s_ij·C_ij,   s_ij = r²·C_ii·C_jj / (r²·C_ii·C_jj + V_ij),

    and r² follows from all entries at once: Σ(C_ij² − V_ij)/ΣC_ii·C_jj. Rare levels are pulled most, entries that stand out
    stay. The noise left in an entry has variance s²V. What pulling hides is bias, and no standard error counts it. Before
    that, sums that no column could have are brought back: a coded column lies in [−1, 1], an indicator in [0, 1]. Without
    noise nothing is changed. It is a function of the release alone (docs/proofs/coefficients.md#post-processing).
    """
    moments = _possible(moments)
    features = np.array([feature.column not in (target, moments.features[0].column) for feature in moments.features])
    pulled = np.outer(features, features) & (moments.variance > 0)
    np.fill_diagonal(pulled, val=False)
    if not pulled.any():
        return moments
    means = moments.matrix[0] / moments.count
    expected = moments.count * np.outer(means, means)
    centred = moments.matrix - expected
    spread = np.maximum(np.diag(centred), 0.0)
    products = np.outer(spread, spread)
    excess = float(np.sum((centred**2 - moments.variance)[pulled]))
    possible = float(products[pulled].sum())
    squared = min(max(excess, 0.0), possible) / possible if possible > 0 else 0.0
    kept = np.where(pulled, squared * products / np.where(pulled, squared * products + moments.variance, 1.0), 1.0)
    matrix = np.where(pulled, expected + kept * centred, moments.matrix)
    return Moments(matrix, kept**2 * moments.variance, moments.count, moments.features)


def _possible(moments: Moments) -> Moments:
    """Return moments whose sums, and whose squares of indicators, lie within what coded columns can have."""
    matrix, count = np.array(moments.matrix), float(moments.count)
    indicators = np.array([feature.kind == "level" for feature in moments.features])
    sums = np.clip(matrix[0], np.where(indicators, 0.0, -count), count)
    matrix[0], matrix[:, 0] = sums, sums
    matrix[indicators, indicators] = sums[indicators]
    return Moments(matrix, moments.variance, moments.count, moments.features)


TIE = 1e-8
"""Entries that differ by less than this part of the largest count as equal."""


@dataclass(frozen=True, eq=False)
class ComponentsFit:
    """Principal components, their variances and the means of the columns.

    Parameters
    ----------
    names
        The coded columns.
    components
        One unit row per component, its largest entry positive.
    explained_variance
        The variance of coded columns along each component, divided by people − 1 and corrected for the bias of noise.
    explained_variance_error
        Its standard error from the privacy noise.
    means, coded_means
        Means in the columns' own units (shares, for levels), and of the coded columns.
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
    """Return the leading components of some columns (all by default).

    Secure PCA, Algorithm 1, on columns mapped to [−1, 1]. Centring is part of the release (the column sums are one more Gram
    column), never data-dependent preprocessing. Eigenvalues of a noisy matrix are biased upwards: one of true size l appears
    near l + w²/l, w the half-width of the noise's spectrum. The explained variances are corrected for it.
    """
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
