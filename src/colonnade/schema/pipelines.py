"""The coding of columns as plain scikit-learn steps, with none of our classes.

The coding is public, so the steps are fitted on a small table made from the schema: bounds, and levels as the schema writes them.
A pipeline may use plain functions only, so the rules of this package stand in it as patterns and as a list of every spelling. A
`Fraction` cannot be read here, nor, in a category, a `Decimal` with a decimal point.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from colonnade.schema import Bins, Category, Column, Crossed, Indicator, Number, stored_names
from colonnade.schema.column import NUMBER
from colonnade.schema.encoders import (
    first_time,
    is_plain,
    is_time,
    na_numbers,
    number_bounds,
    spelled_floats,
    spelled_wholes,
    spellings,
    unit_of,
)

WORDS = {
    r"(?ai)\A\s*true\s*\Z": "1",
    r"(?ai)\A\s*false\s*\Z": "0",
    rf"(?as)\A(?!\s*{NUMBER.removeprefix('^').removesuffix('$')}\s*\Z).*\Z": "",
}
"""Replacements in text before it is read as numbers: true, false, and an empty text for anything that is no number."""
POINT = "\x1f"
NOTHING = "\x1f"
TYPED = "{0.__class__.__name__} {0}".format
TEXTS = ("str", "str_", "date")
BOOLEANS = ("bool", "bool_")
WHOLES = (
    "int",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "longlong",
    "ulonglong",
    "Decimal",
)
BEYOND = 1e300
"""More than any number of a column with codes: codes are put beyond it."""
FLOATS = ("float", "float16", "float32", "float64", "longdouble")
"""The names of the types that a cell may have, by how it is spelled."""


def coding_steps(columns: Mapping[str, Column], *, coded: bool) -> ColumnTransformer:
    """Return the first step of a pipeline: a frame in coded columns, or with numbers in their own units."""
    steps = [
        (
            name,
            _number(column, coded=coded)
            if isinstance(column, Number)
            else _category(column, stored_names(name, column)),
            stored_names(name, column),
        )
        for name, column in columns.items()
    ]
    coding = ColumnTransformer(steps, sparse_threshold=0.0).fit(_public_table(columns))
    for name, column in columns.items():
        if coded and isinstance(column, Number):  # bounds of whole numbers need not be whole
            scaler = coding.named_transformers_[name].named_steps["map"]
            scaler.mean_, scaler.scale_ = np.array([column.midpoint]), np.array([column.half_range])
            scaler.var_ = scaler.scale_**2
    return coding


def _number(column: Number, *, coded: bool) -> Pipeline:
    """Read cells as numbers, then clip them; or say which have none, for an indicator."""
    if isinstance(column, Indicator):
        steps = _reading(column.described)
        steps.append(("missing", _step(pd.isna)))
        steps.append(("indicator", _step(pd.DataFrame.astype, dtype=np.float64)))
    else:
        steps = _bounded(column)
        fill = column.midpoint if column.fill is None else column.fill
        steps.append(("missing", SimpleImputer(strategy="constant", fill_value=fill)))
    if coded:
        steps.append(("map", StandardScaler()))
    return Pipeline(steps)


def _bounded(column: Number) -> list[tuple[str, Any]]:
    """Read cells as numbers within the bounds, NaN where there is none."""
    low, high = number_bounds(column)
    rounded = [("round", _step(np.rint))] if column.whole else []
    return [*_reading(column), *rounded, ("clip", _step(np.clip, a_min=low, a_max=high))]


def _category(column: Category, stored: Sequence[str]) -> Pipeline:
    if isinstance(column, Crossed):
        return _crossed(column, stored)
    return _bins(column) if isinstance(column, Bins) else _levels(column)


def _bins(column: Bins) -> Pipeline:
    """Read cells as numbers, then say in which bin they are. What is missing is beyond all numbers, in a bin of its own."""
    fill = np.inf if column.of.fill is None or column.missing is not None else column.of.fill
    codes = np.arange(column.size)
    encoder = OneHotEncoder(categories=[codes], handle_unknown="ignore", sparse_output=False, dtype=np.float64)
    beyond = [BEYOND * (2 * place + 1) for place in range(len(column.codes))]
    steps = [
        *(_bounded(column.of) if not column.codes else _with_codes(column)),
        ("plain_floats", _step(np.asarray)),
        ("missing", _step(np.nan_to_num, nan=fill, posinf=np.inf)),
        ("bins", _step(np.digitize, bins=[*column.inner, *beyond, np.inf])),
        ("levels", encoder),
    ]
    return Pipeline(steps)


def _with_codes(column: Bins) -> list[tuple[str, Any]]:
    """Read cells as numbers, with each code as a number beyond all others. Bins need no bounds: a value beyond is in the last."""
    special = {code: BEYOND * (2 * place + 2) for place, code in enumerate(column.codes)}
    kept = [value for value in na_numbers(column.of) if value not in special]
    absent = [("others", _step(pd.DataFrame.replace, to_replace=kept, value=np.nan))] if kept else []
    return [
        *_reading(msgspec.structs.replace(column.of, na_values=())),
        *absent,
        ("finite", _step(pd.DataFrame.clip, lower=-BEYOND / 2, upper=BEYOND / 2)),
        ("codes", _step(pd.DataFrame.replace, to_replace=list(special), value=list(special.values()))),
        *([("round", _step(np.rint))] if column.of.whole else []),
    ]


def _crossed(column: Crossed, stored: Sequence[str]) -> Pipeline:
    """Code each of the two columns, then say which combination it is. Without a level of one of them it is none."""
    first, second = column.shape
    parts = [(name, _category(part, [name]), [name]) for name, part in zip(stored, column.of, strict=True)]
    enough = column.size  # a sum below twice this lacks one of the two
    places = np.concatenate([enough + second * np.arange(first), enough + np.arange(second)]).astype(float)
    combinations = 2.0 * enough + np.arange(column.size)
    encoder = OneHotEncoder(categories=[combinations], handle_unknown="ignore", sparse_output=False, dtype=np.float64)
    return Pipeline(
        [
            ("parts", ColumnTransformer(parts, sparse_threshold=0.0)),
            ("places", FunctionTransformer(np.dot, kw_args={"b": places[:, None]})),
            ("levels", encoder),
        ]
    )


def _reading(column: Number) -> list[tuple[str, Any]]:
    """Read cells as numbers, NaN where there is none. They become text first, because one column may hold several types."""
    steps = [("plain", _step(pd.DataFrame.astype, dtype=object))]
    if not is_plain(column):
        steps += _times(column)
    elif column.pattern == NUMBER:
        steps += [
            ("text", _step(pd.DataFrame.map, func="{0}".format, na_action="ignore")),
            ("objects", _step(pd.DataFrame.astype, dtype=object)),
            ("words", _step(pd.DataFrame.replace, to_replace=WORDS, regex=True)),
        ]
    else:
        steps += _written_numbers(column)
    if is_plain(column):
        steps.append(("numbers", _step(pd.DataFrame.apply, func=pd.to_numeric, errors="coerce")))
    steps.append(("floats", _step(pd.DataFrame.astype, dtype=np.float64)))
    absent = na_numbers(column)
    if absent:
        steps.append(("absent", _step(pd.DataFrame.replace, to_replace=list(absent), value=np.nan)))
    return steps


def _written_numbers(column: Number) -> list[tuple[str, Any]]:
    """Rewrite texts as the schema says they are written. A cell that is a number keeps its own decimal point meanwhile."""
    pattern = _bare(column)
    no_number = {rf"(?asi)\Astr_? (?!\s*({pattern}|true|false)\s*\Z).*\Z": ""}
    kept = {r"(?as)\A(?!str_? )(\S+) (.*)\.(.*)\Z": rf"\1 \2{POINT}\3"}
    steps = [
        ("typed", _step(pd.DataFrame.map, func=TYPED, na_action="ignore")),
        ("objects", _step(pd.DataFrame.astype, dtype=object)),
        ("readable", _step(pd.DataFrame.replace, to_replace=no_number, regex=True)),
        ("kept", _step(pd.DataFrame.replace, to_replace=kept, regex=True)),
        ("bare", _step(pd.DataFrame.replace, to_replace={r"\A\S+ ": ""}, regex=True)),
    ]
    for name, sign, instead in column.signs:
        steps.append((name, _step(pd.DataFrame.replace, to_replace={re.escape(sign): instead}, regex=True)))
    steps.append(("point", _step(pd.DataFrame.replace, to_replace={POINT: "."}, regex=True)))
    steps.append(("words", _step(pd.DataFrame.replace, to_replace=WORDS, regex=True)))
    return steps


def _times(column: Number) -> list[tuple[str, Any]]:
    """Read texts, time stamps and lengths of time as numbers: an empty text for anything else, then what is read of the rest."""
    pattern = _bare(column)
    steps = [
        ("text", _step(pd.DataFrame.map, func="{0}".format, na_action="ignore")),
        ("objects", _step(pd.DataFrame.astype, dtype=object)),
        ("readable", _step(pd.DataFrame.replace, to_replace={rf"(?as)\A(?!\s*{pattern}\s*\Z).*\Z": ""}, regex=True)),
        ("days", _step(pd.DataFrame.replace, to_replace={rf"(?as)\A\s*{pattern}\s*\Z": r"\1"}, regex=True)),
    ]
    if is_time(column):
        read = _step(pd.DataFrame.apply, func=pd.to_datetime, errors="coerce", format=column.time_format)
        steps += [("dates", read), ("since", _step(pd.DataFrame.sub, other=first_time(column)))]
    else:
        steps.append(("lengths", _step(pd.DataFrame.apply, func=pd.to_timedelta, errors="coerce")))
    return [*steps, ("number", _step(pd.DataFrame.truediv, other=pd.Timedelta(1, unit=unit_of(column))))]


def _bare(column: Number) -> str:
    return column.pattern.removeprefix("^").removesuffix("$")


def _levels(column: Category) -> Pipeline:
    """Look cells up by their type and text, then code the levels. An empty cell and an unlisted one are what the schema says."""
    texts = [str(level) for level in column.levels]
    levels = np.array(texts, dtype=object)
    encoder = OneHotEncoder(categories=[levels], handle_unknown="ignore", sparse_output=False, dtype=np.float64)
    missing = NOTHING if column.missing_code < 0 else texts[column.missing_code]
    unlisted = missing if column.other_code is None else texts[column.other_code]
    known = _typed_spellings(column)
    nothing = {cell: missing for cell in (NOTHING, *(f"{kind} " for kind in TEXTS)) if cell not in known}
    steps = [
        ("plain", _step(pd.DataFrame.astype, dtype=object)),
        ("typed", _step(pd.DataFrame.map, func=TYPED, na_action="ignore")),
        ("texts", _step(pd.DataFrame.astype, dtype=object)),
        ("empty", _step(pd.DataFrame.fillna, value=NOTHING)),
        ("spelled", _step(pd.DataFrame.map, func=(known | nothing).get)),
        ("objects", _step(pd.DataFrame.astype, dtype=object)),
        ("unlisted", _step(pd.DataFrame.fillna, value=unlisted)),
        ("levels", encoder),
    ]
    return Pipeline(steps)


def _step(function: Callable[..., Any], **options: Any) -> FunctionTransformer:
    return FunctionTransformer(function, kw_args=options, feature_names_out="one-to-one")


def _typed_spellings(column: Category) -> dict[str, str]:
    """Return the level, as text, of every cell that has one. Keys are cells as `TYPED` writes them."""
    codes = spellings(column)
    codes |= {text: len(column.levels) for text in column.na_values if text not in codes}
    texts = [str(level) for level in column.levels]
    texts.append(NOTHING if column.missing_code < 0 else texts[column.missing_code])
    cells: dict[str, int] = {}
    for text, code in codes.items():
        cells |= {f"{kind} {text}": code for kind in (*TEXTS, *(BOOLEANS if text in ("True", "False") else ()))}
    for whole, code in spelled_wholes(codes).items():
        cells |= {f"{kind} {whole}": code for kind in WHOLES}
    for number, code in spelled_floats(codes).items():
        written = [f"{number}", *(["-0.0"] if number == 0 else ())]
        cells |= {f"{kind} {text}": code for kind in FLOATS for text in written}
    return {cell: texts[code] for cell, code in cells.items()}


def _public_table(columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return rows with the bounds and levels of the schema. A number's mean and deviation are midpoint and half-width."""
    rows = 2 * max([1, *(column.size for column in columns.values())])
    table: dict[str, pd.Series] = {}
    for name, column in columns.items():
        for own, part in zip(stored_names(name, column), column.parts or (column,), strict=True):
            table[own] = pd.Series(
                list(islice(cycle(part.underlying.public_cells), rows)),
                dtype=float if part.underlying.cell_type == "float64" else object,
            )
    return pd.DataFrame(table)
