"""The loops over shares, compiled. Integers throughout: a float64 here is always a whole number below 2⁵³.

An *element* is a uint64 below M, the product of the moduli. ``min(a, a - M)`` reduces a sum below 2M without a branch,
because the subtraction wraps past zero to a huge number unless the sum had reached M; it needs M < 2⁶³.
"""

import numba
import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS = 512
"""Rows whose products are summed before a reduction: their plane of residues stays in the second-level cache."""
TILE = 4
"""Columns on each side of the register tile of a product: sixteen accumulators."""
LARGEST_NARROW = 2**52
"""Elements below this become float64 in one step; larger ones in two limbs."""
ROUNDED_RIGHT = 2**50
"""Residues of elements below this are at most half their modulus; of larger ones, one more."""

_LIMB = np.uint64(32)
_WORD = np.uint64(64)
_LOW = np.uint64((1 << 32) - 1)

_ACCUMULATE = (
    "boolean(uint64[:, ::1], int64, uint64, float64[:, ::1], int64[:, ::1], float64[:, ::1], float64[:, ::1],"
    " float64[:, :, ::1])"
)

_Words = NDArray[np.uint64]
_Reals = NDArray[np.float64]


@numba.njit(["boolean(uint64[::1], uint64)"], cache=True, nogil=True)
def any_at_least(values: _Words, limit: int) -> bool:
    """Return whether any value is at or above the limit, without leaving early: the time does not depend on values."""
    found = np.uint64(0)
    for k in range(values.size):
        found |= np.uint64(values[k] >= limit)
    return bool(found)


@numba.njit(["boolean(int64[::1], uint64, int64, uint64[::1])"], cache=True, nogil=True)
def encode(values: NDArray[np.int64], modulus: int, bound: int, elements: _Words) -> bool:
    """Write signed integers as elements; return whether all magnitudes are within the bound."""
    outside = np.int64(0)
    for k in range(values.size):
        value = values[k]
        outside |= np.int64(value > bound) | np.int64(value < -bound)
        element = np.uint64(value)
        elements[k] = min(element, element + modulus)
    return not outside


@numba.njit(["void(uint64[::1], uint64, float64)"], cache=True, nogil=True)
def reduce_words(words: _Words, modulus: int, reciprocal: float) -> None:
    """Reduce words modulo M in place.

    The reciprocal is that of M, lowered by one part in 2⁵⁰: the estimated quotient is never above the true one (the
    remainder cannot wrap) and at most one below it (one correction is enough).
    """
    for k in range(words.size):
        word = words[k]
        remainder = word - np.uint64(np.float64(word) * reciprocal) * modulus
        words[k] = min(remainder, remainder - modulus)


# In-place and out-of-place loops are separate functions: where arrays may overlap the compiler gives up vectors.
@numba.njit(["void(uint64[::1], uint64[::1], uint64)"], cache=True, nogil=True)
def add_into(total: _Words, term: _Words, modulus: int) -> None:
    """Add elements to elements, in place."""
    for k in range(total.size):
        value = total[k] + term[k]
        total[k] = min(value, value - modulus)


@numba.njit(["void(uint64[::1], uint64[::1], uint64, uint64[::1])"], cache=True, nogil=True)
def _add(first: _Words, second: _Words, modulus: int, out: _Words) -> None:
    for k in range(first.size):
        value = first[k] + second[k]
        out[k] = min(value, value - modulus)


@numba.njit(["void(uint64[::1], uint64[::1], uint64, uint64[::1])"], cache=True, nogil=True)
def _subtract(first: _Words, second: _Words, modulus: int, out: _Words) -> None:
    for k in range(first.size):
        value = first[k] - second[k]
        out[k] = min(value, value + modulus)


@numba.njit(["void(uint64[::1], uint64[::1], uint64)"], cache=True, nogil=True)
def _subtract_from(first: _Words, second: _Words, modulus: int) -> None:
    for k in range(second.size):
        value = first[k] - second[k]
        second[k] = min(value, value + modulus)


