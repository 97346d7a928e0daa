"""Transports carry bytes to a party and back: their protocol, those that need no network, and a record of what was said.

*Without a network* a party is reached by a call in this process (`Direct`) or behind a Unix socket on this machine
(`UnixEndpoint`). `WithLocalNodes` puts endpoints in this process beside a transport to parties far away: a coordinator that
is itself a compute node.

*What was said* (`Transcript`; `Recorded` wraps any other transport): rounds, messages, bytes per party in each direction,
seconds per step, and how many numbers moved. Numbers are the unit in which Coresets (Huang, Li, Sun, Zhao, 2022;
docs/references.md#coresets) counts communication. A number is an entry of an array, or a word of eight bytes of letters between
members, whatever is inside. Plans, names, hellos and seals are not numbers: they do not grow with the data. A letter that went
directly from one member to another is known by its ticket, and is counted once.

*Traces* (`Traced`): rounds as spans of OpenTelemetry, for a coordinator whose operator watches with it (extra ``traces``). A
span says what a coordinator's own log says: which kind of request went to how many members, of which study (the first digits of
its plan's hash), which step and turn, how many bytes went and came, and with which codes members refused. No value, no name of
a column and no text of a message is in it.
"""

import importlib.util
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.protocol import messages
from colonnade.protocol.messages import (
    Array,
    Ask,
    Blob,
    Conclude,
    Message,
    Opened,
    Post,
    Posted,
    Refused,
    Released,
    Reply,
    Request,
    Ticket,
    read_frame,
    write_frame,
)

ENDPOINTS_AT_ONCE = 8
"""Endpoints in this process that work at the same time. More would take turns on the processor, and waste it on turns."""

CONNECT = 10.0
"""Seconds until a guard on this machine takes a connection: it does so also while it works on an answer."""


class Endpoint(Protocol):
    """A party, wherever it is."""

    def handle(self, data: bytes) -> bytes:
        """Answer one request."""
        ...


class Transport(Protocol):
    """How requests reach parties: requests by party in, replies by party out, all of it bytes."""

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver every request and return every reply.

        The same bytes may be delivered again after a failure: parties answer the same question once.
        """
        ...

    def close(self) -> None:
        """Hang up. What was released is kept by the parties."""


class Direct:
    """Hand each request to its endpoint, all of a round at the same time; several rounds wait in line at each endpoint.

    Parameters
    ----------
    endpoints
        Parties by name, each with one method: bytes to bytes.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        if not endpoints:
            raise BadInput(
                "A federation needs at least one party.",
                remedy="Pass the parties by name: {'bank': cn.Party(...), ...}.",
            )
        self._endpoints = dict(endpoints)
        self._room = threading.Semaphore(ENDPOINTS_AT_ONCE)
        self._threads = {name: ThreadPoolExecutor(1, thread_name_prefix="colonnade") for name in self._endpoints}

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round."""
        unknown = set(requests) - set(self._endpoints)
        if unknown:
            raise BadInput(
                "A request is addressed to a party that is not in the federation.",
                remedy="Use a plan that this federation made.",
            )
        futures = {
            name: self._threads[name].submit(self._handle, self._endpoints[name], data)
            for name, data in requests.items()
        }
        return {name: future.result() for name, future in futures.items()}

    def _handle(self, endpoint: Endpoint, data: bytes) -> bytes:
        if isinstance(endpoint, UnixEndpoint):
            return endpoint.handle(data)  # the work is another process's
        with self._room:
            return endpoint.handle(data)

    def endpoint(self, name: str) -> Endpoint | None:
        """Return an endpoint itself, for its own operator in this process."""
        return self._endpoints.get(name)

    def close(self) -> None:
        """Close every endpoint that can be closed."""
        for thread in self._threads.values():
            thread.shutdown()
        for endpoint in self._endpoints.values():
            close = getattr(endpoint, "close", None)
            if close is not None:
                close()


class UnixEndpoint:
    """A party's guard in another process, behind a Unix socket.

    Parameters
    ----------
    path
        The socket that `colonnade.party.serving.serve` listens on.
    timeout
        Seconds to wait for an answer before giving up; asking again is safe.
    """

    def __init__(self, path: str | Path, *, timeout: float = 600.0) -> None:
        self._path = str(path)
        self._timeout = timeout

    def handle(self, data: bytes) -> bytes:
        """Send one frame, await one frame."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(min(self._timeout, CONNECT))
                connection.connect(self._path)
                connection.settimeout(self._timeout)
                with connection.makefile("rwb") as stream:
                    write_frame(cast("BinaryIO", stream), data)
                    reply = read_frame(cast("BinaryIO", stream))
        except OSError:
            reply = None
        if reply is None:
            raise ProtocolError("The party's guard did not answer.", remedy="Restart the party and repeat the call.")
        return reply


