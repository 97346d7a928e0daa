"""A data party's part in a joint opening: reserve, then share."""

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.half import JointHalf
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws import EvenLaw, Sampler
from colonnade.steps.joint import JointStep

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep
    from colonnade.party.reservation import Reservation

__all__ = ["JointPart", "OpensJointly"]


class OpensJointly(JointStep):
    """The private half of a kind that is opened jointly; what most of them have in common."""

    def join(self, admitted: "AdmittedStep") -> "JointPart":
        """Return this party's part."""
        return JointPart(admitted)

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's share of the noise, one number for each entry between two parties."""
        noise = self.joint.noise
        assert isinstance(noise, EvenLaw)  # a kind whose entries differ draws by itself
        return noise.draw_share(entries, sampler)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64] | None:  # noqa: ARG002
        """Return nothing: no part of the release concerns this party alone."""
        return None


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

    def begin(self) -> bytes:
        """Pay, durably, and return the seed of this party's shares."""
        self._admitted.refuse_if_answered(
            "This step was opened before, and is opened once.",
            remedy="Run the study again with the next repeat=; it is a new draw at a new price.",
        )
        self._admitted.prepare()
        self._reservation = self._admitted.reserve()
        return self._reservation.secret()

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows; they leave as shares only."""
        return self._admitted.compute(self._half.rows, start, stop)

    def noise(self, entries: int) -> NDArray[np.int64]:
        """Return this party's share of the noise of the entries between parties."""
        assert self._reservation is not None  # the run begins first
        return self._half.cross_noise(entries, self._reservation.noise("cross"))

    def own(self) -> NDArray[np.int64] | None:
        """Return this party's own part, noised by it alone."""
        assert self._reservation is not None  # the run begins first
        return self._admitted.compute(self._half.own, self._reservation.noise("own"))

    def opening(self, answer: bytes) -> None:
        """Keep, durably, what is about to be opened; a step is opened once."""
        self._admitted.open_once(answer)
