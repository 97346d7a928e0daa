"""Synthetic tables: train on synthetic rows, test on real ones.

    python benchmarks/synthetic/run.py [--sets adult ...] [--seeds 5] [--epsilons 1 0.1]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout.

Four parties hold the columns. Four fifths of the people are fitted on, at δ = 10⁻⁵ and c = 1. As many rows are drawn.
scikit-learn's histogram boosting is trained on them and tested on the real rows left out (*AUC*), in the columns' own units.
*TVD* is the total variation distance between the tables of two columns, of the real rows fitted on and of the synthetic ones, on
the model's bins: the mean over all pairs. A seed is another division of the people and another draw of the noise.
"""

import argparse
import json
import platform
import sys
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.coding.columns import features_of
from colonnade.estimation import private_pgm
from colonnade.estimation.synthetic_rows import values_of
from colonnade.estimation.table_model import TableModel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # a benchmark is a script, also where it is loaded by another

import central  # noqa: E402
from synthetic_sets import BINS, SETS, DataSet  # noqa: E402

DELTA = 1e-5
BARS = {1.0: {"auc": 0.895, "tvd": 0.026, "seconds": 60.0}, 0.1: {"auc": 0.81}}


class Trial:
    """One division of the people of one data set."""

    def __init__(self, data: DataSet, seed: int) -> None:
        self.data, self.seed = data, seed
        self.train, self.test = data.halves(seed)
        self.columns = [f"{party}.{name}" for name, party in data.owner().items()]
        self.target = next(name for name in self.columns if name.partition(".")[2] == data.target)
        self.levels = {f"{data.owner()[name]}.{name}": _read(column) for name, column in data.columns.items()}
        self.codes = self._coded(self.train)

    def _coded(self, rows: pd.DataFrame) -> pd.DataFrame:
        plain = rows.rename(columns={name.partition(".")[2]: name for name in self.columns})
        return pd.DataFrame({name: _codes(plain[name], column) for name, column in self.levels.items()})

    def values(self, codes: pd.DataFrame) -> pd.DataFrame:
        """Return rows of levels in the columns' own units."""
        rng = np.random.default_rng(self.seed)
        found = {
            name: values_of(column, codes[name].to_numpy(), rng.random(len(codes)))
            for name, column in self.levels.items()
        }
        return pd.DataFrame(found)

    def rows(self, model: TableModel) -> pd.DataFrame:
        """Return as many rows of a model as it was fitted on, in own units."""
        rng = np.random.default_rng(self.seed)
        return self.values(pd.DataFrame(model.draw(len(self.train), lambda _, count: rng.random(count))))

    def measured(self, drawn: pd.DataFrame) -> dict[str, float]:
        """Return how good drawn rows are, in own units and by their own names."""
        return {"auc": self._auc(drawn), "tvd": self._tvd(self._coded(drawn.rename(columns=_own)))}

    def _auc(self, drawn: pd.DataFrame) -> float:
        real = self.test.rename(columns={name.partition(".")[2]: name for name in self.columns})
        model = HistGradientBoostingClassifier(random_state=self.seed)
        model.fit(self._features(drawn), drawn[self.target] == self.data.positive)
        chances = model.predict_proba(self._features(real))
        return float(roc_auc_score(real[self.target] == self.data.positive, chances[:, -1]))

    def _features(self, rows: pd.DataFrame) -> np.ndarray:
        numbers = []
        for name in self.columns:
            if name == self.target:
                continue
            column = self.levels[name]
            binned = isinstance(column, cn.schema.Bins)
            numbers.append(rows[name].to_numpy(float) if binned else _codes(rows[name], column))
        return np.column_stack(numbers)

    def _tvd(self, codes: pd.DataFrame) -> float:
        distances = []
        for one, other in combinations(self.columns, 2):
            shape = self.levels[one].size, self.levels[other].size
            tables = [
                np.bincount(
                    np.ravel_multi_index((rows[one].to_numpy(), rows[other].to_numpy()), shape),
                    minlength=shape[0] * shape[1],
                )
                / len(rows)
                for rows in (self.codes, codes)
            ]
            distances.append(np.abs(tables[0] - tables[1]).sum() / 2)
        return float(np.mean(distances))


