"""Columns of frames and files as Arrow arrays, one value at a time.

A column of Python objects may hold texts beside numbers. Each object is then spelled by itself (`spelling`), and a number is
kept as the number it is too: how a column's texts are written must not change what its numbers are. Such a block is a struct
with the fields ``text`` and ``number``.
"""

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

__all__ = [
    "UNREADABLE",
    "flatten",
    "is_text",
    "pandas_kind",
    "pandas_reader",
    "places_of",
    "spelled_number",
    "spelling",
    "texts_of",
]

UNREADABLE = "\ufffd"
"""How an object is spelled that is there, and is neither a text nor a number nor a date."""


def flatten(column: Any) -> Any:
    """Return a column as one array of a type that the compute functions know."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    # Views are a young type that few compute functions accept; the class is absent from older releases of Arrow.
    return array.cast(pa.large_string()) if str(array.type) == "string_view" else array


def texts_of(array: Any) -> Any:
    """Return objects as they are spelled; any other array as it is."""
    return array.field("text") if pa.types.is_struct(array.type) else array


def places_of(indices: Any, absent: int) -> NDArray[np.int64]:
    """Return the indices of a dictionary as numbers, and this one where there is none."""
    return cast("NDArray[np.int64]", indices.cast(pa.int64()).fill_null(absent).to_numpy(zero_copy_only=False))


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text, or a dictionary of texts."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(plain) in {"string", "large_string", "string_view"}


def spelling(value: object) -> str | None:
    """Write one value as text, the same for 1, 1.0 and Decimal(1); ``None`` when it is missing or cannot be spelled.

    Examples
    --------
    >>> [spelling(value) for value in (1, 1.0, True, "gold", float("nan"), [])]
    ['1', '1', 'True', 'gold', None, None]
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, dt.date):
        return None if pd.isna(value) else value.isoformat()  # NaT is a date too
    try:
        return spelled_number(value)
    except (ArithmeticError, ValueError):  # a signalling NaN, or more digits than Python will write
        return None


def spelled_number(value: object) -> str | None:
    """Write a number as text; ``None`` for NaN, and for what is no number."""
    # Plain int and float first: asking the abstract classes takes ten times as long.
    if isinstance(value, int) or (not isinstance(value, float) and isinstance(value, Integral)):
        return str(int(value))
    if not isinstance(value, float | Decimal | Real):
        return None
    number = float(value)
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


# Columns of a pandas frame --------------------------------------------------------------------------------------------------


def pandas_kind(values: pd.Series, *, look: bool) -> Any:
    """Return the Arrow type of a column; ``None`` for Python objects, which are text of no declared type.

    Parameters
    ----------
    values
        The column.
    look
        Whether Python objects that are all text count as text.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        return pandas_kind(values.cat.categories.to_series(), look=look)
    if values.dtype == object:
        return pa.large_string() if look and _all_text(values) else None
    return pa.array(values.iloc[:0], from_pandas=True).type


def pandas_reader(values: pd.Series) -> Callable[[int, int], Any]:
    """Return what turns rows ``start`` to ``stop`` of a column into an Arrow array."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        categories = values.cat.categories.to_series()
        levels = flatten(pandas_reader(categories)(0, len(categories)))
        codes = values.cat.codes.to_numpy()
        return lambda start, stop: _dictionary(codes[start:stop], levels)
    if values.dtype == object:
        return lambda start, stop: _objects(values.iloc[start:stop])
    return lambda start, stop: flatten(pa.array(values.iloc[start:stop], from_pandas=True))


def _all_text(values: pd.Series) -> bool:
    return pd.api.types.infer_dtype(values, skipna=True) == "string"


def _dictionary(codes: NDArray[Any], levels: Any) -> Any:
    indices: Any = pa.array(codes, mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, levels)


def _objects(values: pd.Series) -> Any:
    """Python objects, each spelled by itself; the fast way is taken only where it gives the same."""
    if _all_text(values):
        return pa.array(values, type=pa.large_string(), from_pandas=True)
    cells = [None if _is_null(value) else value for value in values]
    texts = pa.array([None if cell is None else _text(cell) for cell in cells], type=pa.large_string())
    numbers = pa.array([_number(cell) for cell in cells], type=pa.float64())
    return pa.StructArray.from_arrays([texts, numbers], names=["text", "number"])


def _is_null(value: object) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()  # to ask whether a signalling NaN is itself is an error
    if isinstance(value, float | np.floating | np.datetime64 | dt.date):
        return bool(pd.isna(value))
    return value is None or value is pd.NA


def _text(value: object) -> str:
    return value if isinstance(value, str) else spelling(value) or UNREADABLE


def _number(value: object) -> float | None:
    """Return an object that is a number; ``None`` for texts and for anything else."""
    if isinstance(value, bool | np.bool_):
        return float(value)
    if value is None or isinstance(value, str) or not isinstance(value, int | float | Decimal | Real):
        return None
    try:
        return float(value)
    except (ArithmeticError, ValueError):  # a signalling NaN, or a whole number beyond any float
        return None
