"""Newton steps at the coordinator: where to start, which curvature to use, and how far to trust a noisy gradient.

What the coordinator makes of noisy gradients is post-processing and costs nothing. It keeps a belief about the
maximum-likelihood weights, a mean and a covariance, in coded columns with the constant first. A gradient opened at weights b is
read as H·(b − b*) plus noise of a known variance (Kalman's update). Where noise outweighs the data the belief hardly moves. Where
it does not, the update is Newton's step. So one rule serves every ε, and no gradient is thrown away.

*Start.* Least squares on the noisy moments gives a direction (`colonnade.estimation.regression.NormalEquations`). Two readings
of it are averaged. Two Gaussian classes give the slope that a discriminant has, which is too steep where one level alone
decides. The log-odds of the fitted shares at both ends of each column give a slope that is too flat where many columns act
together.

*Curvature.* The first step is taken with the curvature that the plain Gram matrix leads one to expect (`expected_weights`). The
weighted Gram matrix is opened once, after it. The two are blended, as far as they differ by no more than their noise. Each later
gradient tells how the slope really changed along the last step. A secant update (BFGS) takes that in, as far as it is more than
noise. Without it the steps would converge slowly, or not at all where the start was far off.

What the weighted Gram matrix of a logistic model should be, from the plain one: a model of how scores spread.

The information of a logistic model at weights b is Σ w(z)·x·xᵀ over people, with z a person's score and w = P·(1 − P). The plain
Gram matrix tells means and covariances of columns and scores. So it tells which scores the people of a level have on average, and
how scores move with a number. If scores are normal around these means, the weighted sums follow in closed form::

    level i and level k        count of both · E[w]
    level i and number k       sum of both · E[w] + count · Cov(x_k, z | i) · E[w′]
    numbers i and k            sum of both · E[w] + people · (μ_i·Cov(x_k, z) + μ_k·Cov(x_i, z)) · E[w′]

(Stein's identity; the constant is a number without variance.) E is over a score that is normal around the mean of those who have
both levels. A plain multiple of the Gram matrix would give everybody the same weight, which is off by a factor of two and more
for levels whose people are seldom or mostly positive. On the four sets of benchmarks/newton this model is off by 4 to 9 % at
ε = 1, where a multiple is off by 11 to 27 %.

Everything here is a function of a release and of public weights.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import LARGEST_EXPLAINED, NormalEquations
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho, price_of_rho

Array = NDArray[np.float64]

NODES, MASS = np.polynomial.hermite_e.hermegauss(24)
MASS = MASS / MASS.sum()
LEAST_VARIANCE = 0.01
"""The least variance of scores, in squared log-odds."""
LEAST_WITHIN = 0.1
"""The least part of the variance of scores that is left among people of one level, or of two."""
FARTHEST = 3.0
"""How many standard deviations of all scores, and one log-odds more, the people of a level are from the mean at most."""
MOST_ALIKE = 0.95
"""The largest correlation of two levels that is told from 1."""


def mean_weights(means: Array, variances: Array) -> tuple[Array, Array]:
    """Return the means of w and of its slope w′ over scores that are normal.

    Examples
    --------
    >>> weight, slope = mean_weights(np.array([0.0]), np.array([0.0]))
    >>> weight.round(3), slope.round(3)
    (array([0.25]), array([0.]))
    """
    scores = means[..., None] + np.sqrt(variances)[..., None] * NODES
    chances = 1 / (1 + np.exp(-np.clip(scores, -30, 30)))
    weights = chances * (1 - chances)
    return np.asarray(weights @ MASS), np.asarray((weights * (1 - 2 * chances)) @ MASS)


def expected_information(moments: Moments, weights: Array) -> tuple[Array, Array]:
    """Return the information matrix that moments lead one to expect, and the variance that their noise gives each entry.

    Parameters
    ----------
    moments
        A release of the columns, the constant first.
    weights
        One per column.

    Examples
    --------
    Half of the people have the level, and its coefficient is 4:

    >>> from colonnade import Category
    >>> from colonnade.schema.features import features_of
    >>> features = features_of({"a.plan": Category(["basic", "gold"])})
    >>> moments = Moments(np.array([[90.0, 45, 45], [45, 45, 0], [45, 0, 45]]), np.zeros((3, 3)), 90, features)
    >>> matrix, _ = expected_information(moments, np.array([0.0, 0.0, 4.0]))
    >>> (np.diag(matrix) / np.diag(moments.matrix)).round(2)
    array([0.11, 0.23, 0.02])
    """
    people, gram = moments.count, moments.matrix
    levels = np.array([feature.kind == "level" for feature in moments.features])
    columns = np.array([feature.column for feature in moments.features])
    means = gram[0] / people
    shares = np.where(levels, np.clip(means, 1 / people, 1.0), 1.0)
    moved = (gram / people - np.outer(means, means)) @ weights  # the covariance of each column and the score
    variance = max(float(weights @ moved), LEAST_VARIANCE)
    noise = (weights**2 @ moments.variance) / (people * shares) ** 2
    farthest = 1 + FARTHEST * np.sqrt(variance)
    apart = np.where(levels, np.clip(moved / shares * variance / (variance + noise), -farthest, farthest), 0.0)
    explained, within = np.zeros_like(apart), np.tile(moved, (len(apart), 1))
    for column in dict.fromkeys(columns[levels]):
        at = np.flatnonzero(columns == column)
        parts = shares[at] * apart[at]
        explained[at] = parts @ apart[at]
        within[at] = moved - parts @ (gram[at] / (people * shares[at])[:, None] - means)
    single = (columns[:, None] == columns) | ~(levels[:, None] & levels)
    joint = np.where(single, 0.0, _correlations(moments, shares))
    left = variance - explained[:, None] - np.where(columns[:, None] == columns, 0.0, (1 - joint**2) * explained)
    both = np.where(single, apart[:, None] + np.where(levels[:, None], 0.0, apart), _of_both(apart, shares, joint))
    centres = float(means @ weights) + np.clip(both, -farthest, farthest)
    weight, slope = mean_weights(centres, np.maximum(left, LEAST_WITHIN * variance))
    bent = np.where(levels[:, None] & ~levels, people * shares[:, None] * slope * within, 0.0)
    numbers = np.where(levels[:, None] | levels, 0.0, people * slope * np.outer(means, moved))
    bent = bent + numbers
    hidden = np.where(
        levels, variance * noise / (variance + noise), 0.0
    )  # what stays unknown of where a level's people are
    unknown = (gram * slope) ** 2 * (hidden[:, None] + np.where(columns[:, None] == columns, 0.0, hidden))
    return np.asarray(weight * gram + bent + bent.T), np.asarray(weight**2 * moments.variance + unknown)


def _correlations(moments: Moments, shares: Array) -> Array:
    """Return how levels of different columns go together, as far as noise does not explain it."""
    spread = np.sqrt(shares * (1 - shares) + 1 / moments.count)
    scale = moments.count * np.outer(spread, spread)
    found = (moments.matrix - moments.count * np.outer(shares, shares)) / scale
    trust = np.clip(1 - moments.variance / scale**2 / np.maximum(found**2, 1e-12), 0.0, 1.0)
    return np.asarray(np.clip(trust * found, -MOST_ALIKE, MOST_ALIKE))


def _of_both(apart: Array, shares: Array, joint: Array) -> Array:
    """Return how far from the mean those are who have two levels, if the two act together as in least squares.

    Where one level lies within the other, it alone counts. Where they are independent, both do.
    """
    reach = np.maximum(np.sqrt((1 - shares) / shares), 1e-3)
    slopes = apart / reach
    alone = slopes[:, None] - joint * slopes
    return np.asarray((alone * reach[:, None] + alone.T * reach) / (1 - joint**2))


FIRST_SPREADS = np.exp(np.linspace(np.log(1e-6), 0.0, 41))
"""Candidates for the variance of the start's error. Coded columns lie in [−1, 1]."""
LATER_SPREADS = np.exp(np.linspace(np.log(0.7), np.log(5.0), 21))
"""Candidates for the factor by which the belief's own variance is off. A gradient that is mostly noise looks as if nothing were
left to find, so a belief is hardly made narrower than it says."""
CURVATURE_NOISE = 0.1
"""How much of the curvature's noise counts against a step. The rest is made good by the steps that follow."""
LINEARISATION = (0.1, 0.02)
"""Which parts of a squared step, of its own and of the mean over columns, are added to the variance: slopes change on the way."""
LONGEST = 1.0
"""The longest step, as the root mean square by which it moves the score of a typical person, in log-odds."""
SMALLEST_SHARE = 0.02
"""Fitted shares are kept this far from 0 and 1 where their log-odds are taken."""
SECANT_FLOOR = 0.1


