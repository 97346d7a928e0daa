"""What `colonnade bench` does: list, run, record and check benchmarks."""

import importlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frame import running
from benchmarks.frame.benchmark import Benchmark
from benchmarks.frame.circumstances import ROOT, changed, folder_hash, name_code, source_hash
from benchmarks.frame.pages import page
from benchmarks.frame.records import Results, latest
from benchmarks.frame.workers import FOLLOWED, OutOfTime, PartsFailed, follow
from colonnade import TemporaryLedgers

WORKERS = 2
"""How many processes measure the parts that do not time anything."""
DONE, FAILED, STOPPED, SKIPPED = 0, 1, 3, 4
"""Exit statuses of one benchmark: measured; failed; stopped when the time was over; it cannot be measured here."""
FIRST = (
    "moments", "secure_gram", "additive", "describe", "newton", "groupby", "slr", "functional", "spca", "clustering", "coverage",
    "coresets", "pattern_count", "primitives", "scale", "prediction", "synthetic", "network",
)  # fmt: skip
"""What a recording measures first: what most pages stand on. The others follow."""


@dataclass(frozen=True)
class Asked:
    """What `colonnade bench` was asked for.

    Parameters
    ----------
    quick, record, check
        The mode; without one a benchmark is recorded.
    seed
        Chooses the sample of a check.
    again
        Measure what is recorded already.
    long
        Also measure the parts that take long.
    minutes
        Start nothing after so many minutes; what is measured is kept.
    """

    quick: bool = False
    record: bool = False
    check: bool = False
    seed: int = 0
    again: bool = False
    long: bool = False
    minutes: float = math.inf

    def options(self, minutes: float) -> list[str]:
        """Return it as options of ``python -m benchmarks.frame``."""
        flags = {name: getattr(self, name) for name in ("quick", "check", "again", "long")}
        given = [f"--{name}" for name, is_set in flags.items() if is_set]
        return [*given, "--seed", str(self.seed), *([] if minutes == math.inf else ["--minutes", f"{minutes:.2f}"])]


def names() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(path.parent.name for path in (ROOT / "benchmarks").glob("*/run.py"))


