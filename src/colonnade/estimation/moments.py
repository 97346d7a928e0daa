"""Noisy second moments, and what follows from them without a model.

A `Moments` object holds the noisy matrix, the variance of its noise and its coded columns: columns after scaling to [−1, 1],
or indicators of levels. The coordinator holds nothing else. What it computes from them is post-processing and costs nothing
more. Coding is public (`colonnade.schema`): a two-level category may become a single ±1 column (half the noise
variance of two indicators), and a constant column of ones comes first.

The module also has the propagation of noise through quadratic forms, a matrix whose weak correlations are pulled towards none,
and principal components.

*Propagation* is to first order (the delta method). With E the symmetric noise matrix, entries independent on and above the
diagonal with variances V, the products E·a are correlated in a way that has a closed form (`product_covariance`). A
coefficient's standard error is a quadratic form in it.

Noisy second moments of thousands of columns, held once: components without a matrix being copied or decomposed.

A matrix of d columns is held as its upper triangle, in the upper half of a square whose lower half is never touched and so takes
no memory: 2 GB for 22,000 columns. The variance of its noise is not held at all. It has three values (between two parties, within
one, and on the diagonal), so sums over it have closed forms. Leading components come from products of the matrix with vectors
[Lanczos], as `colonnade.estimation.moments.pca_from_moments` has them from a whole decomposition.
"""

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from colonnade.errors import BadInput, ProtocolError
from colonnade.privacy.laws.coefficients import CoefficientNoise
from colonnade.privacy.laws.gram import GramNoise, UnionNoise
from colonnade.schema import Feature, coded_widths, consecutive_places, places_beside_constant, to_own_units
from colonnade.secure.shamir import entry_pairs
from colonnade.steps import products
from colonnade.steps.kind import Joint

Array = NDArray[np.float64]
SYMMETRY_TOLERANCE = 1e-9


def opened_gram(joint: Joint, cross: NDArray[np.int64], own: Mapping[str, NDArray[np.int64]]) -> Array:
    """Return a Gram matrix as it was opened, in integers of the fixed point; the number of people, in front, is 0.

    Parameters
    ----------
    joint
        Whose columns, and how many.
    cross
        The entries between two parties.
    own
        Each party's own upper triangle with its sums in front, without the number of people.
    """
    matrix = np.zeros((sum(joint.widths) + 1,) * 2)
    first, second = entry_pairs(joint.widths)
    matrix[first + 1, second + 1] = cross
    for party, places in places_beside_constant(joint.owners, joint.widths).items():
        rows, columns = np.triu_indices(len(places))
        matrix[places[rows[1:]], places[columns[1:]]] = own[party]
    return np.asarray(np.triu(matrix) + np.triu(matrix, 1).T)


def gram_variance(joint: Joint) -> Array:
    """Return the variance of every entry of `opened_gram`; the number of people is public."""
    noise = joint.noise
    assert isinstance(noise, GramNoise)  # the step's kind decided
    variance, alone = np.full((sum(joint.widths) + 1,) * 2, noise.opened_variance), float(noise.own_variance)
    for places in places_beside_constant(joint.owners, joint.widths).values():
        variance[np.ix_(places, places)] = alone
    np.fill_diagonal(variance, 2 * alone)
    variance[0, 0] = 0.0
    return variance


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

    def divided(self, scales: Array) -> "Moments":
        """Return the moments of the same columns, each divided by a number; the intercept stays as it is."""
        factors = np.outer(*[np.concatenate([[1.0], 1 / scales])] * 2)
        return Moments(self.matrix * factors, self.variance * factors**2, self.count, self.features)


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


def pooled_correlations(moments: Moments, target: str = "") -> Moments:
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


