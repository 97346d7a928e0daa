"""Running a benchmark: recording it whole, a short run of it, or a check of a sample of it."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frame.benchmark import Benchmark, Case, Part
from benchmarks.frame.circumstances import changed, circumstances, machine
from benchmarks.frame.pages import page
from benchmarks.frame.records import Measured, Results, latest
from benchmarks.frame.workers import Measuring, measure, say, words_of
from colonnade.errors import BadInput

ALPHA = 1e-3
"""The chance that a check of a whole benchmark complains although nothing changed."""
LONGEST = 60.0
"""Seconds that one run of one case may take to be in a check."""
CODE = ("src", "benchmark")
"""The circumstances that name the code: runs of the same code belong together."""


class NothingMeasured(Exception):
    """Nothing of a benchmark can be measured here, so that its last recording stays."""


class Kept:
    """Units that have been measured, by a recording of the same code that was stopped or by this one.

    They are lines of a file. The last line of a process that was killed may be half a line: it is measured again.
    """

    def __init__(self, path: Path | None, code: dict[str, str]) -> None:
        self._path, self._code = path, {name: code[name] for name in CODE if name in code}
        held = _lines(path) if path else []
        self._units = {self._key(one): one for one in held[1:]} if held and self._same(held[0]) else {}
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = [self._code, *self._units.values()]
            path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in whole), encoding="utf-8")

    def _same(self, code: dict[str, str]) -> bool:
        return code == self._code

    @staticmethod
    def _key(one: dict[str, Any]) -> str:
        return json.dumps([one["part"], one["case"], one["run"]], sort_keys=True)

    def find(self, part: Part, case: Case, run: int) -> dict[str, Any] | None:
        return self._units.get(self._key({"part": part.name, "case": dict(case), "run": run}))

    def keep(self, unit: dict[str, Any]) -> None:
        self._units[self._key(unit)] = unit
        if self._path:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(unit, ensure_ascii=False) + "\n")

    def drop(self) -> None:
        if self._path:
            self._path.unlink(missing_ok=True)


def _lines(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


def record(
    benchmark: Benchmark, *, again: bool = False, long: bool = False, workers: int = 1, until: float = math.inf
) -> Results:
    """Measure everything, and write ``results/latest.json`` and the page.

    Parts that a recording of the same code has are not measured again, and a recording that was stopped goes on where it was.

    Parameters
    ----------
    benchmark
        Which one.
    again
        Measure everything again.
    long
        Also measure the parts that take long.
    workers, until
        As of `Measuring`.
    """
    if dirty := changed(benchmark.name):
        raise BadInput(
            f"{', '.join(dirty[:3])} differ from the last commit, so a recording could not name its code.",
            remedy="Commit or stash the changes, or make a short run with --quick.",
        )
    where = circumstances(benchmark.name, benchmark.packages, benchmark.device)
    path = benchmark.folder / "results" / "partial.jsonl"
    if again:
        path.unlink(missing_ok=True)
    before = latest(benchmark)
    same = before is not None and not again and all(before.recorded.get(name) == where[name] for name in CODE)
    done = before.parts if before is not None and same else {}
    wanted = [part for part in benchmark.parts if part.name not in done and (long or not part.long)]
    kept = Kept(path, where)
    fresh = measured(benchmark, wanted, quick=False, kept=kept, workers=workers, until=until)
    parts = {**done, **fresh}
    results = Results(where, {part.name: parts[part.name] for part in benchmark.parts if part.name in parts})
    if not any(part.rows for part in results.parts.values()):
        kept.drop()
        raise NothingMeasured(next(why for part in results.parts.values() for _, why in part.skipped))
    results.write(benchmark.folder / "results" / "latest.json")
    results = latest(benchmark) or results  # with the digits of the file: a page that is written again is the same
    write_page(benchmark, results)
    kept.drop()
    return results


def write_page(benchmark: Benchmark, results: Results) -> None:
    """Write the page of a recording, with its pictures."""
    for picture in (benchmark.folder / "results").glob("*.[ps][nv]g"):
        picture.unlink()  # of the recording before; the page draws its own
    (benchmark.folder / "README.md").write_text(
        page(benchmark, results, pictures=benchmark.folder / "results"), encoding="utf-8"
    )


def short(benchmark: Benchmark) -> Results:
    """Measure a small part, and write ``results/quick/``, which is not part of the repository: results and a page."""
    folder = benchmark.folder / "results" / "quick"
    parts = measured(benchmark, [part for part in benchmark.parts if not part.long], quick=True)
    results = Results(circumstances(benchmark.name, benchmark.packages, benchmark.device), parts)
    results.write(folder / "latest.json")
    (folder / "README.md").write_text(page(benchmark, results, pictures=folder), encoding="utf-8")
    return results


def measured(
    benchmark: Benchmark,
    parts: Iterable[Part],
    *,
    quick: bool,
    kept: Kept | None = None,
    workers: int = 1,
    until: float = math.inf,
) -> dict[str, Measured]:
    """Return what parts of a benchmark show."""
    held = kept or Kept(None, {})
    units = [(part, case, run) for part in parts for case, run in part.units(quick=quick)]
    Measuring(benchmark, held.keep, workers, until).all(unit for unit in units if held.find(*unit) is None)
    found: dict[str, Measured] = {}
    for part, case, run in units:  # in this order, whoever was first: runs of two methods are compared in pairs
        one = found.setdefault(part.name, Measured(exact=part.exact))
        if run == 1:
            one.cases.append(dict(case))
        if (unit := held.find(part, case, run)) is not None:
            one.take(unit)
    return found


# Checks -----------------------------------------------------------------------------------------------------------------------


def check(benchmark: Benchmark, seed: int) -> list[str]:
    """Measure a sample again, and return what is not where the recorded runs say it should be."""
    recorded = latest(benchmark)
    if recorded is None:
        return [f"{benchmark.name} has no recording in the present form"]
    elsewhere = recorded.recorded["machine"] != machine()
    compared: list[tuple[str, float, Any]] = []
    for part in benchmark.parts:
        for case in _sampled(part, recorded.parts.get(part.name), seed):
            held = measure(part, case, 1 if part.exact else 10_000 + seed % 1_000)
            say(f"{benchmark.name}, {part.name}: {words_of(case)}, {held['seconds']:.1f} s {held['why']}")
            compared += _pairs(part, recorded, held["rows"], elsewhere=elsewhere)
    alpha = ALPHA / max(len(compared), 1)
    off = [(name, value, sample) for name, value, sample in compared if sample.foretells(value, alpha) is False]
    told = sum(sample.foretells(value, alpha) is not None for _, value, sample in compared)
    say(f"{benchmark.name}: {told} of {len(compared)} values could be told, {len(off)} are off")
    return [
        f"{benchmark.name}: {name} is {value:.5g}; {sample.runs} recorded runs have {min(sample.values):.5g} to "
        f"{max(sample.values):.5g}"
        for name, value, sample in off
    ]


def _sampled(part: Part, held: Measured | None, seed: int) -> list[Case]:
    """Return one case of a part that is short enough: of those that were measured, one by chance."""
    if held is None or not held.cases:
        return []
    skipped = [case for case, _ in held.skipped]
    cases = [case for case in part.cases if dict(case) not in skipped and dict(case) in held.cases]
    each = held.seconds / max(len(held.cases) * max(held.runs, 1), 1)
    if not cases or each > LONGEST:
        return []
    return [cases[int(np.random.default_rng(seed).integers(len(cases)))]]


def _pairs(part: Part, recorded: Results, rows: Iterable[dict[str, Any]], *, elsewhere: bool) -> list[Any]:
    found = []
    for row in rows:
        for _, samples in recorded.rows(part.name, **row["labels"]):
            for name, value in row["values"].items():
                if name in samples and not (name in part.machine and elsewhere) and math.isfinite(value):
                    words = ", ".join(f"{label} {one}" for label, one in row["labels"].items())
                    found.append((f"{part.name}, {words}: {name}", value, _wide(samples[name], name in part.machine)))
    return found


def _wide(sample: Any, machine_bound: bool) -> Any:
    """Return a sample to compare with; times on a shared machine may be anything up to three times as long."""
    return _Times(sample) if machine_bound else sample


class _Times:
    """Times: they are compared by a factor."""

    FACTOR = 3.0

    def __init__(self, sample: Any) -> None:
        self.values, self.runs = sample.values, sample.runs

    def foretells(self, value: float, _: float) -> bool | None:
        return min(self.values) / self.FACTOR <= value <= max(self.values) * self.FACTOR
