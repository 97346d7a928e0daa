"""The functional mechanism, done right: pure ε on Adult and on the paper's synthetic sets, its run times beside MPyC.

The paper is Functional mechanism across parties (docs/references.md#functional).

    COLONNADE_MPYC_PYTHON=… COLONNADE_DIFFPRIVLIB_PYTHON=… python benchmarks/functional/run.py [--quick] [--only PART]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout. The census extracts of Tables I
and III (US, Brazil, Dutch) cannot be passed on: who has them names a folder in COLONNADE_FUNCTIONAL_SETS with, for example,
``us.parquet`` and ``us.toml`` (``target`` and, under ``[columns]``, bounds or levels as in a study file).

*Logistic regression* (Table III) and *linear regression* (Table I): 80/20 splits; every fit is a study of a federation of its
own through the secure channel, for two and for four parties, once with the noise that tolerates a colluder (the default) and
once without. *One holder* draws the same noise on the same coefficients without any channel: with no colluders to cover, all
three have the same law. Beside them, on the same rows: the paper's mechanism as written (every ordered pair, its Δ, the repair
of Zhang et al.), rows perturbed by their holders with as much pure ε, Frank–Wolfe steps for numbers (centralised, δ = 1/n, as in
the paper's tables), diffprivlib's models (in the Python of COLONNADE_DIFFPRIVLIB_PYTHON), and no privacy at all.

*Wide data* (Table II's size): 80,000 people, 800 numbers, from Parquet files to the model in a process of its own (``wide.py``),
with its peak memory; and the error over draws of the noise.

*Run time* (Table IV): a whole study at the paper's sizes, in turns with MPyC, which multiplies the same columns (features and
target) between parties, given a part of the rows as in ``benchmarks/secure_gram``. MPyC adds no noise and encrypts nothing.
"""

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression

import colonnade as cn
from colonnade.coordinator.protocols.moment_releases import FunctionalRelease
from colonnade.datasets.public import PublicData, adult, kc_house
from colonnade.estimation.moments import pooled_correlations
from colonnade.estimation.regression import linear_from_moments, logistic_from_moments
from colonnade.estimators.export import design_matrix
from colonnade.privacy.accounting import Price
from colonnade.schema import Category, Column
from colonnade.steps.joint import read_joint

HERE = Path(__file__).parent
SETS = "COLONNADE_FUNCTIONAL_SETS"
PEER = "COLONNADE_DIFFPRIVLIB_PYTHON"
GIVEN = {14: (9_250, 18_500, 37_000), 41: (1_000, 2_000, 4_000), 36: (1_000, 2_000, 4_000)}
"""How many rows MPyC is given, by the number of features."""


def load(name: str, path: Path) -> ModuleType:
    """Load a neighbouring file: several of them are called run.py."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BASELINES = load("functional_baselines", HERE / "baselines.py")
MOMENTS = load("moments_benchmark", HERE.parent / "moments" / "run.py")
GRAM = load("gram_benchmark", HERE.parent / "secure_gram" / "run.py")
summary = MOMENTS.summary


# Data -----------------------------------------------------------------------------------------------------------------------


def own_sets() -> dict[str, PublicData]:
    """The user's own copies, dealt out to four parties in the order of their columns, the target at the last."""
    folder = os.environ.get(SETS)
    found = {}
    for description in sorted(Path(folder).glob("*.toml")) if folder else ():
        said = tomllib.loads(description.read_text(encoding="utf-8"))
        columns = {
            name: cn.Category(c["levels"]) if "levels" in c else cn.Numeric(c["lower"], c["upper"])
            for name, c in said["columns"].items()
        }
        features = [name for name in columns if name != said["target"]]
        held = [list(part) for part in np.array_split(features, 4)]
        held[-1].append(said["target"])
        schemas = {f"party{k + 1}": cn.Schema({name: columns[name] for name in part}) for k, part in enumerate(held)}
        frame = pd.read_parquet(description.with_suffix(".parquet"))[[*features, said["target"]]]
        frame.insert(0, "person", np.arange(len(frame)))
        found[description.stem] = PublicData(description.stem, frame, schemas, f"party4.{said['target']}")
    return found


