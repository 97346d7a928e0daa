"""How far something is that takes long: in one line on a terminal, with the rate and the time that is left."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
