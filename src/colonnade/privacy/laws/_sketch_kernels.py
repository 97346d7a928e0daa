"""The inner loops of partition sketches, compiled. Integers only; which words are read does not depend on data.

A value matters only below the floor's threshold, for one (person, sketch) in hundreds. So four sketches share a byte: it passes
with probability 4p, p = 2^-b, and given that it does, which of the four have a value below p follows from one more word: j given
ones, and no others, with probability ``p^j (1-p)^(4-j) / 4p = (2^b-1)^(4-j) / 2^(3b+2)``, a fraction of 2^32 at most and hence
exact; what is left of the probability is nobody. The four are then independent, each below p with probability p: a Bernoulli
process for a quarter of the bytes.
"""

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["SHARED", "expand", "keep_least", "screen"]

SHARED = 4
"""Sketches that share a byte."""

_SCREEN = "int64(uint64[::1], uint64, int64[::1])"
_EXPAND = "int64(int64[::1], uint64[::1], uint64, uint8[::1], int64[::1])"
_KEEP = "void(int64[::1], uint64[::1], uint64, int32[::1], int64, uint64[:, ::1])"


@numba.njit([_SCREEN], cache=True, nogil=True)
def screen(words: NDArray[np.uint64], limit: int, found: NDArray[np.int64]) -> int:
    """Write the positions of all bytes below a limit (at most 128), lowest byte of a word first; return how many.

    Eight bytes are tested at once: ``(w - n) & ~w`` has a byte's top bit set where the byte is below n, and perhaps above such a
    byte, never without one.
    """
    each = np.uint64(0x0101010101010101) * np.uint64(limit)
    top = np.uint64(0x8080808080808080)
    count = 0
    for place in range(words.size):
        word = words[place]
        if (word - each) & ~word & top:
            for byte in range(8):
                if (word >> np.uint64(8 * byte)) & np.uint64(255) < limit:
                    found[count] = 8 * place + byte
                    count += 1
    return count


@numba.njit([_EXPAND], cache=True, nogil=True)
def expand(
    found: NDArray[np.int64],
    words: NDArray[np.uint64],
    bits: int,
    subsets: NDArray[np.uint8],
    places: NDArray[np.int64],
) -> int:
    """Write which (person, sketch) places have a value below 2^-bits, given the bytes that passed; return how many.

    ``subsets`` lists the non-empty subsets of four as bits, by size.
    """
    other = (np.uint64(1) << bits) - np.uint64(1)
    weights = (other * other * other, other * other, other, np.uint64(1))
    count = 0
    for number in range(found.size):
        left = words[number] >> (np.uint64(62) - np.uint64(3) * bits)
        members, start = np.uint8(0), 0
        for size in range(4):
            many = np.uint64(4) if size in (0, 2) else np.uint64(6) if size == 1 else np.uint64(1)
            if left < many * weights[size]:
                members = subsets[start + np.int64(left // weights[size])]
                break
            left -= many * weights[size]
            start += 4 if size in (0, 2) else 6
        for place in range(SHARED):
            if (members >> np.uint8(place)) & np.uint8(1):
                places[count] = SHARED * found[number] + place
                count += 1
    return count


@numba.njit([_KEEP], cache=True, nogil=True)
def keep_least(
    places: NDArray[np.int64],
    words: NDArray[np.uint64],
    bits: int,
    codes: NDArray[np.int32],
    sketches: int,
    least: NDArray[np.uint64],
) -> None:
    """Keep the least value, a word below 2^(64-bits), of each cluster and sketch; a code below 0 is no record."""
    for number in range(places.size):
        code, sketch = codes[places[number] // sketches], places[number] % sketches
        value = words[number] >> bits
        if code >= 0 and value < least[code, sketch]:
            least[code, sketch] = value
