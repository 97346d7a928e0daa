"""A member's processes: a guard with the data and no network, a relay with the network and no data, and their supervisor.

The supervisor reads no data and no keys, and loads neither the party's code nor the network's. It forks before either child has
opened anything, and each child loads its own code. A child that refuses to run (a damaged ledger, unsigned papers) is not
restarted.

A guard without a valid table looks from outside like one that its operator has stopped. The relay dials the coordinator, and
listens for other members, only once the guard listens. A guard that finds its table damaged while it runs says nothing more: it
asks the supervisor to stop the member, as an operator does, and the relay goes first.
"""

import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO
from urllib.parse import urlsplit

from colonnade.errors import BadInput, CertificateExpired, ColonnadeError, DiskFull
from colonnade.protocol import agreement, messages
from colonnade.runtime.event_log import Log, LogFile, write_status
from colonnade.runtime.private_files import lock_folder
from colonnade.service import toml_parts
from colonnade.service.health import RequestCounts, require_port, serve_health
from colonnade.service.party_folder import PartyFolder
from colonnade.transport import links
from colonnade.transport.direct import Endpoint
from colonnade.transport.kit import require_engine

if TYPE_CHECKING:
    from colonnade.party.table.private_table import RowsFailed


REFUSED = 1
"""The exit status of a child that refuses to run."""

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What asks a member to stop."""

GRACE = 10.0
"""Seconds that a child has to end before it is killed."""

LONGEST_PAUSE = 5.0
"""Seconds between two starts of a child that keeps dying."""


class Supervisor:
    """A process that starts children, restarts them when they die, and ends them in order.

    Parameters
    ----------
    children
        What each child does, by name, in the order in which they are started.
    log
        Where starts and ends of children are written.
    report
        How a child that refuses to run says why.
    """

    def __init__(
        self, children: Mapping[str, Callable[[], None]], log: Log, report: Callable[[ColonnadeError], None]
    ) -> None:
        self._children = dict(children)
        self._report = report
        self._log = log
        self._pids: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._pauses = dict.fromkeys(children, 0.1)
        self._started: dict[str, float] = {}
        self._stopping = False
        self._signal = 0
        self._lifeline = os.pipe()

    def run(self) -> int:
        """Watch over the children until asked to stop; return 1 if one of them refused to run."""
        for number in STOPPING:
            if (
                number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
            ):  # nohup: its terminal may close
                signal.signal(number, self._ask_to_stop)
        for name in self._children:
            self._start(name)
        status = 0
        while not self._stopping and status == 0:
            status = max((self._look_after(name) for name in self._children), default=0)
            time.sleep(0.02)
        if self._signal:
            self._log.event("stopping", reason=signal.Signals(self._signal).name, pid=os.getpid())
        return max(status, self._stop())

    def _ask_to_stop(self, number: int, _: object) -> None:
        self._stopping, self._signal = True, number

    def _look_after(self, name: str) -> int:
        pid = self._pids.get(name)
        if pid is None:
            if time.monotonic() >= self._due[name]:
                self._start(name, again=True)
            return 0
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == 0:
            return 0
        del self._pids[name]
        code = os.waitstatus_to_exitcode(status)
        self._log.event("exited", child=name, status=code, pid=pid)
        if code == REFUSED:
            return REFUSED
        lived = time.monotonic() - self._started[name]
        self._pauses[name] = 0.1 if lived > 10 else min(2 * self._pauses[name], LONGEST_PAUSE)
        self._due[name] = time.monotonic() + self._pauses[name]
        return 0

    def _start(self, name: str, *, again: bool = False) -> None:
        # A signal that comes before the child has its own handlers waits: the supervisor's would swallow it there.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # this process has one thread of its own
                pid = os.fork()
            if pid == 0:
                os._exit(self._live(self._children[name]))
        finally:  # also if no process can be made: the supervisor can still be stopped
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        self._pids[name] = pid
        self._started[name] = time.monotonic()
        self._log.event("restarted" if again else "started", child=name, pid=pid)

    def _live(self, work: Callable[[], None]) -> int:
        """Run as a child: do the work, and end when the supervisor ends."""
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for number in (signal.SIGINT, signal.SIGHUP):  # both reach the supervisor, which stops this child
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            os.close(self._lifeline[1])
            threading.Thread(target=self._end_with_supervisor, daemon=True).start()
            work()
        except ColonnadeError as error:
            self._report(error)
            return REFUSED
        except BaseException:  # noqa: BLE001  # its text might quote data; the supervisor restarts this child
            return 70
        return 0

    def _end_with_supervisor(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._lifeline[0], 1)  # nobody writes: this returns when the supervisor is gone
        os._exit(0)

    def _stop(self) -> int:
        """End the children, the network side first; return 1 if one of them had refused to go on."""
        status = 0
        for name in reversed(self._children):
            pid = self._pids.pop(name, None)
            if pid is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            status = REFUSED if self._await(pid) == REFUSED else status
            self._log.event("stopped", child=name, pid=pid)
        for end in self._lifeline:
            os.close(end)
        return status

    def _await(self, pid: int) -> int:
        """Return a child's exit status, once it has ended or was killed."""
        deadline = time.monotonic() + GRACE
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                deadline = math.inf
            time.sleep(0.02)


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


