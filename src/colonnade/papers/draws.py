"""Who takes part in which step: batches that follow from a key which the parties share and the coordinator does not know.

*Poisson*: in every step every person takes part with the same probability, independently of everyone else and of every other
step. The amplification of privacy that sampling buys is proved for such coins. A coin compares forty bits of the key stream with
the rate: one byte per person, and four more bytes for the few people whose first byte does not decide.

*Balanced*: every round through the people is a fresh order of them, cut into batches whose sizes differ by at most one.

A batch's size is not told either: given the sizes, the coins would no longer be independent. Parties share as many rows as
`batch_capacity` says, the rest of them empty. A Poisson batch is larger with probability below 2⁻⁶⁴ in a whole study; should it
ever be, the parties refuse, which says nothing about any row.

Nothing here depends on data: only on the key, the number of people and the plan.

A matrix of random signs from a published seed, a block of people at a time.

The sketch of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong), Algorithm 4 (docs/references.md#primitives).

Everybody regenerates the same signs and nobody stores them. They are public: no guarantee rests on the seed, only the accuracy
of a sketch does, for which a keyed stream is as good as fair coins. One bit per sign, AES in counter mode, a position for each
block.

A byte holds one row's signs of eight people. The 256 signed sums of eight people's numbers are tabulated once and looked up for
every row, so a product takes an eighth of the additions; integers throughout, so it is exact.
"""

import math
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import SeedStream, subseed

Sampling = Literal["poisson", "balanced"]
People = NDArray[np.int64]

COIN_BITS = 40
SMALLEST_RATE = 2.0**-20
UNLIKELY = 64
"""The capacity of a batch is passed with a probability below two to the minus this."""

_BYTE, _REST = 8, COIN_BITS - 8


def batches_per_round(rate: float) -> int:
    """Return how many balanced batches a round through all people has."""
    return max(1, round(1 / rate))


def batch_capacity(people: int, rate: float, steps: int, sampling: Sampling) -> int:
    """Return how many rows a step shares; it does not depend on who takes part.

    For Poisson batches by Bernstein's inequality: with expectation m, P(size > m + z) ≤ exp(-z²/(2(m + z/3))), and a union
    over the steps.

    Examples
    --------
    >>> batch_capacity(45_000, 0.01, 500, "poisson"), batch_capacity(45_000, 0.01, 500, "balanced")
    (681, 450)
    """
    _check(people, rate, steps, sampling)
    if sampling == "balanced":
        return math.ceil(people / batches_per_round(rate))
    expected, exponent = people * rate, UNLIKELY * math.log(2) + math.log(steps)
    above = exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * exponent * expected)
    return min(people, math.ceil(expected + above))


