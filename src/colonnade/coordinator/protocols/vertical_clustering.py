"""Clustering of columns that different parties hold, in four phases.

1. Every party clusters its own block privately and releases k′ centres. 2. A person's nearest centre at a party is a category.
3. The combinations of all parties' centres form a grid, and each cell of the grid gets a weight. Weights come from pair tables on
shares (docs/proofs/pair-tables.md#statement), from pair tables of randomised reports, from sketches under a key that the parties
share (docs/proofs/sketches.md#proof), or from histograms as if parties were independent. 4. The grid's points are clustered by
weighted k-means or k-median.

The phases are Algorithm 3 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives) and Algorithm 1 of
Private vertical clustering (Li, Wang, Li, 2023; docs/references.md#clustering). We differ in four ways. The number of people is
public, so nothing is spent on it. Reports are decoded pair by pair and fitted with all pairs at once, since the noise of a table
with one axis per party grows with every party. Weights are projected onto non-negative ones with the right total, not clipped at
zero. Sketches (Algorithms 2 to 5 of the second paper) have phantoms per cell, which all parties derive from the key, and are
decoded by the joint likelihood of a pair's table (docs/proofs/sketches.md#decoding).

How well centres fit people, from noisy histograms of who is nearer to which of two centres.

The loss is the mean squared distance to the nearest centre. That one centre is nearer than another is the sign of a score that
adds up over parties, and its histogram is exact up to noise. Which of *all* centres is nearest is not in any pair of them. So the
party whose columns separate the centres best guesses everybody's centre by its own columns. The histograms of all pairs, divided
by this guess, say how much a person would gain by moving from the guess g to each other centre:

    mean d_g − Σ_j mean (d_g − d_j)⁺  ≤  loss  ≤  mean d_g − max_j mean (d_g − d_j)⁺,       by guess, and added up.

The two ends meet where at most one other centre is ever better, and so they always meet with two centres. Distances are measured
after scaling each column to [−1, 1].
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.driver import agree_on_key, forget_key, key_steps, open_jointly
from colonnade.coordinator.protocols.counting import pair_tables_of, reports_of, sample_coins
from colonnade.coordinator.protocols.score_releases import GuessedLabel, ScoreHistogramRelease
from colonnade.errors import ProtocolError
from colonnade.estimation import scoring
from colonnade.estimation.clustering import (
    ClusteringPrices,
    Grid,
    WeightMethod,
    fitted_grid,
    independent_grid,
    weighted_kmeans,
    weighted_kmedian,
)
from colonnade.estimation.counts import joint_counts, shrink_interactions, variance_of_counts
from colonnade.estimation.scoring import ScoreCounts
from colonnade.estimation.sketch_tables import sketched_tables
from colonnade.estimation.tables import NoisyTables, consistent_tables, plausible_total
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price, Unit, party_price
from colonnade.privacy.calibration import discrete_laplace_variance, laplace_scale
from colonnade.privacy.laws.response import best_channel
from colonnade.privacy.laws.sketches import SKETCHES, sketching
from colonnade.protocol.messages import Released, Rounds, ask_all
from colonnade.schema import Column
from colonnade.schema.features import ColumnName
from colonnade.steps.kind import StepKind
from colonnade.steps.local import Centres, Histogram, MembershipSketches, Reports, SquaredLength
from colonnade.steps.products import PairTables as TablesStep

Array = NDArray[np.float64]
KEY = "key"
WEIGHT_STEPS: Mapping[WeightMethod, tuple[str, type[StepKind]]] = {
    "secure": ("tables", TablesStep),
    "sketch": ("sketches", MembershipSketches),
    "response": ("reports", Reports),
    "independent": ("histogram", Histogram),
}
"""The name and the kind of the steps that weights come from, where there are several parties."""
SCALE = 4_096
"""γ: coded columns are whole multiples of 1/γ between −1 and 1."""


@dataclass(frozen=True)
class ClusteringBlock:
    """One party's columns, and how many coded columns they make."""

    party: str
    columns: tuple[str, ...]
    width: int


