"""`DealtRows`: a function of some people's rows that returns shares of them, wherever these rows are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from colonnade.party.table.private_table import PrivateTable
from colonnade.secure.residues import Elements
from colonnade.secure.shamir import Dealing

if TYPE_CHECKING:
    from colonnade.party.steps.parts import JointHalf

__all__ = ["DealtRows"]

_NOTHING: Elements = np.empty((0, 0), dtype=np.uint64)


class DealtRows:
    """A function of some people's rows that returns shares of them. Nothing else of the rows leaves it.

    Parameters
    ----------
    half
        The step, which codes rows as integers.
    dealing
        How they are dealt. Its seed is of one party's table in one run of one step.
    chunks
        All ranges of people; a chunk's number is its place among them, from 1.
    """

    def __init__(self, half: "JointHalf", dealing: Dealing, chunks: Sequence[tuple[int, int]]) -> None:
        self._half = half
        self._dealing = dealing
        self._numbers = {start: number for number, (start, _) in enumerate(chunks, start=1)}
        self._seeded = frozenset(dealing.seeds)
        self._memory = np.empty((dealing.nodes, 0, 0), dtype=np.uint64)

    def __call__(self, table: PrivateTable, start: int, stop: int) -> tuple[Elements, ...]:
        """Code and deal. The shares are valid until the next call: fresh memory costs more than the arithmetic.

        A share that travels as a seed is left out.
        """
        rows = self._half.rows(table, start, stop)
        if rows.size and max(-int(rows.min()), int(rows.max())) > self._half.joint.largest:
            raise ValueError(
                "A coded row exceeds the bound of its step."
            )  # so that nothing after this can fail on a row
        if self._memory.shape[1:] != rows.shape:
            self._memory = np.empty((len(self._memory), *rows.shape), dtype=np.uint64)
        shares = self._dealing.shares(self._numbers[start], rows.T, self._memory)
        return tuple(_NOTHING if point in self._seeded else share for point, share in enumerate(shares, start=1))
