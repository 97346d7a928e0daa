"""What a fit on second moments may be expected to be off by, before anybody has looked at data: fit typical moments, noise added.

How noisy each entry will be is known. What that does to a model depends on how far its columns spread between their bounds, and
on how they hang together. *Typical columns* stand in for both. A number's standard deviation is a seventh of the distance
between its bounds (as it is where somebody who knows the subject declares them; spread evenly, a column would vary four times
as much). Three fifths of its variance come from one trait that all columns have in common; a number that is to be explained
*is* that trait and spreads a little wider, by a sixth, and a class shares two fifths with it. Levels are equally frequent and
have nothing to do with the rest. Where nothing is to be explained, columns spread by a sixth on average and unequally.
The very same fit is then run on these moments without noise and with public draws of noise, so that shrinking, units and
drowning are all in.

These fractions are a choice. They make predictions right within a factor of 1.5 on the demonstration's data, which a test
checks; on columns that are nearly copies of each other errors are larger, and a preview's interval says by how much.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr, ndtri

from colonnade.coding.features import Feature
from colonnade.estimation.moments import Moments

__all__ = ["EVEN", "NARROW", "SPREAD", "TYPICAL", "deviations", "noisy_releases", "sketched_grams", "typical_matrix"]

Array = NDArray[np.float64]
SPREAD = 1 / 12
"""The variance of a typical number mapped to [−1, 1]."""
EXPLAINED = 4 / 3
"""How much more a number varies that is to be explained."""
EVEN, NARROW = 1 / 3, 1 / 36
"""The same if it is spread evenly between its bounds, and if these are twelve standard deviations apart."""
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

    Parameters
    ----------
    features
        The coded columns, the intercept first.
    people
        How many there are.
    target
        The column to be explained, if there is one.
    spread
        The variance of a number.
    unequal
        Whether nothing is to be explained, and variances fall from twice the typical to half of it from column to column:
        of columns that vary exactly alike no direction is a principal one.
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


def deviations(exact: Moments, releases: Iterable[Moments], fit: Callable[[Moments], Array]) -> Array:
    """Return by how much noise moves each figure of a fit: one row a release.

    Parameters
    ----------
    exact
        What is fitted, without noise.
    releases
        The same with noise.
    fit
        From moments to the figures in question.
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

    A sketch of few rows errs mostly by itself, in all entries together, which independent noise would not show.

    Parameters
    ----------
    centred
        The true centred Gram matrix of typical columns.
    noise
        The variance of the noise in each column of a sketch.
    size
        s, its rows.
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
    """Return standard normal numbers of a public stream: the same preview for the same question."""
    count = prod(shape)
    stream = hashlib.shake_256(f"colonnade/typical/1/{purpose}".encode()).digest(8 * count)
    uniform = (np.frombuffer(stream, dtype=np.uint64) >> np.uint64(11)).astype(np.float64) + 0.5
    return np.asarray(ndtri(uniform * 2.0**-53)).reshape(shape)
