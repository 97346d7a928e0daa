"""Kits of a small federation without processes, and a clock that can be moved."""

import socket
import ssl
import threading
from pathlib import Path

from colonnade.service.federation_setup import CertificateAuthority, SiteRequest
from colonnade.transport.kit import Kit

START = 1_800_000_000.0
DAY = 86_400.0


class Clock:
    """Seconds since 1970, moved by hand."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * DAY


def certified(authority: CertificateAuthority, kit: Kit, name: str, *, host: str | None = None, days: float = 360.0):
    """Have an authority sign a kit's own request, and install what it signed."""
    issue = kit.folder.with_name(f"{kit.folder.name}-issued")
    key = SiteRequest(name, kit.request(name).decode()).key()
    authority.issue(key, name, host=host, days=days).write(issue, kit.role)
    return kit.install(issue, name)


def connects(server: Kit, client: Kit) -> bool:
    """Whether two kits make a connection that both ends trust, by the rules of the TLS library that FLARE uses."""
    ours, theirs = socket.socketpair()
    outcome: list[bool] = []

    def listen() -> None:
        context = _context(ssl.PROTOCOL_TLS_SERVER, server)
        try:
            with context.wrap_socket(ours, server_side=True) as line:
                outcome.append(line.recv(2) == b"hi")
                line.send(b"hi")
        except (ssl.SSLError, OSError):
            outcome.append(False)

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        with _context(ssl.PROTOCOL_TLS_CLIENT, client).wrap_socket(theirs) as line:
            line.send(b"hi")
            answered = line.recv(2) == b"hi"
    except (ssl.SSLError, OSError):
        answered = False
    finally:
        theirs.close()
    listener.join()
    ours.close()
    return answered and outcome == [True]


def _context(protocol: int, kit: Kit) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
    context.load_verify_locations(kit.folder / "rootCA.pem")
    context.load_cert_chain(kit.certificate_file, kit.key_file)
    return context


def named_files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
