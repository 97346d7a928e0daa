"""Measuring units of a benchmark: those that time something here and alone, the others by several processes at once."""

import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from benchmarks.frame.benchmark import Benchmark, Case, Part, Unavailable

Unit = tuple[Part, Case, int]
FOLLOWED = "COLONNADE_BENCH_PARENT"
"""An environment variable: the process that started this one, and with which it ends."""


class OutOfTime(Exception):
    """The time for this sitting is over. What was measured is kept, and the next recording goes on there."""


class PartsFailed(Exception):
    """Parts of a benchmark failed. What the others measured is kept."""


def measure(part: Part, case: Case, run: int) -> dict[str, Any]:
    """Measure one unit here."""
    start, used = time.perf_counter(), _processor_seconds()
    unit: dict[str, Any] = {"part": part.name, "case": dict(case), "run": run, "rows": [], "absent": [], "why": ""}
    try:
        for row in part.measure(run, **case):
            if isinstance(row, Unavailable):
                unit["absent"].append(str(row))
            else:
                unit["rows"].append({"labels": dict(row.labels), "values": _plain(row.values)})
    except Unavailable as missing:
        if unit["rows"]:  # what comes after them is missing
            unit["absent"].append(str(missing))
        else:
            unit["why"] = str(missing)
    return {**unit, "seconds": time.perf_counter() - start, "processor": _processor_seconds() - used}


def _processor_seconds() -> float:
    """Return what this process and those that it has ended used: how long a unit takes where nothing else runs."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _plain(values: Any) -> dict[str, float]:
    for name, value in values.items():
        if not math.isfinite(value):  # said at once, and not after hours
            raise ValueError(f"A benchmark measured something that is not a number: {name}.")
    return {name: float(value) for name, value in values.items()}


def words_of(case: Case) -> str:
    return ", ".join(f"{name} {value}" for name, value in case.items())


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


class Measuring:
    """Measures what has not been measured yet.

    A part that fails does not stop the other parts. A case that cannot be measured here is not tried a second time.

    Parameters
    ----------
    benchmark
        Whose parts.
    keep
        Called with every unit that was measured.
    workers
        How many processes measure parts that share the machine; with one, everything is measured here.
    until
        No unit is started after this time of ``time.monotonic``.
    """

    def __init__(
        self, benchmark: Benchmark, keep: Callable[[dict[str, Any]], None], workers: int = 1, until: float = math.inf
    ) -> None:
        self._name, self._keep, self._workers, self._until = benchmark.name, keep, workers, until
        self._missing: set[tuple[str, str]] = set()
        self._done = self._all = 0
        self.failed: dict[str, str] = {}

    def all(self, units: Iterable[Unit]) -> None:
        """Measure units: first those that share the machine, then those that time something, one after the other."""
        todo = list(units)
        self._all = len(todo)
        here = [unit for unit in todo if self._workers == 1 or unit[0].undisturbed]
        if len(here) < len(todo):
            self._shared([unit for unit in todo if not unit[0].undisturbed])
        for part, case, run in self._wanted(here):
            try:
                self._take(measure(part, case, run))
            except Exception:  # noqa: BLE001  # said at the end; other parts go on
                self._fail(part.name)
        if self.failed:
            raise PartsFailed("; ".join(f"{part}: {why}" for part, why in self.failed.items()))

    def _wanted(self, units: Iterable[Unit]) -> Iterator[Unit]:
        for part, case, run in units:
            if part.name in self.failed or (part.name, words_of(case)) in self._missing:
                continue
            if time.monotonic() > self._until:
                raise OutOfTime(f"{self._done} of {self._all} units are measured; the rest is for the next recording")
            yield part, case, run

    def _shared(self, units: list[Unit]) -> None:
        with _pool(self._workers) as pool:
            running: dict[Future[dict[str, Any]], str] = {}
            try:
                for part, case, run in self._wanted(units):
                    try:
                        running[pool.submit(_measured_there, self._name, part.name, case, run)] = part.name
                    except BrokenExecutor:  # a worker was killed
                        self._fail(part.name)
                    if len(running) == self._workers:
                        self._collect(running)
            except OutOfTime:
                self._collect(running, every=True)
                raise
            self._collect(running, every=True)

    def _collect(self, running: dict[Future[dict[str, Any]], str], *, every: bool = False) -> None:
        for done in wait(running, return_when=ALL_COMPLETED if every else FIRST_COMPLETED).done:
            part = running.pop(done)
            try:
                self._take(done.result())
            except Exception:  # noqa: BLE001  # as above
                self._fail(part)

    def _take(self, unit: dict[str, Any]) -> None:
        self._done += 1
        if unit["why"]:
            self._missing.add((unit["part"], words_of(unit["case"])))
        case = words_of(unit["case"])
        words = f"{unit['part']}: {case}{', ' if case else ''}run {unit['run']}, {unit['seconds']:.1f} s"
        words += f", {unit['processor']:.1f} s of the processor"
        say(f"{words} ({self._done} of {self._all}){' not measured: ' + unit['why'] if unit['why'] else ''}")
        self._keep(unit)

    def _fail(self, part: str) -> None:
        self.failed[part] = repr(sys.exc_info()[1])
        say(f"{part}: FAILED\n{traceback.format_exc()}")


# Processes --------------------------------------------------------------------------------------------------------------------


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")  # threads and compiled code do not survive a fork
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=follow, initargs=(os.getpid(),))
    try:
        yield pool
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()  # somebody stopped us: what is under way is measured again next time
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _measured_there(name: str, part: str, case: Case, run: int) -> dict[str, Any]:
    """Be a worker: measure one unit of a benchmark."""
    from benchmarks.frame.command import load

    benchmark = load(name)
    assert benchmark is not None
    return measure(benchmark.part(part), case, run)


def follow(parent: int) -> None:
    """End this process when its parent is gone, however that ended: nothing should go on measuring unseen."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
