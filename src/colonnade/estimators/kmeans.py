"""`KMeans`: groups of people by columns that different parties hold."""

from collections.abc import Sequence
from typing import ClassVar

from sklearn.pipeline import Pipeline

from colonnade.constraints import Optional, Whole
from colonnade.estimators.clustering_study import ClusteringStudy
from colonnade.estimators.export import nearest_pipeline
from colonnade.estimators.fitted import require_fitted
from colonnade.estimators.methods.coresets import ClusterCoreset
from colonnade.estimators.methods.method import GivenMethod
from colonnade.privacy.neighbours import Unit

__all__ = ["KMeans"]


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
    offers = (*ClusteringStudy.offers, ClusterCoreset)
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
