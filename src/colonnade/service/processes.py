"""What a member's two processes do: the guard answers on its socket, the relay carries."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.event_log import Log, write_status
from colonnade.protocol import codec
from colonnade.protocol.agreement import read_agreement
from colonnade.protocol.messages import Refused
from colonnade.service.party_folder import PartyFolder
from colonnade.service.supervisor import Supervisor
from colonnade.transport.direct import Endpoint
from colonnade.transport.kit import Kit, require_engine

__all__ = ["MonitoredEndpoint", "run_guard", "run_relay", "serve_member"]


def serve_member(folder: PartyFolder, *, change_cap: bool, report: Callable[[ColonnadeError], None]) -> int:
    """Start a member's guard and relay, and watch over both until this process is ended; return its exit status.

    Parameters
    ----------
    folder
        The member.
    change_cap
        Whether policy.toml's budget is recorded as the new cap of the ledger.
    report
        Shows the error of a process that refuses to run.
    """
    require_engine()  # imported by the relay alone: the guard's process never has it
    log = Log(sys.stderr, folder.name, "supervisor")
    Kit(folder.path / "kit").credentials("client")
    try:
        read_agreement(folder.papers).check()
    except ColonnadeError as error:
        log.event("papers-refused", code=error.code)
        raise
    children = {"guard": lambda: run_guard(folder, change_cap=change_cap), "relay": lambda: run_relay(folder)}
    return Supervisor(children, log, report).run()


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
    monitored = MonitoredEndpoint(endpoint, log, folder.path / "guard.status")
    signal.signal(signal.SIGTERM, monitored.end)
    serve(monitored, folder.socket, ready=monitored.ready)


def run_relay(folder: PartyFolder) -> None:
    """Be the relay: the network, a socket, and nothing else of the folder but its kit."""
    from colonnade.service.relay import SiteRelay

    where = read_agreement(folder.papers).coordinator
    log = Log(sys.stderr, folder.name, "relay")
    relay = SiteRelay(
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


class MonitoredEndpoint:
    """An endpoint whose requests are counted, and which ends between two of them.

    Parameters
    ----------
    endpoint
        A guard or a compute node.
    log
        Where refusals are monitored.
    status
        The file that says what it is doing.
    """

    def __init__(self, endpoint: Endpoint, log: Log, status: Path) -> None:
        self._endpoint = endpoint
        self._log = log
        self._status = status
        self._busy = False
        self._ending = False
        self._answered = 0
        self._refused = 0
        self._last: dict[str, str | int] = {}

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
        return reply

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


def _kind(data: bytes) -> dict[str, str | int]:
    """Return what kind of request this is, in public words."""
    try:
        request = codec.decode_request(data)
    except ColonnadeError:
        return {"request": "malformed"}
    found: dict[str, str | int] = {"request": type(request).__name__}
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
