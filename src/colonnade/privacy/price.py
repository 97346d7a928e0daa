"""What is offered and what is allowed: ``Price`` and ``Budget``, in integer nano-ε.

Four words are never interchanged: a *price* is what a request offers, a *loss* what a mechanism costs, *spent* what a
ledger has recorded, a *budget* the ceiling. A float that a person typed means its shortest decimal (0.1 is one tenth, not
0.1000000000000000055…), and both prices and budgets are rounded down to whole nano-units: a study priced at the
budget's own ε fits a fresh ledger exactly.
"""

import math
from fractions import Fraction
from numbers import Real

import msgspec

from colonnade.errors import BadInput

__all__ = ["NANO", "Budget", "Price", "nano_epsilon", "valid_delta"]

NANO = 10**9
LARGEST_EPSILON = 10_000


def nano_epsilon(epsilon: object, *, what: str = "epsilon") -> int:
    """Return ε in whole nano-units, rounded down; refuse anything that is not a positive, finite, sensible number.

    Examples
    --------
    >>> nano_epsilon(0.1)
    100000000
    """
    if epsilon is None:
        raise BadInput(f"{what} is required.", remedy=f"State the privacy price, for example {what}=1.0.")
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real):
        raise BadInput(f"{what} must be a number, not {type(epsilon).__name__}.", remedy=f"For example {what}=1.0.")
    if not 0 < float(epsilon) <= LARGEST_EPSILON:  # written so that NaN fails
        raise BadInput(
            f"{what} must be positive and at most {LARGEST_EPSILON}.",
            remedy="Ordinary values lie between 0.01 and 10; there is no 'noise off'.",
        )
    exact = Fraction(epsilon) if isinstance(epsilon, int | Fraction) else Fraction(repr(float(epsilon)))
    nano = math.floor(exact * NANO)
    if nano < 1:
        raise BadInput(f"{what} is below 1e-9.", remedy="Such a price would buy no information.")
    return nano


def valid_delta(delta: object, *, what: str = "delta") -> float:
    """Return δ as a float in [0, 1); refuse anything else."""
    if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 <= float(delta) < 1:
        raise BadInput(f"{what} must be a number in [0, 1).", remedy="Use 0 for pure methods, else less than 1/people.")
    if 0 < float(delta) < 1e-100:
        raise BadInput(f"{what} is positive but below 1e-100.", remedy="Use 0 and a pure method instead.")
    return float(delta)


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one release offers to pay: ε in nano-units and δ (0 where the method is pure)."""

    nano: int
    delta: float

    def __post_init__(self) -> None:
        if isinstance(self.nano, bool) or not 0 < self.nano <= LARGEST_EPSILON * NANO:
            raise BadInput("A price must be positive.")
        valid_delta(self.delta)

    @classmethod
    def of(cls, epsilon: object, delta: object = 0.0) -> "Price":
        """Read a person's (ε, δ).

        Examples
        --------
        >>> Price.of(0.5).share(2).epsilon
        0.25
        """
        return cls(nano_epsilon(epsilon), valid_delta(delta))

    @property
    def epsilon(self) -> float:
        """ε as a float, for showing."""
        return self.nano / NANO

    @property
    def exact(self) -> Fraction:
        """ε as an exact rational, for calibrating."""
        return Fraction(self.nano, NANO)

    def share(self, parts: int) -> "Price":
        """Split evenly into independent parts whose losses add up to at most this price."""
        if self.nano < parts:
            raise BadInput("epsilon is too small to be shared between the parties.")
        return Price(self.nano // parts, self.delta / parts)


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A party's ceiling on everything it will ever release about any one person.

    Parameters
    ----------
    epsilon, delta
        The cap: what the party's ledger, composed over all its releases, may reach and never passes.

    Examples
    --------
    >>> Budget(epsilon=10.0, delta=1e-5)
    Budget(epsilon=10.0, delta=1e-05)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        nano_epsilon(self.epsilon)
        valid_delta(self.delta)

    @property
    def nano(self) -> int:
        """The cap in whole nano-ε, rounded down."""
        return nano_epsilon(self.epsilon)
