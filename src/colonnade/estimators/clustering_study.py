"""What `KMeans` and `KMedian` share: local centres, a weighted grid, and centres of all columns together."""

from collections.abc import Sequence
from math import sqrt
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coding.features import coded_widths, features_of, to_own_units
from colonnade.coding.names import columns_at, parties_of
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.clustering_metrics import ClusteringEvaluation
from colonnade.coordinator.protocols.prediction import Prediction
from colonnade.coordinator.protocols.vertical_clustering import ClusteringBlock, Clusters, VerticalClustering
from colonnade.errors import BadInput
from colonnade.estimation.additive_scores import party_scores
from colonnade.estimation.clustering_budget import (
    ClusteringPrices,
    WeightMethod,
    automatic_clusters,
    clustering_prices,
    weight_noise,
)
from colonnade.estimation.sketch_likelihood import LARGEST_SKETCHED
from colonnade.estimators.cluster_guesses import guesser_of
from colonnade.estimators.design import design
from colonnade.estimators.evaluation import Asked
from colonnade.estimators.preview import Expectation, ExpectedError
from colonnade.estimators.study import Study, refuse_recipient, require_matching
from colonnade.privacy.laws.clustering_rounds import LARGEST_CLUSTERS, clustering_schedule, displacement_noise
from colonnade.privacy.neighbours import Unit
from colonnade.privacy.price import Price

__all__ = ["LARGEST_SEED", "ClusteringStudy", "whole"]

LARGEST_SEED = 2**31 - 1
DEPENDENCE = 0.6
Array = NDArray[np.float64]


