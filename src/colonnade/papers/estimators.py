"""Estimators whose methods all came with a paper: `Moment` and `Coreset`."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.constraints import ColumnList, Either, OneColumn, OneOf, Optional, Real, Whole
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.study import COMMON, Study
from colonnade.papers.laws import Change
from colonnade.papers.methods import SHARE
from colonnade.papers.steps import LARGEST_CLUSTERS
from colonnade.privacy.accounting import Unit
from colonnade.steps.registry import STUDIES


class Moment(Study):
    """An unbiased estimate of Σ over people of (Σ over parties of a whole number)^p.

    Parameters
    ----------
    columns
        One column of whole numbers per party, such as ``["clinic.visits", "pharmacy.purchases"]``, declared with
        ``cn.Numeric(lower, upper, integer=True)`` and never negative.
    p
        The order of the moment; any positive number.
    change
        By how much neighbours may differ in a person's value at a party. A whole number gives protection at event level, as in
        *Primitives* (docs/references.md#primitives): ε hides changes of that size, not the value. ``"bounds"`` protects the
        whole value.
    method
        ``"local"``: discrete Laplace noise on each value (for p = 1, on each party's sum).
        ``"sketch"``: for p = 2, a short random projection with Gaussian noise. Neither has options of its own.
    epsilon
        The price. There is no default.
    delta
        Positive for ``"sketch"``; not used by ``"local"``.
    unit
        ``"person"``: ε covers one person's values at all parties together. ``"party"``: one person's value at any one party.

    Attributes
    ----------
    value_ : float
        The unbiased estimate. It may be below 0 if the noise is large.
    stderr_ : float
        Its standard error that the noise causes.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: both methods count a missing number as the value that its column declares (``cn.Numeric(..., missing=0)``).

    Privacy
    -------
    Guarantee: ``"local"``: pure ε; for p other than 1 it is local differential privacy. ``"sketch"``: (ε, δ) by zCDP of the
    discrete Gaussian. Parties use independent randomness, so losses add.
    Neighbours: event (one value changes by at most ``change``). With ``change="bounds"`` zero-out, and replacement of a value.
    Adversary: the coordinator together with any set of parties.
    Spends: once at every party whose column is named.
    Not released: any person's value, and who has a missing value.

    Examples
    --------
    >>> import colonnade as cn, pandas as pd
    >>> table = pd.DataFrame({"id": range(5_000), "visits": [0, 1, 2, 5] * 1_250})
    >>> clinic = cn.Party(table, schema=cn.Schema(visits=cn.Numeric(0, 30, integer=True)))
    >>> federation = cn.Federation.simulate({"clinic": clinic}, id="id", budget=cn.Budget(epsilon=4.0))
    >>> moment = cn.Moment(["clinic.visits"], 2, epsilon=4.0).fit(federation)
    >>> abs(moment.value_ - 37_500) < 8 * moment.stderr_, moment.privacy_.relation
    (True, 'event')
    """

    value_: float
    stderr_: float

    task: ClassVar[str] = STUDIES["Moment"]
    constraints = {
        **COMMON,
        "columns": ColumnList(),
        "p": Real(0, closed="neither"),
        "change": Either(Whole(1), OneOf(("bounds",))),
    }
    learned: ClassVar[tuple[str, ...]] = ("value_", "stderr_")
    essential: ClassVar[tuple[str, ...]] = ("value_",)

    def __init__(
        self,
        columns: Sequence[str],
        p: float,
        *,
        change: Change = 1,
        method: GivenMethod = "local",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.columns = columns
        self.p = p
        self.change = change

    def _table(self) -> pd.DataFrame:
        name = f"sum of ({' + '.join(self.columns)})^{self.p:g}"
        return pd.DataFrame({"value": [self.value_], "stderr": [self.stderr_]}, index=pd.Index([name], name="moment"))


class Coreset(Study):
    """A weighted sample of people that all parties draw together, for training on it instead of on everybody.

    The loss of a model on the sample is close to its loss on everybody (*Coresets*, docs/references.md#coresets).

    **Not differentially private.** It refuses to run without ``allow_nonprivate=True``, and each party's policy must allow
    ``"coreset"`` by name. Use `LinearRegression` and `KMeans` with their private methods unless the parties trust each other and
    the coordinator with individual rows.

    Parameters
    ----------
    size
        How many rows to draw, with replacement. ``"auto"`` estimates it from public facts, so that the loss of the model is
        within ``error`` of the best one; ``"proved"`` is the size that the paper proves to be enough, which exceeds most tables.
        Both refuse where they ask for more rows than there are people.
    task
        ``"regression"`` (leverage scores of each party's columns) or ``"kmeans"`` (distances to local centres).
    columns
        The columns; all but the target by default.
    target
        The column to explain, for a regression.
    n_clusters
        The number of clusters, for k-means.
    method
        ``"importance"``: rows are drawn by how much they matter. ``"uniform"``: a public choice of rows with equal weights, for
        comparison; its size is a number. Neither has options of its own.
    error, failure
        For ``size="auto"`` and ``"proved"``: the relative error of the loss, and how often it may be larger.
    outliers
        For ``size="proved"``: the share of people that may be left out of it.
    allow_nonprivate
        Your consent. The study is refused without it.
    random_state
        The seed of public choices (where local clustering starts).

    Attributes
    ----------
    rows_ : array of int
        Positions in the agreed order of rows, each once, ascending. Ids never leave the parties.
    weights_ : array of float
        How many people each row stands for. The weights add up to about the number of people.
    counts_ : array of int
        How often each row was drawn.
    privacy_, transcript_, receipt_
        Privacy statement (it says that there is no guarantee), message log and receipt.

    Notes
    -----
    Missing values: both methods see a missing number as the value that its column declares. A person without a level has 0 in
    every indicator of that column, and can be drawn like anybody else.

    Privacy
    -------
    Guarantee: none; ε is infinite towards everybody. Only a secure sum hides the scores of a single party.
    Neighbours: not applicable. Replacing one record can change its probability of being drawn by a factor of the number of
    people.
    Adversary: everybody learns which rows were drawn, and the coordinator learns their summed scores. Which party drew which row
    is hidden from the coordinator alone, and from a single party if there are three parties or more.
    Spends: no budget, because no budget can measure it. Every party's ledger records it as a non-private release.
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

    rows_: NDArray[np.int64]
    weights_: NDArray[np.float64]
    counts_: NDArray[np.int64]

    task: ClassVar[str] = STUDIES["Coreset"]  # the user's task= is set on the instance
    constraints = {
        "size": Either(Whole(1), OneOf(("auto", "proved"))),
        "task": OneOf(("regression", "kmeans")),
        "columns": Optional(ColumnList()),
        "target": Optional(OneColumn()),
        "n_clusters": Optional(Whole(1, LARGEST_CLUSTERS)),
        "error": SHARE,
        "outliers": SHARE,
        "failure": SHARE,
        "random_state": Whole(0, 2**31 - 1),
    }
    learned: ClassVar[tuple[str, ...]] = ("rows_", "weights_", "counts_")
    essential: ClassVar[tuple[str, ...]] = learned
    epsilon: ClassVar[None] = None  # type: ignore[misc]  # a coreset has no price
    delta: ClassVar[float] = 0.0  # type: ignore[misc]
    unit: ClassVar[Unit] = "person"  # type: ignore[misc]

    def __init__(
        self,
        size: int | Literal["auto", "proved"],
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

    def _table(self) -> pd.DataFrame:
        """Return the sample in a few figures. ``rows_`` and ``weights_`` have the rows themselves."""
        figures = {
            "rows drawn": int(self.counts_.sum()),
            "different rows": len(self.rows_),
            "people they stand for": float(self.weights_.sum()),
            "largest weight": float(self.weights_.max()),
        }
        return pd.DataFrame({"value": figures}).rename_axis("coreset")
