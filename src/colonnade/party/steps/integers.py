"""From numbers to the integers that are shared, summed and perturbed: the one place, for local and for shared steps.

Every sensitivity rests on a bound on one person's integers. So nothing else in `colonnade.party.steps` rounds a number, or casts
one to an integer (tests/party/test_integer_bounds.py). A number that is not finite is no integer at all. It never passes as one:
the step fails, and says no more than any step that fails on rows (`colonnade.party.refusals.AWAY`). It cannot happen while coding
is total (`colonnade.schema`).
"""

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import SchemaMismatch


def whole_numbers(
    numbers: NDArray[np.float64],
    largest: int,
    *,
    least: int | None = None,
    middle: float = 0.0,
    half: float = 1.0,
    scale: float = 1.0,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return the integers next to ``(numbers − middle) / half · scale``, clamped to the bounds of one person; one pass.

    Parameters
    ----------
    numbers
        A vector.
    largest, least
        The bounds: exact integers of at most 62 bits. By default ``least`` is −``largest``.
    middle, half, scale
        How a number is coded before it is rounded.
    out
        Where the integers go, in any integer type that holds the bounds; by default a new vector of eight bytes each.

    Examples
    --------
    >>> whole_numbers(np.array([0.0, 60.0, 75.0, 1e308]), 4, middle=60.0, half=60.0, scale=4)
    array([-4,  0,  1,  4])
    """
    made = np.empty(len(numbers), dtype=np.int64) if out is None else out
    low, high = -_below(largest if least is None else -least), _below(largest)
    if not _made(numbers, middle, half, float(scale), low, high, made):
        raise _outside()
    return made


def _below(bound: int) -> float:
    """Return the bound as a float, or the float below it: beyond 2⁵³ not every integer is one."""
    found = float(bound)
    return found if found <= bound else math.nextafter(found, -math.inf)


def require_within(integers: NDArray[Any], largest: int) -> None:
    """Refuse integers beyond a bound: after this nothing can fail on a row."""
    if integers.size and max(-int(integers.min()), int(integers.max())) > largest:
        raise _outside()


def _outside() -> SchemaMismatch:
    return SchemaMismatch(
        "A row is not made of integers within the bound of its step.",
        remedy="This is a fault of colonnade, and of no table: report it.",
    )


@njit(cache=True, nogil=True, error_model="numpy")  # dividing by zero gives no number, and is refused as such
def _made(numbers: Any, middle: float, half: float, scale: float, low: float, high: float, out: Any) -> bool:
    """Round and clamp; return whether all were finite. What is no number is not above the lower bound, and becomes that."""
    finite = True
    for i in range(len(numbers)):
        coded = np.rint((numbers[i] - middle) / half * scale)
        finite &= abs(coded) < np.inf
        coded = coded if coded > low else low  # noqa: FURB136  # of no number, `max` might return no number
        coded = coded if coded < high else high  # noqa: FURB136
        out[i] = np.int64(coded)
    return finite
