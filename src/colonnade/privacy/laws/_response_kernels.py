"""The inner loops of randomised response, compiled. Integers only, and no decision that is not exact.

A uniform word is compared with ``T = ⌊p·2^64⌋``: below T means "yes", above T means "no". Given "yes" it is uniform
below T and given "no" uniform above, so dividing what it exceeds the range's start by ``step = ⌊range/n⌋`` gives each
number below n for exactly ``step`` words. What is left, a tie or one of the fewer than n words too many, is *unsure*:
the person is listed, and the caller decides with further bits. Its probability is below ``(n+1)/2^64`` per word.

Each person takes a fixed number of words, whatever their category; a code outside the categories is a null record.
"""

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["coin_sets", "response_codes", "subset_codes", "subset_sets"]

_ONE = np.uint64(1)
_HALF = np.uint64(1 << 63)

_SUBSET_CODES = (
    "int64(int64[::1], uint64[::1], uint64, uint64, uint64, uint64, uint64, uint64, uint16[:, ::1], uint16[::1], "
    "int64[::1])"
)


@numba.njit(
    ["int64(int64[::1], uint64[::1], int64, uint64, uint64, uint64, uint16[::1], int64[::1])"], cache=True, nogil=True
)
def response_codes(
    codes: NDArray[np.int64],
    words: NDArray[np.uint64],
    categories: int,
    threshold: np.uint64,
    other_step: np.uint64,
    any_step: np.uint64,
    reports: NDArray[np.uint16],
    unsure: NDArray[np.int64],
) -> int:
    """Report one category per person, from one word; a null record reports any. Return how many are unsure."""
    doubts = 0
    others = np.uint64(categories - 1)
    for person in range(len(codes)):
        code, word = codes[person], words[person]
        if code < 0 or code >= categories:
            drawn = word // any_step
            if drawn <= others:
                reports[person] = drawn
                continue
        elif word < threshold:
            reports[person] = code
            continue
        elif word > threshold and other_step > 0:
            drawn = (word - threshold - _ONE) // other_step
            if drawn < others:
                reports[person] = drawn + np.uint64(np.int64(drawn) >= code)
                continue
        unsure[doubts] = person
        doubts += 1
    return doubts


@numba.njit([_SUBSET_CODES], cache=True, nogil=True)
def subset_codes(
    codes: NDArray[np.int64],
    words: NDArray[np.uint64],
    threshold: np.uint64,
    inside: np.uint64,
    inside_step: np.uint64,
    outside: np.uint64,
    outside_step: np.uint64,
    any_step: np.uint64,
    sets: NDArray[np.uint16],
    reports: NDArray[np.uint16],
    unsure: NDArray[np.int64],
) -> int:
    """Report a set of at most 16 categories, from one word and a list of all sets, those with the category first.

    ``sets[code]`` lists the ``inside`` sets that contain the category, then the ``outside`` others; a null record takes
    any of the list, evenly. Return how many are unsure.
    """
    doubts = 0
    categories = sets.shape[0]
    for person in range(len(codes)):
        code, word = codes[person], words[person]
        if code < 0 or code >= categories:
            drawn = word // any_step
            if drawn < inside + outside:
                reports[person] = sets[0, np.int64(drawn)]
                continue
        elif word < threshold:
            if inside_step > 0:
                drawn = word // inside_step
                if drawn < inside:
                    reports[person] = sets[code, np.int64(drawn)]
                    continue
        elif word > threshold and outside_step > 0:
            drawn = (word - threshold - _ONE) // outside_step
            if drawn < outside:
                reports[person] = sets[code, np.int64(inside + drawn)]
                continue
        unsure[doubts] = person
        doubts += 1
    return doubts


@numba.njit(
    ["int64(int64[::1], uint64[:, ::1], int64, int64, uint64, uint64[::1], uint8[:, ::1], int64[::1])"],
    cache=True,
    nogil=True,
)
def subset_sets(
    codes: NDArray[np.int64],
    words: NDArray[np.uint64],
    categories: int,
    size: int,
    threshold: np.uint64,
    steps: NDArray[np.uint64],
    reports: NDArray[np.uint8],
    unsure: NDArray[np.int64],
) -> int:
    """Report a set of any size as bits, from ``size + 2`` words, and return how many are unsure.

    The words: null's category; with the category or without; then Floyd's sampling of the others. ``steps[n - 1]`` is
    ``⌊(2^64 - 1)/n⌋``.
    """
    doubts = 0
    for person in range(len(codes)):
        code = codes[person]
        sure = bool(words[person, 1] != threshold)
        if code < 0 or code >= categories:
            code = np.int64(words[person, 0] // steps[categories - 1])
            if code >= categories:
                sure = False
                code = 0
        others = size
        if words[person, 1] < threshold:
            reports[person, code >> 3] |= np.uint8(1 << (code & 7))
            others = size - 1
        for place in range(others):
            last = categories - 1 - others + place
            drawn = np.int64(words[person, 2 + place] // steps[last])
            if drawn > last:
                sure = False
                drawn = np.int64(last)
            member = drawn + (drawn >= code)
            if reports[person, member >> 3] >> (member & 7) & 1:
                member = last + (last >= code)
            reports[person, member >> 3] |= np.uint8(1 << (member & 7))
        if not sure:
            unsure[doubts] = person
            doubts += 1
    return doubts


@numba.njit(
    ["int64(int64[::1], uint64[:, ::1], int64, uint64, uint64, uint8[:, ::1], int64[::1])"], cache=True, nogil=True
)
def coin_sets(
    codes: NDArray[np.int64],
    words: NDArray[np.uint64],
    categories: int,
    threshold: np.uint64,
    any_step: np.uint64,
    reports: NDArray[np.uint8],
    unsure: NDArray[np.int64],
) -> int:
    """Report a set by one coin per category, from ``categories + 1`` words, null's category first.

    The true category's coin is fair. Return how many are unsure.
    """
    doubts = 0
    for person in range(len(codes)):
        code = codes[person]
        sure = True
        if code < 0 or code >= categories:
            code = np.int64(words[person, 0] // any_step)
            sure = bool(code < categories)
        for member in range(categories):
            word = words[person, 1 + member]
            if member == code:
                chosen = word < _HALF
            else:
                chosen = word < threshold
                sure = bool(sure and word != threshold)
            if chosen:
                reports[person, member >> 3] |= np.uint8(1 << (member & 7))
        if not sure:
            unsure[doubts] = person
            doubts += 1
    return doubts
