"""Clustering across parties: k-means loss, V-score and errors of weights against ε.

It repeats Figures 3 to 9 and Table 1 of Private vertical clustering (docs/references.md#clustering).

    python benchmarks/clustering/run.py [--quick | --short] [--piece NAME]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout. A piece can be run by itself
and is then put into the kept results beside the others; every piece says from which commit and day it is.

*Sets.* A mixture of five Gaussians in eight columns and Letter (16 columns), 20,000 people each (and, where ``taxi.parquet`` or
``loan.parquet`` lie in the data folder, those), columns dealt out to two or four parties in turn.

*Figures.* Loss is the mean squared distance to the nearest centre, in columns mapped to [−1, 1]; V-score compares the grouping
with the true groups (mixture) or with central k-means; the error of weights is Σ|weight − people|/people over the grid of k′ = 5.
ε is for a person over all parties and phases, δ = 1/people. Without ``k′ = 5`` our methods choose k′.

*Baselines.* Central k-means; the non-private vertical method (DistDim, k′ = k); central k-means with privacy: our local
clustering with all columns at one party, and diffprivlib (pure ε) where COLONNADE_DIFFPRIVLIB_PYTHON names an interpreter that
has it; and the paper's ways to weights (`clustering_paper.py`), all on the same private centres at half of the budget, with the
other half.

*Tuning.* The shares of a local clustering's budget, the split between centres and weights, the cap on k′ and the floor of
sketches were chosen by hand on Letter and on mixtures like this one (other seeds), so these figures are not of unseen data.

*Bars.* ``secure, k′ = 5`` on Letter at ε = 0.5: at most 1.05 times the non-private vertical loss with two parties, 1.08 with
four. ``sketch, k′ = 5`` on the mixture at ε = 0.5, 1, 2: loss below IND-LAP and LDP-AGG-2PEst and within 5 % of the loss with
exact weights; error of weights at most 0.06, 0.05, 0.04 (two parties) and 0.25, 0.18, 0.15 (four), at most a third of BasicEst's
and, with four parties, below 2PEst's. Sketching 100,000 people at least 30 times as fast as plain numpy; the grid of four
parties with k′ = 8 at least 50 times as fast as the paper's algorithms as loops.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
import tomllib
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # a benchmark is a script, also where `colonnade bench` loads it

import numpy as np  # noqa: E402
from clustering_methods import (  # noqa: E402
    OURS,
    PAPER,
    central,
    central_private,
    ours,
    papers,
    peer_private,
    vertical,
)
from clustering_report import as_markdown, bars  # noqa: E402
from clustering_sets import SETS, Points, a_federation, in_turn, uneven  # noqa: E402
from clustering_speed import speed  # noqa: E402
from clustering_variations import components, finer  # noqa: E402
from scipy import stats  # noqa: E402

import colonnade as cn  # noqa: E402

EPSILONS, PARTIES = (0.1, 0.25, 0.5, 1.0, 2.0), (2, 4)
SIZES = {"full": (10, 5, EPSILONS), "short": (5, 3, (0.5, 1.0, 2.0)), "quick": (2, 1, (0.5,))}
"""Runs, runs of the variations, and the ε, by how long one can wait."""


def one_set(points: Points, owned: list[list[int]], epsilons: tuple[float, ...], runs: int) -> dict:
    """Figures 3, 4 and 7 for one set and number of parties."""
    result = {
        "central": summary([central(points, seed) for seed in range(min(runs, 3))]),
        "non-private vertical": summary([vertical(points, owned, seed) for seed in range(runs)]),
    }
    with a_federation(points, owned) as federation:
        for epsilon in epsilons:
            for name in OURS:
                found, started = [], time.perf_counter()
                for run in range(1, runs + 1):
                    scores, study = ours(points, owned, federation, name, epsilon, run)
                    found.append(scores)
                result[f"{name} at ε = {epsilon:g}"] = {
                    **summary(found),
                    "local_clusters": study.n_local_clusters_,
                    "seconds": (time.perf_counter() - started) / runs,
                }
            compared = [papers(points, owned, federation, epsilon, run) for run in range(1, runs + 1)]
            for name in PAPER:
                result[f"{name} at ε = {epsilon:g}"] = summary([one[name] for one in compared])
    return result


def central_ones(points: Points, epsilons: tuple[float, ...], runs: int) -> dict:
    """Central k-means with privacy: ours, and diffprivlib's where it is installed."""
    result = {}
    for epsilon in epsilons:
        result[f"central, private, at ε = {epsilon:g}"] = summary(
            [central_private(points, epsilon, run) for run in range(1, runs + 1)]
        )
        peer = peer_private(points, epsilon, runs)
        if peer is not None:
            result[f"diffprivlib at ε = {epsilon:g}"] = summary(peer)
    return result


