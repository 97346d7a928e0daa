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
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.tables import TableNoise
from colonnade.schema import Category, Schema
from colonnade.steps.joint import Joint, JointStep, shared_price
from colonnade.steps.kind import Earlier, Steps, nothing_earlier
from colonnade.steps.terms import (
    LARGEST_NUMBER,
    ScoreWeights,
    number_list,
    number_parameter,
    seed_parameter,
    whole_list,
    whole_parameter,
)

__all__ = ["LARGEST_MODULUS", "NOBODY", "Level", "NearestPoint", "ScoreHistogram", "ScoreTable", "modulus_for"]

LARGEST_MODULUS = 1 << 12
DROPPED = -1
NOBODY = -1


def modulus_for(bins: int, givers: int) -> int:
    """Return the modulus in which sums are taken: room for the bins once, and once more per giver; 0 where nothing can wrap."""
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
        bins, labels = (
            whole_parameter(steps[left[0]].parameters, name, LARGEST_MODULUS) for name in ("bins", "labels")
        )
        parts = {party: whole_parameter(step.parameters, "parts", LARGEST_MODULUS) for party, step in steps.items()}
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


class ScoreHistogram(JointStep):
    """How many steps this party's part of a score is, for every person; with the label at the party that holds it.

    A part is counted in steps above its public lowest value and rounded up or down by a public coin that no record has a say in
    (dither), so that rounding has no direction. Sensitivity: a person is in one count or in none. A record without any value
    here, or without a label, takes the person out of the histogram, so zeroing a record out, at one party or at all of them,
    moves one count by one (`colonnade.privacy.laws.tables.TableNoise` with one table). Checked by
    tests/party/test_score_statistics.py.
    """

    name: ClassVar[str] = "score-table"
    title: ClassVar[str] = "histogram of scores with noise in shares"
    conversation: ClassVar[str] = "scores"
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"role", "weights", "low", "step", "parts", "bins", "labels", "seed", "label", "points", "guesses", "kept"}
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        self.table = ScoreTable.read(plan, {one.party: one for one in plan.steps if one.name == step.name})
        self.label = _label_of(step, schema, self.table) if step.party == self.table.right else None
        features = [name for name in step.columns if self.label is None or name != self.label.column]
        weights = number_list(step.parameters, "weights")
        self.scores = ScoreWeights(features, schema, weights) if features else None
        if (0 if self.scores is None else self.scores.outputs) != (1 if features else len(weights)):
            raise PlanMismatch("A histogram has one score.")
        self.low = number_parameter(step.parameters, "low")
        self.bin_width = number_parameter(step.parameters, "step")
        if self.bin_width < 1 / LARGEST_NUMBER:
            raise BadInput("The step of a histogram is positive, and of ordinary size.")
        self.parts = whole_parameter(step.parameters, "parts")
        self.seed = seed_parameter(step.parameters)

    @classmethod
    def terms(cls, plan: Plan, steps: Steps) -> Joint:
        """Return the terms: left and right share indicators, whose products are added up by bin and label."""
        table = ScoreTable.read(plan, steps)
        pair = (table.left, table.right)
        return Joint(
            steps={owner: steps[owner] for owner in table.widths},
            widths=list(table.widths.values()),
            noise=TableNoise(pair, shared_price(steps), plan.unit, plan.collusion, table.cells),
            nodes=plan.compute_nodes,
            threshold=plan.threshold,
            people=plan.people,
            largest=1,
            largest_other=1,
            fold=table.fold,
            sums=table.cells,
            preceding=1,
            givers=table.givers,
        )


class Level:
    """A label that stands in a category column."""

    def __init__(self, step: Step, schema: Schema, table: ScoreTable) -> None:
        label = step.parameters.get("label")
        column = schema[label] if isinstance(label, str) and label in step.columns else None
        if not isinstance(column, Category):
            raise SchemaMismatch("The label of a histogram is a category of the party that holds it.")
        self.column = str(label)
        self.places = _places(step, table, column.size)


class NearestPoint:
    """A label that stands for the nearest of some public points, by this party's own columns."""

    column = ""

    def __init__(self, step: Step, schema: Schema, table: ScoreTable) -> None:
        self.points = ScoreWeights(step.columns, schema, number_list(step.parameters, "points"))
        self.guesses = np.array(whole_list(step.parameters, "guesses"), dtype=np.int64)
        if len(self.guesses) != self.points.outputs or self.guesses.min() < 0:
            raise PlanMismatch("The plan has another number of points than of labels for them.")
        self.places = _places(step, table, int(self.guesses.max(initial=0)) + 1 + max(_kept(step)))


def _label_of(step: Step, schema: Schema, table: ScoreTable) -> Level | NearestPoint:
    if ("label" in step.parameters) == ("points" in step.parameters):
        raise PlanMismatch("A histogram has one label: a column, or the nearest of some points.")
    return Level(step, schema, table) if "label" in step.parameters else NearestPoint(step, schema, table)


def _kept(step: Step) -> tuple[int, ...]:
    kept = whole_list(step.parameters, "kept")
    if not kept or min(kept) < 0:
        raise PlanMismatch("A histogram says which labels it counts.")
    return kept


def _places(step: Step, table: ScoreTable, size: int) -> NDArray[np.int64]:
    """Return for every label, and for none, the place among those that are counted, or −1."""
    kept = _kept(step)
    if len(kept) != table.labels or len(set(kept)) != len(kept) or max(kept) >= size:
        raise PlanMismatch("A histogram counts as many different labels as the plan says.")
    places = np.full(size + 1, NOBODY, dtype=np.int64)
    places[list(kept)] = np.arange(len(kept))
    return places
