"""Counts and sums over people: of patterns over parties, of columns with a target, by group, and of each column by itself.

*Layout.* The columns of one party form one joint category. Parties answer for all their columns together, so a table arrives
with one axis per party. A user asked for one axis per column, in an order of their own (`TableLayout.arrange`).

*Randomised response* (`ResponseCounts`) is Algorithm 1 and Theorem B.2 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong;
docs/references.md#primitives): one randomised report per person and party. We differ from the paper in three ways. Each party
uses the local randomiser of least variance at its exact ε; the paper's ε/16 spends half of ε and quadruples the variance. The
product of the unbiased terms is over parties. And instead of ``max(0, ·)``, which inflates the total, the table is fitted to
its low-variance margins and projected onto non-negative counts with the right total. Sampling (Theorem B.2) saves
communication only: the coordinator sees who was sampled, so no amplification is claimed (docs/proofs/randomised-response.md).

*Pair tables* (`PairCounts`) are the Gram matrix of indicator columns, opened on shares with noise
(docs/proofs/pair-tables.md#statement). The paper has no such channel. Every pair of parties' categories gives a table with
the noise of one count, for any number of people. With two parties that is the answer, without bias. With more it is the table
of greatest entropy with these pair tables, which is a fit to pairs and not a count: what three parties show together beyond
their pairs is not in it.

*Tables with a target* (`TargetTables`). A column of the target's own party is counted there
(`colonnade.steps.local.HistogramStep`). A column of another party is counted with the target on secret shares
(`colonnade.steps.products.PairTables`). A person is in one cell of every table, so a price is divided into as many equal parts
as there are columns, each a part of ρ. A histogram has discrete Laplace noise of ε = √(2ρ), which costs no more than ρ (Bun and
Steinke 2016, proposition 1.4). Proof: docs/proofs/pair-tables.md.

*Groups* (`GroupRelease`): of one party's columns with noise of its own, of two or three parties' on shares. The paper that comes
nearest is Primitives (docs/references.md#primitives), which has no shares. Ours is one joint opening
(docs/proofs/group-by.md): every count and every sum with the noise of one number, whatever the number of groups and of people.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.driver import JointResult, open_jointly
from colonnade.errors import BadInput, ProtocolError, SchemaMismatch
from colonnade.estimation.counts import independent_table, independent_variance, response_table, response_variance
from colonnade.estimation.describing import CountedTable
from colonnade.estimation.moment_summaries import GroupFigures, Span
from colonnade.estimation.shape_belief import TargetCounts
from colonnade.estimation.tables import PairTableSet, table_of_pairs
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import counting_height, ledger_rho, price_of_rho
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace, count_noise
from colonnade.privacy.laws.quantile_search import QuantileSearch
from colonnade.privacy.laws.response import Channel, best_channel
from colonnade.privacy.laws.tables import GroupNoise, value_to_count
from colonnade.protocol.messages import Released, Rounds, ask_all, planned_value
from colonnade.schema import Column, ColumnName, Feature, columns_at, features_of, parties_of, plain_names
from colonnade.secure.shamir import entry_pairs
from colonnade.steps import local, products
from colonnade.steps.describing import (
    MOST_HOLDERS,
    Cells,
    ColumnCounts,
    CountedColumn,
    GroupChain,
    GroupSums,
    GroupTerms,
    GroupTotals,
    QuantilePositions,
)
from colonnade.steps.kind import read_joint

if TYPE_CHECKING:
    from colonnade.coordinator.federation import Federation


Array = NDArray[np.float64]
LARGEST_TABLE = 20_000_000


@dataclass(frozen=True)
class PartyColumns:
    """One party's columns in a table, the number of levels of each, and whether they leave people without a value out."""

    party: str
    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    leaves_out: bool = False

    @property
    def size(self) -> int:
        """How many joint levels the party's columns have."""
        return math.prod(self.sizes)