def dealt(data: PublicData, parties: int) -> dict[str, cn.Schema]:
    """The same columns at so many parties, as evenly as they go, the target at the last."""
    columns = {name: column for schema in data.schemas.values() for name, column in schema.items()}
    aim = data.target.partition(".")[2]
    ordered = [*(name for name in columns if name != aim), aim]
    parts = np.array_split(ordered, parties)
    return {f"party{k + 1}": cn.Schema({str(name): columns[name] for name in part}) for k, part in enumerate(parts)}


def federation(schemas: Mapping[str, cn.Schema], frame: pd.DataFrame, *, collusion: int) -> cn.Federation:
    parties = {name: cn.Party(frame[["person", *schema]], schema=schema) for name, schema in schemas.items()}
    policies = {name: cn.Policy(min_collusion=0) for name in parties}
    return cn.Federation.simulate(
        parties, id="person", budget=cn.Budget(epsilon=1e4), collusion=collusion, policies=policies
    )


class Coded:
    """Rows of a split as the models see them."""

    def __init__(self, data: PublicData, frame: pd.DataFrame) -> None:
        holder = data.target.partition(".")[0]
        order = [*(party for party in data.schemas if party != holder), holder]  # a single holder has the target last
        self.columns: dict[str, Column] = {f"{p}.{c}": column for p in order for c, column in data.schemas[p].items()}
        self.target = data.target
        self.frame = MOMENTS.named(data, frame)
        prices = dict.fromkeys(data.schemas, Price.of(1.0))
        self.features = FunctionalRelease(self.columns, data.target, prices).features
        parts = [np.ones((len(frame), 1))]
        for name in dict.fromkeys(feature.column for feature in self.features[1:]):
            own = [feature for feature in self.features if feature.column == name]
            block = design_matrix(self.frame, own, {name: self.columns[name]}, coded=True)
            parts.append(block[:, 1:] - block[:, :1] if own[0].kind == "sign" else block)
        self.whole = np.hstack(parts)

    @property
    def rows(self) -> np.ndarray:
        """The features, each level of a category a column (signs as they are), without the constant."""
        aims = [feature.column == self.target for feature in self.features]
        return self.whole[:, ~np.array(aims)][:, 1:]

    @property
    def answers(self) -> np.ndarray:
        """The target: {0, 1} for two classes, [−1, 1] for a number."""
        place = next(place for place, feature in enumerate(self.features) if feature.column == self.target)
        value = self.whole[:, place]
        return (value > 0).astype(float) if isinstance(self.columns[self.target], Category) else value

    @property
    def bound(self) -> int:
        """‖row‖₁ with the target: one a column, whatever its levels."""
        return len(self.columns)


# Regressions ----------------------------------------------------------------------------------------------------------------


def regression(data: PublicData, epsilons: Sequence[float], runs: int, python: str | None) -> dict:
    """Scores by method and ε: accuracy for a category, mean square error of the coded target for a number."""
    logistic = isinstance(data.schemas[data.target.partition(".")[0]][data.target.partition(".")[2]], Category)
    found: dict[str, dict[str, list[float]]] = {}
    seconds: list[float] = []

    def note(method: str, epsilon: float | str, score: float) -> None:
        found.setdefault(method, {}).setdefault(str(epsilon), []).append(score)

    for number, (train, test) in enumerate(MOMENTS.splits(data, runs)):
        held, left = Coded(data, train), Coded(data, test)
        for parties, collusion in ((2, 0), (4, 0), (2, 1), (4, 1)):
            name = f"{parties} parties, {'no' if collusion == 0 else 'one'} colluder"
            for epsilon, score, taken in through_the_channel(data, train, test, epsilons, parties, collusion):
                note(name, epsilon, score)
                seconds.append(taken)
        for epsilon in epsilons:
            note("one holder", epsilon, central(held, left, epsilon))
            rng = np.random.default_rng([number, int(1e6 * epsilon)])
            for method, score in baselines(held, left, epsilon, rng, logistic=logistic):
                note(method, epsilon, score)
        for epsilon, score in peer(python, held, left, epsilons, logistic=logistic):
            note("diffprivlib", epsilon, score)
        note("without privacy", "", plain(held, left, logistic=logistic))
    return {
        "data": data.name,
        "kind": "accuracy" if logistic else "mean square error",
        "people": len(data.frame),
        "columns": len(held.features) - 1,
        "runs": runs,
        "scores": {method: {e: summary(values) for e, values in by.items()} for method, by in found.items()},
        "same_law": same_law(found, epsilons),
        "seconds_a_fit": float(np.median(seconds)),
    }


