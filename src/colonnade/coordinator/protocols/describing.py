"""Describing columns: one release of counts, or of quantiles, by each party that holds some of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.estimation.describing import CountedTable
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.quantile_search import QuantileSearch
from colonnade.protocol.messages import Released, Rounds, ask_all
from colonnade.schema import Column
from colonnade.schema.features import ColumnName, columns_at, parties_of
from colonnade.steps.describing import Cells, ColumnCounts, CountedColumn, QuantilePositions, count_noise

Array = NDArray[np.float64]

FINE_BINS = 1_024
"""The bins of a described number."""
FEW_BINS = 16
"""So many bins are counted one by one only."""


def grouping(bins: int) -> int:
    """Return how many neighbouring bins are counted together as well: about as many as there are groups.

    Examples
    --------
    >>> grouping(1_024), grouping(78), grouping(12)
    (32, 9, 1)
    """
    return 1 if bins <= FEW_BINS else math.isqrt(bins - 1) + 1


@dataclass(frozen=True)
class ColumnTables:
    """Counts of every column, each by itself.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order.
    price
        The price of each party's release. At δ = 0 the noise is discrete Laplace, otherwise discrete Gaussian.
    people
        The number of people, which is public.
    bins, grouped
        Of numbers: how many bins of equal width, and whether groups of them are counted as well.
    edges
        Of a single number: where bins begin and end, instead.
    """

    columns: Mapping[str, Column]
    price: Price
    people: int
    bins: int = FINE_BINS
    grouped: bool = True
    edges: Sequence[float] = ()

    @cached_property
    def counted(self) -> dict[str, CountedColumn]:
        """How each column is counted."""
        found = {
            name: CountedColumn.of(column, name, bins=self.bins, edges=self.edges)
            for name, column in self.columns.items()
        }
        if not self.grouped:
            return found
        return {
            name: column if not column.counted.is_binned else CountedColumn(column.counted, grouping(column.bins))
            for name, column in found.items()
        }

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties that hold the columns."""
        return parties_of(self.columns)

    def _own(self, party: str) -> dict[str, CountedColumn]:
        return {name: self.counted[str(ColumnName(party, name))] for name in columns_at(party, self.columns)}

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: the counts of its columns."""
        steps = []
        for party in self.parties:
            own = self._own(party)
            parameters: dict[str, Parameter] = ColumnCounts.asked(own)
            if self.edges:
                parameters |= {"edges": tuple(map(float, self.edges))}
            steps.append(
                ColumnCounts.ask(
                    name="counts", party=party, columns=tuple(own), parameters=parameters, price=self.price
                )
            )
        return tuple(steps)

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the counts."""
        releases = yield from ask_all(plan, "counts")
        return self.combine({party: releases[party] for party in self.parties})

    def noise(self, party: str) -> float:
        """Return the variance of each of a party's counts."""
        levels = sum(column.levels for column in self._own(party).values())
        return float(count_noise(self.price, levels).variance)

    def combine(self, releases: Mapping[str, Released]) -> dict[str, CountedTable]:
        """Cut the releases into columns."""
        found = {}
        for party, release in releases.items():
            own = self._own(party)
            value = release.array("value")
            if value.shape != (sum(column.cells for column in own.values()),) or value.dtype != np.int64:
                raise ProtocolError(f"Party {party!r} released counts of another shape.")
            parts = np.split(value, np.cumsum([column.cells for column in own.values()])[:-1])
            for (name, column), part in zip(own.items(), parts, strict=True):
                found[str(ColumnName(party, name))] = CountedTable(column, part, self.noise(party), self.people)
        return {name: found[name] for name in self.columns}


@dataclass(frozen=True)
class SoughtQuantiles:
    """Quantiles of one column, by the exponential mechanism.

    Parameters
    ----------
    name, column
        The column, and its description.
    quantiles
        Rising, between 0 and 1.
    price
        The price of the release.
    people
        The number of people, which is public.
    """

    name: str
    column: Column
    quantiles: tuple[float, ...]
    price: Price
    people: int

    @cached_property
    def cells(self) -> Cells:
        """The cells in which quantiles are sought."""
        return Cells.of(self.column, self.name)

    @property
    def law(self) -> QuantileSearch:
        """The search that the price buys."""
        return QuantileSearch(self.price, [self.cells.positions], self.quantiles)

    def steps(self) -> tuple[Step, ...]:
        """Return the one step, at the party that holds the column."""
        party, own = ColumnName.of(self.name)
        return (
            QuantilePositions.ask(
                name="quantiles",
                party=party,
                columns=(own,),
                parameters={"quantiles": self.quantiles},
                price=self.price,
            ),
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the positions, and turn them into numbers."""
        releases = yield from ask_all(plan, "quantiles")
        (release,) = releases.values()
        positions = release.array("value")
        column = self.cells.positions
        if positions.shape != (1, len(self.quantiles)) or positions.dtype != np.int64:
            raise ProtocolError("A party released another number of quantiles.")
        if np.any(positions < 0) or np.any(positions >= column.number):
            raise ProtocolError("A party released a quantile outside of the bounds.")
        return [self.cells.value(column.cell_of(position)) for position in positions[0].tolist()]
