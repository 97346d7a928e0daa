"""Do 95 % intervals of `LinearRegression` cover, how wide are they, and what is called determined?

    python benchmarks/coverage/run.py [--quick] [--draws 200]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout.

Four parties, c = 1, δ = 10⁻⁶, ε of 0.5, 1 and 4. *Without sampling*: does ``conf_int(total=False)`` cover least squares on the
same people? The noise has the law of the channel (the plan's own variances, Gaussian) and is drawn centrally, so that every row
has many draws; the rows marked *channel* are fits on the real channel. *With sampling*: does ``conf_int()`` cover the
coefficients of all people, for samples of them, and those of a model that people are drawn from?

The *oracle* knows the true matrix and the law of the noise. It calls a coefficient determined by the same rule, on the true
matrix, and its width is the first-order one. Coefficients that the data do not identify (living area is the sum of two others
in KC House) are left out. *Worst* is the smallest p-value, over coefficients, of a binomial test of 95 % among the draws in
which a coefficient was called determined; it is to be above 10⁻³ divided by the number of tests.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from coverage_sets import Dealt, public_sets, simulated
from scipy import stats

import colonnade as cn
from colonnade.coding.columns import coefficients_to_own_units, free_coefficients, written_levels
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.datasets.public import DATA_VARIABLE
from colonnade.estimation.inference import RESOLVED, Inference
from colonnade.estimation.level_sums import level_sums
from colonnade.estimation.moment_inference import COUNTED, MomentScore, linear_inference
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import linear_from_moments
from colonnade.privacy.accounting import Price
from colonnade.steps.joint import read_joint
from colonnade.steps.registry import STUDIES

HERE = Path(__file__).parent
EPSILONS = (0.5, 1.0, 4.0)
DELTA = 1e-6
LEVEL, FAMILY = 0.95, 1e-3
SAMPLE = 8_000
Array = Any


class Truth:
    """Least squares without noise, and what an oracle says about noise of a law."""

    def __init__(self, data: Dealt) -> None:
        rows = data.coded()
        self.features, self.target, self.people = data.features, data.target, len(rows)
        self.columns = [name for name in data.columns if name != data.target]
        self.matrix = rows.T @ rows
        places = [place for place, one in enumerate(self.features) if place and one.column != data.target]
        self.used = [self.features[place] for place in places]
        free = free_coefficients(self.used)
        kept = [0, *places]
        block = self.matrix[np.ix_(kept, kept)]
        explaining = Moments(block, np.zeros_like(block), self.people, tuple(self.features[place] for place in kept))
        self.design, self.weights = np.zeros((len(self.features), free.shape[1])), np.eye(len(self.features))[-1]
        self.design[kept] = level_sums(explaining, constant=COUNTED).T
        target = self.features[-1]
        into = coefficients_to_own_units(self.used)[1]
        self.into = (written_levels(self.used, "reference") @ into @ free * target.half_width)[:-1]
        information = self.design.T @ self.matrix @ self.design
        values, vectors = np.linalg.eigh(information)
        null = vectors[:, values < 1e-9 * values[-1]]
        self.inverse = np.linalg.pinv(information, rcond=1e-9, hermitian=True)
        self.solution = self.inverse @ (self.design.T @ self.matrix @ self.weights)
        self.estimates = self.into @ self.solution
        lengths = np.linalg.norm(self.into, axis=1)
        self.identified = (lengths > 0) & (
            np.linalg.norm(self.into @ null, axis=1) < 1e-6 * np.maximum(lengths, 1e-300)
        )

    def oracle(self, moments: Moments) -> tuple[Array, Array]:
        """Return the oracle's errors, and which coefficients it calls determined."""
        score = MomentScore(moments, self.design, self.weights)
        responses = self.inverse @ self.into.T
        inner = score.covariance(self.solution, np.zeros_like(self.inverse))
        errors = np.sqrt(np.einsum("ij,ik,kj->j", responses, inner, responses))
        information = np.einsum("ij,ji->i", self.into, responses)
        noise = np.sqrt(score.information_variance(responses))
        return errors, self.identified & (information >= RESOLVED * noise)


def law(data: Dealt, federation: cn.Federation, epsilon: float) -> Array:
    """Return the variance of every entry that the real channel would open."""
    release = GramRelease(data.columns, Price.of(epsilon, DELTA))
    plan = federation.plan(
        release, task=STUDIES["LinearRegression"], method="secure", price=release.price, unit="person", parameters={}
    )
    return release.variance(read_joint(plan, plan.steps[0].name))


