"""What previews foretell, held against what then happens, on public data that no preview was tuned to.

    python benchmarks/previews/run.py [--quick] [--others] [--unseen] [--every-method] [--file PATH --target COLUMN]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout. ``--others`` runs further sets,
and ``--file`` any table in Parquet, which is divided by the same rule. Those results are printed and not kept. ``--unseen`` runs
sets that were run after the assumptions of previews had been settled; that result is kept, whatever it is.

Every set is a federation of three parties (`preview_sets.py`), and every study runs on the real channel of a simulation, several
times. What is foretold and what is measured is defined in `docs/explanation/previews.md` (`preview_measures.py`). A preview holds
if the measured error lies in its range, which is at most a factor of four wide, or within a factor of two of its value. It may
also say that it does not know. The bar: it holds in 90 % of all cases, and it does not know in at most 15 %.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

import preview_measures as measures
from preview_sets import OTHERS, SETS, UNSEEN, Divided, divide

import colonnade as cn
from colonnade.datasets.public import DATA_VARIABLE
from colonnade.estimators.second_moments import MomentStudy

HERE = Path(__file__).parent
EPSILONS = (0.25, 1.0, 4.0)
DELTA = 1e-6
DRAWS, FEWER, SINGLE = 10, 5, 6
"""Draws per case; where every method is compared; and how many times as many for a result that is a single number."""
BAR, MOST_UNKNOWN = 0.9, 0.15

Measure = Callable[[Any, Any, Divided], float]


def studies(data: Divided, epsilon: float, *, every: bool) -> Iterator[tuple[Any, Measure]]:
    """Yield the studies of a set at one ε, and how their errors are measured; by default those of the default methods."""
    price = {"epsilon": epsilon, "delta": DELTA}
    categories = measures.levels_of(data)
    if len(categories) > 1:
        for columns in {tuple(categories[:2]), tuple(categories[:3])} if every else {tuple(categories[:2])}:
            for method in ("secure", "response", "independent") if every else ("secure",):
                yield cn.PatternCount(list(columns), method=method, epsilon=epsilon), measures.counts
    if every and (whole := _whole_columns(data)):
        yield cn.Moment(whole, 2, change="bounds", epsilon=epsilon), measures.value
        yield cn.Moment(whole, 2, method="sketch", change="bounds", **price), measures.value
    for method in ("secure", "sketch", "local") if every else ("secure",):
        yield cn.PCA(3, method=method, **price), measures.components
    numeric = data.target in data.columns(cn.Numeric)
    kind = cn.LinearRegression if numeric else cn.LogisticRegression
    for method in (
        (("secure", "functional", "sketch") if numeric else ("secure", "functional")) if every else ("secure",)
    ):
        yield kind(data.target, method=method, **price), measures.predictions
    for method in ("secure", "sketch", "response", "independent") if every else ("secure",):
        yield cn.KMeans(4, method=method, **price), measures.weights  # KMedian has the same releases


def _whole_columns(data: Divided) -> list[str]:
    """Return one column of whole numbers, not negative, from each party that has one; none if fewer than two do."""
    chosen: dict[str, str] = {}
    for name in data.columns(cn.Numeric):
        party, _, column = name.partition(".")
        if data.schemas[party][column].integer and data.schemas[party][column].low >= 0:
            chosen.setdefault(party, name)
    return list(chosen.values()) if len(chosen) > 1 else []


def held(low: float, high: float, value: float, found: float) -> bool:
    """Return whether a measured error lies in the foretold range, or within a factor of two of the foretold value."""
    return low <= found <= high or value / 2 <= found <= 2 * value


def compare(data: Divided, draws: int, *, every: bool) -> list[dict]:
    """Return one row per study of a set: what was foretold, what was measured. Every method is compared at one ε only."""
    rows, exact = [], {}
    with data.federation() as federation:
        for epsilon in (1.0,) if every else EPSILONS:
            for study, measure in studies(data, epsilon, every=every):
                begin = time.perf_counter()
                error = study.preview(federation).errors[0]
                seconds = time.perf_counter() - begin
                key = (type(study), study.method, str(study.get_params().get("columns")))
                if key not in exact:
                    exact[key] = _without_noise(study, data)
                count = SINGLE * draws if isinstance(study, cn.Moment) else draws
                squared = [
                    measure(study.fit(federation, repeat=draw), exact[key], data) for draw in range(1, count + 1)
                ]
                found = float(np.sqrt(np.mean(squared)))
                low, high = error.interval or (None, None)
                rows.append(
                    {
                        "set": data.name,
                        "people": federation.people,
                        "estimator": type(study).__name__,
                        "method": study.method,
                        "epsilon": epsilon,
                        "quantity": error.quantity,
                        "unit": error.unit,
                        "foretold": error.value,
                        "low": low,
                        "high": high,
                        "measured": found,
                        "verdict": "unknown"
                        if error.value is None
                        else ("holds" if held(low, high, error.value, found) else "fails"),
                        "preview_seconds": seconds,
                    }
                )
                sys.stderr.write(f"{_line(rows[-1])}\n")
    return rows


def _without_noise(study: Any, data: Divided) -> Any:
    if isinstance(study, MomentStudy):
        return measures.exact_model(study, data)
    return measures.quiet_study(study, data) if isinstance(study, cn.PatternCount) else None


# Report ---------------------------------------------------------------------------------------------------------------------


def shares(rows: list[dict]) -> dict[str, float]:
    """Return how often previews held, among those that said something, and how often they did not know."""
    known = [row for row in rows if row["verdict"] != "unknown"]
    return {
        "cases": len(rows),
        "held": sum(row["verdict"] == "holds" for row in known) / max(len(known), 1),
        "unknown": 1 - len(known) / max(len(rows), 1),
        "slowest_preview": max(row["preview_seconds"] for row in rows),
    }


def _line(row: dict) -> str:
    foretold = (
        "unknown" if row["foretold"] is None else f"{row['foretold']:.3g} ({row['low']:.3g} to {row['high']:.3g})"
    )
    cells = [row["set"], row["estimator"], row["method"], f"{row['epsilon']:g}", foretold, f"{row['measured']:.3g}"]
    return f"| {' | '.join([*cells, row['verdict']])} |"


def readme(results: dict) -> str:
    machine, summary = results["machine"], results["summary"]
    met = summary["held"] >= BAR and summary["unknown"] <= MOST_UNKNOWN
    lines = [
        "# Previews against what happens",
        "",
        *(__doc__ or "").split("\n\n", 3)[3].strip().splitlines(),
        "",
        f"**{summary['held']:.0%}** of previews with the default methods held ({BAR:.0%} asked).",
        f"**{summary['unknown']:.0%}** did not know (at most {MOST_UNKNOWN:.0%} asked). The bar is {'met' if met else 'missed'}.",
        f"{summary['cases']} cases; the slowest preview took {summary['slowest_preview']:.1f} s.",
        "",
        "| set | estimator | method | ε | foretold | measured | |",
        "|---|---|---|---|---|---|---|",
        *map(_line, results["rows"]),
        "",
    ]
    if results.get("every"):
        every = shares(results["every"])
        lines += [
            "## Every method",
            "",
            f"{every['held']:.0%} held, {every['unknown']:.0%} did not know; {every['cases']} cases of {FEWER} draws.",
            "",
            "| set | estimator | method | ε | foretold | measured | |",
            "|---|---|---|---|---|---|---|",
            *map(_line, results["every"]),
            "",
        ]
    unseen = HERE / "results" / "unseen.json"
    if unseen.exists():
        lines += _of_unseen(json.loads(unseen.read_text()))
    where = f"Python {machine['python']}, {machine['processors']} processors, {results['draws']} draws per case"
    return "\n".join([*lines, f"{where}, commit {machine['commit']}.", ""])


def _of_unseen(results: dict) -> list[str]:
    """The same for sets that were run afterwards."""
    summary = results["summary"]
    draws = f"{results['draws']} draws, commit {results['machine']['commit']}"
    return [
        "## Sets that were run afterwards",
        "",
        "The assumptions of previews are constants. They were settled with twelve public sets in view: the six above, the",
        "four of `--others`, and two that are not recorded. The sets below were run afterwards. None was tuned to.",
        "",
        f"**{summary['held']:.0%}** held, {summary['unknown']:.0%} did not know; {summary['cases']} cases of {draws}.",
        "",
        "| set | estimator | method | ε | foretold | measured | |",
        "|---|---|---|---|---|---|---|",
        *map(_line, results["rows"]),
        "",
    ]


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=HERE
    )
    return done.stdout.strip() or "unknown"


def data_folder() -> Path:
    return Path(os.environ.get(DATA_VARIABLE, HERE.parents[2] / "shared" / "data"))


def _chosen(arguments: argparse.Namespace) -> list[Divided]:
    if arguments.file:
        return [divide(arguments.file.stem, pd.read_parquet(arguments.file), arguments.target)]
    loaders = OTHERS if arguments.others else UNSEEN if arguments.unseen else SETS
    names = list(loaders)[3:5] if arguments.quick else list(loaders)
    return [loaders[name](data_folder()) for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sets and two draws, and nothing is kept")
    parser.add_argument("--others", action="store_true", help="other public sets; nothing is kept")
    parser.add_argument("--unseen", action="store_true", help="sets that were run afterwards; kept beside the others")
    parser.add_argument("--every-method", action="store_true", help="also the methods that are not the default ones")
    parser.add_argument("--file", type=Path, help="a table in Parquet, in place of the public sets; nothing is kept")
    parser.add_argument("--target", help="the column of that table to predict")
    arguments = parser.parse_args()
    draws, fewer = (2, 2) if arguments.quick else (DRAWS, FEWER)
    sets = _chosen(arguments)
    rows = [row for data in sets for row in compare(data, draws, every=False)]
    every = [row for data in sets for row in compare(data, fewer, every=True)] if arguments.every_method else []
    results = {
        "rows": rows,
        "every": every,
        "summary": shares(rows),
        "draws": draws,
        "machine": {"python": platform.python_version(), "processors": os.cpu_count(), "commit": _commit()},
    }
    if arguments.quick or arguments.others or arguments.file:
        sys.stdout.write(readme(results))
        return
    (HERE / "results").mkdir(exist_ok=True)
    kept = HERE / "results" / ("unseen.json" if arguments.unseen else "latest.json")
    kept.write_text(json.dumps(results, indent=1, default=float) + "\n")
    page = readme(json.loads((HERE / "results" / "latest.json").read_text()))
    (HERE / "README.md").write_text(page)
    sys.stdout.write(page)


if __name__ == "__main__":
    main()
