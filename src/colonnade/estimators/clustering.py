"""`KMeans` and `KMedian`: clusters of people by columns of several parties."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from colonnade.coding.columns import Feature, coded_widths, consecutive_places, to_coded_units
from colonnade.constraints import ColumnList, Constraint, Optional, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.clustering_metrics import ClusteringEvaluation, LocalCells, best_guesser
from colonnade.coordinator.protocols.score_releases import Prediction
from colonnade.errors import BadInput
from colonnade.estimation.scoring import party_scores
from colonnade.estimators.export import design, nearest_pipeline
from colonnade.estimators.fitted import EvaluationTerms, refuse_recipient, require_fitted, require_matching
from colonnade.estimators.methods import clusters, coresets
from colonnade.estimators.methods.method import GivenMethod, Method
from colonnade.estimators.study import COMMON, Study
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.laws.clustering_rounds import LARGEST_CLUSTERS

__all__ = ["LARGEST_SEED", "ClusteringStudy", "KMeans", "KMedian"]


LARGEST_SEED = 2**31 - 1
TYPICAL = 0.25
"""Where the loss lies between what a guess leaves open, if nothing is known."""
Array = NDArray[np.float64]
Guesser = tuple[str, Array, NDArray[np.intp], float]
"""Who guesses; its points, in its coded columns; the centre that each stands for; where the loss lies between its ends."""


class ClusteringStudy(Study):
    """A study that clusters people by the columns of several parties; see `KMeans` and `KMedian`."""

    offers: ClassVar[tuple[type[Method[Any]], ...]] = (
        clusters.SecureClusters,
        clusters.SketchedClusters,
        clusters.ResponseClusters,
        clusters.IndependentClusters,
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


class KMeans(ClusteringStudy):
    """k-means of columns that different parties hold.

    Every party clusters its own columns privately; how many people are in each combination of local clusters is then found by
    the method, and the weighted grid of local centres is clustered.

    Parameters
    ----------
    n_clusters
        k: how many centres.
    columns
        Which columns; all by default. Numbers are mapped from their bounds to [−1, 1], categories to indicators; distances are in
        these coordinates.
    method
        How the weights of the grid are found: ``"secure"`` (pair tables computed on secret shares, and the table of greatest
        entropy that fits them), ``"sketch"`` (sketches of local clusters under a key that the parties share and the coordinator
        does not have; no compute nodes; needs a delta), ``"response"`` (each person's local cluster is randomised; no peers) or
        ``"independent"`` (noisy histograms, as if parties' columns had nothing to do with each other).
    n_local_clusters
        k′: how many local clusters each party has. By default as many as the noise can bear, from public facts only.
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee; a positive δ takes Gaussian noise, far less of it in blocks of several columns.
    unit
        ``"person"``: ε covers one person's records at all parties together; ``"party"``: one person's record at any one party.
    split
        The local centres' share of the budget (of ρ where δ > 0, else of ε); by default 0.8, with ``"sketch"`` 0.5,
        with ``"response"`` 0.25.
    random_state
        Seeds public choices (half-spaces, starting points), never noise.
    size
        With ``method="coreset"`` (not differentially private; its options are on `cn.methods.Coreset`): how many rows to draw.
    allow_nonprivate
        Your consent to ``method="coreset"``.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        In the columns' own units; shares, for levels.
    n_local_clusters_ : int
        k′.
    grid_weights_ : pandas.Series
        How many people are estimated in each combination of local clusters, one level a party; the heaviest where there are many.
    local_centers_ : dict
        Each party's own centres, in own units.
    feature_names_in_ : array
        What the columns of ``cluster_centers_`` belong to.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: ε (pure at δ = 0), composed over every party's centres and the weights, which use independent randomness.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), the coordinator alone (``"sketch"``: every
    party has the key, so nothing is guaranteed towards one that sees sketches), or any set of parties (otherwise).
    Spends: twice at every party whose columns enter: for its centres, and for its part in the weights.
    Not released: who is in which cluster, the within-cluster distances, any exact mean or count.
    ``"coreset"`` guarantees nothing of this: which rows were drawn leaves the parties, and their exact values or local clusters.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "bank.income", "telco.minutes", "telco.monthly_bill"]
    >>> cn.KMeans(3, columns=columns, epsilon=2.0, delta=1e-5).fit(federation).cluster_centers_.shape
    (3, 4)
    """

    task: ClassVar[str] = "clustering"
    offers = (*ClusteringStudy.offers, coresets.ClusterCoreset)
    constraints = {**ClusteringStudy.constraints, "size": Optional(Whole(1))}

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
        size: int | None = None,
        allow_nonprivate: bool = False,
    ) -> None:
        super().__init__(
            n_clusters,
            columns=columns,
            method=method,
            n_local_clusters=n_local_clusters,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            split=split,
            random_state=random_state,
        )
        self.size = size
        self.allow_nonprivate = allow_nonprivate

    def to_sklearn(self) -> Pipeline:
        """Return the fitted centres as a plain scikit-learn pipeline that takes the same frame and gives the same clusters."""
        require_fitted(self)
        return nearest_pipeline(self._columns, self._coded_centres)


class KMedian(ClusteringStudy):
    """Euclidean k-median of columns that different parties hold: the sum of distances is minimised, not of their squares.

    The releases are those of `KMeans` with the same parameters, and asking for both costs once; only what the coordinator makes
    of the weighted grid differs.

    Parameters
    ----------
    n_clusters
        k: how many centres.
    columns, method, n_local_clusters, epsilon, delta, unit, split, random_state
        As in `KMeans`.

    Attributes
    ----------
    cluster_centers_, n_local_clusters_, grid_weights_, local_centers_, feature_names_in_
        As in `KMeans`.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: ε (pure at δ = 0), composed over every party's centres and the weights, which use independent randomness.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), the coordinator alone (``"sketch"``: every
    party has the key, so nothing is guaranteed towards one that sees sketches), or any set of parties (otherwise).
    Spends: twice at every party whose columns enter: for its centres, and for its part in the weights.
    Not released: who is in which cluster, the within-cluster distances, any exact median or count.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.income", "telco.monthly_bill"]
    >>> cn.KMedian(3, columns=columns, epsilon=2.0, delta=1e-5).fit(federation).cluster_centers_.shape
    (3, 2)
    """

    task: ClassVar[str] = "clustering"
    _median: ClassVar[bool] = True
