"""A data party's part in Newton steps: pay for all rounds at once, then share one after another.

*A round is at one vector of weights.* Its noise follows from the seed that the ledger keeps. The same noise at other weights
would show the difference: a round that was begun is only ever run again at the same ones (`RunRecords`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.participants import PrivateStep
from colonnade.party.table.private_table import PrivateTable, among_rows, coded_rows, require_within, whole_numbers
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.steps.newton import LabelledSteps, NewtonSteps

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep, Reservation


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
