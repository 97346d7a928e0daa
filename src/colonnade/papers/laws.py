"""The noise laws that papers brought.

*Sketches.* Flajolet–Martin sketches of who is in which cluster of a party, corrected: their law, cost, and how they are made.

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

*Gradient steps.* The noise of a gradient descent, and what it costs each observer. Proof: docs/proofs/gradient-steps.md.

Secure PCA (its SLR;
docs/references.md#secure-pca) releases three vectors per step; here they are one, and the factor 3 of the sampling theorem that
the paper lacks is kept.

Letters: x is one person's integer row over all parties, x_q party q's part of it, ‖x_q‖² ≤ R_q², R² = Σ R_q². v_q is what party q
makes of its part and of the public weights (its part of the score, with the label folded in where the label is), clipped by q
itself to |v_q| ≤ C_q, C = Σ C_q. A step releases Σ_people v·x with v = Σ_q v_q, plus noise.

*Values.* Discrete Laplace noise on each person's own whole number (local differential privacy), and what is public of a column.

Two relations. *Event*: one person's value at one party changes by at most ``change``. What a change of that size would tell is
hidden; the value's order of magnitude is not. *Whole value* (``change="bounds"``): the value is replaced by any other within the
bounds, the null record's midpoint included, so zero-out holds at the same price. Proof: docs/proofs/values-and-moments.md.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from numbers import Integral
from typing import Any, Literal

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.privacy import calibration
from colonnade.privacy.accounting import NOTHING, Loss, Price, Unit, nano_up
from colonnade.privacy.calibration import laplace_scale
from colonnade.privacy.gaussian import mu_squared, mu_squared_of_pure
from colonnade.privacy.laws import Description, KeyedStream, RowBlocks, Sampler
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace
from colonnade.privacy.laws.shared import SharedNoise
from colonnade.schema import Column

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
        """Return the loss of independent cell sketches that each gain or lose one element."""
        up, down = self.law.up, self.law.down
        curve = Loss.of_curve(lambda order: cells * max(_divergence(order, up, down), _divergence(order, down, up)))
        each = mu_squared_of_pure(nano_up(max(up, down)))
        return Loss(curve.renyi, nano_up(cells * max(up, down)), cells * each)


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


SHARED = 4
"""Sketches that share a byte."""
PEOPLE = 1_024
"""People whose hashes are drawn at once, from keyed streams of their own: a megabyte that stays in the cache."""
SKETCHES_PER_WORD = 8 * SHARED
"""The number of sketches is a multiple of this: a word of the screening stream."""
_SUBSETS = np.array(sorted(range(1, 2**SHARED), key=int.bit_count), dtype=np.uint8)

Values = NDArray[np.uint16]


@dataclass(frozen=True)
class PairSide:
    """One party's place in a pair: what the pair is called, in the plan's order of parties, and whether it comes first."""

    pair: str
    first: bool


class PartitionSketches:
    """Sketch the partition of people into clusters, once for each pair that this party is in.

    Parameters
    ----------
    sketching
        How many sketches and phantoms; what they cost.
    unit
        What the promise is about.
    clusters
        k′, at every party.
    sides
        This party's place in each of its pairs.
    key
        Returns the 32 bytes that all parties of the plan share and the coordinator does not know. Asked for at the release only,
        so that a price can be named before there is a key.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = PartitionSketches(Sketching(2, 200, 64), "person", 3, (PairSide("bank|telco", True),), lambda: bytes(32))
    >>> mechanism.release(np.array([0, 2, -1], dtype=np.int32), ExactSampler(SystemRandomness())).shape
    (1, 64, 3)

    Notes
    -----
    *What is hashed.* The position of a person in the order of rows that the plan fixes (as it does how many there are). A
    (position, sketch) has a uniform 64-bit word, a function of ChaCha20 streams under keys derived (HKDF-SHA256) from the
    group's, a pair's and a block of people's: whether the word is below 2^-b, the floor's power of two, and if so its other bits
    (see `_screen`). ChaCha20 with a secret key is a pseudorandom function of the position in its
    stream, so without the key the words of different people, sketches, pairs and of phantoms are independent and
    uniform. The keys stay with the parties, and each serves one plan. All parties of a pair read the same streams: nothing
    that is read depends on a party's data.

    *Proof.* Let X_c be the largest value of the people and phantoms in cell c of a pair, floored; c = (a, b), (a, none) or
    (none, b). Party one releases ``max_b X_(a,b)`` over b and none, party two the same over a. Both derive the same values from
    the same key. So everything that is released of a sketch is a function of the X_c, which are independent of each other
    because cells are disjoint. Under zero-out a person leaves one cell of each pair, and the loss is that of one X_c with an
    element more or fewer in each of the M·S(S-1)/2 sketches: see the module. It holds for **all
    parties' releases together**: the parties' debits are one loss, not several.

    Privacy
    -------
    Guarantee
        The curve of `Sketching.loss`: M·max(S(S-1)/2, 2(S-1)) log ratios between
        ln F(α_min) and ln(1 + 1/n_p), composed exactly at every order of the ledger. Computational, because coins
        come from a keyed function. Proof: docs/proofs/sketches.md.
    Neighbours
        Zero-out of a whole record (unit ``"person"``), or of one party's part of it (``"party"``).
        `Sketching.replaced_loss` bounds a replaced record: two cells of each sketch change.
    Adversary
        The coordinator, or anybody who reads all parties' sketches **without the key**. Every party of the plan has it: towards a
        party that sees sketches, alone or with the coordinator, nothing is guaranteed. A key that leaks later uncovers what was
        released under it; a key serves one plan, and is kept for no other.
    Numerics
        Exact: 64-bit words against integer thresholds, the ratio checked in integers for every value of the table. Floating point
        enters the loss only, rounded up.
    Checked by
        tests/papers/test_partition_sketch.py, tests/papers/test_partition_sketches.py, tests/papers/test_shared_keys.py
    """

    __slots__ = ("_key", "clusters", "law", "loss", "sides", "sketches")

    name = "Flajolet–Martin partition sketches"

    def __init__(
        self,
        sketching: Sketching,
        unit: Unit,
        clusters: int,
        sides: tuple[PairSide, ...],
        key: Callable[[], bytes],
    ) -> None:
        if len(sides) != sketching.parties - 1 or len({side.pair for side in sides}) != len(sides):
            raise BadInput("A party is sketched once with every other party.")
        if sketching.sketches % SKETCHES_PER_WORD or clusters < 1:
            raise BadInput(
                f"The number of sketches is a multiple of {SKETCHES_PER_WORD}, and there is at least one cluster."
            )
        self.law: SketchLaw = sketching.law
        self.sketches = sketching.sketches
        self.clusters = clusters
        self.sides = sides
        self.loss: Loss = sketching.loss(unit)
        self._key = key

    def release(self, nonprivate: NDArray[Any] | RowBlocks, sampler: Sampler) -> Values:
        """Return α, one array of M × k′ values per pair.

        Parameters
        ----------
        nonprivate
            Each person's cluster in the agreed order of rows, below 0 for no record. It may be clusters that are read some people
            at a time: every pair takes a pass over them.
        sampler
            Reads the streams of the group's key and nothing else: a party with coins of its own would break the correlation
            that hides a person.
        """
        blocks = [nonprivate] if isinstance(nonprivate, np.ndarray) else nonprivate
        single = len(nonprivate.shape) == 1 and nonprivate.dtype.kind == "i"
        if not single or any(np.any(block >= self.clusters) for block in blocks):
            raise BadInput("Sketches take one cluster per person.")
        group = sampler.keyed(self._key())
        return np.stack([self._one(blocks, group.spawn(f"pair {side.pair}"), first=side.first) for side in self.sides])

    def _one(self, blocks: Iterable[NDArray[Any]], source: KeyedStream, *, first: bool) -> Values:
        phantoms = phantom_values(self.law, self.sketches, self.clusters, source)
        own = phantoms[:, : self.clusters, :].max(axis=2) if first else phantoms[:, :, : self.clusters].max(axis=1)
        found = real_values(self.law, self.sketches, blocks, self.clusters, source)
        return np.asarray(np.maximum(own, found))

    def describe(self) -> Description:
        """Return sensitivity and scale in words: there are no single numbers that say it."""
        return Description("", "")

    def __repr__(self) -> str:
        return f"PartitionSketches({self.sketches} sketches, {self.law.phantoms} phantoms per cell, <key hidden>)"


def phantom_values(law: SketchLaw, sketches: int, clusters: int, source: KeyedStream) -> Values:
    """Return the largest phantom of each sketch and cell, floored; the last row and column are "no record".

    The cell without a record at either party has none: nobody in it is sketched.
    """
    words = source.spawn("phantoms").words(sketches * (clusters + 1) ** 2)
    values = np.full(len(words), law.floor, dtype=np.uint16)
    above = words >= law.phantom_thresholds[0]  # few are
    values[above] += np.searchsorted(law.phantom_thresholds, words[above], side="right").astype(np.uint16)
    cells = values.reshape(sketches, clusters + 1, clusters + 1)
    cells[:, clusters, clusters] = law.floor
    return cells


def real_values(
    law: SketchLaw, sketches: int, blocks: Iterable[NDArray[Any]], clusters: int, source: KeyedStream
) -> Values:
    """Return the largest value of each sketch and cluster, floored."""
    bits = np.uint64(min(64 - int(law.thresholds[0]).bit_length(), 10))  # no value from 2^-bits on is above the floor
    limit = np.uint64(1024) >> bits
    least = np.full((clusters, sketches), 2**64 - 1, dtype=np.uint64)
    found = np.empty(PEOPLE * sketches // SHARED, dtype=np.int64)
    for number, some in enumerate(_some_people(blocks)):
        stream = source.spawn(f"people {number}")
        words = stream.words(len(some) * sketches // SKETCHES_PER_WORD)
        passed = found[: _screen(words, limit, found)]
        places = np.empty(SHARED * len(passed), dtype=np.int64)
        places = places[: _expand(passed, stream.words(len(passed)), bits, _SUBSETS, places)]
        _keep_least(places, stream.words(len(places)), bits, some, sketches, least)
    ascending = np.ascontiguousarray(law.thresholds[::-1])
    values = law.floor + len(ascending) - np.searchsorted(ascending, least.T, side="right")
    return values.astype(np.uint16)


def _some_people(blocks: Iterable[NDArray[Any]]) -> Iterator[NDArray[np.int32]]:
    """Yield the clusters of the people that share a stream, in the agreed order."""
    rest = np.empty(0, dtype=np.int32)
    for block in blocks:
        codes = np.concatenate([rest, block.astype(np.int32)])
        whole = len(codes) // PEOPLE * PEOPLE
        yield from (codes[start : start + PEOPLE] for start in range(0, whole, PEOPLE))
        rest = codes[whole:]
    if len(rest):
        yield rest


# The inner loops, compiled ------------------------------------------------------------------------------------------------
#
# Integers only; which words are read does not depend on data. A value matters only below the floor's threshold, for one pair of
# person and sketch in hundreds. So four sketches share a byte: it passes with probability 4p, p = 2^-b. Given that it does, which
# of the four have a value below p follows from one more word: j given ones, and no others, with probability
# ``p^j (1-p)^(4-j) / 4p = (2^b-1)^(4-j) / 2^(3b+2)``, a fraction of 2^32 at most and therefore exact. What is left of the
# probability is nobody. The four are then independent, each below p with probability p: a Bernoulli process for a quarter of
# the bytes.

_SCREEN = "int64(uint64[::1], uint64, int64[::1])"
_EXPAND = "int64(int64[::1], uint64[::1], uint64, uint8[::1], int64[::1])"
_KEEP = "void(int64[::1], uint64[::1], uint64, int32[::1], int64, uint64[:, ::1])"


@numba.njit([_SCREEN], cache=True, nogil=True)
def _screen(words: NDArray[np.uint64], limit: int, found: NDArray[np.int64]) -> int:
    """Write the positions of all bytes below a limit (at most 128), lowest byte of a word first; return how many.

    Eight bytes are tested at once: ``(w - n) & ~w`` has a byte's top bit set where the byte is below n, and perhaps above such a
    byte, never without one.
    """
    each = np.uint64(0x0101010101010101) * np.uint64(limit)
    top = np.uint64(0x8080808080808080)
    count = 0
    for place in range(words.size):
        word = words[place]
        if (word - each) & ~word & top:
            for byte in range(8):
                if (word >> np.uint64(8 * byte)) & np.uint64(255) < limit:
                    found[count] = 8 * place + byte
                    count += 1
    return count


@numba.njit([_EXPAND], cache=True, nogil=True)
def _expand(
    found: NDArray[np.int64],
    words: NDArray[np.uint64],
    bits: int,
    subsets: NDArray[np.uint8],
    places: NDArray[np.int64],
) -> int:
    """Write which (person, sketch) places have a value below 2^-bits, given the bytes that passed; return how many.

    ``subsets`` lists the non-empty subsets of four as bits, by size.
    """
    other = (np.uint64(1) << bits) - np.uint64(1)
    weights = (other * other * other, other * other, other, np.uint64(1))
    count = 0
    for number in range(found.size):
        left = words[number] >> (np.uint64(62) - np.uint64(3) * bits)
        members, start = np.uint8(0), 0
        for size in range(4):
            many = np.uint64(4) if size in (0, 2) else np.uint64(6) if size == 1 else np.uint64(1)
            if left < many * weights[size]:
                members = subsets[start + np.int64(left // weights[size])]
                break
            left -= many * weights[size]
            start += 4 if size in (0, 2) else 6
        for place in range(SHARED):
            if (members >> np.uint8(place)) & np.uint8(1):
                places[count] = SHARED * found[number] + place
                count += 1
    return count


@numba.njit([_KEEP], cache=True, nogil=True)
def _keep_least(
    places: NDArray[np.int64],
    words: NDArray[np.uint64],
    bits: int,
    codes: NDArray[np.int32],
    sketches: int,
    least: NDArray[np.uint64],
) -> None:
    """Keep the least value, a word below 2^(64-bits), of each cluster and sketch; a code below 0 is no record."""
    for number in range(places.size):
        code, sketch = codes[places[number] // sketches], places[number] % sketches
        value = words[number] >> bits
        if code >= 0 and value < least[code, sketch]:
            least[code, sketch] = value


UNLIKELY = 2.0**-64


@lru_cache(maxsize=256)
def participation_bound(rate: float, steps: int) -> int:
    """Return in how many steps nobody takes part more often, but for a probability below 2⁻⁶⁴ per person.

    Examples
    --------
    >>> participation_bound(0.001, 5_000), participation_bound(1.0, 50)
    (36, 50)
    """
    low, high = 0, steps
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bdtrc(middle, steps, rate) <= UNLIKELY else (middle + 1, high)
    return low


@dataclass(frozen=True)
class GradientNoise(SharedNoise):
    """Noise of a number of gradient steps on batches of people.

    Parameters
    ----------
    score_bounds, row_bounds
        C_q and R_q² by data party, positive integers.
    columns
        How many numbers a step releases.
    steps, rate
        T, and with what probability (of balanced batches: about what share of) people take part in a step.
    participations
        In how many steps one person takes part at most: of Poisson batches `participation_bound`, of balanced ones by
        construction. The parties check their batches against it before the first step.
    secret
        Whether the promise counts on batches that the observer does not know (Poisson), or not (balanced).
    price, unit
        What is offered, and what it protects: a whole record, or one party's part of it.
    collusion
        c: how many data parties may pool their shares of the noise with the coordinator; only balanced batches promise it.

    Privacy
    -------
    Guarantee
        All T steps together are within the price: towards the coordinator alone by Theorem 5 of Zhu–Wang 2019 with its factor
        3 (Poisson; for a part of a record by the argument in `colonnade.privacy.calibration`); towards the coordinator
        with c parties by zCDP over a person's participations, ρ = participations·Δ₂²/(2·s²·shares) (balanced).
        Proof: docs/proofs/gradient-steps.md.
    Neighbours
        Zero-out: a null record has x = 0 and v = 0, the constant column included, so it adds nothing to any batch.
    Adversary
        The coordinator, which chooses all weights and learns every noisy sum; a party, which also knows the batches and
        its own share of the noise (`loss` with colluders: no amplification, its participations only).
    Numerics
        Integers throughout; discrete Gaussian shares, whose sum is accounted by `summed_gaussian_rho`.
    Checked by
        tests/papers/test_gradient_noise.py, tests/privacy/test_sampled_gaussian.py, tests/papers/test_gradient.py

    Proof of the sensitivity. A record adds v·x with |v| ≤ C and ‖x‖ ≤ R, whatever the weights are, because every party clips
    its own v_q: so Δ₂² = C²R². A person's record at party q alone, the others' x′ and v′ held fixed, moves the others'
    coordinates by v_q·x′ and q's own by v·x_q, so Δ₂² ≤ C_q²(R² − R_q²) + C²R_q². Weights depend on earlier outputs only, and
    Rényi curves of steps with fresh coins and fresh noise add up however the steps were chosen.

    Examples
    --------
    >>> bounds = {"a": 30_000, "b": 10_000}, {"a": 4_000_000, "b": 1_000_000}
    >>> noise = GradientNoise(*bounds, 12, 500, 0.01, 30, True, Price.of(1.0, 1e-5), "person", 1)
    >>> noise.loss().epsilon(1e-5) <= 1.0 < noise.loss(colluders=1).epsilon(1e-5)
    True
    """

    score_bounds: Mapping[str, int]
    row_bounds: Mapping[str, int]
    columns: int
    steps: int
    rate: float
    participations: int
    secret: bool
    price: Price
    unit: Unit
    collusion: int

    def __post_init__(self) -> None:
        bounds = (*self.score_bounds.values(), *self.row_bounds.values())
        if set(self.score_bounds) != set(self.row_bounds) or any(type(one) is not int or one < 1 for one in bounds):
            raise BadInput("Every data party has a positive bound on its scores and on its rows.")
        self.require_collusion()
        if type(self.participations) is not int or not 1 <= self.participations <= self.steps:
            raise BadInput("A person takes part in at least one step and at most in all of them.")

    name = "gaussian noise in shares, in every step"

    @property
    def honest(self) -> int:
        """How many shares must suffice: all of them where the promise is against the coordinator alone, else P − c."""
        return len(self.parties) if self.secret else super().honest

    @property
    def entries(self) -> int:
        return self.columns

    def moved(self, party: str | None = None) -> int:
        """Return Δ₂² of one step for a whole record, or for one party's part of it."""
        score, rows = sum(self.score_bounds.values()), sum(self.row_bounds.values())
        if party is None:
            return score**2 * rows
        own = self.row_bounds[party]
        return self.score_bounds[party] ** 2 * (rows - own) + score**2 * own

    @cached_property
    def share(self) -> Fraction:
        """s²: the variance of one party's share of the noise of one number of one step, exactly."""
        whole = Fraction(self.moved())
        part = self.worst / whole if self.unit == "party" else None
        sampled = (self.rate, self.steps) if self.secret else (1.0, self.participations)
        most = calibration.largest_step_rho(self.price, *sampled, part)
        return self.drawable(calibration.share_within(most, whole, self.honest))

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return what all steps cost a person's record, whole or at one party; ``None`` if no noise is left.

        Parameters
        ----------
        colluders
            How many data parties the observer includes. Any of them knows the batches: no amplification.
        party
            Whose part of the record; all of it by default.
        """
        if self.secret and colluders == 0:
            everybody = len(self.parties)
            whole = self._step_rho(everybody, None)
            squared = mu_squared(self.moved(party), self.share, everybody)
            if party is None:
                return calibration.sampled_loss(whole, self.rate, self.steps, squared)
            return calibration.sampled_part_loss(
                whole, self._step_rho(everybody, party), self.rate, self.steps, squared
            )
        shares = len(self.parties) - (colluders if self.secret else max(colluders, self.collusion))
        if shares < 1:
            return None
        return calibration.gaussian_loss(self.moved(party), self.share, shares, self.columns) * self.participations

    def _step_rho(self, shares: int, party: str | None) -> Fraction:
        return calibration.summed_gaussian_rho(self.moved(party), self.share, shares, self.columns)

    def describe(self, unit: float = 1.0) -> Description:
        """Return sensitivity and scale in words, in multiples of ``unit``."""
        return Description(
            f"Δ₂ = {math.sqrt(self.moved()) / unit:.6g} per step (after scaling each column to [−1, 1])",
            f"standard deviation {self.gradient_deviation(unit):.6g} of an opened number",
        )

    def gradient_deviation(self, unit: float) -> float:
        """Return the standard deviation of the noise in one released number, in multiples of ``unit``."""
        return math.sqrt(self.opened_variance) / unit


Change = int | Literal["bounds"]

LARGEST_BOUND = 2**40
_CLIPPED = 48  # scales: noise beyond them has probability below e^-48 and is clipped where it travels


def valid_change(change: object) -> Change:
    """Return by how much neighbours may differ; refuse what is neither a positive whole number nor ``"bounds"``."""
    if isinstance(change, str) and change == "bounds":
        return "bounds"
    if isinstance(change, bool) or not isinstance(change, Integral) or int(change) < 1:
        raise BadInput(
            "change is a positive whole number, or 'bounds'.",
            remedy="change=1 hides steps of one (event level); change='bounds' hides the whole value.",
        )
    return int(change)


@dataclass(frozen=True)
class Carrier:
    """In what form noisy values travel: as few bytes as hold them, counted from an offset.

    Examples
    --------
    >>> Carrier.of(0, 20, Fraction(2))
    Carrier(dtype='<u2', offset=-96, limit=65535)
    """

    dtype: str
    offset: int
    limit: int

    @classmethod
    def of(cls, low: int, high: int, scale: Fraction) -> "Carrier":
        """Choose for values between bounds with noise of a scale."""
        reach = math.ceil(_CLIPPED * scale)
        span = high - low + 2 * reach
        for dtype in ("<u2", "<i4", "<i8"):
            limit = int(np.iinfo(dtype).max)
            if span <= limit:
                return cls(dtype, low - reach, limit)
        raise BadInput("The noise of a value does not fit eight bytes.", remedy="Raise epsilon, or narrow the bounds.")

    def pack(self, values: NDArray[np.int64]) -> NDArray[Any]:
        """Clip, which is post-processing and has next to no effect, and narrow."""
        return np.clip(values - self.offset, 0, self.limit).astype(self.dtype)

    def unpack(self, packed: NDArray[Any]) -> NDArray[np.int64]:
        """Return the values again."""
        return packed.astype(np.int64) + self.offset


@dataclass(frozen=True)
class WholeValues:
    """One column of whole numbers, and how far neighbours are apart in it.

    Parameters
    ----------
    low, high
        The least and the greatest whole number within the public bounds.
    sensitivity
        The largest change between neighbours.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> WholeValues.of(Numeric(0, 20, integer=True), "visits", 1)
    WholeValues(low=0, high=20, sensitivity=1)
    """

    low: int
    high: int
    sensitivity: int

    @classmethod
    def of(cls, column: Column, name: str, change: Change) -> "WholeValues":
        """Read a column's public description; refuse what is not whole, or may be negative."""
        if not column.is_number or not column.whole:
            raise SchemaMismatch(
                f"Column {name!r} is not declared as whole numbers, which moments need.",
                remedy="Declare it as cn.Numeric(lower, upper, integer=True), counting in a unit that makes it whole.",
            )
        low, high = math.ceil(column.low), math.floor(column.high)
        if low < 0:
            raise SchemaMismatch(
                f"Column {name!r} may be negative; moments of sums are for counts and amounts from 0 up.",
                remedy="Raise the lower bound to 0 or shift the column at the source; for products and squares of "
                "signed numbers see federation.moments.",
            )
        if not low < high <= LARGEST_BOUND:
            raise BadInput(
                f"Column {name!r} needs two whole numbers or more between its bounds, and none above 2^40.",
                remedy="Change the bounds of the column in the schema.",
            )
        return cls(low, high, high - low if change == "bounds" else min(change, high - low))

    def scale(self, price: Price) -> Fraction:
        """Return the scale of the discrete Laplace noise that a price buys."""
        return laplace_scale(price, self.sensitivity)

    def carrier(self, price: Price) -> Carrier:
        """Return how the noisy values travel."""
        return Carrier.of(self.low, self.high, self.scale(price))


