"""Scores that add up over parties: a party's coded columns times public weights.

A model is public once it is released, so its weights stand in the plan. Numbers are mapped from their bounds to [−1, 1], levels
to indicators, a missing number is 0 and a missing level no level, as everywhere. This is the public half: which scores there
are. `colonnade.party.steps.partial_scores` computes them from a table.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import coded_width
from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Parameter
from colonnade.schema import Schema
from colonnade.steps.parameters import LARGEST_NUMBER, number_list, whole_list

__all__ = ["BoundedScores", "ScoreWeights"]

LARGEST_HEIGHT = 1 << 20


class ScoreWeights:
    """Weights of one party's coded columns.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    weights
        One row per output and one weight per coded column, in the order of ``columns``, levels in schema order; row by row.
    """

    def __init__(self, columns: Sequence[str], schema: Schema, weights: Sequence[float]) -> None:
        self.columns = tuple(columns)
        self.schema = schema
        self.widths = [coded_width(schema[name]) for name in columns]
        outputs, rest = divmod(len(weights), sum(self.widths))
        if rest or not outputs:
            raise PlanMismatch("The plan has another number of weights than this party has coded columns.")
        self.weights: NDArray[np.float64] = np.array(weights, dtype=np.float64).reshape(outputs, -1)

    @property
    def outputs(self) -> int:
        """How many scores there are."""
        return len(self.weights)


class BoundedScores:
    """Partial scores as bounded integers: a few columns that stand for all of a party's, in a Gram matrix.

    Every output is divided by its largest magnitude, multiplied by its height and rounded. What a plan's magnitude leaves outside
    is clamped, so |entry| ≤ height whatever the plan says, and a row's squared length is at most the sum of squared heights: the
    row bound. A null record is coded as 0 everywhere, so its scores are 0 and it contributes nothing: the bound is one for
    zero-out. That is why scores are never centred. Checked by tests/party/test_score_statistics.py.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    parameters
        ``weights`` (see `ScoreWeights`), ``largest`` (magnitudes) and ``heights``, one per output.
    scale
        γ, the constant column's entry.
    row_bound
        What the plan says that no row exceeds; refused if it is not the sum of squared heights.
    """

    parameters: ClassVar[frozenset[str]] = frozenset({"weights", "largest", "heights"})

    def __init__(
        self,
        columns: Sequence[str],
        schema: Schema,
        parameters: Mapping[str, Parameter],
        *,
        scale: int,
        row_bound: int,
    ) -> None:
        self.scores = ScoreWeights(columns, schema, number_list(parameters, "weights"))
        self.scale = scale
        self.row_bound = row_bound
        self.largest = np.array(number_list(parameters, "largest"))
        self.heights = np.array(whole_list(parameters, "heights"), dtype=np.int64)
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
