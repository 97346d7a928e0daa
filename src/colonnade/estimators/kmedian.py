"""`KMedian`: groups of people by columns that different parties hold, less moved by the far away than k-means."""

from typing import ClassVar

from colonnade.estimators.clustering_study import ClusteringStudy

__all__ = ["KMedian"]


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
