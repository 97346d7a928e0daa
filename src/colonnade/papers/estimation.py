"""From opened numbers to estimates, for the methods that papers brought.

*Pair tables from sketches* of memberships, by maximum likelihood (docs/proofs/sketches.md#decoding).

Each pair of parties' sketches is decoded into a table of how many people are in which two local clusters. Private vertical
clustering (Algorithms 4 and 5) decodes each cell as n minus the size of its complement, with an error that grows with n. Here
all cells are fitted at once, from *equal* values above all.

*One set.* ``(1+γ)^HarmonicMean(α)`` of the paper never converges to the number of elements. ``κM/Σ(1+γ)^-α`` with ``κ =
γ/((1+γ)ln(1+γ))`` does, and so does the value of greatest likelihood, which also reads values at the floor rightly. The
latter is used here (`_rate`).

*Likelihood.* The code speaks of times and rings. Read a value α as the time ``-ln(1-u)``, u its uniform: the maximum of N
geometric values is the minimum of N exponential times. A cell (a, b) with ``N_ab = n_ab + n_p`` people and phantoms rings
first at a time of rate N_ab. Party one hears the first ring ``s_a`` of its row of cells, party two the first ring ``t_b`` of
its column; x_a and y_b are the rates of people that one party has no record of. As γ → 0 no two cells ring at once, so

* ``s_a = t_b``: cell (a, b) rang: a factor N_ab;
* ``s_a`` alone: a cell rang that column b had heard ring before, ``t_b < s_a``, or x_a: a factor ``x_a + Σ_{b: t_b < s_a} N_ab``;
* ``t_b`` alone: likewise; at the floor nobody rang yet: no factor;
* always: nobody rang earlier, ``exp(-Σ N_ab max(s_a, t_b) - Σ x_a s_a - Σ y_b t_b)``.

The logarithm is concave in all rates. Sketches with the same factor are counted once. Two values that fall together by chance
(about γ/4 of the time) pass for a ring of their cell; at γ = 2^-10 that is a small fraction of the noise.

*Climbing.* The likelihood is climbed by the classical multiplicative step for rates with a known background (the phantoms):
every count is multiplied by how often its cell rang, as far as one can tell, over how long it was waited for, with one
multiplier for the known total. Counts stay positive and the likelihood never falls. Two readings compete: everybody has a
record at both parties, or some do not. The second has 2k′ more unknowns and is believed only where it explains far more.

*Gradient descent* at the coordinator: optimisers, when to stop, and the error that noisy steps are expected to leave.

What the coordinator makes of noisy gradients (Secure PCA, Algorithm 4) is post-processing and costs nothing, whichever way it
is done: plain steps with momentum, or Adam; weights clipped to a length; and an average of the iterates in which later ones
count more, because single iterates of a noisy descent wander.

*Coresets*: sizes, totals and weights of a sample drawn by importance, and models fitted on it.

Algorithms 1 to 3 of Coresets (Huang, Li, Sun, Zhao, 2022; docs/references.md#coresets). The paper's letters: T parties; G^(j)
party j's total score and G their sum; m draws, S the multiset of drawn rows, g_i the sum of row i's scores over parties.

*Weights* belong to *occurrences*: each of the m draws of row i weighs G/(m·g_i), and a row that was drawn c times weighs c
times as much (docs/proofs/non-private.md#weights). Counting distinct rows instead gives 0.73 of the cost, and the formula as
printed 0.35.

*Totals.* A party's total is bounded by what its public schema allows, so a greedy party cannot seize the sample. Leverage
scores sum to the rank of the block and the constant terms to one; a party's scores for k-means sum to 2(k + 1). A larger
total is refused.

*Sizes.* `proved_size` is that of Theorem G.2, with the constant 1 where the paper leaves it open. It exceeds any table that we
have seen. `estimated_size` is how many draws serve in practice (docs/proofs/non-private.md#size).

*Models* of the weighted sample are fitted by scikit-learn (Section 6 of the paper: C-CENTRAL, C-KMEANS++ and the last step of
C-DISTDIM).

*Powers of numbers* that were released with discrete Laplace noise, estimated without bias.

This takes the place of Algorithm 2 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives), which
counts millions of patterns. Here nothing is counted. With ``a = e^(-1/scale)`` the noise of one party has the generating
function ``(1-a)²/((1-az)(1-a/z))``. Its inverse is the operator ``I - cΔ²`` with ``c = a/(1-a)²`` and ``Δ²g(y) = g(y+1) - 2g(y)
+ g(y-1)``. So for y = x + (independent noise of v parties) and *any* g on the whole numbers, ``f = Π_j(I - c_jΔ²) g`` has ``E
f(y) = g(x)``, exactly (docs/proofs/values-and-moments.md#unbiased-powers).

*Closed form.* On powers, ``Δ² = 4·sinh²(D/2)``, so ``f(y) = Σ_n s_n·p(p-1)…(p-2n+1)·y^(p-2n)`` with ``Σ s_n z^(2n) = Π_j(1 -
4c_j·sinh²(z/2))``. For a whole p this is a polynomial. Otherwise the series converges from v on. From `_REACH`·v on, the terms
that are kept leave an error below rounding. Differences of neighbouring values cancel. They are taken only in a short table,
with enough digits.

*Below the bound.* Sums are never below a public bound L, so g(y) may be chosen for y < L. The choice decides the variance where
sums are small. An even power is continued as itself. Otherwise g is a combination, for t = L - y > 0, of 1, t, …, t^⌈p⌉
(which contain zero and, at L = 0 and whole p, ±|y|^p) and of ``t^i e^(-t/scale_j)``, which the operator sends to 0.
The weights minimise the variance, averaged over sums spread evenly from L to `_PRIOR` standard deviations of the noise
above it. The rule uses public numbers only, and the estimate is unbiased for every choice.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Protocol

import mpmath
import numba
import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model

from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.clustering import TOO_SMALL, WeightRule, weighted_kmeans
from colonnade.estimation.tables import PairTableSet
from colonnade.papers.laws import SketchLaw, sketching
from colonnade.privacy.accounting import Loss, Price, Unit
from colonnade.privacy.calibration import price_of_loss
from colonnade.privacy.laws.response import best_channel
from colonnade.schema import Feature, centres, half_widths

LARGEST_SKETCHED = 48
"""Local clusters up to which sketches are decoded."""

Array = NDArray[np.float64]
Codes = NDArray[np.uint16]
Integers = NDArray[np.int64]

_READ = (
    "void(uint16[:, ::1], uint16[:, ::1], uint16, float64[::1], float64[:, ::1], float64[:, ::1], int64[:, ::1],"
    " int64[:, ::1])"
)
_WEIGH = (
    "float64(int64[::1], int64[::1], int64[::1], float64[::1], float64[:, ::1], float64[::1], float64[:, ::1],"
    " float64[::1])"
)


@dataclass(frozen=True, eq=False)
class _LoneRings:
    """Values that only one party has: its row, the other party's columns with larger values (in sequence), and how often."""

    owner: NDArray[np.int64]
    start: NDArray[np.int64]
    before: NDArray[np.int64]
    count: Array