@dataclass(frozen=True)
class NewtonPrices:
    """The prices of a study's openings.

    Parameters
    ----------
    gram
        Of the moments to start from, opened once for all classes.
    rounds
        Of the curvature and all steps of one class together.
    """

    gram: Price
    rounds: Price


@dataclass(frozen=True)
class Division:
    """How a price is divided, in whole parts of ρ.

    Half of what the steps have goes to the last one, because its noise stays in the answer. The earlier ones only have to bring
    the weights close. Areas under the curve differ by less than 0.002 between divisions that give each opening a tenth or more,
    and by up to 0.006 at ε = 0.1 (benchmarks/newton).

    Parameters
    ----------
    gram
        Of the moments to start from.
    curvature
        Of the weighted Gram matrix.
    steps
        Of each step.

    Examples
    --------
    >>> prices = Division().prices(Price.of(1.0, 1e-6), 1)
    >>> round(float(ledger_rho(prices.gram) / ledger_rho(Price.of(1.0, 1e-6))), 3)
    0.24
    """

    gram: int = 24
    curvature: int = 12
    steps: tuple[int, ...] = (8, 8, 8, 8, 32)

    def __post_init__(self) -> None:
        if not self.steps or any(type(part) is not int or part < 1 for part in (self.gram, *self.parts)):
            raise BadInput("A price is divided into positive whole parts.", remedy="For example steps=(1, 1, 4).")

    @classmethod
    def of(cls, *, steps: int, gram: float, curvature: float, last: float) -> "Division":
        """Return the division by shares: of the price for moments and curvature, and of what is left for the last step.

        Examples
        --------
        >>> Division.of(steps=5, gram=0.24, curvature=0.12, last=0.5) == Division()
        True
        """
        left = 1 - gram - curvature
        early = [left * (1 - last) / (steps - 1)] * (steps - 1) if steps > 1 else []
        wholes = [round(100 * share, 6) for share in (gram, curvature, *early, left - sum(early))]
        if min(wholes) < 1:
            raise BadInput(
                "Every opening takes at least one hundredth of the price.", remedy="Take fewer steps, or other shares."
            )
        factor = 1 if all(whole == int(whole) for whole in wholes) else 100
        first, second, *rest = (round(factor * whole) for whole in wholes)
        return cls(first, second, tuple(rest))

    @property
    def parts(self) -> tuple[int, ...]:
        """Of the first step, of the curvature, then of each other step."""
        first, *later = self.steps
        return (first, self.curvature, *later)

    def prices(self, price: Price, classes: int) -> NewtonPrices:
        """Divide a price between the moments and the rounds of so many classes, to the ledger's last unit."""
        rounds = sum(self.parts)
        unit = ledger_rho(price, (self.gram + rounds) * classes)
        return NewtonPrices(
            price_of_rho(unit * self.gram * classes, price.delta), price_of_rho(unit * rounds, price.delta)
        )


