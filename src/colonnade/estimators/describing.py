"""Estimators that describe columns one by one: `Describe`, `Histogram` and `Quantiles`."""

from collections.abc import Sequence
from typing import ClassVar

import pandas as pd

from colonnade.constraints import ColumnList, Either, OneColumn, Optional, Real, RisingNumbers, Whole
from colonnade.estimators.answers import require_fitted
from colonnade.estimators.methods import describing
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.study import COMMON, Study
from colonnade.privacy.accounting import Unit
from colonnade.steps.describing import LARGEST_BINS
from colonnade.steps.registry import STUDIES

SHARES = RisingNumbers(Real(0, 1, closed="neither"))
LARGEST_EDGE = 1e300


class Describe(Study):
    """Columns one by one: the share of missing values, mean, standard deviation, quantiles, and a histogram.

    Each party counts its own columns with noise: a number in up to 1,024 bins, and in about 32 groups of these. Everything else
    follows from these counts at no further price.

    Parameters
    ----------
    columns
        Numbers, dates and categories of any parties; all by default.
    quantiles
        Which quantiles to give, rising, between 0 and 1.
    method
        ``"local"``: one release per party. It has no options.
    epsilon
        The price of all columns together. There is no default.
    delta
        0 for a pure guarantee, with Laplace noise. A positive δ selects Gaussian noise, which is smaller for many columns.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    table_ : pandas.DataFrame
        One row per column: ``missing`` (a share), ``mean``, ``std`` and the quantiles, each beside its standard error
        (``mean_stderr``). In own units; days since the first date, for dates. Figures that a category does not have are NaN.
    figures_, figures_stderr_ : pandas.Series
        The same figures and errors by column and name, without gaps.
    counts_ : pandas.Series
        Counts that are not negative, by column and by bin or level.
    stderr_ : pandas.Series
        The standard error of each unbiased count that the noise causes.
    unbiased_ : pandas.Series
        The counts before they were made non-negative.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: people whose value is missing are counted by themselves, whatever number the schema lets a missing value count
    as. Mean, standard deviation and quantiles are about the people who have a value. A person without a row at the party is
    counted nowhere. Where a column has no rule for missing values, everybody is taken to have one.

    Values are seen at the width of a bin, a thousandth of the distance between the bounds. Errors are those of the noise. A tail
    with fewer people than the noise of a few counts is taken as empty in quantiles. If the bounds are much wider than the
    values, use `Federation.tightened` first.

    Privacy
    -------
    Guarantee: pure ε at δ = 0, else (ε, δ) by zCDP of the discrete Gaussian, for all figures of all columns together. Parties use
    independent randomness, so losses add.
    Neighbours: zero-out.
    Adversary: the coordinator together with any set of parties.
    Spends: once at every party whose columns are named.
    Not released: any exact count, anybody's value, and who has a missing value.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=4.0))
    >>> study = cn.Describe(["bank.age", "bank.segment", "telco.minutes"], epsilon=2.0).fit(federation)
    >>> study.table_.index.tolist(), bool(40 < study.table_.loc["bank.age", "mean"] < 60)
    (['bank.age', 'bank.segment', 'telco.minutes'], True)
    """

    counts_: pd.Series
    stderr_: pd.Series
    unbiased_: pd.Series
    figures_: pd.Series
    figures_stderr_: pd.Series

    task: ClassVar[str] = STUDIES["Describe"]
    offers = (describing.LocalDescription,)
    constraints = {**COMMON, "columns": Optional(ColumnList()), "quantiles": SHARES}
    learned: ClassVar[tuple[str, ...]] = ("counts_", "stderr_", "unbiased_", "figures_", "figures_stderr_")
    essential: ClassVar[tuple[str, ...]] = learned

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
        method: GivenMethod = "local",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.columns = columns
        self.quantiles = quantiles
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    @property
    def table_(self) -> pd.DataFrame:
        """One row per column, each figure beside its standard error."""
        require_fitted(self)
        values, errors = self.figures_.unstack(), self.figures_stderr_.unstack()
        figures = list(dict.fromkeys(self.figures_.index.get_level_values("figure")))
        columns = list(dict.fromkeys(self.figures_.index.get_level_values("column")))
        beside = {}
        for figure in figures:
            beside[figure] = values[figure]
            beside[f"{figure}_stderr"] = errors[figure]
        return pd.DataFrame(beside).loc[columns].rename_axis(index="column", columns=None)

    def _table(self) -> pd.DataFrame:
        return self.table_


