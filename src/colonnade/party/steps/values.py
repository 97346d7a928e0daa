"""Whole numbers of one party, computed from its table."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws.values import WholeValues
from colonnade.steps.values import Total, Values

__all__ = ["PrivateTotal", "PrivateValues", "rounded"]

BLOCK = 65_536


def rounded(numbers: NDArray[np.float64], values: WholeValues) -> NDArray[Any]:
    """Return numbers within integer bounds as integers; a missing one is the midpoint, rounded like any other."""
    whole = np.empty(len(numbers), dtype=np.int32 if values.high < 2**31 else np.int64)
    for start in range(0, len(numbers), BLOCK):
        whole[start : start + BLOCK] = np.clip(np.rint(numbers[start : start + BLOCK]), values.low, values.high)
    return whole


class PrivateValues(Values):
    """Each person's whole number."""

    taking_part = None

    def everyone(self, table: PrivateTable) -> NDArray[Any]:
        """Return one whole number per person."""
        return rounded(table.values(self.columns[0]), self.values)

    compute = everyone


class PrivateTotal(Total):
    """The sum of the column."""

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Add up, exactly."""
        total = 0
        for block in table.blocks(self.columns):
            total += int(rounded(block[self.columns[0]], self.values).sum(dtype=np.int64))
        return np.array([total], dtype=np.int64)
