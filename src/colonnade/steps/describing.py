"""Steps that describe columns: counts of values, quantiles, and counts and sums by group.

*One column.* Every column is counted by itself. A number or a date is put in public bins first. People whose value is missing
are in a cell of their own, whatever number the schema lets a missing value count as elsewhere. Where the schema has no rule for
missing values, and where a person has no row at this party, there is a null record, which is in no cell.

*Counts in two levels.* A column of many bins is counted twice: bin by bin, and in groups of neighbouring bins. A person is in
one bin and in one group. A range of bins is then a few groups and a few bins, so it has the noise of a few counts and not of
many (docs/proofs/histograms.md).

*By group.* Groups are combinations of levels of category columns. A party shares one column per combination of its own
categories: an indicator of the people in it, and for each of its values the same column times the value. A party without
categories has one combination, with everybody who has a record. A count is then a sum over people of a product of one indicator
per party, and a sum of values the same with one factor replaced.

*Two parties* multiply once (`colonnade.conversations.products`), and of the products only those are opened that are a count or
a sum of one value. *Three parties* multiply twice: the nodes multiply the columns of two of them person by person, deal the
products again, and multiply by the third's. *A helper* holds none of the columns. It shares a column of zeros, which enters no
product that is opened, and a share of the noise: with more shares, each may be smaller.

*Heights.* An indicator of a party that has values is w high, a value at most γ, another party's indicator 1. So every count is
released in steps of w^m, with m parties that have values, and every sum in steps of γ·w^(m−1)
(`colonnade.privacy.laws.tables`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch, SchemaMismatch
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace, count_noise, replaced_count_loss
from colonnade.privacy.laws.quantile_search import LARGEST_CELLS, LARGEST_SCALES, Positions, QuantileSearch
from colonnade.privacy.laws.shared import SharedNoise
from colonnade.privacy.laws.tables import GroupNoise
from colonnade.result import COORDINATOR
from colonnade.schema import Column, Schema, bins_between, equal_bins
from colonnade.secure.shamir import entry_pairs
from colonnade.steps.kind import (
    LARGEST_SHORT_SCALE,
    Earlier,
    Joint,
    JointStep,
    RowOrderKind,
    StepKind,
    Steps,
    WholeStep,
    nothing_earlier,
    number_list,
    shared_price,
    valid_scale,
    whole_list,
    whole_parameter,
    word_list,
)
from colonnade.steps.newton import COMPUTING

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
        return replaced_count_loss(loss)


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


LARGEST_GROUPS = 1 << 14
LARGEST_ENTRIES = 200_000
"""The most numbers that one study opens."""
MOST_COLUMNS = 4_096
"""The most columns that all parties share together: a node keeps a table of their pairs."""
MOST_HOLDERS = 3
"""The most parties whose columns enter: two products, and one re-dealing between them."""
NOT_OPENED = -1
PARAMETERS = frozenset({"by", "values", "groups", "scale", "height", "width"})

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class GroupPart:
    """One party's part of the groups, as its step says.

    Parameters
    ----------
    party
        Whose part it is.
    groups
        How many combinations of levels its categories have.
    values
        Its columns that are added up.
    height
        The height of an indicator: w at a party with values, or where nobody has any, otherwise 1.
    helps
        Whether it holds no column and adds noise alone.
    """

    party: str
    groups: int
    values: tuple[str, ...]
    height: int
    helps: bool

    @classmethod
    def read(cls, step: Step) -> "GroupPart":
        """Read one party's part from its step."""
        values = word_list(step.parameters, "values")
        by = word_list(step.parameters, "by")
        if len({*by, *values}) != len(by) + len(values) or {*by, *values} != set(step.columns):
            raise PlanMismatch("A step of groups names other columns than it groups by and adds up.")
        height = whole_parameter(step.parameters, "height", LARGEST_SHORT_SCALE)
        groups = whole_parameter(step.parameters, "groups", LARGEST_GROUPS)
        part = cls(step.party, groups, values, height if values else 1, not step.columns)
        if step.parameters.get("width") != part.width or (not by and groups != 1):
            raise PlanMismatch("The plan's width of a step of groups does not match its columns.")
        return part

    @property
    def width(self) -> int:
        """How many columns it shares; a helper shares one."""
        return self.groups * (1 + len(self.values))


