"""A belief about the effects of binned columns, given a curvature and a noisy reading of it.

Two studies share it: Newton steps (`colonnade.estimation.additive`) and least squares on one Gram matrix
(`AdditiveLeastSquares`). A *reading* is curvature times effects plus noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import inverse_of, solution_of
from colonnade.estimation.tables import project_to_simplex
from colonnade.families import LOGISTIC
from colonnade.schema import Column, ColumnName, Feature

Array = NDArray[np.float64]

PROBE = 6.0
"""The constant score, in log-odds, at which the tables are opened, below 0 and above."""
REACH = 0.3
"""How far bins resemble each other in the smooth part of a shape, as a part of the column's width."""
ROUGHNESS = 0.03
"""How much a single bin may differ from a smooth shape, as a part of its variance."""
CONSTANT_VARIANCE = 4.0
SMALLEST_SHARE = 0.005
"""The share of people with an event is taken to be no nearer to 0 or 1."""


@dataclass(frozen=True, eq=False)
class Component:
    """A part of a shape with a variance of its own.

    Parameters
    ----------
    places
        Where its column's levels stand among the features, the constant first.
    basis
        The covariance of their effects, relative to that variance.
    rank
        Of the basis.
    variance
        The variance, where it is given; it is found otherwise.
    """

    places: NDArray[np.intp]
    basis: Array
    rank: int
    variance: float | None = None


@dataclass(frozen=True, eq=False)
class Overlap:
    """Two columns that are read together, and one of them: which combinations are in which of its bins.

    Parameters
    ----------
    places, own
        Where the combinations and the column's bins stand among the features, the constant first.
    inside
        Whether a combination (along rows) has people of a bin (along columns).
    """

    places: NDArray[np.intp]
    own: NDArray[np.intp]
    inside: NDArray[np.bool_]

    def products(self, people: Array) -> Array:
        """Return how many people a combination and a bin have in common, if combinations are alike within a bin's neighbours."""
        around = self.inside @ people[self.own]
        part = np.divide(people[self.places], around, out=np.zeros(len(around)), where=around > 0)
        return np.asarray(part[:, None] * self.inside * people[self.own])


@dataclass(frozen=True, eq=False)
class ShapePrior:
    """What is believed about effects before anything is seen: parts of shapes, each with a variance that is yet to be found.

    Parameters
    ----------
    size
        How many features there are, the constant included.
    components
        The parts.
    overlaps
        Columns that are also read together with others.

    Examples
    --------
    >>> from colonnade.schema import features_of
    >>> from colonnade.schema import Bins, Category, Numeric
    >>> columns = {"bank.age": Bins.equal(Numeric(18, 95), 8), "bank.segment": Category(["basic", "gold"])}
    >>> prior = ShapePrior.of(features_of(columns), columns)
    >>> prior.size, len(prior.components)
    (11, 3)
    """

    size: int
    components: tuple[Component, ...]
    overlaps: tuple[Overlap, ...] = ()

    @classmethod
    def of(
        cls, features: Sequence[Feature], columns: Mapping[str, Column], smooth: float | None = None
    ) -> "ShapePrior":
        """Return the belief for binned columns and categories.

        Parameters
        ----------
        features
            The coded columns, the constant first.
        columns
            What they are read as.
        smooth
            One over the variance of the smooth parts of ordered bins; found from what is seen by default.
        """
        found: list[Component] = []
        overlaps: list[Overlap] = []
        known = places_by_column(features)
        for name, places in known.items():
            column = columns[name]
            if column.parts:
                found.append(_together(places, column))
                overlaps += _overlaps(name, column, known, columns)
            else:
                found.extend(_components(places, _ordered(column), smooth))
        return cls(len(features), tuple(found), tuple(overlaps))

    def covariance(self, variances: Array) -> Array:
        """Return the covariance of all effects for given variances of the parts."""
        whole = np.zeros((self.size, self.size))
        whole[0, 0] = CONSTANT_VARIANCE
        for component, variance in zip(self.components, variances, strict=True):
            whole[np.ix_(component.places, component.places)] += variance * component.basis
        return whole


