"""Estimators whose result is a release and not a model: `PatternCount`, `Moment` and `Coreset`."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from colonnade.constraints import ColumnList, Either, OneColumn, OneOf, Optional, Real, Whole
from colonnade.estimators.methods.coresets import CORESET_TASK, Importance, Uniform
from colonnade.estimators.methods.counts import Independent, LocalPowers, Response, SecureTables, SketchedPowers
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.study import COMMON, Study
from colonnade.plan import Unit
from colonnade.privacy.laws.values import Change

__all__ = ["Coreset", "Moment", "PatternCount"]


class PatternCount(Study):
    """Count people by combination of categories, where the categories are held by different parties.

    Parameters
    ----------
    columns
        Category columns such as ``["bank.segment", "telco.plan"]``, one or more a party.
    method
        ``"secure"`` (pair tables computed on secret shares; with more than two parties, the table of greatest entropy
        that fits them: a fit to pairs, not a count), ``"response"`` (each person's category is randomised at each
        party; unbiased, local differential privacy; its options are on `cn.methods.Response`) or ``"independent"`` (products
        of noisy one-way histograms).
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee; with ``"secure"``, a positive δ takes Gaussian noise instead of Laplace.
    unit
        ``"person"``: ε covers one person's records at all parties together, each party paying an equal part;
        ``"party"``: ε covers one person's record at any one party.

    Attributes
    ----------
    counts_ : pandas.Series
        Non-negative counts that add up to the number of people, over every combination of levels, last column fastest.
    stderr_ : pandas.Series
        The standard error that the noise gives the unbiased estimate of each count.
    unbiased_ : pandas.Series
        The estimate before it was made non-negative and consistent.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: ``"secure"``: ε (pure at δ = 0) for the tables as a whole, against the coordinator and up to `collusion` parties.
    Otherwise pure ε: each party's release is ε/v-DP (``unit="person"``, v parties) or ε-DP (``unit="party"``); parties use
    independent randomness, so losses add.
    Neighbours: zero-out; for ``"response"`` also replacement of a record, at the same price.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), or any set of parties (otherwise).
    Spends: once at every party whose columns are named.
    Not released: any person's category; which people are missing a value.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
    >>> study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=4.0)
    >>> round(study.fit(federation).counts_.sum())
    2000
    """

    task: ClassVar[str] = "pattern-count"
    offers = (SecureTables, Response, Independent)
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


class Moment(Study):
    """Estimate Σ over people of (Σ over parties of a whole number)^p, without bias.

    Parameters
    ----------
    columns
        One column of whole numbers a party, such as ``["clinic.visits", "pharmacy.purchases"]``, declared with
        ``cn.Numeric(lower, upper, integer=True)`` and never negative.
    p
        The order of the moment; any positive number.
    change
        By how much neighbours may differ in a person's value at a party: a whole number (event level, as in the paper: ε hides
        steps of that size, not the value), or ``"bounds"`` for the whole value.
    method
        ``"local"``: each value has discrete Laplace noise of its own (for p = 1, each party's sum has); or ``"sketch"``
        (p = 2): a short random projection with Gaussian noise.
    epsilon
        The price. There is no default.
    delta
        For ``"sketch"``: positive. Otherwise not used.
    unit
        ``"person"``: ε covers one person's values at all parties together; ``"party"``: at any one party.

    Attributes
    ----------
    value_ : float
        The estimate, without bias; it may be below 0 where the noise is large.
    stderr_ : float
        The standard error that the noise gives it.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: ``"local"``: pure ε, for p other than 1 person by person (local differential privacy); ``"sketch"``: (ε, δ) by
    zCDP of the discrete Gaussian. Parties use independent randomness, so losses add.
    Neighbours: event (one value changes by at most ``change``); with ``change="bounds"`` zero-out, and replacement of the value.
    Adversary: the coordinator together with any set of parties.
    Spends: once at every party whose column is named.
    Not released: any person's value; which people are missing one.

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

    task: ClassVar[str] = "moment"
    offers = (LocalPowers, SketchedPowers)
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
