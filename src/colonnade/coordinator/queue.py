"""Studies that run side by side: so many at once, first come, first served, and never two of one plan.

Members take a bounded number of studies at once (`colonnade.conversations.endpoint.AT_ONCE`). A coordinator that started more
would be told to come back later. It is fairer, and needs less memory everywhere, if studies wait here, in line.

Two studies of one plan are one study. The second waits for the first, and is then answered from what the parties kept, at no
price. If they ran at the same time, each would end the other's run at every member.
"""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

__all__ = ["AT_ONCE", "StudyQueue"]

AT_ONCE = 8
"""Studies under way in one process. Members work on one request at a time, so that more would wait there instead."""


class StudyQueue:
    """A line of studies.

    Parameters
    ----------
    at_once
        How many are under way at most.

    Examples
    --------
    >>> queue = StudyQueue(at_once=2)
    >>> with queue.turn("one plan"), queue.turn("another"):
    ...     queue.under_way
    2
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._changed = threading.Condition()
        self._waiting: list[tuple[object, Hashable]] = []
        self._running: list[Hashable] = []

    @property
    def under_way(self) -> int:
        """How many studies are under way."""
        return len(self._running)

    @contextmanager
    def turn(self, study: Hashable) -> Iterator[None]:
        """Wait until it is this study's turn, and hold a place until the block is left."""
        ticket = object()
        with self._changed:
            self._waiting.append((ticket, study))
            try:
                self._changed.wait_for(lambda: self._next() is ticket)
            finally:
                self._waiting.remove((ticket, study))
            self._running.append(study)
            self._changed.notify_all()  # there may be room for one more
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(study)
                self._changed.notify_all()

    def _next(self) -> object | None:
        """Return the ticket of the first in line whose plan is not under way, if there is room."""
        if len(self._running) >= self._at_once:
            return None
        return next((ticket for ticket, study in self._waiting if study not in self._running), None)
