"""The bound that clipping buys: how far one person can move a statistic.

Numbers are clipped to their public bounds, mapped to [-1, 1], scaled to fixed point and truncated to integers. What a
person adds is then bounded *in integers*, by a final check that does not trust the floating-point steps before it, so
no rounding error can void a guarantee. Bounds are for zero-out unless a relation is named.

Notes
-----
``T(v) = (v_i v_j), i ≤ j``, is one person's part of the upper triangle of a Gram matrix, ``R² ≥ ‖v‖₂²`` for every row.

* ``‖T(v)‖₂² = (‖v‖₂⁴ + ‖v‖₄⁴)/2 ≤ R⁴``, reached by a row with one non-zero entry.
* ``‖T(v)‖₁ = (‖v‖₁² + ‖v‖₂²)/2 ≤ (n+1)R²/2``, reached by a flat row.
* replace: ``⟨T(v), T(w)⟩ = ½(⟨v,w⟩² + Σ v_i²w_i²) ≥ 0``, hence ``‖T(v) - T(w)‖₂² ≤ 2R⁴``, not 4R⁴.
* A schema bounds rows better than a norm does: in columns mapped to [-1, 1] a number adds at most 1 to ``‖x‖₁`` and to
  ``‖x‖₂²``, a whole one-hot group at most 1, an intercept 1. With B of them ``‖T(x)‖₁ ≤ (B²+B)/2``, and as no entry of
  T passes 1, ``‖T(x)‖₂² ≤ ‖T(x)‖₁``: half of B² for large B.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.errors import BadInput
from colonnade.privacy.neighbours import Neighbours
from colonnade.schema import Column, Numeric

__all__ = [
    "LARGEST_SCALE",
    "clip_rows",
    "clip_to_bounds",
    "codes_or_missing",
    "conditional_row_bound",
    "fixed_point",
    "from_unit",
    "gram_l1",
    "gram_l2_squared",
    "norm_shares",
    "row_budget",
    "schema_gram_l1",
    "schema_gram_l2_squared",
    "stochastic_fixed_point",
    "stochastic_row_bound",
    "tables_l1",
    "tables_l2_squared",
    "to_unit",
    "truncated_row_bound",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_SCALE = 1 << 24
"""The finest fixed point: squares of entries then sum exactly in 64 bits over any number of columns in use."""


def clip_to_bounds(values: ArrayLike, column: Numeric) -> Floats:
    """Return values within the column's bounds; what is not a finite number becomes the midpoint."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = np.where(np.isfinite(numbers), numbers, column.midpoint)
    if column.integer:
        numbers = np.rint(numbers)
    return np.clip(numbers, column.low, column.high)


def to_unit(values: ArrayLike, column: Numeric) -> Floats:
    """Map values to [-1, 1] by the column's bounds, clipping; what is missing becomes 0 and so contributes nothing.

    Examples
    --------
    >>> to_unit([0.0, 30.0, 500.0, float("nan")], Numeric(0, 120)).tolist()
    [-1.0, -0.5, 1.0, 0.0]
    """
    numbers = np.asarray(values, dtype=np.float64)
    half = column.high / 2 - column.low / 2
    units = (clip_to_bounds(numbers, column) - column.midpoint) / half
    return np.where(np.isfinite(numbers), np.clip(units, -1.0, 1.0), 0.0)


def from_unit(units: ArrayLike, column: Numeric) -> Floats:
    """Map [-1, 1] back to the column's own units."""
    half = column.high / 2 - column.low / 2
    return np.asarray(units, dtype=np.float64) * half + column.midpoint


def codes_or_missing(codes: ArrayLike, levels: int) -> Integers:
    """Return category codes, with -1 for whatever is no category."""
    numbers = np.asarray(codes)
    if numbers.dtype.kind not in "iu":
        numbers = np.where(np.isfinite(numbers) & (numbers == np.floor(numbers)), numbers, -1)
    return np.where((numbers >= 0) & (numbers < levels), numbers, -1).astype(np.int64)


def row_budget(columns: Iterable[Column], *, intercept: bool = False) -> int:
    """Return B: a bound on both ‖x‖₁ and ‖x‖₂² of a row of mapped numbers and one-hot groups.

    Examples
    --------
    >>> from colonnade.schema import Category
    >>> row_budget([Numeric(0, 1), Category(["a", "b", "c"])], intercept=True)
    3
    """
    return sum(1 for _ in columns) + intercept


def norm_shares(budgets: Sequence[int]) -> tuple[Fraction, ...]:
    """Return each party's share c_q² = B_q/B of a row's squared norm, which sum to 1."""
    if not budgets or min(budgets) < 1:
        raise BadInput("Each party has at least one column.")
    return tuple(Fraction(budget, sum(budgets)) for budget in budgets)


def clip_rows(block: ArrayLike, norm: float) -> Floats:
    """Shrink the rows whose Euclidean norm passes ``norm``; entries that are not finite count as 0."""
    rows = np.asarray(block, dtype=np.float64)
    rows = np.where(np.isfinite(rows), rows, 0.0)
    largest = np.max(np.abs(rows), axis=1, keepdims=True, initial=0.0)
    largest = np.where(largest > 0, largest, 1.0)
    scaled = rows / largest  # squares of rows near 1e308 would overflow, and warn of data
    room = norm / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)
    return np.where(largest > room, scaled * room, rows)


def fixed_point(block: ArrayLike, scale: int, bound: int) -> Integers:
    """Return ``block`` times ``scale``, truncated towards zero, every row's squared norm at most ``bound``.

    Truncation never lengthens a row, so within the real bound nothing is changed by the final check; it is there for
    what floating point may have added.
    """
    return _within(np.trunc(_scaled(block, scale)).astype(np.int64), bound)


