"""Newton steps at the coordinator: where to start, how far to step, when to stop, and what the openings leave uncertain.

What the coordinator makes of openings is post-processing and costs nothing. Weights are those of coded columns, the constant
first. What is sought are the weights that the same people give without noise under a weak prior: an effect of a number is about
`PRIOR` units of score per two standard deviations, that of a level about as much, as in [Gelman et al. 2008]. So there is an
answer also where columns are collinear or classes separable, and hardly anything moves where they are not.

*Start.* The Gram matrix tells the gradient at the constant model, where everybody has the same weight. If scores were normal, the
covariance of a column with the target would be the mean weight times its covariance with the score (Stein). That gives
slopes, their scale and the constant. Correlations are pulled towards none as far as noise explains them.

*Curvature.* The same identity says what the curvature should be at any weights. A weighted Gram matrix is opened at the start and
where the last gradient is. Entry by entry it replaces what was believed, as far as the two differ by more than noise. In
between, gradients tell how the slope really changed along a step, as far as that is more than noise (BFGS, damped as in
[Powell 1978]).

*Belief.* A gradient opened at b is H·(b − β) plus noise of a known variance. All gradients are read so, each with as much
doubt as it disagrees with the last one by more than noise. With the prior this gives a mean of β. Its scale is averaged over by
likelihood, and noise in the curvature counts by entry. Where noise outweighs the data the belief hardly moves, where it does
not it is Newton's step. So one rule serves every ε.

*Guarantee.* A step moves a typical score by at most one unit in which weights change by a factor e (`Family.steepest`).
Every party clips its part of a score to the window of the link, so no party's columns alone carry anybody out of it. Slopes at
both ends of a step tell whether the potential has risen on it. If it has, by more than noise, the next step begins where the
slopes say that the valley is, and is half as long. The last step, which no gradient follows, is shortened to where the
majoriser, the family's `steepness` times the Gram matrix, or the curvature opened there, excludes a rise, unless the gradient is
mere noise. If the last gradient shows a rise, the valley is the answer, and the search has not converged.

*Convergence* (`Convergence`). The last gradient is compared with its noise. It also counts as converged if the last step is so
short that the curvature hardly changes on its way, for those at the ends of a heavy tail too.

*Intervals.* What was opened is one set of noisy equations A·β = A·b − g (`colonnade.estimation.regression.OpenedScore`), with the
curvature where the last gradient was opened. `benchmarks/newton` shows how often intervals cover.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments, pooled_correlations
from colonnade.estimation.regression import (
    Equations,
    OpenedScore,
    RegressionInference,
    complete_categories,
    infer,
    level_sums,
    part_of,
    positive_part,
    second_moment_covariance,
    weak_spreads,
)
from colonnade.families.family import Family
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho, price_of_rho
from colonnade.schema import (
    Coding,
    Feature,
    coefficients_to_own_units,
    contrasts_of_levels,
    free_coefficients,
    written_levels,
)

Array = NDArray[np.float64]

SCALES = 2.0 ** -np.arange(0, 6.5, 0.5)
"""Candidates for how much smaller effects are than `PRIOR`, as far as noise hides them: from none to one part of 64."""
DAMPING = 0.2
"""The least part of the believed curvature that a secant leaves along a step [Powell 1978]."""
NOTICED = 2.0
"""How many standard errors of noise a rise must exceed to be one."""
SIGNIFICANT = 1e-3
"""The chance below which the last gradient is more than noise."""
NEAR = 1.0
"""How far the last step of a search that has converged may move the part of a score that one column has: on a longer one the
weights of those at the ends of a heavy tail change by more than a factor e, and its length is not to be relied on."""
SPREADS_IN_WINDOW = 6.0
"""How many standard deviations of the start's scores the window holds."""
LEAST_PART = 1e-10
"""Curvature below this part of the largest is not told from none: rounding is about that."""
NODES, MASS = np.polynomial.hermite_e.hermegauss(24)
MASS = MASS / MASS.sum()
STRETCHES = np.exp(np.linspace(np.log(0.25), np.log(8.0), 57))
"""Candidates for the factor between a score of least squares and one of the family."""
FEW, MOST = 3, 7
"""The least and the largest number of steps that are chosen."""
QUIET = 0.003
"""The noise of a whole price, per person, from which on down each halving is worth one more step (`Division.chosen`)."""


