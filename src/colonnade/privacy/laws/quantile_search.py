"""Quantiles by the exponential mechanism, with weights that are whole numbers.

*Positions.* A person's value is a cell, a public function of the value alone. Inside a cell a person has a random place that is
drawn without looking at anything else, so that people with one value stand in some order. A cell and a place together are a
*position*. Cells of round numbers have more places than others (`Positions`): many people often have one round value, and noise
should rather end there than in a gap between two of them.

*A question* is about some people, a range of positions, and a share q. The rank error of a position is how far the people below
it are from a share q of all of them: ``|(1 − q)·below − q·others|``, in parts of ``max(q, 1 − q)`` and rounded down to a whole
number j. Taking one person out moves it by at most 1. A position is drawn with a probability in proportion to a weight that falls
with j, by a factor of at most ``e^(η/2)`` per step.

*The search* asks for the middle one of the quantiles first. The others are then sought among the people below it and among those
above it. A person is in one question of each level, and k quantiles take ``⌈log₂(k + 1)⌉`` levels (Kaplan, Schnapp and Stemmer
2022). Proof: docs/proofs/histograms.md#search.

*Many people.* Weights stop falling some way from the rank that is sought, so a draw looks at the people around that rank one by
one, and at all others as two stretches. People may therefore lie on disk, in runs that were sorted one after the other
(`Ascending`): a rank is found by bisection. Memory is for the people around a rank: 2·166/η of them at most.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import NANO, Loss, Price
from colonnade.privacy.calibration import renyi_rho
from colonnade.privacy.gaussian import mu_squared_of_pure
from colonnade.privacy.laws import Description, RowBlocks, Sampler

Integers = NDArray[np.int64]

PLACES = 1 << 20
"""How many places there are inside a cell, at least."""
LARGEST_CELLS = 1 << 30
LARGEST_SCALES = 10
LARGEST_ORIGIN = 1 << 60
FINEST = 10**6
"""The largest denominator of a share."""
SMALLEST_STEP = Fraction(1, 100_000)
EXPONENT_PARTS = 1 << 24
FAINTEST = 120
"""Weights fall to 2^-120 of the largest, and no further."""
MANTISSA = 62


@dataclass(frozen=True)
class Positions:
    """The positions of one column: its cells, and how many places each of them has.

    A cell whose whole number is a multiple of ``10^k`` has ``10^k`` times as many places for that k as a cell has at least, for
    each k below ``scales``. So numbers of every roundness have about the same number of positions together.

    Parameters
    ----------
    cells
        How many cells there are.
    origin
        The whole number of the first cell; that of the next is one more.
    scales
        How many powers of ten count. 1 gives every cell as many places.

    Examples
    --------
    >>> positions = Positions(21, scales=2)
    >>> [int(positions.times(np.array(cell))) for cell in (9, 10, 11)], positions.cell_of(int(positions.start(np.array(10))))
    ([1, 11, 1], 10)
    """

    cells: int
    origin: int = 0
    scales: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.cells <= LARGEST_CELLS or not 1 <= self.scales <= LARGEST_SCALES:
            raise BadInput(f"A column has between 1 and {LARGEST_CELLS:,} cells.")
        if abs(self.origin) > LARGEST_ORIGIN:
            raise BadInput(
                "The bounds of a column are too far from 0 for quantiles.",
                remedy="Subtract a public number at the source.",
            )

    @property
    def number(self) -> int:
        """How many positions there are."""
        return int(self.start(np.array(self.cells)))

    def times(self, cells: NDArray[Any]) -> Integers:
        """Return how many times as many places as the least cells have."""
        numbers = np.asarray(cells, dtype=np.int64) + self.origin
        return np.asarray(sum(10**k * (numbers % 10**k == 0) for k in range(self.scales)), dtype=np.int64)

    def start(self, cells: NDArray[Any]) -> Integers:
        """Return the first position of each cell; that of the cell behind the last one is the number of positions."""
        numbers = np.asarray(cells, dtype=np.int64) + self.origin
        before = sum(10**k * (-(-numbers // 10**k) - -(-self.origin // 10**k)) for k in range(self.scales))
        return np.asarray(PLACES * before, dtype=np.int64)

    def cell_of(self, position: int) -> int:
        """Return the cell of a position."""
        low, high = 0, self.cells
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if int(self.start(np.array(middle))) <= position else (low, middle)
        return low


def search_levels(quantiles: int) -> int:
    """Return how many questions a person takes part in.

    Examples
    --------
    >>> [search_levels(number) for number in (1, 2, 3, 7, 8)]
    [1, 2, 2, 3, 4]
    """
    return quantiles.bit_length()


@dataclass(frozen=True)
class Question:
    """One quantile to look for, and the questions that follow it.

    Parameters
    ----------
    place
        Which of the quantiles it is.
    share
        The share of people below it, among the people that this question is about.
    below, above
        The questions about the people below and above what is found here.
    """

    place: int
    share: Fraction
    below: "Question | None" = None
    above: "Question | None" = None

    def weights(self) -> tuple[int, int]:
        """Return 1 − q and q, as whole numbers in proportion."""
        return self.share.denominator - self.share.numerator, self.share.numerator


def searched(quantiles: Sequence[float]) -> Question:
    """Return the questions for rising quantiles between 0 and 1, both left out.

    Examples
    --------
    >>> question = searched([0.25, 0.5, 0.75])
    >>> question.place, question.below.share, question.above.share
    (1, Fraction(1, 2), Fraction(1, 2))
    """
    shares = [Fraction(value).limit_denominator(FINEST) for value in quantiles]
    if not shares or any(low >= high for low, high in pairwise([Fraction(0), *shares, Fraction(1)])):
        raise BadInput("Quantiles rise, between 0 and 1.", remedy="For example q=[0.25, 0.5, 0.75].")
    found = _divided(shares, 0, Fraction(0), Fraction(1))
    assert found is not None
    return found


def _divided(shares: Sequence[Fraction], first: int, low: Fraction, high: Fraction) -> Question | None:
    if not shares:
        return None
    middle = len(shares) // 2
    own = shares[middle]
    relative = ((own - low) / (high - low)).limit_denominator(FINEST)
    return Question(
        first + middle,
        relative,
        _divided(shares[:middle], first, low, own),
        _divided(shares[middle + 1 :], first + middle + 1, own, high),
    )


class CellRows(RowBlocks, Protocol):
    """Everybody's cells, which need not be in memory together, and room for as many positions beside them."""

    def sorted_runs(self, numbers: Iterable[Integers]) -> Sequence[Integers]:
        """Return whole numbers, one per row, in runs that ascend each. They lie where the rows do."""