@dataclass(frozen=True)
class GroupTerms:
    """All parties' parts together.

    Parameters
    ----------
    parts
        One part per party, in the plan's order, helpers among them.
    scale, height
        γ and w.
    """

    parts: tuple[GroupPart, ...]
    scale: int
    height: int

    @classmethod
    def read(cls, steps: Mapping[str, Step]) -> "GroupTerms":
        """Read the terms that the parties' steps describe together; refuse steps that disagree."""
        shared = {(step.parameters.get("scale"), step.parameters.get("height")) for step in steps.values()}
        if len(shared) != 1:
            raise PlanMismatch("The parties of groups are asked for different scales.")
        first = next(iter(steps.values()))
        scale = valid_scale(first.parameters.get("scale"), LARGEST_SHORT_SCALE)
        height = whole_parameter(first.parameters, "height", LARGEST_SHORT_SCALE)
        parts = tuple(GroupPart.read(step) for step in steps.values())
        if not any(part.values for part in parts):
            parts = tuple(replace(part, height=height) for part in parts)
        terms = cls(parts, scale, height)
        if not 1 <= len(terms.holders) <= MOST_HOLDERS:
            raise BadInput(
                f"Groups take columns of at most {MOST_HOLDERS} parties.",
                remedy="Name columns of fewer parties, or run one study per pair of parties.",
            )
        wide = sum(part.width for part in terms.parts) > MOST_COLUMNS and len(terms.holders) > 1
        if wide or terms.entries > LARGEST_ENTRIES:
            raise BadInput(
                f"The groups have more than {LARGEST_ENTRIES:,} numbers, or parties share more than {MOST_COLUMNS:,} columns.",
                remedy="Ask for fewer columns, or columns with fewer levels.",
            )
        return terms

    @cached_property
    def holders(self) -> tuple[GroupPart, ...]:
        """The parts with columns."""
        return tuple(part for part in self.parts if not part.helps)

    @property
    def cells(self) -> int:
        """How many groups there are."""
        return math.prod(part.groups for part in self.holders)

    @property
    def values(self) -> int:
        """How many values are added up: k."""
        return sum(len(part.values) for part in self.holders)

    @property
    def entries(self) -> int:
        """How many numbers are opened: all counts, then all sums of the first value, and so on."""
        return self.cells * (1 + self.values)

    @property
    def valued(self) -> int:
        """m: how many parties have values."""
        return sum(bool(part.values) for part in self.holders)

    @property
    def count_height(self) -> int:
        """H = w^m; of counts alone every holder's indicator has height w."""
        return math.prod([self.height] * (self.valued if self.values else len(self.holders)))

    @property
    def value_height(self) -> int:
        """G = γ·w^(m−1)."""
        return self.scale * math.prod([self.height] * (self.valued - 1))

    @property
    def largest(self) -> tuple[int, int]:
        """The largest shared integer, and the largest product of what it is multiplied by."""
        if not self.values:
            return self.height, math.prod([self.height] * (len(self.holders) - 1))
        return max(self.scale, self.height), math.prod([self.height] * (self.valued - 1))

    def noise(self, price: Price, unit: str, collusion: int) -> GroupNoise:
        """Return the noise of all numbers."""
        return GroupNoise(
            holders=tuple(part.party for part in self.holders),
            helpers=tuple(part.party for part in self.parts if part.helps),
            count_height=self.count_height,
            value_height=self.value_height,
            values=self.values,
            cells=self.cells,
            price=price,
            unit=unit,  # type: ignore[arg-type]  # the plan's
            collusion=collusion,
        )

    # What is multiplied, and what is opened -----------------------------------------------------------------------------------

    def columns_of(self, part: GroupPart) -> tuple[Integers, Integers]:
        """Return, for each column of a part, its place among the groups as a whole, and its value, counted from 1; 0 for none.

        A group's place is a sum of one number per party: the last party's varies fastest.
        """
        after = self.holders[self.holders.index(part) + 1 :]
        step = math.prod(other.groups for other in after)
        before = sum(len(other.values) for other in self.holders[: self.holders.index(part)])
        kinds = [0, *(before + 1 + place for place in range(len(part.values)))]
        return np.tile(np.arange(part.groups) * step, len(kinds)), np.repeat(kinds, part.groups)

    def fold_of_two(self) -> Integers:
        """Return the place of every product of two parties' columns among what is opened; −1 where it is not opened."""
        nothing = np.zeros(1, dtype=np.int64)
        columns = [(nothing, nothing) if part.helps else self.columns_of(part) for part in self.parts]
        groups, values = (np.concatenate(one) for one in zip(*columns, strict=True))
        holds = np.repeat([not part.helps for part in self.parts], [part.width for part in self.parts])
        first, second = entry_pairs([part.width for part in self.parts])
        both = holds[first] & holds[second]
        return self._places(groups[first] + groups[second], values[first], values[second], both)

    @cached_property
    def chain(self) -> "Chain":
        """The order of multiplying three parties' columns in which the fewest values are dealt again."""
        found = [Chain.of(self, pair) for pair in combinations(self.holders, 2)]
        return min(found, key=lambda chain: len(chain.first))

    def fold_of_three(self) -> Integers:
        """Return the place of every product of a re-dealt value and a column of the last party among what is opened."""
        chain = self.chain
        groups, values = self.columns_of(chain.last)
        return self._places(
            (chain.groups[:, None] + groups[None, :]).ravel(),
            np.repeat(chain.values, len(values)),
            np.tile(values, len(chain.values)),
            np.ones(len(chain.values) * len(values), dtype=np.bool_),
        )

    def _places(self, groups: Integers, one: Integers, other: Integers, wanted: NDArray[np.bool_]) -> Integers:
        """A product of two values is nobody's sum."""
        opened = wanted & ((one == 0) | (other == 0))
        return np.where(opened, np.maximum(one, other) * self.cells + groups, NOT_OPENED).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Chain:
    """How three parties' columns are multiplied: two parties' first, person by person, then the third's.

    Parameters
    ----------
    pair, last
        The two parties whose columns are multiplied first, and the third.
    first, second
        Which columns of the one and of the other are multiplied: a product per place.
    groups, values
        For each product its part of the group's place, and its value, counted from 1; 0 for none.
    """

    pair: tuple[GroupPart, GroupPart]
    last: GroupPart
    first: Integers
    second: Integers
    groups: Integers
    values: Integers

    @classmethod
    def of(cls, terms: GroupTerms, pair: tuple[GroupPart, GroupPart]) -> "Chain":
        """Return the chain that begins with two of three parties."""
        (last,) = (part for part in terms.holders if part not in pair)
        (groups, values), (others, other_values) = (terms.columns_of(part) for part in pair)
        first, second = (one.ravel() for one in np.indices((len(groups), len(others))))
        kept = (values[first] == 0) | (other_values[second] == 0)
        first, second = first[kept], second[kept]
        return cls(
            pair, last, first, second, groups[first] + others[second], np.maximum(values[first], other_values[second])
        )


