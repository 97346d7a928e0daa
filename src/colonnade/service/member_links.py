"""A member's direct links, put together: whom they lead to, where it listens, and a socket in place of the guard's."""

import contextlib
import threading
import time
from pathlib import Path

from colonnade.errors import BadInput, ColonnadeError
from colonnade.event_log import Log
from colonnade.party.serving import serve
from colonnade.protocol import agreement
from colonnade.service import toml_parts
from colonnade.service.party_folder import PartyFolder
from colonnade.service.post_office import PostOffice
from colonnade.transport.direct import UnixEndpoint
from colonnade.transport.links import Link, Listener
from colonnade.transport.mailbox import Mailbox

__all__ = ["MemberLinks", "where_to_listen"]

READY = 30.0
RECHECK = 60.0
LONGEST = 3_600.0
"""Seconds that a guard may work on one answer, as for a coordinator."""


def where_to_listen(folder: PartyFolder, chosen: str | None = None) -> str:
    """Return what a member listens on for its peers; refuse where its policy does, or the papers have no address of it.

    Parameters
    ----------
    folder
        The member's folder.
    chosen
        Another address than the one in the papers, for a machine that is reached by a name that is not its own.
    """
    rules = toml_parts.parse(folder.path / "policy.toml").get("policy", {}) if folder.role == "data" else {}
    if toml_parts.as_table(rules, "policy").get("direct_links", True) is not True:
        raise BadInput(
            "This party's policy forbids direct links.",
            remedy="Serve it without --direct, or change direct_links in policy.toml.",
        )
    addresses = agreement.read_agreement(folder.papers).direct_addresses()
    if folder.name not in addresses:
        raise BadInput(
            "The papers have no address at which the other members reach this one.",
            remedy='Write direct = "HOST:PORT" into member.toml, and have new papers made from the new card.',
        )
    listen = chosen or addresses[folder.name]
    agreement.address_of(listen)
    return listen


class MemberLinks:
    """Everything about links in a relay's process.

    Parameters
    ----------
    folder
        The member's folder: papers, kit and mail are read, and nothing else.
    listen
        What to listen on, ``"host:port"``.
    log
        The relay's log.
    """

    def __init__(self, folder: PartyFolder, listen: str, log: Log) -> None:
        addresses = agreement.read_agreement(folder.papers).direct_addresses()
        self._papers = folder.papers
        self._looked = time.monotonic()
        peers = {name: address for name, address in addresses.items() if name != folder.name}
        self.mailbox = Mailbox(folder.path / "mail", peers)
        self._links = {name: Link(name, address, folder.kit, log) for name, address in peers.items()}
        self._listener = Listener(listen, folder.kit, peers, self.mailbox, log)
        self._office = PostOffice(UnixEndpoint(folder.socket, timeout=LONGEST), self.mailbox, self._links)
        self._socket = folder.path / "post.sock"
        ready = threading.Event()
        threading.Thread(
            target=serve, args=(self._office, self._socket), kwargs={"ready": ready.set}, daemon=True
        ).start()
        if not ready.wait(READY):
            raise BadInput(
                f"{self._socket.name} cannot be made in this member's folder.",
                remedy="Give the member a folder with a shorter path.",
            )

    @property
    def socket(self) -> Path:
        """What the relay connects to in place of the guard's socket."""
        return self._socket

    @property
    def bytes_in(self) -> int:
        """Bytes of letters that came directly."""
        return self._listener.bytes_in

    @property
    def bytes_out(self) -> int:
        """Bytes of letters that went directly."""
        return sum(link.bytes_out for link in self._links.values())

    def tick(self) -> None:
        """Erase old mail; from time to time, see from the papers who is still a member."""
        self.mailbox.tick()
        now = time.monotonic()
        if now - self._looked > RECHECK:
            self._looked = now
            with contextlib.suppress(ColonnadeError):  # papers that are being replaced, and do not hold yet
                self._listener.keep_only(agreement.read_agreement(self._papers).check().direct_addresses())

    def close(self) -> None:
        """Stop listening, and hang up on everybody."""
        self._listener.close()
        self._office.close()
