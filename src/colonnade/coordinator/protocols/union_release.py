"""Paper 002, Algorithm 2, on a union of two lists: moments of the people in common, whom nobody knows.

We differ from the paper, which assumes aligned rows: every product is opened through shares, a party's own ones multiplied by
the other's indicator, and the number of people in common is one more noisy entry.
"""

from dataclasses import dataclass

import numpy as np

from colonnade.coding.features import coded_widths, consecutive_places
from colonnade.coordinator.protocols.gram_release import Array, GramRelease
from colonnade.coordinator.protocols.joint_opening import JointResult, open_jointly
from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.union import UnionNoise
from colonnade.protocol.rounds import Rounds
from colonnade.steps.joint import Joint
from colonnade.steps.union import UnionCross, UnionOwn

__all__ = ["UnionRelease"]

CROSS = "cross"


@dataclass(frozen=True)
class UnionRelease(GramRelease):
    """Three joint openings that make one matrix of moments; parameters as for `GramRelease`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise != "gaussian":
            raise BadInput("On a union the noise is 'gaussian'.")

    def steps(self) -> tuple[Step, ...]:
        """Return a step a party for the products between the two, and two for each party's own products."""
        steps = [self._part(party, CROSS, self._width(party) + 1) for party in self.parties]
        for owner in self.parties:
            triangle = self._width(owner) * (self._width(owner) + 1) // 2
            steps += [self._part(party, owner, triangle if party == owner else 1) for party in self.parties]
        return tuple(steps)

    def rounds(self, plan: Plan) -> Rounds:
        """Open the three parts and put them together."""
        cross = yield from open_jointly(plan, CROSS)
        own = {}
        for party in self.parties:
            own[party] = yield from open_jointly(plan, _own(party))
        return self.assembled(cross, own)

    def assembled(self, cross: JointResult, own: dict[str, JointResult]) -> Moments:
        """Read the three parts as moments, in coded units; the number of people is the released one."""
        unit = float(self.gamma) ** 2
        left, right = self.parties
        size = 1 + self._width(left) + self._width(right)
        matrix = np.zeros((size, size))
        between = (cross.cross / unit).reshape(self._width(left) + 1, self._width(right) + 1)
        places = consecutive_places(coded_widths(self.features), first=1)
        matrix[0, places[right]] = between[0, 1:]
        matrix[0, places[left]] = between[1:, 0]
        matrix[np.ix_(places[left], places[right])] = between[1:, 1:]
        for party, opened in own.items():
            first, second = np.triu_indices(len(places[party]))
            matrix[places[party][first], places[party][second]] = opened.cross / unit
        whole = np.triu(matrix) + np.triu(matrix, 1).T
        people = max(1, round(float(between[0, 0])))
        return Moments.of_release(whole, self.variance(cross.joint), people, self.features)

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry, in coded units: both parties' shares of it."""
        assert isinstance(joint.noise, UnionNoise)  # the step's statistic decided
        size = len(self.features)
        variance = np.full((size, size), 2 * joint.noise.share_variance / float(self.gamma) ** 4)
        np.fill_diagonal(variance, 2 * variance[0, 0])
        return variance

    def _width(self, party: str) -> int:
        return coded_widths(self.features)[party]

    def _part(self, party: str, part: str, width: int) -> Step:
        plain = self._step(party)
        parameters = {name: plain.parameters[name] for name in ("scale", "signed", "row_bound")}
        kind = UnionCross if part == CROSS else UnionOwn
        return kind.ask(
            name=CROSS if part == CROSS else _own(part),
            party=party,
            columns=plain.columns,
            parameters={**parameters, "width": width, "coded": self._width(party), "part": part},
            price=self.price,
        )


def _own(party: str) -> str:
    return f"own products of {party}"
