"""The sigmoid of a sum that nobody knows, as a short sine series: products of numbers that each holder computes alone.

A score is a sum of the parties' parts. Parts are whole numbers of steps modulo G = 2¹⁶, one period of the series. Every
party splits its part into as many uniform numbers as there are *holders* and gives one to each. The holders' sums u₁, …, u_h add
up to the score modulo G. Any h − 1 of them are uniform and independent of every part (`split_parts`).

The link is periodic, so it needs the score modulo G only::

    P(u) = ½ + Σ_k b_k·sin(2πku/G)        w(u) = a₀ + Σ_k a_k·cos(2πku/G)

With e_k(u) = cos + i·sin of 2πku/G, e_k(u) is the product of all e_k(u_j). Holder j looks its numbers up in a table, rounded to
integers. The first holder's table has the coefficients in it. So the link on shares is a sum of products of integers that are
dealt by the holders, whatever the number of parties.

*Rounding adds noise and next to no bias.* A holder's u_j is uniform, whoever the person is. So what rounding adds on average is
an average over the whole table. tests/secure/test_sine_link.py takes it exactly.

*Coefficients* are minimax fits by linear programming (benchmarks/newton/fit_links.py): P to the sigmoid within ±window, with
|P − ½| ≤ 0.505 over the whole period; w to its derivative over the whole period. The bounds below are taken over every value of
the tables, so nothing rests on how good the fit is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import BadInput

__all__ = [
    "COARSEST_BITS",
    "FINEST_BITS",
    "FIRST_FACTORS",
    "LINKS",
    "STEPS",
    "LinkBounds",
    "SineLink",
    "TableKind",
    "split_parts",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

STEPS = 1 << 16
"""G: how many steps a period has. A holder's number takes two bytes."""

FIRST_FACTORS = (16, 32)
"""How many times as fine the first holder's table may be."""
FINEST_BITS, COARSEST_BITS = 8, 4

_UNIT = 2.0**20
_ROUNDING = math.sqrt(0.5) + 1e-6  # half a step in each of two directions, and what float64 may add


