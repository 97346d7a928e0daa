"""How often intervals of shapes cover: the plan run centrally, many draws of the noise.

    python benchmarks/additive/coverage.py [--draws 8]

Does the effect ± 1.96 standard errors (``stderr`` of ``shape_functions_``) cover the effect that the same people give
without noise, with the penalties that were found? That one is the penalised maximum of the likelihood, found by Newton's
method on the rows.
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
from colonnade.estimators.additive import WIDENED  # noqa: E402
from colonnade.estimators.shape_study import DETERMINED, SMALL_ERROR, centring  # noqa: E402

EPSILONS = (0.1, 1.0, 10.0)
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
    noise, sampling, believed = (
        np.diag(centred @ one @ centred.T) for one in (found.covariance, found.sampling, found.believed)
    )
    error = np.sqrt(WIDENED**2 * noise + sampling)
    determined = (noise + sampling <= DETERMINED * believed) | (error <= SMALL_ERROR)
    determined[0] = False
    inside = apart[determined] <= REACH * WIDENED * np.sqrt(noise[determined])
    return int(inside.sum()), int(determined.sum())


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=8)
    draws = parser.parse_args().draws
    report: dict[str, dict[str, float]] = {}
    whole = np.zeros(2)
    for name in ("adult", "bank", "credit"):
        data = binned(SETS[name]()).split()[0]
        central = Central(data)
        for epsilon in EPSILONS:
            counts = np.sum(
                [covered(data, central.fit(epsilon, np.random.default_rng(seed))) for seed in range(draws)], axis=0
            )
            whole += counts
            share = counts[1] / draws / (data.rows.shape[1] - 1)
            report[f"{name} {epsilon:g}"] = {"covered": counts[0] / counts[1], "determined": float(share)}
            print(name, epsilon, report[f"{name} {epsilon:g}"], flush=True)
    report["pooled"] = {"covered": float(whole[0] / whole[1])}
    print(report["pooled"])
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "coverage.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
