"""Exact, vectorised draws of integer noise: what comes out has the stated law to the last bit, given uniform bits.

Parameters are rational numbers, because a float is rarely what was meant (0.1 is not a tenth) and a scale that is only nearly
right makes a guarantee that is only nearly true. Results are int64 arrays. Uniform integers are the top bits of a word; one that
is too large is drawn again. The other laws are known up to a factor f and are drawn by rejection, as follows. Proofs:
docs/proofs/exact-samplers.md, `colonnade.privacy._exact` (comparing a uniform real with a real) and the error bounds below.

**Rejection from a table of cells with integer weights.** Cells are ranges of values whose widths are powers of two; together with
one tail on either side they cover the support. A trial spends three uniform words. The first picks cell j with probability
``W_j/2^64`` (an alias table; what the weights leave of 2^64 is a trial lost), the second a value k of the cell, uniformly, the
third decides with probability

    p = f(k)·2^(e_j)·scale / W_j          (e_j: the exponent of the cell's width; scale: one integer for the table)

**Exactness.** If ``p ≤ 1`` throughout, a trial returns k with probability ``(W_j/2^64)·2^(-e_j)·p = f(k)·scale/2^64``:
proportional to f, whatever the weights. Weights are integers and picked exactly; values are uniform exactly; what is
left is to decide the third step exactly, in three stages. Each decides only when it is sure:

1. *Integers.* Accept if the word is below a lower bound of ``p·2^64`` on the whole cell (about 99 % of trials).
2. *Float64.* ln f(k) is known within `ACCURACY`, so ``p·2^64`` is known within a factor ``1 ± 2·SLACK``; two units
   more on either side cover the conversion of the word. Decide if the word is outside.
3. *Intervals.* Compare exactly, `_exact.is_below`, extending the same word with fresh bits. A trial is never repeated.

So floating point decides how long an answer takes, never what it is: with stages 1 and 2 switched off (``doubt``) the
same words give the same output, which is tested. `SLACK` is 8 times `ACCURACY`; the difference covers the roundings of
``exp`` and of the products, which are below 2^-48 relative.

**Weights.** f falls away from the mode, so on a cell it lies between its values at the two ends, each computed within
SLACK; ``W_j = ⌈f_near·e^SLACK·2^(e_j)·scale⌉ + 1``, so p < 1.

**Tails.** Beyond the last cell follow blocks of width ``2^h``. Over each block f at least halves (the law proves h).
The tail's cell has ``W ≥ 2·2^h·f_edge·scale``; block g = 0, 1, … is chosen by fair coins with probability ``2^-(g+1)``
and p above has ``W·2^-(g+1)`` for its weight, so the same identity holds for every k however far out.

**Symmetric laws.** A magnitude is drawn as above, a sign by a fair bit, and the pair (0, minus) is rejected:
then 0 has weight f(0)/2 and so has each of ±k.

**Two laws by subtraction.** A Skellam variable is the difference of two independent Poisson variables. A Pólya share is
the difference of two independent negative binomials with r = 1/parts and a = e^(-1/scale): their generating function
``((1-a)/(1-az))^r`` to the power ``parts`` is that of a geometric law, and the difference of two independent geometric
variables has ``P(k) ∝ a^|k|``; so ``parts`` independent shares add up to discrete Laplace noise, exactly.

**Limits.** A value outside int64 raises ``OverflowError``; at the largest scale allowed its probability is below e^-8000.
Running time varies a little with what is drawn, as it does for every rejection sampler: draw before data is touched, or
answer at fixed times, where somebody could measure it.

**Distributions.** Four, up to a factor: f = 1 at the mode, falling (weakly) away from it.

==============================  =========================  ============================================
distribution                    f(k) for k ≥ 0             support
==============================  =========================  ============================================
`GaussianDistribution`          exp(-k²/2σ²)               all integers, f(-k) = f(k)
`LaplaceDistribution`           exp(-k/s)                  all integers, f(-k) = f(k)
`NegativeBinomialDistribution`  (r)_k/k! · exp(-k/s)       k ≥ 0; r = 1/parts, (r)_k = r(r+1)⋯(r+k-1)
`PoissonDistribution`           μ^(k-m) · m!/k!, m = ⌊μ⌋   k ≥ 0
==============================  =========================  ============================================

Each offers ln f twice: ``enclose_log`` exactly (an interval of any precision), and ``approximate`` in float64, for
whole arrays, with an absolute error of at most `ACCURACY` = 2^-33 in all cells, where ``ln f ≥ -128``.

The inner loop, `try_cells`, is compiled. It works on integers only: no rounding, no library functions.

Notes
-----
*Error bounds.* u = 2^-53; numpy's ``exp``, ``log`` and ``log1p`` are taken to be within 8 units in the last place (they
are within 4). Gaussian and Laplace: the conversion of k, the constant and at most three products are each off by a
factor 1 ± u, so the error is at most ``6u·128 < 2^-43``.

Negative binomial: for k ≤ 64 a running product with 3k roundings, error ``< 200u + 8u·64``. Beyond, with x = k + 1 and
δ = r - 1,

    ln Γ(x+δ) - ln Γ(x) = (x+δ-½)·log1p(δ/x) + δ ln x - δ + S(x+δ) - S(x),   S(x) = 1/12x - 1/360x³ + 1/1260x⁵ - …

S cut before its third term is off by less than that term, ``1/(1260·64⁵) < 2^-40``. No summand exceeds 64 (δ ln x stays
below 43), so rounding adds less than ``100·64u < 2^-40``. The constant is fixed by matching the two forms at k = 64.

Poisson, μ < 4096: a running sum of at most 2^11 terms ln(μ/i), the partial sums below 128 where they matter: error
``< 2^11·128u + 8·128u + 2^11·3u < 2^-34``. Larger μ: with d = k - μ (k - m is an exact integer) and x = d/μ,

    ln f = D(m) - D(k) - ½ ln(k/m) - 1/12k + 1/12m,   D(k) = k ln(k/μ) - k + μ = (d²/μ)(1/2 - x/6 + x²/12 - x³/20 + …)

which is Stirling's formula written so that nothing cancels. The cells have ``|x| < 0.2`` and k > 3400; 21 terms of D
leave less than ``128·0.2^21 < 2^-41``, the next term of Stirling's series is below ``2/(360·3400³) < 2^-42``, and
rounding adds less than ``128·60u < 2^-40``.
"""