@numba.njit(["boolean(int64[::1], uint64, int64, float64, int64, uint64[:, ::1])"], cache=True, nogil=True)
def deal_line(
    values: NDArray[np.int64], modulus: int, bound: int, reciprocal: float, drawn: int, shares: _Words
) -> bool:
    """Deal signed integers to three points by lines, in one pass; return whether all magnitudes are within the bound.

    Row ``drawn`` of the shares, 0 or 1, holds unreduced random words and is reduced as `reduce_words` does. With f(0) and f(1)
    the others follow by steps of f(1) − f(0). With f(0) and f(2), f(1) is half of their sum (the modulus is odd), and
    f(3) = f(2) + f(1) − f(0).
    """
    outside = np.int64(0)
    first, second, third = shares[0], shares[1], shares[2]
    for k in range(values.size):
        value = values[k]
        outside |= np.int64(value > bound) | np.int64(value < -bound)
        secret = np.uint64(value)
        secret = min(secret, secret + modulus)
        word = first[k] if drawn == 0 else second[k]
        known = word - np.uint64(np.float64(word) * reciprocal) * modulus
        known = min(known, known - modulus)
        if drawn == 0:
            one, step = known, known - secret
            step = min(step, step + modulus)
            two = one + step
            two = min(two, two - modulus)
            first[k] = one
            second[k] = two
        else:
            two, one = known, known + secret
            one = min(one, one - modulus)
            one = (one + (one & np.uint64(1)) * modulus) >> np.uint64(1)
            step = one - secret
            step = min(step, step + modulus)
            first[k] = one
            second[k] = two
        three = two + step
        third[k] = min(three, three - modulus)
    return not outside


@numba.njit(["void(uint64[::1], int64, uint64, uint64[:, ::1])"], cache=True, nogil=True)
def deal(secrets: _Words, degree: int, modulus: int, shares: _Words) -> None:
    """Complete a dealing: f(0) is the secret, rows 0 … degree-1 hold f(1) … f(degree), the other rows are written.

    Additions only, whatever the degree: the difference of order ``degree`` is constant, so each point is the previous one
    plus a first difference, which has itself moved on by a second one, and so forth. At degree 1 that is one addition per
    share. Row ``degree - order`` of the table holds the difference of an order.
    """
    width = 1024
    table = np.empty((degree, width), dtype=np.uint64)
    for start in range(0, secrets.size, width):
        stop = min(start + width, secrets.size)
        _subtract(shares[0, start:stop], secrets[start:stop], modulus, table[0])
        for row in range(1, degree):
            _subtract(shares[row, start:stop], shares[row - 1, start:stop], modulus, table[row])
        for order in range(2, degree + 1):
            for row in range(degree - order + 1):
                _subtract_from(table[row + 1, : stop - start], table[row, : stop - start], modulus)
        for point in range(degree, shares.shape[0]):
            for row in range(1, degree):
                add_into(table[row, : stop - start], table[row - 1, : stop - start], modulus)
            step = table[degree - 1, : stop - start]
            _add(shares[point - 1, start:stop], step, modulus, shares[point, start:stop])


@numba.njit(cache=True, nogil=True)
def centred(element: int, modulus: float, reciprocal: float) -> np.float64:
    """Return the residue of an element below 2⁵⁰ that is nearest to 0."""
    # The quotient is rounded right: below 2⁵⁰ its error is at most 2⁵⁰ / modulus · 2⁻⁵² = 1 / (4 · modulus), and the
    # exact quotient by an odd modulus is at least 1 / (2 · modulus) away from a half. From there to 2⁵² the error is below
    # 1.01 / modulus, so that next to a half it may be rounded the other way: the residue then exceeds half the modulus by one,
    # for which the sums of products have ample room if the modulus is below 2²¹.
    value = np.float64(np.int64(element))
    quotient: float = np.rint(value * reciprocal)
    return value - modulus * quotient


@numba.njit(cache=True, nogil=True)
def centred_wide(element: int, modulus: float, reciprocal: float, high: float) -> np.float64:
    """Return the residue of any element that is nearest to 0, or one further away; ``high`` is 2³² reduced."""
    # Two limbs, with 2³² reduced beforehand: below 2⁵² + 2³² for a modulus below 2²¹, so it is exact. The quotient's error
    # is as above. (Moduli of 8 bits: below 2⁴⁰, rounded right.)
    value = np.float64(np.int64(element >> _LIMB)) * high + np.float64(np.int64(element & _LOW))
    quotient: float = np.rint(value * reciprocal)
    return value - modulus * quotient


