"""Methods of `Describe`, `Histogram` and `Quantiles`: one release by each party that holds a column."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.constraints import Boolean
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.counting import ColumnTables, GroupRelease, SoughtQuantiles, helpers_for
from colonnade.coordinator.tightening import note_spread
from colonnade.errors import BadInput
from colonnade.estimation.describing import CountedTable, Figure, search_errors
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimation.moment_summaries import GroupFigures
from colonnade.estimation.tables import project_to_simplex
from colonnade.estimators.methods.method import Expectation, Method
from colonnade.privacy.accounting import Price, party_price
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.schema import Column, ColumnName, bins_between, indicated

if TYPE_CHECKING:
    from colonnade.estimators.describing import Describe, GroupBy, Histogram, Quantiles


Array = NDArray[np.float64]
EVENLY = "values are spread evenly where the quantiles are"
UNEVEN = "it depends on the values around a quantile: a round number nearby, or a gap without people, draws it"


def party_share(price: Price, parties: int, unit: Any) -> Price:
    """Return the price of each party's release: ε divided at δ = 0, else ρ."""
    return party_price(price, parties, unit) if price.delta == 0 else gaussian_party_price(price, parties, unit)


class LocalDescription(Method["Describe"]):
    """Counts of fine bins with noise, one release per party."""

    name = "local"
    does = "noisy counts of each column by itself, one release per party, and every figure from them"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and any parties"
    delta = "optional"

    def protocol(self, study: "Describe", federation: Federation, price: Price, repeat: int) -> ColumnTables:
        """Return an algorithm with one release of counts per party."""
        names = study.columns if study.columns is not None else _without_indicators(federation)
        columns = federation.describe(names)
        parties = len({ColumnName.of(name).party for name in columns})
        return ColumnTables(columns, party_share(price, parties, study.unit), federation.people)

    def expect(self, study: "Describe", algorithm: ColumnTables, federation: Federation) -> Expectation:
        """Return the standard error of a count, and of the mean of a number."""
        tables = _empty_tables(algorithm)
        errors = np.concatenate([_histogram(name, table)["stderr"].to_numpy() for name, table in tables.items()])
        words, warnings = {}, []
        numbers = [table.numbers() for table in tables.values() if table.column.counted.is_binned]
        if numbers:
            widths = [float(one.edges[-1] - one.edges[0]) for one in numbers]
            spread = [
                math.sqrt(one.variance((one.middles - one.middles.mean()) / algorithm.people)) / width
                for one, width in zip(numbers, widths, strict=True)
            ]
            words["95 % of means are within"] = f"{2 * max(spread):.2g} of the distance between the bounds"
            if max(spread) > WARN_ABOVE:
                warnings.append(
                    "The error of a mean is more than a twentieth of the distance between the bounds: ask for fewer columns, "
                    "narrower bounds or a larger epsilon."
                )
        root = float(np.sqrt(np.mean(errors**2)))
        error = ExpectedError("unbiased_", root, "people")
        return Expectation({"95 % of counts are within": f"{2 * root:,.3g} people", **words}, tuple(warnings), (error,))

    def learn(self, study: "Describe", federation: Federation, value: Mapping[str, CountedTable]) -> dict[str, Any]:
        """Return the figures of every column, and its histogram."""
        quantiles = study.quantiles
        figures = {name: _figures(table, quantiles) for name, table in value.items()}
        for name, table in value.items():
            if table.column.counted.is_binned:
                note_spread(
                    federation._driver.columns, name, table
                )  # previews of other studies then offer narrower bounds
        index = pd.MultiIndex.from_tuples(
            [(name, figure) for name, found in figures.items() for figure in found], names=["column", "figure"]
        )
        entries = [one for found in figures.values() for one in found.values()]
        shown = pd.concat([_histogram(name, table) for name, table in value.items()])
        return {
            "figures_": pd.Series([one.value for one in entries], index=index, name="value", dtype=np.float64),
            "figures_stderr_": pd.Series([one.stderr for one in entries], index=index, name="stderr", dtype=np.float64),
            "counts_": shown["count"],
            "stderr_": shown["stderr"],
            "unbiased_": shown["unbiased"],
        }


WARN_ABOVE = 0.05
"""A preview warns if errors exceed this part of the distance between bounds, or of the people."""


def _without_indicators(federation: Federation) -> list[str]:
    columns = federation.describe()
    return [name for name, column in columns.items() if indicated(name, column) is None]


def _empty_tables(algorithm: ColumnTables) -> dict[str, CountedTable]:
    """Return tables without people: what is public about errors depends on nobody."""
    return {
        name: CountedTable(
            column,
            np.zeros(column.cells, dtype=np.int64),
            algorithm.noise(ColumnName.of(name).party),
            algorithm.people,
        )
        for name, column in algorithm.counted.items()
    }