@dataclass(frozen=True, eq=False)
class SketchEvidence:
    """The likelihood of a pair's sketches, as far as it depends on the rates.

    Parameters
    ----------
    waited, waited_first, waited_second
        Over all sketches: Σ max(s_a, t_b), Σ s_a and Σ t_b.
    together
        How often both parties of a cell have the same value.
    first, second
        The values that only one party has.
    """

    waited: Array
    waited_first: Array
    waited_second: Array
    together: Array
    first: _LoneRings
    second: _LoneRings

    def pull(self, cells: Array, only_first: Array, only_second: Array) -> tuple[float, Array, Array, Array]:
        """Return the log likelihood at some rates, and the expected rings of each cell divided by its rate."""
        cells = np.ascontiguousarray(cells)
        turned = np.ascontiguousarray(cells.T)
        drawn, drawn_back = self.together / cells, np.zeros(turned.shape)
        pulled_first, pulled_second = np.zeros_like(only_first), np.zeros_like(only_second)
        value = float(np.sum(self.together * np.log(cells)))
        value += _weigh(*_parts(self.first), cells, only_first, drawn, pulled_first)
        value += _weigh(*_parts(self.second), turned, only_second, drawn_back, pulled_second)
        value -= float(np.sum(cells * self.waited) + only_first @ self.waited_first + only_second @ self.waited_second)
        return value, drawn + drawn_back.T, pulled_first, pulled_second


@lru_cache(maxsize=64)
def ring_times(law: SketchLaw) -> Array:
    """Return the time of every value from the floor to the cap; of the floor, when it was given up."""
    uniform = law.thresholds.astype(np.float64) * 2.0**-64
    inside = np.sqrt(uniform[:-1] * uniform[1:])
    return np.asarray(-np.log1p(-np.concatenate([uniform[:1], inside, uniform[-1:] / 2])))


def read_sketches(law: SketchLaw, first: Codes, second: Codes) -> SketchEvidence:
    """Read the sketches of two parties, M rows of one value per cluster each, from the floor to the cap."""
    clusters = first.shape[1], second.shape[1]
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second) or max(clusters) > LARGEST_SKETCHED:
        raise BadInput(f"Sketches of two parties, equally many, of up to {LARGEST_SKETCHED} clusters are decoded.")
    waited, together = np.zeros(clusters), np.zeros(clusters)
    heard, heard_back = np.full(first.shape, -1, dtype=np.int64), np.full(second.shape, -1, dtype=np.int64)
    times = ring_times(law)
    if min(first.min(), second.min()) < law.floor or max(first.max(), second.max()) > law.cap:
        raise BadInput("A value of a sketch lies outside its law.")
    one, other = np.ascontiguousarray(first), np.ascontiguousarray(second)
    _read(one, other, np.uint16(law.floor), times, waited, together, heard, heard_back)
    return SketchEvidence(
        waited=waited,
        waited_first=times[one - law.floor].sum(axis=0),
        waited_second=times[other - law.floor].sum(axis=0),
        together=together,
        first=_counted(heard, clusters[1]),
        second=_counted(heard_back, clusters[0]),
    )


def _counted(heard: NDArray[np.int64], width: int) -> _LoneRings:
    """Count equal sets of columns, row by row."""
    owner = np.broadcast_to(np.arange(heard.shape[1]), heard.shape)[heard >= 0]
    packed, count = np.unique((owner.astype(np.int64) << width) | heard[heard >= 0], return_counts=True)
    which, before = np.nonzero((packed[:, None] >> np.arange(width)) & 1)
    start = np.searchsorted(which, np.arange(len(packed) + 1))
    return _LoneRings(packed >> width, start.astype(np.int64), before.astype(np.int64), count.astype(np.float64))


def _parts(alone: _LoneRings) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Array]:
    return alone.owner, alone.start, alone.before, alone.count


@numba.njit([_READ], cache=True, nogil=True)
def _read(
    first: Codes,
    second: Codes,
    floor: int,
    times: Array,
    waited: Array,
    together: Array,
    heard: NDArray[np.int64],
    heard_back: NDArray[np.int64],
) -> None:
    """Go through the sketches. Add up waiting times and common rings, and mark the rings that one party heard alone."""
    rows, columns = first.shape[1], second.shape[1]
    free = np.empty(columns, dtype=np.bool_)
    for sketch in range(first.shape[0]):
        free[:] = True
        for a in range(rows):
            own = first[sketch, a]
            alone = own > floor
            before = np.int64(0)
            for b in range(columns):
                other = second[sketch, b]
                waited[a, b] += times[min(own, other) - floor]
                if other > own:
                    before |= np.int64(1) << np.int64(b)
                elif other == own and alone and free[b]:
                    together[a, b] += 1.0
                    free[b] = False
                    alone = False
            if alone:
                heard[sketch, a] = before
        for b in range(columns):
            other = second[sketch, b]
            if other > floor and free[b]:
                before = np.int64(0)
                for a in range(rows):
                    if first[sketch, a] > other:
                        before |= np.int64(1) << np.int64(a)
                heard_back[sketch, b] = before