@numba.njit(["void(uint64[:, ::1], int64, int64, float64, float64, boolean, float64[:, ::1])"], cache=True, nogil=True)
def _float_plane(
    elements: _Words, start: int, rows: int, modulus: float, high: float, wide: bool, plane: _Reals
) -> None:
    reciprocal = 1.0 / modulus
    for column in range(elements.shape[0]):
        source, target = elements[column, start : start + rows], plane[column, :rows]
        if wide:
            for k in range(rows):
                target[k] = centred_wide(source[k], modulus, reciprocal, high)
        else:
            for k in range(rows):
                target[k] = centred(source[k], modulus, reciprocal)


@numba.njit(["boolean(uint64[:, ::1], int64, int64, uint64)"], cache=True, nogil=True)
def block_in_range(elements: _Words, start: int, rows: int, limit: int) -> bool:
    """Return whether a block of rows of all columns is below the limit."""
    found = False
    for column in range(elements.shape[0]):
        found |= any_at_least(elements[column, start : start + rows], limit)
    return not found


# Reassociation and contraction are harmless here, and only here: every partial sum is a whole number of magnitude at
# most 2⁵³ in whatever order it is formed (`Arithmetic` proves it), so no order rounds.
@numba.njit(
    ["void(float64[:, ::1], int64, int64, int64, float64[::1])"],
    cache=True,
    nogil=True,
    fastmath={"reassoc", "contract", "nsz"},
)
def _tile(plane: _Reals, i: int, j: int, rows: int, sums: _Reals) -> None:
    a0, a1, a2, a3 = plane[i, :rows], plane[i + 1, :rows], plane[i + 2, :rows], plane[i + 3, :rows]
    b0, b1, b2, b3 = plane[j, :rows], plane[j + 1, :rows], plane[j + 2, :rows], plane[j + 3, :rows]
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
    for k in range(rows):
        x0, x1, x2, x3 = a0[k], a1[k], a2[k], a3[k]
        y0, y1, y2, y3 = b0[k], b1[k], b2[k], b3[k]
        s00 += x0 * y0
        s01 += x0 * y1
        s02 += x0 * y2
        s03 += x0 * y3
        s10 += x1 * y0
        s11 += x1 * y1
        s12 += x1 * y2
        s13 += x1 * y3
        s20 += x2 * y0
        s21 += x2 * y1
        s22 += x2 * y2
        s23 += x2 * y3
        s30 += x3 * y0
        s31 += x3 * y1
        s32 += x3 * y2
        s33 += x3 * y3
    sums[0], sums[1], sums[2], sums[3] = s00, s01, s02, s03
    sums[4], sums[5], sums[6], sums[7] = s10, s11, s12, s13
    sums[8], sums[9], sums[10], sums[11] = s20, s21, s22, s23
    sums[12], sums[13], sums[14], sums[15] = s30, s31, s32, s33


@numba.njit(
    [_ACCUMULATE],
    cache=True,
    nogil=True,
)
def accumulate_products(
    elements: _Words,
    rows: int,
    product_of_moduli: int,
    constants: _Reals,
    tiles: NDArray[np.int64],
    plane: _Reals,
    sums: _Reals,
    totals: _Reals,
) -> bool:
    """Add the products of the columns of ``elements[:, :rows]``, tile by tile, to centred totals modulo each modulus.

    Returns whether all elements were in range (where they were not, the totals are worthless).

    Parameters
    ----------
    elements
        Columns by rows.
    constants
        One row per modulus p: p, 2³² mod p.
    tiles
        First columns (i, j) of the tiles to compute.
    plane, sums
        Work space: padded columns by `BLOCK_ROWS`; tiles by sixteen.
    totals
        Moduli by tiles by sixteen.
    """
    wide = product_of_moduli >= LARGEST_NARROW
    in_range = True
    for start in range(0, rows, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows - start)
        in_range &= block_in_range(elements, start, count, product_of_moduli)
        for index in range(constants.shape[0]):
            modulus = constants[index, 0]
            _float_plane(elements, start, count, modulus, constants[index, 1], wide, plane)
            for tile in range(tiles.shape[0]):
                _tile(plane, tiles[tile, 0], tiles[tile, 1], count, sums[tile])
            reciprocal = 1.0 / modulus
            new, old = sums.reshape(-1), totals[index].reshape(-1)
            for k in range(new.size):
                old[k] += new[k] - modulus * np.rint(new[k] * reciprocal)
    return in_range


