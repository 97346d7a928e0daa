"""Parties on other machines, over NVIDIA FLARE: the same bytes each way, in parallel, asked again until they are answered.

A party is away when its relay, or the guard behind it, is not there; it may be away for ``patience`` seconds, whatever the
reason, before a round fails. A guard that is at work may take as long as it needs (`ANSWER_SECONDS`).

FLARE's Cell is used as a pipe for opaque bytes, in blocks (extra ``colonnade[network]``).

*Blocks.* One message crosses the network block by block, each asked for and answered, so that a relay never holds a whole one::

    coordinator                         relay
    put(message, offset 0, bytes)  ->
                                   <-   more
    put(message, offset n, bytes)  ->                            the last block is in: the guard has the message
                                   <-   data(offset 0, bytes)    or wait: nothing yet, ask again
    get(message, offset m)         ->
                                   <-   data(offset m, bytes)

Every block may be sent again: a relay answers a block that it has seen as it did before. A block of a message that it does not
know is answered with ``lost``; the message then starts again under another number, with the same bytes. A guard that receives the
same bytes twice answers once.

*Cell.* Both directions are one-way messages on one channel, so that one check sees every message there is. It lets through raw
bytes on our channel, addressed to us, from the cell that owns the connection's certificate. Everything else is dropped before
FLARE decodes it: FLARE's own object encoding, its other channels, messages to be passed on to a third cell, replies. Callbacks
never raise, because FLARE would send the text of an exception to the caller.
"""

import enum
import functools
import itertools
import logging
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509

from colonnade.errors import BadInput, ColonnadeError, PartyAway, ProtocolError
from colonnade.protocol.agreement import COORDINATOR
from colonnade.protocol.messages import LARGEST_FRAME
from colonnade.runtime.event_log import Log
from colonnade.transport.kit import Certificate, Kit, KitWatch, KnownCertificates

BLOCK = 1 << 20
"""Bytes of a message that travel at a time: large enough for the line's full rate, small beside any process."""

_MARK = b"clnd\x01"
_CALL = struct.Struct(">5sQB16sQQQ")
_ANSWER = struct.Struct(">5sQBQQ")

LARGEST_BLOCK = BLOCK + max(_CALL.size, _ANSWER.size)


class Verb(enum.IntEnum):
    """What a coordinator wants of a relay."""

    PUT = 1
    GET = 2


class Status(enum.IntEnum):
    """What a relay says. Constants only: nothing that failed on its side is described."""

    MORE = 1
    DATA = 2
    WAIT = 3
    LOST = 4
    AWAY = 5
    REFUSED = 6


@dataclass(frozen=True)
class BlockCall:
    """One block on its way to a relay, or a question for one.

    Parameters
    ----------
    number
        Which call this is; the answer carries it.
    verb
        Put or get.
    session
        16 random bytes per process of the coordinator: a new value ends what the last process left unfinished.
    message
        The number of the message in this session.
    total
        How many bytes the message has.
    offset
        Where this block starts: in the message for put, in its reply for get.
    data
        The block; empty for get.
    """

    number: int
    verb: Verb
    session: bytes
    message: int
    total: int
    offset: int
    data: bytes | memoryview = b""

    def encode(self) -> bytes:
        """Return the call as bytes."""
        head = _CALL.pack(_MARK, self.number, self.verb, self.session, self.message, self.total, self.offset)
        return b"".join((head, self.data))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> "BlockCall":
        """Read a call, or refuse."""
        view = _checked(data, _CALL)
        mark, number, verb, session, message, total, offset = _CALL.unpack(view[: _CALL.size])
        if mark != _MARK or verb not in set(Verb):
            raise ProtocolError("These bytes are not a block of this version of the protocol.")
        body = view[_CALL.size :]
        if verb == Verb.PUT and not (offset + len(body) <= total and bool(len(body)) == bool(total)):
            raise ProtocolError("The block lies outside its message.")
        if verb == Verb.GET and len(body):
            raise ProtocolError("A request for a block must not carry one.")
        return cls(number, Verb(verb), session, message, total, offset, body)


