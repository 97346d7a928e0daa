"""A party's own columns in fewer numbers: perturbed rows, random combinations of rows, a sum of squared lengths.

Sketches are the sketch-and-perturb of Primitives, Algorithm 4 and Theorems E.4 and E.5. We differ from the paper in the signs
(±1, so that every person's column of G has length √s exactly and integers stay integers; no check that can fail), in the noise
(discrete, at the exact sensitivity; the paper's Θ(·) taken as 1 would not be private enough), and in one more row, of ones: it
carries the column sums, which let the reader centre the columns.
"""

from fractions import Fraction
from typing import ClassVar

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.gaussian import DiscreteGaussian, NarrowGaussian
from colonnade.privacy.laws.laplace import DiscreteLaplace
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import Price
from colonnade.schema import Schema
from colonnade.secure.signs import Signs
from colonnade.steps.fixed_point import FixedPoint
from colonnade.steps.kind import Earlier, StepKind, nothing_earlier
from colonnade.steps.parameters import LARGEST_NUMBER, number_list, number_parameter, seed_parameter, whole_parameter
from colonnade.steps.scores import ScoreWeights
from colonnade.steps.values import ValueStep

__all__ = ["Rows", "Sketch", "SquaredLength", "ValueSketch"]


class Rows(StepKind):
    """All rows of one party as integers, each entry perturbed: the local-perturbation baseline of Secure PCA, Algorithm 3.

    Sensitivity: zeroing a person's record zeroes one row, whose squared length is at most ``row_bound``, so Δ₂² = ``row_bound``.
    The number of rows is public. Under add/remove it would give the person away (the paper claims that relation, wrongly).
    Checked by tests/party/test_statistics.py.
    """

    name: ClassVar[str] = "rows"
    title: ClassVar[str] = "rows with discrete Gaussian noise"
    parameters: ClassVar[frozenset[str]] = frozenset({"scale"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        scale = whole_parameter(step.parameters, "scale")
        self.coding = FixedPoint(step.columns, schema, scale=scale, row_bound=scale**2 * len(step.columns))

    def law(self, price: Price) -> Mechanism:
        """Return discrete Gaussian noise on every entry, in four bytes each."""
        return NarrowGaussian(price, self.coding.row_bound, self.coding.scale)

    @property
    def release_bytes(self) -> int:
        """Four bytes per entry."""
        return 4 * self.people * self.coding.width

    def replaced_loss(self, loss: Loss) -> Loss:
        """Return four times the loss: a row moves twice as far."""
        return loss * 4


class Sketch(StepKind):
    """G times one party's coded columns, under a row of column sums; s + 1 rows in all.

    Sensitivity: a neighbour's rows differ in one person's integers x. The sketch then differs in that person's column of G, signs
    and a one, times x: Δ₂² = (s + 1)·‖x‖², exactly. Zero-out makes a person's coded row zero, so ‖x‖² is at most ``row_bound``.
    Checked by tests/party/test_sketch_statistics.py.
    """

    name: ClassVar[str] = "sketch"
    title: ClassVar[str] = "random combinations of rows with discrete Gaussian noise"
    parameters: ClassVar[frozenset[str]] = frozenset({"size", "seed", "scale", "row_bound", "width"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.signs = signs_of(step)
        self.coding = FixedPoint(
            step.columns,
            schema,
            scale=whole_parameter(step.parameters, "scale"),
            row_bound=whole_parameter(step.parameters, "row_bound"),
        )
        if step.parameters.get("width") != self.coding.width:
            raise PlanMismatch("The plan gives this party's columns another width.")

    def law(self, price: Price) -> Mechanism:
        """Return discrete Gaussian noise on every entry."""
        return DiscreteGaussian(price, (self.signs.rows + 1) * self.coding.row_bound)

    @property
    def release_bytes(self) -> int:
        """Eight bytes per entry."""
        return 8 * (self.signs.rows + 1) * self.coding.width

    def replaced_loss(self, loss: Loss) -> Loss:
        """Return four times the loss: a row moves twice as far."""
        return loss * 4


class ValueSketch(ValueStep):
    """One column of whole numbers, sketched; neighbours differ in one person's value by the stated change."""

    name: ClassVar[str] = "value-sketch"
    title: ClassVar[str] = "random combinations of one column with discrete Gaussian noise"
    parameters: ClassVar[frozenset[str]] = frozenset({"size", "seed", "change"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.signs = signs_of(step)

    def law(self, price: Price) -> Mechanism:
        """Return discrete Gaussian noise on every entry."""
        return DiscreteGaussian(price, (self.signs.rows + 1) * self.values.sensitivity**2)

    @property
    def release_bytes(self) -> int:
        """Eight bytes per entry."""
        return 8 * (self.signs.rows + 1)


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


def signs_of(step: Step) -> Signs:
    """Return the public signs of a sketch."""
    return Signs(seed_parameter(step.parameters), whole_parameter(step.parameters, "size"))
