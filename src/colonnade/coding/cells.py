"""From stored values to codes and numbers behind public bounds, one value at a time.

A party's table and `predict` call these functions; an exported model follows the same spellings and patterns. Every function maps
a value by itself: what one person's cell becomes never depends on another person's cell. That bounds one person's influence on a
statistic, so it is the one rule of this module. A category is found by how a value is *spelled* (`spelling`), because the same
level arrives as text from a CSV file, as a float where pandas met a null, and as a boolean from parquet. Text in a column of
numbers is read as a number, ``"true"`` as 1 and ``"false"`` as 0. A cell that matches nothing is missing, never an error.
"""

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema import Category, Column, Level, Numeric

__all__ = [
    "MISSING",
    "NUMBER",
    "CategoryEncoder",
    "Encoder",
    "NumericEncoder",
    "encoded",
    "encoder_for",
    "flatten",
    "is_text",
    "number_bounds",
    "numbers_in",
    "pandas_kind",
    "pandas_reader",
    "require_type",
    "spelled_floats",
    "spelled_wholes",
    "spelling",
    "spellings",
]

MISSING = -1

NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
WHOLE = re.compile(r"-?(0|[1-9][0-9]*)(\.0)?")
TRUTH = {"false": ("False", "false", "FALSE"), "true": ("True", "true", "TRUE")}


