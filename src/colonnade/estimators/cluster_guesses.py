"""Whose columns tell best which centre somebody is nearest to: chosen from what a clustering holds, never from data."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coding.features import Feature, coded_widths, consecutive_places, to_coded_units
from colonnade.coordinator.protocols.clustering_metrics import LocalCells, best_guesser

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
    places = consecutive_places(coded_widths(features))
    if not local or weights is None:
        spread = {party: float(centres[:, some].var(axis=0).sum()) for party, some in places.items()}
        party = max(spread, key=lambda one: spread[one])
        return party, centres[:, places[party]], np.arange(len(centres), dtype=np.intp), TYPICAL
    coded = {party: to_coded_units(own, [features[place] for place in places[party]]) for party, own in local.items()}
    levels = [weights.index.get_level_values(level) for level in range(weights.index.nlevels)]
    cells = LocalCells(coded, np.column_stack(levels).astype(np.intp), weights.to_numpy(dtype=float))
    party, guesses, within = best_guesser(cells, centres, places)
    return party, coded[party], guesses, within
