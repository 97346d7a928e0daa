"""From a price to a noise scale.

Whatever certifies privacy is rounded to more noise. Integer noise is calibrated by the ledger's own curve (`ledger_rho`), so that
a study at a cap's (ε, δ) fits a fresh ledger. The conversion from zCDP to (ε, δ) is proved in
docs/proofs/neighbours-and-losses.md.
"""

import math
from fractions import Fraction
from functools import lru_cache

from colonnade.errors import BadInput
from colonnade.privacy.loss import ORDERS, Loss, conversion_nano
from colonnade.privacy.neighbours import Unit, valid_unit
from colonnade.privacy.price import NANO, Price

__all__ = [
    "discrete_laplace_variance",
    "gaussian_party_price",
    "gaussian_sigma_squared",
    "laplace_scale",
    "ledger_rho",
    "round_up",
]

_SIGNIFICANT_BITS = 32


@lru_cache(maxsize=1024)
def ledger_rho(price: Price) -> Fraction:
    """Return the largest ρ, exactly, whose zCDP curve on the ledger's grid fits the price.

    At order α the curve's integer is ⌈ρα·10⁹⌉ and the price admits it if it is at most ``nano - t_α``, ``t_α`` the
    conversion's integer. So the answer is the greatest of ``(nano - t_α)/(α·10⁹)``, no search needed.

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