@dataclass(frozen=True, eq=False)
class Clusters:
    """What a study learned, in coded columns (after scaling to [−1, 1]).

    Parameters
    ----------
    centres
        The final centres, parties' columns side by side.
    local
        Each party's own centres.
    grid
        The weighted grid between the two.
    """

    centres: Array
    local: Mapping[str, Array]
    grid: Grid


@dataclass(frozen=True)
class VerticalClustering:
    """The study: local centres, weights of the grid, and the final centres.

    Parameters
    ----------
    blocks
        The columns of each party.
    n_clusters, local_clusters
        k and k′.
    method
        The method that finds the weights.
    median
        k-median instead of k-means in phase 4.
    prices
        The prices of centres and weights.
    people
        The number of people, which is public.
    seed
        The seed of public choices.
    sketches
        M: sketches per pair of parties, for ``"sketch"``.
    sample, draw
        For ``"response"``: the rate at which public coins choose who reports, and the number of the draw, by which coins differ.
    """

    blocks: tuple[ClusteringBlock, ...]
    n_clusters: int
    local_clusters: int
    method: WeightMethod
    median: bool
    prices: ClusteringPrices
    people: int
    seed: int
    sketches: int = SKETCHES
    sample: float = 1.0
    draw: int = 1

    @property
    def weight_step(self) -> tuple[str, type[StepKind]]:
        """The name and the kind of the steps that the weights come from."""
        return WEIGHT_STEPS["independent" if len(self.blocks) == 1 else self.method]

    def steps(self) -> tuple[Step, ...]:
        """Return two steps per party: its centres, and its part in the weights. Sketches need a third, its part in their key."""
        centres = tuple(self._centres_step(block) for block in self.blocks)
        return (*centres, *self._keys(), *(self._weights(block) for block in self.blocks))

    def rounds(self, plan: Plan) -> Rounds:
        """Ask for centres, then for memberships. The rest is arithmetic."""
        releases = yield from ask_all(plan, "centres")
        local = {block.party: self._centres(releases[block.party], block) for block in self.blocks}
        grid = yield from self._grid(plan)
        return self.combine(local, grid)

    def combine(self, local: Mapping[str, Array], grid: Grid) -> Clusters:
        """Cluster the weighted grid."""
        points = grid.points([local[block.party] for block in self.blocks])
        solve = weighted_kmedian if self.median else weighted_kmeans
        return Clusters(solve(points, grid.weights, self.n_clusters, seed=self.seed), local, grid)

    def _grid(self, plan: Plan) -> Rounds:
        name, kind = self.weight_step
        if kind is TablesStep:
            opened = yield from open_jointly(plan, name)
            return self.from_tables(pair_tables_of(opened))
        if kind is MembershipSketches:
            yield from agree_on_key(plan, KEY)
            releases = yield from ask_all(plan, name)
            yield from forget_key(plan, KEY)
            return self.from_sketches([self._sketches(releases[block.party]) for block in self.blocks], plan.unit)
        releases = yield from ask_all(plan, name)
        if kind is Reports:
            return self.from_reports([reports_of(block.party, releases[block.party]) for block in self.blocks])
        margins = [self._margin(releases[block.party]) for block in self.blocks]
        return independent_grid(margins, float(self.people))

    def from_tables(self, tables: NoisyTables) -> Grid:
        """Fit the grid to noisy pair tables."""
        total = plausible_total(tables, self.people)
        return fitted_grid(consistent_tables(tables, total), total)

    def from_sketches(self, sketches: list[NDArray[np.uint16]], unit: Unit) -> Grid:
        """Fit every pair's table by its likelihood, make the tables agree, and fit the grid.

        Each party's sketches are listed by the other party, in the order of parties.
        """
        law = sketching(self.prices.weights, len(self.blocks), unit, self.sketches).law
        pairs = {(a, b): (sketches[a][b - 1], sketches[b][a]) for a, b in combinations(range(len(self.blocks)), 2)}
        tables = sketched_tables(law, pairs, (self.local_clusters,) * len(self.blocks), self.people)
        return self.from_tables(tables)

    def from_reports(self, reports: list[NDArray[np.uint8]]) -> Grid:
        """Decode the reports pair by pair, pull each table towards independence as far as noise hides the rest, and fit.

        Where a sample reports (Primitives, Theorem B.2), its tables are scaled up to all people, and a cell's variance grows by
        that of the sample.
        """
        asked = len(reports[0])
        if len({len(report) for report in reports}) != 1 or not 0 < asked <= self.people:
            raise ProtocolError("The parties reported on different numbers of people.")
        if self.sample == 1 and asked != self.people:
            raise ProtocolError("The parties did not report on everybody.")
        channel = best_channel(self.local_clusters, self.prices.weights)
        pairs, scale = list(combinations(range(len(reports)), 2)), self.people / asked
        tables = {
            (a, b): scale
            * shrink_interactions(joint_counts([reports[a], reports[b]], [channel, channel]), asked, [channel, channel])
            for a, b in pairs
        }
        even = np.full((self.local_clusters,) * 2, asked / self.local_clusters**2)
        variance = float((scale**2 * variance_of_counts(even, [channel, channel]) + scale * (scale - 1) * even).mean())
        sizes = (self.local_clusters,) * len(reports)
        agreed = consistent_tables(NoisyTables(sizes, tables, dict.fromkeys(pairs, variance)), float(self.people))
        return fitted_grid(agreed, float(self.people))

    def _centres_step(self, block: ClusteringBlock) -> Step:
        return Centres.ask(
            name="centres",
            party=block.party,
            columns=block.columns,
            parameters={"clusters": self.local_clusters, "scale": SCALE, "seed": self.seed},
            price=self.prices.centres,
        )

    def _weights(self, block: ClusteringBlock) -> Step:
        name, kind = self.weight_step
        parameters: dict[str, Parameter] = {"centres_of": "centres", "clusters": self.local_clusters}
        if kind is TablesStep:
            parameters["width"] = self.local_clusters
        if kind is MembershipSketches:
            parameters |= {"key_of": KEY, "sketches": self.sketches}
        if kind is Reports:
            parameters |= sample_coins(self.sample, self.draw, self._columns)
        return kind.ask(
            name=name,
            party=block.party,
            columns=block.columns,
            parameters=parameters,
            price=self.prices.weights,
        )

    @property
    def _columns(self) -> list[str]:
        return [str(ColumnName(block.party, column)) for block in self.blocks for column in block.columns]

    def _keys(self) -> tuple[Step, ...]:
        if self.weight_step[1] is not MembershipSketches:
            return ()
        return key_steps((block.party for block in self.blocks), KEY)

    def _sketches(self, release: Released) -> NDArray[np.uint16]:
        sketches = release.array("value")
        if sketches.shape != (len(self.blocks) - 1, self.sketches, self.local_clusters) or sketches.dtype != np.uint16:
            raise ProtocolError("A party released sketches of another shape.")
        return sketches.astype(np.uint16)

    def _centres(self, release: Released, block: ClusteringBlock) -> Array:
        centres = release.array("value")
        if centres.shape != (self.local_clusters, block.width) or centres.dtype != np.int64:
            raise ProtocolError(f"Party {block.party!r} released centres of another shape.")
        return np.clip(centres.astype(np.float64) / SCALE, -1.0, 1.0)

    def _margin(self, release: Released) -> Array:
        margin = release.array("value")
        if margin.shape != (self.local_clusters,) or margin.dtype != np.int64:
            raise ProtocolError("A party released a histogram of another shape.")
        return margin.astype(np.float64)