class _Groups:
    """What every kind of step about groups has: one party's categories and values."""

    by: tuple[str, ...]
    part: GroupPart
    group_terms: GroupTerms
    _owner: str | None

    def _describe(self, step: Step, schema: Schema, terms: GroupTerms) -> None:
        self.by = word_list(step.parameters, "by")
        self.part = next(part for part in terms.parts if part.party == step.party)
        self.group_terms = terms
        if self.part.helps:
            self._owner = step.party  # a helper pays for nothing but its share of the noise
        described = [schema[name] for name in self.by]
        if any(column.is_number for column in described):
            raise SchemaMismatch(
                "Groups are made of categories.", remedy="Bin numbers: bins= of cn.GroupBy, or federation.read_as(...)."
            )
        if any(not schema[name].is_number for name in self.part.values):
            raise SchemaMismatch("Only numbers are added up.", remedy="Name categories in by=.")
        if math.prod(column.size for column in described if not column.is_number) != self.part.groups:
            raise PlanMismatch("The plan's number of levels does not match this party's categories.")

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return the noise of all numbers together."""
        return GroupTerms.read(steps).noise(shared_price(steps), plan.unit, plan.collusion)

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:  # the steps say it
        """Values, or indicators, are multiplied by indicators."""
        return GroupTerms.read(steps).largest


class GroupSums(_Groups, JointStep):
    """One party's part in counts and sums by group, of two parties' columns.

    Sensitivity: `colonnade.privacy.laws.tables.GroupNoise`. A person has one indicator that is not 0 at each party, of a fixed
    height, and values of at most γ in magnitude; the party enforces both by how it codes. Checked by
    tests/party/test_group_statistics.py.
    """

    name: ClassVar[str] = "group-sums"
    title: ClassVar[str] = "counts and sums by group with noise in shares"
    parameters: ClassVar[frozenset[str]] = PARAMETERS
    without_columns: ClassVar[bool] = True
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.ANY

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        self._describe(step, schema, GroupTerms.read({one.party: one for one in plan.steps if one.name == step.name}))

    @classmethod
    def terms(cls, plan: Plan, steps: Steps) -> Joint:
        """Return the terms, with what is opened of all products."""
        terms = _terms_of(steps, holders=2)
        return replace(super().terms(plan, steps), fold=terms.fold_of_two(), sums=terms.entries)


class GroupChain(_Groups, JointStep):
    """One party's part in counts and sums by group, of three parties' columns. Sensitivity: as `GroupSums`.

    Between the two products nodes deal their shares again. One that deviates there could amplify a person's row past the noise.
    So compute nodes are trusted to compute as written, and the coordinator may not be one of them (`colonnade.steps.newton`).
    """

    name: ClassVar[str] = "group-chain"
    title: ClassVar[str] = "counts and sums by group over three parties with noise in shares"
    conversation: ClassVar[str] = "groups"
    parameters: ClassVar[frozenset[str]] = PARAMETERS
    without_columns: ClassVar[bool] = True
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.ANY

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        self._describe(step, schema, GroupTerms.read({one.party: one for one in plan.steps if one.name == step.name}))

    @classmethod
    def terms(cls, plan: Plan, steps: Steps) -> Joint:
        """Return the terms: exactly 2t + 1 nodes compute, and none of them is the coordinator."""
        nodes = plan.compute_nodes[: 2 * plan.threshold + 1]
        # a node deals products again and could falsify them: the coordinator is not trusted with that
        if COORDINATOR in nodes:
            raise NotEnoughComputeNodes(
                "Groups over three parties need 2t + 1 compute nodes, t being the threshold, and the coordinator cannot be one.",
                remedy='Add a node without data (compute_nodes=["helper"] in a simulation).',
            )
        terms = _terms_of(steps, holders=3)
        joint = replace(super().terms(plan, steps), fold=terms.fold_of_three(), sums=terms.entries)
        return replace(joint, nodes=nodes, redealt=len(terms.chain.first))

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what is assumed of compute nodes, colluders and inputs."""
        nodes = cls.read(whole.plan, whole.name).nodes
        return (COMPUTING.format(roles="compute nodes", members=", ".join(nodes)), *super().assumptions(whole))


