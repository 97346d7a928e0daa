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

What a node does with its shares of a link: multiply complex numbers, add up a series, weigh columns, and reduce degrees.

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


def series_at(arithmetic: Arithmetic, shares: Elements, told: NDArray[np.int64], kind: TableKind) -> Elements:
    """Return Σ_k of the imaginary parts of a product (``"residual"``), or of its real parts (``"weight"``): one per person.

    The second factor is known in the clear to the nodes that multiply by it, so that the degree of the shares stays what it is.
    """
    half = len(told) // 2
    by_real, by_imaginary = (told[half:], told[:half]) if kind == "residual" else (told[:half], -told[half:])
    return arithmetic.weighted_by_person(shares, np.concatenate([by_real, by_imaginary]))


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