import builtins
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from numbers import Rational
from typing import Any, ClassVar, NoReturn, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy._exact import WORD, is_below, log_rising, of_real, ratio
from colonnade.privacy.laws import (
    LARGEST_LAPLACE,
    LARGEST_MEAN,
    LARGEST_PARTS,
    LARGEST_SIGMA_SQUARED,
    Size,
)
from colonnade.privacy.randomness import KeyedRandomness, Randomness

ACCURACY = 2.0**-33

Spans = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where cells begin (distance from the mode) and the exponents of their widths."""

_FINENESS = 6  # a cell near the mode is at most 2^-6 standard deviations (or decay lengths) wide
_LAYER = 5  # and where a law falls like a power of k, at most 2^-5 k
_SMALL = 64  # weights of the negative binomial up to here are multiplied out
_TABULATED = 4096  # so are Poisson weights, for means below this
_STEEPEST = Fraction(2**900)  # a float holds no more; beyond it, f(1) is zero in float64 either way


class Distribution(Hashable, Protocol):
    """What a table of cells is built from."""

    @property
    def symmetric(self) -> bool:
        """Whether f(-k) = f(k), so that only k ≥ 0 has cells."""

    @property
    def mode(self) -> int:
        """Where f is 1, its largest value; 0 for a symmetric law."""

    @property
    def halving(self) -> int:
        """An h such that a step of 2^h outwards, from the mode or anywhere beyond it, takes f to a half or less."""

    def approximate(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln f within `ACCURACY`."""

    def enclose_log(self, context: Any, value: int) -> Any:
        """Enclose ln f, in an interval context, for a value of the support."""

    def upward(self, reach: float) -> Spans:
        """Return cells from the mode up, to about ``f = exp(-reach)``."""

    def downward(self, reach: float) -> Spans:
        """Return cells below the mode; distance 0 is the value next to it."""


