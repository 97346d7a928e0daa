"""Steps that open products of parties' columns: Gram matrices, pair tables, moments on a union, regression coefficients.

The Gram matrix is Secure PCA, Algorithm 2. The coefficients are the Functional mechanism across parties; which of them are
opened stands here entry by entry, the same arrays for parties and coordinator. A party's coded columns stand in the order
of its step, the target's last. In front of a party's own block stands a constant column, whose products are the sums. The
paper opens every ordered pair; we open each pair once, and only what the coding does not already say
(docs/proofs/coefficients.md).

On a union of lists each party has null records where it lacks a person. Products between the parties then count the people
in common by themselves. What a party could compute alone, the products of its own columns, would count all its people. So
they are shared too, and multiplied by the other party's indicator. That is still of degree two.

A histogram of scores that add up over parties, by label, read from a plan: who shares what, and which products are added up.

Each party turns its part of a score into a whole number of bins. Two of them, *left* and *right*, end up holding one number each
whose sum is the score's bin: the right one also holds the label. Both share indicators of their number (of number and label), and
the compute nodes add up, on shares, every product of two indicators that belongs to one bin and label. Only those sums are
opened, noised: a person is in one of them, so the histogram costs what one count costs, and nobody ever holds a score.

A further party, a *giver*, divides its number into two, each of them uniform by itself, for left and right
(`colonnade.conversations.products`). Sums are then taken modulo a power of two with room above the bins: a giver without a
record adds the number of bins, which moves the person out of the histogram, as a missing indicator does at left and right.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.coefficients import Block, CoefficientNoise, Holding
from colonnade.privacy.laws.gram import GramNoise, UnionNoise
from colonnade.privacy.laws.shared import SharedNoise
from colonnade.privacy.laws.tables import TableNoise
from colonnade.schema import Schema
from colonnade.secure.shamir import entry_pairs
from colonnade.steps.kind import (
    LARGEST_NUMBER,
    BoundedScores,
    Earlier,
    FixedPoint,
    Joint,
    JointStep,
    RowOrderKind,
    ScoreWeights,
    Steps,
    nothing_earlier,
    number_list,
    number_parameter,
    require_width,
    seed_parameter,
    shared_price,
    whole_list,
    whole_parameter,
    word_list,
)
from colonnade.steps.local import MEMBERSHIP, category_of
from colonnade.steps.spreads import Standardised


class Gram(JointStep):
    """One party's columns of a Gram matrix of all parties' columns.

    Sensitivity: `colonnade.privacy.laws.gram.GramNoise`. Every row of every party is an integer vector of squared length
    at most its ``row_bound``, which the party that holds it enforces. With ``weights`` the columns are scores of a public model
    (`colonnade.steps.kind`). The own part is the upper triangle of the party's own columns with a constant column in front,
    without the number of people.
    """

    name: ClassVar[str] = "gram"
    title: ClassVar[str] = "Gram matrix with noise in shares"
    in_tiles: ClassVar[bool] = True
    parameters: ClassVar[frozenset[str]] = (
        frozenset({"scale", "signed", "row_bound", "width", "noise"})
        | BoundedScores.parameters
        | Standardised.parameters
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        assert isinstance(self.joint.noise, GramNoise)  # see `noise` below
        self.joint_law = self.joint.noise
        scale = whole_parameter(step.parameters, "scale")
        row_bound = whole_parameter(step.parameters, "row_bound")
        self.coding: FixedPoint | BoundedScores
        self.standardised = Standardised.of(plan, step, schema)
        if "weights" in step.parameters:
            if self.standardised is not None:
                raise PlanMismatch("Scores of a model are not standardised.")
            self.coding = BoundedScores(step.columns, schema, step.parameters, scale=scale, row_bound=row_bound)
        else:
            signed = word_list(step.parameters, "signed")
            number_bound = None if self.standardised is None else self.standardised.bound(scale)
            self.coding = FixedPoint(
                step.columns, schema, scale=scale, signed=signed, row_bound=row_bound, number_bound=number_bound
            )
        require_width(step.parameters.get("width"), self.coding.width)

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
            raise PlanMismatch("The plan's number of levels does not match this party's categories.")

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
UNION_PARAMETERS = frozenset({"scale", "signed", "row_bound", "width", "coded", "part"})


class UnionCross(JointStep):
    """One party's columns, with its indicator in front, in the products between the two parties.

    For the party unit the loss is that of a whole record: a record at one party is what puts a person in common.
    """

    name: ClassVar[str] = "union-cross"
    title: ClassVar[str] = "Gram matrix of the people in common, with noise in shares"
    parameters: ClassVar[frozenset[str]] = UNION_PARAMETERS
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.UNION

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self._owner = None
        self.joint = self.read(plan, step.name)
        self.joint_law, self.coding = _union_terms(self.joint, step, schema)

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return the noise of the products between the parties; it is calibrated for all three steps."""
        return _union_noise(plan, steps, between=True)


