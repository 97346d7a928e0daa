"""Synthetic tables: train on synthetic rows, test on real ones.

Four parties hold the columns. Four fifths of the people are fitted on, at δ = 10⁻⁵ and c = 1. As many rows are drawn.
scikit-learn's histogram boosting is trained on them and tested on the real rows left out (*AUC*), in the columns' own units.
*TVD* is the total variation distance between the tables of two columns, of the real rows fitted on and of the synthetic ones,
on the model's bins: the mean over all pairs. A run is another division of the people and another draw of the noise. *Central*
is the same plan on the pooled table with the channel's noise; *central MST* and *independent columns* are in ``central.py``.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Claim, Part, Plot, Row, Table, Unavailable, above, below
from benchmarks.synthetic import central
from benchmarks.synthetic.synthetic_sets import BINS, SETS, DataSet
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.estimation.table_model import TableModel
from colonnade.schema import features_of
from colonnade.schema.encoders import values_of

DELTA = 1e-5
EPSILONS = (1.0, 0.1)
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


@cache
def loaded(name: str) -> DataSet:
    return SETS[name]()


def drawn_rows(
    run: int,
    set: str,  # noqa: A002  # the page's label
    people: int | None = None,
    smallest: float = 0.0,
) -> Iterator[Row]:
    """One division of the people, or of so many of them: every method at every ε that is not smaller than one."""
    try:
        from colonnade.estimation import table_model
    except ModuleNotFoundError as missing:
        raise Unavailable("mbi is not installed: pip install colonnade[synthetic]") from missing
    data = loaded(set)
    data = replace(data, rows=data.rows.head(people))
    trial = Trial(data, run)

    def row(method: str, epsilon: float | str, drawn: pd.DataFrame, **more: float) -> Row:
        return Row({"set": set, "method": method, "epsilon": epsilon}, {**trial.measured(drawn), **more})

    real = trial.train.rename(columns={name.partition(".")[2]: name for name in trial.columns})
    yield row("real rows", "none", real[trial.columns])
    sizes = {name: column.size for name, column in trial.levels.items()}
    with data.federation(trial.train) as federation:
        for epsilon in (one for one in EPSILONS if one >= smallest):
            rng = np.random.default_rng([run, int(1_000 * epsilon)])
            study = cn.SyntheticTable(epsilon=epsilon, delta=DELTA, bins=BINS)
            study.fit(federation)
            drawn = study.sample(random_state=run)
            yield row("channel", epsilon, drawn[trial.columns], estimated=1 - study.quality().pair_trends)
            release = federation.read_as(study.schema_).moments(epsilon=epsilon, delta=DELTA).moments
            assert features_of(trial.levels) == release.features
            tables = central.noisy_tables(trial.codes, trial.levels, release.variance, rng)
            yield row("central", epsilon, trial.rows(table_model.fitted_model(tables)))
            yield row("independent columns", epsilon, trial.rows(central.independent(tables)))
            tree = central.mst(trial.codes, sizes, central.zcdp(epsilon, DELTA), rng)
            yield row("central MST", epsilon, trial.values(tree))


def time_of(run: int, epsilon: float, people: int | None = None) -> Iterator[Row]:
    """Time a fit and a draw of Adult."""
    data = loaded("adult")
    rows, _ = replace(data, rows=data.rows.head(people)).halves(run)
    with data.federation(rows) as federation:
        start = time.perf_counter()
        cn.SyntheticTable(epsilon=epsilon, delta=DELTA, bins=BINS).fit(federation).sample(random_state=run)
        yield Row({"epsilon": epsilon}, {"seconds": time.perf_counter() - start})


def _bar(epsilon: float, figure: str, bar: float) -> Claim:
    test = above if figure == "auc" else below
    words = {"auc": "AUC", "tvd": "TVD", "seconds": "seconds to fit and draw"}[figure]
    labels = {} if figure == "seconds" else {"method": "channel"}
    part = "time" if figure == "seconds" else "adult"
    return Claim(
        f"Adult, ε = {epsilon:g}: {words}",
        f"at {'least' if figure == 'auc' else 'most'} {bar:g}",
        lambda found: [test(found.sample(part, figure, epsilon=epsilon, **labels), bar)],
        "the issue",
    )


ROLES = {"real rows": "plain", "channel": "ours", "central": "central", "central MST": "peer"}
WHERE = {"set": "set", "epsilon": "ε"}
FEW = {"people": 20_000, "smallest": 1.0}
"""A short run: at a smaller ε so few people do not stand out of the noise."""
OTHERS = [{"set": name} for name in SETS if name != "adult"]
BENCHMARK = Benchmark(
    name="synthetic",
    title="Synthetic tables",
    about=__doc__ or "",
    packages=("numpy", "scikit-learn", "mbi"),
    parts=[
        Part("adult", drawn_rows, [{"set": "adult"}], 3, 5.0, quick=[{"set": "adult", **FEW}]),
        Part("other sets", drawn_rows, OTHERS, 2, 8.0, quick=[{**OTHERS[0], **FEW}]),
        Part(
            "time",
            time_of,
            [{"epsilon": 1.0}],
            2,
            1.5,
            quick=[{"epsilon": 1.0, "people": 20_000}],
            machine=frozenset({"seconds"}),
        ),
    ],
    shown=[
        Plot("auc", "adult", "auc", "epsilon", "method", "Synthetic tables of Adult: AUC on real rows", "AUC"),
        *(
            table
            for part in ("adult", "other sets")
            for table in (
                Table(
                    part, {"auc": "AUC"}, WHERE, across="method", words="AUC on real rows.", roles=ROLES, higher=True
                ),
                Table(
                    part,
                    {"tvd": "TVD"},
                    WHERE,
                    across="method",
                    words="Mean total variation distance.",
                    roles=ROLES,
                    higher=False,
                ),
                Table(
                    part,
                    {"tvd": "TVD", "estimated": "TVD as `quality()` estimates it"},
                    WHERE,
                    where={"method": "channel"},
                    words="Ours.",
                ),
            )
        ),
        Table("time", {"seconds": "seconds"}, {"epsilon": "ε"}, words="A fit and a draw of Adult.", digits=3),
    ],
    claims=[_bar(epsilon, figure, bar) for epsilon, bars in BARS.items() for figure, bar in bars.items()],
)
