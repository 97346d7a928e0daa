"""A step at a data party: what it computes from the table, what the gate needs of it, its part in openings and sums.

*Private halves.* A private half is a subclass of its kind (`colonnade.steps`) that can also compute from the table. It is
constructed from public facts only, and only the methods that take a table touch data.

*Rows as integers.* `coded_rows` returns coded columns and `bounded_scores` scores under public weights.
`colonnade.steps.kind` says which integers there are.

*Parts.* `JointPart` pays before the first share leaves. `SumPart` records the step by name before the first masked value
leaves.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import PolicyRefusal, ProtocolError
from colonnade.party.steps.integers import require_within, whole_numbers
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism, Sampler
from colonnade.protocol.messages import Array, pack, unpack
from colonnade.schema import Schema
from colonnade.schema.features import to_unit_range
from colonnade.secure.residues import Elements
from colonnade.secure.shamir import Dealing
from colonnade.steps.kind import BoundedScores, FixedPoint, Joint, JointStep, ScoreWeights

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep
    from colonnade.party.handles import Reservation


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


Arrays = Mapping[str, NDArray[Any]]


@runtime_checkable
class Local(Protocol):
    """A statistic of one party's own, which a law perturbs."""

    schema: Schema

    def law(self, price: Price) -> Mechanism:
        """Return the noise that this price buys."""

    def compute(self, table: PrivateTable) -> Any:
        """Return the exact statistic, as its law takes it. It is ``nonprivate`` until the law has released it."""


@runtime_checkable
class Disclosed(Protocol):
    """A statistic without a law: it leaves as it is, where the party's policy allows that by name."""

    title: ClassVar[str]
    schema: Schema

    def accept(self, inputs: Arrays) -> object:
        """Check the coordinator's public inputs, and what the step rests on, before any row is read."""

    def disclose(self, table: PrivateTable) -> Arrays:
        """Return exact values. They follow from the data and from what was accepted."""


@runtime_checkable
class Joined(Protocol):
    """A step that members work out in conversation."""

    def join(self, admitted: "AdmittedStep") -> object:
        """Return what this party brings to the conversation."""


@runtime_checkable
class Prepared(Protocol):
    """A step that can fail on the table, and is asked to before anything is paid."""

    def prepare(self, table: PrivateTable) -> None:
        """Read what will be needed."""


@runtime_checkable
class RestsOnEarlier(Protocol):
    """A step that uses what this party has kept of earlier steps of its plan."""

    def require_earlier(self) -> None:
        """Refuse if it was not kept. No row is read, so the refusal may be said."""


class JointHalf(Protocol):
    """A statistic that several parties open together."""

    @property
    def joint(self) -> Joint:
        """The terms of the opening."""

    @property
    def loss(self) -> Loss:
        """What this party's ledger is debited."""

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's share of the noise, one number for each entry between two parties."""

    def noise_in_tiles(self, sizes: Sequence[int], sampler: Sampler) -> Iterator[NDArray[np.int64]]:
        """Yield that noise tile by tile."""

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows, a column of the table along each row of the result."""

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64] | None:
        """Return the part of the release that concerns this party alone, noised by it alone."""


def require_earlier(half: object) -> None:
    """Refuse a step whose earlier steps were not released."""
    if isinstance(half, RestsOnEarlier):
        half.require_earlier()


def prepare(half: object, table: PrivateTable) -> None:
    """Read what a step needs. A step that cannot be answered fails here, before anything is paid."""
    if isinstance(half, Prepared):
        half.prepare(table)


class OpensJointly(JointStep):
    """The private half of a kind that is opened jointly; what most of them have in common."""

    def join(self, admitted: "AdmittedStep") -> "JointPart":
        """Return this party's part."""
        return JointPart(admitted)

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's share of the noise, one number for each entry between two parties."""
        return self.joint.noise.draw_share(entries, sampler)  # a kind whose entries differ overrides this

    def noise_in_tiles(self, sizes: Sequence[int], sampler: Sampler) -> Iterator[NDArray[np.int64]]:
        """Yield that noise tile by tile; a kind that has more than one tile says how."""
        (entries,) = sizes
        yield self.cross_noise(entries, sampler)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64] | None:  # noqa: ARG002
        """Return nothing: no part of the release concerns this party alone."""
        return None


_NOTHING: Elements = np.empty((0, 0), dtype=np.uint64)


