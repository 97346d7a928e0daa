"""What two parties' sketches say about the table of their clusters: the joint likelihood of all cells (beyond paper 001).

Paper 001 (Algorithms 4 and 5) decodes each cell as n minus the size of its complement, with an error that grows with n. Here all
cells are fitted at once, from *equal* values above all (`privacy.md` §3.5).

Read a value α as the time ``-ln(1-u)``, u its uniform: the maximum of N geometric values is the minimum of N exponential times,
and a cell (a, b) with ``N_ab = n_ab + n_p`` people and phantoms rings first at a time of rate N_ab. Party one hears the first
ring ``s_a`` of its row of cells, party two the first ring ``t_b`` of its column; x_a and y_b are the rates of people that one
party has no record of. As γ → 0 no two cells ring at once, so

* ``s_a = t_b``: cell (a, b) rang: a factor N_ab;
* ``s_a`` alone: somebody rang whom column b had heard before, ``t_b < s_a``, or x_a: a factor ``x_a + Σ_{b: t_b < s_a} N_ab``;
* ``t_b`` alone: likewise; at the floor nobody rang yet: no factor;
* always: nobody rang earlier, ``exp(-Σ N_ab max(s_a, t_b) - Σ x_a s_a - Σ y_b t_b)``.

The logarithm is concave in all rates. Sketches with the same factor are counted once. Two values that fall together by chance
(about γ/4 of the time) pass for a ring of their cell; at γ = 2^-10 that is a small fraction of the noise.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.laws.sketch_law import SketchLaw

__all__ = ["LARGEST_SKETCHED", "Evidence", "evidence_of", "ring_times"]

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
class _Alone:
    """Rings that one party heard alone: whose row, which columns had rung before (one after the other), and how often."""

    owner: NDArray[np.int64]
    start: NDArray[np.int64]
    before: NDArray[np.int64]
    count: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """The likelihood of a pair's sketches, as far as it depends on the rates.

    Parameters
    ----------
    waited, waited_first, waited_second
        Over all sketches: Σ max(s_a, t_b), Σ s_a and Σ t_b.
    together
        How often each cell rang for both.
    first, second
        What each party heard alone.
    """

    waited: Array
    waited_first: Array
    waited_second: Array
    together: Array
    first: _Alone
    second: _Alone

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


def evidence_of(law: SketchLaw, first: Codes, second: Codes) -> Evidence:
    """Read the sketches of two parties, M rows of one value a cluster each, from the floor to the cap."""
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
    return Evidence(
        waited=waited,
        waited_first=times[one - law.floor].sum(axis=0),
        waited_second=times[other - law.floor].sum(axis=0),
        together=together,
        first=_counted(heard, clusters[1]),
        second=_counted(heard_back, clusters[0]),
    )


def _counted(heard: NDArray[np.int64], width: int) -> _Alone:
    """Count equal sets of columns, row by row."""
    owner = np.broadcast_to(np.arange(heard.shape[1]), heard.shape)[heard >= 0]
    packed, count = np.unique((owner.astype(np.int64) << width) | heard[heard >= 0], return_counts=True)
    which, before = np.nonzero((packed[:, None] >> np.arange(width)) & 1)
    start = np.searchsorted(which, np.arange(len(packed) + 1))
    return _Alone(packed >> width, start.astype(np.int64), before.astype(np.int64), count.astype(np.float64))


def _parts(alone: _Alone) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Array]:
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
    """Go through the sketches: when cells had been waited for, which rang for both, what was heard alone."""
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