def drawn(truth: Truth, matrix: Array, variance: Array, people: int, rng: np.random.Generator) -> Inference:
    """Return inference on moments with noise drawn centrally."""
    noise = np.triu(rng.normal(size=matrix.shape) * np.sqrt(variance))
    moments = Moments.of_release(matrix + noise + np.triu(noise, 1).T, variance, people, truth.features)
    fit = linear_from_moments(moments, truth.target, columns=truth.columns)
    return linear_inference(moments, truth.target, fit.coefficients, columns=truth.columns, coding="reference").written


def measured(truth: Truth, found: list[Inference], moments: Moments, goal: Array, *, total: bool) -> dict[str, Any]:
    """Return what the draws show."""
    errors, oracle = truth.oracle(moments)
    ends = np.array([one.interval(LEVEL, total=total)[:-1] for one in found])
    called = np.array([one.determined[:-1] for one in found]) & truth.identified
    inside = (ends[:, :, 0] <= goal) & (goal <= ends[:, :, 1])
    tests = [
        (float(stats.binom.cdf(inside[called[:, k], k].sum(), called[:, k].sum(), LEVEL)), k)
        for k in np.flatnonzero(called.any(axis=0))
    ]
    widths = [
        np.median(np.array([one.errors(total=False)[k] for one in found])[called[:, k]]) / errors[k] for _, k in tests
    ]
    worst = min(tests, default=(1.0, 0))
    return {
        "coefficients": int(truth.identified.sum()),
        "oracle": int(oracle.sum()),
        "called": float(called[:, oracle].mean()) if oracle.any() else None,
        "beyond": float(called[:, truth.identified & ~oracle].mean()) if (truth.identified & ~oracle).any() else None,
        "covered": int(inside[called].sum()),
        "intervals": int(called.sum()),
        "tests": len(tests),
        "worst": worst[0],
        "worst_of": coefficients_to_own_units(truth.used)[0][worst[1]],
        "width": float(np.median(widths)) if widths else None,
        "called_oracle": int(called[:, oracle].sum()),
        "draws": len(found),
    }


