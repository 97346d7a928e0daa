"""Whether a member's processes are well: their status, two kinds of health check, and metrics.

*Live*: the guard answers. A member that is not is worth restarting. *Ready*: it can take part in a study, because its ledger
answers, it is connected, its certificate and clock are in order and its disk has room. A member that is not needs its operator,
or a coordinator that runs. One whose disk was full is live, and not ready until there is room: it then goes on by itself.

Metrics have a fixed vocabulary (`METRICS`), and nothing in them depends on rows. All of it is for the member's operator: it is
served on the loopback interface alone (`serve_health`), by a process that has neither data nor keys.
"""

import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from colonnade.errors import BadInput, ColonnadeError, DiskFull
from colonnade.privacy.accounting import NANO, Loss
from colonnade.protocol import messages
from colonnade.runtime.event_log import read_status
from colonnade.service.party_folder import PartyFolder
from colonnade.transport.direct import UnixEndpoint
from colonnade.transport.kit import Certificate

CARRIED = ("bytes_in", "bytes_out", "direct_in", "direct_out")

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
        The guard's answer to a request for its account. ``None`` where it does not answer.
    last, stopped
        What the guard was last asked, in public words; and why it does not answer, where it refused to run, for the owner.
    counts
        What the guard has counted since it was started.
    relay
        What the relay wrote of itself in the last seconds: whether it is connected, why not if a certificate is the reason, and
        the bytes that it has carried from and to the coordinator, and other members directly. ``None`` where it is not running.
    certificates
        The relay's certificate and its authority's, by file.
    """

    name: str
    role: str
    account: messages.Reply | None
    last: str
    stopped: str
    counts: "RequestCounts"
    relay: Mapping[str, Any] | None
    certificates: Mapping[str, Certificate]

    @property
    def connected(self) -> bool:
        """Whether the coordinator is there."""
        return self.relay is not None and bool(self.relay["connected"])

    @property
    def fault(self) -> str | None:
        """Why the relay does not connect, where a certificate is the reason."""
        return None if self.relay is None else self.relay["fault"]

    @property
    def carried(self) -> dict[str, int]:
        """Bytes, by way and direction."""
        return {way: 0 if self.relay is None else self.relay[way] for way in CARRIED}

    @property
    def refusal(self) -> str:
        """The code by which a party refuses to say what it has spent: its ledger is not in use. Empty where it is."""
        refuses = self.role == "data" and isinstance(self.account, messages.Refused)
        return self.account.code if refuses and isinstance(self.account, messages.Refused) else ""

    @property
    def budget(self) -> "Budget | None":
        """ε spent, the cap and its δ, where the member has a ledger."""
        if not isinstance(self.account, messages.Accounted) or self.role != "data":
            return None
        spent = Loss.from_bytes(self.account.spent).epsilon(self.account.cap_delta)
        return spent, self.account.cap_nano / NANO, self.account.cap_delta

    def content(self, now: float, data: str | None) -> dict[str, object]:
        """Return it as plain JSON values, ``data`` being what the member says of its data version."""
        return {
            "member": self.name,
            "role": self.role,
            "guard": self.account is not None,
            "ledger": self.refusal or None,
            "stopped": self.stopped or None,
            "data": data,
            "last": self.last or None,
            "answered": self.counts.requests.total(),
            "refused": self.counts.refusals.total(),
            "relay": self.relay is not None,
            "connected": self.connected,
            **self.carried,
            "fault": self.fault,
            "certificates": {str(file): one.words(now) for file, one in self.certificates.items()},
            "budget": None if self.budget is None else dict(zip(("spent", "cap", "delta"), self.budget, strict=True)),
        }


def member_status(path: Path) -> MemberStatus:
    """Ask the guard of a member's folder for its account, and read the status files of guard and relay."""
    member = PartyFolder(path.resolve())
    account = _asked(member, messages.GetAccount())
    guard = read_status(member.path / "guard.status") or {}
    return MemberStatus(
        name=member.name,
        role=member.role,
        account=account,
        last=" ".join(f"{key}={value}" for key, value in guard.get("last", {}).items()),
        stopped=guard.get("stopped", "") if account is None else "",
        counts=RequestCounts.read(guard),
        relay=read_status(member.path / "relay.status", newer_than=STALE),
        certificates=member.kit.certificates(),
    )


def serving_version(path: Path) -> int | None:
    """Return the data version that the running guard of a member's folder answers from; ``None`` if it does not answer."""
    member = PartyFolder(path.resolve())
    described = _asked(member, messages.GetDescription()) if member.listening else None
    return described.version if isinstance(described, messages.Described) else None


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


def _asked(member: PartyFolder, request: messages.Request) -> messages.Reply | None:
    try:
        return messages.decode_reply(UnixEndpoint(member.socket, timeout=10.0).handle(messages.encode(request)))
    except ColonnadeError:
        return None