HEIGHT = 1 << 20
SQUARES = 4
"""One part in four of ε pays for the sums of squares, the rest for the histograms."""
BINS = 32


@dataclass(frozen=True, eq=False)
class LocalCells:
    """What a clustering says about the parties' own columns: local centres, and the number of people in each combination.

    Parameters
    ----------
    centres
        By party, in coded columns.
    cells, weights
        Combinations of local centres, one row each, parties in order; and the number of people in each.
    """

    centres: Mapping[str, Array]
    cells: NDArray[np.intp]
    weights: Array


def best_guesser(
    cells: LocalCells, centres: Array, places: Mapping[str, NDArray[np.int64]]
) -> tuple[str, NDArray[np.intp], float]:
    """Return the party whose columns tell most, its guess by local centre, and where the model puts the loss between the ends.

    Everything here is public: it follows from what the model's own study released.
    """
    squared = np.zeros((len(cells.cells), len(centres)))
    for number, (party, local) in enumerate(cells.centres.items()):
        block = ((local[:, None] - centres[None, :, places[party]]) ** 2).sum(axis=2)
        squared += block[cells.cells[:, number]]
    weights = cells.weights / max(float(cells.weights.sum()), 1e-300)
    nearest = float(weights @ squared.min(axis=1))
    found = []
    for number, (party, local) in enumerate(cells.centres.items()):
        own = cells.cells[:, number]
        by_cell = np.array([weights[own == cell] @ squared[own == cell] for cell in range(len(local))])
        guess = by_cell.argmin(axis=1)
        low, high = _ends(squared, weights, guess[own])
        within = (nearest - low) / (high - low) if high > low else 0.0
        found.append((high - low, party, guess, min(max(within, 0.0), 1.0)))
    _, party, guess, within = min(found, key=lambda one: one[0])
    return party, guess, within


