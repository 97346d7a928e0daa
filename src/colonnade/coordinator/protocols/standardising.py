"""Standardised columns, seen from the coordinator: the first release of a study, and what its other steps say about it.

How a number is read by that release is said in `colonnade.steps.spreads`; how far values reach before they are clipped, in
`Reach`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.calibration import ledger_rho, price_of_rho
from colonnade.protocol.messages import Rounds, ask_all, planned_value
from colonnade.schema import Column, ColumnName, columns_at, parties_of
from colonnade.steps.spreads import SPREADS, Spreads, centred_columns

PARTS = 10
"""The release has one part of the price in so many."""


@dataclass(frozen=True)
class Reach:
    """How far values reach before they are clipped.

    Parameters
    ----------
    spreads
        Each number by itself: so many spreads from its mean.
    norm
        A party's numbers together: the largest mean of their squares, in parts of that of a row in which each is at its reach.
    """

    spreads: float
    norm: float = 1.0


@dataclass(frozen=True)
class Standardising:
    """The release of means and spreads.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description: the numbers that are standardised, in the federation's order.
    whole
        The price of the study of which this is the first release; δ is positive.
    unit
        What the price protects.
    people
        How many there are.
    reach
        How far values reach.
    """

    columns: Mapping[str, Column]
    whole: Price
    unit: Unit
    people: int
    reach: Reach

    @classmethod
    def of(
        cls, columns: Mapping[str, Column], whole: Price, unit: Unit, people: int, reach: Reach
    ) -> "Standardising | None":
        """Return the release of the numbers among some columns; ``None`` if there are none."""
        numbers = {name: column for name, column in columns.items() if column.is_measured}
        return cls(numbers, whole, unit, people, reach) if numbers else None

    @cached_property
    def prices(self) -> dict[str, Price]:
        """What each party is offered: a part in `PARTS`, divided in proportion to columns where one person's records add up.

        Then the noise of a sum is the same at every party.
        """
        counts = {party: len(columns_at(party, self.columns)) for party in parties_of(self.columns)}
        if self.unit == "party":
            counts = dict.fromkeys(counts, len(self.columns))
        unit = self._unit
        return {party: price_of_rho(unit * count, self.whole.delta) for party, count in counts.items()}

    @property
    def rest(self) -> Price:
        """What is left for the other steps of the study."""
        return price_of_rho(self._unit * (PARTS - 1) * len(self.columns), self.whole.delta)

    @cached_property
    def _unit(self) -> Fraction:
        return ledger_rho(self.whole, PARTS * len(self.columns))

    def steps(self) -> tuple[Step, ...]:
        """Return each party's release."""
        return tuple(
            Spreads.ask(name=SPREADS, party=party, columns=columns_at(party, self.columns), price=price)
            for party, price in self.prices.items()
        )

    def number_bound(self, party: str, scale: int) -> int | None:
        """Return the squared length of a party's numbers, at most; ``None`` where it has none."""
        count = len(columns_at(party, self.columns))
        return max(1, round(scale**2 * count * self.reach.norm)) if count else None

    def parameters(self, party: str, scale: int) -> dict[str, Parameter]:
        """Return what a later step of a party says about it."""
        bound = self.number_bound(party, scale)
        return {} if bound is None else {"standardised": SPREADS, "reach": self.reach.spreads, "number_bound": bound}

    def saved(self, party: str, scale: int) -> int:
        """Return by how much it lowers the bound on the squared length of a party's rows."""
        bound = self.number_bound(party, scale)
        return 0 if bound is None else scale**2 * len(columns_at(party, self.columns)) - bound

    def rounds(self, plan: Plan) -> Rounds:
        """Ask for the release, and return the numbers as later steps read them."""
        releases = yield from ask_all(plan, SPREADS)
        found: dict[str, Column] = {}
        for party, release in releases.items():
            own = {name: column for name, column in self.columns.items() if ColumnName.of(name).party == party}
            step = plan.step(party, SPREADS)
            assert step.price is not None  # it was planned so
            variance = Spreads.noise_of(step.price, len(own)).variance
            value = planned_value(release, (2 * len(own),), "int64")
            found |= centred_columns(own, value, self.people, variance, self.reach.spreads)
        return found


def clipped_columns(read: Mapping[str, Column], declared: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns whose values were clipped to narrower bounds than declared, with these bounds."""
    found = {name: column.underlying for name, column in read.items() if column.is_centred}
    return {name: column for name, column in found.items() if column != declared[name]}