def _terms_of(steps: Steps, *, holders: int) -> GroupTerms:
    terms = GroupTerms.read(steps)
    if len(terms.holders) != holders:
        raise PlanMismatch("The plan's kind of step does not match how many parties hold the columns of the groups.")
    return terms


class GroupTotals(_Groups, StepKind):
    """Counts and sums by group of one party's own columns, noised by it alone.

    Sensitivity: as `GroupSums`, with one party. Checked by tests/party/test_group_statistics.py.
    """

    name: ClassVar[str] = "group-totals"
    title: ClassVar[str] = "counts and sums by group with discrete noise"
    parameters: ClassVar[frozenset[str]] = PARAMETERS

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self._describe(step, schema, GroupTerms.read({step.party: step}))
        if self.part.helps:
            raise PlanMismatch("A step of groups names no column.")

    def law(self, price: Price) -> Mechanism:
        """Return discrete noise on every number: Laplace at δ = 0, otherwise Gaussian."""
        noise = self.group_terms.noise(price, "person", 0)
        kind = DiscreteLaplace if noise.family == "laplace" else DiscreteGaussian
        return kind(price, noise.moved())

    @property
    def release_bytes(self) -> int:
        """Eight bytes per number."""
        return 8 * self.group_terms.entries

    def replaced_loss(self, loss: Loss) -> Loss:
        """Return the loss times what Δ₁, or Δ₂², grows by, rounded up."""
        assert self.price is not None  # or there is no loss
        noise = self.group_terms.noise(self.price, "person", 0)
        times = math.ceil(Fraction(noise.replaced, noise.moved()))
        return loss * times if loss.pure is None else Loss.of_pure(times * loss.pure)
