"""A histogram of scores that add up over parties, by label, read from a plan: who shares what, and which products are added up.

Each party turns its part of a score into a whole number of bins. Two of them, *left* and *right*, end up holding one number each
whose sum is the score's bin: the right one also holds the label. Both share indicators of their number (of number and label), and
the compute nodes add up, on shares, every product of two indicators that belongs to one bin and label. Only those sums are
opened, noised: a person is in one of them, so the histogram costs what one count costs, and nobody ever holds a score.

A further party, a *giver*, divides its number into two, each of them uniform by itself, for left and right
(`colonnade.conversations.scores`). Sums are then taken modulo a power of two with room above the bins: a giver without a
record adds the number of bins, which moves the person out of the histogram, as a missing indicator does at left and right.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.tables import TableNoise

__all__ = ["LARGEST_MODULUS", "ScoreTable", "modulus_for"]

LARGEST_MODULUS = 1 << 12
DROPPED = -1


def modulus_for(bins: int, givers: int) -> int:
    """Return the modulus in which sums are taken: room for the bins once, and once more a giver; 0 where nothing can wrap."""
    return 0 if givers == 0 else 1 << (bins * (givers + 1) - 1).bit_length()


@dataclass(frozen=True)
class ScoreTable:
    """One histogram.

    Parameters
    ----------
    left, right, givers
        Who has which role.
    bins
        How many bins the score has.
    labels
        How many labels there are.
    modulus
        What numbers are added modulo; 0 for plain addition.
    levels
        How many values the left and the right number can take.
    """

    left: str
    right: str
    givers: tuple[str, ...]
    bins: int
    labels: int
    modulus: int
    levels: tuple[int, int]

    @classmethod
    def read(cls, plan: Plan, steps: Mapping[str, Step]) -> "ScoreTable":
        """Read a histogram from the steps of a plan; refuse one that its parties would understand differently."""
        roles = {party: step.parameters.get("role") for party, step in steps.items()}
        left = [party for party, role in roles.items() if role == "left"]
        right = [party for party, role in roles.items() if role == "right"]
        givers = tuple(party for party, role in roles.items() if role == "giver")
        if len(left) != 1 or len(right) != 1 or len(givers) != len(roles) - 2:
            raise PlanMismatch("A histogram of scores has one left party, one right party, and givers.")
        if plan.collusion > 1:
            raise NotEnoughComputeNodes(
                "A histogram of scores is protected against one colluding party, and the plan asks for more.",
                remedy="Open the federation with collusion=1.",
            )
        shared = {
            tuple(step.parameters.get(name) for name in ("bins", "labels", "step", "seed")) for step in steps.values()
        }
        if len(shared) != 1:
            raise PlanMismatch("The parties of a histogram are asked for different bins.")
        bins, labels = (_whole(steps[left[0]], name) for name in ("bins", "labels"))
        parts = {party: _whole(step, "parts") for party, step in steps.items()}
        if sum(part - 1 for part in parts.values()) + 1 != bins:
            raise PlanMismatch("The parties' parts of a score do not make up its bins.")
        modulus = modulus_for(bins, len(givers))
        if max(modulus, bins) > LARGEST_MODULUS or labels > LARGEST_MODULUS:
            raise BadInput("A histogram of scores has too many bins.", remedy="Ask for fewer.")
        levels = (modulus, modulus) if modulus else (parts[left[0]], parts[right[0]])
        return cls(left[0], right[0], givers, bins, labels, modulus, levels)

    @property
    def widths(self) -> dict[str, int]:
        """How many indicators the left and the right party share, in this order."""
        return {self.left: self.levels[0], self.right: self.levels[1] * self.labels}

    @property
    def cells(self) -> int:
        """How many counts are opened."""
        return self.bins * self.labels

    @cached_property
    def fold(self) -> NDArray[np.int64]:
        """For every product of a left and a right indicator, row by row, the count it belongs to; −1 for none."""
        left = np.arange(self.levels[0])[:, None, None]
        right = np.arange(self.levels[1])[None, :, None]
        label = np.arange(self.labels)[None, None, :]
        total = (left + right) % self.modulus if self.modulus else left + right
        place = np.where(total < self.bins, total * self.labels + label, DROPPED)
        return np.ascontiguousarray(place.reshape(-1), dtype=np.int64)

    def noise(self, plan: Plan, step: Step) -> TableNoise:
        """Return the noise of the histogram: that of one table, in which a record at any party moves one cell by one."""
        if step.price is None:
            raise PlanMismatch("A joint opening has a price.")
        return TableNoise((self.left, self.right), step.price, plan.unit, plan.collusion, self.cells)


def _whole(step: Step, parameter: str) -> int:
    value = step.parameters.get(parameter)
    if type(value) is not int or not 1 <= value <= LARGEST_MODULUS:
        raise BadInput("A histogram of scores lacks a parameter that must be a positive whole number.")
    return value
