"""Sums of elements times weights, compiled: centred residues in float64, whole numbers below 2⁵², joined to elements again."""

import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.secure._kernels import centred, centred_wide

__all__ = ["combine_shares", "scale_columns", "weighted_sums"]

_Words = NDArray[np.uint64]
_Reals = NDArray[np.float64]


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


_COMBINE = "void(uint64[:, ::1], float64[:, ::1], float64[:, ::1], boolean, int64[:, ::1], uint64[::1])"


@numba.njit([_COMBINE], cache=True, nogil=True)
def combine_shares(
    shares: _Words, weights: _Reals, constants: _Reals, wide: bool, inverses: NDArray[np.int64], out: _Words
) -> None:
    """Write Σ weight · share over the first axis; ``weights``, centred, is moduli by shares."""
    width = 1024
    totals = np.empty((constants.shape[0], width), dtype=np.float64)
    for start in range(0, out.size, width):
        count = min(width, out.size - start)
        for index in range(constants.shape[0]):
            totals[index, :count] = 0.0
            for share in range(shares.shape[0]):
                _add_residues(
                    shares[share, start : start + count],
                    weights[index, share : share + 1],
                    count,
                    constants[index, 0],
                    constants[index, 1],
                    wide,
                    totals[index],
                )
        _joined(totals, count, constants, inverses, out[start : start + count])


@numba.njit([_COMBINE], cache=True, nogil=True)
def weighted_sums(
    elements: _Words, factors: _Reals, constants: _Reals, wide: bool, inverses: NDArray[np.int64], out: _Words
) -> None:
    """Write Σ factor · element over the first axis. Sums of centred residues times factors stay below 2⁵² in magnitude."""
    width = 1024
    totals = np.empty((constants.shape[0], width), dtype=np.float64)
    for start in range(0, out.size, width):
        count = min(width, out.size - start)
        for index in range(constants.shape[0]):
            totals[index, :count] = 0.0
            for term in range(elements.shape[0]):
                _add_residues(
                    elements[term, start : start + count],
                    factors[term, start : start + count],
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
