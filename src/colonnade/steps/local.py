"""Steps that one party answers alone, with noise of its own: counts, reports, centres, sums of squares.

Steps over categories count a combination of category columns, or the nearest of centres released earlier. A step that names
``centres_of`` counts the second: the party takes the centres from its own ledger, where an earlier step of the same plan
kept them, never from a request. They are an adaptive input: with the centres fixed, a person's record decides that person's
category and no other, so sensitivities are as for any category, and the losses of the two steps add. A person without a
value in any of the columns has no category. On the secure channel and in a histogram such a person is counted nowhere. In
randomised response such a person reports about one more category, which nobody else has and which is not counted
(`report_cells`). It is there if the schema declares that a category leaves people out. Elsewhere everybody has a category, and
the report of a null record is uniformly random. So zeroing a record out moves one cell by one, or changes one report.

Steps in which the parties agree on a secret: keys, and divisions of the people. That releases and costs nothing.
"""

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, ProtocolError, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.additive import DiscreteLaplace, count_noise, replaced_count_loss
from colonnade.privacy.laws.local_clustering import LARGEST_CLUSTERS, LocalClustering
from colonnade.privacy.laws.response import RandomizedResponse, best_channel
from colonnade.protocol import messages
from colonnade.result import Opening
from colonnade.schema import Column, Schema
from colonnade.secure.keys import OVERHEAD
from colonnade.steps.kind import (
    HELLO,
    LARGEST_NUMBER,
    LARGEST_SHORT_SCALE,
    SEED,
    SMALL,
    Admission,
    Earlier,
    FixedPoint,
    Forecast,
    RowOrderKind,
    ScoreWeights,
    StepChannel,
    StepKind,
    WholeStep,
    nothing_earlier,
    number_list,
    number_parameter,
    seed_parameter,
    valid_scale,
    whole_parameter,
)


class CodedBlock:
    """One party's columns as small integers, behind a flag that says whether there is a record at all.

    A row without a value in any column is no record: it is in no cell, and nearest to no centre. A row with some values has the
    midpoint where one is missing, like everywhere.

    Parameters
    ----------
    step, schema
        Which columns, and what is public about them. The step's ``scale`` is γ.
    """

    def __init__(self, step: Step, schema: Schema) -> None:
        scale = valid_scale(step.parameters.get("scale"), LARGEST_SHORT_SCALE)
        self.columns = step.columns
        self.coding = FixedPoint(step.columns, schema, scale=scale, row_bound=scale**2 * len(step.columns))
        self.scale = scale
        lower = [
            0 if not schema[name].is_number else -scale
            for name, width in zip(step.columns, self.coding.widths, strict=True)
            for _ in range(width)
        ]
        self.lower = np.array(lower, dtype=np.int64)


