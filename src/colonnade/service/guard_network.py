"""What a guard's process may reach: nothing but Unix sockets, and the scheduler of its own Dask cluster where it has one."""

import socket
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from colonnade.errors import BadInput

__all__ = ["await_scheduler", "host_and_port", "refuse_the_network"]

ASK_AGAIN = 2.0
"""Seconds between two attempts to reach a scheduler that is not there yet."""


def refuse_the_network(but: str | None = None) -> None:
    """Let nothing in the guard's process open a network connection: Unix sockets only, whatever is imported.

    With a Dask cluster of its own a guard connects to that scheduler's address, and to nothing else. It never listens.
    """
    looking_up = {"socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
    listening = {"socket.bind", "socket.sendto", "socket.sendmsg"}
    host, port = ("", 0) if but is None else host_and_port(but)
    known = set() if but is None else {found[4][0] for found in _resolved(host, port)}

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.getaddrinfo" and arguments[0] in known | {host} and but is not None:
            return
        if event in looking_up or event == "socket.getaddrinfo":
            raise PermissionError
        if event == "socket.__new__" and arguments[1] != socket.AF_UNIX and not (but and _is_stream(*arguments[1:3])):
            raise PermissionError
        if event == "socket.connect" and arguments[0].family != socket.AF_UNIX:
            address = arguments[1]
            if address[0] not in known or address[1] != port:
                raise PermissionError
        if event in listening and arguments[0].family != socket.AF_UNIX:
            raise PermissionError

    sys.addaudithook(look)
    honest = socket.socket.listen

    def listen(self: socket.socket, *backlog: int) -> None:  # which is no event, and binds by itself
        if self.family != socket.AF_UNIX:
            raise PermissionError
        honest(self, *backlog)

    socket.socket.listen = listen  # type: ignore[method-assign,assignment]


def _is_stream(family: int, kind: int) -> bool:
    flags = getattr(socket, "SOCK_NONBLOCK", 0) | getattr(socket, "SOCK_CLOEXEC", 0)
    return family in (socket.AF_INET, socket.AF_INET6) and kind & ~flags == socket.SOCK_STREAM


def await_scheduler(address: str, away: Callable[[], None]) -> None:
    """Wait until something listens where a member's scheduler is: it may be started after the member, or again.

    Parameters
    ----------
    address
        The scheduler's address.
    away
        Called once if nothing does yet.
    """
    is_said = False
    while True:
        try:
            socket.create_connection(host_and_port(address), timeout=30).close()
        except OSError:
            if not is_said:
                away()
            is_said = True
            time.sleep(ASK_AGAIN)
        else:
            return


def host_and_port(address: str) -> tuple[str, int]:
    """Return where a scheduler listens, from its address."""
    try:
        where = urlsplit(address)
        host, port = where.hostname, where.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise BadInput(
            "A Dask scheduler is named by its address, with a port.", remedy="For example --dask tls://HOST:8786."
        )
    return host, port


def _resolved(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port)
    except OSError:
        raise BadInput("The host of the Dask scheduler is not known.", remedy="Correct its address.") from None
