"""What was said: rounds, messages, bytes per party in each direction, and how many numbers moved.

Numbers are the unit in which Coresets (Huang, Li, Sun, Zhao, 2022; docs/references.md#coresets) counts communication. A number is
an entry of an array, or a word of eight bytes of letters between members, whatever is inside. Plans, names, hellos and seals are
not numbers: they do not grow with the data.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from colonnade.protocol.messages import Array, Ask, Blob, Conclude, Opened, Post, Posted, Released, Reply, Request
from colonnade.transport.direct import Transport

__all__ = ["Recorded", "Transcript", "numbers_in"]


WORD = 8
GREETING = 1
"""The turn in which a `Post` carries hellos."""


def numbers_in(message: Request | Reply) -> int:
    """Return how many numbers a message moves.

    Examples
    --------
    >>> import numpy as np
    >>> from colonnade.protocol.messages import pack
    >>> numbers_in(Released(party="bank", step="rows", values={"value": pack(np.zeros((3, 4)))}, mechanism="", loss=None))
    12
    """
    match message:
        case Ask():
            return _entries(message.inputs.values())
        case Post():
            letters = 0 if message.turn == GREETING else _words(message.letters.values())
            return _entries(message.inputs.values()) + letters
        case Conclude() | Released():
            return _entries(message.values.values())
        case Posted():
            return _words(message.letters.values())
        case Opened():
            return _entries(part for part in (message.share, message.own) if part is not None)
        case _:
            return 0


def _entries(arrays: Iterable[Array]) -> int:
    total = 0
    for array in arrays:
        entries = 1
        for extent in array.shape:
            entries *= extent
        total += entries
    return total


def _words(letters: Iterable[Blob]) -> int:
    return sum(len(letter) // WORD for letter in letters)


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
    received: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Bytes that came back, by the kind of message."""
    signatures: dict[str, str] = field(default_factory=dict)
    """By member, in hexadecimal: its signature under the plan's hash and the run, where members talk to each other."""
    numbers_to: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    numbers_from: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Numbers moved, whatever their size: as Coresets counts them (docs/references.md#coresets)."""

    @property
    def bytes(self) -> int:
        """All bytes in both directions."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())

    @property
    def numbers(self) -> int:
        """All numbers moved in both directions."""
        return sum(self.numbers_to.values()) + sum(self.numbers_from.values())

    def count_numbers(self, requests: Mapping[str, Request], replies: Mapping[str, Reply]) -> None:
        """Count the numbers of one round."""
        for party, request in requests.items():
            self.numbers_to[party] += numbers_in(request)
        for party, reply in replies.items():
            self.numbers_from[party] += numbers_in(reply)

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

    def close(self) -> None:
        """Hang up."""
        self._inner.close()

    def _count(self, requests: Mapping[str, bytes], replies: Mapping[str, bytes]) -> None:
        self.transcript.rounds += 1
        self.transcript.messages += len(requests) + len(replies)
        for party, data in requests.items():
            self.transcript.bytes_to[party] += len(data)
        for party, data in replies.items():
            self.transcript.bytes_from[party] += len(data)
        if self._keep:
            self.exchanges.append((dict(requests), dict(replies)))