def start_weights(moments: Moments, target: Array, places: NDArray[np.intp]) -> Array:
    """Return weights to start from, the constant's first.

    Parameters
    ----------
    moments
        Noisy second moments of features and target.
    target
        Weights over the release's columns that make 0 or 1 of the target.
    places
        Which columns are features.
    """
    equations = NormalEquations.of(moments, places)
    solution = equations.solve(target)
    people, least = moments.count, 1.0 / moments.count
    share = float(np.clip(moments.matrix[0] @ target / people, least, 1 - least))
    readings = (
        _discriminant(equations, solution.weights, solution.explained, share),
        _log_odds(equations, solution.weights, share),
    )
    return np.asarray(np.mean(readings, axis=0), dtype=np.float64)


def _discriminant(equations: NormalEquations, weights: Array, explained: float, share: float) -> Array:
    """Read the fit as that of two Gaussian classes with one variance."""
    spread = share * (1 - share)
    ratio = float(np.clip(explained / equations.moments.count / spread, 0.0, LARGEST_EXPLAINED))
    slope = 1 / (spread * (1 - ratio))
    level = _logit(share) - (1 - 2 * share) * slope * ratio / 2
    return np.append(level - slope * equations.means @ weights, slope * weights)


def _log_odds(equations: NormalEquations, weights: Array, share: float) -> Array:
    """Read the fit as shares at both ends of each column, and take their log-odds."""
    moments, places = equations.moments, equations.places
    means = equations.means
    deviations = np.sqrt(np.maximum(np.diag(moments.matrix)[places] / moments.count - means**2, 1e-9))
    level = np.array([moments.features[place].kind == "level" for place in places])
    held = np.clip(means, 0.0, 1.0)
    above, below = np.where(level, 1 - held, deviations), np.where(level, held, deviations)
    least = min(SMALLEST_SHARE, share / 2, (1 - share) / 2)
    ends = [np.clip(share + weights * end, least, 1 - least) for end in (above, -below)]
    slopes = (_logit(ends[0]) - _logit(ends[1])) / np.where(level, 1.0, 2 * deviations)
    centred = moments.matrix[np.ix_(places, places)] / moments.count - np.outer(means, means)
    variance = max(float(slopes @ centred @ slopes), 0.0)
    return np.append(_logit(share) * np.sqrt(1 + np.pi * variance / 8) - slopes @ means, slopes)


