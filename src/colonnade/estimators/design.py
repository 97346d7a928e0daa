"""Rows that a caller holds, as the models see them: the same coding that the parties apply to their own."""

import re
from collections.abc import Mapping, Sequence
from math import ceil, floor

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.moments import Feature
from colonnade.schema import Category, Column, Level, Numeric

__all__ = ["design"]

Array = NDArray[np.float64]
WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
TRUTH = {"false": ("False", "false", "FALSE"), "true": ("True", "true", "TRUE")}


def design(X: pd.DataFrame, features: Sequence[Feature], columns: Mapping[str, Column], *, coded: bool) -> Array:
    """Turn a frame with the federation's column names into a matrix, one column a name of the model.

    Numbers are clipped to their bounds and missing ones take the midpoint; a missing level, and one that is not in the schema, is
    no level: just as the parties do it.

    Parameters
    ----------
    X
        A frame with columns named ``"party.column"``, in their own units.
    features, columns
        What to make of it. A category that was coded as one sign has a column for each of its two levels all the same, as
        coefficients have.
    coded
        Whether numbers are mapped to [−1, 1] or left in their own units.
    """
    if not isinstance(X, pd.DataFrame):
        raise BadInput("Predictions take a pandas frame with the federation's column names.")
    missing = [name for name in columns if name not in X.columns]
    if missing:
        raise SchemaMismatch(f"The frame lacks the column {missing[0]!r}.", remedy="Name columns 'party.column'.")
    names = dict.fromkeys(feature.column for feature in features)
    return np.column_stack([_coded(X[name], columns[name], mapped=coded) for name in names])


def _coded(values: pd.Series, column: Column, *, mapped: bool) -> Array:
    if isinstance(column, Category):
        return _indicators(values, column)
    own = _bounded(values, column)
    half = column.high / 2 - column.low / 2
    return (own - column.midpoint) / half if mapped else own


def _bounded(values: pd.Series, column: Numeric) -> Array:
    numbers = pd.to_numeric(values.astype(object), errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    low, high = (ceil(column.low), floor(column.high)) if column.integer else (column.low, column.high)
    bounded = np.clip(np.rint(numbers) if column.integer else numbers, low, high)
    return np.where(np.isnan(numbers), column.midpoint, bounded)


def _indicators(values: pd.Series, column: Category) -> Array:
    """Return one column a level; a level is found by how a value is spelled: 1, 1.0 and "1" are one level."""
    spelled = values.astype(object).map(_spelled, na_action="ignore")
    found = spelled.map(_codes(column)).to_numpy(dtype=float, na_value=np.nan)
    return np.asarray(found[:, None] == np.arange(column.size), dtype=float)


def _spelled(value: object) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]  # a whole float


def _codes(column: Category) -> dict[str, int]:
    """Return every accepted spelling and its level; a level's own text wins over another's alternative."""
    codes = {str(level): code for code, level in enumerate(column.levels)}
    for code, level in enumerate(column.levels):
        for text in _other_spellings(level):
            codes.setdefault(text, code)
    return codes


def _other_spellings(level: Level) -> tuple[str, ...]:
    truth = str(bool(level)) if level in (0, 1) else str(level)
    words = TRUTH.get(truth.lower(), ())
    number = str(int(level)) if isinstance(level, bool) else str(level).removesuffix(".0")
    return (*words, number, f"{number}.0") if WHOLE.fullmatch(number) else words