class UnionOwn(JointStep):
    """One party's own products, or the indicator that the other party multiplies them by.

    For the party unit the loss is that of a whole record, as in `UnionCross`.
    """

    name: ClassVar[str] = "union-own"
    title: ClassVar[str] = "own products of the people in common, with noise in shares"
    parameters: ClassVar[frozenset[str]] = UNION_PARAMETERS
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.UNION

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self._owner = None
        self.joint = self.read(plan, step.name)
        self.joint_law, self.coding = _union_terms(self.joint, step, schema)

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:
        """Products are multiplied by an indicator."""
        scale, other = super().largest(plan, steps)
        return scale * other, 1

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return the noise of one party's own products; it is calibrated for all three steps."""
        return _union_noise(plan, steps, between=False)


def _union_terms(joint: Joint, step: Step, schema: Schema) -> tuple[UnionNoise, FixedPoint]:
    """Return the noise of a step of a union, and how one party's columns are coded."""
    assert isinstance(joint.noise, UnionNoise)  # see `noise` of the step
    coding = FixedPoint(
        step.columns,
        schema,
        scale=whole_parameter(step.parameters, "scale"),
        signed=word_list(step.parameters, "signed"),
        row_bound=whole_parameter(step.parameters, "row_bound"),
    )
    require_width(step.parameters.get("coded"), coding.width)  # the width of its rows was compared with the noise
    return joint.noise, coding


def _union_noise(plan: Plan, steps: Steps, *, between: bool) -> UnionNoise:
    """Return the noise of one of the three steps; it is calibrated for all of them, whichever are asked for."""
    shared = {(step.parameters.get("scale"), step.parameters.get("part")) for step in steps.values()}
    if len(shared) != 1 or len(steps) != 2:
        raise PlanMismatch("The parties of a union are asked for different parts, or without a price.")
    scale, part = shared.pop()
    if type(scale) is not int or not isinstance(part, str) or (part == CROSS) != between:
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
    if any(step.parameters.get("width") != _union_width(noise, party) for party, step in steps.items()):
        raise PlanMismatch("The plan's width of a step of a union does not match its part.")
    return noise


def _union_width(noise: UnionNoise, party: str) -> int:
    """How many integers a row has: indicator and coded columns; or the upper triangle of products, or the indicator alone."""
    if noise.part == CROSS:
        return noise.widths[party] + 1
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
        self.joint_law = self.joint.noise
        scale = whole_parameter(step.parameters, "scale")
        self.coding = FixedPoint(
            step.columns,
            schema,
            scale=scale,
            signed=word_list(step.parameters, "signed"),
            row_bound=scale**2 * len(step.columns),  # what coding keeps by itself: nothing is clipped
        )
        if tuple(self.coding.widths) != widths_of(step):
            raise PlanMismatch("The plan's widths do not match this party's coded columns.")
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


LARGEST_MODULUS = 1 << 12
DROPPED = -1
NOBODY = -1


