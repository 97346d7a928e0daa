"""Statistics that several parties open together: integer rows to be shared, noise for every cross entry, and an own part.

What a party contributes to a joint opening is described here; how rows are shared, multiplied and opened is
`colonnade.node`'s business. A joint statistic is constructed from public facts only, like any other.
"""

from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.coding import Coding
from colonnade.party.steps.memberships import MEMBERSHIP, Earlier, category_of, nothing_earlier
from colonnade.party.steps.own_products import folded_products
from colonnade.party.steps.parameters import whole_parameter, words_parameter
from colonnade.party.steps.partial_scores import ScoreCoding
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Sampler
from colonnade.privacy.laws.joint_noise import GramNoise, TableNoise
from colonnade.privacy.loss import Loss
from colonnade.schema import Schema
from colonnade.steps.joint import Joint

__all__ = ["Gram", "JointStatistic", "PairTables"]


class JointStatistic(Protocol):
    """What the gate needs to know of a statistic that several parties open together."""

    name: str

    @property
    def loss(self) -> Loss:
        """What this party's ledger is debited."""

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's share of the noise, one number for each entry between two parties."""

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows, a column of the table along each row of the result."""

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64] | None:
        """Return the part of the release that concerns this party alone, noised by it alone."""


class Gram:
    """One party's columns of a Gram matrix of all parties' columns; paper 002, Algorithm 2.

    Sensitivity: `colonnade.privacy.laws.joint_noise.GramNoise`. Every row of every party is an integer vector of squared
    length at most its ``row_bound``, which the party that holds it enforces; with ``weights`` the columns are scores of a
    public model (`colonnade.party.steps.partial_scores`). The own part is the upper triangle of the party's own
    columns with a constant column in front, without the number of people.
    """

    name = "Gram matrix with noise in shares"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        known = frozenset({"scale", "signed", "row_bound", "width", "noise"})
        parameters = only_parameters(step, known | ScoreCoding.PARAMETERS)
        noise = Joint.read(plan, step.name).noise
        assert isinstance(noise, GramNoise)  # the statistic's name decided
        self.noise = noise
        scale, row_bound = whole_parameter(parameters.get("scale")), whole_parameter(parameters.get("row_bound"))
        self.coding: Coding | ScoreCoding
        if "weights" in parameters:
            self.coding = ScoreCoding(step.columns, schema, scale=scale, row_bound=row_bound, parameters=parameters)
        else:
            signed = words_parameter(parameters.get("signed", ()))
            self.coding = Coding(step.columns, schema, scale=scale, signed=signed, row_bound=row_bound)
        if parameters.get("width") != self.coding.width:
            raise PlanMismatch("The plan gives this party's columns another width.")
        self.people = plan.people
        self.owner = step.party if plan.unit == "party" else None

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.coding.width

    @property
    def loss(self) -> Loss:
        """The full loss of the opening; for the party unit, that of this party's part of a record."""
        return _certain(self.noise.loss(party=self.owner))

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return a share of variance s² an entry."""
        return self.noise.draw_share(entries, sampler)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return coded rows."""
        return self.coding.rows(table, start, stop)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's own block with its column sums in front: variance V on the diagonal, V/2 elsewhere."""
        nonprivate = self._own_block(table)
        upper = np.triu_indices(len(nonprivate))
        return (nonprivate[upper] + self.noise.draw_own(len(nonprivate), sampler))[1:]

    def _own_block(self, table: PrivateTable, block: int = 8_192) -> NDArray[np.int64]:
        return folded_products(partial(self.rows, table), self.people, self.width, self.coding.scale, block)


class PairTables:
    """One party's category in the pair tables of all parties' categories (`privacy.md` §3.6).

    Sensitivity: `colonnade.privacy.laws.joint_noise.TableNoise`; a person moves one cell of each table by one.
    """

    name = "pair tables with noise in shares"
    largest = 1
    looks_back = True

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        parameters = only_parameters(step, frozenset({"width"}) | MEMBERSHIP)
        noise = Joint.read(plan, step.name).noise
        assert isinstance(noise, TableNoise)  # the statistic's name decided
        self.noise = noise
        self.columns = step.columns
        self.category = category_of(plan, step, schema, earlier)
        self.width = self.category.size
        if parameters.get("width") != self.width:
            raise PlanMismatch("The plan gives this party's categories another number of levels.")
        self.owner = step.party if plan.unit == "party" else None

    @property
    def loss(self) -> Loss:
        """The full loss of the opening; for the party unit, that of this party's part of a record."""
        return _certain(self.noise.loss(party=self.owner))

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return Pólya shares of discrete Laplace noise, or discrete Gaussian shares."""
        return self.noise.draw_share(entries, sampler)

    def prepare(self, table: PrivateTable) -> None:
        """Require whatever the category rests on, before anything is paid."""
        self.category.prepare(table)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return indicators of the joint category."""
        some = self.category.codes(table, start, stop)
        rows = np.zeros((self.width, len(some)), dtype=np.int64)
        present = np.flatnonzero(some >= 0)
        rows[some[present], present] = 1
        return rows

    def own(self, table: PrivateTable, sampler: Sampler) -> None:  # noqa: ARG002
        """Nothing: margins follow from the tables."""
        return


def _certain(loss: Loss | None) -> Loss:
    assert loss is not None  # with no more colluders than the plan allows, noise is left
    return loss
