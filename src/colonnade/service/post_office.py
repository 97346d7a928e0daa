"""A guard as its relay reaches it where members have direct links: letters that can go directly do, and the rest is as it was.

It stands between the relay and its guard, in the relay's process, and is an endpoint as the guard is: a request in, a reply out.

* A turn (`Post`) whose letters came directly has tickets in their place. The letters are put back, and the guard is given the
  very bytes that it would have been given by a coordinator that relays them.
* An answer (`Posted`) has letters to peers. Each that a peer has kept is replaced by its ticket. The others stay, to be relayed.

Nothing here is trusted. A letter that is not the one for this turn does not open at the guard; one that was opened before is
refused there. The letters of a turn are erased once the guard has answered, because a turn that is asked again it answers from
memory, whatever comes with it (`colonnade.conversations.endpoint.Runs`). So a turn whose letters are not here any more goes to
the guard all the same: it has answered it before, or refuses it, and the study is taken up again.

In contrast to a relay without links, which holds a block at a time, this holds the messages of a turn whole, and of a few turns
at most: the guard answers one after the other. Letters go out in threads of the turn's own, so that a slow peer keeps no other
turn waiting.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from colonnade.errors import ColonnadeError, ProtocolError
from colonnade.protocol import codec
from colonnade.protocol.messages import SHORTEST_DIRECT, Blob, Conclude, Post, Posted, Refused, Ticket
from colonnade.transport.direct import Endpoint
from colonnade.transport.links import Link
from colonnade.transport.mailbox import Mailbox

__all__ = ["PostOffice"]

TURNS_AT_ONCE = 2
"""Turns that are put together and held whole: one at the guard, and the next."""

STUDIES = 256
"""Studies whose run is remembered; `Mailbox.tick` sees to the letters of others."""


class PostOffice:
    """An endpoint before a guard.

    Parameters
    ----------
    guard
        The guard.
    mailbox
        What came directly.
    links
        The way to each peer that has one.
    """

    def __init__(self, guard: Endpoint, mailbox: Mailbox, links: Mapping[str, Link]) -> None:
        self._guard = guard
        self._mailbox = mailbox
        self._links = dict(links)
        self._lock = threading.Lock()
        self._runs: dict[bytes, bytes] = {}
        self._turns = threading.BoundedSemaphore(TURNS_AT_ONCE)

    def handle(self, data: bytes) -> bytes:
        """Answer one request. Where the guard does not, the connection ends, as the guard's own would."""
        try:
            request = codec.decode_request(data)
        except ColonnadeError:
            return self._ask(data)  # what is no request is for the guard to refuse
        if isinstance(request, Conclude):
            reply = self._ask(data)
            self._forget(codec.digest(request.plan))
            return reply
        if not isinstance(request, Post):
            return self._ask(data)
        study = codec.digest(request.plan)
        tickets = {sender: ticket for sender, found in request.letters.items() if (ticket := Ticket.read(found))}
        if request.turn == 0:
            self._begin(study, request.run)
        return self._hand_over(
            study, self._ask_with_letters(data, request, study, tickets) if tickets else self._ask(data)
        )

    def close(self) -> None:
        """Hang up on everybody."""
        for link in self._links.values():
            link.close()

    def _ask(self, data: bytes) -> bytes:
        try:
            return self._guard.handle(data)
        except ColonnadeError:
            raise ConnectionAbortedError from None  # the guard is away: the coordinator asks again

    def _ask_with_letters(self, data: bytes, request: Post, study: bytes, tickets: dict[str, Ticket]) -> bytes:
        """Put the letters of a turn in the place of their tickets, have it answered, and erase them."""
        if len(data) + sum(ticket.size for ticket in tickets.values()) > codec.LARGEST_FRAME:
            return codec.encode(Refused.of(ProtocolError("The letters of one turn are larger than any message.")))
        with self._turns:
            found = {sender: self._mailbox.find(sender, study, ticket) for sender, ticket in tickets.items()}
            letters = {sender: Blob(letter) for sender, letter in found.items() if letter is not None}
            is_lost = len(letters) < len(tickets)
            whole = codec.encode(msgspec.structs.replace(request, letters={**request.letters, **letters}))
            del found, letters
            reply = self._ask(whole)
        for sender, ticket in tickets.items():
            self._mailbox.forget(study, sender, ticket)
        return _say_lost(reply) if is_lost else reply

    def _begin(self, study: bytes, run: bytes) -> None:
        """Erase what is left of an earlier run of a study. That a first turn is asked again erases nothing."""
        with self._lock:
            if self._runs.pop(study, None) == run:
                self._runs[study] = run
                return
            self._runs[study] = run
            while len(self._runs) > STUDIES:
                del self._runs[next(iter(self._runs))]
        self._mailbox.forget(study)

    def _forget(self, study: bytes) -> None:
        with self._lock:
            self._runs.pop(study, None)
        self._mailbox.forget(study)

    def _hand_over(self, study: bytes, reply: bytes) -> bytes:
        """Send the letters of an answer directly, as far as that goes, and return the answer with tickets for them."""
        try:
            posted = codec.decode_reply(reply)
        except ColonnadeError:
            return reply  # what is no reply is for the coordinator to refuse
        if not isinstance(posted, Posted):
            return reply
        going = {to: one for to, one in posted.letters.items() if to in self._links and len(one) >= SHORTEST_DIRECT}
        if not going:
            return reply
        with ThreadPoolExecutor(len(going), thread_name_prefix="colonnade-links") as threads:
            gone = dict(zip(going, threads.map(lambda to: self._sent(study, to, going[to]), going), strict=True))
        tickets = {to: ticket.blob() for to, ticket in gone.items() if ticket is not None}
        return codec.encode(Posted(letters={**posted.letters, **tickets})) if tickets else reply

    def _sent(self, study: bytes, to: str, letter: Blob) -> Ticket | None:
        ticket = Ticket.of(letter.view)
        return ticket if self._links[to].send(study, ticket, letter.view) else None


def _say_lost(reply: bytes) -> bytes:
    """Return a guard's answer to a turn without some of its letters; where it refuses, with the reason it cannot know."""
    found = codec.decode_reply(reply)
    if not isinstance(found, Refused) or found.code != LOST.code:
        return reply
    return codec.encode(msgspec.structs.replace(found, message=LOST.message, remedy=LOST.remedy))


LOST = ProtocolError(
    "A letter that came directly to this member is not here any more.", remedy="Start the study again."
)
