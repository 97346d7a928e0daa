"""`SpilledRows`: rows of numbers that are written once and read again in ranges, in memory or, beyond a bound, on disk.

What a method works out once and reads in every round (coded rows, shares of columns, scores) may be larger than memory, and so
may be a party's own columns. Beyond a bound they lie in a temporary file. The file has no name and no permissions for others, and
goes with the object. Whether there is one follows from the number of rows and their width alone, and so does its length.
"""

import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput

BLOCK = 65_536
NEAR_BYTES = 1 << 16
"""Bytes between two rows that are read together."""
NUMBERS_SORTED_AT_ONCE = 1 << 22
"""How many numbers are sorted at a time."""


class SpilledRows:
    """Rows of numbers of one type.

    Parameters
    ----------
    rows
        How many there will be; ``None`` where that is not known before they are written, and they lie on disk.
    width
        How many numbers a row has; ``None`` for single numbers.
    dtype
        Their type.
    memory
        How many bytes they may take in memory; ``None`` for any number.

    Examples
    --------
    >>> rows = SpilledRows(3, 2, np.int16, memory=0)
    >>> rows.append(np.arange(6).reshape(3, 2))
    >>> rows.read(1, 3).tolist(), rows.take(np.array([2, 0])).tolist(), rows.on_disk
    ([[2, 3], [4, 5]], [[4, 5], [0, 1]], True)
    >>> numbers = SpilledRows(None, None, np.int32)
    >>> numbers.append(np.array([4, 5, 6]))
    >>> numbers.read(1, 3).tolist(), len(numbers)
    ([5, 6], 3)
    """

    def __init__(self, rows: int | None, width: int | None, dtype: Any, *, memory: int | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self._row = () if width is None else (width,)
        self._row_bytes = (1 if width is None else width) * self.dtype.itemsize
        self._rows = rows
        self._written = 0
        self.on_disk = rows is None or (memory is not None and rows * self._row_bytes > memory)
        self._array: NDArray[Any] = np.empty((0 if self.on_disk else rows or 0, *self._row), dtype=self.dtype)
        if self.on_disk:
            with _room():
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # it is closed with this object
            weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self._written if self._rows is None else self._rows

    @property
    def shape(self) -> tuple[int, ...]:
        """How many rows there are, and how many numbers each has."""
        return (len(self), *self._row)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Yield all rows in order, some at a time."""
        for start in range(0, len(self), BLOCK):
            yield self.read(start, min(start + BLOCK, len(self)))

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows behind the last ones."""
        stop = self._written + len(rows)
        if self.on_disk:
            data = _bytes(np.ascontiguousarray(rows, dtype=self.dtype))
            with _room():
                while data:
                    data = data[self._file.write(data) :]
        else:
            self._array[self._written : stop] = rows
        self._written = stop

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return some of the rows."""
        if not self.on_disk:
            return self._array[start:stop]
        found = np.empty((max(0, min(stop, self._written) - start), *self._row), dtype=self.dtype)
        data, offset = _bytes(found), start * self._row_bytes
        while data:
            count = os.preadv(self._file.fileno(), [data], offset)
            if count == 0:
                raise BadInput("A temporary file is shorter than it was.", remedy="Start the party again.")
            data, offset = data[count:], offset + count
        return found

    def take(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return the rows at some places, in any order; places that are near each other are read together."""
        if not self.on_disk:
            return self._array[places]
        found = np.empty((len(places), *self._row), dtype=self.dtype)
        order = np.argsort(places, kind="stable")
        ascending = places[order]
        first = 0
        while first < len(ascending):
            last = int(np.searchsorted(ascending, ascending[first] + 1 + NEAR_BYTES // self._row_bytes))
            some = self.read(int(ascending[first]), int(ascending[last - 1]) + 1)
            found[order[first:last]] = some[ascending[first:last] - ascending[first]]
            first = last
        return found

    def sorted_runs(self, numbers: Iterable[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Return whole numbers, one per row of these, in runs that ascend each; on disk where the rows are.

        Examples
        --------
        >>> rows = SpilledRows(3, 2, np.int16)
        >>> [run.tolist() for run in rows.sorted_runs([np.array([3, 1]), np.array([2])])]
        [[1, 2, 3]]
        """
        kept = SpilledRows(len(self), None, np.int64, memory=0 if self.on_disk else None)
        ends = [0]
        for run in _runs(numbers):
            kept.append(np.sort(run))
            ends.append(ends[-1] + len(run))
        found = kept.mapped()
        return [found[start:stop] for start, stop in pairwise(ends)]

    def mapped(self) -> NDArray[Any]:
        """Return all rows as an array; one on disk is read where it is looked at."""
        if not self.on_disk or not self._written:
            return self._array[: self._written]
        return np.memmap(self._file, dtype=self.dtype, mode="r", shape=(self._written, *self._row))


def _runs(numbers: Iterable[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Gather numbers to arrays of `NUMBERS_SORTED_AT_ONCE` or a little more, but for the last one."""
    waiting: list[NDArray[np.int64]] = []
    for some in numbers:
        waiting.append(some)
        if sum(map(len, waiting)) >= NUMBERS_SORTED_AT_ONCE:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


def _bytes(rows: NDArray[Any]) -> memoryview:
    return rows.reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise BadInput(
            "There is no room for rows in the temporary directory.",
            remedy="Free some space, or point TMPDIR to a larger disk.",
        ) from None
