"""What a release costs: a Rényi curve on one fixed grid of orders, and a pure ε where there is one.

Losses are integers in nano-units, always rounded **up**, so that adding them is exact and a total never understates.
Every mechanism of the library is accounted under one relation, zero-out (see `colonnade.privacy.neighbours`).

Notes
-----
*Pure ε* [Kairouz–Oh–Viswanath]: any ε-DP mechanism is a post-processing of binary randomised response with
``p = e^ε/(1+e^ε)``, so the Rényi divergence of that response is the worst case at every order:
``D_α = ln(p^α (1-p)^(1-α) + (1-p)^α p^(1-α)) / (α-1)``.
*zCDP*: ``D_α ≤ ρα``. *Composition* with independent randomness adds curves and adds pure ε.
*Conversion* [Canonne–Kamath–Steinke]: ``ε(δ) = min_α D_α + [ln(1/δ) + (α-1) ln(1-1/α) - ln α]/(α-1)``.

Floating-point work here is a handful of elementary functions with an error below 1e-14 absolute and 1e-13 relative; the
pad added before rounding up is at least ten times that, and a test compares with 60-digit arithmetic.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import chain

import numpy as np

from colonnade.errors import BadInput
from colonnade.privacy.price import NANO

__all__ = ["GRID", "NOTHING", "ORDERS", "Loss", "conversion_nano", "nano_up", "total"]

ORDERS: tuple[Fraction, ...] = tuple(
    chain(
        (Fraction(8 + eighth, 8) for eighth in range(1, 8)),
        (Fraction(quarter, 4) for quarter in range(8, 40)),
        (Fraction(order) for order in range(10, 257)),
        (Fraction(order) for order in (320, 384, 512, 768, 1024, 2048)),
    )
)
"""The grid of Rényi orders, the same in every ledger: 1⅛ … 1⅞, 2 … 9¾ by quarters, 10 … 256, then wide steps."""

GRID = "renyi-grid-1"
"""The grid's name, recorded in every ledger, so that curves on different grids are never added."""

_ALPHA = np.array([float(order) for order in ORDERS])
_NANO_RATIOS = tuple((order.numerator * NANO, order.denominator) for order in ORDERS)


