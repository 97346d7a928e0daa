"""The parties of a plan agree on a key that the coordinator does not learn (`colonnade.secure.group_secret`).

::

    turn 0   out: hello
    turn 1   in: everyone's hello      out: my commitment
    turn 2   in: commitments           out: my reveal
    turn 3   in: reveals               out: settled, once the key is kept

A key belongs to one step of one plan and is kept once, durably, before anyone is told. *All parties that keep a key for a step
keep the same one:* settling takes every other party's reveal of the same run, and a party that keeps a key takes part in no
further run of the step. So a coordinator that starts runs over and over, or in parallel, can leave parties without a key, and
never with two different ones, for which a guarantee that counts on common keys would not hold.
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol

from colonnade.conversations.conversation import Conversation, Meeting, Member, members_of
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Blob, Posted, Reply, Settled
from colonnade.secure.group_secret import GroupSecret
from colonnade.secure.mail import Session
from colonnade.secure.stream import subseed

__all__ = ["KeyKeeper", "KeyRun"]

SETTLES = 3


class KeyKeeper(Protocol):
    """What a party brings: somewhere durable to keep the key."""

    def begin(self) -> None:
        """Refuse if a key is kept for this step already."""

    def keep(self, key: bytes) -> None:
        """Keep the key, durably, once."""


class KeyRun(Conversation):
    """One party's side of agreeing on a key.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        Where the key is kept.
    secret
        32 fresh random bytes, for this run only.
    """

    name: ClassVar[str] = "group-key"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: KeyKeeper | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party agrees on a key.")
        part.begin()
        self._part = part
        self._name = f"{plan.task}/{step}"
        self._step = step
        self._secret = secret
        self._meeting = Meeting(member, plan, step, run, members_of(plan, step), secret)
        self._session: Session | None = None
        self._group: GroupSecret | None = None

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn. The coordinator has no say in a key."""
        if inputs:
            raise ProtocolError("Agreeing on a key takes no inputs.")
        if number == 0:
            return self._meeting.greet()
        if number == 1:
            session = self._meeting.meet(letters)
            self._group = GroupSecret(session, self._name, 1, subseed(self._secret, "colonnade group contribution"))
            return _posted(self._group.commit())
        if self._group is None or number > SETTLES:
            raise ProtocolError("A turn after the end of a conversation.")
        received = {sender: bytes(letter.view) for sender, letter in letters.items()}
        if number == 2:
            return _posted(self._group.reveal(received))
        self._part.keep(self._group.settle(received).expose())
        return Settled(step=self._step)


def _posted(letters: Mapping[str, bytes]) -> Posted:
    return Posted(letters={receiver: Blob(letter) for receiver, letter in letters.items()})
