"""Who asks the questions of a private clustering: a generator that sees noisy answers and never a row.

It yields a `Query` and is sent an `Answer`; whatever it computes in between is post-processing of answers. That is the privacy
argument of `colonnade.privacy.laws.local_clustering`, and it is enforced by what this module is given: public facts only.

Numbers are in units of the fixed point: a coded column spans [−γ, γ]. Random choices (half-spaces, the cloud of starting points)
come from a public seed.
"""

import math
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.laws._partitions import Half, Nearest, Partition, Tree, Whole
from colonnade.privacy.laws.clustering_schedule import COUNTS, ClusteringSchedule
from colonnade.privacy.laws.sampler import KeyedStream

__all__ = ["Analyst", "Answer", "Block", "Query"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CLOUD = 2_048
START = 0.9
SMALLEST_SPREAD = 0.02
LEAF_RADIUS = 2.0
MESH = {1: 64, 2: 14}
MESH_REACH = 2.5
CERTAIN = 4.0
RESTARTS = 8


@dataclass(frozen=True)
class Query:
    """A question about all rows: how many are in each cell, and how far from the cell's reference, in sum.

    Parameters
    ----------
    partition
        Each person is in one cell.
    share
        The part of the budget that the answer costs.
    references, radius
        Where displacements are measured from and to what length they are clipped; no radius for counts alone.
    squares
        If positive, squares of displacements too, divided by it.
    """

    partition: Partition
    share: Fraction
    references: Integers
    radius: int = 0
    squares: int = 0


@dataclass(frozen=True)
class Answer:
    """Noisy counts by cell, noisy sums by cell and column."""

    counts: Floats
    sums: Floats


@dataclass(frozen=True)
class Block:
    """The public facts of one party's block.

    Parameters
    ----------
    lower
        The smallest value of each coded column: −γ for a number, 0 for an indicator; the largest is γ.
    scale
        γ.
    row
        No row is longer than this.
    clusters
        How many centres are wanted.
    euclidean
        Whether lengths are Euclidean (Gaussian noise) or sums of magnitudes (Laplace noise).
    seed
        Of public choices.
    """

    lower: Integers
    scale: int
    row: int
    clusters: int
    euclidean: bool
    seed: int

    @property
    def width(self) -> int:
        """How many coded columns there are."""
        return len(self.lower)

    def bounded(self, points: Floats) -> Integers:
        """Round points to integers within the box."""
        return np.clip(np.rint(points), self.lower, self.scale).astype(np.int64)


class Analyst:
    """Ask for a location, perhaps for a tree, then for sweeps; return the centres.

    Parameters
    ----------
    block, schedule
        What is public.
    coins
        The stream of the public seed.
    count_noise, sum_noise
        The standard deviation of a noisy count, and of a noisy sum at radius 1, by share of the budget.
    """

    def __init__(
        self,
        block: Block,
        schedule: ClusteringSchedule,
        coins: KeyedStream,
        *,
        count_noise: Callable[[Fraction], float],
        sum_noise: Callable[[Fraction], float],
    ) -> None:
        self.block = block
        self.schedule = schedule
        self.count_noise = count_noise
        self.sum_noise = sum_noise
        self.coins = coins

    def rounds(self) -> Generator[Query, Answer, Integers]:
        """Yield questions, return integer centres."""
        mean, spread = yield from self._locate()
        if self.schedule.method == "forest":
            centres = yield from self._grow(mean, spread)
        elif self.schedule.method == "mesh":
            centres = yield from self._mesh(mean, spread)
        else:
            centres = self._spread_points(mean, spread)
        radius = self._length(spread)
        for _ in range(self.schedule.sweeps):
            answer = yield Query(Nearest(centres), self.schedule.sweep, centres, radius)
            fewest = max(1.0, 2 * self.count_noise(self.schedule.sweep))
            centres = self.block.bounded(centres + answer.sums / np.maximum(answer.counts, fewest)[:, None])
        return centres

    def _locate(self) -> Generator[Query, Answer, tuple[Floats, Floats]]:
        """Mean and standard deviation of every column."""
        block, width = self.block, self.block.width
        origin = np.zeros((1, width), dtype=np.int64)
        answer = yield Query(Whole(), self.schedule.location, origin, block.row, squares=block.scale)
        people = max(float(answer.counts[0]), 1.0)
        mean = np.clip(answer.sums[0, :width] / people, block.lower, block.scale)
        variance = answer.sums[0, width:] * block.scale / people - mean**2
        return mean, np.sqrt(np.clip(variance, (SMALLEST_SPREAD * block.scale) ** 2, block.scale**2))

    def _grow(self, mean: Floats, spread: Floats) -> Generator[Query, Answer, Integers]:
        """Cut at random half-spaces through the mean wherever many people are; cluster the means of the leaves."""
        block, schedule = self.block, self.schedule
        radius = min(math.ceil(LEAF_RADIUS * self._length(spread)), 2 * block.row)
        typical = float(np.linalg.norm(spread))
        noise = self.sum_noise(schedule.leaves) * radius * math.sqrt(block.width)
        fewest = max(CERTAIN * self.count_noise(schedule.level / COUNTS), noise / typical)
        tree = Tree((), np.array([[-1, -1]], dtype=np.int32))
        counts = np.array([math.inf])
        for _ in range(schedule.depth):
            tree = _split(tree, self._half_space(mean, spread), counts > 2 * fewest)
            origin = np.zeros((tree.cells, block.width), dtype=np.int64)
            answer = yield Query(tree, schedule.level, origin)
            counts = np.append(counts, np.full(tree.cells - len(counts), math.inf))
            counts = np.minimum(counts, answer.counts)  # what was too small to cut stays so
        references = np.tile(block.bounded(mean), (tree.cells, 1))
        answer = yield Query(tree, schedule.leaves, references, radius)
        leaves = (tree.children[:, 0] < 0) & (answer.counts > fewest / 2)
        weights = np.maximum(answer.counts[leaves], 1.0)
        means = np.clip(references[leaves] + answer.sums[leaves] / weights[:, None], block.lower, block.scale)
        return self._cluster(means, weights, mean, spread)

    def _mesh(self, mean: Floats, spread: Floats) -> Generator[Query, Answer, Integers]:
        """Count around the points of a mesh over the measured location; cluster those that stand out from the noise."""
        steps = np.linspace(-MESH_REACH, MESH_REACH, MESH[self.block.width])
        mesh = np.stack(np.meshgrid(*[steps] * self.block.width, indexing="ij"), axis=-1).reshape(-1, self.block.width)
        points = np.unique(self.block.bounded(mean + spread * mesh), axis=0)
        answer = yield Query(Nearest(points), self.schedule.leaves, np.zeros_like(points))
        noise = self.count_noise(self.schedule.leaves / COUNTS)  # counts alone take the whole share
        seen = answer.counts > 2 * noise
        return self._cluster(points[seen].astype(float), answer.counts[seen], mean, spread)

    def _cluster(self, means: Floats, weights: Floats, mean: Floats, spread: Floats) -> Integers:
        spare = self._spread_points(mean, spread)
        if len(means) <= self.block.clusters:
            return self.block.bounded(np.concatenate([means, spare])[: self.block.clusters])
        return self.block.bounded(_weighted_means(means, weights, self.block.clusters, self.block.seed))

    def _spread_points(self, mean: Floats, spread: Floats) -> Integers:
        """The best few points for a Gaussian cloud of the measured location: k-means of a public cloud, no data in it."""
        cloud = self._normals(CLOUD * self.block.width).reshape(CLOUD, self.block.width)
        points = _weighted_means(cloud, np.ones(CLOUD), self.block.clusters, self.block.seed)
        return self.block.bounded(mean + START * spread * points)

    def _half_space(self, mean: Floats, spread: Floats) -> Half:
        normal = self._normals(self.block.width) / spread
        whole = np.rint(normal * (4096 / np.max(np.abs(normal)))).astype(np.int64)
        return Half(whole, int(whole @ np.rint(mean).astype(np.int64)))

    def _length(self, spread: Floats) -> int:
        """How far people typically are from the mean: the radius of displacements, and no more than the box allows."""
        length = np.linalg.norm(spread) if self.block.euclidean else np.sum(spread)
        return max(1, min(math.ceil(length), 2 * self.block.row))

    def _normals(self, count: int) -> Floats:
        """Standard normal numbers from the public seed (Box–Muller)."""
        words = self.coins.words(2 * count).astype(np.float64).reshape(2, count) * 2.0**-64
        return np.asarray(np.sqrt(-2 * np.log(words[0] + 2.0**-65)) * np.cos(2 * math.pi * words[1]))


def _split(tree: Tree, half: Half, chosen: NDArray[np.bool_]) -> Tree:
    """Give two children to every chosen leaf; the others stay leaves."""
    children = tree.children.tolist()
    for node in np.flatnonzero(chosen & (tree.children[:, 0] < 0)).tolist():
        children[node] = [len(children), len(children) + 1]
        children += [[-1, -1], [-1, -1]]
    return Tree((*tree.halves, half), np.array(children, dtype=np.int32))


def _weighted_means(points: Floats, weights: Floats, clusters: int, seed: int) -> Floats:
    """Weighted k-means of released or public points."""
    from sklearn.cluster import KMeans

    if clusters >= len(points):
        return points[np.arange(clusters) % len(points)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of points that coincide: they may, and every centre is moved by the sweeps
        fitted = KMeans(clusters, n_init=RESTARTS, random_state=seed).fit(points, sample_weight=weights)
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)
