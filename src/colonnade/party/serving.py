"""A guard behind a Unix socket: frames in, frames out, for several clients at once.

A client may hang up, reset, send half a frame or nonsense, or never read its answer. It loses its connection, and nobody else
notices. All clients are read from and written to side by side, and the guard itself answers one request at a time, so a client
that is slow keeps nobody waiting. There are so many connections at most. Where there is no room for another, the one that has
waited for its client longest is hung up on.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from colonnade.errors import ColonnadeError
from colonnade.protocol.codec import read_frame

__all__ = ["RequestHandler", "serve"]

CONNECTIONS = 64
BACKLOG = 128
"""Clients that may wait to be taken. A relay that finds this line full takes the guard for away, and comes again."""

SILENCE = 120.0
"""Seconds that a client may neither send nor take anything before it is hung up on; a relay gives up sooner."""

PATIENCE = 2.0
"""Seconds that it may do so in any case; after that it makes room for another client, where there is none."""

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
        listener.settimeout(0.25)
        if ready is not None:
            ready()
        _Server(guard, connections).run(listener)


class _Client:
    """A connection, and since when it waits for its client; ``None`` while the guard is at work for it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.waits: float | None = time.monotonic()

    def hang_up(self) -> None:
        """Wake whoever is reading from the client or writing to it; they close the connection."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is gone already


class _Server:
    def __init__(self, guard: RequestHandler, connections: int) -> None:
        self._guard = guard
        self._most = connections
        self._pool = ThreadPoolExecutor(connections, thread_name_prefix="colonnade")
        self._changed = threading.Condition()
        self._clients: set[_Client] = set()
        self._failure: ColonnadeError | None = None

    def run(self, listener: socket.socket) -> None:
        """Take connections until the guard fails."""
        try:
            while self._failure is None:
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                except OSError:  # no descriptor is left, or the client has gone already
                    time.sleep(0.05)
                    continue
                self._take(_Client(connection))
            raise self._failure
        finally:
            for client in list(self._clients):
                client.hang_up()
            self._pool.shutdown(wait=False)

    def _take(self, client: _Client) -> None:
        with self._changed:
            while len(self._clients) >= self._most and self._failure is None:
                now = time.monotonic()
                slow, longest = max(
                    ((now - (one.waits or now), one) for one in self._clients), key=lambda pair: pair[0]
                )
                if slow >= PATIENCE:
                    longest.hang_up()
                self._changed.wait(0.1)
            self._clients.add(client)
        try:
            self._pool.submit(self._converse, client)
        except RuntimeError:  # no thread is left on this machine: the client asks again
            self._leave(client)

    def _converse(self, client: _Client) -> None:
        """Answer frames until the client hangs up, or does anything else than asking."""
        try:
            client.connection.settimeout(SILENCE)
            with client.connection.makefile("rb") as stream:
                while (data := read_frame(cast("BinaryIO", stream))) is not None:
                    self._send(client, self._answer(client, data))
        except Exception:  # noqa: BLE001, S110  # whatever a client does is its own loss; the text might quote what it sent
            pass
        finally:
            self._leave(client)

    def _leave(self, client: _Client) -> None:
        client.connection.close()
        with self._changed:
            self._clients.discard(client)
            self._changed.notify_all()

    def _answer(self, client: _Client, data: bytes) -> bytes:
        client.waits = None
        try:
            return self._guard.handle(data)
        except ColonnadeError as error:
            self._failure = error
            raise
        finally:
            client.waits = time.monotonic()

    def _send(self, client: _Client, reply: bytes) -> None:
        client.connection.sendall(len(reply).to_bytes(_PREFIX, "big") + reply[: PIECE - _PREFIX])
        rest = memoryview(reply)[PIECE - _PREFIX :]
        for start in range(0, len(rest), PIECE):
            client.connection.sendall(rest[start : start + PIECE])
            client.waits = time.monotonic()
