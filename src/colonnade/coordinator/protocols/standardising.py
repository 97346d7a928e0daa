"""Standardised columns, seen from the coordinator: the first release of a study, and what its other steps say about it.

How a number is read by that release is said in `colonnade.steps.spreads`. How far values reach before they are clipped is said by
`reach_of`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Self

from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.calibration import ledger_rho, price_of_rho
from colonnade.protocol.messages import Rounds, ask_all, planned_value
from colonnade.schema import Column, ColumnName, columns_at, parties_of
from colonnade.steps.spreads import SPREADS, Spreads, centred_columns, number_bound

PARTS = 10
"""The release has one part of the price in so many."""


class Rule(NamedTuple):
    """How a method's reach follows from its noise: ``factor`` times the ``power`` of people per unit of noise."""

    factor: float
    power: float


GRADIENTS = Rule(0.03, 1 / 2)
"""For sums of residuals times columns: noise in a coefficient grows with the reach."""
PRODUCTS = Rule(0.4, 1 / 3)
"""For sums of products of two columns: noise grows with its square."""
LEAST_REACH = 2.0
"""However large the noise is: of a normal column one value in twenty lies beyond."""
TYPICAL = 1.5
"""Beside one number at its reach, how many spreads a row has room for in each other one."""


def reach_of(rule: Rule, columns: Mapping[str, Column], price: Price, people: int, collusion: int) -> float:
    """Return how many spreads from its mean a number is clipped.

    Clipping moves a slope by about the share of a column's variance that lies beyond the reach r. With a third moment that is at
    most E|z|³/r. Noise moves it in proportion to r in a gradient, and to r² in a matrix of products, where the target is clipped
    too. The sum of squares of both is least at r = c·(n/σ)^p, with n people, noise of deviation σ in a sum in which every row
    has its full length, and p = 1/2 for a gradient and 1/3 for a matrix. c is from simulated tables (benchmarks/standardising).

    Parameters
    ----------
    rule
        The method's.
    columns
        All columns of the study.
    price, people
        Of the whole study.
    collusion
        How many parties the noise covers.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> columns = {f"{owner}.{name}": Numeric(0, 1) for owner in "abc" for name in "xyz"}
    >>> [round(reach_of(GRADIENTS, columns, Price.of(epsilon, 1e-6), 50_000, 1), 1) for epsilon in (0.1, 1, 10, 100)]
    [2.0, 2.0, 4.6, 10.9]
    """
    parties = len(parties_of(columns))
    rows = 1 + len(columns)
    shares = parties / max(parties - min(collusion, parties - 1), 1)
    deviation = math.sqrt(shares / float(2 * ledger_rho(price)))
    deviation *= math.sqrt(rows) if rule is GRADIENTS else rows / math.sqrt(2)
    return round(max(LEAST_REACH, rule.factor * math.pow(people / deviation, rule.power)), 3)


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
        How many spreads from its mean a number is clipped.
    """

    columns: Mapping[str, Column]
    whole: Price
    unit: Unit
    people: int
    reach: float

    @classmethod
    def of(cls, columns: Mapping[str, Column], whole: Price, unit: Unit, people: int, reach: float) -> Self | None:
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

    def norm(self, party: str) -> float:
        """Return the largest sum of squares of a party's coded numbers: one at its reach, the others typical."""
        others = len(columns_at(party, self.columns)) - 1
        return round(1 + others * min(1.0, (TYPICAL / self.reach) ** 2), 6)

    def parameters(self, party: str) -> dict[str, Parameter]:
        """Return what a later step of a party says about it; nothing where the party has no number."""
        if party not in self.prices:
            return {}
        return {"standardised": SPREADS, "reach": self.reach, "norm": self.norm(party)}

    def saved(self, party: str, scale: int) -> int:
        """Return by how much it lowers the bound on the squared length of a party's rows."""
        count = len(columns_at(party, self.columns))
        return scale**2 * count - number_bound(self.norm(party), scale) if count else 0

    def words(self) -> dict[str, str]:
        """Return what a preview says about it."""
        reach = f"{self.reach:.3g} spreads of its mean"
        return {
            "numbers": f"read within {reach}; at which values they are clipped is not known before the first release"
        }

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
            found |= centred_columns(own, value, self.people, variance, self.reach, self.norm(party))
        return found


def clipped_columns(read: Mapping[str, Column], declared: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns whose values were clipped to narrower bounds than declared, with these bounds."""
    found = {name: column.underlying for name, column in read.items() if column.is_centred}
    return {name: column for name, column in found.items() if column != declared[name]}
