"""Do 95 % intervals of Newton steps cover, how wide are they, and what is called determined?

    python benchmarks/newton/intervals.py [--draws 200] [--sets bank demo ...] [--epsilons 1 ...] [--piece FILE]

``--piece`` writes the rows of some sets and ε to a file of their own; ``--pieces FILES`` puts such files together.

The plan is run centrally with the channel's noise (`central.py`); the inference is the library's own. *Without sampling*: does
``conf_int(total=False)`` cover the maximum-likelihood estimate on the same people? *With sampling*: does ``conf_int()`` cover
that of a population, for samples of it?

The *oracle* knows the true information matrix and the law of the noise, and has the last gradient. It calls a coefficient
determined by the rule of `colonnade.estimation.inference`, on the true matrix, and its width is the first-order one.
Coefficients whose sampling error is above 3 in log-odds, against the first level of each category, are left out: they are
separated or aliased. *Worst* is the smallest p-value, over coefficients, of a binomial test of 95 % among the draws in which a
coefficient was called determined; it is to be above 10⁻³ divided by the number of tests. *Bias* is the largest mean error of a
coefficient that is determined in most draws, in units of its stated total error: of what ``summary()`` shows, and of the weights
that predict.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from central import Central  # noqa: E402
from newton_sets import SETS, Joined, demo  # noqa: E402
from run import LARGEST_ERROR, maximum_likelihood, sigmoid  # noqa: E402

from colonnade.coding.columns import coefficients_to_own_units, free_coefficients, written_levels  # noqa: E402
from colonnade.estimation.inference import RESOLVED, Inference, quadratic_variances  # noqa: E402
from colonnade.estimation.newton import NewtonClass  # noqa: E402
from colonnade.estimation.newton_inference import newton_inference  # noqa: E402

EPSILONS = (0.5, 1.0, 4.0)
LEVEL, FAMILY = 0.95, 1e-3
SAMPLE = 20_000
SAMPLED = {"demo-samples": lambda: demo(100_000), "bank-samples": SETS["bank"]}


class Truth:
    """The maximum-likelihood estimate, and what an oracle says about noise of a law."""

    def __init__(self, data: Joined) -> None:
        self.features, columns = data.features, list(data.features[1:])
        rows = data.exact_rows
        best = maximum_likelihood(rows, data.labels)
        chance = sigmoid(rows @ best)
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows
        self.order = np.append(np.arange(1, len(self.features)), 0)
        self.free = free_coefficients(columns)
        names, self.into = coefficients_to_own_units(columns)
        written = written_levels(columns, "reference") @ self.into
        self.names, self.combinations = names, written @ self.free
        self.estimates = (written @ best[self.order])[:-1]
        information = self.free.T @ bend[np.ix_(self.order, self.order)] @ self.free
        self.inverse = np.linalg.inv(information + 1e-9 * np.eye(len(information)))
        units = np.abs(self.combinations).max(axis=1)
        errors = np.sqrt(np.einsum("ij,jk,ik->i", self.combinations, self.inverse, self.combinations))
        self.identified = ((units > 0) & (errors < LARGEST_ERROR * units))[:-1]

    def oracle(self, found: NewtonClass, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the oracle's errors, and which coefficients it calls determined; for a sample of this share of the people."""
        responses = self.inverse @ self.combinations[:-1].T / share
        errors = np.sqrt(found.gradients[-1].variance) * np.linalg.norm(responses, axis=0)
        columns = np.array([feature.column for feature in self.features])
        same = np.eye(len(columns), dtype=bool)
        variance = np.where((columns[:, None] == columns) & ~same, 0.0, found.curvature_variance * (1 + same))
        noise = quadratic_variances(variance[np.ix_(self.order, self.order)], self.free @ responses)
        information = np.einsum("ij,ji->i", self.combinations[:-1], responses)
        return errors, self.identified & (information >= RESOLVED * np.sqrt(noise))

    def written(self, weights: np.ndarray) -> np.ndarray:
        """Return weights as coefficients against the first level of each category, in own units."""
        return written_levels(list(self.features[1:]), "reference") @ self.into @ weights[self.order]

    def inference(self, found: NewtonClass) -> Inference:
        """Return the library's inference."""
        fitted = (self.into @ found.weights[self.order])[:-1]
        return newton_inference(found, self.features, fitted, coding="reference").written


