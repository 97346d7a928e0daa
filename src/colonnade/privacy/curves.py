"""Rényi curves of what is neither pure nor plainly zCDP: Skellam noise and sums of discrete Gaussians.

The theorems on Skellam noise and on Poisson sampling (`colonnade.privacy.subsampling`) are for whole orders from 2; the
ledger's grid has fractions. `between_whole_orders` carries a bound from the one to the other: (α-1)·D_α is convex in α and
0 at α = 1.

Every function returns a float whose relative error is far below the pad that `Loss.of_curve` adds, except
`summed_gaussian_rho`, which is an exact rational, rounded up.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from colonnade.errors import BadInput
from colonnade.privacy.calibration import gaussian_sigma_squared, ledger_rho, round_up
from colonnade.privacy.price import Price

__all__ = [
    "between_whole_orders",
    "gaussian_share_variance",
    "skellam_rdp",
    "sum_correction",
    "summed_gaussian_rho",
]


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


def sum_correction(share_variance: float | Fraction, shares: int) -> float:
    """Return τ = 10·Σ_{k<N} exp(-2π²s²·k/(k+1)): how far N summed discrete Gaussians of variance s² are from one.

    Kairouz–Liu–Steinke 2021; s ≥ 1/2. Below 1e-15 from s = 2.
    """
    if not share_variance >= Fraction(1, 4):
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


def gaussian_share_variance(
    price: Price, l2_sensitivity_squared: int | Fraction, shares: int, entries: int
) -> Fraction:
    """Return the least variance of a share, to 32 bits, with which ``shares`` of them keep within the price."""
    cap = ledger_rho(price)
    share = max(round_up(gaussian_sigma_squared(price, l2_sensitivity_squared) / shares), Fraction(1, 4))
    step = Fraction(1, 2**31)
    while summed_gaussian_rho(l2_sensitivity_squared, share, shares, entries) > cap:
        share = round_up(share * (1 + step))
        step *= 2
    return share
