"""From a price to a noise scale, and back.

Whatever certifies privacy is rounded to more noise, a larger ε or a larger δ. Integer noise is calibrated by the
ledger's own curve (`ledger_rho`), so that a study at a cap's (ε, δ) fits a fresh ledger; the analytic Gaussian is
proved for continuous noise and serves for known answers, previews and second opinions.

Notes
-----
*Analytic Gaussian* [Balle–Wang 2018], sensitivity 1: ``δ = Φ(1/2σ - εσ) - e^ε Φ(-1/2σ - εσ)``.
*zCDP* [Canonne–Kamath–Steinke 2020]: ``ε = min_α ρα + [ln(1/δ) + (α-1) ln(1-1/α) - ln α]/(α-1)``. Its derivative is
``ρ - (ln(1/δ) - ln α)/(α-1)²``, so the best order is the only root of ``ρ(α-1)² + ln α = ln(1/δ)``.
*Pure, M-fold* [Kairouz–Oh–Viswanath 2015]: the worst case is M-fold binary randomised response, a binomial sum.

A computed δ carries a pad (`_PAD`, relative) well above its floating-point error, and a solution is moved until the
padded δ is certainly met; a test compares with 60 digits.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, gammaln, log_expit, log_ndtr, ndtr

from colonnade.errors import BadInput
from colonnade.privacy.loss import ORDERS, Loss, conversion_nano
from colonnade.privacy.neighbours import Unit, valid_unit
from colonnade.privacy.price import NANO, Price, valid_delta

__all__ = [
    "analytic_gaussian_delta",
    "analytic_gaussian_epsilon",
    "analytic_gaussian_sigma",
    "discrete_laplace_variance",
    "gaussian_party_price",
    "gaussian_sigma_squared",
    "kov_delta",
    "kov_epsilon",
    "kov_epsilon_each",
    "laplace_scale",
    "ledger_rho",
    "round_up",
    "zcdp_epsilon",
    "zcdp_rho",
]

_PAD = 1e-11
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_SIGNIFICANT_BITS = 32


def analytic_gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return δ of continuous Gaussian noise at this ε, sensitivity 1, rounded up.

    Examples
    --------
    >>> round(analytic_gaussian_delta(3.730631635, 1.0), 10)
    1e-05
    """
    _positive(sigma, "sigma")
    if not 0 <= epsilon < math.inf:
        raise BadInput("epsilon must be finite and not negative.")
    return min(1.0, _gaussian_delta(sigma, epsilon) * (1 + _PAD))


