"""Steps that describe one party's columns one by one: counts of their values, and quantiles.

Every column is counted by itself. A number or a date is put in public bins first. People whose value is missing are in a cell
of their own, whatever number the schema lets a missing value count as elsewhere. Where the schema has no rule for missing values,
and where a person has no row at this party, there is a null record, which is in no cell.

*Counts in two levels.* A column of many bins is counted twice: bin by bin, and in groups of neighbouring bins. A person is in one
bin and in one group. A range of bins is then a few groups and a few bins, so it has the noise of a few counts and not of many
(docs/proofs/histograms.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from colonnade.errors import BadInput, PlanMismatch, SchemaMismatch
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace
from colonnade.privacy.laws.quantile_search import LARGEST_CELLS, LARGEST_SCALES, Positions, QuantileSearch
from colonnade.schema import Column, Schema, bins_between, equal_bins
from colonnade.steps.kind import Earlier, StepKind, nothing_earlier, number_list, whole_list

LARGEST_BINS = 4_095
"""The largest number of bins of a column; one more cell is for missing values."""
MOST_DIGITS = 300
"""The finest distance between cells is 10⁻³⁰⁰: it and its inverse are ordinary floats."""


@dataclass(frozen=True)
class CountedColumn:
    """How one column is counted.

    Parameters
    ----------
    counted
        The column as a category: its own levels, or bins. Behind them is one for missing values, if there is a rule for these.
    group
        How many neighbouring bins are counted together as well; 1 for none.
    """

    counted: Column
    group: int = 1

    @classmethod
    def of(
        cls, column: Column, name: str, *, bins: int = 1, group: int = 1, edges: Sequence[float] = ()
    ) -> "CountedColumn":
        """Return how a column is counted.

        Parameters
        ----------
        column, name
            What is public about it.
        bins, group
            Of a number: how many bins of equal width there are, and how many of them a group has.
        edges
            Of a number: where bins begin and end, instead.

        Examples
        --------
        >>> from colonnade.schema import Category, Numeric
        >>> CountedColumn.of(Numeric(0, 100), "age", bins=64, group=8).cells
        72
        >>> CountedColumn.of(Category(["basic", "gold"]), "segment").cells
        2
        """
        if not column.is_number:
            return cls(column)
        if column.indicates is not None:
            raise SchemaMismatch(
                f"Column {name!r} says where another one is missing; the share of missing values is part of that one's counts.",
                remedy=f"Name {column.indicates!r} instead.",
            )
        if not 1 <= bins <= LARGEST_BINS or not 1 <= group <= bins or len(edges) > LARGEST_BINS + 1:
            raise BadInput(f"A column is counted in at most {LARGEST_BINS:,} bins.", remedy="For example bins=16.")
        rule = column.fill is not None
        if edges:
            return cls(bins_between(column, tuple(edges), missing=rule))
        counted = cls(equal_bins(column, bins, missing=rule))
        return cls(counted.counted, group if counted.bins > group else 1)

    @property
    def bins(self) -> int:
        """How many bins, or levels, there are, without the cell of missing values behind bins."""
        return self.counted.size - (self.counted.is_binned and self.counted.missing is not None)

    @property
    def groups(self) -> int:
        """How many groups of bins are counted; 0 for none."""
        return 0 if self.group == 1 else math.ceil(self.bins / self.group)

    @property
    def levels(self) -> int:
        """In how many cells one person is."""
        return 1 if self.group == 1 else 2

    @property
    def cells(self) -> int:
        """How many counts there are: of groups, then of bins, then of missing values."""
        return self.groups + self.counted.size


class ColumnCounts(StepKind):
    """Counts of each of one party's columns by itself.

    Sensitivity: under zero-out one person leaves one cell of each column, or two where groups of bins are counted as well. Each
    changes by one, so Δ₁ = Δ₂² = the number of these cells. Checked by tests/party/test_describing.py.
    """

    name: ClassVar[str] = "column-counts"
    title: ClassVar[str] = "counts of each column, with noise"
    parameters: ClassVar[frozenset[str]] = frozenset({"bins", "groups", "edges"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        if not step.columns or len(set(step.columns)) != len(step.columns):
            raise BadInput("A step that counts columns names each of them once.")
        bins, groups = (whole_list(step.parameters, key) for key in ("bins", "groups"))
        edges = number_list(step.parameters, "edges") if "edges" in step.parameters else ()
        if len(bins) != len(step.columns) or len(groups) != len(step.columns) or (edges and len(step.columns) != 1):
            raise PlanMismatch("The plan does not say how each column is counted.")
        self.counted = {
            name: CountedColumn.of(schema[name], name, bins=own, group=group, edges=edges)
            for name, own, group in zip(step.columns, bins, groups, strict=True)
        }

    @classmethod
    def asked(cls, counted: Mapping[str, CountedColumn]) -> dict[str, Parameter]:
        """Return the parameters of a step that counts columns in bins of equal width, or levels."""
        return {
            "bins": tuple(column.bins if column.counted.is_binned else 1 for column in counted.values()),
            "groups": tuple(column.group for column in counted.values()),
        }

    @property
    def sensitivity(self) -> int:
        """In how many cells one person is."""
        return sum(column.levels for column in self.counted.values())

    @property
    def cells(self) -> int:
        """How many counts there are."""
        return sum(column.cells for column in self.counted.values())

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise at δ = 0, else discrete Gaussian noise."""
        return count_noise(price, self.sensitivity)

    @property
    def release_bytes(self) -> int:
        """Eight bytes per count."""
        return 8 * self.cells

    def replaced_loss(self, loss: Loss) -> Loss | None:
        """Return twice the loss: twice as many cells move, by one each."""
        return Loss.of_pure(2 * loss.pure) if loss.pure is not None else loss * 2


