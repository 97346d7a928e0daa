"""Rows that a caller holds, as the models see them: the same coding that the parties apply to their own."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coding.cells import encoded
from colonnade.coding.features import Feature, coded_block
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema import Column, Numeric

__all__ = ["design"]

Array = NDArray[np.float64]


def design(X: pd.DataFrame, features: Sequence[Feature], columns: Mapping[str, Column], *, coded: bool) -> Array:
    """Turn a frame with the federation's column names into a matrix, one column per name of the model.

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
    doubled = [name for name in columns if isinstance(X[name], pd.DataFrame)]
    if doubled:
        raise SchemaMismatch(f"The frame has more than one column {doubled[0]!r}.")
    names = dict.fromkeys(feature.column for feature in features)
    blocks = [_block(X[name], name, columns[name], coded=coded) for name in names]
    return np.ascontiguousarray(np.concatenate(blocks).T)


def _block(values: pd.Series, name: str, column: Column, *, coded: bool) -> Array:
    cells = encoded(values, name, column)
    return cells[None] if isinstance(column, Numeric) and not coded else coded_block(cells, column)