def analytic_gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return the least σ of continuous Gaussian noise for (ε, δ), sensitivity 1, rounded up.

    Examples
    --------
    >>> round(analytic_gaussian_sigma(1.0, 1e-5), 9)
    3.730631635
    """
    _positive(epsilon, "epsilon")
    _positive_delta(delta)
    return _solve(lambda sigma: analytic_gaussian_delta(sigma, epsilon) - delta, 1.0)


def analytic_gaussian_epsilon(sigma: float, delta: float) -> float:
    """Return the least ε of continuous Gaussian noise at this δ, sensitivity 1, rounded up.

    Examples
    --------
    >>> round(analytic_gaussian_epsilon(2.0, 1e-5), 9)
    1.993091404
    """
    _positive(sigma, "sigma")
    _positive_delta(delta)
    if analytic_gaussian_delta(sigma, 0.0) <= delta:
        return 0.0
    return _solve(lambda epsilon: analytic_gaussian_delta(sigma, epsilon) - delta, 1.0)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the ε at this δ of a ρ-zCDP mechanism, every real order allowed, rounded up.

    Examples
    --------
    >>> round(zcdp_epsilon(1 / 32, 1e-5), 7)
    1.0122866
    """
    _positive(rho, "rho")
    _positive_delta(delta)
    log_inverse = -math.log(delta)
    excess = _solve(lambda excess: log_inverse - rho * excess**2 - math.log1p(excess), 1.0)  # the best order, less 1
    terms = (rho * (1 + excess), log_inverse / excess, -math.log1p(excess) / excess, -math.log1p(1 / excess))
    return max(0.0, math.fsum(terms)) + 1e-14 * max(map(abs, terms))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose `zcdp_epsilon` at this δ is at most ε, rounded down.

    Examples
    --------
    >>> round(zcdp_rho(1.0, 1e-5), 9)
    0.030556595
    """
    _positive(epsilon, "epsilon")
    _positive_delta(delta)
    return _solve(lambda rho: epsilon - zcdp_epsilon(rho, delta), 1.0, towards_zero=True)


def kov_delta(epsilon_each: float, count: int, epsilon: float) -> float:
    """Return δ at this ε of ``count`` pure mechanisms of ``epsilon_each``, optimally composed, rounded up."""
    _positive(epsilon_each, "epsilon_each")
    _positive_count(count)
    losing = np.arange(count // 2 + 1)
    total = (count - 2 * losing) * epsilon_each
    gap = total - epsilon + 2.0**-51 * (total + epsilon)  # where the two nearly cancel, rounding must not hide the rest
    losing, gap = losing[gap > 0], gap[gap > 0]
    log_choose = gammaln(count + 1) - gammaln(losing + 1) - gammaln(count - losing + 1)
    log_weight = log_choose + losing * log_expit(-epsilon_each) + (count - losing) * log_expit(epsilon_each)
    pad = _PAD + 1e-14 * float(gammaln(count + 1))  # what the logarithms of factorials lose
    return min(1.0, float(np.sum(np.exp(log_weight) * -np.expm1(-gap))) * (1 + pad))


def kov_epsilon(epsilon_each: float, count: int, delta: float) -> float:
    """Return the least ε at this δ of ``count`` pure mechanisms of ``epsilon_each``, rounded up.

    Examples
    --------
    >>> round(kov_epsilon(1e-3, 4096, 5e-6), 8)
    0.22105331
    """
    _positive(epsilon_each, "epsilon_each")
    _positive_count(count)
    if valid_delta(delta) == 0:
        return math.nextafter(count * epsilon_each, math.inf)
    if kov_delta(epsilon_each, count, 0.0) <= delta:
        return 0.0
    return _solve(lambda epsilon: kov_delta(epsilon_each, count, epsilon) - delta, epsilon_each)


def kov_epsilon_each(epsilon: float, delta: float, count: int) -> float:
    """Return the largest ε′ such that ``count`` pure mechanisms of ε′ compose to (ε, δ), rounded down.

    Examples
    --------
    >>> round(kov_epsilon_each(0.49, 1e-5, 4096), 9)
    0.002181706
    """
    _positive(epsilon, "epsilon")
    _positive_count(count)
    if valid_delta(delta) == 0:
        return math.nextafter(epsilon / count, 0.0)
    return _solve(lambda each: delta - kov_delta(each, count, epsilon), epsilon / count, towards_zero=True)


@lru_cache(maxsize=1024)
def ledger_rho(price: Price) -> Fraction:
    """Return the largest ρ, exactly, whose zCDP curve on the ledger's grid fits the price.

    At order α the curve's integer is ⌈ρα·10⁹⌉ and the price admits it if it is at most ``nano - t_α``, ``t_α`` the
    conversion's integer. Hence the answer is the greatest of ``(nano - t_α)/(α·10⁹)``, no search needed.

    Examples
    --------
    >>> round(float(ledger_rho(Price.of(1.0, 1e-5))), 5)
    0.03055
    """
    if price.delta == 0:
        raise BadInput("Gaussian noise needs a positive delta.", remedy="For example delta=1e-6, below 1/people.")
    room = (
        (price.nano - term) / (order * NANO) for order, term in zip(ORDERS, conversion_nano(price.delta), strict=True)
    )
    rho = max(room)
    if rho <= 0:
        raise BadInput(
            "epsilon is too small for this delta: no order of the ledger's grid admits any Gaussian release.",
            remedy="Raise epsilon or delta, or use a pure method (delta=0).",
        )
    return rho


def gaussian_party_price(price: Price, parties: int, unit: Unit) -> Price:
    """Return what each of several parties may spend on Gaussian noise of its own so that the promise holds for ``unit``.

    ρ adds over independent parties, so each gets ρ/v at the same δ: √v less noise than from splitting ε and δ.

    Examples
    --------
    >>> share = gaussian_party_price(Price.of(1.0, 1e-5), 4, "person")
    >>> round(float(4 * ledger_rho(share) / ledger_rho(Price.of(1.0, 1e-5))), 6)
    1.0
    """
    if valid_unit(unit) == "party" or parties == 1:
        return price
    share = ledger_rho(price) / parties
    nano = Loss.of_zcdp(share).nano_epsilon(price.delta)
    assert nano is not None  # δ is positive, or ledger_rho had refused
    while not _fits(ledger_rho(Price(nano, price.delta)), share, parties, price):
        nano -= 1
    return Price(nano, price.delta)


def _fits(rho: Fraction, share: Fraction, parties: int, price: Price) -> bool:
    """Whether so many releases of ρ, each rounded up as ledgers do, stay within the price together."""
    return rho <= share and (Loss.of_zcdp(rho) * parties).fits(price.nano, price.delta)


def laplace_scale(price: Price, l1_sensitivity: int | Fraction) -> Fraction:
    """Return the scale Δ₁/ε of discrete Laplace noise, exactly.

    Examples
    --------
    >>> laplace_scale(Price.of(0.5), 1)
    Fraction(2, 1)
    """
    return _positive_exact(l1_sensitivity, "l1_sensitivity") / price.exact


def gaussian_sigma_squared(price: Price, l2_sensitivity_squared: int | Fraction) -> Fraction:
    """Return the σ² = Δ₂²/2ρ of discrete Gaussian noise, ρ from `ledger_rho`; rounded up to 32 significant bits.

    Examples
    --------
    >>> round(float(gaussian_sigma_squared(Price.of(1.0, 1e-5), 1)) ** 0.5, 3)
    4.045
    """
    return round_up(_positive_exact(l2_sensitivity_squared, "l2_sensitivity_squared") / (2 * ledger_rho(price)))


def discrete_laplace_variance(scale: float | Fraction) -> float:
    """Return the variance 2a/(1-a)², a = e^(-1/scale), of discrete Laplace noise.

    Examples
    --------
    >>> round(discrete_laplace_variance(Fraction(2)), 9)
    7.835396178
    """
    _positive(float(scale), "scale")
    return 0.5 / math.sinh(0.5 / float(scale)) ** 2


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
    from scipy.optimize import brentq  # heavy, and most of what imports this module never comes here

    root = float(brentq(falling, low, high, xtol=1e-300, rtol=4e-15, maxiter=500)) if low < high else start
    step = 2.0**-50
    while falling(root) < 0 if towards_zero else falling(root) > 0:
        root *= 1 - step if towards_zero else 1 + step
        step *= 2
    return root


def round_up(value: Fraction) -> Fraction:
    """Round up to `_SIGNIFICANT_BITS`, so that samplers meet modest numerators and denominators."""
    shift = _SIGNIFICANT_BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    unit = Fraction(1, 2**shift) if shift >= 0 else Fraction(2**-shift)
    return math.ceil(value / unit) * unit


def _positive(value: float, what: str) -> None:
    if not 0 < value < math.inf:
        raise BadInput(f"{what} must be positive and finite.")


def _positive_delta(delta: float) -> None:
    if valid_delta(delta) == 0:
        raise BadInput("delta must be positive.")


def _positive_count(count: int) -> None:
    if type(count) is not int or count < 1:
        raise BadInput("A composition has a positive whole number of mechanisms.")


def _positive_exact(value: int | Fraction, what: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value <= 0:
        raise BadInput(f"{what} must be a positive exact rational.")
    return Fraction(value)
