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

import contextlib
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.party.serving import serve
from colonnade.protocol import agreement, codec
from colonnade.protocol.messages import SHORTEST_DIRECT, Blob, Conclude, Post, Posted, Refused, Ticket
from colonnade.runtime.event_log import Log
from colonnade.service import toml_parts
from colonnade.service.party_folder import PartyFolder
from colonnade.transport.direct import Endpoint, UnixEndpoint
from colonnade.transport.links import Link, Listener
from colonnade.transport.mailbox import Mailbox

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


READY = 30.0
RECHECK = 60.0
LONGEST = 3_600.0
"""Seconds that a guard may work on one answer, as for a coordinator."""


def where_to_listen(folder: PartyFolder, chosen: str | None = None) -> str:
    """Return what a member listens on for its peers; refuse where its policy does, or the papers have no address of it.

    Parameters
    ----------
    folder
        The member's folder.
    chosen
        Another address than the one in the papers, for a machine that is reached by a name that is not its own.
    """
    rules = toml_parts.parse(folder.path / "policy.toml").get("policy", {}) if folder.role == "data" else {}
    if toml_parts.as_table(rules, "policy").get("direct_links", True) is not True:
        raise BadInput(
            "This party's policy forbids direct links.",
            remedy="Serve it without --direct, or change direct_links in policy.toml.",
        )
    addresses = agreement.read_agreement(folder.papers).direct_addresses()
    if folder.name not in addresses:
        raise BadInput(
            "The papers have no address at which the other members reach this one.",
            remedy='Write direct = "HOST:PORT" into member.toml, and have new papers made from the new card.',
        )
    listen = chosen or addresses[folder.name]
    agreement.address_of(listen)
    return listen


class MemberLinks:
    """Everything about links in a relay's process.

    Parameters
    ----------
    folder
        The member's folder: papers, kit and mail are read, and nothing else.
    listen
        What to listen on, ``"host:port"``.
    log
        The relay's log.
    """

    def __init__(self, folder: PartyFolder, listen: str, log: Log) -> None:
        addresses = agreement.read_agreement(folder.papers).direct_addresses()
        self._papers = folder.papers
        self._looked = time.monotonic()
        peers = {name: address for name, address in addresses.items() if name != folder.name}
        self.mailbox = Mailbox(folder.path / "mail", peers)
        self._links = {name: Link(name, address, folder.kit, log) for name, address in peers.items()}
        self._listener = Listener(listen, folder.kit, peers, self.mailbox, log)
        self._office = PostOffice(UnixEndpoint(folder.socket, timeout=LONGEST), self.mailbox, self._links)
        self._socket = folder.path / "post.sock"
        ready = threading.Event()
        threading.Thread(
            target=serve, args=(self._office, self._socket), kwargs={"ready": ready.set}, daemon=True
        ).start()
        if not ready.wait(READY):
            raise BadInput(
                f"{self._socket.name} cannot be made in this member's folder.",
                remedy="Give the member a folder with a shorter path.",
            )

    @property
    def socket(self) -> Path:
        """What the relay connects to in place of the guard's socket."""
        return self._socket

    @property
    def bytes_in(self) -> int:
        """Bytes of letters that came directly."""
        return self._listener.bytes_in

    @property
    def bytes_out(self) -> int:
        """Bytes of letters that went directly."""
        return sum(link.bytes_out for link in self._links.values())

    def tick(self) -> None:
        """Erase old mail; from time to time, see from the papers who is still a member."""
        self.mailbox.tick()
        now = time.monotonic()
        if now - self._looked > RECHECK:
            self._looked = now
            with contextlib.suppress(ColonnadeError):  # papers that are being replaced, and do not hold yet
                self._listener.keep_only(agreement.read_agreement(self._papers).check().direct_addresses())

    def close(self) -> None:
        """Stop listening, and hang up on everybody."""
        self._listener.close()
        self._office.close()
