"""Flajolet–Martin sketches of partitions, corrected: the law of one sketch, what it costs, and how many phantoms a price buys.

Private vertical clustering (Li, Wang, Li, 2023), Algorithms 2 and 3 (docs/references.md#clustering), with the differences that
docs/proofs/sketches.md requires and a few that pay. A *sketch* hashes every person to a geometric value, ``P(H > a) =
(1+γ)^-a``, and keeps the largest of each cell; phantoms are n_p further values per cell.

*Cells.* Two parties with k′ clusters each divide the people into cells (a, b), where a or b may be "no record". The paper gives
phantoms to clusters, party by party, and adds the parties' losses although they hash with the same keys; equal maxima then give
a person away. Here phantoms belong to **cells** and all parties derive the same ones, so that everything that two parties release
of one sketch is a function of its cell maxima, and a person is an element of one cell. People without a record at one of the two
are cells of their own, (a, none) and (none, b): without phantoms there, a maximum that only one party has would show them.

*One cell, one element more or fewer.* Let F be the distribution function of a value (any: the proof does not use its form),
N ≥ n_p the number of elements, and outcomes be floored at ``α_min``. At a > α_min, with x = F(a) and y = F(a-1),
``(x^(N+1) - y^(N+1)) / (x^N - y^N)`` lies between x and x(N+1)/N; at the floor the ratio is F(α_min). So the log ratio is between
``-down = ln F(α_min)`` and ``up = ln(1 + 1/n_p)``. A ratio R with mean 1 and values in an interval is, for every convex function,
at most as bad as the two-point one at its ends; so a sketch is dominated by that pair in Rényi divergence at every order and in
δ at every ε, and so is a composition of sketches with independent values. With up = down this is the optimal composition
of Kairouz, Oh and Viswanath. The loss is about that of Gaussian noise with ``up·down`` for a variance, and a raised floor costs
little accuracy (few clusters are so small that their values lie there), so ``down`` is taken 24 times smaller than ``up``: a
fifth of the phantoms for the same loss.

*Two cells.* Where a record is replaced, or one party's part of it becomes null, one cell loses an element and another gains one.
Their sketches are independent, so that costs twice as much: what is released is a function of the (floored) cell sketches.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import NOTHING, Loss, Price, Unit, nano_up

__all__ = ["GAMMA", "SKETCHES", "SketchLaw", "Sketching", "least_floor", "least_phantoms", "sketch_law", "sketching"]

SKETCHES = 4_096
"""M: sketches per pair of parties."""
GAMMA_BITS = 10
GAMMA = 2.0**-GAMMA_BITS
"""γ. Smaller is more accurate and costs nothing: two different people then hardly ever share a value by chance."""
FLOOR_SHARE = 24
"""The floor lies where a value is above it with probability at most 1/(24·n_p)."""
LARGEST_PHANTOMS = 2**24
LARGEST_EXPONENT = 600.0
COARSEST = 2**20  # below this, thresholds that are whole numbers stop being geometric
_ONE = 2**64
_FINE = 2**192
_STEP = 2**GAMMA_BITS + 1  # (1+γ)^-1 = 1 - 1/(2^bits + 1)


def least_phantoms(epsilon_each: float) -> int:
    """Return n_p = ⌈1/(e^ε′-1)⌉: how many elements hide one more within ε′.

    Examples
    --------
    >>> [least_phantoms(each) for each in (1.099722e-3, 2.181706e-3, 4.189281e-3)]
    [909, 458, 239]
    """
    return math.ceil(1 / math.expm1(epsilon_each))


def least_floor(epsilon_each: float, gamma: float) -> int:
    """Return α_min = ⌈log_{1+γ} 1/(1-e^-ε′)⌉: the least value that a single element stays below with probability e^-ε′."""
    return math.ceil(-math.log(-math.expm1(-epsilon_each)) / math.log1p(gamma))


@dataclass(frozen=True)
class SketchLaw:
    """One sketch with n_p phantoms per cell: its distribution in 64-bit integers, and the range of its log ratio.

    Parameters
    ----------
    phantoms
        n_p.

    Notes
    -----
    A value is a uniform 64-bit word u and H the number of thresholds ``T_a = ⌊2^64·(1+γ)^-a⌋`` above it, so F(a) = 1 - T_a/2^64
    exactly. A cell's phantoms are one word v: their maximum is at most a where v < G(a), G(a) = ⌊2^64·F(a)^n_p⌋. Rounding G could
    spoil the ratio far out; with people c ≥ 0 in the cell it is largest for c = 0, where it is F(a) + G(a-1)·p_a/(G(a) - G(a-1)),
    p_a = F(a) - F(a-1). That this is at most 1 + 1/n_p is checked in integers for every a, and values are capped (all larger ones
    merged) before the first a for which it is not: far beyond what billions of people reach.
    """

    phantoms: int

    def __post_init__(self) -> None:
        if type(self.phantoms) is not int or not 1 <= self.phantoms <= LARGEST_PHANTOMS:
            raise BadInput(f"A cell has between 1 and {LARGEST_PHANTOMS:,} phantoms.", remedy="Raise epsilon or delta.")

    @property
    def floor(self) -> int:
        """α_min: every value below it is reported as it."""
        return _floor(self.phantoms)[0]

    @property
    def cap(self) -> int:
        """Every value above it is reported as it."""
        return self.floor + len(self.thresholds)

    @property
    def thresholds(self) -> NDArray[np.uint64]:
        """T_a for a from the floor to one before the cap: a value is the floor plus how many of them exceed its word."""
        return self._tables[0]

    @property
    def phantom_thresholds(self) -> NDArray[np.uint64]:
        """G(a) for the same a: the phantoms' maximum is the floor plus how many of them their word has reached."""
        return self._tables[1]

    @property
    def up(self) -> float:
        """The largest log ratio of one element more: ln(1 + 1/n_p), rounded up."""
        return math.log1p(1 / self.phantoms) * (1 + 1e-14)

    @property
    def down(self) -> float:
        """The largest log ratio of one element fewer: -ln F(α_min), rounded up."""
        return -math.log1p(-float(_floor(self.phantoms)[1] >> 128) / _ONE) * (1 + 1e-14)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        hashed, joint = _verified_tables(self.phantoms)
        return np.array(hashed, dtype=np.uint64), np.array(joint, dtype=np.uint64)