class _FallingFromZero:
    mode: ClassVar[int] = 0

    def downward(self, _reach: float) -> Spans:
        """Return no cells: there is nothing below 0, or the sign is drawn apart."""
        return _spans([])


@dataclass(frozen=True)
class GaussianDistribution(_FallingFromZero):
    """The discrete Gaussian."""

    sigma_squared: Fraction
    symmetric: ClassVar[bool] = True

    @cached_property
    def _rate(self) -> float:
        return float(min(1 / (2 * self.sigma_squared), _STEEPEST))

    @property
    def halving(self) -> int:
        """``2^h ≥ 2σ`` will do: ``f(k+2^h)/f(k) ≤ exp(-4^h/2σ²) ≤ e^-2``."""
        return _exponent(2 * math.sqrt(self.sigma_squared))

    def approximate(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``-k²/2σ²``."""
        k = values.astype(np.float64)
        return -(k * k) * self._rate

    def enclose_log(self, context: Any, value: int) -> Any:
        """Enclose ``-k²/2σ²``."""
        return -ratio(context, value * value / (2 * self.sigma_squared))

    def upward(self, reach: float) -> Spans:
        """Cover ``0 ≤ k ≤ σ√(2·reach)``."""
        sigma = math.sqrt(self.sigma_squared)
        return _spans(_widening(sigma, (sigma * math.sqrt(2 * nats) for nats in _breaks(reach))))


@dataclass(frozen=True)
class LaplaceDistribution(_FallingFromZero):
    """The discrete Laplace law, also called two-sided geometric."""

    scale: Fraction
    symmetric: ClassVar[bool] = True

    @cached_property
    def _rate(self) -> float:
        return float(min(1 / self.scale, _STEEPEST))

    @property
    def halving(self) -> int:
        """``2^h ≥ s`` will do: f falls by e or more."""
        return _exponent(float(self.scale))

    def approximate(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``-k/s``."""
        return -values.astype(np.float64) * self._rate

    def enclose_log(self, context: Any, value: int) -> Any:
        """Enclose ``-k/s``."""
        return -ratio(context, value / self.scale)

    def upward(self, reach: float) -> Spans:
        """Cover ``0 ≤ k ≤ s·reach``."""
        scale = float(self.scale)
        return _spans(_widening(scale, (scale * nats for nats in _breaks(reach))))


@dataclass(frozen=True)
class NegativeBinomialDistribution(_FallingFromZero):
    """NB(1/parts, e^(-1/s)): differences of two of them, summed over all parts, are discrete Laplace of scale s."""

    scale: Fraction
    parts: int
    symmetric: ClassVar[bool] = False

    @cached_property
    def _rate(self) -> float:
        return float(min(1 / self.scale, _STEEPEST))

    @cached_property
    def _head(self) -> NDArray[np.float64]:
        """``ln((r)_k/k!)`` for k ≤ 64."""
        k = np.arange(1, _SMALL + 1)
        return np.concatenate([[0.0], np.log(np.cumprod((k - 1 + 1 / self.parts) / k))])

    @property
    def halving(self) -> int:
        """``2^h ≥ s`` will do: (r)_k/k! never grows, because r ≤ 1, and the other factor falls by e or more."""
        return _exponent(float(self.scale))

    def approximate(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``ln((r)_k/k!) - k/s``."""
        k = values.astype(np.float64)
        far = np.maximum(k, _SMALL)
        constant = self._head[_SMALL] - self._log_gamma_ratio(np.array([float(_SMALL)]))
        weight = np.where(
            values <= _SMALL, self._head[np.minimum(values, _SMALL)], constant + self._log_gamma_ratio(far)
        )
        return weight - k * self._rate

    def _log_gamma_ratio(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        """``ln Γ(k+r) - ln Γ(k+1)`` for k ≥ 64, by the formula of the module's notes."""
        delta = 1 / self.parts - 1
        x = k + 1
        y = x + delta
        tail = (1 / y - 1 / x) / 12 - (1 / y**3 - 1 / x**3) / 360
        return (y - 0.5) * np.log1p(delta / x) + delta * (np.log(x) - 1) + tail

    def enclose_log(self, context: Any, value: int) -> Any:
        """Enclose ``ln (r)_k - ln k! - k/s``."""
        weight = log_rising(context, Fraction(1, self.parts), value) - log_rising(context, Fraction(1), value)
        return weight - ratio(context, value / self.scale)

    def upward(self, reach: float) -> Spans:
        """Cover ``0 ≤ k ≤ s·reach``: first in dyadic layers, because f falls like ``k^(r-1)`` near 0."""
        scale = float(self.scale)
        layers = [(float(2 << exponent + _LAYER), exponent) for exponent in range(_fine(scale))]
        return _spans(layers + _widening(scale, (scale * nats for nats in _breaks(reach))))


@dataclass(frozen=True)
class PoissonDistribution:
    """The Poisson law, relative to its mode."""

    mean: Fraction
    symmetric: ClassVar[bool] = False

    @cached_property
    def mode(self) -> int:
        """``⌊μ⌋``."""
        return math.floor(self.mean)

    @cached_property
    def _mean(self) -> float:
        return float(max(self.mean, 1 / _STEEPEST))

    @property
    def halving(self) -> int:
        """``t = 2^h ≥ 2√μ + 4`` will do.

        Up, ``f(k+t)/f(k) ≤ Π_{i<t} μ/(μ+i) ≤ exp(-t(t-1)/2(μ+t)) ≤ e^-1.5``; down, at most ``exp(-t(t-1)/2μ) ≤ e^-2``.
        """
        return _exponent(2 * math.sqrt(self._mean) + 4)

    def approximate(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``ln f``, from a table or from Stirling's formula."""
        if self.mean < _TABULATED:
            return self._tabulated[np.minimum(values, len(self._tabulated) - 1)]
        steps = (values - self.mode).astype(np.float64)
        k = values.astype(np.float64)
        offset = float(self.mean - self.mode)
        rise = self._deviance(np.array([-offset])) - self._deviance(steps - offset)
        return rise - 0.5 * np.log1p(steps / self.mode) - (1 / k - 1 / self.mode) / 12

    def _deviance(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """``k ln(k/μ) - k + μ`` where k = μ + d."""
        x = d / self._mean
        series = np.zeros_like(x)
        for order in range(_DEVIANCE_TERMS, 1, -1):
            series = 1 / (order * (order - 1)) - x * series
        return d * x * series

    @cached_property
    def _tabulated(self) -> NDArray[np.float64]:
        """Ln f from 0 to beyond where it matters."""
        top = self.mode + int(_bernstein(self._mean, _DEEPEST)) + 2
        steps = np.log(self._mean / np.arange(1, top + 1))
        up, down = steps[self.mode :], steps[: self.mode][::-1]
        return np.concatenate([-np.cumsum(down)[::-1], [0.0], np.cumsum(up)])

    def enclose_log(self, context: Any, value: int) -> Any:
        """Enclose ``(k-m) ln μ - ln(k!/m!)``; nothing is below 0."""
        low, high = sorted((value, self.mode))
        rise = (high - low) * context.log(ratio(context, self.mean)) - log_rising(
            context, Fraction(low + 1), high - low
        )
        return rise if value >= self.mode else -rise

    def upward(self, reach: float) -> Spans:
        """Cover the mode and above."""
        if self.mean < _TABULATED:
            return _singletons(self._tabulated[self.mode :], reach)
        return _spans(_widening(math.sqrt(self._mean), (_bernstein(self._mean, nats) for nats in _breaks(reach))))

    def downward(self, reach: float) -> Spans:
        """Cover what is below the mode, where f falls faster than a Gaussian."""
        if self.mean < _TABULATED:
            return _singletons(self._tabulated[: self.mode][::-1], reach)
        return _spans(_widening(math.sqrt(self._mean), (math.sqrt(2 * nats * self._mean) for nats in _breaks(reach))))


_DEVIANCE_TERMS = 22
_DEEPEST = 64.0


def _bernstein(mean: float, nats: float) -> float:
    """Where ``d²/2(μ + d/3)``, a lower bound of the deviance, reaches this many nats."""
    return nats / 3 + math.sqrt(nats * nats / 9 + 2 * nats * mean)


def _exponent(width: float) -> int:
    """Return an exponent h ≥ 0 with 2^h ≥ width."""
    return max(0, math.frexp(width)[1])


def _fine(width: float) -> int:
    return math.frexp(width)[1] - 1 - _FINENESS


def _breaks(reach: float) -> list[float]:
    return [nats for nats in (4.0, 8.0, 12.0, 16.0) if nats < reach] + [reach]


def _widening(width: float, ends: Iterable[float]) -> list[tuple[float, int]]:
    """Plan cells that double in width every four nats: there is little to gain from fine cells where f is small."""
    return [(end, max(0, _fine(width) + index)) for index, end in enumerate(ends)]


def _spans(plan: list[tuple[float, int]]) -> Spans:
    """Lay cells side by side from 0, of width 2^exponent until each end is covered."""
    begins, exponents, done = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for end, exponent in plan:
        count = max(0, -((done - int(end) - 1) >> exponent))
        begins.append(done + (np.arange(count, dtype=np.int64) << exponent))
        exponents.append(np.full(count, exponent, dtype=np.int64))
        done += count << exponent
    return np.concatenate(begins), np.concatenate(exponents)


def _singletons(falling: NDArray[np.float64], reach: float) -> Spans:
    """Lay one cell per value for as long as ln f, given outwards from the mode, is above -reach."""
    count = int(np.count_nonzero(falling >= -reach))
    return np.arange(count, dtype=np.int64), np.zeros(count, dtype=np.int64)


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
    """Make ``len(value)`` trials of three words each, as the module describes them.

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


SLACK = 8 * ACCURACY
REACH = 48.0
"""Cells go on until f is about exp(-48); a tail is then met less than once in 2^60 trials."""

_BATCH = 1 << 15  # trials at a time: their words stay in the processor's cache
_FULL = 1 << WORD
_SPARE = 1 << 40  # keeps the weights, rounded up, together below 2^64


@dataclass(frozen=True, eq=False)
class Table:
    """Cells, then the upper tail, a lower one if there is any, the remainder; and the alias table that picks one."""

    law: Distribution
    cells: int
    scale: int
    start: NDArray[np.int64]
    exponent: NDArray[np.int64]
    weight: tuple[int, ...]
    factor: NDArray[np.float64]
    """p/f(k) in float64, for the cells."""
    quick: NDArray[np.uint64]
    """A lower bound of p·2^64 on the whole cell."""
    column_bits: int
    own: NDArray[np.uint64]
    other: NDArray[np.int32]

    @cached_property
    def mask(self) -> NDArray[np.uint64]:
        """The bits of a word that place a value in its cell."""
        return (np.uint64(1) << self.exponent.astype(np.uint64)) - np.uint64(1)

    def exact_factor(self, cell: int, block: int = -1) -> Fraction:
        """Return ``p/f(k)`` for a value of a cell, or of a block of a tail."""
        return Fraction((1 << int(self.exponent[cell]) + block + 1) * self.scale, self.weight[cell])


@lru_cache(maxsize=64)
def build_table(law: Distribution, reach: float = REACH) -> Table:
    """Lay out the cells of a law and weigh them."""
    start, exponent, near, far = _layout(law, reach)
    cells = len(far)
    area = np.exp(law.approximate(near) + SLACK) * np.exp2(exponent)
    area[cells:] *= 2
    scale = int((_FULL - _SPARE) / float(area.sum()))
    weight = [int(entry) + 1 for entry in np.ceil(area * scale)]
    factor = np.exp2(exponent[:cells]) * scale / np.array(weight[:cells], dtype=np.float64)
    lowest = np.exp(law.approximate(far) - SLACK) * factor * float(_FULL)
    weight.append(_FULL - sum(weight))
    quick = np.zeros(len(weight), dtype=np.uint64)
    quick[:cells] = lowest.astype(np.uint64)
    alias = _alias(weight)
    return Table(law, cells, scale, np.append(start, 0), np.append(exponent, 0), tuple(weight), factor, quick, *alias)


def _layout(law: Distribution, reach: float) -> tuple[NDArray[np.int64], ...]:
    """Return where cells and tails start, their exponents, where f is largest in each, and where smallest in a cell."""
    (up, up_exponent), (down, down_exponent) = law.upward(reach), law.downward(reach)
    up_end, down_end = up + (1 << up_exponent), down + (1 << down_exponent)
    top, bottom = law.mode + int(up_end[-1]), law.mode - int(max(down_end, default=0))
    tails = [(top, top)] + [(bottom - (1 << law.halving), bottom - 1)] * (bottom > 0)
    starts, edges = np.array(tails, dtype=np.int64).T
    return (
        np.concatenate([law.mode + up, law.mode - down_end, starts]),
        np.concatenate([up_exponent, down_exponent, np.full(len(tails), law.halving)]),
        np.concatenate([law.mode + up, law.mode - 1 - down, edges]),
        np.concatenate([law.mode + up_end - 1, law.mode - down_end]),
    )


def _alias(weight: list[int]) -> tuple[int, NDArray[np.uint64], NDArray[np.int32]]:
    """Spread integer weights, in all 2^64, over columns of equal capacity that hold at most two cells each [Vose]."""
    bits = max(1, (len(weight) - 1).bit_length())
    capacity = 1 << (WORD - bits)
    left = weight + [0] * ((1 << bits) - len(weight))
    own, other = [capacity] * len(left), list(range(len(left)))
    small = [cell for cell, amount in enumerate(left) if amount < capacity]
    large = [cell for cell, amount in enumerate(left) if amount > capacity]
    while small:
        cell, donor = small.pop(), large[-1]
        own[cell], other[cell] = left[cell], donor
        left[donor] -= capacity - left[cell]
        if left[donor] <= capacity:
            large.pop()
        if left[donor] < capacity:
            small.append(donor)
    return bits, np.array(own, dtype=np.uint64), np.array(other, dtype=np.int32)


def draw(
    law: Distribution, count: int, randomness: Randomness, *, doubt: float = 0.0, reach: float = REACH
) -> NDArray[np.int64]:
    """Return ``count`` independent draws.

    ``doubt`` and ``reach`` are for tests: a relative error that float64 is suspected of, which sends more trials to
    exact arithmetic and changes no output; and how many nats the cells cover, so that tails are met.
    """
    return next(draw_pieces(law, (count,), randomness, doubt=doubt, reach=reach))


def draw_pieces(
    law: Distribution, sizes: Sequence[int], randomness: Randomness, *, doubt: float = 0.0, reach: float = REACH
) -> Iterator[NDArray[np.int64]]:
    """Yield independent draws in pieces of given sizes: those that one `draw` of all of them would return, in order.

    What a batch of trials accepts beyond a piece is kept for the next one, so that how draws are cut does not change them.
    """
    table, missing = build_table(law, reach), sum(sizes)
    kept = np.empty(0, dtype=np.int64)
    for size in sizes:
        drawn, done = np.empty(size, dtype=np.int64), min(size, len(kept))
        drawn[:done], kept = kept[:done], kept[done:]
        while done < size:
            found = _attempt(table, min(_BATCH, missing + missing // 16 + 16), randomness, doubt)[:missing]
            missing -= len(found)
            used = min(size - done, len(found))
            drawn[done : done + used], kept = found[:used], found[used:]
            done += used
        yield drawn


def _attempt(table: Table, trials: int, randomness: Randomness, doubt: float) -> NDArray[np.int64]:
    """Make some trials and return what they accept, in order: any other order would favour some values."""
    words = randomness.words(3 * trials)
    value, cell, verdict = np.empty(trials, np.int64), np.empty(trials, np.int32), np.empty(trials, np.uint8)
    quick = np.zeros_like(table.quick) if doubt else table.quick
    alias = (table.column_bits, table.own, table.other)
    try_cells(words, *alias, table.start, table.mask, quick, table.law.symmetric, value, cell, verdict)
    pending = np.flatnonzero(verdict == UNDECIDED)
    verdict[pending] = _judge(table, value[pending], cell[pending], words[3 * pending + 2], max(doubt, 2 * SLACK))
    for trial in np.flatnonzero(verdict == UNDECIDED):
        value[trial], verdict[trial] = _settle(
            table, int(value[trial]), int(cell[trial]), int(words[3 * trial + 2]), randomness
        )
    kept: NDArray[np.int64] = value[verdict == ACCEPTED]
    return kept


def _judge(
    table: Table, value: NDArray[np.int64], cell: NDArray[np.int32], word: NDArray[np.uint64], error: float
) -> NDArray[np.uint8]:
    verdict = np.full(len(value), UNDECIDED, dtype=np.uint8)
    inside = np.flatnonzero(cell < table.cells)
    expected = np.exp(table.law.approximate(np.abs(value[inside]))) * table.factor[cell[inside]] * float(_FULL)
    uniform = word[inside].astype(np.float64)
    verdict[inside[uniform < expected * (1 - error) - 2]] = ACCEPTED
    verdict[inside[uniform > expected * (1 + error) + 2]] = REJECTED
    return verdict


def _settle(table: Table, value: int, cell: int, word: int, randomness: Randomness) -> tuple[int, bool]:
    """Decide one trial exactly; for a tail, first choose the block. Return the value and whether it is accepted."""
    sign = -1 if table.law.symmetric and value < 0 else 1
    magnitude, block = sign * value, -1
    if cell >= table.cells:
        block = _heads(randomness)
        step = block << int(table.exponent[cell])
        magnitude += step if cell == table.cells else -step
    if magnitude < 0:
        return value, False
    factor = table.exact_factor(cell, block)
    chance = of_real(lambda context: context.exp(table.law.enclose_log(context, magnitude)) * ratio(context, factor))
    return sign * magnitude, is_below(word, chance, randomness)


def _heads(randomness: Randomness) -> int:
    """Toss fair coins until the first tails; return how many heads came before."""
    heads = 0
    while (word := int.from_bytes(randomness.bytes(WORD // 8), "little")) == 0:
        heads += WORD
    return heads + (word & -word).bit_length() - 1


LARGEST_BOUND = 2**63


class ExactSampler:
    """The draws of this module from one source of randomness: what laws are given (`colonnade.privacy.laws.Sampler`).

    Parameters
    ----------
    randomness
        Where the bits come from. Draws take them in the order of the calls.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> ExactSampler(SystemRandomness()).discrete_laplace(Fraction(2), 3).shape
    (3,)
    """

    __slots__ = ("_randomness",)

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness

    def bytes(self, count: int) -> builtins.bytes:
        """Return ``count`` uniform bytes."""
        return self._randomness.bytes(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` uniform 64-bit words."""
        return self._randomness.words(count)

    def uniform_below(self, bound: int, size: Size) -> NDArray[np.int64]:
        return uniform_below(bound, size, self._randomness)

    def discrete_laplace(self, scale: Fraction, size: Size) -> NDArray[np.int64]:
        return discrete_laplace(scale, size, self._randomness)

    def discrete_gaussian(self, sigma_squared: Fraction, size: Size) -> NDArray[np.int64]:
        return discrete_gaussian(sigma_squared, size, self._randomness)

    def gaussian_pieces(self, sigma_squared: Fraction, sizes: Sequence[int]) -> Iterator[NDArray[np.int64]]:
        """Yield what one `discrete_gaussian` of all sizes together would draw, in pieces."""
        return gaussian_pieces(sigma_squared, sizes, self._randomness)

    def polya_share(self, scale: Fraction, parts: int, size: Size) -> NDArray[np.int64]:
        return polya_share(scale, parts, size, self._randomness)

    def skellam(self, mean: Fraction, size: Size) -> NDArray[np.int64]:
        return skellam(mean, size, self._randomness)

    def keyed(self, key: builtins.bytes) -> KeyedRandomness:
        """Return the stream of a key; it does not depend on this sampler's randomness."""
        return KeyedRandomness(key)

    def __repr__(self) -> str:
        return f"ExactSampler({self._randomness!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Noise is drawn where it is paid for.")  # no worker ever draws


def uniform_below(bound: int, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw uniformly from ``0, …, bound - 1``.

    Parameters
    ----------
    bound
        A whole number from 1 to 2^63.
    size
        How many draws: a number, or the shape of the result. The same in every function of this module.
    randomness
        Where the bits come from.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> set(uniform_below(2, 1000, SystemRandomness()).tolist())
    {0, 1}
    """
    largest = _whole(bound, "A bound", LARGEST_BOUND) - 1
    shape, count = _shape(size)
    shift = np.uint64(WORD - max(1, largest.bit_length()))
    kept = np.empty(0, dtype=np.uint64)
    while len(kept) < count:
        words = randomness.words(2 * (count - len(kept))) >> shift
        kept = np.concatenate([kept, words[words <= np.uint64(largest)]])
    return kept[:count].astype(np.int64).reshape(shape)


def discrete_laplace(scale: Fraction, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw integers with ``P(k) ∝ exp(-|k|/scale)``.

    Parameters
    ----------
    scale
        Rational, positive, at most 2^50. With ``scale = Δ₁/ε`` this is ε-DP noise.
    size, randomness
        As in `uniform_below`.
    """
    law = LaplaceDistribution(_positive(scale, "A scale", LARGEST_LAPLACE))
    shape, count = _shape(size)
    return draw(law, count, randomness).reshape(shape)


def discrete_gaussian(sigma_squared: Fraction, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw integers with ``P(k) ∝ exp(-k²/(2·sigma_squared))``.

    Parameters
    ----------
    sigma_squared
        Rational, positive, at most 2^100. With ``σ² = Δ₂²/2ρ`` this is ρ-zCDP noise.
    size, randomness
        As in `uniform_below`.
    """
    shape, count = _shape(size)
    return next(gaussian_pieces(sigma_squared, (count,), randomness)).reshape(shape)


def gaussian_pieces(
    sigma_squared: Fraction, sizes: Sequence[int], randomness: Randomness
) -> Iterator[NDArray[np.int64]]:
    """Yield what one `discrete_gaussian` of all sizes together would draw, in pieces of these sizes."""
    law = GaussianDistribution(_positive(sigma_squared, "A variance parameter", LARGEST_SIGMA_SQUARED))
    return draw_pieces(law, sizes, randomness)


def polya_share(scale: Fraction, parts: int, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw one party's share of discrete Laplace noise: ``parts`` independent shares add up to `discrete_laplace`.

    Parameters
    ----------
    scale
        The scale of the sum: rational, positive, at most 2^50.
    parts
        How many shares make up the noise, at least 1.
    size, randomness
        As in `uniform_below`.
    """
    exact = _positive(scale, "A scale", LARGEST_LAPLACE)
    law = NegativeBinomialDistribution(exact, _whole(parts, "A number of parts", LARGEST_PARTS))
    return _difference(law, size, randomness)


def skellam(mean: Fraction, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw differences of two independent Poisson variables of a given mean; their variance is ``2·mean``.

    Parameters
    ----------
    mean
        The mean of each Poisson variable: rational, positive, at most 2^52.
    size, randomness
        As in `uniform_below`.
    """
    return _difference(PoissonDistribution(_positive(mean, "A mean", LARGEST_MEAN)), size, randomness)


def _difference(
    law: NegativeBinomialDistribution | PoissonDistribution,
    size: Size,
    randomness: Randomness,
) -> NDArray[np.int64]:
    shape, count = _shape(size)
    pairs = draw(law, 2 * count, randomness)
    return (pairs[:count] - pairs[count:]).reshape(shape)


def _exact(value: object, what: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Rational):
        raise BadInput(
            f"{what} must be an exact rational number, not {type(value).__name__}.",
            remedy="Pass an int or a fractions.Fraction, for example Fraction('0.1').",
        )
    return Fraction(int(value.numerator), int(value.denominator))


def _positive(value: object, what: str, largest: int) -> Fraction:
    exact = _exact(value, what)
    if not 0 < exact <= largest:
        raise BadInput(f"{what} must be positive and at most 2^{largest.bit_length() - 1}.")
    return exact


def _whole(value: object, what: str, largest: int) -> int:
    exact = _positive(value, what, largest)
    if exact.denominator != 1:
        raise BadInput(f"{what} must be a whole number.")
    return exact.numerator


def _shape(size: object) -> tuple[tuple[int, ...], int]:
    shape = size if isinstance(size, tuple) else (size,)
    if any(isinstance(side, bool) or not isinstance(side, int | np.integer) or side < 0 for side in shape):
        raise BadInput("A size is a non-negative whole number or a tuple of them.")
    return tuple(int(side) for side in shape), math.prod(int(side) for side in shape)