@dataclass(frozen=True)
class SineLink:
    """A series for the sigmoid and one for its derivative.

    Parameters
    ----------
    window
        The largest score, either way, for which the series is the sigmoid but for `error`.
    period
        What a whole period is as a score.
    sine
        b₁ … b_K, in units of 2⁻²⁰.
    cosine
        a₀ … a_K, in units of 2⁻²⁰.

    Examples
    --------
    >>> link = LINKS[12]
    >>> link.error < 0.0002, link.terms
    (True, 12)
    """

    window: int
    period: int
    sine: tuple[int, ...]
    cosine: tuple[int, ...]

    @property
    def terms(self) -> int:
        """K."""
        return len(self.sine)

    @property
    def step(self) -> float:
        """What one step is as a score."""
        return self.period / STEPS

    def probability(self, scores: Floats) -> Floats:
        """Return P without rounding."""
        return 0.5 + _series(scores / self.period, np.array((0, *self.sine)) / _UNIT, np.sin)

    def weight(self, scores: Floats) -> Floats:
        """Return w without rounding."""
        return _series(scores / self.period, np.array(self.cosine) / _UNIT, np.cos)

    @cached_property
    def error(self) -> float:
        """The largest distance of P from the sigmoid within the window."""
        scores = np.linspace(0, self.window, 4 * STEPS // self.period)
        return float(np.max(np.abs(self.probability(scores) - 1 / (1 + np.exp(-scores)))))

    @cached_property
    def swing(self) -> float:
        """The largest |P − ½| over all steps of a period."""
        return float(np.max(np.abs(self.probability(self._scores) - 0.5)))

    @cached_property
    def weights(self) -> tuple[float, float]:
        """The smallest and the largest w over all steps of a period."""
        weights = self.weight(self._scores)
        return float(np.min(weights)), float(np.max(weights))

    @property
    def _scores(self) -> Floats:
        return np.arange(STEPS, dtype=np.float64) * self.step


def _series(turns: Floats, coefficients: Floats, wave: np.ufunc) -> Floats:
    total = np.zeros(np.shape(turns))
    for k, coefficient in enumerate(coefficients):
        total += coefficient * wave(2 * np.pi * k * turns)
    return total


LINKS = {
    8: SineLink(
        8,
        24,
        (603054, -3188, 89922, 9763, 6659, 9171, -2103, 2487),
        (43690, 78257, 57636, 36834, 21451, 11768, 6201, 3177, 2097),
    ),
    12: SineLink(
        12,
        32,
        (630084, -3307, 133028, 4128, 29782, 10016, 957, 8511, -3068, 3992, -1228, 956),
        (32768, 61557, 51454, 39083, 27625, 18539, 11988, 7544, 4652, 2824, 1693, 1004, 893),
    ),
    16: SineLink(
        16,
        40,
        (643074, -2477, 159401, 1246, 51977, 6996, 12074, 9425, -1287, 7916, -3468, 4702, -2103, 1947, -652, 498),
        (
            *(26214, 50360, 44794, 37250, 29318, 22100, 16117, 11460, 7991),
            *(5487, 3722, 2499, 1664, 1101, 723, 473, 529),
        ),
    ),
}
"""The links, by window."""


@dataclass(frozen=True)
class LinkBounds:
    """What a link on shares can be, in integers, whatever the holders' numbers are.

    Parameters
    ----------
    link
        The series.
    holders
        h, at least two.
    bits
        A holder's table has entries up to 2^bits.
    finer
        How many times as fine the first holder's table is, whose entries have a coefficient in them: every term adds a rounding
        of its own there.
    """

    link: SineLink
    holders: int
    bits: int
    finer: int = FIRST_FACTORS[0]

    def __post_init__(self) -> None:
        if type(self.holders) is not int or self.holders < 2:
            raise BadInput("A link on shares has at least two holders.")
        if type(self.bits) is not int or not COARSEST_BITS <= self.bits <= FINEST_BITS:
            raise BadInput(f"The tables of a link have between {COARSEST_BITS} and {FINEST_BITS} bits.")
        if self.finer not in FIRST_FACTORS:
            raise BadInput("The first table of a link is sixteen or thirty-two times as fine as the others.")

    @property
    def unit(self) -> int:
        """F: the integer that stands for one."""
        return self.finer << (self.bits * self.holders)

    def height(self, holder: int) -> int:
        """Return the integer that stands for one in a holder's table; holders are numbered from 0."""
        return (self.finer if holder == 0 else 1) << self.bits

    @cached_property
    def residual(self) -> int:
        """M: no residual P − y exceeds this in magnitude, with y either 0 or 1."""
        return math.ceil(self.unit / 2 + self._swing + self._rounded(self.link.sine)) + 1

    @cached_property
    def residual_change(self) -> int:
        """D: no two residuals of one label differ by more, and none differs from 0 by more."""
        return max(self.residual, math.ceil(2 * (self._swing + self._rounded(self.link.sine))) + 2)

    @cached_property
    def weight(self) -> int:
        """W: no weight exceeds this in magnitude."""
        low, high = self._weights
        return math.ceil(max(-low, high) + self._rounded(self.link.cosine[1:])) + 1

    @cached_property
    def weight_change(self) -> int:
        """The largest difference of two weights, and of a weight and 0."""
        low, high = self._weights
        return max(self.weight, math.ceil(high - low + 2 * self._rounded(self.link.cosine[1:])) + 2)

    @property
    def weight_offset(self) -> int:
        """a₀ as an integer."""
        return round(self.link.cosine[0] / _UNIT * self.unit)

    def largest_entry(self, holder: int) -> int:
        """Return the largest magnitude of an entry of a holder's table."""
        return self.height(holder)  # the first holder's coefficients are below one

    def largest_product(self, holders: int) -> int:
        """Return the largest magnitude of either part of a product of the first few holders' numbers, for one term."""
        return math.ceil(math.prod(self.height(holder) + 1 for holder in range(holders)))

    def factors(self, holder: int, kind: "TableKind", numbers: NDArray[np.uint16]) -> Integers:
        """Return what a holder's table says of some numbers: cosines of all terms, then sines, along the first axis."""
        found = np.empty((2 * self.link.terms, len(numbers)), dtype=np.int64)
        _look_up(_table(self, holder, kind), numbers.astype(np.uint16), found)
        return found

    @cached_property
    def _swing(self) -> float:
        """F·max |P − ½| over all steps."""
        return self.unit * self.link.swing

    @cached_property
    def _weights(self) -> tuple[float, float]:
        low, high = self.link.weights
        return self.unit * low, self.unit * high

    def _rounded(self, coefficients: Sequence[int]) -> float:
        """Return how far rounding can move a series: each factor, a complex number, is off by at most √½."""
        total = 1.0  # the constant of the series is rounded too
        for coefficient in coefficients:
            sizes = [self.height(holder) for holder in range(self.holders)]
            exact = [size * (abs(coefficient) / _UNIT if holder == 0 else 1.0) for holder, size in enumerate(sizes)]
            total += math.prod(size + _ROUNDING for size in exact) - math.prod(exact)
        return total


TableKind = Literal["residual", "weight"]
"""Which coefficients the first holder's table has in it."""


@lru_cache(maxsize=4)
def _table(bounds: LinkBounds, holder: int, kind: TableKind) -> NDArray[np.int32]:
    """Return a holder's numbers for every u, which stand together; some megabytes, and used in every chunk of every round."""
    link = bounds.link
    scale: Floats = np.full(link.terms, float(bounds.height(holder)))
    if holder == 0:
        scale *= np.array(link.sine if kind == "residual" else link.cosine[1:]) / _UNIT
    angles = 2 * np.pi / STEPS * np.arange(STEPS)
    places = np.arange(1, link.terms + 1)[:, None] * np.arange(STEPS) % STEPS
    waves = [np.rint(scale[:, None] * wave(angles)[places]) for wave in (np.cos, np.sin)]
    return np.ascontiguousarray(np.vstack(waves).T, dtype=np.int32)


@njit(["void(int32[:, ::1], uint16[::1], int64[:, ::1])"], cache=True, nogil=True)
def _look_up(table: NDArray[np.int32], numbers: NDArray[np.uint16], out: Integers) -> None:
    """Write what a table says of some numbers, a column of the table along each row."""
    for person in range(numbers.size):
        row = table[numbers[person]]
        for term in range(row.size):
            out[term, person] = row[term]


def split_parts(parts: Integers, words: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Split whole numbers of steps into uniform numbers that add up to them modulo G.

    Parameters
    ----------
    parts
        One number per person, of any size.
    words
        Fresh uniform numbers, one row for every holder but one.

    Returns
    -------
    One row per holder: the given words, and what is missing. Any of the rows but one are uniform, whatever the parts are.

    Examples
    --------
    >>> rows = split_parts(np.array([-5, 70_000]), np.array([[1, 2]], dtype=np.uint16))
    >>> (rows.astype(int).sum(axis=0) - np.array([-5, 70_000])) % STEPS
    array([0, 0])
    """
    rest = (parts - words.astype(np.int64).sum(axis=0)) % STEPS
    return np.vstack([words, rest.astype(np.uint16)[None]])