def through_the_channel(
    data: PublicData, train: pd.DataFrame, test: pd.DataFrame, epsilons: Sequence[float], parties: int, collusion: int
) -> Iterator[tuple[float, float, float]]:
    schemas = dealt(data, parties)
    where = {column: f"{party}.{column}" for party, schema in schemas.items() for column in schema}
    rows, target = test.rename(columns=where), where[data.target.partition(".")[2]]
    logistic = isinstance(schemas[target.partition(".")[0]][target.partition(".")[2]], Category)
    kind = cn.LogisticRegression if logistic else cn.LinearRegression
    with federation(schemas, train, collusion=collusion) as study:
        column = study.column(target)[2]
        for epsilon in epsilons:
            begin = time.perf_counter()
            model = kind(target, method="functional", epsilon=epsilon).fit(study)
            taken = time.perf_counter() - begin
            if logistic:
                yield epsilon, model.score(rows, rows[target]), taken
            else:
                half = (column.high - column.low) / 2
                truth = rows[target].clip(column.low, column.high)
                yield epsilon, BASELINES.mean_square(model.predict(rows) / half, truth / half), taken


def central(held: Coded, left: Coded, epsilon: float) -> float:
    released = BASELINES.central_moments(held.whole, held.columns, held.target, epsilon)
    moments = pooled_correlations(released, held.target)
    columns = {name: column for name, column in held.columns.items() if name != held.target}
    rows = design_matrix(left.frame, [f for f in held.features[1:] if f.column != held.target], columns, coded=False)
    if isinstance(held.columns[held.target], Category):
        chosen = logistic_from_moments(moments, held.target).probabilities(rows).argmax(axis=1)
        return float(np.mean(chosen == left.answers))
    model, column = linear_from_moments(moments, held.target), held.columns[held.target]
    predicted = (rows @ model.coefficients + model.intercept - column.midpoint) / ((column.high - column.low) / 2)
    return BASELINES.mean_square(predicted, left.answers)


def baselines(
    held: Coded, left: Coded, epsilon: float, rng: np.random.Generator, *, logistic: bool
) -> Iterator[tuple[str, float]]:
    rows, test = held.rows, left.rows
    if logistic:
        weights = BASELINES.paper_logistic(BASELINES.with_constant(rows), held.answers, epsilon, rng)
        yield "the paper's, as written", BASELINES.accuracy(BASELINES.with_constant(test) @ weights, left.answers)
        weights = BASELINES.local_rows(rows, 2 * held.answers - 1, held.bound, epsilon, rng)
        yield (
            "rows perturbed by their holders",
            BASELINES.accuracy(BASELINES.with_constant(test) @ weights, left.answers),
        )
        return
    weights = BASELINES.paper_linear(BASELINES.with_constant(rows), held.answers, epsilon, rng)
    yield "the paper's, as written", BASELINES.mean_square(BASELINES.with_constant(test) @ weights, left.answers)
    weights = BASELINES.frank_wolfe(BASELINES.with_constant(rows), held.answers, epsilon, 1 / len(rows), rng)
    yield (
        "Frank–Wolfe, centralised, δ = 1/n",
        BASELINES.mean_square(BASELINES.with_constant(test) @ weights, left.answers),
    )
    weights = BASELINES.local_rows(rows, held.answers, held.bound, epsilon, rng)
    yield (
        "rows perturbed by their holders",
        BASELINES.mean_square(BASELINES.with_constant(test) @ weights, left.answers),
    )


def plain(held: Coded, left: Coded, *, logistic: bool) -> float:
    if logistic:
        model = LogisticRegression(max_iter=2_000, C=10).fit(held.rows, held.answers)
        return float(model.score(left.rows, left.answers))
    model = LinearRegression().fit(held.rows, held.answers)
    return BASELINES.mean_square(model.predict(left.rows), left.answers)


def peer(
    python: str | None, held: Coded, left: Coded, epsilons: Sequence[float], *, logistic: bool
) -> Iterator[tuple[float, float]]:
    """diffprivlib on the same rows; their Euclidean length is at most the root of the number of columns."""
    if python is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(
            path,
            train=held.rows,
            answers=held.answers,
            test=left.rows,
            truth=left.answers,
            norm=math.sqrt(held.bound - 1),
        )
        command = [python, str(HERE / "diffprivlib_models.py"), "logistic" if logistic else "linear", str(path)]
        done = subprocess.run(
            [*command, *(f"{epsilon:g}" for epsilon in epsilons)], capture_output=True, text=True, check=True
        )
    scores = json.loads(done.stdout.splitlines()[-1])
    yield from ((epsilon, scores[f"{epsilon:g}"]) for epsilon in epsilons)


