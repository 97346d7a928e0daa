"""Private clustering of one party's block: DP-Lloyd, with an LSH forest to start from where it pays.

Private vertical clustering (Li, Wang, Li, 2023), §3.5 (docs/references.md#clustering), with differences: Gaussian noise at a
positive δ, because each party can bound its own block (docs/proofs/local-clustering.md); integer noise on integer sums;
displacements from released reference points, clipped to the measured spread of the data, instead of whole rows; a last few
sweeps of Lloyd's algorithm, which repair what the forest's random cuts tore apart.

*Cells.* Partitions of people and sums over them are exact, row by row: a person's cell and clipped displacement are functions
of that person's integers and of what was released before, computed in 64-bit integers (the factor of a clipped row is a float,
but the integers that result are checked against the bound, and no other row enters). So one person's record moves one cell, by
at most the radius, with no rounding error to account for.

*Schedule.* How the budget is divided over rounds. Public facts decide, never data. Every method first measures where the data
lies (how many people, mean and spread of each coded column), and ends with sweeps of Lloyd's algorithm. They differ in where
the sweeps start:

* ``"lloyd"``: from points spread over the measured location, the same for everybody. For a budget so small that anything finer
  would be lost in noise.
* ``"mesh"``: from k-means of counts around a mesh, in one or two dimensions, where a mesh covers everything.
* ``"forest"``: from a tree of random half-spaces (locality-sensitive hashing: nearby people fall into the same leaf). k-means on
  its noisy leaf means finds separated groups that sweeps from spread points would divide wrongly.

The shares of the budget were chosen on Letter and on Gaussian mixtures in 1 to 50 dimensions (`benchmarks/clustering`).

*Queries* (`ClusteringQueries`). A generator that sees noisy answers and never a row. It yields a `Query` and is sent an
`Answer`; whatever it computes in between is post-processing of answers. That is the privacy argument of `LocalClustering`, and
it is enforced by what the generator is given: public facts only. Numbers are in units of the fixed point: a coded column spans
[−γ, γ]. Random choices (half-spaces, the cloud of starting points) come from a public seed.
"""

