"""How many people of each joint category: the discrete-Laplace histogram."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.party.statistics.categories import joint_size, only_parameters
from colonnade.party.table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.mechanisms import Mechanism
from colonnade.privacy.mechanisms.laplace import DiscreteLaplace
from colonnade.privacy.price import Price
from colonnade.schema import Schema

__all__ = ["Histogram"]


class Histogram:
    """Counts of one party's joint category.

    Sensitivity: under zero-out one person leaves one cell, which changes by exactly one (a missing record is in no cell),
    so Δ₁ = 1. Checked by tests/party/test_statistics.py.
    """

    sensitivity = 1

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:  # noqa: ARG002  # every statistic is made alike
        only_parameters(step, frozenset())
        self.columns = step.columns
        self.size = joint_size(step.columns, schema)

    def mechanism(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise of scale 1/ε."""
        return DiscreteLaplace(price, self.sensitivity)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Count, without the missing."""
        nonprivate_codes, _ = table.joint_codes(self.columns)
        return np.bincount(nonprivate_codes[nonprivate_codes >= 0], minlength=self.size).astype(np.int64)
