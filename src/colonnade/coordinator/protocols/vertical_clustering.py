"""Clustering of columns that different parties hold, in four phases.

1. Every party clusters its own block privately and releases k′ centres. 2. A person's nearest centre at a party is a category.
3. The combinations of all parties' centres form a grid, and each cell of the grid gets a weight. Weights come from pair tables on
shares (docs/proofs/pair-tables.md#statement), or from histograms as if parties were independent; `colonnade.papers.protocols` has
two more ways. 4. The grid's points are clustered by weighted k-means or k-median.

The phases are Algorithm 3 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives) and Algorithm 1 of
Private vertical clustering (Li, Wang, Li, 2023; docs/references.md#clustering). We differ in two ways. The number of people is
public, so nothing is spent on it. Weights are projected onto non-negative ones with the right total, not clipped at zero.

How well centres fit people, from noisy histograms of who is nearer to which of two centres.

The loss is the mean squared distance to the nearest centre. The sign of a score says which of two centres is nearer. The score
adds up over parties, and its histogram is exact up to noise. No pair tells which of *all* centres is nearest. So the
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
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.driver import open_jointly
from colonnade.coordinator.protocols.counting import pair_tables_of
from colonnade.coordinator.protocols.score_releases import GuessedLabel, ScoreHistogramRelease
from colonnade.estimation import scoring
from colonnade.estimation.clustering import (
    ClusteringPrices,
    Grid,
    fitted_grid,
    independent_grid,
    weighted_kmeans,
    weighted_kmedian,
)
from colonnade.estimation.scoring import ScoreCounts
from colonnade.estimation.tables import PairTableSet, consistent_tables, plausible_total
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price, Unit, party_price
from colonnade.privacy.calibration import discrete_laplace_variance, laplace_scale
from colonnade.protocol.messages import Released, Rounds, ask_all, planned_value
from colonnade.schema import Column, ColumnName
from colonnade.steps.kind import StepKind
from colonnade.steps.local import Centres, HistogramStep, SquaredLength
from colonnade.steps.products import PairTables as TablesStep

Array = NDArray[np.float64]
HISTOGRAM = "histogram", HistogramStep
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
    """The study: local centres, weights of the grid from pair tables on shares, and the final centres.

    Methods that weigh the grid in another way are subclasses. A single party's weights are a histogram, whatever the method.

    Parameters
    ----------
    blocks
        The columns of each party.
    n_clusters, local_clusters
        k and k′.
    median
        k-median instead of k-means in phase 4.
    prices
        The prices of centres and weights.
    people
        The number of people, which is public.
    seed
        The seed of public choices.
    """

    weights: ClassVar[tuple[str, type[StepKind]]] = "tables", TablesStep
    """The name and the kind of the steps that weights come from, where there are several parties."""

    blocks: tuple[ClusteringBlock, ...]
    n_clusters: int
    local_clusters: int
    median: bool
    prices: ClusteringPrices
    people: int
    seed: int

    def steps(self) -> tuple[Step, ...]:
        """Return two steps per party: its centres, and its part in the weights."""
        centres = tuple(self._centres_step(block) for block in self.blocks)
        return (*centres, *self.weight_steps())

    def weight_steps(self) -> tuple[Step, ...]:
        """Return the steps that the weights come from."""
        if len(self.blocks) == 1:
            return self._asked(*HISTOGRAM, {})
        return self._asked(*self.weights, self.weight_parameters())

    def weight_parameters(self) -> dict[str, Parameter]:
        """Return what a step of weights says besides its clusters, where there are several parties."""
        return {"width": self.local_clusters}

    def _asked(self, name: str, kind: type[StepKind], parameters: dict[str, Parameter]) -> tuple[Step, ...]:
        counted: dict[str, Parameter] = {"centres_of": "centres", "clusters": self.local_clusters}
        return tuple(
            kind.ask(
                name=name,
                party=block.party,
                columns=block.columns,
                parameters=counted | parameters,
                price=self.prices.weights,
            )
            for block in self.blocks
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Ask for centres, then for memberships. The rest is arithmetic."""
        releases = yield from ask_all(plan, "centres")
        local = {block.party: self._centres(releases[block.party], block) for block in self.blocks}
        grid = yield from (self.grid(plan) if len(self.blocks) > 1 else self.independent(plan))
        return self.combine(local, grid)

    def combine(self, local: Mapping[str, Array], grid: Grid) -> Clusters:
        """Cluster the weighted grid."""
        points = grid.points([local[block.party] for block in self.blocks])
        solve = weighted_kmedian if self.median else weighted_kmeans
        return Clusters(solve(points, grid.weights, self.n_clusters, seed=self.seed), local, grid)

    def grid(self, plan: Plan) -> Rounds:
        """Ask for what the weights come from, and return the weighted grid."""
        opened = yield from open_jointly(plan, self.weights[0])
        return self.from_tables(pair_tables_of(opened))

    def independent(self, plan: Plan) -> Rounds:
        """Ask for a histogram of each party, and return the grid as if parties were independent."""
        releases = yield from ask_all(plan, HISTOGRAM[0])
        margins = [self._margin(releases[block.party]) for block in self.blocks]
        return independent_grid(margins, float(self.people))

    def from_tables(self, tables: PairTableSet) -> Grid:
        """Fit the grid to noisy pair tables."""
        total = plausible_total(tables, self.people)
        return fitted_grid(consistent_tables(tables, total), total)

    def _centres_step(self, block: ClusteringBlock) -> Step:
        return Centres.ask(
            name="centres",
            party=block.party,
            columns=block.columns,
            parameters={"clusters": self.local_clusters, "scale": SCALE, "seed": self.seed},
            price=self.prices.centres,
        )

    def _centres(self, release: Released, block: ClusteringBlock) -> Array:
        centres = planned_value(release, (self.local_clusters, block.width), np.int64)
        return np.clip(centres.astype(np.float64) / SCALE, -1.0, 1.0)

    def _margin(self, release: Released) -> Array:
        margin = planned_value(release, (self.local_clusters,), np.int64, np.float64)
        return margin.astype(np.float64)


class IndependentClustering(VerticalClustering):
    """The same with weights from histograms, as if the parties' columns were independent."""

    weights = HISTOGRAM

    def weight_parameters(self) -> dict[str, Parameter]:
        """Return nothing more."""
        return {}

    def grid(self, plan: Plan) -> Rounds:
        """Multiply the histograms."""
        return (yield from self.independent(plan))


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
            value = planned_value(releases[part.party], (1,), np.int64)
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
