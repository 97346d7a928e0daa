"""A process that watches over others: it starts them, starts them again when they die, and ends them in order."""

import contextlib
import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping

from colonnade.errors import ColonnadeError
from colonnade.event_log import Log

__all__ = ["REFUSED", "Supervisor"]

REFUSED = 1
"""The exit status of a child that refuses to run."""

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
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # this process has one thread of its own
            pid = os.fork()
        if pid == 0:
            os._exit(self._live(self._children[name]))
        self._pids[name] = pid
        self._started[name] = time.monotonic()
        self._log.event("restarted" if again else "started", child=name, pid=pid)

    def _live(self, work: Callable[[], None]) -> int:
        """Run as a child: do the work, and end when the supervisor ends."""
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for number in (signal.SIGINT, signal.SIGHUP):  # both reach the supervisor, which stops this child
                signal.signal(number, signal.SIG_IGN)
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