def nano_up(value: float) -> int:
    """Round a computed non-negative real up to nano-units, past any floating-point error in it."""
    if not 0 <= value < math.inf:
        raise BadInput("A loss must be finite.")
    numerator, denominator = float(value * (1 + 1e-12)).as_integer_ratio()
    return -(-(numerator * NANO * 10_000 + denominator) // (denominator * 10_000))


class Loss:
    """An exact, additive record of privacy loss.

    Parameters
    ----------
    renyi
        One integer an order of `ORDERS`: the Rényi divergence in nano-units, rounded up.
    pure
        The pure ε in nano-units, or ``None`` if the mechanism has none.

    Examples
    --------
    >>> twice = Loss.of_pure(500_000_000) + Loss.of_pure(500_000_000)
    >>> twice.epsilon(0.0)
    1.0
    >>> round(Loss.of_zcdp(Fraction(1, 32)).epsilon(1e-5), 4)
    1.0126

    The grid of orders costs the last digits: with every real order allowed it would be 1.0123.
    """

    __slots__ = ("pure", "renyi")

    def __init__(self, renyi: Iterable[int], pure: int | None) -> None:
        self.renyi = tuple(renyi)
        self.pure = pure
        if len(self.renyi) != len(ORDERS):
            raise BadInput("A loss has one entry an order of the grid.")
        if any(type(entry) is not int or entry < 0 for entry in self.renyi):
            raise BadInput("A loss is made of non-negative integers.")
        if pure is not None and (type(pure) is not int or pure < 0):
            raise BadInput("A pure loss is a non-negative integer.")

    @classmethod
    def of_pure(cls, nano: int) -> "Loss":
        """Return the loss of any mechanism that is ε-DP, ε in nano-units."""
        if type(nano) is not int or nano <= 0:
            raise BadInput("A pure loss must be a positive number of nano-units.")
        return _pure_loss(nano)

    @classmethod
    def of_zcdp(cls, rho: Fraction) -> "Loss":
        """Return the loss of a ρ-zCDP mechanism."""
        if not isinstance(rho, Fraction | int) or rho <= 0:
            raise BadInput("rho must be a positive exact rational.")
        above, below = rho.numerator, rho.denominator
        return cls((-(-above * order // (below * part)) for order, part in _NANO_RATIOS), None)

    @classmethod
    def of_curve(cls, curve: Callable[[float], float]) -> "Loss":
        """Return the loss with a given Rényi curve, a function of the order."""
        return cls((nano_up(curve(alpha)) for alpha in _ALPHA.tolist()), None)

    def __add__(self, other: "Loss") -> "Loss":
        pure = None if self.pure is None or other.pure is None else self.pure + other.pure
        return Loss((a + b for a, b in zip(self.renyi, other.renyi, strict=True)), pure)

    def __mul__(self, times: int) -> "Loss":
        if type(times) is not int or times < 1:
            raise BadInput("A loss is repeated a positive whole number of times.")
        return Loss((entry * times for entry in self.renyi), None if self.pure is None else self.pure * times)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loss) and (self.renyi, self.pure) == (other.renyi, other.pure)

    def __hash__(self) -> int:
        return hash((self.renyi, self.pure))

    def __repr__(self) -> str:
        if self.pure is not None:
            return f"Loss(epsilon={self.pure / NANO:g})"
        return f"Loss(epsilon={self.epsilon(1e-5):.4g} at delta=1e-05)"

    def nano_epsilon(self, delta: float) -> int | None:
        """Return the smallest certified ε at this δ in nano-units, rounded up; ``None`` if there is none (δ = 0)."""
        candidates = [] if self.pure is None else [self.pure]
        if delta > 0:
            converted = (d + t for d, t in zip(self.renyi, conversion_nano(delta), strict=True))
            candidates.append(max(0, min(converted)))
        return min(candidates, default=None)

    def epsilon(self, delta: float) -> float:
        """Return the smallest certified ε at this δ; infinite where δ = 0 and the loss is not pure."""
        nano = self.nano_epsilon(delta)
        return math.inf if nano is None else nano / NANO

    def fits(self, nano_cap: int, delta: float) -> bool:
        """Return whether this total stays within a cap."""
        nano = self.nano_epsilon(delta)
        return nano is not None and nano <= nano_cap

    def to_bytes(self) -> bytes:
        """Return a fixed-width canonical form: the pure part (-1 for none), then the curve."""
        head = -1 if self.pure is None else self.pure
        return b"".join(entry.to_bytes(16, "big", signed=True) for entry in (head, *self.renyi))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Loss":
        """Read what `to_bytes` wrote."""
        if len(data) != 16 * (len(ORDERS) + 1):
            raise BadInput("A loss of another length.")
        entries = [int.from_bytes(data[i : i + 16], "big", signed=True) for i in range(0, len(data), 16)]
        return cls(entries[1:], None if entries[0] == -1 else entries[0])


@lru_cache(maxsize=1024)
def _pure_loss(nano: int) -> Loss:
    epsilon = nano / NANO
    log_keep = -np.log1p(np.exp(-epsilon))
    log_sum = log_keep + np.logaddexp((_ALPHA - 1) * epsilon, -_ALPHA * epsilon)
    curve = np.minimum(log_sum / (_ALPHA - 1), epsilon)  # D_α ≤ D_∞ = ε
    return Loss((nano_up(max(float(divergence), 0.0)) for divergence in curve), nano)


@lru_cache(maxsize=1024)
def conversion_nano(delta: float) -> tuple[int, ...]:
    """Return what each order adds to its divergence to make an ε at this δ > 0, in nano-units, rounded up."""
    terms = (-math.log(delta) + (_ALPHA - 1) * np.log1p(-1 / _ALPHA) - np.log(_ALPHA)) / (_ALPHA - 1)
    return tuple(math.ceil(Fraction(float(term) + abs(float(term)) * 1e-12 + 1e-13) * NANO) for term in terms)


NOTHING = Loss((0 for _ in ORDERS), 0)
"""The loss of releasing nothing: the identity of addition."""


def total(losses: Iterable[Loss]) -> Loss:
    """Compose losses of mechanisms with independent randomness."""
    return sum(losses, NOTHING)
