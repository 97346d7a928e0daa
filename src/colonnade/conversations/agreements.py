"""Short conversations: the parties agree on a key that the coordinator does not learn, or to a public list of ids.

A key (`colonnade.secure.keys`)::

    turn 0   out: hello
    turn 1   in: everyone's hello      out: my commitment
    turn 2   in: commitments           out: my reveal
    turn 3   in: reveals               out: settled, once the key is kept

A key belongs to one step of one plan and is kept once, durably, before anyone is told. *All parties that keep a key for a
step keep the same one:* settling takes every other party's reveal, and every party commits to the same and reveals the same in
every run (`RunRecords`). So a coordinator that starts runs over and over, or in parallel, can leave parties without a key, and
never with two different ones, for which a guarantee that counts on common keys would not hold.

*A division of the people* (`colonnade.steps.local.Split`) is the conversation of a key. With the key every party decides for
each place of the agreed order of rows whether it belongs to the first or to the second part, keeps both parts as row orders
of their own, and does not keep the key. Places are in one order at all parties, so a place is a person. All parties that keep a
part keep the same one, for the reason given above. Its name follows from the plan, so the coordinator can ask for it without
being told anything. It does not learn who is where.

A public list::

    turn 0   out: hello, signed over the plan, in which the hash of the list stands
    turn 1   in: everyone's hello, and the list (`inputs`)      out: the alignment's name, once kept

The list is declared public, and so is that these people take part. Which of them a party *has* is not told to anybody: a
person it lacks has a null record there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import numpy as np

from colonnade.conversations.conversation import Conversation, Meeting, Member, members_of
from colonnade.errors import BadInput, PlanMismatch, ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import Array, Blob, Described, Posted, Reply, Settled, pack, unpack
from colonnade.secure import keys
from colonnade.secure.keys import GroupSecret

SETTLES = 3


class KeyKeeper(Protocol):
    """What a party brings: somewhere durable to keep the key."""

    def keep(self, key: bytes) -> None:
        """Keep the key, durably, unless it is kept already."""


class KeyRun(Conversation):
    """One party's side of agreeing on a key.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        Where the key is kept.
    secret
        32 random bytes of this step: our part in the key follows from them.
    """

    name: ClassVar[str] = "group-key"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: KeyKeeper | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party agrees on a key.")
        self._part = part
        self._name = f"{plan.task}/{step}"
        self._step = step
        self._secret = secret
        self.meeting = Meeting(member, plan, step, run, members_of(plan, step), secret)
        self._session: keys.Session | None = None
        self._group: GroupSecret | None = None

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn. The coordinator has no say in a key."""
        if inputs:
            raise ProtocolError("Agreeing on a key takes no inputs.")
        if number == 0:
            return self.meeting.greet()
        if number == 1:
            session = self.meeting.meet(letters)
            self._group = GroupSecret(
                session, self._name, 1, keys.subseed(self._secret, "colonnade group contribution")
            )
            return _posted(self._group.commit())
        if self._group is None or number > SETTLES:
            raise ProtocolError("A turn came after the end of its conversation.")
        received = {sender: bytes(letter.view) for sender, letter in letters.items()}
        if number == 2:
            return _posted(self._group.reveal(received))
        self._part.keep(self._group.settle(received).expose())
        self.over = True
        return Settled(step=self._step)


def _posted(letters: Mapping[str, bytes]) -> Posted:
    return Posted(letters={receiver: Blob(letter) for receiver, letter in letters.items()})


LARGEST_LIST = 1 << 26


class CohortKeeper(Protocol):
    """What a party brings: its list, and somewhere durable to keep the order of its rows."""

    def keep_cohort(self, identity: str, cohort: Sequence[str]) -> Described:
        """Keep the order of a public list, durably, once, and return what is public of it."""


class CohortRun(Conversation):
    """One party's side of agreeing to a public list.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        Our own list.
    secret
        32 random bytes of this step, the same in every run.
    """

    name: ClassVar[str] = "cohort"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: CohortKeeper | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party has rows to put in order.")
        self._part = part
        self._plan = messages.digest(plan)
        self._listed = next(str(one.parameters["listed"]) for one in plan.steps if one.name == step)
        self.meeting = Meeting(member, plan, step, run, members_of(plan, step), secret)

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if number == 0:
            return self.meeting.greet()
        if number != 1:
            raise ProtocolError("A turn came after the end of its conversation.")
        self.meeting.meet(letters)
        cohort = unpacked_list(inputs)
        if list_hash(cohort) != self._listed:
            raise PlanMismatch("The list is not the one that stands in the plan.")
        self.over = True
        return self._part.keep_cohort(keys.digest("colonnade cohort v2", self._plan).hex(), cohort)


def packed_list(cohort: Sequence[str]) -> dict[str, Array]:
    """Return a list of ids as it travels: all lengths, then all text."""
    encoded = [one.encode() for one in cohort]
    return {
        "lengths": pack(np.array([len(one) for one in encoded], dtype=np.int64)),
        "text": pack(np.frombuffer(b"".join(encoded), dtype=np.uint8)),
    }


def unpacked_list(inputs: Mapping[str, Array]) -> list[str]:
    """Read a list of ids; refuse one whose parts disagree, or that is not text, or not of distinct ids."""
    if set(inputs) != {"lengths", "text"}:
        raise ProtocolError("The list did not come with the plan.")
    found, text = unpack(inputs["lengths"]), unpack(inputs["text"]).tobytes()
    lengths = found.astype(np.int64)
    if found.dtype != np.int64 or lengths.ndim != 1 or not 0 < len(lengths) <= LARGEST_LIST:
        raise ProtocolError("The list is empty, or malformed.")
    if (lengths <= 0).any() or int(lengths.sum()) != len(text):
        raise ProtocolError("The list holds an empty id, or is malformed.")
    ends = np.cumsum(lengths)
    try:
        cohort = [
            text[end - length : end].decode() for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
        ]
    except UnicodeDecodeError:
        raise ProtocolError("The list is not text.") from None
    if len(set(cohort)) != len(cohort):
        raise BadInput("The list names an id twice.", remedy="List every person once.")
    return cohort


def list_hash(cohort: Sequence[str]) -> str:
    """Return the hash by which a plan names a list: of all lengths and all text, in order."""
    hasher = hashlib.sha256(b"colonnade cohort 1\0")
    for one in cohort:
        encoded = one.encode()
        hasher.update(len(encoded).to_bytes(8, "big") + encoded)
    return hasher.hexdigest()
