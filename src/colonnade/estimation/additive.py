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
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import Feature
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Division, secant_update
from colonnade.estimation.shapes import PROBE, Component, OpenedTables, ShapePrior, places_by_column
from colonnade.privacy.laws.newton import CURVATURE

__all__ = [
    "FEW_PRODUCTS",
    "STEPS",
    "TABLES",
    "AdditiveFit",
    "AdditiveSearch",
]

Array = NDArray[np.float64]

TABLES = Division(1, 1, (24, 24, 16, 34))
"""How a price is divided where products of columns would be lost in noise: hardly anything goes to them."""
STEPS = Division(16, 16, (8, 4, 8, 8, 8, 32))
"""How a price is divided otherwise. In both, the first two steps are the tables."""
FEW_PRODUCTS = 0.02
"""Tables are all that is worth paying for if the noise in an entry of the Gram matrix exceeds this part of the people."""
PROBES = 2
FIRST_VARIANCE, PSEUDO_BINS = 0.03, 1.0
"""The variance of an effect before anything is seen, and how many bins that counts as."""
ROUNDS_OF_MAXIMISATION = 6
LINEARISATION = 0.03
"""Which part of a squared change of slope is added to the variance of a gradient that was opened elsewhere."""
LONGEST = 1.0
"""The longest step, as the root mean square by which it moves the score of a typical person, in log-odds."""
WEIGHT_RATIO, WEIGHT_SPREAD = 0.8, 0.3
"""What a person's weight is on average, relative to that at the constant score, and how far that may be off."""
SMALLEST_SHARE = 0.005
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class AdditiveFit:
    """What the openings came to, in features with the constant first.

    Parameters
    ----------
    weights
        Effects, not centred.
    covariance
        What noise leaves uncertain of the estimate that the same people, with the same belief, give without noise.
    sampling
        What the sampling of people adds.
    believed
        The covariance of effects before anything was seen, with the variances that were found.
    people
        People in every bin, as well as they are known; whole columns add up.
    tables
        As they were opened; ``None`` if they were lost.
    """

    weights: Array
    covariance: Array
    sampling: Array
    believed: Array
    people: Array
    tables: OpenedTables | None

    def covariance_in(self, combinations: Array) -> Array:
        """Return the covariance of combinations of effects, the sampling of people included."""
        return np.asarray(combinations @ (self.covariance + self.sampling) @ combinations.T)


@dataclass(frozen=True, eq=False)
class _Seen:
    at: Array
    gradient: Array
    variance: float
    curvature: tuple[Array, float] | None
    """The curvature there with the variance of an entry, if it is another one than the latest."""