class Ascending:
    """Whole numbers in ascending order; they may lie in several runs that ascend each.

    Parameters
    ----------
    runs
        The numbers.
    first, last
        Which of them are meant, by their places in the order of all; all by default.

    Examples
    --------
    >>> numbers = Ascending([np.array([1, 5, 9]), np.array([2, 5, 7])])
    >>> numbers.read(1, 5).tolist(), numbers.below(5), numbers.part(2, 6).read(0, 2).tolist()
    ([2, 5, 5, 7], 2, [5, 5])
    """

    __slots__ = ("_first", "_last", "_runs")

    def __init__(self, runs: Sequence[Integers], first: int = 0, last: int | None = None) -> None:
        self._runs = [run for run in runs if len(run)]
        self._first = first
        self._last = sum(map(len, self._runs)) if last is None else last

    def __len__(self) -> int:
        return self._last - self._first

    def part(self, first: int, last: int) -> "Ascending":
        """Return the numbers from one place to another."""
        return Ascending(self._runs, self._first + first, self._first + last)

    def below(self, number: int) -> int:
        """Return how many of them are below a number."""
        return min(max(sum(self._places(number, "left")) - self._first, 0), len(self))

    def read(self, first: int, last: int) -> Integers:
        """Return the numbers from one place to another as an array."""
        if first >= last:
            return np.empty(0, dtype=np.int64)
        low, high = self._at(self._first + first), self._at(self._first + last - 1)
        starts = self._places(low, "left")
        stops = self._places(high, "right")
        found = np.sort(np.concatenate([run[a:b] for run, a, b in zip(self._runs, starts, stops, strict=True)]))
        skipped = self._first + first - sum(starts)
        return found[skipped : skipped + last - first]

    def _at(self, place: int) -> int:
        """Return the number at a place in the order of all, by bisection."""
        low, high = min(int(run[0]) for run in self._runs), max(int(run[-1]) for run in self._runs)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if sum(self._places(middle, "right")) > place else (middle + 1, high)
        return low

    def _places(self, number: int, side: Literal["left", "right"]) -> list[int]:
        return [int(np.searchsorted(run, number, side=side)) for run in self._runs]