def percent(share: float) -> str:
    """Return a quantile as pandas names it.

    Examples
    --------
    >>> percent(0.5), percent(0.005)
    ('50%', '0.5%')
    """
    return f"{100 * share:.6g}%"


def _figures(table: CountedTable, quantiles: Any) -> dict[str, Figure]:
    """Return the figures of one column by name; those that a category does not have are left out."""
    if not table.column.counted.is_binned:
        return {"missing": _missing_levels(table)}
    numbers = table.numbers()
    return {
        "missing": numbers.missing(table.people),
        "mean": numbers.mean(),
        "std": numbers.deviation(),
        **{percent(share): numbers.quantile(share) for share in quantiles},
    }


def _missing_levels(table: CountedTable) -> Figure:
    """Return the share of people without a level: counted by itself, or those whom no level counts."""
    category, counts = table.column.counted, table.cells
    if category.missing is None:
        return Figure(0.0, 0.0)
    absent, variance = table.people - float(counts.sum()), table.noise * len(counts)
    if category.missing_code >= 0:
        absent, variance = float(counts[category.missing_code]), table.noise
    return Figure(min(max(absent / table.people, 0.0), 1.0), math.sqrt(variance) / table.people)


def _histogram(name: str, table: CountedTable) -> pd.DataFrame:
    """Return one row per bin or level: a count that is not negative, its standard error, and the estimate without bias."""
    category = table.column.counted
    if category.is_binned:
        numbers = table.numbers()
        edges, unbiased, errors = numbers.grouped()
        labels: list[Any] = list(bins_between(category.underlying, edges.tolist()).levels)
        if numbers.total is None:
            labels.append("missing")
            unbiased, errors = np.append(unbiased, numbers.absent), np.append(errors, math.sqrt(table.noise))
        known = numbers.total
    else:
        labels, unbiased = list(category.levels), table.cells
        known = None if category.excludes else float(table.people)
        errors = np.full(len(labels), math.sqrt(table.noise))
    total = known if known is not None else min(max(float(unbiased.sum()), 0.0), float(table.people))
    index = pd.MultiIndex.from_arrays([[name] * len(labels), labels], names=["column", "value"])
    return pd.DataFrame(
        {"count": project_to_simplex(unbiased, total), "stderr": errors, "unbiased": unbiased}, index=index
    )


class LocalCounts(Method["Histogram"]):
    """Counts of levels or bins with noise, by the party that holds the column."""

    name = "local"
    does = "noisy counts of one column's levels or bins, by the party that holds it"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and any parties"
    delta = "optional"

    def protocol(self, study: "Histogram", federation: Federation, price: Price, repeat: int) -> ColumnTables:
        """Return an algorithm with one release of counts."""
        columns = federation.describe([study.column])
        ((name, column),) = columns.items()
        edges = () if isinstance(study.bins, int) else _edges(study.bins, column, name)
        return ColumnTables(
            columns,
            price,
            federation.people,
            bins=study.bins if isinstance(study.bins, int) else 1,
            grouped=False,
            edges=edges,
        )

    def expect(self, study: "Histogram", algorithm: ColumnTables, federation: Federation) -> Expectation:
        """Return the standard error of a count."""
        ((name, table),) = _empty_tables(algorithm).items()
        shown = _histogram(name, table)
        root = float(np.sqrt(np.mean(shown["stderr"] ** 2)))
        lost = root > federation.people / len(shown)
        words = {"95 % of counts are within": f"{2 * root:,.3g} people"}
        warning = "The noise of a count exceeds the average count: ask for fewer bins, or a larger epsilon."
        return Expectation(words, (warning,) if lost else (), (ExpectedError("unbiased_", root, "people"),))

    def learn(self, study: "Histogram", federation: Federation, value: Mapping[str, CountedTable]) -> dict[str, Any]:
        """Return one count and one error for each level or bin."""
        ((name, table),) = value.items()
        shown = _histogram(name, table).droplevel("column").rename_axis(index=name)
        return {"counts_": shown["count"], "stderr_": shown["stderr"], "unbiased_": shown["unbiased"]}


def _edges(given: Any, column: Column, name: str) -> tuple[float, ...]:
    """Return the edges of bins from the lower bound to the upper one; those that the user left out are added."""
    if not column.has_round_numbers:
        raise BadInput(
            f"Column {name!r} is no number, and only a number is counted between edges.",
            remedy="Give a whole number of bins for a date, and nothing for a category.",
        )
    if given[0] < column.low or given[-1] > column.high:
        raise BadInput(
            f"An edge in bins is outside of the bounds of column {name!r}.",
            remedy=f"Edges are between {column.low:g} and {column.high:g}.",
        )
    inner = [float(edge) for edge in given if column.low < edge < column.high]
    return (column.low, *inner, column.high)


