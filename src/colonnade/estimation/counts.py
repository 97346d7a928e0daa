"""Counts from randomised reports, and their projection onto possible counts: non-negative, with the right total.

*Decoding* (Primitives, Algorithm 1; docs/proofs/randomised-response.md#counting). With party j's report of person i, ``z_k =
(1[k in report] - q_j)/(p_j - q_j)`` has mean 1 for the true category and 0 for every other. The parties' coins are
independent, so the product over parties has mean 1 in the person's true cell and 0 elsewhere, and its sum over people is an
unbiased table of counts. Where a report can only take few values, people are tabulated by their reports first and the table
is decoded along each axis; otherwise rows are multiplied in blocks. A category that leaves people out has one more cell here,
for them (`colonnade.steps.local.report_cells`); the caller cuts it off. Where there is none, a null record reports as a
uniformly random category, so it adds 1/K to each category in expectation and the total stays the number of people. The
variance is that of the reports, given which category was drawn for it.

*Projection.* The paper clips at zero, which inflates the total. The Euclidean projection treats all directions alike,
although the noise does not: a margin of the table is known far better than a cell (for v parties by a factor of about
v0^((v-1)/2)). So the nearest table is sought in the noise's own metric (`project_counts`).

Everything here is public mathematics: it reads reports, never data, and costs nothing.

Powers of numbers that were released with discrete Laplace noise, estimated without bias.

This takes the place of Algorithm 2 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives), which
counts millions of patterns. Here nothing is counted. With ``a = e^(-1/scale)`` the noise of one party has the generating
function ``(1-a)²/((1-az)(1-a/z))``. Its inverse is the operator ``I - cΔ²`` with ``c = a/(1-a)²`` and ``Δ²g(y) = g(y+1) - 2g(y)
+ g(y-1)``. So for y = x + (independent noise of v parties) and *any* g on the whole numbers, ``f = Π_j(I - c_jΔ²) g`` has ``E
f(y) = g(x)``, exactly (docs/proofs/values-and-moments.md#unbiased-powers).

Notes
-----
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product

import mpmath
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.privacy.laws.response import Channel, codes_of

Floats = NDArray[np.float64]
Reports = NDArray[np.uint8]

LARGEST_TABLE = 1 << 24
"""The largest number of cells of a joint table."""

_LARGEST_HISTOGRAM = 1 << 22
_ROWS = 1 << 16  # a block of rows that stays in the processor's cache
_BLOCK = 1 << 20  # numbers held at once where rows are multiplied


def joint_counts(reports: Sequence[Reports], channels: Sequence[Channel]) -> Floats:
    """Return the unbiased estimate of the joint table of counts.

    Parameters
    ----------
    reports
        One array per party, of ``report_width`` bytes per person, the same people in the same order.
    channels
        The channel that made each.

    Returns
    -------
    ndarray
        One axis per party, in order; entries may be negative and sum to the number of people (up to noise for ``"oue"``).

    Examples
    --------
    >>> channel = Channel("grr", 2, 1, 1_098_612_289)  # e^ε = 3: the truth in three reports of four
    >>> joint_counts([np.array([[0], [0], [0], [1]], dtype=np.uint8)], [channel]).round(6).tolist()
    [4.0, 0.0]
    """
    rows = _same_people(reports, channels)
    if math.prod(channel.categories for channel in channels) > LARGEST_TABLE:
        raise BadInput(f"The joint table has more than {LARGEST_TABLE} cells.", remedy="Count fewer columns together.")
    if math.prod(map(_letters, channels)) <= min(_LARGEST_HISTOGRAM, max(_ROWS, 8 * len(rows[0]))):
        return _from_histogram(rows, channels)
    return _from_blocks(rows, channels)


def variance_of_counts(counts: Floats, channels: Sequence[Channel]) -> Floats:
    """Return the variance of each cell of `joint_counts`, exact if ``counts`` are the true counts.

    ``Var(count_ρ) = Σ_i [Π_j τ_ij - 1{x_i = ρ}]`` with ``τ_ij = 1 + v1_j`` where party j's category is ρ's and ``v0_j``
    where it is not. Estimated counts give an unbiased estimate of it; projected counts one that is never negative.
    """
    if counts.shape != tuple(channel.categories for channel in channels):
        raise BadInput("Counts and channels of different shapes.")
    second = np.asarray(counts, dtype=np.float64)
    for axis, channel in enumerate(channels):
        second = channel.v0 * second.sum(axis=axis, keepdims=True) + (1 + channel.v1 - channel.v0) * second
    return np.maximum(second - counts, 0.0)


def _same_people(reports: Sequence[Reports], channels: Sequence[Channel]) -> list[Reports]:
    if not reports or len(reports) != len(channels):
        raise BadInput("There must be one array of reports per channel.")
    rows = [channel.checked(report) for report, channel in zip(reports, channels, strict=True)]
    if len({len(report) for report in rows}) != 1:
        raise ProtocolError("The parties report about different numbers of people.")
    return rows


def _letters(channel: Channel) -> int:
    """Return how many different reports there are, or too many if they do not fit in two bytes."""
    if channel.kind == "grr":
        return channel.categories
    if channel.report_width > 2:
        return _LARGEST_HISTOGRAM + 1
    return math.comb(channel.categories, channel.size) if channel.kind == "subset" else 1 << channel.categories


@lru_cache(maxsize=64)
def _alphabet(channel: Channel) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the index of each code (-1 if it is not a report), and which categories the report of each index contains."""
    K = channel.categories
    if channel.kind == "subset":
        codes = np.array([sum(1 << member for member in chosen) for chosen in combinations(range(K), channel.size)])
    else:
        codes = np.arange(_letters(channel))
    index = np.full(256**channel.report_width, -1, dtype=np.int32)
    index[codes] = np.arange(len(codes), dtype=np.int32)
    supports = codes[:, None] >> np.arange(K if channel.kind != "grr" else 0) & 1
    return index, supports.astype(np.uint8)


