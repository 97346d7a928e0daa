"""A guard behind a Unix socket: frames in, frames out, for several clients at once.

A client may hang up, reset, send half a frame or nonsense, or never read its answer. It loses its connection, and nobody else
notices. All clients are read from and written to side by side, and the guard itself answers one request at a time, so a client
that is slow keeps nobody waiting. The number of connections is bounded. Where there is no room for another, the one that has
waited for its client longest is hung up on.

The thread that takes a connection also serves it. To hand it to another one would cost a good part of a short answer's time.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from colonnade.errors import ColonnadeError
from colonnade.protocol.messages import read_frame

CONNECTIONS = 64
BACKLOG = 128
"""Clients that may wait to be taken. A relay that finds this line full takes the guard for away, and comes again."""

SILENCE = 120.0
"""Seconds that a client may neither send nor take anything before it is hung up on; a relay gives up sooner."""

PATIENCE = 2.0
"""Seconds that it may do so in any case; after that it makes room for another client, where there is none."""

TICK = 0.25
"""Seconds between two looks at whether there is room."""

SPARE_THREADS = 4
"""Threads that wait for a client when there is none: starting one takes longer than answering most requests."""

PIECE = 1 << 20
"""Bytes that are sent at a time: a client that takes them has not fallen silent, however long the answer is."""

_PREFIX = 8


class RequestHandler(Protocol):
    """Anything that answers one request with one reply: a guard, or a guard that limits how many requests it takes."""

    def handle(self, data: bytes) -> bytes:
        """Answer one request. An error of this package that leaves it ends the server; any other, this connection."""
        ...


def serve(
    guard: RequestHandler,
    path: str | Path,
    *,
    ready: Callable[[], None] | None = None,
    connections: int = CONNECTIONS,
) -> None:
    """Answer frames on a Unix socket that only this user can open, until the process ends.

    Parameters
    ----------
    guard
        The party.
    path
        Where the socket is made; a stale socket from an earlier run is replaced.
    ready
        Called once the socket accepts connections.
    connections
        How many there are at once.
    """
    path = Path(path)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        mask = os.umask(0o177)  # the socket is 0600 from the moment it exists
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        listener.listen(BACKLOG)
        if ready is not None:
            ready()
        _Server(guard, listener, connections).run()


class _Client:
    """A connection, and since when it waits for its client; ``None`` while the guard is at work for it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.waits: float | None = time.monotonic()

    def hang_up(self) -> None:
        """Wake the thread that reads from the client or writes to it; it closes the connection."""
        with contextlib.suppress(OSError):  # it is gone already
            self.connection.shutdown(socket.SHUT_RDWR)


class _Server:
    """Threads that each take a client and stay with it. One at least is free to take the next, where there is room for one."""

    def __init__(self, guard: RequestHandler, listener: socket.socket, connections: int) -> None:
        self._guard = guard
        self._listener = listener
        self._most = connections
        self._lock = threading.Lock()
        self._threads = self._free = 0
        self._clients: set[_Client] = set()
        self._ended = threading.Event()
        self._failure: ColonnadeError | None = None

    def run(self) -> None:
        """Serve until the guard fails."""
        try:
            while True:
                with self._lock:
                    self._make_room()
                if self._ended.wait(TICK):
                    break
        finally:
            self._ended.set()
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes all who wait for a client
            with self._lock:
                for client in self._clients:
                    client.hang_up()
        assert self._failure is not None  # nothing else ends it
        raise self._failure

    def _make_room(self) -> None:
        """See to it that somebody is free to take the next client."""
        if self._free:
            return
        if self._threads < self._most:
            with contextlib.suppress(RuntimeError):  # no thread is left on this machine: tried again soon
                threading.Thread(target=self._work, name="colonnade", daemon=True).start()
                self._threads, self._free = self._threads + 1, self._free + 1
            return
        now = time.monotonic()
        slow, longest = max(((now - (one.waits or now), one) for one in self._clients), key=lambda pair: pair[0])
        if slow >= PATIENCE:
            longest.hang_up()

    def _work(self) -> None:
        """Take one client after the other; leave when there are others to spare."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # no descriptor is left, or the client has gone already
                if self._ended.wait(0.05):
                    return
                continue
            client = _Client(connection)
            with self._lock:
                self._clients.add(client)
                self._free -= 1
                self._make_room()
            self._converse(client)
            with self._lock:
                self._clients.discard(client)
                if self._free >= SPARE_THREADS:
                    self._threads -= 1
                    return
                self._free += 1

    def _converse(self, client: _Client) -> None:
        """Answer frames until the client hangs up, or does anything else than asking."""
        with client.connection as connection:
            try:
                connection.settimeout(SILENCE)
                with connection.makefile("rb") as stream:
                    while (data := read_frame(cast("BinaryIO", stream))) is not None:
                        self._send(client, self._answer(client, data))
            except Exception:  # noqa: BLE001  # what a client does is its own loss; the text might quote what it sent
                return

    def _answer(self, client: _Client, data: bytes) -> bytes:
        client.waits = None
        try:
            return self._guard.handle(data)
        except ColonnadeError as error:
            self._failure = error
            self._ended.set()
            raise
        finally:
            client.waits = time.monotonic()

    def _send(self, client: _Client, reply: bytes) -> None:
        client.connection.sendall(len(reply).to_bytes(_PREFIX, "big") + reply[: PIECE - _PREFIX])
        rest = memoryview(reply)[PIECE - _PREFIX :]
        for start in range(0, len(rest), PIECE):
            client.connection.sendall(rest[start : start + PIECE])
            client.waits = time.monotonic()
