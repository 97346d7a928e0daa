"""How often intervals of shapes cover: the plan run centrally, many draws of the noise.

    python benchmarks/additive/coverage.py [--draws 4] [--sets ...]

Does the effect ± 1.96 standard errors (``stderr`` of ``shape_functions_``) cover the effect that the same people give
without noise, with the penalties that were found? That one is the penalised maximum of the likelihood, found by Newton's
method on the rows. Only bins that the release determines are counted. Every cell is written to ``results/coverage.json`` at
once.

How errors are computed was settled before the further sets (`FURTHER`) were looked at.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from additive_central import Central  # noqa: E402
from additive_sets import SETS, Joined, binned  # noqa: E402

from colonnade.estimation.shape_belief import AdditiveFit  # noqa: E402
from colonnade.estimators.shape_study import centring  # noqa: E402

EPSILONS = (0.1, 1.0, 10.0)
FIRST, FURTHER = ("adult", "bank", "credit"), ("flights", "diamonds", "bank_additional")
RECORDED = HERE / "results" / "coverage.json"
REACH = 1.96


def without_noise(data: Joined, found: AdditiveFit) -> np.ndarray:
    """Return the penalised maximum of the likelihood."""
    rows, labels, spread = data.rows, data.labels, found.believed
    base = np.zeros(rows.shape[1])
    base[0] = np.log(labels.mean() / (1 - labels.mean()))
    weights = base.copy()
    for _ in range(60):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows
        slope = rows.T @ (chance - labels)
        aim = spread @ (bend @ (weights - base) - slope)
        step = base + np.linalg.solve(spread @ bend + np.eye(len(base)), aim) - weights
        weights = weights + step * min(1.0, 8.0 / max(float(np.abs(rows @ step).max()), 1e-9))
        if np.abs(step).max() < 1e-8:
            break
    return weights


def covered(data: Joined, found: AdditiveFit) -> tuple[int, int]:
    """Return how many determined effects are covered, and how many there are."""
    centred = centring(data.features, found.people)
    apart = np.abs(centred @ (found.weights - without_noise(data, found)))
    error = np.sqrt(np.diag(centred @ found.covariance @ centred.T))
    determined = found.determined_in(centred, 1.0)
    determined[0] = False
    inside = apart[determined] <= REACH * error[determined]
    return int(inside.sum()), int(determined.sum())


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--sets", nargs="+", default=[*FIRST, *FURTHER])
    options = parser.parse_args()
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for name in options.sets:
        data = binned(SETS[name]()).split()[0]
        central = Central(data)
        for epsilon in EPSILONS:
            counts = np.sum(
                [covered(data, central.fit(epsilon, np.random.default_rng(draw))) for draw in range(options.draws)],
                axis=0,
            )
            recorded[f"{name} {epsilon:g}"] = {
                "inside": int(counts[0]),
                "called": int(counts[1]),
                "bins": data.rows.shape[1] - 1,
                "draws": options.draws,
            }
            print(name, epsilon, counts[0] / counts[1], recorded[f"{name} {epsilon:g}"], flush=True)
            RECORDED.parent.mkdir(exist_ok=True)
            RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
