"""One party's rows in counts and sums by group: indicators of its categories, and values times them."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.party.steps.integers import whole_numbers
from colonnade.party.steps.parts import OpensJointly
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Number
from colonnade.steps.groups import GroupChain, GroupPart, GroupSums, GroupTotals

__all__ = ["PrivateGroupChain", "PrivateGroupSums", "PrivateGroupTotals"]


class PrivateGroupSums(OpensJointly, GroupSums):
    """Indicators of one party's categories, and its values."""

    def prepare(self, table: PrivateTable) -> None:
        """Read the columns, and who has a record, before anything is paid."""
        prepare_groups(self.by, self.columns, table)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return one column per group, then one per group and value; a helper has a column of zeros."""
        if self.part.helps:
            return np.zeros((1, stop - start), dtype=np.int64)
        return group_rows(self.part, self.by, self.group_terms.scale, table, start, stop)


class PrivateGroupChain(PrivateGroupSums, GroupChain):
    """The same, of three parties."""


class PrivateGroupTotals(GroupTotals):
    """Counts and sums of one party's own columns."""

    def prepare(self, table: PrivateTable) -> None:
        """Read the columns, and who has a record, before anything is paid."""
        prepare_groups(self.by, self.columns, table)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return all counts, then all sums of the first value, and so on."""
        return table.fold(np.zeros(self.part.width, dtype=np.int64), self._add)

    def _add(self, nonprivate: NDArray[np.int64], table: PrivateTable, start: int, stop: int) -> None:
        nonprivate += group_rows(self.part, self.by, self.group_terms.scale, table, start, stop).sum(axis=1)


def prepare_groups(by: tuple[str, ...], columns: tuple[str, ...], table: PrivateTable) -> None:
    """Read what rows will need."""
    table.load(columns)
    if columns and not by:
        table.load_present(columns)


def group_rows(
    part: GroupPart, by: tuple[str, ...], scale: int, table: PrivateTable, start: int, stop: int
) -> NDArray[np.int64]:
    """Return some people's rows. Nobody has more than one indicator, and a value is at most γ, whatever the table says.

    A person without a level, or without a record, has no indicator: every column is 0.
    """
    codes = (
        table.joint_codes(by, start, stop)[0] if by else table.present(part.values, start, stop).astype(np.int32) - 1
    )
    nonprivate = np.zeros((part.width, stop - start), dtype=np.int64)
    _put(codes, np.full(stop - start, part.height), 0, nonprivate)
    for place, name in enumerate(part.values, start=1):
        column = table.schema[name]
        assert isinstance(column, Number)  # the step's kind has checked it
        values = table.values(name, start, stop)
        coded = whole_numbers(values, scale, middle=column.midpoint, half=column.half_range, scale=scale)
        _put(codes, coded, place * part.groups, nonprivate)
    return nonprivate


@njit(cache=True, nogil=True)
def _put(codes: Any, values: Any, first: int, out: Any) -> None:
    for i in range(len(codes)):
        if codes[i] >= 0:
            out[first + codes[i], i] = values[i]
