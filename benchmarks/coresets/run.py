"""Coresets: Table 1 and Figures 2 to 11 of the paper (docs/references.md#coresets), through real federations.

    python benchmarks/coresets/run.py [--quick]

COLONNADE_DATA names the folder of the data sets, by default ``shared/data`` beside the checkout; COLONNADE_YEARPREDICTION a
copy of YearPredictionMSD, which is not part of them. Without it stands a synthetic set of its size: rows of an elliptical t
distribution with 5 degrees of freedom, mean and covariance those of the public sample of 1,176 songs. Its losses are its own;
what can be compared with the paper are ratios.

*Losses.* Regression: mean squared residual, on held-out rows with the ridge penalty (as the paper), else the training objective
a row. k-means: squared distance to the nearest centre a row, columns scaled to standard deviation one. Every coreset and every
uniform sample is drawn and gathered by the parties of a federation (totals, draws, secure sum of scores, rows); CENTRAL and
KMEANS++ are scikit-learn on all rows. C- and U-SAGA and C- and U-DISTDIM train where the rows are.

*Penalty.* The paper penalises raw features; here, as everywhere in the library, the columns mapped to [-1, 1] by their bounds.

*Communication.* Numbers moved, from the transcript of the same runs, and bytes beside them; CENTRAL moves every row.

*Tests.* Mean loss of the coreset below that of the uniform sample: Welch's test, one-sided, over the runs.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
import tomllib
import tracemalloc
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy import stats
from scipy.linalg import blas
from sklearn.cluster import KMeans
from sklearn.linear_model import ElasticNet

import colonnade as cn
from colonnade.coordinator.protocols.coresets import CoresetFindings, CoresetStudy
from colonnade.estimation.coresets import joined_clusters, sampled_clusters, sampled_regression
from colonnade.party.steps.importance import leverage_scores

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # a benchmark is a script, also where `colonnade bench` loads it

from coreset_plots import draw_plots  # noqa: E402
from coreset_sets import SPREAD, Rows, houses, real, synthetic  # noqa: E402

SIZES = (1_000, 2_000, 3_000, 4_000, 5_000, 6_000)
SOME_SIZES = (1_000, 3_000, 6_000)
"""For the variants of Figures 5 and 9."""
HOUSE_SIZES = (100, 200, 400, 600, 800, 1_000)
RUNS, SAGA_RUNS = 20, 3
CLUSTERS = 10
PENALTIES = {  # penalty, alpha, l1_ratio; relative to people
    "ridge": ("l2", 1e-5, 0.0),
    "linear": (None, 0.0, 0.0),
    "lasso": ("l1", 1e-5, 1.0),
    "elastic net": ("elasticnet", 2e-5, 0.5),
}
BARS = {2_000: 1.06, 6_000: 1.025}
COMMUNICATION_BAR, SPEED_BAR, MEMORY_BAR = 50, 3.0, 1.5


# One sample, and what is trained on it --------------------------------------------------------------------------------------


def drawn(
    federation: cn.Federation, size: int, run: int, *, uniform: bool, clusters: int = 1, target: str | None, **more
):
    """Have the parties draw one sample; ``run`` is the draw."""
    study = CoresetStudy(
        columns=federation.describe(),
        task="kmeans" if target is None else "regression",
        size=size,
        people=federation.people,
        target=target,
        clusters=clusters,
        uniform=uniform,
        **more,
    )
    plan = federation.plan(
        study, task="coreset", method="coreset", price=None, unit="person", parameters={}, repeat=run
    )
    outcome = federation.run(study, plan)
    return outcome.value, outcome.transcript


def coefficients(found: CoresetFindings, people: int, kind: str) -> tuple[np.ndarray, float]:
    penalty, alpha, ratio = PENALTIES[kind]
    model = sampled_regression(
        found.gathered[:, :-1],
        found.gathered[:, -1],
        found.coreset.weights,
        people,
        penalty=penalty,
        alpha=alpha,
        l1_ratio=ratio,
    )
    return model.coefficients, model.intercept


def regression_loss(rows: Rows, theta: np.ndarray, intercept: float, kind: str) -> float:
    """Testing loss for ridge where rows are held out, else the training objective a row, in the target's own units."""
    if kind == "ridge" and rows.training < len(rows.coded):
        return rows.loss(theta, intercept, test=True)
    penalty, alpha, ratio = PENALTIES[kind]
    size = 0.0 if penalty is None else alpha * (2 * ratio * np.abs(theta).sum() + (1 - ratio) * (theta**2).sum())
    return rows.loss(theta, intercept, test=False) + size * rows.halves[-1] ** 2


