"""Parties that a function call reaches: in this process, or behind a Unix socket on this machine."""

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, cast

from colonnade.errors import BadInput, ProtocolError
from colonnade.protocol.frames import read_frame, write_frame
from colonnade.transport.base import Endpoint

__all__ = ["Direct", "UnixEndpoint"]


class Direct:
    """Hand each request to its endpoint, all of a round at the same time.

    Parameters
    ----------
    endpoints
        Parties by name, each with one method: bytes to bytes.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        if not endpoints:
            raise BadInput("A federation needs at least one party.")
        self._endpoints = dict(endpoints)
        self._pool = ThreadPoolExecutor(max_workers=len(self._endpoints), thread_name_prefix="colonnade")

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round."""
        unknown = set(requests) - set(self._endpoints)
        if unknown:
            raise BadInput("A request is addressed to a party that is not in the federation.")
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
            raise ProtocolError("The party's guard did not answer.", remedy="Start it again and repeat the call.")
        return reply
