"""Direct links: sealed letters from one member's relay to another's, past the coordinator.

A link carries letters and nothing else. It is an optimisation: if it fails, the coordinator relays the same bytes. What a
letter is, how it is sealed and when it is accepted is the guards' affair and is the same with links and without
(`colonnade.secure.keys`): guards do not know that there are links.

*Who connects.* The relay, which has the network. The guard has none. The relay takes letters out of its guard's answer, hands
them over, and puts tickets in their place (`PostOffice`).

*Where to.* To the address that stands beside a member's name in the papers that every member signed. No plan, no message and no
coordinator names an address. So a coordinator cannot have a party connect to a host of its choice. NVIDIA FLARE's own ad-hoc
connections are not used for that reason: there a cell learns from messages where another one listens.

*Who is there.* Both ends show the certificate that they connect to the coordinator with, over TLS 1.3. Each end checks that an
authority in its own kit made it, for a site and not for the coordinator, that it holds today, and that the name in it is that
of the member (`Kit.recognise`). The relay has no identity key, and needs none: an attacker with false certificates gets sealed
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
has so much room per member (`Mailbox`). A certificate is looked at again while a link lasts, by the kit as
it is then. None of these sizes and times depends on rows: the length of a letter follows from the plan.

*The mailbox* holds letters that came directly, sealed, until the coordinator gives the turn that they are for. They lie in
files and not in memory: a relay that is killed and started again still has them, as the guard beside it still has its run. Each
is named by study, sender and hash. The same letter again is the same file, so that nothing is kept twice, and a sender can
neither replace nor reach what another one sent.

All peers together may fill ``room`` bytes, each of them an equal part, with a bounded number of letters, and nobody the
last free `SPARE_BYTES` of the disk, where the ledger is too. A short letter counts as `LEAST_COUNTED` bytes, because it takes
a file. A letter that does not fit is not taken, and its sender has the coordinator relay it. To take a letter, or to look for
old ones, is as much work with a full mailbox as with an empty one.

*Erasure.* The letters of a turn are erased once the guard has answered it (`PostOffice`), all letters of a
study when a run begins or the study is concluded, any letter after an hour (`Mailbox.tick`), and the whole folder when the
member is started or stopped: its guard then has no run under way (`erase`).
"""

import contextlib
import enum
import hashlib
import math
import shutil
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.protocol import messages
from colonnade.protocol.agreement import address_of
from colonnade.protocol.messages import (
    LARGEST_FRAME,
    LARGEST_SEALED,
    SHORTEST_DIRECT,
    Blob,
    Conclude,
    Post,
    Posted,
    Refused,
    Ticket,
)
from colonnade.runtime.event_log import Log
from colonnade.transport.direct import Endpoint
from colonnade.transport.kit import Kit

ROOM = 4 * LARGEST_FRAME
"""Bytes: what one turn may bring is at most one frame, and a few studies run side by side."""

SPARE_BYTES = 1 << 30
LETTERS = 1_024
"""Letters of one peer. In each study under way it has one or two here, and there are some tens of studies."""

LEAST_COUNTED = 4_096
LONGEST_WAIT = 3_600.0
"""Seconds that a letter waits for its turn: as long as a guard may work on one answer."""

Name = tuple[str, str, str]


@dataclass
class IncomingLetter:
    """A letter that is being written. It is kept when all of it has come, and else removed."""

    file: BinaryIO
    whole: bool = False


@dataclass(frozen=True)
class _Held:
    """A letter that is here: its length, and since when."""

    size: int
    since: float


@dataclass
class _Share:
    """What one peer has filled: letters, those on their way among them, and bytes as they count."""

    letters: int = 0
    filled: int = 0

    def has_room(self, size: int, each: int) -> bool:
        return self.letters < LETTERS and self.filled + max(size, LEAST_COUNTED) <= each

    def add(self, size: int) -> None:
        self.letters += 1
        self.filled += max(size, LEAST_COUNTED)

    def remove(self, size: int) -> None:
        self.letters -= 1
        self.filled -= max(size, LEAST_COUNTED)


