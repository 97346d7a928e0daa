"""Discrete Laplace noise on each person's own whole number: local differential privacy, and what is public about the column.

Two relations. *Event*: one person's value at one party changes by at most ``change``. What a change of that size would tell is
hidden; the value's order of magnitude is not. *Whole value* (``change="bounds"``): the value is replaced by any other within the
bounds, the null record's midpoint included, so zero-out holds at the same price. Proof: docs/proofs/values-and-moments.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import laplace_scale
from colonnade.privacy.laws import Description, Sampler
from colonnade.privacy.laws.additive import DiscreteLaplace
from colonnade.schema import Column

Change = int | Literal["bounds"]

LARGEST = 2**40
_CLIPPED = 48  # scales: noise beyond them has probability below e^-48 and is clipped where it travels


def valid_change(change: object) -> Change:
    """Return by how much neighbours may differ; refuse what is neither a positive whole number nor ``"bounds"``."""
    if isinstance(change, str) and change == "bounds":
        return "bounds"
    if isinstance(change, bool) or not isinstance(change, Integral) or int(change) < 1:
        raise BadInput(
            "change is a positive whole number, or 'bounds'.",
            remedy="change=1 hides steps of one (event level); change='bounds' hides the whole value.",
        )
    return int(change)


@dataclass(frozen=True)
class Carrier:
    """In what form noisy values travel: as few bytes as hold them, counted from an offset.

    Examples
    --------
    >>> Carrier.of(0, 20, Fraction(2))
    Carrier(dtype='<u2', offset=-96, limit=65535)
    """

    dtype: str
    offset: int
    limit: int

    @classmethod
    def of(cls, low: int, high: int, scale: Fraction) -> "Carrier":
        """Choose for values between bounds with noise of a scale."""
        reach = math.ceil(_CLIPPED * scale)
        span = high - low + 2 * reach
        for dtype in ("<u2", "<i4", "<i8"):
            limit = int(np.iinfo(dtype).max)
            if span <= limit:
                return cls(dtype, low - reach, limit)
        raise BadInput("The noise of a value does not fit eight bytes.", remedy="Raise epsilon, or narrow the bounds.")

    def pack(self, values: NDArray[np.int64]) -> NDArray[Any]:
        """Clip, which is post-processing and has next to no effect, and narrow."""
        return np.clip(values - self.offset, 0, self.limit).astype(self.dtype)

    def unpack(self, packed: NDArray[Any]) -> NDArray[np.int64]:
        """Return the values again."""
        return packed.astype(np.int64) + self.offset


@dataclass(frozen=True)
class WholeValues:
    """One column of whole numbers, and how far neighbours are apart in it.

    Parameters
    ----------
    low, high
        The least and the greatest whole number within the public bounds.
    sensitivity
        The largest change between neighbours.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> WholeValues.of(Numeric(0, 20, integer=True), "visits", 1)
    WholeValues(low=0, high=20, sensitivity=1)
    """

    low: int
    high: int
    sensitivity: int

    @classmethod
    def of(cls, column: Column, name: str, change: Change) -> "WholeValues":
        """Read a column's public description; refuse what is not whole, or may be negative."""
        if not column.is_number or not column.whole:
            raise SchemaMismatch(
                f"Column {name!r} is not declared as whole numbers, which moments need.",
                remedy="Declare it as cn.Numeric(lower, upper, integer=True), counting in a unit that makes it whole.",
            )
        low, high = math.ceil(column.low), math.floor(column.high)
        if low < 0:
            raise SchemaMismatch(
                f"Column {name!r} may be negative; moments of sums are for counts and amounts from 0 up.",
                remedy="Raise the lower bound to 0 or shift the column at the source; for products and squares of "
                "signed numbers see federation.moments.",
            )
        if not low < high <= LARGEST:
            raise BadInput(
                f"Column {name!r} needs two whole numbers or more between its bounds, and none above 2^40.",
                remedy="Change the bounds of the column in the schema.",
            )
        return cls(low, high, high - low if change == "bounds" else min(change, high - low))

    def scale(self, price: Price) -> Fraction:
        """Return the scale of the discrete Laplace noise that a price buys."""
        return laplace_scale(price, self.sensitivity)

    def carrier(self, price: Price) -> Carrier:
        """Return how the noisy values travel."""
        return Carrier.of(self.low, self.high, self.scale(price))


class PerturbedValues:
    """Add an independent integer with ``P(k) ∝ e^(-|k|/scale)`` to each person's value.

    Parameters
    ----------
    price
        What the release may cost; δ is not used.
    values
        The column's bounds, and by how much neighbours differ in it.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = PerturbedValues(Price.of(0.5), WholeValues(0, 20, 1))
    >>> mechanism.scale, mechanism.release(np.array([10, 20, 0]), ExactSampler(SystemRandomness())).dtype.str
    (Fraction(2, 1), '<u2')

    Notes
    -----
    A person's value decides one entry and no other, and that entry is `DiscreteLaplace` with Δ₁ the largest change, so its
    proof is the proof here. The noise is drawn before the value is looked at (``draw``, then ``apply``), so a holder of some of
    the rows can perturb them alone.

    Privacy
    -------
    Guarantee
        Pure ε-DP with ε = Δ₁/scale, the price's ε, for each entry by itself: local differential privacy.
        Proof: docs/proofs/values-and-moments.md.
    Neighbours
        One person's value at one party changes by at most the stated amount (event). With the width of the bounds it is
        replaced by any other, which includes zero-out.
    Adversary
        Anybody who reads all entries; the coordinator and peers are not trusted.
    Numerics
        Integer noise on integers, scale rational, sampler exact. What travels is clipped beyond 48 scales, which is
        post-processing and moves a mean by less than 10⁻¹⁹ scales.
    Checked by
        tests/party/test_moment_statistics.py
    """

    __slots__ = ("_noise", "carrier", "loss", "values")

    name = "discrete Laplace, person by person"
    block = 65_536

    def __init__(self, price: Price, values: WholeValues) -> None:
        self._noise = DiscreteLaplace(price, values.sensitivity)
        self.values = values
        self.carrier = values.carrier(price)
        self.loss = self._noise.loss

    @property
    def scale(self) -> Any:
        """The scale of the noise, exactly."""
        return self._noise.scale

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[Any]:
        """Return every value with noise of its own, block by block."""
        out = np.empty(len(nonprivate), dtype=self.carrier.dtype)
        for start in range(0, len(nonprivate), self.block):
            part = nonprivate[start : start + self.block]
            out[start : start + self.block] = self.apply(part, self.draw(len(part), sampler), sampler)
        return out

    def draw(self, people: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw the noise of some people."""
        return self._noise.release(np.zeros(people, dtype=np.int64), sampler)

    def apply(self, nonprivate: NDArray[Any], coins: NDArray[np.int64], sampler: Sampler) -> NDArray[Any]:  # noqa: ARG002
        """Add noise that was drawn before."""
        if nonprivate.ndim != 1 or nonprivate.dtype.kind not in "iu":
            raise BadInput("Discrete noise is added to one whole number per person.")
        return self.carrier.pack(nonprivate.astype(np.int64) + coins)

    def describe(self) -> Description:
        return self._noise.describe()

    def __repr__(self) -> str:
        return f"PerturbedValues(scale={self.scale}, {self.values})"
