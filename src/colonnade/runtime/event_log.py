"""What running processes say of themselves: logs with a fixed vocabulary, small status files, and progress.

A log is one JSON object per line, made of public words and figures only.

Nothing that is logged can quote data, because nothing free can be logged: an event is one of `EVENTS`, a field one of `FIELDS`,
and its value a number, a truth value or a short plain word.
"""

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from colonnade.errors import BadInput

EVENTS = frozenset(
    {
        "answered",
        "block-refused",
        "certificate-ends",
        "certificate-refused",
        "certificate-renewed",
        "connected",
        "disconnected",
        "disk-freed",
        "disk-full",
        "exited",
        "guard-away",
        "link-failed",
        "link-opened",
        "link-refused",
        "message-refused",
        "papers-refused",
        "refused",
        "refused-to-run",
        "restarted",
        "scheduler-away",
        "started",
        "stopped",
        "stopping",
        "study-failed",
        "study-finished",
        "study-started",
        "study-step",
    }
)
FIELDS = frozenset(
    {
        "bytes",
        "bytes_in",
        "bytes_out",
        "child",
        "code",
        "days",
        "party",
        "pid",
        "reason",
        "request",
        "seconds",
        "status",
        "step",
        "study",
        "times",
        "turn",
    }
)
_PLAIN = re.compile(r"[\w .:/-]{0,80}", re.ASCII)

Value = str | int | float | bool | None


class Log:
    r"""Where one process writes its events.

    Parameters
    ----------
    stream
        Where to: standard error, or a `LogFile`; ``None`` keeps nothing.
    who
        The site that logs.
    process
        Which of its processes: ``"guard"``, ``"relay"``, ``"coordinator"``, ``"supervisor"``.
    clock
        Seconds since 1970.

    Examples
    --------
    >>> import io
    >>> stream = io.StringIO()
    >>> Log(stream, "bank", "relay", clock=lambda: 0.0).event("connected", pid=7)
    >>> stream.getvalue()
    '{"time": "1970-01-01T00:00:00.000Z", "site": "bank", "process": "relay", "event": "connected", "pid": 7}\n'
    """

    def __init__(
        self, stream: "TextIO | LogFile | None", who: str, process: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._stream = stream
        self._who = who
        self._process = process
        self._clock = clock
        self._lock = threading.Lock()

    def event(self, name: str, **fields: Value) -> None:
        """Write one event; refuse a word or a field that is not in the vocabulary. On a full disk the line is lost."""
        if name not in EVENTS or not set(fields) <= FIELDS:
            raise BadInput(
                f"The event {name!r} or one of its fields is not in the log's vocabulary.",
                remedy="Use the words of EVENTS and FIELDS in colonnade.runtime.event_log.",
            )
        if any(isinstance(value, str) and not _PLAIN.fullmatch(value) for value in fields.values()):
            raise BadInput(
                "A log field is a number or a short plain word.", remedy="Log a code or a count, never text from data."
            )
        line = {"time": self._now(), "site": self._who, "process": self._process, "event": name, **fields}
        with self._lock, contextlib.suppress(OSError):
            if self._stream is not None:
                self._stream.write(json.dumps(line) + "\n")
                self._stream.flush()

    def close(self) -> None:
        """Close the stream; what is logged afterwards is dropped."""
        with self._lock:
            if self._stream is not None:
                self._stream.close()
                self._stream = None

    def _now(self) -> str:
        seconds = self._clock()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return f"{stamp}.{int(seconds * 1000) % 1000:03d}Z"


class LogFile:
    """A log's file, for this user alone. It may be moved away at any time: the next line begins a new one.

    Parameters
    ----------
    path
        Where it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._opened()

    def write(self, text: str) -> int:
        """Append text to the file that has the name now."""
        if not self._current():
            self._file.close()
            self._file = self._opened()
        return self._file.write(text)

    def flush(self) -> None:
        """Hand what was written over to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _current(self) -> bool:
        try:
            named, held = self._path.stat(), os.fstat(self._file.fileno())
        except OSError:
            return False
        return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)

    def _opened(self) -> TextIO:
        descriptor = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")


