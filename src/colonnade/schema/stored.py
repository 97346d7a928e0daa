"""Declared columns as numbers of fixed width, from which every reading of them can be read again."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.schema import Category, Column, Number
from colonnade.schema.encoders import (
    EMPTY,
    UNKNOWN,
    CategoryEncoder,
    NumericEncoder,
    arrow_type,
    counted_type,
    is_plain,
)


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
    def __init__(self, column: Number) -> None:
        super().__init__(np.float64)
        self._encoder = NumericEncoder(column)

    def store(self, cells: Any) -> NDArray[Any]:
        return self._encoder.read(cells).numbers

    def restore(self, numbers: NDArray[Any]) -> Any:
        return pa.array(numbers)  # NaN where there is no number


class _TimeForm(CellForm):
    """Whole units, as Arrow counts them; the least number where there is none."""

    def __init__(self, column: Number) -> None:
        super().__init__(counted_type(column).to_pandas_dtype())
        self._encoder = NumericEncoder(column)
        self._arrow, self._origin = arrow_type(column), column.origin
        self._nothing = np.iinfo(self.dtype).min

    def store(self, cells: Any) -> NDArray[Any]:
        numbers = self._encoder.read(cells).numbers
        absent = np.isnan(numbers)
        return np.where(absent, self._nothing, np.where(absent, 0, numbers) + self._origin).astype(self.dtype)

    def restore(self, numbers: NDArray[Any]) -> Any:
        return pa.array(numbers, mask=numbers == self._nothing).cast(self._arrow)


class _LevelForm(CellForm):
    """Places of levels. A category that may be read with a level for missing values has that level's place too."""

    def __init__(self, column: Category) -> None:
        finest = column.with_missing_level()
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
    assert isinstance(column, Number)  # there is no other way to be coded
    return _NumberForm(column) if is_plain(column) else _TimeForm(column)
