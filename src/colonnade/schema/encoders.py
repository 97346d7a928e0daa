"""From stored values to codes and numbers behind public bounds, one value at a time.

A party's table and `predict` call these encoders; an exported model follows the same spellings and patterns. Every function
maps a value by itself: what one person's cell becomes never depends on another person's cell. That bounds one person's
influence on a statistic, so it is the one rule of this package.

A cell that is empty, or cannot be read, counts as missing, and the schema says what that means: a public fill value, a level, or
no level. Where the schema has no rule, it is coded like a null record. A party whose table has such cells refuses it when its
owner opens it (`colonnade.party.table.checking`, by `read`); a frame that is scored has nobody to ask.

A *null record* is something else: a person without a row at a party. It has the exact midpoint of every number, which is coded
as 0 everywhere, and no level, so that it contributes nothing to sums and products and costs what accounting for zero-out says.

*Stored values* are columns of frames and files as Arrow arrays. A category is found by how a value is *spelled* (`spelling`),
because the same level arrives as text from a CSV file, as a float where pandas met a null, and as a boolean from parquet. A
column of Python objects may hold texts beside numbers. Each object is then spelled by itself, and a number is kept as the
number it is too: how a column's texts are written must not change what its numbers are. Such a block is a struct with the
fields ``text`` and ``number``.

A number or a date written as text is read by the pattern of its column: digits with the declared signs between groups of digits
and before the fraction, ``"true"`` as 1, ``"false"`` as 0, or a date in ISO form. A pattern is checked cell by cell. What matches
none is not guessed at. Nothing here asks of which kind a number is: a column says of what NumPy type its cells are, how they are
written as text, and which cell counts as 0.
"""

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.errors import SchemaMismatch
from colonnade.schema import Bins, Category, Column, Crossed, Indicator, Level, Number
from colonnade.schema.column import NUMBER
from colonnade.schema.readings import Centred

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
    whole = (text for text in codes if WHOLE.fullmatch(text) and text != "-0" and "." not in text)
    return {int(text): codes[text] for text in whole}


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
    cells = [None if _is_nothing(value) else value for value in values]
    texts = pa.array([None if cell is None else _text(cell) for cell in cells], type=pa.large_string())
    numbers = pa.array([_number(cell) for cell in cells], type=pa.float64())
    return pa.StructArray.from_arrays([texts, numbers], names=["text", "number"])


def _is_nothing(value: object) -> bool:
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


Flags = NDArray[np.bool_]

MISSING = -1
"""The code of a person without a level."""

UNKNOWN, EMPTY = -1, -2
"""What the cells of a category say besides their levels: a value outside the list, or nothing."""


def number_bounds(column: Number) -> tuple[float, float]:
    """Return what a number is clipped to: the public bounds, or the whole numbers next to them inside."""
    if not column.whole:
        return column.low, column.high
    return float(math.ceil(column.low)), float(math.floor(column.high))


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


class NumericEncoder:
    """Numbers within the bounds: clipped, whole where the schema says so, and the fill value where one is missing."""

    dtype = np.dtype(np.float64)

    def __init__(self, column: Number, null: float | None = None) -> None:
        self._column = column
        self._low, self._high = number_bounds(column)
        self._absent = na_numbers(column)
        self._words = pa.array(["", *(str(value).strip() for value in column.na_values)], type=pa.large_string())
        # Not rounded, also where the numbers are whole: a null record is coded as exactly 0.
        self.null = column.midpoint if null is None else null
        self._fill = self.null if column.fill is None else column.fill

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
            empty = pc.or_(pc.is_in(words, value_set=self._words), array.is_null()).to_numpy(zero_copy_only=False)
            return NumberReading(numbers_in(words, self._column), empty)
        numbers = numbers_of(array, self._column)
        return NumberReading(numbers, np.isnan(numbers))

    def _of_objects(self, array: Any) -> NumberReading:
        """Numbers as they are, anything else as it is spelled. A number is no date."""
        numbers, empty = self._read(array.field("text"))
        if not is_plain(self._column):
            return NumberReading(numbers, empty)
        typed = array.field("number").to_numpy(zero_copy_only=False)
        is_number = ~np.isnan(typed)
        return NumberReading(np.where(is_number, typed, numbers), empty & ~is_number)