def central_regression(rows: Rows, kind: str) -> tuple[np.ndarray, float]:
    """All rows, from their Gram matrix; the penalised ones by scikit-learn's coordinate descent on it."""
    penalty, alpha, ratio = PENALTIES[kind]
    people, width = rows.training, rows.width
    mean = rows.gram[0, 1:] / people
    covariance = rows.gram[1:, 1:] / people - np.outer(mean, mean)
    if penalty in (None, "l2"):
        theta = np.linalg.solve(covariance[:-1, :-1] + alpha * np.eye(width), covariance[:-1, -1])
    else:
        values, vectors = np.linalg.eigh(covariance)
        square = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T * np.sqrt(len(covariance))
        model = ElasticNet(alpha=alpha, l1_ratio=ratio, fit_intercept=False, tol=1e-9, max_iter=200_000)
        theta = model.fit(square[:, :-1], square[:, -1]).coef_
    return theta, float(mean[-1] - mean[:-1] @ theta)


def clustering_loss(points: np.ndarray, squares: float, centres: np.ndarray, scale: float) -> float:
    """Mean squared distance to the nearest centre; ``squares`` is the sum of the points' own squared lengths."""
    total, centres = squares, centres.astype(points.dtype)
    lengths = (centres**2).sum(axis=1)
    for start in range(0, len(points), 65_536):
        total += float((lengths - 2 * points[start : start + 65_536] @ centres.T).min(axis=1).sum(dtype=np.float64))
    return total / len(points) * scale


# What is measured -----------------------------------------------------------------------------------------------------------


def regressions(rows: Rows, parties: int, sizes: tuple[int, ...], runs: int, kinds: tuple[str, ...]) -> dict:
    """Losses of coresets and uniform samples of all sizes, with each penalty, on the same samples."""
    names = list(rows.parties(parties, target=True))
    target = f"{names[-1]}.c{rows.width}"
    result = {kind: {"central": regression_loss(rows, *central_regression(rows, kind), kind)} for kind in kinds}
    with rows.federation(parties, target=True) as federation:
        for method in ("coreset", "uniform"):
            for size in sizes:
                losses: dict[str, list[float]] = {kind: [] for kind in kinds}
                for run in range(1, runs + 1):
                    found, said = drawn(
                        federation, size, run, uniform=method == "uniform", target=target, training="rows"
                    )
                    for kind in kinds:
                        losses[kind].append(regression_loss(rows, *coefficients(found, rows.training, kind), kind))
                for kind in kinds:
                    result[kind].setdefault(method, {})[str(size)] = summary(losses[kind], said)
    moved = rows.training * (rows.width + 1)
    return {kind: {**one, "communication": moved} for kind, one in result.items()}


def saga(rows: Rows, parties: int, sizes: tuple[int, ...], runs: int) -> dict:
    """The ridge regression without gathering rows."""
    names = list(rows.parties(parties, target=True))
    target, result = f"{names[-1]}.c{rows.width}", {}
    with rows.federation(parties, target=True) as federation:
        for method in ("coreset", "uniform"):
            for size in sizes:
                losses = []
                for run in range(1, runs + 1):
                    found, said = drawn(
                        federation,
                        size,
                        run,
                        uniform=method == "uniform",
                        target=target,
                        training="saga",
                        ridge=PENALTIES["ridge"][1],
                    )
                    blocks = [found.coefficients[name] for name in names]
                    theta = np.concatenate([*blocks[:-1], blocks[-1][1:]])
                    losses.append(regression_loss(rows, theta, float(blocks[-1][0]), "ridge"))
                result.setdefault(method, {})[str(size)] = summary(losses, said)
    return result


