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
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import ColumnName
from colonnade.coordinator.protocols.counting import pair_tables_of, reports_of, sample_coins
from colonnade.coordinator.protocols.relaying import agree_on_key, forget_key, key_steps, open_jointly
from colonnade.errors import ProtocolError
from colonnade.estimation.clustering import Grid, fitted_grid, independent_grid, weighted_kmeans, weighted_kmedian
from colonnade.estimation.clustering_budget import ClusteringPrices, WeightMethod
from colonnade.estimation.counts import joint_counts, shrink_interactions, variance_of_counts
from colonnade.estimation.sketch_tables import sketched_tables
from colonnade.estimation.tables import NoisyTables, consistent_tables, plausible_total
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Unit
from colonnade.privacy.laws.response import best_channel
from colonnade.privacy.laws.sketches import SKETCHES, sketching
from colonnade.protocol.messages import Released, Rounds, ask_all
from colonnade.steps.keys import MembershipSketches
from colonnade.steps.kind import StepKind
from colonnade.steps.local import Centres, Histogram, Reports
from colonnade.steps.products import PairTables as TablesStep

__all__ = ["SCALE", "ClusteringBlock", "Clusters", "VerticalClustering"]

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
