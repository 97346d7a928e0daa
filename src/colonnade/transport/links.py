"""Direct links: sealed letters from one member's relay to another's, past the coordinator.

A link carries letters and nothing else. It is an optimisation: if it fails, the coordinator relays the same bytes. What a letter
is, how it is sealed and when it is accepted is the guards' affair and is the same with links and without
(`colonnade.secure.mail`): guards do not know that there are links.

*Who connects.* The relay, which has the network. The guard has none. The relay takes letters out of its guard's answer, hands
them over, and puts tickets in their place (`colonnade.service.post_office`).

*Where to.* To the address that stands beside a member's name in the papers that every member signed. No plan, no message and no
coordinator names an address. So a coordinator cannot have a party connect to a host of its choice. NVIDIA FLARE's own ad-hoc
connections are not used for that reason: there a cell learns from messages where another one listens.

*Who is there.* Both ends show the certificate that they connect to the coordinator with, over TLS 1.3. Each end checks that an
authority in its own kit made it, for a site and not for the coordinator, that it holds today, and that the name in it is that of
the member (`Kit.recognise`). The relay has no identity key, and needs none: whoever makes false certificates gets sealed
letters, which a coordinator gets anyway, and can fill that member's part of a mailbox.

*What is said.* ::

    sender                                            receiver
    study, length, hash of a letter           ->
                                              <-      send, kept (it is here already), or no (there is no room)
    the letter                                ->
                                              <-      kept

The sender tells its coordinator that a letter has gone only once it is kept. A link that is hung up on is tried once more on a
new connection. One that fails rests for some seconds, one that is slow for longer each time, and meanwhile everything is
relayed. So it is where another study's letter is on the way for more than some seconds. The same letter may come twice, and is
one.

*Bounds.* A stranger has ten seconds to show a certificate, and there are a few strangers at most: a new one takes the place of
the oldest, and the log has one line per minute for all of them. A member has two connections at most, the newest ones. A letter
has a deadline of a minute at most, and is neither shorter than `SHORTEST_DIRECT` nor longer than `LARGEST_SEALED`. A mailbox
has so much room per member (`colonnade.transport.mailbox`). A certificate is looked at again while a link lasts, by the kit as
it is then. None of these sizes and times depends on rows: the length of a letter follows from the plan.
"""

import contextlib
import enum
import hashlib
import math
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from colonnade.errors import BadInput, ColonnadeError
from colonnade.protocol.agreement import address_of
from colonnade.protocol.messages import LARGEST_SEALED, SHORTEST_DIRECT, Ticket
from colonnade.runtime.event_log import Log
from colonnade.transport.kit import Kit
from colonnade.transport.mailbox import Mailbox, Place

DIAL = 5.0
"""Seconds to reach a peer, or to wait for another study's letter to it; after that the coordinator relays."""
REST = 15.0
"""Seconds that a link which failed is left alone."""
LONGEST_REST = 600.0
"""Seconds that one which was slow again and again is left alone."""
HANDSHAKE = 10.0
"""Seconds that somebody who connects has to show a certificate."""
STRANGERS = 16
CONNECTIONS = 2
"""Connections of one peer: one, and a new one while the old is not yet known to be dead."""
SILENCE = 20.0
GRACE = 10.0
LEAST_RATE = 1 << 23
"""Bytes per second: a letter that comes more slowly is given up, and relayed."""
LONGEST_TRANSFER = 60.0
"""Seconds for a letter, however long it is: no study waits longer for a slow link before the coordinator relays."""
RECHECK = 60.0
"""Seconds after which the certificate at the other end is looked at again."""
LOG_PAUSE = 60.0
"""Seconds between two lines of the log about refusals of one peer, or of all strangers."""
PIECE = 1 << 20

_MARK = b"clndlnk\x01"
_HEAD = struct.Struct(">8s32sQ32s")


class Answer(enum.IntEnum):
    """What a receiver says. Constants only."""

    SEND = 1
    KEPT = 2
    NO = 3