def modulus_for(bins: int, givers: int) -> int:
    """Return the modulus in which sums are taken: room for the bins once, and once more per giver; 0 where nothing can wrap."""
    return 0 if givers == 0 else 1 << (bins * (givers + 1) - 1).bit_length()


@dataclass(frozen=True)
class ScoreTable:
    """One histogram.

    Parameters
    ----------
    left, right, givers
        Who has which role.
    bins
        How many bins the score has.
    labels
        How many labels there are.
    modulus
        What numbers are added modulo; 0 for plain addition.
    levels
        How many values the left and the right number can take.
    """

    left: str
    right: str
    givers: tuple[str, ...]
    bins: int
    labels: int
    modulus: int
    levels: tuple[int, int]

    @classmethod
    def read(cls, plan: Plan, steps: Mapping[str, Step]) -> "ScoreTable":
        """Read a histogram from the steps of a plan; refuse one that its parties would understand differently."""
        roles = {party: step.parameters.get("role") for party, step in steps.items()}
        left = [party for party, role in roles.items() if role == "left"]
        right = [party for party, role in roles.items() if role == "right"]
        givers = tuple(party for party, role in roles.items() if role == "giver")
        if len(left) != 1 or len(right) != 1 or len(givers) != len(roles) - 2:
            raise PlanMismatch("A histogram of scores has one left party, one right party, and givers.")
        if plan.collusion > 1:
            raise NotEnoughComputeNodes(
                "A histogram of scores is protected against one colluding party, and the plan asks for more.",
                remedy="Open the federation with collusion=1.",
            )
        shared = {
            tuple(step.parameters.get(name) for name in ("bins", "labels", "step", "seed")) for step in steps.values()
        }
        if len(shared) != 1:
            raise PlanMismatch("The parties of a histogram are asked for different bins.")
        bins, labels = (
            whole_parameter(steps[left[0]].parameters, name, LARGEST_MODULUS) for name in ("bins", "labels")
        )
        parts = {party: whole_parameter(step.parameters, "parts", LARGEST_MODULUS) for party, step in steps.items()}
        if sum(part - 1 for part in parts.values()) + 1 != bins:
            raise PlanMismatch("The parties' parts of a score do not make up its bins.")
        modulus = modulus_for(bins, len(givers))
        if max(modulus, bins) > LARGEST_MODULUS or labels > LARGEST_MODULUS:
            raise BadInput("A histogram of scores has too many bins.", remedy="Ask for fewer.")
        levels = (modulus, modulus) if modulus else (parts[left[0]], parts[right[0]])
        return cls(left[0], right[0], givers, bins, labels, modulus, levels)

    @property
    def widths(self) -> dict[str, int]:
        """How many indicators the left and the right party share, in this order."""
        return {self.left: self.levels[0], self.right: self.levels[1] * self.labels}

    @property
    def cells(self) -> int:
        """How many counts are opened."""
        return self.bins * self.labels

    @cached_property
    def fold(self) -> NDArray[np.int64]:
        """For every product of a left and a right indicator, row by row, the count it belongs to; −1 for none."""
        left = np.arange(self.levels[0])[:, None, None]
        right = np.arange(self.levels[1])[None, :, None]
        label = np.arange(self.labels)[None, None, :]
        total = (left + right) % self.modulus if self.modulus else left + right
        place = np.where(total < self.bins, total * self.labels + label, DROPPED)
        return np.ascontiguousarray(place.reshape(-1), dtype=np.int64)