class WithLocalNodes:
    """Carry requests to far parties by another transport, and hand the others over here, all of a round at the same time.

    A coordinator that is itself a compute node reaches that node so.

    Parameters
    ----------
    far
        The transport to everybody else; it refuses names it does not know.
    near
        Endpoints in this process, by name.
    """

    def __init__(self, far: Transport, near: Mapping[str, Endpoint]) -> None:
        self.far = far
        self._near = dict(near)
        self._pool = ThreadPoolExecutor(max(len(self._near), 1), thread_name_prefix="colonnade")

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round."""
        here = {
            name: self._pool.submit(self._near[name].handle, data)
            for name, data in requests.items()
            if name in self._near
        }
        there = self.far.exchange({name: data for name, data in requests.items() if name not in self._near})
        return {name: here[name].result() if name in here else there[name] for name in requests}

    def close(self) -> None:
        """Close the far side."""
        self._pool.shutdown()
        self.far.close()


WORD = 8
GREETING = 1
"""The turn in which a `Post` carries hellos."""


def numbers_in(message: Request | Reply) -> int:
    """Return how many numbers a message moves.

    Examples
    --------
    >>> import numpy as np
    >>> from colonnade.protocol.messages import pack
    >>> numbers_in(Released(party="bank", step="rows", values={"value": pack(np.zeros((3, 4)))}, mechanism="", loss=None))
    12
    """
    match message:
        case Ask():
            return _entries(message.inputs.values())
        case Post():
            letters = message.letters.values() if message.turn != GREETING else ()
            relayed = [
                letter for letter in letters if Ticket.read(letter) is None
            ]  # the others were counted once, as sent
            return _entries(message.inputs.values()) + _words(relayed)
        case Conclude() | Released():
            return _entries(message.values.values())
        case Posted():
            return _words(message.letters.values())
        case Opened():
            return _entries(part for part in (message.share, message.own) if part is not None)
        case _:
            return 0


def _entries(arrays: Iterable[Array]) -> int:
    total = 0
    for array in arrays:
        entries = 1
        for extent in array.shape:
            entries *= extent
        total += entries
    return total


def _words(letters: Iterable[Blob]) -> int:
    sizes = (len(letter) if (ticket := Ticket.read(letter)) is None else ticket.size for letter in letters)
    return sum(size // WORD for size in sizes)


@dataclass
class Transcript:
    """A count of everything that crossed between the coordinator and the parties in a study.

    What the study has cost is asked after it, and is not counted.

    Examples
    --------
    >>> Transcript().rounds
    0
    """

    rounds: int = 0
    messages: int = 0
    bytes_to: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    bytes_from: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    received: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Bytes that came back, by the kind of message."""
    signatures: dict[str, str] = field(default_factory=dict)
    """By member, in hexadecimal: its signature under the plan's hash and the run, where members talk to each other."""
    numbers_to: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    numbers_from: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Numbers moved, whatever their size: as Coresets counts them (docs/references.md#coresets)."""
    direct: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Bytes of letters that members sent past the coordinator, by sender. They are not among `bytes`."""

    @property
    def bytes(self) -> int:
        """All bytes in both directions."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())

    @property
    def numbers(self) -> int:
        """All numbers moved in both directions."""
        return sum(self.numbers_to.values()) + sum(self.numbers_from.values())

    def count_numbers(self, requests: Mapping[str, Request], replies: Mapping[str, Reply]) -> None:
        """Count the numbers of one round."""
        for party, request in requests.items():
            self.numbers_to[party] += numbers_in(request)
        for party, reply in replies.items():
            self.numbers_from[party] += numbers_in(reply)

    @property
    def traffic(self) -> str:
        """All bytes in words: through the coordinator, and past it where members have direct links."""
        direct = sum(self.direct.values())
        return f"{self.bytes:,} bytes{f' and {direct:,} directly between members' if direct else ''}"

    @property
    def wall_time(self) -> float:
        """Seconds over all steps."""
        return sum(self.seconds.values())

    def __repr__(self) -> str:
        return (
            f"Transcript(rounds={self.rounds}, messages={self.messages}, bytes={self.bytes:,}, "
            f"{f'direct={sum(self.direct.values()):,}, ' if self.direct else ''}seconds={self.wall_time:.3f})"
        )


class Recorded:
    """A transport that counts what another one carries.

    Parameters
    ----------
    inner
        The transport that does the work.
    keep
        Whether to keep every exchange (``exchanges``), for tests and audits.
    clock
        A monotonic clock.
    """

    def __init__(self, inner: Transport, *, keep: bool = False, clock: Callable[[], float] = time.perf_counter) -> None:
        self._inner = inner
        self._clock = clock
        self._keep = keep
        self.step = "negotiation"
        self.transcript = Transcript()
        self.exchanges: list[tuple[dict[str, bytes], dict[str, bytes]]] = []

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Carry one round and count it."""
        start = self._clock()
        replies = self._inner.exchange(requests)
        self.transcript.seconds[self.step] += self._clock() - start
        self._count(requests, replies)
        return replies

    def close(self) -> None:
        """Hang up."""
        self._inner.close()

    def _count(self, requests: Mapping[str, bytes], replies: Mapping[str, bytes]) -> None:
        self.transcript.rounds += 1
        self.transcript.messages += len(requests) + len(replies)
        for party, data in requests.items():
            self.transcript.bytes_to[party] += len(data)
        for party, data in replies.items():
            self.transcript.bytes_from[party] += len(data)
        if self._keep:
            self.exchanges.append((dict(requests), dict(replies)))


SPAN = "colonnade.round"
LARGEST_REFUSAL = 65_536
"""Bytes; a longer reply is an answer, and is not decoded to find out."""


class Traced:
    """A transport that gives every round of another one a span.

    Parameters
    ----------
    inner
        The transport that does the work.
    tracer
        A tracer of OpenTelemetry; by default that of the process's own provider, which does nothing until one is set up.
    """

    def __init__(self, inner: Transport, tracer: Any = None) -> None:
        if tracer is None:
            if importlib.util.find_spec("opentelemetry") is None:
                raise BadInput(
                    "Traces need OpenTelemetry.",
                    remedy="Install it: pip install 'colonnade[traces]'. Or unset COLONNADE_TRACES.",
                )
            from opentelemetry import trace

            tracer = trace.get_tracer("colonnade")
        self.inner = inner
        self._tracer = tracer

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round within a span."""
        with self._tracer.start_as_current_span(SPAN, record_exception=False, set_status_on_exception=False) as span:
            if span.is_recording():
                span.set_attributes(_asked(requests))
            try:
                replies = self.inner.exchange(requests)
            except ColonnadeError as error:
                span.set_attribute("colonnade.error", error.code)
                raise
            if span.is_recording():
                span.set_attributes(_answered(replies))
            return replies

    def close(self) -> None:
        """Hang up."""
        self.inner.close()


def _asked(requests: Mapping[str, bytes]) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "colonnade.members": len(requests),
        "colonnade.bytes_out": sum(map(len, requests.values())),
    }
    request = _read(messages.decode_request, next(iter(requests.values()), b""))
    if request is None:
        return found
    found["colonnade.request"] = type(request).__name__
    study = messages.study_of(request)
    if study is not None:
        found["colonnade.study"] = study
    for name in ("step", "turn"):
        if hasattr(request, name):
            found[f"colonnade.{name}"] = getattr(request, name)
    return found


def _answered(replies: Mapping[str, bytes]) -> dict[str, int | list[str]]:
    small = [_read(messages.decode_reply, data) for data in replies.values() if len(data) <= LARGEST_REFUSAL]
    refused = sorted({reply.code for reply in small if isinstance(reply, Refused)})
    found: dict[str, int | list[str]] = {"colonnade.bytes_in": sum(map(len, replies.values()))}
    return {**found, "colonnade.refused": refused} if refused else found


def _read(decode: Callable[[bytes], Message], data: bytes) -> Message | None:
    """Read a message. What is none is for others to refuse: to trace a round changes nothing about it."""
    try:
        return decode(data)
    except ColonnadeError:
        return None
