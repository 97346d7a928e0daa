"""Standardised columns: a first release of means and spreads, and steps that read numbers by what it says.

Noise is the same in every coded coordinate, and declared bounds are far wider than what values spread over. So a plan may begin
with a step in which each party releases noisy sums and sums of squares of its own numbers (`Spreads`). A later step that names it
reads a number x as (x − m)/(r·s): m and s are the mean and the spread that were released, the reach r stands in the plan. Beyond
−1 and 1 values are clipped, so this is a column that is read between narrower bounds, around m.

*Who knows what.* m and s are an adaptive input, and a public one. The party takes them from its own ledger, never from a message
(`Standardised.schema`). The coordinator has the same release, and makes the same columns of it (`centred_columns`). Nobody else
needs them: r and the bound on a row stand in the plan, so noise, sensitivities and arithmetic follow from the plan alone, before
anything is released. With the release fixed, a person's record decides that person's row and no other. A null record is coded
as 0, whatever m is.

*The norm.* A typical number is far below its reach. So a party's numbers are also scaled down together where their squared length
exceeds the plan's ``norm``. Levels and signs are not touched.

Proof: docs/proofs/standardised-columns.md.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, ProtocolError
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws.additive import DiscreteGaussian
from colonnade.schema import Column, Schema, coded_around, in_units_of
from colonnade.steps.kind import Earlier, StepKind, nothing_earlier, number_parameter

SPREADS = "spreads"
"""What the step is called in a plan."""
HEIGHT = 1 << 30
"""The integer that stands for a bound, and for its square. Rounding moves a spread by less than 2⁻¹⁵ of half the range."""
LARGEST_REACH = 2.0**20
NARROWEST = 2.0**-10
"""The smallest spread, in parts of half the declared range. Rounding (`HEIGHT`) stays below a thirtieth of it."""


def numbers_of(columns: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return which of a party's columns are standardised: numbers and dates."""
    return tuple(name for name in columns if schema[name].is_measured)


class Spreads(StepKind):
    """Noisy sums of one party's numbers, coded by their declared bounds, and of their squares.

    Sensitivity: a person adds u and u² to the two sums of a column, both at most `HEIGHT` in magnitude, and a null record adds 0
    to both. So zeroing a record out moves the vector of k columns by at most Δ₂² = 2k·HEIGHT². If it is replaced by another one,
    (u − u′)² + (u² − u′²)² = (u − u′)²(1 + (u + u′)²) is at most 4, at u = −u′ = ±1: twice as much. The square is that of the
    rounded number, or rounding could add to it. Checked by tests/party/test_spreads.py.
    """

    name: ClassVar[str] = SPREADS
    title: ClassVar[str] = "sums and sums of squares with discrete Gaussian noise"

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        if numbers_of(step.columns, schema) != step.columns or len(set(step.columns)) != len(step.columns):
            raise PlanMismatch("Means and spreads are those of numbers and dates, each named once.")
        if plan.people * HEIGHT >= 2**62:
            raise BadInput("There are too many people for sums in eight bytes.")

    def law(self, price: Price) -> DiscreteGaussian:
        """Return discrete Gaussian noise."""
        return self.noise_of(price, len(self.columns))

    @staticmethod
    def noise_of(price: Price, columns: int) -> DiscreteGaussian:
        """Return the noise on the sums of so many columns."""
        return DiscreteGaussian(price, 2 * columns * HEIGHT**2)

    @property
    def release_bytes(self) -> int:
        """Two numbers per column."""
        return 16 * len(self.columns)

    def replaced_loss(self, loss: Loss) -> Loss:
        """Return twice the loss: Δ₂² is twice as large."""
        return loss * 2


