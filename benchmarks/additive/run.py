"""Additive models across parties, beside what a user could pick instead.

    python benchmarks/additive/run.py [--quick] [--peer PYTHON] [--models ...] [--sets ...] [--epsilons ...] [--seeds 0 20]
    python benchmarks/additive/run.py --page

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout. ``--peer`` is a Python that
has interpret-core, diffprivlib and pyarrow (``peer_models.py``); without it these two are left out. Versions that agree:
interpret-core 0.7.8, diffprivlib 0.6.6, scikit-learn 1.6.1.

Each seed is a split of the people (four fifths to fit on) and a draw of the noise. All models see the same splits. δ =
10⁻⁶, c = 1, four parties, sixteen bins of equal width between the declared bounds. *Ahead* is the mean of the paired
differences of the area under the curve to that of private boosting on pooled data, with the lower end of its interval
of 95 %. The bars are those of the issue that asked for these models.

``additive`` and ``LogisticRegression`` run through the whole channel, ``additive, centrally`` is the same plan on
plain numbers with the channel's noise, for many draws in little time. Every fit is a line of ``results/runs.jsonl``,
written at once. What is there already is not run again: delete lines to have them measured anew. ``--page`` writes
``README.md`` from it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import colonnade as cn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # a benchmark is a script, also where `colonnade bench` loads it
sys.path.insert(1, str(HERE.parent / "newton"))

from additive_central import DELTA, Central  # noqa: E402
from additive_figures import figures  # noqa: E402
from additive_page import written  # noqa: E402
from additive_sets import SETS, Joined, binned  # noqa: E402

NAMES = ("adult", "bank", "credit")
EPSILONS = (0.1, 1.0, 10.0)
RECORDED = HERE / "results" / "runs.jsonl"

Fit = Callable[[Joined, Joined, float, int], np.ndarray]


def additive(train: Joined, test: Joined, epsilon: float, seed: int) -> np.ndarray:
    """Return chances of an additive model fitted through the whole channel."""
    return _through_channel(cn.AdditiveClassifier(train.target, epsilon=epsilon, delta=DELTA), train, test, seed)


def regression(train: Joined, test: Joined, epsilon: float, seed: int) -> np.ndarray:
    """Return chances of a plain logistic regression fitted through the whole channel."""
    return _through_channel(cn.LogisticRegression(train.target, epsilon=epsilon, delta=DELTA), train, test, seed)


def _through_channel(model: cn.LogisticRegression, train: Joined, test: Joined, seed: int) -> np.ndarray:
    with train.federation(budget=cn.Budget(epsilon=2 * model.epsilon, delta=DELTA)) as federation:
        return model.fit(federation, repeat=seed + 1).predict_proba(test.frame)[:, 1]


def centrally(train: Joined, test: Joined, epsilon: float, seed: int) -> np.ndarray:
    """Return chances of the same plan run on plain numbers."""
    found = Central(binned(train)).fit(epsilon, np.random.default_rng(seed))
    return 1 / (1 + np.exp(-np.clip(binned(test).rows @ found.weights, -30, 30)))


def plain_regression(train: Joined, test: Joined, epsilon: float, seed: int) -> np.ndarray:  # noqa: ARG001
    """Return chances of a logistic regression on pooled data without privacy."""
    model = LogisticRegression(C=100.0, max_iter=2000).fit(train.rows[:, 1:], train.labels)
    return model.predict_proba(test.rows[:, 1:])[:, 1]


def plain_boosting(train: Joined, test: Joined, epsilon: float, seed: int) -> np.ndarray:  # noqa: ARG001
    """Return chances of gradient boosting on pooled data without privacy."""
    frames = [_typed(one) for one in (train, test)]
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    return model.fit(frames[0], train.labels).predict_proba(frames[1])[:, 1]


def _typed(data: Joined):
    levels = {name: column.levels for name, column in data.explaining.items() if isinstance(column, cn.Category)}
    frame = data.frame[list(data.explaining)]
    return frame.assign(**{name: frame[name].astype("category").cat.set_categories(levels[name]) for name in levels})


PRIVATE: dict[str, Fit] = {"additive": additive, "LogisticRegression": regression, "additive, centrally": centrally}
WITHOUT: dict[str, Fit] = {"regression without privacy": plain_regression, "boosting without privacy": plain_boosting}
PEERS = ("DP-EBM", "diffprivlib")


# What is recorded -------------------------------------------------------------------------------------------------------------


def recorded() -> list[dict]:
    """Return all fits so far."""
    return [json.loads(line) for line in RECORDED.read_text().splitlines()] if RECORDED.exists() else []


def record(model: str, name: str, found: dict) -> None:
    """Add one fit."""
    RECORDED.parent.mkdir(exist_ok=True)
    line = {"model": model, "set": name, **found}
    with RECORDED.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(line, flush=True)


def measure(name: str, models: list[str], epsilons: list[float], seeds: range, peer: str | None) -> None:
    """Run what is not there yet."""
    data = SETS[name]()
    there = {(one["model"], one["set"], one["epsilon"], one["seed"]) for one in recorded()}
    for model in models:
        private = model not in WITHOUT
        wanted = [(epsilon, seed) for seed in seeds for epsilon in (epsilons if private else [None])]
        wanted = [one for one in wanted if (model, name, *one) not in there]
        if model in PEERS:
            if peer is not None and wanted:
                _measure_peer(data, model, wanted, peer)
            continue
        fit = {**PRIVATE, **WITHOUT}[model]
        for epsilon, seed in wanted:
            train, test = data.split(seed)
            begin = time.perf_counter()
            found = figures(fit(train, test, epsilon, seed), test.labels)
            seconds = round(time.perf_counter() - begin, 2)
            record(model, name, {"epsilon": epsilon, "seed": seed, **found, "seconds": seconds})


def _measure_peer(data: Joined, model: str, wanted: list[tuple[float, int]], peer: str) -> None:
    numbers = {name: column for name, column in data.explaining.items() if isinstance(column, cn.Numeric)}
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        data.frame[list(data.explaining)].to_parquet(where / "frame.parquet")
        np.save(where / "rows.npy", data.rows[:, 1:])
        np.save(where / "labels.npy", data.labels)
        # A coded row has a number in [−1, 1] per numeric column and at most one 1 per category.
        public = {
            "bounds": {name: (column.low, column.high) for name, column in numbers.items()},
            "length": float(np.sqrt(len(data.explaining))),
        }
        (where / "public.json").write_text(json.dumps(public))
        command = [peer, str(HERE / "peer_models.py"), folder, model, *(str(word) for pair in wanted for word in pair)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            for line in process.stdout or ():
                record(model, data.name, json.loads(line))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = [*PRIVATE, *PEERS, *WITHOUT]
    parser.add_argument("--quick", action="store_true", help="three splits, and the plan run centrally")
    parser.add_argument("--page", action="store_true", help="write README.md from what is recorded, and run nothing")
    parser.add_argument("--peer", help="a Python that has interpret-core, diffprivlib and pyarrow")
    parser.add_argument("--models", nargs="+", default=everything, choices=everything)
    parser.add_argument("--sets", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 20), metavar=("FIRST", "END"))
    options = parser.parse_args()
    if options.page:
        (HERE / "README.md").write_text(written(recorded(), HERE / "results"))
    else:
        models = ["additive, centrally", *PEERS, *WITHOUT] if options.quick else options.models
        seeds = range(3) if options.quick else range(*options.seeds)
        for name in options.sets:
            measure(name, models, list(options.epsilons), seeds, options.peer)


if __name__ == "__main__":
    main()
