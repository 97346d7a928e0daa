"""Who works for a member besides its own process: workers that are given functions and hand back results; and
memory that a member frees, which is kept for its next arrays (`keep_freed_memory`).

A study on shares makes and frees arrays and letters of a few megabytes, many times over. By default glibc hands blocks of that
size back to the system when they are freed, and the system clears every page again when the next one is written. For a matrix of
45,222 × 41 over three parties that was 16,000 pages per release, and a third of its processor time.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class WorkersFailed(Exception):
    """A member's own workers did not finish what they were given. The cause is the member's own.

    A data party's workers hold its rows too, so whether they can go on may depend on rows. A member says nothing of it: a party
    stops as it does where rows cannot be read (`colonnade.party.guard`), and a node without data has one constant message.
    """


class Workers(Protocol):
    """Workers of one member, inside its own trust boundary."""

    def begin(self, function: Callable[..., Result], *given: object) -> Callable[[], Result]:
        """Have a function called by a worker, and return what waits for its result.

        A worker that is lost is replaced and the function called again, so it is a function of what it is given alone: it draws
        nothing and pays for nothing.
        """


@contextmanager
def asking_workers() -> Iterator[None]:
    """Ask workers, or wait for them, outside of what reads rows. Whatever is raised becomes `WorkersFailed`.

    Examples
    --------
    >>> try:
    ...     with asking_workers():
    ...         raise MemoryError("worker 3")
    ... except WorkersFailed as failure:
    ...     print(repr(str(failure)))
    ''
    """
    try:
        yield
    except Exception as error:
        raise WorkersFailed from error


KEPT_BYTES = 256 << 20
"""Bytes at the end of the heap that are not handed back."""
LARGEST_BLOCK = 32 << 20
"""Blocks above this still come from the system and go back to it: glibc allows no higher limit."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


@cache
def keep_freed_memory() -> bool:
    """Have this process keep freed memory, once; return whether it does.

    Nothing is done without glibc, or where the process was started with limits of its own (``MALLOC_…``).
    """
    chosen = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    if chosen or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGEST_BLOCK) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES))