def _ordered(column: Column) -> int:
    return len(column.middles)


def _components(places: NDArray[np.intp], ordered: int, smooth: float | None) -> list[Component]:
    size = len(places)
    if ordered < 3:
        return [Component(places, np.eye(size), size)]
    where = np.linspace(-1.0, 1.0, ordered)
    straight = np.zeros((size, size))
    straight[:ordered, :ordered] = np.outer(where, where)
    given = None if smooth is None else 1 / smooth
    return [Component(places, straight, 1), Component(places, _resemblance(size, ordered), size, given)]


def _resemblance(size: int, ordered: int) -> Array:
    """Return how far bins resemble each other in the smooth part of a shape; those that are not ordered do not."""
    found = (1 + ROUGHNESS) * np.eye(size)
    where = np.linspace(-1.0, 1.0, ordered)
    apart = np.abs(where[:, None] - where)
    found[:ordered, :ordered] = np.exp(-apart / (2 * REACH)) + ROUGHNESS * np.eye(ordered)
    return found


def _together(places: NDArray[np.intp], column: Column) -> Component:
    """Return what two columns add together, beyond each by itself: along either of them its mean over bins is 0."""
    found: Array = np.ones((1, 1))
    for part in column.parts:
        centred = np.eye(part.size) - 1 / part.size
        found = np.asarray(
            np.kron(found, centred @ _resemblance(part.size, _ordered(part)) @ centred), dtype=np.float64
        )
    rank = (column.shape[0] - 1) * (column.shape[1] - 1)
    return Component(places, found, max(rank, 1))


def _overlaps(
    name: str, column: Column, known: Mapping[str, NDArray[np.intp]], columns: Mapping[str, Column]
) -> list[Overlap]:
    found, codes = [], np.unravel_index(np.arange(column.size), column.shape)
    for own, part, code in zip(column.names, column.parts, codes, strict=True):
        alone = str(ColumnName(ColumnName.of(name).party, own))
        if alone in known:
            read = columns[alone]
            assert not read.is_number  # an additive model has nothing else
            found.append(Overlap(known[name], known[alone], code[:, None] == _coarser(read, part)))
    return found


def _coarser(fine: Column, coarse: Column) -> NDArray[np.intp]:
    """Return in which bin of the coarser description each bin of the finer one lies."""
    if not fine.is_binned or not coarse.is_binned:
        return np.arange(fine.size)
    inside = np.searchsorted(coarse.inner, fine.middles, side="right")
    others = range(fine.size - len(fine.middles))  # codes, and missing values: alike in both, after the bins
    return np.append(inside, [len(coarse.middles) + place for place in others]).astype(np.intp)


def places_by_column(features: Sequence[Feature]) -> dict[str, NDArray[np.intp]]:
    """Return where each column's levels stand, the constant left out."""
    columns = np.array([feature.column for feature in features])
    return {name: np.flatnonzero(columns == name) for name in dict.fromkeys(columns[1:].tolist())}


@dataclass(frozen=True, eq=False)
class OpenedTables:
    """How many people are in every bin and how many of them have the event, with noise.

    Parameters
    ----------
    low, high
        The gradients at the constant scores −`PROBE` and `PROBE`.
    variances
        Of the noise in an entry of each.

    Examples
    --------
    >>> chance = 1 / (1 + np.exp(PROBE))
    >>> tables = OpenedTables(np.array([100 * chance - 30]), np.array([100 * (1 - chance) - 30]), (1.0, 1.0))
    >>> tables.people.round(6), tables.events.round(6)
    (array([100.]), array([30.]))
    """

    low: Array
    high: Array
    variances: tuple[float, float]

    @property
    def people(self) -> Array:
        """People in every bin."""
        return np.asarray((self.high - self.low) / self._span)

    @property
    def events(self) -> Array:
        """People with the event."""
        return self._least * self.people - self.low

    @property
    def people_variance(self) -> float:
        """The variance of the noise in `people`."""
        return sum(self.variances) / self._span**2

    @property
    def events_variance(self) -> float:
        """The variance of the noise in `events`."""
        part = self._least / self._span
        return (1 + part) ** 2 * self.variances[0] + part**2 * self.variances[1]

    def gradient(self, share: float) -> tuple[Array, float]:
        """Return the gradient at the constant score whose chance is ``share``, and the variance of its noise."""
        part = (share - self._least) / self._span
        variance = (1 - part) ** 2 * self.variances[0] + part**2 * self.variances[1]
        return np.asarray((1 - part) * self.low + part * self.high), variance

    @property
    def _least(self) -> float:
        return float(LOGISTIC.mean(-PROBE))

    @property
    def _span(self) -> float:
        return 1 - 2 * self._least