SMALLEST_SPREAD = 1e-12
"""The smallest variance that a column is divided by: a column that is constant, and exactly known, stays near 0."""
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
    scales
        What each coded column was divided by: its standard deviation, or 1.
    total_variance
        The variance of all columns together, after that division.
    """

    names: tuple[str, ...]
    components: Array
    explained_variance: Array
    explained_variance_error: Array
    means: Array
    coded_means: Array
    significant: int
    noise_floor: float
    scales: Array
    total_variance: float


def pca_from_moments(
    moments: Moments, n_components: int, *, columns: Sequence[str] | None = None, standardise: bool = False
) -> ComponentsFit:
    """Return the leading components of some columns (all by default), each divided by its standard deviation if asked to.

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
        raise BadInput(
            f"n_components must be a whole number from 1 to {len(places)}.",
            remedy="A category counts as one column per level.",
        )
    means = moments.matrix[0, places] / moments.count
    centred = moments.matrix[np.ix_(places, places)] - moments.count * np.outer(means, means)
    variance = moments.variance[np.ix_(places, places)]
    scales = deviations(np.diag(centred), np.diag(variance), moments.count) if standardise else np.ones(len(places))
    centred, variance = centred / np.outer(scales, scales), variance / np.outer(scales, scales) ** 2
    values, vectors = np.linalg.eigh(centred)
    people = max(moments.count - 1, 1)
    every = without_noise(values[::-1], operator_norm(variance)) / people
    values, vectors = values[::-1][:n_components], orient(vectors[:, ::-1][:, :n_components])
    # The means are noisy too: a centred product is that of the column less its mean times the constant one.
    directions = np.zeros((len(moments.features), n_components))
    directions[places] = vectors / scales[:, None]
    directions[0] = -means @ directions[places]
    return ComponentsFit(
        names=tuple(feature.name for feature in features),
        components=vectors.T,
        explained_variance=every[:n_components],
        explained_variance_error=np.sqrt([quadratic_variance(moments.variance, one) for one in directions.T]) / people,
        means=to_own_units(means, features),
        coded_means=means,
        significant=int(np.sum(values > operator_norm(variance))),
        noise_floor=operator_norm(variance) / people,
        scales=scales,
        # of all components: a share does not depend on how many are asked for; noise leaves some below 0, which count 0
        total_variance=max(float(np.trace(centred)) / people, float(every.sum())),
    )


def deviations(centred: Array, variance: Array, count: int) -> Array:
    """Return the columns' standard deviations, as the diagonals of noisy moments and of their variance have them.

    A column that varies less than the noise does is divided by what the noise alone may be: otherwise noise would be blown up.
    """
    least = 2 * np.sqrt(variance)
    return np.asarray(np.sqrt(np.maximum(np.maximum(centred, least), SMALLEST_SPREAD * count) / max(count - 1, 1)))


def without_noise(values: Array, width: float) -> Array:
    """Invert l ↦ l + (width/2)²/l where an eigenvalue stands out of the noise; below that, noise alone explains it."""
    outside = np.maximum(values**2 - width**2, 0.0)
    return np.where(values > width, (values + np.sqrt(outside)) / 2, np.maximum(values, 0.0) / 2)


