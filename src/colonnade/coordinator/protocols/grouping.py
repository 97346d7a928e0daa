"""Counts and sums by group: of one party's columns with noise of its own, of two or three parties' on shares.

The paper that comes nearest is Primitives (docs/references.md#primitives), which has no shares. Ours is one joint opening
(docs/proofs/group-by.md): every count and every sum with the noise of one number, whatever the number of groups and of people.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.relaying import open_jointly
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.moment_summaries import GroupFigures, Span
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace
from colonnade.privacy.laws.tables import GroupNoise, value_to_count
from colonnade.protocol.messages import Rounds, ask_all
from colonnade.schema import Column
from colonnade.schema.features import ColumnName, columns_at, parties_of
from colonnade.steps.describing import MOST_HOLDERS, GroupChain, GroupSums, GroupTerms, GroupTotals
from colonnade.steps.joint import read_joint

GROUPS = "groups"
Array = NDArray[np.float64]
SCALES = (1, 4096, 1024, 256)
"""γ by how many parties have values: products of heights have to fit the arithmetic."""


class Heights(NamedTuple):
    """γ and w: the heights of a value and of an indicator beside values."""

    scale: int
    height: int

    @classmethod
    def best(cls, values: int, parties: int) -> "Heights":
        """Return the heights that make means precise, for so many values at so many parties."""
        scale = SCALES[parties]
        return cls(scale, max(1, round(scale / value_to_count(values)))) if values else cls(1, 1)


def helpers_for(holders: tuple[str, ...], parties: tuple[str, ...], collusion: int) -> tuple[str, ...]:
    """Return the other data parties of a federation, if their shares of the noise make it smaller.

    P parties that add noise against c colluders open P/(P − c) times the noise that suffices; c is at most P − 1.

    Examples
    --------
    >>> helpers_for(("a", "b"), ("a", "b", "c"), 1), helpers_for(("a", "b"), ("a", "b", "c"), 2)
    (('c',), ())
    """

    def excess(count: int) -> float:
        return count / (count - min(collusion, count - 1))

    fewer = len(holders) > 1 and excess(len(parties)) < excess(len(holders))
    return tuple(party for party in parties if party not in holders) if fewer else ()


@dataclass(frozen=True)
class GroupRelease:
    """One release of counts and sums.

    Parameters
    ----------
    by
        ``"party.column"`` to the category, in the order in which groups are shown.
    values
        ``"party.column"`` to the number.
    price
        The price of the release. At δ = 0 the noise is discrete Laplace, otherwise discrete Gaussian.
    parties
        The data parties of the federation, in order.
    helpers
        Those that add a share of the noise and hold none of the columns.
    """

    by: Mapping[str, Column]
    values: Mapping[str, Column]
    price: Price
    parties: tuple[str, ...]
    helpers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.holders) > MOST_HOLDERS:
            raise BadInput(
                f"Groups take columns of at most {MOST_HOLDERS} parties, and these are of {len(self.holders)}.",
                remedy="Name columns of fewer parties, or run one study per pair of parties.",
            )
        self.terms  # noqa: B018  # refuses too many groups

    @property
    def holders(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        entering = parties_of([*self.by, *self.values])
        return tuple(party for party in self.parties if party in entering)

    @cached_property
    def terms(self) -> GroupTerms:
        """What the steps say together."""
        return GroupTerms.read({step.party: step for step in self.steps()})

    @property
    def heights(self) -> Heights:
        """γ and w."""
        return Heights.best(len(self.values), len(parties_of(self.values)))

    @property
    def cells(self) -> int:
        """How many groups there are."""
        return math.prod(column.size for column in self.by.values())

    @property
    def leaves_out(self) -> bool:
        """Whether somebody may be in no group, so that the number of people counted is private."""
        return any(column.excludes for column in self.by.values())

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party whose columns enter, and one per helper."""
        kind = (GroupTotals, GroupSums, GroupChain)[len(self.holders) - 1]
        asked = {*self.holders, *self.helpers}
        return tuple(self._step(kind, party) for party in self.parties if party in asked)

    def rounds(self, plan: Plan) -> Rounds:
        """Open all numbers at once."""
        if len(self.holders) == 1:
            releases = yield from ask_all(plan, GROUPS)
            opened = releases[self.holders[0]].array("value")
        else:
            opened = (yield from open_jointly(plan, GROUPS)).cross
        if opened.shape != (self.terms.entries,) or opened.dtype != np.int64:
            raise ProtocolError("The groups were released in another shape.")
        return self.read(opened.astype(np.float64), plan)

    def read(self, opened: Array, plan: Plan) -> GroupFigures:
        """Return what was opened as figures, one axis per column in the order that was asked for."""
        numbers = opened.reshape(1 + len(self.values), -1)
        count, value = self.terms.count_height, self.terms.value_height
        variance = self.variance(plan)
        names = [name for party in self.holders for name in self.values if ColumnName.of(name).party == party]
        found = dict(zip(names, numbers[1:], strict=True))
        return GroupFigures(
            counts=self._arranged(numbers[0] / count),
            sums={name: self._arranged(found[name] / value) for name in self.values},
            count_variance=np.array(variance / count**2),
            sum_variance=np.array(variance / value**2),
            spans={name: Span(column.low, column.high) for name, column in self.values.items()},
        )

    def variance(self, plan: Plan) -> float:
        """Return the variance of an opened number."""
        if len(self.holders) > 1:
            return read_joint(plan, GROUPS).noise.opened_variance
        noise: GroupNoise = self.terms.noise(self.price, "person", 0)
        kind = DiscreteLaplace if noise.family == "laplace" else DiscreteGaussian
        return kind(self.price, noise.moved()).variance

    def _arranged(self, cells: Array) -> Array:
        """Turn cells in the order of parties into a table with an axis per column, in the order that was asked for."""
        stored = [name for party in self.holders for name in self.by if ColumnName.of(name).party == party]
        split = cells.reshape([self.by[name].size for name in stored])
        return np.transpose(split, [stored.index(name) for name in self.by])

    def _step(self, kind: type[GroupTotals] | type[GroupSums] | type[GroupChain], party: str) -> Step:
        by, values = columns_at(party, self.by), columns_at(party, self.values)
        groups = math.prod(column.size for name, column in self.by.items() if ColumnName.of(name).party == party)
        return kind.ask(
            name=GROUPS,
            party=party,
            columns=(*by, *values),
            parameters={
                "by": by,
                "values": values,
                "groups": groups,
                "scale": self.heights.scale,
                "height": self.heights.height,
                "width": groups * (1 + len(values)),
            },
            price=self.price,
        )
