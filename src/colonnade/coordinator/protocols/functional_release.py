"""Paper 003, Algorithm 1: the coefficients of a regression's objective, opened with Laplace noise; pure ε, one round of opening.

We differ from the paper in what is opened (each symmetric pair once, nothing that the coding already says, no constant term), in
the sensitivity (what the schema says about a row), in when noise enters (as shares, before anything is opened: no party sees an
exact coefficient between two), and in what is made of the result: the noisy curvature is repaired by what is known about its
noise (`pooled_correlations`, `shrunken_solve`), never by a second draw. `privacy.md` §5 has the reasons.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import ColumnName, Feature, columns_at, features_of, parties_of, places_beside_constant
from colonnade.coordinator.protocols.relaying import JointResult, open_jointly
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.moments import Moments
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.coefficients import CoefficientNoise, Holding, emphasis_for
from colonnade.protocol.messages import Rounds
from colonnade.schema import Category, Column
from colonnade.secure.products import entry_pairs
from colonnade.steps.joint import Joint
from colonnade.steps.products import Coefficients, Entries, cross_entries, own_entries, widths_of

__all__ = ["DEFAULT_SCALE", "FunctionalRelease"]

DEFAULT_SCALE = 4096
"""γ: a coded column takes 2γ + 1 values."""

LARGEST_SCALE = 1 << 20
STEP = "coefficients"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FunctionalRelease:
    """One joint opening of an objective's coefficients.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order; of two parties or more, the target among them.
    target
        The column to explain.
    prices
        By party: one price for all, or what each party named for its part (`protocol`). δ is 0.
    protocol
        ``"top_down"``: one ε for the unit of the study. ``"bottom_up"``: each party names ε^(k) for its part of a record; a
        pair of parties spends on its common block the smaller of what the two would.
    scale
        γ; by default 4,096.
    """

    columns: Mapping[str, Column]
    target: str
    prices: Mapping[str, Price]
    protocol: Literal["top_down", "bottom_up"] = "top_down"
    scale: int | None = None

    def __post_init__(self) -> None:
        if len(self.parties) < 2:
            raise BadInput(
                "A joint regression takes columns of at least two parties.",
                remedy="Name columns of another party too; one party alone needs no federation.",
            )
        if len(self.columns) < 2:
            raise BadInput("A model needs at least one feature besides its target.")
        if set(self.prices) != set(self.parties):
            raise BadInput(
                "budgets name every party whose columns enter, and no other.",
                remedy=f"Here these are {', '.join(self.parties)}.",
            )
        if type(self.gamma) is not int or not 1 <= self.gamma <= LARGEST_SCALE:
            raise BadInput(f"scale is a whole number between 1 and {LARGEST_SCALE:,}.")

    @property
    def parties(self) -> tuple[str, ...]:
        """Whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def price(self) -> Price:
        """The largest price of a party: the only one there is, top-down."""
        return max(self.prices.values(), key=lambda price: price.nano)

    @property
    def ordered(self) -> dict[str, Column]:
        """The columns party by party, the target last of its party's."""
        names = sorted(
            self.columns, key=lambda name: (self.parties.index(ColumnName.of(name).party), name == self.target)
        )
        return {name: self.columns[name] for name in names}

    @property
    def signed(self) -> tuple[str, ...]:
        """Categories of two levels: one ±1 column moves as much as two indicators and needs half as many coefficients."""
        return tuple(name for name, column in self.ordered.items() if isinstance(column, Category) and column.size == 2)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.ordered, signed=self.signed)

    @property
    def gamma(self) -> int:
        """γ."""
        return DEFAULT_SCALE if self.scale is None else self.scale

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party: its part in the objective."""
        emphasis = emphasis_for({party: self._holding(party) for party in self.parties})
        return tuple(self._step(party, emphasis) for party in self.parties)

    def rounds(self, plan: Plan) -> Rounds:
        """Open the coefficients and read them as moments."""
        opened = yield from open_jointly(plan, STEP)
        return self.read(opened)

    def read(self, opened: JointResult) -> Moments:
        """Put the opened entries and the parties' own parts together, in coded units, with the variance of their noise."""
        unit = float(self.gamma) ** 2
        matrix = np.zeros((len(self.features), len(self.features)))
        first, second = entry_pairs(opened.joint.widths)
        matrix[first + 1, second + 1] = opened.cross / unit
        for party, (places, entries) in self._own(opened.joint).items():
            if opened.own[party].shape != entries.rows.shape:
                raise ProtocolError("A party's own coefficients are of another number.")
            matrix[places[entries.rows], places[entries.columns]] = opened.own[party] / unit
        return Moments.of_release(
            self._completed(matrix, opened.joint.people),
            self.variance(opened.joint),
            opened.joint.people,
            self.features,
        )

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry, in coded units."""
        noise = joint.noise
        assert isinstance(noise, CoefficientNoise)  # the step's kind decided
        variance = np.zeros((len(self.features), len(self.features)))
        first, second = entry_pairs(joint.widths)
        for block, slope, places in cross_entries(joint.steps).groups:
            variance[first[places] + 1, second[places] + 1] = noise.variance(block, slope=slope)
        for party, (places, entries) in self._own(joint).items():
            alone = [noise.variance((party, party), slope=slope) for slope in (False, True)]
            variance[places[entries.rows], places[entries.columns]] = np.where(entries.slope, alone[1], alone[0])
        return self._completed(variance / float(self.gamma) ** 4, 0)

    def _completed(self, upper: Array, unmeasured: float) -> Array:
        """Mirror the triangle and add what follows from it: an indicator is its own square.

        The square of a target that is one column is not measured, and nothing here uses it: its bound stands in for it.
        """
        whole = np.triu(upper) + np.triu(upper, 1).T
        for place, feature in enumerate(self.features):
            if feature.kind == "level":
                whole[place, place] = whole[0, place]
            elif feature.column == self.target:
                whole[place, place] = unmeasured
        return whole

    def _own(self, joint: Joint) -> dict[str, tuple[NDArray[np.int64], Entries]]:
        """Where each party's own block stands in the matrix, the constant column in front, and which entries it has."""
        places = places_beside_constant(tuple(joint.steps), joint.widths)
        return {
            owner: (places[owner], own_entries(widths_of(step), target=step.parameters["target"] is True))
            for owner, step in joint.steps.items()
        }

    def _held(self, party: str) -> list[str]:
        return [name for name in self.ordered if ColumnName.of(name).party == party]

    def _widths(self, party: str) -> tuple[int, ...]:
        coded = [feature.column for feature in self.features]
        return tuple(coded.count(name) for name in self._held(party))

    def _holding(self, party: str) -> Holding:
        widths = [w for name, w in zip(self._held(party), self._widths(party), strict=True) if name != self.target]
        numbers = widths.count(1)
        return Holding(numbers, len(widths) - numbers)

    def _step(self, party: str, emphasis: int) -> Step:
        held, widths = self._held(party), self._widths(party)
        return Coefficients.ask(
            name=STEP,
            party=party,
            columns=columns_at(party, held),
            parameters={
                "scale": self.gamma,
                "signed": columns_at(party, self.signed),
                "width": sum(widths),
                "widths": widths,
                "target": self.target in held,
                "emphasis": emphasis,
                "protocol": self.protocol,
            },
            price=self.prices[party],
        )