def orient(vectors: Array) -> Array:
    """Fix the sign of each vector: its entry of largest size is positive; of entries that tie, the first.

    Two columns that vary alike give a vector such as (0.7, −0.7), and rounding would decide which of the two is larger.
    """
    sizes = np.abs(vectors)
    largest = np.argmax(sizes >= sizes.max(axis=0) * (1 - TIE), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.asarray(vectors * signs)


MOST_COMPONENTS = 0.1
"""Above this share of the columns a whole decomposition is faster."""
PRECISION = 1e-10
"""Relative to the largest eigenvalue: far below the noise, and what makes equal releases give equal components."""


@dataclass(frozen=True, eq=False)
class MatrixNoise:
    """The variance of the noise in each entry of a Gram matrix, as three numbers. The constant column is not counted.

    Parameters
    ----------
    owners, columns
        For each coded column, who holds it and which column it codes, as numbers.
    between, within
        The variance of an entry between two parties, and inside one; on the diagonal twice the latter. Sums of columns have the
        latter, and products of two levels of one category, which are known, none.
    """

    owners: NDArray[np.int64]
    columns: NDArray[np.int64]
    between: float
    within: float

    @classmethod
    def of(cls, features: Sequence[Feature], between: float, within: float) -> "MatrixNoise":
        """Return the noise of a release whose coded columns are these, without the constant one."""
        owners = np.unique([feature.party for feature in features], return_inverse=True)[1]
        columns = np.unique([feature.column for feature in features], return_inverse=True)[1]
        return cls(owners.reshape(-1), columns.reshape(-1), between, within)

    def times(self, weights: Array) -> Array:
        """Return the matrix of variances times a vector."""
        held = np.bincount(self.owners, weights)[self.owners]
        known = np.bincount(self.columns, weights)[self.columns] - weights
        return np.asarray(self.between * (weights.sum() - held) + self.within * (held + weights - known))

    @property
    def mean(self) -> float:
        """The average over all entries."""
        ones = np.ones(len(self.owners))
        return float(self.times(ones).mean() / len(ones))

    def quadratic(self, direction: Array, constant: float) -> float:
        """Return the variance of dᵀEd, the constant column's part of the direction given by itself."""
        squared, first = direction**2, constant**2
        whole = squared @ self.times(squared) + 2 * first * self.within * squared.sum()
        return float(2 * whole - 2 * self.within * (squared @ squared))


@dataclass(frozen=True, eq=False)
class WideMoments:
    """One noisy matrix of sums of products, as `Moments`, of columns that are too many for several matrices.

    Parameters
    ----------
    matrix
        The upper triangle of the sums of products of coded columns, without the constant one. Below the diagonal it is 0.
    sums
        The sums of the coded columns.
    noise
        The variance of every entry.
    count
        The public number of people.
    features
        What the columns are; the first is the constant one.
    """

    matrix: Array
    sums: Array
    noise: MatrixNoise
    count: int
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        size = len(self.features) - 1
        if self.matrix.shape != (size, size) or self.sums.shape != (size,) or not self.matrix.flags.c_contiguous:
            raise BadInput("Moments are square matrices with one row and one column per feature.")

    @classmethod
    def of_release(
        cls, matrix: Array, sums: Array, noise: MatrixNoise, count: int, features: Sequence[Feature]
    ) -> "WideMoments":
        """Return the moments of a release. Products of two levels of one category are exactly 0, and are made so in place."""
        starts = np.flatnonzero(np.diff(noise.columns, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(noise.columns)], strict=True):
            if stop - start > 1:
                block = matrix[start:stop, start:stop]
                block[...] = np.diag(np.diag(block))
        return cls(matrix, sums, noise, count, tuple(features))

    @cached_property
    def means(self) -> Array:
        """The means of the coded columns."""
        return self.sums / self.count

    def times(self, vector: Array) -> Array:
        """Return the symmetric matrix times a vector."""
        return np.asarray(dsymv(1.0, self.matrix.T, vector, lower=1))

    def dense(self) -> Moments:
        """Return the same moments as whole matrices, the constant column among them."""
        size = len(self.features)
        matrix, variance = np.empty((size, size)), np.empty((size, size))
        matrix[1:, 1:] = self.matrix + np.triu(self.matrix, 1).T
        matrix[0, 1:] = matrix[1:, 0] = self.sums
        same = self.noise.owners[:, None] == self.noise.owners
        variance[1:, 1:] = np.where(same, self.noise.within, self.noise.between)
        np.fill_diagonal(variance, 2 * self.noise.within)
        variance[0, 1:] = variance[1:, 0] = self.noise.within
        return Moments.of_release(matrix, variance, self.count, self.features)


def pca_from_wide(moments: WideMoments, n_components: int, *, standardise: bool = False) -> ComponentsFit:
    """Return the leading components of all columns; everything else as in `pca_from_moments`.

    Centring and scaling are done on the way: (D(M − n·m·mᵀ)D)x is a product of M with one vector, and a few with others.
    """
    features, count, means, noise = moments.features[1:], moments.count, moments.means, moments.noise
    diagonal = np.diag(moments.matrix) - count * means**2
    size = len(features)
    scales = deviations(diagonal, np.full(size, 2 * noise.within), count) if standardise else np.ones(size)

    def centred(vector: Array) -> Array:
        scaled = np.ravel(vector) / scales
        return np.asarray((moments.times(scaled) - count * means * (means @ scaled)) / scales)

    values, vectors = _largest(centred, size, n_components)
    vectors, people = orient(vectors), max(count - 1, 1)
    width = float(2 * np.sqrt(np.max(noise.times(scales**-2.0) / scales**2)))
    explained = without_noise(values, width) / people
    directions = vectors / scales[:, None]
    errors = [noise.quadratic(one, float(means @ one)) for one in directions.T]
    total = float((diagonal / scales**2).sum()) / people
    return ComponentsFit(
        names=tuple(feature.name for feature in features),
        components=vectors.T,
        explained_variance=explained,
        explained_variance_error=np.sqrt(errors) / people,
        means=to_own_units(means, features),
        coded_means=means,
        significant=int(np.sum(values > width)),
        noise_floor=width / people,
        scales=scales,
        total_variance=max(total, float(explained.sum())),
    )


def _largest(product: object, size: int, count: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues, the largest first, and their vectors. It starts from a fixed vector, so that it repeats."""
    start = np.cos(np.arange(1.0, size + 1.0))  # in no column's direction
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        values, vectors = eigsh(
            operator, k=count, which="LA", v0=start, ncv=min(size, max(4 * count, 60)), tol=PRECISION
        )
    except ArpackNoConvergence:
        raise BadInput(
            "The components of this matrix cannot be told apart.", remedy="Ask for fewer components."
        ) from None
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def _sparse_square(size: int) -> NDArray[np.float64]:
    """Return a square of zeros whose pages take memory once they are written, and are small: half of it is never written."""
    memory = mmap.mmap(-1, 8 * size * size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory).reshape(size, size)


class WideReader:
    """Writes what is opened into the upper triangle of a matrix, and the columns' sums beside it."""

    def __init__(self, joint: Joint, unit: float) -> None:
        self.joint = joint
        self._unit = unit
        ends = list(accumulate(joint.widths))
        self._places = dict(zip(joint.owners, zip([0, *ends], ends, strict=False), strict=True))
        self.matrix = _sparse_square(ends[-1])
        self.sums = np.zeros(ends[-1])

    def take(self, number: int, cross: NDArray[np.int64], own: Mapping[str, NDArray[np.int64]]) -> None:
        """Write one tile."""
        tile, start = self.joint.tiles[number], 0
        for one in tile.blocks:
            block = cross[start : start + one.entries].reshape(one.bottom - one.top, one.right - one.left)
            np.divide(block, self._unit, out=self.matrix[one.top : one.bottom, one.left : one.right])
            start += one.entries
        for party, part in ((party, part) for party, part in own.items() if len(part)):
            self._take_own(party, 1 + (tile.own.start or 0), part / self._unit)

    def _take_own(self, party: str, place: int, part: NDArray[np.float64]) -> None:
        """Write a stretch of a party's own triangle, row by row; its first row are the sums, whose first is not released."""
        first, last = self._places[party]
        size, row, start = last - first + 1, 0, 0
        while place >= start + size - row:
            start, row = start + size - row, row + 1
        while len(part):
            taken = min(len(part), start + size - row - place)
            column = first + row + place - start - 1  # columns are counted from the constant one
            target = self.sums if row == 0 else self.matrix[first + row - 1]
            target[column : column + taken], part = part[:taken], part[taken:]
            place += taken
            start, row = start + size - row, row + 1


def union_moments(
    joint: Joint,
    between: NDArray[np.int64],
    own: Mapping[str, NDArray[np.int64]],
    features: Sequence[Feature],
    scale: float,
) -> Moments:
    """Read three openings on a union of lists as moments: products between the two parties, and of each one's own columns.

    The number of people is the released one.
    """
    left, right = own
    places = consecutive_places(coded_widths(features), first=1)
    matrix = np.zeros((len(features), len(features)))
    opened_between = (between / scale**2).reshape(len(places[left]) + 1, len(places[right]) + 1)
    matrix[0, places[right]] = opened_between[0, 1:]
    matrix[0, places[left]] = opened_between[1:, 0]
    matrix[np.ix_(places[left], places[right])] = opened_between[1:, 1:]
    for party, opened in own.items():
        first, second = np.triu_indices(len(places[party]))
        matrix[places[party][first], places[party][second]] = opened / scale**2
    whole = np.triu(matrix) + np.triu(matrix, 1).T
    people = max(1, round(float(opened_between[0, 0])))
    return Moments.of_release(whole, union_variance(joint, len(features), scale), people, features)


def union_variance(joint: Joint, size: int, scale: float) -> Array:
    """Return the variance of every entry on a union of lists: both parties' shares of it."""
    assert isinstance(joint.noise, UnionNoise)  # the step's kind decided
    variance = np.full((size, size), 2 * joint.noise.share_variance / scale**4)
    np.fill_diagonal(variance, 2 * variance[0, 0])
    return variance


def coefficient_moments(
    joint: Joint,
    cross: NDArray[np.int64],
    own: Mapping[str, NDArray[np.int64]],
    features: Sequence[Feature],
    target: str,
    scale: float,
) -> Moments:
    """Read a regression's opened coefficients as moments, with the variance of their noise."""
    matrix = np.zeros((len(features), len(features)))
    first, second = entry_pairs(joint.widths)
    matrix[first + 1, second + 1] = cross / scale**2
    for party, (places, entries) in _own_coefficients(joint).items():
        if own[party].shape != entries.rows.shape:
            raise ProtocolError(
                f"Party {party!r} sent {own[party].size} own coefficients; the plan says {entries.rows.size}."
            )
        matrix[places[entries.rows], places[entries.columns]] = own[party] / scale**2
    whole = _completed(matrix, features, target, joint.people)
    return Moments.of_release(whole, coefficient_variance(joint, features, target, scale), joint.people, features)


def coefficient_variance(joint: Joint, features: Sequence[Feature], target: str, scale: float) -> Array:
    """Return the variance of every entry of a regression's coefficients."""
    noise = joint.noise
    assert isinstance(noise, CoefficientNoise)  # the step's kind decided
    variance = np.zeros((len(features), len(features)))
    first, second = entry_pairs(joint.widths)
    for block, slope, places in products.cross_entries(joint.steps).groups:
        variance[first[places] + 1, second[places] + 1] = noise.variance(block, slope=slope)
    for party, (places, entries) in _own_coefficients(joint).items():
        alone = [noise.variance((party, party), slope=slope) for slope in (False, True)]
        variance[places[entries.rows], places[entries.columns]] = np.where(entries.slope, alone[1], alone[0])
    return _completed(variance / scale**4, features, target, 0)


def _completed(upper: Array, features: Sequence[Feature], target: str, unmeasured: float) -> Array:
    """Mirror the triangle and add what follows from it: an indicator is its own square.

    The square of a target that is one column is not measured, and nothing here uses it: its bound stands in for it.
    """
    whole = np.triu(upper) + np.triu(upper, 1).T
    for place, feature in enumerate(features):
        if feature.kind == "level":
            whole[place, place] = whole[0, place]
        elif feature.column == target:
            whole[place, place] = unmeasured
    return whole


def _own_coefficients(joint: Joint) -> dict[str, tuple[NDArray[np.int64], products.Entries]]:
    """Where each party's own block stands in the matrix, the constant column in front, and which entries it has."""
    places = places_beside_constant(tuple(joint.steps), joint.widths)
    return {
        owner: (
            places[owner],
            products.own_entries(products.widths_of(step), target=step.parameters["target"] is True),
        )
        for owner, step in joint.steps.items()
    }
