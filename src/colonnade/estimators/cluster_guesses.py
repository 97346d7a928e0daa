"""Whose columns tell best which centre somebody is nearest to: chosen from what a clustering holds, never from data."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coordinator.protocols.clustering_metrics import LocalCells, best_guesser
from colonnade.estimation.moments import Feature

__all__ = ["Guesser", "guesser_of"]

Array = NDArray[np.float64]
Guesser = tuple[str, Array, NDArray[np.intp], float]
"""Who guesses; its points, in its coded columns; the centre that each stands for; where the loss lies between its ends."""

TYPICAL = 0.25


def guesser_of(
    centres: Array, features: Sequence[Feature], local: Mapping[str, Array] | None, weights: pd.Series | None
) -> Guesser:
    """Choose who guesses.

    Parameters
    ----------
    centres, features
        The centres in coded columns, and what these are.
    local, weights
        Each party's local centres in own units and the weights of their combinations, where the clustering has them; without,
        the party whose columns set the centres apart most guesses by its part of the centres themselves.
    """
    places = _places(features)
    if not local or weights is None:
        spread = {party: float(centres[:, some].var(axis=0).sum()) for party, some in places.items()}
        party = max(spread, key=lambda one: spread[one])
        return party, centres[:, places[party]], np.arange(len(centres), dtype=np.intp), TYPICAL
    coded = {party: _coded(own, [features[place] for place in places[party]]) for party, own in local.items()}
    levels = [weights.index.get_level_values(level) for level in range(weights.index.nlevels)]
    cells = LocalCells(coded, np.column_stack(levels).astype(np.intp), weights.to_numpy(dtype=float))
    party, guesses, within = best_guesser(cells, centres, places)
    return party, coded[party], guesses, within


def _coded(own: Array, features: Sequence[Feature]) -> Array:
    """Map numbers to [−1, 1]; an indicator stays a share."""
    scale = np.array([feature.half_width if feature.kind == "numeric" else 1.0 for feature in features])
    shift = np.array([feature.centre if feature.kind == "numeric" else 0.0 for feature in features])
    return np.asarray((own - shift) / scale)


def _places(features: Sequence[Feature]) -> dict[str, list[int]]:
    """Return where each party's coded columns stand."""
    places: dict[str, list[int]] = {}
    for place, feature in enumerate(features):
        places.setdefault(feature.column.partition(".")[0], []).append(place)
    return places
