"""Whole numbers of one party: each person's own, to be perturbed one by one, or their total."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import EVENT, Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.laplace import DiscreteLaplace
from colonnade.privacy.laws.values import PerturbedValues, WholeValues, valid_change
from colonnade.privacy.price import Price
from colonnade.schema import Schema

__all__ = ["Total", "Values", "rounded", "whole_values"]

BLOCK = 65_536


def whole_values(plan: Plan, step: Step, schema: Schema) -> WholeValues:
    """Read which column of whole numbers a step means, and how far neighbours are apart under the plan's relation."""
    if len(step.columns) != 1:
        raise BadInput("A moment takes one column a party.")
    change = valid_change(step.parameters.get("change"))
    if (plan.relation == EVENT) != (change != "bounds"):
        raise PlanMismatch("The plan's relation is not the one that its change of a value belongs to.")
    values = WholeValues.of(schema[step.columns[0]], step.columns[0], change)
    if plan.people * values.high >= 2**62:
        raise BadInput("A total of this column could exceed eight bytes.", remedy="Narrow its bounds.")
    return values


def rounded(numbers: NDArray[np.float64], values: WholeValues) -> NDArray[Any]:
    """Return numbers within integer bounds as integers; a missing one is the midpoint, rounded like any other."""
    whole = np.empty(len(numbers), dtype=np.int32 if values.high < 2**31 else np.int64)
    for start in range(0, len(numbers), BLOCK):
        whole[start : start + BLOCK] = np.clip(np.rint(numbers[start : start + BLOCK]), values.low, values.high)
    return whole


class Values:
    """Each person's whole number at this party, to be perturbed person by person.

    Sensitivity: a person's record decides one entry; between neighbours it changes by at most ``change``, or by the width of the
    bounds for ``"bounds"``. Checked by tests/party/test_moment_statistics.py.
    """

    taking_part = None

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        only_parameters(step, frozenset({"change"}))
        self.columns = step.columns
        self.values = whole_values(plan, step, schema)

    def mechanism(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise on every entry."""
        return PerturbedValues(price, self.values)

    def everyone(self, table: PrivateTable) -> NDArray[Any]:
        """Return one whole number a person."""
        return rounded(table.values(self.columns[0]), self.values)

    compute = everyone


class Total:
    """The sum of one column.

    Sensitivity: one person moves it by at most ``change``, or by the width of the bounds for ``"bounds"``. Checked by
    tests/party/test_moment_statistics.py.
    """

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        only_parameters(step, frozenset({"change"}))
        self.columns = step.columns
        self.values = whole_values(plan, step, schema)

    def mechanism(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise."""
        return DiscreteLaplace(price, self.values.sensitivity)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Add up, exactly."""
        total = 0
        for block in table.blocks(self.columns):
            total += int(rounded(block[self.columns[0]], self.values).sum(dtype=np.int64))
        return np.array([total], dtype=np.int64)
