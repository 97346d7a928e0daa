"""What a member's two processes do: the guard answers on its socket, the relay carries."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from colonnade.errors import ColonnadeError
from colonnade.event_log import Log
from colonnade.protocol import codec
from colonnade.protocol.messages import Refused
from colonnade.service.party_folder import PartyFolder, read_papers

__all__ = ["Noted", "run_guard", "run_relay", "write_status"]


def run_guard(folder: PartyFolder, *, change_cap: bool = False) -> None:
    """Be the guard: everything but the network."""
    from colonnade.party.guard import serve

    log = Log(sys.stderr, folder.name, "guard")
    _refuse_the_network()
    try:
        endpoint = folder.guard(change_cap=change_cap)
    except ColonnadeError as error:
        log.event("papers-refused", code=error.code)
        raise
    noted = Noted(endpoint, log, folder.path / "guard.status")
    signal.signal(signal.SIGTERM, noted.end)
    serve(noted, folder.socket, ready=noted.ready)  # type: ignore[arg-type]  # anything with a handle method


def run_relay(folder: PartyFolder) -> None:
    """Be the relay: the network, a socket, and nothing else of the folder but its kit."""
    from colonnade.service.relay import Relay

    where = read_papers(folder.papers).coordinator
    log = Log(sys.stderr, folder.name, "relay")
    relay = Relay(
        folder.name, guard=folder.socket, address=where.address, kit=folder.path / "kit", host=where.host, log=log
    )
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.wait(1.0):
        relay.tick()
        write_status(
            folder.path / "relay.status",
            {
                "pid": os.getpid(),
                "connected": relay.connected,
                "bytes_in": relay.bytes_in,
                "bytes_out": relay.bytes_out,
            },
        )
    relay.close()
    os._exit(0)  # FLARE may have left threads behind


def write_status(path: Path, content: dict[str, Any]) -> None:
    """Write what is going on, for `colonnade party status`; a reader meets all of it or the last."""
    part = path.with_name(f".{path.name}.part")
    with contextlib.suppress(OSError):
        part.write_bytes(msgspec.json.encode({"time": time.time(), **content}))
        part.replace(path)


class Noted:
    """An endpoint whose requests are noted, and which ends between two of them.

    Parameters
    ----------
    endpoint
        A guard or a compute node.
    log
        Where refusals are noted.
    status
        The file that says what it is doing.
    """

    def __init__(self, endpoint: Any, log: Log, status: Path) -> None:
        self._endpoint = endpoint
        self._log = log
        self._status = status
        self._busy = False
        self._ending = False
        self._answered = 0
        self._refused = 0
        self._last: dict[str, Any] = {}

    def ready(self) -> None:
        """Say that the socket accepts connections."""
        self._log.event("started", pid=os.getpid())
        self._write()

    def handle(self, data: bytes) -> bytes:
        """Answer one request, and note what kind it was and whether it was refused."""
        self._busy = True
        self._last = _kind(data)
        self._write()
        reply = self._endpoint.handle(data)
        self._answered += 1
        self._note(reply)
        self._busy = False
        if self._ending:
            threading.Timer(0.5, os._exit, (0,)).start()  # once the reply is out
        return reply  # type: ignore[no-any-return]  # every endpoint answers with bytes

    def end(self, *_: int | FrameType | None) -> None:
        """End now, or once the answer under way is out: what was paid for is not thrown away."""
        self._ending = True
        if not self._busy:
            self._log.event("stopped", pid=os.getpid())
            os._exit(0)

    def _note(self, reply: bytes) -> None:
        if len(reply) > 65_536:
            return
        decoded = codec.decode_reply(reply)
        if isinstance(decoded, Refused):
            self._refused += 1
            self._log.event("refused", code=decoded.code, **self._last)

    def _write(self) -> None:
        write_status(
            self._status,
            {"pid": os.getpid(), "answered": self._answered, "refused": self._refused, "last": self._last},
        )


def _kind(data: bytes) -> dict[str, Any]:
    """Return what kind of request this is, in public words."""
    try:
        request = codec.decode_request(data)
    except ColonnadeError:
        return {"request": "malformed"}
    found: dict[str, Any] = {"request": type(request).__name__}
    plan = getattr(request, "plan", None)
    if plan is not None:
        found["study"] = codec.digest(plan).hex()[:12]
    turn = getattr(request, "turn", None)
    return found if turn is None else {**found, "turn": turn}


def _refuse_the_network() -> None:
    """Let nothing in the guard's process open a network connection: Unix sockets only, whatever is imported."""
    looking_up = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event in looking_up or (event == "socket.__new__" and arguments[1] != socket.AF_UNIX):
            raise PermissionError

    sys.addaudithook(look)
