"""Newton steps at the coordinator: where to start, which curvature to use, and how far to trust a noisy gradient.

What the coordinator makes of noisy gradients is post-processing and costs nothing. It keeps a belief about the weights that the
same people give without noise, a mean and a covariance, in coded columns with the constant first. A gradient opened at weights
b is read as H·(b − b*) plus noise of a known variance (Kalman's update). Where noise outweighs the data the belief hardly
moves. Where it does not, the update is Newton's step. So one rule serves every ε, and no gradient is thrown away.

*Start.* Least squares on the noisy moments gives a direction (`colonnade.estimation.regression.NormalEquations`). Two readings
of it are averaged. The family's discriminant gives one slope for all columns, which is too steep where one level alone decides.
The scores of the fitted means at both ends of each column give slopes that are too flat where many columns act together.

*Curvature.* The first step is taken with the curvature that the plain Gram matrix leads one to expect (`expected_information`).
The weighted Gram matrix is opened once, after it. The two are blended, as far as they differ by no more than their noise. Each
later gradient tells how the slope really changed along the last step. A secant update (BFGS) takes that in, as far as it is
more than noise. Without it the steps would converge slowly, or not at all where the start was far off.

*What the weighted Gram matrix should be, from the plain one*: a model of how scores spread. The information at weights b is Σ
w(z)·x·xᵀ over people, with z a person's score and w the family's weight. The plain Gram matrix tells means and covariances of
columns and scores. So it tells which scores the people of a level have on average, and how scores move with a number. If scores
are normal around these means, the weighted sums follow in closed form::

    level i and level k        count of both · E[w]
    level i and number k       sum of both · E[w] + count · Cov(x_k, z | i) · E[w′]
    numbers i and k            sum of both · E[w] + people · (μ_i·Cov(x_k, z) + μ_k·Cov(x_i, z)) · E[w′]

(Stein's identity; the constant is a number without variance.) E is over a score that is normal around the mean of those who
have both levels. A plain multiple of the Gram matrix would give everybody the same weight, which is off by a factor of two and
more for levels whose people are seldom or mostly positive. On the four sets of benchmarks/newton this model is off by 4 to 9 %
at ε = 1, where a multiple is off by 11 to 27 %.

Everything here is a function of a release and of public weights.

*Intervals.* All gradients together are one more set of noisy equations. A gradient g was opened at known weights b₀, with noise
of a known variance. With the information A there, the estimate b that the same people give without noise solves A·b = A·b₀ − g
but for what the slope changes on the way, which is of second order in b − b₀. All gradients of a run say this with the same A,
so their weighted mean does (`pooled_gradient`). Noise in A counts as far as b lies from b₀
(`colonnade.estimation.regression.OpenedScore`). So does how far slopes may have changed since A was opened. Levels that add up
to the constant column make both A and g more precise (`colonnade.estimation.regression`).

A is told by two releases. The weighted Gram matrix has noise of its own. What the plain one leads one to expect has less noise
in many entries, and is off by as much as scores are not normal. Each entry is the mean of the two, weighted by these variances.
How far the expectation is off follows from all entries together (`weighted_information`).

Coefficients are taken to be moderately far from where A was opened, by `LEAST_DISTANCE` or more, not from 0: those weights are an
estimate already. The estimate of a coefficient is not pulled anywhere itself. The sampling of people has the covariance A⁻¹ as
in any likelihood, times the mean variance of targets in units of the mean weight (`dispersion`). `benchmarks/newton` shows how
often intervals cover.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import (
    LARGEST_EXPLAINED,
    Equations,
    Inference,
    NormalEquations,
    OpenedScore,
    RegressionInference,
    infer,
    level_sums,
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

NODES, MASS = np.polynomial.hermite_e.hermegauss(24)
MASS = MASS / MASS.sum()
LEAST_VARIANCE = 0.01
"""The least variance of scores, in squared units of the family's scores."""
LEAST_WITHIN = 0.1
"""The least part of the variance of scores that is left among people of one level, or of two."""
FARTHEST = 3.0
"""How many standard deviations of all scores, and one unit more, the people of a level are from the mean at most."""
MOST_ALIKE = 0.95
"""The largest correlation of two levels that is told from 1."""


def mean_weights(family: Family, means: Array, variances: Array) -> tuple[Array, Array]:
    """Return the means of w and of its slope w′ over scores that are normal.

    Examples
    --------
    >>> from colonnade.families import DEFAULT
    >>> weight, slope = mean_weights(DEFAULT, np.array([0.0]), np.array([0.0]))
    >>> weight.round(3), slope.round(3)
    (array([0.25]), array([0.]))
    """
    weights, slopes = family.weights(_normal(means, variances))
    return np.asarray(weights @ MASS), np.asarray(slopes @ MASS)


