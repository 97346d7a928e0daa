"""Memory that a member of a study frees is kept for its next arrays, instead of going back to the system.

A study on shares makes and frees arrays and letters of a few megabytes, many times over. By default glibc hands blocks of that
size back to the system when they are freed, and the system clears every page again when the next one is written. For a matrix of
45,222 × 41 over three parties that was 16,000 pages per release, and a third of its processor time.
"""

import ctypes
import os
import sys
from functools import cache

__all__ = ["keep_freed_memory"]

KEPT = 256 << 20
"""Bytes at the end of the heap that are not handed back."""
LARGEST_BLOCK = 32 << 20
"""Blocks above this still come from the system and go back to it: glibc allows no higher limit."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


@cache
def keep_freed_memory() -> bool:
    """Have this process keep freed memory, once; return whether it does.

    Nothing is done without glibc, or where whoever started the process has set limits of their own (``MALLOC_…``).
    """
    chosen = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    if chosen or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGEST_BLOCK) and mallopt(_TRIM_THRESHOLD, KEPT))