@numba.njit([_WEIGH], cache=True, nogil=True)
def _weigh(
    owner: NDArray[np.int64],
    start: NDArray[np.int64],
    before: NDArray[np.int64],
    count: Array,
    cells: Array,
    only: Array,
    drawn: Array,
    pulled: Array,
) -> float:
    """Add what rings heard alone pull each cell by; return their part of the log likelihood."""
    value = 0.0
    for number in range(owner.size):
        row, rate = owner[number], only[owner[number]]
        for place in range(start[number], start[number + 1]):
            rate += cells[row, before[place]]
        value += count[number] * math.log(rate)
        share = count[number] / rate
        pulled[row] += share
        for place in range(start[number], start[number + 1]):
            drawn[row, before[place]] += share
    return value


_BALANCE = "float64(float64[::1], float64[::1], float64)"
STEPS = 400
SETTLED = 1e-5
SHORT = 30
SPARE = 0.01
SURPRISE = 4.0


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A fitted pair table.

    Parameters
    ----------
    table
        People in each cell, never negative.
    only_first, only_second
        People that the other party has no record of.
    variance
        The mean variance of a cell.
    """

    table: Array
    only_first: Array
    only_second: Array
    variance: float


def cell_spread(cell: Array | float, row: Array | float, column: Array | float, sketches: int) -> Array:
    """Return the standard deviation of a cell: N(N_row + N_column - N)/M under the root, phantoms counted.

    A cell of rate N rings for both in a share N/(N_row + N_column - N) of the sketches, and what is learned of ln N is one unit a
    ring. Rings heard by one party alone add little.
    """
    return np.asarray(np.sqrt(np.asarray(cell) * (np.asarray(row) + column - cell) / sketches))


def sketched_table(law: SketchLaw, first: Codes, second: Codes, people: int) -> FittedTable:
    """Return the table of greatest likelihood for one pair of parties.

    Parameters
    ----------
    law
        The sketches' law, phantoms and floor.
    first, second
        M rows of one value per cluster, from each party.
    people
        How many people there are; public.
    """
    first, second = (np.clip(codes, law.floor, law.cap) for codes in (first, second))
    evidence = read_sketches(law, first, second)
    start = _independent(law, first, second, float(people))
    complete = start, np.zeros(len(start)), np.zeros(start.shape[1])
    whole, complete = _climb(evidence, law.phantoms, complete, float(people))
    table, only_first, only_second = _partial(evidence, law.phantoms, complete, float(people), whole) or complete
    return FittedTable(table, only_first, only_second, _variance(table, only_first, only_second, law, len(first)))


def sketched_tables(
    law: SketchLaw, sketches: Mapping[tuple[int, int], tuple[Codes, Codes]], sizes: tuple[int, ...], people: int
) -> PairTableSet:
    """Return the tables of all pairs. Each pair has its own keys, and so its own noise."""
    fitted = {pair: sketched_table(law, *both, people) for pair, both in sketches.items()}
    tables = {pair: one.table for pair, one in fitted.items()}
    return PairTableSet(sizes, tables, {pair: one.variance for pair, one in fitted.items()})


Counts = tuple[Array, Array, Array]


def _partial(evidence: SketchEvidence, phantoms: int, complete: Counts, people: float, whole: float) -> Counts | None:
    """Return the fit with people that one party has no record of, if the likelihood shows that there are some.

    A short climb decides. It is continued to the end only where it gains half of what is needed.
    """
    unknowns = sum(complete[0].shape)
    convincing = unknowns + SURPRISE * math.sqrt(2 * unknowns)
    spare = people * SPARE / unknowns
    counts = complete[0] * (1 - SPARE), complete[1] + spare, complete[2] + spare
    some, counts = _climb(evidence, phantoms, counts, people, missing=True, steps=SHORT)
    if 2 * (some - whole) < convincing / 2:
        return None
    some, counts = _climb(evidence, phantoms, counts, people, missing=True)
    return counts if 2 * (some - whole) > convincing else None


def _climb(
    evidence: SketchEvidence, phantoms: int, counts: Counts, people: float, *, missing: bool = False, steps: int = STEPS
) -> tuple[float, Counts]:
    """Climb towards the greatest likelihood; return it, and people by cell and by party alone."""
    waited = evidence.waited, evidence.waited_first, evidence.waited_second
    value = -math.inf
    for _ in range(steps):
        value, *pulls = evidence.pull(counts[0] + phantoms, counts[1] + phantoms, counts[2] + phantoms)
        rang = [own * pull for own, pull in zip(counts, pulls, strict=True)]
        if not any(one.any() for one in rang):
            break  # nobody was heard at all
        multiplier = _multiplier(rang, waited, people, at_most=missing)
        after = tuple(one / (time + multiplier) for one, time in zip(rang, waited, strict=True))
        moved = max(float(np.max(np.abs(new - old))) for new, old in zip(after, counts, strict=True))
        counts = after[0], after[1], after[2]
        if moved <= SETTLED * people:
            break
    return value, counts


def _multiplier(rang: list[Array], waited: Counts, people: float, *, at_most: bool) -> float:
    """Return what to add to all waiting times so that the counts add up to the number of people, or to no more."""
    above = np.concatenate([one.ravel() for one in rang])
    below = np.concatenate([one.ravel() for one in waited])
    if at_most and float(np.sum(above / below)) <= people:
        return 0.0
    return float(_balance(above[above > 0], below[above > 0], people))


@numba.njit([_BALANCE], cache=True, nogil=True)
def _balance(above: Array, below: Array, people: float) -> float:
    """Return the root of Σ above/(below + x) = people to the right of all poles.

    The sum falls and is convex there, so Newton's method from the left, where one term alone is everybody, never overshoots.
    """
    point = above[0] / people - below[0]
    for number in range(1, below.size):
        point = max(point, above[number] / people - below[number])
    for _ in range(200):
        excess, slope = -people, 0.0
        for number in range(below.size):
            share = above[number] / (below[number] + point)
            excess += share
            slope += share / (below[number] + point)
        if excess <= 1e-11 * people:
            break
        point += excess / slope
    return float(point)


def _independent(law: SketchLaw, first: Codes, second: Codes, people: float) -> Array:
    """Return a table to start from: margins by the cardinality of each set, as if parties were independent."""
    shares = []
    for codes, others in ((first, second), (second, first)):
        counts = np.array([_rate(law, column) for column in codes.T]) - law.phantoms * (others.shape[1] + 1)
        counts = np.maximum(counts, people / (20 * len(counts)))
        shares.append(counts / counts.sum())
    return np.asarray(people * np.outer(*shares))


def _rate(law: SketchLaw, values: Codes) -> float:
    """Return the rate of exponential times, some of them given up at the floor: rings over time waited."""
    return float(np.sum(values > law.floor)) / float(ring_times(law)[values - law.floor].sum())


def _variance(table: Array, only_first: Array, only_second: Array, law: SketchLaw, sketches: int) -> float:
    cells = table + law.phantoms
    rows = cells.sum(axis=1, keepdims=True) + only_first[:, None] + law.phantoms
    columns = cells.sum(axis=0, keepdims=True) + only_second + law.phantoms
    return float(np.mean(cell_spread(cells, rows, columns, sketches) ** 2))


OptimiserName = Literal["sgd", "adam"]


class Optimiser(Protocol):
    """A rule that turns gradients into steps."""

    def change(self, gradient: Array) -> Array:
        """Return what to add to the weights."""


@dataclass
class Sgd:
    """Gradient descent with momentum.

    Parameters
    ----------
    learning_rate
        The length of a step; with momentum m the long-run step is 1/(1 − m) times as long.
    momentum
        The share of the previous step that is kept.
    """

    learning_rate: float
    momentum: float = 0.9
    _velocity: Array | float = 0.0

    def change(self, gradient: Array) -> Array:
        """Return what to add to the weights."""
        self._velocity = self.momentum * self._velocity + gradient
        return np.asarray(-self.learning_rate * self._velocity)


@dataclass
class Adam:
    """Adam: steps scaled coordinate by coordinate [Kingma–Ba 2015].

    Parameters
    ----------
    learning_rate
        About how far a coordinate moves in a step.
    first, second
        The shares of the running means of gradients and of their squares that are kept.
    """

    learning_rate: float
    first: float = 0.9
    second: float = 0.999
    _mean: Array | float = 0.0
    _square: Array | float = 0.0
    _count: int = 0

    def change(self, gradient: Array) -> Array:
        """Return what to add to the weights."""
        self._count += 1
        self._mean = self.first * self._mean + (1 - self.first) * gradient
        self._square = self.second * self._square + (1 - self.second) * gradient**2
        mean = self._mean / (1 - self.first**self._count)
        square = self._square / (1 - self.second**self._count)
        return np.asarray(-self.learning_rate * mean / (np.sqrt(square) + 1e-8))


@dataclass
class IterateAverage:
    """A running average whose weights grow with the cube of the step [Shamir–Zhang 2013], so that early iterates fade."""

    decay: int = 3
    value: Array | None = None
    count: int = field(default=0)

    def add(self, weights: Array) -> Array:
        """Add one more iterate, and return the average."""
        self.count += 1
        part = (self.decay + 1) / (self.count + self.decay)
        self.value = weights.copy() if self.value is None else (1 - part) * self.value + part * weights
        return self.value


@dataclass
class StoppingRule:
    """The rule that ends a descent early: its average has hardly moved in the last tenth of the steps.

    Parameters
    ----------
    tolerance
        The largest move that still counts as none; 0 never stops early.
    steps
        The number of steps without an early stop.
    """

    tolerance: float
    steps: int
    _count: int = 0
    _before: Array | None = None

    def has_settled(self, average: Array) -> bool:
        """Look at the average after one more step."""
        self._count += 1
        if self.tolerance <= 0 or self._count % max(1, self.steps // 10):
            return False
        before, self._before = self._before, average.copy()
        return before is not None and float(np.linalg.norm(average - before)) < self.tolerance


def clip_to_length(weights: Array, length: float | None) -> Array:
    """Shorten weights to at most a length, if one is given."""
    norm = float(np.linalg.norm(weights))
    return weights if length is None or norm <= length else weights * (length / norm)


def optimiser_of(name: OptimiserName, learning_rate: float) -> Optimiser:
    """Return an optimiser by name.

    Examples
    --------
    >>> optimiser_of("sgd", 0.5).change(np.array([1.0, -2.0])).tolist()
    [-0.5, 1.0]
    """
    if name == "sgd":
        return Sgd(learning_rate)
    if name == "adam":
        return Adam(learning_rate)
    raise BadInput("The optimiser is 'sgd' or 'adam'.")


Task = Literal["regression", "kmeans"]
SLACK = 1e-6
"""Relative room for rounding in a total."""


@dataclass(frozen=True, eq=False)
class WeightedSample:
    """A weighted sample of rows.

    Parameters
    ----------
    rows
        Places in the alignment, each once, ascending.
    counts
        How often each was drawn.
    weights
        The number of people that each row represents, for all its occurrences together.
    """

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: Array

    @property
    def size(self) -> int:
        """The number of draws, with multiplicity."""
        return int(self.counts.sum())


def largest_total(task: Task, width: int, people: int, clusters: int, *, target: bool) -> float:
    """Return the public maximum of a party's total.

    Parameters
    ----------
    task
        Leverage scores or k-means scores.
    width, people
        Coded columns of the party's features, and rows.
    clusters
        k.
    target
        Whether the party also holds the target.

    Examples
    --------
    >>> largest_total("regression", 4, 1_000, 0, target=False)  # rank of four columns and a constant, plus one
    6.0
    >>> largest_total("kmeans", 4, 1_000, 10, target=False)
    22.0
    """
    if task == "kmeans":
        return 2.0 * (clusters + 1)
    return float(min(width + 1 + target, people) + 1)


def checked_totals(totals: Mapping[str, float], maxima: Mapping[str, float]) -> dict[str, float]:
    """Return the totals; refuse one that is larger than any data could give."""
    for party, total in totals.items():
        if not math.isfinite(total) or not 0 < total <= maxima[party] * (1 + SLACK):
            raise ProtocolError(
                f"Party {party!r} claims a total score that its columns cannot have.",
                remedy="Leave the party out, or find out what it computes.",
            )
    return dict(totals)


def allocate_draws(totals: Mapping[str, float], uniforms: Array) -> dict[str, int]:
    """Return how many of the draws each party makes: one per uniform number, with probability G^(j)/G each.

    Examples
    --------
    >>> allocate_draws({"a": 1.0, "b": 3.0}, np.array([0.1, 0.3, 0.9]))
    {'a': 1, 'b': 2}
    """
    cumulative = np.cumsum(list(totals.values()))
    drawn = np.minimum(np.searchsorted(cumulative, uniforms * cumulative[-1], side="right"), len(cumulative) - 1)
    counts = np.bincount(drawn, minlength=len(cumulative))
    return {party: int(count) for party, count in zip(totals, counts, strict=True)}


def weighted_coreset(sample: NDArray[np.int64], scores: Array, total: float) -> WeightedSample:
    """Return the coreset of a multiset of rows.

    Parameters
    ----------
    sample
        The drawn rows, repeats included.
    scores
        g of each, summed over parties.
    total
        G.

    Examples
    --------
    >>> weighted_coreset(np.array([7, 3, 7]), np.array([0.5, 0.25, 0.5]), 3.0).weights.tolist()
    [4.0, 4.0]
    """
    if scores.shape != sample.shape or not np.all(np.isfinite(scores)) or not np.all(scores > 0):
        raise ProtocolError("The scores of the drawn rows are not positive.")
    rows, first, counts = np.unique(sample, return_index=True, return_counts=True)
    each = total / (len(sample) * scores[first])
    return WeightedSample(rows, counts, counts * each)


# How many draws are enough ------------------------------------------------------------------------------------------------

DISTORTION = 0.5
"""How far the sample may distort a direction, or a cluster's weight, before the estimate of the excess loss stops to hold."""