@dataclass(frozen=True)
class BlockAnswer:
    """What a relay says to one call; ``total`` and ``offset`` describe the reply where there is a block of it."""

    number: int
    status: Status
    total: int = 0
    offset: int = 0
    data: bytes | memoryview = b""

    def encode(self) -> bytes:
        """Return the answer as bytes."""
        return b"".join((_ANSWER.pack(_MARK, self.number, self.status, self.total, self.offset), self.data))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> "BlockAnswer":
        """Read an answer, or refuse."""
        view = _checked(data, _ANSWER)
        mark, number, status, total, offset = _ANSWER.unpack(view[: _ANSWER.size])
        if mark != _MARK or status not in set(Status):
            raise ProtocolError("These bytes are not an answer of this version of the protocol.")
        body = view[_ANSWER.size :]
        if offset + len(body) > total or (status == Status.DATA) != bool(len(body)):
            raise ProtocolError("The block lies outside its reply.")
        return cls(number, Status(status), total, offset, body)


def _checked(data: bytes | memoryview, head: struct.Struct) -> memoryview:
    view = memoryview(data)
    if not head.size <= view.nbytes <= head.size + BLOCK:
        raise ProtocolError("The block is too short or too long.")
    return view


try:
    from nvflare.fuel.f3.cellnet.cell import Cell
    from nvflare.fuel.f3.cellnet.defs import Encoding, MessageHeaderKey, MessagePropKey, MessageType, ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply
    from nvflare.fuel.f3.drivers import socket_conn, tcp_driver
    from nvflare.fuel.f3.message import Message
    from nvflare.fuel.f3.sfm import conn_manager
    from nvflare.fuel.f3.stats_pool import StatsPoolManager
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Federations across machines need NVIDIA FLARE: pip install 'colonnade[network]'.", name=missing.name
    ) from missing

COORDINATOR_CELL = "server"
"""FLARE's own name for the cell that listens."""

_CHANNEL = "colonnade"
_TOPIC = "block"
_HEADERS = 1 << 16

logging.getLogger("nvflare").setLevel(logging.CRITICAL + 1)  # its lines quote headers; ours have a fixed vocabulary
socket_conn.MAX_FRAME_SIZE = LARGEST_BLOCK + _HEADERS  # read before memory is taken for a frame; FLARE would allow 2 GB
conn_manager.INIT_WAIT, conn_manager.MAX_WAIT = 0.25, 2  # seconds between two attempts to connect; FLARE's are 1 and 10


