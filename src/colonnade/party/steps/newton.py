"""A data party's part in Newton steps: pay for all rounds at once, then share one after another.

*A round is at one vector of weights.* Its noise follows from the seed that the ledger keeps. The same noise at other weights
would show the difference: a round that was begun is only ever run again at the same ones (`RunRecords`).

A data party's part in a gradient descent: pay for all steps at once, then share one after another.

*A step is at one vector of weights.* Its noise follows from the seed that the ledger keeps. The same noise at other weights
would show the difference: a step that was begun is only ever run again at the same ones (`RunRecords`).

The batches follow from the key that the parties agreed on, at every step's own place in its stream, also after a restart.
"""

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PolicyRefusal, ProtocolError
from colonnade.party.refusals import among_rows
from colonnade.party.steps.row_coding import coded_rows, require_within, whole_numbers
from colonnade.party.table.private_table import PrivateTable
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.secure.batches import Batches
from colonnade.secure.keys import digest
from colonnade.steps.gradient import KEY, Gradient
from colonnade.steps.newton import NewtonSteps

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep
    from colonnade.party.handles import Reservation


Integers = NDArray[np.int64]


class PrivateNewtonSteps(NewtonSteps):
    """One party's rows and labels."""

    def join(self, admitted: "AdmittedStep") -> "NewtonPart":
        """Return this party's part."""
        return NewtonPart(admitted)

    def coded(self, table: PrivateTable) -> SpilledRows:
        """Return everyone's row in integers, and behind it the label where this party holds it: 1, 0, or −1 for none."""
        return table.written(self.width + bool(self.target), np.int16, self._coded_block)

    def _coded_block(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int16]:
        nonprivate = np.zeros((stop - start, self.width + bool(self.target)), dtype=np.int16)
        if self.target:
            codes = table.codes(self.target, start, stop)
            nonprivate[:, -1] = np.where(codes < 0, -1, codes == self.level)
            nonprivate[:, 0] = (codes >= 0) * np.int16(self.terms.scale)
        if self.coding is not None:
            nonprivate[:, self.constant : self.width] = coded_rows(self.coding, table, start, stop).T
        require_within(nonprivate, self.terms.scale)
        return nonprivate

    def in_steps(self, rows: NDArray[np.int16], weights: NDArray[np.float64]) -> Integers:
        """Return this party's part of some people's scores in whole steps, clipped to the link's window."""
        link = self.terms.bounds.link
        nonprivate = weights @ rows.astype(np.float64) / self.terms.scale
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
        self._half = cast("PrivateNewtonSteps", admitted.private)
        self._nonprivate: SpilledRows | None = None
        self._weights: NDArray[np.float64] = np.empty(0)
        self._reservation: Reservation | None = None

    def begin(self) -> None:
        """Pay for all rounds, durably."""
        self._admitted.refuse_if_concluded()
        self._admitted.prepare()
        self._nonprivate = self._admitted.compute(self._half.coded)
        self._reservation = self._admitted.reserve()

    def take(self, weights: NDArray[np.float64]) -> None:
        """Take the weights of a round."""
        self._weights = weights[self._half.terms.places(self._half.party)]

    def _rows(self, start: int, stop: int) -> NDArray[np.int16]:
        """Return some people's integers, a column along each row."""
        assert self._nonprivate is not None  # the run begins first
        return np.ascontiguousarray(self._nonprivate.read(start, stop)[:, : self._half.width].T)

    def columns(self, start: int, stop: int) -> Integers:
        """Return some people's integer rows; they leave as shares only."""
        with among_rows():
            return self._rows(start, stop).astype(np.int64)

    def parts(self, start: int, stop: int) -> Integers:
        """Return some people's parts of the score; they leave split into uniform numbers only."""
        with among_rows():
            return self._half.in_steps(self._rows(start, stop), self._weights)

    def labels(self, start: int, stop: int) -> Integers:
        """Return some people's labels; they leave as shares only."""
        with among_rows():
            assert self._nonprivate is not None  # the run begins first
            return self._nonprivate.read(start, stop)[:, -1].astype(np.int64)

    def noise(self, number: int) -> Integers:
        """Draw this party's share of the noise of a round."""
        assert self._reservation is not None  # the run begins first
        return self._half.terms.noise.draw_round(number, self._reservation.noise(f"round {number}"))