def clusterings(rows: Rows, parties: int, sizes: tuple[int, ...], runs: int, clusters: int, scale: float) -> dict:
    """Costs of k-means on coresets and uniform samples, gathered (KMEANS++) and where the rows are (DISTDIM)."""
    points = np.ascontiguousarray(rows.coded[:, :-1], dtype=np.float32)
    squares = float((points.astype(np.float64) ** 2).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = KMeans(clusters, n_init=1, max_iter=100, random_state=0).fit(points).cluster_centers_
        local = {
            party: KMeans(clusters, n_init=1, max_iter=50, random_state=0).fit(points[:, places])
            for party, places in rows.parties(parties, target=False).items()
        }
    joined = joined_clusters(
        {party: (one.cluster_centers_.astype(float), one.labels_.astype(np.int64)) for party, one in local.items()},
        np.ones(len(points)),
        clusters,
        seed=0,
    )
    people = len(points)
    result: dict = {
        "gathered": {"central": clustering_loss(points, squares, whole, scale), "communication": people * rows.width},
        "distdim": {
            "central": clustering_loss(points, squares, joined, scale),
            "communication": people * parties + clusters * rows.width,
        },
    }
    with rows.federation(parties, target=False) as federation:
        for method in ("coreset", "uniform"):
            for size in sizes:
                for training, name in (("rows", "gathered"), ("clusters", "distdim")):
                    losses = []
                    for run in range(1, runs + 1):
                        found, said = drawn(
                            federation,
                            size,
                            run,
                            uniform=method == "uniform",
                            clusters=clusters,
                            target=None,
                            training=training,
                        )
                        weights = found.coreset.weights
                        centres = (
                            sampled_clusters(found.gathered, weights, clusters, seed=run)
                            if training == "rows"
                            else joined_clusters(found.clusters, weights, clusters, seed=run)
                        )
                        losses.append(clustering_loss(points, squares, centres, scale))
                    result[name].setdefault(method, {})[str(size)] = summary(losses, said)
    return result


def summary(losses: list[float], said) -> dict:
    return {
        "mean": float(np.mean(losses)),
        "sd": float(np.std(losses, ddof=1)) if len(losses) > 1 else 0.0,
        "losses": [float(loss) for loss in losses],
        "numbers": said.numbers,
        "bytes": said.bytes,
        "rounds": said.rounds,
    }


def speed(rows: Rows) -> dict:
    """Scores of one party that holds everything, beside one Gram matrix and one triangular solve; in the same process."""
    columns = np.ascontiguousarray(rows.coded[:, :-1].T)

    def blocks():
        for start in range(0, columns.shape[1], 8_192):
            yield columns[:, start : start + 8_192]

    def gram() -> np.ndarray:
        return columns @ columns.T

    root = np.asfortranarray(np.linalg.cholesky(gram()))
    right = np.asfortranarray(columns)

    def solve() -> None:
        blas.dtrsm(1.0, root, right, lower=1, overwrite_b=0)

    times = {
        name: min(_seconds(work) for _ in range(3))
        for name, work in (
            ("gram", gram),
            ("solve", solve),
            ("ours", lambda: leverage_scores(blocks, columns.shape[1])),
        )
    }
    tracemalloc.start()
    leverage_scores(blocks, columns.shape[1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "rows": columns.shape[1],
        "columns": columns.shape[0],
        "over_gram_and_solve": times["ours"] / (times["gram"] + times["solve"]),
        "gram_share": times["gram"] / (times["gram"] + times["solve"]),
        "memory_over_block": 1 + peak / columns.nbytes,
    }


def _seconds(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# Bars and papers ------------------------------------------------------------------------------------------------------------


def below(one: dict) -> dict[str, float]:
    """p-values, by size, that the coreset's mean loss is not below the uniform sample's."""
    return {
        size: float(
            stats.ttest_ind(
                one["coreset"][size]["losses"], one["uniform"][size]["losses"], equal_var=False, alternative="less"
            ).pvalue
        )
        for size in one["coreset"]
    }


def bars(result: dict) -> dict:
    met: dict = {}
    big = next((result["sets"][name] for name in ("YearPredictionMSD", "synthetic") if name in result["sets"]), None)
    if big:
        ridge = big["regression, 3 parties"]["ridge"]
        for size, bar in BARS.items():
            if str(size) in ridge["coreset"]:
                ratio = ridge["coreset"][str(size)]["mean"] / ridge["central"]
                met[f"C-CENTRAL over CENTRAL at {size:,} rows"] = {
                    "bar": f"≤ {bar}",
                    "ours": ratio,
                    "met": ratio <= bar,
                }
        if "2000" in ridge["coreset"]:
            saved = ridge["communication"] / ridge["coreset"]["2000"]["numbers"]
            met["communication of CENTRAL over ours at 2,000 rows"] = {
                "bar": f"≥ {COMMUNICATION_BAR}",
                "ours": saved,
                "met": saved >= COMMUNICATION_BAR,
            }
    for name, one in result["sets"].items():
        for part in ("regression", "k-means"):
            for figure, measured in one.items():
                if not figure.startswith(part):
                    continue
                kinds = measured if part == "regression" else {"KMEANS++": measured["gathered"]}
                worst = max(max(below(kind).values()) for kind in kinds.values())
                met[f"{name}, {figure}: coreset below uniform at every size, largest p"] = {
                    "bar": "< 0.05",
                    "ours": worst,
                    "met": worst < 0.05,
                }
    if "speed" in result:
        ratio, memory = result["speed"]["over_gram_and_solve"], result["speed"]["memory_over_block"]
        met["scores over one Gram matrix and one triangular solve"] = {
            "bar": f"≤ {SPEED_BAR}",
            "ours": ratio,
            "met": ratio <= SPEED_BAR,
        }
        met["memory over the block"] = {"bar": f"≤ {MEMORY_BAR}", "ours": memory, "met": memory <= MEMORY_BAR}
    return met


def parts_of(big: Rows | None, small: Rows | None, quick: bool) -> dict[tuple[str, str], tuple]:
    """Everything that is measured, by set and figure: a function and its arguments, the longest first."""
    runs, trained = (3, 1) if quick else (RUNS, SAGA_RUNS)
    sizes, house_sizes = (SIZES[1:2], HOUSE_SIZES[2:3]) if quick else (SIZES, HOUSE_SIZES)
    scale, parts = SPREAD**2, {}
    if big is not None:
        parts[big.name, "k-means, 3 parties"] = (clusterings, big, 3, sizes, runs, CLUSTERS, scale)
        parts[big.name, "SAGA, 3 parties"] = (saga, big, 3, sizes, trained)
        parts[big.name, "regression, 3 parties"] = (regressions, big, 3, sizes, runs, tuple(PENALTIES))
    if big is not None and not quick:
        parts[big.name, "k-means, 5 parties"] = (clusterings, big, 5, SOME_SIZES, runs, CLUSTERS, scale)
        parts[big.name, "k-means, 3 parties, k = 5"] = (clusterings, big, 3, SOME_SIZES, runs, 5, scale)
        parts[big.name, "regression, 5 parties"] = (regressions, big, 5, sizes, runs, ("ridge",))
    if small is not None:
        parts[small.name, "regression, 2 parties"] = (regressions, small, 2, house_sizes, runs, ("linear",))
        parts[small.name, "k-means, 2 parties"] = (clusterings, small, 2, house_sizes, runs, CLUSTERS, scale)
    return parts


def run(quick: bool, workers: int = 1) -> dict:
    result: dict = {"run": circumstances(), "runs": 3 if quick else RUNS, "saga_runs": 1 if quick else SAGA_RUNS}
    big, small = real() or synthetic(*((60_000, 54_000) if quick else ())), houses()
    if big is not None and not quick:
        result["speed"] = speed(big)
    result["sets"] = {one.name: {} for one in (big, small) if one is not None}
    parts, found = parts_of(big, small, quick), {}
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        waiting = {pool.submit(*part): name for name, part in parts.items()}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            print("measured", *waiting[done], file=sys.stderr, flush=True)
    for (name, figure), measured in sorted(found.items()):
        result["sets"][name][figure] = measured
    result["met"] = bars(result)
    report = as_markdown(result, tomllib.loads((HERE / "published.toml").read_text()))
    print(report)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(
            json.dumps(result, indent=1, ensure_ascii=False, default=_plain) + "\n"
        )
        (HERE / "README.md").write_text(report)
        draw_plots(result, HERE / "results")
    return result


def _plain(value: np.generic) -> object:
    """numpy's own numbers as JSON knows them."""
    return value.item()


def circumstances() -> dict:
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    return {
        "commit": git.stdout.strip() if git.returncode == 0 else None,
        "version": cn.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
    }


def as_markdown(result: dict, published: dict) -> str:
    parts = [
        "# Coresets across parties ([Coresets](../../docs/references.md#coresets))",
        "Written by `run.py` (`colonnade bench coresets`); do not edit. Its docstring says what is measured.",
        "**Coresets are not differentially private.**",
        f"{result['runs']} runs (SAGA: {result['saga_runs']}); mean loss over the baseline's (standard deviation).",
        "## Bars",
        table(
            ("", "bar", "ours", ""),
            [
                (name, one["bar"], f"{one['ours']:.3g}", "met" if one["met"] else "**NOT met**")
                for name, one in result["met"].items()
            ],
        ),
    ]
    for name, figures in result["sets"].items():
        for figure, measured in figures.items():
            parts.append(f"## {name}: {figure}")
            if figure.startswith("SAGA"):
                parts.append(_saga_table(measured, figures["regression, 3 parties"]["ridge"], published))
                continue
            for kind, one in measured.items():
                parts += [
                    f"{FIGURES.get((figure, kind), '')} *{kind}*".strip(),
                    _losses(one, _published(figure, kind, published)),
                ]
    parts += ["## Plots", *(f"![{name}](results/{name}.png)" for name in ("regression", "clustering", "kc_house"))]
    parts += ["## Run", "\n".join(f"* {name}: {value}" for name, value in result["run"].items())]
    return "\n\n".join(parts) + "\n"


FIGURES = {
    ("regression, 3 parties", "ridge"): "Table 1 left, Figure 2:",
    ("regression, 3 parties", "linear"): "Figure 6:",
    ("regression, 3 parties", "lasso"): "Figure 7:",
    ("regression, 3 parties", "elastic net"): "Figure 8:",
    ("k-means, 3 parties", "gathered"): "Table 1 right, Figure 3:",
    ("k-means, 3 parties", "distdim"): "Table 1 right, Figure 3:",
    ("regression, 5 parties", "ridge"): "Figure 4:",
    ("k-means, 5 parties", "gathered"): "Figure 5:",
    ("k-means, 5 parties", "distdim"): "Figure 5:",
    ("k-means, 3 parties, k = 5", "gathered"): "Figure 9:",
    ("k-means, 3 parties, k = 5", "distdim"): "Figure 9:",
    ("regression, 2 parties", "linear"): "Figure 10:",
    ("k-means, 2 parties", "gathered"): "Figure 11:",
    ("k-means, 2 parties", "distdim"): "Figure 11:",
}


def _published(figure: str, kind: str, published: dict) -> dict | None:
    if (figure, kind) == ("regression, 3 parties", "ridge"):
        return published["regression"]
    if (figure, kind) == ("k-means, 3 parties", "gathered"):
        return published["kmeans"]
    return None


def _losses(one: dict, paper: dict | None) -> str:
    head = ["rows", "coreset", "uniform", "p", "coreset: numbers", "uniform: numbers", "bytes of the coreset"]
    rows = []
    for size, coreset in one["coreset"].items():
        uniform = one["uniform"][size]
        row = [
            f"{int(size):,}",
            _ratio(coreset, one["central"]),
            _ratio(uniform, one["central"]),
            f"{below(one)[size]:.1g}",
            f"{coreset['numbers'] / one['communication']:.2%}",
            f"{uniform['numbers'] / one['communication']:.2%}",
            f"{coreset['bytes']:,}",
        ]
        if paper:
            row += [f"{paper[method][size][0] / paper['central']['cost']:.3f}" for method in ("coreset", "uniform")]
            row.append(f"{paper['coreset'][size][2] / paper['central']['communication']:.2%}")
        rows.append(tuple(row))
    if paper:
        head += ["published coreset", "published uniform", "published numbers"]
    words = f"Baseline: {one['central']:.4g}, {one['communication']:,} numbers."
    return f"{words}\n\n{table(tuple(head), rows)}"


def _saga_table(measured: dict, gathered: dict, published: dict) -> str:
    rows = []
    for size, coreset in measured["coreset"].items():
        paper = published["regression"]["coreset_saga"].get(size)
        rows.append(
            (
                f"{int(size):,}",
                _ratio(coreset, gathered["central"]),
                _ratio(measured["uniform"][size], gathered["central"]),
                f"{coreset['numbers']:,}",
                f"{coreset['rounds']:,}",
                f"{paper[0] / published['regression']['central']['cost']:.3f}" if paper else "",
                f"{paper[2]:.2g}" if paper else "",
            )
        )
    head = ("rows", "C-SAGA", "U-SAGA", "numbers", "rounds", "published C-SAGA", "published numbers")
    return table(head, rows)


def _ratio(one: dict, base: float) -> str:
    return f"{one['mean'] / base:.3f} ({one['sd'] / base:.3f})"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one size, fewer runs and rows; keeps nothing")
    parser.add_argument("--workers", type=int, default=1, help="how many parts are measured at a time")
    chosen = parser.parse_args()
    run(chosen.quick, chosen.workers)


if __name__ == "__main__":
    main()
