"""Shapes of binned columns: what is believed about them before anything is seen, and tables of them with an event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import Feature
from colonnade.schema import Bins, Column

__all__ = ["PROBE", "Component", "OpenedTables", "ShapePrior", "places_by_column"]

Array = NDArray[np.float64]

PROBE = 6.0
"""The constant score, in log-odds, at which the tables are opened, below 0 and above."""
REACH = 0.3
"""How far bins resemble each other in the smooth part of a shape, as a part of the column's width."""
ROUGHNESS = 0.03
"""How much a single bin may differ from a smooth shape, as a part of its variance."""
CONSTANT_VARIANCE = 4.0


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
    """

    places: NDArray[np.intp]
    basis: Array
    rank: int


@dataclass(frozen=True, eq=False)
class ShapePrior:
    """What is believed about effects before anything is seen: parts of shapes, each with a variance that is yet to be found.

    Parameters
    ----------
    size
        How many features there are, the constant included.
    components
        The parts.

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

    @classmethod
    def of(cls, features: Sequence[Feature], columns: Mapping[str, Column]) -> "ShapePrior":
        """Return the belief for binned columns and categories.

        Parameters
        ----------
        features
            The coded columns, the constant first.
        columns
            What they are read as.
        """
        found: list[Component] = []
        for name, places in places_by_column(features).items():
            column = columns[name]
            ordered = len(column.middles) if isinstance(column, Bins) else 0
            found.extend(_components(places, ordered))
        return cls(len(features), tuple(found))

    def covariance(self, variances: Array) -> Array:
        """Return the covariance of all effects for given variances of the parts."""
        whole = np.zeros((self.size, self.size))
        whole[0, 0] = CONSTANT_VARIANCE
        for component, variance in zip(self.components, variances, strict=True):
            whole[np.ix_(component.places, component.places)] += variance * component.basis
        return whole


def _components(places: NDArray[np.intp], ordered: int) -> list[Component]:
    size = len(places)
    if ordered < 3:
        return [Component(places, np.eye(size), size)]
    where = np.linspace(-1.0, 1.0, ordered)
    straight, smooth = np.zeros((size, size)), (1 + ROUGHNESS) * np.eye(size)
    straight[:ordered, :ordered] = np.outer(where, where)
    apart = np.abs(where[:, None] - where)
    smooth[:ordered, :ordered] = np.exp(-apart / (2 * REACH)) + ROUGHNESS * np.eye(ordered)
    return [Component(places, straight, 1), Component(places, smooth, size)]


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
