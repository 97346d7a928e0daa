"""Methods of `KMeans` and `KMedian`: how the weights of the grid of local centres are found.

The paper is *Private vertical clustering* (Li, Wang, Li, 2023; docs/references.md#clustering).
"""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.constraints import Whole, checked
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.vertical_clustering import (
    ClusteringBlock,
    Clusters,
    IndependentClustering,
    VerticalClustering,
)
from colonnade.errors import BadInput
from colonnade.estimation import clustering
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimators.methods.method import Expectation, Method
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.local_clustering import LARGEST_CLUSTERS, clustering_schedule, displacement_noise
from colonnade.schema import coded_widths, columns_at, features_of, parties_of, to_own_units, with_indicators

if TYPE_CHECKING:
    from colonnade.estimators.clustering import ClusteringStudy


Array = NDArray[np.float64]
CELLS = (
    "making weights possible removes a part of their noise, which depends on how people lie around the local centres"
)


class ClusterMethod(Method["ClusteringStudy"]):
    """A method that weights private local centres by how many people are in each combination of local clusters."""

    algorithm: ClassVar[type[VerticalClustering]]
    """How centres and weights are found."""
    rule: clustering.WeightRule
    """What a weight costs, and how noisy it is."""
    unused = {"size": "Leave out size=: everybody takes part."}
    reference = "clustering"

    def step_options(self, federation: Federation, repeat: int) -> dict[str, Any]:
        """Return what the options of this method change in the algorithm."""
        return {}

    def not_covered(self) -> dict[str, str]:
        """Return what the expected error does not include."""
        return {}

    def protocol(
        self, study: "ClusteringStudy", federation: Federation, price: Price, repeat: int
    ) -> VerticalClustering:
        """Return an algorithm that gets centres and weights from the parties and clusters the weighted grid."""
        blocks = blocks_of(study, federation)
        prices = clustering.clustering_prices(price, len(blocks), study.unit, self.rule, study.split)
        return self.algorithm(
            blocks=blocks,
            n_clusters=study.n_clusters,
            local_clusters=self._local_clusters(study, federation, blocks, prices),
            median=study.median,
            prices=prices,
            people=federation.people,
            seed=study.random_state,
            **self.step_options(federation, repeat),
        )

    def _local_clusters(
        self,
        study: "ClusteringStudy",
        federation: Federation,
        blocks: tuple[ClusteringBlock, ...],
        prices: clustering.ClusteringPrices,
    ) -> int:
        if study.n_local_clusters is None:
            return clustering.automatic_clusters(
                study.n_clusters,
                federation.people,
                [block.width for block in blocks],
                prices,
                rule=self.rule,
                unit=study.unit,
                collusion=federation._driver.collusion,
            )
        most = (self.rule.most if len(blocks) > 1 else None) or LARGEST_CLUSTERS
        local: int = checked("n_local_clusters", study.n_local_clusters, Whole(2, most))
        if local ** len(blocks) < study.n_clusters:
            raise BadInput(
                f"There are {local ** len(blocks):,} combinations of local clusters, fewer than n_clusters={study.n_clusters}.",
                remedy="Raise n_local_clusters.",
            )
        return local

    def expect(self, study: "ClusteringStudy", algorithm: VerticalClustering, federation: Federation) -> Expectation:
        """Return how noisy centres and weights are."""
        local, people, prices = algorithm.local_clusters, federation.people, algorithm.prices
        noise = clustering.weight_noise(
            self.rule, local, people, len(algorithm.blocks), prices.weights, study.unit, federation._driver.collusion
        )
        centre_noise = {block.party: _centre_noise(block, people, local, prices.centres) for block in algorithm.blocks}
        paired = len(algorithm.blocks) > 1 and self.rule.paired
        cells = local ** (2 if paired else 1)
        cell = people / cells
        words = {
            "local clusters": f"{local} per party, so the grid has {local ** len(algorithm.blocks):,} points",
            "noise of a local centre": ", ".join(f"{party} {share:.1%}" for party, share in centre_noise.items())
            + " of its columns' spread, if clusters are of one size",
            "noise of a weight": f"about {noise:,.1f} people on each of {cells} cells "
            + ("of a pair of parties" if paired else "of a party"),
            **self.not_covered(),
        }
        warnings = []
        if max(centre_noise.values()) > 1:
            warnings.append(
                "Local centres are mostly noise: raise epsilon, or lower the number of columns or n_local_clusters."
            )
        if noise > cell:
            warnings.append(
                "The noise of a weight exceeds the average weight: raise epsilon, or lower n_local_clusters."
            )
        return Expectation(words, tuple(warnings), (ExpectedError.not_known("grid_weights_", "people", CELLS),))

    def learn(self, study: "ClusteringStudy", federation: Federation, value: Clusters) -> dict[str, Any]:
        """Return the centres, and the grid that they were found on."""
        learned = learned_centres(study, federation, value.centres)
        index = pd.MultiIndex.from_arrays(list(value.grid.cells.T), names=list(value.local))
        return {
            **learned,
            "local_centers_": {
                party: to_own_units(centres, [one for one in learned["_coded"] if one.party == party])
                for party, centres in value.local.items()
            },
            "n_local_clusters_": len(next(iter(value.local.values()))),
            "grid_weights_": pd.Series(value.grid.weights, index=index, name="weight"),
        }


class SecureClusters(ClusterMethod):
    """Weights from pair tables computed on secret shares, and the table of greatest entropy that agrees with them."""

    name = "secure"
    algorithm = VerticalClustering
    rule = clustering.RULES["secure"]
    does = "private local centres, weighted by pair tables from secret shares"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and up to c colluding parties"
    delta = "optional"


class IndependentClusters(ClusterMethod):
    """Weights from noisy histograms, as if the parties' columns were independent."""

    name = "independent"
    algorithm = IndependentClustering
    rule = clustering.RULES["independent"]
    does = "private local centres, weighted as if parties' columns were independent"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and any parties"
    delta = "optional"

    def not_covered(self) -> dict[str, str]:
        """Return what the error does not include."""
        return {"not covered": "the error of assuming that the parties' columns are independent"}


def learned_centres(study: "ClusteringStudy", federation: Federation, centres: Array) -> dict[str, Any]:
    """Return the fitted attributes that every clustering has, from centres after scaling each column to [−1, 1]."""
    columns = federation.describe(with_indicators(study.columns, federation.describe()))
    coded = features_of(columns)[1:]
    return {
        "_columns": dict(columns),
        "_coded": coded,
        "_coded_centres": centres,
        "feature_names_in_": np.array([feature.name for feature in coded], dtype=object),
        "cluster_centers_": to_own_units(centres, coded),
    }


def blocks_of(study: "ClusteringStudy", federation: Federation) -> tuple[ClusteringBlock, ...]:
    """Return the columns of each party in a study."""
    described = federation.describe(with_indicators(study.columns, federation.describe()))
    widths = coded_widths(features_of(described))
    return tuple(ClusteringBlock(party, columns_at(party, described), widths[party]) for party in parties_of(described))


def _centre_noise(block: ClusteringBlock, people: int, clusters: int, price: Price) -> float:
    sweep = clustering_schedule(block.width, people, clusters, price).sweep
    return displacement_noise(block.width, price, sweep) * clusters / people