@dataclass(frozen=True)
class TableLayout:
    """The parties' groups, and where each group's columns stand in the user's order."""

    groups: tuple[PartyColumns, ...]
    columns: tuple[str, ...]

    @property
    def cells(self) -> int:
        """How many patterns there are."""
        return math.prod(group.size for group in self.groups)

    @property
    def leaves_out(self) -> bool:
        """Whether somebody may be in no cell, so that the number of people counted is private."""
        return any(group.leaves_out for group in self.groups)

    def arrange(self, table: Array) -> Array:
        """Turn a table with one axis per party into one with an axis per column, in the user's order."""
        stored = [str(ColumnName(group.party, column)) for group in self.groups for column in group.columns]
        split = np.reshape(table, tuple(chain.from_iterable(group.sizes for group in self.groups)))
        return np.transpose(split, [stored.index(name) for name in self.columns])


def table_layout(federation: "Federation", columns: Sequence[str]) -> TableLayout:
    """Resolve the columns of a counting study. Numeric columns, repeats and tables that are too large are refused."""
    names = plain_names(columns)
    found: dict[str, dict[str, Column]] = {}
    for name in names:
        party, own, description = federation._driver.columns.column(name)
        if description.is_number:
            raise SchemaMismatch(
                f"Column {name!r} is numeric; counting needs categories.",
                remedy="Declare it as cn.Category in its party's schema.",
            )
        found.setdefault(party, {})[own] = description
    groups = tuple(
        PartyColumns(
            party,
            tuple(found[party]),
            tuple(column.size for column in found[party].values()),
            any(column.excludes for column in found[party].values()),
        )
        for party in federation.parties
        if party in found
    )
    result = TableLayout(groups, tuple(names))
    if result.cells > LARGEST_TABLE:
        raise BadInput(f"The table would have more than {LARGEST_TABLE:,} cells.", remedy="Ask for fewer columns.")
    return result


@dataclass(frozen=True)
class ResponseCounts:
    """Randomised response at every party, combined without bias at the coordinator.

    Parameters
    ----------
    layout
        The columns, and the parties that hold them.
    price
        The price of each party's release.
    people
        The number of people, which is public.
    sample
        The rate at which public coins choose who reports.
    draw
        The number of the draw; public coins differ from draw to draw.
    """

    layout: TableLayout
    price: Price
    people: int
    sample: float = 1.0
    draw: int = 1

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: one report per person."""
        return tuple(
            local.Reports.ask(
                name="reports",
                party=group.party,
                columns=group.columns,
                parameters=self._coins(),
                price=self.price,
            )
            for group in self.layout.groups
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect, combine, project."""
        releases = yield from ask_all(plan, "reports")
        reports = [reports_of(group.party, releases[group.party]) for group in self.layout.groups]
        sizes = [group.size for group in self.layout.groups]
        return response_table(reports, self.channels, self.people, sizes, self.sample).arranged(self.layout.arrange)

    @property
    def channels(self) -> list[Channel]:
        """The randomiser that each party uses: a public function of its categories and the price."""
        return [
            best_channel(local.report_cells(group.size, leaves_out=group.leaves_out), self.price)
            for group in self.layout.groups
        ]

    def variance(self, counts: Array) -> Array:
        """Return the variance of each unbiased count, if these are the true ones."""
        return response_variance(counts, self.channels, self.sample)

    def _coins(self) -> dict[str, Parameter]:
        return sample_coins(self.sample, self.draw, self.layout.columns)


def sample_coins(sample: float, draw: int, columns: Sequence[str]) -> dict[str, Parameter]:
    """Return the parameters of reports of a share of the people: the share, and the seed of the public coins that choose them.

    All parties get the same ones, so the same people report everywhere. Nothing is chosen where everybody reports.
    """
    if sample == 1:
        return {}
    seed = hashlib.sha256(f"colonnade/sample/{draw}/{'/'.join(columns)}".encode()).hexdigest()
    return {"sample": sample, "seed": seed}


@dataclass(frozen=True)
class IndependentCounts:
    """Products of noisy one-way histograms, which are right only where parties' columns are independent of each other.

    Parameters
    ----------
    layout, price, people
        As in `ResponseCounts`.
    """

    layout: TableLayout
    price: Price
    people: int

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its histogram."""
        return tuple(
            local.HistogramStep.ask(name="histogram", party=group.party, columns=group.columns, price=self.price)
            for group in self.layout.groups
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the margins and multiply them."""
        releases = yield from ask_all(plan, "histogram")
        margins = [self._margin(releases, index).astype(np.float64) for index in range(len(self.layout.groups))]
        leaving = [group.leaves_out for group in self.layout.groups]
        return independent_table(margins, self.people, self.noise, leaving).arranged(self.layout.arrange)

    @property
    def noise(self) -> float:
        """The variance of the noise in a number of a histogram."""
        return count_noise(self.price, 1).variance

    def variance(self, counts: Array) -> Array:
        """Return the variance of each count, if these are the true ones."""
        return independent_variance(counts, self.noise, [self.people] * counts.ndim)

    def _margin(self, releases: Mapping[str, Released], index: int) -> NDArray[np.int64]:
        group = self.layout.groups[index]
        return planned_value(releases[group.party], (group.size,), np.int64, np.float64)