def without_sampling(data: Dealt, draws: int, channel: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    truth, rows = Truth(data), []
    with data.federation() as federation:
        for epsilon in EPSILONS:
            variance = law(data, federation, epsilon)
            exact = Moments.of_release(truth.matrix, variance, truth.people, truth.features)
            central = [drawn(truth, truth.matrix, variance, truth.people, rng) for _ in range(draws)]
            head = {"data": data.name, "people": truth.people, "epsilon": epsilon}
            rows.append({**head, "noise": "central", **measured(truth, central, exact, truth.estimates, total=False)})
            if channel and epsilon == 1.0:
                study = cn.LinearRegression(data.target, coding="reference", epsilon=epsilon, delta=DELTA)
                real = [vars(study.fit(federation, repeat=r))["_inference"][0] for r in range(1, channel + 1)]
                rows.append({**head, "noise": "channel", **measured(truth, real, exact, truth.estimates, total=False)})
    return rows


def with_sampling(data: Dealt, draws: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Samples of the people of a table: the population is the whole table."""
    truth, rows = Truth(data), []
    with data.sample(np.arange(SAMPLE)).federation() as federation:
        laws = {epsilon: law(data, federation, epsilon) for epsilon in EPSILONS}
    coded = data.coded()
    for epsilon, variance in laws.items():
        found = []
        for _ in range(draws):
            chosen = coded[rng.choice(len(coded), SAMPLE)]
            found.append(drawn(truth, chosen.T @ chosen, variance, SAMPLE, rng))
        share = SAMPLE / truth.people
        exact = Moments.of_release(truth.matrix, variance / share**2, truth.people, truth.features)
        head = {"data": f"{data.name}, samples", "people": SAMPLE, "epsilon": epsilon, "noise": "central"}
        rows.append({**head, **measured(truth, found, exact, truth.estimates, total=True)})
    return rows


def from_a_model(draws: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    rows = []
    population, _ = simulated(np.random.default_rng(1), 400_000)
    truth = Truth(population)
    coded = population.coded()
    with population.sample(np.arange(SAMPLE)).federation() as federation:
        laws = {epsilon: law(population, federation, epsilon) for epsilon in EPSILONS}
    for epsilon, variance in laws.items():
        found = []
        for _ in range(draws):
            chosen = coded[rng.choice(len(coded), SAMPLE)]
            found.append(drawn(truth, chosen.T @ chosen, variance, SAMPLE, rng))
        exact = Moments.of_release(truth.matrix, variance * (truth.people / SAMPLE) ** 2, truth.people, truth.features)
        head = {"data": "Simulated", "people": SAMPLE, "epsilon": epsilon, "noise": "central"}
        rows.append({**head, **measured(truth, found, exact, truth.estimates, total=True)})
    return rows


def pooled(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return coverage over all intervals, the share of what the oracle determines, the median width, and whether bars are met."""
    tests = sum(row["tests"] for row in rows)
    return {
        "covered": sum(row["covered"] for row in rows) / sum(row["intervals"] for row in rows),
        "called": sum(row["called_oracle"] for row in rows) / sum(row["oracle"] * row["draws"] for row in rows),
        "width": float(np.median([row["width"] for row in rows if row["width"] is not None])),
        "worst": min(row["worst"] for row in rows),
        "bar": FAMILY / tests,
    }


def run(quick: bool, draws: int, channel: int) -> dict[str, Any]:
    rng = np.random.default_rng(20)
    sets = public_sets(Path(os.environ.get(DATA_VARIABLE, HERE.parents[2] / "shared" / "data")))
    chosen = ["california"] if quick else list(sets)
    same = [row for name in chosen for row in without_sampling(sets[name], draws, 0 if quick else channel, rng)]
    sampled = from_a_model(draws, rng)
    for name in [] if quick else ["diamonds", "credit"]:
        sampled += with_sampling(sets[name], draws, rng)
    central = [row for row in same if row["noise"] == "central"]
    return {
        "without_sampling": same,
        "with_sampling": sampled,
        "pooled": {"without_sampling": pooled(central), "with_sampling": pooled(sampled)},
        "machine": {"python": platform.python_version(), "processors": os.cpu_count(), "commit": _commit()},
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=HERE
    )
    return done.stdout.strip() or "unknown"


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.0%}"


def _line(row: dict[str, Any]) -> str:
    covered = f"{row['covered'] / row['intervals']:.1%}" if row["intervals"] else "none"
    width = "none" if row["width"] is None else f"{row['width']:.2f}"
    return (
        f"| {row['data']} | {row['people']:,} | {row['epsilon']:g} | {row['noise']} | {row['oracle']} of {row['coefficients']} "
        f"| {_share(row['called'])} | {_share(row['beyond'])} | {covered} | {row['worst']:.2g} ({row['worst_of']}) | {width} "
        f"| {row['draws']} |"
    )


HEAD = (
    "| data | people | ε | noise | determined for the oracle | of these called so | of others | covered | worst "
    "| width, oracle = 1 | draws |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def readme(results: dict[str, Any]) -> str:
    lines = ["# Coverage of intervals", "", *(__doc__ or "").split("\n\n", 3)[3].strip().splitlines(), ""]
    for title, key in (("Without sampling", "without_sampling"), ("With sampling", "with_sampling")):
        one = results["pooled"][key]
        lines += [f"## {title}", "", HEAD, *map(_line, results[key]), ""]
        together = (
            f"All central draws together: {one['covered']:.1%} covered (bar: 93 to 98 %), {one['called']:.0%} of what the oracle "
            f"determines is called determined (bar: 80 %), median width {one['width']:.2f} of the oracle's (bar: 1.3), smallest "
            f"p-value {one['worst']:.2g} (bar: {one['bar']:.2g})."
        )
        lines += [together, ""]
    machine = results["machine"]
    return "\n".join(
        [*lines, f"Python {machine['python']}, {machine['processors']} processors, commit {machine['commit']}.", ""]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one set and ten draws, and nothing is kept")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--channel", type=int, default=20, help="how many fits on the real channel per set")
    arguments = parser.parse_args()
    results = run(arguments.quick, 10 if arguments.quick else arguments.draws, arguments.channel)
    page = readme(results)
    sys.stdout.write(page)
    if not arguments.quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(json.dumps(results, indent=1, default=float) + "\n")
        (HERE / "README.md").write_text(page)


if __name__ == "__main__":
    main()
