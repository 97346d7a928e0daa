"""The parties of a plan agree to the order of a public list of ids: everyone signs the list's hash, nothing else is said.

::

    turn 0   out: hello, signed over the plan, in which the hash of the list stands
    turn 1   in: everyone's hello, and the list (`inputs`)      out: the alignment's name, once kept

The list is declared public, and so is that these people take part. Which of them a party *has* is not told to anybody: a person
it lacks has a null record there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import numpy as np

from colonnade.conversations.conversation import Conversation, Meeting, Member, members_of
from colonnade.errors import BadInput, PlanMismatch, ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Blob, Described, Reply, pack, unpack
from colonnade.secure.framing import digest

__all__ = ["CohortPart", "CohortRun", "list_hash", "packed_list", "unpacked_list"]

LARGEST_LIST = 1 << 26


class CohortPart(Protocol):
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
        32 fresh random bytes, for this run only.
    """

    name: ClassVar[str] = "cohort"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: CohortPart | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party has rows to put in order.")
        self._part = part
        self._plan = codec.digest(plan)
        self._listed = next(str(one.parameters["listed"]) for one in plan.steps if one.name == step)
        self._meeting = Meeting(member, plan, step, run, members_of(plan, step), secret)

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if number == 0:
            return self._meeting.greet()
        if number != 1:
            raise ProtocolError("A turn after the end of a conversation.")
        self._meeting.meet(letters)
        cohort = unpacked_list(inputs)
        if list_hash(cohort) != self._listed:
            raise PlanMismatch("The list is not the one that stands in the plan.")
        return self._part.keep_cohort(digest("colonnade cohort v2", self._plan).hex(), cohort)


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
