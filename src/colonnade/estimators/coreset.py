"""`Coreset`: a weighted sample of rows that stands for all of them. Not differentially private."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.coreset_study import CoresetFindings, CoresetStudy
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimators.coreset_options import CORESET_TASK, automatic_size, checked_size, coreset_outlook
from colonnade.estimators.preview import Expectation
from colonnade.estimators.study import Study
from colonnade.plan import Unit
from colonnade.schema import Column, Numeric

__all__ = ["Coreset"]

LARGEST_CLUSTERS = 4_096


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
    methods: ClassVar[tuple[str, ...]] = ("importance", "uniform")
    disclosing_methods: ClassVar[tuple[str, ...]] = methods
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
        method: str = "importance",
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

    def _nonprivate_algorithm(self, federation: Federation) -> CoresetStudy:
        if self.task not in ("regression", "kmeans"):
            raise BadInput("task must be 'regression' or 'kmeans'.")
        columns = self._columns_for(federation)
        clusters = self._clusters()
        return CoresetStudy(
            columns=columns,
            task=self.task,  # type: ignore[arg-type]  # one of the two
            size=self._rows(columns, federation.people, clusters),
            people=federation.people,
            target=self.target,
            clusters=clusters,
            uniform=self.method == "uniform",
            seed=_seed(self.random_state),
        )

    def _columns_for(self, federation: Federation) -> dict[str, Column]:
        if self.task == "kmeans":
            if self.target is not None:
                raise BadInput("k-means has no target.", remedy="Leave it out, or use task='regression'.")
            return federation.describe(self.columns)
        if self.target is None:
            raise BadInput("A coreset for a regression needs the target.", remedy="For example target='bank.income'.")
        if not isinstance(federation.column(self.target)[2], Numeric):
            raise SchemaMismatch(f"The target {self.target!r} is a category.", remedy="Name a numeric column.")
        wanted = self.columns
        if wanted is None:
            return federation.describe()
        if isinstance(wanted, str) or not isinstance(wanted, Sequence) or self.target in wanted:
            raise BadInput("columns takes a list of the explaining columns, without the target.")
        return federation.describe([*wanted, self.target])

    def _clusters(self) -> int:
        if self.task == "regression":
            return 1
        if type(self.n_clusters) is not int or not 1 <= self.n_clusters <= LARGEST_CLUSTERS:
            raise BadInput(f"n_clusters must be a whole number from 1 to {LARGEST_CLUSTERS}.")
        return self.n_clusters

    def _rows(self, columns: Mapping[str, Column], people: int, clusters: int) -> int:
        if self.size != "auto":
            return checked_size(self.size, people)
        return automatic_size(
            columns,
            self.task,  # type: ignore[arg-type]  # one of the two
            people,
            target=self.target,
            clusters=clusters,
            error=self.error,
            outliers=self.outliers,
            failure=self.failure,
        )

    def _learn(self, federation: Federation, value: CoresetFindings) -> None:  # noqa: ARG002
        self.rows_ = value.coreset.rows
        self.weights_ = value.coreset.weights
        self.counts_ = value.coreset.counts

    def _expect(self, algorithm: Any, federation: Federation) -> Expectation:
        return coreset_outlook(algorithm, federation)


def _seed(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise BadInput("random_state must be a whole number from 0 to 2147483647.")
    return value
