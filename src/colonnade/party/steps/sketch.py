"""A few random combinations of all rows, then noise: the sketch-and-perturb of paper 000, Algorithm 4, Theorems E.4 and E.5.

We differ from the paper in the signs (±1, so that every person's column of G has length √s exactly and integers stay
integers; no check that can fail), in the noise (discrete, at the exact sensitivity; the paper's Θ(·) taken as 1 would not be
private enough), and in one more row, of ones: it carries the column sums, which let the reader centre the columns.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.coding import Coding
from colonnade.party.steps.parameters import seed_parameter, whole_parameter
from colonnade.party.steps.values import rounded, whole_values
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.gaussian import DiscreteGaussian
from colonnade.privacy.price import Price
from colonnade.schema import Schema
from colonnade.secure.signs import PEOPLE, Signs

__all__ = ["Sketch", "ValueSketch"]


class _Rows(Protocol):
    def __call__(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integers, a column of the table along each row of the result."""


class _Sketched:
    """G times integer columns, under a row of column sums; s + 1 rows in all.

    Sensitivity: a neighbour's rows differ in one person's integers x, the sketch then in that person's column of G, signs and a
    one, times x: Δ₂² = (s + 1)·‖x‖², exactly. Checked by tests/party/test_sketch_statistics.py.
    """

    signs: Signs
    people: int
    squared: int
    width: int
    _rows: _Rows

    def mechanism(self, price: Price) -> Mechanism:
        """Return discrete Gaussian noise on every entry."""
        return DiscreteGaussian(price, (self.signs.rows + 1) * self.squared)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Fold blocks of people, in whole numbers."""
        sketch = np.zeros((self.width, self.signs.rows), dtype=np.int64)
        sums = np.zeros(self.width, dtype=np.int64)
        for number, start in enumerate(range(0, self.people, PEOPLE)):
            rows = self._rows(table, start, min(start + PEOPLE, self.people))
            self.signs.add_product(number, rows, sketch)
            sums += rows.sum(axis=1)
        return np.concatenate([sums[:, None], sketch], axis=1).T.copy()


class Sketch(_Sketched):
    """One party's coded columns, sketched; zero-out makes a person's coded row zero, so ‖x‖² is at most ``row_bound``."""

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, frozenset({"size", "seed", "scale", "row_bound", "width"}))
        self.signs = Signs(seed_parameter(parameters.get("seed")), whole_parameter(parameters.get("size")))
        self.coding = Coding(
            step.columns,
            schema,
            scale=whole_parameter(parameters.get("scale")),
            row_bound=whole_parameter(parameters.get("row_bound")),
        )
        if parameters.get("width") != self.coding.width:
            raise PlanMismatch("The plan gives this party's columns another width.")
        self.columns = step.columns
        self.people = plan.people
        self.squared = self.coding.row_bound
        self.width = self.coding.width
        self._rows = self.coding.rows


class ValueSketch(_Sketched):
    """One column of whole numbers, sketched; neighbours differ in one person's value by the stated change."""

    width = 1

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, frozenset({"size", "seed", "change"}))
        self.signs = Signs(seed_parameter(parameters.get("seed")), whole_parameter(parameters.get("size")))
        self.values = whole_values(plan, step, schema)
        self.columns = step.columns
        self.people = plan.people
        self.squared = self.values.sensitivity**2
        self._rows = self._column

    def _column(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        return rounded(table.values(self.columns[0])[start:stop], self.values)[None].astype(np.int64)