class LocalQuantiles(Method["Quantiles"]):
    """The exponential mechanism, by the party that holds the column."""

    name = "local"
    does = "quantiles by the exponential mechanism, halving the people with every level of questions"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and any parties"
    delta = "optional"

    def protocol(self, study: "Quantiles", federation: Federation, price: Price, repeat: int) -> SoughtQuantiles:
        """Return an algorithm with one release of quantiles."""
        ((name, column),) = federation.describe([study.column]).items()
        algorithm = SoughtQuantiles(name, column, tuple(study.q), price, federation.people)
        algorithm.law  # noqa: B018  # refuses before any party is asked
        return algorithm

    def expect(self, study: "Quantiles", algorithm: SoughtQuantiles, federation: Federation) -> Expectation:
        """Return what a rank errs by if values are spread evenly. What it really errs by, values decide."""
        errors = _rank_errors(algorithm)
        root = float(np.sqrt(np.mean(errors**2)))
        share = root / federation.people
        words = {"95 % of ranks are within": f"{2 * root:,.3g} people ({2 * share:.2%}), if {EVENLY}"}
        warning = "Ranks are off by more than a twentieth of the people: ask for fewer quantiles, or a larger epsilon."
        error = ExpectedError("rank_error_", None, "of the people", unknown=UNEVEN)
        return Expectation(words, (warning,) if share > WARN_ABOVE else (), (error,))

    def learn(self, study: "Quantiles", federation: Federation, value: list[float]) -> dict[str, Any]:
        """Return the quantiles, and the standard errors of their ranks."""
        index = pd.Index([float(share) for share in study.q], name="q")
        algorithm = self.protocol(study, federation, self._price(study), 1)
        errors = _rank_errors(algorithm) / federation.people
        return {
            "values_": pd.Series(value, index=index, name="value", dtype=np.float64),
            "rank_error_": pd.Series(errors, index=index, name="rank_error", dtype=np.float64),
        }

    def _price(self, study: "Quantiles") -> Price:
        price = self.price(study)
        assert price is not None
        return price


def _rank_errors(algorithm: SoughtQuantiles) -> Array:
    law = algorithm.law
    return search_errors(law.questions, float(law.step), len(algorithm.quantiles))


class Groups(Method["GroupBy"]):
    """Counts and sums of all groups in one opening on secret shares. One party's own columns need none.

    Parameters
    ----------
    helpers
        Whether data parties that hold none of the columns add a share of the noise, where that makes it smaller. They spend
        nothing.
    """

    name = "secure"
    does = "every count and sum with the noise of one number, for columns of up to three parties"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and up to c colluding parties"
    delta = "optional"
    constraints = {"helpers": Boolean()}

    def __init__(self, *, helpers: bool = True) -> None:
        self.helpers = helpers

    def protocol(self, study: "GroupBy", federation: Federation, price: Price, repeat: int) -> GroupRelease:
        """Return a release of all counts and sums."""
        by, values = study.grouping(federation)
        release = GroupRelease(by, values, price, tuple(federation.parties))
        if not self.helpers:
            return release
        helpers = helpers_for(release.holders, release.parties, federation._driver.collusion)
        return GroupRelease(by, values, price, release.parties, helpers)

    def expect(self, study: "GroupBy", algorithm: GroupRelease, federation: Federation) -> Expectation:
        """Return the error of a count, which no data changes, and that of a mean in a group of average size."""
        plan = self.draft(study, algorithm, federation)
        variance, average = algorithm.variance(plan), federation.people / algorithm.cells
        count, value = (float(np.sqrt(variance)) / one for one in self._heights(algorithm))
        words = {"95 % of counts are within": f"{2 * count:,.3g} people"}
        for name, column in algorithm.values.items():
            error = column.half_range * float(np.hypot(value, count)) / average
            words[f"95 % of means of {name} are within"] = (
                f"at most {2 * error:,.3g} in a group of {average:,.0f} people, the average; half of that in one twice as large"
            )
        warnings = []
        if count > average / 5:
            warnings.append(
                "An average group is small for its noise: ask for fewer groups, or a larger epsilon. Groups whose count is "
                "below five standard errors are flagged."
            )
        return Expectation(words, tuple(warnings), (ExpectedError("count", count, "people"),))

    def learn(self, study: "GroupBy", federation: Federation, value: GroupFigures) -> dict[str, Any]:
        """Return one row per group."""
        return study.learn_from_figures(value, federation)

    @staticmethod
    def _heights(algorithm: GroupRelease) -> tuple[int, int]:
        return algorithm.terms.count_height, algorithm.terms.value_height