def _from_histogram(rows: list[Reports], channels: Sequence[Channel]) -> Floats:
    """Tabulate people by their reports, then decode along each axis."""
    shape = [_letters(channel) for channel in channels]
    table: Floats = np.zeros(math.prod(shape))
    step = max(_ROWS, table.size)
    for start in range(0, len(rows[0]), step):
        cell = np.zeros(len(rows[0][start : start + step]), dtype=np.int64)
        for report, channel in zip(rows, channels, strict=True):
            letter = _alphabet(channel)[0][codes_of(report[start : start + step])]
            if letter.min() < 0:
                raise ProtocolError("A party sent bytes that are not a report of its channel.")
            cell *= _letters(channel)
            cell += letter
        table += np.bincount(cell, minlength=table.size)
    counts = table.reshape(shape)
    for axis, channel in enumerate(channels):
        counts = _decoded_along(counts, axis, channel)
    return np.ascontiguousarray(counts)


def _decoded_along(counts: Floats, axis: int, channel: Channel) -> Floats:
    """Turn numbers of reports into estimated numbers of people; for "grr", by the inverse of its transition matrix."""
    reported = counts
    if channel.kind != "grr":
        supports = _alphabet(channel)[1].astype(np.float64)
        reported = np.moveaxis(np.tensordot(counts, supports, axes=(axis, 0)), -1, axis)
    return np.asarray((reported - channel.q * counts.sum(axis=axis, keepdims=True)) / channel.spread)


def _decoded(supports: NDArray[np.uint8], channel: Channel) -> Floats:
    return np.asarray((supports - channel.q) / channel.spread)