def tls_context(params: dict[str, Any], ssl_server: bool) -> ssl.SSLContext:
    """Return how a connection is secured: both ends show a certificate of the kit's authority, and of no other.

    FLARE's own would have a site trust every authority that its operating system knows.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if ssl_server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = (
        False,
        ssl.CERT_REQUIRED,
    )  # the name in the certificate is checked later
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    role = "server" if ssl_server else "client"
    context.load_verify_locations(params["ca_cert"])
    context.load_cert_chain(params[f"{role}_cert"], params[f"{role}_key"])
    return context


tcp_driver.get_ssl_context = tls_context  # read by name at every attempt to connect


class Line:
    """One cell: blocks out, blocks in.

    Parameters
    ----------
    name
        The cell's name: `COORDINATOR_CELL`, or the name in the site's certificate.
    address
        ``"tcp://host:port"``, to listen on or to connect to.
    kit
        The site's certificate and key.
    host
        The name in the coordinator's certificate; FLARE checks that, and not the host name of the address.
    receive
        Called with the sender's name and a block; must not raise.
    refused
        Called with a constant word when a message was dropped.
    gone, came
        Called with a cell's name when it has disconnected, and when it has connected.
    distrusted
        Called with the certificate of a coordinator that was not trusted, before the next attempt to connect.
    """

    def __init__(
        self,
        name: str,
        address: str,
        kit: Kit,
        *,
        host: str,
        receive: Callable[[str, memoryview], None],
        refused: Callable[[str], None] = lambda _: None,
        gone: Callable[[str], None] = lambda _: None,
        came: Callable[[str], None] = lambda _: None,
        distrusted: Callable[[Certificate | None], None] = lambda _: None,
    ) -> None:
        listening = name == COORDINATOR_CELL
        if listening:
            _require_free(address)
        self._name = name
        self._names = {COORDINATOR_CELL: host}
        self._receive = receive
        self._refused = refused
        self._cell = _open(name, address, kit.credentials(), host)
        self._distrusted = distrusted
        core = self._cell.core_cell
        core.add_incoming_filter("*", "*", self._drop_replies)
        core.set_message_interceptor(self._intercept)
        core.register_request_cb(channel=_CHANNEL, topic=_TOPIC, cb=self._take)
        core.set_cell_connected_cb(lambda agent: came(agent.get_fqcn()))
        core.set_cell_disconnected_cb(lambda agent: gone(agent.get_fqcn()))
        self._closed = False
        # FLARE's threads would keep a finished process alive; atexit comes too late, once they have been waited for
        threading._register_atexit(self.close)  # type: ignore[attr-defined]  # noqa: SLF001
        manager = core.communicator.conn_manager
        manager.start_connector = functools.partial(self._start_connector, manager.start_connector)
        self._cell.start()

    def renew(self) -> None:
        """Use the kit as it is now: a coordinator for everybody who connects from now on, a site by connecting anew.

        FLARE reads a site's files at every attempt to connect, and a coordinator's only when it begins to listen.
        """
        for connector in self._connectors():
            listener = getattr(getattr(connector.driver, "server", None), "socket", None)
            if listener is not None:
                listener._context = tls_context(connector.params, ssl_server=True)  # noqa: SLF001
            elif self._name != COORDINATOR_CELL:
                connector.driver.close_all()

    def certificate_of(self, name: str) -> Certificate | None:
        """Return the certificate with which a cell has connected."""
        connections = self._cell.core_cell.communicator.conn_manager.get_connections(name) or ()
        for connection in list(connections):
            found = _peer_certificate(connection.conn.sock)
            if found is not None:
                return found
        return None

    def send(self, target: str, block: bytes) -> bool:
        """Send a block on its way; return whether there was a connection to send it on."""
        errors = self._cell.core_cell.fire_and_forget(
            channel=_CHANNEL, topic=_TOPIC, targets=target, message=Message({}, block), optional=True
        )
        return not errors.get(target)

    def connected(self, name: str) -> bool:
        """Return whether a cell is connected."""
        return name in self._cell.core_cell.agents

    def close(self) -> None:
        """Stop the cell."""
        if not self._closed:
            self._closed = True
            self._cell.core_cell.agents.clear()  # FLARE would wait for everybody's goodbye
            self._cell.stop()
            self._cell.core_cell.ALL_CELLS.pop(self._name, None)
            StatsPoolManager.pools.clear()  # FLARE's counters go by a cell's name, and a third of one name is refused
            for connector in self._connectors():
                leave = getattr(getattr(connector.driver, "server", None), "server_close", None)
                if leave is not None:
                    leave()  # FLARE leaves the port taken

    def _connectors(self) -> list[Any]:
        return list(self._cell.core_cell.communicator.conn_manager.connectors.values())

    def _start_connector(self, start: Callable[[Any], None], connector: Any) -> None:
        connector.driver.connect = functools.partial(self._connect, connector.driver.connect)
        start(connector)

    def _connect(self, connect: Callable[[Any], None], connector: Any) -> None:
        """Connect as FLARE does, which tries again in silence whatever went wrong; say so where it is a certificate."""
        try:
            connect(connector)
        except ssl.SSLCertVerificationError:
            self._distrusted(_offered_certificate(connector.params))
            raise

    # What comes in ------------------------------------------------------------------------------------------------------

    def _fault(self, message: Any) -> str | None:
        """Return what is wrong with a message, in one constant word, before anything in it is decoded."""
        endpoint = message.get_prop(MessagePropKey.ENDPOINT)
        origin = message.get_header(MessageHeaderKey.ORIGIN)
        if endpoint is None or endpoint.name != origin:
            return "origin"
        if message.get_prop(MessagePropKey.COMMON_NAME) != self._names.get(origin, origin):
            return "certificate"
        if message.get_header(MessageHeaderKey.DESTINATION) != self._name:
            return "destination"
        if message.get_header(MessageHeaderKey.PAYLOAD_ENCODING) != Encoding.BYTES:
            return "encoding"
        route = (message.get_header(MessageHeaderKey.CHANNEL), message.get_header(MessageHeaderKey.TOPIC))
        return None if route == (_CHANNEL, _TOPIC) else "channel"

    def _drop_replies(self, message: Any) -> Any:
        """Drop replies and returns: we never wait for one, and FLARE would decode it."""
        if message.get_header(MessageHeaderKey.MSG_TYPE) == MessageType.REQ:
            return None
        self._refused("reply")
        return make_reply(ReturnCode.UNAUTHENTICATED)

    def _intercept(self, message: Any) -> Any:
        try:
            fault = self._fault(message)
        except Exception:  # noqa: BLE001  # a header of another type is as bad as a wrong one
            fault = "headers"
        if fault is None:
            return None
        self._refused(fault)
        return make_reply(ReturnCode.UNAUTHENTICATED)

    def _take(self, message: Any) -> None:
        try:
            self._receive(message.get_header(MessageHeaderKey.ORIGIN), memoryview(message.payload))
        except Exception:  # noqa: BLE001  # the text of an exception would travel to the caller
            self._refused("callback")


def _peer_certificate(connection: Any) -> Certificate | None:
    try:
        found = connection.getpeercert(binary_form=True)
    except (AttributeError, OSError, ValueError):  # not a TLS connection, or one that has just ended
        return None
    return None if found is None else Certificate.of(x509.load_der_x509_certificate(found))


def _offered_certificate(params: dict[str, Any]) -> Certificate | None:
    """Return the certificate that a coordinator shows, trusted or not, to say why it was not; nothing is sent to it."""
    context = tls_context(params, ssl_server=False)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        line = socket.create_connection((params["host"], int(params["port"])), timeout=5.0)
        with line, context.wrap_socket(line) as secured:
            return _peer_certificate(secured)
    except OSError:
        return None


def _require_free(address: str) -> None:
    """Refuse a port that is taken: FLARE would try again in silence, for ever."""
    where = urlsplit(address)
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((where.hostname, where.port))
    except OSError:
        raise BadInput(
            "The coordinator cannot listen at its address.",
            remedy="End the other coordinator on this port, or listen on an address of this machine (listen=).",
        ) from None


def _open(name: str, address: str, credentials: dict[str, str], host: str) -> Any:
    try:
        return Cell(
            fqcn=name,
            root_url=address,
            secure=True,
            credentials=credentials,
            auth_identity_map={COORDINATOR_CELL: host},
        )
    except ValueError:
        raise ProtocolError(
            "This process already has a line of this name, or the address is not one.",
            remedy="Close the other federation first; a process connects to one federation at a time.",
        ) from None


PATIENCE = 45.0
ANSWER_SECONDS = 3_600.0
"""Seconds that a guard may work on one answer: a coordinator waits so long for it, and so does the guard's own relay."""
BLOCK_SECONDS = 20.0
PAUSE = 0.2
ATTEMPTS = 5
"""How often a guard may die over one message, having been reached, before it is given up."""