def _ends(squared: Array, weights: Array, guess: NDArray[np.intp]) -> tuple[float, float]:
    """Return both bounds of the loss for people with known distances and a guess each."""
    own = squared[np.arange(len(guess)), guess]
    gains = np.maximum(own[:, None] - squared, 0.0) * weights[:, None]
    by_guess = [gains[guess == one].sum(axis=0) for one in range(squared.shape[1])]
    base = float(weights @ own)
    return base - sum(float(one.sum()) for one in by_guess), base - sum(float(one.max()) for one in by_guess)


@dataclass(frozen=True)
class ClusteringEvaluation:
    """A private measurement of how well some centres fit.

    Parameters
    ----------
    columns, centres
        The columns, and the centres in coded columns; two or more.
    guesser, points, guesses
        The party that guesses, the points (in its own coded columns) whose nearest it takes, and the centre of each point.
    within
        Where between its ends the loss is put: a guess that no promise rests on.
    median
        Whether the loss is the mean distance and not the mean of its square.
    price, unit, level
        The price, the unit that it protects, and the level of the intervals.
    draw
        The number of the draw.
    """

    columns: Mapping[str, Column]
    centres: Array
    guesser: str
    points: Array
    guesses: NDArray[np.intp]
    within: float
    median: bool
    price: Price
    unit: Unit
    level: float
    draw: int = 1

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of centres."""
        return list(combinations(range(len(self.centres)), 2))

    def histogram(self, first: int, second: int) -> ScoreHistogramRelease:
        """Return the histogram of d_first − d_second, among people whose guess is one of the two."""
        a, b = self.centres[first], self.centres[second]
        guess = GuessedLabel(self.guesser, self.points, tuple(int(one) for one in self.guesses))
        return ScoreHistogramRelease(
            name=f"{first}-{second}",
            parts=scoring.party_scores(self.columns, 2 * (b - a)[None]),
            offset=float(a @ a - b @ b),
            label=guess,
            kept=(first, second),
            price=scoring.histogram_price(
                Price(self.price.nano - self._squares_price.nano, self.price.delta), len(self.pairs)
            ),
            draw=self.draw,
            largest_bins=BINS,
        )

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party for its sum of squares, and one per party and pair of centres."""
        scoring.interval_reach(self.level)  # refuses a level outside (0, 1)
        squares = [self._squares(part) for part in self._parts]
        return (*squares, *(step for pair in self.pairs for step in self.histogram(*pair).steps()))

    def rounds(self, plan: Plan) -> Rounds:
        """Collect the sums, open the histograms, and compute the metrics."""
        releases = yield from ask_all(plan, "squares")
        opened = {}
        for pair in self.pairs:
            opened[pair] = yield from self.histogram(*pair).rounds(plan)
        return scoring.EvaluationResult(self.metrics(self._squared(releases, plan.people), opened, plan.people))

    def metrics(
        self, squared: tuple[float, float], opened: Mapping[tuple[int, int], ScoreCounts], people: int
    ) -> tuple[scoring.Metric, ...]:
        """Return the loss between its two ends.

        Parameters
        ----------
        squared
            The mean squared distance from the first centre, and its variance.
        opened
            The histograms.
        people
            How many people there are.
        """
        base, doubt = squared
        gains: dict[tuple[int, int], tuple[float, float, float]] = {}
        for (first, second), histogram in opened.items():
            ahead = np.maximum(histogram.scores, 0.0)
            gains[first, second] = _weighted(histogram, 0, ahead, people)
            gains[second, first] = _weighted(histogram, 1, ahead - histogram.scores, people)
            if first == 0:
                moved, moved_doubt, _ = _weighted(histogram, 1, histogram.scores, people)
                base, doubt = base - moved, doubt + moved_doubt
        least, most, rounding = base, base, 0.0
        for guess in range(len(self.centres)):
            own = [gains[guess, other] for other in range(len(self.centres)) if other != guess]
            least -= sum(max(gain, 0.0) for gain, _, _ in own)
            most -= max(max(gain, 0.0) for gain, _, _ in own)
            doubt += sum(variance for _, variance, _ in own)
            rounding += sum(moved for _, _, moved in own)
        error = scoring.interval_reach(self.level) * math.sqrt(doubt) + rounding
        return self._read(least, most, error)

    def _read(self, least: float, most: float, error: float) -> tuple[scoring.Metric, ...]:
        most = max(most, least)
        kind = "exact" if len(self.centres) == 2 else "between what pairs of centres leave open"
        low, high = max(least - error, 0.0), max(most + error, 0.0)
        value = min(max(least + self.within * (most - least), low), high)
        if not self.median:
            return (scoring.Metric("loss", value, low, high, kind),)
        squared = scoring.Metric("mean_squared_distance", value, low, high, kind)
        widest = math.sqrt(sum(4.0 if one.is_number else 2.0 for one in self.columns.values()))
        bounds = low / widest, math.sqrt(high)
        middle = min(max(math.sqrt(value), bounds[0]), bounds[1])
        return (scoring.Metric("loss", middle, *bounds, "between what squared distances leave open"), squared)

    @property
    def _squares_price(self) -> Price:
        return Price(self.price.nano, 0.0).share(SQUARES)

    @property
    def _parts(self) -> list[scoring.PartyScores]:
        return scoring.party_scores(self.columns, -2 * self.centres[:1])

    def _squares(self, part: scoring.PartyScores) -> Step:
        return SquaredLength.ask(
            name="squares",
            party=part.party,
            columns=part.columns,
            parameters={
                "weights": tuple(part.weights[0].tolist()),
                "largest": self._largest(part),
                "height": HEIGHT,
            },
            price=party_price(self._squares_price, len(self._parts), self.unit),
        )

    def _largest(self, part: scoring.PartyScores) -> float:
        """Return the largest ‖x‖² + w·x: 1 + |w| for a number, the largest |1 + w| of its levels for a category."""
        largest, place = 0.0, 0
        for name in part.columns:
            column = self.columns[str(ColumnName(part.party, name))]
            width = column.width
            some = part.weights[0, place : place + width]
            largest += float(np.abs(1 + some).max() if not column.is_number else 1 + abs(some[0]))
            place += width
        return largest

    def _squared(self, releases: Mapping[str, Released], people: int) -> tuple[float, float]:
        total, variance = float(self.centres[0] @ self.centres[0]), 0.0
        for part in self._parts:
            value = releases[part.party].array("value")
            if value.shape != (1,) or value.dtype != np.int64:
                raise ProtocolError(f"Party {part.party!r} released a sum of another shape.")
            step = self._largest(part) / HEIGHT / people
            price = party_price(self._squares_price, len(self._parts), self.unit)
            total += float(value[0]) * step
            variance += discrete_laplace_variance(laplace_scale(price, HEIGHT)) * step**2
        return total, variance


def _weighted(histogram: ScoreCounts, column: int, weights: Array, people: int) -> tuple[float, float, float]:
    """Return a weighted count over people, extrapolated to no rounding, its variance, and what the extrapolation moved."""
    counts = histogram.counts[:, column]
    sharp = 2 * weights - histogram.smoothed(weights)
    spread = np.maximum(histogram.smoothed(weights**2) - histogram.smoothed(weights) ** 2, 0.0)
    variance = histogram.variance * float(sharp @ sharp) + float(spread @ np.maximum(counts, 0.0))
    value, plain = float(sharp @ counts) / people, float(weights @ counts) / people
    return value, variance / people**2, abs(value - plain)