class _Security:
    """How a link is secured, by the kit as it is now. To read a kit takes longer than a handshake: it is read when it changes.

    OpenSSL itself checks whoever connects. It would not have a site's certificate at the end that listens, because only a
    coordinator's is made for that. There the signature over the handshake is checked, and `Kit.recognise` checks the certificate.
    """

    def __init__(self, kit: Kit, *, listening: bool) -> None:
        self.kit = kit
        self._listening = listening
        self._lock = threading.Lock()
        self._mark = ""
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Return the kit's certificate and key, and the authorities that it trusts."""
        with self._lock:
            mark = self.kit.mark()
            if self._context is None or mark != self._mark:
                self._context, self._mark = self._read(), mark
            return self._context

    def _read(self) -> ssl.SSLContext:
        files = self.kit.credentials()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if self._listening else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED if self._listening else ssl.CERT_NONE
        context.load_verify_locations(files["ca_cert"])
        context.load_cert_chain(files["client_cert"], files["client_key"])
        if self._listening:
            context.num_tickets = 0  # every connection shows its certificate: none is taken up again without
        return context

    def name(self, connection: ssl.SSLSocket) -> str:
        """Return who is at the other end, or refuse."""
        return self.kit.recognise(connection.getpeercert(binary_form=True) or b"")


def _hang_up(connection: socket.socket) -> None:
    """End a connection that another thread may be reading from. That of an `ssl.SSLSocket` would go on unencrypted."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _read(connection: socket.socket, count: int) -> bytes:
    """Read so many bytes; fewer where the other side has ended."""
    found = bytearray()
    while len(found) < count and (more := connection.recv(count - len(found))):
        found += more
    return bytes(found)


def _seconds_for(size: int) -> float:
    return min(GRACE + size / LEAST_RATE, LONGEST_TRANSFER)


class Link:
    """The way to one peer: a connection that is opened when there is a letter, and kept.

    Parameters
    ----------
    peer
        The member's name.
    address
        Where it listens, ``"host:port"``, as the signed papers say.
    kit
        Our own certificate.
    log
        Where it is noted that a link has opened or failed.
    clock
        A monotonic clock.
    """

    def __init__(
        self, peer: str, address: str, kit: Kit, log: Log, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.peer = peer
        self._where = address_of(address)
        self._security = _Security(kit, listening=False)
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._connection: ssl.SSLSocket | None = None
        self._checked = self._rests_until = clock()
        self._rest = REST
        self._ended = False
        self.bytes_out = 0

    def send(self, study: bytes, ticket: Ticket, letter: bytes | memoryview) -> bool:
        """Hand a letter over; return whether the peer has kept it. If not, it is to be relayed."""
        if not self._lock.acquire(timeout=DIAL):
            return False  # the letter of another study is on its way, slowly
        try:
            while not self._ended and self._clock() >= self._rests_until:
                known = self._connection is not None
                try:
                    kept = self._hand_over(self._connected(), study, ticket, memoryview(letter))
                except (OSError, ColonnadeError) as error:
                    self._drop()
                    if isinstance(error, TimeoutError):
                        self._leave_alone(self._rest)
                        self._rest = min(2 * self._rest, LONGEST_REST)
                    elif not known:
                        self._leave_alone(REST)
                else:
                    self._rest = REST
                    return kept
            return False
        finally:
            self._lock.release()

    def close(self) -> None:
        """Hang up, also on a letter that is on its way."""
        self._ended = True
        connection = self._connection
        if connection is not None:
            _hang_up(connection)
        with self._lock:
            self._drop()

    def _leave_alone(self, seconds: float) -> None:
        self._rests_until = self._clock() + seconds
        self._log.event("link-failed", party=self.peer, seconds=seconds)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> ssl.SSLSocket:
        """Return the connection, if its other end is still who it was; else a new one."""
        if self._connection is None:
            return self._dial()
        if self._clock() - self._checked > RECHECK:
            self._recognise(self._connection)
        return self._connection

    def _recognise(self, connection: ssl.SSLSocket) -> None:
        if self._security.name(connection) != self.peer:
            raise PermissionError
        self._checked = self._clock()

    def _dial(self) -> ssl.SSLSocket:
        context = self._security.context()
        plain = socket.create_connection(self._where, timeout=DIAL)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found = context.wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
        try:
            self._recognise(found)
        except BaseException:
            found.close()
            raise
        self._connection = found
        self._log.event("link-opened", party=self.peer)
        return found

    def _hand_over(self, connection: ssl.SSLSocket, study: bytes, ticket: Ticket, letter: memoryview) -> bool:
        deadline = self._clock() + _seconds_for(ticket.size)
        self._allow(connection, deadline)
        connection.sendall(_HEAD.pack(_MARK, study, ticket.size, ticket.digest))
        answer = self._answer(connection)
        if answer == Answer.SEND:
            for start in range(0, len(letter), PIECE):
                self._allow(connection, deadline)
                connection.sendall(letter[start : start + PIECE])
            self.bytes_out += len(letter)
            self._allow(connection, deadline)
            answer = self._answer(connection)
            if answer != Answer.KEPT:
                raise ConnectionError
        return answer == Answer.KEPT

    def _allow(self, connection: ssl.SSLSocket, deadline: float) -> None:
        """Give the next piece the time that is left; a deadline that was looked at between pieces alone would be none."""
        left = deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(min(left, SILENCE))

    def _answer(self, connection: ssl.SSLSocket) -> Answer:
        found = _read(connection, 1)
        if not found or found[0] not in set(Answer):
            raise ConnectionError
        return Answer(found[0])


@dataclass(eq=False)
class _Caller:
    """Somebody who has connected: the connection, until when it has to have done something, who it is, and when that was seen."""

    connection: socket.socket
    deadline: float | None
    peer: str = ""
    since: float = field(default_factory=time.monotonic)
    checked: float = field(default_factory=time.monotonic)


class _Refusals:
    """Refusals, counted, and said in one line per minute for each peer and for all strangers: no caller fills the disk."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._unsaid: dict[str, int] = {}
        self._said: dict[str, float] = {}

    def note(self, peer: str) -> None:
        """Count one, of a peer or of somebody who did not come to be one."""
        with self._lock:
            now = time.monotonic()
            count = self._unsaid[peer] = self._unsaid.get(peer, 0) + 1
            if now - self._said.get(peer, -math.inf) < LOG_PAUSE:
                return
            self._unsaid[peer], self._said[peer] = 0, now
        self._log.event("link-refused", party=peer or None, times=count)


