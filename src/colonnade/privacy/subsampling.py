"""Many steps, each with zCDP noise on a secret Poisson sample of the people: what they cost together, and what a price buys.

Zhu–Wang 2019, Theorem 5, with its factor 3 on the terms from the third: without it the bound needs a condition that is not
proved for discrete Gaussian noise (docs/proofs/gradient-steps.md). Arranged so that nothing cancels. With b_l the binomial
weights, which add up to 1,

    E ≤ 1 + Σ_{l ≥ 2} b_l · (k_l·e^{ρl(l−1)} − 1),    k_2 = 1, k_l = 3 from l = 3 on,

and D_α = ln(E)/(α−1): every term is positive, so relative errors stay near 1e-12 however small the sampling rate. Steps with
fresh coins and fresh noise compose by adding curves, also when each step's question depends on the answers before it.

*A part of a record* (the party unit) is another matter: without it the record still takes part, so a step is a mixture on both
sides, P = (1−q)p₀ + q·p_a against Q = (1−q)p₀ + q·p_b, and the theorem does not apply. With X = q(p_a − p_b)/Q, which has mean
0 under Q, E_Q[(P/Q)^α] = 1 + Σ_{l ≥ 2} C(α,l)·E_Q[X^l], and |x−y|^l/z^(l−1) is jointly convex, so E_Q[|X|^l] is at most q^l
times the larger of E[|p_a − p_b|^l/r^l] under r = p₀ and r = p_b [as Wang–Balle–Kasiviswanathan 2019]. For l = 2 this is at most
4(e^{2ρ} − 1), by (x−y)² ≤ 2(x−z)² + 2(y−z)²; for l ≥ 3 at most 2e^{ρl(l−1)}, of which 3 is taken, so that the parts of a record
never add up to less than the whole; ρ is what the whole record costs. And it is never more than without sampling.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from colonnade.errors import BadInput
from colonnade.privacy.curves import between_whole_orders
from colonnade.privacy.loss import ORDERS, Loss
from colonnade.privacy.price import Price

__all__ = ["largest_step_rho", "sampled_loss", "sampled_part_loss"]

Array = NDArray[np.float64]

PAD = 1e-9  # relative; far above the error of the terms, far below anything that matters
_WHOLE = tuple(sorted({math.floor(order) for order in ORDERS} | {math.ceil(order) for order in ORDERS}))
_MANY = tuple(order for order in _WHOLE if order <= 256)
_FEW = tuple(order for order in _WHOLE if order > 256)  # a table for all orders would mostly be empty
_FEWEST = 2


def sampled_loss(rho: Fraction, rate: float, steps: int) -> Loss:
    """Return the loss of ``steps`` steps, each ρ-zCDP on a fresh sample, to an observer who cannot see the samples.

    Parameters
    ----------
    rho
        What one step would cost somebody who is in its sample for certain.
    rate
        The probability with which each person is in a step's sample, independently.
    steps
        How many.

    Examples
    --------
    >>> sampled_loss(Fraction(1, 2), 1.0, 3) == Loss.of_zcdp(Fraction(3, 2))
    True
    """
    _check(rate, steps)
    if rate == 1:
        return Loss.of_zcdp(rho * steps)
    bounds = dict(zip(_WHOLE, (_whole_orders(float(rho), rate) * steps * (1 + PAD)).tolist(), strict=True))
    return Loss.of_curve(lambda order: between_whole_orders(bounds.__getitem__, order))


def sampled_part_loss(rho: Fraction, part: Fraction, rate: float, steps: int) -> Loss:
    """Return the same for a part of a record, the rest of which takes part all the same.

    Parameters
    ----------
    rho
        What one step would cost the whole record, for certain in the sample.
    part
        The same for the part.
    rate, steps
        As in `sampled_loss`.
    """
    _check(rate, steps)
    if rate == 1:
        return Loss.of_zcdp(part * steps)
    bounds = np.minimum(_part_orders(float(rho), rate), float(part) * np.array(_WHOLE, dtype=float))
    found = dict(zip(_WHOLE, (bounds * steps * (1 + PAD)).tolist(), strict=True))
    return Loss.of_curve(lambda order: between_whole_orders(found.__getitem__, order))


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
            raise BadInput("No noise makes so many steps fit this price.", remedy="Raise epsilon, or take fewer steps.")
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
    """Return the bound of one step for a part of a record of which the rest takes part."""
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