def _normal(means: Array, variances: Array) -> Array:
    """Return scores that stand for normal ones, each with its `MASS`."""
    return np.asarray(means[..., None] + np.sqrt(variances)[..., None] * NODES)


def dispersion(family: Family, moments: Moments, weights: Array) -> float:
    """Return how many times as large as weights the variances of targets are, over scores as they spread: 1 for a likelihood."""
    means = moments.matrix[0] / moments.count
    moved = (moments.matrix / moments.count - np.outer(means, means)) @ weights
    scores = _normal(means @ weights, np.maximum(weights @ moved, LEAST_VARIANCE))
    return float((family.variance(family.mean(scores)) @ MASS) / (family.weights(scores)[0] @ MASS))


def expected_information(family: Family, moments: Moments, weights: Array) -> tuple[Array, Array]:
    """Return the information matrix that moments lead one to expect, and the variance that their noise gives each entry.

    Parameters
    ----------
    family
        The model.
    moments
        A release of the columns, the constant first.
    weights
        One per column.

    Examples
    --------
    Half of the people have the level, and its coefficient is 4:

    >>> from colonnade import Category
    >>> from colonnade.families import DEFAULT
    >>> from colonnade.schema import features_of
    >>> features = features_of({"a.plan": Category(["basic", "gold"])})
    >>> moments = Moments(np.array([[90.0, 45, 45], [45, 45, 0], [45, 0, 45]]), np.zeros((3, 3)), 90, features)
    >>> matrix, _ = expected_information(DEFAULT, moments, np.array([0.0, 0.0, 4.0]))
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
    weight, slope = mean_weights(family, centres, np.maximum(left, LEAST_WITHIN * variance))
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
"""The longest step, as the root mean square by which it moves the score of a typical person."""
SMALLEST_SHARE = 0.02
"""Fitted means are kept this far from the least and the largest target where their scores are taken."""
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
        """Divide a price between the moments and the rounds of all classes, to the ledger's last unit."""
        rounds = sum(self.parts)
        unit = ledger_rho(price, (self.gram + rounds) * classes)
        return NewtonPrices(
            price_of_rho(unit * self.gram * classes, price.delta), price_of_rho(unit * rounds, price.delta)
        )


def start_weights(family: Family, moments: Moments, target: Array, places: NDArray[np.intp]) -> Array:
    """Return weights to start from, the constant's first.

    Parameters
    ----------
    family
        The model.
    moments
        Noisy second moments of features and target.
    target
        Weights over the release's columns that add up to the target.
    places
        Which columns are features.
    """
    equations = NormalEquations.of(moments, places)
    solution = equations.solve(target)
    (low, high), margin = family.targets, 1.0 / moments.count
    mean = float(np.clip(moments.matrix[0] @ target / moments.count, low + margin, high - margin))
    variance = float(family.variance(mean))
    ratio = float(np.clip(solution.explained / moments.count / variance, 0.0, LARGEST_EXPLAINED))
    slope, level = family.discriminant(mean, ratio)
    discriminant = np.append(level - slope * equations.means @ solution.weights, slope * solution.weights)
    readings = (discriminant, _at_both_ends(family, equations, solution.weights, mean))
    return np.asarray(np.mean(readings, axis=0), dtype=np.float64)


def _at_both_ends(family: Family, equations: NormalEquations, weights: Array, mean: float) -> Array:
    """Read the fit as means at both ends of each column, and take their scores."""
    moments, places = equations.moments, equations.places
    means = equations.means
    deviations = np.sqrt(np.maximum(np.diag(moments.matrix)[places] / moments.count - means**2, 1e-9))
    level = np.array([moments.features[place].kind == "level" for place in places])
    held = np.clip(means, 0.0, 1.0)
    above, below = np.where(level, 1 - held, deviations), np.where(level, held, deviations)
    low, high = family.targets
    margin = min(SMALLEST_SHARE, (mean - low) / 2, (high - mean) / 2)
    ends = [np.clip(mean + weights * end, low + margin, high - margin) for end in (above, -below)]
    slopes = (family.score(ends[0]) - family.score(ends[1])) / np.where(level, 1.0, 2 * deviations)
    centred = moments.matrix[np.ix_(places, places)] / moments.count - np.outer(means, means)
    variance = max(float(slopes @ centred @ slopes), 0.0)
    return np.append(family.centre(mean, variance) - slopes @ means, slopes)


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
    def of(
        cls, family: Family, opened: Array | None, variance: float, moments: Moments, weights: Array
    ) -> "BlendedCurvature":
        """Blend an opened curvature with what the moments of the same columns lead one to expect.

        Parameters
        ----------
        family
            The model.
        opened, variance
            The weighted Gram matrix, or ``None`` if it was lost; the variance of its entries off the diagonal.
        moments
            Of the columns, the constant first. Products of two levels of one column are exactly 0.
        weights
            Where the curvature was opened.
        """
        expected, expected_variance = expected_information(family, moments, weights)
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
    family
        The model.
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

    family: Family
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