@lru_cache(maxsize=64)
def sketch_law(phantoms: int) -> SketchLaw:
    """Return the law, with its tables kept."""
    return SketchLaw(phantoms)


@dataclass(frozen=True)
class Sketching:
    """All sketches of a study: M for every pair of its parties, from keys of the pair's own.

    Parameters
    ----------
    parties
        S, at least two.
    phantoms
        n_p.
    sketches
        M.
    """

    parties: int
    phantoms: int
    sketches: int = SKETCHES

    @property
    def law(self) -> SketchLaw:
        """The law of each sketch."""
        return sketch_law(self.phantoms)

    def loss(self, unit: Unit) -> Loss:
        """Return what all sketches of all parties cost together, towards an observer without a key.

        A person's whole record against none: one element of one cell of each of the M·S(S-1)/2 sketches. One party's part of it
        against none: an element moves from (a, b) to (none, b), two cells, in each of the M·(S-1) sketches in which the party
        takes part. With two or three parties the second costs more. A promise about a person's whole record includes its
        parts, so a person's loss is the larger of both.
        """
        part = 2 * (self.parties - 1)
        whole = max(math.comb(self.parties, 2), part)
        return self._composed(self.sketches * (whole if unit == "person" else part))

    @property
    def replaced_loss(self) -> Loss:
        """What they cost if a record is replaced by any other one: two cells of each sketch change."""
        return self._composed(2 * self.sketches * math.comb(self.parties, 2))

    def _composed(self, cells: int) -> Loss:
        """Return the loss of so many cell sketches, independent, that each gain or lose one element."""
        up, down = self.law.up, self.law.down
        curve = Loss.of_curve(lambda order: cells * max(_divergence(order, up, down), _divergence(order, down, up)))
        return Loss(curve.renyi, nano_up(cells * max(up, down)))


