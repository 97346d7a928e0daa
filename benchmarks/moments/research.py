"""Utility of the moment estimators under the very noise that the secure Gram channel adds, simulated centrally.

    python benchmarks/moments/research.py [--data FOLDER] [--runs 10] [logistic regression components tables]

The discrete Gaussian is approximated by numpy's normal (its scale is in the tens and above), the discrete Laplace is
drawn by numpy too: good enough to measure utility, never to protect anyone. Prints one JSON object.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from colonnade.coordinator.algorithms.expected_error import gram_variance
from colonnade.coordinator.algorithms.logistic_from_moments import logistic_from_moments
from colonnade.coordinator.algorithms.maximum_entropy import maximum_entropy
from colonnade.coordinator.algorithms.moments import Feature, Moments, features_of, noise_variance, own_units, row_bound
from colonnade.coordinator.algorithms.pair_tables import PairTables, consistent_tables, project_to_simplex
from colonnade.coordinator.algorithms.pca_from_moments import pca_from_moments
from colonnade.coordinator.algorithms.regression_from_moments import linear_from_moments
from colonnade.datasets.public import PublicData, adult, kc_house, nsl_kdd
from colonnade.privacy.calibration import analytic_gaussian_sigma, ledger_rho
from colonnade.privacy.price import Price
from colonnade.schema import Category, Numeric

EPSILONS = (0.1, 1.0, 10.0)
SPLIT_SEED, NOISE_SEED = 20_000, 30_000
"""Not the seeds on which the solver was chosen: those would flatter it."""


class Study:
    """One data set coded as the parties would code it."""

    def __init__(self, data: PublicData, *, signed: Sequence[str] = (), without: Sequence[str] = ()) -> None:
        columns = {f"{p}.{c}": column for p, schema in data.schemas.items() for c, column in schema.items()}
        self.columns = {name: column for name, column in columns.items() if name not in without}
        self.features = features_of(self.columns, signed=signed)
        self.owners = [None] + [feature.column.split(".", 1)[0] for feature in self.features[1:]]
        self.coded = self._coded(data.frame)
        self.own = self._own(data.frame)

    def _coded(self, frame: pd.DataFrame) -> np.ndarray:
        return np.column_stack([np.ones(len(frame))] + [self._column(frame, f) for f in self.features[1:]])

    def _column(self, frame: pd.DataFrame, feature: Feature) -> np.ndarray:
        values, column = frame[feature.column.split(".", 1)[1]], self.columns[feature.column]
        if isinstance(column, Numeric):
            return np.clip((values.to_numpy(float) - feature.centre) / feature.half_width, -1, 1)
        if feature.kind == "sign":
            return np.where(values == column.levels[1], 1.0, -1.0)
        return (values.astype(str) == feature.name.split("=", 1)[1]).to_numpy(float)

    def _own(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        """Columns in own units, levels as indicators, by the names that coefficients have."""
        names: dict[str, np.ndarray] = {}
        for name, column in self.columns.items():
            values = frame[name.split(".", 1)[1]]
            if isinstance(column, Category):
                names |= {f"{name}={level}": (values == level).to_numpy(float) for level in column.levels}
            else:
                names[name] = np.clip(values.to_numpy(float), column.low, column.high)
        return names

    def rows(self, names: Sequence[str], chosen: np.ndarray) -> np.ndarray:
        return np.column_stack([self.own[name][chosen] for name in names])

    def variance(self, epsilon: float, delta: float, *, parties: int = 4, collusion: int = 1) -> np.ndarray:
        rho = float(ledger_rho(Price.of(epsilon, delta)))
        return noise_variance(
            self.owners, gram_variance(row_bound(self.features), rho), parties=parties, collusion=collusion
        )

    def release(self, rows: np.ndarray, variance: np.ndarray, rng: np.random.Generator) -> Moments:
        coded = self.coded[rows]
        noise = np.triu(rng.standard_normal(variance.shape))
        noisy = coded.T @ coded + np.sqrt(variance) * (noise + np.triu(noise, 1).T)
        return Moments.of_release(noisy, variance, len(rows), self.features)


def splits(people: int, runs: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.random.Generator]]:
    for run in range(runs):
        order = np.random.default_rng(SPLIT_SEED + run).permutation(people)
        cut = int(0.8 * people)
        yield order[:cut], order[cut:], np.random.default_rng(NOISE_SEED + run)


def summary(values: Sequence[float]) -> dict[str, float]:
    return {"mean": round(float(np.mean(values)), 4), "sd": round(float(np.std(values, ddof=1)), 4)}


def logistic(folder: str | None, runs: int) -> dict[str, object]:
    """Adult: accuracy and log-loss on held-out rows, four parties, c = 1, δ = 1/n."""
    report: dict[str, object] = {}
    for coding, signed in (("sign", ["tax.income"]), ("levels", [])):
        study = Study(adult(folder), signed=signed)
        people, truth = len(study.coded), study.own["tax.income=>50K"].astype(int)
        for epsilon in (*EPSILONS, None):
            variance = study.variance(epsilon or 1.0, 1 / people) * (epsilon is not None)
            scores, losses = [], []
            for train, test, rng in splits(people, runs):
                fit = logistic_from_moments(study.release(train, variance, rng), "tax.income")
                chance = fit.probabilities(study.rows(fit.names, test))
                scores.append(float(np.mean(chance.argmax(axis=1) == truth[test])))
                losses.append(float(-np.mean(np.log(chance[np.arange(len(test)), truth[test]]))))
            report[f"{coding}, epsilon {epsilon}"] = {"accuracy": summary(scores), "log loss": summary(losses)}
    train, test, _ = next(splits(people, 1))
    best = LogisticRegression(max_iter=3000, C=10).fit(study.coded[train, 1:-2], truth[train])
    report["scikit-learn, no privacy, first split"] = round(float(best.score(study.coded[test, 1:-2], truth[test])), 4)
    return report


def regression(folder: str | None, runs: int) -> dict[str, object]:
    """R² on held-out rows: ours beside spectral floors, the shift of §5.5 and AdaSSP, all from the same release."""
    report: dict[str, object] = {}
    for name, data, target in (
        ("age (adult)", adult(folder), "registry.age"),
        ("price (kc_house)", kc_house(folder), "agent.price"),
    ):
        study = Study(data)
        parties = len(data.schemas)
        people, truth = len(study.coded), study.own[target]
        for epsilon in EPSILONS:
            variance = study.variance(epsilon, 1 / people, parties=parties)
            results: dict[str, list[float]] = {}
            for train, test, rng in splits(people, runs):
                release = study.release(train, variance, rng)
                fit = linear_from_moments(release, target)
                rows, spread = study.rows(fit.names, test), np.var(truth[test])
                predictions = {"ours": rows @ fit.coefficients + fit.intercept}
                for rule, coefficients, intercept in rivals(release, target):
                    predictions[rule] = rows @ coefficients + intercept
                for rule, predicted in predictions.items():
                    results.setdefault(rule, []).append(1 - float(np.mean((truth[test] - predicted) ** 2)) / spread)
            report[f"{name}, epsilon {epsilon}"] = {rule: summary(values) for rule, values in results.items()}
    return report


def rivals(release: Moments, target: str) -> Iterator[tuple[str, np.ndarray, float]]:
    """The known ways to solve with an indefinite matrix, in own units."""
    places = release.places([name for name in release.columns if name != target])
    aim = release.places([target])[0]
    means = release.matrix[0, places] / release.count
    centred = release.matrix[np.ix_(places, places)] - release.count * np.outer(means, means)
    cross = release.matrix[places, aim] - means * release.matrix[0, aim]
    values, vectors = np.linalg.eigh(centred)
    width = np.sqrt(release.variance[np.ix_(places, places)].sum(axis=1).mean())  # σ√d
    sigma = np.sqrt(np.median(release.variance[np.ix_(places, places)]))
    adaptive = max(0.0, np.sqrt(len(places) * np.log(2 * len(places) ** 2 / 0.05)) * sigma - max(values[0], 0.0))
    names, into = own_units([release.features[place] for place in places])
    feature = release.features[aim]
    for rule, stiffness in (
        ("floor 0, ridge σ√d", np.maximum(values, 0) + width),
        ("floor 2σ√d", np.maximum(values, 2 * width)),
        ("shift to 2σ√d", values + max(0.0, 2 * width - values[0])),
        ("AdaSSP ridge, floor 0", np.maximum(values, 0) + adaptive),
    ):
        weights = vectors @ ((vectors.T @ cross) / stiffness)
        intercept = release.matrix[0, aim] / release.count - means @ weights
        own = into @ np.append(weights, intercept) * feature.half_width
        yield rule, own[: len(names)], float(own[-1]) + feature.centre


def components(folder: str | None, runs: int) -> dict[str, object]:
    """NSL-KDD, k = 5, ε = 1, δ = 1e-5: captured variance against the central Gaussian mechanism."""
    study = Study(nsl_kdd(folder), without=["monitor.attack"])
    everyone = np.arange(len(study.coded))
    gram = study.coded.T @ study.coded
    true = gram[1:, 1:] - np.outer(gram[0, 1:], gram[0, 1:]) / len(everyone)
    best = float(np.sort(np.linalg.eigvalsh(true))[-5:].sum())
    report: dict[str, object] = {
        "columns": int(true.shape[0]),
        "share of variance in 5": round(best / float(np.trace(true)), 4),
    }

    def captured(variance: np.ndarray, seed: int) -> float:
        fit = pca_from_moments(study.release(everyone, variance, np.random.default_rng(NOISE_SEED + seed)), 5)
        return float(np.trace(fit.components @ true @ fit.components.T)) / best

    sigma = analytic_gaussian_sigma(1.0, 1e-5) * row_bound(study.features)
    central = [captured(np.full(gram.shape, sigma**2), run) for run in range(runs)]
    report["central Gaussian / no privacy"] = summary(central)
    for parties in (2, 3, 4, 8):
        ours = [captured(study.variance(1.0, 1e-5, parties=parties), run) for run in range(runs)]
        report[f"secure, P={parties} / central"] = round(float(np.mean(ours) / np.mean(central)), 5)
    return report


def tables(folder: str | None, runs: int) -> dict[str, object]:
    """Adult, ε = 0.1 a person, δ = 0: ℓ1 error of secure tables against subset-selection responses at ε/v a party."""
    report: dict[str, object] = {}
    frame = adult(folder).frame
    for columns in (["marital-status", "occupation"], ["sex", "relationship"], ["sex", "marital-status", "workclass"]):
        codes = [pd.Categorical(frame[column]).codes.astype(int) for column in columns]
        sizes = tuple(int(code.max()) + 1 for code in codes)
        truth = np.zeros(sizes)
        np.add.at(truth, tuple(codes), 1.0)
        errors: dict[str, list[float]] = {}
        for run in range(runs):
            rng = np.random.default_rng(NOISE_SEED + run)
            for rule, table in (
                ("secure", secure_table(truth, 0.1, rng)),
                ("response", response_table(codes, sizes, 0.1, rng)),
            ):
                errors.setdefault(rule, []).append(float(np.abs(table - truth).sum() / truth.sum()))
        shown = {rule: summary(values) for rule, values in errors.items()}
        report[" × ".join(columns)] = {
            **shown,
            "ratio": round(float(np.mean(errors["response"]) / np.mean(errors["secure"])), 1),
        }
    return report


def secure_table(truth: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """All pair tables with discrete-Laplace shares of v parties, c = 1, then the consistent fit."""
    pairs = list(combinations(range(truth.ndim), 2))
    ratio = np.exp(-epsilon / len(pairs))
    shape = 1 / (truth.ndim - 1)
    variance = 2 * ratio / (1 - ratio) ** 2 * truth.ndim * shape
    noisy = {}
    for pair in pairs:
        table = truth.sum(axis=tuple(axis for axis in range(truth.ndim) if axis not in pair))
        drawn = [rng.negative_binomial(truth.ndim * shape, 1 - ratio, table.shape) for _ in range(2)]
        noisy[pair] = table + drawn[0] - drawn[1]
    total = float(truth.sum())
    fitted = consistent_tables(PairTables(truth.shape, noisy, dict.fromkeys(pairs, variance)), total)
    return fitted.tables[0, 1] if truth.ndim == 2 else maximum_entropy(fitted, total)


def response_table(
    codes: Sequence[np.ndarray], sizes: Sequence[int], epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Subset selection (of which generalised randomised response is a case) at every party, combined without bias."""
    decoded = [_subset(code, size, epsilon / len(sizes), rng) for code, size in zip(codes, sizes, strict=True)]
    letters = "ijkl"[: len(sizes)]
    table = np.einsum(",".join(f"n{letter}" for letter in letters) + "->" + letters, *decoded, optimize=True)
    return project_to_simplex(table, float(len(codes[0])))


