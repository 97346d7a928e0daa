"""A matrix of random signs from a published seed, a block of people at a time.

The sketch of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong), Algorithm 4 (docs/references.md#primitives).

Everybody regenerates the same signs and nobody stores them. They are public: no guarantee rests on the seed, only the accuracy
of a sketch does, for which a keyed stream is as good as fair coins. One bit per sign, AES in counter mode, a position for each
block.

A byte holds one row's signs of eight people. The 256 signed sums of eight people's numbers are tabulated once and looked up for
every row, so a product takes an eighth of the additions; integers throughout, so it is exact.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.secure.keys import SeedStream

PEOPLE = 1_024
"""People in a block."""

LARGEST_SKETCH = 65_536


class Signs:
    """The matrix G of ``rows`` × people signs.

    Parameters
    ----------
    seed
        32 public bytes.
    rows
        s.

    Examples
    --------
    >>> signs, total = Signs(bytes(32), 5), np.zeros((1, 5), dtype=np.int64)
    >>> signs.add_product(0, np.ones((1, 100), dtype=np.int64), total)
    >>> bool((total[0] == signs.sums(100)).all())
    True
    """

    def __init__(self, seed: bytes, rows: int) -> None:
        if type(rows) is not int or not 1 <= rows <= LARGEST_SKETCH:
            raise BadInput(f"A sketch has between 1 and {LARGEST_SKETCH} rows.")
        self.seed = seed
        self.rows = rows

    def add_product(self, number: int, columns: NDArray[np.int64], total: NDArray[np.int64]) -> None:
        """Add G·x over one block of people to a running total, for each column x along the rows of both arrays.

        Parameters
        ----------
        number
            Which block; block n holds people n·`PEOPLE` and following.
        columns
            Whole numbers, a column of people along each row; at most `PEOPLE` of them.
        total
            One row of s sums per column.
        """
        _accumulate(self.bits(number), np.ascontiguousarray(columns), total)

    def sums(self, people: int) -> NDArray[np.int64]:
        """Return G times a column of ones."""
        total = np.zeros((1, self.rows), dtype=np.int64)
        for number, start in enumerate(range(0, people, PEOPLE)):
            self.add_product(number, np.ones((1, min(PEOPLE, people - start)), dtype=np.int64), total)
        return np.asarray(total[0])

    def bits(self, number: int) -> NDArray[np.uint8]:
        """Return one block's signs, eight people per byte, lowest bit first; s bytes per group of eight."""
        stream = SeedStream(self.seed, number).bytes(PEOPLE // 8 * self.rows)
        return np.frombuffer(stream, dtype=np.uint8).reshape(PEOPLE // 8, self.rows)


@njit(cache=True, nogil=True)
def _accumulate(bits: Any, columns: Any, total: Any) -> None:
    table = np.empty(256, dtype=np.int64)
    people = columns.shape[1]
    for column in range(columns.shape[0]):
        for group in range((people + 7) // 8):
            table[0] = 0
            for place in range(8):
                person = 8 * group + place
                number = columns[column, person] if person < people else 0
                for below in range(1 << place):
                    table[below + (1 << place)] = table[below] + number
                    table[below] -= number
            for row in range(total.shape[1]):
                total[column, row] += table[bits[group, row]]