MESSAGES_PER_PARTY = 16
"""Messages on their way to one party; its relay takes more."""
KIT_SECONDS = 1.0
"""Seconds between two looks at the coordinator's own certificate."""


class _Unreachable(Exception):
    """The relay or its guard is not there; the message starts again."""


@dataclass
class _Waiting:
    """A call whose answer has not come yet."""

    party: str
    arrived: threading.Event = field(default_factory=threading.Event)
    answer: BlockAnswer | None = None


@dataclass
class _Letter:
    """A message to one party, its number in this attempt, and when there was last a sign of its guard."""

    party: str
    data: memoryview
    seen: float
    number: int = 0
    reached: bool = False


class FlareTransport:
    """The coordinator's end of the line.

    Parameters
    ----------
    parties
        Who is connected, or will be: data parties and compute nodes.
    address
        What to listen on, ``"tcp://host:port"``.
    kit
        The coordinator's start-up kit.
    host
        The name in the coordinator's certificate.
    patience
        Seconds that a party may be away before a round fails; asking again is safe.
    log
        Where connections and refused messages are noted.
    changed
        Called with the parties that are connected whenever one comes or goes.
    memory
        A file that keeps until when the certificates of parties last, as they were when they connected; ``None`` keeps it here.
    clock, calendar
        A monotonic clock, and seconds since 1970.
    """

    def __init__(
        self,
        parties: Sequence[str],
        *,
        address: str,
        kit: str | Path,
        host: str,
        patience: float = PATIENCE,
        log: Log | None = None,
        changed: Callable[[tuple[str, ...]], None] = lambda _: None,
        memory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ) -> None:
        if not parties:
            raise BadInput(
                "A federation needs at least one party.", remedy="Add members with data to the federation's papers."
            )
        self.parties = tuple(parties)
        self._patience = patience
        self._clock = clock
        self._log = log or Log(None, "coordinator", "coordinator")
        self._changed = changed
        self._certificates = KnownCertificates(memory, calendar, self._log)
        self._session = os.urandom(16)  # public: it only tells one process of a coordinator from the next
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._lock = threading.Lock()
        self._pools = {
            party: ThreadPoolExecutor(MESSAGES_PER_PARTY, thread_name_prefix="colonnade") for party in self.parties
        }
        self._kit = Kit(Path(kit), "server", calendar)
        self._line = Line(
            COORDINATOR_CELL,
            address,
            self._kit,
            host=host,
            receive=self._receive,
            refused=lambda word: self._log.event("message-refused", reason=word),
            gone=self._gone,
            came=self._came,
        )
        self._certificates.learn(COORDINATOR, self._kit.certificates()["server.crt"])
        self._ended = threading.Event()
        threading.Thread(target=self._watch_kit, name="colonnade-kit", daemon=True).start()

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round."""
        if not set(requests) <= set(self.parties):
            raise BadInput(
                "A request is addressed to a party that is not in the federation.",
                remedy="Use a plan that this federation made.",
            )
        if any(len(data) > LARGEST_FRAME for data in requests.values()):
            raise BadInput("A message is too large to send.", remedy="Use fewer columns, or split the study.")
        futures = {party: self._pools[party].submit(self._deliver, party, data) for party, data in requests.items()}
        outcomes = {party: future.exception() for party, future in futures.items()}  # all of them, then the first fault
        for error in outcomes.values():
            if error is not None:
                raise error
        return {party: future.result() for party, future in futures.items()}

    def connected(self) -> tuple[str, ...]:
        """Return the parties whose relays are connected."""
        return tuple(party for party in self.parties if self._line.connected(party))

    def close(self) -> None:
        """Hang up."""
        self._ended.set()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._line.close()
        self._changed(())

    # One message to one party -------------------------------------------------------------------------------------------

    def _deliver(self, party: str, data: bytes) -> bytes:
        """Send a message until it is answered, with the same bytes each time."""
        letter = _Letter(party, memoryview(data), self._clock())
        for _ in range(ATTEMPTS):
            letter.number, letter.reached = next(self._numbers), False
            while not letter.reached:
                try:
                    return self._attempt(letter)
                except _Unreachable:
                    if self._clock() - letter.seen > self._patience:
                        raise self._absence(party) from None
                letter.number = next(self._numbers)
                time.sleep(PAUSE)
        raise self._absence(party)

    def _absence(self, party: str) -> ColonnadeError:
        self._log.event("guard-away", party=party)
        if not self._line.connected(party):
            for name in (COORDINATOR, party):
                expired = self._certificates.expired(name)
                if expired is not None:
                    return expired
        return PartyAway(f"Party {party!r} is not there, or its guard does not answer.")

    def _watch_kit(self) -> None:
        """Take over a new certificate of our own as soon as the whole of it is there."""
        watch = KitWatch(self._kit)
        while not self._ended.wait(KIT_SECONDS):
            if not watch.changed():
                continue
            try:
                self._kit.credentials()
                self._line.renew()
            except (ColonnadeError, OSError) as error:  # what is there is not ours, or is over: the old one serves
                self._log.event("certificate-refused", code=getattr(error, "code", "bad-input"))
                continue
            self._certificates.learn(COORDINATOR, self._kit.certificates()["server.crt"])
            self._log.event("certificate-renewed")

    def _attempt(self, letter: "_Letter") -> bytes:
        answer = None
        for offset in range(0, max(len(letter.data), 1), BLOCK):
            answer = self._until_done(letter, Verb.PUT, offset, letter.data[offset : offset + BLOCK])
        assert answer is not None  # there is one block at least
        return self._fetch(letter, answer)

    def _fetch(self, letter: "_Letter", first: BlockAnswer) -> bytes:
        total, blocks, held = first.total, [first.data], len(first.data)
        if not 0 < total <= LARGEST_FRAME or first.offset != 0:
            raise ProtocolError(f"Party {letter.party!r} answered with a reply of an impossible size.")
        while held < total:
            answer = self._until_done(letter, Verb.GET, held)
            if answer.total != total or answer.offset != held:
                raise ProtocolError(f"Party {letter.party!r} answered with another block than was asked for.")
            blocks.append(answer.data)
            held += len(answer.data)
        return b"".join(blocks)

    def _until_done(self, letter: "_Letter", verb: Verb, offset: int, block: memoryview | bytes = b"") -> BlockAnswer:
        """Repeat one call while the guard is at work; a relay that says so is there."""
        last = verb == Verb.PUT and offset + len(block) == len(letter.data)
        wanted = Status.MORE if verb == Verb.PUT and not last else Status.DATA
        give_up = self._clock() + ANSWER_SECONDS
        while self._clock() < give_up:
            answer = self._call(letter, verb, offset, block)
            if answer.status == Status.REFUSED:
                raise ProtocolError(f"The relay of party {letter.party!r} does not pass this message on.")
            if answer.status not in (wanted, Status.WAIT):
                raise _Unreachable
            letter.seen, letter.reached = self._clock(), True
            if answer.status == wanted:
                return answer
        raise ProtocolError(f"Party {letter.party!r} has been at work on one answer for too long.")

    def _call(self, letter: "_Letter", verb: Verb, offset: int, block: memoryview | bytes) -> BlockAnswer:
        number, waiting = next(self._numbers), _Waiting(letter.party)
        with self._lock:
            self._waiting[number] = waiting
        try:
            call = BlockCall(number, verb, self._session, letter.number, len(letter.data), offset, block)
            left = letter.seen + self._patience - self._clock()
            if not self._line.send(letter.party, call.encode()) or not waiting.arrived.wait(_between(left)):
                raise _Unreachable
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if waiting.answer is None:
            raise _Unreachable
        return waiting.answer

    # What comes in ------------------------------------------------------------------------------------------------------

    def _receive(self, sender: str, data: memoryview) -> None:
        try:
            answer = BlockAnswer.decode(data)
        except ProtocolError:
            self._log.event("block-refused", party=sender if sender in self.parties else None)
            return
        with self._lock:
            waiting = self._waiting.get(answer.number)
        if waiting is not None and waiting.party == sender:  # nobody answers for another
            waiting.answer = answer
            waiting.arrived.set()

    def _came(self, name: str) -> None:
        self._log.event("connected", party=name if name in self.parties else None)
        found = self._line.certificate_of(name) if name in self.parties else None
        if found is not None:
            self._certificates.learn(name, found)
        self._changed(self.connected())

    def _gone(self, name: str) -> None:
        """Let nobody wait for an answer on a connection that has ended."""
        self._log.event("disconnected", party=name if name in self.parties else None)
        self._changed(self.connected())
        with self._lock:
            calls = [waiting for waiting in self._waiting.values() if waiting.party == name]
        for waiting in calls:
            waiting.arrived.set()


def _between(left: float) -> float:
    """How long to wait for one answer: not beyond our patience, but never so short that nobody could answer."""
    return max(1.0, min(left, BLOCK_SECONDS))
