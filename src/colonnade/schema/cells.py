"""What stored values say: columns of frames and files as Arrow arrays, how a level is spelled, and texts as numbers and dates.

A category is found by how a value is *spelled* (`spelling`), because the same level arrives as text from a CSV file, as a float
where pandas met a null, and as a boolean from parquet. A column of Python objects may hold texts beside numbers. Each object is
then spelled by itself, and a number is kept as the number it is too: how a column's texts are written must not change what its
numbers are. Such a block is a struct with the fields ``text`` and ``number``.

A number or a date written as text is read by the pattern of its column: digits with the declared signs between groups of digits
and before the fraction, ``"true"`` as 1, ``"false"`` as 0, or a date in ISO form. A pattern is checked cell by cell. What matches
none is not guessed at. Nothing here asks of which kind a number is: a column says of what NumPy type its cells are, how they are
written as text, and which cell counts as 0.
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

from colonnade.schema import Category, Level, Number
from colonnade.schema.kinds.number import NUMBER

Floats = NDArray[np.float64]

UNREADABLE = "\ufffd"
"""How an object is spelled that is there, and is neither a text nor a number nor a date."""

WHOLE = re.compile(r"-?(0|[1-9][0-9]*)(\.0)?")
TRUTH = {"false": ("False", "false", "FALSE"), "true": ("True", "true", "TRUE")}


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
        return _spelled_number(value)
    except (ArithmeticError, ValueError):  # a signalling NaN, or more digits than Python will write
        return None


def _spelled_number(value: object) -> str | None:
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


def _is_whole(text: str) -> bool:
    return WHOLE.fullmatch(text) is not None and text != "-0" and "." not in text


# Texts and typed cells as numbers -------------------------------------------------------------------------------------------


def is_plain(column: Number) -> bool:
    """Whether cells are numbers, and not times or lengths of time."""
    return np.dtype(column.cell_type).kind == "f"


def is_time(column: Number) -> bool:
    """Whether cells are times: days, or time stamps."""
    return np.dtype(column.cell_type).kind == "M"


def unit_of(column: Number) -> Any:
    """Return what a column of times, or of lengths of time, is counted in, as NumPy and pandas both call it."""
    return np.datetime_data(column.cell_type)[0]


def first_time(column: Number) -> Any:
    """Return the time that counts as 0."""
    first: Any = np.array(int(column.origin)).astype(column.cell_type)[()]
    return pd.Timestamp(first)


def na_numbers(column: Number) -> tuple[float, ...]:
    """Return those of a column's ``na_values`` that are numbers there, or dates.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> na_numbers(Numeric(0, 10, na_values=["?", -999, "-1"]))
    (-999.0, -1.0)
    """
    texts = [value.strip() if isinstance(value, str) else "" for value in column.na_values]
    read = numbers_in(pa.array(texts, type=pa.large_string()), column)
    pairs = zip(column.na_values, read.tolist(), strict=True)
    found = [number if isinstance(value, str) else float(value) for value, number in pairs]
    return tuple(number for number in found if not math.isnan(number))


def numbers_in(words: Any, column: Number) -> Floats:
    """Return trimmed texts as numbers. A pattern is checked cell by cell first: one failed cast would fail the whole column."""
    nothing = pa.scalar(None, type=words.type)
    written = pc.if_else(pc.match_substring_regex(words, pattern=column.pattern), words, nothing)
    if not is_plain(column):
        first = pc.replace_substring_regex(written, pattern=column.pattern, replacement=r"\1")
        return cast("Floats", _times(pd.Series(first.to_pandas(), dtype=object), column).to_numpy(dtype=np.float64))
    for _, sign, instead in column.signs:
        written = pc.replace_substring(written, pattern=sign, replacement=instead)
    numbers = pc.ascii_ltrim(written, characters="+").cast(pa.float64())
    truth = pc.index_in(pc.ascii_lower(words), value_set=pa.array(["false", "true"], type=words.type))
    return cast("Floats", pc.coalesce(numbers, truth.cast(pa.float64())).to_numpy(zero_copy_only=False))


def _times(written: pd.Series, column: Number) -> Any:
    """Return texts as times since the first, or as lengths of time, in units; NaN for a day that no calendar has."""
    if is_time(column):
        read = pd.to_datetime(written, format=column.time_format, errors="coerce") - first_time(column)
    else:
        read = pd.to_timedelta(written, errors="coerce")
    return read / pd.Timedelta(1, unit=unit_of(column))


def numbers_of(array: Any, column: Number) -> Floats:
    """Return cells that are not written as text as numbers."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = pc.local_timestamp(array)  # the day on the wall where it was written
    # safe=False: a whole number beyond 2**53 is rounded to a float, not refused because of its value.
    numbers = array.cast(arrow_type(column), safe=False)
    if is_plain(column):
        return cast("Floats", numbers.to_numpy(zero_copy_only=False))
    units = numbers.cast(counted_type(column)).cast(pa.float64(), safe=False)
    return cast("Floats", units.to_numpy(zero_copy_only=False)) - column.origin


def arrow_type(column: Number) -> Any:
    """Return the Arrow type of its cells."""
    return pa.from_numpy_dtype(np.dtype(column.cell_type))


def counted_type(column: Number) -> Any:
    """Return the Arrow type that holds a number of units."""
    return pa.int32() if arrow_type(column).bit_width == 32 else pa.int64()


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


def spelled_out(array: Any) -> Any:
    """Return cells as text, whatever they are; null where Arrow does not write them as text."""
    values = texts_of(flatten(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array)
    return values.cast(pa.large_string()) if is_text(values.type) else _as_text(values)


def _as_text(values: Any) -> Any:
    try:
        return values.cast(pa.large_string())
    except pa.ArrowException:
        return pa.nulls(len(values), type=pa.large_string())