class ScoreHistogram(JointStep):
    """How many steps this party's part of a score is, for every person; with the label at the party that holds it.

    A part is counted in steps above its public lowest value and rounded up or down by a public coin that no record has a say in
    (dither), so that rounding has no direction. Sensitivity: a person is in one count or in none. A record without any value
    here, or without a label, takes the person out of the histogram, so zeroing a record out, at one party or at all of them,
    moves one count by one (`colonnade.privacy.laws.tables.TableNoise` with one table). Checked by
    tests/party/test_score_statistics.py.
    """

    name: ClassVar[str] = "score-table"
    title: ClassVar[str] = "histogram of scores with noise in shares"
    conversation: ClassVar[str] = "scores"
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"role", "weights", "low", "step", "parts", "bins", "labels", "seed", "label", "points", "guesses", "kept"}
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        self.table = ScoreTable.read(plan, {one.party: one for one in plan.steps if one.name == step.name})
        self.label = _label_of(step, schema, self.table) if step.party == self.table.right else None
        features = [name for name in step.columns if self.label is None or name != self.label.column]
        weights = number_list(step.parameters, "weights")
        self.scores = ScoreWeights(features, schema, weights) if features else None
        if (0 if self.scores is None else self.scores.outputs) != (1 if features else len(weights)):
            raise PlanMismatch("A histogram has one score.")
        self.low = number_parameter(step.parameters, "low")
        self.bin_width = number_parameter(step.parameters, "step")
        if self.bin_width < 1 / LARGEST_NUMBER:
            raise BadInput("The step of a histogram is positive, and of ordinary size.")
        self.parts = whole_parameter(step.parameters, "parts")
        self.seed = seed_parameter(step.parameters)

    @classmethod
    def terms(cls, plan: Plan, steps: Steps) -> Joint:
        """Return the terms: left and right share indicators, whose products are added up by bin and label."""
        table = ScoreTable.read(plan, steps)
        pair = (table.left, table.right)
        return Joint(
            steps={owner: steps[owner] for owner in table.widths},
            widths=list(table.widths.values()),
            noise=TableNoise(pair, shared_price(steps), plan.unit, plan.collusion, table.cells),
            nodes=plan.compute_nodes,
            threshold=plan.threshold,
            people=plan.people,
            largest=1,
            largest_other=1,
            fold=table.fold,
            sums=table.cells,
            preceding=1,
            givers=table.givers,
        )


class Level:
    """A label that stands in a category column."""

    def __init__(self, step: Step, schema: Schema, table: ScoreTable) -> None:
        label = step.parameters.get("label")
        column = schema[label] if isinstance(label, str) and label in step.columns else None
        if column is None or column.is_number:
            raise SchemaMismatch("The label of a histogram is a category of the party that holds it.")
        self.column = str(label)
        self.places = _places(step, table, column.size)


class NearestPoint:
    """A label that stands for the nearest of some public points, by this party's own columns."""

    column = ""

    def __init__(self, step: Step, schema: Schema, table: ScoreTable) -> None:
        self.points = ScoreWeights(step.columns, schema, number_list(step.parameters, "points"))
        self.guesses = np.array(whole_list(step.parameters, "guesses"), dtype=np.int64)
        if len(self.guesses) != self.points.outputs or self.guesses.min() < 0:
            raise PlanMismatch("The plan's points and their labels differ in number.")
        self.places = _places(step, table, int(self.guesses.max(initial=0)) + 1 + max(_kept(step)))


def _label_of(step: Step, schema: Schema, table: ScoreTable) -> Level | NearestPoint:
    if ("label" in step.parameters) == ("points" in step.parameters):
        raise PlanMismatch("A histogram has one label: a column, or the nearest of some points.")
    return Level(step, schema, table) if "label" in step.parameters else NearestPoint(step, schema, table)


def _kept(step: Step) -> tuple[int, ...]:
    kept = whole_list(step.parameters, "kept")
    if not kept or min(kept) < 0:
        raise PlanMismatch("A histogram says which labels it counts.")
    return kept


def _places(step: Step, table: ScoreTable, size: int) -> NDArray[np.int64]:
    """Return for every label, and for none, the place among those that are counted, or −1."""
    kept = _kept(step)
    if len(kept) != table.labels or len(set(kept)) != len(kept) or max(kept) >= size:
        raise PlanMismatch("A histogram counts as many different labels as the plan says.")
    places = np.full(size + 1, NOBODY, dtype=np.int64)
    places[list(kept)] = np.arange(len(kept))
    return places