@dataclass(frozen=True, eq=False)
class TargetCounts:
    """Noisy counts of people, and of people with the event, in every bin of every column; the constant, everybody, first.

    Parameters
    ----------
    people, events
        The counts. Those of everybody are in the first place.
    variance
        Of the noise in one cell: people with the event in one bin, or without it.

    Examples
    --------
    >>> counts = TargetCounts(np.array([100.0, 60.0, 40.0]), np.array([30.0, 10.0, 20.0]), 2.0)
    >>> counts.people_variance, counts.events_variance
    (4.0, 2.0)
    """

    people: Array
    events: Array
    variance: float

    @classmethod
    def of_tables(cls, tables: Sequence[Array], people: int, variance: float) -> "TargetCounts":
        """Return the tables of all columns side by side; each has a row of people without the event, and one with it."""
        events = float(np.mean([table[1].sum() for table in tables]))
        whole = np.concatenate(tables, axis=1)
        return cls(np.append(float(people), whole.sum(axis=0)), np.append(events, whole[1]), float(variance))

    @property
    def people_variance(self) -> float:
        """The variance of the noise in `people`: two cells."""
        return 2 * self.variance

    @property
    def events_variance(self) -> float:
        """The variance of the noise in `events`."""
        return self.variance

    @property
    def share(self) -> float:
        """The share of people with the event, away from 0 and 1."""
        return float(np.clip(self.events[0] / self.people[0], SMALLEST_SHARE, 1 - SMALLEST_SHARE))

    @property
    def log_odds(self) -> float:
        """The log-odds of that share."""
        return float(LOGISTIC.score(self.share))


FIRST_VARIANCE, PSEUDO_BINS = 0.06, 8.0
"""The variance of an effect before anything is seen, and how many bins that counts as."""
ROUNDS_OF_MAXIMISATION = 6
ROUNDS_OF_DISPERSION = 3
SMALLEST_DISPERSION = 0.02
"""The least part of the target's variance that is taken to be left unexplained."""
SMALL_ERROR = 0.5
"""An effect is determined if its error is below this part of the unit of effects, or below what it was believed to be."""


