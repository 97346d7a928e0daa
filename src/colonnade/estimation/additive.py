"""Additive models at the coordinator: smooth shapes from the noisy openings of Newton steps.

Every column is read in bins or levels, of which each person has one. A model adds up one effect per column. The openings are
those of Newton steps on shares: a Gram matrix, a curvature, and gradients at weights that the coordinator publishes. What is
made of them here is post-processing and costs nothing.

*Tables first.* The first two gradients are opened at a constant score, once far below 0 and once far above. They are nearly
the counts of people with and without the event in every bin (`OpenedTables`). So the weights of evidence come from the
release itself. A gradient's noise grows with the root of the number of columns, a Gram matrix's with that number: where ε is
small, tables tell far more than moments do.

*Shapes.* Effects are believed to be normal with variances that differ by column (`ShapePrior`). Ordered bins have a straight part
and a smooth part, each with a variance of its own. Levels have one variance per column. The variances are those under which
the openings are likeliest (expectation-maximisation), so they follow from the release alone. A column that says little is pulled
to no effect.

*Curvature.* Where products of columns are lost in noise, columns are taken to be independent: then counts tell the curvature.
A Gram matrix and the opened curvature replace that as far as they differ from it by more than their noise.

Weights of evidence: what each column tells by itself, from its table with the target, and one slope for their sum.

*Tables.* For every column there is a noisy count of people by bin and by event (`TargetCounts`). A table is enough for the
likelihood of a model of that column alone. So each column's effects follow from it by a few rounds of Newton's method with the
same belief about shapes as everywhere (`colonnade.estimation.shape_belief`). They cost nothing beside the tables
(`marginal_shapes`).

*Recalibration.* Added up, the effects of columns that partly measure the same count twice. A histogram of the sum by event tells
by how much: intercept and slope of a logistic regression on that one number (`recalibration`). Both have a prior, so that a
histogram lost in noise moves them little.

*Effects.* What is shown is centred: effects against the average person, monotone where they have to be (`centred_effects`).

*Choice.* A column's score is the information that its effects carry about the event, in nats per person (`information`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Division, secant_update
from colonnade.estimation.regression import Inference, inverse_of
from colonnade.estimation.shape_belief import (
    FIRST_VARIANCE,
    PROBE,
    SMALLEST_SHARE,
    AdditiveFit,
    Component,
    OpenedTables,
    ShapeBelief,
    ShapePrior,
    TargetCounts,
    adding_up,
    kept_apart,
    likelier,
    places_by_column,
)
from colonnade.families import LOGISTIC
from colonnade.schema import Column, Feature

Array = NDArray[np.float64]

ROUNDS = 12
SHIFT = 0.05
"""The variance of what all bins of a column may have in common: its table need not add up to the number of events exactly."""
TINY = 1e-9
USUAL_SLOPE, SLOPE_SPREAD, INTERCEPT_SPREAD = 0.8, 0.3, 0.5
"""Where the slope of added-up effects usually is, and how far slope and intercept may be from where they are expected."""
LARGEST_SCORE = 12.0
LEAST_VARIANCE = 4.0
"""The least variance of effects that errors are computed with: noise hides how large effects are."""
LONGEST_EVIDENCE = 0.5
ALIKE = 2.0
"""How much farther scores spread than those of independent columns would."""


def marginal_shapes(prior: ShapePrior, features: Sequence[Feature], counts: TargetCounts) -> AdditiveFit:
    """Return what each column tells by itself, in log-odds against everybody.

    Parameters
    ----------
    prior, features
        What is believed about shapes, and the coded columns, the constant first.
    counts
        The tables.
    """
    size = len(features)
    weights, people = np.zeros(size), np.array(counts.people)
    error, sampling, believed = np.zeros((3, size, size))
    weights[0] = counts.log_odds
    for places in places_by_column(features).values():
        own = [
            replace(one, places=np.searchsorted(places, one.places))
            for one in prior.components
            if one.places[0] in places
        ]
        people[places] = adding_up(counts.people[places], counts.people_variance, float(counts.people[0]))
        noise = _ReadingNoise(counts.variance, kept_apart(counts.people[places], counts.people_variance))
        block = np.ix_(places, places)
        weights[places], error[block], sampling[block], believed[block] = _one_column(
            own, people[places], counts.events[places], counts.log_odds, noise
        )
    return AdditiveFit(weights, error, sampling, believed, people, counts)


@dataclass(frozen=True)
class _ReadingNoise:
    """The noise of a reading: of people with the event, less a bin's people times their chance.

    Both have the noise n of the cell with the event, and people also that of the other, m. So far as people are pulled to equal
    counts (1 − kept), their noise is gone and the reading keeps n: n − chance·kept·(n + m).
    """

    variance: float
    kept: float

    def at(self, chance: Array) -> Array:
        part = self.kept * chance
        return self.variance * ((1 - part) ** 2 + part**2)


def _one_column(
    components: Sequence[Component], people: Array, events: Array, base: float, counted: _ReadingNoise
) -> tuple[Array, Array, Array, Array]:
    """Return effects of one column, the covariance of their errors by noise and by sampling, and the one that was believed."""
    variances = np.array([one.variance or FIRST_VARIANCE for one in components])
    effects = np.zeros(len(people))
    for _ in range(ROUNDS):
        spread = _spread(components, variances, len(people))
        chance = LOGISTIC.mean(base + effects)
        curvature = people * chance * (1 - chance)
        noise = counted.at(chance)
        reading = curvature * effects - (people * chance - events)
        inverse = inverse_of(_expected(curvature, spread, noise))
        pulled = curvature * (inverse @ reading)
        known = curvature[:, None] * inverse * curvature
        variances = np.array([likelier(one, v, pulled, known) for one, v in zip(components, variances, strict=True)])
        effects = np.clip(spread @ pulled, -LARGEST_SCORE, LARGEST_SCORE)
    spread = _spread(components, variances, len(people))
    wide = _spread(components, np.maximum(variances, LEAST_VARIANCE), len(people))
    sampling = _left(curvature, wide, np.full(len(people), TINY))
    free = sampling  # a reading r without noise gives (C + W⁻¹)⁻¹ r, which is what sampling leaves
    given = spread * curvature @ inverse
    pulled = _pull(free, given, reading, noise)
    error = (free * noise) @ free.T + np.outer(pulled, pulled)
    return effects, error, sampling, spread


def _pull(free: Array, pulled: Array, reading: Array, noise: Array) -> Array:
    """Return how far noise has pulled effects, as far as that is more than noise itself would show.

    Parameters
    ----------
    free, pulled
        What makes effects of a reading: without regard to its noise, and as they were made.
    reading, noise
        The reading, and the variance of the noise in each entry.
    """
    apart = free - pulled
    far = apart @ reading
    return np.asarray(np.sign(far) * np.sqrt(np.maximum(far**2 - apart**2 @ noise, 0.0)))


def _left(curvature: Array, spread: Array, noise: Array) -> Array:
    """Return the covariance of effects after a reading."""
    known = curvature[:, None] * inverse_of(_expected(curvature, spread, noise)) * curvature
    left = spread - spread @ known @ spread
    return np.asarray((left + left.T) / 2)


def _spread(components: Sequence[Component], variances: Array, size: int) -> Array:
    found = np.full((size, size), SHIFT)
    for component, variance in zip(components, variances, strict=True):
        found[np.ix_(component.places, component.places)] += variance * component.basis
    return found


def _expected(curvature: Array, spread: Array, noise: Array) -> Array:
    """Return the covariance of a reading: effects, the sampling of people, and noise."""
    return np.asarray(curvature[:, None] * spread * curvature + np.diag(curvature + noise))


# One slope -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recalibration:
    """What added-up effects are multiplied by, and the intercept beside it.

    Parameters
    ----------
    intercept, slope
        The log-odds of the event are ``intercept + slope * score``.
    intercept_error, slope_error
        Their standard errors: noise, the sampling of people, and what was believed before.
    """

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float


def recalibration(
    scores: Array,
    counts: Array,
    variance: float,
    expected: float,
    *,
    spread: float,
    smoothed: Callable[[Array], Array] | None = None,
) -> Recalibration:
    """Return intercept and slope of the log-odds of an event on a score.

    A bin counts as far as people can be expected there: one that holds noise alone would move the slope most, being far out.

    Parameters
    ----------
    scores
        The score in the middle of every bin.
    counts
        Noisy counts, one row per bin: people without the event, and with it.
    variance
        Of the noise in a count.
    expected
        The intercept to expect: the log-odds of the event where the score is 0.
    spread
        The standard deviation of scores to expect, around 0.
    smoothed
        What rounding does to values by bin (`ScoreCounts.smoothed`); nothing by default.

    Examples
    --------
    >>> scores = np.linspace(-4, 4, 33)
    >>> chance = 1 / (1 + np.exp(-(0.3 + 0.6 * scores)))
    >>> counts = 10_000 * np.column_stack([1 - chance, chance])
    >>> found = recalibration(scores, counts, 1.0, 0.0, spread=2.0)
    >>> round(found.intercept, 2), round(found.slope, 2)
    (0.3, 0.6)
    """
    rounded = smoothed or (lambda values: values)
    design = np.column_stack([np.ones_like(scores), scores])
    middle = np.array([expected, USUAL_SLOPE])
    precision = np.diag([1 / INTERCEPT_SPREAD**2, 1 / SLOPE_SPREAD**2])
    people, events = counts.sum(axis=1), counts[:, 1]
    usual = np.exp(-((scores / spread) ** 2) / 2) + TINY
    usual *= max(float(people.sum()), 1.0) / usual.sum()
    held = np.maximum(people, 0.0)  # for the curvature alone: fewer than nobody would bend it the wrong way
    found, left = middle, np.linalg.inv(precision)
    for _ in range(4 * ROUNDS):
        chance = rounded(LOGISTIC.mean(design @ found))
        bend, noise = chance * (1 - chance), variance * (chance**2 + (1 - chance) ** 2)
        trust = usual * bend / (usual * bend + noise)
        gradient = design.T @ (trust * (people * chance - events))
        slope = (design * (trust * held * bend)[:, None]).T @ design
        doubt = (design * (trust**2 * (held * bend + noise))[:, None]).T @ design
        known = slope.T @ np.linalg.pinv(doubt)
        left = np.linalg.inv(known @ slope + precision)
        step = left @ (-known @ gradient - precision @ (found - middle))
        found = found + step * min(1.0, LONGEST_EVIDENCE / max(float(np.abs(step).max()), 1e-12))
        found[1] = max(found[1], 0.0)  # a score that pointed the other way would be noise
    errors = np.sqrt(np.diag(left))
    return Recalibration(float(found[0]), float(found[1]), float(errors[0]), float(errors[1]))


def rescaled(found: AdditiveFit, told: Recalibration) -> AdditiveFit:
    """Return marginal effects times the slope, beside the intercept; errors grow with the slope."""
    squared = told.slope**2
    return AdditiveFit(
        np.append(told.intercept, told.slope * found.weights[1:]),
        squared * found.covariance,
        squared * found.sampling,
        squared * found.believed,
        found.people,
        found.tables,
    )


def expected_spread(found: AdditiveFit, features: Sequence[Feature]) -> float:
    """Return the standard deviation to expect of added-up effects: twice that of independent columns, for those that are not."""
    squares = [variance for _, variance in _variances(found, features)]
    return ALIKE * float(np.sqrt(max(sum(squares), TINY)))


# Choice ----------------------------------------------------------------------------------------------------------------------


def information(found: AdditiveFit, features: Sequence[Feature]) -> dict[str, float]:
    """Return how much each column tells about the event by itself: half the variance of its effects over people, in nats.

    Effects are pulled to 0 as far as noise asks for it, so a column of noise has little.
    """
    share = float(LOGISTIC.mean(found.weights[:1])[0])
    return {name: 0.5 * share * (1 - share) * variance for name, variance in _variances(found, features)}


def _variances(found: AdditiveFit, features: Sequence[Feature]) -> list[tuple[str, float]]:
    """Return the variance of each column's effects over people."""
    variances = []
    for name, places in places_by_column(features).items():
        part = found.people[places] / found.people[places].sum()
        apart = found.weights[places] - part @ found.weights[places]
        variances.append((name, float(part @ apart**2)))
    return variances