def estimated_size(task: Task, features: int, clusters: int, totals: float, *, error: float, failure: float) -> int:
    """Return about how many draws bring the loss of the best model of the sample within ``1 + error`` of the best one.

    With scores that sum to G and are at least a row's share of the loss, the excess loss of a model with p unknowns has a mean
    of at most G/m times the loss, once no direction is distorted by more than a half (docs/proofs/non-private.md#size). It is an
    estimate and no guarantee: the scores of parties whose columns nearly repeat each other's are too small, and k-means
    may find another local optimum.

    Parameters
    ----------
    task, features, clusters
        The problem: coded columns of all parties without target and constant, or k.
    totals
        G, or its public maximum.
    error, failure
        The excess of the loss, in parts of the smallest one, and how often it may be larger.

    Examples
    --------
    >>> estimated_size("regression", 18, 0, 28.0, error=0.1, failure=0.05)
    1331
    """
    _require_shares(error=error, failure=failure)
    unknowns = features + 1 if task == "regression" else clusters
    chance = math.log(1 / failure)
    excess = totals / error * (1 + math.sqrt(2 * chance / unknowns)) ** 2
    undistorted = 2 * totals / DISTORTION**2 * (math.log(unknowns) + chance)
    return math.ceil(max(excess, undistorted))


