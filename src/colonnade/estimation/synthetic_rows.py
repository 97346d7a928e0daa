"""Drawn levels as values in a column's own units: a number inside its bin, a date, or a level."""

import datetime as dt

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.schema import Bins, Category, Date

__all__ = ["values_of"]


def values_of(column: Category, codes: NDArray[np.int64], uniforms: NDArray[np.float64]) -> pd.Series:
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
        numbers = _numbers(column, np.where(missing | special, 0, codes), uniforms, missing)
        if special.any():
            written = np.asarray(column.codes)[codes[special] - len(column.edges) + 1]
            numbers[special] = written.astype(np.int64) if column.of.whole else written
        return numbers
    values = pd.Series(np.array([*column.levels], dtype=object)[codes], dtype=object)
    values[missing] = None
    return values.convert_dtypes() if missing.any() else values.infer_objects()


def _numbers(
    column: Bins, codes: NDArray[np.int64], uniforms: NDArray[np.float64], missing: NDArray[np.bool_]
) -> pd.Series:
    edges, last = np.asarray(column.edges), codes == len(column.edges) - 2
    low, high = edges[codes], edges[codes + 1]
    if not column.of.whole:
        return pd.Series(np.where(missing, np.nan, low + (high - low) * uniforms))
    first = np.ceil(low)
    beyond = np.where(last, np.floor(high) + 1, np.ceil(high))  # the last bin holds its upper edge
    whole = (first + np.floor(uniforms * (beyond - first))).astype(np.int64)
    if isinstance(column.of, Date):
        start = dt.date.fromisoformat(column.of.first)
        days = pd.Series(pd.to_datetime(start) + pd.to_timedelta(whole, unit="D"))
        return days.mask(pd.Series(missing))
    values = pd.Series(whole)
    return values.astype("Int64").mask(pd.Series(missing)) if missing.any() else values
