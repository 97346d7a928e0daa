"""Steps that open products of parties' columns: Gram matrices, pair tables, moments on a union, regression coefficients.

The Gram matrix is Secure PCA, Algorithm 2. The coefficients are the Functional mechanism across parties; which of them are
opened stands here entry by entry, the same arrays for parties and coordinator. A party's coded columns stand in the order
of its step, the target's last. In front of a party's own block stands a constant column, whose products are the sums. The
paper opens every ordered pair; we open each pair once, and only what the coding does not already say
(docs/proofs/coefficients.md).

On a union of lists each party has null records where it lacks a person. Products between the parties then count the people
in common by themselves. What a party could compute alone, the products of its own columns, would count all its people. So
they are shared too, and multiplied by the other party's indicator. That is still of degree two.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.coefficients import Block, CoefficientNoise, Holding
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.shared import SharedNoise
from colonnade.privacy.laws.tables import TableNoise
from colonnade.privacy.laws.union import UnionNoise
from colonnade.schema import Schema
from colonnade.secure.rectangles import entry_pairs
from colonnade.steps.joint import JointStep, shared_price
from colonnade.steps.kind import Earlier, RowOrderKind, Steps, nothing_earlier
from colonnade.steps.local import MEMBERSHIP, category_of
from colonnade.steps.terms import BoundedScores, FixedPoint, whole_parameter, word_list

__all__ = [
    "PROTOCOLS",
    "Coefficients",
    "CrossEntries",
    "Entries",
    "Gram",
    "PairTables",
    "UnionCross",
    "UnionOwn",
    "cross_entries",
    "own_entries",
    "widths_of",
]


class Gram(JointStep):
    """One party's columns of a Gram matrix of all parties' columns.

    Sensitivity: `colonnade.privacy.laws.gram.GramNoise`. Every row of every party is an integer vector of squared length
    at most its ``row_bound``, which the party that holds it enforces. With ``weights`` the columns are scores of a public model
    (`colonnade.steps.terms`). The own part is the upper triangle of the party's own columns with a constant column in front,
    without the number of people.
    """

    name: ClassVar[str] = "gram"
    title: ClassVar[str] = "Gram matrix with noise in shares"
    in_tiles: ClassVar[bool] = True
    parameters: ClassVar[frozenset[str]] = (
        frozenset({"scale", "signed", "row_bound", "width", "noise"}) | BoundedScores.parameters
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        assert isinstance(self.joint.noise, GramNoise)  # see `noise` below
        self.own_noise = self.joint.noise
        scale = whole_parameter(step.parameters, "scale")
        row_bound = whole_parameter(step.parameters, "row_bound")
        self.coding: FixedPoint | BoundedScores
        if "weights" in step.parameters:
            self.coding = BoundedScores(step.columns, schema, step.parameters, scale=scale, row_bound=row_bound)
        else:
            signed = word_list(step.parameters, "signed")
            self.coding = FixedPoint(step.columns, schema, scale=scale, signed=signed, row_bound=row_bound)
        if step.parameters.get("width") != self.coding.width:
            raise PlanMismatch("The plan gives this party's columns another width.")

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.coding.width

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return the noise of the matrix."""
        scales = {whole_parameter(step.parameters, "scale") for step in steps.values()}
        laws = {step.parameters.get("noise", "gaussian") for step in steps.values()}
        if len(scales) != 1 or len(laws) != 1:
            raise PlanMismatch("The parties of a Gram matrix are asked for different scales or noise.")
        return GramNoise(
            row_bounds={party: whole_parameter(step.parameters, "row_bound") for party, step in steps.items()},
            constant=scales.pop() ** 2,
            columns=sum(whole_parameter(step.parameters, "width") for step in steps.values()),
            price=shared_price(steps),
            unit=plan.unit,
            collusion=plan.collusion,
            family=laws.pop(),  # type: ignore[arg-type]  # checked by the noise itself
        )

    @classmethod
    def own_entries(cls, steps: Steps) -> dict[str, int]:
        """Return the sums, squares and products of each party's own columns."""
        widths = {party: whole_parameter(step.parameters, "width") for party, step in steps.items()}
        return {party: (width + 1) * (width + 2) // 2 - 1 for party, width in widths.items()}


class PairTables(JointStep):
    """One party's category in the pair tables of all parties' categories.

    Sensitivity: `colonnade.privacy.laws.tables.TableNoise`. A person moves one cell of each table by one.
    """

    name: ClassVar[str] = "pair-tables"
    title: ClassVar[str] = "pair tables with noise in shares"
    parameters: ClassVar[frozenset[str]] = frozenset({"width"}) | MEMBERSHIP
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.ANY

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        self.category = category_of(plan, step, schema, earlier)
        if step.parameters.get("width") != self.category.size:
            raise PlanMismatch("The plan gives this party's categories another number of levels.")

    @property
    def width(self) -> int:
        """How many levels the category has."""
        return self.category.size

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return the noise of all tables together."""
        widths = [whole_parameter(step.parameters, "width") for step in steps.values()]
        cells = len(entry_pairs(widths)[0])
        return TableNoise(tuple(steps), shared_price(steps), plan.unit, plan.collusion, cells)

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:
        """Indicators are multiplied."""
        return 1, 1


CROSS = "cross"


class UnionCross(JointStep):
    """One party's columns, with its indicator in front, in the products between the two parties.

    For the party unit the loss is that of a whole record: a record at one party is what puts a person in common.
    """

    name: ClassVar[str] = "union-cross"
    title: ClassVar[str] = "Gram matrix of the people in common, with noise in shares"
    parameters: ClassVar[frozenset[str]] = frozenset({"scale", "signed", "row_bound", "width", "coded", "part"})
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.UNION

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self._owner = None
        self.joint = self.read(plan, step.name)
        assert isinstance(self.joint.noise, UnionNoise)  # see `noise` below
        self.own_noise = self.joint.noise
        self.coding = FixedPoint(
            step.columns,
            schema,
            scale=whole_parameter(step.parameters, "scale"),
            signed=word_list(step.parameters, "signed"),
            row_bound=whole_parameter(step.parameters, "row_bound"),
        )
        if step.parameters.get("coded") != self.coding.width or step.parameters.get("width") != self.width:
            raise PlanMismatch("The plan gives this party's columns another width.")

    @property
    def width(self) -> int:
        """How many integers a row has: the indicator and the coded columns."""
        return 1 + self.coding.width

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return the noise of one of the three steps; it is calibrated for all of them, whichever are asked for."""
        shared = {(step.parameters.get("scale"), step.parameters.get("part")) for step in steps.values()}
        if len(shared) != 1 or len(steps) != 2:
            raise PlanMismatch("The parties of a union are asked for different parts, or without a price.")
        scale, part = shared.pop()
        if type(scale) is not int or not isinstance(part, str) or not cls._opens(part):
            raise PlanMismatch("A step of a union does not say which part of the moments it opens.")
        noise = UnionNoise(
            row_bounds={party: whole_parameter(step.parameters, "row_bound") for party, step in steps.items()},
            widths={party: whole_parameter(step.parameters, "coded") for party, step in steps.items()},
            constant=scale**2,
            price=shared_price(steps),
            unit=plan.unit,
            collusion=plan.collusion,
            part=part,
        )
        if any(step.parameters.get("width") != cls._width(noise, party) for party, step in steps.items()):
            raise PlanMismatch("A step of a union has another width than its part.")
        return noise

    @classmethod
    def _opens(cls, part: str) -> bool:
        return part == CROSS

    @classmethod
    def _width(cls, noise: UnionNoise, party: str) -> int:
        return noise.widths[party] + 1


class UnionOwn(UnionCross):
    """One party's own products, or the indicator that the other party multiplies them by."""

    name: ClassVar[str] = "union-own"
    title: ClassVar[str] = "own products of the people in common, with noise in shares"

    @property
    def width(self) -> int:
        """The upper triangle of this party's products, if they are the part; otherwise the indicator."""
        coded = self.coding.width
        return coded * (coded + 1) // 2 if self.own_noise.part == self.party else 1

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:
        """Products are multiplied by an indicator."""
        scale, other = super().largest(plan, steps)
        return scale * other, 1

    @classmethod
    def _opens(cls, part: str) -> bool:
        return part != CROSS

    @classmethod
    def _width(cls, noise: UnionNoise, party: str) -> int:
        return noise.entries_of(party) if noise.part == party else 1


Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

PROTOCOLS = ("top_down", "bottom_up")


@dataclass(frozen=True)
class Entries:
    """Some entries of one block, as indices into it, and which of them are slope."""

    rows: Indices
    columns: Indices
    slope: Flags


def own_entries(widths: tuple[int, ...], *, target: bool) -> Entries:
    """Return a party's own entries: index 0 is the constant, then its coded columns.

    Parameters
    ----------
    widths
        How many coded columns each of its columns has, in order.
    target
        Whether the last of them is the target.

    Examples
    --------
    >>> entries = own_entries((1, 2), target=False)
    >>> list(zip(entries.rows.tolist(), entries.columns.tolist()))
    [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    """
    column = np.repeat(np.arange(len(widths) + 1), (1, *widths))
    aim = len(widths) if target else -1
    rows, columns = (places.astype(np.int64) for places in np.triu_indices(len(column)))
    squares = (rows == columns) & (np.array((0, *widths)) == 1)[column[rows]] & (column[rows] != aim)
    kept = (column[rows] != column[columns]) | squares
    return Entries(rows[kept], columns[kept], column[columns[kept]] == aim)


@dataclass(frozen=True)
class CrossEntries:
    """All entries between two parties, in the order in which they are opened.

    Parameters
    ----------
    widths
        By party, the widths of its columns.
    holder
        Who holds the target, as its last column.
    """

    widths: Mapping[str, tuple[int, ...]]
    holder: str

    @cached_property
    def groups(self) -> list[tuple[Block, bool, Indices]]:
        """Return, for each pair of parties, the places of its curvature and of its slope among all opened entries."""
        return [group for group in self._grouped() if len(group[2])]

    def _grouped(self) -> Iterator[tuple[Block, bool, Indices]]:
        parties = list(self.widths)
        totals = [sum(widths) for widths in self.widths.values()]
        owner = np.repeat(np.arange(len(parties)), totals)
        aims = np.zeros(len(owner), dtype=np.bool_)
        end = sum(totals[: parties.index(self.holder) + 1])
        aims[end - self.widths[self.holder][-1] : end] = True
        first, second = entry_pairs(totals)
        slope = aims[first] | aims[second]
        for one, other in combinations(range(len(parties)), 2):
            pair = (owner[first] == one) & (owner[second] == other)
            for flag in (False, True):
                yield (parties[one], parties[other]), flag, np.flatnonzero(pair & (slope == flag))


class Coefficients(JointStep):
    """One party's columns in the objective of a regression.

    Sensitivity: `colonnade.privacy.laws.coefficients.CoefficientNoise`. Entries of a coded row never exceed γ in magnitude
    and a category has a single one that is not 0, whatever the data; the party that holds the row enforces it by how it codes.
    """

    name: ClassVar[str] = "coefficients"
    title: ClassVar[str] = "Laplace noise in shares on an objective's coefficients"
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"scale", "signed", "width", "widths", "target", "emphasis", "protocol"}
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        assert isinstance(self.joint.noise, CoefficientNoise)  # see `noise` below
        self.own_noise = self.joint.noise
        scale = whole_parameter(step.parameters, "scale")
        self.coding = FixedPoint(
            step.columns,
            schema,
            scale=scale,
            signed=word_list(step.parameters, "signed"),
            row_bound=scale**2 * len(step.columns),  # what coding keeps by itself: nothing is clipped
        )
        if tuple(self.coding.widths) != widths_of(step):
            raise PlanMismatch("The plan gives this party's columns other widths.")
        self.entries = own_entries(widths_of(step), target=step.parameters["target"] is True)
        self.cross = cross_entries(self.joint.steps)

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.coding.width

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return the noise of the coefficients; refuse steps that do not fit together."""
        names = ("scale", "emphasis", "protocol")
        same = {tuple(step.parameters.get(name) for name in names) for step in steps.values()}
        if len(same) != 1:
            raise PlanMismatch("The parties of a regression are asked for different scales, emphasis or protocols.")
        scale, emphasis, protocol = same.pop()
        if type(scale) is not int or type(emphasis) is not int or protocol not in PROTOCOLS:
            raise BadInput("A step of a regression lacks its scale, its emphasis or its protocol.")
        return CoefficientNoise(
            holdings={party: _holding(step) for party, step in steps.items()},
            gamma=scale,
            prices={party: _price(step) for party, step in steps.items()},
            unit=plan.unit,
            collusion=plan.collusion,
            emphasis=emphasis,
            bottom_up=protocol == "bottom_up",
        )

    @classmethod
    def one_price(cls, steps: Steps) -> bool:
        """Return whether one price is offered to all: not where every party names its own."""
        return not all(step.parameters.get("protocol") == "bottom_up" for step in steps.values())


def widths_of(step: Step) -> tuple[int, ...]:
    """Return the widths of a step's columns."""
    widths = step.parameters.get("widths")
    if not isinstance(widths, tuple) or not widths or any(type(width) is not int or width < 1 for width in widths):
        raise BadInput("A step of a regression lacks the widths of its columns.")
    return tuple(int(width) for width in widths)


def cross_entries(steps: Mapping[str, Step]) -> CrossEntries:
    """Return the entries between the parties of a regression."""
    (holder,) = (party for party, step in steps.items() if step.parameters.get("target") is True)
    return CrossEntries({party: widths_of(step) for party, step in steps.items()}, holder)


def _holding(step: Step) -> Holding:
    widths, target = widths_of(step), step.parameters.get("target")
    if type(target) is not bool or sum(widths) != step.parameters.get("width"):
        raise BadInput("A step of a regression does not say whether it holds the target, or gives two widths.")
    features = widths[:-1] if target else widths
    numbers = sum(width == 1 for width in features)
    return Holding(numbers, len(features) - numbers, widths[-1] if target else 0)


def _price(step: Step) -> Price:
    if step.price is None:
        raise PlanMismatch("A joint opening has a price.")
    return step.price
