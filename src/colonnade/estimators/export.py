"""Fitted models outside a federation: frames in coded columns, and models as plain scikit-learn pipelines.

A pipeline has the same coding of columns (`colonnade.schema.pipelines`), then the same model, and none of our classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import cluster, decomposition, linear_model
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema import Column
from colonnade.schema.encoders import encoded
from colonnade.schema.features import Feature, coded_block, stored_names
from colonnade.schema.pipelines import coding_steps

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
            remedy="Give a frame with columns named 'party.column'; cn.named(bank=frame, telco=frame) makes one.",
        )
    stored = {name: stored_names(name, column) for name, column in columns.items()}
    named = list(dict.fromkeys(name for names in stored.values() for name in names))
    missing = [name for name in named if name not in X.columns]
    if missing:
        raise SchemaMismatch(
            f"The frame lacks the column {missing[0]!r}.",
            remedy="Columns are named 'party.column'; cn.named(bank=frame, telco=frame) names them so.",
        )
    doubled = [name for name in named if isinstance(X[name], pd.DataFrame)]
    if doubled:
        raise SchemaMismatch(f"The frame has more than one column {doubled[0]!r}.", remedy="Keep one of them.")
    names = dict.fromkeys(feature.column for feature in features)
    blocks = [_block(X, name, columns[name], coded=coded) for name in names]
    return np.ascontiguousarray(np.concatenate(blocks).T)


def cells_of(X: pd.DataFrame, name: str, column: Column) -> NDArray[Any]:
    """Return a column of the model as codes or numbers, from a frame with the federation's column names."""
    read = [X[own] for own in stored_names(name, column)]
    return encoded(read if column.parts else read[0], name, column)


def _block(X: pd.DataFrame, name: str, column: Column, *, coded: bool) -> Array:
    cells = cells_of(X, name, column)
    return cells[None] if column.is_number and not coded else coded_block(cells, column)


Vector = NDArray[Any]


def linear_pipeline(columns: Mapping[str, Column], coefficients: Vector, intercept: float) -> Pipeline:
    """Return a linear regression on coded columns in own units."""
    coding = coding_steps(columns, coded=False)
    model = linear_model.LinearRegression()
    model.coef_, model.intercept_ = coefficients.copy(), float(intercept)
    model.n_features_in_ = len(coefficients)
    return Pipeline([("coding", coding), ("model", model)])


def logistic_pipeline(
    columns: Mapping[str, Column], coefficients: Vector, intercepts: Vector, classes: Sequence[object]
) -> Pipeline:
    """Return a logistic regression on coded columns in own units."""
    coding = coding_steps(columns, coded=False)
    model = linear_model.LogisticRegression()
    model.coef_, model.intercept_ = coefficients.copy(), intercepts.copy()
    model.classes_ = np.array(list(classes), dtype=object)
    model.n_features_in_ = coefficients.shape[1]
    return Pipeline([("coding", coding), ("model", model)])


def components_pipeline(
    columns: Mapping[str, Column], components: Vector, means: Vector, variances: Vector, scales: Vector
) -> Pipeline:
    """Return principal components of columns mapped to [−1, 1], each then divided by its scale."""
    coding = coding_steps(columns, coded=True)
    model = decomposition.PCA(n_components=len(components))
    model.components_, model.mean_, model.explained_variance_ = components.copy(), means / scales, variances.copy()
    model.n_components_, model.n_features_in_ = len(components), components.shape[1]
    scaling = StandardScaler(with_mean=False)
    scaling.scale_, scaling.var_, scaling.mean_ = scales.copy(), scales**2, None
    scaling.n_features_in_ = len(scales)
    return Pipeline([("coding", coding), ("scaling", scaling), ("model", model)])


def nearest_pipeline(columns: Mapping[str, Column], centres: Vector) -> Pipeline:
    """Return k-means centres of columns mapped to [−1, 1]."""
    coding = coding_steps(columns, coded=True)
    model = cluster.KMeans(n_clusters=len(centres), n_init=1)
    model.fit(
        np.tile(np.arange(len(centres), dtype=float)[:, None], centres.shape[1])
    )  # sets private attributes; nothing is learned
    model.cluster_centers_ = centres.copy()
    del model.labels_, model.inertia_
    return Pipeline([("coding", coding), ("model", model)])
