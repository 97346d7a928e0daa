"""A smooth function of a sum that nobody knows, as a short series of waves: products of numbers that each holder computes alone.

A score is a sum of the parties' parts. Parts are whole numbers of steps modulo G = 2¹⁶, one period of the series. Every
party splits its part into as many uniform numbers as there are *holders* and gives one to each. The holders' sums u₁, …, u_h add
up to the score modulo G. Any h − 1 of them are uniform and independent of every part (`split_parts`).

A link has two series, one for what is expected of the target at a score and one for the slope of that (its *weight*). Both are
periodic, so they need the score modulo G only::

    S(u) = c₀ + Σ_k a_k·cos(2πku/G) + b_k·sin(2πku/G) = c₀ + Re Σ_k (a_k − i·b_k)·e_k(u)

With e_k(u) = cos + i·sin of 2πku/G, e_k(u) is the product of all e_k(u_j). Holder j looks its numbers up in a table, rounded to
integers. The first holder's table has the coefficients in it. So the link on shares is a sum of products of integers that are
dealt by the holders, whatever the number of parties.

*Rounding adds noise and next to no bias.* A holder's u_j is uniform for every person. So what rounding adds on average is
an average over the whole table. tests/secure/test_sine_link.py takes it exactly.

*Coefficients* belong to a family (`colonnade.families`). The bounds below are taken over every value of the tables, so nothing
rests on how good a fit they are.

*On shares.* A node multiplies complex numbers, adds up a series, weighs columns, and reduces degrees.

A series is a sum of products of shares and of numbers that t + 1 nodes know in the clear. Each of these nodes computes its part
of the sum, by Lagrange's interpolation at 0, and deals it by a fresh polynomial of degree t. A node's new share is the sum of
what it receives.

A product of two shares of degree t is a share of degree 2t. The nodes bring it back to degree t together: each deals its share of
the product by a fresh polynomial of degree t, and the N = 2t + 1 values that a node receives, combined with the weights of
Lagrange's interpolation at 0, are its new share [Gennaro–Rabin–Rabin 1998]. The new polynomial is a sum of all nodes' fresh
ones. So t nodes together learn nothing, if all of them compute as written.

Everything is exact modulo M. Nothing here needs room for the integers it passes through; only what is opened does.

Complex numbers stand along the first axis: K real parts, then K imaginary parts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.runtime.workers import Workers
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import Dealing, Products, lagrange_weights

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

STEPS = 1 << 16
"""G: how many steps a period has. A holder's number takes two bytes."""

FIRST_FACTORS = (16, 32)
"""How many times as fine the first holder's table may be."""
FINEST_BITS, COARSEST_BITS = 8, 4

_UNIT = 2.0**20
_ROUNDING = math.sqrt(0.5) + 1e-6  # half a step in each of two directions, and what float64 may add


TableKind = Literal["residual", "weight"]
"""Which series a table is of."""