@lru_cache(maxsize=256)
def sketching(
    price: Price, parties: int, unit: Unit, sketches: int = SKETCHES, *, besides: Loss = NOTHING
) -> Sketching:
    """Return the sketches with the fewest phantoms whose loss, as ledgers count it and besides another, keeps within a price.

    Examples
    --------
    >>> sketching(Price.of(0.49, 1e-5), 2, "person").phantoms < 458
    True
    """
    if price.delta == 0:
        raise BadInput(
            "Sketches need a positive delta: they are thousands of small losses, which add up to little only with one.",
            remedy="For example delta=1e-6, below 1/people.",
        )
    if type(parties) is not int or parties < 2:
        raise BadInput(
            "Sketches are compared between two or more parties.", remedy="Name columns of at least two parties."
        )

    def fits(phantoms: int) -> bool:
        return (besides + Sketching(parties, phantoms, sketches).loss(unit)).fits(price.nano, price.delta)

    return Sketching(parties, _least(fits), sketches)


def _least(fits: Callable[[int], bool]) -> int:
    if not fits(LARGEST_PHANTOMS):
        raise BadInput("epsilon is too small for sketches at this delta.", remedy="Raise epsilon or delta.")
    low, high = 1, 2
    while not fits(high):
        low, high = high, min(2 * high, LARGEST_PHANTOMS)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return high


def _divergence(order: float, up: float, down: float) -> float:
    """Return the Rényi divergence of the two-point pair: ratio e^up with probability w, else e^-down, with mean 1."""
    if order * up > LARGEST_EXPONENT:
        return up  # the divergence at every order is at most the largest log ratio
    gain, waste = math.expm1(up), -math.expm1(-down)
    weight = waste / (gain + waste)
    excess = weight * math.expm1(order * up) + (1 - weight) * math.expm1(-order * down)
    return min(max(math.log1p(excess), 0.0) / (order - 1), up)


@lru_cache(maxsize=256)
def _floor(phantoms: int) -> tuple[int, int]:
    """Return α_min and (1+γ)^-α_min in 192 fractional bits."""
    floor, fine = 0, _FINE
    while (fine >> 128) * phantoms * FLOOR_SHARE > _ONE:
        fine -= fine // _STEP
        floor += 1
    return floor, fine


def _verified_tables(phantoms: int) -> tuple[list[int], list[int]]:
    """Return T_a and G(a) from the floor to one before the cap."""
    fine = _floor(phantoms)[1]
    above = _ONE - (fine >> 128)
    hashed, joint = [_ONE - above], [_power(above, phantoms)]
    while True:
        fine -= fine // _STEP
        value = _ONE - (fine >> 128)
        largest = _power(value, phantoms)
        room = _ONE * (phantoms + 1) - phantoms * value
        if _ONE - value < COARSEST or room * (largest - joint[-1]) < phantoms * joint[-1] * (value - above):
            break
        above = value
        hashed.append(_ONE - value)
        joint.append(largest)
    while _ONE * (_ONE - joint[-1]) < phantoms * joint[-1] * hashed[-1]:  # what is merged at the cap
        hashed.pop()
        joint.pop()
    return hashed, joint


def _power(value: int, times: int) -> int:
    """Return ⌊2^64·(value/2^64)^times⌋ from 128 fractional bits."""
    result, base = 1 << 128, value << 64
    while times:
        if times & 1:
            result = (result * base) >> 128
        base = (base * base) >> 128
        times >>= 1
    return result >> 64
