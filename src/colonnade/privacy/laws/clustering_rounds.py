"""The rounds of one party's private clustering: how the budget is divided over them, and who asks the questions.

*Schedule.* Public facts decide, never data. Every method first measures where the data lies (how many people, mean and spread of
each coded column), and ends with sweeps of Lloyd's algorithm. They differ in where the sweeps start:

* ``"lloyd"``: from points spread over the measured location, the same for everybody. For a budget so small that anything finer
  would be lost in noise.
* ``"mesh"``: from k-means of counts around a mesh, in one or two dimensions, where a mesh covers everything.
* ``"forest"``: from a tree of random half-spaces (locality-sensitive hashing: nearby people fall into the same leaf). k-means on
  its noisy leaf means finds separated groups that sweeps from spread points would divide wrongly
  (Private vertical clustering, Li, Wang and Li, 2023, §3.5; docs/references.md#clustering).

The shares of the budget were chosen on Letter and on Gaussian mixtures in 1 to 50 dimensions (`benchmarks/clustering`).

*Analyst.* A generator that sees noisy answers and never a row. It yields a `Query` and is sent an `Answer`; whatever it computes
in between is post-processing of answers. That is the privacy argument of `colonnade.privacy.laws.local_clustering`, and it is
enforced by what the analyst is given: public facts only. Numbers are in units of the fixed point: a coded column spans [−γ, γ].
Random choices (half-spaces, the cloud of starting points) come from a public seed.
"""

import math
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho
from colonnade.privacy.laws import KeyedStream
from colonnade.privacy.laws._clustering_cells import Half, Nearest, Partition, Tree, Whole

__all__ = [
    "COUNTS",
    "LARGEST_CLUSTERS",
    "LARGEST_WIDTH",
    "Analyst",
    "Answer",
    "Block",
    "ClusteringSchedule",
    "Query",
    "clustering_schedule",
    "displacement_noise",
]

LARGEST_CLUSTERS = 1_024
LARGEST_WIDTH = 4_096
COUNTS = Fraction(1, 5)
"""Of each measurement of sums and counts, the part that pays for the counts: a count's error matters little, because sums are
taken around the point where a centre already is."""

LOCATION = Fraction(2, 25)
ALONE = 6
FOREST = (6, Fraction(4, 25), Fraction(2, 5), 2)
FOREST_PURE = (5, Fraction(1, 5), Fraction(3, 10), 3)
MESH = Fraction(3, 10)
MESH_DIMENSIONS = 2
AFTERWARDS = 3
CLEAR = 4.0

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CLOUD = 2_048
START = 0.9
SMALLEST_SPREAD = 0.02
LEAF_RADIUS = 2.0
MESH_POINTS = {1: 64, 2: 14}
MESH_REACH = 2.5
CERTAIN = 4.0
RESTARTS = 8


@dataclass(frozen=True)
class ClusteringSchedule:
    """Shares of one party's budget; they add up to exactly 1.

    Parameters
    ----------
    method
        ``"lloyd"``, ``"mesh"`` or ``"forest"``.
    location
        The share of the first measurement.
    depth, levels, leaves
        How many levels the tree has, the share of all its counts together, and the share of its leaves' sums or of the mesh.
    sweeps
        How many sweeps follow; what is left of the budget is divided between them evenly.
    """

    method: Literal["lloyd", "mesh", "forest"]
    location: Fraction
    depth: int
    levels: Fraction
    leaves: Fraction
    sweeps: int

    @property
    def level(self) -> Fraction:
        """The share of one level's counts."""
        return self.levels / self.depth

    @property
    def sweep(self) -> Fraction:
        """The share of one sweep."""
        return (1 - self.location - self.levels - self.leaves) / self.sweeps


def clustering_schedule(width: int, people: int, clusters: int, price: Price) -> ClusteringSchedule:
    """Choose a method for a block of ``width`` coded columns.

    Examples
    --------
    >>> clustering_schedule(8, 20_000, 5, Price.of(0.25, 1e-5)).method
    'forest'
    >>> clustering_schedule(1, 20_000, 5, Price.of(0.25, 1e-5)).method
    'mesh'
    """
    if not 1 <= width <= LARGEST_WIDTH or not 1 <= clusters <= LARGEST_CLUSTERS:
        raise BadInput(
            f"Clustering takes up to {LARGEST_WIDTH} coded columns and {LARGEST_CLUSTERS} clusters per party.",
            remedy="Ask for fewer columns or clusters.",
        )
    cell = people / (2 * clusters)
    if width <= MESH_DIMENSIONS:
        chosen = ClusteringSchedule("mesh", LOCATION, 0, Fraction(0), MESH, AFTERWARDS)
    else:
        chosen = ClusteringSchedule("forest", LOCATION, *(FOREST if price.delta > 0 else FOREST_PURE))
    if cell > CLEAR * displacement_noise(width, price, chosen.leaves):
        return chosen
    return ClusteringSchedule("lloyd", LOCATION, 0, Fraction(0), Fraction(0), ALONE)


def displacement_noise(width: int, price: Price, share: Fraction) -> float:
    """Return the length of the noise on a sum of displacements, in units of the length to which displacements are clipped.

    Divided by how many people a cluster has, it is how far noise moves the cluster's centre, in units of the block's spread.
    """
    part = share * (1 - COUNTS)
    if price.delta > 0:
        return math.sqrt(width / (2 * float(ledger_rho(price) * part)))
    return math.sqrt(2 * width) * math.sqrt(width) / float(price.exact * part)


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
        steps = np.linspace(-MESH_REACH, MESH_REACH, MESH_POINTS[self.block.width])
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
