"""Regression and contingency tables from one noisy matrix, through the secure channel, on Adult and King County houses.

    python benchmarks/moments/run.py [--quick]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout.

*Logistic regression.* Adult, four parties, 80/20 splits, δ = 1/n: accuracy on the rows left out, beside the functional
mechanism and noisy gradients of the paper (docs/references.md#functional). Every fit is a study of a federation of its own:
sharing, sealing, multiplying, opening.

*Contingency tables.* Adult, ε = 0.1 a person: the ℓ1 error of ``PatternCount(method="secure")`` beside that of
``method="response"``, which trusts no peer.

*Linear regression.* R² on the rows left out, beside other ways to solve with an indefinite noisy matrix, all from the same
releases: a ridge, a floor under the eigenvalues, the shift of privacy.md §5.5, AdaSSP's ridge.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import time
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression

import colonnade as cn
from colonnade.coding.columns import coefficients_to_own_units, features_of
from colonnade.datasets.public import DATA_VARIABLE, PublicData, adult, kc_house
from colonnade.estimation.moments import Moments
from colonnade.estimators.export import design_matrix

HERE = Path(__file__).parent
SEED = 20_000
ALMOST_FREE = 5_000.0
TABLES = (
    ("registry.marital-status", "employer.occupation"),
    ("registry.relationship", "tax.income"),
    ("school.education", "employer.workclass"),
    ("registry.sex", "employer.workclass", "tax.income"),
)


def data_folder() -> Path:
    folder = Path(os.environ.get(DATA_VARIABLE, HERE.parents[2] / "shared" / "data"))
    if not folder.is_dir():
        raise cn.BadInput(
            "The folder of the data sets was not found.",
            remedy=f"Set {DATA_VARIABLE} to a folder that holds their Parquet files.",
        )
    return folder


def splits(data: PublicData, runs: int) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Public 80/20 splits of the rows."""
    people = len(data.frame)
    for one in range(runs):
        order = np.random.default_rng(SEED + one).permutation(people)
        yield data.frame.iloc[order[: int(0.8 * people)]], data.frame.iloc[order[int(0.8 * people) :]]


def federation(data: PublicData, frame: pd.DataFrame) -> cn.Federation:
    parties = {name: cn.Party(frame[["person", *schema]], schema=schema) for name, schema in data.schemas.items()}
    return cn.Federation.simulate(parties, id="person", budget=cn.Budget(epsilon=1e4, delta=1 / len(data.frame)))


