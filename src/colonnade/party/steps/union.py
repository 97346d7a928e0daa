"""Moments of the people in common on a union of lists: indicators multiply rows, on shares, so that nobody learns who they are.

In the order of a union each party has null records where it lacks a person. Products between the parties then count the people in
common by themselves. What a party could compute alone, the products of its own columns, would count all its people: so they are
shared too, and multiplied by the other party's indicator. That is still of degree two.
"""

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.coding import Coding
from colonnade.party.steps.parameters import whole_parameter, words_parameter
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Sampler
from colonnade.privacy.laws.union_noise import UnionNoise
from colonnade.privacy.loss import Loss
from colonnade.schema import Schema
from colonnade.steps.joint import Joint

__all__ = ["UnionCross", "UnionOwn"]


class UnionCross:
    """One party's columns, with its indicator in front, in the products between the two parties."""

    name = "Gram matrix of the people in common, with noise in shares"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, frozenset({"scale", "signed", "row_bound", "width", "coded", "part"}))
        noise = Joint.read(plan, step.name).noise
        assert isinstance(noise, UnionNoise)  # the statistic's name decided
        self.noise = noise
        self.party = step.party
        self.coding = Coding(
            step.columns,
            schema,
            scale=whole_parameter(parameters.get("scale")),
            signed=words_parameter(parameters.get("signed", ())),
            row_bound=whole_parameter(parameters.get("row_bound")),
        )
        if parameters.get("coded") != self.coding.width or parameters.get("width") != self.width:
            raise PlanMismatch("The plan gives this party's columns another width.")

    @property
    def width(self) -> int:
        """How many integers a row has: the indicator and the coded columns."""
        return 1 + self.coding.width

    @property
    def loss(self) -> Loss:
        """What this step costs; for the party unit the same, because a record at one party is what puts a person in common."""
        loss = self.noise.loss()
        assert loss is not None  # with no more colluders than the plan allows, noise is left
        return loss

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return the indicator, of height γ, and coded rows."""
        held = table.held()[start:stop].astype(np.int64) * self.coding.scale
        return np.vstack([held[None, :], self.coding.rows(table, start, stop)])

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return a share of the noise: s² an entry, twice that where it has variance V."""
        return self.noise.draw_share(entries, sampler)

    def own(self, table: PrivateTable, sampler: Sampler) -> None:  # noqa: ARG002
        """Nothing: no product is this party's alone."""
        return


class UnionOwn(UnionCross):
    """One party's own products, or the indicator that the other party multiplies them by."""

    name = "own products of the people in common, with noise in shares"

    @property
    def width(self) -> int:
        """The upper triangle of this party's products, if they are the part; otherwise the indicator."""
        coded = self.coding.width
        return coded * (coded + 1) // 2 if self.noise.part == self.party else 1

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return products of coded columns, or the indicator."""
        if self.noise.part != self.party:
            return table.held()[None, start:stop].astype(np.int64)
        coded = self.coding.rows(table, start, stop)
        first, second = np.triu_indices(len(coded))
        return coded[first] * coded[second]
