"""Record golden releases, or compare with those recorded: ``python -m tests.golden.record [--compare] [--only WORDS]``.

Recording runs every study several times: as it is, with other hashes of plans, and with other names of runs. A study that
changes is marked in `golden.json`, and is recorded with what follows from those frozen (`recorder.frozen`).
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests import kit
from tests.golden import recorder
from tests.golden.studies import STUDIES
from tests.golden.summary import differences, learned

GOLDEN = Path(__file__).with_name("golden.json")
DEPENDS = "depends on the plan's hash"
NAMED = "depends on the run's name"


def run(name: str, *, freeze: bool) -> dict[str, Any]:
    """Run one study and return what was released and what was learned."""
    if freeze:
        with recorder.frozen(name):
            return run(name, freeze=False)
    open_, study = STUDIES[name]
    with recorder.seeded(), kit.zeroed_out(), open_() as federation:  # recorded when missing values needed no rule
        watching = recorder.watch(federation)
        results = study(federation)
    return {
        "kinds": sorted(watching.kinds),
        "units": sorted(watching.units),
        "releases": watching.sequences.all(),
        "learned": learned("result", results),
    }


def compare(golden: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return in words what differs between two runs of a study: releases first, because the rest follows from them."""
    lines = [f"release {line}" for line in differences(golden["releases"], found["releases"])]
    lines += [f"learned {line}" for line in differences(golden["learned"], found["learned"])]
    return lines


def recorded() -> dict[str, Any]:
    """Return what was recorded, by study."""
    return json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}


def recomputed(name: str, golden: dict[str, Any]) -> list[str]:
    """Run a recorded study again and return what differs."""
    return compare(golden, run(name, freeze=golden[DEPENDS] or golden[NAMED]))


def record(name: str) -> dict[str, Any]:
    """Run a study in every way, and return what is to be kept of it."""
    with recorder.disturbed():
        plain = run(name, freeze=False)
    with recorder.disturbed(plan=b"another format"):
        other_plan = run(name, freeze=False)
    with recorder.disturbed(run=b"another name: 16"):
        other_run = run(name, freeze=False)
    depends, named = bool(compare(plain, other_plan)), bool(compare(plain, other_run))
    kept = run(name, freeze=depends or named)
    with recorder.disturbed(plan=b"another format", run=b"another name: 16"):
        left = compare(kept, run(name, freeze=depends or named))
    if left:
        raise AssertionError(f"{name}: the freeze does not hold: {left[:3]}")
    return {DEPENDS: depends, NAMED: named, **kept}


def written(golden: dict[str, Any]) -> str:
    """Return the file's text: one line a value, so that a change is one line in a comparison."""
    studies = []
    for name, study in golden.items():
        entries = []
        for key, value in study.items():
            lines = (
                [f"   {_line(one)}: {_line(kept)}" for one, kept in value.items()] if isinstance(value, dict) else []
            )
            entries.append(f"  {_line(key)}: " + ("{\n" + ",\n".join(lines) + "\n  }" if lines else _line(value)))
        studies.append(f" {_line(name)}: {{\n" + ",\n".join(entries) + "\n }")
    return "{\n" + ",\n".join(studies) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> int:
    """Record or compare, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", action="store_true", help="write nothing; exit with 1 if a study differs")
    parser.add_argument("--only", default="", help="studies whose names contain this")
    options = parser.parse_args()
    golden, wrong, begun = recorded(), 0, time.monotonic()
    if not options.compare and not options.only:
        golden = {}
    for name in STUDIES:
        if options.only not in name:
            continue
        start = time.monotonic()
        if options.compare:
            lines = recomputed(name, golden[name]) if name in golden else ["was never recorded"]
            wrong += bool(lines)
            print(f"{'DIFFERS' if lines else 'same':8}{time.monotonic() - start:6.2f} s  {name}")  # noqa: T201
            print("".join(f"          {line}\n" for line in lines[:6]), end="")  # noqa: T201
        else:
            golden[name] = record(name)
            marks = ", ".join(mark for mark in (DEPENDS, NAMED) if golden[name][mark])
            print(f"{time.monotonic() - start:6.2f} s  {name}{': ' if marks else ''}{marks}", flush=True)  # noqa: T201
    if not options.compare:
        ordered = {name: golden[name] for name in STUDIES if name in golden}
        GOLDEN.write_text(written(ordered))
    print(f"{time.monotonic() - begun:.1f} s, {wrong} differ")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
