"""Estimators whose result is a release and not a model: `PatternCount`, `Moment` and `Coreset`."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.constraints import ColumnList, Either, OneColumn, OneOf, Optional, Real, Whole, checked
from colonnade.errors import BadInput
from colonnade.estimation.tables import IndependenceTest, independence_test
from colonnade.estimators.answers import require_fitted
from colonnade.estimators.methods import coresets, counts
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.study import COMMON, Study
from colonnade.privacy.accounting import Unit
from colonnade.privacy.laws.values import Change
from colonnade.runtime.public_coins import public_generator
from colonnade.steps.registry import STUDIES


class PatternCount(Study):
    """Counts of people by combination of categories that different parties hold.

    Parameters
    ----------
    columns
        Category columns such as ``["bank.segment", "telco.plan"]``, one or more per party.
    method
        ``"secure"``: tables of all pairs of parties, computed on secret shares. With more than two parties the result is the
        table of greatest entropy that agrees with them: a fit to pairs, not a count.
        ``"response"``: each person's category is randomised at each party. Unbiased, with local differential privacy
        (*Primitives*, docs/references.md#primitives). Its option is on `cn.methods.Response` (``sample``).
        ``"independent"``: products of noisy histograms of each party's columns.
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee. With ``"secure"``, a positive δ selects Gaussian noise instead of Laplace noise.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: ε covers one person's record at any
        one party.

    Attributes
    ----------
    counts_ : pandas.Series
        Non-negative counts, one per combination of levels. The last column varies fastest. They add up to the number of people;
        where a column leaves people out, to an estimate of how many have a value in every column.
    stderr_ : pandas.Series
        The standard error of each unbiased estimate that the noise causes. The error of a fit to pairs, and of assuming
        independence, comes on top.
    unbiased_ : pandas.Series
        The estimates before they were made non-negative and consistent.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: all methods do the same. A column with ``missing="excluded"`` leaves people without a value out of every
    count; how many these are is private, so a share is a count divided by the sum of ``counts_``. With ``missing="level"`` they
    are counted as the level ``"missing"``. On a cohort a person without a row at a party is left out too; declare
    ``missing="excluded"`` for that, because ``"response"`` and ``"independent"`` otherwise take it that everybody has a value.

    Privacy
    -------
    Guarantee: ``"secure"``: ε (pure at δ = 0) for all tables together. Otherwise pure ε: each party's release is ε/v-DP
    (``unit="person"``, v parties) or ε-DP (``unit="party"``). Parties use independent randomness, so losses add.
    Neighbours: zero-out. For ``"response"`` also replacement of a record, at the same price.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), or any set of parties (otherwise).
    Spends: once at every party whose columns are named.
    Not released: any person's category, and who has a missing value.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
    >>> study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=4.0)
    >>> round(study.fit(federation).counts_.sum())
    2000
    """

    counts_: pd.Series
    stderr_: pd.Series
    unbiased_: pd.Series
    task: ClassVar[str] = STUDIES["PatternCount"]
    offers = (counts.SecureTables, counts.Response, counts.Independent)
    constraints = {**COMMON, "columns": ColumnList()}
    learned: ClassVar[tuple[str, ...]] = ("counts_", "stderr_", "unbiased_")
    essential: ClassVar[tuple[str, ...]] = ("counts_",)

    def __init__(
        self,
        columns: Sequence[str],
        *,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.columns = columns
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def independence(
        self, columns: Sequence[str] | None = None, *, draws: int = 999, random_state: int = 0
    ) -> IndependenceTest:
        """Test whether two columns are independent. It costs nothing: it uses what was released, and knows its noise.

        Parameters
        ----------
        columns
            Two of the study's columns; by default its only two.
        draws
            How many tables to simulate.
        random_state
            The seed of the simulation.

        Returns
        -------
        IndependenceTest
            The p-value: the probability that noise and chance give a table as far from independence.

        Notes
        -----
        For ``method="secure"`` with columns of one or two parties. A table fitted to pairs of more parties, and a product of
        histograms, say nothing about dependence; and randomised responses have errors that are not independent from cell to cell.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=1.0))
        >>> study = cn.PatternCount(["bank.segment", "insurer.product"], epsilon=1.0).fit(federation)
        >>> study.independence().p_value <= 1
        True
        """
        require_fitted(self)
        names = tuple(self.columns if columns is None else columns)
        if len(set(names)) != 2 or not set(names) <= set(self.columns):
            raise BadInput(
                "A test of independence takes two of the study's columns.",
                remedy=f"Name two of {', '.join(map(repr, self.columns))}.",
            )
        checked("draws", draws, Whole(99, LARGEST_DRAWS))
        noise, people = counts.noise_of_counts(self.plan_, self.schema_)
        table = self.unbiased_.groupby(level=list(names), sort=False).sum().unstack(names[1], sort=False)
        statistic, p_value = independence_test(
            table.to_numpy(dtype=float),
            noise,
            people=people,
            cells=len(self.unbiased_) // table.size,
            draws=draws,
            generator=public_generator(random_state),
        )
        return IndependenceTest((names[0], names[1]), statistic, p_value, draws)


LARGEST_DRAWS = 1_000_000


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
    offers = (counts.LocalPowers, counts.SketchedPowers)
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
        self.columns = columns
        self.p = p
        self.change = change
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def _table(self) -> pd.DataFrame:
        name = f"sum of ({' + '.join(self.columns)})^{self.p:g}"
        return pd.DataFrame({"value": [self.value_], "stderr": [self.stderr_]}, index=pd.Index([name], name="moment"))


LARGEST_CLUSTERS = 4_096
LARGEST_SEED = 2**31 - 1


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
    offers = (coresets.Importance, coresets.Uniform)
    constraints = {
        "size": Either(Whole(1), OneOf(("auto", "proved"))),
        "task": OneOf(("regression", "kmeans")),
        "columns": Optional(ColumnList()),
        "target": Optional(OneColumn()),
        "n_clusters": Optional(Whole(1, LARGEST_CLUSTERS)),
        "error": coresets.SHARE,
        "outliers": coresets.SHARE,
        "failure": coresets.SHARE,
        "random_state": Whole(0, LARGEST_SEED),
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
