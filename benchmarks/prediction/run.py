"""Scoring a million people across three parties, and evaluating models privately, beside the exact figures.

    python benchmarks/prediction/run.py [--quick]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout.

*Scoring.* Three parties of ten columns each: the time of ``model.predict(federation, to="bank")``, with everything included
(agreeing, products, masks, sealing, adding up, keeping), over that of the plaintext product of the whole table with the weights,
taken in turns; the ratio is the median over turns, so that other work on the machine weighs on both. Memory is the peak of a
process that holds all three parties, before and after; what was delivered in every turn stays in memory here.

*Evaluation.* King County houses and Adult, people held out: how far figures are off, over their own intervals, and how often the
interval covers the exact figure, over draws of the noise.
"""

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score, roc_auc_score

import colonnade as cn
from colonnade.datasets.public import DATA_VARIABLE, PublicData, adult, kc_house
from colonnade.estimators.export import design_matrix

HERE = Path(__file__).parent
PARTIES = ("bank", "telco", "insurer")
COLUMNS = 10
BAR = 10.0
EPSILONS = (0.5, 1.0, 4.0)


# Scoring --------------------------------------------------------------------------------------------------------------------


def scoring(people: int, rounds: int) -> dict:
    """Time both sides in turns; the plaintext side has the table and the weights at hand and nothing else to do."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (people, len(PARTIES) * COLUMNS))
    parties = {}
    for number, name in enumerate(PARTIES):
        own = values[:, number * COLUMNS : (number + 1) * COLUMNS]
        frame = pd.DataFrame(own, columns=[f"x{place}" for place in range(COLUMNS)]).assign(id=np.arange(people))
        parties[name] = cn.Party(frame, schema=cn.Schema({f"x{p}": cn.Numeric(-1, 1) for p in range(COLUMNS)}))
    policies = {name: cn.Policy(predictions={"LinearRegression": ["bank"]}) for name in PARTIES}
    budget = cn.Budget(epsilon=1.0, delta=1e-6)
    with cn.Federation.simulate(parties, id="id", budget=budget, policies=policies) as federation:
        model = cn.LinearRegression("bank.x0", epsilon=1.0, delta=1e-6).fit(federation)
        table = np.ascontiguousarray(values[:, 1:])
        plain, ours, before = [], [], _memory()
        for _ in range(rounds):
            plain.append(_seconds(lambda: table @ model.coef_ + model.intercept_))
            model.intercept_ += 1e-3  # another plan: nothing is remembered
            ours.append(_seconds(lambda: model.predict(federation, to="bank")))
        delivery = model.predict(federation, to="bank")
        worst = float(np.max(np.abs(np.asarray(delivery) - (table @ model.coef_ + model.intercept_))))
        return {
            "people": people,
            "columns": len(PARTIES) * COLUMNS - 1,
            "plaintext_seconds": float(np.median(plain)),
            "seconds": float(np.median(ours)),
            "ratio": float(np.median(np.divide(ours, plain))),
            "ratio_of_best": min(ours) / min(plain),
            "largest_difference": worst,
            "bytes": int(delivery.transcript_.bytes),
            "memory_before_mb": before,
            "memory_peak_mb": _memory(),
        }


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# Evaluation -----------------------------------------------------------------------------------------------------------------


def data_folder() -> Path:
    folder = Path(os.environ.get(DATA_VARIABLE, HERE.parents[2] / "shared" / "data"))
    if not folder.is_dir():
        raise cn.BadInput(
            "The folder of the data sets was not found.",
            remedy=f"Set {DATA_VARIABLE} to a folder that holds their Parquet files.",
        )
    return folder


def exact_regression(model: Any, rows: pd.DataFrame) -> dict[str, float]:
    truth, found = rows[model.target].to_numpy(dtype=float), model.predict(rows)
    return {"rmse": math.sqrt(float(np.mean((truth - found) ** 2))), "r2": float(r2_score(truth, found))}


def exact_classification(model: Any, rows: pd.DataFrame) -> dict[str, float]:
    truth = rows[model.target].to_numpy()
    chances = model.predict_proba(rows)[:, 1]
    return {
        "accuracy": float(np.mean(model.predict(rows) == truth)),
        "auc": float(roc_auc_score(truth == model.classes_[1], chances)),
    }


def coded_rows(model: Any, rows: pd.DataFrame) -> np.ndarray:
    return design_matrix(rows, model._coded, model._columns, coded=True)  # noqa: SLF001  # as the model itself codes them


def exact_components(model: Any, rows: pd.DataFrame) -> dict[str, float]:
    coded, scores = coded_rows(model, rows), model.transform(rows)
    return {"explained_variance_ratio": float(scores.var(axis=0).sum() / coded.var(axis=0).sum())}


def exact_clusters(model: Any, rows: pd.DataFrame) -> dict[str, float]:
    centres = model._coded_centres  # noqa: SLF001  # the loss is defined in coded columns
    return {"loss": float(((coded_rows(model, rows)[:, None] - centres) ** 2).sum(axis=2).min(axis=1).mean())}


CASES: tuple[tuple[str, Callable, Callable[[PublicData], Any], Callable], ...] = (
    ("King County", kc_house, lambda d: cn.LinearRegression(d.target, epsilon=4.0, delta=1e-6), exact_regression),
    ("King County", kc_house, lambda _: cn.PCA(3, epsilon=4.0, delta=1e-6), exact_components),
    ("King County", kc_house, lambda _: cn.KMeans(3, epsilon=4.0, delta=1e-6), exact_clusters),
    ("Adult", adult, lambda d: cn.LogisticRegression(d.target, epsilon=4.0, delta=1e-6), exact_classification),
    ("Adult", adult, lambda _: cn.PCA(3, epsilon=4.0, delta=1e-6), exact_components),
    ("Adult", adult, lambda _: cn.KMeans(3, epsilon=4.0, delta=1e-6), exact_clusters),
)


def evaluation(draws: int, people: int) -> list[dict]:
    rows = []
    for title, load, make, exact in CASES:
        data = load(data_folder())
        order = np.random.default_rng(1).permutation(len(data.frame))
        held_out, rest = np.sort(order[:people]), np.sort(order[people:])
        frame = data.frame.loc[held_out]
        named = pd.DataFrame({f"{p}.{c}": frame[c] for p, schema in data.schemas.items() for c in schema})
        with _federation(data, rest) as train, _federation(data, held_out) as test:
            model = make(data).fit(train)
            figures = exact(model, named)
            for epsilon in EPSILONS:
                begin = time.perf_counter()
                found = [model.evaluate(test, epsilon=epsilon, delta=1e-6, repeat=r) for r in range(1, draws + 1)]
                seconds = (time.perf_counter() - begin) / draws
                for name, value in figures.items():
                    metrics = [one[name] for one in found]
                    rows.append(
                        {
                            "data": title,
                            "model": type(model).__name__,
                            "people": people,
                            "figure": name,
                            "epsilon": epsilon,
                            "exact": value,
                            "typical_error": float(np.median([abs(m.value - value) for m in metrics])),
                            "typical_width": float(np.median([m.high - m.low for m in metrics])),
                            "covered": int(sum(m.covers(value) for m in metrics)),
                            "draws": draws,
                            "seconds": seconds,
                        }
                    )
    return rows


def _federation(data: PublicData, rows: np.ndarray) -> cn.Federation:
    parties = {name: cn.Party(t.loc[rows], schema=data.schemas[name]) for name, t in data.tables().items()}
    return cn.Federation.simulate(parties, id="person", budget=cn.Budget(epsilon=1e4, delta=1e-5))


# Report ---------------------------------------------------------------------------------------------------------------------


def run(quick: bool = False) -> dict:
    return {
        "scoring": scoring(100_000 if quick else 1_000_000, 3 if quick else 15),
        "evaluation": evaluation(2 if quick else 20, 1_000 if quick else 4_000),
        "machine": {
            "python": platform.python_version(),
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "commit": _commit(),
        },
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=HERE
    )
    return done.stdout.strip() or "unknown"


def readme(results: dict) -> str:
    one, machine = results["scoring"], results["machine"]
    ratio = f"{one['ratio']:.1f} × ({'met' if one['ratio'] <= BAR else 'missed'}; best of each {one['ratio_of_best']:.1f} ×)"
    scored = [
        f"{one['people']:,}",
        str(one["columns"]),
        f"{one['plaintext_seconds'] * 1e3:.1f} ms",
        f"{one['seconds'] * 1e3:.0f} ms",
        ratio,
        f"{one['bytes'] / 1e6:.1f} MB",
        f"{one['memory_before_mb']:,.0f} → {one['memory_peak_mb']:,.0f} MB",
    ]
    lines = [
        "# Using what was learned: scoring and private evaluation",
        "",
        *(__doc__ or "").split("\n\n", 3)[3].strip().splitlines(),
        "",
        "## Scoring",
        "",
        "| people | columns | plaintext product | to one party | ratio (bar: 10) | bytes | peak memory, before → after |",
        "|---|---|---|---|---|---|---|",
        f"| {' | '.join(scored)} |",
        "",
        f"Largest difference from the plaintext product: {one['largest_difference']:.1e}.",
        "",
        "## Evaluation",
        "",
        "| data | model | figure | ε | exact | typical error | width of the 95 % interval | covered | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['data']} ({r['people']:,} held out) | {r['model']} | {r['figure']} | {r['epsilon']:g} | {r['exact']:.4g} "
        f"| {r['typical_error']:.2g} | {r['typical_width']:.2g} | {r['covered']} of {r['draws']} | {r['seconds']:.1f} |"
        for r in results["evaluation"]
    ]
    where = f"Python {machine['python']}, {machine['processors']} processors, load at the end {machine['load']}"
    lines += ["", f"{where}, commit {machine['commit']}.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller, and nothing is kept")
    quick = parser.parse_args().quick
    results = run(quick)
    page = readme(results)
    sys.stdout.write(page)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(json.dumps(results, indent=1, default=float) + "\n")
        (HERE / "README.md").write_text(page)


if __name__ == "__main__":
    main()
