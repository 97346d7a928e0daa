"""Some people's rows as integers: `coded_rows` returns coded columns, and `bounded_scores` scores under public weights.

`colonnade.steps.kind` says which integers there are. `whole_numbers` makes them, for local and for shared steps, and nothing
else does: every sensitivity rests on a bound on one person's integers, so nothing else in `colonnade.party.steps` or
`colonnade.papers.private` rounds a number, or casts one to an integer (tests/party/test_integer_bounds.py). A number that is not
finite is no integer at all. It never passes as one: the step fails, and says no more than any step that fails on rows
(`colonnade.party.refusals.STOPPED`). It
cannot happen while coding is total (`colonnade.schema`).
"""

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import SchemaMismatch
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema.features import to_unit_range
from colonnade.steps.kind import BoundedScores, FixedPoint, ScoreWeights


def whole_numbers(
    numbers: NDArray[np.float64],
    largest: int,
    *,
    least: int | None = None,
    middle: float = 0.0,
    half: float = 1.0,
    scale: float = 1.0,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return the integers next to ``(numbers − middle) / half · scale``, clamped to the bounds of one person; one pass.

    Parameters
    ----------
    numbers
        A vector.
    largest, least
        The bounds: exact integers of at most 62 bits. By default ``least`` is −``largest``.
    middle, half, scale
        How a number is coded before it is rounded.
    out
        Where the integers go, in any integer type that holds the bounds; by default a new vector of eight bytes each.

    Examples
    --------
    >>> whole_numbers(np.array([0.0, 60.0, 75.0, 1e308]), 4, middle=60.0, half=60.0, scale=4)
    array([-4,  0,  1,  4])
    """
    made = np.empty(len(numbers), dtype=np.int64) if out is None else out
    low, high = -_below(largest if least is None else -least), _below(largest)
    if not _made(numbers, middle, half, float(scale), low, high, made):
        raise _outside()
    return made


def _below(bound: int) -> float:
    """Return the bound as a float, or the float below it: beyond 2⁵³ not every integer is one."""
    found = float(bound)
    return found if found <= bound else math.nextafter(found, -math.inf)


def require_within(integers: NDArray[Any], largest: int) -> None:
    """Refuse integers beyond a bound: after this nothing can fail on a row."""
    if integers.size and max(-int(integers.min()), int(integers.max())) > largest:
        raise _outside()


def _outside() -> SchemaMismatch:
    return SchemaMismatch(
        "A row is not made of integers within the bound of its step.",
        remedy="This is a fault of colonnade, and of no table: report it.",
    )


@njit(cache=True, nogil=True, error_model="numpy")  # dividing by zero gives no number, and is refused as such
def _made(numbers: Any, middle: float, half: float, scale: float, low: float, high: float, out: Any) -> bool:
    """Round and clamp; return whether all were finite. What is no number is not above the lower bound, and becomes that."""
    finite = True
    for i in range(len(numbers)):
        coded = np.rint((numbers[i] - middle) / half * scale)
        finite &= abs(coded) < np.inf
        coded = coded if coded > low else low  # noqa: FURB136  # of no number, `max` might return no number
        coded = coded if coded < high else high  # noqa: FURB136
        out[i] = np.int64(coded)
    return finite


def coded_rows(coding: FixedPoint, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's rows as integers, a column of the table along each row of the result."""
    nonprivate = np.empty((coding.width, stop - start), dtype=np.int64)
    position = 0
    for name, width in zip(coding.columns, coding.widths, strict=True):
        column = coding.schema[name]
        if column.is_number:
            whole_numbers(
                table.values(name, start, stop),
                coding.scale,
                middle=column.midpoint,
                half=column.half_range,
                scale=coding.scale,
                out=nonprivate[position],
            )
        else:
            nonprivate[position : position + width] = 0
            code = _code_signs if name in coding.signed else _code_levels
            code(table.codes(name, start, stop), coding.scale, nonprivate, position)
        position += width
    if coding.clips:
        _clip_rows(nonprivate, coding.row_bound)
    return nonprivate


@njit(cache=True, nogil=True)
def _code_levels(codes: Any, scale: int, out: Any, column: int) -> None:
    for i in range(len(codes)):
        if codes[i] >= 0:
            out[column + codes[i], i] = scale


@njit(cache=True, nogil=True)
def _code_signs(codes: Any, scale: int, out: Any, column: int) -> None:
    for i in range(len(codes)):
        if codes[i] >= 0:
            out[column, i] = scale if codes[i] == 1 else -scale


@njit(cache=True, nogil=True)
def _clip_rows(columns: Any, row_bound: int) -> None:
    """Shorten rows that are too long by scaling and truncating towards zero, until the integers themselves keep the bound."""
    for i in range(columns.shape[1]):
        length = _squared_length(columns, i)
        while length > row_bound:
            shrink = np.sqrt(row_bound / length)
            for j in range(columns.shape[0]):
                columns[j, i] = np.int64(columns[j, i] * shrink)
            shorter = _squared_length(columns, i)
            if (
                shorter == length
            ):  # scaling by a hair less than one may truncate nothing; take one off the largest entry
                _shorten_largest(columns, i)
                shorter = _squared_length(columns, i)
            length = shorter


@njit(cache=True, nogil=True)
def _squared_length(columns: Any, row: int) -> int:
    length = 0
    for j in range(columns.shape[0]):
        length += columns[j, row] * columns[j, row]
    return length


@njit(cache=True, nogil=True)
def _shorten_largest(columns: Any, row: int) -> None:
    largest = 0
    for j in range(columns.shape[0]):
        if abs(columns[j, row]) > abs(columns[largest, row]):
            largest = j
    columns[largest, row] -= np.sign(columns[largest, row])


Floats = NDArray[np.float64]


def partial_scores(
    scores: ScoreWeights, table: PrivateTable, start: int, stop: int, output: int | None = None
) -> Floats:
    """Return some people's partial scores: of one output, or of all with an output along each row."""
    weights = scores.weights if output is None else scores.weights[output : output + 1]
    nonprivate = np.zeros((len(weights), stop - start))
    place = 0
    for name, width in zip(scores.columns, scores.widths, strict=True):
        column = scores.schema[name]
        some = weights[:, place : place + width]
        if column.is_number:
            coded = to_unit_range(table.values(name, start, stop), column)  # within [−1, 1] before any weight
            _add_numbers(coded, np.ascontiguousarray(some[:, 0]), nonprivate)
        else:
            _add_levels(table.codes(name, start, stop), np.ascontiguousarray(some), nonprivate)
        place += width
    return nonprivate if output is None else np.asarray(nonprivate[0])


def bounded_scores(coding: BoundedScores, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's scores as integers, an output along each row."""
    nonprivate = partial_scores(coding.scores, table, start, stop)
    whole = np.empty(nonprivate.shape, dtype=np.int64)
    for scores, height, scale, out in zip(
        nonprivate, coding.heights.tolist(), coding.heights / coding.largest, whole, strict=True
    ):
        whole_numbers(scores, height, scale=scale, out=out)
    return whole


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