class Mailbox:
    """What peers have sent.

    Parameters
    ----------
    folder
        Where the letters lie, for this user alone.
    peers
        Who may send.
    room
        How many bytes all of them may fill.
    spare
        How many bytes of the disk stay free.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        folder: Path,
        peers: Collection[str],
        *,
        room: int = ROOM,
        spare: int = SPARE_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._each = room // max(len(peers), 1)
        self._spare = spare
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = iter(range(1 << 62))
        self._shares = {peer: _Share() for peer in peers}
        self._coming = 0
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        self._letters: dict[Name, _Held] = {}  # the oldest first
        for since, path in sorted((path.lstat().st_mtime, path) for path in folder.iterdir()):
            name = tuple(path.name.split("."))
            if len(name) == 3 and name[1] in self._shares and path.is_file() and not path.is_symlink():
                self._letters[name[0], name[1], name[2]] = held = _Held(path.stat().st_size, since)
                self._shares[name[1]].add(held.size)
            else:  # half a letter, one of somebody who is no peer any more, or nothing of ours
                erase(path)
        self.tick()

    def __len__(self) -> int:
        return len(self._letters)

    def holds(self, sender: str, study: bytes, ticket: Ticket) -> bool:
        """Return whether a letter is here."""
        held = self._letters.get(_name(sender, study, ticket))
        return held is not None and held.size == ticket.size

    @contextlib.contextmanager
    def place(self, sender: str, study: bytes, ticket: Ticket) -> Iterator[IncomingLetter | None]:
        """Make room for a letter, and keep it if it came whole; ``None`` where there is no room."""
        if not self._reserve(sender, ticket.size):
            yield None
            return
        part = self._folder / f"part-{next(self._numbers)}"
        is_kept = False
        try:
            with part.open("xb") as file:
                part.chmod(0o600)
                place = IncomingLetter(file)
                yield place
            if place.whole:
                is_kept = self._keep(part, _name(sender, study, ticket), ticket.size)
        finally:
            part.unlink(missing_ok=True)
            with self._lock:
                self._coming -= ticket.size
                if not is_kept:
                    self._shares[sender].remove(ticket.size)

    def find(self, sender: str, study: bytes, ticket: Ticket) -> bytes | None:
        """Return a letter, or nothing."""
        if not self.holds(sender, study, ticket):
            return None
        try:
            return self._path(_name(sender, study, ticket)).read_bytes()
        except FileNotFoundError:
            return None

    def forget(self, study: bytes, sender: str | None = None, ticket: Ticket | None = None) -> None:
        """Erase all letters of a study, or one of them."""
        with self._lock:
            if sender is not None and ticket is not None:
                self._erase(_name(sender, study, ticket))
                return
            for name in [name for name in self._letters if name[0] == study.hex()]:
                self._erase(name)

    def tick(self) -> None:
        """Erase letters that nobody has asked for. They are in order of age, so that only those that go are looked at."""
        with self._lock:
            while self._letters:
                name, oldest = next(iter(self._letters.items()))
                if self._clock() - oldest.since <= LONGEST_WAIT:
                    return
                self._erase(name)

    def _reserve(self, sender: str, size: int) -> bool:
        free = shutil.disk_usage(self._folder).free
        with self._lock:
            share = self._shares.get(sender)
            if share is None or not share.has_room(size, self._each) or self._coming + size > free - self._spare:
                return False
            share.add(size)
            self._coming += size
            return True

    def _keep(self, part: Path, name: Name, size: int) -> bool:
        """Put a letter in its place; return False where it has come on another connection meanwhile."""
        with self._lock:
            if name in self._letters:
                return False
            part.replace(self._path(name))
            self._letters[name] = _Held(size, self._clock())
            return True

    def _erase(self, name: Name) -> None:
        held = self._letters.pop(name, None)
        if held is not None:
            self._shares[name[1]].remove(held.size)
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: Name) -> Path:
        return self._folder / ".".join(name)


def _name(sender: str, study: bytes, ticket: Ticket) -> Name:
    return study.hex(), sender, ticket.digest.hex()


def erase(path: Path) -> None:
    """Remove a mailbox, or whatever is there, as far as that goes: what cannot be removed keeps no member from serving."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


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


class LinkAnswer(enum.IntEnum):
    """What a receiver says. Constants only."""

    SEND = 1
    KEPT = 2
    NO = 3


