"""Structured logs with a fixed vocabulary: one JSON object a line, made of public words and figures only.

Nothing that is logged can quote data, because nothing free can be logged: an event is one of `EVENTS`, a field one of `FIELDS`,
and its value a number, a truth value or a short plain word.
"""

import json
import re
import threading
import time
from collections.abc import Callable
from typing import TextIO

from colonnade.errors import BadInput

__all__ = ["EVENTS", "FIELDS", "Log"]

EVENTS = frozenset(
    {
        "block-refused",
        "connected",
        "disconnected",
        "exited",
        "guard-away",
        "message-refused",
        "papers-refused",
        "refused",
        "restarted",
        "started",
        "stopped",
        "study-failed",
        "study-finished",
        "study-started",
        "study-step",
    }
)
FIELDS = frozenset(
    {"attempt", "bytes", "bytes_in", "bytes_out", "code", "party", "people", "pid", "child", "reason", "request"}
    | {"seconds", "sequence", "spent", "status", "step", "study", "turn"}
)
_PLAIN = re.compile(r"[\w .:/-]{0,80}", re.ASCII)

Value = str | int | float | bool | None


class Log:
    r"""Where one process writes its events.

    Parameters
    ----------
    stream
        A text stream, for example standard error; ``None`` keeps nothing.
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
        self, stream: TextIO | None, who: str, process: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._stream = stream
        self._who = who
        self._process = process
        self._clock = clock
        self._lock = threading.Lock()

    def event(self, name: str, **fields: Value) -> None:
        """Write one event; refuse a word or a field that is not in the vocabulary."""
        if name not in EVENTS or not set(fields) <= FIELDS:
            raise BadInput("An event or a field that is not in the log's vocabulary.")
        if any(isinstance(value, str) and not _PLAIN.fullmatch(value) for value in fields.values()):
            raise BadInput("A log field is a number or a short plain word.")
        line = {"time": self._now(), "site": self._who, "process": self._process, "event": name, **fields}
        with self._lock:
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