def flatten(column: Any) -> Any:
    """Return a column as one array of a type that the compute functions know."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    # Views are a young type that few compute functions accept; the class is absent from older releases of Arrow.
    return array.cast(pa.large_string()) if str(array.type) == "string_view" else array


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
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    try:
        return _spelled_number(value)
    except (ArithmeticError, ValueError):  # a signalling NaN, or more digits than Python will write
        return None


def _spelled_number(value: object) -> str | None:
    # Plain int and float first: asking the abstract classes takes ten times as long.
    if isinstance(value, int) or (not isinstance(value, float) and isinstance(value, Integral)):
        return str(int(value))
    if not isinstance(value, float | Decimal | Real):
        return None
    number = float(value)
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _other_spellings(level: Level) -> Iterable[str]:
    text = str(level)
    if isinstance(level, bool):
        yield from ("1", "1.0") if level else ("0", "0.0")
    if isinstance(level, int) and not isinstance(level, bool) and level in (0, 1):
        yield from TRUTH["true" if level else "false"]
    yield from TRUTH.get(text.lower(), ())
    if WHOLE.fullmatch(text):
        whole = text.removesuffix(".0")
        yield from (whole, whole + ".0")


def spellings(column: Category) -> dict[str, int]:
    """Return every accepted spelling and its code. A level's own text always wins over another level's alternative.

    Examples
    --------
    >>> spellings(Category([0, 7]))
    {'0': 0, '7': 1, 'False': 0, 'false': 0, 'FALSE': 0, '0.0': 0, '7.0': 1}
    """
    codes = {str(level): code for code, level in enumerate(column.levels)}
    for code, level in enumerate(column.levels):
        for text in _other_spellings(level):
            codes.setdefault(text, code)
    return codes


def spelled_floats(codes: dict[str, int]) -> dict[float, int]:
    """Return the spellings that are exactly how a float would be spelled: a float column matches these, as numbers."""
    numbers = {text: float(text) for text in codes if re.fullmatch(NUMBER, text, re.ASCII)}
    return {number: codes[text] for text, number in numbers.items() if _spelled_number(number) == text}


def spelled_wholes(codes: dict[str, int]) -> dict[int, int]:
    """Return the spellings that are exactly how a whole number would be spelled."""
    return {int(text): code for text, code in codes.items() if _is_whole(text)}


class CategoryEncoder:
    """Codes 0, 1, … for the levels of a category; −1 for a missing value and for one outside the schema."""

    dtype = np.dtype(np.int32)
    missing: float = MISSING

    def __init__(self, column: Category) -> None:
        self._spellings = spellings(column)
        self._floats = spelled_floats(self._spellings)
        self._whole = spelled_wholes(self._spellings)

    def __call__(self, column: Any) -> NDArray[np.int32]:
        """Encode one array."""
        array = flatten(column)
        kind = array.type
        if pa.types.is_dictionary(kind):
            return self._by_index(flatten(array.dictionary), array.indices)
        if pa.types.is_null(kind):
            return np.full(len(array), MISSING, dtype=np.int32)
        if pa.types.is_boolean(kind):
            return self._by_index(pa.array(["False", "True"]), array.cast(pa.uint8()))
        if pa.types.is_integer(kind):
            return _look_up(array, _within(self._whole, kind))
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            # Adding zero turns −0.0 into 0.0, which a hash table would otherwise take for another number.
            return _look_up(pc.add(array.cast(pa.float64(), safe=False), 0.0), self._floats)
        return _look_up(array.cast(pa.string()) if pa.types.is_date(kind) else array, self._spellings)

    def _by_index(self, values: Any, indices: Any) -> NDArray[np.int32]:
        codes = np.append(self(values), np.int32(MISSING))
        return codes[_filled(indices, len(values))]


def _is_whole(text: str) -> bool:
    return WHOLE.fullmatch(text) is not None and text != "-0" and "." not in text


def _within(codes: dict[int, int], kind: Any) -> dict[int, int]:
    """Leave out levels that this integer type cannot hold: casting the data instead could wrap a value onto a level."""
    limits = np.iinfo(kind.to_pandas_dtype())
    return {number: code for number, code in codes.items() if limits.min <= number <= limits.max}


def _filled(indices: Any, missing: int) -> NDArray[np.int64]:
    return cast("NDArray[np.int64]", indices.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False))


def _look_up(array: Any, codes: dict[Any, int]) -> NDArray[np.int32]:
    found = pc.index_in(array, value_set=pa.array(list(codes), type=array.type))
    table = np.array([*codes.values(), MISSING], dtype=np.int32)
    return cast("NDArray[np.int32]", table[found.fill_null(len(codes)).to_numpy(zero_copy_only=False)])


def number_bounds(column: Numeric) -> tuple[float, float]:
    """Return what a number is clipped to: the public bounds, or the whole numbers next to them inside."""
    if not column.integer:
        return column.low, column.high
    low, high = float(math.ceil(column.low)), float(math.floor(column.high))
    if low > high:
        raise BadInput(
            "There is no whole number between the bounds of an integer column.",
            remedy="Widen the bounds, or leave integer=True out of cn.Numeric.",
        )
    return low, high


class NumericEncoder:
    """Numbers within the bounds: clipped, whole where the schema says so, and the exact midpoint where missing."""

    dtype = np.dtype(np.float64)

    def __init__(self, column: Numeric) -> None:
        self._integer = column.integer
        self._low, self._high = number_bounds(column)
        # Not rounded, also where the numbers are whole: a null record is coded as exactly 0, the midpoint, or it would
        # contribute to sums and products and cost more than accounting for zero-out says.
        self.missing = column.midpoint

    def __call__(self, column: Any) -> NDArray[np.float64]:
        """Encode one array."""
        numbers = np.array(numbers_in(flatten(column)), dtype=np.float64)
        absent = np.isnan(numbers)
        bounded = self._bounded(numbers)
        bounded[absent] = self.missing
        return bounded

    def _bounded(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._integer:
            np.rint(numbers, out=numbers)
        return np.clip(numbers, self._low, self._high, out=numbers)


def numbers_in(array: Any) -> NDArray[np.float64]:
    """Return an array as float64, NaN where there is no number."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        values = np.append(numbers_in(flatten(array.dictionary)), np.nan)
        return cast("NDArray[np.float64]", values[_filled(array.indices, len(values) - 1)])
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan)
    if is_text(kind):
        array = _parsed(array)
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    # safe=False: a whole number beyond 2**53 is rounded to a float, not refused because of its value.
    return cast("NDArray[np.float64]", array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _parsed(text: Any) -> Any:
    """Numbers written as text. A pattern is checked cell by cell first: one failed cast would fail the whole column."""
    trimmed = pc.ascii_trim_whitespace(text)
    written = pc.if_else(pc.match_substring_regex(trimmed, pattern=NUMBER), trimmed, pa.scalar(None, type=text.type))
    numbers = pc.ascii_ltrim(written, characters="+").cast(pa.float64())
    truth = pc.index_in(pc.ascii_lower(trimmed), value_set=pa.array(["false", "true"], type=text.type))
    return pc.coalesce(numbers, truth.cast(pa.float64()))


Encoder = CategoryEncoder | NumericEncoder


def encoder_for(column: Column) -> Encoder:
    """Return what encodes a column of this public description."""
    return CategoryEncoder(column) if isinstance(column, Category) else NumericEncoder(column)


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text, or a dictionary of texts."""
    return str(_plain(kind)) in {"string", "large_string", "string_view"}


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_number(kind: Any) -> bool:
    tests: tuple[Callable[[Any], bool], ...] = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def require_type(name: str, column: Column, kind: Any) -> None:
    """Refuse a column whose stored type cannot be what its schema says; ``None`` is text of no declared type."""
    if kind is None:
        return
    plain = _plain(kind)
    if _is_number(plain) or (isinstance(column, Category) and (is_text(plain) or pa.types.is_date(plain))):
        return
    expected = "cn.Numeric needs numbers" if isinstance(column, Numeric) else "cn.Category needs text or whole numbers"
    # The head of the type's name is enough: the whole may spell out the names of nested fields.
    stored = "text" if is_text(plain) else "the type " + re.split(r"[<\[(]", str(plain))[0]
    raise SchemaMismatch(
        f"Column {name!r} holds {stored}, but {expected}.",
        remedy="Convert the column in the data source, or describe it as what it is.",
    )


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


def encoded(values: pd.Series, name: str, column: Column) -> NDArray[Any]:
    """Return a column of a caller's frame as codes or numbers, as a party's table would hold it.

    Text is read as it is read from a CSV file. A column of a type that no party could hold is refused.
    """
    dense = values.astype(values.dtype.subtype) if isinstance(values.dtype, pd.SparseDtype) else values
    try:
        kind, cells = pandas_kind(dense, look=False), pandas_reader(dense)(0, len(dense))
    except (pa.ArrowException, TypeError, ValueError):
        raise SchemaMismatch(f"Column {name!r} of the frame cannot be read.") from None
    if kind is not None and not is_text(kind):
        require_type(name, column, kind)
    return encoder_for(column)(cells)


def _all_text(values: pd.Series) -> bool:
    return pd.api.types.infer_dtype(values, skipna=True) == "string"


def _dictionary(codes: NDArray[Any], levels: Any) -> Any:
    indices: Any = pa.array(codes, mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, levels)


def _objects(values: pd.Series) -> Any:
    """Python objects as text, each spelled by itself; the fast way is taken only where it gives the same text."""
    if _all_text(values):
        return pa.array(values, type=pa.large_string(), from_pandas=True)
    return pa.array([spelling(value) for value in values], type=pa.large_string())