def _logit(share: Array | float) -> Array:
    return np.asarray(np.log(share) - np.log1p(-np.asarray(share)))


@dataclass(frozen=True, eq=False)
class BlendedCurvature:
    """A curvature, and the mean variance of the noise in its entries.

    Parameters
    ----------
    matrix
        Positive semi-definite, the constant column first.
    variance
        Of an entry.
    """

    matrix: Array
    variance: float

    @classmethod
    def of(cls, opened: Array | None, variance: float, moments: Moments, weights: Array) -> "BlendedCurvature":
        """Blend an opened curvature with what the moments of the same columns lead one to expect.

        Parameters
        ----------
        opened, variance
            The weighted Gram matrix, or ``None`` if it was lost; the variance of its entries off the diagonal.
        moments
            Of the columns, the constant first. Products of two levels of one column are exactly 0.
        weights
            Where the curvature was opened.
        """
        expected, expected_variance = expected_information(moments, weights)
        if opened is None:
            return cls(_nonnegative(expected), float(expected_variance.mean()))
        columns = np.array([feature.column for feature in moments.features])
        known = (columns[:, None] == columns[None, :]) & ~np.eye(len(columns), dtype=bool)
        opened, expected = (np.where(known, 0.0, one) for one in (opened, expected))
        noise = np.where(known, 0.0, variance * (1 + np.eye(len(columns))))
        factor = float(np.sum(opened * expected) / np.sum(expected * expected))
        apart = opened - factor * expected
        kept = float(
            np.clip(1 - np.sum(noise + factor**2 * expected_variance) / max(float(np.sum(apart**2)), 1e-300), 0, 1)
        )
        blended = factor * expected + kept * apart
        entries = kept**2 * noise + (1 - kept) ** 2 * factor**2 * expected_variance
        return cls(_nonnegative(blended), float(entries.mean()))