class Standardised:
    """How a step reads one party's numbers by what an earlier step of its plan released.

    Parameters
    ----------
    plan, step, schema
        The plan, the later step, and what is public about the party's columns. The step's ``reach`` is how many spreads from its
        mean a number is clipped, ``norm`` the largest sum of squares of the party's coded numbers.
    """

    parameters: ClassVar[frozenset[str]] = frozenset({"standardised", "reach", "norm"})

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        self.source = plan.step(step.party, str(step.parameters.get("standardised")))
        self.reach = number_parameter(step.parameters, "reach")
        self.norm = number_parameter(step.parameters, "norm")
        if min(self.reach, self.norm) < 1 or max(self.reach, self.norm) > LARGEST_REACH:
            raise BadInput(f"The reach and the norm of standardised columns lie between 1 and {LARGEST_REACH:,.0f}.")
        self._check(plan, step, schema)
        self._declared = schema
        self._people = plan.people
        self._spreads = Spreads(plan, self.source, schema)

    def _check(self, plan: Plan, step: Step, schema: Schema) -> None:
        """Refuse to rest on another kind of step, on one that comes later, or on one that read columns otherwise."""
        names = [one.name for one in plan.steps if one.party == step.party]
        if self.source.kind != Spreads.name or names.index(self.source.name) > names.index(step.name):
            raise PlanMismatch("A step is standardised by one that releases no spreads, or that comes later.")
        if self.source.price is None:
            raise PlanMismatch("A step is standardised by one that has no price.")
        if self.source.columns != numbers_of(step.columns, schema):
            raise PlanMismatch("A step is standardised by the spreads of other columns.")
        readings = [{} if one.readings is msgspec.UNSET else one.readings for one in (self.source, step)]
        if any(readings[0].get(name) != readings[1].get(name) for name in self.source.columns):
            raise PlanMismatch("A step is standardised by spreads of columns that were read otherwise.")

    @classmethod
    def of(cls, plan: Plan, step: Step, schema: Schema) -> "Standardised | None":
        """Return how a step is standardised; ``None`` if it is not."""
        if not cls.parameters & set(step.parameters):
            return None
        return cls(plan, step, schema)

    def bound(self, scale: int) -> int:
        """Return the squared length that the party's numbers may not exceed, in integers."""
        return number_bound(self.norm, scale)

    def schema(self, earlier: Earlier) -> Schema:
        """Return the party's columns as the step reads them, from what its own ledger has kept."""
        released = earlier(self.source.name).get("value")
        if released is None or released.shape != (2 * len(self.source.columns),) or released.dtype.kind not in "iu":
            raise ProtocolError("The spreads that this step rests on do not have the planned shape.")
        assert self.source.price is not None  # `_check` has refused it
        variance = self._spreads.law(self.source.price).variance
        described = {name: self._declared[name] for name in self.source.columns}
        return self._declared.read_as(
            centred_columns(described, released, self._people, variance, self.reach, self.norm)
        )


def number_bound(norm: float, scale: int) -> int:
    """Return the squared length that a party's numbers may not exceed, in integers."""
    return max(1, int(scale**2 * norm))


def centred_columns(
    columns: Mapping[str, Column], released: NDArray[Any], people: int, variance: float, reach: float, norm: float
) -> dict[str, Column]:
    """Return one party's numbers as a standardised step reads them: a function of public facts and of what was released.

    All of them are coded in one unit, a number of spreads. It is the reach, or less where declared bounds come before it: as
    little as leaves every row within the norm, and every number within its unit.

    Parameters
    ----------
    columns
        The numbers in the order of the release, by any name.
    released
        All sums, then all sums of squares.
    people
        How many people there are.
    variance
        Of the noise in each entry.
    reach, norm
        As in `Standardised`.

    Examples
    --------
    >>> import numpy as np
    >>> from colonnade.schema import Numeric
    >>> released = np.array([-50 * HEIGHT, 26 * HEIGHT])  # of 100 people: a mean of −0.5 and a spread of 0.1
    >>> found = centred_columns({"income": Numeric(0, 1_000)}, released, 100, 0.0, 4.0, 1.0)["income"]
    >>> [round(float(bound), 3) for bound in (found.low, found.high, found.midpoint, found.half_range)]
    [50.0, 450.0, 250.0, 200.0]
    """
    means, squares = (released / (people * float(HEIGHT))).reshape(2, -1).tolist()
    noise = math.sqrt(variance) / (people * float(HEIGHT))
    found, spreads = dict(columns), {}
    for (name, column), mean, square in zip(columns.items(), means, squares, strict=True):
        spread = _spread(mean, square, noise)
        found[name] = _around(column, mean, min(reach * spread, 2.0))
        if found[name].is_centred:
            spreads[name] = spread * column.half_range
    lengths = [found[name].half_range / spread for name, spread in spreads.items()]
    unit = max(min(reach, math.sqrt(sum(one * one for one in lengths) / norm)), *lengths, 0.0)
    return found | {name: in_units_of(found[name], unit * spread) for name, spread in spreads.items()}


def _spread(mean: float, square: float, noise: float) -> float:
    """Return a spread, in parts of half the declared range.

    The variance that was released may be below 0. It is raised by one standard deviation of its noise (the square's, and twice
    the mean's, times the mean), so that a spread is not taken for less than it may well be, and to a public part of the range.
    """
    mean = min(max(mean, -1.0), 1.0)
    variance = max(square - mean * mean, 0.0) + noise * math.sqrt(1 + 4 * mean * mean)
    return min(max(math.sqrt(variance), NARROWEST), 1.0)


def _around(column: Column, mean: float, distance: float) -> Column:
    """Return a number clipped at a distance from its mean, both in parts of half the declared range."""
    mean = min(max(mean, -1.0), 1.0)
    centre, half = column.midpoint + mean * column.half_range, distance * column.half_range
    least, most = centre - half, centre + half
    if not math.isfinite(abs(least) + abs(most)):
        return column
    if column.whole:
        least, most = math.floor(least), math.ceil(most)
    try:
        return coded_around(column, least, most)
    except BadInput:  # nothing narrower can be computed with
        return column