def count_noise(price: Price, cells: int) -> DiscreteLaplace | DiscreteGaussian:
    """Return the noise of counts in which one person is in so many cells.

    Examples
    --------
    >>> count_noise(Price.of(1.0), 2), count_noise(Price.of(1.0, 1e-6), 2).name
    (DiscreteLaplace(scale=2), 'discrete Gaussian')
    """
    return DiscreteLaplace(price, cells) if price.delta == 0 else DiscreteGaussian(price, cells)


@dataclass(frozen=True)
class Cells:
    """The cells in which the quantiles of a number are sought.

    A cell stands for the values that are nearest to one number. The first stands for the lower bound, the last for the upper one.
    The distance between cells is a power of ten, the smallest that gives at most 2³⁰ cells; of whole numbers at least 1. Many
    people often have one round value, and that value then has a cell of its own.

    Parameters
    ----------
    column
        The number or date.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> cells = Cells(Numeric(0, 250))
    >>> cells.digits, cells.number, cells.value(1_234_560)
    (6, 250000001, 1.23456)
    """

    column: Column

    def __post_init__(self) -> None:
        if self.digits > MOST_DIGITS:
            raise BadInput(
                "The bounds of a column are too close together for quantiles.",
                remedy="Count in a smaller unit at the source.",
            )

    @classmethod
    def of(cls, column: Column, name: str) -> "Cells":
        """Return the cells of a column; refuse one without quantiles."""
        if not column.is_measured:
            raise SchemaMismatch(
                f"Column {name!r} is no number and no date, and has no quantiles.",
                remedy="Use cn.Histogram for the counts of a category.",
            )
        return cls(column)

    @property
    def first(self) -> float:
        """The lowest value."""
        return float(math.ceil(self.column.low)) if self.column.whole else self.column.low

    @property
    def last(self) -> float:
        """The highest value."""
        return float(math.floor(self.column.high)) if self.column.whole else self.column.high

    @property
    def digits(self) -> int:
        """How many digits behind the point the distance between cells has; below 0, how many zeros before it."""
        span = self.last - self.first
        fine = -math.ceil(math.log10(span / (LARGEST_CELLS - 2))) if span > 0 else 0
        return min(fine, 0) if self.column.whole else fine

    @property
    def width(self) -> float:
        """The distance between two cells."""
        return 10.0**-self.digits

    @property
    def number(self) -> int:
        """How many there are."""
        return math.ceil((self.last - self.first) / self.width) + 1

    @property
    def positions(self) -> Positions:
        """The positions in the cells: round numbers have more of them; no day is rounder than another."""
        scales = len(str(self.number)) if self.column.has_round_numbers else 1
        return Positions(self.number, round(self.first * 10.0**self.digits), min(scales, LARGEST_SCALES))

    def value(self, cell: int) -> float:
        """Return the number that a cell stands for, a round one but for the bounds."""
        if cell == 0:
            return self.first
        if cell == self.number - 1:
            return self.last
        return min(max(round(self.first + cell * self.width, self.digits), self.first), self.last)


class QuantilePositions(StepKind):
    """Quantiles of each of one party's columns by itself, by the exponential mechanism.

    Sensitivity: under zero-out one person leaves the people of one question per level and column, which moves each of its rank
    errors by at most one (`colonnade.privacy.laws.quantile_search`). Checked by tests/privacy/test_quantile_search.py.
    """

    name: ClassVar[str] = "quantiles"
    title: ClassVar[str] = "quantiles by the exponential mechanism"
    parameters: ClassVar[frozenset[str]] = frozenset({"quantiles"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        if not step.columns or len(set(step.columns)) != len(step.columns):
            raise BadInput("A step that seeks quantiles names each of its columns once.")
        self.cells = {name: Cells.of(schema[name], name) for name in step.columns}
        self.quantiles = number_list(step.parameters, "quantiles")

    def law(self, price: Price) -> Mechanism:
        """Return the search that this price buys."""
        return QuantileSearch(price, [cells.positions for cells in self.cells.values()], self.quantiles)

    @property
    def release_bytes(self) -> int:
        """Eight bytes per quantile."""
        return 8 * len(self.columns) * len(self.quantiles)

    def replaced_loss(self, loss: Loss) -> Loss | None:
        """Return the loss of a record taken out and another put in: twice a pure one, four times a ρ."""
        return Loss.of_pure(2 * loss.pure) if loss.pure is not None else loss * 4
