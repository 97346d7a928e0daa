"""Quantiles beside OpenDP's and diffprivlib's, and what tightened bounds are worth.

    python benchmarks/describe/run.py [--quick] [--peer PYTHON]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout. ``--peer`` is a Python that has
diffprivlib; without it that column is left out.

*Quantiles.* One column at a time, one price for all of its quantiles together, at δ = 0. The error is the rank error: how far
the share asked for is from the shares of people below, and at or below, what was found; the mean over quantiles and runs, in
people. Ours is `cn.Quantiles` through the whole channel. OpenDP's is ``make_private_quantile`` with the price divided between
quantiles, and as candidates every whole number, or 10,001 numbers between the bounds. diffprivlib's is ``quantile`` with the
price divided likewise; it fails on some columns with many equal values. The bar is 1.2 times the better of both; it is set by
the issue that asked for the method.

*Tightened bounds.* California housing, three parties, declared bounds ten times as far apart as the extremes of the data. The
whole price is ε = 1, δ = 10⁻⁶. With tightening, a part of it pays for narrower bounds and the rest for the study. The error of
a linear regression of the house value is the root mean square by which its predictions differ from those of least squares on
the exact table, in parts of the target's deviation. That of principal components (two, of standardised columns) is the distance
of their plane from that of the exact table, between 0 and 1. So what clipping changes counts as an error. The bar is half the
error without.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.datasets.public import DATA_VARIABLE

HERE = Path(__file__).parent
EPSILONS = (0.1, 1.0)
SHARES = {"median": [0.5], "quartiles": [0.25, 0.5, 0.75], "deciles": [round(0.1 * place, 1) for place in range(1, 10)]}
COLUMNS = {
    "median_income": ("california_housing", cn.Numeric(0, 100)),
    "hours-per-week": ("adult", cn.Numeric(0, 168, integer=True)),
    "LIMIT_BAL": ("credit_card_default", cn.Numeric(0, 10_000_000)),
}
CANDIDATES = 10_001
QUANTILE_BAR, TIGHTENED_BAR = 1.2, 0.5
PARTIES = {
    "land": ["longitude", "latitude", "housing_median_age"],
    "census": ["total_rooms", "total_bedrooms", "population", "households"],
    "tax": ["median_income", "median_house_value"],
}
TARGET = "tax.median_house_value"
TIMES_TOO_WIDE = 10
WHOLE = {"epsilon": 1.0, "delta": 1e-6}
PART = 0.35
"""The part of the price that pays for the bounds."""


def data_folder() -> Path:
    folder = Path(os.environ.get(DATA_VARIABLE, HERE.parents[2] / "shared" / "data"))
    if not folder.is_dir():
        raise cn.BadInput(
            "The folder of the data sets was not found.",
            remedy=f"Set {DATA_VARIABLE} to a folder that holds their Parquet files.",
        )
    return folder


# Quantiles --------------------------------------------------------------------------------------------------------------------


def rank_error(values: np.ndarray, shares: list[float], found: list[float]) -> float:
    """Return the mean distance of the ranks asked for from those of what was found, in people."""
    ordered, people = np.sort(values), len(values)
    errors = []
    for share, one in zip(shares, found, strict=True):
        below, upto = np.searchsorted(ordered, one, side="left"), np.searchsorted(ordered, one, side="right")
        errors.append(max(below - share * people, share * people - upto, 0.0))
    return float(np.mean(errors))


def ours(values: np.ndarray, column: cn.Numeric, shares: list[float], epsilon: float, runs: int) -> list[list[float]]:
    party = cn.Party(pd.DataFrame({"id": np.arange(len(values)), "x": values}), schema=cn.Schema(x=column))
    with cn.Federation.simulate({"p": party}, id="id", budget=cn.Budget(epsilon=1_000.0)) as federation:
        study = cn.Quantiles("p.x", shares, epsilon=epsilon)
        return [study.fit(federation, repeat=run).values_.tolist() for run in range(1, runs + 1)]


def opendp(values: np.ndarray, column: cn.Numeric, shares: list[float], epsilon: float, runs: int) -> list[list[float]]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    number = int(column.high - column.low) + 1 if column.integer else CANDIDATES
    candidates = np.linspace(column.low, column.high, min(number, CANDIDATES)).tolist()
    asked = [
        dp.binary_search_chain(
            lambda scale, share=share: dp.m.make_private_quantile(
                *space, dp.max_divergence(), candidates, share, scale
            ),
            d_in=1,
            d_out=epsilon / len(shares),
        )
        for share in shares
    ]
    given = [float(value) for value in values]
    return [[float(one(given)) for one in asked] for _ in range(runs)]


def diffprivlib(
    peer: str, values: np.ndarray, column: cn.Numeric, shares: list[float], epsilon: float, runs: int
) -> list[list[float]] | None:
    """Return diffprivlib's quantiles; ``None`` where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "values.npz")
        np.savez(path, values=values.astype(float), shares=np.array(shares), low=column.low, high=column.high)
        command = [peer, str(HERE / "diffprivlib_quantiles.py"), str(path), str(runs), str(epsilon)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    return None if done.returncode else json.loads(done.stdout)[str(epsilon)]


def quantiles(runs: int, peer: str | None) -> list[dict[str, Any]]:
    rows = []
    for name, (data, column) in COLUMNS.items():
        values = pd.read_parquet(data_folder() / f"{data}.parquet")[name].to_numpy(dtype=float)
        for words, shares in SHARES.items():
            for epsilon in EPSILONS:
                found = {
                    "ours": ours(values, column, shares, epsilon, runs),
                    "OpenDP": opendp(values, column, shares, epsilon, runs),
                }
                if peer is not None:
                    theirs = diffprivlib(peer, values, column, shares, epsilon, runs)
                    found |= {} if theirs is None else {"diffprivlib": theirs}
                errors = {
                    who: float(np.mean([rank_error(values, shares, one) for one in each]))
                    for who, each in found.items()
                }
                rows.append({"column": name, "people": len(values), "quantiles": words, "epsilon": epsilon, **errors})
                print(rows[-1], flush=True)
    return rows


# Tightened bounds -------------------------------------------------------------------------------------------------------------


def california() -> tuple[pd.DataFrame, dict[str, cn.Schema]]:
    frame = pd.read_parquet(data_folder() / "california_housing.parquet")[[c for own in PARTIES.values() for c in own]]
    frame = frame.fillna(frame.median()).astype(float)
    schemas = {}
    for party, own in PARTIES.items():
        wide = {}
        for name in own:
            middle, half = (frame[name].max() + frame[name].min()) / 2, (frame[name].max() - frame[name].min()) / 2
            wide[name] = cn.Numeric(middle - TIMES_TOO_WIDE * half, middle + TIMES_TOO_WIDE * half)
        schemas[party] = cn.Schema(wide)
    return frame, schemas


def exact_plane(frame: pd.DataFrame) -> np.ndarray:
    return np.linalg.eigh(np.corrcoef(frame.to_numpy(), rowvar=False))[1][:, -2:]


def plane_error(components: np.ndarray, exact: np.ndarray) -> float:
    plane = np.linalg.qr(components.T)[0]
    return float(np.linalg.norm(plane @ plane.T - exact @ exact.T) / 2)


def studies(federation: cn.Federation, price: dict[str, float], run: int) -> tuple[cn.PCA, cn.LinearRegression]:
    pca = cn.PCA(2, standardise=True, **price).fit(federation, repeat=run)
    return pca, cn.LinearRegression(TARGET, **price).fit(federation, repeat=run)


def tightening(runs: int) -> dict[str, Any]:
    frame, schemas = california()
    named = pd.concat([frame[own].add_prefix(f"{party}.") for party, own in PARTIES.items()], axis=1)
    features = [name for name in named if name != TARGET]
    design = np.column_stack([named[features], np.ones(len(named))])
    plain = design @ np.linalg.lstsq(design, named[TARGET], rcond=None)[0]
    plane, spread = exact_plane(named), named[TARGET].std()
    parties = {
        party: cn.Party(frame[own].assign(id=np.arange(len(frame))), schema=schemas[party])
        for party, own in PARTIES.items()
    }
    errors: dict[str, dict[str, list[float]]] = {
        way: {"PCA": [], "regression": []} for way in ("declared", "tightened")
    }
    with cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=500.0, delta=1e-4)) as federation:
        for run in range(1, runs + 1):
            narrow = federation.tightened(epsilon=PART * WHOLE["epsilon"], delta=WHOLE["delta"], repeat=run)
            rest = {"epsilon": (1 - PART) * WHOLE["epsilon"], "delta": WHOLE["delta"]}
            for way, (where, price) in {"declared": (federation, WHOLE), "tightened": (narrow, rest)}.items():
                pca, model = studies(where, price, run)
                errors[way]["PCA"].append(plane_error(pca.components_, plane))
                off = model.predict(named[features]) - plain
                errors[way]["regression"].append(float(np.sqrt(np.mean(off**2)) / spread))
        bounds = narrow.tightened_.bounds["width"]
    found = {way: {study: float(np.mean(each)) for study, each in by.items()} for way, by in errors.items()}
    return {"errors": found, "widths": {str(name): float(width) for name, width in bounds.items()}}


