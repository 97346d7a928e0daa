"""The table of every column with one target, each by itself, seen from the coordinator.

A column of the target's own party is counted there (`colonnade.steps.local.Histogram`). A column of another party is counted with
the target on secret shares (`colonnade.steps.products.PairTables`). A person is in one cell of every table, so a price is divided
into as many equal parts as there are columns, each a part of ρ. A histogram has discrete Laplace noise of ε = √(2ρ), which costs
no more than ρ (Bun and Steinke 2016, proposition 1.4). Proof: docs/proofs/pair-tables.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import ColumnName, Feature, features_of
from colonnade.coordinator.protocols.counting import pair_tables_of
from colonnade.coordinator.protocols.relaying import open_jointly
from colonnade.errors import BadInput, ProtocolError, SchemaMismatch
from colonnade.estimation.shapes import TargetCounts
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import NANO, Price
from colonnade.privacy.calibration import discrete_laplace_variance, laplace_scale, ledger_rho, price_of_rho
from colonnade.protocol.messages import Released, Rounds, ask_all
from colonnade.schema import Category, Column
from colonnade.steps import local, products

__all__ = ["TargetTables", "table_deviation"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TargetTables:
    """The tables of all columns with a target of two levels.

    Parameters
    ----------
    columns
        ``"party.column"`` to what it is read as, in the federation's order: categories and bins, the target among them.
    target
        A category of two levels. The second is the event.
    price
        The price of all tables together; δ must be positive.
    people
        The number of people.
    """

    columns: Mapping[str, Column]
    target: str
    price: Price
    people: int

    def __post_init__(self) -> None:
        numbers = [name for name, column in self.columns.items() if not isinstance(column, Category)]
        if numbers:
            raise SchemaMismatch(
                f"Tables are of columns in bins, and {numbers[0]!r} is not.",
                remedy="Read it in bins: federation.read_as({...}).",
            )
        target = self.columns[self.target]
        if not isinstance(target, Category) or target.size != 2:
            raise SchemaMismatch(
                f"Tables of columns with {self.target!r} tell what each says about one event, and it has no two levels.",
                remedy='Name the columns, and leave out plan="evidence".',
            )
        if self.price.delta == 0:
            raise BadInput("Tables of all columns need a positive delta.", remedy="For example delta=1e-6.")

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of({name: column for name, column in self.columns.items() if name != self.target})

    @cached_property
    def explaining(self) -> dict[str, Category]:
        """The columns whose tables are opened."""
        return {
            name: column
            for name, column in self.columns.items()
            if name != self.target and isinstance(column, Category)
        }

    @property
    def holder(self) -> ColumnName:
        """The target: who holds it, and what it is called there."""
        return ColumnName.of(self.target)

    @cached_property
    def prices(self) -> tuple[Price, Price]:
        """The price of a table on shares, and that of a histogram: parts of ρ."""
        rho = ledger_rho(self.price, len(self.explaining))
        return price_of_rho(rho, self.price.delta), _pure(rho)

    def steps(self) -> tuple[Step, ...]:
        """Return one or two steps per column."""
        found: list[Step] = []
        joint, alone = self.prices
        for name, column in self.explaining.items():
            party, own = ColumnName.of(name)
            step = _step_name(name)
            if party == self.holder.party:
                columns = (self.holder.column, own)
                found.append(local.Histogram.ask(name=step, party=party, columns=columns, price=alone))
                continue
            for owner, its, width in ((self.holder.party, self.holder.column, 2), (party, own, column.size)):
                found.append(
                    products.PairTables.ask(
                        name=step, party=owner, columns=(its,), parameters={"width": width}, price=joint
                    )
                )
        return tuple(found)

    def rounds(self, plan: Plan) -> Rounds:
        """Open one table after another, and put them side by side."""
        tables, variances = [], []
        for name, column in self.explaining.items():
            step, party = _step_name(name), ColumnName.of(name).party
            if party == self.holder.party:
                replies = yield from ask_all(plan, step)
                table = _histogram(replies[party], (2, column.size))
                variances.append(discrete_laplace_variance(laplace_scale(self.prices[1], 1)))
            else:
                opened = yield from open_jointly(plan, step)
                table = pair_tables_of(opened).tables[0, 1]
                variances.append(opened.joint.noise.opened_variance)
            tables.append(table)
        return self._side_by_side(tables, max(variances))

    def _side_by_side(self, tables: list[Array], variance: float) -> TargetCounts:
        events = float(np.mean([table[1].sum() for table in tables]))
        whole = np.concatenate(tables, axis=1)
        return TargetCounts(
            np.append(float(self.people), whole.sum(axis=0)), np.append(events, whole[1]), float(variance)
        )


def table_deviation(price: Price, columns: int) -> float:
    """Return about how noisy a count of the tables of so many columns is: the standard deviation, in people.

    Examples
    --------
    >>> round(table_deviation(Price.of(1.0, 1e-6), 10))
    20
    """
    return math.sqrt(columns / float(ledger_rho(price)))


def _pure(rho: Fraction) -> Price:
    """Return the largest pure price that costs at most ρ."""
    nano = math.isqrt(int(2 * rho * NANO**2))
    if nano < 1:
        raise BadInput("So many tables at so small an epsilon leave nothing for each.", remedy="Raise epsilon.")
    return Price(nano, 0.0)


def _step_name(name: str) -> str:
    return f"table {name}"


def _histogram(reply: Released, shape: tuple[int, int]) -> Array:
    counts = reply.array("value")
    if counts.shape != (shape[0] * shape[1],) or counts.dtype != np.int64:
        raise ProtocolError("A party released a table of another shape.")
    return np.asarray(counts.reshape(shape), dtype=np.float64)
