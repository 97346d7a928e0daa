"""What was measured, as it is kept: ``results/latest.json`` of a benchmark, or ``results/quick/latest.json`` of a short run."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.frame.benchmark import Benchmark, Label, Row
from benchmarks.frame.intervals import Sample

FORM = 2


class NotMeasured(Exception):  # said on the page, not a fault
    """Results do not have what was asked for."""


@dataclass
class Measured:
    """The rows of one part: labels, and one list of values over runs by name.

    Cases that could not be measured are ``skipped``; what was missing beside measured ones, such as a peer, is ``absent``.
    """

    cases: list[dict[str, Any]] = field(default_factory=list)
    runs: int = 0
    seconds: float = 0.0
    exact: bool = False
    rows: list[tuple[dict[str, Label], dict[str, list[float]]]] = field(default_factory=list)
    skipped: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    def take(self, unit: Mapping[str, Any]) -> None:
        """Add one run of one case as it is kept; or why there is none."""
        self.seconds += unit["seconds"]
        self.absent += [why for why in unit["absent"] if why not in self.absent]
        if unit["why"]:
            self.skipped.append((unit["case"], unit["why"]))
        else:
            self.runs = max(self.runs, unit["run"])
            self.add(Row(**row) for row in unit["rows"])

    def add(self, found: Iterable[Row]) -> None:
        """Add the rows of one run of one case."""
        for row in found:
            labels = dict(row.labels)
            values = next((held for known, held in self.rows if known == labels), None)
            if values is None:
                values = {}
                self.rows.append((labels, values))
            for name, value in row.values.items():
                values.setdefault(name, []).append(float(value))


@dataclass
class Results:
    """What is known about a benchmark.

    Parameters
    ----------
    recorded
        Circumstances.
    parts
        What was measured, by part.
    """

    recorded: dict[str, str]
    parts: dict[str, Measured]

    def rows(self, part: str, **labels: Label) -> Iterator[tuple[dict[str, Label], dict[str, Sample]]]:
        """Yield the rows of a part that have certain labels."""
        held = self.parts.get(part)
        for known, values in held.rows if held else ():
            if all(known.get(name) == value for name, value in labels.items()):
                assert held is not None
                yield known, {name: Sample(tuple(each), held.exact) for name, each in values.items()}

    def sample(self, part: str, value: str, **labels: Label) -> Sample:
        """Return the runs of one number. It refuses where no row, or more than one, has these labels."""
        found = [values[value] for _, values in self.rows(part, **labels) if value in values]
        if len(found) != 1:
            words = ", ".join(f"{name} {one}" for name, one in labels.items())
            raise NotMeasured(f"{value} of {words or part}" + (" is not one row" if found else ""))
        return found[0]

    def labels(self, part: str, name: str, **labels: Label) -> list[Label]:
        """Return the different values of a label, in order."""
        return list(dict.fromkeys(known[name] for known, _ in self.rows(part, **labels) if name in known))

    def written(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "form": FORM,
            "recorded": self.recorded,
            "parts": {
                name: {
                    "cases": one.cases,
                    "runs": one.runs,
                    "seconds": round(one.seconds, 1),
                    "exact": one.exact,
                    "skipped": [{"case": case, "why": why} for case, why in one.skipped],
                    "absent": one.absent,
                    "rows": [{"labels": labels, "values": _short(values)} for labels, values in one.rows],
                }
                for name, one in self.parts.items()
            },
        }

    @classmethod
    def read(cls, path: Path) -> "Results | None":
        """Return what a file holds; ``None`` if there is none, or one of before this form."""
        if not path.exists():
            return None
        held = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(held, dict) or held.get("form") != FORM:
            return None
        parts = {
            name: Measured(
                one["cases"],
                one["runs"],
                one["seconds"],
                one["exact"],
                [(row["labels"], row["values"]) for row in one["rows"]],
                [(row["case"], row["why"]) for row in one["skipped"]],
                one["absent"],
            )
            for name, one in held["parts"].items()
        }
        return cls(held["recorded"], parts)

    def write(self, path: Path) -> None:
        """Write it: one line per row, so that a change is read easily."""
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = self.written()
        parts = []
        for name, one in whole["parts"].items():
            rows = one.pop("rows")
            head = json.dumps(one, ensure_ascii=False)[1:-1]
            lines = ",\n   ".join(json.dumps(row, ensure_ascii=False) for row in rows)
            parts.append(f'  {json.dumps(name)}: {{{head}, "rows": [\n   {lines}\n  ]}}')
        recorded = json.dumps(whole["recorded"], ensure_ascii=False)
        text = f'{{"form": {FORM}, "recorded": {recorded},\n "parts": {{\n' + ",\n".join(parts) + "\n }}\n"
        json.loads(text)
        path.write_text(text, encoding="utf-8")


def latest(benchmark: Benchmark) -> Results | None:
    """Return what was recorded last."""
    return Results.read(benchmark.folder / "results" / "latest.json")


def _short(values: Mapping[str, list[float]]) -> dict[str, list[float]]:
    return {name: [_rounded(one) for one in each] for name, each in values.items()}


def _rounded(value: float) -> float:
    """Seven digits are enough for a page and for a check."""
    return float(f"{value:.7g}")
