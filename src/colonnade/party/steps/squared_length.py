"""The sum over people of ‖x‖² + w·x over one party's coded columns, with noise: a party's part of a sum of squared distances."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import to_unit_range
from colonnade.errors import BadInput
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.parameters import whole_parameter
from colonnade.party.steps.partial_scores import LARGEST_NUMBER, PartialScores, numbers_parameter
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.laplace import DiscreteLaplace
from colonnade.privacy.price import Price
from colonnade.schema import Numeric, Schema

__all__ = ["SquaredLength"]

BLOCK = 65_536


class SquaredLength:
    """Σ (‖x‖² + w·x), each person's term rounded to a step of 1/height of the largest magnitude and clamped to it.

    ‖x − c‖² − ‖c‖² is such a term, with w = −2c. A null record is coded as 0, so its term is 0: zeroing one out moves the sum
    by at most ``height``. Checked by tests/party/test_score_statistics.py.
    """

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, frozenset({"weights", "largest", "height"}))
        self.scores = PartialScores(step.columns, schema, numbers_parameter(parameters.get("weights")))
        (self.largest,) = numbers_parameter((parameters.get("largest"),))
        self.height = whole_parameter(parameters.get("height"))
        if self.scores.outputs != 1 or self.largest < 1 / LARGEST_NUMBER or plan.people * self.height >= 2**62:
            raise BadInput("A sum of squares has one row of weights, a largest magnitude, and fits eight bytes.")
        self.people = plan.people

    def mechanism(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise."""
        return DiscreteLaplace(price, Fraction(self.height))

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Add up, exactly."""
        total = 0
        for start in range(0, self.people, BLOCK):
            stop = min(start + BLOCK, self.people)
            nonprivate = self.scores.values(table, start, stop) + self._squares(table, start, stop)
            steps = np.clip(np.rint(nonprivate / self.largest * self.height), -self.height, self.height)
            total += int(steps.astype(np.int64).sum())
        return np.array([total], dtype=np.int64)

    def _squares(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.float64]:
        nonprivate = np.zeros(stop - start)
        for name in self.scores.columns:
            column = self.scores.schema[name]
            if isinstance(column, Numeric):
                nonprivate += to_unit_range(table.values(name)[start:stop], column) ** 2
            else:
                nonprivate += table.codes(name)[start:stop] >= 0
        return nonprivate