@dataclass
class RequestCounts:
    """How many requests of each kind a guard was asked, how many it refused by which code, and how many were rounds.

    Examples
    --------
    >>> counts = RequestCounts()
    >>> counts.note({"request": "Post", "turn": 3}, None)
    >>> counts.note({"request": "Ask"}, "budget-exceeded")
    >>> counts.rounds, dict(counts.refusals)
    (1, {'budget-exceeded': 1})
    """

    requests: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    rounds: int = 0

    def note(self, kind: Mapping[str, str | int], refused: str | None) -> None:
        """Count one request, described in public words, and the code of its refusal if it was refused."""
        self.requests[str(kind["request"])] += 1
        self.rounds += "turn" in kind
        if refused is not None:
            self.refusals[refused] += 1

    def content(self) -> dict[str, object]:
        """Return what a status file holds of it."""
        return {"requests": dict(self.requests), "refusals": dict(self.refusals), "rounds": self.rounds}

    @classmethod
    def read(cls, status: Mapping[str, Any]) -> "RequestCounts":
        """Read it from a status file."""
        return cls(Counter(status.get("requests", {})), Counter(status.get("refusals", {})), status.get("rounds", 0))


# Checks --------------------------------------------------------------------------------------------------------------------

Check = Callable[[], str]

THIS_SOFTWARE_EXISTS = 1_735_689_600  # 2025-01-01: a clock before it is wrong
LEAST_FREE = 256 * 2**20
"""Bytes on the ledger's disk: a full disk refuses every debit, and so every study."""


class CheckFailed(Exception):
    """A check that failed, and what to do about it."""


def run_checks(checks: Iterable[tuple[str, Check]]) -> Iterator[tuple[str, bool, str]]:
    """Run checks; yield the name of each, whether it found all well, and its words."""
    for name, check in checks:
        try:
            yield name, True, check()
        except CheckFailed as failed:
            yield name, False, str(failed)
        except Exception as error:  # noqa: BLE001  # a broken installation fails in ways that nobody expects
            words = f"failed with {type(error).__name__}; reinstall: pip install --force-reinstall colonnade"
            yield name, False, words


def live_checks(folder: Path) -> list[tuple[str, Check]]:
    """Return what shows that a member is alive: its guard answers."""
    found = member_status(folder)
    return [("guard", lambda: _answers(found)), ("ledger", lambda: _keeps_account(found, waits=True))]


def ready_checks(folder: Path) -> list[tuple[str, Check]]:
    """Return what a member needs to take part in a study."""
    found = member_status(folder)
    return [
        ("guard", lambda: _answers(found)),
        ("ledger", lambda: _keeps_account(found)),
        ("connection", lambda: _connected(found)),
        ("certificate", lambda: _in_time(found)),
        ("disk", lambda: _has_room(folder)),
        ("clock", lambda: _clock(folder)),
    ]


def _answers(found: MemberStatus) -> str:
    """Why a guard has stopped may count rows: `colonnade party status` shows it to its owner, and no monitor passes it on."""
    if found.account is None:
        raise CheckFailed("the guard does not answer; party status says why, party serve restarts it")
    return "answers"


def _keeps_account(found: MemberStatus, *, waits: bool = False) -> str:
    """``waits``: a ledger that waits for room on its disk is well enough; a restart would not help it."""
    if found.refusal == DiskFull.code and waits:
        return "waits for room on its disk"
    if found.refusal == DiskFull.code:
        raise CheckFailed("its disk was full; make room: the party then goes on by itself")
    if found.refusal:
        raise CheckFailed(f"refuses everything: {found.refusal}; see the log, and restart the party")
    return "answers" if found.role == "data" else "a compute node has none"


def _connected(found: MemberStatus) -> str:
    if not found.connected:
        raise CheckFailed(
            found.fault or ("the relay is not running" if found.relay is None else "waiting for the coordinator")
        )
    return "connected to the coordinator"


def _in_time(found: MemberStatus) -> str:
    if not found.certificates:
        raise CheckFailed("there is none; colonnade party install")
    now = time.time()
    for file, one in found.certificates.items():
        try:
            one.refuse_outside(now, file)
        except ColonnadeError as error:
            raise CheckFailed(f"{error.message} {error.remedy}") from None
    return "; ".join(f"{file} {one.words(now)}" for file, one in found.certificates.items())


def _has_room(folder: Path) -> str:
    require_room(folder)
    return "has room"