def reports_of(party: str, release: Released) -> NDArray[np.uint8]:
    """Return a party's randomised reports, one row per person, after checking their form."""
    reports = release.array("value")
    if reports.ndim != 2 or reports.dtype != np.uint8:
        raise ProtocolError(f"Party {party!r} sent reports that are no table of bytes.")
    return reports  # type: ignore[return-value]  # checked above


@dataclass(frozen=True)
class PairCounts:
    """All pair tables in one joint opening, and one table fitted to them.

    Parameters
    ----------
    layout
        The columns, and the parties that hold them; two parties or more.
    price
        The price of the opening. At δ = 0 the noise is discrete Laplace, otherwise discrete Gaussian.
    people
        The number of people, which is public.
    """

    layout: TableLayout
    price: Price
    people: int

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its part in the tables."""
        return tuple(
            products.PairTables.ask(
                name="tables",
                party=group.party,
                columns=group.columns,
                parameters={"width": group.size},
                price=self.price,
            )
            for group in self.layout.groups
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Open the tables, make their margins agree, and fit one table."""
        opened = yield from open_jointly(plan, "tables")
        found = table_of_pairs(pair_tables_of(opened), self.people, leaves_out=self.layout.leaves_out)
        return found.arranged(self.layout.arrange)


def pair_tables_of(opened: JointResult) -> PairTableSet:
    """Cut the opened entries into one table per pair of parties."""
    widths = opened.joint.widths
    whole = np.zeros((sum(widths), sum(widths)))
    first, second = entry_pairs(widths)
    whole[first, second] = opened.cross
    starts = np.concatenate([[0], np.cumsum(widths)])
    variance = opened.joint.noise.opened_variance
    pairs = list(combinations(range(len(widths)), 2))
    tables: Mapping[tuple[int, int], Array] = {
        (a, b): whole[starts[a] : starts[a + 1], starts[b] : starts[b + 1]] for a, b in pairs
    }
    return PairTableSet(tuple(widths), tables, dict.fromkeys(pairs, variance))


@dataclass(frozen=True)
class TargetTables:
    """The tables of all columns with a target of two levels.

    Parameters
    ----------
    columns
        ``"party.column"`` to what it is read as, in the federation's order: categories and bins, the target among them.
    target
        A category of two levels. The second is the event.
    price
        The price of all tables together; δ must be positive.
    people
        The number of people.
    """

    columns: Mapping[str, Column]
    target: str
    price: Price
    people: int

    def __post_init__(self) -> None:
        numbers = [name for name, column in self.columns.items() if column.is_number]
        if numbers:
            raise SchemaMismatch(
                f"Tables are of columns in bins, and {numbers[0]!r} is not.",
                remedy="Read it in bins: federation.read_as({...}).",
            )
        target = self.columns[self.target]
        if target.is_number or target.size != 2:
            raise SchemaMismatch(
                f"Tables of columns with {self.target!r} tell what each says about one event, and it has no two levels.",
                remedy='Name the columns, and leave out plan="evidence".',
            )
        if self.price.delta == 0:
            raise BadInput("Tables of all columns need a positive delta.", remedy="For example delta=1e-6.")

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of({name: column for name, column in self.columns.items() if name != self.target})

    @cached_property
    def explaining(self) -> dict[str, Column]:
        """The columns whose tables are opened."""
        return {name: column for name, column in self.columns.items() if name != self.target and not column.is_number}

    @property
    def holder(self) -> ColumnName:
        """The target: who holds it, and what it is called there."""
        return ColumnName.of(self.target)

    @cached_property
    def table_price(self) -> Price:
        """The price of each table: an equal part of ρ."""
        return price_of_rho(ledger_rho(self.price, len(self.explaining)), self.price.delta)

    def steps(self) -> tuple[Step, ...]:
        """Return one or two steps per column."""
        found: list[Step] = []
        for name, column in self.explaining.items():
            party, own = ColumnName.of(name)
            step = _step_name(name)
            if party == self.holder.party:
                columns = (self.holder.column, own)
                found.append(local.HistogramStep.ask(name=step, party=party, columns=columns, price=self.table_price))
                continue
            for owner, its, width in ((self.holder.party, self.holder.column, 2), (party, own, column.size)):
                found.append(
                    products.PairTables.ask(
                        name=step, party=owner, columns=(its,), parameters={"width": width}, price=self.table_price
                    )
                )
        return tuple(found)

    def rounds(self, plan: Plan) -> Rounds:
        """Open one table after another, and put them side by side."""
        tables, variances = [], []
        for name, column in self.explaining.items():
            step, party = _step_name(name), ColumnName.of(name).party
            if party == self.holder.party:
                replies = yield from ask_all(plan, step)
                table = _histogram(replies[party], (2, column.size))
                variances.append(count_noise(self.table_price, 1).variance)
            else:
                opened = yield from open_jointly(plan, step)
                table = pair_tables_of(opened).tables[0, 1]
                variances.append(opened.joint.noise.opened_variance)
            tables.append(table)
        return TargetCounts.of_tables(tables, self.people, max(variances))


