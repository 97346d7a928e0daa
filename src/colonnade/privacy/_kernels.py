"""The inner loop of the samplers, compiled. It works on integers only: no rounding, no library functions."""

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["ACCEPTED", "REJECTED", "UNDECIDED", "try_cells"]

REJECTED, ACCEPTED, UNDECIDED = 0, 1, 2

_SIGNATURE = (
    "void(uint64[::1], int64, uint64[::1], int32[::1], int64[::1], uint64[::1], uint64[::1], boolean, "
    "int64[::1], int32[::1], uint8[::1])"
)


@numba.njit([_SIGNATURE], cache=True, nogil=True)
def try_cells(
    words: NDArray[np.uint64],
    column_bits: int,
    own: NDArray[np.uint64],
    other: NDArray[np.int32],
    start: NDArray[np.int64],
    mask: NDArray[np.uint64],
    quick: NDArray[np.uint64],
    symmetric: bool,
    value: NDArray[np.int64],
    cell: NDArray[np.int32],
    verdict: NDArray[np.uint8],
) -> None:
    """Make ``len(value)`` trials of three words each, as `colonnade.privacy._envelope` describes them.

    The first word picks a column of the alias table and one of its two cells; the second a value of that cell, and a
    sign in its top bit; the third accepts if it is below the cell's lower bound, which is 0 for a tail. The last cell
    is the remainder and always rejected; so is a zero with a minus sign.
    """
    column_shift = np.uint64(64 - column_bits)
    within = (np.uint64(1) << column_shift) - np.uint64(1)
    remainder = np.int64(len(start) - 1)
    for trial in range(len(value)):
        pick, place, uniform = words[3 * trial], words[3 * trial + 1], words[3 * trial + 2]
        column = np.int64(pick >> column_shift)
        chosen = column if (pick & within) < own[column] else np.int64(other[column])
        magnitude = start[chosen] + np.int64(place & mask[chosen])
        negative = symmetric and (place >> np.uint64(63)) == np.uint64(1)
        value[trial] = -magnitude if negative else magnitude
        cell[trial] = chosen
        if chosen == remainder or (negative and magnitude == 0):
            verdict[trial] = REJECTED
        elif uniform < quick[chosen]:
            verdict[trial] = ACCEPTED
        else:
            verdict[trial] = UNDECIDED