def splits(points: Points, runs: int) -> dict:
    """Figure 5: columns divided unevenly between two parties, at ε = 0.5."""
    found = {}
    for first in (4, 3, 2):
        owned = uneven(points.values.shape[1], first)
        with a_federation(points, owned) as federation:
            each = [ours(points, owned, federation, "sketch, k′ = 5", 0.5, run)[0] for run in range(1, runs + 1)]
        found[f"sketch, k′ = 5, {first}:{points.values.shape[1] - first} columns"] = summary(each)
    return found


def more_parties(points: Points, runs: int) -> dict:
    """Figure 6: the same columns at ever more parties, at ε = 1 (Letter in place of Loan)."""
    found = {}
    for parties in (2, 4, 8):
        owned = in_turn(points.values.shape[1], parties)
        with a_federation(points, owned) as federation:
            for name in ("sketch", "secure", "independent, k′ = 5"):
                each = [ours(points, owned, federation, name, 1.0, run)[0] for run in range(1, runs + 1)]
                found[f"{name}, {parties} parties"] = summary(each)
    return found


def summary(found: list) -> dict:
    table = np.array([tuple(one) for one in found], dtype=float)
    losses = table[:, 0]
    half = stats.t.ppf(0.975, len(losses) - 1) * losses.std(ddof=1) / len(losses) ** 0.5 if len(losses) > 1 else 0.0
    result = {"loss": float(losses.mean()), "half_width": float(half), "v_score": float(table[:, 1].mean())}
    return result | ({} if np.isnan(table[:, 2]).any() else {"weight_error": float(table[:, 2].mean())})


def pieces(size: str) -> dict:
    """Every piece of the benchmark by name: what to call."""
    runs, fewer, epsilons = SIZES[size]
    found = {}
    for name, make in SETS.items():
        for parties in PARTIES:
            found[f"{name}, {parties} parties"] = lambda make=make, parties=parties: _on(
                make(),
                lambda points, parties=parties: one_set(
                    points, in_turn(points.values.shape[1], parties), epsilons, runs
                ),
            )
        found[f"{name}, central"] = lambda make=make: _on(make(), lambda points: central_ones(points, epsilons, fewer))
    mixture, letter = SETS["mixture"], SETS["letter"]
    found |= {
        "speed": lambda: speed(size == "quick"),
        "uneven splits": lambda: splits(mixture(), fewer),
        "more parties": lambda: _on(letter(), lambda points: more_parties(points, fewer)),
        "components": lambda: {
            f"mixture, {parties} parties": components(mixture(), in_turn(8, parties), fewer, summary)
            for parties in PARTIES
        },
        "local clusters": lambda: _on(letter(), lambda points: finer(points, in_turn(16, 2), fewer, summary)),
    }
    return found


def _on(points: Points | None, measure) -> dict | None:
    return None if points is None else measure(points)


def run(quick: bool, only: str | None = None, *, short: bool = False) -> dict:
    size = "quick" if quick else "short" if short else "full"
    file = HERE / "results" / "latest.json"
    measured = {}
    for name, measure in pieces(size).items():
        if only is None or name == only:
            started, found = time.perf_counter(), measure()
            if found is not None:
                seconds = round(time.perf_counter() - started)
                measured[name] = {
                    "run": {**circumstances(), "runs": runs_of(name, size), "seconds": seconds},
                    "found": found,
                }
    kept = json.loads(file.read_text())["pieces"] if only is not None and not quick and file.exists() else {}
    both = {**kept, **measured}
    result = {"pieces": {name: both[name] for name in pieces(size) if name in both}}
    result["bars"] = bars(result["pieces"])
    report = as_markdown(result, tomllib.loads((HERE / "published.toml").read_text()), EPSILONS)
    if not quick:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        (HERE / "README.md").write_text(report)
    if only is None:
        print(report)
    return result


def runs_of(name: str, size: str) -> int | str:
    """How many runs a figure of a piece is the mean of; the variations have fewer."""
    return "" if name == "speed" else SIZES[size][0 if name.endswith(("2 parties", "4 parties")) else 1]


def circumstances() -> dict:
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    return {
        "commit": git.stdout.strip() if git.returncode == 0 else None,
        "version": cn.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one ε, fewer runs; keeps nothing")
    parser.add_argument("--short", action="store_true", help="three ε, half the runs")
    parser.add_argument("--piece", choices=list(pieces("quick")), help="only this piece; the others stay as they were")
    arguments = parser.parse_args()
    run(arguments.quick, arguments.piece, short=arguments.short)


if __name__ == "__main__":
    main()