class Listener:
    """Where peers connect to.

    Parameters
    ----------
    address
        What to listen on, ``"host:port"``.
    kit
        Our own certificate; one that was renewed is shown to whoever connects next.
    peers
        Who may send letters: members in the papers.
    mailbox
        Where letters are put.
    log
        Where it is noted who has connected, and that somebody was refused.
    """

    def __init__(self, address: str, kit: Kit, peers: Collection[str], mailbox: Mailbox, log: Log) -> None:
        self._security = _Security(kit, listening=True)
        self._peers = frozenset(peers)
        self._mailbox = mailbox
        self._refusals = _Refusals(log)
        self._lock = threading.Lock()
        self._callers: list[_Caller] = []
        self._ended = False
        self.bytes_in = 0
        try:
            self._socket = socket.create_server(address_of(address), backlog=64)
        except OSError:
            raise BadInput(
                f"This member cannot listen at {address} for direct links.",
                remedy="End the other process on this port, or name an address of this machine: --direct-listen HOST:PORT.",
            ) from None
        self._socket.settimeout(0.5)
        self._thread = threading.Thread(target=self._accept, name="colonnade-links", daemon=True)
        self._thread.start()

    def keep_only(self, peers: Collection[str]) -> None:
        """Take letters from these alone from now on, and hang up on every other caller, should it still be connected."""
        with self._lock:
            self._peers &= frozenset(peers)
            for caller in self._callers:
                if caller.peer and caller.peer not in self._peers:
                    _hang_up(caller.connection)

    def close(self) -> None:
        """Stop listening, and hang up on everybody."""
        self._ended = True
        _hang_up(self._socket)  # wakes whoever waits for a caller
        self._thread.join()
        self._socket.close()
        with self._lock:
            for caller in self._callers:
                _hang_up(caller.connection)

    def _accept(self) -> None:
        while not self._ended:
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                connection = None
            except OSError:  # no descriptor is left, the caller has gone already, or we listen no more
                time.sleep(0.05)
                connection = None
            if connection is not None:
                self._take(connection)
            self._end_late_ones()

    def _take(self, connection: socket.socket) -> None:
        caller = _Caller(connection, time.monotonic() + HANDSHAKE)
        with self._lock:
            strangers = [one for one in self._callers if not one.peer]
            if len(strangers) >= STRANGERS:
                _hang_up(min(strangers, key=lambda one: one.since).connection)
            self._callers.append(caller)
        try:
            threading.Thread(target=self._serve, args=(caller,), name="colonnade-links", daemon=True).start()
        except RuntimeError:  # no thread is left on this machine
            self._leave(caller)

    def _end_late_ones(self) -> None:
        now = time.monotonic()
        with self._lock:
            for caller in self._callers:
                if caller.deadline is not None and now > caller.deadline:
                    _hang_up(caller.connection)

    def _leave(self, caller: _Caller) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._callers.remove(caller)
        caller.connection.close()

    def _serve(self, caller: _Caller) -> None:
        """Take letters from one caller until it hangs up, or does anything else than sending letters."""
        try:
            peer = self._meet(caller)
            while self._letter(caller, peer):
                pass
        except Exception:  # noqa: BLE001  # whatever a caller brings about ends its connection, and nothing more
            self._refusals.note(caller.peer)
        finally:
            self._leave(caller)

    def _meet(self, caller: _Caller) -> str:
        caller.connection.settimeout(HANDSHAKE)
        caller.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        secured = self._security.context().wrap_socket(
            caller.connection, server_side=True, do_handshake_on_connect=False
        )
        caller.connection = secured
        secured.do_handshake()
        peer = self._security.name(secured)
        with self._lock:
            if peer not in self._peers:
                raise PermissionError
            caller.peer, caller.deadline = peer, None
            own = sorted((one for one in self._callers if one.peer == peer), key=lambda one: one.since)
            for older in own[:-CONNECTIONS]:
                _hang_up(older.connection)
        return peer

    def _letter(self, caller: _Caller, peer: str) -> bool:
        """Take one letter; return False where the caller has hung up."""
        connection = caller.connection
        connection.settimeout(None)
        head = _read(connection, _HEAD.size)
        if not head:
            return False
        if len(head) < _HEAD.size:
            raise ConnectionError
        mark, study, size, digest = _HEAD.unpack(head)
        if mark != _MARK or not SHORTEST_DIRECT <= size <= LARGEST_SEALED:
            raise ConnectionError
        self._check_again(caller, peer)
        ticket = Ticket(size, digest)
        if self._mailbox.holds(peer, study, ticket):
            connection.sendall(bytes([Answer.KEPT]))
            return True
        caller.deadline = time.monotonic() + _seconds_for(size)
        connection.settimeout(SILENCE)
        with self._mailbox.place(peer, study, ticket) as place:
            if place is None:
                connection.sendall(bytes([Answer.NO]))
                caller.deadline = None
                return True
            connection.sendall(bytes([Answer.SEND]))
            if Ticket(size, self._write(connection, place, size)) != ticket:
                raise ConnectionError
            place.whole = True
        self.bytes_in += size
        caller.deadline = None
        connection.sendall(bytes([Answer.KEPT]))
        return True

    def _check_again(self, caller: _Caller, peer: str) -> None:
        """Refuse a caller whose certificate does not hold any more, or not by the kit as it is now."""
        now, connection = time.monotonic(), caller.connection
        if now - caller.checked > RECHECK:
            if not isinstance(connection, ssl.SSLSocket) or self._security.name(connection) != peer:
                raise PermissionError
            caller.checked = now

    def _write(self, connection: socket.socket, place: Place, size: int) -> bytes:
        """Write so many bytes as they come; return their hash."""
        hashed, left = hashlib.sha256(), size
        while left:
            piece = connection.recv(min(left, PIECE))
            if not piece:
                raise ConnectionError
            hashed.update(piece)
            place.file.write(piece)
            left -= len(piece)
        return hashed.digest()
