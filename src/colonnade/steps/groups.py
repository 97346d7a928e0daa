"""Counts and sums by group, read from a plan: who holds which groups and values, what is multiplied, and what is opened.

Groups are combinations of levels of category columns. A party shares one column per combination of its own categories: an
indicator of the people in it, and for each of its values the same column times the value. A party without categories has one
combination, with everybody who has a record. A count is then a sum over people of a product of one indicator per party, and a
sum of values the same with one factor replaced.

*Two parties* multiply once (`colonnade.conversations.products`), and of the products only those are opened that are a count or
a sum of one value. *Three parties* multiply twice: the nodes multiply the columns of two of them person by person, deal the
products again, and multiply by the third's. *A helper* holds none of the columns. It shares a column of zeros, which enters no
product that is opened, and a share of the noise: with more shares, each may be smaller.

*Heights.* An indicator of a party that has values is w high, a value at most γ, another party's indicator 1. So every count is
released in steps of w^m, with m parties that have values, and every sum in steps of γ·w^(m−1)
(`colonnade.privacy.laws.groups`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace
from colonnade.privacy.laws.groups import GroupNoise
from colonnade.privacy.laws.shared import SharedNoise
from colonnade.result import COORDINATOR
from colonnade.schema import Schema
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
    shared_price,
    valid_scale,
    whole_parameter,
    word_list,
)
from colonnade.steps.newton import COMPUTING

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
        The height of an indicator: w at a party with values, otherwise 1.
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
            raise PlanMismatch("A step of groups has another width than its columns.")
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
        terms = cls(tuple(GroupPart.read(step) for step in steps.values()), scale, height)
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
        """H = w^m."""
        return math.prod([self.height] * self.valued)

    @property
    def value_height(self) -> int:
        """G = γ·w^(m−1)."""
        return self.scale * math.prod([self.height] * (self.valued - 1))

    @property
    def largest(self) -> tuple[int, int]:
        """The largest shared integer, and the largest product of what it is multiplied by."""
        if not self.values:
            return 1, 1
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


class _Groups(StepKind):
    """What every kind of step about groups has: one party's categories and values."""

    by: tuple[str, ...]
    part: GroupPart
    group_terms: GroupTerms

    def _describe(self, step: Step, schema: Schema, terms: GroupTerms) -> None:
        self.by = word_list(step.parameters, "by")
        self.part = GroupPart.read(step)
        self.group_terms = terms
        described = [schema[name] for name in self.by]
        if any(column.is_number for column in described):
            raise SchemaMismatch(
                "Groups are made of categories.", remedy="Bin numbers: bins= of cn.GroupBy, or federation.read_as(...)."
            )
        if any(not schema[name].is_number for name in self.part.values):
            raise SchemaMismatch("Only numbers are added up.", remedy="Name categories in by=.")
        if math.prod(column.size for column in described if not column.is_number) != self.part.groups:
            raise PlanMismatch("The plan gives this party's categories another number of levels.")


class GroupSums(_Groups, JointStep):
    """One party's part in counts and sums by group, of two parties' columns.

    Sensitivity: `colonnade.privacy.laws.groups.GroupNoise`. A person has one indicator that is not 0 at each party, of a fixed
    height, and values of at most γ in magnitude; the party enforces both by how it codes. Checked by
    tests/party/test_group_statistics.py.
    """

    name: ClassVar[str] = "group-sums"
    title: ClassVar[str] = "counts and sums by group with noise in shares"
    parameters: ClassVar[frozenset[str]] = PARAMETERS
    without_columns: ClassVar[bool] = True
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.ANY
    factors: ClassVar[int] = 2

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        self._describe(step, schema, GroupTerms.read({one.party: one for one in plan.steps if one.name == step.name}))

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.part.width

    @property
    def loss(self) -> Loss:
        """The full loss of the opening; nothing, for a helper."""
        loss = self.joint.noise.loss(party=self.party if self.part.helps else self._owner)
        assert loss is not None  # with no more colluders than the plan allows, noise is left
        return loss

    @classmethod
    def terms(cls, plan: Plan, steps: Steps) -> Joint:
        """Return the terms, with what is opened of all products."""
        terms = GroupTerms.read(steps)
        if len(terms.holders) != cls.factors:
            raise PlanMismatch("A step of groups takes columns of another number of parties than hold them.")
        return replace(super().terms(plan, steps), fold=cls._fold(terms), sums=terms.entries)

    @classmethod
    def _fold(cls, terms: GroupTerms) -> Integers:
        return terms.fold_of_two()

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return the noise of all numbers together."""
        return GroupTerms.read(steps).noise(shared_price(steps), plan.unit, plan.collusion)

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:
        """Values, or indicators, are multiplied by indicators."""
        return GroupTerms.read(steps).largest


class GroupChain(GroupSums):
    """One party's part in counts and sums by group, of three parties' columns.

    Between the two products nodes deal their shares again. One that deviates there could amplify a person's row past the noise.
    So compute nodes are trusted to compute as written, and the coordinator may not be one of them (`colonnade.steps.newton`).
    """

    name: ClassVar[str] = "group-chain"
    title: ClassVar[str] = "counts and sums by group over three parties with noise in shares"
    conversation: ClassVar[str] = "groups"
    factors: ClassVar[int] = 3

    @classmethod
    def terms(cls, plan: Plan, steps: Steps) -> Joint:
        """Return the terms: exactly 2t + 1 nodes compute, and none of them is the coordinator."""
        nodes = plan.compute_nodes[: 2 * plan.threshold + 1]
        if COORDINATOR in nodes:
            raise NotEnoughComputeNodes(
                "Groups over three parties need compute nodes besides the coordinator: a node could spoil what it deals again.",
                remedy='Add a node without data (compute_nodes=["helper"] in a simulation).',
            )
        return replace(super().terms(plan, steps), nodes=nodes, redealt=len(GroupTerms.read(steps).chain.first))

    @classmethod
    def _fold(cls, terms: GroupTerms) -> Integers:
        return terms.fold_of_three()

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what is assumed of compute nodes, colluders and inputs."""
        nodes = cls.read(whole.plan, whole.name).nodes
        return (COMPUTING.format(roles="compute nodes", members=", ".join(nodes)), *super().assumptions(whole))


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
        return loss * math.ceil(Fraction(noise.replaced, noise.moved()))