class IndicatorEncoder:
    """1 where the value of another column is missing, else 0."""

    dtype = np.dtype(np.float64)

    def __init__(self, column: Indicator) -> None:
        self._described = NumericEncoder(column.described)
        self.null = column.midpoint

    def __call__(self, column: Any) -> Floats:
        """Encode one array of the other column."""
        return np.isnan(self._described.read(column).numbers).astype(np.float64)

    def present(self, column: Any) -> Flags:
        """Return where there is a value: everywhere."""
        return self._described.present(column)


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


class BinsEncoder:
    """Codes 0, 1, … for the bins of a number or a date; −1 for a null record, and where nothing says what a missing one is."""

    dtype = np.dtype(np.int32)
    null: float = MISSING

    def __init__(self, column: Bins) -> None:
        self._numbers = NumericEncoder(column.of)
        self._inner = np.array(column.inner)
        nowhere = column.of.fill is None or column.missing is not None
        self._missing = column.missing_code if nowhere else None
        self._special = column.codes
        self._as_written = NumericEncoder(msgspec.structs.replace(column.of, na_values=()))

    def __call__(self, column: Any) -> NDArray[np.int32]:
        """Encode one array."""
        codes = np.searchsorted(self._inner, self._numbers(column), side="right").astype(np.int32)
        if self._missing is not None:
            codes[np.isnan(self._numbers.read(column).numbers)] = self._missing
        if self._special:
            written = self._as_written.read(column).numbers
            for place, code in enumerate(self._special, start=len(self._inner) + 1):
                codes[written == code] = place
        return codes

    def present(self, column: Any) -> Flags:
        """Return where there is a value, or a rule for its absence."""
        return np.asarray(self(column) != MISSING)


class CrossedEncoder:
    """Codes 0, 1, … for combinations of two columns' levels, the second's fastest; −1 where one of them has none."""

    dtype = np.dtype(np.int32)
    null: float = MISSING

    def __init__(self, column: Crossed) -> None:
        self._parts = [encoder_for(one) for one in column.of]
        self._size = np.int32(column.of[1].size)

    def __call__(self, first: Any, second: Any) -> NDArray[np.int32]:
        """Encode one array of each column."""
        ones, others = (part(array) for part, array in zip(self._parts, (first, second), strict=True))  # type: ignore[call-arg]  # a part reads one
        return np.where((ones == MISSING) | (others == MISSING), np.int32(MISSING), ones * self._size + others)

    def present(self, first: Any, second: Any) -> Flags:
        """Return where one of the two has a value, or a rule for its absence."""
        ones, others = (part.present(array) for part, array in zip(self._parts, (first, second), strict=True))  # type: ignore[call-arg]
        return np.asarray(ones | others)


Encoder = CategoryEncoder | NumericEncoder | IndicatorEncoder | BinsEncoder | CrossedEncoder
"""What encodes a column; it takes one array per column of the data source that the column is read from."""


def encoder_for(column: Column) -> Encoder:
    """Return what encodes a column of this public description."""
    if isinstance(column, Bins):
        return BinsEncoder(column)
    if isinstance(column, Crossed):
        return CrossedEncoder(column)
    if isinstance(column, Category):
        return CategoryEncoder(column)
    if isinstance(column, Indicator):
        return IndicatorEncoder(column)
    if isinstance(column, Centred):
        return NumericEncoder(column.of, column.midpoint)
    return NumericEncoder(column)


NUMBERS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
FITTING = {
    "O": (*NUMBERS, pa.types.is_date),
    "f": NUMBERS,
    "M": (pa.types.is_date, pa.types.is_timestamp),
    "m": (pa.types.is_duration,),
}
"""Which Arrow types, besides text, cells may have, by what NumPy calls their kind."""