def stochastic_fixed_point(block: ArrayLike, scale: int, bound: int, words: NDArray[np.uint64]) -> Integers:
    """Return ``block`` times ``scale``, rounded at random without bias, every row's squared norm at most ``bound``.

    ``words`` are uniform, one an entry. The guarantee does not rest on them: the bound holds for every rounding.
    """
    scaled = _scaled(block, scale)
    floor = np.floor(scaled)
    coins = (words >> np.uint64(11)).astype(np.float64).reshape(scaled.shape)
    return _within((floor + (coins < (scaled - floor) * 2.0**53)).astype(np.int64), bound)


def truncated_row_bound(scale: int, share: Fraction = Fraction(1)) -> int:
    """Return R² of a block with squared norm share c² under truncation: γ²c², rounded down (norms are integers)."""
    return math.floor(scale**2 * share)


def stochastic_row_bound(scale: int, columns: int, share: Fraction = Fraction(1)) -> int:
    """Return R² of a block under stochastic rounding, worst case: (γc + √n)², never passed.

    Examples
    --------
    >>> stochastic_row_bound(4096, 117)
    16865943
    """
    squared = math.ceil(scale**2 * share)
    return squared + columns + math.isqrt(4 * squared * columns)


def conditional_row_bound(scale: int, columns: int, beta: float, share: Fraction = Fraction(1)) -> int:
    """Return R² of a block whose rounding is repeated until it holds [Kairouz–Liu–Steinke 2021].

    ``min{(γc+√n)², γ²c² + n/4 + √(2 ln 1/β)(γc + √n/2)}``. A party can test it for its own block, not for a row.

    Examples
    --------
    >>> conditional_row_bound(1000, 100, math.exp(-0.5))
    1001030
    """
    if not 0 < beta < 1:
        raise BadInput("beta lies between 0 and 1.")
    norm = scale * math.sqrt(share)
    likely = norm**2 + columns / 4 + math.sqrt(2 * math.log(1 / beta)) * (norm + math.sqrt(columns) / 2)
    return min(stochastic_row_bound(scale, columns, share), math.floor(likely + 1e-6))


def gram_l2_squared(bound: int, relation: Neighbours = Neighbours.ZERO_OUT) -> int:
    """Return Δ₂² of the upper triangle of a Gram matrix of integer rows with ‖v‖₂² ≤ ``bound``."""
    return bound**2 * _steps(relation)


def gram_l1(bound: int, columns: int, relation: Neighbours = Neighbours.ZERO_OUT) -> int:
    """Return Δ₁ of the upper triangle of a Gram matrix of integer rows with ‖v‖₂² ≤ ``bound``.

    Zero-out: ‖v‖₁² is at most n·R², and for integers also at most R⁴. Replace: ``(n/√2 + 1)R²`` from
    ``‖vvᵀ - wwᵀ‖_F ≤ √2·R²``.
    """
    if _steps(relation) == 1:
        return (min(columns * bound, bound**2) + bound) // 2
    return min(math.isqrt((columns * bound) ** 2 // 2) + bound, 2 * gram_l1(bound, columns))


def schema_gram_l1(budget: int) -> int:
    """Return Δ₁ = (B²+B)/2 of the upper triangle in columns mapped to [-1, 1], B from `row_budget`."""
    return (budget**2 + budget) // 2


def schema_gram_l2_squared(budget: int, relation: Neighbours = Neighbours.ZERO_OUT) -> int:
    """Return Δ₂² ≤ (B²+B)/2 of the upper triangle in columns mapped to [-1, 1]: no entry passes 1, so Δ₂² ≤ Δ₁."""
    return schema_gram_l1(budget) * _steps(relation)


def tables_l1(tables: int, relation: Neighbours = Neighbours.ZERO_OUT) -> int:
    """Return Δ₁ of several contingency tables at once: a person is in one cell of each."""
    return tables * _steps(relation)


def tables_l2_squared(tables: int, relation: Neighbours = Neighbours.ZERO_OUT) -> int:
    """Return Δ₂² of several contingency tables at once: a person is in one cell of each."""
    return tables * _steps(relation)


def _steps(relation: Neighbours) -> int:
    if relation is Neighbours.ZERO_OUT:
        return 1
    if relation is Neighbours.REPLACE:
        return 2
    raise BadInput("This bound is proved for zero-out and for replace.")


def _scaled(block: ArrayLike, scale: int) -> Floats:
    if type(scale) is not int or not 1 <= scale <= LARGEST_SCALE:
        raise BadInput(f"A fixed-point scale is a whole number up to {LARGEST_SCALE}.")
    rows = np.asarray(block, dtype=np.float64)
    if rows.ndim != 2:
        raise BadInput("A block has rows and columns.")
    units = np.clip(np.where(np.isfinite(rows), rows, 0.0), -1.0, 1.0)
    return units * scale


def _within(rows: Integers, bound: int) -> Integers:
    """Shrink the rows that pass the bound until none does, deciding in integers."""
    if type(bound) is not int or bound < 0:
        raise BadInput("A row bound is a whole number.")
    squares = np.einsum("ij,ij->i", rows, rows)
    while np.any(over := squares > bound):
        factor = np.sqrt(bound / squares[over]) * (1 - 2.0**-40)
        rows[over] = np.trunc(rows[over] * factor[:, None])
        squares = np.einsum("ij,ij->i", rows, rows)
    return rows
