"""Shapes of binned columns: what is believed about them before anything is seen, and tables of them with an event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import ColumnName, Feature
from colonnade.schema import Bins, Category, Column, Crossed

__all__ = ["PROBE", "Component", "OpenedTables", "Overlap", "ShapePrior", "TargetCounts", "places_by_column"]

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
    >>> from colonnade.coding.columns import features_of
    >>> from colonnade.schema import Category, Numeric
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
            if isinstance(column, Crossed):
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
    return len(column.middles) if isinstance(column, Bins) else 0


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


def _together(places: NDArray[np.intp], column: Crossed) -> Component:
    """Return what two columns add together, beyond each by itself: along either of them its mean over bins is 0."""
    found: Array = np.ones((1, 1))
    for part in column.of:
        centred = np.eye(part.size) - 1 / part.size
        found = np.asarray(
            np.kron(found, centred @ _resemblance(part.size, _ordered(part)) @ centred), dtype=np.float64
        )
    rank = (column.shape[0] - 1) * (column.shape[1] - 1)
    return Component(places, found, max(rank, 1))


def _overlaps(
    name: str, column: Crossed, known: Mapping[str, NDArray[np.intp]], columns: Mapping[str, Column]
) -> list[Overlap]:
    found, codes = [], np.unravel_index(np.arange(column.size), column.shape)
    for own, part, code in zip(column.names, column.of, codes, strict=True):
        alone = str(ColumnName(ColumnName.of(name).party, own))
        if alone in known:
            read = columns[alone]
            assert isinstance(read, Category)  # an additive model has nothing else
            found.append(Overlap(known[name], known[alone], code[:, None] == _coarser(read, part)))
    return found


def _coarser(fine: Category, coarse: Category) -> NDArray[np.intp]:
    """Return in which bin of the coarser description each bin of the finer one lies."""
    if not isinstance(fine, Bins) or not isinstance(coarse, Bins):
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
        return float(1 / (1 + np.exp(PROBE)))

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
        return float(np.log(self.share) - np.log1p(-self.share))