class Centres(StepKind):
    """k′ centres of a party's own columns, mapped to [−1, 1] by their bounds; categories as indicators.

    Sensitivity: under zero-out a person's row disappears from one cell of each of the law's questions;
    `colonnade.privacy.laws.local_clustering.LocalClustering` has the proof. Checked by tests/party/test_local_clustering.py.
    """

    name: ClassVar[str] = "centres"
    title: ClassVar[str] = "private local clustering"
    parameters: ClassVar[frozenset[str]] = frozenset({"scale", "clusters", "seed"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.block = CodedBlock(step, schema)
        self.clusters = whole_parameter(step.parameters, "clusters", LARGEST_CLUSTERS)
        self.seed = whole_parameter(step.parameters, "seed", 2**31 - 1, least=0)

    def law(self, price: Price) -> Mechanism:
        """Return the clustering that this price buys."""
        return LocalClustering(
            price,
            self.block.lower,
            self.block.scale,
            len(self.columns),
            people=self.people,
            clusters=self.clusters,
            seed=self.seed,
        )

    @property
    def release_bytes(self) -> int:
        """Eight bytes per coordinate of a centre."""
        return 8 * self.clusters * self.block.coding.width


MEMBERSHIP = frozenset({"centres_of", "clusters"})
"""The parameters that turn a step over categories into one over memberships."""

LARGEST_JOINT_CATEGORY = 65_536


class Combination:
    """The combination of a party's category columns."""

    def __init__(self, step: Step, schema: Schema) -> None:
        self.columns = step.columns
        described = [_category(name, schema) for name in step.columns]
        self.size = math.prod(column.size for column in described)
        self.leaves_out = any(column.excludes for column in described)
        if self.size > LARGEST_JOINT_CATEGORY:
            raise BadInput(
                f"The columns of one party have more than {LARGEST_JOINT_CATEGORY} joint levels.",
                remedy="Name fewer of its columns, or columns with fewer levels.",
            )


class Membership:
    """The nearest of the centres that an earlier step of the plan released at this party."""

    leaves_out = False  # every person with a row has a nearest centre

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier) -> None:
        self.centres_of = str(step.parameters.get("centres_of"))
        source = plan.step(step.party, self.centres_of)
        if source.kind != Centres.name or source.columns != step.columns:
            raise PlanMismatch("A step counts memberships of centres of other columns, or of no centres.")
        self.source = Centres(plan, source, schema)
        self.size = self.source.clusters
        if step.parameters.get("clusters") != self.size:
            raise PlanMismatch("A step's number of clusters is not the one that was asked for.")
        self.columns = step.columns
        self._earlier = earlier

    def centres(self) -> NDArray[np.int64]:
        """Return the centres as they were released."""
        centres = self._earlier(self.centres_of).get("value")
        if centres is None or centres.shape != (self.size, self.source.block.coding.width):
            raise ProtocolError("The centres that this step rests on do not have the planned shape.")
        return centres.astype(np.int64)


def category_of(plan: Plan, step: Step, schema: Schema, earlier: Earlier) -> Combination | Membership:
    """Return what a step over categories counts."""
    if "centres_of" in step.parameters:
        return Membership(plan, step, schema, earlier)
    return Combination(step, schema)


def _category(name: str, schema: Schema) -> Column:
    column = schema[name]
    if column.is_number:
        raise SchemaMismatch(
            f"Column {name!r} is numeric; counting needs categories.",
            remedy="Declare it as cn.Category, or bin it at the source.",
        )
    return column


def report_cells(size: int, *, leaves_out: bool) -> int:
    """Return how many categories a randomised report is about.

    One more than there are levels where a person may have none of them: that person reports about the last one. Zeroing out a
    record then changes one report from one category to another, as any other change does, at the same price. A column with one
    level has a second category too, because there is no report about one.

    Examples
    --------
    >>> report_cells(3, leaves_out=False), report_cells(3, leaves_out=True), report_cells(1, leaves_out=False)
    (3, 4, 2)
    """
    return max(size + leaves_out, 2)


class HistogramStep(StepKind):
    """Counts of one party's category (`colonnade.steps.local`).

    Sensitivity: under zero-out one person leaves one cell, which changes by exactly one (a missing record is in no cell), so
    Δ₁ = Δ₂ = 1. Checked by tests/party/test_statistics.py.
    """

    name: ClassVar[str] = "histogram"
    title: ClassVar[str] = "histogram with discrete noise"
    parameters: ClassVar[frozenset[str]] = MEMBERSHIP
    sensitivity: ClassVar[int] = 1

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.category = category_of(plan, step, schema, earlier)
        self.size = self.category.size

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise at δ = 0, else discrete Gaussian noise."""
        return count_noise(price, self.sensitivity)

    @property
    def release_bytes(self) -> int:
        """Eight bytes per cell."""
        return 8 * self.size

    def replaced_loss(self, loss: Loss) -> Loss | None:
        """Return twice the loss: two cells move, by one each."""
        return replaced_count_loss(loss)


class Reports(StepKind):
    """Each person's category at this party (`colonnade.steps.local`), randomised person by person.

    Sensitivity: a person's record decides that person's report and no other. A person that the columns leave out reports about
    a category of its own, like a null record (`report_cells`). ``sample`` (a rate) and ``seed`` restrict the
    reports to people chosen by public coins. Everyone can see who was chosen, so this saves bytes and buys no privacy: a chosen
    person pays the full ε. Checked by tests/party/test_statistics.py.
    """

    name: ClassVar[str] = "reports"
    title: ClassVar[str] = "randomised response"
    parameters: ClassVar[frozenset[str]] = frozenset({"sample", "seed"}) | MEMBERSHIP

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.category = category_of(plan, step, schema, earlier)
        self.size = self.category.size
        self.cells = report_cells(self.size, leaves_out=self.category.leaves_out)
        self.sample = _rate(step.parameters.get("sample", 1.0))
        self.seed = seed_parameter(step.parameters, default="00" * 32)

    def law(self, price: Price) -> Mechanism:
        """Return the response of least variance for this many categories at this price."""
        return RandomizedResponse(best_channel(self.cells, price))

    @property
    def release_bytes(self) -> int | None:
        """A report's width per person who takes part."""
        if self.price is None:
            return None
        return int(self.people * self.sample) * best_channel(self.cells, self.price).report_width

    def replaced_loss(self, loss: Loss) -> Loss:
        """Return the same loss: a report is as private either way."""
        return loss


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise BadInput("sample must be a rate in (0, 1].", remedy="For example method=cn.methods.Response(sample=0.5).")
    return float(value)


class SquaredLength(StepKind):
    """Σ (‖x‖² + w·x) over one party's coded columns: a party's part of a sum of squared distances.

    Each person's term is rounded to a step of 1/height of the largest magnitude and clamped to it. ‖x − c‖² − ‖c‖² is such a
    term, with w = −2c. A null record is coded as 0, so its term is 0: zeroing one out moves the sum by at most ``height``.
    Checked by tests/party/test_score_statistics.py.
    """

    name: ClassVar[str] = "squared-length"
    title: ClassVar[str] = "sum of squared lengths with discrete Laplace noise"
    parameters: ClassVar[frozenset[str]] = frozenset({"weights", "largest", "height"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.scores = ScoreWeights(step.columns, schema, number_list(step.parameters, "weights"))
        self.largest = number_parameter(step.parameters, "largest")
        self.height = whole_parameter(step.parameters, "height")
        if self.scores.outputs != 1 or self.largest < 1 / LARGEST_NUMBER or plan.people * self.height >= 2**62:
            raise BadInput("A sum of squares has one row of weights, a largest magnitude, and fits eight bytes.")

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise."""
        return DiscreteLaplace(price, Fraction(self.height))

    @property
    def release_bytes(self) -> int:
        """One number."""
        return 8


KEY_BYTES = 32
PARTS = ("train", "test")


class KeyStep(StepKind):
    """One party's part in agreeing on a secret."""

    channel: ClassVar[StepChannel] = StepChannel.KEY
    admission: ClassVar[Admission] = Admission.NOTHING
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.ANY

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.members(plan, step.name)

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the parties that have the step: two or more, and none of them asked for anything else in it."""
        steps = [step for step in plan.steps if step.name == name]
        if len(steps) < 2 or any(step.kind != cls.name or step.columns or step.price is not None for step in steps):
            raise PlanMismatch("A secret is agreed on by two or more parties, and costs and releases nothing.")
        plan.require_named()
        return tuple(sorted(step.party for step in steps))

    @classmethod
    def discloses(cls, step: Step) -> bool:
        """Nothing leaves."""
        return False

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Nothing is opened."""
        return ()

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Nothing is assumed: what a key is used for says what rests on it."""
        return ()


class GroupKey(KeyStep):
    """A key that the parties share (`colonnade.conversations.agreements`)."""

    name: ClassVar[str] = "group-key"
    title: ClassVar[str] = "group key"
    conversation: ClassVar[str] = "group-key"
    keeps_key: ClassVar[bool] = True

    @classmethod
    def forecast(cls, whole: WholeStep, forecast: Forecast, *, kept: bool) -> bool:
        """Add the rounds: recall, greet, commit, reveal, settle; and in the end, forget."""
        parties = list(whole.steps)
        small, half = dict.fromkeys(parties, SMALL), dict.fromkeys(parties, SMALL // 2)
        forecast.round(small, half)
        if not kept:
            letters = dict.fromkeys(parties, (len(parties) - 1) * (OVERHEAD + 2 * SEED) + SMALL)
            forecast.round(small, dict.fromkeys(parties, HELLO + SMALL))
            forecast.round(dict.fromkeys(parties, len(parties) * HELLO), letters)
            forecast.round(letters, letters)
            forecast.round(letters, half)
        forecast.round(small, half)
        return True


class Split(KeyStep):
    """A division of the people in two by a keyed hash (`colonnade.conversations.agreements`)."""

    name: ClassVar[str] = "split"
    title: ClassVar[str] = "division of people by a keyed hash"
    conversation: ClassVar[str] = "group-key"
    parameters: ClassVar[frozenset[str]] = frozenset({"test"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.share = _share(step)

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the parties that have the step; all of them are asked for the same division."""
        members = super().members(plan, name)
        if len({_share(step) for step in plan.steps if step.name == name}) != 1:
            raise PlanMismatch("The parties are asked for different divisions.")
        return members


def part_identity(plan: Plan, part: str) -> str:
    """Return the name of a part as an order of rows: a function of the plan, which names the order that is divided."""
    return hashlib.sha256(b"colonnade split 1\0" + messages.digest(plan) + part.encode()).hexdigest()


def key_holders(plan: Plan, name: str) -> list[str]:
    """Return the parties that agree on a key in the step of a given name."""
    return [step.party for step in plan.steps if step.name == name and step.kind == GroupKey.name]


def _share(step: Step) -> float:
    """Return which share of people belongs to the second part."""
    share = step.parameters.get("test")
    if type(share) is not float or not 0 < share < 1:
        raise PlanMismatch("A division has a share between 0 and 1.")
    return share
