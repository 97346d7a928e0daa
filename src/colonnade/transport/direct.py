"""Transports carry bytes to a party and back: their protocol, and those that need no network (a call, a Unix socket)."""

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from colonnade.errors import BadInput, ProtocolError
from colonnade.protocol.codec import read_frame, write_frame

__all__ = ["Direct", "Endpoint", "Transport", "UnixEndpoint", "WithLocalNodes"]


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
    """Hand each request to its endpoint, all of a round at the same time.

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
        self._pool = ThreadPoolExecutor(max_workers=len(self._endpoints), thread_name_prefix="colonnade")

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round."""
        unknown = set(requests) - set(self._endpoints)
        if unknown:
            raise BadInput(
                "A request is addressed to a party that is not in the federation.",
                remedy="Use a plan that this federation made.",
            )
        futures = {name: self._pool.submit(self._endpoints[name].handle, data) for name, data in requests.items()}
        return {name: future.result() for name, future in futures.items()}

    def endpoint(self, name: str) -> Endpoint | None:
        """Return an endpoint itself, for its own operator in this process."""
        return self._endpoints.get(name)

    def close(self) -> None:
        """Close every endpoint that can be closed."""
        self._pool.shutdown()
        for endpoint in self._endpoints.values():
            close = getattr(endpoint, "close", None)
            if close is not None:
                close()


class UnixEndpoint:
    """A party's guard in another process, behind a Unix socket.

    Parameters
    ----------
    path
        The socket that `colonnade.party.guard.serve` listens on.
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
                connection.settimeout(self._timeout)
                connection.connect(self._path)
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
