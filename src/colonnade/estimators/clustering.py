"""`KMeans` and `KMedian`: clusters of people by columns of several parties.

The method is that of *Private vertical clustering* (Li, Wang, Li, 2023; docs/references.md#clustering).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from colonnade.constraints import ColumnList, Constraint, Either, OneOf, Optional, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import score_releases, vertical_clustering
from colonnade.errors import BadInput
from colonnade.estimation.scoring import party_scores
from colonnade.estimators.answers import EvaluationTerms, refuse_recipient, require_fitted, require_matching
from colonnade.estimators.frames import GivesScores, design_matrix, nearest_pipeline
from colonnade.estimators.methods import clusters
from colonnade.estimators.methods.method import GivenMethod, Method
from colonnade.estimators.study import COMMON, Study
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.laws.local_clustering import LARGEST_CLUSTERS
from colonnade.schema import coded_widths, consecutive_places, to_coded_units
from colonnade.steps.registry import STUDIES

LARGEST_SEED = 2**31 - 1
TYPICAL = 0.25
"""Where the loss is expected between its bounds if nothing is known: at a quarter of the way."""
Array = NDArray[np.float64]
Guesser = tuple[str, Array, NDArray[np.intp], float]
"""The party that guesses, its points after scaling, the centre of each point, and where the loss lies between its bounds."""


class ClusteringStudy(GivesScores, Study):
    """The base of `KMeans` and `KMedian`."""

    cluster_centers_: Array
    local_centers_: dict[str, Array]
    n_local_clusters_: int
    grid_weights_: pd.Series

    offers: ClassVar[tuple[type[Method[Any]], ...]] = (
        clusters.SecureClusters,
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
    median: ClassVar[bool] = False
    """Whether centres minimise distances, and not their squares."""

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
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.n_clusters = n_clusters
        self.columns = columns
        self.n_local_clusters = n_local_clusters
        self.split = split
        self.random_state = random_state

    def predict(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the place of the nearest centre.

        Parameters
        ----------
        X
            Rows that the caller holds, in a frame with the federation's column names; or a federation.
        to
            With a federation: the party that they are opened to. Every party's policy must allow it.

        Returns
        -------
        array, or Delivery
            For a federation, a handle of the scores that the party now holds.
        """
        if isinstance(X, Federation):
            return self._deliver(X, to, "clusters")
        refuse_recipient(to)
        require_fitted(self)
        return self._distances(X).argmin(axis=1)

    def transform(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the distance of every row to every centre, after scaling each column to [−1, 1].

        Parameters
        ----------
        X
            Rows that the caller holds, in a frame with the federation's column names.
        to
            For scores of a federation's people, which k-means does not have: ``predict`` tells one party the nearest centres.

        Returns
        -------
        array of shape (n_rows, n_clusters)
            Or a frame, after ``set_output``.
        """
        require_fitted(self)
        if isinstance(X, Federation):
            raise BadInput(
                f"{type(self).__name__} does not open distances of a federation's people.",
                remedy="Use predict(federation, to=...): it opens the nearest centre of each person to one party.",
            )
        refuse_recipient(to)
        return self._as_output(self._distances(X), X)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002  # as scikit-learn's
        """Return the names of the distances that ``transform`` gives."""
        require_fitted(self)
        return np.array(
            [f"{type(self).__name__.lower()}{place}" for place in range(len(self._coded_centres))], dtype=object
        )

    def _distances(self, X: pd.DataFrame) -> Array:
        coded = design_matrix(X, self._coded, self._columns, coded=True)
        distances = np.empty((len(coded), len(self._coded_centres)))
        for start in range(
            0, len(coded), 4_096
        ):  # by blocks: the differences take n_clusters × n_features numbers per row
            gaps = coded[start : start + 4_096, None] - self._coded_centres
            distances[start : start + 4_096] = np.linalg.norm(gaps, axis=2)
        return distances

    def _table(self) -> pd.DataFrame:
        """Return one row per centre, as ``predict`` numbers them: how many are nearest to it, if the fit tells, and its place."""
        centres = pd.DataFrame(self.cluster_centers_, columns=list(self.feature_names_in_))
        people = self._people()
        if people is not None:
            centres.insert(0, "people", people)
        return centres.rename_axis("cluster")

    def _grid(self) -> vertical_clustering.LocalCells | None:
        """Return the local centres after scaling, and the weights of their combinations, if the clustering has them."""
        local, weights = getattr(self, "local_centers_", None), getattr(self, "grid_weights_", None)
        if not local or weights is None:
            return None
        places = consecutive_places(coded_widths(self._coded))
        coded = {party: to_coded_units(own, [self._coded[at] for at in places[party]]) for party, own in local.items()}
        levels = [weights.index.get_level_values(level) for level in range(weights.index.nlevels)]
        return vertical_clustering.LocalCells(
            coded, np.column_stack(levels).astype(np.intp), weights.to_numpy(dtype=float)
        )

    def _people(self) -> Array | None:
        """Return about how many people are nearest to each centre, by the weighted grid of local centres."""
        grid = self._grid()
        if grid is None:
            return None
        own = [local[codes] for local, codes in zip(grid.centres.values(), grid.cells.T, strict=True)]
        points = np.concatenate(own, axis=1)
        nearest = np.linalg.norm(points[:, None] - self._coded_centres, axis=2).argmin(axis=1)
        people = np.bincount(nearest, weights=grid.weights, minlength=len(self._coded_centres))
        return np.asarray(people, dtype=np.float64)

    def _prediction(self, to: str, reading: str) -> score_releases.Prediction:
        """Score every centre c but the first, a: c is nearer than a where x·(c − a) > (‖c‖² − ‖a‖²)/2."""
        if len(self._coded_centres) == 1:
            raise BadInput("There is only one cluster: everybody is in it.", remedy="Fit with n_clusters=2 or more.")
        centres = self._coded_centres
        offsets = (np.sum(centres[0] ** 2) - np.sum(centres[1:] ** 2, axis=1)) / 2
        return score_releases.Prediction(
            party_scores(self._columns, centres[1:] - centres[0]), offsets, to, reading, ()
        )

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> vertical_clustering.ClusteringEvaluation:
        if len(self._coded_centres) == 1:
            raise BadInput(
                "A model with one cluster is not evaluated: its loss is a variance.",
                remedy="Use federation.moments(...).",
            )
        party, points, guesses, within = self._guesser()
        return vertical_clustering.ClusteringEvaluation(
            columns=self._columns,
            centres=self._coded_centres,
            guesser=party,
            points=points,
            guesses=guesses,
            within=within,
            median=self.median,
            price=price,
            unit=terms.unit,
            level=terms.level,
            draw=terms.repeat,
        )

    def _guesser(self) -> Guesser:
        """Choose the party whose columns best tell which centre a person is nearest to. Only the model is used, never data.

        Without a grid of local centres it is the party whose columns vary most between centres, by its part of the centres.
        """
        centres, grid, places = self._coded_centres, self._grid(), consecutive_places(coded_widths(self._coded))
        if grid is None:
            spread = {party: float(centres[:, some].var(axis=0).sum()) for party, some in places.items()}
            party = max(spread, key=lambda one: spread[one])
            return party, centres[:, places[party]], np.arange(len(centres), dtype=np.intp), TYPICAL
        party, guesses, within = vertical_clustering.best_guesser(grid, centres, places)
        return party, grid.centres[party], guesses, within

    def _check_learned(self) -> None:
        shape = (self.n_clusters, len(self.feature_names_in_))
        require_matching(self, self.cluster_centers_, shape)
        require_matching(self, self._coded_centres, shape)


class KMeans(ClusteringStudy):
    """k-means of columns that different parties hold.

    Columns are scaled first: numbers from their bounds to [−1, 1], categories to one indicator per level. Then every party
    clusters its own columns privately. The method finds how many people are in each combination of local clusters. The
    coordinator clusters this weighted grid of local centres.

    Parameters
    ----------
    n_clusters
        The number of centres.
    columns
        The columns; all by default.
    method
        How the weights of the grid are found.
        ``"secure"``: tables of all pairs of parties, computed on secret shares, and the table of greatest entropy that agrees
        with them.
        ``"sketch"``: sketches of local clusters under a key that the parties share and the coordinator does not have. It needs
        a positive ``delta`` and no compute nodes. Option: `cn.methods.SketchedClusters` (``sketches``, how many there are).
        ``"response"``: each person's local cluster is randomised. No peers take part. Option: `cn.methods.Response` (``sample``,
        the share of people that report).
        ``"independent"``: noisy histograms, as if the parties' columns were independent.
        ``"coreset"``: **not differentially private**: k-means of a weighted sample of exact rows (*Coresets*,
        docs/references.md#coresets). Options: `cn.methods.Coreset` (``gather``, ``error``, ``failure``).
    n_local_clusters
        k′, the number of local clusters of each party. By default it is chosen from public facts: as many as the noise of
        weights and centres bears.
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee. A positive δ selects Gaussian noise, which is far smaller if a party has several columns.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.
    split
        The share of the price that is spent on local centres: of ρ if δ > 0, else of ε. By default 0.8, with ``"sketch"`` 0.5,
        with ``"response"`` 0.25.
    random_state
        The seed of public choices (half-spaces, starting points), never of noise.
    size
        With ``method="coreset"``: the number of rows to draw. ``"auto"`` estimates how many serve, from public facts.
    allow_nonprivate
        Your consent to ``method="coreset"``.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        The centres in the columns' own units; shares of people, for levels.
    n_local_clusters_ : int
        The number of local clusters of each party.
    grid_weights_ : pandas.Series
        The estimated number of people in each combination of local clusters, with one index level per party. If there are many
        combinations, only the heaviest.
    local_centers_ : dict
        Each party's own centres, in own units.
    feature_names_in_ : array
        The names that the columns of ``cluster_centers_`` belong to.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: all methods do the same. A missing number is the value that its column declares; with ``indicator=True`` a
    0/1 column says where. A person without a level has 0 in every indicator of that column, or the level ``"missing"`` with
    ``missing="level"``. Nobody is left out.

    Privacy
    -------
    Guarantee: ε (pure at δ = 0), composed over every party's centres and the weights, which use independent randomness.
    ``"coreset"``: none. Which rows were drawn leaves the parties, and their exact values or local clusters.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), the coordinator alone (``"sketch"``: every
    party has the key, so nothing is guaranteed towards a party that sees sketches), or any set of parties (otherwise).
    Spends: twice at every party whose columns enter: for its centres, and for its part in the weights.
    Not released: who is in which cluster, the within-cluster distances, any exact mean or count (except with ``"coreset"``).

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "bank.income", "telco.minutes", "telco.monthly_bill"]
    >>> cn.KMeans(3, columns=columns, epsilon=2.0, delta=1e-5).fit(federation).cluster_centers_.shape
    (3, 4)
    """

    task: ClassVar[str] = STUDIES["KMeans"]
    constraints = {**ClusteringStudy.constraints, "size": Optional(Either(Whole(1), OneOf(("auto",))))}

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
        size: int | Literal["auto"] | None = None,
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
    """Euclidean k-median of columns that different parties hold: it minimises the sum of distances, not of their squares.

    The releases are those of `KMeans` with the same parameters, so that both together cost the price of one. Only the
    coordinator's clustering of the weighted grid differs.

    Parameters
    ----------
    n_clusters
        The number of centres.
    columns, method, n_local_clusters, epsilon, delta, unit, split, random_state
        As in `KMeans`, without ``method="coreset"``.

    Attributes
    ----------
    cluster_centers_, n_local_clusters_, grid_weights_, local_centers_, feature_names_in_
        As in `KMeans`.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: all methods do the same. A missing number is the value that its column declares; with ``indicator=True`` a
    0/1 column says where. A person without a level has 0 in every indicator of that column, or the level ``"missing"`` with
    ``missing="level"``. Nobody is left out.

    Privacy
    -------
    Guarantee: ε (pure at δ = 0), composed over every party's centres and the weights, which use independent randomness.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), the coordinator alone (``"sketch"``: every
    party has the key, so nothing is guaranteed towards a party that sees sketches), or any set of parties (otherwise).
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

    task: ClassVar[str] = STUDIES["KMedian"]
    median: ClassVar[bool] = True
