"""Estimators that describe columns: `Describe`, `Histogram` and `Quantiles` one by one, `GroupBy` and `Correlation` together."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from colonnade.constraints import ColumnList, Either, OneColumn, Optional, Real, RisingNumbers, SomeOf, Whole
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimation.moment_summaries import GroupFigures, MomentSummary, PairEstimates, Span, require_level
from colonnade.estimation.moments import Moments
from colonnade.estimators.answers import require_fitted, require_matching
from colonnade.estimators.methods import describing
from colonnade.estimators.methods.method import Expectation, GivenMethod
from colonnade.estimators.methods.moments import Secure
from colonnade.estimators.study import COMMON, Design, MomentStudy, Study
from colonnade.privacy.accounting import Unit
from colonnade.schema import Column, equal_bins, features_of
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
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.columns = columns
        self.quantiles = quantiles

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
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.column = column
        self.bins = bins

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
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.column = column
        self.q = q

    def _table(self) -> pd.DataFrame:
        return pd.DataFrame({"value": self.values_, "rank_error": self.rank_error_})


STATISTICS = ("count", "mean", "sum")
MOST_GROUP_BINS = 4_096


class GroupBy(Study):
    """Counts, means and sums by group. Groups and values may be columns of different parties, three at most.

    Parameters
    ----------
    by
        The columns that groups are made of: categories, such as ``["bank.segment", "telco.plan"]``, or numbers with ``bins``.
    values
        Numbers to add up and to average, such as ``["insurer.premium"]``; by default none, and people are counted.
    statistics
        Some of ``"count"``, ``"mean"`` and ``"sum"``. All of them follow from what is released, so fewer cost the same.
    bins
        How many bins of equal width each number in ``by`` is put in. For other edges, read the column in `Bins`:
        ``federation.read_as(...)``.
    method
        ``"secure"``: all counts and sums in one opening on secret shares. Columns of one party need no shares. Columns of three
        parties take a product of products, and no coordinator among the compute nodes. Option: `cn.methods.Groups` (``helpers``).
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee with Laplace noise. A positive δ selects Gaussian noise, which is smaller with many values.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.
        The noise is the same: either takes the person out of their group.

    Attributes
    ----------
    table_ : pandas.DataFrame
        One row per group: ``count``, ``count_stderr``, for each value ``<value>_mean``, ``<value>_mean_stderr``, ``<value>_sum``,
        ``<value>_sum_stderr``, and ``small``. Counts and sums are unbiased, and may be negative where a group is empty. Errors
        are those of the noise. ``small`` flags groups whose count is below five standard errors.
    consistent_ : pandas.Series
        The nearest counts that are not negative and add up: to the number of people, or, where people may be left out, to what
        the noise says of it.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: a person without a level in one of the columns, or without a record at one of the parties, is in no group. How
    many these are is private, and so means divide by noisy counts. With ``missing="level"`` they are a group of their own. A
    missing number is the value that its column declares.

    Privacy
    -------
    Guarantee: ε (pure at δ = 0), or (ε, δ) by zCDP of the discrete Gaussian, for all counts and sums together.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties. For columns of one party, any set of other parties.
    Spends: once at every party whose columns are named. Helpers spend nothing.
    Not released: any exact count or sum, who is in which group, and who has a missing value.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=1.0, delta=1e-5))
    >>> study = cn.GroupBy(["bank.segment"], ["telco.monthly_bill"], epsilon=1.0, delta=1e-6).fit(federation)
    >>> list(study.table_.columns[:3]), len(study.table_)
    (['count', 'count_stderr', 'telco.monthly_bill_mean'], 3)
    """

    table_: pd.DataFrame
    consistent_: pd.Series

    task: ClassVar[str] = STUDIES["GroupBy"]
    offers = (describing.Groups,)
    constraints = {
        **COMMON,
        "by": ColumnList(),
        "values": Optional(ColumnList()),
        "statistics": SomeOf(STATISTICS),
        "bins": Optional(Whole(1, MOST_GROUP_BINS)),
    }
    learned: ClassVar[tuple[str, ...]] = ("table_", "consistent_", "_figures")
    essential: ClassVar[tuple[str, ...]] = ("table_", "_figures")

    def __init__(
        self,
        by: Sequence[str],
        values: Sequence[str] | None = None,
        *,
        statistics: Sequence[str] = STATISTICS,
        bins: int | None = None,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.by = by
        self.values = values
        self.statistics = statistics
        self.bins = bins

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return intervals of what the same people give without noise.

        Parameters
        ----------
        level
            The level of the intervals. That of a mean is Fieller's: it holds for groups of any size, and is the column's bounds
            where a group's count may be nothing but noise.

        Returns
        -------
        DataFrame
            One row per group, with a column ``<statistic>_low`` and one ``<statistic>_high`` for each.
        """
        require_fitted(self)
        require_level(level)
        return pd.DataFrame(self._intervals(self._restored(), level), index=self.table_.index)

    def rolled_up(self, by: Sequence[str]) -> pd.DataFrame:
        """Return the table of fewer, larger groups, by some of the columns. It is free, and agrees with ``table_``.

        Parameters
        ----------
        by
            Some of the study's columns, in the order in which to show them.

        Returns
        -------
        DataFrame
            As ``table_``; the errors count that noisy groups were added up.
        """
        require_fitted(self)
        places = [list(self.by).index(name) if name in self.by else -1 for name in by]
        if not places or min(places) < 0 or len(set(places)) != len(places):
            raise BadInput(
                "by names columns that groups are made of, each once.",
                remedy=f"Name some of {', '.join(map(repr, self.by))}.",
            )
        figures = self._restored().rolled_up(places)
        index = self.table_.index
        levels = [index.unique(level=place) for place in places]
        return self._frame(figures, _index(levels, [list(self.by)[place] for place in places]))

    # What a fit does --------------------------------------------------------------------------------------------------------

    def _as_read(self, federation: Federation) -> Federation:
        """Return the federation with numbers among the groups' columns read in bins."""
        if self.bins is None:
            return federation
        described = {name: federation._driver.columns.column(name)[2] for name in self.by}
        numbers = {name: column for name, column in described.items() if column.is_number}
        return federation.read_as({name: equal_bins(column, self.bins) for name, column in numbers.items()})

    def grouping(self, federation: Federation) -> tuple[dict[str, Column], dict[str, Column]]:
        """Return the groups' columns and the values; refuse what cannot be either."""
        by: dict[str, Column] = {}
        for name in self.by:
            column = federation._driver.columns.column(name)[2]
            if column.is_number:
                raise SchemaMismatch(
                    f"Column {name!r} is a number, and groups are made of categories.",
                    remedy="Give bins=10, or read it in bins of your own: federation.read_as(...).",
                )
            by[name] = column
        values: dict[str, Column] = {}
        for name in self.values or ():
            column = federation._driver.columns.column(name)[2]
            if not column.is_number:
                raise SchemaMismatch(
                    f"Column {name!r} is a category; only numbers are added up.", remedy="Name it in by=."
                )
            values[name] = column
        if set(by) & set(values):
            raise BadInput(
                "A column is among by and among values.",
                remedy="Name each column once; groups of a number have its bins.",
            )
        if values and set(self.statistics) == {"count"}:
            raise BadInput("statistics has no use for values.", remedy='Add "mean" or "sum", or leave out values.')
        return by, values

    def learn_from_figures(self, figures: GroupFigures, federation: Federation) -> dict[str, Any]:
        """Return the fitted attributes, from the counts and sums that were opened."""
        by, _ = self.grouping(federation)
        index = _index([list(column.levels) for column in by.values()], list(by))
        leaves_out = any(column.excludes for column in by.values())
        consistent = figures.consistent(federation.people, leaves_out=leaves_out)
        return {
            "table_": self._frame(figures, index),
            "consistent_": pd.Series(consistent.ravel(), index=index, name="count"),
            "_figures": {
                "counts": figures.counts,
                "sums": dict(figures.sums),
                "variances": (float(figures.count_variance), float(figures.sum_variance)),
                "spans": {name: (span.low, span.high) for name, span in figures.spans.items()},
            },
        }

    def _restored(self) -> GroupFigures:
        kept = self._figures
        count, total = kept["variances"]
        spans = {name: Span(*span) for name, span in kept["spans"].items()}
        return GroupFigures(kept["counts"], kept["sums"], np.array(count), np.array(total), spans)

    def _frame(self, figures: GroupFigures, index: pd.Index) -> pd.DataFrame:
        shown: dict[str, Any] = {}
        if "count" in self.statistics:
            shown |= {"count": figures.counts, "count_stderr": figures.count_error()}
        for name in figures.sums:
            for statistic, estimate in (("mean", figures.mean), ("sum", figures.total)):
                if statistic in self.statistics:
                    value, error = estimate(name)
                    shown |= {f"{name}_{statistic}": value, f"{name}_{statistic}_stderr": error}
        shown["small"] = figures.small()
        return pd.DataFrame({name: np.asarray(one).ravel() for name, one in shown.items()}, index=index)

    def _intervals(self, figures: GroupFigures, level: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "count" in self.statistics:
            found["count"] = figures.count_interval(level, self.plan_.people)
        for name in figures.sums:
            if "mean" in self.statistics:
                found[f"{name}_mean"] = figures.mean_interval(name, level)
            if "sum" in self.statistics:
                found[f"{name}_sum"] = figures.total_interval(name, level)
        return {
            f"{name}_{end}": np.asarray(one).ravel()
            for name, ends in found.items()
            for end, one in zip(("low", "high"), ends, strict=True)
        }

    def _table(self) -> pd.DataFrame:
        return self.table_

    def _check_learned(self) -> None:
        kept: Mapping[str, Any] = self._figures
        counts = kept.get("counts")
        shape = tuple(counts.shape) if isinstance(counts, np.ndarray) else ()
        for one in (counts, *dict(kept.get("sums", {})).values()):
            require_matching(self, one, shape)
        if len(self.table_) != int(np.prod(shape)) or set(kept.get("sums", {})) != set(kept.get("spans", {})):
            require_matching(self, None, shape)


def _index(levels: Sequence[Any], names: list[str]) -> pd.Index:
    index: pd.Index = (
        pd.Index(levels[0], name=names[0]) if len(names) == 1 else pd.MultiIndex.from_product(levels, names=names)
    )
    return index


SPREAD = "the noise of a covariance is known, and how far columns spread between their bounds is not"
MOSTLY_OPEN = "Correlations would be lost in the noise: ask for fewer columns, narrower bounds or a larger epsilon."


class Correlation(MomentStudy):
    """Correlations of columns that different parties hold.

    A number enters as it is, a category level by level: the correlation with a level is that with its indicator.

    Parameters
    ----------
    columns
        The columns; all by default.
    method
        ``"secure"``: one noisy Gram matrix, computed on secret shares (*Secure PCA*, docs/references.md#secure-pca). Options:
        `cn.methods.Secure`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    correlation_ : pandas.DataFrame
        The correlations, one row and one column per coded column. It is the nearest positive semi-definite matrix to what was
        measured. A correlation that the noise leaves open counts as 0 there, and its error is infinite.
    stderr_ : pandas.DataFrame
        The standard error that the noise causes, before the projection.
    mean_ : pandas.Series
        Means in own units, and shares of people for levels.
    feature_names_in_ : array
        The coded columns.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: a missing number is the value that its column declares, and pulls correlations towards zero. A person without
    a level has 0 in every indicator of that column, or the level ``"missing"`` with ``missing="level"``.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) for the whole matrix.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties.
    Spends: once at every party whose columns enter. Nothing, when fitted on what `Federation.moments` returned.
    Not released: any entry without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> study = cn.Correlation(["bank.age", "bank.income", "telco.minutes"], epsilon=2.0, delta=1e-5).fit(federation)
    >>> study.correlation_.shape, bool(study.conf_int().low.to_numpy().min() >= -1)
    ((3, 3), True)
    """

    correlation_: pd.DataFrame
    stderr_: pd.DataFrame
    mean_: pd.Series

    task: ClassVar[str] = STUDIES["Correlation"]
    offers = (Secure,)
    constraints = {**COMMON, "columns": Optional(ColumnList())}
    learned: ClassVar[tuple[str, ...]] = (
        "correlation_",
        "stderr_",
        "mean_",
        "feature_names_in_",
        "_moments",
        "_columns",
    )
    essential: ClassVar[tuple[str, ...]] = ("correlation_", "stderr_", "_moments", "_columns")

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.columns = columns

    def conf_int(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return intervals of all correlations.

        Parameters
        ----------
        level
            The level of the intervals.
        total
            Whether they also cover the sampling of people. By default they cover the correlation of the same people.

        Returns
        -------
        PairEstimates
            Frames ``values``, ``stderr``, ``low`` and ``high``; ``table()`` has one row per pair.
        """
        require_fitted(self)
        return self._summary().correlation(level, total=total)

    def _summary(self) -> MomentSummary:
        matrix, variance = self._moments["matrix"], self._moments["variance"]
        moments = Moments(matrix, variance, int(self._moments["count"]), features_of(self._columns))
        return MomentSummary(moments, self._columns)

    def _table(self) -> pd.DataFrame:
        return self.conf_int().table()

    def _check(self, design: Design) -> None:
        if len(design.columns) < 2:
            raise BadInput("A correlation takes two columns or more.", remedy="Name another column.")

    def _check_learned(self) -> None:
        size = len(features_of(self._columns))
        for name in ("matrix", "variance"):
            require_matching(self, self._moments.get(name), (size, size))

    def learn_from_moments(self, moments: Moments, design: Design) -> dict[str, Any]:
        """Return correlations, means, and the moments that intervals are made of."""
        selected = moments.select(list(design.columns))
        summary = MomentSummary(selected, design.columns)
        correlation = summary.correlation()
        return {
            "correlation_": correlation.values,
            "stderr_": correlation.stderr,
            "mean_": summary.mean()["mean"],
            "feature_names_in_": np.array(summary.names, dtype=object),
            "_moments": {"matrix": selected.matrix, "variance": selected.variance, "count": selected.count},
            "_columns": design.columns,
        }

    def expect_on_moments(self, width: int, variance: float, fixed: bool) -> Expectation:  # noqa: ARG002  # as of all
        """Return the noise of a covariance."""
        deviation = math.sqrt(variance)
        words = {"noise of a covariance": f"{deviation:.2g} (after scaling to [−1, 1], where no variance is above 1)"}
        error = ExpectedError.not_known("correlation_", "as a correlation", SPREAD)
        return Expectation(words, (MOSTLY_OPEN,) if deviation > 1 else (), (error,))
