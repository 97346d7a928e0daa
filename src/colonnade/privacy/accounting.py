"""Prices, losses, budgets and units: what a release offers, what it costs, what is allowed, and what is protected.

Four words are never interchanged: a *price* is what a request offers, a *loss* what a law costs, *spent* what a ledger has
recorded, a *budget* the ceiling. All are integers in nano-ε. A float that a person typed means its shortest decimal (0.1 is one
tenth, not 0.1000000000000000055…). Prices and budgets are rounded down to whole nano-units, so a study priced at the budget's own
ε fits a fresh ledger exactly. Losses are rounded up, so that a total never understates.

A loss is a Rényi curve on one fixed grid of orders, the μ² of Gaussian differential privacy, and a pure ε where there is one.
Each adds up over releases, also where the next one is chosen after the last was seen (docs/proofs/neighbours-and-losses.md,
docs/proofs/gaussian-losses.md). The noise of one plan is fixed before its first release, and its ε is the smallest of what these
say. Plans that follow each other are chosen after earlier ones were seen, and so is which of the figures is smallest in the end:
δ is then divided between them beforehand, `GAUSSIAN_PART` of it for μ² and `RENYI_PART` for the curve. A pure ε needs none.

Notes
-----
*Neighbours.* Every law is accounted under one relation, **zero-out**: one person's record is replaced by a null record that
contributes nothing. The number of people is public and rows are aligned, so for additive statistics the sensitivity is that of
adding or removing a row. Other relations that are stated somewhere: *replace* (a whole record against any other one),
*party-block* (one party's part of a record against any other values or null) and *event* (one value by at most a stated amount).
Randomised response holds for party-block, so that its composition over parties holds for replace too. A replacement is two steps
of zero-out: twice a pure ε, four times a ρ. Laws that do better have a ``replaced_loss``; sketches have one too. Steps on secret
samples are bounded under zero-out only.

*Pure ε* [Kairouz–Oh–Viswanath]: any ε-DP mechanism is a post-processing of binary randomised response with
``p = e^ε/(1+e^ε)``, so the Rényi divergence of that response is the worst case at every order:
``D_α = ln(p^α (1-p)^(1-α) + (1-p)^α p^(1-α)) / (α-1)``.
*zCDP*: ``D_α ≤ ρα``. *Composition* with independent randomness adds curves and adds pure ε.
*Conversion* [Canonne–Kamath–Steinke]: ``ε(δ) = min_α D_α + [ln(1/δ) + (α-1) ln(1-1/α) - ln α]/(α-1)``.

*Numerics.* Floating-point work here is a few elementary functions with an error below 1e-14 absolute and 1e-13 relative. The pad
added before rounding up is at least ten times that, and a test compares with 60-digit arithmetic.
"""

import bisect
import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from numbers import Real
from typing import Literal, get_args

import msgspec
import numpy as np
from scipy.special import ndtr, ndtri

from colonnade.errors import BadInput
from colonnade.privacy import gaussian
from colonnade.privacy.gaussian import mu_squared_of_pure

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
            remedy=f"For example {what}=1.0. Ordinary values lie between 0.01 and 10; there is no 'noise off'.",
        )
    exact = Fraction(epsilon) if isinstance(epsilon, int | Fraction) else Fraction(repr(float(epsilon)))
    nano = math.floor(exact * NANO)
    if nano < 1:
        raise BadInput(f"{what} is below 1e-9: it would buy no information.", remedy=f"For example {what}=1.0.")
    return nano


