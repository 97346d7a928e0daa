"""Pair tables from sketches of memberships, by maximum likelihood (docs/proofs/sketches.md#decoding).

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
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.tables import NoisyTables
from colonnade.privacy.laws.sketches import SketchLaw

LARGEST_SKETCHED = 48
"""Local clusters up to which sketches are decoded."""

Array = NDArray[np.float64]
Codes = NDArray[np.uint16]

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
) -> NoisyTables:
    """Return the tables of all pairs. Each pair has its own keys, and so its own noise."""
    fitted = {pair: sketched_table(law, *both, people) for pair, both in sketches.items()}
    tables = {pair: one.table for pair, one in fitted.items()}
    return NoisyTables(sizes, tables, {pair: one.variance for pair, one in fitted.items()})


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
