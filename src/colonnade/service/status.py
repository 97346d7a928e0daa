"""How a member, or a coordinator, is doing: what its processes last said of themselves, and whether they answer."""

import os
from dataclasses import dataclass
from pathlib import Path

from colonnade.errors import ColonnadeError
from colonnade.event_log import read_status
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import NANO
from colonnade.protocol import codec
from colonnade.protocol.messages import Accounted, GetAccount, Reply
from colonnade.service.party_folder import PartyFolder
from colonnade.transport.direct import UnixEndpoint

__all__ = ["MemberStatus", "connected_to_coordinator", "member_status"]

STALE = 10.0
"""Seconds after which a relay that writes its status every second is not running."""


@dataclass(frozen=True)
class MemberStatus:
    """What is known of one member's two processes.

    Parameters
    ----------
    name, role
        The member's.
    account
        The guard's answer to a request for its account; any answer shows that it is well. ``None`` where it does not answer.
    answered, refused, last
        How many requests it has answered and refused, and what was last asked, in public words.
    running, connected
        Whether the relay is running, and whether the coordinator is there.
    bytes_in, bytes_out
        What the relay has carried.
    """

    name: str
    role: str
    account: Reply | None
    answered: int
    refused: int
    last: str
    running: bool
    connected: bool
    bytes_in: int
    bytes_out: int

    @property
    def well(self) -> bool:
        """Whether the guard answers and the relay is connected."""
        return self.account is not None and self.connected

    @property
    def budget(self) -> tuple[float, float, float] | None:
        """ε spent, the cap and its δ, where the member has a ledger."""
        if not isinstance(self.account, Accounted) or self.role != "data":
            return None
        spent = Loss.from_bytes(self.account.spent).epsilon(self.account.cap_delta)
        return spent, self.account.cap_nano / NANO, self.account.cap_delta


def member_status(member: PartyFolder) -> MemberStatus:
    """Ask a member's guard for its account, and read what guard and relay last wrote."""
    guard = read_status(member.path / "guard.status") or {}
    relay = read_status(member.path / "relay.status", newer_than=STALE)
    found = relay or {"connected": False, "bytes_in": 0, "bytes_out": 0}
    return MemberStatus(
        name=member.name,
        role=member.role,
        account=_account(member),
        answered=guard.get("answered", 0),
        refused=guard.get("refused", 0),
        last=" ".join(f"{key}={value}" for key, value in guard.get("last", {}).items()),
        running=relay is not None,
        connected=found["connected"],
        bytes_in=found["bytes_in"],
        bytes_out=found["bytes_out"],
    )


def connected_to_coordinator(state: Path) -> list[str] | None:
    """Return the members that are connected to the coordinator that keeps its state here; ``None`` if none is running."""
    found = read_status(state / "coordinator.status")
    if found is None:
        return None
    try:
        os.kill(found["pid"], 0)
    except OSError:
        return None
    connected: list[str] = found["connected"]
    return connected


def _account(member: PartyFolder) -> Reply | None:
    try:
        return codec.decode_reply(UnixEndpoint(member.socket, timeout=10.0).handle(codec.encode(GetAccount())))
    except ColonnadeError:
        return None
