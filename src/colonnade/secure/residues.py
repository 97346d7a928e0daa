"""Exact arithmetic modulo M, a product of small primes: one uint64 per element, small residues where it multiplies.

An *element* is an integer in [0, M), M < 2⁶³. By the Chinese remainder theorem it carries its residues modulo every
prime, so that adding, sharing and masking work on whole elements (one addition, one correction). Only a product of
two shares goes through residues, centred around zero, which float64 multiplies exactly.

============================  =======  ================
primes                        M        bits per element
============================  =======  ================
2²³ - 15                      2^23.0   23
2¹⁶ - 15, 2¹⁶ - 17            2^32.0   32
2²⁰ - 3, 2²⁰ - 5              2^40.0   40
2²² - 3, 2²² - 17             2^44.0   44
2²³ - 15, 2²³ - 21            2^46.0   46
165,133, 165,103, 165,089     2^52.0   52
2²¹ - 9, 2²¹ - 19, 2²¹ - 21   2^63.0   63
============================  =======  ================

All moduli are prime, so every evaluation point and every difference of two is invertible for any number of nodes below
the smallest prime, and a random linear check errs with a probability of order 1/p, not one over a factor of p.

The loops over shares, compiled. Integers throughout: a float64 here is always a whole number below 2⁵³.

An *element* is a uint64 below M, the product of the moduli. ``min(a, a - M)`` reduces a sum below 2M without a branch,
because the subtraction wraps past zero to a huge number unless the sum had reached M; it needs M < 2⁶³.
"""

import math
from functools import cached_property, lru_cache

import msgspec
import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import SeedStream, WordSource

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
    """Write elements, each below 2 to the ``bits``, one after the other into words, lowest bits first."""
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


@numba.njit(cache=True, nogil=True)
def _joined(totals: _Reals, count: int, constants: _Reals, inverses: NDArray[np.int64], out: _Words) -> None:
    """Write the elements with given residues (whole numbers below 2⁵², moduli by entries), by mixed radix digits as in `garner`.

    Until the end of its turn a digit may be one modulus off either way. A difference of two, times an inverse, is below 2⁴⁸.
    """
    for b in range(constants.shape[0]):
        modulus = constants[b, 0]
        reciprocal, digit = 1.0 / modulus, totals[b]
        for k in range(count):
            digit[k] -= modulus * np.floor(digit[k] * reciprocal)
        for a in range(b):
            inverse, lower = np.float64(inverses[a, b]), totals[a]
            for k in range(count):
                value = (digit[k] - lower[k]) * inverse
                digit[k] = value - modulus * np.floor(value * reciprocal)
        for k in range(count):  # the quotient may have been one off either way
            value = digit[k]
            value = value + modulus if value < 0.0 else value
            digit[k] = value - modulus if value >= modulus else value
    radix = np.uint64(1)
    for b in range(constants.shape[0]):
        digit = totals[b]
        for k in range(count):
            term = np.uint64(np.int64(digit[k])) * radix
            out[k] = term if b == 0 else out[k] + term
        radix *= np.uint64(constants[b, 0])


@numba.njit(cache=True, nogil=True)
def _add_residues(
    source: _Words, weight: _Reals, count: int, modulus: float, high: float, wide: bool, total: _Reals
) -> None:
    """Add centred residues times weights, which are one per entry, or one for all of them."""
    reciprocal = 1.0 / modulus
    alike = weight.size == 1
    for k in range(count):
        residue = (
            centred_wide(source[k], modulus, reciprocal, high) if wide else centred(source[k], modulus, reciprocal)
        )
        total[k] += residue * (weight[0] if alike else weight[k])


_COMBINE = "void(uint64[:, ::1], float64[:, :, ::1], float64[:, ::1], boolean, int64[:, ::1], uint64[::1])"


@numba.njit([_COMBINE], cache=True, nogil=True)
def weighted_sums(
    elements: _Words, weights: _Reals, constants: _Reals, wide: bool, inverses: NDArray[np.int64], out: _Words
) -> None:
    """Write Σ weight · element over the first axis. Sums of centred residues times weights stay below 2⁵² in magnitude.

    Weights are, for each modulus, terms by entries, or one for all entries of a term.
    """
    width = 1024
    totals = np.empty((constants.shape[0], width), dtype=np.float64)
    alike = weights.shape[2] == 1
    for start in range(0, out.size, width):
        count = min(width, out.size - start)
        for index in range(constants.shape[0]):
            totals[index, :count] = 0.0
            for term in range(elements.shape[0]):
                own = weights[index if weights.shape[0] > 1 else 0, term]
                _add_residues(
                    elements[term, start : start + count],
                    own if alike else own[start : start + count],
                    count,
                    constants[index, 0],
                    constants[index, 1],
                    wide,
                    totals[index],
                )
        _joined(totals, count, constants, inverses, out[start : start + count])