def in_order() -> list[str]:
    """Return the names of all benchmarks, those first that most pages stand on."""
    return sorted(names(), key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def load(name: str) -> Benchmark:
    """Return a benchmark by the name of its folder."""
    warnings.simplefilter("ignore", TemporaryLedgers)  # a benchmark's budget need not outlive it
    found: Benchmark = importlib.import_module(f"benchmarks.{name}.run").BENCHMARK
    return found


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


def missing(name: str, *, long: bool = False) -> str | None:
    """Return what a recording of the present code still has to measure; ``None`` if nothing."""
    if why := stale(name):
        return why
    found = load(name)
    results = latest(found)
    assert results is not None
    lacking = [part.name for part in found.parts if part.name not in results.parts and (long or not part.long)]
    return f"without {', '.join(lacking)}" if lacking else None


def listed() -> str:
    """Return every benchmark with its planned minutes and the state of its recording."""
    lines, total = [], 0.0
    for name in in_order():
        minutes, why = load(name).minutes(WORKERS), missing(name)
        total += 0.0 if why is None else minutes
        lines.append(f"{_shown(name):<16} {minutes:5.1f} min  {'recorded' if why is None else why}")
    return "\n".join([*lines, f"{total:.0f} minutes to record, on two cores that do nothing else"])


# One benchmark, in this process -----------------------------------------------------------------------------------------------


def one(name: str, **given: bool | float) -> int:
    """Run one benchmark, and return an exit status."""
    status = _measured(load(name), Asked(**given))  # type: ignore[arg-type]  # the fields' own types
    return DONE if status == SKIPPED else status


def _measured(found: Benchmark, asked: Asked) -> int:
    shown = _shown(found.name)
    if asked.check:
        return _checked(found, asked.seed)
    if not asked.quick and not asked.again and missing(found.name, long=asked.long) is None:
        print(f"{shown}: recorded already; --again measures it again")
        return DONE
    until = time.monotonic() + 60 * asked.minutes
    try:
        if asked.quick:
            results = running.short(found)
        else:
            results = running.record(found, again=asked.again, long=asked.long, workers=WORKERS, until=until)
    except running.NothingMeasured as why:
        print(f"{shown}: nothing can be measured here: {why}. Its last recording stays.")
        return SKIPPED if found.needs else FAILED
    except OutOfTime as why:
        print(f"{shown}: stopped: {why}")
        return STOPPED
    except PartsFailed as why:
        print(f"{shown}: FAILED: {why}")
        return FAILED
    print(page(found, results))
    return DONE


def _checked(found: Benchmark, seed: int) -> int:
    if found.needs and latest(found) is None:
        print(f"{_shown(found.name)}: it needs {found.needs} and has no recording")
        return SKIPPED
    off = running.check(found, seed)
    print("\n".join(off) or f"{_shown(found.name)}: as recorded")
    return FAILED if off else DONE


# All of them, each in a process of its own ------------------------------------------------------------------------------------


def everything(**given: bool | float) -> int:
    """Run all benchmarks, one after the other, each in a process of its own. One that fails does not stop the others."""
    asked = Asked(**given)  # type: ignore[arg-type]  # as above
    todo = [name for name in in_order() if not asked.record or asked.again or missing(name, long=asked.long)]
    if asked.record:
        print(f"{len(names()) - len(todo)} are recorded already; {len(todo)} to go", flush=True)
    planned = {name: load(name).minutes(WORKERS, long=asked.long) for name in todo}
    start, found, behind = time.monotonic(), {}, 0.0
    for place, name in enumerate(todo, 1):
        spent = (time.monotonic() - start) / 60
        if spent >= asked.minutes:
            break
        if asked.record:
            pace = spent / behind if behind else 1.0
            left = pace * sum(planned[one] for one in todo[place - 1 :])
            print(f"{_shown(name)}: {place} of {len(todo)}; about {left:.0f} minutes left for all", flush=True)
        found[name] = _process(name, asked, asked.minutes - spent)
        behind += planned[name]
    return _told(asked, todo, found, (time.monotonic() - start) / 60)


def _told(asked: Asked, todo: list[str], found: dict[str, int], minutes: float) -> int:
    """Say how it went, and write the pages that are made from all recordings."""
    failed = [_shown(name) for name, status in found.items() if status not in (DONE, SKIPPED, STOPPED)]
    left = [_shown(name) for name in todo if found.get(name, STOPPED) == STOPPED]
    if asked.record:  # somebody may have changed a benchmark after its recording, while others were made
        left += [_shown(name) for name, status in found.items() if status == DONE and stale(name) is not None]
    print(f"{minutes:.0f} minutes; {len(failed)} failed: {', '.join(failed) or 'none'}")
    if left:
        print(f"Not finished: {', '.join(left)}. The same command goes on there.")
    if asked.record:
        write_pages()
    return FAILED if failed else STOPPED if left else DONE


def unreleasable() -> list[str]:
    """Return what stands against a release: recordings of other code than the present, and pages that are not of the recordings.

    A benchmark that needs a device may have no recording; one that it has must be of the present code.
    """
    from benchmarks.frame import papers_page, results_page

    off = []
    for name in names():
        found = load(name)
        if (why := stale(name)) and not (found.needs and latest(found) is None):
            off.append(f"{_shown(name)}: {why}; run `colonnade bench {_shown(name)}`")
    with tempfile.TemporaryDirectory() as pictures:
        written = {
            papers_page.PAGE: papers_page.page(),
            results_page.PAGE: results_page.text(*results_page.recordings(), Path(pictures)),
        }
    stale_pages = [path for path, text in written.items() if path.read_text(encoding="utf-8") != text]
    off += [
        f"{path.relative_to(ROOT)}: not the recorded results; run `python -m benchmarks.frame page`"
        for path in stale_pages
    ]
    return off


def write_pages() -> None:
    """Write the pages that are made from recorded results: that of each benchmark, and those of docs/ about all of them."""
    from benchmarks.frame import papers_page, results_page

    for name in names():
        found = load(name)
        if (results := latest(found)) is not None:
            running.write_page(found, results)
    results_page.write()
    papers_page.write()


def _process(name: str, asked: Asked, minutes: float) -> int:
    log = ROOT / "benchmarks" / name / "results" / "log.txt"
    log.parent.mkdir(exist_ok=True)
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, FOLLOWED: str(os.getpid())}
    start = time.perf_counter()
    with log.open("w") as said:
        command = [sys.executable, "-m", "benchmarks.frame", name, *asked.options(minutes)]
        status = subprocess.run(command, cwd=ROOT, stdout=said, stderr=said, check=False, env=environment).returncode
    words = {
        DONE: "done",
        STOPPED: "stopped when the time was over",
        SKIPPED: f"left as it is: {load(name).needs} is needed",
    }.get(status, f"FAILED; see {log.relative_to(ROOT)}")
    print(f"{_shown(name)}: {words}, {(time.perf_counter() - start) / 60:.1f} minutes", flush=True)
    return status


def _shown(name: str) -> str:
    return name.replace("_", "-")


def main(arguments: Sequence[str]) -> int:
    """Be ``python -m benchmarks.frame``: one benchmark, in this process."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m benchmarks.frame")
    parser.add_argument("name", choices=[*names(), "all", "page", "code", "release"])
    for mode in ("--quick", "--record", "--check", "--again", "--long"):
        parser.add_argument(mode, action="store_true")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=math.inf)
    given = vars(parser.parse_args(arguments))
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # workers and members are ended on the way out
    if os.environ.get(FOLLOWED) == str(os.getppid()):
        follow(os.getppid())
    name = given.pop("name")
    if name == "code":
        print(name_code(names()).relative_to(ROOT))
        return DONE
    if name == "release":
        print(
            "\n".join(off := unreleasable())
            or "every recording is of the present code, and the pages are of the recordings"
        )
        return FAILED if off else DONE
    if name == "page":
        from benchmarks.frame import results_page

        if given["quick"]:
            results_page.write(ROOT / "benchmarks" / ".quick" / "results.md", quick=True)
        else:
            write_pages()
        return DONE
    return everything(**given) if name == "all" else _measured(load(name), Asked(**given))
