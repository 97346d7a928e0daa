"""What the terms of many kinds have in common: parameters, coded columns as bounded integers, scores under public weights.

What is missing, unknown or of another type is refused before any data is read.

Coded columns are what `colonnade.schema.features` maps to [−1, 1], times γ and rounded. Rounding to the nearest integer
keeps |entry| ≤ γ because γ is an integer. A category adds γ² to a row's squared length however many levels it has. So a row
of b columns has squared length at most bγ² by construction, and nothing needs clipping unless the plan allows less. A
missing number is the midpoint, which is coded as 0. A missing category is 0 in every indicator. A model is public once it
is released, so the weights of scores stand in the plan. These are public facts: `colonnade.party.steps.row_coding` makes
the integers from a table.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, SchemaMismatch
from colonnade.plan import Parameter, Step
from colonnade.schema import Schema

LARGEST_NUMBER = 2.0**200
"""The largest weight, and the largest divisor. Sums and quotients of such numbers are finite."""

LARGEST_WHOLE = 2**62 - 1


def only_parameters(step: Step, allowed: frozenset[str]) -> dict[str, Parameter]:
    """Return a step's parameters. An unknown one could mean less noise, so it is refused."""
    if not set(step.parameters) <= allowed:
        raise BadInput("A step has a parameter that its kind does not know.")
    return step.parameters


def whole_parameter(
    parameters: Mapping[str, Parameter], name: str, largest: int = LARGEST_WHOLE, *, least: int = 1
) -> int:
    """Return a whole number within bounds."""
    value = parameters.get(name)
    if type(value) is not int or not least <= value <= largest:
        raise BadInput(f"A step's {name} must be a whole number between {least} and {largest}.")
    return value


def number_parameter(parameters: Mapping[str, Parameter], name: str) -> float:
    """Return a number of ordinary size."""
    return _number(parameters.get(name), name)


def number_list(parameters: Mapping[str, Parameter], name: str) -> tuple[float, ...]:
    """Return a list of numbers of ordinary size. A product that overflows is not a number, and no clamp holds that."""
    values = parameters.get(name)
    if not isinstance(values, tuple):
        raise BadInput(f"A step's {name} must be a list of numbers.")
    return tuple(_number(value, name) for value in values)


def whole_list(parameters: Mapping[str, Parameter], name: str) -> tuple[int, ...]:
    """Return a list of whole numbers."""
    values = parameters.get(name)
    if not isinstance(values, tuple) or any(type(value) is not int for value in values):
        raise BadInput(f"A step's {name} must be a list of whole numbers.")
    return tuple(int(value) for value in values)


def word_list(parameters: Mapping[str, Parameter], name: str) -> tuple[str, ...]:
    """Return a list of names; an absent one is empty."""
    values = parameters.get(name, ())
    if not isinstance(values, tuple) or any(not isinstance(value, str) for value in values):
        raise BadInput(f"A step's {name} must be a list of names.")
    return tuple(str(value) for value in values)


def seed_parameter(parameters: Mapping[str, Parameter], name: str = "seed", default: str = "") -> bytes:
    """Return 32 public bytes from their hexadecimal form."""
    try:
        seed = bytes.fromhex(str(parameters.get(name, default)))
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise BadInput(f"A step's {name} must be 32 bytes in hexadecimal.")
    return seed


def _number(value: object, name: str) -> float:
    if type(value) not in (float, int) or not abs(value) <= LARGEST_NUMBER:  # type: ignore[arg-type]  # a number by now
        raise BadInput(f"A step's {name} must be a number of ordinary size.")
    return float(value)  # type: ignore[arg-type]  # likewise


LARGEST_SCALE = 1 << 20
"""The largest γ of a fixed point."""
LARGEST_SHORT_SCALE = 2**15 - 1
"""The largest γ where a party keeps its rows in two bytes per number."""


def valid_scale(scale: object, largest: int = LARGEST_SCALE, *, example: str = "scale=4096") -> int:
    """Return γ; refuse what is no whole number within bounds."""
    if type(scale) is not int or not 1 <= scale <= largest:
        raise BadInput(f"scale is a whole number between 1 and {largest:,}.", remedy=f"For example {example}.")
    return scale


class FixedPoint:
    """How one party's columns become integers.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    scale
        γ.
    signed
        Categories of two levels coded as one column: −γ, γ, or 0 if missing.
    row_bound
        The squared length that no row may exceed. Rows are scaled down and truncated towards zero where it is below bγ².
    """

    def __init__(
        self, columns: Sequence[str], schema: Schema, *, scale: int, signed: Sequence[str] = (), row_bound: int
    ) -> None:
        if type(row_bound) is not int or row_bound < 1:
            raise BadInput("row_bound is a positive whole number.")
        if not set(signed) <= set(columns) or len(set(columns)) != len(columns):
            raise BadInput(
                "A column is named twice, or signed and not asked for.",
                remedy="Name each column once, and in signed= only columns that are asked for.",
            )
        self.columns = tuple(columns)
        self.schema = schema
        self.scale = valid_scale(scale)
        self.signed = frozenset(signed)
        self.widths = [self._width(name) for name in columns]
        self.row_bound = row_bound
        self.clips = row_bound < scale**2 * len(columns)

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return sum(self.widths)

    def _width(self, name: str) -> int:
        column = self.schema[name]
        if name not in self.signed:
            return column.width
        if not column.is_number and column.size != 2:
            raise SchemaMismatch(
                f"Column {name!r} has more than two levels and cannot be coded as a sign.",
                remedy="Leave it out of signed=: it is then coded by its levels.",
            )
        if column.is_number:
            raise SchemaMismatch(
                f"Column {name!r} is numeric and cannot be coded as a sign.",
                remedy="Leave it out of signed=: numbers need no sign.",
            )
        return 1


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
        self.widths = [schema[name].width for name in columns]
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
        if np.any(self.heights < 1) or np.any(self.heights > valid_scale(scale)):
            raise BadInput("The height of a score is at least 1 and at most the scale.")
        if row_bound != int(self.heights @ self.heights):
            raise PlanMismatch("The plan's row bound is not the one that the heights of the scores give.")

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.scores.outputs