def named(data: PublicData, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the federation's column names."""
    return pd.DataFrame({f"{p}.{c}": frame[c] for p, schema in data.schemas.items() for c in schema})


# What is measured -----------------------------------------------------------------------------------------------------------


def logistic(data: PublicData, epsilons: Sequence[float], runs: int) -> dict:
    delta = 1 / len(data.frame)
    scores: dict[float, list[float]] = {epsilon: [] for epsilon in epsilons}
    plain: list[float] = []
    seconds: list[float] = []
    for train, test in splits(data, runs):
        rows = named(data, test)
        with federation(data, train) as parties:
            for epsilon, found in scores.items():
                begin = time.perf_counter()
                model = cn.LogisticRegression(data.target, method="secure", epsilon=epsilon, delta=delta).fit(parties)
                seconds.append(time.perf_counter() - begin)
                found.append(model.score(rows, rows[data.target]))
            almost = cn.LogisticRegression(data.target, method="secure", epsilon=ALMOST_FREE, delta=delta).fit(parties)
            plain.append(almost.score(rows, rows[data.target]))
    return {
        "people": len(data.frame),
        "parties": len(data.schemas),
        "delta": delta,
        "runs": runs,
        "accuracy": {str(epsilon): summary(found) for epsilon, found in scores.items()},
        "without_noise": summary(plain),
        "scikit_learn": _scikit_learn(data),
        "seconds_a_fit": float(np.median(seconds)),
    }


def _scikit_learn(data: PublicData) -> float:
    """Maximum likelihood on the first split, the same coding."""
    train, test = next(splits(data, 1))
    columns = {f"{p}.{c}": column for p, schema in data.schemas.items() for c, column in schema.items()}
    columns.pop(data.target)
    features = features_of(columns)[1:]
    code = lambda frame: design_matrix(named(data, frame), features, columns, coded=True)  # noqa: E731
    target = data.target.partition(".")[2]
    model = LogisticRegression(max_iter=3_000, C=10).fit(code(train), train[target])
    return float(model.score(code(test), test[target]))


def tables(data: PublicData, epsilon: float, runs: int) -> list[dict]:
    frame = named(data, data.frame)
    rows = []
    with federation(data, data.frame) as parties:
        for columns in TABLES:
            levels = [parties.column(name)[2].levels for name in columns]
            index = pd.MultiIndex.from_product(levels, names=list(columns))
            truth = frame.groupby(list(columns), observed=False).size().reindex(index, fill_value=0)
            errors = {
                method: [
                    float(np.abs(_counted(parties, columns, method, epsilon, draw) - truth).sum() / len(frame))
                    for draw in range(1, runs + 1)
                ]
                for method in ("secure", "response")
            }
            rows.append(
                {
                    "columns": list(columns),
                    "cells": len(truth),
                    "parties": len({name.partition(".")[0] for name in columns}),
                    "error": {method: summary(values) for method, values in errors.items()},
                    "ratio": float(np.mean(errors["response"]) / np.mean(errors["secure"])),
                }
            )
    return rows


def _counted(parties: cn.Federation, columns: tuple[str, ...], method: str, epsilon: float, draw: int) -> pd.Series:
    return cn.PatternCount(list(columns), method=method, epsilon=epsilon).fit(parties, repeat=draw).counts_


def linear(data: PublicData, target: str, epsilons: Sequence[float], runs: int) -> dict:
    """R² by rule and ε; every rule sees the same releases."""
    found: dict[str, dict[str, list[float]]] = {str(epsilon): {} for epsilon in epsilons}
    plain = []
    for train, test in splits(data, runs):
        rows, held = named(data, test), named(data, train)
        with federation(data, train) as parties:
            columns = {name: column for name, column in parties.describe().items() if name != target}
            bounds = parties.column(target)[2]
            truth = rows[target].clip(bounds.low, bounds.high)
            features = features_of(columns)[1:]
            code = lambda frame: design_matrix(frame, features, columns, coded=False)  # noqa: B023, E731
            plain.append(float(LinearRegression().fit(code(held), held[target]).score(code(rows), truth)))
            for epsilon in epsilons:
                release = parties.moments(epsilon=epsilon, delta=1 / len(data.frame))
                results = found[str(epsilon)]
                results.setdefault("ours", []).append(cn.LinearRegression(target).fit(release).score(rows, truth))
                for rule, coefficients, intercept in rivals(release.moments, target):
                    predicted = code(rows) @ coefficients + intercept
                    share = float(np.mean((truth - predicted) ** 2) / np.var(truth))
                    results.setdefault(rule, []).append(1 - share)
    return {
        "target": target,
        "people": len(data.frame),
        "parties": len(data.schemas),
        "runs": runs,
        "without_privacy": summary(plain),
        "r_squared": {
            epsilon: {rule: summary(values) for rule, values in rules.items()} for epsilon, rules in found.items()
        },
    }


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
    names, into = coefficients_to_own_units([release.features[place] for place in places])
    feature = release.features[aim]
    for rule, stiffness in (
        ("ridge σ√d", np.maximum(values, 0) + width),
        ("floor 2σ√d", np.maximum(values, 2 * width)),
        ("shift to 2σ√d", values + max(0.0, 2 * width - values[0])),
        ("AdaSSP", np.maximum(values, 0) + adaptive),
    ):
        weights = vectors @ ((vectors.T @ cross) / stiffness)
        intercept = release.matrix[0, aim] / release.count - means @ weights
        own = into @ np.append(weights, intercept) * feature.half_width
        yield rule, own[: len(names)], float(own[-1]) + feature.centre


def summary(values: Sequence[float]) -> dict:
    """Mean and its 95 % interval by Student's t."""
    mean, half = float(np.mean(values)), 0.0
    if len(values) > 1:
        half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return {"mean": mean, "low": mean - half, "high": mean + half}


# Putting it down ------------------------------------------------------------------------------------------------------------


def run(quick: bool = False) -> dict:
    """Measure everything, print it, and (unless quick) keep it in ``results/latest.json`` and ``README.md``."""
    published = tomllib.loads((HERE / "published.toml").read_text())
    begin = time.time()
    folder, runs = data_folder(), 3 if quick else 10
    people, houses = adult(folder), kc_house(folder)
    epsilons = published["logistic"]["epsilons"]
    result: dict = {
        "logistic": logistic(people, epsilons, runs),
        "tables": tables(people, published["tables"]["epsilon"], runs),
        "linear": [linear(houses, houses.target, epsilons, runs), linear(people, "registry.age", epsilons, runs)],
    }
    bars = zip(epsilons, published["logistic"]["bars"], strict=True)
    result["met"] = {
        "logistic": all(result["logistic"]["accuracy"][str(epsilon)]["mean"] >= bar for epsilon, bar in bars),
        "tables": all(row["ratio"] >= published["tables"]["bar"] for row in result["tables"]),
    }
    result["run"] = {**circumstances(), "quick": quick, "seconds": round(time.time() - begin, 1)}
    report = as_markdown(result, published)
    print(report)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        (HERE / "README.md").write_text(report)
    return result


def circumstances() -> dict:
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "commit": git.stdout.strip() if git.returncode == 0 else None,
        "version": cn.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{names[0] if names else platform.processor()}, {len(names) or '?'} cores",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "seed of the splits": SEED,
        "noise": "fresh, from the system's source",
    }


