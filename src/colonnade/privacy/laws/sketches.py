"""One party's sketches of who is in which of its clusters.

Private vertical clustering (Li, Wang, Li, 2023), Algorithm 3 (docs/references.md#clustering), with phantoms per cell of a pair
of parties, a raised floor and the exact composition of `colonnade.privacy.laws.sketch_law`. Proof: docs/proofs/sketches.md.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Loss, Unit
from colonnade.privacy.laws import Description, KeyedStream, RowBlocks, Sampler
from colonnade.privacy.laws.sketch_law import Sketching, SketchLaw

__all__ = ["MANY", "PairSide", "PartitionSketches", "phantom_values", "real_values"]

SHARED = 4
"""Sketches that share a byte."""
PEOPLE = 1_024
"""People whose hashes are drawn at once, from keyed streams of their own: a megabyte that stays in the cache."""
MANY = 8 * SHARED
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
    >>> from colonnade.privacy.laws.sketch_law import Sketching
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
    element more or fewer in each of the M·S(S-1)/2 sketches: `colonnade.privacy.laws.sketch_law`. It holds for **all
    parties' releases together**: the parties' debits are one loss, not several.

    Privacy
    -------
    Guarantee
        The curve of `colonnade.privacy.laws.sketch_law.Sketching.loss`: M·max(S(S-1)/2, 2(S-1)) log ratios between
        ln F(α_min) and ln(1 + 1/n_p), composed exactly at every order of the ledger. Computational, because coins
        come from a keyed function. Proof: docs/proofs/sketches.md.
    Neighbours
        Zero-out of a whole record (unit ``"person"``), or of one party's part of it (``"party"``).
        `colonnade.privacy.laws.sketch_law.Sketching.replaced_loss` bounds a replaced record: two cells of each sketch change.
    Adversary
        The coordinator, or anybody who reads all parties' sketches **without the key**. Every party of the plan has it: towards a
        party that sees sketches, alone or with the coordinator, nothing is guaranteed. A key that leaks later uncovers what was
        released under it; a key serves one plan, and is kept for no other.
    Numerics
        Exact: 64-bit words against integer thresholds, the ratio checked in integers for every value of the table. Floating point
        enters the loss only, rounded up.
    Checked by
        tests/privacy/test_partition_sketch.py, tests/privacy/test_partition_sketches.py, tests/audit/test_shared_keys.py
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
        if sketching.sketches % MANY or clusters < 1:
            raise BadInput(f"The number of sketches is a multiple of {MANY}, and there is at least one cluster.")
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
        words = stream.words(len(some) * sketches // MANY)
        passed = found[: _screen(words, limit, found)]
        places = np.empty(SHARED * len(passed), dtype=np.int64)
        places = places[: _expand(passed, stream.words(len(passed)), bits, _SUBSETS, places)]
        _keep_least(places, stream.words(len(places)), bits, some, sketches, least)
    ascending = np.ascontiguousarray(law.thresholds[::-1])
    values = law.floor + len(ascending) - np.searchsorted(ascending, least.T, side="right")
    return values.astype(np.uint16)


def _some_people(blocks: Iterable[NDArray[Any]]) -> Iterator[NDArray[np.int32]]:
    """Yield the clusters of so many people as have a stream together, in the agreed order."""
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
