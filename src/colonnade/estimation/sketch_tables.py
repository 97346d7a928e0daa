"""From sketches to pair tables, and how large a single set is (paper 001, Algorithms 4 and 5, replaced; `privacy.md` §3.5).

*One set.* ``(1+γ)^HarmonicMean(α)`` of the paper never converges to the number of elements; ``κM/Σ(1+γ)^-α`` with
``κ = γ/((1+γ)ln(1+γ))`` does, and so does the value of greatest likelihood, which also reads values at the floor rightly.

*A pair's table.* The concave likelihood of `colonnade.estimation.sketch_likelihood` is climbed by the classical
multiplicative step for rates with a known background (the phantoms): every count is multiplied by how often its cell rang, as
far as one can tell, over how long it was waited for, with one multiplier for the known total. Counts stay positive and the
likelihood never falls. Two readings compete: everybody has a record at both parties, or some do not; the second has 2k′ more
unknowns and is believed only where it explains far more.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from colonnade.errors import BadInput
from colonnade.estimation.pair_tables import PairTables
from colonnade.estimation.sketch_likelihood import Codes, Evidence, evidence_of, ring_times
from colonnade.privacy.laws.sketch_law import GAMMA, SketchLaw

__all__ = [
    "TableOfSketches",
    "cell_spread",
    "corrected_cardinality",
    "kappa",
    "likely_cardinality",
    "sketched_table",
    "sketched_tables",
]

Array = NDArray[np.float64]
_BALANCE = "float64(float64[::1], float64[::1], float64)"
STEPS = 400
SETTLED = 1e-5
SHORT = 30
SPARE = 0.01
SURPRISE = 4.0


def kappa(gamma: float) -> float:
    """Return κ = γ/((1+γ)ln(1+γ)), which makes the harmonic estimate of a cardinality right; 0.7213 at γ = 1."""
    if not gamma > 0:
        raise BadInput("γ is positive.")
    return gamma / ((1 + gamma) * math.log1p(gamma))


def corrected_cardinality(values: NDArray[np.integer], gamma: float = GAMMA) -> float:
    """Return κM/Σ(1+γ)^-α: how many elements have these maxima, where no floor was reached.

    Examples
    --------
    >>> round(corrected_cardinality(np.array([7, 9, 8, 10]), 1.0))
    197
    """
    return kappa(gamma) * len(values) / float(np.sum(np.exp(-np.asarray(values, float) * math.log1p(gamma))))


def likely_cardinality(values: NDArray[np.integer], floor: int, gamma: float = GAMMA) -> float:
    """Return the N of greatest likelihood ``Π F(α)^N - F(α-1)^N``, a factor F(α_min)^N for a value at the floor.

    The derivative in N falls, so its root in ln N is found by bracketing.
    """
    distinct, count = np.unique(np.asarray(values), return_counts=True)
    if distinct[-1] <= floor:
        return 0.0
    upper = np.log1p(-np.exp(-distinct * math.log1p(gamma)))
    with np.errstate(divide="ignore"):
        lower = np.log1p(-np.exp(-(distinct - 1.0) * math.log1p(gamma)))
    gap = np.where(distinct <= floor, np.inf, upper - lower)

    def slope(log_number: float) -> float:
        scaled = np.minimum(math.exp(log_number) * gap, 700.0)
        with np.errstate(invalid="ignore"):
            rise = np.where(distinct <= floor, 0.0, np.where(np.isinf(gap), 0.0, gap / np.expm1(scaled)))
        return float(count @ (upper + rise))

    return math.exp(brentq(slope, -20.0, 60.0, xtol=1e-12))


@dataclass(frozen=True, eq=False)
class TableOfSketches:
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


def sketched_table(law: SketchLaw, first: Codes, second: Codes, people: int) -> TableOfSketches:
    """Return the table of greatest likelihood for one pair of parties.

    Parameters
    ----------
    law
        The sketches' law, phantoms and floor.
    first, second
        M rows of one value a cluster, from each party.
    people
        How many people there are; public.
    """
    first, second = (np.clip(codes, law.floor, law.cap) for codes in (first, second))
    evidence = evidence_of(law, first, second)
    start = _independent(law, first, second, float(people))
    complete = start, np.zeros(len(start)), np.zeros(start.shape[1])
    whole, complete = _climb(evidence, law.phantoms, complete, float(people))
    table, only_first, only_second = _partial(evidence, law.phantoms, complete, float(people), whole) or complete
    return TableOfSketches(table, only_first, only_second, _variance(table, only_first, only_second, law, len(first)))


def sketched_tables(
    law: SketchLaw, sketches: Mapping[tuple[int, int], tuple[Codes, Codes]], sizes: tuple[int, ...], people: int
) -> PairTables:
    """Return the tables of all pairs; each has its own keys, hence noise of its own."""
    fitted = {pair: sketched_table(law, *both, people) for pair, both in sketches.items()}
    tables = {pair: one.table for pair, one in fitted.items()}
    return PairTables(sizes, tables, {pair: one.variance for pair, one in fitted.items()})


Counts = tuple[Array, Array, Array]


def _partial(evidence: Evidence, phantoms: int, complete: Counts, people: float, whole: float) -> Counts | None:
    """Return the fit with people whom one party has no record of, if there plainly are some.

    A short climb shows; only where it gains half of what would convince is it taken to the end.
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
    evidence: Evidence, phantoms: int, counts: Counts, people: float, *, missing: bool = False, steps: int = STEPS
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
