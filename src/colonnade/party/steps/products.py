"""One party's rows in products on shares and in sums: Gram matrices, Newton steps, tables, scores, predictions.

*Products* of one party's own columns (`folded_products`) are exact, and no library that starts threads of its own takes part.
Several parties multiply at the same time where they share a machine, and a threaded BLAS then spends its time on waiting for
itself.

*Newton steps* (`NewtonPart`). A party pays for all rounds at once, then shares one after another. A round is at one vector of
weights. Its noise follows from the seed that the ledger keeps. The same noise at other weights
would show the difference: a round that was begun is only ever run again at the same ones (`RunRecords`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.party.steps.local import category_codes, prepare_category, require_centres
from colonnade.party.steps.participants import Arrays, JointPart, PrivateJoint, PrivateStep, SumPart
from colonnade.party.table.private_table import (
    PrivateTable,
    among_rows,
    bounded_scores,
    coded_rows,
    partial_scores,
    require_within,
    whole_numbers,
)
from colonnade.party.table.sources import BLOCK
from colonnade.privacy.laws import Sampler
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.protocol.messages import Array
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.steps.describing import GroupChain, GroupSums, GroupTotals
from colonnade.steps.kind import FixedPoint
from colonnade.steps.newton import LabelledSteps, NewtonSteps
from colonnade.steps.products import (
    NOBODY,
    Coefficients,
    Gram,
    Level,
    NearestPoint,
    PairTables,
    ScoreHistogram,
    UnionCross,
    UnionOwn,
)
from colonnade.steps.sums import Predictions

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep, Reservation


BLOCK_ROWS = 512
"""Rows multiplied in float64 at a time. With entries up to 2²⁰ a sum stays below 2⁴⁹, so that no order of adding rounds."""


CACHED_ROWS = 8_192
"""Rows coded at a time: few enough to stay in the processor's cache until they are multiplied."""


