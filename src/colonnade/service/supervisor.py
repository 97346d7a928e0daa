"""Two processes and what watches over them: a guard with the data and no network, a relay with the network and no data.

The supervisor reads no data and no keys, and loads neither the party's code nor the network's: it forks before either child has
opened anything, and each loads its own. A child that ends by refusing (a damaged ledger, unsigned papers) is not started again.
"""

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping

from colonnade.errors import ColonnadeError
from colonnade.event_log import Log

__all__ = ["Supervisor"]

REFUSED = 1
GRACE = 10.0
LONGEST_PAUSE = 5.0


class Supervisor:
    """Starts children, starts them again when they die, and ends them in order.

    Parameters
    ----------
    children
        What each child does, by name, in the order in which they are started.
    log
        Where their fates are noted.
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
        self._lifeline = os.pipe()

    def run(self) -> int:
        """Watch over the children until asked to stop; return 1 if one of them refused to run."""
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        signal.signal(signal.SIGINT, self._ask_to_stop)
        for name in self._children:
            self._start(name)
        status = 0
        while not self._stopping and status == 0:
            status = max((self._look_after(name) for name in self._children), default=0)
            time.sleep(0.02)
        self._stop()
        return status

    def _ask_to_stop(self, *_: object) -> None:
        self._stopping = True

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
        """Be a child: do the work, and end with the supervisor."""
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(
                signal.SIGINT, signal.SIG_IGN
            )  # a keyboard's interrupt reaches the supervisor, which stops us
            os.close(self._lifeline[1])
            threading.Thread(target=self._end_with_supervisor, daemon=True).start()
            work()
        except ColonnadeError as error:
            self._report(error)
            return REFUSED
        except BaseException:  # noqa: BLE001  # its text might quote data; the supervisor starts us again
            return 70
        return 0

    def _end_with_supervisor(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._lifeline[0], 1)  # nobody writes: this returns when the supervisor is gone
        os._exit(0)

    def _stop(self) -> None:
        """End the children, the network side first."""
        for name in reversed(self._children):
            pid = self._pids.pop(name, None)
            if pid is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            self._await(pid)
            self._log.event("stopped", child=name, pid=pid)
        for end in self._lifeline:
            os.close(end)

    def _await(self, pid: int) -> None:
        deadline = time.monotonic() + GRACE
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.02)