def valid_delta(delta: object, *, what: str = "delta") -> float:
    """Return δ as a float in [0, 1); refuse anything else."""
    if type(delta) is float and (delta == 0 or 1e-100 <= delta < 1):
        return delta  # what plans hold, and a plan of many parties holds many of them
    if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 <= float(delta) < 1:
        raise BadInput(
            f"{what} must be a number of at least 0 and below 1.",
            remedy=f"For example {what}=1e-6, well below 1/people; 0 for pure methods.",
        )
    if 0 < float(delta) < 1e-100:
        raise BadInput(f"{what} is positive but below 1e-100.", remedy="Use 0 and a pure method instead.")
    return float(delta)


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one release offers to pay: ε in nano-units and δ (0 where the method is pure)."""

    nano: int
    delta: float

    def __post_init__(self) -> None:
        if isinstance(self.nano, bool) or not 0 < self.nano <= LARGEST_EPSILON * NANO:
            raise BadInput("A price must be positive.", remedy="For example Price.of(1.0).")
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
            raise BadInput(f"epsilon is too small to be divided by {parts}.", remedy="Raise epsilon.")
        return Price(self.nano // parts, self.delta / parts)


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's ceiling on everything it will ever release about any one person.

    Parameters
    ----------
    epsilon, delta
        The cap: what the party's ledger, composed over all its releases, may reach and never passes.

    Examples
    --------
    >>> Budget(epsilon=10.0, delta=1e-5)
    Budget(epsilon=10.0, delta=1e-05)
    >>> Budget(4.0) == Budget(epsilon=4.0)
    True
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


Unit = Literal["person", "party"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""What a promise is about: a person's whole record, or one party's part of it."""


def valid_unit(unit: object) -> Unit:
    """Return the unit, or refuse what is none."""
    for known in UNITS:
        if unit == known:
            return known
    raise BadInput("unit is 'person' or 'party'.", remedy='For example unit="person".')


def party_price(price: Price, parties: int, unit: Unit) -> Price:
    """Return what each of several parties may spend so that the promise holds for ``unit``.

    For a local method: the parties' randomness is independent, so a person's loss is the sum of the parties' losses.

    Examples
    --------
    >>> party_price(Price.of(1.0), 4, "person").epsilon, party_price(Price.of(1.0), 4, "party").epsilon
    (0.25, 1.0)
    """
    if parties < 1:
        raise BadInput("There is at least one party.")
    return price.share(parties) if valid_unit(unit) == "person" else price


ORDERS: tuple[Fraction, ...] = tuple(
    chain(
        (Fraction(8 + eighth, 8) for eighth in range(1, 8)),
        (Fraction(quarter, 4) for quarter in range(8, 40)),
        (Fraction(order) for order in range(10, 257)),
        (Fraction(order) for order in (320, 384, 512, 768, 1024, 2048)),
    )
)
"""The grid of Rényi orders, the same in every ledger: 1⅛ … 1⅞, 2 … 9¾ by quarters, 10 … 256, then wide steps."""

GAUSSIAN_PART, RENYI_PART = 7 / 8, 1 / 16
"""How δ is divided between μ² and the Rényi curve of several plans, the latter at either of two orders. The first loses less than
1 % of ε, the second about 10 %: Gaussian noise is the rule, and what has none (quantiles, sketches, secret batches, pure reports)
the exception."""

SEVERAL = b""
"""In the place of a plan, for what several plans cost together."""


GRID = "gaussian-1"
"""How the ledgers that are made now add up, recorded in each: μ², curves on this grid of orders, and pure ε."""
RENYI_GRID = "renyi-grid-1"
"""How the ledgers of version 0.2.0 add up: curves on the same grid, with all of δ, and pure ε. They go on as they began."""

_ALPHA = np.array([float(order) for order in ORDERS])
_ENTRY = 16
"""Bytes of one entry of a loss as it is kept and sent."""
_NANO_RATIOS = tuple((order.numerator * NANO, order.denominator) for order in ORDERS)