def proved_size(
    task: Task,
    features: int,
    clusters: int,
    totals: float,
    parties: int,
    *,
    error: float,
    outliers: float,
    failure: float,
) -> int:
    """Return the size m of Theorems G.3 and G.4.

    With it, all but a share ``outliers`` of the rows are approximated within ``error``.
    For a regression, sensitivities sum to at most the rank of [1, X, y] and the pseudo-dimension is taken as d², as in the paper;
    for k-means they sum to at most 2(k + 1), and it is taken as dk.

    Parameters
    ----------
    task, features, clusters, totals
        As in `estimated_size`.
    parties
        T.
    error, outliers, failure
        ε, β and δ of the theorem.
    """
    _require_shares(error=error, outliers=outliers, failure=failure)
    regression = task == "regression"
    sensitivities = features + 2.0 if regression else 2.0 * (clusters + 1)
    dimension = features**2 if regression else features * clusters
    gap = 2 * sensitivities / (outliers * parties)
    return math.ceil((gap * totals / error) ** 2 * (dimension + math.log(1 / failure)))


def _require_shares(**shares: float) -> None:
    for name, value in shares.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise BadInput(f"{name} is a number between 0 and 1.", remedy=f"For example {name}=0.1.")


Penalty = Literal["l1", "l2", "elasticnet"] | None


