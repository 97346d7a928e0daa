"""NVIDIA FLARE's Cell as a pipe for opaque bytes, in blocks (extra ``colonnade[network]``).

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
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509

from colonnade.errors import BadInput, ProtocolError
from colonnade.transport.kit import Certificate, Kit

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