@dataclass(frozen=True)
class NewtonPrices:
    """The prices of a study's openings.

    Parameters
    ----------
    gram
        Of the moments to start from, opened once for all classes.
    rounds
        Of all rounds of one class together.
    """

    gram: Price
    rounds: Price


@dataclass(frozen=True)
class Division:
    """How a price is divided, in whole parts of ρ.

    Most of what the steps have goes to the last one, because its noise stays in the answer. The earlier ones only have to bring
    the weights close. On simulated tables of known truth, of 4,000 to 50,000 people at ε from 0.1 to 10, more for the Gram
    matrix and less for the curvature helps where noise is large, and the other way round where it is small; the optimum is flat.

    Parameters
    ----------
    gram
        Of the moments to start from.
    parts
        Of each round.
    curvatures
        The numbers of the rounds that open the curvature. All others are steps.

    Examples
    --------
    >>> prices = Division.of(steps=5).prices(Price.of(1.0, 1e-6), 1)
    >>> round(float(ledger_rho(prices.gram) / ledger_rho(Price.of(1.0, 1e-6))), 3)
    0.15
    """

    gram: int
    parts: tuple[int, ...]
    curvatures: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if not self.parts or any(type(part) is not int or part < 1 for part in (self.gram, *self.parts)):
            raise BadInput("A price is divided into positive whole parts.", remedy="For example parts=(1, 1, 4).")

    @classmethod
    def of(
        cls, *, steps: int, gram: float | None = None, curvature: float | None = None, last: float = 0.6
    ) -> "Division":
        """Return the division by shares: of the price for moments and curvatures, and of what is left for the last step.

        The curvature is opened at the start and where the last gradient is; once if these are the same place.

        Examples
        --------
        >>> Division.of(steps=4)
        Division(gram=15, parts=(10, 6, 6, 6, 30, 27), curvatures=(0, 4))
        """
        few = steps <= FEW
        gram, curvature = gram or (0.3 if few else 0.15), curvature or (0.15 if few else 0.4)
        left = 1 - gram - curvature
        early = [left * (1 - last) / max(steps - 1, 1)] * (steps - 1)
        first = curvature * (0.5 if few else 0.25) if early else 0.0
        shares = [*([first] if early else []), *early, curvature - first, left - sum(early)]
        if min(gram, *shares) < 0.01:
            raise BadInput(
                "Every opening takes at least one hundredth of the price.", remedy="Take fewer steps, or other shares."
            )
        wholes = [round(10_000 * share) for share in (gram, *shares)]
        first, *parts = (whole // math.gcd(*wholes) for whole in wholes)
        return cls(first, tuple(parts), (0, steps) if early else (0,))

    @staticmethod
    def chosen(row_bound: float, columns: int, rho: float, people: int) -> int:
        """Return how many steps a price is worth: as many as bring weights as near as its noise lets them be known.

        The figure that decides is the noise of a gradient that has the whole price, as a length per person. On simulated tables
        more than three steps gain nothing while it exceeds `QUIET`. Below, each halving is worth about one more.

        Parameters
        ----------
        row_bound
            The squared length of a row of coded columns.
        columns
            How many coded columns there are.
        rho
            The price.
        people
            How many there are.

        Examples
        --------
        >>> [Division.chosen(13, 20, rho, 50_000) for rho in (0.0005, 0.03, 0.3, 30.0)]
        [3, 4, 6, 7]
        """
        noise = math.sqrt(row_bound * columns / (2 * rho)) / people
        return int(np.clip(round(FEW + math.log2(QUIET / noise)), FEW, MOST))

    def prices(self, price: Price, classes: int) -> NewtonPrices:
        """Divide a price between the moments and the rounds of all classes, to the ledger's last unit."""
        rounds = sum(self.parts)
        unit = ledger_rho(price, (self.gram + rounds) * classes)
        return NewtonPrices(
            price_of_rho(unit * self.gram * classes, price.delta), price_of_rho(unit * rounds, price.delta)
        )


def secant_update(curvature: Array, moved: Array, changed: Array, variance: Array | float) -> Array:
    """Return the curvature that explains how the gradient changed along a step, as far as that is not noise [BFGS, damped]."""
    expected = curvature @ moved
    bent = float(moved @ expected)
    if bent <= 0:
        return curvature
    surprise = changed - expected
    noise = float(np.sum(np.broadcast_to(variance, moved.shape)))
    changed = expected + float(np.clip(1 - noise / max(float(surprise @ surprise), 1e-300), 0.0, 1.0)) * surprise
    along = float(moved @ changed)
    if along < DAMPING * bent:
        part = (1 - DAMPING) * bent / (bent - along)
        changed = part * changed + (1 - part) * expected
        along = float(moved @ changed)
    return np.asarray(curvature - np.outer(expected, expected) / bent + np.outer(changed, changed) / along)


@dataclass(frozen=True, eq=False)
class OpenedGradient:
    """One gradient as it was opened.

    Parameters
    ----------
    weights
        Where.
    values
        The gradient, one entry per coded column, the constant's first.
    variance
        Of the noise in each entry.
    """

    weights: Array
    values: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class Curvature:
    """The information matrix as well as it is known.

    Parameters
    ----------
    matrix
        Over all coded columns, the constant first; positive semi-definite.
    variance
        Of the noise in each entry, independent on and above the diagonal.
    """

    matrix: Array
    variance: Array

    def corrected(self, opened: Array, noise: Array) -> "Curvature":
        """Return what this and an opened matrix tell together, entry by entry.

        The opened matrix differs from a multiple of this one by noise, and by more: a part of what two columns' curvatures allow,
        the same part for all pairs. That part follows from all entries at once.
        """
        factor = float(np.sum(opened * self.matrix)) / max(float(np.sum(self.matrix**2)), 1e-300)
        apart, own = opened - factor * self.matrix, factor**2 * self.variance
        diagonal = factor * np.diag(self.matrix)
        size = np.outer(diagonal, diagonal)
        excess = max(float(np.sum(apart**2 - noise - own)) / max(float(np.sum(size)), 1e-300), 0.0)
        kept = (excess * size + own) / np.maximum(excess * size + own + noise, 1e-300)
        return Curvature(positive_part(factor * self.matrix + kept * apart), kept * noise)


@dataclass(frozen=True)
class Convergence:
    """Whether a search has come to rest, and the figures that say so.

    Parameters
    ----------
    converged
        Whether the last gradient is no more than noise, or the last step is so short that the curvature hardly changes on it.
    steps
        How many gradients were taken in.
    chi_squared, freedom
        The last gradient against its noise, and what is expected of that if there is nothing but noise.
    p_value
        The chance of as much by noise alone.
    left
        By how much the last step moves the part of a score that one column has, at most; 1 is a factor e in weights.
    outside
        No larger share of people has scores outside the window of the link, as far as the moments tell.
    """

    converged: bool
    steps: int
    chi_squared: float
    freedom: int
    p_value: float
    left: float
    outside: float

    def __str__(self) -> str:
        figures = f"last gradient χ² = {self.chi_squared:.4g} on {self.freedom}, p = {self.p_value:.2g}"
        if self.outside >= 0.01:
            figures += f"; up to {self.outside:.0%} of scores may lie outside the window"
        if self.converged:
            return f"converged in {self.steps} steps; {figures}"
        return f"NOT CONVERGED in {self.steps} steps: these are the best weights so far; {figures}"


@dataclass(frozen=True, eq=False)
class NewtonClass:
    """What the rounds of one class came to, in coded columns with the constant first.

    Parameters
    ----------
    family
        The model.
    weights
        The weights at the end.
    moments
        The release that the start follows from, of the same columns.
    near
        Where the curvature is known.
    curvature
        The information matrix there.
    gradient
        The last gradient. Earlier ones were opened farther away, where the curvature is another.
    convergence
        Whether the search came to rest.
    spread
        How far each weight may well be from 0, by the weak prior.
    """

    family: Family
    weights: Array
    moments: Moments
    near: Array
    curvature: Curvature
    gradient: OpenedGradient
    convergence: Convergence
    spread: Array


class NewtonSearch:
    """A belief about the weights, moved by one noisy gradient after another.

    Parameters
    ----------
    family
        The model.
    moments
        Noisy second moments of the columns, the constant first.
    products, variance
        Sums of each column times the target, and the variance of their noise.
    window
        The largest score for which the link is accurate.

    Examples
    --------
    >>> from colonnade import Numeric
    >>> from colonnade.families import DEFAULT
    >>> from colonnade.schema import features_of
    >>> features = features_of({"a.age": Numeric(0, 100)})
    >>> moments = Moments(np.diag([1_000.0, 100.0]), np.zeros((2, 2)), 1_000, features)
    >>> search = NewtonSearch(DEFAULT, moments, np.array([500.0, 20.0]), np.zeros(2), 12)
    >>> search.weights.round(2)
    array([0.  , 0.83])
    """

    def __init__(self, family: Family, moments: Moments, products: Array, variance: Array, window: int) -> None:
        self.family, self.moments, self.window, self.people = family, moments, window, moments.count
        pooled = pooled_correlations(moments)
        self._within = _projector(moments)
        self._gram, self._gram_variance = (
            self._within @ pooled.matrix @ self._within,
            np.sqrt(moments.variance * pooled.variance),
        )
        self._levels = np.array([feature.kind == "level" for feature in moments.features])
        self._spread = weak_spreads(pooled)
        self._spread[0] = window
        (low, high), margin = family.targets, max(1.0, math.sqrt(float(variance[0]))) / self.people
        margin = min(margin, (high - low) / 2)
        self._mean = float(np.clip(products[0] / self.people, low + margin, high - margin))
        self._base = np.zeros(len(products))
        self._base[0] = float(family.score(self._mean))
        everybody = float(family.weights(self._base[:1])[0][0])
        first = self._within @ (self._mean * pooled.matrix[0] - products)
        noise = variance + self._mean**2 * self._gram_variance[0]
        self._seen = [OpenedGradient(self._base, first, noise)]
        self._place, self._radius, self._kept = self._seen[0], 1 / family.steepest, True
        self._slope_from: OpenedGradient | None = None
        self._bent_at: Array | None = None
        self.curvature = Curvature(positive_part(everybody * self._gram), everybody**2 * self._gram_variance)
        self._believed: tuple[Array, Array] | None = None
        self._believed = self._belief()
        self._origin = self.weights = self._start(self._believed[0] - self._base, everybody)
        self.curvature = self._expected(self.weights)

    def bend(self, opened: Array, variance: float) -> None:
        """Take in the weighted Gram matrix at the present weights, whose entries off the diagonal have this variance."""
        noise = np.where(self._known, 0.0, variance * (1 + np.eye(len(opened))))
        self.curvature = self.curvature.corrected(self._within @ opened @ self._within, noise)
        self._slope_from = None
        self._bent_at = self.weights

    def see(self, gradient: Array, variance: float) -> None:
        """Take in the gradient at the present weights, whose entries have noise of this variance, and move."""
        seen = OpenedGradient(self.weights, self._within @ gradient, np.full(len(gradient), float(variance)))
        if self._slope_from is not None:
            before = self._slope_from
            changed, noise = seen.values - before.values, seen.variance + before.variance
            moved = secant_update(self.curvature.matrix, seen.weights - before.weights, changed, noise)
            self.curvature = Curvature(moved, self.curvature.variance)
        self._slope_from = seen
        self._seen.append(seen)
        self._judge(seen)
        self._move()

    def _judge(self, seen: OpenedGradient) -> None:
        """Say where the next step begins and how long it may be: by the slopes at both ends of the last one."""
        step = seen.weights - self._place.weights
        first, last = (float(self._whole_slope(one) @ step) for one in (self._place, seen))
        noise = math.sqrt(float((self._place.variance + seen.variance) @ step**2))
        self._kept = last <= 0 or first + last <= NOTICED * noise
        if self._kept:
            self._place, self._origin, self._radius = seen, seen.weights, 1 / self.family.steepest
        else:
            self._origin = self._place.weights + max(-first, 0.0) / (last + max(-first, 0.0)) * step
            self._radius = min(self._length(step), self._radius) / 2

    def _move(self) -> None:
        """Go from where the next step begins to what is believed, as far as a step may go."""
        self._believed = self._belief()
        step = self._believed[0] - self._origin
        self.weights = self._origin + min(1.0, self._radius / max(self._length(step), 1e-12)) * step

    def result(self) -> NewtonClass:
        """Return what the rounds came to."""
        convergence = self._convergence()
        weights = self.weights
        if convergence.p_value < SIGNIFICANT and len(self._seen) > 1:
            weights = self._without_rise() if self._kept else self._origin
        if len(self._seen) > 1:
            weights = self._unbent(weights)
        near = weights if self._bent_at is None else self._bent_at
        return NewtonClass(
            self.family, weights, self.moments, near, self.curvature, self._seen[-1], convergence, self._spread
        )

    def _unbent(self, weights: Array) -> Array:
        """Return weights with the constant at which the mean target is that of the people, as far as the last gradient tells it.

        Its first entry says by how much the mean is off where the search stands. As far as that is noise, the step's own change
        of the mean counts instead. A step may be shortened, and slopes change on its way.
        """
        step = weights - self._place.weights

        def mean(shift: float) -> float:
            centre, variance = self._scores(weights)
            return float(self.family.mean(centre + shift + math.sqrt(variance) * NODES) @ MASS)

        centre, variance = self._scores(self._place.weights)
        stood = float(self.family.mean(centre + math.sqrt(variance) * NODES) @ MASS)
        off, noise = float(self._place.values[0]), float(self._place.variance[0])
        told = max(1 - noise / max(off**2, 1e-300), 0.0)
        aim = stood + ((1 - told) * float(self.curvature.matrix[0] @ step) - told * off) / self.people
        longest = 1 / self.family.steepest
        if not mean(-longest) < aim < mean(longest):
            return weights
        return np.append(weights[0] + brentq(lambda one: mean(one) - aim, -longest, longest), weights[1:])

    # Where it begins ------------------------------------------------------------------------------------------------------

    def _start(self, step: Array, everybody: float) -> Array:
        """Return weights under which normal scores have the covariances with the target that least squares found.

        Parameters
        ----------
        step
            Newton's step from the constant model.
        everybody
            Everybody's weight there.
        """
        slopes = np.append(0.0, step[1:])
        variance = self._scores(slopes)[1]
        if variance <= 1e-12:
            return np.asarray(self._base + step)
        steepest = self.window / SPREADS_IN_WINDOW / math.sqrt(variance)
        for stretch in np.minimum(STRETCHES, steepest):
            centre = self.family.centre(self._mean, stretch**2 * variance)
            weight = self.family.weights(centre + stretch * math.sqrt(variance) * NODES)[0] @ MASS
            if stretch * weight >= everybody:
                break
        found = stretch * slopes
        found[0] = centre - float(self._gram[0] @ found) / self.people
        return np.asarray(found)

    def _scores(self, weights: Array) -> tuple[float, float]:
        """Return mean and variance of scores."""
        mean = float(self._gram[0] @ weights) / self.people
        return mean, max(float(weights @ self._gram @ weights) / self.people - mean**2, 0.0)

    def _expected(self, weights: Array) -> Curvature:
        """Return the curvature if columns and scores are normal, by Stein's identity, and its noise."""
        mean, variance = self._scores(weights)
        deviation = math.sqrt(max(variance, 1e-9))
        weight, slope = self.family.weights(mean + deviation * NODES)
        level, tilt, bend = (float(one @ MASS) for one in (weight, slope, slope * NODES / deviation))
        means = self._gram[0] / self.people
        moved = self._gram @ weights / self.people - means * mean
        tilted = self.people * tilt * np.outer(means, moved)
        matrix = level * self._gram + tilted + tilted.T + self.people * bend * np.outer(moved, moved)
        return Curvature(positive_part(matrix), level**2 * self._gram_variance)

    # The belief -----------------------------------------------------------------------------------------------------------

    def _pooled(self) -> tuple[Array, Array, Array]:
        """Return all gradients as one reading of curvature times weights beyond the base, its noise, and where that was read."""
        matrix, last = self.curvature.matrix, self._seen[-1]
        readings, precisions = [], []
        least = (LEAST_PART * float(np.max(np.diag(matrix)))) ** 2 + 1e-300
        for one in self._seen:
            moved = one.weights - last.weights
            surprise = one.values - last.values - matrix @ moved
            noise = one.variance + last.variance + self.curvature.variance @ moved**2
            doubt = 0.0 if one is last else max(float(np.mean(surprise**2 - noise)), 0.0)
            readings.append(matrix @ (one.weights - self._base) - one.values)
            precisions.append(1 / (one.variance + doubt + least))
        total = np.sum(precisions, axis=0)
        shares = np.array(precisions) / total
        where = shares.mean(axis=1) @ np.array([one.weights for one in self._seen])
        return np.sum(shares * np.array(readings), axis=0), 1 / total, where

    def _belief(self) -> tuple[Array, Array]:
        """Return mean and covariance of the weights, in units of the prior's spread averaged over its scale."""
        reading, noise, where = self._pooled()
        unit = self._spread
        both = np.outer(unit, unit)
        size = len(unit)
        matrix = self.curvature.matrix * both + np.eye(size)  # with the weak prior's own
        reading, doubt = unit * reading, self.curvature.variance * both**2
        floor = unit**2 * noise + LEAST_PART * float(np.max(np.diag(matrix)))
        square, away = matrix @ matrix, (where - self._base) / unit
        if self._believed is None:
            return self._averaged(
                reading, matrix, square, [tau**2 * np.diag(doubt.sum(axis=1)) for tau in SCALES], floor
            )
        mean, covariance = (self._believed[0] - self._base) / unit, self._believed[1] / both
        for _ in range(2):  # noise in the curvature counts as far as the weights are from where gradients were opened
            second = np.outer(away - mean, away - mean) + covariance
            blurred = second_moment_covariance(doubt, second)
            found, spread = self._averaged(reading, matrix, square, [blurred] * len(SCALES), floor)
            mean, covariance = (found - self._base) / unit, spread / both
        return found, spread

    def _averaged(
        self, reading: Array, matrix: Array, square: Array, blurred: Sequence[Array], floor: Array
    ) -> tuple[Array, Array]:
        """Return mean and covariance of the weights, averaged over the prior's scale by likelihood."""
        surprises, means, spreads = [], [], []
        for tau, blur in zip(SCALES, blurred, strict=True):
            expected = tau**2 * square + blur
            expected = (expected + expected.T) / 2 + np.diag(floor)
            root = np.linalg.cholesky(expected)
            white = np.linalg.solve(root, np.column_stack([reading, tau**2 * matrix]))
            surprises.append(float(np.log(np.diag(root)).sum() + white[:, 0] @ white[:, 0] / 2))
            means.append(white[:, 1:].T @ white[:, 0])
            spreads.append(tau**2 * np.eye(len(reading)) - white[:, 1:].T @ white[:, 1:])
        chances = np.exp(min(surprises) - np.array(surprises))
        chances /= chances.sum()
        mean = chances @ np.array(means)
        apart = np.array(means) - mean
        covariance = np.tensordot(chances, np.array(spreads), axes=1) + (apart.T * chances) @ apart
        return np.asarray(self._base + self._spread * mean), covariance * np.outer(self._spread, self._spread)

    # The guarantee --------------------------------------------------------------------------------------------------------

    def _whole_slope(self, seen: OpenedGradient) -> Array:
        """Return a gradient with the weak prior's."""
        return np.asarray(seen.values + (seen.weights - self._base) / self._spread**2)

    def _steepest_bend(self, step: Array) -> float:
        """Return the majoriser along a step."""
        return self.family.steepness * max(float(step @ self._gram @ step), 0.0) + float(
            np.sum((step / self._spread) ** 2)
        )

    def _without_rise(self) -> Array:
        """Return weights on the way of the last step at which the potential cannot have risen."""
        place = self._place.weights
        step = self.weights - place
        slope, most = float(self._whole_slope(self._place) @ step), self._steepest_bend(step) / 2
        own = math.inf  # the curvature where the step begins, if it was opened there
        if place is self._bent_at:
            own = float(step @ self.curvature.matrix @ step) + float(np.sum((step / self._spread) ** 2))
        farthest = self.family.steepest * self._farthest(step)
        part = 1.0
        while part > 1e-6:
            far = max(part * farthest, 1e-6)
            if slope + part * min(most, own * (math.expm1(far) - far) / far**2 if far < 30 else most) <= 0:
                return np.asarray(place + part * step)
            part /= 2
        return place

    def _farthest(self, step: Array) -> float:
        """Return how far a step can move anybody's score."""
        far = abs(float(step[0])) + float(np.abs(step[~self._levels][1:]).sum())
        columns = np.array([feature.column for feature in self.moments.features])
        for column in dict.fromkeys(columns[self._levels]):
            far += float(np.abs(step[columns == column]).max())
        return far

    def _length(self, step: Array) -> float:
        """Return by how much a step moves the score of a typical person."""
        return math.sqrt(max(float(step @ self._gram @ step), 0.0) / self.people)

    def _convergence(self) -> Convergence:
        freedom = round(float(np.trace(self._within)))
        scores = self._scores(self.weights)
        outside = min(1.0, (scores[0] ** 2 + scores[1]) / self.window**2)
        if len(self._seen) == 1:
            return Convergence(False, 0, math.inf, freedom, 0.0, math.inf, outside)
        last = self._seen[-1]
        figure = float(np.sum(self._whole_slope(last) ** 2 / np.maximum(last.variance, 1e-300)))
        chance = float(chi2.sf(figure, freedom))
        left = self.family.steepest * float(np.max(np.abs(self.weights - last.weights)))
        done = self._kept and (chance >= SIGNIFICANT or left <= NEAR)
        return Convergence(done, len(self._seen) - 1, figure, freedom, chance, left, outside)

    @cached_property
    def _known(self) -> NDArray[np.bool_]:
        """Products of two levels of one category, which are exactly 0."""
        columns = np.array([feature.column for feature in self.moments.features])
        return np.asarray((columns[:, None] == columns) & ~np.eye(len(columns), dtype=bool))


def _projector(moments: Moments) -> Array:
    """Return the projection to sums that can be: levels of a category without missing values add up to the constant's."""
    size = len(moments.features)
    apart = np.zeros((size, 0))
    for places in complete_categories(moments):
        column = np.zeros((size, 1))
        column[0], column[places] = 1.0, -1.0
        apart = np.hstack([apart, column])
    return np.asarray(np.eye(size) - apart @ np.linalg.pinv(apart))


LEAST_DISTANCE = 0.25
"""How far coefficients lie from where the curvature was opened at least, as a root mean square in units of scores."""
LEAKING = 0.5
"""The part of t with which other coefficients leak: distances from a start differ less in size than coefficients do."""


def newton_inference(
    found: NewtonClass, features: Sequence[Feature], fitted: Array, *, coding: Coding
) -> RegressionInference:
    """Return inference on the coefficients of one class that the steps converge to.

    Parameters
    ----------
    found
        What the rounds came to.
    features
        The coded columns, the constant first.
    fitted
        The model's own coefficients, all levels, in own units.
    coding
        How levels are written. ``"full"`` has no unique coefficients and is written as ``"reference"``.
    """
    columns = list(features[1:])
    free, sums = free_coefficients(columns), level_sums(found.moments)
    told_apart = free.T @ written_levels(columns, "reference")
    near, before = (told_apart @ np.append(one[1:], one[0]) for one in (found.near, found.gradient.weights))
    information = sums @ found.curvature.matrix @ sums.T
    unbounded = np.zeros(len(information), dtype=bool)
    unbounded[-1] = True
    contrasts = contrasts_of_levels(columns)
    spread = dispersion(found.family, found.moments, found.near)
    equations = Equations(
        information,
        information @ (before - near) - sums @ found.gradient.values,
        OpenedScore(np.diag(found.gradient.variance), found.curvature.variance, before - near, sums),
        unbounded,
        lambda _: spread,
        prior=contrasts @ contrasts.T,
        weak=(told_apart * np.append(found.spread[1:], 0.0) ** 2) @ told_apart.T,
        least=LEAST_DISTANCE,
        leaking=LEAKING,
    )
    _, into = coefficients_to_own_units(columns)
    shown: tuple[Coding, Coding] = ("reference", "sum") if coding == "full" else (coding, coding)
    combinations = np.vstack([written_levels(columns, one) @ into @ free for one in shown])
    whole = infer(equations, combinations, near)
    written, unique = part_of(whole, slice(0, len(into))), part_of(whole, slice(len(into), 2 * len(into) - 1))
    return RegressionInference(written, np.hypot(unique.errors(total=False), fitted - unique.estimates))


def dispersion(family: Family, moments: Moments, weights: Array) -> float:
    """Return how many times as large as weights the variances of targets are, over normal scores: 1 for a likelihood."""
    mean = float(moments.matrix[0] @ weights) / moments.count
    variance = max(float(weights @ moments.matrix @ weights) / moments.count - mean**2, 0.0)
    scores = mean + math.sqrt(variance) * NODES
    return float((family.variance(family.mean(scores)) @ MASS) / (family.weights(scores)[0] @ MASS))