@numba.njit(["void(int64[:, ::1], int64[::1], int64[:, ::1], uint64[::1])"], cache=True, nogil=True)
def garner(
    residues: NDArray[np.int64], moduli: NDArray[np.int64], inverses: NDArray[np.int64], elements: _Words
) -> None:
    """Write the elements with given residues (moduli by entries), by mixed radix digits.

    ``inverses[a, b]`` is the inverse of modulus a modulo modulus b. All products are below 2⁴⁶.
    """
    count = moduli.size
    digits = np.empty(count, dtype=np.int64)
    for entry in range(elements.size):
        element, radix = np.uint64(0), np.uint64(1)
        for b in range(count):
            digit = residues[b, entry]
            for a in range(b):
                digit = (digit - digits[a]) * inverses[a, b] % moduli[b]
            digits[b] = digit % moduli[b]
            element += np.uint64(digits[b]) * radix
            radix *= np.uint64(moduli[b])
        elements[entry] = element


@numba.njit(
    ["void(float64[:, :, ::1], int64, int64, int64[::1], int64[:, ::1], uint64[:, ::1])"], cache=True, nogil=True
)
def collect(
    totals: _Reals,
    first: int,
    panel: int,
    moduli: NDArray[np.int64],
    inverses: NDArray[np.int64],
    elements: _Words,
) -> None:
    """Write the elements of one rectangle of products from its totals (moduli by tiles by sixteen), as `garner` does.

    The rectangle's tiles begin at ``first`` and stand panel by panel, ``panel`` tiles wide, and in each row by row.
    """
    rows, columns = elements.shape
    down, across, count = (rows + TILE - 1) // TILE, (columns + TILE - 1) // TILE, moduli.size
    digits = np.empty(count, dtype=np.int64)
    for row in range(rows):
        for column in range(columns):
            strip = column // TILE // panel
            wide = min(panel, across - strip * panel)
            tile = first + strip * panel * down + row // TILE * wide + (column // TILE - strip * panel)
            place = row % TILE * TILE + column % TILE
            element, radix = np.uint64(0), np.uint64(1)
            for b in range(count):
                digit = np.int64(totals[b, tile, place])
                for a in range(b):
                    digit = (digit - digits[a]) % moduli[b] * inverses[a, b]
                digits[b] = digit % moduli[b]
                element += np.uint64(digits[b]) * radix
                radix *= np.uint64(moduli[b])
            elements[row, column] = element


@numba.njit(["void(uint64[::1], uint64, uint64[::1])"], cache=True, nogil=True)
def pack_bits(elements: _Words, bits: int, packed: _Words) -> None:
    """Write elements of so many bits one after the other into words, lowest bits first; elements are below 2 to the bits."""
    word, gathered, filled = 0, np.uint64(0), np.uint64(0)
    for k in range(elements.size):
        gathered |= elements[k] << filled
        filled += bits
        if filled >= _WORD:
            packed[word] = gathered
            word += 1
            filled -= _WORD
            gathered = elements[k] >> (bits - filled)
    if filled:
        packed[word] = gathered


@numba.njit(["void(uint64[::1], uint64, uint64[::1])"], cache=True, nogil=True)
def unpack_bits(packed: _Words, bits: int, elements: _Words) -> None:
    """Read what `pack_bits` wrote. One more word is read than was written, so that no element needs a branch."""
    mask = (np.uint64(1) << bits) - np.uint64(1)
    for k in range(elements.size):
        place = np.uint64(k) * bits
        word, shift = place >> np.uint64(6), place & np.uint64(63)
        above = packed[word + np.uint64(1)] << np.uint64(1) << (np.uint64(63) - shift)
        elements[k] = (packed[word] >> shift | above) & mask
