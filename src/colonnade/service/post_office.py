"""A guard as its relay reaches it where members have direct links: letters that can go directly do, and the rest is as it was.

It stands between the relay and its guard, in the relay's process, and is an endpoint as the guard is: a request in, a reply out.

* A turn (`Post`) whose letters came directly has tickets in their place. The letters are put back, and the guard is given the
  very bytes that it would have been given by a coordinator that relays them.
* An answer (`Posted`) has letters to peers. Each that a peer has kept is replaced by its ticket. The others stay, to be relayed.

Nothing here is trusted. A letter that is not the one for this turn does not open at the guard; one that was opened before is
refused there. A letter that is not here any more is a refusal that costs nothing, and the study is taken up again.

In contrast to a relay without links, which holds a block at a time, this holds the messages of a turn whole.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from colonnade.errors import ColonnadeError, ProtocolError
from colonnade.protocol import codec
from colonnade.protocol.messages import SHORTEST_DIRECT, Blob, Conclude, Post, Posted, Refused, Ticket
from colonnade.transport.direct import Endpoint
from colonnade.transport.links import Link
from colonnade.transport.mailbox import Mailbox

__all__ = ["PostOffice"]

AT_ONCE = 8
STUDIES = 256
"""Studies whose last turn is remembered; `Mailbox.tick` sees to the letters of others."""


@dataclass(frozen=True)
class _Turn:
    """The last turn of a study, and which letters came directly for it."""

    run: bytes
    turn: int
    tickets: dict[str, Ticket]


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
        self._last: dict[bytes, _Turn] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="colonnade-links")

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
        self._erase_earlier(study, request, tickets)
        if tickets:
            letters = {sender: self._mailbox.find(sender, study, ticket) for sender, ticket in tickets.items()}
            if None in letters.values():
                return codec.encode(Refused.of(LOST))
            whole = {sender: Blob(letter) for sender, letter in letters.items() if letter is not None}
            data = codec.encode(msgspec.structs.replace(request, letters={**request.letters, **whole}))
            if len(data) > codec.LARGEST_FRAME:
                return codec.encode(Refused.of(ProtocolError("The letters of one turn are larger than any message.")))
        return self._hand_over(study, self._ask(data))

    def close(self) -> None:
        """Hang up on everybody."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for link in self._links.values():
            link.close()

    def _ask(self, data: bytes) -> bytes:
        try:
            return self._guard.handle(data)
        except ColonnadeError:
            raise ConnectionAbortedError from None  # the guard is away: the coordinator asks again

    def _erase_earlier(self, study: bytes, request: Post, tickets: dict[str, Ticket]) -> None:
        """Erase what the turn before brought, and at the first turn of a run all that is left of an earlier one.

        A turn that comes again, or late, erases nothing.
        """
        with self._lock:
            last = self._last.get(study)
            late = last is not None and last.turn >= request.turn and last.run == request.run
            if late or (last is not None and request.turn > 0 and last.run != request.run):
                return
            self._last.pop(study, None)
            self._last[study] = _Turn(request.run, request.turn, tickets)
            while len(self._last) > STUDIES:
                del self._last[next(iter(self._last))]
        if request.turn == 0:
            self._mailbox.forget(study)
        elif last is not None:
            for sender, ticket in last.tickets.items():
                if tickets.get(sender) != ticket:
                    self._mailbox.forget(study, sender, ticket)

    def _forget(self, study: bytes) -> None:
        with self._lock:
            self._last.pop(study, None)
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
        gone = dict(zip(going, self._pool.map(lambda to: self._sent(study, to, going[to]), going), strict=True))
        tickets = {to: ticket.blob() for to, ticket in gone.items() if ticket is not None}
        return codec.encode(Posted(letters={**posted.letters, **tickets})) if tickets else reply

    def _sent(self, study: bytes, to: str, letter: Blob) -> Ticket | None:
        ticket = Ticket.of(letter.view)
        return ticket if self._links[to].send(study, ticket, letter.view) else None


LOST = ProtocolError(
    "A letter that came directly to this member is not here any more.", remedy="Start the study again."
)
