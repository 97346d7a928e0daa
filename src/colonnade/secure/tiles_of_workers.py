"""`TilesOfWorkers`: sums of products of shares by a member's own workers, a chunk of rows by each of them at a time."""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from colonnade.secure.residues import Arithmetic, Elements
from colonnade.workers import Workers, asking_workers

__all__ = ["TilesOfWorkers"]

MOST_UNDER_WAY = 1 << 29
"""Bytes of chunks that wait for workers, of all studies of this process; with more of them a study waits for its own."""


class TilesOfWorkers:
    """Sums of products: each chunk is multiplied by a worker, and what comes back is added modulo M.

    Parameters
    ----------
    arithmetic
        What the elements are modulo.
    shapes
        The blocks that a chunk's products have.
    workers
        Who multiplies.
    multiply
        Returns the blocks of one chunk; ``None`` if an element is out of range.
    """

    _all: ClassVar["weakref.WeakSet[TilesOfWorkers]"] = weakref.WeakSet()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        arithmetic: Arithmetic,
        shapes: Sequence[tuple[int, int]],
        workers: Workers,
        multiply: Callable[[Sequence[Elements]], list[Elements] | None],
    ) -> None:
        self._arithmetic = arithmetic
        self._workers = workers
        self._multiply = multiply
        self._under_way: deque[tuple[int, Callable[[], list[Elements] | None]]] = deque()
        self._bytes = 0
        self._totals = [np.zeros(shape, dtype=np.uint64) for shape in shapes]
        self._in_range = True
        with self._lock:
            self._all.add(self)

    def add(self, chunk: Sequence[Elements]) -> bool:
        """Have the products of one chunk of rows added; return whether all that has come back by now was in range."""
        with asking_workers():
            waiting = self._workers.begin(self._multiply, list(chunk))
        size = sum(part.nbytes for part in chunk)
        self._under_way.append((size, waiting))
        self._bytes += size
        while self._under_way and self._bytes_under_way() > MOST_UNDER_WAY:
            self._take_one()
        return self._in_range

    @classmethod
    def _bytes_under_way(cls) -> int:
        with cls._lock:
            studies = list(cls._all)
        return sum(study._bytes for study in studies)  # noqa: SLF001  # its own class

    def in_range(self) -> bool:
        """Wait for all chunks; return whether all elements were below the modulus. Sums are worthless otherwise."""
        while self._under_way:
            self._take_one()
        return self._in_range

    def blocks(self) -> list[Elements]:
        """Return the sums so far, one array per rectangle."""
        self.in_range()
        return self._totals

    def _take_one(self) -> None:
        size, waiting = self._under_way.popleft()
        self._bytes -= size
        with asking_workers():
            found = waiting()
        if found is None:
            self._in_range = False
        else:
            self._totals = [self._arithmetic.add(*both) for both in zip(self._totals, found, strict=True)]