def table_deviation(price: Price, columns: int) -> float:
    """Return about how noisy a count of the tables is, by the number of columns: the standard deviation, in people.

    Examples
    --------
    >>> round(table_deviation(Price.of(1.0, 1e-6), 10))
    19
    """
    return math.sqrt(columns / float(ledger_rho(price)))


def _step_name(name: str) -> str:
    return f"table {name}"


def _histogram(reply: Released, shape: tuple[int, int]) -> Array:
    counts = planned_value(reply, (shape[0] * shape[1],), np.int64, np.float64)
    return np.asarray(counts.reshape(shape), dtype=np.float64)


GROUPS = "groups"

SCALES = (1, 4096, 1024, 256)
"""γ by how many parties have values: products of heights have to fit the arithmetic."""


class Heights(NamedTuple):
    """γ and w: the heights of a value and of an indicator beside values."""

    scale: int
    height: int

    @classmethod
    def best(cls, values: int, parties: int) -> "Heights":
        """Return the heights that make means precise, by the number of values and of parties."""
        scale = SCALES[parties]
        return cls(scale, max(1, round(scale / value_to_count(values))))

    @classmethod
    def of_counts(cls, price: Price, holders: int) -> "Heights":
        """Return the heights of counts alone: small noise takes finer steps, and every holder's indicator has a part of them."""
        if price.delta == 0:
            return cls(1, 1)
        return cls(1, math.ceil(counting_height(ledger_rho(price)) ** (1 / holders) - 1e-9))


def helpers_for(holders: tuple[str, ...], parties: tuple[str, ...], collusion: int) -> tuple[str, ...]:
    """Return the other data parties of a federation, if their shares of the noise make it smaller.

    P parties that add noise against c colluders open P/(P − c) times the noise that suffices; c is at most P − 1.

    Examples
    --------
    >>> helpers_for(("a", "b"), ("a", "b", "c"), 1), helpers_for(("a", "b"), ("a", "b", "c"), 2)
    (('c',), ())
    """

    def excess(count: int) -> float:
        return count / (count - min(collusion, count - 1))

    fewer = len(holders) > 1 and excess(len(parties)) < excess(len(holders))
    return tuple(party for party in parties if party not in holders) if fewer else ()


