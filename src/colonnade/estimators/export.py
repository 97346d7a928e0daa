"""Fitted models as ordinary scikit-learn pipelines: the same coding of columns, then the same model, and none of our classes.

The coding is public, so its steps are fitted on a small table made from the schema: bounds, and levels as the schema writes
them. The rules are those of `colonnade.coding.cells`; because a pipeline may use plain functions only, they stand in it as
patterns and as a list of every spelling. A `Fraction` is missing here, and in a
category so is a `Decimal` with a decimal point.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import cluster, decomposition, linear_model
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from colonnade.coding.cells import NUMBER, number_bounds, spelled_floats, spelled_wholes, spellings
from colonnade.schema import Category, Column, Numeric

__all__ = ["components_pipeline", "linear_pipeline", "logistic_pipeline", "nearest_pipeline"]

Array = NDArray[Any]

WORDS = {
    r"(?ai)\A\s*true\s*\Z": "1",
    r"(?ai)\A\s*false\s*\Z": "0",
    rf"(?as)\A(?!\s*{NUMBER.removeprefix('^').removesuffix('$')}\s*\Z).*\Z": "",
}
"""What text becomes before it is read as numbers: the two truths, and nothing where there is no number."""

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
FLOATS = ("float", "float16", "float32", "float64", "longdouble")
"""The names of the types that a cell may have, by how it is spelled."""


def linear_pipeline(columns: Mapping[str, Column], coefficients: Array, intercept: float) -> Pipeline:
    """Return a linear regression on coded columns in own units."""
    coding = _coding(columns, coded=False)
    model = linear_model.LinearRegression()
    model.coef_, model.intercept_ = coefficients.copy(), float(intercept)
    model.n_features_in_ = len(coefficients)
    return Pipeline([("coding", coding), ("model", model)])


def logistic_pipeline(
    columns: Mapping[str, Column], coefficients: Array, intercepts: Array, classes: Sequence[object]
) -> Pipeline:
    """Return a logistic regression on coded columns in own units."""
    coding = _coding(columns, coded=False)
    model = linear_model.LogisticRegression()
    model.coef_, model.intercept_ = coefficients.copy(), intercepts.copy()
    model.classes_ = np.array(list(classes), dtype=object)
    model.n_features_in_ = coefficients.shape[1]
    return Pipeline([("coding", coding), ("model", model)])


def components_pipeline(columns: Mapping[str, Column], components: Array, means: Array, variances: Array) -> Pipeline:
    """Return principal components of columns mapped to [−1, 1]."""
    coding = _coding(columns, coded=True)
    model = decomposition.PCA(n_components=len(components))
    model.components_, model.mean_, model.explained_variance_ = components.copy(), means.copy(), variances.copy()
    model.n_components_, model.n_features_in_ = len(components), components.shape[1]
    return Pipeline([("coding", coding), ("model", model)])


def nearest_pipeline(columns: Mapping[str, Column], centres: Array) -> Pipeline:
    """Return k-means centres of columns mapped to [−1, 1]."""
    coding = _coding(columns, coded=True)
    model = cluster.KMeans(n_clusters=len(centres), n_init=1)
    model.fit(np.tile(np.arange(len(centres), dtype=float)[:, None], centres.shape[1]))  # sets up; nothing is learned
    model.cluster_centers_ = centres.copy()
    del model.labels_, model.inertia_
    return Pipeline([("coding", coding), ("model", model)])


def _coding(columns: Mapping[str, Column], *, coded: bool) -> ColumnTransformer:
    steps = [
        (name, _levels(column) if isinstance(column, Category) else _number(column, coded=coded), [name])
        for name, column in columns.items()
    ]
    coding = ColumnTransformer(steps, sparse_threshold=0.0).fit(_public_table(columns))
    for name, column in columns.items():
        if coded and isinstance(column, Numeric):  # bounds of a whole number may lie between two whole numbers
            scaler = coding.named_transformers_[name].named_steps["map"]
            scaler.mean_, scaler.scale_ = np.array([column.midpoint]), np.array([column.half_range])
            scaler.var_ = scaler.scale_**2
    return coding


def _number(column: Numeric, *, coded: bool) -> Pipeline:
    """Read cells as numbers, then bound them: first as text, because that is how one column may hold several types."""
    low, high = number_bounds(column)
    steps = [
        ("plain", _step(pd.DataFrame.astype, dtype=object)),
        ("text", _step(pd.DataFrame.map, func="{0}".format, na_action="ignore")),
        ("objects", _step(pd.DataFrame.astype, dtype=object)),
        ("words", _step(pd.DataFrame.replace, to_replace=WORDS, regex=True)),
        ("numbers", _step(pd.DataFrame.apply, func=pd.to_numeric, errors="coerce")),
        ("floats", _step(pd.DataFrame.astype, dtype=np.float64)),
    ]
    if column.integer:
        steps.append(("round", _step(np.rint)))
    steps.append(("clip", _step(np.clip, a_min=low, a_max=high)))
    steps.append(("missing", SimpleImputer(strategy="constant", fill_value=column.midpoint)))
    if coded:
        steps.append(("map", StandardScaler()))
    return Pipeline(steps)


def _levels(column: Category) -> Pipeline:
    """Look cells up by their type and text, then code the levels; a cell that is not in the list is no level."""
    levels = np.array([str(level) for level in column.levels], dtype=object)
    encoder = OneHotEncoder(categories=[levels], handle_unknown="ignore", sparse_output=False, dtype=np.float64)
    steps = [
        ("plain", _step(pd.DataFrame.astype, dtype=object)),
        ("typed", _step(pd.DataFrame.map, func=TYPED, na_action="ignore")),
        ("spelled", _step(pd.DataFrame.map, func=_typed_spellings(column).get)),
        ("objects", _step(pd.DataFrame.astype, dtype=object)),
        ("levels", encoder),
    ]
    return Pipeline(steps)


def _step(function: Callable[..., Any], **options: Any) -> FunctionTransformer:
    return FunctionTransformer(function, kw_args=options, feature_names_out="one-to-one")


def _typed_spellings(column: Category) -> dict[str, str]:
    """Return the level, as text, of every cell that has one; cells are written as `TYPED` writes them."""
    codes = spellings(column)
    wholes, floats = spelled_wholes(codes), spelled_floats(codes)
    cells: dict[str, int] = {}
    for text, code in codes.items():
        cells |= {f"{kind} {text}": code for kind in (*TEXTS, *(BOOLEANS if text in ("True", "False") else ()))}
    for whole, code in wholes.items():
        cells |= {f"{kind} {whole}": code for kind in WHOLES}
    for number, code in floats.items():
        texts = [f"{number}", *(["-0.0"] if number == 0 else ())]
        cells |= {f"{kind} {text}": code for kind in FLOATS for text in texts}
    return {cell: str(column.levels[code]) for cell, code in cells.items()}


def _public_table(columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return rows whose bounds and levels are those of the schema; a number's mean and deviation are midpoint and half-width."""
    rows = 2 * max([1, *(column.size for column in columns.values() if isinstance(column, Category))])
    table: dict[str, pd.Series] = {}
    for name, column in columns.items():
        if isinstance(column, Category):
            table[name] = pd.Series([column.levels[row % column.size] for row in range(rows)], dtype=object)
        else:
            table[name] = pd.Series([(column.low, column.high)[row % 2] for row in range(rows)], dtype=float)
    return pd.DataFrame(table)
