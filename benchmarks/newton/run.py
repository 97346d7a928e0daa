"""Logistic regression by Newton steps: the plan run centrally with the channel's noise, beside the whole channel.

    python benchmarks/newton/run.py [--quick] [--central]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout.

*Accuracy* on the fifth of the rows left out, δ = 10⁻⁶, c = 1: area under the curve, share predicted right, Brier score and
calibration error (ten bins). *Nearness*: on all rows at ε = 1,000, the largest distance of an identified coefficient from
the maximum-likelihood estimate, in sampling errors. A coefficient is identified if its sampling error is below 3 in log-odds,
after the first level of each category is taken as the reference. ``--central`` leaves the channel out.
"""

import argparse
import json
import platform
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import brier_score_loss, roc_auc_score

import colonnade as cn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # a benchmark is a script, also where `colonnade bench` loads it

from central import DELTA, Central  # noqa: E402
from newton_sets import SETS, Joined  # noqa: E402

EPSILONS = (0.1, 1.0, 10.0)
BARS = {("adult", 0.1): 0.866, ("adult", 1.0): 0.898, ("adult", 10.0): 0.903}
NEAREST, NEAR = 1_000.0, 0.25
LARGEST_ERROR = 3.0


def maximum_likelihood(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the maximum-likelihood weights; of least norm where they are not unique."""
    weights = np.zeros(rows.shape[1])
    for _ in range(60):
        chance = sigmoid(rows @ weights)
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows + 1e-8 * np.eye(len(weights))
        step = np.linalg.solve(bend, rows.T @ (chance - labels) + 1e-8 * weights)
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """Return probabilities."""
    return 1 / (1 + np.exp(-np.clip(scores, -30, 30)))


def contrasts(data: Joined) -> np.ndarray:
    """Return the map from weights of all levels to coefficients against each category's first level."""
    found, first, constant = [], {}, np.zeros(len(data.features))
    constant[0] = 1.0
    for place, feature in enumerate(data.features[1:], start=1):
        row = np.zeros(len(data.features))
        row[place] = 1.0
        if feature.kind == "level" and feature.column not in first:
            first[feature.column], constant[place] = place, 1.0
            continue
        if feature.kind == "level":
            row[first[feature.column]] = -1.0
        found.append(row)
    return np.vstack([constant, *found])


class Nearness:
    """How far weights are from the maximum-likelihood estimate, in sampling errors."""

    def __init__(self, data: Joined) -> None:
        self._map = contrasts(data)
        self.best = maximum_likelihood(data.exact_rows, data.labels)
        chance = sigmoid(data.exact_rows @ self.best)
        rows = data.exact_rows @ np.linalg.pinv(self._map)
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows + 1e-9 * np.eye(rows.shape[1])
        self._errors = np.sqrt(np.diag(np.linalg.inv(bend)))

    def largest(self, weights: np.ndarray) -> float:
        """Return the largest distance of an identified coefficient."""
        away = np.abs(self._map @ (weights - self.best)) / self._errors
        return float(away[self._errors < LARGEST_ERROR].max())


def figures(data: Joined, weights: np.ndarray) -> dict[str, float]:
    """Return how good predictions are."""
    chance = sigmoid(data.rows @ weights)
    bins = np.minimum((10 * chance).astype(int), 9)
    apart = [abs(chance[bins == b].mean() - data.labels[bins == b].mean()) * np.mean(bins == b) for b in set(bins)]
    return {
        "auc": float(roc_auc_score(data.labels, chance)),
        "accuracy": float(np.mean((chance > 0.5) == data.labels)),
        "brier": float(brier_score_loss(data.labels, chance)),
        "calibration": float(sum(apart)),
    }


def through_channel(data: Joined, epsilon: float, method: object) -> np.ndarray:
    """Fit with the whole channel; return the weights of coded columns, the constant's first."""
    from colonnade.estimation.scoring import coded_weights

    with data.federation(budget=cn.Budget(epsilon=2 * epsilon, delta=DELTA)) as federation:
        model = cn.LogisticRegression(data.target, method=method, epsilon=epsilon, delta=DELTA).fit(federation)
    weights, intercepts = coded_weights(data.explaining, model.coef_, model.intercept_)
    return np.append(intercepts, weights[0])


def mean(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each figure."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def measured(name: str, draws: int, channel: bool) -> dict:
    """Return all figures of one set."""
    data = SETS[name]()
    train, test = data.split()
    simulated = Central(train)
    found: dict = {
        "people": len(data.frame),
        "columns": int(data.rows.shape[1]),
        "maximum likelihood": figures(test, maximum_likelihood(train.rows, train.labels)),
    }
    for epsilon in EPSILONS:
        runs = [figures(test, simulated.fit(epsilon, np.random.default_rng(seed))) for seed in range(draws)]
        found[f"central {epsilon:g}"] = mean(runs)
        for method in ("newton", "secure") if channel else ():
            runs = [figures(test, through_channel(train, epsilon, method)) for _ in range(max(1, draws // 4))]
            found[f"{method} {epsilon:g}"] = mean(runs)
    near, whole = Nearness(data), Central(data)
    found["sampling errors off, central"] = max(
        near.largest(whole.fit(NEAREST, np.random.default_rng(seed))) for seed in range(draws)
    )
    if channel:
        found["sampling errors off, newton"] = near.largest(through_channel(data, NEAREST, "newton"))
    return found


def shown(name: str, found: dict) -> None:
    """Print one set."""
    print(f"{name}: {found['people']:,} people, {found['columns']} coded columns")
    for row, value in found.items():
        if isinstance(value, dict):
            bar = BARS.get((name, float(row.split()[-1]))) if row[-1].isdigit() else None
            print(f"  {row:22}", "  ".join(f"{k} {v:.4f}" for k, v in value.items()), f"bar {bar}" if bar else "")
        elif isinstance(value, float):
            print(f"  {row:34} {value:.2f}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--central", action="store_true")
    options = parser.parse_args()
    results = {}
    for name in SETS:
        results[name] = measured(name, 2 if options.quick else 8, not options.central)
        shown(name, results[name])
    kind = "central" if options.central else "latest"
    report = {"delta": DELTA, "collusion": 1, "machine": platform.machine(), "sets": results}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / f"{kind}.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
