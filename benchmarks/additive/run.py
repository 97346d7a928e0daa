"""Additive models across parties, beside what a user could pick instead.

*Accuracy* on the fifth of the people left out, δ = 10⁻⁶, c = 1, four parties, sixteen bins of equal width between declared
bounds: area under the curve, Brier score and calibration error (ten bins). A run is a new split and a new draw, the same
split for all. *Additive* runs through the whole channel, by the plan that the library chooses from price and public facts:
weights of evidence on credit card default at ε = 0.1. *Central* is the same plan on plain numbers with the channel's noise.
*DP-EBM* is the explainable boosting machine with differential privacy of interpret-core, on pooled data, with the
public bounds that the parties declare, so that none of its price goes to finding them.

*Beside*: plain ``LogisticRegression`` through the channel; diffprivlib's logistic regression on pooled, coded rows at the
same ε and δ = 0; logistic regression and gradient boosting on pooled data without privacy.

*Time*: processor seconds of a fit through the channel, all parties in one process, for ``AdditiveClassifier`` and for
``LogisticRegression`` on the same bins, so of the same coded width.

*Intervals*: does the effect ± 1.96 standard errors (``stderr`` of ``shape_functions_``) cover the effect that the same people
give without noise, with the penalties that were found? The plan is run centrally. Only bins that the release determines are
counted. How errors are computed was settled before flights, diamonds and the additional bank marketing set were looked at.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import (
    Benchmark,
    Claim,
    Part,
    Plot,
    Results,
    Row,
    Sample,
    Table,
    above,
    below,
    better,
    data_file,
    faster,
)
from benchmarks.frame.claims import Test
from benchmarks.frame.peers import DIFFPRIVLIB, DP_EBM, Peer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score

import colonnade as cn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(1, str(HERE.parent / "newton"))  # its sets, by their bare names

from additive_central import DELTA, Central  # noqa: E402
from additive_coverage import covered  # noqa: E402
from additive_sets import FILES, SETS, Joined, binned  # noqa: E402

NAMES, FURTHER = ("adult", "bank", "credit"), ("flights", "diamonds", "bank_additional")
EPSILONS = (0.1, 1.0, 10.0)
LEAST = {("adult", 0.1): 0.868, ("adult", 1.0): 0.900, ("adult", 10.0): 0.910}
AHEAD, BEHIND = {"adult": 0.01}, -0.003
CALIBRATION_BINS = 10
DRAWS = 4
"""How many draws of the noise a run of the intervals has."""


@cache
def loaded(name: str) -> Joined:
    data_file(FILES[name])  # says so where it is missing
    return SETS[name]()


def figures(chance: np.ndarray, test: Joined) -> dict[str, float]:
    """Return how good predictions are."""
    chance, labels = np.clip(chance, 0.0, 1.0), test.labels
    bins = np.minimum((CALIBRATION_BINS * chance).astype(int), CALIBRATION_BINS - 1)
    apart = [abs(chance[bins == b].mean() - labels[bins == b].mean()) * np.mean(bins == b) for b in set(bins.tolist())]
    return {
        "auc": float(roc_auc_score(labels, chance)),
        "brier": float(brier_score_loss(labels, chance)),
        "calibration": float(sum(apart)),
    }


# Models -----------------------------------------------------------------------------------------------------------------------


def through_channel(kind: type, train: Joined, test: Joined, epsilon: float, run: int) -> np.ndarray:
    """Return chances of a study that is fitted through the whole channel."""
    with train.federation(budget=cn.Budget(epsilon=2 * epsilon, delta=DELTA)) as federation:
        model = kind(train.target, epsilon=epsilon, delta=DELTA).fit(federation, repeat=run)
    return model.predict_proba(test.frame)[:, 1]


def centrally(train: Joined, test: Joined, epsilon: float, run: int) -> np.ndarray:
    """Return chances of the additive plan on plain numbers."""
    found = Central(binned(train)).fit(epsilon, np.random.default_rng(run))
    return 1 / (1 + np.exp(-np.clip(binned(test).rows @ found.weights, -30, 30)))


def of_peer(peer: Peer, train: Joined, test: Joined, epsilons: tuple[float, ...]) -> list[np.ndarray]:
    """Return chances of a peer, which gets what the parties declare, at each ε."""
    numbers = {name: column for name, column in train.explaining.items() if isinstance(column, cn.Numeric)}
    with tempfile.TemporaryDirectory() as folder:
        for part, data in {"train": train, "test": test}.items():
            if peer is DP_EBM:
                data.frame[list(data.explaining)].to_csv(Path(folder, f"{part}.csv"), index=False)
            else:
                np.save(Path(folder, f"{part}.npy"), data.rows[:, 1:])
        found = peer.ask(
            HERE / "peer_models.py",
            model="boosting" if peer is DP_EBM else "regression",
            folder=folder,
            labels=train.labels.astype(int).tolist(),
            bounds={name: (column.low, column.high) for name, column in numbers.items()},
            # A coded row has a number in [−1, 1] per numeric column and at most one 1 per category.
            length=float(np.sqrt(len(train.explaining))),
            epsilons=epsilons,
            delta=DELTA,
        )
    return [np.array(one) for one in found]


def plain_regression(train: Joined, test: Joined) -> np.ndarray:
    """Return chances of a logistic regression without privacy."""
    model = LogisticRegression(C=100.0, max_iter=2000).fit(train.rows[:, 1:], train.labels)
    return model.predict_proba(test.rows[:, 1:])[:, 1]


def plain_boosting(train: Joined, test: Joined) -> np.ndarray:
    """Return chances of gradient boosting without privacy."""
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    return model.fit(_typed(train), train.labels).predict_proba(_typed(test))[:, 1]


def _typed(data: Joined) -> pd.DataFrame:
    levels = {name: column.levels for name, column in data.explaining.items() if isinstance(column, cn.Category)}
    frame = data.frame[list(data.explaining)]
    return frame.assign(**{name: pd.Categorical(frame[name], categories=levels[name]) for name in levels})


# Parts ------------------------------------------------------------------------------------------------------------------------


def accuracy(run: int, set: str, epsilon: float | None = None) -> Iterator[Row]:  # noqa: A002  # the label on the page
    """The peer fits all ε in a process of its own, meanwhile."""
    train, test = loaded(set).split(run)
    epsilons = EPSILONS if epsilon is None else (epsilon,)

    def row(epsilon: float, method: str, chance: np.ndarray) -> Row:
        return Row({"set": set, "epsilon": epsilon, "method": method}, figures(chance, test))

    with ThreadPoolExecutor(1) as beside_us:
        peer = beside_us.submit(of_peer, DP_EBM, train, test, epsilons)
        for one in epsilons:
            yield row(one, "additive", through_channel(cn.AdditiveClassifier, train, test, one, run))
            yield row(one, "central", centrally(train, test, one, run))
        for one, chance in zip(epsilons, peer.result(), strict=True):
            yield row(one, "DP-EBM", chance)


def beside(run: int, set: str) -> Iterator[Row]:  # noqa: A002
    train, test = loaded(set).split(run)

    def row(method: str, epsilon: float | str, chance: np.ndarray) -> Row:
        return Row({"set": set, "epsilon": epsilon, "method": method}, figures(chance, test))

    yield row("regression, no privacy", "none", plain_regression(train, test))
    yield row("boosting, no privacy", "none", plain_boosting(train, test))
    for epsilon in EPSILONS:
        chance = through_channel(cn.LogisticRegression, train, test, epsilon, run)
        yield row("LogisticRegression", epsilon, chance)
    for epsilon, chance in zip(EPSILONS, of_peer(DIFFPRIVLIB, train, test, EPSILONS), strict=True):
        yield row("diffprivlib", epsilon, chance)


def seconds(run: int, set: str) -> Iterator[Row]:  # noqa: A002
    train = loaded(set).split(run)[0]
    bins = {name: column for name, column in binned(train).columns.items() if column != train.columns[name]}
    for kind in (cn.AdditiveClassifier, cn.LogisticRegression):
        with train.federation(budget=cn.Budget(epsilon=2.0, delta=DELTA)) as federation:
            begin = time.process_time()
            kind(train.target, epsilon=1.0, delta=DELTA).fit(federation.read_as(bins), repeat=run)
            yield Row({"set": set, "study": kind.__name__}, {"seconds": time.process_time() - begin})


def intervals(run: int, set: str, epsilon: float) -> Iterator[Row]:  # noqa: A002
    data = binned(loaded(set)).split()[0]
    central = Central(data)
    found = [covered(data, central.fit(epsilon, np.random.default_rng([run, draw]))) for draw in range(DRAWS)]
    inside, called = np.sum(found, axis=0)
    share = called / (DRAWS * (data.rows.shape[1] - 1))
    yield Row({"set": set, "epsilon": epsilon}, {"covered": inside, "determined": called, "share": share})


# Claims -----------------------------------------------------------------------------------------------------------------------


def ahead(found: Results, name: str, epsilon: float) -> Iterator[Test]:
    ours, theirs = (
        found.sample("accuracy", "auc", set=name, epsilon=epsilon, method=m) for m in ("additive", "DP-EBM")
    )
    yield better(ours, theirs, AHEAD.get(name, BEHIND))


def coverage(found: Results, names: tuple[str, ...]) -> Iterator[Test]:
    rows = [samples for labels, samples in found.rows("intervals") if labels["set"] in names]
    runs = min((samples["covered"].runs for samples in rows), default=0)
    sums = lambda value, run: sum(samples[value].values[run] for samples in rows)  # noqa: E731
    if runs:
        pooled = Sample(tuple(sums("covered", run) / max(sums("determined", run), 1) for run in range(runs)))
        yield above(pooled, 0.93)
        yield below(pooled, 0.98)


CLAIMS = [
    *(
        Claim(
            f"{name}, ε = {epsilon:g}: area under the curve of additive against DP-EBM on pooled data, by pairs",
            f"ahead by at least {AHEAD.get(name, BEHIND):+g}",
            lambda found, name=name, epsilon=epsilon: ahead(found, name, epsilon),
            "the issue",
        )
        for name in NAMES
        for epsilon in EPSILONS
    ),
    *(
        Claim(
            f"{name}, ε = {epsilon:g}: area under the curve of additive",
            f"at least {bar:g}",
            lambda found, name=name, epsilon=epsilon, bar=bar: [
                above(found.sample("accuracy", "auc", set=name, epsilon=epsilon, method="additive"), bar)
            ],
            "the issue",
        )
        for (name, epsilon), bar in LEAST.items()
    ),
    *(
        Claim(
            f"intervals of determined bins cover, {words} together",
            "93 to 98 %",
            lambda found, names=names: coverage(found, names),
            "the issue",
        )
        for words, names in {"the three sets": NAMES, "the further sets": FURTHER}.items()
    ),
    Claim(
        "a fit takes at most twice as long as LogisticRegression on the same bins",
        "at most 2 ×",
        lambda found: [
            faster(
                *(
                    found.sample("time", "seconds", set=s, study=k)
                    for k in ("AdditiveClassifier", "LogisticRegression")
                ),
                0.5,
            )
            for s in found.labels("time", "set")
        ],
        "the issue",
    ),
]
WHERE = {"set": "set", "epsilon": "ε"}
FIGURES = {"auc": "Area under the curve", "brier": "Brier score", "calibration": "Calibration error"}
ROLES = {
    "additive": "ours",
    "central": "central",
    "DP-EBM": "peer",
    "LogisticRegression": "ours",
    "diffprivlib": "peer",
    "regression, no privacy": "plain",
    "boosting, no privacy": "plain",
}
BENCHMARK = Benchmark(
    name="additive",
    title="Additive models",
    about=__doc__ or "",
    packages=("numpy", "scikit-learn"),
    parts=[
        Part(
            "accuracy", accuracy, [{"set": name} for name in NAMES], 20, 20.0, quick=[{"set": "bank", "epsilon": 1.0}]
        ),
        Part("beside", beside, [{"set": name} for name in NAMES], 3, 4.0),
        Part("time", seconds, [{"set": "bank"}], 3, 1.0, machine=frozenset({"seconds"})),
        Part(
            "intervals",
            intervals,
            [{"set": name, "epsilon": epsilon} for name in (*NAMES, *FURTHER) for epsilon in EPSILONS],
            3,
            6.0,
            quick=[{"set": "diamonds", "epsilon": 1.0}],
        ),
    ],
    shown=[
        "## Accuracy",
        Plot("auc", "accuracy", "auc", "epsilon", "method", "Additive models: AUC", "AUC", panel="set"),
        *(
            Table(
                "accuracy",
                {value: words},
                WHERE,
                across="method",
                words=f"{words}.",
                roles=ROLES,
                higher=value == "auc",
            )
            for value, words in FIGURES.items()
        ),
        "## Beside",
        *(
            Table(
                "beside", {value: words}, WHERE, across="method", words=f"{words}.", roles=ROLES, higher=value == "auc"
            )
            for value, words in FIGURES.items()
        ),
        "## Time",
        Table(
            "time",
            {"seconds": "seconds"},
            {"set": "set"},
            across="study",
            words="Processor seconds of a fit.",
            digits=3,
        ),
        "## Intervals",
        Table(
            "intervals",
            {"covered": "covered", "determined": "of determined bins", "share": "share of bins that are determined"},
            WHERE,
            words=f"{DRAWS} draws per run, added up.",
            digits=3,
        ),
    ],
    claims=CLAIMS,
)