@dataclass(frozen=True, eq=False)
class CodedModel:
    """Coefficients of coded columns for a coded target."""

    coefficients: Array
    intercept: float


def sampled_regression(
    rows: Array, target: Array, weights: Array, people: int, *, penalty: Penalty, alpha: float, l1_ratio: float
) -> CodedModel:
    """Return a linear regression of weighted rows.

    The objective is Σ w_i (x_iθ + b − y_i)² + n·α·(2ρ‖θ‖₁ + (1−ρ)‖θ‖²) with n people, the same as that of scikit-learn's
    ``ElasticNet`` on all rows, times 2n; ρ is 1 for ``"l1"`` and 0 for ``"l2"``. It is minimised in coded columns (numbers
    mapped from their bounds to [−1, 1]), where the penalty is measured too.

    Parameters
    ----------
    rows, target, weights
        Coded rows, the coded target, and the weight of each row.
    people
        The number of people; the penalty is relative to it.
    penalty, alpha, l1_ratio
        Which penalty, how strong (α) and how it is mixed (ρ, for ``"elasticnet"``).
    """
    model: linear_model.LinearRegression | linear_model.Ridge | linear_model.ElasticNet
    if penalty is None:
        model = linear_model.LinearRegression()
    elif penalty == "l2":
        model = linear_model.Ridge(alpha=people * alpha)
    else:
        # scikit-learn divides by the sum of weights, which is n only in the mean
        strength = alpha * people / float(weights.sum())
        ratio = 1.0 if penalty == "l1" else l1_ratio
        model = linear_model.ElasticNet(alpha=strength, l1_ratio=ratio, max_iter=100_000, tol=1e-6)
    model.fit(rows, target, sample_weight=weights)
    return CodedModel(np.asarray(model.coef_, dtype=np.float64), float(model.intercept_))


def model_in_own_units(model: CodedModel, features: Sequence[Feature], target: Feature) -> tuple[Array, float]:
    """Return coefficients and intercept in the columns' own units."""
    coefficients = model.coefficients * target.half_width / half_widths(features)
    return coefficients, float(target.centre + model.intercept * target.half_width - coefficients @ centres(features))


def sampled_clusters(rows: Array, weights: Array, clusters: int, *, seed: int) -> Array:
    """Return k-means centres of weighted rows."""
    return _clustered(rows, weights, clusters, seed)


def joined_clusters(
    local: Mapping[str, tuple[Array, NDArray[np.int64]]], weights: Array, clusters: int, *, seed: int
) -> Array:
    """Return k-means centres of the grid of local centres, each cell weighing what its rows weigh [Ding et al. 2016]."""
    labels = np.stack([labels for _, labels in local.values()], axis=1)
    cells, place = np.unique(labels, axis=0, return_inverse=True)
    points = np.concatenate([centres[cells[:, party]] for party, (centres, _) in enumerate(local.values())], axis=1)
    masses = np.bincount(place.ravel(), weights, minlength=len(cells)).astype(np.float64)
    return _clustered(points, masses, clusters, seed)


def _clustered(points: Array, weights: Array, clusters: int, seed: int) -> Array:
    """Cluster weighted points; where there are no more of them than clusters each is a centre, some of them twice."""
    if len(points) <= clusters:
        return np.resize(points, (clusters, points.shape[1]))
    return weighted_kmeans(points, weights, clusters, seed=seed)


SKETCH_CONSTANT = 1.04
"""ρ: √M times the relative error of a cardinality from maxima, at any γ up to 1."""


def sketch_rule(sketches: int) -> WeightRule:
    """Return the rule of ``"sketch"`` with M sketches per pair of parties."""

    def noise(clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int) -> float:  # noqa: ARG001
        bought = sketching(price, parties, unit, sketches)
        cell = people / clusters**2 + bought.phantoms
        row = people / clusters + (clusters + 1) * bought.phantoms
        return SKETCH_CONSTANT * math.sqrt(cell * (2 * row - cell) / sketches)

    def own_price(price: Price, spent: Loss, parties: int, unit: Unit) -> Price:
        """Return what the sketches that still fit cost: the price by which a party finds the same number of phantoms."""
        return price_of_loss(sketching(price, parties, unit, sketches, besides=spent).loss(unit), price.delta)

    return WeightRule(Fraction(1, 2), noise, joint=True, own_price=own_price, most=LARGEST_SKETCHED)


def response_rule(sample: float) -> WeightRule:
    """Return the rule of ``"response"`` where public coins choose a share of the people to report.

    A sampled term X/s has second moment E X²/s, so a cell's variance is (Var + count)/s − count.
    """

    def noise(clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int) -> float:  # noqa: ARG001
        cell = people / clusters**2
        return math.sqrt((people * best_channel(clusters, price).v0 ** 2 + cell) / sample - cell)

    def own_price(price: Price, spent: Loss, parties: int, unit: Unit) -> Price:
        """Return the largest pure ε of each party's reports that fits beside the centres: a report has no other."""
        return Price(_largest_pure(price, spent, parties if unit == "person" else 1), 0.0)

    return WeightRule(Fraction(1, 4), noise, own_price=own_price)


def _largest_pure(price: Price, spent: Loss, times: int) -> int:
    """Return the largest pure ε of each of several releases, in nano-units and at most the study's, that fits beside a loss."""

    def fits(nano: int) -> bool:
        return (spent + Loss.of_pure(nano) * times).as_kept().fits(price.nano, price.delta)

    low, high = 1, price.nano
    if not fits(low):
        raise BadInput(TOO_SMALL, remedy="Raise epsilon.")
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


_TERMS = 24


_REACH = 8


_PRIOR = 3.0


_RESOLUTION = 256


_TAIL = 30.0


