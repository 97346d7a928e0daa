"""`Coreset`: a weighted sample of rows that stands for all of them. Not differentially private."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from colonnade.constraints import ColumnList, Either, OneColumn, OneOf, Optional, Real, Whole
from colonnade.estimators.methods.coresets import CORESET_TASK, Importance, Uniform
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.study import Study
from colonnade.plan import Unit

__all__ = ["Coreset"]

LARGEST_CLUSTERS = 4_096
LARGEST_SEED = 2**31 - 1
SHARE = Real(0, 1, closed="neither")


class Coreset(Study):
    """A weighted sample of people, chosen by all parties together, on which a model costs about what it costs on everybody.

    **Not differentially private.** It refuses to run without ``allow_nonprivate=True``, and each party's policy must allow
    ``"coreset"`` by name. Prefer `LinearRegression` and `KMeans` with their private methods unless the parties trust each other
    and the coordinator with individual rows.

    Parameters
    ----------
    size
        How many rows to draw (with replacement), or ``"auto"``: as many as the theory asks for at ``error`` and ``outliers``,
        which usually exceeds any table; it then says so.
    task
        ``"regression"`` (leverage scores of each party's columns) or ``"kmeans"`` (distances to local centres).
    columns
        Which columns; all but the target by default.
    target
        The explained column, for a regression.
    n_clusters
        k, for k-means.
    method
        ``"importance"``, or ``"uniform"``: a public choice of rows with equal weights, for comparison.
    error, outliers, failure
        For ``size="auto"``: costs within this relative error, but for this share of people, except with this probability.
    allow_nonprivate
        Your consent. There is no way without it.
    random_state
        Seeds public choices (where local clustering starts).

    Attributes
    ----------
    rows_ : array of int
        Places in the agreed order of rows, each once, ascending. Ids never leave the parties.
    weights_ : array of float
        What each row stands for, all its occurrences together; about as many people as there are, in all.
    counts_ : array of int
        How often each row was drawn.
    privacy_, transcript_, receipt_
        The statement (no guarantee), what was said, and a line to keep.

    Privacy
    -------
    Guarantee: none; ε is infinite towards everybody. Only the scores of a single party stay hidden, behind a secure sum.
    Neighbours: not applicable; replacing one record can change its chance of being drawn by a factor of the number of people.
    Adversary: nobody is kept from learning which rows were drawn, and the coordinator learns their summed scores. Who drew which
    is hidden from the coordinator alone, and from a party alone if there are three or more.
    Spends: no budget, which could not measure it; every party's ledger gets lines of its own kind, which `budget()` counts.
    Not released: ids, a party's own scores (unless all other parties collude with the coordinator), rows that were not drawn.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=1.0))
    >>> columns = ["bank.age", "telco.minutes", "insurer.risk_score"]
    >>> coreset = cn.Coreset(500, task="regression", target="bank.income", columns=columns, allow_nonprivate=True)
    >>> int(coreset.fit(federation).counts_.sum()), coreset.privacy_.epsilon()
    (500, inf)
    """

    task: ClassVar[str] = CORESET_TASK  # the user's task= is set on the instance
    offers = (Importance, Uniform)
    constraints = {
        "size": Either(Whole(1), OneOf(("auto",))),
        "task": OneOf(("regression", "kmeans")),
        "columns": Optional(ColumnList()),
        "target": Optional(OneColumn()),
        "n_clusters": Optional(Whole(1, LARGEST_CLUSTERS)),
        "error": SHARE,
        "outliers": SHARE,
        "failure": SHARE,
        "random_state": Whole(0, LARGEST_SEED),
    }
    learned: ClassVar[tuple[str, ...]] = ("rows_", "weights_", "counts_")
    essential: ClassVar[tuple[str, ...]] = learned
    epsilon: ClassVar[None] = None  # type: ignore[misc]  # no budget measures a coreset
    delta: ClassVar[float] = 0.0  # type: ignore[misc]
    unit: ClassVar[Unit] = "person"  # type: ignore[misc]

    def __init__(
        self,
        size: int | Literal["auto"],
        *,
        task: Literal["regression", "kmeans"] = "regression",
        columns: Sequence[str] | None = None,
        target: str | None = None,
        n_clusters: int | None = None,
        method: GivenMethod = "importance",
        error: float = 0.1,
        outliers: float = 0.1,
        failure: float = 0.05,
        allow_nonprivate: bool = False,
        random_state: int = 0,
    ) -> None:
        self.size = size
        self.task = task  # type: ignore[misc]
        self.columns = columns
        self.target = target
        self.n_clusters = n_clusters
        self.method = method
        self.error = error
        self.outliers = outliers
        self.failure = failure
        self.allow_nonprivate = allow_nonprivate
        self.random_state = random_state