class _Security:
    """How a link is secured, by the kit as it is now. To read a kit takes longer than a handshake: it is read when it changes.

    OpenSSL itself checks every caller. It would not have a site's certificate at the end that listens, because only a
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
    """Read a number of bytes; fewer where the other side has ended."""
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
        if answer == LinkAnswer.SEND:
            for start in range(0, len(letter), PIECE):
                self._allow(connection, deadline)
                connection.sendall(letter[start : start + PIECE])
            self.bytes_out += len(letter)
            self._allow(connection, deadline)
            answer = self._answer(connection)
            if answer != LinkAnswer.KEPT:
                raise ConnectionError
        return answer == LinkAnswer.KEPT

    def _allow(self, connection: ssl.SSLSocket, deadline: float) -> None:
        """Give the next piece the time that is left; a deadline that was looked at between pieces alone would be none."""
        left = deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(min(left, SILENCE))

    def _answer(self, connection: ssl.SSLSocket) -> LinkAnswer:
        found = _read(connection, 1)
        if not found or found[0] not in set(LinkAnswer):
            raise ConnectionError
        return LinkAnswer(found[0])


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
        Our own certificate; one that was renewed is shown to the next caller.
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
        _hang_up(self._socket)  # wakes the thread that waits for a caller
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
            connection.sendall(bytes([LinkAnswer.KEPT]))
            return True
        caller.deadline = time.monotonic() + _seconds_for(size)
        connection.settimeout(SILENCE)
        with self._mailbox.place(peer, study, ticket) as place:
            if place is None:
                connection.sendall(bytes([LinkAnswer.NO]))
                caller.deadline = None
                return True
            connection.sendall(bytes([LinkAnswer.SEND]))
            if Ticket(size, self._write(connection, place, size)) != ticket:
                raise ConnectionError
            place.whole = True
        self.bytes_in += size
        caller.deadline = None
        connection.sendall(bytes([LinkAnswer.KEPT]))
        return True

    def _check_again(self, caller: _Caller, peer: str) -> None:
        """Refuse a caller whose certificate does not hold any more, or not by the kit as it is now."""
        now, connection = time.monotonic(), caller.connection
        if now - caller.checked > RECHECK:
            if not isinstance(connection, ssl.SSLSocket) or self._security.name(connection) != peer:
                raise PermissionError
            caller.checked = now

    def _write(self, connection: socket.socket, place: IncomingLetter, size: int) -> bytes:
        """Write a number of bytes as they come; return their hash."""
        hashed, left = hashlib.sha256(), size
        while left:
            piece = connection.recv(min(left, PIECE))
            if not piece:
                raise ConnectionError
            hashed.update(piece)
            place.file.write(piece)
            left -= len(piece)
        return hashed.digest()


TURNS_AT_ONCE = 2
"""Turns that are put together and held whole: one at the guard, and the next."""

STUDIES = 256
"""Studies whose run is remembered; `Mailbox.tick` sees to the letters of others."""


class PostOffice:
    """A guard as its relay reaches it where members have direct links: an endpoint, a request in and a reply out.

    * A turn (`Post`) whose letters came directly has tickets in their place. The letters are put back, and the guard is given the
      very bytes that it would have been given by a coordinator that relays them.
    * An answer (`Posted`) has letters to peers. Each that a peer has kept is replaced by its ticket. The others stay, to be
      relayed.

    Nothing here is trusted. A letter that is not the one for this turn does not open at the guard; one that was opened before is
    refused there. The letters of a turn are erased once the guard has answered, because a turn that is asked again it answers
    from memory, whatever comes with it (`colonnade.conversations.endpoint.Runs`). So a turn whose letters are gone goes to the
    guard all the same: it has answered it before, or refuses it, and the study is taken up again.

    A relay without links holds a block at a time. This holds the messages of a turn whole, and of a few turns at most: the guard
    answers one after the other. Letters go out in threads of the turn's own, so that a slow peer keeps no other turn waiting.

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
            request = messages.decode_request(data)
        except ColonnadeError:
            return self._ask(data)  # what is no request is for the guard to refuse
        if isinstance(request, Conclude):
            reply = self._ask(data)
            self._forget(messages.digest(request.plan))
            return reply
        if not isinstance(request, Post):
            return self._ask(data)
        study = messages.digest(request.plan)
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
        if len(data) + sum(ticket.size for ticket in tickets.values()) > messages.LARGEST_FRAME:
            return messages.encode(Refused.of(ProtocolError("The letters of one turn are larger than any message.")))
        with self._turns:
            found = {sender: self._mailbox.find(sender, study, ticket) for sender, ticket in tickets.items()}
            letters = {sender: Blob(letter) for sender, letter in found.items() if letter is not None}
            is_lost = len(letters) < len(tickets)
            whole = messages.encode(msgspec.structs.replace(request, letters={**request.letters, **letters}))
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
            posted = messages.decode_reply(reply)
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
        return messages.encode(Posted(letters={**posted.letters, **tickets})) if tickets else reply

    def _sent(self, study: bytes, to: str, letter: Blob) -> Ticket | None:
        ticket = Ticket.of(letter.view)
        return ticket if self._links[to].send(study, ticket, letter.view) else None


def _say_lost(reply: bytes) -> bytes:
    """Return a guard's answer to a turn without some of its letters; where it refuses, with the reason it cannot know."""
    found = messages.decode_reply(reply)
    if not isinstance(found, Refused) or found.code != LOST.code:
        return reply
    return messages.encode(msgspec.structs.replace(found, message=LOST.message, remedy=LOST.remedy))


LOST = ProtocolError(
    "A letter that came directly to this member is not here any more.", remedy="Start the study again."
)