@numba.njit(
    ["void(uint64[:, ::1], uint64[::1], float64[:, ::1], boolean, int64[:, ::1], uint64[:, ::1])"],
    cache=True,
    nogil=True,
)
def scale_columns(
    columns: _Words, weights: _Words, constants: _Reals, wide: bool, inverses: NDArray[np.int64], out: _Words
) -> None:
    """Write every column times the weights, entry by entry. A product of two centred residues is below 2⁴⁵."""
    width = 1024
    totals = np.empty((constants.shape[0], width), dtype=np.float64)
    scales = np.empty((constants.shape[0], width), dtype=np.float64)
    one = np.ones(1)
    for start in range(0, weights.size, width):
        count = min(width, weights.size - start)
        scales[:, :count] = 0.0
        for index in range(constants.shape[0]):
            modulus, high = constants[index, 0], constants[index, 1]
            _add_residues(weights[start : start + count], one, count, modulus, high, wide, scales[index])
        for column in range(columns.shape[0]):
            for index in range(constants.shape[0]):
                totals[index, :count] = 0.0
                _add_residues(
                    columns[column, start : start + count],
                    scales[index],
                    count,
                    constants[index, 0],
                    constants[index, 1],
                    wide,
                    totals[index],
                )
            _joined(totals, count, constants, inverses, out[column, start : start + count])


Elements = NDArray[np.uint64]

PRIME_SETS = (
    (2**23 - 15,),
    (2**16 - 15, 2**16 - 17),
    (2**20 - 3, 2**20 - 5),
    (2**22 - 3, 2**22 - 17),
    (2**23 - 15, 2**23 - 21),
    (165_133, 165_103, 165_089),
    (2**21 - 9, 2**21 - 19, 2**21 - 21),
)
"""The moduli in use, the cheaper set first: what is sent is most of what a secure study costs."""

LARGEST_MODULUS = 2**63
LARGEST_WIDE_PRIME = 2**21
LARGEST_PRIME = 2**23
LARGEST_SUM = 2**52
"""Sums of products of centred residues are below this in magnitude."""
LARGEST_FACTORS = 2**28
"""How much public factors may be in magnitude, added up: times a centred residue that is below 2⁵¹."""
NOISE_EXPONENT = 128


class Arithmetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The integers modulo a product of small primes.

    Parameters
    ----------
    moduli
        Different odd primes below 2²³ with a product below 2⁶³.

    Notes
    -----
    *Products are exact.* Residues are centred, so a product of two is at most ((p-1)/2)² in magnitude and a sum over
    b rows at most b·((p-1)/2)². With b = `BLOCK_ROWS` = 512 and p ≤ 2²³ - 15 that is below 2⁵³ - 2p: float64 represents
    every partial sum and the multiple of p subtracted afterwards.

    *Decoding is exact.* An integer of magnitude at most (M-1)/2 is the only one in that range with its residues.

    Examples
    --------
    >>> arithmetic = Arithmetic.for_headroom(10**12, nodes=3)
    >>> arithmetic.decode(arithmetic.encode(np.array([-5, 7])))
    array([-5,  7])
    """

    moduli: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.moduli or any(
            type(p) is not int or not 2 < p < LARGEST_PRIME or not _is_prime(p) for p in self.moduli
        ):
            raise BadInput("Moduli are odd primes below 2^23.")
        if len(set(self.moduli)) != len(self.moduli) or self.modulus >= LARGEST_MODULUS:
            raise BadInput("Moduli differ, and their product is below 2^63.")
        if self.modulus >= ROUNDED_RIGHT and max(self.moduli) >= LARGEST_WIDE_PRIME:
            raise BadInput("Moduli with a product of 2^50 or more are below 2^21.")

    @classmethod
    def for_headroom(cls, bound: int, nodes: int) -> "Arithmetic":
        """Return the cheapest arithmetic in which nothing up to ``bound`` in magnitude can wrap.

        Parameters
        ----------
        bound
            No opened integer exceeds this; `gram_bound` proves one for a Gram matrix.
        nodes
            Number of compute nodes; each is an evaluation point.

        Raises
        ------
        BadInput
            If no arithmetic has room: this is the plan-time check that makes a wrap impossible.
        """
        if type(bound) is not int or bound < 1:
            raise BadInput("The bound of an opened integer is a positive whole number.")
        for moduli in PRIME_SETS:
            arithmetic = cls(moduli)
            if bound <= arithmetic.largest:
                arithmetic.require_nodes(nodes)
                return arithmetic
        raise BadInput(
            "The largest possible result does not fit any arithmetic.",
            remedy="Lower the fixed-point scale, or use fewer rows.",
        )

    @cached_property
    def modulus(self) -> int:
        """M, the product of the moduli."""
        return math.prod(self.moduli)

    @property
    def largest(self) -> int:
        """The largest magnitude that decodes: (M - 1) / 2."""
        return (self.modulus - 1) // 2

    @property
    def element_bits(self) -> int:
        """How many bits an element takes on the wire."""
        return self.modulus.bit_length()

    def packed_size(self, count: int) -> int:
        """Return how many bytes a number of elements takes on the wire."""
        return (count * self.element_bits + 7) // 8

    @property
    def _largest_product(self) -> int:
        """The largest magnitude of a product of two centred residues."""
        return ((max(self.moduli) - 1) // 2) ** 2

    def require_nodes(self, nodes: int) -> None:
        """Refuse more nodes than there are evaluation points, or than `weighted` adds up exactly: 256 with primes of 23 bits."""
        if type(nodes) is not int or not 1 <= nodes < min(self.moduli) or nodes * self._largest_product >= LARGEST_SUM:
            raise BadInput("The number of compute nodes must be positive, below every modulus, and small.")

    # Integers to elements and back

    def encode(self, values: NDArray[np.int64], bound: int | None = None) -> Elements:
        """Return signed integers as elements; refuse one whose magnitude exceeds the bound (by default, `largest`)."""
        values = self._signed(values)
        elements = np.empty(values.shape, dtype=np.uint64)
        if not encode(values.reshape(-1), self.modulus, self._bound(bound), elements.reshape(-1)):
            raise BadInput("An integer exceeds the bound that the plan declares.")
        return elements

    @staticmethod
    def _signed(values: NDArray[np.int64]) -> NDArray[np.int64]:
        values = np.ascontiguousarray(values)
        if values.dtype != np.int64:
            raise BadInput("Only 64-bit signed integers can be encoded.")
        return values

    def _bound(self, bound: int | None) -> int:
        return self.largest if bound is None else min(bound, self.largest)

    def decode(self, elements: Elements, bound: int | None = None) -> NDArray[np.int64]:
        """Return elements as integers centred around zero; refuse one beyond the bound that the plan proved."""
        self.require(elements)
        values = elements.astype(np.int64)
        values -= (values > self.largest) * np.int64(self.modulus)
        if bound is not None and values.size and max(-int(values.min()), int(values.max())) > bound:
            raise ProtocolError("An opened integer exceeds the bound that the plan proved.")
        return values

    def require(self, elements: Elements) -> None:
        """Refuse an array that does not consist of elements."""
        if not isinstance(elements, np.ndarray) or elements.dtype != np.uint64:
            raise ProtocolError("Elements are 64-bit words.")
        if any_at_least(np.ascontiguousarray(elements).reshape(-1), self.modulus):
            raise ProtocolError("A share is out of the range of its arithmetic.")

    # Elements

    def uniform(self, source: WordSource, count: int) -> Elements:
        """Return independent uniform elements.

        A word at or above ⌊2⁶⁴/M⌋·M is replaced by the next words of the source until one is below; the others are
        reduced. What remains is exactly uniform modulo M, and so jointly uniform modulo the primes.
        """
        elements = np.empty(count, dtype=np.uint64)
        self.fill_uniform(source, elements)
        return elements

    def fill_uniform(self, source: WordSource, elements: Elements) -> None:
        """Overwrite a contiguous array with independent uniform elements."""
        self.fill_words(source, elements)
        reduce_words(elements.reshape(-1), self.modulus, self._lowered)

    @cached_property
    def _lowered(self) -> float:
        return (1 - 2.0**-50) / self.modulus

    def fill_words(self, source: WordSource, elements: Elements) -> None:
        """Overwrite a contiguous array with words that are uniform elements once they are reduced."""
        flat = elements.reshape(-1)
        if isinstance(source, SeedStream):
            source.fill(flat)
        else:
            flat[:] = source.words(flat.size)
        limit = 2**64 // self.modulus * self.modulus
        for start in range(0, flat.size, 8192):
            part = flat[start : start + 8192]
            if any_at_least(part, limit):  # about one word in 40,000, or fewer
                for place in np.flatnonzero(part >= np.uint64(limit)):
                    while int(part[place]) >= limit:
                        part[place] = source.words(1)[0]

    def deal_lines(self, values: NDArray[np.int64], bound: int | None, drawn: int, shares: Elements) -> None:
        """Deal signed integers to three points with degree 1. Row ``drawn`` of the shares holds words of `fill_words`."""
        values = self._signed(values).reshape(-1)
        if not deal_line(values, self.modulus, self._bound(bound), self._lowered, drawn, shares):
            raise BadInput("An integer exceeds the bound that the plan declares.")

    def add(self, first: Elements, *others: Elements) -> Elements:
        """Return a sum of arrays of elements."""
        total = np.array(first, dtype=np.uint64, order="C")
        self.require(total)
        for term in others:
            if term.shape != total.shape:
                raise ProtocolError("Shares of different shapes cannot be added.")
            self.require(term)
            add_into(total.reshape(-1), np.ascontiguousarray(term).reshape(-1), self.modulus)
        return total

    def weighted(self, shares: Elements, weights: NDArray[np.int64]) -> Elements:
        """Return Σᵢ weightᵢ · shareᵢ over the first axis; ``weights`` holds a residue for each modulus and share."""
        self.require_nodes(len(shares))
        elements = np.empty(math.prod(shares.shape[1:]), dtype=np.uint64)
        flat = np.ascontiguousarray(shares).reshape(len(shares), -1)
        centred = np.where(2 * weights > self._primes[:, None], weights - self._primes[:, None], weights)
        factors = np.ascontiguousarray(centred, dtype=np.float64)[:, :, None]
        weighted_sums(flat, factors, self.constants, self._is_wide, self._inverses, elements)
        return elements.reshape(shares.shape[1:])

    def scaled_columns(self, columns: Elements, weights: Elements) -> Elements:
        """Return every column times elements, one per person; columns along the first axis."""
        found = np.empty(columns.shape, dtype=np.uint64)
        columns, weights = np.ascontiguousarray(columns), np.ascontiguousarray(weights)
        scale_columns(columns, weights, self.constants, self._is_wide, self._inverses, found)
        return found

    def weighted_by_person(self, shares: Elements, factors: NDArray[np.int64]) -> Elements:
        """Return Σᵢ factorᵢ · shareᵢ over the first axis, with public factors of their own for each person.

        Examples
        --------
        >>> arithmetic = Arithmetic.for_headroom(1_000, nodes=3)
        >>> shares = arithmetic.encode(np.array([[1, 2], [3, -4]]))
        >>> arithmetic.decode(arithmetic.weighted_by_person(shares, np.array([[5, 6], [7, 8]])))
        array([ 26, -20])
        """
        if shares.shape != factors.shape or np.max(np.abs(factors), initial=0) * len(factors) > LARGEST_FACTORS:
            raise BadInput("Public factors have the shape of the shares, and are small.")
        self.require(shares)
        elements = np.empty(shares.shape[1], dtype=np.uint64)
        weights = np.ascontiguousarray(factors, dtype=np.float64)[None]
        shares = np.ascontiguousarray(shares)
        weighted_sums(shares, weights, self.constants, self._is_wide, self._inverses, elements)
        return elements

    def from_residues(self, residues: NDArray[np.int64]) -> Elements:
        """Return the elements with given residues, moduli along the first axis (any representatives)."""
        residues = np.mod(residues, self._primes.reshape(-1, *([1] * (residues.ndim - 1))))
        elements = np.empty(residues.shape[1:], dtype=np.uint64)
        flat = np.ascontiguousarray(residues).reshape(len(residues), -1)
        garner(flat, self._primes, self._inverses, elements.reshape(-1))
        return elements

    # Bytes

    def to_bytes(self, elements: Elements) -> bytes:
        """Return elements in `element_bits` bits each, lowest bits first, and zeros up to a whole byte."""
        self.require(elements)
        flat = np.ascontiguousarray(elements).reshape(-1)
        packed = np.empty(self._words(flat.size), dtype=np.uint64)
        pack_bits(flat, self.element_bits, packed)
        return packed.astype("<u8", copy=False).view(np.uint8)[: self.packed_size(flat.size)].tobytes()

    def from_bytes(self, data: bytes | memoryview, shape: tuple[int, ...]) -> Elements:
        """Read what `to_bytes` wrote; refuse another length or a value out of range."""
        count = math.prod(shape)
        if len(data) != self.packed_size(count):
            raise ProtocolError("The bytes of a share do not fit its shape.")
        packed = np.empty(self._words(count) + 1, dtype="<u8")
        octets = packed.view(np.uint8)
        octets[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        octets[len(data) :] = 0
        elements = np.empty(count, dtype=np.uint64)
        unpack_bits(packed.astype(np.uint64, copy=False), self.element_bits, elements)
        self.require(elements)
        return elements.reshape(shape)

    def _words(self, count: int) -> int:
        return -(-count * self.element_bits // 64)

    # Constants of the kernels

    @cached_property
    def constants(self) -> NDArray[np.float64]:
        """A row for each modulus p: p, 2³² mod p."""
        return np.array([(p, 2**32 % p) for p in self.moduli], dtype=np.float64)

    @property
    def _is_wide(self) -> bool:
        return self.modulus >= LARGEST_NARROW

    @property
    def mixed_radix(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The moduli, and the inverse of each modulo each other."""
        return self._primes, self._inverses

    @cached_property
    def _primes(self) -> NDArray[np.int64]:
        return np.array(self.moduli, dtype=np.int64)

    @cached_property
    def _inverses(self) -> NDArray[np.int64]:
        return np.array([[pow(a, -1, b) if a != b else 0 for b in self.moduli] for a in self.moduli], dtype=np.int64)


