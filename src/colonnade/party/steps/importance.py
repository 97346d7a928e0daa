"""Importance scores of one party's rows, in passes over row blocks: leverage for regressions, sensitivities for k-means.

What there is one of per row is written as it is worked out (`SpilledRows`), so memory is a few blocks of rows.

`leverage_scores` is Algorithm 2 of Coresets and `local_clusters` its Algorithm 3 (docs/references.md#coresets). The
docstrings say where we differ from the paper.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.spilled_rows import SpilledRows

__all__ = ["Blocks", "Leverage", "LocalClusters", "Room", "leverage_scores", "local_clusters"]


Array = NDArray[np.float64]
Blocks = Callable[[], Iterable[Array]]
"""One pass over the rows: arrays of columns by rows, the same ones each time."""
Room = Callable[[int | None, Any], SpilledRows]
"""Where one row per person is written, by width and type: `PrivateTable.scratch`."""

RESOLVED = 1e-6
"""Eigenvalues above this share of the largest one need no further pass."""

UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Leverage:
    """Scores of all rows, which sum to the rank."""

    nonprivate_scores: SpilledRows
    rank: int


def leverage_scores(blocks: Blocks, people: int, room: Room, *, offset: float = 0.0) -> Leverage:
    """Return ‖u_i‖² for every row, u an orthonormal basis of the column space.

    We differ from the paper in three ways. The orthonormal basis is never formed: a score is ‖x_i·W‖², where W whitens the
    block's Gram matrix, so a pass costs one product and memory is a few blocks of rows. The rank is revealed rather than
    assumed (plain QR of a rank-deficient block gives scores that sum to its width, not to its rank). And the block has a
    constant column, because our regressions have an intercept: scores are then the same whatever the columns' units and
    origins are.

    Numerics. Columns are scaled to length one, which changes no score. An eigenvalue of the Gram matrix carries an error of
    about width·u·λ₁ (u: unit round-off), so a pass resolves the directions with λ > λ₁·10⁻⁶, to about 10⁻⁹ in the scores. One
    pass is enough for most blocks. Otherwise another pass, as in CholeskyQR2, multiplies the rows by what whitens the
    resolved directions, and by the others as they are: products of rows, unlike the Gram matrix, keep singular values down to
    u·σ₁. What stays below max(people, width)·u·σ₁ once the resolved directions are taken out is zero, as in
    `numpy.linalg.matrix_rank`.

    Parameters
    ----------
    blocks
        Yields the rows, columns along the first axis, at each call from the start.
    people
        How many rows there are.
    room
        Where the scores go.
    offset
        What is added to every score.

    Examples
    --------
    >>> rows = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]])  # two columns, the second twice the first
    >>> found = leverage_scores(lambda: [rows], 3, lambda *kind: SpilledRows(3, *kind))
    >>> found.rank, found.nonprivate_scores.mapped().round(6).tolist()
    (1, [0.5, 0.5, 0.0])
    """
    whitening = _whitening(blocks, people)
    nonprivate = room(None, np.float64)
    start = 0
    for block in blocks():
        start += block.shape[1]
        _require_length(start <= people)
        projected = whitening.T @ block
        scores = np.einsum("ij,ij->j", projected, projected)
        nonprivate.append(np.clip(scores, 0.0, 1.0) + offset)  # rounding may step over either end
    _require_length(start == people)
    return Leverage(nonprivate, whitening.shape[1])


def _require_length(as_said: bool) -> None:
    if not as_said:
        raise ValueError("A pass over the rows has another length.")


def _whitening(blocks: Blocks, people: int) -> Array:
    """Return W of full column rank with (XW)ᵀ(XW) = I and the column space of X."""
    gram = _gram(blocks, None)
    width = len(gram)
    lengths = np.sqrt(np.diag(gram))
    scale = np.divide(1.0, lengths, out=np.zeros(width), where=lengths > 0)
    gram *= np.outer(scale, scale)
    found, rest = np.zeros((width, 0)), np.diag(scale)
    smallest = max(people, width) * UNIT * float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))
    while rest.shape[1]:
        found, rest = _resolve(gram, found, rest, smallest)
        if rest.shape[1]:
            gram = _gram(blocks, np.concatenate([found, rest], axis=1))
    return found


def _resolve(gram: Array, found: Array, rest: Array, smallest: float) -> tuple[Array, Array]:
    """Whiten what was found once more, and take from the rest the directions whose length this Gram matrix resolves."""
    known = found.shape[1]
    across = np.linalg.solve(gram[:known, :known], gram[:known, known:])  # the first matrix is close to the unit matrix
    remainder = gram[known:, known:] - gram[known:, :known] @ across
    values, vectors = np.linalg.eigh((remainder + remainder.T) / 2)
    present = np.sqrt(np.maximum(values, 0.0)) > smallest
    resolved = present & (values > RESOLVED * values[-1])
    directions = (rest - found @ across) @ vectors
    whitened = found @ _inverse_root(gram[:known, :known])
    further = directions[:, resolved] / np.sqrt(values[resolved])
    left = directions[:, ~resolved] if resolved.any() else directions[:, :0]  # nothing longer than round-off is left
    return np.concatenate([whitened, further], axis=1), left


def _inverse_root(gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors / np.sqrt(values))


def _gram(blocks: Blocks, basis: Array | None) -> Array:
    total: Array | None = None
    for block in blocks():
        rows = block if basis is None else basis.T @ block
        product = rows @ rows.T  # numpy takes the symmetric product where both sides are one array
        total = product if total is None else total + product
    assert total is not None  # a table has rows
    return total


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
    nonprivate_labels: SpilledRows
    nonprivate_distances: SpilledRows

    def scores(self, room: Room) -> SpilledRows:
        """Return g for every row, written to a room."""
        sizes = np.zeros(len(self.nonprivate_centres), dtype=np.int64)
        inertia = np.zeros(len(sizes))
        for labels, distances in self._passed():
            sizes += np.bincount(labels, minlength=len(sizes))
            np.add.at(inertia, labels, distances)  # row by row: sums do not depend on how rows are divided
        cost = float(inertia.sum())
        of_cluster = 2.0 / sizes
        if cost > 0:
            of_cluster += inertia / (sizes * cost)
        nonprivate = room(None, np.float64)
        for labels, distances in self._passed():
            nonprivate.append(distances / cost + of_cluster[labels] if cost > 0 else of_cluster[labels])
        return nonprivate

    def _passed(self) -> Iterator[tuple[NDArray[np.int32], Array]]:
        return zip(self.nonprivate_labels, self.nonprivate_distances, strict=True)


def local_clusters(blocks: Blocks, people: int, clusters: int, seed: int, room: Room) -> LocalClusters:
    """Cluster a party's own rows.

    With C the local centres and B_l the rows nearest to centre l, the score of a row i of cluster l is::

        g_i = d(x_i, c_l)²/cost + Σ_{i' ∈ B_l} d(x_i', c_l)²/(|B_l|·cost) + 2/|B_l|.

    The scores sum to 2(k + 1) or less. We differ from the paper in four ways. α multiplies every score and cancels in
    probabilities and weights, so it is 1. Centres are the centroids of their clusters, which the proof of Lemma F.3 needs and
    k-means++ alone does not give. Where cost is zero (no more distinct rows than centres) the first two terms are zero, and a
    cluster without rows does not exist. And the starting centres come from a public choice of rows, so that a table larger
    than memory can be scored.

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
    room
        Where labels and distances go.
    """
    centres = _start(blocks, people, clusters, seed)
    for _ in range(SWEEPS):
        sums, counts = np.zeros_like(centres), np.zeros(len(centres))
        for block in blocks():
            _add(sums, counts, block, _nearest(centres, block))
        centres = sums[counts > 0] / counts[counts > 0, None]
    return _settled(blocks, centres, room)


def _settled(blocks: Blocks, centres: Array, room: Room) -> LocalClusters:
    """Fix who is in which cluster, and measure from the centroids of exactly these clusters."""
    nearest = room(None, np.int32)
    sums, counts = np.zeros_like(centres), np.zeros(len(centres))
    for block in blocks():
        labels = _nearest(centres, block)
        _add(sums, counts, block, labels)
        nearest.append(labels)
    kept = np.flatnonzero(counts)
    centroids = sums[kept] / counts[kept, None]
    found = LocalClusters(centroids, room(None, np.int32), room(None, np.float64))
    start = 0
    for block in blocks():
        stop = start + block.shape[1]
        labels = np.searchsorted(kept, nearest.read(start, stop))
        gaps = block - centroids[labels].T
        found.nonprivate_labels.append(labels)
        found.nonprivate_distances.append(np.einsum("ij,ij->j", gaps, gaps))
        start = stop
    return found


def _start(blocks: Blocks, people: int, clusters: int, seed: int) -> Array:
    """Return centres of some rows: every n-th, of all rows in their agreed order, which says nothing about them."""
    from sklearn.cluster import KMeans  # late: it takes longer to load than a party needs to start

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
