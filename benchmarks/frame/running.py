"""Running a benchmark: recording it whole, a short run of it, or a check of a sample of it."""

import json
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frame import marker
from benchmarks.frame.benchmark import Benchmark, Case, Part, Row, Unavailable
from benchmarks.frame.circumstances import changed, circumstances, machine
from benchmarks.frame.pages import page
from benchmarks.frame.records import Measured, Results, latest
from colonnade.errors import BadInput

ALPHA = 1e-3
"""The chance that a check of a whole benchmark complains although nothing changed."""
LONGEST = 60.0
"""Seconds that one run of one case may take to be in a check."""


class NothingMeasured(Exception):
    """Nothing of a benchmark can be measured here, so that its last recording stays."""


class Kept:
    """Runs that an interrupted recording of the same code has finished."""

    def __init__(self, path: Path, code: dict[str, str]) -> None:
        self._path, self._code = path, {name: code[name] for name in ("src", "benchmark")}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        held = [json.loads(line) for line in lines]
        self._units = {self._key(one): one for one in held[1:]} if held and self._same(held[0]) else {}
        if not self._units:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self._code) + "\n", encoding="utf-8")

    def _same(self, code: dict[str, str]) -> bool:
        return code == self._code

    @staticmethod
    def _key(one: dict[str, Any]) -> str:
        return json.dumps([one["part"], one["case"], one["run"]], sort_keys=True)

    def find(self, part: Part, case: Case, run: int) -> dict[str, Any] | None:
        return self._units.get(self._key({"part": part.name, "case": dict(case), "run": run}))

    def keep(self, unit: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(unit, ensure_ascii=False) + "\n")

    def drop(self) -> None:
        self._path.unlink(missing_ok=True)


def record(benchmark: Benchmark) -> Results:
    """Measure everything, and write ``results/latest.json`` and the page. An interrupted recording goes on where it was."""
    if dirty := changed(benchmark.name):
        raise BadInput(
            f"{', '.join(dirty[:3])} differ from the last commit, so a recording could not name its code.",
            remedy="Commit or stash the changes, or make a short run with --quick.",
        )
    where = circumstances(benchmark.name, benchmark.packages)
    kept = Kept(benchmark.folder / "results" / "partial.jsonl", where)
    results = measured(benchmark, where, quick=False, kept=kept)
    if not any(part.rows for part in results.parts.values()):
        kept.drop()
        raise NothingMeasured(next(why for part in results.parts.values() for _, why in part.skipped))
    results.write(benchmark.folder / "results" / "latest.json")
    for picture in (benchmark.folder / "results").glob("*.[ps][nv]g"):
        picture.unlink()  # of the recording before; the page draws its own
    (benchmark.folder / "README.md").write_text(page(benchmark, results), encoding="utf-8")
    marker.add(benchmark.name)
    kept.drop()
    return results


def short(benchmark: Benchmark) -> Results:
    """Measure a small part, and write ``results/quick.json``, which is not part of the repository."""
    results = measured(benchmark, circumstances(benchmark.name, benchmark.packages), quick=True)
    results.write(benchmark.folder / "results" / "quick.json")
    return results


def measured(benchmark: Benchmark, where: dict[str, str], *, quick: bool, kept: Kept | None = None) -> Results:
    """Return what the parts of a benchmark show."""
    parts = {part.name: _part(part, quick=quick, kept=kept) for part in benchmark.parts}
    return Results(where, parts)


def _part(part: Part, *, quick: bool, kept: Kept | None) -> Measured:
    found = Measured(exact=part.exact)
    missing: dict[str, str] = {}
    for case, run in part.units(quick=quick):
        words = _words(case)
        if run == 1:
            found.cases.append(dict(case))
        if words in missing:
            continue
        unit = kept.find(part, case, run) if kept else None
        if unit is None:
            unit = _unit(part, case, run)
            _say(f"{part.name}: {words}{', ' if words else ''}run {run}, {unit['seconds']:.1f} s")
            if kept:
                kept.keep(unit)
        found.seconds += unit["seconds"]
        if unit["why"]:
            missing[words] = unit["why"]
            found.skipped.append((dict(case), unit["why"]))
        else:
            found.runs = max(found.runs, run)
            found.add(Row(**row) for row in unit["rows"])
    return found


def _unit(part: Part, case: Case, run: int) -> dict[str, Any]:
    start, why, rows = time.perf_counter(), "", []
    try:
        rows = [{"labels": dict(row.labels), "values": _plain(row.values)} for row in part.measure(run, **case)]
    except Unavailable as missing:
        why = str(missing)
    seconds = time.perf_counter() - start
    return {"part": part.name, "case": dict(case), "run": run, "rows": rows, "why": why, "seconds": seconds}


def _plain(values: Any) -> dict[str, float]:
    for name, value in values.items():
        if not math.isfinite(value):  # said at once, and not after hours
            raise ValueError(f"A benchmark measured something that is not a number: {name}.")
    return {name: float(value) for name, value in values.items()}


def _words(case: Case) -> str:
    return ", ".join(f"{name} {value}" for name, value in case.items())


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


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
            held = _unit(part, case, 1 if part.exact else 10_000 + seed % 1_000)
            _say(f"{benchmark.name}, {part.name}: {_words(case)}, {held['seconds']:.1f} s {held['why']}")
            compared += _pairs(part, recorded, held["rows"], elsewhere=elsewhere)
    alpha = ALPHA / max(len(compared), 1)
    off = [(name, value, sample) for name, value, sample in compared if sample.foretells(value, alpha) is False]
    told = sum(sample.foretells(value, alpha) is not None for _, value, sample in compared)
    _say(f"{benchmark.name}: {told} of {len(compared)} values could be told, {len(off)} are off")
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