def _subset(codes: np.ndarray, size: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    def chances(k: int) -> tuple[float, float]:
        p = k * np.exp(epsilon) / (k * np.exp(epsilon) + size - k)
        return p, p * (k - 1) / (size - 1) + (1 - p) * k / (size - 1)

    def spread(k: int) -> float:
        p, q = chances(k)
        return q * (1 - q) / (p - q) ** 2

    k = min(range(1, size), key=spread)
    p, q = chances(k)
    keys = rng.random((len(codes), size))
    people = np.arange(len(codes))
    keys[people, codes] = np.where(rng.random(len(codes)) < p, -1.0, 2.0)  # in the subset for certain, or not at all
    kept = np.zeros((len(codes), size))
    np.put_along_axis(kept, np.argsort(keys, axis=1)[:, :k], 1.0, axis=1)
    return (kept - q) / (p - q)


STUDIES = {"logistic": logistic, "regression": regression, "components": components, "tables": tables}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", choices=[[], *STUDIES], help="all by default")
    parser.add_argument("--data", help="the folder of the data sets; COLONNADE_DATA by default")
    parser.add_argument("--runs", type=int, default=10)
    chosen = parser.parse_args()
    report = {name: STUDIES[name](chosen.data, chosen.runs) for name in chosen.studies or STUDIES}
    print(json.dumps(report, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
