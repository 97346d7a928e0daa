"""What `KMeans` and `KMedian` share: local centres, a weighted grid, and centres of all columns together."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coding.features import Feature, coded_widths, consecutive_places, to_coded_units
from colonnade.constraints import ColumnList, Constraint, Optional, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.clustering_metrics import ClusteringEvaluation, LocalCells, best_guesser
from colonnade.coordinator.protocols.prediction import Prediction
from colonnade.errors import BadInput
from colonnade.estimation.additive_scores import party_scores
from colonnade.estimators.design import design
from colonnade.estimators.evaluation import EvaluationTerms
from colonnade.estimators.fitted import refuse_recipient, require_fitted, require_matching
from colonnade.estimators.methods.clusters import (
    IndependentClusters,
    ResponseClusters,
    SecureClusters,
    SketchedClusters,
)
from colonnade.estimators.methods.method import GivenMethod, Method
from colonnade.estimators.study import COMMON, Study
from colonnade.privacy.laws.clustering_rounds import LARGEST_CLUSTERS
from colonnade.privacy.neighbours import Unit
from colonnade.privacy.price import Price

__all__ = ["LARGEST_SEED", "ClusteringStudy"]

LARGEST_SEED = 2**31 - 1
TYPICAL = 0.25
"""Where the loss lies between what a guess leaves open, if nothing is known."""
Array = NDArray[np.float64]
Guesser = tuple[str, Array, NDArray[np.intp], float]
"""Who guesses; its points, in its coded columns; the centre that each stands for; where the loss lies between its ends."""


class ClusteringStudy(Study):
    """A study that clusters people by the columns of several parties; see `KMeans` and `KMedian`."""

    offers: ClassVar[tuple[type[Method[Any]], ...]] = (
        SecureClusters,
        SketchedClusters,
        ResponseClusters,
        IndependentClusters,
    )
    constraints: ClassVar[Mapping[str, Constraint]] = {
        **COMMON,
        "n_clusters": Whole(1, LARGEST_CLUSTERS),
        "columns": Optional(ColumnList()),
        "n_local_clusters": Optional(Whole(2, LARGEST_CLUSTERS)),
        "split": Optional(Real(0, 1, closed="neither")),
        "random_state": Whole(0, LARGEST_SEED),
    }
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
        method: GivenMethod = "secure",
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
        require_fitted(self)
        coded = design(X, self._coded, self._columns, coded=True)
        labels = np.empty(len(coded), dtype=np.intp)
        for start in range(0, len(coded), 4_096):
            gaps = np.linalg.norm(coded[start : start + 4_096, None] - self._coded_centres, axis=2)
            labels[start : start + 4_096] = gaps.argmin(axis=1)
        return labels

    def _prediction(self, to: str, reading: str) -> Prediction:
        """A centre c is nearer than the first one a where x·(c − a) > (‖c‖² − ‖a‖²)/2: one score less than there are centres."""
        if len(self._coded_centres) == 1:
            raise BadInput("There is one cluster: everybody is in it.")
        centres = self._coded_centres
        offsets = (np.sum(centres[0] ** 2) - np.sum(centres[1:] ** 2, axis=1)) / 2
        return Prediction(party_scores(self._columns, centres[1:] - centres[0]), offsets, to, reading, ())

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> ClusteringEvaluation:
        if len(self._coded_centres) == 1:
            raise BadInput("The loss of one centre is a variance.", remedy="Use cn.PCA(...).evaluate, or moments.")
        local, weights = getattr(self, "local_centers_", None), getattr(self, "grid_weights_", None)
        party, points, guesses, within = _guesser(self._coded_centres, self._coded, local, weights)
        return ClusteringEvaluation(
            columns=self._columns,
            centres=self._coded_centres,
            guesser=party,
            points=points,
            guesses=guesses,
            within=within,
            median=self._median,
            price=price,
            unit=terms.unit,
            level=terms.level,
            draw=terms.repeat,
        )

    def _check_learned(self) -> None:
        shape = (self.n_clusters, len(self.feature_names_in_))
        require_matching(self, self.cluster_centers_, shape)
        require_matching(self, self._coded_centres, shape)


def _guesser(
    centres: Array, features: Sequence[Feature], local: Mapping[str, Array] | None, weights: pd.Series | None
) -> Guesser:
    """Choose whose columns tell best which centre somebody is nearest to: from what a clustering holds, never from data.

    Parameters
    ----------
    centres, features
        The centres in coded columns, and what these are.
    local, weights
        Each party's local centres in own units and the weights of their combinations, where the clustering has them; without,
        the party whose columns set the centres apart most guesses by its part of the centres themselves.
    """
    places = consecutive_places(coded_widths(features))
    if not local or weights is None:
        spread = {party: float(centres[:, some].var(axis=0).sum()) for party, some in places.items()}
        party = max(spread, key=lambda one: spread[one])
        return party, centres[:, places[party]], np.arange(len(centres), dtype=np.intp), TYPICAL
    coded = {party: to_coded_units(own, [features[place] for place in places[party]]) for party, own in local.items()}
    levels = [weights.index.get_level_values(level) for level in range(weights.index.nlevels)]
    cells = LocalCells(coded, np.column_stack(levels).astype(np.intp), weights.to_numpy(dtype=float))
    party, guesses, within = best_guesser(cells, centres, places)
    return party, coded[party], guesses, within
