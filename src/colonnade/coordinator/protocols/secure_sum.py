"""A secure sum seen from the coordinator: relay its turns, and add up what is opened to it (paper 004, Algorithm 1, line 7)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.sums import chunks_of
from colonnade.coordinator.protocols.relay import Relay
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Opened, Posted, Reply
from colonnade.protocol.rounds import Rounds
from colonnade.result import COORDINATOR
from colonnade.steps.sums import SumTerms

__all__ = ["added", "open_sum", "relay_sum"]


def open_sum(plan: Plan, step: str, length: int, inputs: Mapping[str, Array] | None = None) -> Rounds:
    """Run a secure sum that is opened to the coordinator, and return it as integers."""
    terms = SumTerms.read(plan, step)
    relay = Relay(plan, step, terms.owners)
    yield from relay.greet()
    sums = np.empty(length, dtype=np.int64)
    for number, (start, stop) in enumerate(chunks_of(length)):
        replies = yield from relay.last(inputs if number == 0 else None)
        sums[start:stop] = added(terms, replies, stop - start)
    return sums


def relay_sum(plan: Plan, step: str, length: int, inputs: Mapping[str, Array] | None = None) -> Rounds:
    """Run a secure sum that is opened to one of its parties; the coordinator relays letters that it cannot read."""
    terms = SumTerms.read(plan, step)
    relay = Relay(plan, step, terms.owners)
    yield from relay.greet()
    for number, _ in enumerate(chunks_of(length)):
        yield from relay.turn(inputs if number == 0 else None)
    replies = yield from relay.last()
    if any(not isinstance(reply, Opened) for reply in replies.values()):
        raise ProtocolError("A party did not finish its part of a sum.")


def added(terms: SumTerms, replies: Mapping[str, Reply], count: int) -> NDArray[np.int64]:
    """Add up one chunk of every party's masked values; the masks cancel."""
    total = np.zeros(count, dtype=terms.ring.dtype)
    for party in terms.owners:
        reply = replies[party]
        letter = reply.letters.get(COORDINATOR) if isinstance(reply, Posted) else None
        if letter is None:
            raise ProtocolError(f"Party {party!r} did not add to a sum.")
        total += terms.ring.from_bytes(letter.view, count)
    return terms.ring.decode(total)
