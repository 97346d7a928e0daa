"""Closed forms that the tables of this benchmark compare with: the analytic Gaussian, and zCDP at real orders.

*Analytic Gaussian* [Balle–Wang 2018], sensitivity 1: ``δ = Φ(1/2σ - εσ) - e^ε Φ(-1/2σ - εσ)``.
*zCDP* [Canonne–Kamath–Steinke 2020]: ``ε = min_α ρα + [ln(1/δ) + (α-1) ln(1-1/α) - ln α]/(α-1)``. Its derivative is
``ρ - (ln(1/δ) - ln α)/(α-1)²``, so the best order is the only root of ``ρ(α-1)² + ln α = ln(1/δ)``.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtr

_PAD = 1e-11
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def analytic_gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return δ of continuous Gaussian noise at this ε, sensitivity 1, rounded up."""
    return min(1.0, _gaussian_delta(sigma, epsilon) * (1 + _PAD))


def analytic_gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return the least σ of continuous Gaussian noise for (ε, δ), sensitivity 1, rounded up."""
    return _solve(lambda sigma: analytic_gaussian_delta(sigma, epsilon) - delta, 1.0)


def analytic_gaussian_epsilon(sigma: float, delta: float) -> float:
    """Return the least ε of continuous Gaussian noise at this δ, sensitivity 1, rounded up."""
    if analytic_gaussian_delta(sigma, 0.0) <= delta:
        return 0.0
    return _solve(lambda epsilon: analytic_gaussian_delta(sigma, epsilon) - delta, 1.0)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the ε at this δ of a ρ-zCDP mechanism, every real order allowed, rounded up."""
    log_inverse = -math.log(delta)
    excess = _solve(lambda excess: log_inverse - rho * excess**2 - math.log1p(excess), 1.0)  # the best order, less 1
    terms = (rho * (1 + excess), log_inverse / excess, -math.log1p(excess) / excess, -math.log1p(1 / excess))
    return max(0.0, math.fsum(terms)) + 1e-14 * max(map(abs, terms))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose `zcdp_epsilon` at this δ is at most ε, rounded down."""
    return _solve(lambda rho: epsilon - zcdp_epsilon(rho, delta), 1.0, towards_zero=True)


def _gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return δ to nearly full relative precision.

    With Mills' ratio m, δ = φ(εσ-h)·[m(εσ-h) - m(εσ+h)], h = 1/2σ. Where h is small that difference cancels, and
    -m′(x) = 1 - x·m(x) is integrated instead.
    """
    middle, half = epsilon * sigma, 1 / (2 * sigma)
    if half < 0.125:
        points = middle + half * _NODES
        difference = half * float(_WEIGHTS @ (1 - points * _mills(points)))
    elif half > middle:
        return float(ndtr(half - middle)) - math.exp(epsilon + float(log_ndtr(-half - middle)))
    else:
        difference = float(_mills(middle - half) - _mills(middle + half))
    return math.exp(-((middle - half) ** 2) / 2) / math.sqrt(2 * math.pi) * difference


def _mills(x: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return (1 - Φ(x))/φ(x)."""
    ratio: NDArray[np.float64] = math.sqrt(math.pi / 2) * erfcx(np.asarray(x) / math.sqrt(2))
    return ratio


def _solve(falling: Callable[[float], float], start: float, *, towards_zero: bool = False) -> float:
    """Return the positive root of a falling function, or the nearest number beyond it where the sign is certain.

    Beyond is above the root, where the function is at most 0; ``towards_zero``, below it, where it is at least 0.
    """
    low = high = start
    while falling(low) < 0:
        low /= 4
    while falling(high) > 0:
        high *= 4
    root = float(brentq(falling, low, high, xtol=1e-300, rtol=4e-15, maxiter=500)) if low < high else start
    step = 2.0**-50
    while falling(root) < 0 if towards_zero else falling(root) > 0:
        root *= 1 - step if towards_zero else 1 + step
        step *= 2
    return root