@lru_cache(maxsize=64)  # every member reads every plan's arithmetic, of the same few moduli
def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def noise_tail(variance: int) -> int:
    """Return a bound that noise of this total variance exceeds with probability below 2·e⁻¹²⁸ per entry.

    Laplace noise in P shares is not covered by its own variance. A caller states 64·(b·P)² for shares of scale b, and the
    probability is then at most 2P·e⁻¹²⁸ per entry (docs/proofs/secure-arithmetic.md#headroom).

    Discrete Gaussian and Skellam sums both satisfy Bernstein's inequality P(|noise| > z) ≤ 2·exp(-z² / (2(V + z/3))):
    the former because it is sub-Gaussian with its parameter V; the latter because its cumulant V(cosh λ - 1) is at most
    Vλ²/(2(1 - λ/3)). Solving for an exponent L = 128 gives z = L/3 + √(L²/9 + 2LV), rounded up here in integers.

    Examples
    --------
    >>> noise_tail(10**12)
    16000044
    """
    if type(variance) is not int or variance < 0:
        raise BadInput("A variance bound is a non-negative whole number.")
    third = -(-NOISE_EXPONENT // 3)
    return third + math.isqrt(third * third + 2 * NOISE_EXPONENT * variance) + 1


def gram_bound(rows: int, largest: int, variance: int = 0) -> int:
    """Return a bound on every entry of a noisy Gram matrix.

    Proof: an entry is Σ_r x_ri·x_rj + noise over ``rows`` rows with |x| ≤ ``largest``, so its magnitude is at most
    rows·largest² + |noise|, and |noise| ≤ `noise_tail` except with probability below 2·e⁻¹²⁸ (for Laplace noise in P
    shares: 2P·e⁻¹²⁸). If that is at most (M-1)/2, the entry is the only integer of its class modulo M in the centred range, so
    opening returns it: nothing wraps. (A wrap by an extreme draw would spoil one result. It cannot affect privacy, because it is
    a function of the noisy value.)

    Parameters
    ----------
    rows, largest
        Number of rows; largest magnitude of an encoded value.
    variance
        Upper bound on the total noise variance of an entry.

    Examples
    --------
    >>> gram_bound(1000, 4096)
    16777216000
    """
    if type(rows) is not int or rows < 1 or type(largest) is not int or largest < 1:
        raise BadInput("Rows and the largest encoded value are positive whole numbers.")
    return rows * largest * largest + (noise_tail(variance) if variance else 0)