class NoiseLaw:
    """The law of the sum of independent discrete Laplace noises, on a grid fine enough to average over.

    Parameters
    ----------
    scales
        The scale of each party's noise.

    Examples
    --------
    >>> law = NoiseLaw([Fraction(2), Fraction(2)])
    >>> round(law.variance, 6), law.step
    (15.670792, 1)
    """

    def __init__(self, scales: Sequence[Fraction]) -> None:
        floats = [float(scale) for scale in scales]
        self.variance = sum(0.5 / math.sinh(0.5 / scale) ** 2 for scale in floats)
        self.deviation = math.sqrt(self.variance)
        self.step = max(1, int(self.deviation / _RESOLUTION))
        self.half = math.ceil((_TAIL * max(floats) + 6 * self.deviation) / self.step) + 1
        self.weights = np.ones(1)
        for scale in floats:
            one = np.exp(-np.abs(np.arange(-self.half, self.half + 1)) * (self.step / scale))
            self.weights = np.convolve(self.weights, one / one.sum())
        cut = (len(self.weights) - 1) // 2 - self.half
        self.weights = self.weights[cut : len(self.weights) - cut]

    @property
    def offsets(self) -> Integers:
        """The values of the noise that the weights belong to."""
        return np.arange(-self.half, self.half + 1) * self.step

    def at(self, noise: NDArray[np.number]) -> Array:
        """Return the probability of single values, interpolated between the points of the grid."""
        places = np.abs(np.asarray(noise, dtype=np.float64))
        logs = np.log(np.maximum(self.weights[self.half :], 1e-300) / self.step)
        return np.exp(np.interp(places, self.offsets[self.half :], logs, right=-math.inf))


class UnbiasedPower:
    """f with ``E f(x + noise) = x^power`` for every whole x from ``lowest`` on.

    Parameters
    ----------
    power
        p > 0.
    scales
        The scale of each party's discrete Laplace noise; they may differ.
    lowest
        The smallest possible sum: a public number, at least 0.

    Examples
    --------
    >>> square = UnbiasedPower(2, [Fraction(2), Fraction(2)])
    >>> round(float(square(np.array([10]))[0]), 6) == round(100 - 4 * 3.917698089, 6)
    True
    """

    def __init__(self, power: float, scales: Sequence[Fraction], lowest: int = 0) -> None:
        if not scales or not 0 < power < math.inf or lowest < 0:
            raise BadInput(
                "An unbiased power needs a positive power, at least one scale of noise, and sums that are not negative."
            )
        self.power = power
        self.scales = [Fraction(scale) for scale in scales]
        self.lowest = int(lowest)
        self.law = NoiseLaw(self.scales)
        self.whole = float(power).is_integer()
        self.polynomial = self.whole and int(power) % 2 == 0
        parties = len(self.scales)
        self._from = self.lowest + parties if self.whole else max(self.lowest + parties, _REACH * parties)
        self._to = self.lowest - parties  # the table covers what lies from here to there
        with mpmath.workdps(self._digits()):
            self._prepare()

    def __call__(self, sums: NDArray[np.integer]) -> Array:
        """Return f of noisy sums."""
        y = np.asarray(sums)
        if self.polynomial:
            return self._right(y)
        out = np.empty(y.shape)
        right, left = y >= self._from, y < self._to
        out[right] = self._right(y[right])
        out[left] = np.polynomial.polynomial.polyval((self.lowest - y[left]).astype(np.float64), self._left)
        out[~(right | left)] = self._table[y[~(right | left)] - self._to]
        return out

    def mean_square(self, total: int) -> float:
        """Return E f² for a person whose true sum is ``total``."""
        y = total + self.law.offsets
        weights = self.law.weights
        if self.law.step > 1 and not self.polynomial:  # the table is steep, so every whole number in it is visited
            outside = (y < self._to) | (y >= self._from)
            band = np.arange(self._to, self._from)
            y, weights = (
                np.concatenate([y[outside], band]),
                np.concatenate([weights[outside], self.law.at(band - total)]),
            )
        return float(weights @ self(y) ** 2)

    def variance(self, total: int) -> float:
        """Return the variance of f for a person whose true sum is ``total``."""
        return max(self.mean_square(total) - math.pow(total, 2 * self.power), 0.0)

    # How f is found -----------------------------------------------------------------------------------------------------

    def _digits(self) -> int:
        """Return the digits that survive the cancellation of differences of order 2v, taken with weights of up to Π(1 + 4c_j)."""
        lost = sum(math.log10(1 + 4 * float(scale) ** 2) for scale in self.scales)
        largest = self.lowest + (_REACH + 2) * len(self.scales) + 10
        return int(60 + lost + 2 * (self.power + 2) * math.log10(largest))

    def _prepare(self) -> None:
        self._curvatures = [1 / (4 * mpmath.sinh(mpmath.mpf(1) / (2 * _real(scale))) ** 2) for scale in self.scales]
        self._symbol = _symbol(self._curvatures)
        self._terms = np.array([float(term) for term in self._power_terms(mpmath.mpf(self.power))])
        if not self.polynomial:
            stencil = _stencil(self._curvatures)
            self._continue(stencil)

    def _power_terms(self, power: mpmath.mpf) -> list[mpmath.mpf]:
        """Return the factors of y^p, y^(p-2), y^(p-4), … in f."""
        terms, falling = [], mpmath.mpf(1)
        for order, weight in enumerate(self._symbol):
            terms.append(weight * falling)
            falling *= (power - 2 * order) * (power - 2 * order - 1)
        return terms

    def _right(self, y: NDArray[np.integer]) -> Array:
        values = y.astype(np.float64)
        if not self.whole:
            return np.asarray(values**self.power * np.polynomial.polynomial.polyval(values**-2.0, self._terms))
        half, odd = divmod(int(self.power), 2)
        square = np.polynomial.polynomial.polyval(values**2, self._terms[half::-1])
        return np.asarray(square * values if odd else square)

    def _continue(self, stencil: list[mpmath.mpf]) -> None:
        """Choose g below the bound, and tabulate f where the stencil meets both sides."""
        basis: list[_Monomial | _Decay] = [_Monomial(degree) for degree in range(math.ceil(self.power) + 1)]
        basis += [_Decay(i, _real(scale)) for scale, times in Counter(self.scales).items() for i in range(times)]
        band = range(self._to, self._from)
        fixed = _applied(stencil, band, lambda y: mpmath.mpf(y) ** mpmath.mpf(self.power) if y >= self.lowest else 0)
        free = [_applied(stencil, band, self._below_bound(b)) for b in basis]
        tails = [self._tail(b) for b in basis]
        weights = self._least_squares(fixed, free, tails, len(band))
        table = [
            mpmath.fsum([one, *(w * f[i] for w, f in zip(weights, free, strict=True))]) for i, one in enumerate(fixed)
        ]
        self._table = np.array([float(value) for value in table])
        self._left = np.array([float(mpmath.fsum(column)) for column in zip(*_scaled(tails, weights), strict=True)])

    def _below_bound(self, basis: "_Monomial | _Decay") -> Callable[[int], mpmath.mpf]:
        """Return the basis function of L - y below the bound L, and 0 from it on."""
        return lambda y: basis(self.lowest - y) if y < self.lowest else mpmath.mpf(0)

    def _tail(self, basis: "_Monomial | _Decay") -> list[mpmath.mpf]:
        """Return the coefficients of T t^q in t; none for what the operator sends to 0."""
        coefficients = [mpmath.mpf(0)] * (math.ceil(self.power) + 1)
        if isinstance(basis, _Monomial):
            for order, term in enumerate(self._power_terms(mpmath.mpf(basis.degree))):
                if 2 * order <= basis.degree:
                    coefficients[basis.degree - 2 * order] = term
        return coefficients

    def _least_squares(
        self, fixed: list[mpmath.mpf], free: list[list[mpmath.mpf]], tails: list[list[mpmath.mpf]], band: int
    ) -> list[mpmath.mpf]:
        """Minimise the average of f² over what is free, in units that keep the equations well scaled."""
        t = np.arange(len(self.scales) + 1, self.law.half * self.law.step, self.law.step, dtype=np.float64)
        root = np.sqrt(
            np.concatenate([self._prior(np.arange(band) + self._to - self.lowest), self._prior(-t) * self.law.step])
        )
        columns = []
        for values, tail in zip(free, tails, strict=True):
            left = np.polynomial.polynomial.polyval(t, np.array([float(one) for one in tail]))
            columns.append(root * np.concatenate([[float(one) for one in values], left]))
        wanted = root * np.concatenate([[float(one) for one in fixed], np.zeros(len(t))])
        matrix = np.column_stack(columns)
        sizes = np.linalg.norm(matrix, axis=0)
        solved, *_ = np.linalg.lstsq(matrix / sizes, -wanted, rcond=1e-13)
        return [mpmath.mpf(float(weight)) for weight in solved / sizes]

    def _prior(self, places: NDArray[np.number]) -> Array:
        """Return the probability of a noisy sum at L + places, for sums spread evenly above L."""
        top = max(1.0, _PRIOR * self.law.deviation)
        spread = np.linspace(0.0, top, 33)
        return np.asarray(np.mean([self.law.at(np.asarray(places, dtype=np.float64) - one) for one in spread], axis=0))


