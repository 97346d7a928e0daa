"""One party's part of scores that add up over parties, computed from its table (`colonnade.steps.scores`)."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.coding.features import to_unit_range
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Numeric
from colonnade.steps.scores import BoundedScores, ScoreWeights

__all__ = ["bounded_scores", "partial_scores"]

Array = NDArray[np.float64]


def partial_scores(
    scores: ScoreWeights, table: PrivateTable, start: int, stop: int, output: int | None = None
) -> Array:
    """Return some people's partial scores: of one output, or of all with an output along each row."""
    weights = scores.weights if output is None else scores.weights[output : output + 1]
    nonprivate = np.zeros((len(weights), stop - start))
    place = 0
    for name, width in zip(scores.columns, scores.widths, strict=True):
        column = scores.schema[name]
        some = weights[:, place : place + width]
        if isinstance(column, Numeric):
            coded = to_unit_range(table.values(name)[start:stop], column)  # within [−1, 1] before any weight
            _add_numbers(coded, np.ascontiguousarray(some[:, 0]), nonprivate)
        else:
            _add_levels(table.codes(name)[start:stop], np.ascontiguousarray(some), nonprivate)
        place += width
    return nonprivate if output is None else np.asarray(nonprivate[0])


def bounded_scores(coding: BoundedScores, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's scores as integers, an output along each row."""
    nonprivate = partial_scores(coding.scores, table, start, stop)
    spread = nonprivate * (coding.heights / coding.largest)[:, None]
    limits = coding.heights[:, None].astype(np.float64)
    return np.asarray(np.clip(np.rint(spread), -limits, limits), dtype=np.int64)


@njit(cache=True, nogil=True)
def _add_numbers(coded: Any, weights: Any, out: Any) -> None:
    for output in range(len(weights)):
        weight = weights[output]
        for i in range(len(coded)):
            out[output, i] += weight * coded[i]


@njit(cache=True, nogil=True)
def _add_levels(codes: Any, weights: Any, out: Any) -> None:
    for output in range(len(weights)):
        for i in range(len(codes)):
            if codes[i] >= 0:
                out[output, i] += weights[output, codes[i]]
