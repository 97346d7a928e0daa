"""One run of a histogram of scores at one member: a joint opening with one turn in front of it.

::

    turn 0        out: hello
    turn 1        in: everyone's hello      out (givers): one number per person to left, one to right
    turn 2        in (left, right): these   out: what a joint opening says in turn 1
    turn j > 2    as turn j − 1 of a joint opening (`colonnade.conversations.products`)

A giver's number is divided as u and number − u modulo a power of two, u uniform and fresh in every run. Left sees the u's and
right the differences: each is uniform whatever the number is, and independent of the other givers' and of everything else in the
run, so neither learns anything, also together with the coordinator. Left and right together would: the histogram is made for one
colluding party at most, and a plan that asks for more is refused (`colonnade.steps.score_table`).
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol, cast

from colonnade.conversations.products import Dealer, ProductRun
from colonnade.errors import ProtocolError
from colonnade.protocol.messages import Array, Blob, Posted, Reply

__all__ = ["ScoreDealer", "ScoreRun"]

GIVING = 0
"""The step of the letters that givers write; those of the joint opening are numbered from 1."""


class ScoreDealer(Dealer, Protocol):
    """What a data party brings to a histogram of scores."""

    def give(self) -> tuple[bytes, bytes]:
        """Pay, durably, and return this giver's numbers in two parts, for left and right."""

    def receive(self, giver: str, part: memoryview) -> None:
        """Take one giver's part, at left or right."""


class ScoreRun(ProductRun):
    """One member's side of one run."""

    name: ClassVar[str] = "scores"

    @property
    def deciding_turn(self) -> int:
        """A compute node decides with its share, as in any joint opening; others when they deal, or give."""
        if self.point is not None:
            return self.last_turn + 1
        return 1 if self._is_giver else 2

    @property
    def _is_giver(self) -> bool:
        return self._me.name in self.joint.givers

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if inputs:
            raise ProtocolError("A joint opening takes no inputs.")
        if number == 0:
            return self._meeting.greet()
        if number == 1:
            self._session = self._meeting.meet(letters)
            return Posted(letters=self._give())
        if number == 2:
            self._receive(letters)
            if self._me.name in self.joint.owners:
                self._deal_first()
            return Posted(letters=self._compose(1))
        return super().turn(number - 1, letters, inputs)

    def _give(self) -> dict[str, Blob]:
        if not self._is_giver:
            return {}
        assert self._session is not None  # we have just met
        parts = cast("ScoreDealer", self._dealer).give()
        receivers = self.joint.owners
        return {
            receiver: Blob(self._session.seal(receiver, GIVING, 0, part))
            for receiver, part in zip(receivers, parts, strict=True)
        }

    def _receive(self, letters: Mapping[str, Blob]) -> None:
        takes = self._me.name in self.joint.owners
        if set(letters) != (set(self.joint.givers) if takes else set()):
            raise ProtocolError("The letters of a turn are not one from each sender.")
        assert self._session is not None  # turn 1 comes first
        for giver in sorted(letters):
            part = self._session.open(giver, GIVING, 0, letters[giver].view)
            cast("ScoreDealer", self._dealer).receive(giver, memoryview(part))
