"""Sensitivities of a party's rows for k-means, in passes over row blocks (paper 004, Algorithm 3).

The paper's letters: C the local centres, B_l the rows nearest to centre l, and for a row i of cluster l

    g_i = d(x_i, c_l)²/cost + Σ_{i' ∈ B_l} d(x_i', c_l)²/(|B_l|·cost) + 2/|B_l|.

We differ in four ways. α multiplies every score and cancels in probabilities and weights, so it is 1. Centres are the centroids
of their clusters, which the proof of Lemma F.3 needs and k-means++ alone does not give. Where cost is zero (no more distinct rows
than centres) the first two terms are zero, and a cluster without rows does not exist. And the starting centres come from a
public choice of rows, so that a table larger than memory can be scored. The scores sum to 2(k + 1) or less.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from colonnade.party.steps.leverage import Blocks

__all__ = ["LocalClusters", "local_clusters"]

Array = NDArray[np.float64]
SAMPLE = 32_768
"""Rows on which the starting centres are found; all of them in a table that is not larger."""

SWEEPS = 5
"""Passes over all rows after that, each moving the centres to their centroids."""


@dataclass(frozen=True)
class LocalClusters:
    """A party's rows in clusters, each with its centroid.

    Parameters
    ----------
    nonprivate_centres
        Clusters that have rows, by columns.
    nonprivate_labels
        Each row's cluster.
    nonprivate_distances
        Each row's squared distance to the centroid of its cluster.
    """

    nonprivate_centres: Array
    nonprivate_labels: NDArray[np.int32]
    nonprivate_distances: Array

    def scores(self) -> Array:
        """Return g for every row."""
        sizes = np.bincount(self.nonprivate_labels, minlength=len(self.nonprivate_centres))
        inertia = np.bincount(self.nonprivate_labels, self.nonprivate_distances, minlength=len(sizes))
        cost = float(inertia.sum())
        of_cluster = 2.0 / sizes
        if cost > 0:
            of_cluster += inertia / (sizes * cost)
            return self.nonprivate_distances / cost + of_cluster[self.nonprivate_labels]
        return of_cluster[self.nonprivate_labels]


def local_clusters(blocks: Blocks, people: int, clusters: int, seed: int) -> LocalClusters:
    """Cluster a party's own rows.

    Parameters
    ----------
    blocks
        Yields the rows, columns along the first axis, at each call from the start.
    people
        How many rows there are.
    clusters
        k.
    seed
        Of public choices: which rows the start is made from, and where it starts.
    """
    centres = _start(blocks, people, clusters, seed)
    for _ in range(SWEEPS):
        sums, counts = np.zeros_like(centres), np.zeros(len(centres))
        for block in blocks():
            _add(sums, counts, block, _nearest(centres, block))
        centres = sums[counts > 0] / counts[counts > 0, None]
    return _settled(blocks, people, centres)


def _settled(blocks: Blocks, people: int, centres: Array) -> LocalClusters:
    """Fix who is in which cluster, and measure from the centroids of exactly these clusters."""
    labels = np.empty(people, dtype=np.int32)
    sums, counts, start = np.zeros_like(centres), np.zeros(len(centres)), 0
    for block in blocks():
        some = labels[start : start + block.shape[1]]
        some[:] = _nearest(centres, block)
        _add(sums, counts, block, some)
        start += block.shape[1]
    kept = np.flatnonzero(counts)
    centroids = sums[kept] / counts[kept, None]
    labels = np.searchsorted(kept, labels).astype(np.int32)
    return LocalClusters(centroids, labels, _distances(blocks, people, centroids, labels))


def _distances(blocks: Blocks, people: int, centroids: Array, labels: NDArray[np.int32]) -> Array:
    distances, start = np.empty(people), 0
    for block in blocks():
        stop = start + block.shape[1]
        gaps = block - centroids[labels[start:stop]].T
        np.einsum("ij,ij->j", gaps, gaps, out=distances[start:stop])
        start = stop
    return distances


def _start(blocks: Blocks, people: int, clusters: int, seed: int) -> Array:
    """Return centres of some rows: every n-th, of all rows in their agreed order, which says nothing about them."""
    stride, start, parts = -(-people // SAMPLE), 0, []
    for block in blocks():
        parts.append(block[:, (seed - start) % stride :: stride])
        start += block.shape[1]
    rows = np.concatenate(parts, axis=1).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that coincide
        fitted = KMeans(min(clusters, len(rows)), n_init=1, max_iter=50, random_state=seed).fit(rows)
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)


def _nearest(centres: Array, block: Array) -> NDArray[np.intp]:
    """Return the nearest centre of each column of a block; |x|² is the same for all and left out."""
    gaps = centres @ block
    gaps *= -2
    gaps += np.einsum("ij,ij->i", centres, centres)[:, None]
    return np.asarray(gaps.argmin(axis=0))


def _add(sums: Array, counts: Array, block: Array, labels: NDArray[np.integer]) -> None:
    member = np.zeros((len(sums), block.shape[1]))
    member[labels, np.arange(block.shape[1])] = 1.0
    sums += member @ block.T
    counts += member.sum(axis=1)