def _nonnegative(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


class NewtonSearch:
    """A belief about the maximum-likelihood weights, moved by one noisy gradient after another.

    Parameters
    ----------
    start
        Weights to start from, the constant's first.
    curvature
        The curvature that is expected there.
    people
        How many there are.

    Examples
    --------
    >>> curvature = BlendedCurvature(np.diag([250.0, 25.0]), 0.0)
    >>> search = NewtonSearch(np.zeros(2), curvature, 1_000)
    >>> search.see(np.array([-25.0, 5.0]), 1e-9)
    >>> search.weights.round(3)
    array([ 0.1, -0.2])
    """

    def __init__(self, start: Array, curvature: BlendedCurvature, people: int) -> None:
        self.weights = np.array(start, dtype=np.float64)
        self.curvature = curvature.matrix
        self._variance = CURVATURE_NOISE * curvature.variance
        self._people = people
        self._covariance = np.eye(len(start))
        self._spreads = FIRST_SPREADS
        self._seen: tuple[Array, Array, float] | None = None

    def bend(self, curvature: BlendedCurvature) -> None:
        """Take in the curvature at the present weights. It replaces what was believed, and what earlier gradients told of it."""
        self.curvature = curvature.matrix
        self._variance = CURVATURE_NOISE * curvature.variance
        self._seen = None

    def see(self, gradient: Array, variance: float) -> None:
        """Take in the gradient at the present weights, whose entries have noise of this variance, and move."""
        if self._seen is not None:
            before, slope, noise = self._seen
            self.curvature = secant_update(self.curvature, self.weights - before, gradient - slope, variance + noise)
        self._seen = (self.weights, gradient, variance)
        step = self._update(gradient, max(variance, 1e-12), self._spreads)
        self._spreads = LATER_SPREADS
        length = np.sqrt(max(float(step @ self.curvature @ step), 0.0) / self._people)
        self.weights = self.weights - step * min(1.0, LONGEST / max(length, 1e-12))

    def _update(self, gradient: Array, variance: float, spreads: Array) -> Array:
        """Return the posterior mean of b − b*, averaged over how wide the belief should have been; narrow the belief."""
        response = self._covariance @ self.curvature
        signal = self.curvature @ response
        values, vectors = np.linalg.eigh((signal + signal.T) / 2)
        values, rotated = np.maximum(values, 0.0), vectors.T @ gradient
        blurred = values + self._variance * float(np.trace(self._covariance))
        expected = np.maximum(spreads[:, None] * blurred + variance, np.finfo(float).tiny)
        surprise = np.sum(np.log(expected) + rotated**2 / expected, axis=1) / 2 - np.log(spreads)
        belief = np.exp(surprise.min() - surprise)
        belief /= belief.sum()
        turned = response @ vectors
        step = turned @ ((belief @ (spreads[:, None] / expected)) * rotated)
        explained = (turned * (belief @ (spreads[:, None] ** 2 / expected))) @ turned.T
        own, mean = LINEARISATION
        left = float(belief @ spreads) * self._covariance - explained
        left += np.diag(own * step**2 + mean * float(np.mean(step**2)))
        self._covariance = (left + left.T) / 2
        return np.asarray(step)


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
        Of the noise in an entry.
    """

    weights: Array
    values: Array
    variance: float


@dataclass(frozen=True, eq=False)
class NewtonClass:
    """What the rounds of one class came to, in coded columns with the constant first.

    Parameters
    ----------
    weights
        The weights at the end.
    curvature_at
        The weights after the first step, where the curvature was opened.
    moments
        The release that the start follows from, of the same columns.
    curvature, curvature_variance
        The weighted Gram matrix as it was opened, or ``None`` if it was lost; the variance of its entries off the diagonal.
    gradients
        All gradients, but for those that were lost.
    """

    weights: Array
    curvature_at: Array
    moments: Moments
    curvature: Array | None
    curvature_variance: float
    gradients: tuple[OpenedGradient, ...]


def secant_update(curvature: Array, moved: Array, changed: Array, variance: float) -> Array:
    """Return the curvature that explains how the gradient changed along a step, as far as that is not noise [BFGS, damped]."""
    expected = curvature @ moved
    bent = float(moved @ expected)
    if bent <= 0:
        return curvature
    surprise = changed - expected
    kept = float(np.clip(1 - len(moved) * variance / max(float(surprise @ surprise), 1e-300), 0.0, 1.0))
    changed = expected + kept * surprise
    along = float(moved @ changed)
    if along < SECANT_FLOOR * bent:
        part = (1 - SECANT_FLOOR) * bent / (bent - along)
        changed = part * changed + (1 - part) * expected
        along = float(moved @ changed)
    return np.asarray(curvature - np.outer(expected, expected) / bent + np.outer(changed, changed) / along)
