"""A public model as scores that add up over parties: who multiplies what by which weights, and how large a part can get.

Weights are those of coded columns (`colonnade.coding.features`), so a record without values has the score 0 at every party, and
the largest magnitude of a party's part follows from the schema alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import centres, coded_width, consecutive_places, features_of, half_widths
from colonnade.coding.names import ColumnName, columns_at, parties_of
from colonnade.schema import Category, Column

__all__ = ["PartyScores", "coded_weights", "party_scores"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PartyScores:
    """One party's part in some scores.

    Parameters
    ----------
    party, columns
        Who, and which of its own columns.
    weights
        One row per score, one column per coded column.
    low, high
        How small and how large each part can be; 0 lies between them.
    """

    party: str
    columns: tuple[str, ...]
    weights: Array
    low: Array
    high: Array

    @property
    def largest(self) -> Array:
        """The largest magnitude of each part."""
        return np.maximum(-self.low, self.high)


def coded_weights(columns: Mapping[str, Column], coefficients: Array, intercepts: Array) -> tuple[Array, Array]:
    """Turn coefficients in own units, one row per score, into weights of coded columns, and intercepts that go with them."""
    features = features_of(columns)[1:]
    return coefficients * half_widths(features), intercepts + coefficients @ centres(features)


def party_scores(columns: Mapping[str, Column], weights: Array) -> list[PartyScores]:
    """Divide weights of coded columns, one row per score, between the parties that hold the columns."""
    places = consecutive_places({name: coded_width(column) for name, column in columns.items()})
    blocks = {name: weights[:, places[name]] for name in columns}
    return [_part(party, columns, blocks) for party in parties_of(columns)]


def _part(party: str, columns: Mapping[str, Column], weights: Mapping[str, Array]) -> PartyScores:
    own = columns_at(party, columns)
    names = [str(ColumnName(party, column)) for column in own]
    blocks = [weights[name] for name in names]
    ranges = [_range(block, columns[name]) for name, block in zip(names, blocks, strict=True)]
    low, high = (np.sum([one[side] for one in ranges], axis=0) for side in (0, 1))
    return PartyScores(party, own, np.concatenate(blocks, axis=1), low, high)


def _range(block: Array, column: Column) -> tuple[Array, Array]:
    """How little and how much one column can add; a missing value adds nothing."""
    if isinstance(column, Category):
        return np.minimum(block.min(axis=1), 0.0), np.maximum(block.max(axis=1), 0.0)
    size = np.abs(block[:, 0])
    return -size, size
