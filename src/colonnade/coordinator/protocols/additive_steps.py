"""Additive models by Newton steps on secret shares, seen from the coordinator.

The rounds are those of `colonnade.coordinator.protocols.newton_steps`, on columns that are read in bins or levels. Only what the
coordinator makes of them differs (`colonnade.estimation.additive`): the first two gradients are tables of every column with
the target, and shapes are smooth. A row holds zeros and ones, so it needs no fixed-point scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import columns_at, parties_of
from colonnade.coordinator.protocols.newton_steps import NewtonStudy, Reading
from colonnade.errors import SchemaMismatch
from colonnade.estimation.additive import FEW_PRODUCTS, FIRST_TABLE, STEPS, TABLES, AdditiveSearch
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Division
from colonnade.estimation.shape_belief import AdditiveFit
from colonnade.estimation.shapes import ShapePrior
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.laws.gram import GramNoise
from colonnade.schema import Category, Column
from colonnade.steps.newton_terms import NewtonTerms

__all__ = ["AdditiveStudy", "chosen_division", "row_bounds"]

Array = NDArray[np.float64]


def row_bounds(columns: Mapping[str, Column]) -> dict[str, int]:
    """Return the squared length of each party's row: one of every column's indicators is on."""
    return {party: len(columns_at(party, columns)) for party in parties_of(columns)}


def chosen_division(
    bounds: Mapping[str, int], price: Price, people: int, unit: Unit, collusion: int, classes: int = 1
) -> Division:
    """Return how to divide a price: mostly on tables, if products of columns would be lost in noise.

    Parameters
    ----------
    bounds
        `row_bounds` of all columns, the target among them.
    price, unit, collusion
        What is offered, what it protects, and against how many colluding parties.
    people
        How many there are.
    classes
        How many classes have rounds of their own.

    Examples
    --------
    >>> bounds = {"bank": 4, "telco": 4, "insurer": 4}
    >>> [chosen_division(bounds, Price.of(epsilon, 1e-6), 40_000, "person", 1) is TABLES for epsilon in (0.1, 1.0)]
    [True, False]
    """
    noise = GramNoise(bounds, 1, sum(bounds.values()), STEPS.prices(price, classes).gram, unit, collusion)
    return TABLES if np.sqrt(noise.opened_variance) > FEW_PRODUCTS * people else STEPS


@dataclass(frozen=True)
class AdditiveStudy(NewtonStudy):
    """The study: open moments, then tables and steps.

    Parameters
    ----------
    columns
        ``"party.column"`` to what it is read as, in the federation's order: categories and bins, the target among them.
    target
        A category. With more than two levels each of them has tables, steps and shapes of its own, against the rest.
    price, people, division, window
        As of Newton steps.
    smooth
        How smooth shapes are, where it is not found from the release (`ShapePrior.of`).
    """

    scale: int = 1
    smooth: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = [name for name, column in self.columns.items() if not isinstance(column, Category)]
        if numbers:
            raise SchemaMismatch(
                f"An additive model takes columns in bins, and {numbers[0]!r} is not.",
                remedy="Read it in bins: federation.read_as({...}).",
            )

    @property
    def tables_first(self) -> bool:
        """Whether nearly all of the price goes to tables and gradients."""
        return self.division == TABLES

    def table_deviation(self, terms: NewtonTerms) -> float:
        """Return the standard deviation of the noise in a count of people with the event."""
        return float(np.sqrt(terms.noise.variance(FIRST_TABLE))) / terms.unit(FIRST_TABLE)

    def _reading(self, terms: NewtonTerms, moments: Moments, level: int) -> "Reading":
        return _AdditiveReading(self, terms, moments, level)


class _AdditiveReading(Reading):
    """Shapes, from tables and steps."""

    def __init__(self, study: AdditiveStudy, terms: NewtonTerms, moments: Moments, level: int) -> None:
        super().__init__(study, terms)
        prior = ShapePrior.of(study.features, study.columns, study.smooth)
        self._search = AdditiveSearch(
            prior, study.features, moments, study.aim(moments, level), secants=not study.tables_first
        )

    def result(self) -> AdditiveFit:
        """Return what it came to."""
        return self._search.result()

    def _next(self) -> Array:
        return self._search.next_weights

    def _take(self, number: int, opened: Array | None, variance: float) -> None:  # noqa: ARG002  # rounds come in order
        self._search.see(opened, variance)
