"""`GroupBy`: counts, means and sums by group, with groups and values at any of up to three parties."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from colonnade.constraints import ColumnList, Optional, SomeOf, Whole
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.moment_summaries import GroupFigures, Span, require_level
from colonnade.estimators.answers import Preview, require_fitted, require_matching
from colonnade.estimators.methods.describing import Groups
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.study import COMMON, Study
from colonnade.privacy.accounting import Unit
from colonnade.schema import Column, equal_bins
from colonnade.steps.registry import STUDIES

STATISTICS = ("count", "mean", "sum")
LARGEST_BINS = 4_096


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
    offers = (Groups,)
    constraints = {
        **COMMON,
        "by": ColumnList(),
        "values": Optional(ColumnList()),
        "statistics": SomeOf(STATISTICS),
        "bins": Optional(Whole(1, LARGEST_BINS)),
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
        self.by = by
        self.values = values
        self.statistics = statistics
        self.bins = bins
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def fit(self, federation: Federation, *rows: object, repeat: int = 1) -> Self:
        """Run the study.

        Parameters
        ----------
        federation
            The federation on which to run it.
        repeat
            Which draw of the study. 1 is the first: asking for it again returns the same release and debits nothing. 2 is a new
            draw at a new price, and so on.
        """
        return super().fit(self._in_bins(federation), *rows, repeat=repeat)

    def preview(self, federation: Federation, *, repeat: int = 1) -> Preview:
        """Return price, noise and expected error. Nothing is spent.

        Parameters
        ----------
        federation
            The federation on which the study would run.
        repeat
            Which draw of the study.
        """
        return super().preview(self._in_bins(federation), repeat=repeat)

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

    def _in_bins(self, federation: Any) -> Any:
        """Return the federation with numbers among the groups' columns read in bins."""
        if not isinstance(federation, Federation):
            return federation  # refused where every study refuses it
        checked = self._checked()
        if checked.bins is None:
            return federation
        described = {name: federation.describe([name])[name] for name in checked.by}
        numbers = {name: column for name, column in described.items() if column.is_number}
        return federation.read_as({name: equal_bins(column, checked.bins) for name, column in numbers.items()})

    def _columns(self, federation: Federation) -> tuple[dict[str, Column], dict[str, Column]]:
        """Return the groups' columns and the values; refuse what cannot be either."""
        by: dict[str, Column] = {}
        for name in self.by:
            column = federation.describe([name])[name]
            if column.is_number:
                raise SchemaMismatch(
                    f"Column {name!r} is a number, and groups are made of categories.",
                    remedy="Give bins=10, or read it in bins of your own: federation.read_as(...).",
                )
            by[name] = column
        values: dict[str, Column] = {}
        for name in self.values or ():
            column = federation.describe([name])[name]
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

    def _learned_from(self, figures: GroupFigures, federation: Federation) -> dict[str, Any]:
        by, _ = self._columns(federation)
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