def measured(truth: Truth, found: list[tuple[NewtonClass, Inference]], share: float, *, total: bool) -> dict[str, Any]:
    """Return what the draws show."""
    errors, oracle = truth.oracle(found[0][0], share)
    ends = np.array([one.interval(LEVEL, total=total)[:-1] for _, one in found])
    called = np.array([one.determined[:-1] for _, one in found]) & truth.identified
    inside = (ends[:, :, 0] <= truth.estimates) & (truth.estimates <= ends[:, :, 1])
    tests = [
        (float(stats.binom.cdf(inside[called[:, k], k].sum(), called[:, k].sum(), LEVEL)), k)
        for k in np.flatnonzero(called.any(axis=0))
    ]
    stated = np.array([one.errors(total=False)[:-1] for _, one in found])
    widths = [np.median(stated[called[:, k], k]) / errors[k] for _, k in tests]
    worst = min(tests, default=(1.0, 0))
    mostly = called.mean(axis=0) > 0.5
    errors_stated = np.array([one.errors()[:-1] for _, one in found])[:, mostly]
    shown = np.array([one.estimates[:-1] for _, one in found])[:, mostly]
    predicting = np.array([truth.written(run.weights)[:-1] for run, _ in found])[:, mostly]
    kept = np.isfinite(errors_stated)

    def bias(values: np.ndarray) -> float:
        away = np.where(kept, (values - truth.estimates[mostly]) / errors_stated, np.nan)
        return float(np.max(np.abs(np.nanmean(away, axis=0)), initial=0.0))

    return {
        "bias": bias(shown),
        "bias_predicting": bias(predicting),
        "coefficients": int(truth.identified.sum()),
        "oracle": int(oracle.sum()),
        "called_oracle": int(called[:, oracle].sum()),
        "covered": int(inside[called].sum()),
        "intervals": int(called.sum()),
        "tests": len(tests),
        "worst": worst[0],
        "worst_of": truth.names[worst[1]],
        "width": float(np.median(widths)) if widths else None,
        "draws": len(found),
    }


def without_sampling(data: Joined, draws: int, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    """Return coverage of the estimate on the same people, for every ε."""
    truth, central, rows = Truth(data), Central(data), []
    for epsilon in epsilons:
        runs = [central.rounds(epsilon, np.random.default_rng(seed)) for seed in range(draws)]
        found = [(run, truth.inference(run)) for run in runs]
        rows.append({"data": data.name, "epsilon": epsilon, **measured(truth, found, 1.0, total=False)})
        print(line(rows[-1]), flush=True)
    return rows


def with_sampling(data: Joined, draws: int, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    """Return coverage of the population's estimate, for samples with replacement."""
    truth, rows = Truth(data), []
    for epsilon in epsilons:
        found = []
        for seed in range(draws):
            generator = np.random.default_rng(seed)
            run = Central(data.some(generator.choice(len(data.frame), SAMPLE))).rounds(epsilon, generator)
            found.append((run, truth.inference(run)))
        head = {"data": f"{data.name}, samples", "epsilon": epsilon}
        rows.append({**head, **measured(truth, found, SAMPLE / len(data.frame), total=True)})
        print(line(rows[-1]), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """Return one row of the table."""
    called = f"{row['called_oracle'] / (row['oracle'] * row['draws']):.0%}" if row["oracle"] else "none"
    covered = f"{row['covered'] / row['intervals']:.1%}" if row["intervals"] else "none"
    width = "none" if row["width"] is None else f"{row['width']:.2f}"
    return (
        f"| {row['data']} | {row['epsilon']:g} | {row['oracle']} of {row['coefficients']} | {called} "
        f"| {row['intervals'] / row['draws']:.1f} | {covered} | {row['worst']:.2g} ({row['worst_of']}) "
        f"| {width} | {row['draws']} |"
    )


def pooled(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return all draws together."""
    return {
        "covered": sum(row["covered"] for row in rows) / max(sum(row["intervals"] for row in rows), 1),
        "called": sum(row["called_oracle"] for row in rows) / max(sum(row["oracle"] * row["draws"] for row in rows), 1),
        "width": float(np.median([row["width"] for row in rows if row["width"] is not None])),
        "worst": min(row["worst"] for row in rows),
        "bar": FAMILY / max(sum(row["tests"] for row in rows), 1),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sets", nargs="*", default=[*SETS, *SAMPLED])
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--piece", type=Path)
    parser.add_argument("--pieces", nargs="*", type=Path)
    options = parser.parse_args()
    if options.pieces:
        found = [json.loads(path.read_text()) for path in options.pieces]
    else:
        given = options.draws, options.epsilons
        same = [row for name in options.sets if name in SETS for row in without_sampling(SETS[name](), *given)]
        sampled = [row for name in options.sets if name in SAMPLED for row in with_sampling(SAMPLED[name](), *given)]
        found = [{"without_sampling": same, "with_sampling": sampled}]
    results: dict[str, Any] = {kind: [row for one in found for row in one[kind]] for kind in found[0]}
    if options.piece:
        options.piece.write_text(json.dumps(results) + "\n")
        return
    results["pooled"] = {kind: pooled(rows) for kind, rows in results.items()}
    print(json.dumps(results["pooled"], indent=1))
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "intervals.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