class PrivateGradient(Gradient):
    """One party's rows, labels and scores."""

    def join(self, admitted: "AdmittedStep") -> "DescentPart":
        """Return this party's part."""
        return DescentPart(admitted)

    def coded(self, table: PrivateTable) -> SpilledRows:
        """Return everyone's row in integers, and behind it the label where this party holds it: −1, 1, or 0 for none."""
        return table.written(self.width + bool(self.target), np.int16, self._coded_block)

    def _coded_block(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int16]:
        nonprivate = np.zeros((stop - start, self.width + bool(self.target)), dtype=np.int16)
        if self.target:
            codes = table.codes(self.target, start, stop)
            nonprivate[:, -1] = np.where(codes < 0, 0, 2 * codes - 1)
            nonprivate[:, 0] = np.abs(nonprivate[:, -1]) * np.int16(self.terms.scale)
        if self.coding is not None:
            nonprivate[:, self.constant : self.width] = coded_rows(self.coding, table, start, stop).T
        return nonprivate

    def scores(self, rows: Integers, labels: NDArray[Any] | None, weights: Integers) -> Integers:
        """Return this party's part of γω(⟨w, x⟩ − 2s) for some people, clipped to what the plan bounds it by."""
        nonprivate: Integers = rows @ weights
        if labels is not None:
            nonprivate = nonprivate - 2 * self.terms.scale * self.terms.weight_scale * labels.astype(np.int64)
        return np.clip(nonprivate, -self.score_bound, self.score_bound)


class DescentPart:
    """Pay, check the batches, and share one step after another.

    Parameters
    ----------
    admitted
        The step.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted
        self._half = cast("PrivateGradient", admitted.private)
        self._reservation: Reservation | None = None
        self._batches: Batches | None = None
        self._nonprivate: SpilledRows | None = None

    def begin(self) -> bytes:
        """Pay for all steps, durably, once the batches have been checked; return which key this is."""
        self._admitted.refuse_if_concluded()
        key = self._admitted.kept_key(KEY)
        if key is None:
            raise ProtocolError("The parties have not agreed on the key of the batches.")
        self._admitted.prepare()
        self._batches = self._checked_batches(key)
        self._nonprivate = self._admitted.compute(self._half.coded)
        self._reservation = self._admitted.reserve()
        return digest("colonnade batches in use v1", key)

    def share(self, position: int, weights: Integers) -> tuple[Integers, Integers]:
        """Return the scores and rows of a step's batch, and its noise."""
        if self._batches is None or self._reservation is None:
            raise ProtocolError("A step of a descent is shared once it is paid for.")
        people = self._batches.members(position)
        sampler = self._reservation.noise(f"step {position}")
        noise = self._half.terms.noise.draw_share(self._half.terms.columns, sampler)
        with among_rows():
            return self._batch(people, weights), noise

    def _batch(self, people: NDArray[np.int64], weights: Integers) -> Integers:
        """Return scores and rows of a batch, filled up to the plan's capacity; nothing after this can fail on a row."""
        assert self._nonprivate is not None  # the run begins first
        terms, party = self._half.terms, self._half.party
        nonprivate = np.zeros((terms.widths[party] + 1, terms.capacity), dtype=np.int64)
        found = self._nonprivate.take(people)
        rows = found[:, : self._half.width].astype(np.int64)
        labels = found[:, -1] if self._half.target else None
        nonprivate[0, : len(people)] = self._half.scores(rows, labels, weights[terms.places(party)])
        nonprivate[1:, : len(people)] = rows.T
        require_within(nonprivate, terms.largest)
        return nonprivate

    def _checked_batches(self, key: bytes) -> Batches:
        """Look at every batch before the first step: what peers learn is accounted by how often a person takes part."""
        terms = self._half.terms
        own = digest("colonnade batches v2", key, self._half.step)  # no other step ever draws these coins
        batches = Batches(own, terms.people, terms.rate, terms.steps, terms.sampling)
        if batches.largest_participation() > terms.noise.participations:
            raise PolicyRefusal(
                "By this key somebody takes part in more steps than the study is accounted for.",
                remedy="Run the study again with the next repeat=.",
            )
        return batches
