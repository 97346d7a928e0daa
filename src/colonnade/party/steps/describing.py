"""What one party computes to describe its columns: counts of their values, and where people stand for quantiles."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.integers import whole_numbers
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Bins, Schema
from colonnade.spilled_rows import SpilledRows
from colonnade.steps import describing
from colonnade.steps.describing import CountedColumn

__all__ = ["PrivateColumnCounts", "PrivateQuantilePositions"]

NOBODY = -1


def _binned(table: PrivateTable, columns: dict[str, Bins]) -> PrivateTable:
    """Return the table with numbers in bins; it reads each of these columns once more."""
    return table.read_as(Schema(table.schema).read_as(columns)) if columns else table


class PrivateColumnCounts(describing.ColumnCounts):
    """The counts of the rows."""

    def _view(self, table: PrivateTable) -> PrivateTable:
        return _binned(table, {n: one.counted for n, one in self.counted.items() if isinstance(one.counted, Bins)})

    def prepare(self, table: PrivateTable) -> None:
        """Read the columns in their bins, before anything is paid."""
        self._view(table).load(self.columns)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Count groups, bins and missing values of every column."""
        sizes = [column.counted.size for column in self.counted.values()]
        cells = self._view(table).fold(np.zeros(sum(sizes), dtype=np.int64), self._count)
        parts = np.split(cells, np.cumsum(sizes)[:-1])
        return np.concatenate([_grouped(part, one) for part, one in zip(parts, self.counted.values(), strict=True)])

    def _count(self, nonprivate: NDArray[np.int64], view: PrivateTable, start: int, stop: int) -> None:
        first = 0
        for name, column in self.counted.items():
            codes, size = view.codes(name, start, stop), column.counted.size
            nonprivate[first : first + size] += np.bincount(codes[codes >= 0], minlength=size)
            first += size


def _grouped(nonprivate_cells: NDArray[np.int64], column: CountedColumn) -> NDArray[np.int64]:
    if not column.groups:
        return nonprivate_cells
    groups = np.add.reduceat(nonprivate_cells[: column.bins], np.arange(0, column.bins, column.group))
    return np.concatenate([groups, nonprivate_cells])


class PrivateQuantilePositions(describing.QuantilePositions):
    """Where the people of the rows stand."""

    def _presence(self, table: PrivateTable) -> PrivateTable:
        bins = {n: Bins.equal(one.column, 1, missing=one.column.fill is not None) for n, one in self.cells.items()}
        return _binned(table, bins)

    def prepare(self, table: PrivateTable) -> None:
        """Read who has a value, before anything is paid."""
        self._presence(table).load(self.columns)

    def compute(self, table: PrivateTable) -> SpilledRows:
        """Return everybody's cell in every column, −1 where there is no value."""
        return table.written(len(self.columns), np.int32, self._cells_block)

    def _cells_block(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int32]:
        nonprivate = np.empty((stop - start, len(self.columns)), dtype=np.int32)
        presence = self._presence(table)
        for place, (name, cells) in enumerate(self.cells.items()):
            there = presence.codes(name, start, stop) == 0  # the one bin; 1 is a missing value, −1 no record
            values = table.values(name, start, stop)
            whole = whole_numbers(values, cells.number - 1, least=0, middle=cells.first, half=cells.width)
            nonprivate[:, place] = np.where(there, whole, NOBODY)
        return nonprivate
