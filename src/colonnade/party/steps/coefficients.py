"""The coefficients of a regression's objective that concern one party: paper 003, Algorithm 1, with the noise put in first.

In the paper a party decrypts the exact coefficient between itself and another and then adds noise: it knows both. Here every
party's share of the noise enters the computation before anything is opened, and nobody sees a coefficient without it
(`privacy.md` A2, §5.4).
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.coding import Coding
from colonnade.party.steps.own_products import folded_products
from colonnade.party.steps.parameters import whole_parameter, words_parameter
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Sampler
from colonnade.privacy.laws.functional_noise import CoefficientNoise
from colonnade.privacy.loss import Loss
from colonnade.schema import Schema
from colonnade.steps.coefficient_entries import cross_entries, own_entries, widths_of
from colonnade.steps.joint import Joint

__all__ = ["Coefficients"]

PARAMETERS = frozenset({"scale", "signed", "width", "widths", "target", "emphasis", "protocol"})


class Coefficients:
    """One party's columns in the objective of a regression.

    Sensitivity: `colonnade.privacy.laws.functional_noise.CoefficientNoise`. Entries of a coded row never exceed γ in
    magnitude and a category has a single one that is not 0, whatever the data; the party that holds the row enforces it by
    how it codes.
    """

    name = "Laplace noise in shares on an objective's coefficients"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, PARAMETERS)
        joint = Joint.read(plan, step.name)
        noise = joint.noise
        assert isinstance(noise, CoefficientNoise)  # the statistic's name decided
        scale = whole_parameter(parameters.get("scale"))
        self.noise = noise
        self.party = step.party
        self.people = plan.people
        self.coding = Coding(
            step.columns,
            schema,
            scale=scale,
            signed=words_parameter(parameters.get("signed", ())),
            row_bound=scale**2 * len(step.columns),  # what coding keeps by itself: nothing is clipped
        )
        if tuple(self.coding.widths) != widths_of(step):
            raise PlanMismatch("The plan gives this party's columns other widths.")
        self.entries = own_entries(widths_of(step), target=parameters["target"] is True)
        self.cross = cross_entries(joint.steps)
        self.owner = step.party if plan.unit == "party" else None

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.coding.width

    @property
    def loss(self) -> Loss:
        """The full loss of the opening; for the party unit, that of this party's part of a record."""
        loss = self.noise.loss(party=self.owner)
        assert loss is not None  # with no more colluders than the plan allows, the noise is Laplace
        return loss

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return a Pólya share of Laplace noise an entry, of the scale that its block and its kind have."""
        return self.noise.draw_share(entries, sampler, self.cross.groups)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return coded rows."""
        return self.coding.rows(table, start, stop)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's own coefficients, noised by it alone."""
        nonprivate = folded_products(partial(self.rows, table), self.people, self.width, self.coding.scale)
        chosen = nonprivate[self.entries.rows, self.entries.columns]
        return chosen + self.noise.draw_own(self.party, self.entries.slope, sampler)
