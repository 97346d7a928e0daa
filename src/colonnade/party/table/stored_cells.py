"""Cells on disk in the agreed order: one file of plain numbers per column, from which any range of people is read.

A cell is stored as what it says, before any rule of the schema is applied: a number as a float, a date as its day, a level as its
place in the list. Read back, it is an Arrow array, which the encoders of `colonnade.coding` take for what it was: ``encode(read
back(store(cells)))`` is ``encode(cells)``, under the declared description and under everything that it may be read as.

The files are `SpilledRows`: they have no names and no permissions for others, and go with the object that holds them. Their
lengths follow from the number of people alone.
"""

from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.coding.encoders import CategoryEncoder, DateEncoder, NumericEncoder, days_since_epoch
from colonnade.schema import Category, Column, Date, Numeric
from colonnade.spilled_rows import SpilledRows

__all__ = ["CellForm", "CellsInOrder", "StoredCells", "form_of"]

UNKNOWN, EMPTY = -1, -2
NO_DAY = np.iinfo(np.int32).min
NO_ROW = -1


class CellForm:
    """How cells of one declared column are stored.

    Parameters
    ----------
    dtype
        The type of a stored cell.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)

    def store(self, cells: Any) -> NDArray[Any]:
        """Return what Arrow cells say as numbers."""
        raise NotImplementedError

    def restore(self, numbers: NDArray[Any]) -> Any:
        """Return stored cells as an Arrow array that says the same."""
        raise NotImplementedError


class _NumberForm(CellForm):
    def __init__(self, column: Numeric) -> None:
        super().__init__(np.float64)
        self._encoder = NumericEncoder(column)

    def store(self, cells: Any) -> NDArray[Any]:
        return self._encoder.read(cells).numbers

    def restore(self, numbers: NDArray[Any]) -> Any:
        return pa.array(numbers)  # NaN where there is no number


class _DateForm(CellForm):
    def __init__(self, column: Date) -> None:
        super().__init__(np.int32)
        self._encoder = DateEncoder(column)
        self._first = days_since_epoch(column)

    def store(self, cells: Any) -> NDArray[Any]:
        numbers = self._encoder.read(cells).numbers
        absent = np.isnan(numbers)
        return np.where(absent, NO_DAY, np.where(absent, 0, numbers) + self._first).astype(np.int32)

    def restore(self, numbers: NDArray[Any]) -> Any:
        return pa.array(numbers, mask=numbers == NO_DAY).cast(pa.date32())


class _LevelForm(CellForm):
    """Places of levels. A category that may be read with a level for missing values has that level's place too."""

    def __init__(self, column: Category) -> None:
        finest = msgspec.structs.replace(column, missing="level") if column.excludes else column
        super().__init__(next(kind for kind in (np.int8, np.int16, np.int32) if finest.size < np.iinfo(kind).max))
        self._encoder = CategoryEncoder(finest)
        texts = [str(level) for level in finest.levels]
        self._texts = pa.array([*texts, _no_level({*texts, *column.na_values})], type=pa.large_string())

    def store(self, cells: Any) -> NDArray[Any]:
        return self._encoder.read(cells).codes.astype(self.dtype)

    def restore(self, numbers: NDArray[Any]) -> Any:
        indices = np.where(numbers == UNKNOWN, len(self._texts) - 1, numbers).astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(indices, mask=numbers == EMPTY), self._texts)


def _no_level(known: set[str]) -> str:
    """Return a text that stands for a value outside the list."""
    text = "\ufffd"
    while text in known:
        text += "\ufffd"
    return text


def form_of(column: Column) -> CellForm:
    """Return how a declared column is stored; an indicator is read from the column that it indicates."""
    if isinstance(column, Category):
        return _LevelForm(column)
    if isinstance(column, Date):
        return _DateForm(column)
    assert isinstance(column, Numeric)  # nothing else is stored
    return _NumberForm(column)


def _spread(cells: NDArray[Any], held: NDArray[np.bool_], absent: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the cells of people who have a row among those who have none."""
    if len(cells) == len(held):
        return cells
    spread = np.full(len(held), absent, dtype=dtype)
    spread[held] = cells
    return spread


class CellsInOrder(Protocol):
    """Stored cells in the agreed order, wherever they lie."""

    def cells(self, name: str, start: int, stop: int) -> Any:
        """Return some people's cells; of those without a row they mean nothing."""

    def cells_of(self, name: str, people: NDArray[np.int64]) -> Any:
        """Return the cells of people by their places."""

    def held(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return who of some people has a row."""

    def held_of(self, people: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return who of some people, by their places, has a row."""


class StoredCells:
    """Columns on disk, in the agreed order, and who has a row at all.

    Parameters
    ----------
    forms
        How each column is stored.
    """

    def __init__(self, forms: dict[str, CellForm]) -> None:
        self.forms = forms
        self._files = {name: SpilledRows(None, None, form.dtype) for name, form in forms.items()}
        self._held = SpilledRows(None, None, np.bool_)
        self.rows = SpilledRows(None, None, np.int64)
        self.rows_held = 0

    @property
    def people(self) -> int:
        """How many people there are by now."""
        return len(self._held)

    def append(self, held: NDArray[np.bool_], rows: NDArray[np.int64], columns: dict[str, NDArray[Any]]) -> None:
        """Write the next people: who of them has a row, and the stored cells of those who have."""
        self._held.append(held)
        self.rows_held += int(np.count_nonzero(held))
        self.rows.append(_spread(rows, held, NO_ROW, self.rows.dtype))
        for name, file in self._files.items():
            file.append(_spread(columns[name], held, 0, file.dtype))

    def cells(self, name: str, start: int, stop: int) -> Any:
        """Return some people's cells; of those without a row they mean nothing."""
        return self.forms[name].restore(self._files[name].read(start, stop))

    def cells_of(self, name: str, people: NDArray[np.int64]) -> Any:
        """Return the cells of people by their places."""
        return self.forms[name].restore(self._files[name].take(people))

    def held(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return who of some people has a row."""
        return self._held.read(start, stop)

    def held_of(self, people: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return who of some people, by their places, has a row."""
        return self._held.take(people)
