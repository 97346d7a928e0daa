"""A site's network side: blocks from the coordinator into the guard's socket, and back. It has no data and no keys of its own
but its certificate's, it reads nothing in what it carries, and it holds at most a block of it each way.
"""

import contextlib
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from colonnade.errors import BadInput, CertificateExpired, ColonnadeError, ProtocolError
from colonnade.party.serving import serve
from colonnade.protocol import agreement
from colonnade.protocol.messages import LARGEST_FRAME
from colonnade.runtime.event_log import Log
from colonnade.service.party_folder import PartyFolder
from colonnade.transport.direct import UnixEndpoint
from colonnade.transport.flare import (
    ANSWER_SECONDS,
    BLOCK,
    COORDINATOR_CELL,
    BlockAnswer,
    BlockCall,
    Line,
    Status,
    Verb,
)
from colonnade.transport.kit import WARNING_DAYS, Certificate, Kit, KitWatch
from colonnade.transport.links import Link, Listener, Mailbox, PostOffice

PATIENCE = 2.0
"""Seconds that one call waits for the guard before it is told to ask again."""

IDLE = 60.0
"""Seconds after which a message that nobody asks about is dropped."""

MOST_MESSAGES = 64
MESSAGES_KEPT = 32
"""Messages that are through and whose last block is kept, should the coordinator not have received it."""

_PREFIX = 8
_DAY = 86_400.0


class RelayedMessage:
    """One message on its way through: a connection to the guard, and where it stands.

    Parameters
    ----------
    path
        The guard's socket.
    total
        How many bytes the message has.
    """

    def __init__(self, path: Path, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._total = total
        self._taken = 0
        self._failed = False
        self._unsent = memoryview(total.to_bytes(_PREFIX, "big"))
        self._reply_total: int | None = None
        self._block_start = 0
        self._block = bytearray()
        self.touched = clock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)  # also while connecting: a guard that takes nobody is away
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise

    def call(self, call: BlockCall) -> BlockAnswer:
        """Take a block, or give one."""
        deadline = self._clock() + PATIENCE
        with self._lock:
            self.touched = self._clock()
            if self._failed:
                return BlockAnswer(call.number, Status.AWAY)
            try:
                if call.verb == Verb.PUT:
                    return self._put(call, deadline)
                return self._give(call.number, call.offset, deadline)
            except (OSError, ValueError):  # the latter where the socket was closed from another thread
                self._failed = True  # whatever was read of the answer is not one
                self.close()
                return BlockAnswer(call.number, Status.AWAY)

    @property
    def through(self) -> bool:
        """Whether the guard's whole answer has been read."""
        return self._full() and self._block_start + len(self._block) == self._reply_total

    def close(self) -> None:
        """Hang up on the guard."""
        self._socket.close()

    def _put(self, call: BlockCall, deadline: float) -> BlockAnswer:
        end = call.offset + len(call.data)
        if call.total != self._total or not (call.offset == self._taken or end <= self._taken):
            return BlockAnswer(call.number, Status.LOST)
        if call.offset == self._taken:
            if not self._flush(deadline):
                return BlockAnswer(call.number, Status.WAIT)  # the block before is not through yet
            self._unsent = memoryview(bytes(call.data))
            self._taken = end
        if not self._flush(deadline):
            return BlockAnswer(call.number, Status.WAIT)
        if end < self._total:
            return BlockAnswer(call.number, Status.MORE)
        return self._give(call.number, 0, deadline)

    def _give(self, number: int, offset: int, deadline: float) -> BlockAnswer:
        if self._taken < self._total:
            return BlockAnswer(number, Status.LOST)
        if offset == self._block_start + len(self._block) and self._full():
            self._block_start, self._block = offset, bytearray()
        if offset != self._block_start:
            return BlockAnswer(number, Status.LOST)
        if not self._fill(deadline):
            return BlockAnswer(number, Status.WAIT)
        assert self._reply_total is not None  # known once anything was read
        return BlockAnswer(number, Status.DATA, self._reply_total, offset, bytes(self._block))

    def _full(self) -> bool:
        """Whether the block that is held is whole."""
        return self._reply_total is not None and len(self._block) == self._size()

    def _size(self) -> int:
        assert self._reply_total is not None
        return min(BLOCK, self._reply_total - self._block_start)

    def _flush(self, deadline: float) -> bool:
        while self._unsent.nbytes:
            if not self._ready(deadline, writing=True):
                return False
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        return True

    def _fill(self, deadline: float) -> bool:
        if self._reply_total is None:
            if not self._read(_PREFIX, deadline):
                return False
            self._reply_total, self._block = int.from_bytes(self._block, "big"), bytearray()
            if not 0 < self._reply_total <= LARGEST_FRAME:
                raise OSError
        whole = self._full() or self._read(self._size(), deadline)
        if self.through:
            self._socket.close()  # a guard's connections are few
        return whole

    def _read(self, count: int, deadline: float) -> bool:
        while len(self._block) < count:
            if not self._ready(deadline, writing=False):
                return False
            data = self._socket.recv(count - len(self._block))
            if not data:
                raise OSError
            self._block += data
        return True

    def _ready(self, deadline: float, *, writing: bool) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT if writing else select.POLLIN)
        return bool(poll.poll(max(deadline - self._clock(), 0) * 1000))


