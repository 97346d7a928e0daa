"""What was said: rounds, messages, bytes in each direction and seconds a step. Wraps any other transport."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from colonnade.transport.base import Transport

__all__ = ["Recorded", "Transcript"]


@dataclass
class Transcript:
    """A count of everything that crossed between the coordinator and the parties.

    Examples
    --------
    >>> Transcript().rounds
    0
    """

    rounds: int = 0
    messages: int = 0
    bytes_to: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    bytes_from: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def bytes(self) -> int:
        """All bytes in both directions."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())

    @property
    def wall_time(self) -> float:
        """Seconds over all steps."""
        return sum(self.seconds.values())

    def __repr__(self) -> str:
        return (
            f"Transcript(rounds={self.rounds}, messages={self.messages}, bytes={self.bytes:,}, "
            f"seconds={self.wall_time:.3f})"
        )


class Recorded:
    """A transport that counts what another one carries.

    Parameters
    ----------
    inner
        The transport that does the work.
    keep
        Whether to keep every exchange (``exchanges``), for tests and audits.
    clock
        A monotonic clock.
    """

    def __init__(self, inner: Transport, *, keep: bool = False, clock: Callable[[], float] = time.perf_counter) -> None:
        self._inner = inner
        self._clock = clock
        self._keep = keep
        self.step = "negotiation"
        self.transcript = Transcript()
        self.exchanges: list[tuple[dict[str, bytes], dict[str, bytes]]] = []

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Carry one round and count it."""
        start = self._clock()
        replies = self._inner.exchange(requests)
        self.transcript.seconds[self.step] += self._clock() - start
        self._count(requests, replies)
        return replies

    def _count(self, requests: Mapping[str, bytes], replies: Mapping[str, bytes]) -> None:
        self.transcript.rounds += 1
        self.transcript.messages += len(requests) + len(replies)
        for party, data in requests.items():
            self.transcript.bytes_to[party] += len(data)
        for party, data in replies.items():
            self.transcript.bytes_from[party] += len(data)
        if self._keep:
            self.exchanges.append((dict(requests), dict(replies)))