LARGEST_REFUSAL = 65_536
"""Bytes; a longer reply is an answer, and is not decoded to find out."""

QUIET = frozenset({"GetAccount", "GetDescription"})
"""Requests that ask for nothing but public facts, which monitors repeat; they are counted and not logged."""

ROOM_BYTES = 1 << 20
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
        What the guard multiplies shares on (`colonnade.secure.shamir`).
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
        listen = where_to_listen(folder, direct_listen) if direct else None
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
    from colonnade.secure.shamir import compute_on

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
                file.write(bytes(ROOM_BYTES))
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
    from colonnade.service.relay import MemberLinks, SiteRelay

    where = agreement.read_agreement(folder.papers).coordinator
    log = Log(stream, folder.name, "relay")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not folder.listening:
        if ended.wait(0.05):
            os._exit(0)
    # only now: peers, too, see whether somebody listens
    direct_links = None if direct is None else MemberLinks(folder, direct, log)
    relay = SiteRelay(
        folder.name,
        guard=folder.socket if direct_links is None else direct_links.socket,
        address=where.address,
        kit=folder.kit.folder,
        host=where.host,
        log=log,
        report=report,
    )
    while not ended.wait(1.0):
        relay.tick()
        if direct_links is not None:
            direct_links.tick()
        write_status(
            folder.path / "relay.status",
            {
                "pid": os.getpid(),
                "connected": relay.connected,
                "fault": None if relay.fault is None else relay.fault.message,
                "bytes_in": relay.bytes_in,
                "bytes_out": relay.bytes_out,
                "direct_in": 0 if direct_links is None else direct_links.bytes_in,
                "direct_out": 0 if direct_links is None else direct_links.bytes_out,
            },
        )
    relay.close()
    if direct_links is not None:
        direct_links.close()
    os._exit(0)  # FLARE may have left threads behind


def _erase_mail(folder: PartyFolder) -> None:
    """Erase letters that came directly, before a member begins and after it has ended: no guard has a run that they are for."""
    links.erase(folder.path / "mail")
    (folder.path / "post.sock").unlink(missing_ok=True)


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
                raise ConnectionAbortedError  # the client asks again, and the next guard answers
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
        decoded = messages.decode_reply(reply) if len(reply) <= LARGEST_REFUSAL else None
        refused = decoded.code if isinstance(decoded, messages.Refused) else None
        with self._lock:
            self._is_news.set()
            self._counts.note(kind, refused)
            if refused is not None:
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
                "last": self._last,
                **self._counts.content(),
            }
            write_status(self._status, content)


def _kind(data: bytes) -> dict[str, str | int]:
    """Return what kind of request this is, in public words."""
    try:
        request = messages.decode_request(data)
    except ColonnadeError:
        return {"request": "malformed"}
    found: dict[str, str | int] = {"request": type(request).__name__}
    study = messages.study_of(request)
    if study is not None:
        found["study"] = study
    turn = getattr(request, "turn", None)
    return found if turn is None else {**found, "turn": turn}