class Batches:
    """The batches of one study.

    Parameters
    ----------
    key
        The parties' 32 secret bytes.
    people
        How many there are.
    rate
        Of Poisson batches the probability of taking part in a step; of balanced ones, about the share of people in a batch.
    steps
        How many batches there will be.
    sampling
        ``"poisson"`` or ``"balanced"``.

    Examples
    --------
    >>> batches = Batches(bytes(32), 1_000, 0.1, 20, "balanced")
    >>> len(batches.members(0)), batches.largest_participation()
    (100, 2)
    """

    def __init__(self, key: bytes, people: int, rate: float, steps: int, sampling: Sampling) -> None:
        self.capacity = batch_capacity(people, rate, steps, sampling)
        self._people, self._rate, self._steps, self._sampling = people, rate, steps, sampling
        self._seed = subseed(key, f"colonnade {sampling} batches")
        self._round = -1
        self._order: People = np.empty(0, dtype=np.int64)

    def members(self, step: int) -> People:
        """Return who takes part in a step, in ascending order."""
        if not 0 <= step < self._steps:
            raise BadInput("There is no such step.")
        chosen = self._coins(step) if self._sampling == "poisson" else self._part(step)
        if len(chosen) > self.capacity:
            raise ProtocolError(
                "A batch is too large to be shared.", remedy="Run the study again with the next repeat=."
            )
        return chosen

    def largest_participation(self) -> int:
        """Return in how many steps the person who takes part most often does; looks at every Poisson batch."""
        if self._sampling == "balanced":
            return math.ceil(self._steps / batches_per_round(self._rate))
        counts = np.zeros(self._people, dtype=np.int32)
        for step in range(self._steps):
            counts[self.members(step)] += 1
        return int(counts.max())

    def _coins(self, step: int) -> People:
        threshold = math.floor(self._rate * 2**COIN_BITS)
        first, rest = threshold >> _REST, threshold & (2**_REST - 1)
        stream = SeedStream(self._seed, step)
        octets = np.frombuffer(stream.bytes(self._people), dtype=np.uint8)
        possible = np.flatnonzero(octets <= first) if first <= np.iinfo(np.uint8).max else np.arange(self._people)
        undecided = octets[possible] == first
        words = np.frombuffer(stream.bytes(4 * int(undecided.sum())), dtype="<u4")
        kept = np.ones(len(possible), dtype=bool)
        kept[undecided] = words < rest
        return possible[kept].astype(np.int64)

    def _part(self, step: int) -> People:
        number, place = divmod(step, batches_per_round(self._rate))
        if batches_per_round(self._rate) == 1:
            return np.arange(self._people)
        if number != self._round:
            words = SeedStream(self._seed, number).words(self._people)
            self._round, self._order = number, np.argsort(words, kind="stable").astype(np.int64)
        ends = [self._people * end // batches_per_round(self._rate) for end in (place, place + 1)]
        return np.sort(self._order[ends[0] : ends[1]])

    def __repr__(self) -> str:
        return f"Batches({self._sampling}, {self._steps} steps, <key hidden>)"


def _check(people: int, rate: float, steps: int, sampling: str) -> None:
    if type(people) is not int or people < 1 or type(steps) is not int or steps < 1:
        raise BadInput("Batches need a positive number of people and of steps.")
    if not isinstance(rate, float) or not SMALLEST_RATE <= rate <= 1:
        raise BadInput("The rate of a batch lies between 2^-20 and 1.")
    if sampling not in ("poisson", "balanced"):
        raise BadInput("Batches are 'poisson' or 'balanced'.")


PEOPLE = 1_024
"""People in a block."""

LARGEST_SKETCH = 65_536


class Signs:
    """The matrix G of ``rows`` × people signs.

    Parameters
    ----------
    seed
        32 public bytes.
    rows
        s.

    Examples
    --------
    >>> signs, total = Signs(bytes(32), 5), np.zeros((1, 5), dtype=np.int64)
    >>> signs.add_product(0, np.ones((1, 100), dtype=np.int64), total)
    >>> bool((total[0] == signs.sums(100)).all())
    True
    """

    def __init__(self, seed: bytes, rows: int) -> None:
        if type(rows) is not int or not 1 <= rows <= LARGEST_SKETCH:
            raise BadInput(f"A sketch has between 1 and {LARGEST_SKETCH} rows.")
        self.seed = seed
        self.rows = rows

    def add_product(self, number: int, columns: NDArray[np.int64], total: NDArray[np.int64]) -> None:
        """Add G·x over one block of people to a running total, for each column x along the rows of both arrays.

        Parameters
        ----------
        number
            Which block; block n holds people n·`PEOPLE` and following.
        columns
            Whole numbers, a column of people along each row; at most `PEOPLE` of them.
        total
            One row of s sums per column.
        """
        _accumulate(self.bits(number), np.ascontiguousarray(columns), total)

    def sums(self, people: int) -> NDArray[np.int64]:
        """Return G times a column of ones."""
        total = np.zeros((1, self.rows), dtype=np.int64)
        for number, start in enumerate(range(0, people, PEOPLE)):
            self.add_product(number, np.ones((1, min(PEOPLE, people - start)), dtype=np.int64), total)
        return np.asarray(total[0])

    def bits(self, number: int) -> NDArray[np.uint8]:
        """Return one block's signs, eight people per byte, lowest bit first; s bytes per group of eight."""
        stream = SeedStream(self.seed, number).bytes(PEOPLE // 8 * self.rows)
        return np.frombuffer(stream, dtype=np.uint8).reshape(PEOPLE // 8, self.rows)


@njit(cache=True, nogil=True)
def _accumulate(bits: Any, columns: Any, total: Any) -> None:
    table = np.empty(256, dtype=np.int64)
    people = columns.shape[1]
    for column in range(columns.shape[0]):
        for group in range((people + 7) // 8):
            table[0] = 0
            for place in range(8):
                person = 8 * group + place
                number = columns[column, person] if person < people else 0
                for below in range(1 << place):
                    table[below + (1 << place)] = table[below] + number
                    table[below] -= number
            for row in range(total.shape[1]):
                total[column, row] += table[bits[group, row]]
