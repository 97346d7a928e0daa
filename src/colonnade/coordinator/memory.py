"""What a wide matrix takes of this machine, before anything is asked: memory, and an order of magnitude of time.

Formulas from the widths alone, so that a preview answers at once, and a study that would not fit is refused before anybody has
paid for it. The time is for two cores like those of docs/explanation/scale.md, everything in this process or not.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from colonnade.errors import BadInput
from colonnade.secure.shamir import rectangles
from colonnade.steps.joint import TILE_ENTRIES

__all__ = ["Load", "available_memory", "gram_load", "require_memory"]

GIGABYTE = 1e9
WORD = 8
BASE = 700_000_000
"""What a process with compiled kernels takes before it has read a row."""
PER_COLUMN = 40_000
"""What a column's description and its place in plans take, in all members."""
DRAWN, MULTIPLIED, DEALT, OPENED, SOLVED = 25e-9, 0.5e-9, 60e-9, 120e-9, 400 * 0.4e-9
"""Processor seconds per drawn number, product, dealt number, opened number, and entry of the matrix in the solver."""
PRIMES = 3
CORES = 2


@dataclass(frozen=True)
class Load:
    """How long something takes, in seconds, and how much memory, in bytes; the latter within a third or so."""

    seconds: float
    memory: float

    def words(self) -> dict[str, str]:
        """Return it in words, for a preview."""
        minutes, seconds = self.seconds / 60, self.seconds
        lasts = f"{minutes:,.0f} min" if minutes > 2 else f"{seconds:,.0f} s"
        return {
            "time": f"about {lasts} on two cores; more where members are far apart",
            "memory": f"about {self.memory / GIGABYTE:.2g} GB in this process",
        }


def gram_load(widths: Mapping[str, int], people: int, *, lean: bool, together: bool) -> Load:
    """Return what a Gram matrix of so many coded columns by party takes.

    Parameters
    ----------
    widths, people
        Coded columns by party, and how many rows.
    lean
        Whether it is held once (`WideMoments`), not as several whole matrices.
    together
        Whether the members are in this process too, as in a simulation.
    """
    columns = sum(widths.values())
    entries = sum(one.entries for one in rectangles(list(widths.values())))
    own = sum(width * (width + 1) // 2 for width in widths.values())
    nodes = max(3, len(widths))
    at_once = entries if entries + own <= (1 << 25) else min(entries, TILE_ENTRIES)
    matrix = WORD * columns**2 * (0.55 if lean else 12)
    coordinator = BASE + PER_COLUMN * columns + matrix + WORD * at_once * (2 * nodes + 4)
    member = WORD * (9 * at_once + people * columns + 2 * own / len(widths))
    seconds = (
        DRAWN * (len(widths) * entries + own)
        + MULTIPLIED * nodes * entries * people * PRIMES
        + DEALT * len(widths) * entries * nodes / 3
        + OPENED * (nodes * entries + own)
        + SOLVED * columns**2
    )
    return Load(seconds / CORES + 5, coordinator + (nodes * member if together else 0))


def available_memory() -> float | None:
    """Return how many bytes this process may still take; ``None`` where the system does not say."""
    limits = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        limits.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # another system, or a container without a limit
        if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            limits.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return min(limits, default=None)


def require_memory(load: Load, columns: int) -> None:
    """Refuse what would not fit into the memory that is free here, before anything is spent."""
    free = available_memory()
    if free is None or load.memory <= free:
        return
    fitting = int(columns * (max(free - BASE, 0.0) / (load.memory - BASE)) ** 0.5) // 100 * 100
    raise BadInput(
        f"A matrix of {columns:,} columns would take about {load.memory / GIGABYTE:.2g} GB of memory here, and "
        f"{free / GIGABYTE:.2g} GB are free.",
        remedy=f"Name fewer columns, at most about {max(fitting, 100):,}, or run the study where there is more memory.",
    )