class PerturbedValues:
    """Add an independent integer with ``P(k) ∝ e^(-|k|/scale)`` to each person's value.

    Parameters
    ----------
    price
        What the release may cost; δ is not used.
    values
        The column's bounds, and by how much neighbours differ in it.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = PerturbedValues(Price.of(0.5), WholeValues(0, 20, 1))
    >>> mechanism.scale, mechanism.release(np.array([10, 20, 0]), ExactSampler(SystemRandomness())).dtype.str
    (Fraction(2, 1), '<u2')

    Notes
    -----
    A person's value decides one entry and no other, and that entry is `DiscreteLaplace` with Δ₁ the largest change, so its
    proof is the proof here. The noise is drawn before the value is looked at (``draw``, then ``apply``), so a holder of some of
    the rows can perturb them alone.

    Privacy
    -------
    Guarantee
        Pure ε-DP with ε = Δ₁/scale, the price's ε, for each entry by itself: local differential privacy.
        Proof: docs/proofs/values-and-moments.md.
    Neighbours
        One person's value at one party changes by at most the stated amount (event). With the width of the bounds it is
        replaced by any other, which includes zero-out.
    Adversary
        Anybody who reads all entries; the coordinator and peers are not trusted.
    Numerics
        Integer noise on integers, scale rational, sampler exact. What travels is clipped beyond 48 scales, which is
        post-processing and moves a mean by less than 10⁻¹⁹ scales.
    Checked by
        tests/papers/test_moment_statistics.py
    """

    __slots__ = ("_noise", "carrier", "loss", "values")

    name = "discrete Laplace, person by person"
    block = 65_536

    def __init__(self, price: Price, values: WholeValues) -> None:
        self._noise = DiscreteLaplace(price, values.sensitivity)
        self.values = values
        self.carrier = values.carrier(price)
        self.loss = self._noise.loss

    @property
    def scale(self) -> Any:
        """The scale of the noise, exactly."""
        return self._noise.scale

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[Any]:
        """Return every value with noise of its own, block by block."""
        out = np.empty(len(nonprivate), dtype=self.carrier.dtype)
        for start in range(0, len(nonprivate), self.block):
            part = nonprivate[start : start + self.block]
            out[start : start + self.block] = self.apply(part, self.draw(len(part), sampler), sampler)
        return out

    def draw(self, people: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw the noise of some people."""
        return self._noise.release(np.zeros(people, dtype=np.int64), sampler)

    def apply(self, nonprivate: NDArray[Any], coins: NDArray[np.int64], sampler: Sampler) -> NDArray[Any]:
        """Add noise that was drawn before."""
        if nonprivate.ndim != 1 or nonprivate.dtype.kind not in "iu":
            raise BadInput("Discrete noise is added to one whole number per person.")
        return self.carrier.pack(nonprivate.astype(np.int64) + coins)

    def describe(self) -> Description:
        return self._noise.describe()

    def __repr__(self) -> str:
        return f"PerturbedValues(scale={self.scale}, {self.values})"


LARGEST_NARROW = 2**31 - 1


class NarrowGaussian(DiscreteGaussian):
    """Discrete Gaussian noise whose result travels in four bytes per entry.

    Parameters
    ----------
    price, l2_sensitivity_squared
        As in `DiscreteGaussian`.
    largest
        The largest magnitude of an entry without noise.

    Privacy
    -------
    Guarantee
        That of `DiscreteGaussian` (docs/proofs/discrete-gaussian.md): clipping what is released is post-processing.
    Neighbours
        Those for which Δ₂ was computed; in this library zero-out.
    Adversary
        Anybody who reads the released vector.
    Numerics
        As in `DiscreteGaussian`. Four bytes leave room for 40 standard deviations, or the law is refused.
    Checked by
        tests/party/test_statistics.py
    """

    __slots__ = ()

    def __init__(self, price: Price, l2_sensitivity_squared: int | Fraction, largest: int) -> None:
        super().__init__(price, l2_sensitivity_squared)
        if largest + 40 * self.variance**0.5 > LARGEST_NARROW:
            raise BadInput("The noise of a row does not fit four bytes.", remedy="Use a smaller scale=.")

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[np.int32]:  # type: ignore[override]  # narrower
        """Perturb and narrow."""
        return np.clip(super().release(nonprivate, sampler), -LARGEST_NARROW, LARGEST_NARROW).astype(np.int32)
