"""Frames that go into fitted models, and frames that come out of them.

Fitted models outside a federation: frames in coded columns, and models as plain scikit-learn pipelines.

A pipeline has the same coding of columns (`colonnade.schema.pipelines`), then the same model, and none of our classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import cluster, decomposition, get_config, linear_model
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema import Column, ColumnName, Feature, coded_block, id_column, stored_names
from colonnade.schema.encoders import encoded
from colonnade.schema.pipelines import coding_steps

OUTPUT = "_sklearn_output_config"
"""The attribute in which scikit-learn keeps what `set_output` was told; its ``clone`` copies it."""
CONTAINERS = ("default", "pandas", "polars")


def named(
    frames: Mapping[str, pd.DataFrame] | None = None,
    /,
    *,
    id: str | Mapping[str, str] | None = None,  # noqa: A002  # as in `Federation.simulate`
    **parties: pd.DataFrame,
) -> pd.DataFrame:
    """Return one frame with columns named ``"party.column"``, as ``predict`` and ``transform`` take them.

    For somebody who legitimately holds the tables of several parties. It needs no federation and spends nothing.

    Parameters
    ----------
    frames
        Frames by party, where keywords will not do (a party called ``id``).
    id
        The id column, or one name per party. People in every frame are kept, under their id. Without it the frames have
        the same rows in the same order.
    parties
        Frames by party: ``bank=bank_frame, telco=telco_frame``.

    Examples
    --------
    >>> bank = pd.DataFrame({"person_id": [1, 2], "age": [31, 64]})
    >>> telco = pd.DataFrame({"msisdn": [2, 1], "minutes": [90, 12]})
    >>> named(bank=bank, telco=telco, id={"bank": "person_id", "telco": "msisdn"}).loc[2].to_dict()
    {'bank.age': 64, 'telco.minutes': 90}
    """
    tables = {**(frames or {}), **parties}
    if not tables:
        raise BadInput(
            "named takes one frame per party.", remedy="For example cn.named(bank=bank_frame, telco=telco_frame)."
        )
    for party, table in tables.items():
        if not isinstance(table, pd.DataFrame):
            raise BadInput(
                f"named takes pandas frames, and {party!r} is a {type(table).__name__}.",
                remedy=f"Convert it first, for example {party}=table.to_pandas().",
            )
    if id is None:
        _require_same_rows(tables)
        keyed = tables
    else:
        keyed = {party: _by_id(party, table, id_column(id, party)) for party, table in tables.items()}
    parts = [table.add_prefix(str(ColumnName(party, ""))) for party, table in keyed.items()]
    return pd.concat(parts, axis=1, join="inner").rename_axis(id if isinstance(id, str) else None)


def _by_id(party: str, table: pd.DataFrame, column: str) -> pd.DataFrame:
    if column not in table.columns:
        raise SchemaMismatch(
            f"The frame of {party!r} has no id column {column!r}.",
            remedy="Name the column that holds its ids with id=, or one per party: id={'bank': 'person_id', …}.",
        )
    keyed = table.set_index(column)
    if not keyed.index.is_unique:
        raise BadInput(
            f"The frame of {party!r} has several rows with the same id in {column!r}.",
            remedy="Keep one row per person, for example frame.drop_duplicates(...).",
        )
    return keyed


def _require_same_rows(tables: Mapping[str, pd.DataFrame]) -> None:
    first, *others = tables
    for party in others:
        if not tables[party].index.equals(tables[first].index):
            raise BadInput(
                f"The frames of {first!r} and {party!r} have different rows.",
                remedy="Say how they belong together with id=, or give both the same index.",
            )


class GivesScores:
    """A mixin of estimators whose ``transform`` gives scores: in which container they come, as in scikit-learn."""

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the scores that ``transform`` gives."""
        raise NotImplementedError

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Choose what ``transform`` returns for a frame.

        Parameters
        ----------
        transform
            ``"default"``: an array. ``"pandas"`` or ``"polars"``: a frame with the names of the scores, and for pandas with the
            index of the rows. ``None`` leaves the choice as it is.

        Returns
        -------
        self
        """
        if transform is not None:
            _require_container(transform)
            setattr(self, OUTPUT, {"transform": transform})
        return self

    def _as_output(self, scores: NDArray[np.float64], rows: pd.DataFrame) -> Any:
        """Return scores in the container that was chosen, here or for all of scikit-learn (``sklearn.set_config``)."""
        container = getattr(self, OUTPUT, {}).get("transform") or get_config().get("transform_output", "default")
        if container == "default":
            return scores
        names = list(self.get_feature_names_out())
        if container == "pandas":
            return pd.DataFrame(scores, columns=names, index=rows.index)
        import polars as pl

        return pl.DataFrame(scores, schema=names)


def _require_container(container: object) -> None:
    if container not in CONTAINERS:
        raise BadInput(
            "transform must be 'default', 'pandas' or 'polars'.", remedy='For example set_output(transform="pandas").'
        )


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
