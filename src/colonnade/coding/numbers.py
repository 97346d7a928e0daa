"""Numbers and dates from stored values, behind public bounds.

There is one reader for texts, for typed columns and for Python objects. A text is read by the patterns of its column: digits
with the declared signs between groups of digits and before the fraction, ``"true"`` as 1, ``"false"`` as 0, or a date in ISO
form. A pattern is checked cell by cell. What matches none is not guessed at: it counts as missing, and `read` tells its owner
that it was there.

A missing value becomes the public fill value of its column. A *null record* is something else: a person without a row at a
party. It has the exact midpoint, which is coded as 0 everywhere, so that it contributes nothing to sums and products and costs
what accounting for zero-out says.
"""

import datetime as dt
import math
import re
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.coding.arrays import flatten, is_text, places_of, texts_of
from colonnade.errors import BadInput
from colonnade.schema import Date, Indicator, Number, Numeric

__all__ = [
    "DAY",
    "NUMBER",
    "DateEncoder",
    "IndicatorEncoder",
    "NumberReading",
    "NumericEncoder",
    "days_of",
    "na_numbers",
    "number_bounds",
    "number_pattern",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

EXPONENT = r"([eE][+-]?\d+)?"
INFINITY = r"[iI][nN][fF]([iI][nN][iI][tT][yY])?"
NUMBER = rf"^[+-]?((\d+\.?\d*|\.\d+){EXPONENT}|{INFINITY})$"
DAY = r"^(\d{4}-\d{2}-\d{2})([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?$"
EPOCH = dt.date(1970, 1, 1)


class NumberReading(NamedTuple):
    """What the cells of a column say.

    Parameters
    ----------
    numbers
        As they stand there, before any bound; NaN where there is no number.
    empty
        Where a cell says nothing: it is null, or an empty text, or one of the column's ``na_values``.
    """

    numbers: Floats
    empty: Flags


def number_pattern(column: Numeric) -> str:
    """Return the pattern of a number written as text in this column.

    Groups have three digits, or two where a group of three comes last. So 1,23 is no number where a comma stands between groups.

    Examples
    --------
    >>> bool(re.match(number_pattern(Numeric(0, 1, thousands=",")), "1,234.50"))
    True
    """
    if column.thousands is None and column.decimal == ".":
        return NUMBER
    point = re.escape(column.decimal)
    grouped = ""
    if column.thousands is not None:
        between = re.escape(column.thousands)
        grouped = rf"\d{{1,3}}({between}\d{{2,3}})*{between}\d{{3}}({point}\d*)?|"
    return rf"^[+-]?(({grouped}(\d+({point}\d*)?|{point}\d+){EXPONENT})|{INFINITY})$"


def number_bounds(column: Number) -> tuple[float, float]:
    """Return what a number is clipped to: the public bounds, or the whole numbers next to them inside."""
    if not column.whole:
        return column.low, column.high
    low, high = float(math.ceil(column.low)), float(math.floor(column.high))
    if low > high:
        raise BadInput(
            "There is no whole number between the bounds of an integer column.",
            remedy="Widen the bounds, or leave integer=True out of cn.Numeric.",
        )
    return low, high


def na_numbers(column: Numeric | Date) -> tuple[float, ...]:
    """Return those of a column's ``na_values`` that are numbers there, or dates.

    Examples
    --------
    >>> na_numbers(Numeric(0, 10, na_values=["?", -999, "-1"]))
    (-999.0, -1.0)
    """
    texts = [value.strip() if isinstance(value, str) else "" for value in column.na_values]
    words = pa.array(texts, type=pa.large_string())
    read = _dates(words, column) if isinstance(column, Date) else _numbers(words, column)
    pairs = zip(column.na_values, read.tolist(), strict=True)
    found = [number if isinstance(value, str) else float(value) for value, number in pairs]
    return tuple(number for number in found if not math.isnan(number))


class NumericEncoder:
    """Numbers within the bounds: clipped, whole where the schema says so, and the fill value where one is missing."""

    dtype = np.dtype(np.float64)

    def __init__(self, column: Numeric | Date) -> None:
        self._column = column
        self._low, self._high = number_bounds(column)
        self._absent = na_numbers(column)
        self._words = pa.array(["", *(str(value).strip() for value in column.na_values)], type=pa.large_string())
        # Not rounded, also where the numbers are whole: a null record is coded as exactly 0.
        self.null = column.midpoint
        self._fill = column.midpoint if column.fill is None else column.fill

    def __call__(self, column: Any) -> Floats:
        """Encode one array."""
        numbers = np.array(self.read(column).numbers, dtype=np.float64)
        absent = np.isnan(numbers)
        bounded = self._bounded(numbers)
        bounded[absent] = self._fill
        return bounded

    def read(self, column: Any) -> NumberReading:
        """Return what the cells of one array say."""
        numbers, empty = self._read(flatten(column))
        if self._absent:
            named = np.isin(numbers, self._absent)
            numbers, empty = np.where(named, np.nan, numbers), empty | named
        return NumberReading(numbers, empty)

    def present(self, column: Any) -> Flags:
        """Return where there is a value: everywhere, if the schema says what a missing one counts as."""
        numbers = self.read(column).numbers
        return np.ones(len(numbers), dtype=np.bool_) if self._column.fill is not None else ~np.isnan(numbers)

    def outside(self, numbers: Floats) -> Flags:
        """Return which numbers are clipped."""
        return np.asarray((numbers < self._low) | (numbers > self._high))

    def _bounded(self, numbers: Floats) -> Floats:
        if self._column.whole:
            np.rint(numbers, out=numbers)
        return np.clip(numbers, self._low, self._high, out=numbers)

    def _read(self, array: Any) -> NumberReading:
        kind = array.type
        if pa.types.is_dictionary(kind):
            values = self._read(flatten(array.dictionary))
            places = places_of(array.indices, len(values.numbers))
            return NumberReading(np.append(values.numbers, np.nan)[places], np.append(values.empty, True)[places])
        if pa.types.is_null(kind):
            return NumberReading(np.full(len(array), np.nan), np.ones(len(array), dtype=np.bool_))
        if pa.types.is_struct(kind):
            return self._of_objects(array)
        if is_text(kind):
            words = pc.ascii_trim_whitespace(array.cast(pa.large_string()))
            empty = pc.is_in(words, value_set=self._words).to_numpy(zero_copy_only=False) | _is_null(array)
            return NumberReading(self._parsed(words), empty)
        numbers = self._typed(array)
        return NumberReading(numbers, np.isnan(numbers))

    def _of_objects(self, array: Any) -> NumberReading:
        """Numbers as they are, anything else as it is spelled."""
        numbers, empty = self._read(array.field("text"))
        typed = array.field("number").to_numpy(zero_copy_only=False)
        is_number = ~np.isnan(typed)
        return NumberReading(np.where(is_number, typed, numbers), empty & ~is_number)

    def _parsed(self, words: Any) -> Floats:
        assert isinstance(self._column, Numeric)
        return _numbers(words, self._column)

    def _typed(self, array: Any) -> Floats:
        numbers = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
        # safe=False: a whole number beyond 2**53 is rounded to a float, not refused because of its value.
        return cast("Floats", numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


class DateEncoder(NumericEncoder):
    """Days since the first date: clipped, and the fill value where a date is missing."""

    def __init__(self, column: Date) -> None:
        super().__init__(column)
        self._date = column

    def _of_objects(self, array: Any) -> NumberReading:
        return self._read(texts_of(array))  # a number is no date

    def _parsed(self, words: Any) -> Floats:
        return _dates(words, self._date)

    def _typed(self, array: Any) -> Floats:
        if pa.types.is_timestamp(array.type) and array.type.tz is not None:
            array = pc.local_timestamp(array)  # the day on the wall where it was written
        days = array.cast(pa.date32(), safe=False).cast(pa.int32()).cast(pa.float64())
        return cast("Floats", days.to_numpy(zero_copy_only=False)) - _since_epoch(self._date)


class IndicatorEncoder:
    """1 where the value of another column is missing, else 0."""

    dtype = np.dtype(np.float64)

    def __init__(self, column: Indicator) -> None:
        described = column.described
        self._described = DateEncoder(described) if isinstance(described, Date) else NumericEncoder(described)
        self.null = column.midpoint

    def __call__(self, column: Any) -> Floats:
        """Encode one array of the other column."""
        return np.isnan(self._described.read(column).numbers).astype(np.float64)

    def present(self, column: Any) -> Flags:
        """Return where there is a value: everywhere."""
        return self._described.present(column)


def _numbers(words: Any, column: Numeric) -> Floats:
    """Return trimmed texts as numbers. A pattern is checked cell by cell first: one failed cast would fail the whole column."""
    nothing = pa.scalar(None, type=words.type)
    written = pc.if_else(pc.match_substring_regex(words, pattern=number_pattern(column)), words, nothing)
    if column.thousands is not None:
        written = pc.replace_substring(written, pattern=column.thousands, replacement="")
    if column.decimal != ".":
        written = pc.replace_substring(written, pattern=column.decimal, replacement=".")
    numbers = pc.ascii_ltrim(written, characters="+").cast(pa.float64())
    truth = pc.index_in(pc.ascii_lower(words), value_set=pa.array(["false", "true"], type=words.type))
    return cast("Floats", pc.coalesce(numbers, truth.cast(pa.float64())).to_numpy(zero_copy_only=False))


def _dates(words: Any, column: Date) -> Floats:
    """Return trimmed texts in ISO form as days since the first date."""
    nothing = pa.scalar(None, type=words.type)
    written = pc.if_else(pc.match_substring_regex(words, pattern=DAY), words, nothing)
    days = pc.utf8_slice_codeunits(written, 0, 10)
    return days_of(pd.Series(days.to_pandas(), dtype=object), column).to_numpy(dtype=np.float64)


def days_of(written: pd.Series, column: Date) -> pd.Series:
    """Return days since the first date, of texts such as ``2024-02-29``; NaN for a day that no calendar has."""
    return (pd.to_datetime(written, format="%Y-%m-%d", errors="coerce") - pd.Timestamp(column.first)) / pd.Timedelta(
        days=1
    )


def _since_epoch(column: Date) -> int:
    return (dt.date.fromisoformat(column.first) - EPOCH).days


def _is_null(array: Any) -> Flags:
    return cast("Flags", array.is_null().to_numpy(zero_copy_only=False))