class AdditiveSearch:
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
        self._prior, self._moments, self._secants = prior, moments, secants
        self._columns = places_by_column(features)
        kept = np.append(0, moments.places(list(self._columns)))
        block = np.ix_(kept, kept)
        self._gram, self._gram_variance = moments.matrix[block], moments.variance[block]
        owner = np.array([feature.column for feature in features])
        self._cross = owner[:, None] != owner
        self._cross[0] = self._cross[:, 0] = False
        self._single = (owner[:, None] == owner) & ~np.eye(len(owner), dtype=bool)
        self._variances = np.full(len(prior.components), FIRST_VARIANCE)
        self._lows: tuple[Array, float] | None = None
        self._opened: tuple[Array, float] | None = None
        self._seen: list[_Seen] = []
        self.tables: OpenedTables | None = None
        events = float(moments.matrix[0] @ target)
        self._begin(self._noisy_people(), events, *self._moment_gradient(kept, target, events))
        self.weights = self._solved()
        self._rounds = 0

    @property
    def next_weights(self) -> Array:
        """The weights at which the next round is to be opened."""
        if self._rounds not in range(1, 1 + PROBES):
            return self.weights
        probe = np.zeros(self._prior.size)
        probe[0] = PROBE if self._rounds == PROBES else -PROBE
        return probe

    def see(self, opened: Array | None, variance: float) -> None:
        """Take in what the next round opened, with noise of this variance per entry; ``None`` if that was lost.

        The first is the curvature as a matrix, off its diagonal of this variance. Two tables and the gradients follow.
        """
        number, self._rounds = self._rounds, self._rounds + 1
        if number == CURVATURE:
            self._opened = None if opened is None else (opened, variance)
        elif number == 1:
            self._lows = None if opened is None else (opened, variance)
        elif number == PROBES:
            if opened is not None and self._lows is not None:
                self._take_tables(OpenedTables(self._lows[0], opened, (self._lows[1], variance)))
            self._take_curvature()
        elif opened is not None:
            self._take_gradient(opened, variance)

    def result(self) -> AdditiveFit:
        """Return what it came to."""
        self.weights = self._solved()
        spread = self._prior.covariance(self._variances)
        _, variance = self._reading(self.weights)
        whole, sampling = self._left(spread, variance), self._left(spread, TINY)
        return AdditiveFit(self.weights, whole - sampling, sampling, spread, self._people, self.tables)

    def _left(self, spread: Array, variance: float) -> Array:
        """Return the covariance of effects after a reading with noise of this variance."""
        known = self._curvature @ np.linalg.solve(self._expected(spread, variance), self._curvature)
        left = spread - spread @ known @ spread
        return np.asarray((left + left.T) / 2)

    # Where it begins ----------------------------------------------------------------------------------------------------

    def _noisy_people(self) -> Array:
        """Return people in every bin as the Gram matrix has them: in its first row and on its diagonal."""
        rows, corner = self._gram[0], np.diag(self._gram)
        variances = self._gram_variance[0], np.diag(self._gram_variance)
        both = variances[0] + variances[1]
        part = np.divide(variances[1], both, out=np.ones_like(both), where=both > 0)
        variance = float(np.mean((part**2 * variances[0] + (1 - part) ** 2 * variances[1])[1:]))
        return self._adding_up(part * rows + (1 - part) * corner, variance)

    def _moment_gradient(self, kept: NDArray[np.intp], target: Array, events: float) -> tuple[Array, float]:
        products = (self._moments.matrix @ target)[kept]
        variance = float(np.mean((self._moments.variance @ target**2)[kept]))
        share = self._share_of(events)
        return share * self._noisy_people() - products, variance

    def _share_of(self, events: float) -> float:
        return float(np.clip(events / self._moments.count, SMALLEST_SHARE, 1 - SMALLEST_SHARE))

    def _begin(self, people: Array, events: float, gradient: Array, variance: float) -> None:
        """Start from a constant score, with the gradient there."""
        share = self._share_of(events)
        self._people, self._weight = people, share * (1 - share)
        self._base = np.zeros(self._prior.size)
        self._base[0] = np.log(share) - np.log1p(-share)
        self._blended, self._kept = self._blended_gram(people)
        self._curvature = self._weight * self._blended
        self._uncertain = float(np.mean(self._weight**2 * self._kept**2 * self._gram_variance * self._cross))
        self._seen = [_Seen(self._base, gradient, variance, (self._curvature, self._uncertain))]
        self.weights = self._base

    def _blended_gram(self, people: Array) -> tuple[Array, float]:
        """Return the Gram matrix of independent columns, moved to the opened one as far as they differ by more than noise."""
        independent = np.outer(people, people) / self._moments.count
        independent[self._single] = 0.0
        np.fill_diagonal(independent, people)
        independent[0, 0] = self._moments.count
        apart = np.where(self._cross, self._gram - independent, 0.0)
        noise = float(np.sum(self._gram_variance * self._cross))
        kept = float(np.clip(1 - noise / max(float(np.sum(apart**2)), 1e-300), 0.0, 1.0))
        return self._proper(independent + kept * apart), kept

    def _proper(self, matrix: Array) -> Array:
        """Return the nearest matrix without negative eigenvalues in which the levels of a column add up to the constant."""
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        proper = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return np.asarray(self._project @ proper @ self._project)

    @cached_property
    def _project(self) -> Array:
        surplus = np.zeros((self._prior.size, len(self._columns)))
        surplus[0] = 1.0
        for number, places in enumerate(self._columns.values()):
            surplus[places, number] = -1.0
        basis, _ = np.linalg.qr(surplus)
        return np.asarray(np.eye(self._prior.size) - basis @ basis.T)

    def _adding_up(self, people: Array, variance: float) -> Array:
        """Return counts that are not negative and add up to everybody in each column, pulled to equal ones by their noise."""
        everybody = float(self._moments.count)
        found = np.array(people)
        found[0] = everybody
        for places in self._columns.values():
            size, even = len(places), everybody / len(places)
            apart = people[places] - people[places].mean()
            kept = float(np.clip(1 - (size - 1) * variance / max(float(apart @ apart), 1e-300), 0.0, 1.0))
            found[places] = _onto_simplex(even + kept * apart, everybody)
        return found

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
        self._variances = np.full(len(self._prior.components), FIRST_VARIANCE)
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

    def _expected(self, spread: Array, variance: float) -> Array:
        """Return the covariance of the reading: effects, the sampling of people, and noise."""
        return np.asarray(self._curvature @ spread @ self._curvature + self._curvature + variance * np.eye(len(spread)))

    def _solved(self) -> Array:
        """Return the likeliest effects, and keep the variances of their parts under which the openings are likeliest."""
        weights, curvature = self.weights, self._curvature
        for _ in range(ROUNDS_OF_MAXIMISATION):
            spread = self._prior.covariance(self._variances)
            reading, variance = self._reading(weights)
            inverse = np.linalg.inv(self._expected(spread, variance))
            pulled, known = curvature @ (inverse @ reading), curvature @ inverse @ curvature
            self._variances = np.array(
                [
                    _likelier(component, variance, pulled, known)
                    for component, variance in zip(self._prior.components, self._variances, strict=True)
                ]
            )
            weights = self._base + spread @ pulled
        spread = self._prior.covariance(self._variances)
        reading, variance = self._reading(weights)
        solved = np.linalg.solve(self._expected(spread, variance), reading)
        return np.asarray(self._base + spread @ (curvature @ solved))


def _likelier(component: Component, variance: float, pulled: Array, known: Array) -> float:
    """Return the variance of a part after one round of expectation and maximisation."""
    own = pulled[component.places]
    found = variance**2 * float(own @ component.basis @ own)
    inside = known[np.ix_(component.places, component.places)]
    left = variance * (component.rank - variance * float(np.sum(component.basis * inside)))
    return (found + left + PSEUDO_BINS * FIRST_VARIANCE) / (component.rank + PSEUDO_BINS)


def _onto_simplex(values: Array, total: float) -> Array:
    """Return the nearest numbers that are not negative and add up to the total."""
    falling = np.sort(values)[::-1]
    surplus = np.cumsum(falling) - total
    last = np.flatnonzero(falling - surplus / np.arange(1, len(values) + 1) > 0)[-1]
    return np.asarray(np.maximum(values - surplus[last] / (last + 1), 0.0))