@dataclass(frozen=True)
class Series:
    """A constant and waves, all in units of 2⁻²⁰.

    Parameters
    ----------
    constant
        c₀.
    cosine, sine
        a₁ … a_K and b₁ … b_K. One of them may be left out.
    """

    constant: int
    cosine: tuple[int, ...] = ()
    sine: tuple[int, ...] = ()

    @cached_property
    def waves(self) -> tuple[complex, ...]:
        """a_k − i·b_k."""
        return tuple(complex(a, -b) / _UNIT for a, b in zip_longest(self.cosine, self.sine, fillvalue=0))

    def at(self, turns: Floats) -> Floats:
        """Return the series at these numbers of periods."""
        total = np.zeros(np.shape(turns))
        for k, wave in enumerate(self.waves, start=1):
            total += wave.real * np.cos(2 * np.pi * k * turns) - wave.imag * np.sin(2 * np.pi * k * turns)
        return self.constant / _UNIT + total

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value over all steps of a period."""
        values = self.at(np.arange(STEPS) / STEPS)
        return float(np.min(values)), float(np.max(values))


@dataclass(frozen=True)
class SineLink:
    """A series for what is expected of a target at a score, and one for its slope.

    Parameters
    ----------
    window
        The largest score, either way, for which the series are what a family says they are.
    period
        What a whole period is as a score.
    means, weights
        The series, of as many waves each.
    """

    window: int
    period: int
    means: Series
    weights: Series

    @property
    def terms(self) -> int:
        """K."""
        return len(self.means.waves)

    @property
    def step(self) -> float:
        """What one step is as a score."""
        return self.period / STEPS

    def mean(self, scores: Floats) -> Floats:
        """Return what is expected of the target, without rounding."""
        return self.means.at(scores / self.period)

    def weight(self, scores: Floats) -> Floats:
        """Return the weight, without rounding."""
        return self.weights.at(scores / self.period)


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
    targets
        The least and the largest target.
    """

    link: SineLink
    holders: int
    bits: int
    finer: int = FIRST_FACTORS[0]
    targets: tuple[int, int] = (0, 1)

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

    def series(self, kind: TableKind) -> Series:
        """Return the series that tables of a kind are of."""
        return self.link.means if kind == "residual" else self.link.weights

    @cached_property
    def residual(self) -> int:
        """M: no residual, the series minus a target, exceeds this in magnitude."""
        least, most = self.targets
        return math.ceil(self.unit * (most - least) / 2 + self._swing) + 1

    @cached_property
    def residual_change(self) -> int:
        """D: no two residuals of one target differ by more, and none differs from 0 by more."""
        return max(self.residual, math.ceil(2 * self._swing) + 2)

    @cached_property
    def weight(self) -> int:
        """W: no weight exceeds this in magnitude."""
        low, high = self._range("weight")
        return math.ceil(max(-low, high) + self._rounded("weight")) + 1

    @cached_property
    def weight_change(self) -> int:
        """E: the largest difference of two weights, and of a weight and 0."""
        low, high = self._range("weight")
        return max(self.weight, math.ceil(high - low + 2 * self._rounded("weight")) + 2)

    def offset(self, kind: TableKind) -> int:
        """Return the constant of a series as an integer."""
        return round(self.series(kind).constant / _UNIT * self.unit)

    def factors(self, holder: int, kind: TableKind, numbers: NDArray[np.uint16]) -> Integers:
        """Return what a holder's table says of some numbers: real parts of all terms, then imaginary ones."""
        found = np.empty((2 * self.link.terms, len(numbers)), dtype=np.int64)
        _look_up(_table(self, holder, kind), numbers.astype(np.uint16), found)
        return found

    @cached_property
    def _swing(self) -> float:
        """The largest distance of F times the series, rounded, from the middle of the targets."""
        middle = self.unit * sum(self.targets) / 2
        low, high = self._range("residual")
        return max(middle - low, high - middle) + self._rounded("residual")

    def _range(self, kind: TableKind) -> tuple[float, float]:
        """Return the smallest and the largest value of F times a series."""
        low, high = self.series(kind).ends
        return self.unit * low, self.unit * high

    def _rounded(self, kind: TableKind) -> float:
        """Return how far rounding can move a series: each factor, a complex number, is off by at most √½."""
        total = 1.0  # the constant of the series is rounded too
        sizes = [self.height(holder) for holder in range(self.holders)]
        for wave in self.series(kind).waves:
            exact = [size * (abs(wave) if holder == 0 else 1.0) for holder, size in enumerate(sizes)]
            total += math.prod(size + _ROUNDING for size in exact) - math.prod(exact)
        return total


@lru_cache(maxsize=4)
def _table(bounds: LinkBounds, holder: int, kind: TableKind) -> NDArray[np.int32]:
    """Return a holder's numbers for every u, which stand together; some megabytes, and used in every chunk of every round."""
    terms = bounds.link.terms
    waves = np.array(bounds.series(kind).waves if holder == 0 else (1,) * terms)[:, None] * bounds.height(holder)
    angles = 2 * np.pi / STEPS * np.arange(STEPS)
    places = np.arange(1, terms + 1)[:, None] * np.arange(STEPS) % STEPS
    cosine, sine = np.cos(angles)[places], np.sin(angles)[places]
    parts = [waves.real * cosine - waves.imag * sine, waves.real * sine + waves.imag * cosine]
    return np.ascontiguousarray(np.rint(np.vstack(parts)).T, dtype=np.int32)


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


_Residues = NDArray[np.int64]


def complex_product(arithmetic: Arithmetic, first: Elements, second: Elements) -> Elements:
    """Return the product of complex numbers, term by term: 2K by people.

    Examples
    --------
    >>> arithmetic = Arithmetic.for_headroom(1_000, nodes=3)
    >>> one, other = (arithmetic.encode(np.array(pair)[:, None]) for pair in ((1, 2), (3, -4)))
    >>> arithmetic.decode(complex_product(arithmetic, one, other)).ravel()
    array([11,  2])
    """
    (a, b), (c, d) = (_parts(arithmetic, number) for number in (first, second))
    return arithmetic.from_residues(np.concatenate([a * c - b * d, a * d + b * c], axis=1))


def series_at(arithmetic: Arithmetic, shares: Elements, told: NDArray[np.int64]) -> Elements:
    """Return Σ_k of the real parts of a product: one per person.

    The second factor is known in the clear to the nodes that multiply by it, so that the degree of the shares stays what it is.
    """
    real, imaginary = np.split(told, 2)
    return arithmetic.weighted_by_person(shares, np.concatenate([real, -imaginary]))


def own_part(arithmetic: Arithmetic, share: Elements, points: Sequence[int], own: int) -> Elements:
    """Return what the share at one of t + 1 points adds to the values that shares of degree t at these points stand for.

    Examples
    --------
    >>> arithmetic = Arithmetic.for_headroom(1_000, nodes=3)
    >>> line = {point: arithmetic.encode(np.array([7 + 10 * point])) for point in (2, 3)}
    >>> parts = [own_part(arithmetic, share, (2, 3), point) for point, share in line.items()]
    >>> arithmetic.decode(arithmetic.add(*parts))
    array([7])
    """
    weights = lagrange_weights(arithmetic, points, 0)[:, [list(points).index(own)]]
    return arithmetic.weighted(share[None], weights)


