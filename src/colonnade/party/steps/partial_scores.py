"""One party's part of scores that add up over parties: its coded columns times public weights.

A model is public once it is released, so its weights stand in the plan. Numbers are mapped from their bounds to [−1, 1], levels
to indicators, a missing number is 0 and a missing level no level, as everywhere.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.coding.features import coded_width, to_unit_range
from colonnade.errors import BadInput, PlanMismatch
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Parameter
from colonnade.schema import Numeric, Schema

__all__ = ["PartialScores", "ScoreCoding", "numbers_parameter", "wholes_parameter"]

LARGEST_HEIGHT = 1 << 20
LARGEST_NUMBER = 2.0**200
"""Of weights and the like, and of what they are divided by: sums and quotients of such numbers are finite."""
Array = NDArray[np.float64]


class PartialScores:
    """Weighted sums of one party's coded columns.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    weights
        One row per output, one weight per coded column in the order of ``columns``, levels in schema order; row by row.
    """

    def __init__(self, columns: Sequence[str], schema: Schema, weights: Sequence[float]) -> None:
        self.columns = tuple(columns)
        self.schema = schema
        self.widths = [coded_width(schema[name]) for name in columns]
        outputs, rest = divmod(len(weights), sum(self.widths))
        if rest or not outputs:
            raise PlanMismatch("The plan has another number of weights than this party has coded columns.")
        self.weights: Array = np.array(weights, dtype=np.float64).reshape(outputs, -1)

    @property
    def outputs(self) -> int:
        """How many scores there are."""
        return len(self.weights)

    def all_values(self, table: PrivateTable, start: int, stop: int) -> Array:
        """Return some people's partial scores, an output along each row."""
        return self._weighted(table, start, stop, self.weights)

    def values(self, table: PrivateTable, start: int, stop: int, output: int = 0) -> Array:
        """Return some people's partial scores of one output."""
        return np.asarray(self._weighted(table, start, stop, self.weights[output : output + 1])[0])

    def _weighted(self, table: PrivateTable, start: int, stop: int, weights: Array) -> Array:
        nonprivate = np.zeros((len(weights), stop - start))
        place = 0
        for name, width in zip(self.columns, self.widths, strict=True):
            column = self.schema[name]
            some = weights[:, place : place + width]
            if isinstance(column, Numeric):
                coded = to_unit_range(table.values(name)[start:stop], column)  # within [−1, 1] before any weight
                _add_numbers(coded, np.ascontiguousarray(some[:, 0]), nonprivate)
            else:
                _add_levels(table.codes(name)[start:stop], np.ascontiguousarray(some), nonprivate)
            place += width
        return nonprivate


class ScoreCoding:
    """Partial scores as bounded integers: a few columns that stand for all of a party's, in a Gram matrix.

    Every output is divided by its largest magnitude, multiplied by its height and rounded; what a plan's magnitude leaves outside
    is clamped, so |entry| ≤ height whatever the plan says, and a row's squared length is at most the sum of squared heights: the
    row bound. A null record is coded as 0 everywhere, so its scores are 0 and it contributes nothing: the bound is one for
    zero-out. That is why scores are never centred. Checked by tests/party/test_score_statistics.py.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    scale
        γ, the constant column's entry.
    row_bound
        What the plan says that no row exceeds; refused if it is not the sum of squared heights.
    parameters
        ``weights`` (see `PartialScores`), ``largest`` (magnitudes) and ``heights``, one an output.
    """

    PARAMETERS = frozenset({"weights", "largest", "heights"})

    def __init__(
        self, columns: Sequence[str], schema: Schema, *, scale: int, row_bound: int, parameters: dict[str, Parameter]
    ) -> None:
        self.scores = PartialScores(columns, schema, numbers_parameter(parameters.get("weights")))
        self.scale = scale
        self.row_bound = row_bound
        self.largest = np.array(numbers_parameter(parameters.get("largest")))
        self.heights = np.array(wholes_parameter(parameters.get("heights")), dtype=np.int64)
        if not len(self.largest) == len(self.heights) == self.width or not np.all(self.largest >= 1 / LARGEST_NUMBER):
            raise PlanMismatch("The plan describes another number of scores than it has weights for.")
        if np.any(self.heights < 1) or np.any(self.heights > min(scale, LARGEST_HEIGHT)):
            raise BadInput("The height of a score is at least 1 and at most the scale.")
        if row_bound != int(self.heights @ self.heights):
            raise PlanMismatch("The plan's row bound is not the one that the heights of the scores give.")

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.scores.outputs

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's scores as integers, an output along each row."""
        nonprivate = self.scores.all_values(table, start, stop)
        spread = nonprivate * (self.heights / self.largest)[:, None]
        limits = self.heights[:, None].astype(np.float64)
        return np.asarray(np.clip(np.rint(spread), -limits, limits), dtype=np.int64)


def numbers_parameter(value: object) -> tuple[float, ...]:
    """Return a list of numbers of ordinary size: a product that overflows would be no number, and no clamp holds that."""
    if not isinstance(value, tuple) or any(
        type(entry) not in (float, int) or not abs(entry) <= LARGEST_NUMBER for entry in value
    ):
        raise BadInput("A step has a parameter that must be a list of numbers of ordinary size.")
    return tuple(float(entry) for entry in value)


def wholes_parameter(value: object) -> tuple[int, ...]:
    """Return a list of whole numbers."""
    if not isinstance(value, tuple) or any(type(entry) is not int for entry in value):
        raise BadInput("A step has a parameter that must be a list of whole numbers.")
    return tuple(int(entry) for entry in value)


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
