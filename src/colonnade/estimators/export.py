"""Fitted models as ordinary scikit-learn pipelines: the same coding of columns, then the same model, and none of our classes.

The coding is public, so its steps are fitted on a small table made from the schema: bounds, and levels as the schema writes
them. Missing numbers take the midpoint, numbers are clipped to their bounds, a missing or unknown level is no level.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import cluster, decomposition, linear_model
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from colonnade.schema import Category, Column, Numeric

__all__ = ["components_pipeline", "linear_pipeline", "logistic_pipeline", "nearest_pipeline"]

Array = NDArray[Any]


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
            half = column.high / 2 - column.low / 2
            scaler.mean_, scaler.scale_ = np.array([column.midpoint]), np.array([half])
            scaler.var_ = scaler.scale_**2
    return coding


def _number(column: Numeric, *, coded: bool) -> Pipeline:
    low, high = (math.ceil(column.low), math.floor(column.high)) if column.integer else (column.low, column.high)
    steps: list[tuple[str, Any]] = []
    if column.integer:
        steps.append(("round", FunctionTransformer(np.rint, feature_names_out="one-to-one")))
    bounds = {"a_min": float(low), "a_max": float(high)}
    steps.append(("clip", FunctionTransformer(np.clip, kw_args=bounds, feature_names_out="one-to-one")))
    steps.append(("missing", SimpleImputer(strategy="constant", fill_value=column.midpoint)))
    if coded:
        steps.append(("map", StandardScaler()))
    return Pipeline(steps)


def _levels(column: Category) -> Pipeline:
    """Code levels as the schema writes them; as objects, since the encoder wants numbers in ascending order otherwise."""
    levels = np.array(list(column.levels), dtype=object)
    plain = FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": object}, feature_names_out="one-to-one")
    encoder = OneHotEncoder(categories=[levels], handle_unknown="ignore", sparse_output=False, dtype=np.float64)
    return Pipeline([("plain", plain), ("levels", encoder)])


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