def weighted_columns(arithmetic: Arithmetic, weights: Elements, columns: Elements) -> Elements:
    """Return every column times the weight of its person."""
    return arithmetic.scaled_columns(columns, weights)


def scaled(arithmetic: Arithmetic, values: Elements, factor: int) -> Elements:
    """Return elements times a public whole number."""
    return arithmetic.from_residues(_residues(arithmetic, values) * factor)


def redealt(dealing: Dealing, values: Elements) -> tuple[Elements, ...]:
    """Deal a node's own elements anew, by fresh polynomials; return the shares of all nodes."""
    return dealing.shares(0, dealing.arithmetic.decode(values).T)


def reduced_degree(arithmetic: Arithmetic, shares: Mapping[int, Elements], threshold: int) -> Elements:
    """Return this node's share of degree t from what all 2t + 1 nodes have dealt it, by their points."""
    points = sorted(shares)
    if points != list(range(1, 2 * threshold + 2)):
        raise ProtocolError("A degree is reduced with the shares of all 2t + 1 nodes.")
    return arithmetic.weighted(np.stack([shares[point] for point in points]), lagrange_weights(arithmetic, points, 0))


class WeightedProduct:
    """A node's share of Σ w·x·xᵀ or of Σ r·x over people: of degree 2t, and not to be opened as it is.

    As with `colonnade.secure.shamir.ShareProduct`, `masked` is the only way out: it adds shares of fresh random polynomials of
    degree 2t, which also carry the noise.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    weighted
        Which columns the rows that are added with each person stand for: for a curvature the constant one and those that were
        dealt again, for a gradient ``None``, since there is one row, the residual.
    columns
        d.
    levels
        Of a curvature, the places of a category's levels that are not among ``weighted``. Two of them are never both on, and
        the square of one is its product with the constant column, which comes first among ``weighted``.
    workers
        Who multiplies, besides this process.

    Examples
    --------
    >>> arithmetic = Arithmetic.for_headroom(1_000, nodes=3)
    >>> product = WeightedProduct(arithmetic, [0, 1], 4, levels=range(2, 4))
    >>> columns = arithmetic.encode(np.array([[1, 1], [5, 7], [1, 0], [0, 1]]))
    >>> product.add(arithmetic.encode(np.array([[2, 3], [10, 21]])), columns)
    >>> arithmetic.decode(product.masked([arithmetic.encode(np.zeros(10, np.int64))])).tolist()
    [5, 31, 2, 3, 197, 10, 21, 2, 0, 3]
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        weighted: Sequence[int] | None,
        columns: int,
        *,
        levels: range = range(0),
        workers: Workers | None = None,
    ) -> None:
        self._arithmetic = arithmetic
        self._products = Products(arithmetic, [1 if weighted is None else len(weighted), columns], workers=workers)
        self._places = np.arange(columns) if weighted is None else _places(weighted, columns, levels)

    def add(self, weighted: Elements, columns: Elements) -> None:
        """Add some people: their weighted columns, or their residuals as one column; and their columns."""
        self._products.add([weighted, columns])

    def masked(self, noise_shares: list[Elements]) -> Elements:
        """Return the sums plus this node's shares of every data party's noise; refuse to go without any."""
        if not noise_shares:
            raise ProtocolError("A product of shares is never opened without a fresh mask of its own degree.")
        sums = np.append(self._products.elements(), np.uint64(0))
        return self._arithmetic.add(sums[self._places], *noise_shares)


def _places(weighted: Sequence[int], columns: int, levels: range) -> NDArray[np.intp]:
    """Return where each pair of columns, once, stands among products of weighted columns and columns; −1 where it is 0."""
    row = np.full(columns, -1)
    row[list(weighted)] = np.arange(len(weighted))
    first, second = np.triu_indices(columns)
    place = np.where(row[first] >= 0, row[first] * columns + second, row[second] * columns + first)
    known = (row[first] < 0) & (row[second] < 0)
    if not set(first[known]) | set(second[known]) <= set(levels):
        raise ProtocolError("Of each pair of columns one is multiplied by the weights.")
    return np.where(known, np.where(first == second, second, -1), place).astype(np.intp)


def _parts(arithmetic: Arithmetic, numbers: Elements) -> tuple[_Residues, _Residues]:
    residues = _residues(arithmetic, numbers)
    half = residues.shape[1] // 2
    return residues[:, :half], residues[:, half:]


def _residues(arithmetic: Arithmetic, elements: Elements) -> _Residues:
    return np.stack([(elements % np.uint64(p)).astype(np.int64) for p in arithmetic.moduli])
