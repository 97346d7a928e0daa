"""Additive models across parties, beside the best central model with differential privacy.

    python benchmarks/additive/run.py [--quick] [--channel]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout. `interpret-core` must be
installed; `peers.py` says how it is used.

Each seed is a split of the people (four fifths to fit on) and a draw of the noise. δ = 10⁻⁶, c = 1, four parties, sixteen bins of
equal width between the declared bounds. Both models see the same split. *Ahead* is the mean of the paired differences of the
area under the curve, with the lower end of its interval of 95 %. The plan runs centrally with the channel's own noise;
``--channel`` also runs one draw per set and ε through the whole channel.
"""

import argparse
import json
import platform
import sys
from pathlib import Path

import numpy as np
from scipy.stats import t as student
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import brier_score_loss, roc_auc_score

import colonnade as cn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # a benchmark is a script, also where `colonnade bench` loads it
sys.path.insert(1, str(HERE.parent / "newton"))

from additive_central import DELTA, Central  # noqa: E402
from additive_sets import SETS, Joined, binned  # noqa: E402
from peers import EPSILONS, boosting  # noqa: E402

NAMES = ("adult", "bank", "credit")
BARS = {("adult", 0.1): 0.868, ("adult", 1.0): 0.900, ("adult", 10.0): 0.910}
AHEAD = {"adult": 0.01}
BEHIND = -0.003


def figures(chance: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return how good predictions are."""
    bins = np.minimum((10 * chance).astype(int), 9)
    apart = [abs(chance[bins == b].mean() - labels[bins == b].mean()) * np.mean(bins == b) for b in set(bins)]
    return {
        "auc": float(roc_auc_score(labels, chance)),
        "brier": float(brier_score_loss(labels, np.clip(chance, 0, 1))),
        "calibration": float(sum(apart)),
    }


def additive(train: Joined, test: Joined, epsilon: float, seed: int) -> dict[str, float]:
    """Return the figures of one draw of the noise."""
    found = Central(train).fit(epsilon, np.random.default_rng(seed))
    return figures(1 / (1 + np.exp(-np.clip(test.rows @ found.weights, -30, 30))), test.labels)


def through_channel(train: Joined, test: Joined, epsilon: float) -> dict[str, float]:
    """Return the figures of one fit through the whole channel."""
    with train.federation(budget=cn.Budget(epsilon=2 * epsilon, delta=DELTA)) as federation:
        model = cn.AdditiveClassifier(train.target, epsilon=epsilon, delta=DELTA).fit(federation)
    return figures(model.predict_proba(test.frame)[:, 1], test.labels)


def without_privacy(train: Joined, test: Joined) -> dict[str, float]:
    """Return the figures of gradient boosting on pooled data without privacy."""
    model = HistGradientBoostingClassifier(random_state=0).fit(train.rows[:, 1:], train.labels)
    return figures(model.predict_proba(test.rows[:, 1:])[:, 1], test.labels)


def ahead(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> tuple[float, float]:
    """Return the mean paired difference of the areas, and the lower end of its interval."""
    apart = np.array([one["auc"] - other["auc"] for one, other in zip(ours, theirs, strict=True)])
    reach = student.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / np.sqrt(len(apart))
    return float(apart.mean()), float(apart.mean() - reach)


def mean(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each figure."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def measured(name: str, seeds: int, *, channel: bool) -> dict:
    """Return all figures of one set."""
    data = SETS[name]()
    splits = [data.split(seed) for seed in range(seeds)]
    bins = [tuple(binned(one) for one in pair) for pair in splits]
    found: dict = {"people": len(data.frame), "columns": int(bins[0][0].rows.shape[1])}
    found["boosting without privacy"] = without_privacy(*bins[0])
    for epsilon in EPSILONS:
        ours = [additive(*pair, epsilon, seed) for seed, pair in enumerate(bins)]
        theirs = [boosting(*pair, epsilon) for pair in splits]
        difference, lower = ahead(ours, theirs)
        found[f"{epsilon:g}"] = {
            "additive": mean(ours),
            "private boosting, pooled": mean(theirs),
            "ahead": difference,
            "lower": lower,
            "bar": AHEAD.get(name, BEHIND),
        }
        if channel:
            found[f"{epsilon:g}"]["channel"] = through_channel(*splits[0], epsilon)
        print(name, epsilon, found[f"{epsilon:g}"], flush=True)
    return found


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--channel", action="store_true")
    options = parser.parse_args()
    seeds = 3 if options.quick else 20
    sets = {name: measured(name, seeds, channel=options.channel) for name in NAMES}
    report = {"delta": DELTA, "collusion": 1, "seeds": seeds, "machine": platform.machine(), "sets": sets}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "latest.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
