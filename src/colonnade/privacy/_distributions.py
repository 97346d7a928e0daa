"""The four distributions that everything is drawn from, up to a factor: f = 1 at the mode, falling (weakly) away from it.

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

The inner loop of the samplers, `try_cells`, is compiled here too. It works on integers only: no rounding, no library functions.

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

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.privacy._exact import log_rising, ratio

__all__ = [
    "ACCEPTED",
    "ACCURACY",
    "REJECTED",
    "UNDECIDED",
    "Distribution",
    "GaussianDistribution",
    "LaplaceDistribution",
    "NegativeBinomialDistribution",
    "PoissonDistribution",
    "Spans",
    "try_cells",
]


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
    """Where ``d²/2(μ + d/3)``, a lower bound of the deviance, reaches so many nats."""
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
    """Make ``len(value)`` trials of three words each, as `colonnade.privacy.samplers` describes them.

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
