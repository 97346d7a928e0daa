"""How exact a result will be, as far as the noise alone decides it.

The noise of what is released is known exactly before anything runs. What it does to a result may also depend on how far columns
spread between their bounds and on how they hang together, which nobody knows before. Then a preview says that the error is
unknown, and why (docs/explanation/previews.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from colonnade.errors import BadInput

PREDICTION = "a prediction"
COLUMNS = "it depends on how far columns spread between their bounds, and on whether they measure the same"
SAME = 1.01
"""Errors that differ by less than this factor on tables that have nothing in common do not depend on data."""


@dataclass(frozen=True)
class ExpectedError:
    """How far the privacy noise is expected to move one result, or the reason why that is not known.

    It is the root mean square of (what the study returns − what the same method would return without noise), over draws of the
    noise and, for a result with many entries, over the entries. It does not include the error of sampling people or of what a
    method assumes about them.

    Parameters
    ----------
    quantity
        The result that it is the error of: a fitted attribute such as ``"counts_"``, or a few words.
    value
        The expected error; positive. ``None`` if it is not known.
    unit
        The unit of the error, such as ``"people"``.
    unknown
        Why it is not known; empty if it is.

    Examples
    --------
    >>> ExpectedError("counts_", 12.5, "people")
    counts_: about 12.5 people
    >>> ExpectedError.if_same("value_", (1.0, 2.0), "people", "it depends on how large sums are")
    value_: unknown, because it depends on how large sums are
    """

    quantity: str
    value: float | None
    unit: str
    unknown: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.unknown):
            raise BadInput("An expected error has either a value or a reason why it is not known.")

    @classmethod
    def if_same(cls, quantity: str, errors: Sequence[float], unit: str, reason: str) -> "ExpectedError":
        """Return the error if it is the same on tables that have nothing in common; otherwise it is not known."""
        return (
            cls(quantity, max(errors), unit)
            if max(errors) <= SAME * min(errors)
            else cls.not_known(quantity, unit, reason)
        )

    @classmethod
    def not_known(cls, quantity: str, unit: str, reason: str = COLUMNS) -> "ExpectedError":
        """Return an error that is not known, for a reason."""
        return cls(quantity, None, unit, unknown=reason)

    def __repr__(self) -> str:
        if self.value is None:
            return f"{self.quantity}: unknown, because {self.unknown}"
        return f"{self.quantity}: about {self.value:,.4g} {self.unit}"


def noise_floor(width: int, variance: float) -> float:
    """Return the variance below which a direction is lost in the noise: the largest eigenvalue of the noise, 2·σ√d.

    Parameters
    ----------
    width
        The number of coded columns.
    variance
        Of the noise in an entry of their covariance matrix.
    """
    return 2 * math.sqrt(width * variance)
