"""A member's processes: a guard with the data and no network, a relay with the network and no data, and their supervisor.

The supervisor reads no data and no keys, and loads neither the party's code nor the network's. It forks before either child has
opened anything, and each child loads its own code. A child that refuses to run (a damaged ledger, unsigned papers) is not
restarted.

A guard without a valid table looks from outside like one that its operator has stopped. The relay dials the coordinator, and
listens for other members, only once the guard listens. A guard that finds its table damaged while it runs says nothing more: it
asks the supervisor to stop the member, as an operator does, and the relay goes first.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TextIO

from colonnade.errors import CertificateExpired, ColonnadeError, DiskFull
from colonnade.event_log import Log, LogFile, write_status
from colonnade.private_files import lock_folder
from colonnade.protocol import agreement, codec, messages
from colonnade.service.guard_network import await_scheduler, refuse_the_network
from colonnade.service.health import RequestCounts, require_port, serve_health
from colonnade.service.party_folder import PartyFolder
from colonnade.service.supervisor import REFUSED, Supervisor
from colonnade.transport.direct import Endpoint
from colonnade.transport.kit import require_engine
from colonnade.transport.mailbox import erase_mail

if TYPE_CHECKING:
    from colonnade.party.refusals import RowsFailed
    from colonnade.service.member_links import MemberLinks

__all__ = ["MonitoredEndpoint", "run_guard", "run_relay", "serve_member"]

LARGEST_REFUSAL = 65_536
"""Bytes; a longer reply is an answer, and is not decoded to find out."""

QUIET = frozenset({"GetAccount", "GetDescription"})
"""Requests that ask for nothing but public facts, which monitors repeat; they are counted and not logged."""

ROOM = 1 << 20
"""Bytes that must fit on a disk that was full before a ledger is opened again; there are this many seconds between two tries."""
ROOM_SECONDS = 1.0

STATUS_SECONDS = 0.2
"""Seconds between two writings of a status file: to write it for every request would take longer than to answer most."""


def serve_member(
    path: Path,
    *,
    change_cap: bool,
    report: Callable[[ColonnadeError], None],
    health_port: int | None = None,
    log_file: Path | None = None,
    compute: str = "auto",
    memory: str | None = None,
    dask: str | None = None,
    direct: bool = False,
    direct_listen: str | None = None,
) -> int:
    """Start a member's guard and relay, and watch over both until this process is ended; return its exit status.

    Parameters
    ----------
    path
        The member's folder.
    change_cap
        Whether policy.toml's budget is recorded as the new cap of the ledger.
    report
        Shows the error of a process that refuses to run.
    health_port
        The port of the loopback interface that answers health checks and metrics; none is opened without it.
    log_file
        Where the log is written instead of to standard error.
    compute
        What the guard multiplies shares on (`colonnade.secure.devices`).
    memory
        How much memory the guard may use, in place of what schema.toml says.
    dask
        The scheduler of the member's own Dask cluster, in place of what schema.toml says.
    direct
        Whether letters to and from members that do the same go past the coordinator (`colonnade.transport.links`).
    direct_listen
        What to listen on for them, ``"host:port"``, where it is another address than the one in the papers.
    """
    folder = PartyFolder(path.resolve(), memory, dask)
    require_engine()  # imported by the relay alone: the guard's process never has it
    stream = sys.stderr if log_file is None else LogFile(log_file)
    log = Log(stream, folder.name, "supervisor")
    folder.require_safe()
    try:
        folder.kit.credentials()
    except CertificateExpired as error:
        report(error)  # the relay waits for a new one, and the guard answers its operator
    with lock_folder(folder.path):
        try:
            agreement.read_agreement(folder.papers).check()
        except ColonnadeError as error:
            log.event("papers-refused", code=error.code)
            raise
        listen = _listening_place(folder, direct_listen) if direct else None
        children: dict[str, Callable[[], None]] = {
            "guard": lambda: run_guard(folder, stream, change_cap=change_cap, report=report, compute=compute),
            "relay": lambda: run_relay(folder, stream, report, listen),
        }
        if health_port is not None:
            require_port(health_port)
            children["health"] = lambda: serve_health(folder.path, health_port)
        _erase_mail(folder)
        try:
            return Supervisor(children, log, report).run()
        finally:
            _erase_mail(folder)


def run_guard(
    folder: PartyFolder,
    stream: TextIO | LogFile,
    *,
    change_cap: bool = False,
    report: Callable[[ColonnadeError], None] = lambda _: None,
    compute: str = "auto",
) -> None:
    """Run as the guard: data, policy, ledger and keys, and no network but the way to its own Dask scheduler, if it has one."""
    from colonnade.party.serving import serve
    from colonnade.secure.devices import compute_on

    log, status = Log(stream, folder.name, "guard"), folder.path / "guard.status"
    try:
        scheduler = folder.scheduler
        refuse_the_network(but=scheduler)
        if scheduler is not None:
            await_scheduler(scheduler, partial(_scheduler_away, log, status))
        compute_on(compute)
        endpoint = _opened(folder, log, status, change_cap=change_cap)
    except ColonnadeError as error:
        log.event("refused-to-run", code=error.code)
        write_status(status, {"pid": os.getpid(), "stopped": f"{error.message} {error.remedy}"})
        raise
    monitored = MonitoredEndpoint(endpoint, log, status, report)
    signal.signal(signal.SIGTERM, monitored.end)
    serve(monitored, folder.socket, ready=monitored.ready)


def _opened(folder: PartyFolder, log: Log, status: Path, *, change_cap: bool) -> Endpoint:
    """Open table, policy and ledger behind a guard; on a full disk, once there is room."""
    while True:
        try:
            return folder.guard(change_cap=change_cap)
        except DiskFull as error:
            log.event("disk-full")
            write_status(status, {"pid": os.getpid(), "stopped": f"{error.message} {error.remedy}"})
            _await_room(folder.path)
            log.event("disk-freed")


def _await_room(folder: Path) -> None:
    """Return once so much can be written to the disk of a folder that a ledger can go on."""
    probe = folder / ".room"
    while True:
        time.sleep(ROOM_SECONDS)
        try:
            with probe.open("wb") as file:
                file.write(bytes(ROOM))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            continue
        else:
            return
        finally:
            probe.unlink(missing_ok=True)


def _scheduler_away(log: Log, status: Path) -> None:
    log.event("scheduler-away")
    words = "The member waits: its Dask scheduler does not answer. Start it, or correct its address."
    write_status(status, {"pid": os.getpid(), "stopped": words})


def run_relay(
    folder: PartyFolder,
    stream: TextIO | LogFile,
    report: Callable[[ColonnadeError], None] = lambda _: None,
    direct: str | None = None,
) -> None:
    """Run as the relay: the network and the guard's socket. It reads only the kit in the folder, and mail that came directly.

    ``direct`` is what it listens on for its peers; without it there are no direct links.
    """
    from colonnade.service.relay import SiteRelay

    where = agreement.read_agreement(folder.papers).coordinator
    log = Log(stream, folder.name, "relay")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not folder.listening:
        if ended.wait(0.05):
            os._exit(0)
    # only now: peers, too, see whether somebody listens
    links = None if direct is None else _open_links(folder, direct, log)
    relay = SiteRelay(
        folder.name,
        guard=folder.socket if links is None else links.socket,
        address=where.address,
        kit=folder.kit.folder,
        host=where.host,
        log=log,
        report=report,
    )
    while not ended.wait(1.0):
        relay.tick()
        if links is not None:
            links.tick()
        write_status(
            folder.path / "relay.status",
            {
                "pid": os.getpid(),
                "connected": relay.connected,
                "fault": None if relay.fault is None else relay.fault.message,
                "bytes_in": relay.bytes_in,
                "bytes_out": relay.bytes_out,
                "direct_in": 0 if links is None else links.bytes_in,
                "direct_out": 0 if links is None else links.bytes_out,
            },
        )
    relay.close()
    if links is not None:
        links.close()
    os._exit(0)  # FLARE may have left threads behind


def _erase_mail(folder: PartyFolder) -> None:
    """Erase letters that came directly, before a member begins and after it has ended: no guard has a run that they are for."""
    erase_mail(folder.path / "mail")
    (folder.path / "post.sock").unlink(missing_ok=True)


def _listening_place(folder: PartyFolder, chosen: str | None) -> str:
    from colonnade.service.member_links import where_to_listen

    return where_to_listen(folder, chosen)


def _open_links(folder: PartyFolder, listen: str, log: Log) -> "MemberLinks":
    from colonnade.service.member_links import MemberLinks

    return MemberLinks(folder, listen, log)


class MonitoredEndpoint:
    """An endpoint whose requests are counted, and which ends when none is under way.

    Parameters
    ----------
    endpoint
        A guard or a compute node.
    log
        Where refusals are written.
    status
        The file that says what it is doing.
    report
        Shows its owner why it does not go on.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        log: Log,
        status: Path,
        report: Callable[[ColonnadeError], None] = lambda _: None,
    ) -> None:
        self._endpoint = endpoint
        self._log = log
        self._status = status
        self._report = report
        self._lock = threading.RLock()  # a signal may come while this very thread holds it
        self._under_way = 0
        self._is_refused = False
        self._is_full = False
        self._ending = False
        self._answered = 0
        self._refused = 0
        self._counts = RequestCounts()
        self._last: dict[str, str | int] = {}
        self._is_news = threading.Event()

    def ready(self) -> None:
        """Say that the socket accepts connections, and from now on what is asked."""
        self._log.event("started", pid=os.getpid())
        self._write()
        threading.Thread(target=self._keep_writing, name="colonnade-status", daemon=True).start()

    def handle(self, data: bytes) -> bytes:
        """Answer one request, and note what kind it was and whether it was refused."""
        kind = _kind(data)
        self._begin(kind)
        try:
            reply = self._endpoint.handle(data)
            failure: RowsFailed | None = getattr(self._endpoint, "failure", None)
            if failure is not None:
                self._stop_the_member(failure)
            self._note(kind, reply)
        finally:
            self._leave()
        return reply

    def end(self, *_: int | FrameType | None) -> None:
        """End now, or once the answers under way are out: what was paid for is not thrown away."""
        with self._lock:
            self._ending = True
            if self._is_refused:
                os._exit(REFUSED)
            if not self._under_way:
                self._exit()

    def _stop_the_member(self, failure: "RowsFailed") -> NoReturn:
        """Say why to the owner and nothing to anybody else; have the supervisor stop the member, and end with it."""
        with self._lock:
            if not self._is_refused:
                self._is_refused = True
                error = failure.for_the_owner()
                self._report(error)
                self._log.event("refused-to-run", code=failure.code, reason=failure.place, pid=os.getpid())
                write_status(self._status, {"pid": os.getpid(), "stopped": f"{error.message} {error.remedy}"})
                os.kill(os.getppid(), signal.SIGTERM)
        while True:  # no answer leaves; the supervisor's signal ends this process
            time.sleep(1.0)

    def _begin(self, kind: dict[str, str | int]) -> None:
        with self._lock:
            if self._ending:
                raise ConnectionAbortedError  # the client asks again, whoever answers by then
            self._under_way += 1
            self._last = kind
            self._is_news.set()

    def _leave(self) -> None:
        with self._lock:
            self._under_way -= 1
            if self._ending and not self._under_way:
                threading.Timer(0.5, self._exit).start()  # once the reply is out

    def _exit(self) -> None:
        self._log.event("stopped", pid=os.getpid())
        os._exit(0)

    def _note(self, kind: dict[str, str | int], reply: bytes) -> None:
        decoded = codec.decode_reply(reply) if len(reply) <= LARGEST_REFUSAL else None
        refused = decoded.code if isinstance(decoded, messages.Refused) else None
        with self._lock:
            self._answered += 1
            self._is_news.set()
            self._counts.note(kind, refused)
            if refused is not None:
                self._refused += 1
                self._log.event("refused", code=refused, **kind)
                if refused == DiskFull.code and not self._is_full:
                    self._is_full = True
                    threading.Thread(target=self._end_once_there_is_room, name="colonnade-room", daemon=True).start()
            elif kind["request"] not in QUIET:
                self._log.event("answered", bytes=len(reply), **kind)

    def _end_once_there_is_room(self) -> None:
        """Wait for room on the disk, and end: a ledger that met a full disk refuses everything until it is opened again.

        The supervisor starts the guard again, which opens the ledger and verifies all of it, as after a crash. Nothing that
        failed is tried again here.
        """
        self._log.event("disk-full")
        _await_room(self._status.parent)
        self._log.event("disk-freed")
        self.end()

    def _keep_writing(self) -> None:
        while True:
            self._is_news.wait()
            self._is_news.clear()
            self._write()
            time.sleep(STATUS_SECONDS)

    def _write(self) -> None:
        with self._lock:
            if self._is_refused:
                return  # the file says why
            content = {
                "pid": os.getpid(),
                "answered": self._answered,
                "refused": self._refused,
                "last": self._last,
                **self._counts.content(),
            }
            write_status(self._status, content)


def _kind(data: bytes) -> dict[str, str | int]:
    """Return what kind of request this is, in public words."""
    try:
        request = codec.decode_request(data)
    except ColonnadeError:
        return {"request": "malformed"}
    found: dict[str, str | int] = {"request": type(request).__name__}
    study = codec.study_of(request)
    if study is not None:
        found["study"] = study
    turn = getattr(request, "turn", None)
    return found if turn is None else {**found, "turn": turn}