class _Monomial:
    def __init__(self, degree: int) -> None:
        self.degree = degree

    def __call__(self, t: int) -> mpmath.mpf:
        return mpmath.mpf(t) ** self.degree


class _Decay:
    """``t^i e^(-t/scale)``: a root of the operator as often as the scale occurs, so the operator sends it to 0."""

    def __init__(self, degree: int, scale: mpmath.mpf) -> None:
        self._degree = degree
        self._scale = scale

    def __call__(self, t: int) -> mpmath.mpf:
        return (t / self._scale) ** self._degree * mpmath.exp(-t / self._scale)


def _real(scale: Fraction) -> mpmath.mpf:
    return mpmath.mpf(scale.numerator) / scale.denominator


def _symbol(curvatures: list[mpmath.mpf]) -> list[mpmath.mpf]:
    """Return the series of Π_j(1 - 4c_j·sinh²(z/2)) in z²."""
    second = [mpmath.mpf(0)] + [2 / mpmath.factorial(2 * order) for order in range(1, _TERMS)]
    series = [mpmath.mpf(1)] + [mpmath.mpf(0)] * (_TERMS - 1)
    for curvature in curvatures:
        series = [
            series[n] - curvature * mpmath.fsum(series[k] * second[n - k] for k in range(n)) for n in range(_TERMS)
        ]
    return series


def _stencil(curvatures: list[mpmath.mpf]) -> list[mpmath.mpf]:
    """Return the weights of g(y-v), …, g(y+v) in f(y)."""
    weights = [mpmath.mpf(1)]
    for c in curvatures:
        padded = [mpmath.mpf(0)] * 2 + weights + [mpmath.mpf(0)] * 2
        weights = [(1 + 2 * c) * padded[i] - c * (padded[i - 1] + padded[i + 1]) for i in range(1, len(padded) - 1)]
    return weights


def _applied(stencil: list[mpmath.mpf], places: range, g: Callable[[int], mpmath.mpf]) -> list[mpmath.mpf]:
    half = len(stencil) // 2
    values = {y: g(y) for y in range(places.start - half, places.stop + half)}
    return [mpmath.fsum(w * values[y + k - half] for k, w in enumerate(stencil)) for y in places]


def _scaled(rows: list[list[mpmath.mpf]], weights: list[mpmath.mpf]) -> list[list[mpmath.mpf]]:
    return [[weight * one for one in row] for row, weight in zip(rows, weights, strict=True)]