def require_type(name: str, column: Column, kind: Any) -> None:
    """Refuse a column whose stored type cannot be what its schema says; ``None`` is text of no declared type."""
    described = column.underlying
    plain = kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind
    if plain is None or is_text(plain) or pa.types.is_null(plain):
        return
    if any(fits(plain) for fits in FITTING[np.dtype(described.cell_type).kind]):
        return
    expected = f"cn.{type(described).__name__} needs {described.cells_in_words}"
    # The head of the type's name is enough: the whole may spell out the names of nested fields.
    stored = re.split(r"[<\[(]", str(plain))[0]
    raise SchemaMismatch(
        f"Column {name!r} holds the type {stored}, but {expected}.",
        remedy="Convert the column in the data source, or describe it as what it is.",
    )


def encoded(values: pd.Series | Sequence[pd.Series], name: str, column: Column) -> NDArray[Any]:
    """Return a column of a caller's frame as codes or numbers, as a party's table would hold it.

    Text is read as it is read from a CSV file. A column of a type that no party could hold is refused. Two columns that are read
    together take one of each.
    """
    if not isinstance(column, Crossed):
        assert isinstance(values, pd.Series)
        return encoder_for(column)(_array(values, name, column))  # type: ignore[call-arg]  # what is no `Crossed` reads one
    parts = zip(values, column.names, column.of, strict=True)
    return CrossedEncoder(column)(*(_array(one, own, part) for one, own, part in parts))


def _array(values: pd.Series, name: str, column: Column) -> Any:
    dense = values.astype(values.dtype.subtype) if isinstance(values.dtype, pd.SparseDtype) else values
    try:
        kind, array = pandas_kind(dense, look=False), pandas_reader(dense)(0, len(dense))
    except (pa.ArrowException, TypeError, ValueError):
        raise SchemaMismatch(
            f"Column {name!r} of the frame cannot be read.",
            remedy="Give numbers, texts, booleans or dates: no lists and no objects of other kinds.",
        ) from None
    require_type(name, column, kind)
    return array


def values_of(column: Column, codes: NDArray[np.int64], uniforms: NDArray[np.float64]) -> pd.Series:
    """Return one value per drawn level.

    A number is uniform between the edges of its bin: the release says nothing about where in it. Columns of whole numbers get
    whole numbers, dates get days. A missing value is empty.

    Parameters
    ----------
    column
        The column as it was read: a category, or bins.
    codes
        The places of the drawn levels.
    uniforms
        A number in [0, 1) for every row.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> bins = Bins.equal(Numeric(0, 9, integer=True), 2)
    >>> values_of(bins, np.array([0, 1, 1]), np.array([0.0, 0.0, 0.99])).tolist()
    [0, 5, 9]
    """
    missing = codes == column.missing_code
    if isinstance(column, Bins):
        special = (codes >= len(column.edges) - 1) & ~missing
        numbers = _drawn_numbers(column, np.where(missing | special, 0, codes), uniforms, missing)
        if special.any():
            written = np.asarray(column.codes)[codes[special] - len(column.edges) + 1]
            numbers[special] = written.astype(np.int64) if column.of.whole else written
        return numbers
    values = pd.Series(np.array([*column.levels], dtype=object)[codes], dtype=object)
    values[missing] = None
    return values.convert_dtypes() if missing.any() else values.infer_objects()


def _drawn_numbers(
    column: Bins, codes: NDArray[np.int64], uniforms: NDArray[np.float64], missing: NDArray[np.bool_]
) -> pd.Series:
    edges, last = np.asarray(column.edges), codes == len(column.edges) - 2
    low, high = edges[codes], edges[codes + 1]
    if not column.of.whole:
        return pd.Series(np.where(missing, np.nan, low + (high - low) * uniforms))
    first = np.ceil(low)
    beyond = np.where(last, np.floor(high) + 1, np.ceil(high))  # the last bin holds its upper edge
    whole = (first + np.floor(uniforms * (beyond - first))).astype(np.int64)
    if not is_plain(column.of):
        lengths = pd.to_timedelta(whole, unit=unit_of(column.of))
        drawn = first_time(column.of) + lengths if is_time(column.of) else lengths
        return pd.Series(drawn).mask(pd.Series(missing))
    values = pd.Series(whole)
    return values.astype("Int64").mask(pd.Series(missing)) if missing.any() else values


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
