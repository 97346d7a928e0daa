"""From stored values to codes and numbers behind public bounds, one value at a time.

A party's table and `predict` call these functions; an exported model follows the same spellings and patterns. Every function maps
a value by itself: what one person's cell becomes never depends on another person's cell. That bounds one person's influence on a
statistic, so it is the one rule of this package. A category is found by how a value is *spelled* (`colonnade.coding.arrays`),
because the same level arrives as text from a CSV file, as a float where pandas met a null, and as a boolean from parquet. Numbers
and dates are read in `colonnade.coding.numbers`.

A cell that is empty, or cannot be read, counts as missing, and the schema says what that means. Where the schema has no rule, it
is coded like a null record. A party whose table has such cells refuses it when its owner opens it
(`colonnade.party.table.checking`); a frame that is scored has nobody to ask.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.coding.arrays import flatten, is_text, pandas_kind, pandas_reader, places_of, spelled_number, texts_of
from colonnade.coding.numbers import NUMBER, DateEncoder, IndicatorEncoder, NumericEncoder
from colonnade.errors import SchemaMismatch
from colonnade.schema import Category, Column, Date, Indicator, Level, Numeric

__all__ = [
    "MISSING",
    "CategoryEncoder",
    "CategoryReading",
    "Encoder",
    "encoded",
    "encoder_for",
    "require_type",
    "spelled_floats",
    "spelled_wholes",
    "spellings",
]

MISSING = -1
"""The code of a person without a level."""

WHOLE = re.compile(r"-?(0|[1-9][0-9]*)(\.0)?")
TRUTH = {"false": ("False", "false", "FALSE"), "true": ("True", "true", "TRUE")}
UNKNOWN, EMPTY = -1, -2
"""What the cells of a category say besides their levels: a value outside the list, or nothing."""


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
    return {number: codes[text] for text, number in numbers.items() if spelled_number(number) == text}


def spelled_wholes(codes: dict[str, int]) -> dict[int, int]:
    """Return the spellings that are exactly how a whole number would be spelled."""
    return {int(text): code for text, code in codes.items() if _is_whole(text)}


class CategoryReading(NamedTuple):
    """What the cells of a category say.

    Parameters
    ----------
    codes
        The places of their levels; negative where there is none.
    empty
        Where a cell says nothing: it is null, or an empty text, or one of the column's ``na_values``.
    """

    codes: NDArray[np.int32]
    empty: NDArray[np.bool_]


class CategoryEncoder:
    """Codes 0, 1, … for the levels of a category; −1 for a person without one."""

    dtype = np.dtype(np.int32)
    null: float = MISSING

    def __init__(self, column: Category) -> None:
        found = spellings(column)
        nothing = {text: EMPTY for text in ("", *column.na_values) if text not in found}
        self._spellings = found | nothing
        self._floats = spelled_floats(self._spellings)
        self._whole = spelled_wholes(self._spellings)
        self._declared = column.missing is not None
        self._missing = column.missing_code
        self._other = column.missing_code if column.other_code is None else column.other_code

    def __call__(self, column: Any) -> NDArray[np.int32]:
        """Encode one array."""
        codes = self._look_up(flatten(column))
        codes[codes == UNKNOWN] = self._other
        codes[codes == EMPTY] = self._missing
        return codes

    def read(self, column: Any) -> CategoryReading:
        """Return what the cells of one array say."""
        codes = self._look_up(flatten(column))
        return CategoryReading(codes, codes == EMPTY)

    def present(self, column: Any) -> NDArray[np.bool_]:
        """Return where there is a level, or a rule for its absence."""
        return np.asarray((self(column) != MISSING) | self._declared)

    def _look_up(self, array: Any) -> NDArray[np.int32]:
        kind = array.type
        if pa.types.is_dictionary(kind):
            return self._by_index(flatten(array.dictionary), array.indices)
        if pa.types.is_null(kind):
            return np.full(len(array), EMPTY, dtype=np.int32)
        if pa.types.is_boolean(kind):
            return self._by_index(pa.array(["False", "True"]), array.cast(pa.uint8()))
        if pa.types.is_integer(kind):
            return _look_up(array, _within(self._whole, kind))
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            # Adding zero turns −0.0 into 0.0, which a hash table would otherwise take for another number.
            numbers = pc.add(array.cast(pa.float64(), safe=False), 0.0)
            codes = _look_up(numbers, self._floats)
            codes[np.isnan(numbers.to_numpy(zero_copy_only=False))] = EMPTY
            return codes
        return _look_up(array.cast(pa.string()) if pa.types.is_date(kind) else texts_of(array), self._spellings)

    def _by_index(self, values: Any, indices: Any) -> NDArray[np.int32]:
        codes = np.append(self._look_up(values), np.int32(EMPTY))
        return codes[places_of(indices, len(values))]


def _is_whole(text: str) -> bool:
    return WHOLE.fullmatch(text) is not None and text != "-0" and "." not in text


def _within(codes: dict[int, int], kind: Any) -> dict[int, int]:
    """Leave out levels that this integer type cannot hold: casting the data instead could wrap a value onto a level."""
    limits = np.iinfo(kind.to_pandas_dtype())
    return {number: code for number, code in codes.items() if limits.min <= number <= limits.max}


def _look_up(array: Any, codes: dict[Any, int]) -> NDArray[np.int32]:
    found = pc.index_in(array, value_set=pa.array(list(codes), type=array.type))
    table = np.array([*codes.values(), UNKNOWN], dtype=np.int32)
    looked_up = table[found.fill_null(len(codes)).to_numpy(zero_copy_only=False)]
    looked_up[array.is_null().to_numpy(zero_copy_only=False)] = EMPTY
    return cast("NDArray[np.int32]", looked_up)


Encoder = CategoryEncoder | NumericEncoder | IndicatorEncoder


def encoder_for(column: Column) -> Encoder:
    """Return what encodes a column of this public description."""
    if isinstance(column, Category):
        return CategoryEncoder(column)
    if isinstance(column, Indicator):
        return IndicatorEncoder(column)
    return DateEncoder(column) if isinstance(column, Date) else NumericEncoder(column)


def _is_number(kind: Any) -> bool:
    tests = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def require_type(name: str, column: Column, kind: Any) -> None:
    """Refuse a column whose stored type cannot be what its schema says; ``None`` is text of no declared type."""
    described = column.described if isinstance(column, Indicator) else column
    plain = kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind
    if plain is None or is_text(plain) or pa.types.is_null(plain):
        return
    is_date = pa.types.is_date(plain)
    fits = {
        Numeric: _is_number(plain),
        Category: _is_number(plain) or is_date,
        Date: is_date or pa.types.is_timestamp(plain),
    }
    if fits[type(described)]:
        return
    expected = {
        Numeric: "cn.Numeric needs numbers",
        Category: "cn.Category needs text or whole numbers",
        Date: "cn.Date needs dates",
    }[type(described)]
    # The head of the type's name is enough: the whole may spell out the names of nested fields.
    stored = re.split(r"[<\[(]", str(plain))[0]
    raise SchemaMismatch(
        f"Column {name!r} holds the type {stored}, but {expected}.",
        remedy="Convert the column in the data source, or describe it as what it is.",
    )


def encoded(values: pd.Series, name: str, column: Column) -> NDArray[Any]:
    """Return a column of a caller's frame as codes or numbers, as a party's table would hold it.

    Text is read as it is read from a CSV file. A column of a type that no party could hold is refused.
    """
    dense = values.astype(values.dtype.subtype) if isinstance(values.dtype, pd.SparseDtype) else values
    try:
        kind, cells = pandas_kind(dense, look=False), pandas_reader(dense)(0, len(dense))
    except (pa.ArrowException, TypeError, ValueError):
        raise SchemaMismatch(f"Column {name!r} of the frame cannot be read.") from None
    require_type(name, column, kind)
    return encoder_for(column)(cells)
