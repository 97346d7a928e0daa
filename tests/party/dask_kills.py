"""Functions that a worker process can import, and that kill it: the first of their calls dies, and any other is honest."""

import os
import signal
from functools import partial
from pathlib import Path

import pandas as pd

from colonnade.party.table import dask_table
from colonnade.party.table.dask_cluster import Sealed


def die_once(marker: str, function, *given):
    """Kill this process the first time, wherever that is; later call a function."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return function(*given)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def read_part(part: pd.DataFrame, marker: str) -> pd.DataFrame:
    """Read a partition of a party's data, which kills the first worker that tries."""
    return die_once(marker, lambda: part)


def stage_of(function, given: tuple) -> str:
    """Return what a task does, by the name of the function of ours that does it."""
    inner = given[0] if function is dask_table._of_range else function
    inner = inner.func if isinstance(inner, partial) else inner
    return getattr(inner, "__name__", type(inner).__name__)


class Deadly:
    """Has the first task of a stage kill its worker, and counts the tasks of every stage."""

    def __init__(self, stage: str, folder: Path) -> None:
        self.stage = stage
        self.marker = folder / "killed"
        self.seen: dict[str, int] = {}
        self._honest = Sealed.of

    def __call__(self, function, *given):
        stage = stage_of(function, given)
        self.seen[stage] = self.seen.get(stage, 0) + 1
        if stage != self.stage:
            return self._honest(function, *given)
        return self._honest(die_once, str(self.marker), function, *given)
