"""Powers of numbers that were released with discrete Laplace noise, estimated without bias.

This takes the place of Algorithm 2 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives), which
counts millions of patterns. Here nothing is counted. With ``a = e^(-1/scale)`` the noise of one party has the generating
function ``(1-a)²/((1-az)(1-a/z))``. Its inverse is the operator ``I - cΔ²`` with ``c = a/(1-a)²`` and ``Δ²g(y) = g(y+1) - 2g(y)
+ g(y-1)``. So for y = x + (independent noise of v parties) and *any* g on the whole numbers, ``f = Π_j(I - c_jΔ²) g`` has ``E
f(y) = g(x)``, exactly (docs/proofs/values-and-moments.md#unbiased-powers).

Notes
-----
*Closed form.* On powers, ``Δ² = 4·sinh²(D/2)``, so ``f(y) = Σ_n s_n·p(p-1)…(p-2n+1)·y^(p-2n)`` with ``Σ s_n z^(2n) = Π_j(1 -
4c_j·sinh²(z/2))``. For a whole p this is a polynomial. Otherwise the series converges from v on. From `_REACH`·v on, the terms
that are kept leave an error below rounding. Differences of neighbouring values cancel. They are taken only in a short table,
with enough digits.

*Below the bound.* Sums are never below a public bound L, so g(y) may be chosen for y < L. The choice decides the variance where
sums are small. An even power is continued as itself. Otherwise g is a combination, for t = L - y > 0, of 1, t, …, t^⌈p⌉
(which contain zero and, at L = 0 and whole p, ±|y|^p) and of ``t^i e^(-t/scale_j)``, which the operator sends to 0.
The weights minimise the variance, averaged over sums spread evenly from L to `_PRIOR` standard deviations of the noise
above it. The rule uses public numbers only, and the estimate is unbiased for every choice.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput

__all__ = ["NoiseLaw", "UnbiasedPower"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TERMS = 24
_REACH = 8
_PRIOR = 3.0
_RESOLUTION = 256
_TAIL = 30.0


class NoiseLaw:
    """The law of the sum of independent discrete Laplace noises, on a grid fine enough to average over.

    Parameters
    ----------
    scales
        The scale of each party's noise.

    Examples
    --------
    >>> law = NoiseLaw([Fraction(2), Fraction(2)])
    >>> round(law.variance, 6), law.step
    (15.670792, 1)
    """

    def __init__(self, scales: Sequence[Fraction]) -> None:
        floats = [float(scale) for scale in scales]
        self.variance = sum(0.5 / math.sinh(0.5 / scale) ** 2 for scale in floats)
        self.deviation = math.sqrt(self.variance)
        self.step = max(1, int(self.deviation / _RESOLUTION))
        self.half = math.ceil((_TAIL * max(floats) + 6 * self.deviation) / self.step) + 1
        self.weights = np.ones(1)
        for scale in floats:
            one = np.exp(-np.abs(np.arange(-self.half, self.half + 1)) * (self.step / scale))
            self.weights = np.convolve(self.weights, one / one.sum())
        cut = (len(self.weights) - 1) // 2 - self.half
        self.weights = self.weights[cut : len(self.weights) - cut]

    @property
    def offsets(self) -> Integers:
        """The values of the noise that the weights belong to."""
        return np.arange(-self.half, self.half + 1) * self.step

    def at(self, noise: NDArray[np.number]) -> Floats:
        """Return the probability of single values, interpolated between the points of the grid."""
        places = np.abs(np.asarray(noise, dtype=np.float64))
        logs = np.log(np.maximum(self.weights[self.half :], 1e-300) / self.step)
        return np.exp(np.interp(places, self.offsets[self.half :], logs, right=-math.inf))


class UnbiasedPower:
    """f with ``E f(x + noise) = x^power`` for every whole x from ``lowest`` on.

    Parameters
    ----------
    power
        p > 0.
    scales
        The scale of each party's discrete Laplace noise; they may differ.
    lowest
        The smallest possible sum: a public number, at least 0.

    Examples
    --------
    >>> square = UnbiasedPower(2, [Fraction(2), Fraction(2)])
    >>> round(float(square(np.array([10]))[0]), 6) == round(100 - 4 * 3.917698089, 6)
    True
    """

    def __init__(self, power: float, scales: Sequence[Fraction], lowest: int = 0) -> None:
        if not scales or not 0 < power < math.inf or lowest < 0:
            raise BadInput(
                "An unbiased power needs a positive power, at least one scale of noise, and sums that are not negative."
            )
        self.power = power
        self.scales = [Fraction(scale) for scale in scales]
        self.lowest = int(lowest)
        self.law = NoiseLaw(self.scales)
        self.whole = float(power).is_integer()
        self.polynomial = self.whole and int(power) % 2 == 0
        parties = len(self.scales)
        self._from = self.lowest + parties if self.whole else max(self.lowest + parties, _REACH * parties)
        self._to = self.lowest - parties  # the table covers what lies from here to there
        with mpmath.workdps(self._digits()):
            self._prepare()

    def __call__(self, sums: NDArray[np.integer]) -> Floats:
        """Return f of noisy sums."""
        y = np.asarray(sums)
        if self.polynomial:
            return self._right(y)
        out = np.empty(y.shape)
        right, left = y >= self._from, y < self._to
        out[right] = self._right(y[right])
        out[left] = np.polynomial.polynomial.polyval((self.lowest - y[left]).astype(np.float64), self._left)
        out[~(right | left)] = self._table[y[~(right | left)] - self._to]
        return out

    def mean_square(self, total: int) -> float:
        """Return E f² for a person whose true sum is ``total``."""
        y = total + self.law.offsets
        weights = self.law.weights
        if self.law.step > 1 and not self.polynomial:  # the table is steep, so every whole number in it is visited
            outside = (y < self._to) | (y >= self._from)
            band = np.arange(self._to, self._from)
            y, weights = (
                np.concatenate([y[outside], band]),
                np.concatenate([weights[outside], self.law.at(band - total)]),
            )
        return float(weights @ self(y) ** 2)

    def variance(self, total: int) -> float:
        """Return the variance of f for a person whose true sum is ``total``."""
        return max(self.mean_square(total) - math.pow(total, 2 * self.power), 0.0)

    # How f is found -----------------------------------------------------------------------------------------------------

    def _digits(self) -> int:
        """Return the digits that survive the cancellation of differences of order 2v, taken with weights of up to Π(1 + 4c_j)."""
        lost = sum(math.log10(1 + 4 * float(scale) ** 2) for scale in self.scales)
        largest = self.lowest + (_REACH + 2) * len(self.scales) + 10
        return int(60 + lost + 2 * (self.power + 2) * math.log10(largest))

    def _prepare(self) -> None:
        self._curvatures = [1 / (4 * mpmath.sinh(mpmath.mpf(1) / (2 * _real(scale))) ** 2) for scale in self.scales]
        self._symbol = _symbol(self._curvatures)
        self._terms = np.array([float(term) for term in self._power_terms(mpmath.mpf(self.power))])
        if not self.polynomial:
            stencil = _stencil(self._curvatures)
            self._continue(stencil)

    def _power_terms(self, power: mpmath.mpf) -> list[mpmath.mpf]:
        """Return the factors of y^p, y^(p-2), y^(p-4), … in f."""
        terms, falling = [], mpmath.mpf(1)
        for order, weight in enumerate(self._symbol):
            terms.append(weight * falling)
            falling *= (power - 2 * order) * (power - 2 * order - 1)
        return terms

    def _right(self, y: NDArray[np.integer]) -> Floats:
        values = y.astype(np.float64)
        if not self.whole:
            return np.asarray(values**self.power * np.polynomial.polynomial.polyval(values**-2.0, self._terms))
        half, odd = divmod(int(self.power), 2)
        square = np.polynomial.polynomial.polyval(values**2, self._terms[half::-1])
        return np.asarray(square * values if odd else square)

    def _continue(self, stencil: list[mpmath.mpf]) -> None:
        """Choose g below the bound, and tabulate f where the stencil meets both sides."""
        basis: list[_Monomial | _Decay] = [_Monomial(degree) for degree in range(math.ceil(self.power) + 1)]
        basis += [_Decay(i, _real(scale)) for scale, times in Counter(self.scales).items() for i in range(times)]
        band = range(self._to, self._from)
        fixed = _applied(stencil, band, lambda y: mpmath.mpf(y) ** mpmath.mpf(self.power) if y >= self.lowest else 0)
        free = [_applied(stencil, band, self._below_bound(b)) for b in basis]
        tails = [self._tail(b) for b in basis]
        weights = self._least_squares(fixed, free, tails, len(band))
        table = [
            mpmath.fsum([one, *(w * f[i] for w, f in zip(weights, free, strict=True))]) for i, one in enumerate(fixed)
        ]
        self._table = np.array([float(value) for value in table])
        self._left = np.array([float(mpmath.fsum(column)) for column in zip(*_scaled(tails, weights), strict=True)])

    def _below_bound(self, basis: "_Monomial | _Decay") -> Callable[[int], mpmath.mpf]:
        """Return the basis function of L - y below the bound L, and 0 from it on."""
        return lambda y: basis(self.lowest - y) if y < self.lowest else mpmath.mpf(0)

    def _tail(self, basis: "_Monomial | _Decay") -> list[mpmath.mpf]:
        """Return the coefficients of T t^q in t; none for what the operator sends to 0."""
        coefficients = [mpmath.mpf(0)] * (math.ceil(self.power) + 1)
        if isinstance(basis, _Monomial):
            for order, term in enumerate(self._power_terms(mpmath.mpf(basis.degree))):
                if 2 * order <= basis.degree:
                    coefficients[basis.degree - 2 * order] = term
        return coefficients

    def _least_squares(
        self, fixed: list[mpmath.mpf], free: list[list[mpmath.mpf]], tails: list[list[mpmath.mpf]], band: int
    ) -> list[mpmath.mpf]:
        """Minimise the average of f² over what is free, in units that keep the equations well scaled."""
        t = np.arange(len(self.scales) + 1, self.law.half * self.law.step, self.law.step, dtype=np.float64)
        root = np.sqrt(
            np.concatenate([self._prior(np.arange(band) + self._to - self.lowest), self._prior(-t) * self.law.step])
        )
        columns = []
        for values, tail in zip(free, tails, strict=True):
            left = np.polynomial.polynomial.polyval(t, np.array([float(one) for one in tail]))
            columns.append(root * np.concatenate([[float(one) for one in values], left]))
        wanted = root * np.concatenate([[float(one) for one in fixed], np.zeros(len(t))])
        matrix = np.column_stack(columns)
        sizes = np.linalg.norm(matrix, axis=0)
        solved, *_ = np.linalg.lstsq(matrix / sizes, -wanted, rcond=1e-13)
        return [mpmath.mpf(float(weight)) for weight in solved / sizes]

    def _prior(self, places: NDArray[np.number]) -> Floats:
        """Return the probability of a noisy sum at L + places, for sums spread evenly above L."""
        top = max(1.0, _PRIOR * self.law.deviation)
        spread = np.linspace(0.0, top, 33)
        return np.asarray(np.mean([self.law.at(np.asarray(places, dtype=np.float64) - one) for one in spread], axis=0))


class _Monomial:
    def __init__(self, degree: int) -> None:
        self.degree = degree

    def __call__(self, t: int) -> mpmath.mpf:
        return mpmath.mpf(t) ** self.degree


class _Decay:
    """``t^i e^(-t/scale)``: a root of the operator as often as the scale occurs, so the operator sends it to 0."""

    def __init__(self, degree: int, scale: mpmath.mpf) -> None:
        self._degree = degree
        self._scale = scale

    def __call__(self, t: int) -> mpmath.mpf:
        return (t / self._scale) ** self._degree * mpmath.exp(-t / self._scale)


def _real(scale: Fraction) -> mpmath.mpf:
    return mpmath.mpf(scale.numerator) / scale.denominator


def _symbol(curvatures: list[mpmath.mpf]) -> list[mpmath.mpf]:
    """Return the series of Π_j(1 - 4c_j·sinh²(z/2)) in z²."""
    second = [mpmath.mpf(0)] + [2 / mpmath.factorial(2 * order) for order in range(1, _TERMS)]
    series = [mpmath.mpf(1)] + [mpmath.mpf(0)] * (_TERMS - 1)
    for curvature in curvatures:
        series = [
            series[n] - curvature * mpmath.fsum(series[k] * second[n - k] for k in range(n)) for n in range(_TERMS)
        ]
    return series


def _stencil(curvatures: list[mpmath.mpf]) -> list[mpmath.mpf]:
    """Return the weights of g(y-v), …, g(y+v) in f(y)."""
    weights = [mpmath.mpf(1)]
    for c in curvatures:
        padded = [mpmath.mpf(0)] * 2 + weights + [mpmath.mpf(0)] * 2
        weights = [(1 + 2 * c) * padded[i] - c * (padded[i - 1] + padded[i + 1]) for i in range(1, len(padded) - 1)]
    return weights


def _applied(stencil: list[mpmath.mpf], places: range, g: Callable[[int], mpmath.mpf]) -> list[mpmath.mpf]:
    half = len(stencil) // 2
    values = {y: g(y) for y in range(places.start - half, places.stop + half)}
    return [mpmath.fsum(w * values[y + k - half] for k, w in enumerate(stencil)) for y in places]


def _scaled(rows: list[list[mpmath.mpf]], weights: list[mpmath.mpf]) -> list[list[mpmath.mpf]]:
    return [[weight * one for one in row] for row, weight in zip(rows, weights, strict=True)]