TABLES = Division(1, (16, 1, 8, 20, 20, 34))
"""How a price is divided where products of columns would be lost in noise: hardly anything goes to them."""
STEPS = Division(16, (8, 16, 4, 8, 8, 8, 32))
"""How a price is divided otherwise. In both, the first two steps are the tables."""
FEW_PRODUCTS = 0.02
"""Tables are all that is worth paying for if the noise in an entry of the Gram matrix exceeds this part of the people."""
FIRST_TABLE, CURVATURE, SECOND_TABLE = 0, 1, 2
"""The rounds that open the tables, and the curvature between them."""
LINEARISATION = 0.03
"""Which part of a squared change of slope is added to the variance of a gradient that was opened elsewhere."""
LONGEST = 1.0
"""The longest step, as the root mean square by which it moves the score of a typical person, in log-odds."""
WEIGHT_RATIO, WEIGHT_SPREAD = 0.8, 0.3
"""What a person's weight is on average, relative to that at the constant score, and how far that may be off."""


@dataclass(frozen=True, eq=False)
class _Seen:
    at: Array
    gradient: Array
    variance: float
    curvature: tuple[Array, float] | None
    """The curvature there with the variance of an entry, if it is another one than the latest."""


class AdditiveSearch(ShapeBelief):
    """A belief about effects that one opening after another moves.

    Parameters
    ----------
    prior
        What is believed at first.
    features
        The coded columns, the constant first.
    moments
        The noisy Gram matrix, of features and target.
    target
        Weights over the columns of ``moments`` that make 0 or 1 of the target.
    secants
        Whether later gradients correct the curvature. Where they are mostly noise they had better not.
    """

    def __init__(
        self, prior: ShapePrior, features: Sequence[Feature], moments: Moments, target: Array, *, secants: bool
    ) -> None:
        super().__init__(prior, features, moments)
        self._secants = secants
        self._lows: tuple[Array, float] | None = None
        self._opened: tuple[Array, float] | None = None
        self._seen: list[_Seen] = []
        self.tables: OpenedTables | None = None
        events = float(moments.matrix[0] @ target)
        self._begin(self._noisy_people(), events, *self._moment_gradient(target, events))
        self.weights = self._solved()
        self._rounds = 0

    @property
    def next_weights(self) -> Array:
        """The weights at which the next round is to be opened."""
        if self._rounds not in (FIRST_TABLE, SECOND_TABLE):
            return self.weights
        probe = np.zeros(self._prior.size)
        probe[0] = PROBE if self._rounds == SECOND_TABLE else -PROBE
        return probe

    def see(self, opened: Array | None, variance: float) -> None:
        """Take in what the next round opened, with noise of this variance per entry; ``None`` if that was lost.

        First a table, then the curvature as a matrix, off its diagonal of this variance, then the other table and the gradients.
        """
        number, self._rounds = self._rounds, self._rounds + 1
        if number == CURVATURE:
            self._opened = None if opened is None else (opened, variance)
        elif number == FIRST_TABLE:
            self._lows = None if opened is None else (opened, variance)
        elif number == SECOND_TABLE:
            if opened is not None and self._lows is not None:
                self._take_tables(OpenedTables(self._lows[0], opened, (self._lows[1], variance)))
            self._take_curvature()
        elif opened is not None:
            self._take_gradient(opened, variance)

    def result(self) -> AdditiveFit:
        """Return the result."""
        return self._fit(self.tables, self._seen[-1].at)

    # Where it begins ----------------------------------------------------------------------------------------------------

    def _moment_gradient(self, target: Array, events: float) -> tuple[Array, float]:
        products = (self._moments.matrix @ target)[self._kept_places]
        variance = float(np.mean((self._moments.variance @ target**2)[self._kept_places]))
        share = self._share_of(events)
        return share * self._noisy_people() - products, variance

    def _share_of(self, events: float) -> float:
        return float(np.clip(events / self._moments.count, SMALLEST_SHARE, 1 - SMALLEST_SHARE))

    def _begin(self, people: Array, events: float, gradient: Array, variance: float) -> None:
        """Start from a constant score, with the gradient there."""
        share = self._share_of(events)
        self._people, self._weight = people, share * (1 - share)
        self._base = np.zeros(self._prior.size)
        self._base[0] = LOGISTIC.score(share)
        self._blended, self._kept = self._blended_gram(people)
        self._curvature = self._weight * self._blended
        self._uncertain = float(np.mean(self._weight**2 * self._kept**2 * self._gram_variance * self._cross))
        self._seen = [_Seen(self._base, gradient, variance, (self._curvature, self._uncertain))]
        self.weights = self._base

    # What is opened later -------------------------------------------------------------------------------------------------

    def _take_tables(self, tables: OpenedTables) -> None:
        """Start again from the tables, with the Gram matrix's counts for what they are worth."""
        self.tables = tables
        rows, others = self._gram[0], np.maximum(self._gram_variance[0], 1e-12)
        part = others / (others + tables.people_variance)
        part[0] = 0.0
        people = part * tables.people + (1 - part) * rows
        variance = float(np.mean((part * tables.people_variance)[1:]))
        events = float(tables.events[0])
        self._forget()
        self._begin(self._adding_up(people, variance), events, *tables.gradient(self._share_of(events)))
        self.weights = self._solved()

    def _take_curvature(self) -> None:
        """Replace the curvature by the opened one, as far as it differs from a multiple of the Gram matrix by more than noise."""
        usual, gram = WEIGHT_RATIO * self._weight, self._blended
        factor, kept, noise = usual, 0.0, np.zeros_like(gram)
        apart = np.zeros_like(gram)
        if self._opened is not None:
            opened = np.where(self._single, 0.0, self._opened[0])
            noise = np.where(self._single, 0.0, self._opened[1] * (1 + np.eye(len(gram))))
            length = float(np.sum(gram * gram))
            error = float(np.sum(noise * gram**2)) / length**2
            spread = (WEIGHT_SPREAD * self._weight) ** 2
            factor = (float(np.sum(opened * gram)) / length * spread + usual * error) / (spread + error)
            apart = opened - factor * gram
            kept = float(np.clip(1 - np.sum(noise) / max(float(np.sum(apart**2)), 1e-300), 0.0, 1.0))
        self._curvature = self._proper(factor * gram + kept * apart)
        old = (1 - kept) ** 2 * factor**2 * self._kept**2 * self._gram_variance * self._cross
        self._uncertain = float(np.mean(kept**2 * noise + old))

    def _take_gradient(self, gradient: Array, variance: float) -> None:
        last = self._seen[-1]
        if self._secants and last.curvature is None:
            self._curvature = secant_update(
                self._curvature, self.weights - last.at, gradient - last.gradient, variance + last.variance
            )
        self._seen.append(_Seen(self.weights, gradient, variance, None))
        step = self._solved() - self.weights
        length = np.sqrt(max(float(step @ self._curvature @ step), 0.0) / self._moments.count)
        self.weights = self.weights + step * min(1.0, LONGEST / max(length, 1e-12))

    # The belief -------------------------------------------------------------------------------------------------------------

    def _reading(self, weights: Array) -> tuple[Array, float]:
        """Return all gradients as one, read as curvature times effects plus noise; and the variance of that noise.

        A gradient from elsewhere is taken along its slope to ``weights``, and counts less for it.
        """
        found, precision = np.zeros(self._prior.size), 0.0
        for seen in self._seen:
            slope, uncertain = seen.curvature or (self._curvature, self._uncertain)
            moved = weights - seen.at
            change = slope @ moved
            doubt = LINEARISATION * float(change @ change) / len(change) + uncertain * float(moved @ moved)
            trust = 1 / max(seen.variance + doubt, 1e-12)
            found += trust * (seen.gradient + change)
            precision += trust
        return self._curvature @ (weights - self._base) - found / precision, 1 / precision