def folded_products(
    table: PrivateTable,
    rows: Callable[[PrivateTable, int, int], NDArray[np.int64]],
    width: int,
    constant: int,
    block: int = BLOCK,
) -> NDArray[np.int64]:
    """Return all products of one party's columns, a constant one in front: the upper triangle, row by row (`triangle_places`).

    Parameters
    ----------
    table
        The rows.
    rows
        Returns some people's integers, a column along each row.
    width
        How many columns there are.
    constant
        The entries of the constant column.
    block
        How many people are folded at a time.
    """
    gram = np.zeros((width + 1) * (width + 2) // 2, dtype=np.int64)
    return table.fold(gram, partial(_add_block, rows, constant), block)


def triangle_places(first: NDArray[np.int64], second: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return where pairs of columns stand in the upper triangle of a square of this size."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.asarray(low * size - low * (low - 1) // 2 + high - low)


def _add_block(
    rows: Callable[[PrivateTable, int, int], NDArray[np.int64]],
    constant: int,
    gram: NDArray[np.int64],
    table: PrivateTable,
    start: int,
    stop: int,
) -> None:
    for first in range(start, stop, CACHED_ROWS):
        columns = rows(table, first, min(first + CACHED_ROWS, stop))
        plane = np.empty((len(columns) + 1, min(BLOCK_ROWS, columns.shape[1])))
        _add_products(columns, float(constant), plane, gram)


@njit(cache=True, nogil=True)
def _add_products(columns: Any, constant: float, plane: Any, gram: Any) -> None:
    plane[0] = constant
    for start in range(0, columns.shape[1], plane.shape[1]):
        count = min(plane.shape[1], columns.shape[1] - start)
        for i in range(columns.shape[0]):
            plane[i + 1, :count] = columns[i, start : start + count]
        place = 0
        for i in range(len(plane)):
            for j in range(i, len(plane)):
                gram[place] += np.int64(_dot(plane[i, :count], plane[j, :count]))
                place += 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(one: Any, other: Any) -> float:
    total = 0.0
    for k in range(len(one)):
        total += one[k] * other[k]
    return total


class PrivateGram(PrivateJoint[Gram]):
    """One party's columns of a Gram matrix."""

    kinds = (Gram,)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return coded rows."""
        if isinstance(self.step.coding, FixedPoint):
            return coded_rows(self.step.coding, table, start, stop)
        return bounded_scores(self.step.coding, table, start, stop)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's own block with its column sums in front: variance V on the diagonal, V/2 elsewhere."""
        nonprivate = folded_products(table, self.rows, self.step.width, self.step.coding.scale)
        nonprivate += self.step.joint_law.draw_own(self.step.width + 1, sampler)
        return nonprivate[1:]

    def noise_in_tiles(self, sizes: Sequence[int], sampler: Sampler) -> Iterator[NDArray[np.int64]]:
        """Yield this party's share of the noise tile by tile."""
        if len(sizes) == 1:
            return super().noise_in_tiles(sizes, sampler)
        return self.step.joint_law.draw_tiles(sizes, sampler)


class PrivateCoefficients(PrivateJoint[Coefficients]):
    """One party's columns in the objective of a regression.

    In Functional mechanism across parties (Algorithm 1) a party decrypts the exact coefficient between itself and another and
    then adds noise: it knows both. Here every party's share of the noise enters the computation before anything is opened,
    and nobody sees a coefficient without it (docs/proofs/coefficients.md#noise-before-opening).
    """

    kinds = (Coefficients,)

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return a Pólya share of Laplace noise per entry, of the scale that its block and its kind have."""
        return self.step.joint_law.draw_cross(entries, sampler, self.step.cross.groups)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return coded rows."""
        return coded_rows(self.step.coding, table, start, stop)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's own coefficients, noised by it alone."""
        nonprivate = folded_products(table, self.rows, self.step.width, self.step.coding.scale)
        chosen = nonprivate[triangle_places(self.step.entries.rows, self.step.entries.columns, self.step.width + 1)]
        return chosen + self.step.joint_law.draw_own(self.step.party, self.step.entries.slope, sampler)


class PrivateUnionCross(PrivateJoint[UnionCross]):
    """One party's columns and its indicator on a union of lists."""

    kinds = (UnionCross,)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return the indicator, of height γ, and coded rows."""
        held = table.held(start, stop).astype(np.int64) * self.step.coding.scale
        return np.vstack([held[None, :], coded_rows(self.step.coding, table, start, stop)])


class PrivateUnionOwn(PrivateJoint[UnionOwn]):
    """One party's own products on a union of lists, or the indicator that they are multiplied by."""

    kinds = (UnionOwn,)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return products of coded columns, or the indicator."""
        if self.step.joint_law.part != self.step.party:
            return table.held(start, stop)[None].astype(np.int64)
        coded = coded_rows(self.step.coding, table, start, stop)
        first, second = np.triu_indices(len(coded))
        return coded[first] * coded[second]


class PrivatePairTables(PrivateJoint[PairTables]):
    """Indicators of one party's category."""

    kinds = (PairTables,)

    def require_earlier(self) -> None:
        """Require the centres that memberships rest on."""
        require_centres(self.step.category)

    def prepare(self, table: PrivateTable) -> None:
        """Read who has a record, before anything is paid."""
        prepare_category(self.step.category, table)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return indicators of the joint category."""
        some = category_codes(self.step.category, table, start, stop)
        rows = np.zeros((self.step.width, len(some)), dtype=np.int64)
        present = np.flatnonzero(some >= 0)
        rows[some[present], present] = 1
        return rows


class PrivateScoreHistogram(PrivateJoint[ScoreHistogram]):
    """Everybody's part of a score in whole steps, and the label where this party holds it."""

    kinds = (ScoreHistogram,)

    received: NDArray[np.uint16] | None = None
    _stream: KeyedRandomness | None = None
    _drawn = 0

    def join(self, admitted: "AdmittedStep") -> "ScorePart":
        """Return this party's part."""
        return ScorePart(admitted)

    def prepare(self, table: PrivateTable) -> None:
        """Read who has a record, before anything is paid."""
        table.load_present(self.step.columns)

    def numbers(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's parts in steps, −1 for a person without a record here."""
        nonprivate = np.zeros(stop - start, dtype=np.int64)
        if self.step.scores is not None:
            above = (partial_scores(self.step.scores, table, start, stop, 0) - self.step.low) / self.step.bin_width
            counted = np.floor(above + self._coins(start, stop))
            nonprivate = whole_numbers(counted, self.step.parts - 1, least=0)
        return np.where(table.present(self.step.columns, start, stop), nonprivate, NOBODY)

    def give(self, table: PrivateTable, sampler: Sampler) -> tuple[bytes, bytes]:
        """Divide everybody's number into two that are uniform each; a person without a record adds the number of bins."""
        shares, rests = bytearray(), bytearray()
        for start, stop in table.ranges():
            numbers = self.numbers(table, start, stop)
            nonprivate = np.where(numbers == NOBODY, self.step.table.bins, numbers)
            drawn = np.frombuffer(sampler.bytes(2 * len(numbers)), dtype="<u2").astype(np.int64)
            share = drawn % self.step.table.modulus  # a power of two: uniform
            shares += share.astype("<u2").tobytes()
            rests += ((nonprivate - share) % self.step.table.modulus).astype("<u2").tobytes()
        return bytes(shares), bytes(rests)

    def receive(self, part: memoryview, people: int) -> None:
        """Add one giver's numbers to this party's own."""
        if part.nbytes != 2 * people:
            raise BadInput("A giver's letter is not one number per person.")
        numbers = np.frombuffer(part, dtype="<u2").astype(np.uint16)  # sums of them are taken modulo a power of two
        self.received = numbers if self.received is None else self.received + numbers

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return indicators of number and label; none for a person without a record, or without a label."""
        numbers, modulus = self.numbers(table, start, stop), self.step.table.modulus
        counted = numbers != NOBODY
        codes = numbers if self.received is None else (numbers + self.received[start:stop]) % modulus
        if self.step.label is not None:
            labels = _labels(self.step.label, table, start, stop)
            counted = counted & (labels >= 0)
            codes = codes * self.step.table.labels + labels
        nonprivate = np.zeros((self.step.table.widths[self.step.party], stop - start), dtype=np.int64)
        present = np.flatnonzero(counted)
        nonprivate[codes[present], present] = 1
        return nonprivate

    def _coins(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return one public number between 0 and 1 for some people, of this party's own. People are asked about in order."""
        if self._stream is None or start < self._drawn:
            self._stream, self._drawn = KeyedRandomness(self.step.seed).spawn(f"dither {self.step.party}"), 0
        while self._drawn < start:
            skipped = min(start - self._drawn, BLOCK)
            self._stream.words(skipped)
            self._drawn += skipped
        words, self._drawn = self._stream.words(stop - start), stop
        return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


class ScorePart(JointPart):
    """A data party's part in a histogram of scores: givers pay and give; left and right take that, pay and share."""

    def give(self) -> tuple[bytes, bytes]:
        """Pay, durably, and return everybody's number in two parts; the coins are the same in every run."""
        self.begin()
        assert self._reservation is not None  # it has just begun
        return self._admitted.compute(self._score.give, self._reservation.noise("give"))

    def receive(self, giver: str, part: memoryview) -> None:  # noqa: ARG002  # all givers count alike
        """Take one giver's part."""
        self._score.receive(part, self._score.step.people)

    @property
    def _score(self) -> PrivateScoreHistogram:
        return cast("PrivateScoreHistogram", self._private)


def _labels(label: Level | NearestPoint, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's labels, by their place among those that are counted; −1 for none.

    The nearest point to x is the point p with the largest x·p − ‖p‖²/2.
    """
    if isinstance(label, Level):
        return np.asarray(label.places[table.codes(label.column, start, stop)])
    nearness = partial_scores(label.points, table, start, stop)
    nearness -= (label.points.weights**2).sum(axis=1)[:, None] / 2
    return np.asarray(label.places[label.guesses[nearness.argmax(axis=0)]])


class PrivateGroupSums(PrivateJoint[GroupSums | GroupChain]):
    """Indicators of one party's categories, and its values."""

    kinds = (GroupSums, GroupChain)

    def prepare(self, table: PrivateTable) -> None:
        """Read the columns, and who has a record, before anything is paid."""
        prepare_groups(self.step, table)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return one column per group, then one per group and value; a helper has a column of zeros."""
        if self.step.part.helps:
            return np.zeros((1, stop - start), dtype=np.int64)
        return group_rows(self.step, table, start, stop)


class PrivateGroupTotals(PrivateStep[GroupTotals]):
    """Counts and sums of one party's own columns."""

    kinds = (GroupTotals,)

    def prepare(self, table: PrivateTable) -> None:
        """Read the columns, and who has a record, before anything is paid."""
        prepare_groups(self.step, table)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return all counts, then all sums of the first value, and so on."""
        return table.fold(np.zeros(self.step.part.width, dtype=np.int64), self._add)

    def _add(self, nonprivate: NDArray[np.int64], table: PrivateTable, start: int, stop: int) -> None:
        nonprivate += group_rows(self.step, table, start, stop).sum(axis=1)


Groups = GroupSums | GroupChain | GroupTotals


def prepare_groups(step: Groups, table: PrivateTable) -> None:
    """Read what rows will need."""
    table.load(step.columns)
    if step.columns and not step.by:
        table.load_present(step.columns)


def group_rows(step: Groups, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
    """Return some people's rows. Nobody has more than one indicator, and a value is at most γ, whatever the table says.

    A person without a level, or without a record, has no indicator: every column is 0.
    """
    part, scale = step.part, step.group_terms.scale
    if step.by:
        codes, _ = table.joint_codes(step.by, start, stop)
    else:
        codes = table.present(part.values, start, stop).astype(np.int32) - 1
    nonprivate = np.zeros((part.width, stop - start), dtype=np.int64)
    _put(codes, np.full(stop - start, part.height), 0, nonprivate)
    for place, name in enumerate(part.values, start=1):
        column = table.schema[name]
        assert column.is_number  # the step's kind has checked it
        values = table.values(name, start, stop)
        coded = whole_numbers(values, scale, middle=column.midpoint, half=column.half_range, scale=scale)
        _put(codes, coded, place * part.groups, nonprivate)
    return nonprivate


@njit(cache=True, nogil=True)
def _put(codes: Any, values: Any, first: int, out: Any) -> None:
    for i in range(len(codes)):
        if codes[i] >= 0:
            out[first + codes[i], i] = values[i]


class PrivatePredictions(PrivateStep[Predictions]):
    """Partial scores as integers."""

    kinds = (Predictions,)

    def join(self, admitted: "AdmittedStep") -> "PredictionPart":
        """Return this party's part."""
        return PredictionPart(admitted)

    def accept(self, inputs: Arrays) -> Arrays:
        """Take no inputs: the plan says everything."""
        if inputs:
            raise BadInput("Predictions take no inputs.")
        return {}

    @property
    def length(self) -> int:
        """How many integers there are."""
        return self.step.length

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's integers."""
        nonprivate = np.zeros(stop - start, dtype=np.int64)
        place = start
        while place < stop and self.step.scores is not None:
            output, first = divmod(place, self.step.people)
            last = min(self.step.people, first + stop - place)
            some = partial_scores(self.step.scores, table, first, last, output)
            whole = nonprivate[place - start : place - start + last - first]
            whole_numbers(some, self.step.bound, scale=self.step.scale, out=whole)
            place += last - first
        return nonprivate


class PredictionPart(SumPart):
    """A part in a secure sum whose recipient is a party."""

    def __init__(self, admitted: "AdmittedStep") -> None:
        super().__init__(admitted)
        self._sums: NDArray[np.int64] | None = None
        self._arrived = 0

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Record the output in the ledger, as one that the budget does not cover; return how many integers there are."""
        length = super().begin(inputs)
        receives = self._predictions.recipient == self._admitted.party
        self._sums = np.empty(length if receives else 0, dtype=np.int64)
        return length

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:
        """Take a stretch of the sums; once all are here, keep what this party is told, for its own operator alone.

        Where a stretch did not come, because it cannot be right, nothing is kept, and only the operator sees that.
        """
        assert self._sums is not None  # a run begins first
        self._sums[start : start + len(sums)] = sums
        self._arrived += len(sums)
        if self._arrived == len(self._sums):
            orders = self._admitted.row_orders
            with among_rows():  # other parties' rows, in scores that are this party's own now
                columns = self._predictions.read_sums(self._sums)
                orders.deliveries.keep(self._admitted.request, orders.order(self._admitted.plan.alignment), columns)

    @property
    def _predictions(self) -> Predictions:
        return cast("PrivatePredictions", self._private).step


Integers = NDArray[np.int64]


def labelled_rows(
    step: LabelledSteps, scale: int, table: PrivateTable, labels: Callable[[NDArray[Any]], NDArray[Any]], largest: int
) -> SpilledRows:
    """Return everyone's row in integers, and behind it the label where this party holds the target.

    Parameters
    ----------
    step, scale, table
        The step, the scale of its integers, and the rows.
    labels
        Makes labels of the target's codes.
    largest
        What no label exceeds in magnitude. The noise rests on it, as it does on the scale of rows.
    """

    def block(table: PrivateTable, start: int, stop: int) -> NDArray[np.int16]:
        nonprivate = np.zeros((stop - start, step.width + bool(step.target)), dtype=np.int16)
        if step.target:
            codes = table.codes(step.target, start, stop)
            found = labels(codes)
            require_within(found, largest)
            nonprivate[:, -1] = found
            nonprivate[:, 0] = np.where(codes >= 0, scale, 0)
        if step.coding is not None:
            nonprivate[:, step.constant : step.width] = coded_rows(step.coding, table, start, stop).T
        require_within(nonprivate[:, : step.width], scale)
        return nonprivate

    return table.written(step.width + bool(step.target), np.int16, block)


class PrivateNewtonSteps(PrivateStep[NewtonSteps]):
    """One party's rows and labels."""

    kinds = (NewtonSteps,)

    def join(self, admitted: "AdmittedStep") -> "NewtonPart":
        """Return this party's part."""
        return NewtonPart(admitted)

    def coded(self, table: PrivateTable) -> SpilledRows:
        """Return everyone's row, and behind it the target as the family reads it: −1 for none."""
        family = self.step.terms.family
        largest = max(map(abs, family.targets))
        return labelled_rows(
            self.step, self.step.terms.scale, table, lambda codes: family.labels(codes, self.step.level), largest
        )

    def in_steps(self, rows: NDArray[np.int16], weights: NDArray[np.float64]) -> Integers:
        """Return this party's part of some people's scores in whole steps, clipped to the link's window."""
        link = self.step.terms.bounds.link
        nonprivate = weights @ rows.astype(np.float64) / self.step.terms.scale
        return whole_numbers(nonprivate, round(link.window / link.step), half=link.step)


class NewtonPart:
    """Pay, then share one round after another.

    Parameters
    ----------
    admitted
        The step.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted
        self._private = cast("PrivateNewtonSteps", admitted.private)
        self._step = self._private.step
        self._nonprivate: SpilledRows | None = None
        self._weights: NDArray[np.float64] = np.empty(0)
        self._reservation: Reservation | None = None

    def begin(self) -> None:
        """Pay for all rounds, durably."""
        self._admitted.refuse_if_concluded()
        self._admitted.prepare()
        self._nonprivate = self._admitted.compute(self._private.coded)
        self._reservation = self._admitted.reserve()

    def take(self, weights: NDArray[np.float64]) -> None:
        """Take the weights of a round."""
        self._weights = weights[self._step.terms.places(self._step.party)]

    def _rows(self, start: int, stop: int) -> NDArray[np.int16]:
        """Return some people's integers, a column along each row."""
        assert self._nonprivate is not None  # the run begins first
        return np.ascontiguousarray(self._nonprivate.read(start, stop)[:, : self._step.width].T)

    def columns(self, start: int, stop: int) -> Integers:
        """Return some people's integer rows; they leave as shares only."""
        with among_rows():
            return self._rows(start, stop).astype(np.int64)

    def parts(self, start: int, stop: int) -> Integers:
        """Return some people's parts of the score; they leave split into uniform numbers only."""
        with among_rows():
            return self._private.in_steps(self._rows(start, stop), self._weights)

    def labels(self, start: int, stop: int) -> Integers:
        """Return some people's labels; they leave as shares only."""
        with among_rows():
            assert self._nonprivate is not None  # the run begins first
            return self._nonprivate.read(start, stop)[:, -1].astype(np.int64)

    def noise(self, number: int) -> Integers:
        """Draw this party's share of the noise of a round."""
        assert self._reservation is not None  # the run begins first
        return self._step.terms.noise.draw_round(number, self._reservation.noise(f"round {number}"))
