"""How many people of each joint category: the discrete-Laplace histogram."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.memberships import MEMBERSHIP, Earlier, category_of, nothing_earlier
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.laplace import DiscreteLaplace
from colonnade.privacy.price import Price
from colonnade.schema import Schema

__all__ = ["Histogram"]


class Histogram:
    """Counts of one party's category (`colonnade.party.steps.memberships`).

    Sensitivity: under zero-out one person leaves one cell, which changes by exactly one (a missing record is in no cell),
    so Δ₁ = 1. Checked by tests/party/test_statistics.py.
    """

    sensitivity = 1
    looks_back = True

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        only_parameters(step, MEMBERSHIP)
        self.columns = step.columns
        self.category = category_of(plan, step, schema, earlier)
        self.size = self.category.size

    def prepare(self, table: PrivateTable) -> None:
        """Require whatever the category rests on, before anything is paid."""
        self.category.prepare(table)

    def mechanism(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise of scale 1/ε."""
        return DiscreteLaplace(price, self.sensitivity)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Count, without the missing."""
        nonprivate_codes = self.category.codes(table)
        return np.bincount(nonprivate_codes[nonprivate_codes >= 0], minlength=self.size).astype(np.int64)