# The page ---------------------------------------------------------------------------------------------------------------------


def page(result: dict[str, Any]) -> str:
    peers = [name for name in ("OpenDP", "diffprivlib") if any(name in row for row in result["quantiles"])]
    lines = [
        "# Descriptions: quantiles and tightened bounds",
        "",
        (
            f"Written by `run.py`; its docstring says what is measured. {result['run']['runs']} runs of quantiles, "
            f"{result['run']['tightened_runs']} of tightened bounds. {result['run']['machine']}."
        ),
        "",
        "Mean rank error in people; the bar is 1.2 times the better peer's, or half a person.",
        "",
        f"| column | people | quantiles | ε | ours | {' | '.join(peers)} | ours over the best | |",
        f"|---|---|---|---|---|{'---|' * len(peers)}---|---|",
    ]
    for row in result["quantiles"]:
        best = min(row[name] for name in peers if name in row)
        met = row["ours"] <= max(QUANTILE_BAR * best, 0.5)
        figures = " | ".join(f"{row[name]:.1f}" if name in row else "fails" for name in ("ours", *peers))
        ratio = f"{row['ours'] / best:.2f}" if best > 0.5 else ""
        lines.append(
            f"| `{row['column']}` | {row['people']:,} | {row['quantiles']} | {row['epsilon']:g} | {figures} | {ratio} | "
            f"{'met' if met else 'missed'} |"
        )
    errors = result["tightened"]["errors"]
    lines += [
        "",
        f"California housing, bounds {TIMES_TOO_WIDE} times too wide, ε = 1 in all, {PART:g} of it for the bounds:",
        "",
        "| study | error, declared bounds | error, tightened | quotient | bar | |",
        "|---|---|---|---|---|---|",
    ]
    for study in ("PCA", "regression"):
        before, after = errors["declared"][study], errors["tightened"][study]
        verdict = "met" if after <= TIGHTENED_BAR * before else "missed"
        lines.append(f"| {study} | {before:.3f} | {after:.3f} | {after / before:.2f} | {TIGHTENED_BAR:g} | {verdict} |")
    widest = max(result["tightened"]["widths"].values())
    lines += ["", f"The widest of the tightened bounds of the last run is {widest:.1%} of what was declared.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs, and nothing is written")
    parser.add_argument("--peer", help="a Python that has diffprivlib")
    options = parser.parse_args()
    runs, tightened_runs, begin = (4, 2, time.time()) if options.quick else (20, 10, time.time())
    result = {"tightened": tightening(tightened_runs), "quantiles": quantiles(runs, options.peer)}
    result["run"] = {
        "runs": runs,
        "tightened_runs": tightened_runs,
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "seconds": round(time.time() - begin, 1),
    }
    print(page(result))
    if not options.quick:
        (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (HERE / "README.md").write_text(page(result), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