def require_room(folder: Path) -> int:
    """Return how many MB are free on a folder's disk; a disk that is nearly full fails the check."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        raise CheckFailed(f"only {free // 2**20} MB are free; make room: a full disk refuses every study")
    return free // 2**20


def _clock(folder: Path) -> str:
    """Check that time is plausible and not before what a process of this member wrote last."""
    now = time.time()
    written = [found["time"] for name in ("guard", "relay") if (found := read_status(folder / f"{name}.status"))]
    if now < max([THIS_SOFTWARE_EXISTS, *(one - CLOCK_SLACK for one in written)]):
        raise CheckFailed("the clock has gone back, or was never set; set it")
    return "plausible"


CLOCK_SLACK = 300.0
"""Seconds by which a clock may be set back: time servers correct that much in one step, and machines that share a disk differ."""


# Metrics -------------------------------------------------------------------------------------------------------------------

METRICS = {
    "colonnade_up": ("gauge", "1 if the guard answers, and its ledger is in use."),
    "colonnade_connected": ("gauge", "1 if the relay is connected to the coordinator."),
    "colonnade_requests_total": ("counter", "Requests that the guard was asked, by kind."),
    "colonnade_refusals_total": ("counter", "Requests that the guard refused, by code."),
    "colonnade_rounds_total": ("counter", "Turns of conversations that the guard answered."),
    "colonnade_bytes_total": ("counter", "Bytes that the relay carried, by direction."),
    "colonnade_direct_bytes_total": ("counter", "Bytes of letters from and to other members directly, by direction."),
    "colonnade_epsilon_spent": ("gauge", "Epsilon that the ledger shows as spent, at the delta of its cap."),
    "colonnade_epsilon_left": ("gauge", "Epsilon that is left under the cap."),
    "colonnade_certificate_days_left": ("gauge", "Days until a certificate ends, by file."),
}
"""Every metric there is: its type and its help. No label holds anything but a kind, a code, a direction or a file name."""


Budget = tuple[float, float, float]
"""ε spent, the cap and its δ."""


def metrics(found: MemberStatus, known: Budget | None = None) -> str:
    """Return a member's metrics in Prometheus' text format; ``known`` is what is shown of a ledger that does not answer."""
    now, budget = time.time(), found.budget or known
    values: dict[str, list[tuple[str, float]]] = {
        "colonnade_up": [("", float(found.account is not None and not found.refusal))],
        "colonnade_connected": [("", float(found.connected))],
        "colonnade_requests_total": [
            (f'request="{kind}"', count) for kind, count in sorted(found.counts.requests.items())
        ],
        "colonnade_refusals_total": [
            (f'code="{code}"', count) for code, count in sorted(found.counts.refusals.items())
        ],
        "colonnade_rounds_total": [("", found.counts.rounds)],
        "colonnade_bytes_total": [(f'direction="{way}"', found.carried[f"bytes_{way}"]) for way in ("in", "out")],
        "colonnade_direct_bytes_total": [
            (f'direction="{way}"', found.carried[f"direct_{way}"]) for way in ("in", "out")
        ],
        "colonnade_certificate_days_left": [
            (f'certificate="{file}"', round(one.days_left(now), 3)) for file, one in found.certificates.items()
        ],
    }
    if budget is not None:
        spent, cap, _ = budget
        values["colonnade_epsilon_spent"] = [("", spent)]
        values["colonnade_epsilon_left"] = [("", max(cap - spent, 0.0))]
    lines = []
    for name, (kind, words) in METRICS.items():
        rows = values.get(name, [])
        if rows:
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
        for label, value in rows:
            labels = f'member="{found.name}"' + (f",{label}" if label else "")
            lines.append(f"{name}{{{labels}}} {value:.9g}")
    return "\n".join([*lines, ""])


# Over HTTP, on this machine ------------------------------------------------------------------------------------------------

LOOPBACK = "127.0.0.1"
_NAMES = frozenset({LOOPBACK, "localhost"})


def require_port(port: int) -> None:
    """Refuse a port on the loopback interface that is taken, before anything is started."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            raise BadInput(
                f"Port {port} of the loopback interface is taken.", remedy="Give another with --health-port."
            ) from None


def serve_health(folder: Path, port: int) -> None:
    """Answer ``/live``, ``/ready`` and ``/metrics`` on the loopback interface until the process ends."""
    known: list[Budget] = []  # what the ledger said last: while it says nothing, nothing is spent from it

    def figures() -> str:
        found = member_status(folder)
        if found.budget is not None:
            known[:] = [found.budget]
        return metrics(found, known[0] if known else None)

    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0  # a client that says nothing does not stay

        def do_GET(self) -> None:
            if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in _NAMES:  # a page that was sent elsewhere
                self._send(403, "only for this machine\n")
            elif self.path == "/metrics":
                self._send(200, figures())
            elif self.path in ("/live", "/ready"):
                results = list(run_checks(live_checks(folder) if self.path == "/live" else ready_checks(folder)))
                text = "".join(
                    f"{'ok   ' if sound else 'WRONG'} {name:<12} {words}\n" for name, sound, words in results
                )
                self._send(200 if all(sound for _, sound, _ in results) else 503, text)
            else:
                self._send(404, "there are /live, /ready and /metrics\n")

        def _send(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: what a monitor asks is no event, and a request line is free text."""

    ThreadingHTTPServer((LOOPBACK, port), Handler).serve_forever()