EVERYBODY = 3**-0.5
"""By which part of their steepest weights change with scores, where these move either way: between none and all of it."""
NOTICED = 2.0
"""How many standard errors two gradients must disagree by for the slope between them to be taken as changed."""
MOST_CHANGED = 20.0
"""Scores that move weights by more than e to the power of this change them by as much."""
OFF = 0.15
"""The least part by which an expected weight of the people of two columns is off. On public sets it was 0.03 to 0.2."""
SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class WeightedInformation:
    """The information matrix as well as it is known.

    Parameters
    ----------
    matrix
        Over all coded columns, the constant first.
    variance
        Of the noise in each entry, independent on and above the diagonal.
    """

    matrix: Array
    variance: Array


def weighted_information(found: NewtonClass) -> WeightedInformation:
    """Return the information matrix where the curvature was opened, from that and the moments together.

    Parameters
    ----------
    found
        What the rounds came to.
    """
    moments = found.moments
    columns = np.array([feature.column for feature in moments.features])
    diagonal = np.eye(len(columns), dtype=bool)
    known = (columns[:, None] == columns[None, :]) & ~diagonal
    expected, other = (
        np.where(known, 0.0, one) for one in expected_information(found.family, moments, found.curvature_at)
    )
    if found.curvature is None:
        return WeightedInformation(expected, other + (expected / 2) ** 2)
    opened = np.where(known, 0.0, found.curvature)
    noise = np.where(known, 0.0, found.curvature_variance * (1 + diagonal))
    factor = float(np.sum(opened * expected) / max(float(np.sum(expected * expected)), SMALLEST))
    apart = opened - factor * expected
    sizes = np.maximum(_sizes(moments), np.abs(moments.matrix))
    size = np.where(known, 0.0, (factor * expected[0, 0] / moments.count * sizes) ** 2)
    excess = float(np.sum(apart**2 - noise - factor**2 * other)) / max(float(np.sum(size)), SMALLEST)
    other = factor**2 * other + max(excess, OFF**2) * size
    kept = np.where(known, 0.0, other / np.maximum(other + noise, SMALLEST))
    return WeightedInformation(factor * expected + kept * apart, kept * noise)


def _sizes(moments: Moments) -> Array:
    """Return how large sums of products of two columns' magnitudes are, if columns are unrelated; on the diagonal the squares."""
    people = moments.count
    levels = np.array([feature.kind == "level" for feature in moments.features])
    squares = np.clip(np.diag(moments.matrix), 1.0, people)
    sizes = np.where(levels, np.clip(moments.matrix[0], 1.0, people) / people, np.sqrt(squares / people))
    return np.where(np.eye(len(sizes), dtype=bool), np.diag(squares), people * np.outer(sizes, sizes))


@dataclass(frozen=True, eq=False)
class PooledGradient:
    """One gradient that stands for all.

    Parameters
    ----------
    weights
        Where.
    values
        The gradient there, one entry per coded column, the constant's first.
    variance
        Of the error in each entry: noise, and what slopes change on the way.
    """

    weights: Array
    values: Array
    variance: Array


