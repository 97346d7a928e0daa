"""Frames that go into fitted models, and frames that come out of them."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import get_config

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema.features import ColumnName, id_column

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
