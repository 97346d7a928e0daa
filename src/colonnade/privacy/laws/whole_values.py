"""What is public about a column of whole numbers: its bounds, and by how much neighbours may differ in it.

Two relations. *Event*: one person's value at one party changes by at most ``change``; what a change of that size would tell is
hidden, the value's order of magnitude is not. *Whole value* (``change="bounds"``): the value is replaced by any other within the
bounds, the null record's midpoint included, so zero-out holds at the same price.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.privacy.calibration import laplace_scale
from colonnade.privacy.price import Price
from colonnade.schema import Column, Numeric

__all__ = ["Carrier", "Change", "WholeValues", "valid_change"]

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
    >>> WholeValues.of(Numeric(0, 20, integer=True), "visits", 1)
    WholeValues(low=0, high=20, sensitivity=1)
    """

    low: int
    high: int
    sensitivity: int

    @classmethod
    def of(cls, column: Column, name: str, change: Change) -> "WholeValues":
        """Read a column's public description; refuse what is not whole, or may be negative."""
        if not isinstance(column, Numeric) or not column.integer:
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
            raise BadInput(f"Column {name!r} needs two whole numbers or more between its bounds, and none above 2^40.")
        return cls(low, high, high - low if change == "bounds" else min(change, high - low))

    def scale(self, price: Price) -> Fraction:
        """Return the scale of the discrete Laplace noise that a price buys."""
        return laplace_scale(price, self.sensitivity)

    def carrier(self, price: Price) -> Carrier:
        """Return how the noisy values travel."""
        return Carrier.of(self.low, self.high, self.scale(price))