# Read back -----------------------------------------------------------------------------------------------------------------

NEWEST = 2_000_000
"""How many bytes of a log are read, from its end: a dashboard shows what is going on, an archive what has been."""

COMMON = frozenset({"time", "site", "process", "event"})


@dataclass(frozen=True)
class Event:
    """One line of a log."""

    time: str
    site: str
    process: str
    event: str
    fields: Mapping[str, Value] = field(default_factory=dict)


def read_events(path: Path) -> list[Event]:
    """Return the newest events of a log, oldest first. A line that is not of the vocabulary is not an event."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            end = file.tell()
            file.seek(max(0, end - NEWEST))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return list(_parsed(lines[1:] if end > NEWEST else lines))


def _parsed(lines: list[str]) -> Iterator[Event]:
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if not isinstance(found, dict) or not set(found) >= COMMON or found["event"] not in EVENTS:
            continue
        fields = {name: value for name, value in found.items() if name in FIELDS}
        words = [str(found[name]) for name in ("time", "site", "process", "event")]
        yield Event(words[0], words[1], words[2], words[3], fields)


# Status files ---------------------------------------------------------------------------------------------------------------


def write_status(path: Path, content: Mapping[str, object]) -> None:
    """Write what a process is doing; a reader meets all of it, or all of what was there before."""
    part = path.with_name(f".{path.name}.part")
    with contextlib.suppress(OSError):
        part.write_text(json.dumps({"time": time.time(), **content}), encoding="utf-8")
        part.replace(path)


def read_status(path: Path, *, newer_than: float | None = None) -> dict[str, Any] | None:
    """Read what a process last wrote of itself; ``None`` if there is nothing, or nothing recent enough."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or (newer_than is not None and time.time() - found["time"] > newer_than):
        return None
    return found


Progress = Callable[[str], None]
MINUTE, HOUR = 60, 3_600


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """Yield a function that announces steps in one line on a terminal, with the time (``COLONNADE_PROGRESS``: 0 or lines)."""
    mode = os.environ.get("COLONNADE_PROGRESS", "auto")
    if mode == "lines":
        yield lambda step: print(f"{title}: {step}", file=sys.stderr, flush=True)  # noqa: T201  # this is its purpose
    elif mode == "0" or not sys.stderr.isatty():
        yield lambda _: None
    else:
        from rich import console, progress

        shown = (progress.SpinnerColumn(), progress.TextColumn("{task.description}"), progress.TimeElapsedColumn())
        with progress.Progress(*shown, console=console.Console(stderr=True), transient=True) as line:
            task = line.add_task(title)
            yield lambda step: line.update(task, description=f"{title}: {step}")


class Pace:
    """How many rows are done, how fast, and how long the others will take at that rate.

    Parameters
    ----------
    rows
        How many there are.
    say
        Called with a line, at most once per second.
    what
        What is done with them.
    clock
        A monotonic clock, in seconds.

    Examples
    --------
    >>> ticks = iter([0.0, 10.0])
    >>> Pace(1_000_000, print, "sharing", clock=lambda: next(ticks)).reached(250_000)
    sharing: 250,000 of 1,000,000 rows, 25,000 per second, 30 s left
    """

    def __init__(self, rows: int, say: Progress, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rows = rows
        self._say = say
        self._what = what
        self._clock = clock
        self._began = self._said = clock()

    def reached(self, done: int) -> None:
        """Say how far it is, unless something was said within the last second."""
        now = self._clock()
        if now - self._said < 1 or not done:
            return
        self._said = now
        rate = done / (now - self._began)
        left = (self._rows - done) / rate
        self._say(f"{self._what}: {done:,} of {self._rows:,} rows, {rate:,.0f} per second, {_duration(left)} left")


def _duration(seconds: float) -> str:
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"
