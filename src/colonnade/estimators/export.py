"""Fitted models outside a federation: frames in coded columns, and models as plain scikit-learn pipelines.

A pipeline has the same coding of columns, then the same model, and none of our classes. The coding is public, so its steps
are fitted on a small table made from the schema: bounds, and levels as the schema writes them. The rules are those of
`colonnade.coding.cells`. A pipeline may use plain functions only, so they stand in it as patterns and as a list of every
spelling. A `Fraction` is missing here, and in a category so is a `Decimal` with a decimal point.
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

from colonnade.coding.cells import NUMBER, encoded, number_bounds, spelled_floats, spelled_wholes, spellings
from colonnade.coding.columns import Feature, coded_block
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema import Category, Column, Numeric

__all__ = ["components_pipeline", "design_matrix", "linear_pipeline", "logistic_pipeline", "nearest_pipeline"]


Array = NDArray[np.float64]


def design_matrix(X: pd.DataFrame, features: Sequence[Feature], columns: Mapping[str, Column], *, coded: bool) -> Array:
    """Turn a frame with the federation's column names into a matrix, one column per name of the model.

    Parameters
    ----------
    X
        A frame with columns named ``"party.column"``, in their own units.
    features, columns
        The coded columns to return, and the schema of the frame's columns. A category that was coded as one sign gets a column
        for each of its two levels, as coefficients have.
    coded
        Whether numbers are mapped to [−1, 1] or left in their own units.
    """
    if not isinstance(X, pd.DataFrame):
        raise BadInput(
            "Predictions take a pandas frame, not a value of another type.",
            remedy="Give a frame with the federation's column names, 'party.column'.",
        )
    missing = [name for name in columns if name not in X.columns]
    if missing:
        raise SchemaMismatch(f"The frame lacks the column {missing[0]!r}.", remedy="Name columns 'party.column'.")
    doubled = [name for name in columns if isinstance(X[name], pd.DataFrame)]
    if doubled:
        raise SchemaMismatch(f"The frame has more than one column {doubled[0]!r}.", remedy="Keep one of them.")
    names = dict.fromkeys(feature.column for feature in features)
    blocks = [_block(X[name], name, columns[name], coded=coded) for name in names]
    return np.ascontiguousarray(np.concatenate(blocks).T)


def _block(values: pd.Series, name: str, column: Column, *, coded: bool) -> Array:
    cells = encoded(values, name, column)
    return cells[None] if isinstance(column, Numeric) and not coded else coded_block(cells, column)


Vector = NDArray[Any]

WORDS = {
    r"(?ai)\A\s*true\s*\Z": "1",
    r"(?ai)\A\s*false\s*\Z": "0",
    rf"(?as)\A(?!\s*{NUMBER.removeprefix('^').removesuffix('$')}\s*\Z).*\Z": "",
}
"""Replacements in text before it is read as numbers: true, false, and an empty text for anything that is no number."""

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


def linear_pipeline(columns: Mapping[str, Column], coefficients: Vector, intercept: float) -> Pipeline:
    """Return a linear regression on coded columns in own units."""
    coding = _coding(columns, coded=False)
    model = linear_model.LinearRegression()
    model.coef_, model.intercept_ = coefficients.copy(), float(intercept)
    model.n_features_in_ = len(coefficients)
    return Pipeline([("coding", coding), ("model", model)])


def logistic_pipeline(
    columns: Mapping[str, Column], coefficients: Vector, intercepts: Vector, classes: Sequence[object]
) -> Pipeline:
    """Return a logistic regression on coded columns in own units."""
    coding = _coding(columns, coded=False)
    model = linear_model.LogisticRegression()
    model.coef_, model.intercept_ = coefficients.copy(), intercepts.copy()
    model.classes_ = np.array(list(classes), dtype=object)
    model.n_features_in_ = coefficients.shape[1]
    return Pipeline([("coding", coding), ("model", model)])


def components_pipeline(
    columns: Mapping[str, Column], components: Vector, means: Vector, variances: Vector
) -> Pipeline:
    """Return principal components of columns mapped to [−1, 1]."""
    coding = _coding(columns, coded=True)
    model = decomposition.PCA(n_components=len(components))
    model.components_, model.mean_, model.explained_variance_ = components.copy(), means.copy(), variances.copy()
    model.n_components_, model.n_features_in_ = len(components), components.shape[1]
    return Pipeline([("coding", coding), ("model", model)])


def nearest_pipeline(columns: Mapping[str, Column], centres: Vector) -> Pipeline:
    """Return k-means centres of columns mapped to [−1, 1]."""
    coding = _coding(columns, coded=True)
    model = cluster.KMeans(n_clusters=len(centres), n_init=1)
    model.fit(
        np.tile(np.arange(len(centres), dtype=float)[:, None], centres.shape[1])
    )  # sets private attributes; nothing is learned
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
        if coded and isinstance(column, Numeric):  # bounds of whole numbers need not be whole
            scaler = coding.named_transformers_[name].named_steps["map"]
            scaler.mean_, scaler.scale_ = np.array([column.midpoint]), np.array([column.half_range])
            scaler.var_ = scaler.scale_**2
    return coding


def _number(column: Numeric, *, coded: bool) -> Pipeline:
    """Read cells as numbers, then clip them. They become text first, because one column may hold several types."""
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
    """Look cells up by their type and text, then code the levels. An unlisted cell has no level."""
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
    """Return the level, as text, of every cell that has one. Keys are cells as `TYPED` writes them."""
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
    """Return rows with the bounds and levels of the schema. A number's mean and deviation are midpoint and half-width."""
    rows = 2 * max([1, *(column.size for column in columns.values() if isinstance(column, Category))])
    table: dict[str, pd.Series] = {}
    for name, column in columns.items():
        if isinstance(column, Category):
            table[name] = pd.Series([column.levels[row % column.size] for row in range(rows)], dtype=object)
        else:
            table[name] = pd.Series([(column.low, column.high)[row % 2] for row in range(rows)], dtype=float)
    return pd.DataFrame(table)
