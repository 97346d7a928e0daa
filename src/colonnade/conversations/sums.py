"""Sums of all parties' vectors under pairwise masks.

A sum is opened to the coordinator or to one named party, and no single vector to anyone (C chunks)::

    turn 0            out: hello
    turn j (1 … C)    in: everyone's hello (1), or chunk j-1 (recipient)    out: my masked chunk j
    turn C+1          in: chunk C (recipient)                               out: done

*What a coalition sees*: the sum of the others, whatever its size (`colonnade.secure.summation`,
docs/proofs/secure-arithmetic.md#masks). With two parties, one of them the recipient, that is the other's vector, as
under any protocol. Masks are preferred to shares among compute nodes: there is no threshold above which everything is open,
no third node is needed, and each value travels once per party in four or eight bytes instead of once per party and node.

*Who receives.* A recipient that is a party gets masked chunks as sealed letters, adds its own and keeps the result. The
coordinator relays ciphertext and learns how long the vectors are. To the coordinator, masked chunks go as they are.

*Inputs are bound to masks.* The coordinator's public inputs (which rows, which residuals) enter the masks, which cancel among
parties that were shown the same inputs and among no others. So a coordinator that shows different inputs to different parties
cannot pick the vectors apart by adding one party's rows to another's.

*No noise of its own.* The vectors are as private as the sum is: a sum hides who contributed what. What the sum tells is
priced, or allowed by name, where the vectors are made.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import Conversation, Meeting, Member, inputs_digest
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Blob, Opened, Posted, Reply
from colonnade.result import COORDINATOR
from colonnade.secure import keys
from colonnade.secure.summation import PairwiseMasks
from colonnade.steps.sums import SumTerms

CHUNK = 1 << 18
"""Values per turn, so that memory stays bounded and every message stays small."""

LARGEST_LENGTH = 2**40


class Summand(Protocol):
    """What a data party brings."""

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Pay, or record, durably; return how long the vectors are, which the plan and the public inputs decide."""

    def values(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector; it leaves under masks only."""

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:
        """Take a stretch of the sum, at the party to which it is opened. One that cannot be right does not come."""


class SumRun(Conversation):
    """One data party's side of a secure sum.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        The party's vector.
    secret
        32 fresh random bytes, for this run only.
    """

    name: ClassVar[str] = "sum"
    repeats: ClassVar[bool] = False

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: Summand | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party adds to a sum.")
        self._terms = SumTerms.read(plan, step)
        self._me = member.name
        self._part = part
        self.meeting = Meeting(member, plan, step, run, self._terms.owners, secret)
        self._session: keys.Session | None = None
        self._masks: PairwiseMasks | None = None
        self._chunks: list[tuple[int, int]] = []
        self._own: NDArray[Any] | None = None

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if number == 0:
            return self.meeting.greet()
        if number == 1:
            self._session = self.meeting.meet(letters)
            self._masks = agreed_masks(self._session, self._terms, inputs_digest(inputs))
            self._chunks = chunks_of(self._part.begin(inputs))
        elif number > len(self._chunks) + 1:
            raise ProtocolError("A turn came after the end of its conversation.")
        elif self._me == self._terms.recipient:
            self._take(number - 1, letters)
        self.over = number == len(self._chunks) + (self._terms.recipient != COORDINATOR)
        if number > len(self._chunks):
            return Opened(share=None, own=None)
        return self._send(number)

    def _send(self, number: int) -> Posted:
        if self._masks is None or self._session is None:
            raise ProtocolError("A turn came before the members have met.")
        masked = self._masks.masked(number, self._part.values(*self._chunks[number - 1]))
        recipient = self._terms.recipient
        if recipient == self._me:
            self._own = masked
            return Posted(letters={})
        if recipient == COORDINATOR:
            return Posted(letters={COORDINATOR: Blob(masked.view(np.uint8).data)})
        return Posted(letters={recipient: Blob(self._session.seal(recipient, number, 0, masked))})

    def _take(self, number: int, letters: Mapping[str, Blob]) -> None:
        """Add up one chunk of everybody's, our own included, and hand it over."""
        if self._own is None or self._session is None:
            raise ProtocolError("A turn came before the members have met.")
        if set(letters) != set(self._terms.owners) - {self._me}:
            raise ProtocolError("The letters of a turn are not one from each sender.")
        total, ring = self._own, self._terms.ring
        for sender in sorted(letters):
            opened = self._session.open(sender, number, 0, letters[sender].view)
            total += ring.from_bytes(memoryview(opened), len(total))
        self._own, sums = None, ring.integers(total)
        # A peer that sends more than it may can move a sum to the edge of its bounds: a refusal would tell the coordinator on
        # which side our own value lies. So nobody hears of it, and the recipient keeps nothing of a sum that lacks a stretch.
        if ring.holds(sums):
            self._part.deliver(self._chunks[number - 1][0], sums)


def agreed_masks(session: keys.Session, terms: SumTerms, seen: bytes) -> PairwiseMasks:
    """Return this party's masks; they cancel among parties that were shown the same inputs, and among no others."""
    secrets = {peer: session.shared(peer, f"colonnade sum masks {seen.hex()}") for peer in session.peers}
    return PairwiseMasks(terms.ring, session.party, secrets)


def chunks_of(length: int) -> list[tuple[int, int]]:
    """Return the stretches in which a vector travels."""
    if type(length) is not int or not 1 <= length <= LARGEST_LENGTH:
        raise ProtocolError("A secure sum has at least one value.")
    return [(start, min(start + CHUNK, length)) for start in range(0, length, CHUNK)]