@dataclass(frozen=True, eq=False)
class AdditiveFit:
    """What the openings came to, in features with the constant first.

    Parameters
    ----------
    weights
        Effects, not centred.
    covariance
        The error against what the same people, with the same belief, give without noise. It is that of an estimate which noise
        does not pull to the belief. So it holds whatever effects are, also where they are larger than believed. The
        effects themselves are pulled, and are mostly nearer.
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
    tables: OpenedTables | TargetCounts | None

    def determined_in(self, combinations: Array, unit: float) -> NDArray[np.bool_]:
        """Return which combinations of effects the release determines.

        Parameters
        ----------
        combinations
            One per row.
        unit
            What an error is small against.
        """
        error = np.diag(combinations @ (self.covariance + self.sampling) @ combinations.T)
        believed = np.diag(combinations @ self.believed @ combinations.T)
        return np.asarray((error <= believed) | (error <= (SMALL_ERROR * unit) ** 2))


class ShapeBelief(ABC):
    """Effects of binned columns, each part of a shape with the variance under which the openings are likeliest.

    Parameters
    ----------
    prior
        What is believed at first.
    features
        The coded columns, the constant first.
    moments
        A noisy Gram matrix that has these columns.
    """

    def __init__(self, prior: ShapePrior, features: Sequence[Feature], moments: Moments) -> None:
        self._prior, self._moments = prior, moments
        self._columns = places_by_column(features)
        self._kept_places = np.append(0, moments.places(list(self._columns)))
        block = np.ix_(self._kept_places, self._kept_places)
        self._gram, self._gram_variance = moments.matrix[block], moments.variance[block]
        owner = np.array([feature.column for feature in features])
        self._cross = owner[:, None] != owner
        self._cross[0] = self._cross[:, 0] = False
        self._single = (owner[:, None] == owner) & ~np.eye(len(owner), dtype=bool)
        self._dispersion = 1.0
        self._people = np.zeros(prior.size)
        self._base = np.zeros(prior.size)
        self._curvature = np.zeros_like(self._gram)
        self.weights = self._base
        self._forget()

    @abstractmethod
    def _reading(self, weights: Array) -> tuple[Array, float]:
        """Return a noisy curvature times effects against the base, and the variance of that noise per entry."""

    def _forget(self) -> None:
        self._variances = np.array([component.variance or FIRST_VARIANCE for component in self._prior.components])

    def _fit(self, tables: OpenedTables | None, last: Array | None = None) -> AdditiveFit:
        """Return the result.

        Parameters
        ----------
        tables
            As they were opened.
        last
            Effects before the last step. How far that moved counts as an error, since a further one might move as far.
        """
        self.weights = self._solved()
        spread = self._prior.covariance(self._variances)
        _, variance = self._reading(self.weights)
        # Without noise a reading r gives (C + D·S⁻¹)⁻¹ r, whatever r is: C the curvature, D the dispersion, S the belief.
        answer = spread @ inverse_of(self._curvature @ spread + self._dispersion * np.eye(len(spread)))
        moved = np.zeros(len(spread)) if last is None else self.weights - last
        error = variance * answer @ answer.T + np.outer(moved, moved)
        sampling = self._dispersion * (answer + answer.T) / 2
        return AdditiveFit(self.weights, error, sampling, spread, self._people, tables)

    # Counts and products -------------------------------------------------------------------------------------------------

    def _noisy_people(self) -> Array:
        """Return people in every bin as the Gram matrix has them: in its first row and on its diagonal."""
        rows, corner = self._gram[0], np.diag(self._gram)
        variances = self._gram_variance[0], np.diag(self._gram_variance)
        both = variances[0] + variances[1]
        part = np.divide(variances[1], both, out=np.ones_like(both), where=both > 0)
        variance = float(np.mean((part**2 * variances[0] + (1 - part) ** 2 * variances[1])[1:]))
        return self._adding_up(part * rows + (1 - part) * corner, variance)

    def _blended_gram(self, people: Array) -> tuple[Array, float]:
        """Return the Gram matrix of independent columns, moved to the opened one as far as they differ by more than noise."""
        independent = np.outer(people, people) / self._moments.count
        independent[self._single] = 0.0
        for overlap in self._prior.overlaps:
            common = overlap.products(people)
            independent[np.ix_(overlap.places, overlap.own)] = common
            independent[np.ix_(overlap.own, overlap.places)] = common.T
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
        found = np.array(people)
        found[0] = everybody = float(self._moments.count)
        for places in self._columns.values():
            found[places] = adding_up(people[places], variance, everybody)
        return found

    # The belief ----------------------------------------------------------------------------------------------------------

    def _expected(self, spread: Array, variance: float) -> Array:
        """Return the covariance of the reading: effects, the sampling of people, and noise."""
        sampling = self._dispersion * self._curvature
        return np.asarray(self._curvature @ spread @ self._curvature + sampling + variance * np.eye(len(spread)))

    def _solved(self) -> Array:
        """Return the likeliest effects, and keep the variances of their parts under which the openings are likeliest."""
        weights, curvature = self.weights, self._curvature
        for _ in range(ROUNDS_OF_MAXIMISATION):
            spread = self._prior.covariance(self._variances)
            reading, variance = self._reading(weights)
            inverse = inverse_of(self._expected(spread, variance))
            pulled, known = curvature @ (inverse @ reading), curvature @ inverse @ curvature
            self._variances = np.array(
                [
                    likelier(component, variance, pulled, known)
                    for component, variance in zip(self._prior.components, self._variances, strict=True)
                ]
            )
            weights = self._base + spread @ pulled
        spread = self._prior.covariance(self._variances)
        reading, variance = self._reading(weights)
        solved = solution_of(self._expected(spread, variance), reading)
        return np.asarray(self._base + spread @ (curvature @ solved))


class AdditiveLeastSquares(ShapeBelief):
    """Least squares of a number on binned columns, from one noisy Gram matrix.

    Effects are those on the target after it is scaled to [−1, 1].

    Parameters
    ----------
    prior, features, moments
        As for any belief about shapes.
    place
        Where the target stands in the moments.
    """

    def __init__(self, prior: ShapePrior, features: Sequence[Feature], moments: Moments, place: int) -> None:
        super().__init__(prior, features, moments)
        count = moments.count
        self._people = self._noisy_people()
        self._curvature, kept = self._blended_gram(self._people)
        self._uncertain = float(np.mean(kept**2 * self._gram_variance * self._cross))
        mean = float(moments.matrix[0, place]) / count
        spread = max(float(moments.matrix[place, place]) / count - mean**2, 1.0 / count)
        self._scale = float(np.sqrt(spread))
        self._mean = mean
        self._products = (moments.matrix[self._kept_places, place] - mean * self._people) / self._scale
        self._products[0] = 0.0
        self._variance = float(np.mean(moments.variance[self._kept_places, place])) / spread

    def result(self) -> AdditiveFit:
        """Return the result."""
        for _ in range(ROUNDS_OF_DISPERSION):
            self.weights = self._solved()
            explained = float(2 * self.weights @ self._products - self.weights @ self._curvature @ self.weights)
            self._dispersion = float(np.clip(1 - explained / self._moments.count, SMALLEST_DISPERSION, 1.0))
        found = self._fit(None)
        weights = self._scale * found.weights
        weights[0] += self._mean
        squared = self._scale**2
        return AdditiveFit(
            weights,
            squared * found.covariance,
            squared * found.sampling,
            squared * found.believed,
            found.people,
            None,
        )

    def _reading(self, weights: Array) -> tuple[Array, float]:
        return self._products, self._variance + self._uncertain * float(weights @ weights)


def likelier(component: Component, variance: float, pulled: Array, known: Array) -> float:
    """Return the variance of a part after one round of expectation and maximisation; one that is given stays."""
    if component.variance is not None:
        return component.variance
    own = pulled[component.places]
    found = variance**2 * float(own @ component.basis @ own)
    inside = known[np.ix_(component.places, component.places)]
    left = variance * (component.rank - variance * float(np.sum(component.basis * inside)))
    return (found + left + PSEUDO_BINS * FIRST_VARIANCE) / (component.rank + PSEUDO_BINS)


def adding_up(people: Array, variance: float, everybody: float) -> Array:
    """Return one column's counts, not negative and adding up to everybody, pulled to equal ones by their noise.

    Parameters
    ----------
    people, variance
        The counts, and the variance of the noise in each.
    everybody
        How many people there are.
    """
    apart = people - people.mean()
    return project_to_simplex(everybody / len(people) + kept_apart(people, variance) * apart, everybody)


def kept_apart(people: Array, variance: float) -> float:
    """Return which part of how counts differ is more than their noise would make."""
    apart = people - people.mean()
    return float(np.clip(1 - (len(people) - 1) * variance / max(float(apart @ apart), 1e-300), 0.0, 1.0))
