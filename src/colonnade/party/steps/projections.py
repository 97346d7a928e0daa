"""A party's own columns in fewer numbers, computed from its table, in whole numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import to_unit_range
from colonnade.party.steps.coding import coded_rows
from colonnade.party.steps.partial_scores import partial_scores
from colonnade.party.steps.values import rounded
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Numeric
from colonnade.secure.signs import PEOPLE, Signs
from colonnade.steps.projections import Rows, Sketch, SquaredLength, ValueSketch

__all__ = ["PrivateRows", "PrivateSketch", "PrivateSquaredLength", "PrivateValueSketch"]

BLOCK = 65_536


class PrivateRows(Rows):
    """The coded rows."""

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the coded rows, columns along the first axis."""
        return coded_rows(self.coding, table, 0, self.people)


class PrivateSketch(Sketch):
    """Random combinations of the coded rows."""

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Fold blocks of people, in whole numbers."""
        return _sketched(
            self.signs,
            self.people,
            self.coding.width,
            lambda start, stop: coded_rows(self.coding, table, start, stop),
        )


class PrivateValueSketch(ValueSketch):
    """Random combinations of one column."""

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Fold blocks of people, in whole numbers."""
        numbers = table.values(self.columns[0])
        return _sketched(
            self.signs,
            self.people,
            1,
            lambda start, stop: rounded(numbers[start:stop], self.values)[None].astype(np.int64),
        )


class PrivateSquaredLength(SquaredLength):
    """The sum of squared lengths of the coded rows, with a linear term."""

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Add up, exactly."""
        total = 0
        for start in range(0, self.people, BLOCK):
            stop = min(start + BLOCK, self.people)
            nonprivate = partial_scores(self.scores, table, start, stop, 0) + self._squares(table, start, stop)
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


def _sketched(
    signs: Signs, people: int, width: int, rows: Callable[[int, int], NDArray[np.int64]]
) -> NDArray[np.int64]:
    sketch = np.zeros((width, signs.rows), dtype=np.int64)
    sums = np.zeros(width, dtype=np.int64)
    for number, start in enumerate(range(0, people, PEOPLE)):
        some = rows(start, min(start + PEOPLE, people))
        signs.add_product(number, some, sketch)
        sums += some.sum(axis=1)
    return np.concatenate([sums[:, None], sketch], axis=1).T.copy()