class Histogram(Study):
    """Counts of one column's levels, or of bins of a number or a date.

    Parameters
    ----------
    column
        The column, such as ``"bank.age"``.
    bins
        Of a number or a date: how many bins of equal width between the bounds. Of a number also a rising list of edges within the
        bounds; the bounds themselves are added. A category has its levels.
    method
        ``"local"``: the party that holds the column counts. It has no options.
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee, with Laplace noise, which is the smaller noise for one column. A positive δ selects Gaussian
        noise.
    unit
        ``"person"`` or ``"party"``: the same for one column.

    Attributes
    ----------
    counts_ : pandas.Series
        Counts that are not negative, one per bin or level. They add up to the number of people; where values may be missing and
        nothing counts these, to an estimate of how many people have one.
    stderr_ : pandas.Series
        The standard error of each unbiased count that the noise causes.
    unbiased_ : pandas.Series
        The counts before they were made non-negative.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: those of a number or a date whose schema has a rule for them are a bin of their own, ``"missing"``. Those of a
    category are a level or in no count, as its schema says. A person without a row at the party is counted nowhere.

    Privacy
    -------
    Guarantee: pure ε at δ = 0, else (ε, δ) by zCDP of the discrete Gaussian, for all counts together.
    Neighbours: zero-out.
    Adversary: the coordinator together with any set of parties.
    Spends: once at the party that holds the column.
    Not released: any exact count, and anybody's value.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=4.0))
    >>> study = cn.Histogram("bank.age", bins=4, epsilon=1.0).fit(federation)
    >>> study.counts_.index.tolist(), round(study.counts_.sum())
    (['[18, 38)', '[38, 57)', '[57, 77)', '[77, 95]'], 5000)
    """

    counts_: pd.Series
    stderr_: pd.Series
    unbiased_: pd.Series

    task: ClassVar[str] = STUDIES["Histogram"]
    offers = (describing.LocalCounts,)
    constraints = {
        **COMMON,
        "column": OneColumn(),
        "bins": Either(Whole(1, LARGEST_BINS), RisingNumbers(Real(-LARGEST_EDGE, LARGEST_EDGE))),
    }
    learned: ClassVar[tuple[str, ...]] = ("counts_", "stderr_", "unbiased_")
    essential: ClassVar[tuple[str, ...]] = learned

    def __init__(
        self,
        column: str,
        *,
        bins: int | Sequence[float] = 16,
        method: GivenMethod = "local",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.column = column
        self.bins = bins
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def _table(self) -> pd.DataFrame:
        return pd.DataFrame({"count": self.counts_, "stderr": self.stderr_, "unbiased": self.unbiased_})


class Quantiles(Study):
    """Quantiles of one number or date.

    Parameters
    ----------
    column
        The column, such as ``"bank.income"``.
    q
        Which quantiles, rising, between 0 and 1.
    method
        ``"local"``: the party that holds the column looks for them with the exponential mechanism. It has no options.
    epsilon
        The price of all of them together. There is no default.
    delta
        0 for a pure guarantee, which is the more accurate one for a few quantiles. With a positive δ the price is counted in
        zCDP, and the ledger is debited that.
    unit
        ``"person"`` or ``"party"``: the same for one column.

    Attributes
    ----------
    values_ : pandas.Series
        The quantiles in own units, by q; days since the first date, for dates.
    rank_error_ : pandas.Series
        The standard error of each one's rank, as a share of the people, if values are spread evenly around it.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: people whose value is missing are left out, whatever number the schema lets a missing value count as. So are
    people without a row at the party.

    The first question is about everybody, and finds the middle one of the quantiles. The next ones are about the people below and
    above it. So k quantiles cost as much as ⌈log₂(k + 1)⌉ of them (docs/proofs/histograms.md).

    Privacy
    -------
    Guarantee: pure ε at δ = 0, else (ε, δ) by zCDP of the exponential mechanism, for all quantiles together.
    Neighbours: zero-out.
    Adversary: the coordinator together with any set of parties.
    Spends: once at the party that holds the column.
    Not released: any count, and anybody's value.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=4.0))
    >>> study = cn.Quantiles("bank.age", [0.25, 0.5, 0.75], epsilon=2.0).fit(federation)
    >>> bool(study.values_.is_monotonic_increasing), bool(study.rank_error_.max() < 0.01)
    (True, True)
    """

    values_: pd.Series
    rank_error_: pd.Series

    task: ClassVar[str] = STUDIES["Quantiles"]
    offers = (describing.LocalQuantiles,)
    constraints = {**COMMON, "column": OneColumn(), "q": SHARES}
    learned: ClassVar[tuple[str, ...]] = ("values_", "rank_error_")
    essential: ClassVar[tuple[str, ...]] = learned

    def __init__(
        self,
        column: str,
        q: Sequence[float] = (0.25, 0.5, 0.75),
        *,
        method: GivenMethod = "local",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.column = column
        self.q = q
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def _table(self) -> pd.DataFrame:
        return pd.DataFrame({"value": self.values_, "rank_error": self.rank_error_})