class DealtRows:
    """A function of some people's rows that returns shares of them. Nothing else of the rows leaves it.

    Parameters
    ----------
    half
        The step, which codes rows as integers.
    dealing
        How they are dealt. Its seed is of one party's table in one run of one step.
    chunks
        All ranges of people; a chunk's number is its place among them, from 1.
    """

    def __init__(self, half: JointHalf, dealing: Dealing, chunks: Sequence[tuple[int, int]]) -> None:
        self._half = half
        self._dealing = dealing
        self._numbers = {start: number for number, (start, _) in enumerate(chunks, start=1)}
        self._seeded = frozenset(dealing.seeds)
        self._memory = np.empty((dealing.nodes, 0, 0), dtype=np.uint64)

    def __call__(self, table: PrivateTable, start: int, stop: int) -> tuple[Elements, ...]:
        """Code and deal. The shares are valid until the next call: fresh memory costs more than the arithmetic.

        A share that travels as a seed is left out.
        """
        rows = self._half.rows(table, start, stop)
        require_within(rows, self._half.joint.largest)
        if self._memory.shape[1:] != rows.shape:
            self._memory = np.empty((len(self._memory), *rows.shape), dtype=np.uint64)
        shares = self._dealing.shares(self._numbers[start], rows.T, self._memory)
        return tuple(_NOTHING if point in self._seeded else share for point, share in enumerate(shares, start=1))


class JointPart:
    """A data party's part in a run.

    Parameters
    ----------
    admitted
        The step.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted
        self._half = cast("JointHalf", admitted.half)
        self._reservation: Reservation | None = None
        self._noise: Iterator[tuple[int, NDArray[np.int64]]] = iter(())
        self._own: NDArray[np.int64] | None = None

    def begin(self) -> bytes:
        """Pay, durably, and return the seed of this party's shares."""
        self._admitted.refuse_if_concluded()
        self._admitted.prepare()
        self._reservation = self._admitted.reserve()
        sizes = [tile.entries for tile in self._half.joint.tiles]
        self._noise = enumerate(self._half.noise_in_tiles(sizes, self._reservation.noise("cross")))
        return self._reservation.secret()

    def deal(self, dealing: Dealing, chunks: Sequence[tuple[int, int]]) -> Iterator[tuple[Elements, ...]]:
        """Yield the shares of one chunk of rows after another, the first at position 1; valid until the next one."""
        return self._admitted.each(DealtRows(self._half, dealing, chunks), chunks)

    def noise(self, tile: int = 0) -> NDArray[np.int64]:
        """Return this party's share of the noise of a tile; of those before, what is left is drawn too and dropped."""
        return next(drawn for number, drawn in self._noise if number == tile)

    def own(self, tile: int = 0) -> NDArray[np.int64] | None:
        """Return as much of this party's own part, noised by it alone, as goes with a tile."""
        assert self._reservation is not None  # the run begins first
        if self._own is None:
            self._own = self._admitted.compute(self._half.own, self._reservation.noise("own"))
        return None if self._own is None else self._own[self._half.joint.tiles[tile].own]


class SumHalf(Protocol):
    """What a secure sum needs to know of a step."""

    def accept(self, inputs: Arrays) -> Arrays:
        """Check the coordinator's public inputs and return what of them is fixed for good."""

    @property
    def length(self) -> int:
        """How many values there are, once the inputs are accepted."""

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector."""


def require_no_price(admitted: "AdmittedStep") -> None:
    """Refuse a price for exact values."""
    if admitted.step.price is not None:
        raise PolicyRefusal("A sum without noise has no price; it is allowed by name or not at all.")


class SumPart:
    """A data party's part in a secure sum without noise.

    What the sum is over is kept in the ledger as the step's answer, in the row that records the release. A later run of the step
    is over the same, or it is refused: a plan opens one sum.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        require_no_price(admitted)
        self._admitted = admitted
        self._half = cast("SumHalf", admitted.half)

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Fix what the sum is over, record it, and return how long the vectors are."""
        fixed = self._half.accept({name: unpack(array) for name, array in inputs.items()})
        self._admitted.disclose({name: pack(value) for name, value in fixed.items()})
        self._admitted.prepare()
        return self._half.length

    def values(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector; it leaves under masks only."""
        return self._admitted.compute(self._half.summand, start, stop)

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:  # noqa: ARG002
        """Refuse a stretch of the sum: it is opened to the coordinator."""
        raise ProtocolError("This sum is not opened to a party.")
