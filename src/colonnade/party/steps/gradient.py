"""One party's part in the steps of a gradient descent (paper 002, Algorithm 4; `privacy.md` §4.6).

With labels s = ±1 and the sigmoid replaced by its tangent ½ + z/4, four times the gradient of one person is (⟨w, x⟩ − 2s)·x.
In integers: entries of x are multiplied by γ, weights by ω, and v = Σ_q v_q stands for γω(⟨w, x⟩ − 2s), each v_q clipped by
the party that makes it, the label within the part of the party that holds it. We differ from the paper in that the three
vectors it releases are one, and that the clipping of scores, not a promise about weights, bounds them: the bound holds
whatever weights arrive.

The constant column is the target holder's: γ for whoever has a label, else 0, so that a null record adds nothing to a step.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanMismatch, SchemaMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.coding import Coding
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Sampler
from colonnade.privacy.loss import Loss
from colonnade.schema import Category, Schema
from colonnade.steps.gradient_terms import GradientTerms

__all__ = ["Gradient"]

Integers = NDArray[np.int64]

_PARAMETERS = frozenset(
    {"scale", "weight_scale", "row_bound", "score_bound", "width", "target", "steps", "rate", "sampling"}
)
_BLOCK = 65_536


class Gradient:
    """One party's rows, scores and noise in every step.

    Sensitivity: `colonnade.privacy.laws.gradient_noise.GradientNoise`. Every row has squared length at most R_q² and every
    score is at most C_q in magnitude; both are enforced here, in integers.
    """

    name = "gradient steps with noise in shares"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, _PARAMETERS)
        self.terms = GradientTerms.read(plan, step.name)
        self.target = str(parameters.get("target", ""))
        self._party = step.party
        self._bound = self.terms.noise.score_bounds[step.party]
        self._owner = step.party if plan.unit == "party" else None
        constant = self.terms.scale**2 if self.target else 0
        features = [name for name in step.columns if name != self.target]
        if self.target and (self.target not in step.columns or not _is_binary(schema[self.target])):
            raise SchemaMismatch("The target of a gradient is a category of two levels.")
        self._coding = (
            Coding(
                features,
                schema,
                scale=self.terms.scale,
                row_bound=self.terms.noise.row_bounds[step.party] - constant,
            )
            if features
            else None
        )
        if not features and self.terms.noise.row_bounds[step.party] < constant:
            raise PlanMismatch("The plan bounds this party's rows below the constant column.")
        if self.terms.widths[step.party] != self._width:
            raise PlanMismatch("The plan gives this party's columns another width.")

    @property
    def loss(self) -> Loss:
        """What all steps together cost, to be debited before the first of them."""
        loss = self.terms.noise.loss(party=self._owner)
        assert loss is not None  # all parties' noise is there
        return loss

    @property
    def peer_loss(self) -> Loss | None:
        """What a peer learns, who knows the batches and its own noise; ``None`` if nothing is left to protect."""
        return self.terms.noise.loss(colluders=1, party=self._owner)

    def coded(self, table: PrivateTable) -> tuple[NDArray[np.int16], NDArray[np.int8] | None]:
        """Return everyone's row in integers, a person a row, and everyone's label: −1, 1, or 0 where there is none."""
        nonprivate = np.zeros((self.terms.people, self._width), dtype=np.int16)
        labels: NDArray[np.int8] | None = None
        if self.target:
            codes = table.codes(self.target)
            labels = np.where(codes < 0, 0, 2 * codes - 1).astype(np.int8)
            nonprivate[:, 0] = np.abs(labels) * np.int16(self.terms.scale)
        for start in range(0, self.terms.people if self._coding is not None else 0, _BLOCK):
            assert self._coding is not None  # or there were nothing to do
            stop = min(start + _BLOCK, self.terms.people)
            nonprivate[start:stop, self._constant :] = self._coding.rows(table, start, stop).T
        return nonprivate, labels

    def scores(self, rows: Integers, labels: NDArray[Any] | None, weights: Integers) -> Integers:
        """Return this party's part of γω(⟨w, x⟩ − 2s) for some people, clipped to what the plan bounds it by."""
        nonprivate: Integers = rows @ weights
        if labels is not None:
            nonprivate = nonprivate - 2 * self.terms.scale * self.terms.weight_scale * labels.astype(np.int64)
        return np.clip(nonprivate, -self._bound, self._bound)

    def noise(self, sampler: Sampler) -> Integers:
        """Return this party's share of the noise of one step, drawn afresh."""
        return self.terms.noise.draw_share(self.terms.columns, sampler)

    @property
    def _constant(self) -> int:
        return 1 if self.target else 0

    @property
    def _width(self) -> int:
        return self._constant + (0 if self._coding is None else self._coding.width)


def _is_binary(column: object) -> bool:
    return isinstance(column, Category) and column.size == 2