class SiteRelay:
    """A site's end of the line.

    Parameters
    ----------
    site
        The site's name, which is also that of its certificate.
    guard
        The guard's socket.
    address
        The coordinator's, ``"tcp://host:port"``.
    kit
        The site's start-up kit. A new certificate in it is taken over without stopping.
    host
        The name in the coordinator's certificate.
    log
        Where connections and refused messages are noted.
    report
        Shows an error that keeps the site from connecting, once.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        site: str,
        *,
        guard: str | Path,
        address: str,
        kit: str | Path,
        host: str,
        log: Log | None = None,
        report: Callable[[ColonnadeError], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._guard = Path(guard)
        self._clock = clock
        self._report = report
        self._log = log or Log(None, site, "relay")
        self._lock = threading.Lock()
        self._session = b""
        self._messages: dict[int, RelayedMessage] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self._open: Callable[[], Line] = lambda: Line(
            site,
            address,
            self._kit,
            host=host,
            receive=self._receive,
            refused=lambda word: self._log.event("message-refused", reason=word),
            gone=lambda _: self._log.event("disconnected"),
            came=self._came,
            distrusted=self._distrust,
        )
        self._kit = Kit(Path(kit), clock=clock)
        self._line: Line | None = None
        self._watch = KitWatch(self._kit)
        self._warned = 0.0
        self._ends = 0.0
        self.fault: ColonnadeError | None = None
        self._take_kit()

    @property
    def connected(self) -> bool:
        """Whether the coordinator is there."""
        return self._line is not None and self._line.connected(COORDINATOR_CELL)

    # The certificate ----------------------------------------------------------------------------------------------------

    def _take_kit(self) -> None:
        """Connect with the kit as it is, or say why not; a certificate that is over is waited out, any other fault is raised."""
        try:
            self._kit.credentials()
        except CertificateExpired as error:
            self._tell(error)
            return
        self.fault = None
        self._ends = min(one.ends.timestamp() for one in self._kit.certificates().values())
        if self._line is None:
            self._line = self._open()
        else:
            self._line.renew()
            self._log.event("certificate-renewed")

    def _look_at_kit(self) -> None:
        """Take over a new certificate; warn 30 days before one ends, once per day, and say when it has."""
        now, changed = self._clock(), self._watch.changed()
        try:
            if self._line is None or changed:
                self._take_kit()
            elif now >= self._ends and self.fault is None:
                self._kit.credentials()
        except ColonnadeError as error:  # what is there is not ours, or is over
            self._tell(error)
        left = (self._ends - now) / _DAY
        if 0 < left < WARNING_DAYS and now - self._warned > _DAY:
            self._warned = now
            self._log.event("certificate-ends", days=math.floor(left))

    def _came(self, _: str) -> None:
        self.fault = None
        self._log.event("connected", pid=os.getpid())

    def _distrust(self, offered: Certificate | None) -> None:
        """Say why the coordinator was not connected to, if its certificate is the reason."""
        error: ColonnadeError = BadInput(
            "The coordinator's certificate is not of the authority in this site's kit.",
            remedy="Ask who runs it. After a new authority: install the new kit, colonnade party install.",
        )
        if offered is not None:
            try:
                offered.refuse_outside(self._clock(), "the coordinator's server.crt")
            except CertificateExpired as expired:
                error = expired
        self._tell(error)

    def _tell(self, error: ColonnadeError) -> None:
        if self.fault is not None and self.fault.message == error.message:
            return
        self.fault = error
        self._log.event("certificate-refused", code=error.code)
        self._report(error)

    def tick(self) -> None:
        """Look after the certificate, and drop messages that nobody has asked about: a guard's connections are few."""
        self._look_at_kit()
        now = time.monotonic()
        with self._lock:
            for number, message in list(self._messages.items()):
                if now - message.touched > IDLE:
                    self._messages.pop(number).close()

    def close(self) -> None:
        """Hang up on both sides."""
        if self._line is not None:
            self._line.close()
        with self._lock:
            self._end_session(b"")

    def _receive(self, sender: str, data: memoryview) -> None:
        if sender != COORDINATOR_CELL:
            self._log.event("message-refused", reason="sender")
            return
        try:
            call = BlockCall.decode(data)
        except ProtocolError:
            self._log.event("block-refused")
            return
        self.bytes_in += len(call.data)
        answer = self._answer(call)
        self.bytes_out += len(answer.data)
        assert self._line is not None  # the call came by it
        self._line.send(COORDINATOR_CELL, answer.encode())

    def _answer(self, call: BlockCall) -> BlockAnswer:
        if call.total > LARGEST_FRAME:
            self._log.event("block-refused", bytes=call.total)
            return BlockAnswer(call.number, Status.REFUSED)
        try:
            message = self._message(call)
        except OSError:
            self._log.event("guard-away")
            return BlockAnswer(call.number, Status.AWAY)
        answer = BlockAnswer(call.number, Status.LOST) if message is None else message.call(call)
        if answer.status in (Status.AWAY, Status.LOST):
            with self._lock:
                self._messages.pop(call.message, None)
        return answer

    def _message(self, call: BlockCall) -> RelayedMessage | None:
        with self._lock:
            if call.session != self._session:
                self._end_session(call.session)
            message = self._messages.get(call.message)
            if message is None and call.verb == Verb.PUT and call.offset == 0:
                self._make_room()
                message = self._messages[call.message] = RelayedMessage(self._guard, call.total)
            return message

    def _make_room(self) -> None:
        for number in [number for number, message in self._messages.items() if message.through][:-MESSAGES_KEPT]:
            del self._messages[number]
        if len(self._messages) >= MOST_MESSAGES:
            raise OSError

    def _end_session(self, session: bytes) -> None:
        """Drop what the coordinator's last process left half-said."""
        for message in self._messages.values():
            message.close()
        self._messages.clear()
        self._session = session


READY = 30.0
RECHECK = 60.0


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
        self._office = PostOffice(UnixEndpoint(folder.socket, timeout=ANSWER_SECONDS), self.mailbox, self._links)
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