def nano_up(value: float) -> int:
    """Round a computed non-negative real up to nano-units, past any floating-point error in it."""
    if not 0 <= value < math.inf:
        raise BadInput("A loss must be finite.")
    numerator, denominator = float(value * (1 + 1e-12)).as_integer_ratio()
    return -(-(numerator * NANO * 10_000 + denominator) // (denominator * 10_000))


UNBOUNDED = 10**12 * gaussian.UNIT
"""In the place of μ² for a mechanism of which none is known: more than any cap admits. Sums stop here."""

LARGEST_REPLACED = 500 * NANO
"""Beyond this ε, in nano-units, no figure for replaced records is looked for: e^ε would pass what a double holds."""


class Loss:
    """An exact, additive record of privacy loss.

    Parameters
    ----------
    renyi
        One integer per order of `ORDERS`: the Rényi divergence in nano-units, rounded up.
    pure
        The pure ε in nano-units, or ``None`` if the mechanism has none.
    gaussian
        μ² in units of 1/`colonnade.privacy.gaussian.UNIT`, rounded up: `UNBOUNDED` for a mechanism of which none is known.
        ``None`` for what a ledger of 0.2.0 holds, which adds up curves with all of δ.
    plan
        The plan that all of it belongs to, or `SEVERAL`; ``None`` while one plan is put together.
    parts
        Of one plan: μ² of what is not pure, and every pure ε. By default all of it is the one or the other.

    Examples
    --------
    >>> twice = Loss.of_pure(500_000_000) + Loss.of_pure(500_000_000)
    >>> twice.epsilon(0.0)
    1.0
    >>> round(Loss.of_zcdp(Fraction(1, 32), gaussian.mu_squared(1, Fraction(16))).epsilon(1e-5), 4)
    0.929
    """

    __slots__ = ("_parts", "gaussian", "plan", "pure", "renyi")

    def __init__(
        self,
        renyi: Iterable[int],
        pure: int | None,
        gaussian: int | None = None,
        plan: bytes | None = None,
        parts: tuple[int, tuple[int, ...]] | None = None,
    ) -> None:
        self.renyi = tuple(renyi)
        self.pure = pure
        self.gaussian = gaussian
        self.plan = plan
        if len(self.renyi) != len(ORDERS):
            raise BadInput("A loss has one entry per order of the grid.")
        if {*map(type, self.renyi)} != {int} or min(self.renyi) < 0:
            raise BadInput("A loss is made of non-negative integers.")
        if any(figure is not None and (type(figure) is not int or figure < 0) for figure in (pure, gaussian)):
            raise BadInput("A pure ε and μ² are non-negative integers.")
        self._parts = (gaussian or 0, ()) if parts is None else parts
        if parts is None and pure and gaussian == mu_squared_of_pure(pure):
            self._parts = (0, (pure,))

    @classmethod
    def of_pure(cls, nano: int) -> "Loss":
        """Return the loss of any mechanism that is ε-DP, ε in nano-units."""
        if type(nano) is not int or nano <= 0:
            raise BadInput("A pure loss must be a positive number of nano-units.")
        return _pure_loss(nano)

    @classmethod
    def of_zcdp(cls, rho: Fraction, gaussian: int | None = None) -> "Loss":
        """Return the loss of a ρ-zCDP mechanism; ``gaussian`` is its μ² if it is known."""
        if not isinstance(rho, Fraction | int) or rho <= 0:
            raise BadInput("rho must be a positive exact rational.")
        above, below = rho.numerator, rho.denominator
        renyi = (-(-above * order // (below * part)) for order, part in _NANO_RATIOS)
        return cls(renyi, None, UNBOUNDED if gaussian is None else gaussian)

    @classmethod
    def of_curve(cls, curve: Callable[[float], float], gaussian: int | None = None) -> "Loss":
        """Return the loss with a given Rényi curve, a function of the order; ``gaussian`` is its μ² if it is known."""
        renyi = (nano_up(curve(alpha)) for alpha in _ALPHA.tolist())
        return cls(renyi, None, UNBOUNDED if gaussian is None else gaussian)

    def __add__(self, other: "Loss") -> "Loss":
        pure = None if self.pure is None or other.pure is None else self.pure + other.pure
        squared = None
        if self.gaussian is not None and other.gaussian is not None:
            squared = min(self.gaussian + other.gaussian, UNBOUNDED)
        plan = self.plan if other.plan in (None, self.plan) else other.plan if self.plan is None else SEVERAL
        parts = None
        if plan != SEVERAL:
            parts = min(self._parts[0] + other._parts[0], UNBOUNDED), tuple(sorted(self._parts[1] + other._parts[1]))
        return Loss(map(operator.add, self.renyi, other.renyi), pure, squared, plan, parts)

    def __mul__(self, times: int) -> "Loss":
        if type(times) is not int or times < 1:
            raise BadInput("A loss is repeated a positive whole number of times.")
        pure = None if self.pure is None else self.pure * times
        squared = None if self.gaussian is None else min(self.gaussian * times, UNBOUNDED)
        parts = min(self._parts[0] * times, UNBOUNDED), self._parts[1] * times
        return Loss((entry * times for entry in self.renyi), pure, squared, self.plan, parts)

    def less(self, other: "Loss", times: int) -> "Loss":
        """Return a loss that so many others raise to this one, at least: positive in every figure."""
        renyi = (max(mine - times * one, 1) for mine, one in zip(self.renyi, other.renyi, strict=True))
        pure = None if self.pure is None or other.pure is None else max(self.pure - times * other.pure, 1)
        squared = None
        if self.gaussian is not None and other.gaussian is not None:
            squared = max(self.gaussian - times * other.gaussian, 1)
        return Loss(renyi, pure, squared, self.plan)

    def covers(self, other: "Loss") -> bool:
        """Return whether this loss is at least another in every figure that either has."""
        if self.gaussian is None or other.gaussian is None or self.gaussian < other.gaussian:
            return False
        pure = other.pure is None or (self.pure is not None and self.pure >= other.pure)
        return pure and all(map(operator.ge, self.renyi, other.renyi))

    def as_kept(self) -> "Loss":
        """Return the same as one row of a ledger says it: not what is Gaussian and what is pure."""
        return Loss(self.renyi, self.pure, self.gaussian, self.plan)

    def followed_by_others(self) -> "Loss":
        """Return the same as a part of what several plans cost."""
        return Loss(self.renyi, self.pure, self.gaussian, SEVERAL)

    def of_plan(self, plan: bytes) -> "Loss":
        """Return the same as a part of one plan: added to what another plan cost, it is the loss of several."""
        if self == NOTHING or self.plan == SEVERAL:
            return self
        return Loss(self.renyi, self.pure, self.gaussian, plan, self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loss) and self._figures == other._figures

    def __hash__(self) -> int:
        return hash(self._figures)

    @property
    def _figures(self) -> tuple[tuple[int, ...], int | None, int | None]:
        return self.renyi, self.pure, self.gaussian

    @property
    def _shares(self) -> tuple[float, float]:
        """Of how much of δ μ² and the curve make use."""
        return (GAUSSIAN_PART, RENYI_PART) if self.plan == SEVERAL and self.gaussian is not None else (1.0, 1.0)

    @property
    def _mixed(self) -> tuple[int, tuple[int, ...]]:
        """What is Gaussian, and what is pure: told apart in one plan; of several plans everything counts as Gaussian."""
        return (self.gaussian or 0, ()) if self.plan == SEVERAL else self._parts

    def __repr__(self) -> str:
        if self.pure is not None:
            return f"Loss(epsilon={self.pure / NANO:g})"
        return f"Loss(epsilon={self.epsilon(1e-5):.4g} at delta=1e-05)"

    @property
    def mu(self) -> float | None:
        """μ of Gaussian differential privacy, rounded up; ``None`` where none is known."""
        if self.gaussian is None or self.gaussian >= UNBOUNDED:
            return None
        return math.nextafter(math.sqrt(self.gaussian / gaussian.UNIT), math.inf)

    def nano_epsilon(self, delta: float) -> int | None:
        """Return the smallest certified ε at this δ in nano-units, rounded up; ``None`` if there is none (δ = 0)."""
        candidates = [] if self.pure is None else [self.pure]
        if delta > 0:
            candidates.append(self._renyi_nano(delta))
            if self.gaussian is not None and self.gaussian < UNBOUNDED:
                squared, pures = self._mixed
                if squared == 0 and len(pures) == 1:
                    return self.pure
                mixed = () if gaussian.delta_beside(squared, pures, 1.0) is None else ((squared, pures),)
                for parts in {*mixed, (self.gaussian, ())}:
                    certified = gaussian.nano_epsilon(parts[0], self._shares[0] * delta, parts[1])
                    candidates += [] if certified is None else [certified]
        return min(candidates, default=None)

    def _renyi_nano(self, delta: float) -> int:
        """Return the ε of the curve: of one plan at its best order, of several plans at the orders that the ε itself decides."""
        terms = conversion_nano(self._shares[1] * delta)
        found: int = max(0, min(map(operator.add, self.renyi, terms)))
        if self.plan != SEVERAL or self.gaussian is None:
            return found
        while (least := self._least(found, self._shares[1] * delta)) > found:
            found = max(found + found // 2**20 + 1, min(least, 2 * found + NANO))
        return found

    def _least(self, nano: int, delta: float) -> int:
        """Return the ε of the curve at the better of the two orders that a cap has chosen."""
        terms = conversion_nano(delta)
        return min(self.renyi[order] + terms[order] for order in _orders(nano, delta))

    def delta(self, epsilon: float) -> float:
        """Return the smallest certified δ at this ε, rounded up; 0 where the loss is pure and at most ε, at most 1.

        Examples
        --------
        >>> Loss.of_pure(500_000_000).delta(0.5)
        0.0
        """
        if self.pure is not None and self.pure <= epsilon * NANO:
            return 0.0
        if self.plan == SEVERAL and self.gaussian is not None:
            low, high, nano = math.log(1e-100), 0.0, math.floor(epsilon * NANO)
            while high - low > 1e-9:
                middle = (low + high) / 2
                low, high = (low, middle) if self.fits(nano, math.exp(middle)) else (middle, high)
            return math.exp(high)
        room = (_ALPHA - 1) * (epsilon - np.array(self.renyi, dtype=float) / NANO * (1 + 1e-12))
        logs = -room + (_ALPHA - 1) * np.log1p(-1 / _ALPHA) - np.log(_ALPHA)
        curve = math.exp(min(float(logs.min()), 0.0)) * (1 + 1e-9)
        found, nearest = [curve], max(epsilon - 1 / NANO, 0.0)
        if self.gaussian is not None:
            mixed = gaussian.delta_beside(*self._mixed, nearest)
            found.append(gaussian.delta_of(self.gaussian, nearest) if mixed is None else mixed)
        return min(*found, 1.0)

    def epsilon(self, delta: float) -> float:
        """Return the smallest certified ε at this δ; infinite where δ = 0 and the loss is not pure."""
        nano = self.nano_epsilon(delta)
        return math.inf if nano is None else nano / NANO

    def misses(self, alarms: float) -> float:
        """Return which share of people any test misses, at least, that raises so many false alarms: the trade-off, rounded down.

        A test says of a person, from everything that was released, whether the person's record is in the tables.

        Examples
        --------
        >>> round(Loss.of_pure(500_000_000).misses(0.05), 3)
        0.918
        """
        if not 0 <= alarms <= 1:
            raise BadInput("A share of false alarms lies between 0 and 1.", remedy="For example 0.05.")
        found = [0.0]
        if self.gaussian is not None and self.gaussian < UNBOUNDED and self.plan != SEVERAL:
            mu = math.sqrt(self.gaussian / gaussian.UNIT) * (1 + 1e-12)
            found.append(float(ndtr(-ndtri(alarms) - mu)) - 1e-12)
        exact = () if self.pure is None or self.pure > 30 * NANO else (self.pure / NANO,)
        for epsilon in (*exact, *np.geomspace(1e-3, 30.0, 40).tolist()):
            caught = 1 - self.delta(epsilon)
            found += [caught - math.exp(epsilon) * alarms, math.exp(-epsilon) * (caught - alarms)]
        return max(found)

    def epsilon_if_replaced(self, delta: float) -> float:
        """Return an ε that holds at this δ if a record is replaced by another instead of by nothing.

        That is two steps of the loss itself, whatever was composed: a record to nothing, and nothing to the other record. It is
        twice the ε of a pure loss, and otherwise 2ε with the ε of δ/(1 + e^ε) (docs/proofs/neighbours-and-losses.md#replace).

        Examples
        --------
        >>> Loss.of_pure(500_000_000).epsilon_if_replaced(0.0)
        1.0
        """
        twice = math.inf if self.pure is None else 2 * self.pure / NANO
        if delta <= 0 or self == NOTHING:
            return twice

        def suffices(nano: int) -> bool:
            if nano > LARGEST_REPLACED:  # the δ that is left for each step is below any float
                return False
            found = self.nano_epsilon(delta / (1 + math.exp(nano / NANO)) * (1 - 1e-12))  # δ rounded down
            return found is not None and found <= nano

        low = self.nano_epsilon(delta) or 0
        high = max(2 * low, NANO)
        while not suffices(high):
            low, high = high, 2 * high
            if high > LARGEST_REPLACED:
                return twice
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if suffices(middle) else (middle, high)
        return min(twice, 2 * high / NANO)

    def fits(self, nano_cap: int, delta: float) -> bool:
        """Return whether this total stays within a cap."""
        if self.pure is not None and self.pure <= nano_cap:
            return True
        if delta <= 0:
            return False
        if self.gaussian is not None:
            squared, pures = self._mixed
            part = self._shares[0] * delta
            if gaussian.fits(squared, nano_cap, part, pures) or gaussian.fits(self.gaussian, nano_cap, part):
                return True
        if self.plan != SEVERAL or self.gaussian is None:
            return self._renyi_nano(delta) <= nano_cap
        return self._least(nano_cap, self._shares[1] * delta) <= nano_cap

    def to_bytes(self, grid: str = GRID) -> bytes:
        """Return a fixed-width canonical form: the pure part, μ² (-1 for none), 1 for several plans, then the curve.

        A ledger of 0.2.0 has the pure part and the curve (``grid`` is `RENYI_GRID`).
        """
        heads = (self.pure, self.gaussian, int(self.plan == SEVERAL)) if grid == GRID else (self.pure,)
        head = b"".join((-1 if one is None else one).to_bytes(_ENTRY, "big", signed=True) for one in heads)
        if max(self.renyi) < 2**63:  # all but absurd losses: eight zero bytes before each, in one call
            wide = np.zeros((len(self.renyi), 2), dtype=">u8")
            wide[:, 1] = self.renyi
            return head + wide.tobytes()
        return head + b"".join(entry.to_bytes(_ENTRY, "big", signed=True) for entry in self.renyi)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Loss":
        """Read what `to_bytes` wrote."""
        if len(data) not in LOSS_BYTES.values():
            raise BadInput("The bytes of a loss are cut short or too many.")
        entries = [int.from_bytes(data[i : i + _ENTRY], "big", signed=True) for i in range(0, len(data), _ENTRY)]
        pure, *more = (None if entry == -1 else entry for entry in entries[: -len(ORDERS)])
        squared, several = more or (None, 0)
        return cls(entries[-len(ORDERS) :], pure, squared, SEVERAL if several else None)


LOSS_BYTES = {GRID: _ENTRY * (len(ORDERS) + 3), RENYI_GRID: _ENTRY * (len(ORDERS) + 1)}
"""How long a loss is as it is kept and sent."""


@lru_cache(maxsize=1024)
def _pure_loss(nano: int) -> Loss:
    epsilon = nano / NANO
    log_keep = -np.log1p(np.exp(-epsilon))
    log_sum = log_keep + np.logaddexp((_ALPHA - 1) * epsilon, -_ALPHA * epsilon)
    curve = np.minimum(log_sum / (_ALPHA - 1), epsilon)  # D_α ≤ D_∞ = ε
    renyi = (nano_up(max(float(divergence), 0.0)) for divergence in curve)
    return Loss(renyi, nano, mu_squared_of_pure(nano))


@lru_cache(maxsize=1024)
def conversion_nano(delta: float) -> tuple[int, ...]:
    """Return what each order adds to its divergence to make an ε at this δ > 0, in nano-units, rounded up."""
    terms = (-math.log(delta) + (_ALPHA - 1) * np.log1p(-1 / _ALPHA) - np.log(_ALPHA)) / (_ALPHA - 1)
    return tuple(math.ceil(Fraction(float(term) + abs(float(term)) * 1e-12 + 1e-13) * NANO) for term in terms)


@lru_cache(maxsize=1024)
def _orders(nano: int, delta: float) -> tuple[int, int]:
    """Return the places of two orders that are known from a cap, before any release: at one it admits most of a curve ρα.

    The other is twice that: pure losses have flat curves, and the sum of both kinds is smallest in between.
    """
    terms = conversion_nano(delta)
    first = max(range(len(ORDERS)), key=lambda place: Fraction(nano - terms[place]) / ORDERS[place])
    return first, min(bisect.bisect_left(ORDERS, 2 * ORDERS[first]), len(ORDERS) - 1)


NOTHING = Loss((0 for _ in ORDERS), 0, 0)
"""The loss of releasing nothing: the identity of addition."""

LEAST = Loss.of_pure(1)
"""The smallest debit that a ledger writes: ε = 10⁻⁹. It keeps the seed of a helper's noise with a debit."""

NOTHINGS = {GRID: NOTHING, RENYI_GRID: Loss(NOTHING.renyi, 0)}
"""What a ledger begins with, by how it adds up."""


def total(losses: Iterable[Loss]) -> Loss:
    """Compose losses of mechanisms with independent randomness."""
    return sum(losses, NOTHING)


def of_several(losses: Iterable[Loss]) -> Loss:
    """Compose losses of plans, each of which may have been chosen after the ones before it were seen."""
    return total(loss.of_plan(b"plan %d" % number) for number, loss in enumerate(losses))


def largest_pure(spent: Loss, nano_cap: int, delta: float) -> int:
    """Return the largest pure ε, in nano-units, that one more plan may cost within a cap; 0 if there is none."""
    low, high = 0, nano_cap
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if of_several((spent, Loss.of_pure(middle))).fits(nano_cap, delta) else (low, middle - 1)
        )
    return low


def largest_offer(spent: Loss, nano_cap: int, delta: float) -> int:
    """Return the largest ε, in nano-units, that one more plan may offer within a cap; 0 if there is none.

    Where all that was spent is pure, a pure one. Otherwise one of Gaussian noise at the cap's δ: nearly all studies that have a δ
    are of that kind, and pure ones have less room beside them.
    """
    if spent.pure is not None or spent.gaussian is None:
        return largest_pure(spent, nano_cap, delta)
    low, high = 0, gaussian.largest_mu_squared(nano_cap, delta)
    while high - low > 1 + (high >> 40):
        middle = (low + high) // 2
        more = Loss.of_zcdp(Fraction(middle, 2 * gaussian.UNIT), middle)
        low, high = (middle, high) if of_several((spent, more)).fits(nano_cap, delta) else (low, middle)
    return (gaussian.nano_epsilon(low, delta) or 1) - 1  # one unit above, a little more would have to fit
