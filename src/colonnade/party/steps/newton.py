"""A data party's part in Newton steps: pay for all rounds at once, then share each of them at most once.

*A round is never shared twice.* Its noise is drawn afresh when it is shared and follows from nothing that is kept. So there is no
noise that a restart could add to other weights. Before anything of a round leaves, this party takes a lease of it: a durable
record, with what the round before opened, as the coordinator says. After a restart it goes on with the first round without a
lease. So no more rounds are ever shared than were paid for, and what was opened is not lost with the coordinator.
"""

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.party.refusals import among_rows
from colonnade.party.steps.parts import coded_rows
from colonnade.party.table.private_table import PrivateTable
from colonnade.secure.keys import digest
from colonnade.spilled_rows import SpilledRows
from colonnade.steps.newton import NewtonSteps

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep

__all__ = ["NewtonPart", "PrivateNewtonSteps"]

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
        if max(-int(nonprivate.min(initial=0)), int(nonprivate.max(initial=0))) > self.terms.scale:
            raise ValueError("A coded row exceeds the bound of its step.")
        return nonprivate

    def in_steps(self, rows: NDArray[np.int16], weights: NDArray[np.float64]) -> Integers:
        """Return this party's part of some people's scores in whole steps, clipped to the link's window."""
        link = self.terms.bounds.link
        nonprivate = weights @ rows.astype(np.float64) / self.terms.scale
        return link.in_steps(np.clip(nonprivate, -link.window, link.window))


class NewtonPart:
    """Pay, then share one round after another.

    Parameters
    ----------
    admitted
        The step.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted
        self._half = cast("PrivateNewtonSteps", admitted.half)
        self._nonprivate: SpilledRows | None = None
        self._weights: NDArray[np.float64] = np.empty(0)
        self._leased = 0
        self._drawn = 0

    def begin(self) -> int:
        """Pay for all rounds, durably; return the first that was never shared here."""
        self._admitted.refuse_if_concluded()
        self._admitted.prepare()
        self._nonprivate = self._admitted.compute(self._half.coded)
        self._admitted.reserve()
        while self._leased < self._half.terms.rounds and self._lease(self._leased) is not None:
            self._leased += 1
        self._drawn = self._leased
        return self._leased

    def opened_before(self) -> Integers | None:
        """Return what the rounds opened, as kept with the leases of the rounds after them: each its length, then itself."""
        kept = [self._lease(number) for number in range(1, self._leased)]
        return np.frombuffer(b"".join(record or b"" for record in kept), dtype="<i8").astype(np.int64) if kept else None

    def take(self, number: int, weights: NDArray[np.float64], before: Integers) -> None:
        """Take a lease of a round; rounds that others took without us are gone too. Refuse one that may have been shared."""
        if number < self._leased:
            raise ProtocolError("A round of Newton steps is shared once.")
        for skipped in range(self._leased, number):
            self._admitted.open_once(_record(np.empty(0, dtype=np.int64)), self._key(skipped))
        self._admitted.open_once(_record(before), self._key(number))
        self._leased = number + 1
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
        """Draw this party's share of the noise of the round that was leased last, once."""
        if number != self._leased - 1 or number < self._drawn:
            raise ProtocolError("The noise of a round is drawn once.")
        self._drawn = number + 1
        return self._half.terms.noise.draw_share(number, self._admitted.sampler())

    def _lease(self, number: int) -> bytes | None:
        return self._admitted.opened(self._key(number))

    def _key(self, number: int) -> bytes:
        return digest("colonnade newton round v2", self._admitted.request, number)


def _record(before: Integers) -> bytes:
    return np.append(np.int64(len(before)), before).astype("<i8").tobytes()