class ClusteringStudy(Study):
    """A study that clusters people by the columns of several parties; see `KMeans` and `KMedian`."""

    methods: ClassVar[tuple[str, ...]] = ("secure", "sketch", "response", "independent")
    learned: ClassVar[tuple[str, ...]] = (
        "cluster_centers_",
        "feature_names_in_",
        "local_centers_",
        "n_local_clusters_",
        "grid_weights_",
        "_coded_centres",
        "_coded",
        "_columns",
    )
    essential: ClassVar[tuple[str, ...]] = (
        "cluster_centers_",
        "feature_names_in_",
        "_coded_centres",
        "_coded",
        "_columns",
    )
    _median: ClassVar[bool] = False

    def __init__(
        self,
        n_clusters: int,
        *,
        columns: Sequence[str] | None = None,
        method: str = "secure",
        n_local_clusters: int | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        split: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.columns = columns
        self.method = method
        self.n_local_clusters = n_local_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.split = split
        self.random_state = random_state

    def predict(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the nearest centre.

        Parameters
        ----------
        X
            Rows that the caller legitimately holds, in a frame with the federation's column names; or a federation.
        to
            With a federation: the party to which it is opened, where every party's policy allows it.

        Returns
        -------
        array, or Delivery
            For a federation, the papers of what that party now holds.
        """
        if isinstance(X, Federation):
            return self._deliver(X, to, "clusters")
        refuse_recipient(to)
        coded = design(X, self._coded, self._columns, coded=True)
        labels = np.empty(len(coded), dtype=np.intp)
        for start in range(0, len(coded), 4_096):
            gaps = np.linalg.norm(coded[start : start + 4_096, None] - self._coded_centres, axis=2)
            labels[start : start + 4_096] = gaps.argmin(axis=1)
        return labels

    def _prediction(self, to: str, reading: str) -> Prediction:
        """A centre c is nearer than the first one a where x·(c − a) > (‖c‖² − ‖a‖²)/2: one score less than there are centres."""
        if self.n_clusters == 1:
            raise BadInput("There is one cluster: everybody is in it.")
        centres = self._coded_centres
        offsets = (np.sum(centres[0] ** 2) - np.sum(centres[1:] ** 2, axis=1)) / 2
        return Prediction(party_scores(self._columns, centres[1:] - centres[0]), offsets, to, reading, ())

    def _evaluator(self, price: Price, asked: Asked) -> ClusteringEvaluation:
        if self.n_clusters == 1:
            raise BadInput("The loss of one centre is a variance.", remedy="Use cn.PCA(...).evaluate, or moments.")
        local, weights = getattr(self, "local_centers_", None), getattr(self, "grid_weights_", None)
        party, points, guesses, within = guesser_of(self._coded_centres, self._coded, local, weights)
        return ClusteringEvaluation(
            columns=self._columns,
            centres=self._coded_centres,
            guesser=party,
            points=points,
            guesses=guesses,
            within=within,
            median=self._median,
            price=price,
            unit=asked.unit,
            level=asked.level,
            draw=asked.repeat,
        )

    def _check_learned(self) -> None:
        shape = (self.n_clusters, len(self.feature_names_in_))
        require_matching(self, self.cluster_centers_, shape)
        require_matching(self, self._coded_centres, shape)

    # What the study does ------------------------------------------------------------------------------------------------

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> VerticalClustering:  # noqa: ARG002
        clusters = whole(self.n_clusters, "n_clusters", 1, LARGEST_CLUSTERS)
        seed = whole(self.random_state, "random_state", 0, LARGEST_SEED)
        blocks = self._blocks(federation)
        method = cast("WeightMethod", self.method)
        prices = clustering_prices(price, len(blocks), self.unit, method, self.split)
        return VerticalClustering(
            blocks=blocks,
            n_clusters=clusters,
            local_clusters=self._local_clusters(federation, blocks, prices),
            method=method,
            median=self._median,
            prices=prices,
            people=federation.people,
            seed=seed,
        )

    def _blocks(self, federation: Federation) -> tuple[ClusteringBlock, ...]:
        described = federation.describe(self.columns)
        widths = coded_widths(features_of(described))
        return tuple(
            ClusteringBlock(party, columns_at(party, described), widths[party]) for party in parties_of(described)
        )

    def _local_clusters(
        self, federation: Federation, blocks: tuple[ClusteringBlock, ...], prices: ClusteringPrices
    ) -> int:
        if self.n_local_clusters is None:
            return automatic_clusters(
                self.n_clusters,
                federation.people,
                [block.width for block in blocks],
                prices,
                method=cast("WeightMethod", self.method),
                unit=self.unit,
                collusion=federation.collusion,
            )
        sketched = self.method == "sketch" and len(blocks) > 1
        local = whole(self.n_local_clusters, "n_local_clusters", 2, LARGEST_SKETCHED if sketched else LARGEST_CLUSTERS)
        if local ** len(blocks) < self.n_clusters:
            raise BadInput("The grid of local clusters has fewer cells than n_clusters.", remedy="Raise them.")
        return local

    def _learn(self, federation: Federation, value: Clusters) -> None:
        columns = federation.describe(self.columns)
        self._columns = dict(columns)
        self._coded = features_of(columns)[1:]
        self._coded_centres = value.centres
        self.feature_names_in_ = np.array([feature.name for feature in self._coded], dtype=object)
        self.cluster_centers_ = to_own_units(value.centres, self._coded)
        self.local_centers_ = self._local_centres(value)
        self.n_local_clusters_ = len(next(iter(value.local.values())))
        index = pd.MultiIndex.from_arrays(list(value.grid.cells.T), names=list(value.local))
        self.grid_weights_ = pd.Series(value.grid.weights, index=index, name="weight")

    def _local_centres(self, value: Clusters) -> dict[str, Array]:
        return {
            party: to_own_units(centres, [one for one in self._coded if one.party == party])
            for party, centres in value.local.items()
        }

    def _expect(self, algorithm: Any, federation: Federation) -> Expectation:
        local, people, prices = algorithm.local_clusters, federation.people, algorithm.prices
        noise = weight_noise(
            algorithm.method, local, people, len(algorithm.blocks), prices.weights, self.unit, federation.collusion
        )
        blur = {block.party: _blur(block, people, local, prices.centres) for block in algorithm.blocks}
        paired = len(algorithm.blocks) > 1 and self.method != "independent"
        cell = people / local ** (2 if paired else 1)
        expected = {
            "local clusters": f"{local} a party, hence a grid of {local ** len(algorithm.blocks):,} points",
            "noise of a local centre": ", ".join(f"{party} {share:.1%}" for party, share in blur.items())
            + " of its columns' spread, if clusters are of one size",
            "noise of a weight": f"about {noise:,.1f} people on each of {local ** (2 if paired else 1)} cells "
            + ("of a pair of parties" if paired else "of a party"),
        }
        if self.method == "independent":
            expected["not covered"] = "the error of assuming that the parties' columns are independent"
        warnings = []
        if max(blur.values()) > 1:
            warnings.append(
                "Local centres are mostly noise: raise epsilon, or ask for fewer columns or local clusters."
            )
        if noise > cell:
            warnings.append(
                "The noise of a weight exceeds the average weight: raise epsilon, or lower n_local_clusters."
            )
        error = _weight_error(noise, cell, shrunk=self.method == "response" and paired)
        where = "grid_weights_ of a pair of parties" if paired else "grid_weights_ of a party"
        return expected, tuple(warnings), (ExpectedError(where, error, "people", min(error, noise), noise),)


def _weight_error(noise: float, cell: float, *, shrunk: bool) -> float:
    """Return the error of a weight: all of the noise, or what shrinking towards independence leaves of it.

    Reports are decoded and pulled towards independent parties as far as noise hides the rest, as a Bayesian would with a
    prior on how far a cell is from independence; three fifths of an average cell is what such a prior would say.
    """
    return 1 / sqrt(1 / noise**2 + 1 / (DEPENDENCE * cell) ** 2) if shrunk else noise


def _blur(block: ClusteringBlock, people: int, clusters: int, price: Price) -> float:
    sweep = clustering_schedule(block.width, people, clusters, price).sweep
    return displacement_noise(block.width, price, sweep) * clusters / people


def whole(value: object, what: str, least: int, largest: int) -> int:
    """Return a parameter that must be a whole number within bounds."""
    if type(value) is not int or not least <= value <= largest:
        raise BadInput(f"{what} must be a whole number from {least} to {largest}.")
    return value