def same_law(found: Mapping[str, Mapping[str, Sequence[float]]], epsilons: Sequence[float]) -> dict[str, float]:
    """p-values of "two parties, four parties and one holder score alike" without colluders, by paired splits (Friedman)."""
    names = ("one holder", "2 parties, no colluder", "4 parties, no colluder")
    return {
        str(epsilon): float(stats.friedmanchisquare(*(found[name][str(epsilon)] for name in names)).pvalue)
        for epsilon in epsilons
    }


# Wide data ------------------------------------------------------------------------------------------------------------------


def sparse_set(people: int, features: int, sparsity: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Table II's sets as far as they are described: a share of entries and of true weights is not 0.

    The target is scaled so that four standard deviations reach 1, and its residual is the published error without privacy.
    """
    rng = np.random.default_rng([seed, int(100 * sparsity)])
    rows = np.empty((people, features), dtype=np.float32)
    for place in range(features):  # by columns: the numbers of all together would not fit a small machine twice
        rows[:, place] = rng.uniform(-1, 1, people) * (rng.random(people) < sparsity)
    weights = rng.normal(size=features) * (rng.random(features) < sparsity)
    weights /= 4 * np.sqrt(sparsity / 3 * np.sum(weights**2))
    return rows, np.clip(rows @ weights + rng.normal(0, math.sqrt(0.0033), people), -1, 1).astype(np.float32)


def wide(published: dict, quick: bool) -> list[dict]:
    people, features = (8_000, 80) if quick else (published["people"], published["features"])
    cases = [(sparsity, 2) for sparsity in published["sparsity"]] + [(published["sparsity"][0], 4)]
    return [one_wide(people, features, sparsity, parties, published) for sparsity, parties in cases]


def one_wide(people: int, features: int, sparsity: float, parties: int, published: dict) -> dict:
    rows, target = sparse_set(people + people // 4, features, sparsity, 1)
    held, left = slice(0, people), slice(people, None)
    with tempfile.TemporaryDirectory() as folder:
        write_parties(Path(folder), rows, target, people, parties)
        command = [sys.executable, str(HERE / "wide.py"), folder, "--epsilon", str(published["epsilon"])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    known = BASELINES.with_constant(rows[held])
    exact = np.linalg.solve(known.T @ known, known.T @ target[held])
    return {
        "sparsity": sparsity,
        "parties": parties,
        "people": people,
        **json.loads(done.stdout.splitlines()[-1]),
        "without_privacy": BASELINES.mean_square(BASELINES.with_constant(rows[left]) @ exact, target[left]),
        "mean_only": float(np.var(target[left])),
    }


def write_parties(folder: Path, rows: np.ndarray, target: np.ndarray, people: int, parties: int) -> None:
    test: dict[str, np.ndarray] = {"party1.y": target[people:]}
    for number, places in enumerate(np.array_split(np.arange(rows.shape[1]), parties)):
        frame = pd.DataFrame(rows[:people, places], columns=[f"x{place:03d}" for place in places])
        frame["id"] = np.arange(people)
        if number == 0:
            frame["y"] = target[:people]
        frame.to_parquet(folder / f"party{number + 1}.parquet")
        test |= {f"party{number + 1}.x{place:03d}": rows[people:, place] for place in places}
    pd.DataFrame(test).to_parquet(folder / "test.parquet")


# Run time -------------------------------------------------------------------------------------------------------------------


def run_times(published: dict, quick: bool, python: str | None) -> list[dict]:
    cases = [one for one in published["runs"] if not quick or one["data"] == "Adult"]
    return [one_time(case, parties, quick, python) for case in cases for parties in (2, 4)]


def one_time(case: dict, parties: int, quick: bool, python: str | None) -> dict:
    nodes = max(parties, 3)
    rows, columns = case["rows"], case["features"] + 1
    ours = Timed(rows, columns, parties, nodes)
    ours.time(2)
    given = tuple(number // (2 if quick else 1) for number in GIVEN[case["features"]])
    measured: list[dict] = []
    if python is not None:
        bits = (2 * ours.joint.bound).bit_length()
        measured = GRAM.measure_peer(python, "cross", "SecInt", given, columns, parties, nodes, bits)
    ours.time(3)
    ours.close()
    best = GRAM.Seconds(*map(min, zip(*ours.taken, strict=True)))
    result = {
        "data": case["data"],
        "rows": rows,
        "features": case["features"],
        "parties": parties,
        "nodes": nodes,
        "published": case["parties"][str(parties)],
        "ours": best._asdict(),
        "mpyc_measured": measured,
    }
    if measured:
        whole = GRAM.extrapolated(measured, rows)
        result["mpyc"] = whole._asdict()
        result["ratio"] = {field: getattr(whole, field) / getattr(best, field) for field in GRAM.Seconds._fields}
    return result


class Timed:
    """A whole functional regression, timed again and again, each a new draw."""

    def __init__(self, rows: int, columns: int, parties: int, nodes: int) -> None:
        self._federation = GRAM.a_federation(GRAM.tables(rows, columns, parties), nodes)
        self._study = cn.LinearRegression("party1.x0", method="functional", epsilon=1.0)
        self._study.fit(self._federation)  # warm
        self.joint = read_joint(self._study.plan_, "coefficients")
        self.taken: list = []

    def time(self, times: int) -> None:
        for _ in range(times):
            elapsed, processor = time.perf_counter(), time.process_time()
            self._study.fit(self._federation, repeat=len(self.taken) + 2)
            self.taken.append(GRAM.Seconds(time.perf_counter() - elapsed, time.process_time() - processor))

    def close(self) -> None:
        self._federation.close()


# Putting it down ------------------------------------------------------------------------------------------------------------


def run(quick: bool = False, only: str | None = None) -> dict:
    """Measure everything, print it, and (unless quick) keep it in ``results/latest.json`` and ``README.md``.

    ``only`` names one part (``run_times``, ``regressions``, ``wide``): the others are taken from what was kept last.
    """
    published = tomllib.loads((HERE / "published.toml").read_text())
    begin, folder, runs = time.time(), MOMENTS.data_folder(), 3 if quick else 10
    diffprivlib, mpyc = os.environ.get(PEER), GRAM.peer_python()
    sets = {"adult": adult(folder), "kc_house": kc_house(folder), **own_sets()}
    epsilons = published["table_3"]["epsilons"]
    parts = {
        "run_times": lambda: run_times(published["table_4"], quick, mpyc),
        "regressions": lambda: {name: regression(data, epsilons, runs, diffprivlib) for name, data in sets.items()},
        "wide": lambda: wide(published["table_2"], quick),
    }
    kept = json.loads((HERE / "results" / "latest.json").read_text()) if only else {}
    result: dict = {name: measure() if only in (None, name) else kept[name] for name, measure in parts.items()}
    result["met"] = verdicts(result, published["bars"])
    result["run"] = {
        **MOMENTS.circumstances(),
        "MPyC": GRAM.peer_version(mpyc) if mpyc else "absent: set COLONNADE_MPYC_PYTHON",
        "diffprivlib": _installed(diffprivlib) if diffprivlib else f"absent: set {PEER}",
        "scikit-learn": version("scikit-learn"),
        "load": f"{os.getloadavg()[2]:.1f} over the last 15 minutes",
        "quick": quick,
        **({"measured anew": only} if only else {}),
        "seconds": round(time.time() - begin, 1),
    }
    report = load("functional_report", HERE / "report.py").as_markdown(result, published)
    print(report)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        (HERE / "README.md").write_text(report)
    return result


def verdicts(result: dict, bars: dict) -> dict[str, bool | None]:
    scores = result["regressions"]["adult"]["scores"]
    held = [name for name in scores if "colluder" in name or name == "one holder"]
    ratios = [min(one["ratio"].values()) for one in result["run_times"] if "ratio" in one]
    return {
        "adult": all(scores[name][e]["mean"] >= bar for name in held for e, bar in bars["logistic"].items()),
        "same law": all(p > 0.001 for p in result["regressions"]["adult"]["same_law"].values()),
        "run time": min(ratios) >= bars["run_time"] if ratios else None,
    }


def _installed(python: str) -> str:
    code = "import diffprivlib; print(diffprivlib.__version__)"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three runs, small wide data; keeps nothing")
    parser.add_argument("--only", choices=("run_times", "regressions", "wide"), help="measure one part anew")
    asked = parser.parse_args()
    run(asked.quick, asked.only)


if __name__ == "__main__":
    main()