def _own(name: str) -> str:
    return name.partition(".")[2]


def _read(column: cn.Numeric | cn.Category) -> cn.Category:
    return cn.schema.Bins.equal(column, BINS) if isinstance(column, cn.Numeric) else column


def _codes(values: pd.Series, column: cn.Category) -> np.ndarray:
    if isinstance(column, cn.schema.Bins):
        clipped = np.clip(values.to_numpy(float), column.of.low, column.of.high)
        return np.digitize(clipped, column.inner)
    place = {level: number for number, level in enumerate(column.levels)}
    return np.array([place.get(value, column.missing_code) for value in values.tolist()])


def trial_figures(data: DataSet, seed: int, epsilons: list[float]) -> list[dict[str, object]]:
    """Return one row per method and ε, of one division of the people."""
    trial, found = Trial(data, seed), []

    def add(method: str, epsilon: float | None, drawn: pd.DataFrame, seconds: float = 0.0, **more: object) -> None:
        row = {"data": data.name, "seed": seed, "method": method, "epsilon": epsilon, "seconds": seconds}
        found.append({**row, **trial.measured(drawn), **more})
        print({name: round(one, 4) if isinstance(one, float) else one for name, one in found[-1].items()}, flush=True)

    real = trial.train.rename(columns={name.partition(".")[2]: name for name in trial.columns})
    add("real rows", None, real[trial.columns])
    sizes = {name: column.size for name, column in trial.levels.items()}
    with data.federation(trial.train) as federation:
        for epsilon in epsilons:
            rng = np.random.default_rng([seed, int(1_000 * epsilon)])
            study = cn.SyntheticTable(epsilon=epsilon, delta=DELTA, bins=BINS)
            start = time.perf_counter()
            study.fit(federation)
            drawn = study.sample(random_state=seed)
            took = time.perf_counter() - start
            free = study.quality().pair_trends
            add("channel", epsilon, drawn[trial.columns], took, estimated_tvd=1 - free, pairs=len(study.pairs_))
            release = (
                federation.read_as(study.schema_).moments(epsilon=epsilon, delta=DELTA).moments
            )  # the same release
            assert features_of(trial.levels) == release.features
            tables = central.noisy_tables(trial.codes, trial.levels, release.variance, rng)
            start = time.perf_counter()
            model = private_pgm.fitted_model(tables)
            add("central", epsilon, trial.rows(model), time.perf_counter() - start)
            add("independent columns", epsilon, trial.rows(central.independent(tables)))
            start = time.perf_counter()
            tree = central.mst(trial.codes, sizes, central.zcdp(epsilon, DELTA), rng)
            add("central MST", epsilon, trial.values(tree), time.perf_counter() - start)
    return found


def main() -> None:
    """Run, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 0.1])
    options = parser.parse_args()
    warnings.simplefilter("ignore", cn.TemporaryLedgers)
    for name in options.sets:
        data = SETS[name]()
        rows: list[dict[str, object]] = []
        for seed in range(options.seeds):
            rows += trial_figures(data, seed, options.epsilons)
            _keep(name, rows)
        frame = pd.DataFrame(rows)
        means = frame.groupby(["method", "epsilon"], dropna=False)[["auc", "tvd", "seconds", "estimated_tvd"]].mean()
        print(means.round(4).to_string())
        if name == "adult":
            _print_bars(means)


def _keep(name: str, rows: list[dict[str, object]]) -> None:
    """Write what was measured so far."""
    records = json.loads(pd.DataFrame(rows).to_json(orient="records", double_precision=6))
    lines = ",\n".join(json.dumps(one) for one in records)
    text = f'{{"python": "{platform.python_version()}", "rows": [\n{lines}\n]}}\n'
    (HERE / "results" / f"{name}.json").write_text(text, encoding="utf-8")


def _print_bars(means: pd.DataFrame) -> None:
    for epsilon, bars in BARS.items():
        for figure, bar in bars.items():
            if ("channel", epsilon) in means.index:
                value = float(means.loc[("channel", epsilon), figure])
                met = value >= bar if figure == "auc" else value <= bar
                print(f"ε = {epsilon:g}: {figure} {value:.4f}, bar {bar:g}: {'met' if met else 'NOT MET'}")


if __name__ == "__main__":
    main()