def pooled_gradient(found: NewtonClass, information: WeightedInformation) -> PooledGradient:
    """Return one gradient that stands for all: the mean of the opened ones, at the mean of their weights.

    A gradient at b is H·(b − b*) plus noise, with b* what is sought. So means of gradients belong to means of weights, as far as
    H is the same. Each entry of each gradient counts by its precision: the noise, what noise in H does over the distance to the
    end, and how far H is off there (`_slope_changes`). Where entries count differently, H carries them to one place.

    Parameters
    ----------
    found
        What the rounds came to.
    information
        H.
    """
    matrix = information.matrix
    if not found.gradients:  # all were lost: nothing is known
        nothing = np.zeros_like(found.curvature_at)
        return PooledGradient(found.curvature_at, nothing, np.full(len(nothing), float(np.max(np.abs(matrix))) ** 2))
    places = np.array([one.weights for one in found.gradients])
    noise = np.array([one.variance for one in found.gradients])[:, None]
    moved = places - found.weights
    expected_changes = np.array([_slope_changes(found, matrix, place) for place in places])
    changes = np.hypot(expected_changes, _disagreements(found, information))
    shares = 1 / (noise + changes**2 + moved**2 @ information.variance)
    shares = shares / shares.sum(axis=0)
    mean = shares.mean(axis=1) @ places
    carried = np.einsum("kj,kl,jl->j", shares, places - mean, matrix)
    values = np.sum(shares * np.array([one.values for one in found.gradients]), axis=0) - carried
    variance = np.sum(shares**2 * noise, axis=0) + np.sum(shares * changes, axis=0) ** 2
    return PooledGradient(mean, values, variance)


def _slope_changes(found: NewtonClass, matrix: Array, place: Array) -> Array:
    """Return how far each entry of H·(b − b*) may be off, because H was opened elsewhere and people's weights change.

    A weight changes by at most a factor that the family knows per unit that a score moves. Scores of everybody move by a root
    mean square, either way. Those of people at the far end of a column move by as much as its own coefficient does, all one
    way. Where few have large values, they decide.
    """
    away = (place + found.weights) / 2 - found.curvature_at
    everybody = max(float(away @ matrix @ away), 0.0) / max(float(matrix[0, 0]), 1.0)
    steepest = found.family.steepest
    own = np.expm1(np.minimum(np.abs(steepest * _reach(found) * away), MOST_CHANGED))
    parts = np.sqrt((steepest * EVERYBODY) ** 2 * everybody + own**2)
    return np.asarray(parts * np.abs(matrix @ (place - found.weights)))


def _reach(found: NewtonClass) -> Array:
    """Return how far from the mean a column's far end is: for a level 1, for the constant nothing."""
    moments = found.moments
    levels = np.array([feature.kind == "level" for feature in moments.features])
    reach = np.where(levels, 1.0, 1 + np.abs(np.clip(moments.matrix[0] / moments.count, -1, 1)))
    reach[0] = 0.0
    return np.asarray(reach)


def _disagreements(found: NewtonClass, information: WeightedInformation) -> Array:
    """Return how far H is seen to be off between each gradient and the last one, by more than noise explains."""
    last = found.gradients[-1]
    seen = []
    for one in found.gradients:
        moved = one.weights - last.weights
        apart = np.abs(one.values - last.values - information.matrix @ moved)
        noise = one.variance + last.variance + information.variance @ moved**2
        seen.append(np.maximum(apart - NOTICED * np.sqrt(noise), 0.0))
    return np.array(seen)


LEAST_DISTANCE = 0.35
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
    opened = weighted_information(found)
    mean = pooled_gradient(found, opened)
    near, before = (told_apart @ np.append(one[1:], one[0]) for one in (found.curvature_at, mean.weights))
    information, gradient = sums @ opened.matrix @ sums.T, sums @ mean.values
    unbounded = np.zeros(len(gradient), dtype=bool)
    unbounded[-1] = True
    noise = OpenedScore(np.diag(mean.variance), opened.variance, before - near, sums)
    contrasts = contrasts_of_levels(columns)
    spread = dispersion(found.family, found.moments, found.curvature_at)
    equations = Equations(
        information,
        information @ (before - near) - gradient,
        noise,
        unbounded,
        lambda _: spread,
        prior=contrasts @ contrasts.T,
        least=LEAST_DISTANCE,
        leaking=LEAKING,
    )
    _, into = coefficients_to_own_units(columns)
    shown: tuple[Coding, Coding] = ("reference", "sum") if coding == "full" else (coding, coding)
    combinations = np.vstack([written_levels(columns, one) @ into @ free for one in shown])
    whole = infer(equations, combinations)
    whole.estimates[:] += combinations @ near
    written, unique = _part(whole, slice(0, len(into))), _part(whole, slice(len(into), 2 * len(into) - 1))
    return RegressionInference(written, np.hypot(unique.errors(total=False), fitted - unique.estimates))


def _part(inference: Inference, rows: slice) -> Inference:
    return Inference(
        inference.estimates[rows],
        inference.privacy[rows, rows],
        inference.sampling[rows, rows],
        inference.determined[rows],
        inference.dispersion,
    )
