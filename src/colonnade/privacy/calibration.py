"""From a price to the parameter of a law, and from a law to its loss: exact bounds, rounded to the safe side.

A figure that certifies privacy is rounded to more noise, never to less.

*Integer noise* is calibrated by the ledger's own curve (`ledger_rho`), so that a study at a cap's (ε, δ) fits a fresh ledger
(docs/proofs/neighbours-and-losses.md).

*Skellam noise and Poisson sampling* have theorems for whole orders from 2, and the ledger's grid has fractions.
`between_whole_orders` carries a bound from one to the other. Every function returns a float whose relative error is far below the
pad that `Loss.of_curve` adds, except `summed_gaussian_rho`, an exact rational that is rounded up.

*Steps on secret Poisson samples*: Zhu–Wang 2019, Theorem 5, with its factor 3 on the terms from the third. Without it the bound
needs a condition that is not proved for discrete Gaussian noise (docs/proofs/gradient-steps.md#sampling). It is arranged so that
nothing cancels. With b_l the binomial weights, which add up to 1,

    E ≤ 1 + Σ_{l ≥ 2} b_l · (k_l·e^{ρl(l−1)} − 1),    k_2 = 1, k_l = 3 from l = 3 on,

and D_α = ln(E)/(α−1): every term is positive, so relative errors stay near 1e-12 however small the sampling rate. Steps with
fresh coins and fresh noise compose by adding curves, also when each step's question depends on the answers before it.

*A part of a record* (the party unit) needs another argument (docs/proofs/gradient-steps.md#part). Without the part, the record
still takes part, so a step is a mixture on both sides: P = (1−q)p₀ + q·p_a against Q = (1−q)p₀ + q·p_b. With X = q(p_a − p_b)/Q,
which has mean 0 under Q, E_Q[(P/Q)^α] = 1 + Σ_{l ≥ 2} C(α,l)·E_Q[X^l]. |x−y|^l/z^(l−1) is jointly convex, so E_Q[|X|^l] is at
most q^l times the larger of E[|p_a − p_b|^l/r^l] under r = p₀ and p_b [as Wang–Balle–Kasiviswanathan 2019]. For l = 2 this is at
most 4(e^{2ρ} − 1), by (x−y)² ≤ 2(x−z)² + 2(y−z)². For l ≥ 3 it is at most 2e^{ρl(l−1)}; the code takes 3 instead of 2, so that
the parts of a record never add up to less than the whole. ρ is what the whole record costs. The bound is never above that of no
sampling.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from colonnade.errors import BadInput
from colonnade.privacy import gaussian
from colonnade.privacy.accounting import (
    NANO,
    NOTHING,
    ORDERS,
    Loss,
    Price,
    Unit,
    conversion_nano,
    valid_unit,
)

_SIGNIFICANT_BITS = 32
ROUNDINGS, KEPT_BACK = 10**6, 10**9
"""Units of μ², 10⁻¹⁸: so many numbers of one release may be rounded up by less than one each. And 10⁻¹⁵, which a price keeps back
for them and for some hundreds of rows that are charged the least of all."""
LARGEST_SINH = 300.0
"""Beyond it the square of sinh does not fit floating point, and equals a quarter of e^2x to every digit."""


@lru_cache(maxsize=1024)
def ledger_rho(price: Price, parts: int = 1, *, besides: Loss = NOTHING) -> Fraction:
    """Return the largest ρ = μ²/2, exactly, of Gaussian noise that fits the price.

    Parameters
    ----------
    price
        What all of it together may cost. δ is positive.
    parts
        How many independent releases of this ρ are made.
    besides
        A loss that is to fit the same price.

    Examples
    --------
    >>> round(float(ledger_rho(Price.of(1.0, 1e-5))), 5)
    0.03593
    """
    rho = _room(price, parts, besides)
    if rho <= 0:
        raise BadInput(
            "epsilon is too small for this delta: it would pay for less than the ledger's smallest unit.",
            remedy="Raise epsilon or delta, or use a pure method (delta=0).",
        )
    return rho


@lru_cache(maxsize=1024)
def renyi_rho(price: Price) -> Fraction:
    """Return the largest ρ, exactly, whose zCDP curve on the ledger's grid fits the price: of what has no Gaussian noise.

    At order α the curve's integer is ⌈ρα·10⁹⌉ and the price admits it if it is at most ``nano - t_α``, ``t_α`` the
    conversion's integer. So the answer is the greatest of ``(nano - t_α)/(α·10⁹)``, no search needed.
    """
    _require_delta(price)
    rho = _renyi_room(price, 1, NOTHING)
    if rho <= 0:
        raise BadInput(
            "epsilon is too small for this delta: no order admits such a release.",
            remedy="Raise epsilon or delta, or use a pure method (delta=0).",
        )
    return rho


def _require_delta(price: Price) -> None:
    if price.delta == 0:
        raise BadInput("Gaussian noise needs a positive delta.", remedy="For example delta=1e-6, below 1/people.")


def _room(price: Price, parts: int, besides: Loss) -> Fraction:
    """Return `ledger_rho` where it is positive; not more than 0 where nothing fits."""
    _require_delta(price)
    most = gaussian.largest_mu_squared(price.nano, price.delta)
    own = Fraction((most - (besides.gaussian or 0)) // parts - KEPT_BACK, 2 * gaussian.UNIT)
    return own if besides == NOTHING else max(own, _renyi_room(price, parts, besides))


def _renyi_room(price: Price, parts: int, besides: Loss) -> Fraction:
    terms = zip(ORDERS, conversion_nano(price.delta), besides.renyi, strict=True)
    return max(((price.nano - term - other) // parts) / (order * NANO) for order, term, other in terms)


def price_of_rho(rho: Fraction, delta: float) -> Price:
    """Return the largest price whose ρ is at most the given one.

    It is at the given δ if there is one. A large δ alone pays for a small ρ: its ε would be 0, which is no price. The same ρ
    has a positive ε at a smaller δ, and the price is stated there.

    Examples
    --------
    >>> price_of_rho(Fraction(1, 50), 1e-6).epsilon < 0.85
    True
    >>> price_of_rho(Fraction(1, 10**6), 1e-3).delta < 1e-3
    True
    """
    if 2 * rho * gaussian.UNIT < 1:
        raise BadInput(
            "A part of this price is below the ledger's smallest unit.",
            remedy="Raise epsilon, or divide it between fewer parts.",
        )
    while True:
        nano = _nano_of_rho(rho, delta)
        if nano > 0:
            return Price(nano, delta)
        delta /= 10


def price_of_loss(loss: Loss, delta: float) -> Price:
    """Return the smallest price that a loss fits: at the given δ, or at a smaller one if δ alone pays for it."""
    while True:
        nano = loss.nano_epsilon(delta)
        assert nano is not None  # δ is positive
        if nano > 0:
            return Price(nano, delta)
        delta /= 10


def _nano_of_rho(rho: Fraction, delta: float) -> int:
    """Return the largest ε in nano-units that admits at most ρ, and not nothing, at this δ; 0 if there is none."""
    nano = budget_loss(rho).nano_epsilon(delta) or 0
    while nano > 0 and _room(Price(nano, delta), 1, NOTHING) > rho:
        nano -= 1
    return nano if nano > 0 and _room(Price(nano, delta), 1, NOTHING) > 0 else 0


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
    return price_of_rho(ledger_rho(price, parties), price.delta)


def laplace_scale(price: Price, l1_sensitivity: int | Fraction) -> Fraction:
    """Return the scale Δ₁/ε of discrete Laplace noise, exactly.

    Examples
    --------
    >>> laplace_scale(Price.of(0.5), 1)
    Fraction(2, 1)
    """
    return _positive_exact(l1_sensitivity, "l1_sensitivity") / price.exact


def gaussian_sigma_squared(price: Price, l2_sensitivity_squared: int | Fraction) -> Fraction:
    """Return the least σ² of discrete Gaussian noise, to 32 significant bits, that keeps within the price.

    Examples
    --------
    >>> round(float(gaussian_sigma_squared(Price.of(1.0, 1e-5), 1)) ** 0.5, 3)
    3.742
    """
    return share_within(ledger_rho(price), _positive_exact(l2_sensitivity_squared, "l2_sensitivity_squared"))


def discrete_laplace_variance(scale: float | Fraction) -> float:
    """Return the variance 2a/(1-a)², a = e^(-1/scale), of discrete Laplace noise.

    Examples
    --------
    >>> round(discrete_laplace_variance(Fraction(2)), 9)
    7.835396178
    """
    _positive(float(scale), "scale")
    half = 0.5 / float(scale)
    return 0.5 / math.sinh(half) ** 2 if half < LARGEST_SINH else 2 * math.exp(-2 * half)


def round_up(value: Fraction) -> Fraction:
    """Round up to `_SIGNIFICANT_BITS`, so that samplers meet modest numerators and denominators."""
    shift = _SIGNIFICANT_BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    unit = Fraction(1, 2**shift) if shift >= 0 else Fraction(2**-shift)
    return math.ceil(value / unit) * unit


def _positive(value: float, what: str) -> None:
    if not 0 < value < math.inf:
        raise BadInput(f"{what} must be positive and finite.")


def _positive_exact(value: int | Fraction, what: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value <= 0:
        raise BadInput(f"{what} must be a positive exact rational.")
    return Fraction(value)


def between_whole_orders(curve: Callable[[int], float], order: float) -> float:
    """Return a bound on the divergence at a real order from bounds at the whole orders beside it.

    ``(α-1)·D_α = ln E[(P/Q)^α]`` under Q is convex in α and vanishes at α = 1, so it lies below its chords. Between 1
    and 2 that says ``D_α ≤ D_2``.
    """
    if not 1 < order < math.inf:
        raise BadInput("A Rényi order is above 1.")
    below = math.floor(order)
    part = order - below
    lower = (below - 1) * curve(below) if below > 1 else 0.0
    upper = below * curve(below + 1) if part else 0.0
    return ((1 - part) * lower + part * upper) / (order - 1)


def skellam_rdp(order: float, l1_sensitivity: float, l2_sensitivity_squared: float, mean: float) -> float:
    """Return the Rényi bound of Skellam noise ``Pois(mean) - Pois(mean)``, variance ``2·mean``, on integer vectors.

    ``αΔ₂²/4μ + min(((2α-1)Δ₂² + 6Δ₁)/16μ², 3Δ₁/4μ)`` [Agarwal–Kairouz–Liu 2021], at whole orders from 2.
    """

    def at(alpha: int) -> float:
        quadratic = ((2 * alpha - 1) * l2_sensitivity_squared + 6 * l1_sensitivity) / (16 * mean**2)
        return alpha * l2_sensitivity_squared / (4 * mean) + min(quadratic, 3 * l1_sensitivity / (4 * mean))

    if not (mean > 0 and l1_sensitivity > 0 and l2_sensitivity_squared > 0):
        raise BadInput("The mean and the sensitivities of Skellam noise must be positive.")
    return between_whole_orders(at, order)


FINE = 16
"""A variance of discrete Gaussian noise that is as good as that of a continuous one: κ² there is 0.53 % above its inverse."""
SMALLEST_SHARE = Fraction(1, 4)
"""Below it nothing is known about the sum of discrete Gaussians of this variance [Kairouz–Liu–Steinke 2021]."""


def sum_correction(share_variance: float | Fraction, shares: int) -> float:
    """Return τ = 10·Σ_{k<N} exp(-2π²s²·k/(k+1)): how far N summed discrete Gaussians of variance s² are from one.

    Kairouz–Liu–Steinke 2021; s ≥ 1/2. Below 1e-15 from s = 2.
    """
    if not share_variance >= SMALLEST_SHARE:
        raise BadInput("A share of discrete Gaussian noise needs a variance of at least 1/4.")
    if type(shares) is not int or shares < 1:
        raise BadInput("Noise has a positive whole number of shares.")
    scale = -2 * math.pi**2 * float(share_variance)
    return 10 * math.fsum(math.exp(scale * k / (k + 1)) for k in range(1, shares))


def summed_gaussian_rho(
    l2_sensitivity_squared: int | Fraction, share_variance: Fraction, shares: int, entries: int
) -> Fraction:
    """Return the ρ of the sum of discrete Gaussian shares, ½(Δ₂/S + τ√d)² with S² = N·s², rounded up.

    Kairouz–Liu–Steinke 2021, Theorem 1: a sum of discrete Gaussians is not one, and `sum_correction` is the price.

    Parameters
    ----------
    l2_sensitivity_squared
        Δ₂².
    share_variance
        s², the variance of each share. Where entries have several variances, the smallest, and Δ₂² is measured with
        each entry's square divided by how many times that its variance is.
    shares
        N, how many shares the observer does not know.
    entries
        d, how many numbers are released.
    """
    if type(entries) is not int or entries < 1:
        raise BadInput("A release has a positive whole number of entries.")
    plain = Fraction(l2_sensitivity_squared) / (2 * shares * share_variance)
    if shares == 1:
        return plain
    ratio = sum_correction(share_variance, shares) * math.sqrt(entries / (2 * float(plain)))
    inflation = Fraction(ratio * (2 + ratio) * (1 + 1e-12))
    return plain * (1 + Fraction(math.floor(inflation * 2**64) + 1, 2**64))


def gaussian_loss(
    l2_sensitivity_squared: int | Fraction, share_variance: Fraction, shares: int = 1, entries: int = 1
) -> Loss:
    """Return the loss of discrete Gaussian noise, of one party or in shares; parameters as in `summed_gaussian_rho`."""
    rho = summed_gaussian_rho(l2_sensitivity_squared, share_variance, shares, entries)
    return Loss.of_zcdp(rho, gaussian.mu_squared(l2_sensitivity_squared, share_variance, shares))


def counting_height(rho: Fraction) -> int:
    """Return in how many steps a person is counted, a power of two, where ρ is for a count: one if the noise is several people.

    From a variance of `FINE` on, the steps of discrete noise cost less than 0.3 % of it.
    """
    height = 1
    while height**2 < FINE * 2 * rho:
        height *= 2
    return height


def budget_loss(rho: Fraction) -> Loss:
    """Return the loss of Gaussian releases that divide ρ = μ²/2 between them, each noised by `share_within`."""
    return Loss.of_zcdp(rho, math.ceil(2 * rho * gaussian.UNIT) + ROUNDINGS)


def gaussian_share_variance(price: Price, l2_sensitivity_squared: int | Fraction, shares: int) -> Fraction:
    """Return the least variance of a share, to 32 bits, with which ``shares`` of them keep within the price."""
    return share_within(ledger_rho(price), l2_sensitivity_squared, shares)


def share_within(rho: Fraction, l2_sensitivity_squared: int | Fraction, shares: int = 1) -> Fraction:
    """Return the least variance of a share, to 32 bits, with which ``shares`` of them cost at most ρ = μ²/2."""

    def suffices(share: Fraction) -> bool:
        return gaussian.shared_step(*share.as_integer_ratio(), shares) <= step

    step = 2 * rho / Fraction(l2_sensitivity_squared)  # κ² may be so much
    low = round_up(max(1 / (step * shares), SMALLEST_SHARE if shares > 1 else Fraction(0)))
    if suffices(low):
        return low
    high = round_up(max(low, 1 / (step * shares) + gaussian.ROUNDED / shares))
    while not suffices(high):
        low, high = high, 2 * high
    while high - low > high / 2**12 and high * shares <= gaussian.LARGEST_TABLE:  # beyond, it is exact
        middle = round_up((low + high) / 2)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


Array = NDArray[np.float64]

PAD = 1e-9  # relative; far above the error of the terms, far below anything that matters
_WHOLE = tuple(sorted({math.floor(order) for order in ORDERS} | {math.ceil(order) for order in ORDERS}))
_MANY = tuple(order for order in _WHOLE if order <= 256)
_FEW = tuple(order for order in _WHOLE if order > 256)  # a table for all orders would mostly be empty
_FEWEST = 2


def sampled_loss(rho: Fraction, rate: float, steps: int, squared: int | None = None) -> Loss:
    """Return the loss of ``steps`` steps, each ρ-zCDP on a fresh sample, to an observer who cannot see the samples.

    Parameters
    ----------
    rho
        What one step would cost somebody who is in its sample for certain.
    rate
        The probability with which each person is in a step's sample, independently.
    steps
        How many.
    squared
        μ² of one step, in the ledger's units: 2ρ where nothing else is said.

    Examples
    --------
    >>> sampled_loss(Fraction(1, 2), 1.0, 3) == Loss.of_zcdp(Fraction(3, 2), 3 * gaussian.UNIT)
    True
    """
    _check(rate, steps)
    everybody = _unsampled(rho, steps, squared)
    if rate == 1:
        return Loss.of_zcdp(rho * steps, everybody)
    bounds = dict(zip(_WHOLE, (_whole_orders(float(rho), rate) * steps * (1 + PAD)).tolist(), strict=True))
    return Loss.of_curve(lambda order: between_whole_orders(bounds.__getitem__, order), everybody)


def sampled_part_loss(rho: Fraction, part: Fraction, rate: float, steps: int, squared: int | None = None) -> Loss:
    """Return the same for a part of a record, while the rest of the record takes part.

    Parameters
    ----------
    rho
        What one step would cost the whole record, for certain in the sample.
    part
        The same for the part.
    rate, steps, squared
        As in `sampled_loss`.
    """
    _check(rate, steps)
    everybody = _unsampled(part, steps, squared)
    if rate == 1:
        return Loss.of_zcdp(part * steps, everybody)
    bounds = np.minimum(_part_orders(float(rho), rate), float(part) * np.array(_WHOLE, dtype=float))
    found = dict(zip(_WHOLE, (bounds * steps * (1 + PAD)).tolist(), strict=True))
    return Loss.of_curve(lambda order: between_whole_orders(found.__getitem__, order), everybody)


def _unsampled(rho: Fraction, steps: int, squared: int | None) -> int:
    """Return μ² of all steps if everybody took part in each: a sample can only hide more."""
    return steps * (math.ceil(2 * rho * gaussian.UNIT) if squared is None else squared)


@lru_cache(maxsize=256)
def largest_step_rho(price: Price, rate: float, steps: int, part: Fraction | None = None) -> Fraction:
    """Return the most that one step may cost a whole record, to 18 bits, so that all steps together keep within a price.

    With ``part`` the price is for a part of a record that moves so large a share of the squared distance.

    Examples
    --------
    >>> rho = largest_step_rho(Price.of(1.0, 1e-5), 0.001, 5_000)
    >>> sampled_loss(rho, 0.001, 5_000).epsilon(1e-5) <= 1.0 < sampled_loss(rho * 2, 0.001, 5_000).epsilon(1e-5)
    True
    """
    _check(rate, steps)
    if price.delta == 0:
        raise BadInput("Gaussian noise needs a positive delta.", remedy="For example delta=1e-6, well below 1/people.")

    def fits(rho: Fraction) -> bool:
        loss = sampled_loss(rho, rate, steps) if part is None else sampled_part_loss(rho, rho * part, rate, steps)
        return loss.fits(price.nano, price.delta)

    low, high = _bracket(fits)
    while high - low > high * Fraction(1, 2**18):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _check(rate: float, steps: int) -> None:
    if not 0 < rate <= 1:
        raise BadInput("A sampling rate is above 0 and at most 1.")
    if type(steps) is not int or steps < 1:
        raise BadInput("The number of steps is a positive whole number.")


def _bracket(fits: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction]:
    high = Fraction(1)
    while fits(high):
        high *= 2
    low = high / 2
    while not fits(low):
        low /= 2
        if low < Fraction(1, 2**80):
            raise BadInput(
                "No noise makes this many steps fit this price.", remedy="Raise epsilon, or take fewer steps."
            )
    return low, low * 2


def _whole_orders(rho: float, rate: float) -> Array:
    """Return the bound of one step at every whole order of the grid; never above ρα, what it costs without sampling."""
    return np.concatenate([_bounds(rho, rate, orders) for orders in (_MANY, _FEW)])


def _bounds(rho: float, rate: float, orders: tuple[int, ...]) -> Array:
    weights, drawn = _log_weights(rate, orders)
    exponent = rho * drawn * (drawn - 1)
    grown = np.where(drawn > _FEWEST, exponent + np.log(3 - np.exp(-exponent)), _log_expm1(exponent))
    excess = logsumexp(weights + grown, axis=1)
    alpha = np.array(orders, dtype=float)
    return np.asarray(np.minimum(np.logaddexp(0.0, excess) / np.maximum(alpha - 1, 1), rho * alpha))


def _part_orders(rho: float, rate: float) -> Array:
    """Return the bound of one step for a part of a record, while the rest of it takes part."""
    return np.concatenate([_part_bounds(rho, rate, orders) for orders in (_MANY, _FEW)])


def _part_bounds(rho: float, rate: float, orders: tuple[int, ...]) -> Array:
    weights, drawn = _log_weights(rate, orders)
    alpha = np.array(orders, dtype=float)
    chosen = weights - np.maximum(alpha[:, None] - drawn, 0) * math.log1p(-rate)  # C(α, l)·q^l, without those left out
    exponent = rho * drawn * (drawn - 1)
    grown = np.where(drawn > _FEWEST, exponent + math.log(3), math.log(4) + _log_expm1(exponent))
    excess = logsumexp(chosen + grown, axis=1)
    return np.asarray(np.logaddexp(0.0, excess) / np.maximum(alpha - 1, 1))


def _log_expm1(values: Array) -> Array:
    return np.where(
        values > 1, values + np.log1p(-np.exp(-np.maximum(values, 1))), np.log(np.expm1(np.minimum(values, 1)))
    )


@lru_cache(maxsize=16)
def _log_weights(rate: float, orders: tuple[int, ...]) -> tuple[Array, Array]:
    """Return ln of the binomial weights of 2 … α people drawn, one row per whole order α, and how many are drawn."""
    drawn = np.arange(_FEWEST, max(orders) + 1, dtype=float)[None, :]
    alpha = np.array(orders, dtype=float)[:, None]
    outside = np.maximum(alpha - drawn, 0)
    choose = gammaln(alpha + 1) - gammaln(drawn + 1) - gammaln(outside + 1)
    weights = choose + outside * math.log1p(-rate) + drawn * math.log(rate)
    return np.where(drawn <= alpha, weights, -np.inf), drawn
