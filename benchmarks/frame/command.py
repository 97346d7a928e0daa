"""What `colonnade bench` does: list, run, record and check benchmarks."""

import importlib
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.frame import marker, running
from benchmarks.frame.benchmark import Benchmark
from benchmarks.frame.circumstances import ROOT, changed, folder_hash, source_hash
from benchmarks.frame.pages import page
from benchmarks.frame.records import Results
from colonnade import TemporaryLedgers

WORKERS = 2
"""How many benchmarks that do not measure time are recorded at once."""


def names() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(path.parent.name for path in (ROOT / "benchmarks").glob("*/run.py"))


def in_frame(name: str) -> bool:
    """Return whether a benchmark is one of this frame; otherwise it is a script of its own."""
    return "\nBENCHMARK = " in (ROOT / "benchmarks" / name / "run.py").read_text(encoding="utf-8")


def load(name: str) -> Benchmark | None:
    """Return a benchmark by the name of its folder; ``None`` for one that is a script of its own."""
    warnings.simplefilter("ignore", TemporaryLedgers)  # a benchmark's budget need not outlive it
    return importlib.import_module(f"benchmarks.{name}.run").BENCHMARK if in_frame(name) else None


def stale(name: str) -> str | None:
    """Return why the recording of a benchmark is not one of the present code; ``None`` if it is."""
    results = Results.read(ROOT / "benchmarks" / name / "results" / "latest.json")
    if results is None:
        return "it has no recording"
    if changed(name):
        return "files differ from the last commit"
    for what, now in (("src", source_hash()), ("benchmark", folder_hash(name))):
        if results.recorded.get(what) != now:
            return f"the {what} has changed since commit {results.recorded.get('commit', '')[:12]}"
    return None


def listed() -> str:
    """Return every benchmark with its planned minutes and the state of its recording."""
    lines = []
    for name in names():
        found = load(name)
        if found is None:
            lines.append(f"{_shown(name):<16} a script of its own")
            continue
        why = stale(name)
        lines.append(f"{_shown(name):<16} {found.minutes:5.0f} min  {'recorded' if why is None else why}")
    return "\n".join(lines)


def one(name: str, *, quick: bool, record: bool, check: bool, seed: int) -> int:
    """Run one benchmark, and return an exit status. Without a mode it is recorded."""
    del record
    found = load(name)
    if found is None:
        return _script(name, quick=quick or check)
    if check:
        off = running.check(found, seed)
        print("\n".join(off) or f"{_shown(name)}: as recorded")
        return 1 if off else 0
    try:
        results = running.short(found) if quick else running.record(found)
    except running.NothingMeasured as why:
        print(f"{_shown(name)}: nothing can be measured here: {why}. Its last recording stays.")
        return 0 if found.needs else 1
    print(page(found, results, pictures=False))
    return 0


def everything(*, quick: bool, record: bool, check: bool, seed: int) -> int:
    """Run all benchmarks, each in a process of its own: those that measure time alone, the others two at a time."""
    start, mode = time.perf_counter(), "--quick" if quick else "--check" if check else "--record"
    alone, together = [], []
    for name in names():
        found = load(name)
        if found is None:
            print(f"{_shown(name)}: a script of its own; left out", flush=True)
        elif record and stale(name) is None:
            print(f"{_shown(name)}: recorded already", flush=True)
            marker.add(name)
        else:
            (alone if found.alone else together).append(name)
    call = lambda name: _process(name, mode, seed)  # noqa: E731
    failed = [name for name in alone if call(name)]
    longest = sorted(together, key=lambda name: -load(name).minutes)  # type: ignore[union-attr]
    with ThreadPoolExecutor(WORKERS) as pool:
        failed += [name for name, status in zip(longest, pool.map(call, longest), strict=True) if status]
    print(f"{(time.perf_counter() - start) / 60:.0f} minutes; {len(failed)} failed: {', '.join(failed) or 'none'}")
    if record and not failed:
        marker.write(enforced=True, names=[name for name in names() if in_frame(name) and stale(name) is None])
        _write_pages()
    return 1 if failed else 0


def _write_pages() -> None:
    """Write the pages of docs/ that are made from all recorded results."""
    from benchmarks.frame import papers_page, results_page

    results_page.write()
    papers_page.write()


def _process(name: str, mode: str, seed: int) -> int:
    log = ROOT / "benchmarks" / name / "results" / "log.txt"
    log.parent.mkdir(exist_ok=True)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    with log.open("w") as said:
        command = [sys.executable, "-m", "benchmarks.frame", name, mode, "--seed", str(seed)]
        status = subprocess.run(command, cwd=ROOT, stdout=said, stderr=said, check=False, env=environment).returncode
    words = "done" if status == 0 else f"FAILED; see {log.relative_to(ROOT)}"
    print(f"{_shown(name)}: {words}, {(time.perf_counter() - start) / 60:.1f} minutes", flush=True)
    return status


def _script(name: str, *, quick: bool) -> int:
    path = Path("benchmarks") / name / "run.py"
    command = [sys.executable, str(path), *(["--quick"] if quick else [])]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _shown(name: str) -> str:
    return name.replace("_", "-")


def main(arguments: Sequence[str]) -> int:
    """Be ``python -m benchmarks.frame``: one benchmark, in this process."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m benchmarks.frame")
    parser.add_argument("name", choices=[*names(), "all", "page"])
    for mode in ("--quick", "--record", "--check"):
        parser.add_argument(mode, action="store_true")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args(arguments)
    if asked.name == "page":
        _write_pages()
        return 0
    modes = {"quick": asked.quick, "record": asked.record, "check": asked.check, "seed": asked.seed}
    return everything(**modes) if asked.name == "all" else one(asked.name, **modes)
