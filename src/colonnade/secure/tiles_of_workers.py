"""`TilesOfWorkers`: sums of products of shares by a member's own workers, a chunk of rows by each of them at a time."""

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from colonnade.secure.residues import Arithmetic, Elements
from colonnade.workers import Workers

__all__ = ["TilesOfWorkers"]

MOST_UNDER_WAY = 64
"""Chunks that wait for workers; with more of them a member waits for the first."""


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
        self._under_way: deque[Callable[[], list[Elements] | None]] = deque()
        self._totals = [np.zeros(shape, dtype=np.uint64) for shape in shapes]
        self._in_range = True

    def add(self, chunk: Sequence[Elements]) -> bool:
        """Have the products of one chunk of rows added; return whether all that has come back by now was in range."""
        self._under_way.append(self._workers.begin(self._multiply, list(chunk)))
        while len(self._under_way) > MOST_UNDER_WAY:
            self._take_one()
        return self._in_range

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
        found = self._under_way.popleft()()
        if found is None:
            self._in_range = False
        else:
            self._totals = [self._arithmetic.add(*both) for both in zip(self._totals, found, strict=True)]