def as_markdown(result: dict, published: dict) -> str:
    parts = [
        (
            "# Regression and tables from one noisy matrix "
            "([Functional mechanism across parties](../../docs/references.md#functional), Table III; beyond it)"
        ),
        "Written by `run.py` (`colonnade bench moments`); do not edit. Its docstring says what is measured.",
        "## Logistic regression on Adult",
        *_logistic_section(result["logistic"], published["logistic"], result["met"]["logistic"]),
        "## Contingency tables on Adult",
        *_tables_section(result["tables"], published["tables"], result["met"]["tables"]),
        "## Linear regression",
        *[words for one in result["linear"] for words in _linear_section(one)],
        "## Run",
        "\n".join(f"* {name}: {value}" for name, value in result["run"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _logistic_section(one: dict, published: dict, met: bool) -> list[str]:
    rows = []
    for place, epsilon in enumerate(published["epsilons"]):
        ours, bar = one["accuracy"][str(epsilon)], published["bars"][place]
        theirs = [published[name][place] for name in ("functional_mechanism", "noisy_gradients")]
        agrees = "no, above" if ours["low"] > theirs[0] else "no, below" if ours["high"] < theirs[0] else "yes"
        rows.append(
            (
                f"{epsilon:g}",
                *(f"{t:.4f}" for t in theirs),
                _interval(ours),
                agrees,
                f"{bar:g}",
                _met(ours["mean"] >= bar),
            )
        )
    head = ("ε", "published: functional", "published: gradients", "ours", "agrees?", "bar", "met?")
    return [
        (
            f"{one['people']:,} people, {one['parties']} parties, 80/20 splits, {one['runs']} runs, δ = 1/n; accuracy "
            f"on the rows left out, mean with 95 % interval. The published figures are for "
            f"δ = 0. A fit takes {one['seconds_a_fit']:.2f} s."
        ),
        _table(head, rows),
        (
            f"Without noise our surrogate has {one['without_noise']['mean']:.4f}, maximum likelihood (scikit-learn, first split) "
            f"{one['scikit_learn']:.4f}; published without privacy: {published['without_privacy']:.4f}. The bars: {_met(met)}."
        ),
    ]


def _tables_section(rows: list[dict], published: dict, met: bool) -> list[str]:
    table = [
        (
            " × ".join(row["columns"]),
            str(row["cells"]),
            str(row["parties"]),
            _interval(row["error"]["secure"]),
            _interval(row["error"]["response"]),
            f"**{row['ratio']:.1f}**",
        )
        for row in rows
    ]
    return [
        (
            f"ε = {published['epsilon']} a person, δ = 0; ‖error‖₁ over people, mean with 95 % interval. With three parties "
            "`secure` is a fit to pairs, and its error includes what the pairs do not show."
        ),
        _table(("table", "cells", "parties", "secure", "response", "ratio"), table),
        f"The bar is {published['bar']:g}: {_met(met)}.",
    ]


def _linear_section(one: dict) -> list[str]:
    rules = list(next(iter(one["r_squared"].values())))
    rows = [
        (f"{float(epsilon):g}", *(_interval(found[rule]) for rule in rules))
        for epsilon, found in one["r_squared"].items()
    ]
    return [
        (
            f"`{one['target']}`: {one['people']:,} people, {one['parties']} parties, {one['runs']} runs, δ = 1/n; R² on the "
            f"rows left out. Without privacy {one['without_privacy']['mean']:.4f}."
        ),
        _table(("ε", *rules), rows),
    ]


def _interval(one: dict) -> str:
    return f"{one['mean']:.4f} ± {one['high'] - one['mean']:.4f}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _met(met: bool) -> str:
    return "met" if met else "**NOT met**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs; keeps nothing")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