def _from_blocks(rows: list[Reports], channels: Sequence[Channel]) -> Floats:
    """Multiply each person's decoded reports out, one half of the parties against the other, in blocks of rows."""
    shape = [channel.categories for channel in channels]
    cut = min(range(len(shape) + 1), key=lambda split: math.prod(shape[:split]) + math.prod(shape[split:]))
    left, right = math.prod(shape[:cut]), math.prod(shape[cut:])
    counts: Floats = np.zeros((left, right))
    step = max(_BLOCK // (left + right), 16)
    for start in range(0, len(rows[0]), step):
        decoded = [
            _decoded(channel.supports(report[start : start + step]), channel)
            for report, channel in zip(rows, channels, strict=True)
        ]
        people = len(decoded[0])
        counts += _row_products(decoded[:cut], people).T @ _row_products(decoded[cut:], people)
    return counts.reshape(shape)


def _row_products(factors: list[Floats], people: int) -> Floats:
    """Return the row-wise Kronecker product."""
    product: Floats = np.ones((people, 1))
    for factor in factors:
        product = (product[:, :, None] * factor[:, None, :]).reshape(people, -1)
    return product


_ROUNDS = 2000
_WORK = 1 << 26  # rounds times cells: very large tables stop sooner, at a feasible table that is not quite the nearest
_CLOSE = 1e-9  # relative to the total
_RELAXED = 1.7


def project_to_simplex(estimate: Floats, total: float) -> Floats:
    """Return the table nearest to ``estimate``, cell by cell, among those that are non-negative and sum to ``total``.

    Examples
    --------
    >>> project_to_simplex(np.array([5.0, 4.0, -3.0]), 6.0).tolist()
    [3.5, 2.5, 0.0]
    """
    if not 0 <= total < math.inf:
        raise BadInput("A total is finite and not negative.")
    descending = np.sort(estimate, axis=None)[::-1]
    shifts = (np.cumsum(descending) - total) / np.arange(1, descending.size + 1)
    last = np.flatnonzero(descending > shifts)
    shift = shifts[last[-1]] if last.size else shifts[0]  # no cell is above its shift only if the total is 0
    return np.asarray(np.maximum(estimate - shift, 0.0))


def project_counts(estimate: Floats, total: int, channels: Sequence[Channel]) -> Floats:
    """Return the table nearest to ``estimate`` in the metric of its noise, non-negative and with the right total.

    If people were spread evenly over cells, the noise covariance would be ``m(⊗M_j - I/cells)``, with ``M_j`` the second
    moments of party j's decoded reports: one eigenvalue for the constant direction, one for all others. The basis of
    `_components` diagonalises every ``M_j``, so it splits a table into its margins and interactions, each with one noise
    variance. ADMM then alternates a diagonal weighted average in that basis with a projection onto the simplex.

    Parameters
    ----------
    estimate
        What `colonnade.estimation.counts.joint_counts` returned.
    total
        The number of people.
    channels
        The parties' channels, one per axis.
    """
    variance = _noise(estimate, channels)
    nearest = project_to_simplex(estimate, total)
    if estimate.ndim == 1 or total == 0 or not np.all(variance.ravel()[1:] > 0):
        return nearest  # one axis: both metrics agree; no noise at all: nothing to weigh
    weight = 1 / np.maximum(variance, variance.ravel()[1:].min())
    penalty = math.sqrt(float(weight.max()) * float(weight.min()))
    goal = _components(estimate)
    goal.ravel()[0] = total / math.sqrt(estimate.size)
    dual = np.zeros_like(nearest)
    for _ in range(min(_ROUNDS, max(10, _WORK // estimate.size))):
        blend = (weight * goal + penalty * _components(nearest - dual)) / (weight + penalty)
        fitted = _components(blend)
        relaxed = _RELAXED * fitted + (1 - _RELAXED) * nearest
        previous, nearest = nearest, project_to_simplex(relaxed + dual, total)
        dual += relaxed - nearest
        if max(np.abs(nearest - previous).sum(), np.abs(nearest - fitted).sum()) <= _CLOSE * total:
            break
    return nearest


def shrink_interactions(estimate: Floats, total: int, channels: Sequence[Channel]) -> Floats:
    """Return the estimate with each interaction pulled towards independence as far as it cannot be told from noise.

    James–Stein, positive part, one factor per set of two or more parties: with noise energy N and observed energy E the
    interaction is multiplied by ``max(0, 1 - N/E)``. No longer unbiased; the error is a half to a third where noise
    dominates, and the same where it does not. Project afterwards.
    """
    axes = range(estimate.ndim)
    margins = [estimate.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    baseline = independent_counts(margins, total)
    noise = total * _noise(estimate, channels)
    excess = _components(estimate - baseline)
    for members in product((False, True), repeat=estimate.ndim):
        if sum(members) > 1:
            part = tuple(slice(1, None) if member else slice(0, 1) for member in members)
            energy = float(np.sum(excess[part] ** 2))
            excess[part] *= max(0.0, 1 - float(noise[part].sum()) / energy) if energy else 0.0
    return baseline + _components(excess)


def independent_counts(margins: Sequence[Floats], total: float, present: Sequence[float] | None = None) -> Floats:
    """Return the table of counts that has these margins, each projected onto its own total first, and no interaction.

    Parameters
    ----------
    margins
        Noisy counts, one vector per party.
    total
        The number of people.
    present
        How many of them each margin counts; all of them by default. Who is left out is taken to be independent too.

    Examples
    --------
    >>> independent_counts([np.array([6.0, 2.0]), np.array([4.0, 4.0])], 8).tolist()
    [[3.0, 3.0], [1.0, 1.0]]
    """
    if not margins:
        raise BadInput("A table has at least one margin.")
    table = np.asarray(float(total))
    for margin, own in zip(margins, present or [total] * len(margins), strict=True):
        share = project_to_simplex(np.asarray(margin, dtype=np.float64), own) / (total or 1)
        table = np.multiply.outer(table, share)
    return table


def _noise(estimate: Floats, channels: Sequence[Channel]) -> Floats:
    """Return the noise variance a person adds to each component, people spread evenly."""
    if estimate.shape != tuple(channel.categories for channel in channels):
        raise BadInput("Counts and channels of different shapes.")
    moments: Floats = np.ones(())
    for channel in channels:
        K = channel.categories
        trace = 1 + channel.v1 + (K - 1) * channel.v0
        constant = trace / K if channel.kind == "oue" else 1 / K  # other reports decode to numbers that sum to 1
        along = np.full(K, (trace - constant) / (K - 1))
        along[0] = constant
        moments = np.multiply.outer(moments, along)
    return np.asarray(moments - 1 / estimate.size)


def _components(table: Floats) -> Floats:
    """Split a table into margins and interactions; doing so twice gives it back.

    Along each axis a reflection that exchanges the constant direction with the first one.
    """
    for axis, size in enumerate(table.shape):
        normal = np.full(size, 1 / math.sqrt(size))
        normal[0] -= 1
        normal /= np.linalg.norm(normal)
        along = normal.reshape([-1 if other == axis else 1 for other in range(table.ndim)])
        table = table - 2 * along * np.sum(along * table, axis=axis, keepdims=True)
    return table


Integers = NDArray[np.int64]

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

    def at(self, noise: NDArray[np.number]) -> Floats:
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

    def __call__(self, sums: NDArray[np.integer]) -> Floats:
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

    def _right(self, y: NDArray[np.integer]) -> Floats:
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

    def _prior(self, places: NDArray[np.number]) -> Floats:
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


@dataclass(frozen=True)
class CountTable:
    """Estimated counts, one axis per party or per column: projected, unbiased, and standard errors of the unbiased ones."""

    counts: Floats
    unbiased: Floats
    stderr: Floats

    def arranged(self, arrange: Callable[[Floats], Floats]) -> "CountTable":
        """Return the same table with its axes in another order."""
        return CountTable(arrange(self.counts), arrange(self.unbiased), arrange(self.stderr))


def response_table(
    reports: Sequence[Reports], channels: Sequence[Channel], people: int, sizes: Sequence[int], sample: float
) -> CountTable:
    """Estimate a table from all parties' randomised reports.

    Parameters
    ----------
    reports, channels
        The parties' reports, and how each was randomised.
    people
        The number of people, which is public.
    sizes
        How many levels each party has; reports may have one more, for people who are left out.
    sample
        The rate at which people were chosen to report.
    """
    if len({len(report) for report in reports}) != 1 or len(reports[0]) > people:
        raise ProtocolError("The parties reported on different numbers of people.")
    counted = tuple(slice(0, size) for size in sizes)
    unbiased = joint_counts(reports, channels) / sample
    fitted = project_counts(unbiased, people, channels)
    variance = _sampled_variance(fitted, channels, sample)
    return CountTable(fitted[counted], unbiased[counted], np.sqrt(variance[counted]))


def response_variance(counts: Floats, channels: Sequence[Channel], sample: float) -> Floats:
    """Return the variance of each unbiased count, if these are the true ones; cells of people left out are 0."""
    whole = np.pad(
        counts, [(0, channel.categories - given) for channel, given in zip(channels, counts.shape, strict=True)]
    )
    return _sampled_variance(whole, channels, sample)[tuple(slice(0, size) for size in counts.shape)]


def _sampled_variance(counts: Floats, channels: Sequence[Channel], sample: float) -> Floats:
    """Return the variance of counts of a sample: a term X/s has second moment E X²/s, so it is (Var + count)/s − count."""
    return (variance_of_counts(counts, channels) + counts) / sample - counts


def independent_table(margins: Sequence[Floats], people: int, noise: float, leaving: Sequence[bool]) -> CountTable:
    """Multiply noisy margins; the standard error covers their noise, not the error of assuming independence.

    A margin counts everybody, or as many as its own noisy total says where it leaves people out.
    """
    present = [
        min(max(float(margin.sum()), 0.0), people) if leaves_out else float(people)
        for margin, leaves_out in zip(margins, leaving, strict=True)
    ]
    raw = independent_counts(margins, float(people), present)
    return CountTable(raw, raw, np.sqrt(independent_variance(raw, noise, present)))


def independent_variance(counts: Floats, noise: float, present: Sequence[float]) -> Floats:
    """First-order variance of a product of noisy margins, Σ_j (count/margin_j)² Var, if these many people are counted."""
    variance = np.zeros_like(counts)
    for axis, own in enumerate(present):
        others = counts.sum(axis=axis, keepdims=True)  # count/margin_j, times the people that margin j counts
        variance += (others / max(own, 1.0)) ** 2 * noise
    return variance
