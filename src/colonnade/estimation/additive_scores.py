"""A public model as scores that add up over parties: who multiplies what by which weights, and how large a part can get.

Weights are those of coded columns (numbers mapped to [−1, 1], an indicator a level), so a record without values has the score 0
at every party, and the largest magnitude of a party's part follows from the schema alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        A row a score, a column a coded column.
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
    """Turn coefficients in own units, a row a score, into weights of coded columns, and intercepts that go with them."""
    scale, shift = [], []
    for column in columns.values():
        if isinstance(column, Category):
            scale += [1.0] * column.size
            shift += [0.0] * column.size
        else:
            scale.append(column.high / 2 - column.low / 2)
            shift.append(column.midpoint)
    return coefficients * np.array(scale), intercepts + coefficients @ np.array(shift)


def party_scores(columns: Mapping[str, Column], weights: Array) -> list[PartyScores]:
    """Divide weights of coded columns, a row a score, between the parties that hold the columns."""
    parties: dict[str, list[str]] = {}
    for name in columns:
        parties.setdefault(name.partition(".")[0], []).append(name)
    places = _places(columns)
    return [_part(party, names, columns, weights, places) for party, names in parties.items()]


def _part(
    party: str, names: Sequence[str], columns: Mapping[str, Column], weights: Array, places: Mapping[str, slice]
) -> PartyScores:
    blocks = [weights[:, places[name]] for name in names]
    ranges = [_range(block, columns[name]) for name, block in zip(names, blocks, strict=True)]
    own = tuple(name.partition(".")[2] for name in names)
    low, high = (np.sum([one[side] for one in ranges], axis=0) for side in (0, 1))
    return PartyScores(party, own, np.concatenate(blocks, axis=1), low, high)


def _range(block: Array, column: Column) -> tuple[Array, Array]:
    """How little and how much one column can add; a missing value adds nothing."""
    if isinstance(column, Category):
        return np.minimum(block.min(axis=1), 0.0), np.maximum(block.max(axis=1), 0.0)
    size = np.abs(block[:, 0])
    return -size, size


def _places(columns: Mapping[str, Column]) -> dict[str, slice]:
    places, start = {}, 0
    for name, column in columns.items():
        width = column.size if isinstance(column, Category) else 1
        places[name] = slice(start, start + width)
        start += width
    return places