@dataclass(frozen=True)
class GroupRelease:
    """One release of counts and sums.

    Parameters
    ----------
    by
        ``"party.column"`` to the category, in the order in which groups are shown.
    values
        ``"party.column"`` to the number.
    price
        The price of the release. At δ = 0 the noise is discrete Laplace, otherwise discrete Gaussian.
    parties
        The data parties of the federation, in order.
    helpers
        Those that add a share of the noise and hold none of the columns.
    """

    by: Mapping[str, Column]
    values: Mapping[str, Column]
    price: Price
    parties: tuple[str, ...]
    helpers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.holders) > MOST_HOLDERS:
            raise BadInput(
                f"Groups take columns of at most {MOST_HOLDERS} parties, and these are of {len(self.holders)}.",
                remedy="Name columns of fewer parties, or run one study per pair of parties.",
            )
        self.terms  # noqa: B018  # refuses too many groups

    @property
    def holders(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        entering = parties_of([*self.by, *self.values])
        return tuple(party for party in self.parties if party in entering)

    @cached_property
    def terms(self) -> GroupTerms:
        """What the steps say together."""
        return GroupTerms.read({step.party: step for step in self.steps()})

    @property
    def heights(self) -> Heights:
        """γ and w."""
        if self.values:
            return Heights.best(len(self.values), len(parties_of(self.values)))
        return Heights.of_counts(self.price, len(self.holders))

    @property
    def cells(self) -> int:
        """How many groups there are."""
        return math.prod(column.size for column in self.by.values())

    @property
    def leaves_out(self) -> bool:
        """Whether somebody may be in no group, so that the number of people counted is private."""
        return any(column.excludes for column in self.by.values())

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party whose columns enter, and one per helper."""
        kind = (GroupTotals, GroupSums, GroupChain)[len(self.holders) - 1]
        asked = {*self.holders, *self.helpers}
        return tuple(self._step(kind, party) for party in self.parties if party in asked)

    def rounds(self, plan: Plan) -> Rounds:
        """Open all numbers at once."""
        if len(self.holders) == 1:
            releases = yield from ask_all(plan, GROUPS)
            opened = releases[self.holders[0]].array("value")
        else:
            opened = (yield from open_jointly(plan, GROUPS)).cross
        if opened.shape != (self.terms.entries,) or opened.dtype != np.int64:
            raise ProtocolError("The groups were released in another shape.")
        return self.read(opened.astype(np.float64), plan)

    def read(self, opened: Array, plan: Plan) -> GroupFigures:
        """Return what was opened as figures, one axis per column in the order that was asked for."""
        numbers = opened.reshape(1 + len(self.values), -1)
        count, value = self.terms.count_height, self.terms.value_height
        variance = self.variance(plan)
        names = [name for party in self.holders for name in self.values if ColumnName.of(name).party == party]
        found = dict(zip(names, numbers[1:], strict=True))
        return GroupFigures(
            counts=self._arranged(numbers[0] / count),
            sums={name: self._arranged(found[name] / value) for name in self.values},
            count_variance=np.array(variance / count**2),
            sum_variance=np.array(variance / value**2),
            spans={name: Span(column.low, column.high) for name, column in self.values.items()},
        )

    def variance(self, plan: Plan) -> float:
        """Return the variance of an opened number."""
        if len(self.holders) > 1:
            return read_joint(plan, GROUPS).noise.opened_variance
        noise: GroupNoise = self.terms.noise(self.price, "person", 0)
        kind = DiscreteLaplace if noise.family == "laplace" else DiscreteGaussian
        return kind(self.price, noise.moved()).variance

    def _arranged(self, cells: Array) -> Array:
        """Turn cells in the order of parties into a table with an axis per column, in the order that was asked for."""
        stored = [name for party in self.holders for name in self.by if ColumnName.of(name).party == party]
        split = cells.reshape([self.by[name].size for name in stored])
        return np.transpose(split, [stored.index(name) for name in self.by])

    def _step(self, kind: type[GroupTotals] | type[GroupSums] | type[GroupChain], party: str) -> Step:
        by, values = columns_at(party, self.by), columns_at(party, self.values)
        groups = math.prod(column.size for name, column in self.by.items() if ColumnName.of(name).party == party)
        return kind.ask(
            name=GROUPS,
            party=party,
            columns=(*by, *values),
            parameters={
                "by": by,
                "values": values,
                "groups": groups,
                "scale": self.heights.scale,
                "height": self.heights.height,
                "width": groups * (1 + len(values)),
            },
            price=self.price,
        )


FINE_BINS = 1_024
"""The bins of a described number."""
FEW_BINS = 16
"""Up to this many bins are counted one by one only."""


def grouping(bins: int) -> int:
    """Return how many neighbouring bins are counted together as well: about as many as there are groups.

    Examples
    --------
    >>> grouping(1_024), grouping(78), grouping(12)
    (32, 9, 1)
    """
    return 1 if bins <= FEW_BINS else math.isqrt(bins - 1) + 1


@dataclass(frozen=True)
class ColumnTables:
    """Counts of every column, each by itself.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order.
    price
        The price of each party's release. At δ = 0 the noise is discrete Laplace, otherwise discrete Gaussian.
    people
        The number of people, which is public.
    bins, grouped
        Of numbers: how many bins of equal width, and whether groups of them are counted as well.
    edges
        Of a single number: where bins begin and end, instead.
    """

    columns: Mapping[str, Column]
    price: Price
    people: int
    bins: int = FINE_BINS
    grouped: bool = True
    edges: Sequence[float] = ()

    @cached_property
    def counted(self) -> dict[str, CountedColumn]:
        """How each column is counted."""
        found = {
            name: CountedColumn.of(column, name, bins=self.bins, edges=self.edges)
            for name, column in self.columns.items()
        }
        if not self.grouped:
            return found
        return {
            name: column if not column.counted.is_binned else CountedColumn(column.counted, grouping(column.bins))
            for name, column in found.items()
        }

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties that hold the columns."""
        return parties_of(self.columns)

    def _own(self, party: str) -> dict[str, CountedColumn]:
        return {name: self.counted[str(ColumnName(party, name))] for name in columns_at(party, self.columns)}

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: the counts of its columns."""
        steps = []
        for party in self.parties:
            own = self._own(party)
            parameters: dict[str, Parameter] = ColumnCounts.asked(own)
            if self.edges:
                parameters |= {"edges": tuple(map(float, self.edges))}
            steps.append(
                ColumnCounts.ask(
                    name="counts", party=party, columns=tuple(own), parameters=parameters, price=self.price
                )
            )
        return tuple(steps)

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the counts."""
        releases = yield from ask_all(plan, "counts")
        return self.combine({party: releases[party] for party in self.parties})

    def noise(self, party: str) -> float:
        """Return the variance of each of a party's counts."""
        levels = sum(column.levels for column in self._own(party).values())
        return float(count_noise(self.price, levels).variance)

    def combine(self, releases: Mapping[str, Released]) -> dict[str, CountedTable]:
        """Cut the releases into columns."""
        found = {}
        for party, release in releases.items():
            own = self._own(party)
            value = planned_value(release, (sum(column.cells for column in own.values()),), np.int64, np.float64)
            parts = np.split(value, np.cumsum([column.cells for column in own.values()])[:-1])
            for (name, column), part in zip(own.items(), parts, strict=True):
                found[str(ColumnName(party, name))] = CountedTable(column, part, self.noise(party), self.people)
        return {name: found[name] for name in self.columns}


@dataclass(frozen=True)
class SoughtQuantiles:
    """Quantiles of one column, by the exponential mechanism.

    Parameters
    ----------
    name, column
        The column, and its description.
    quantiles
        Rising, between 0 and 1.
    price
        The price of the release.
    people
        The number of people, which is public.
    """

    name: str
    column: Column
    quantiles: tuple[float, ...]
    price: Price
    people: int

    @cached_property
    def cells(self) -> Cells:
        """The cells in which quantiles are sought."""
        return Cells.of(self.column, self.name)

    @property
    def law(self) -> QuantileSearch:
        """The search that the price buys."""
        return QuantileSearch(self.price, [self.cells.positions], self.quantiles)

    def steps(self) -> tuple[Step, ...]:
        """Return the one step, at the party that holds the column."""
        party, own = ColumnName.of(self.name)
        return (
            QuantilePositions.ask(
                name="quantiles",
                party=party,
                columns=(own,),
                parameters={"quantiles": self.quantiles},
                price=self.price,
            ),
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the positions, and turn them into numbers."""
        releases = yield from ask_all(plan, "quantiles")
        (release,) = releases.values()
        positions = release.array("value")
        column = self.cells.positions
        if positions.shape != (1, len(self.quantiles)) or positions.dtype != np.int64:
            raise ProtocolError("A party released another number of quantiles.")
        if np.any(positions < 0) or np.any(positions >= column.number):
            raise ProtocolError("A party released a quantile outside of the bounds.")
        return [self.cells.value(column.cell_of(position)) for position in positions[0].tolist()]