import math
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.calibration import budget_loss, discrete_laplace_variance, ledger_rho, share_within
from colonnade.privacy.laws import LARGEST_LAPLACE, LARGEST_SIGMA_SQUARED, Description, KeyedStream, RowBlocks, Sampler

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class OneCell:
    """Everybody in one cell."""

    cells = 1

    def labels(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Return the cell of each row."""
        return np.zeros(len(rows), dtype=np.int32)


@dataclass(frozen=True)
class Nearest:
    """The cell of the nearest centre; of equally near ones, the first."""

    centres: Integers

    @property
    def cells(self) -> int:
        """How many centres there are."""
        return len(self.centres)

    def labels(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Return the cell of each row."""
        return np.asarray(_nearest(rows, self.centres))


@dataclass(frozen=True)
class HalfSpace:
    """A half-space: the side on which ``row · normal > offset``."""

    normal: Integers
    offset: int


@dataclass(frozen=True)
class Tree:
    """Leaves of a binary tree whose nodes of one level are all cut by the same half-space.

    Parameters
    ----------
    halves
        One per level.
    children
        For every node its two children; −1 for a leaf. Node 0 is the root.
    """

    halves: tuple[HalfSpace, ...]
    children: NDArray[np.int32]

    @property
    def cells(self) -> int:
        """How many nodes there are; inner ones stay empty."""
        return len(self.children)

    def labels(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Return the leaf of each row."""
        normals = np.array([half.normal for half in self.halves], dtype=np.int64).reshape(len(self.halves), -1)
        offsets = np.array([half.offset for half in self.halves], dtype=np.int64)
        return np.asarray(_walk(rows, normals, offsets, self.children))


Partition = OneCell | Nearest | Tree


def fold(
    rows: NDArray[Any], labels: NDArray[np.int32], references: Integers, radius: int, *, squared: bool, squares: int
) -> tuple[Integers, Integers]:
    """Return how many rows each cell has, and the sum of their displacements from the cell's reference, clipped.

    Parameters
    ----------
    rows
        Integers; in the first column 1 for a person with a record, 0 for one without, who is in no cell.
    labels
        The cell of each row.
    references
        One point per cell.
    radius
        No displacement is longer than this.
    squared
        Whether its length is Euclidean or the sum of magnitudes.
    squares
        Also sum the squares of displacements, divided by this number and rounded down; 0 for not. Displacements are then clamped
        to this number too, so that squares are no longer than displacements.
    """
    width = references.shape[1]
    counts = np.zeros(len(references), dtype=np.int64)
    sums = np.zeros((len(references), width * (2 if squares else 1)), dtype=np.int64)
    _fold(rows, labels, references, radius, squared, squares, counts, sums)
    return counts, sums


@njit(cache=True, nogil=True)
def _nearest(rows: Any, centres: Any) -> Any:
    labels = np.zeros(rows.shape[0], dtype=np.int32)
    for i in range(rows.shape[0]):
        best = np.int64(-1)
        for cell in range(centres.shape[0]):
            distance = np.int64(0)
            for j in range(centres.shape[1]):
                step = np.int64(rows[i, j + 1]) - centres[cell, j]
                distance += step * step
            if best < 0 or distance < best:
                best = distance
                labels[i] = cell
    return labels


@njit(cache=True, nogil=True)
def _walk(rows: Any, normals: Any, offsets: Any, children: Any) -> Any:
    labels = np.zeros(rows.shape[0], dtype=np.int32)
    for i in range(rows.shape[0]):
        node = 0
        for level in range(normals.shape[0]):
            if children[node, 0] < 0:
                break
            height = np.int64(0)
            for j in range(normals.shape[1]):
                height += np.int64(rows[i, j + 1]) * normals[level, j]
            node = children[node, 1 if height > offsets[level] else 0]
        labels[i] = node
    return labels


@njit(cache=True, nogil=True)
def _fold(
    rows: Any, labels: Any, references: Any, radius: int, squared: bool, squares: int, counts: Any, sums: Any
) -> None:
    width = references.shape[1]
    step = np.empty(width, dtype=np.int64)
    for i in range(rows.shape[0]):
        if rows[i, 0] == 0:
            continue
        cell = labels[i]
        for j in range(width):
            step[j] = np.int64(rows[i, j + 1]) - references[cell, j]
            if squares:
                step[j] = min(max(step[j], -squares), squares)
        _clip(step, radius, squared)
        counts[cell] += 1
        for j in range(width):
            sums[cell, j] += step[j]
            if squares:
                sums[cell, width + j] += step[j] * step[j] // squares


@njit(cache=True, nogil=True)
def _length(step: Any, squared: bool) -> Any:
    length = np.int64(0)
    for j in range(len(step)):
        length += step[j] * step[j] if squared else abs(step[j])
    return length


@njit(cache=True, nogil=True)
def _clip(step: Any, radius: int, squared: bool) -> None:
    """Shorten by scaling and truncating towards zero, until the integers themselves keep the bound."""
    bound = radius * radius if squared else radius
    length = _length(step, squared)
    while length > bound:
        ratio = bound / length
        factor = np.sqrt(ratio) if squared else ratio
        largest = 0
        for j in range(len(step)):
            step[j] = np.int64(step[j] * factor)
            if abs(step[j]) > abs(step[largest]):
                largest = j
        shorter = _length(step, squared)
        if shorter == length:  # a factor just below one may truncate nothing
            step[largest] -= np.sign(step[largest])
            shorter = _length(step, squared)
        length = shorter


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


class ClusteringQueries:
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
        answer = yield Query(OneCell(), self.schedule.location, origin, block.row, squares=block.scale)
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

    def _half_space(self, mean: Floats, spread: Floats) -> HalfSpace:
        normal = self._normals(self.block.width) / spread
        whole = np.rint(normal * (4096 / np.max(np.abs(normal)))).astype(np.int64)
        return HalfSpace(whole, int(whole @ np.rint(mean).astype(np.int64)))

    def _length(self, spread: Floats) -> int:
        """How far people typically are from the mean: the radius of displacements, and no more than the box allows."""
        length = np.linalg.norm(spread) if self.block.euclidean else np.sum(spread)
        return max(1, min(math.ceil(length), 2 * self.block.row))

    def _normals(self, count: int) -> Floats:
        """Standard normal numbers from the public seed (Box–Muller)."""
        words = self.coins.words(2 * count).astype(np.float64).reshape(2, count) * 2.0**-64
        return np.asarray(np.sqrt(-2 * np.log(words[0] + 2.0**-65)) * np.cos(2 * math.pi * words[1]))


def _split(tree: Tree, half: HalfSpace, chosen: NDArray[np.bool_]) -> Tree:
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


@dataclass(frozen=True)
class _ClippedRows:
    """Rows within the bounds that the law rests on, whatever was handed in."""

    blocks: Iterable[NDArray[Any]]
    low: list[int]
    high: list[int]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for block in self.blocks:
            yield np.asarray(np.clip(block, self.low, self.high).astype(block.dtype, copy=False))


class LocalClustering:
    """Release k′ centres of one party's rows, all of its rounds together at one price.

    Parameters
    ----------
    price
        What the release may cost: discrete Laplace noise at δ = 0, discrete Gaussian noise otherwise.
    lower, scale
        The smallest value of each coded column (−γ for a number, 0 for an indicator), and γ, the largest.
    columns
        How many of the schema's columns the block has; a row is then at most √columns·γ long, and columns·γ in magnitudes.
    people, clusters
        How many rows, and k′; both public.
    seed
        Of public choices.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = LocalClustering(Price.of(1.0), np.array([-4096]), 4096, 1, people=1_000, clusters=2)
    >>> rows = np.ones((1_000, 2), dtype=np.int16)
    >>> rows[:, 1] = np.arange(1_000) % 2 * 4_000 - 2_000
    >>> mechanism.release(rows, ExactSampler(SystemRandomness())).shape, mechanism.loss
    ((2, 1), Loss(epsilon=1))

    Notes
    -----
    The release is a conversation. `ClusteringQueries` knows public facts only, and asks questions. Each is a
    partition of the people that follows from earlier *answers*, a reference point per cell and a radius. The answer is the
    number of people in each cell and the sum of their displacements from its reference, clipped to the radius, both with
    integer noise. Under zero-out one person leaves one cell: one count changes by 1, and that cell's sum by a vector of length
    at most the radius (twice its square with the squares of the first question, which are no longer than the displacements),
    whatever the earlier answers were. With shares w of the budget, C of each for counts, question i is therefore

    * Gaussian, the least σ² with ``κ²Δ₂² ≤ 2ρ·w_i(1-C)`` on sums and ``κ² ≤ 2ρ·w_i·C`` on counts: μ-GDP with ``μ² = 2w_iρ``;
    * Laplace, scales ``Δ₁/(ε·w_i(1-C))`` and ``1/(ε·w_i·C)``: ``w_iε``-DP,

    for every fixed sequence of earlier answers. Shares are exact rationals that add up to 1, so adaptive composition gives
    ``μ² = 2ρ`` or ε-DP, known before a row is read although partitions, references and radii follow from answers. Cells,
    displacements and clipping are functions of one row in integers, so no rounding in one person's favour moves another's
    cell. The centres are a function of the answers.

    Privacy
    -------
    Guarantee
        Pure ε-DP at δ = 0: the shares wᵢε of all questions add up to ε. Otherwise μ-GDP with μ² = 2ρ = Σ2wᵢρ,
        and so (ε, δ)-DP at the price. Proof: docs/proofs/local-clustering.md.
    Neighbours
        Zero-out: a person's row against no row at all. A missing record (0 in the first column) is in no cell.
    Adversary
        Anybody who reads the released centres, or all noisy answers.
    Numerics
        Integer noise on integers; scales are exact rationals, rounded up, and the samplers exact. Rows are clamped and clipped
        here, in integers, whatever was handed in.
    Checked by
        tests/party/test_local_clustering.py
    """

    def __init__(
        self,
        price: Price,
        lower: NDArray[np.int64],
        scale: int,
        columns: int,
        *,
        people: int,
        clusters: int,
        seed: int = 0,
    ) -> None:
        self.price = price
        self.euclidean = price.delta > 0
        row = math.isqrt(columns * scale**2 - 1) + 1 if self.euclidean else columns * scale
        self.block = Block(np.asarray(lower, dtype=np.int64), scale, row, clusters, self.euclidean, seed)
        self.schedule = clustering_schedule(len(lower), people, clusters, price)
        self.people = people
        self.budget = ledger_rho(price) if self.euclidean else price.exact
        self.loss = budget_loss(self.budget) if self.euclidean else Loss.of_pure(price.nano)
        self.name = f"private clustering ({self.schedule.method}), {self._law}"
        self._require_drawable()

    @property
    def _law(self) -> str:
        return "discrete Gaussian" if self.euclidean else "discrete Laplace"

    def release(self, nonprivate: NDArray[Any] | RowBlocks, sampler: Sampler) -> NDArray[np.int64]:
        """Return k′ integer centres in units of 1/γ.

        ``nonprivate`` has a row per person: 1 or 0 for whether there is a record, then the coded columns. It may be rows that are
        read some at a time: every question is answered by a pass over them.
        """
        rows = self._checked(nonprivate)
        rounds = self.queries(sampler).rounds()
        query = next(rounds)
        try:
            while True:
                counts, sums = self.exact(query, rows)
                query = rounds.send(self.perturb(query, counts, sums, sampler))
        except StopIteration as finished:
            return np.asarray(finished.value, dtype=np.int64)

    def describe(self) -> Description:
        return Description(
            f"one person in one cluster, displacement clipped; {self.people:,} people",
            f"{self.block.clusters} clusters; {self.schedule.sweeps} sweeps",
        )

    def queries(self, sampler: Sampler) -> ClusteringQueries:
        """Return what asks the questions. It sees no row, and of the sampler the stream of the public seed only."""
        return ClusteringQueries(
            self.block,
            self.schedule,
            sampler.keyed(self.block.seed.to_bytes(32, "big")),
            count_noise=lambda share: self._deviation(1, share * COUNTS),
            sum_noise=lambda share: self._deviation(1, share * (1 - COUNTS)),
        )

    def exact(
        self, query: Query, nonprivate: NDArray[Any] | Iterable[NDArray[Any]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Answer a question without noise: counts by cell, sums by cell and column."""
        blocks = [nonprivate] if isinstance(nonprivate, np.ndarray) else nonprivate
        width = query.references.shape[1] * (2 if query.squares else 1)
        counts = np.zeros(len(query.references), dtype=np.int64)
        sums = np.zeros((len(query.references), width), dtype=np.int64)
        for block in blocks:
            labels = query.partition.labels(block)
            some = fold(block, labels, query.references, query.radius, squared=self.euclidean, squares=query.squares)
            counts += some[0]
            sums += some[1]
        return counts, sums

    def sensitivity(self, query: Query) -> int:
        """Return by how much one person changes the sums: Δ₂² under Gaussian noise, Δ₁ under Laplace noise."""
        return (query.radius**2 if self.euclidean else query.radius) * (2 if query.squares else 1)

    def perturb(self, query: Query, counts: NDArray[np.int64], sums: NDArray[np.int64], sampler: Sampler) -> Answer:
        """Add the noise that a question's share of the budget buys."""
        if not query.radius:  # counts alone take the whole share
            return Answer(
                (counts + self._draw(1, query.share, counts.shape, sampler)).astype(float), np.zeros(sums.shape)
            )
        noisy_counts = counts + self._draw(1, query.share * COUNTS, counts.shape, sampler)
        noisy_sums = sums + self._draw(self.sensitivity(query), query.share * (1 - COUNTS), sums.shape, sampler)
        return Answer(noisy_counts.astype(float), noisy_sums.astype(float))

    def parameter(self, sensitivity: int, share: Fraction) -> Fraction:
        """Return σ² of Gaussian noise from Δ₂², or the scale of Laplace noise from Δ₁, for a share of the budget."""
        if self.euclidean:
            return share_within(self.budget * share, sensitivity)
        return Fraction(sensitivity) / (self.budget * share)

    def _draw(self, sensitivity: int, share: Fraction, shape: tuple[int, ...], sampler: Sampler) -> NDArray[np.int64]:
        draw = sampler.discrete_gaussian if self.euclidean else sampler.discrete_laplace
        return draw(self.parameter(sensitivity, share), shape)

    def _deviation(self, sensitivity: int, share: Fraction) -> float:
        parameter = self.parameter(sensitivity, share)
        return math.sqrt(parameter if self.euclidean else discrete_laplace_variance(parameter))

    def _checked(self, nonprivate: NDArray[Any] | RowBlocks) -> Iterable[NDArray[Any]]:
        shape = (self.people, self.block.width + 1)
        if nonprivate.shape != shape or nonprivate.dtype.kind != "i":
            raise BadInput(
                "Clustering takes whole numbers, one row per person, with whether there is a record in front."
            )
        blocks = [nonprivate] if isinstance(nonprivate, np.ndarray) else nonprivate
        return _ClippedRows(blocks, [0, *self.block.lower], [1, *([self.block.scale] * self.block.width)])

    def _require_drawable(self) -> None:
        """Refuse before the debit what samplers would refuse after it: the widest radius at the smallest share."""
        smallest = min(self.schedule.location, self.schedule.sweep) * (1 - COUNTS)
        radius = 2 * self.block.row
        widest = 2 * (radius**2 if self.euclidean else radius)
        limit = LARGEST_SIGMA_SQUARED if self.euclidean else LARGEST_LAPLACE
        counts = min(self.schedule.level, smallest) if self.schedule.depth else smallest
        if self.parameter(widest, smallest) > limit or self.parameter(1, counts * COUNTS) > limit:
            raise BadInput("The noise would be too large to draw.", remedy="Raise epsilon.")