class QuantileSearch:
    """Draw a position for each of some quantiles of each of some columns.

    Parameters
    ----------
    price
        What all of it together may cost. At δ = 0 questions divide ε; otherwise they divide the price's ρ.
    columns
        The positions of each column.
    quantiles
        Rising, between 0 and 1.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> law = QuantileSearch(Price.of(5.0), (Positions(100),), (0.5,))
    >>> found = law.release(np.arange(1_001)[:, None] % 100, ExactSampler(SystemRandomness()))
    >>> bool(30 <= law.columns[0].cell_of(int(found[0, 0])) <= 70), law.levels
    (True, 1)

    Notes
    -----
    Any weight that falls by a factor of at most ``e^(η/2)`` per unit of a score with sensitivity 1 gives the exponential
    mechanism's guarantee. So weights need not be exponentials: here they are whole numbers, and the draw is one uniform whole
    number below their sum. The weight of score j is ``2^(-jR/2²⁴)``, with R rounded down from ``2²⁴η/(2 ln 2)`` by a factor of
    1 − 2⁻³⁰. That covers the float error of the 62 bits of each weight.

    Privacy
    -------
    Guarantee
        Each question is η-DP, with a privacy loss in an interval of length η, and so η²/8-zCDP, and as Gaussian as a pure η/2
        (docs/proofs/gaussian-losses.md#ranges). Levels and columns add: pure ε at δ = 0, else (ε, δ) by zCDP.
        Proof: docs/proofs/histograms.md#search.
    Neighbours
        Zero-out: a person in no cell is in no question.
    Adversary
        Anybody who reads what is found.
    Numerics
        Weights are whole numbers, checked against their bound when they are made; the draw is exact. Places inside cells are
        uniform.
    Checked by
        tests/privacy/test_quantile_search.py
    """

    __slots__ = ("_rate", "columns", "levels", "loss", "questions", "step")

    name = "exponential mechanism for quantiles"

    def __init__(self, price: Price, columns: Sequence[Positions], quantiles: Sequence[float]) -> None:
        self.columns = tuple(columns)
        self.questions = searched(quantiles)
        self.levels = search_levels(len(quantiles))
        asked = self.levels * len(columns)
        if price.delta == 0:
            self.step = price.exact / asked
        else:
            self.step = _root_below(8 * renyi_rho(price) / asked)
        if self.step < SMALLEST_STEP:
            raise BadInput(
                "The quantiles would be noise alone.", remedy="Raise epsilon, or ask for fewer columns or quantiles."
            )
        curve = Loss.of_zcdp(asked * self.step**2 / 8, asked * mu_squared_of_pure(math.ceil(self.step / 2 * NANO)))
        if price.delta == 0:
            pure = Loss.of_pure(price.nano)
            curve = Loss((min(a, b) for a, b in zip(curve.renyi, pure.renyi, strict=True)), pure.pure, curve.gaussian)
        self.loss = curve
        self._rate = math.floor(Fraction(EXPONENT_PARTS) * self.step / 2 * (1 - Fraction(1, 2**30)) / LOG_TWO)

    def release(self, nonprivate: NDArray[Any] | CellRows, sampler: Sampler) -> Integers:
        """Return one position for each column and quantile.

        Parameters
        ----------
        nonprivate
            One row per person and one column per column: cells, −1 where a person has no value. Rows may be read some at a time.
        sampler
            Where coins come from.
        """
        if len(nonprivate.shape) != 2 or nonprivate.shape[1] != len(self.columns) or nonprivate.dtype.kind not in "iu":
            raise BadInput("Quantiles are sought among whole numbers, one column per column.")
        found = np.empty((len(self.columns), self._count(self.questions)), dtype=np.int64)
        for number, column in enumerate(self.columns):
            blocks = [nonprivate] if isinstance(nonprivate, np.ndarray) else nonprivate
            placed = (self._placed(block[:, number].astype(np.int64), column, sampler) for block in blocks)
            runs = [np.sort(next(placed))] if isinstance(nonprivate, np.ndarray) else nonprivate.sorted_runs(placed)
            everybody = Ascending(runs)
            people = everybody.part(0, everybody.below(column.number))
            for place, position in self._search(self.questions, people, 0, column.number, sampler):
                found[number, place] = position
        return found

    def _placed(self, cells: Integers, column: Positions, sampler: Sampler) -> Integers:
        """Return people's positions; those without a value stand behind the last one, so that their number tells nothing."""
        places = sampler.uniform_below(PLACES, len(cells))
        there = (cells >= 0) & (cells < column.cells)
        return np.where(there, column.start(cells) + places * column.times(cells), column.number)

    def _count(self, question: Question | None) -> int:
        return 0 if question is None else 1 + self._count(question.below) + self._count(question.above)

    def _search(
        self, question: Question, people: Ascending, low: int, high: int, sampler: Sampler
    ) -> Iterator[tuple[int, int]]:
        position = self.draw(question, people, low, high, sampler)
        yield question.place, position
        middle = people.below(position)
        if question.below is not None:
            yield from self._search(question.below, people.part(0, middle), low, position + 1, sampler)
        if question.above is not None:
            yield from self._search(question.above, people.part(middle, len(people)), position, high, sampler)

    def draw(self, question: Question, people: Ascending, low: int, high: int, sampler: Sampler) -> int:
        """Draw one position at or above ``low`` and below ``high``.

        A position with k people below it lies in the k-th of the stretches that people's positions bound. The stretches far from
        the rank that is sought have one weight, so the first and the last of what is looked at here are many.
        """
        first, last = self._near(question, len(people))
        known = people.read(max(first - 1, 0), min(last, len(people)))
        before, behind = [low - 1] * (1 + (first == 0)), [high - 1] * (1 + (last > len(people)))
        bounds = np.concatenate([before, known, behind])
        lengths = np.diff(bounds)
        faintest = [self._largest]
        scores = np.concatenate([faintest, self.scores(question, len(people), first, last), faintest])
        different, which = np.unique(scores, return_inverse=True)
        numbers = np.zeros(len(different), dtype=np.int64)
        np.add.at(numbers, which, lengths)
        weights = [
            self.weight(score) * number for score, number in zip(different.tolist(), numbers.tolist(), strict=True)
        ]
        upto = list(accumulate(weights))
        place = bisect_right(upto, _uniform_integer(upto[-1], sampler))
        stretches = np.flatnonzero(which == place)
        ends = np.cumsum(lengths[stretches])
        number = int(sampler.uniform_below(int(ends[-1]), 1)[0])
        one = int(np.searchsorted(ends, number, side="right"))
        return int(bounds[stretches[one]]) + 1 + number - (int(ends[one - 1]) if one else 0)

    @property
    def _largest(self) -> int:
        """The score from which weights fall no further."""
        return -(-FAINTEST * EXPONENT_PARTS // self._rate)

    def _near(self, question: Question, people: int) -> tuple[int, int]:
        """Return from which number of people below a position, and up to which, its score is less than the largest."""
        under, over = question.weights()
        reach = self._largest * max(under, over)
        first = (over * people - reach) // (under + over) + 1
        last = -(-(over * people + reach) // (under + over))
        return max(first, 0), min(last, people + 1)

    def scores(self, question: Question, people: int, first: int = 0, last: int | None = None) -> Integers:
        """Return the rank error of a position with 0, 1, …, all people below it, as whole numbers of sensitivity 1.

        ``first`` and ``last`` ask for some of these numbers of people only.
        """
        under, over = question.weights()
        below = np.arange(first, people + 1 if last is None else last, dtype=np.int64)
        errors = np.abs(under * below - over * (people - below)) // max(under, over)
        return np.asarray(np.minimum(errors, self._largest), dtype=np.int64)

    def weight(self, score: int) -> int:
        """Return the weight of a score, a positive whole number."""
        whole, rest = divmod(min(score * self._rate, FAINTEST * EXPONENT_PARTS), EXPONENT_PARTS)
        return round(math.ldexp(2.0 ** (-rest / EXPONENT_PARTS), MANTISSA)) << (FAINTEST - whole)

    def describe(self) -> Description:
        return Description("rank errors, by 1 each", f"η = {float(self.step):.6g} per question, {self.levels} levels")

    def __repr__(self) -> str:
        return f"QuantileSearch(step={float(self.step):.6g}, levels={self.levels}, columns={len(self.columns)})"


LOG_TWO = Fraction(math.log(2.0))


def _root_below(value: Fraction) -> Fraction:
    """Return a square root, rounded down at 40 bits behind the point."""
    return Fraction(math.isqrt(math.floor(value * 2**80)), 2**40)


def _uniform_integer(bound: int, sampler: Sampler) -> int:
    """Draw a whole number below a bound of any size, uniformly."""
    bits = bound.bit_length()
    size = -(-bits // 8)
    while True:
        number = int.from_bytes(sampler.bytes(size), "big") >> (8 * size - bits)
        if number < bound:
            return number