# Effects as they are shown --------------------------------------------------------------------------------------------


def centred_effects(
    found: AdditiveFit,
    features: Sequence[Feature],
    columns: Mapping[str, Column],
    monotone: Mapping[str, str],
    *,
    unit: float = 1.0,
) -> Inference:
    """Return effects against the average person, the intercept last: monotone where they have to be, with their errors.

    Parameters
    ----------
    found, features, columns
        What was fitted, the constant first.
    monotone
        Columns whose effects only rise (``"increasing"``) or only fall.
    unit
        What an error is small against.
    """
    centred = centring(features, found.people)
    effects = centred @ found.weights
    for name, direction in monotone.items():
        places = places_by_column(features)[name]
        effects = _monotone(effects, places, found.people, columns[name], direction)
    order = np.append(np.arange(1, len(features)), 0)
    privacy, sampling = (
        (centred @ one @ centred.T)[np.ix_(order, order)] for one in (found.covariance, found.sampling)
    )
    hidden = ~found.determined_in(centred, unit)[order]
    return Inference(effects[order], privacy, sampling, hidden, 1.0)


def centring(features: Sequence[Feature], people: Array) -> Array:
    """Return the map from effects to effects against the average person; the constant takes what that moves."""
    centred = np.eye(len(features))
    for places in places_by_column(features).values():
        shares = people[places] / people[places].sum()
        centred[np.ix_(places, places)] -= shares
        centred[0, places] += shares
    return centred


def _monotone(effects: Array, places: NDArray[np.intp], people: Array, column: Column, direction: str) -> Array:
    """Return the nearest effects, weighted by people, of which those of a column's bins rise or fall; centred again."""
    assert column.is_binned  # as `AdditiveModel` has it
    ordered = places[: len(column.middles)]
    found = effects.copy()
    weights = people[ordered] + 1.0  # an empty bin follows its neighbours
    found[ordered] = isotonic_regression(effects[ordered], sample_weight=weights, increasing=direction == "increasing")
    moved = float(people[places] @ found[places]) / float(people[places].sum())
    found[places] -= moved
    found[0] += moved
    return found
