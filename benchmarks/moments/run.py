"""Regression and contingency tables from one noisy matrix, through the secure channel, on Adult and King County houses.

*Logistic regression.* Adult, four parties, 80/20 splits, δ = 1/n: accuracy on the rows left out, beside the functional
mechanism and noisy gradients of the paper ([Functional mechanism across parties](../../docs/references.md#functional), Table
III, whose figures are for δ = 0). Every fit is a study of a federation of its own: sharing, sealing, multiplying, opening.
diffprivlib's logistic regression and differentially private explainable boosting (`interpret-core`) get the pooled rows, the
declared bounds and the same ε (diffprivlib δ = 0, boosting δ = 1/n); scikit-learn has no privacy.

*Contingency tables.* Adult, ε = 0.1 per person: the ℓ1 error of ``PatternCount(method="secure")``, in people over people,
beside that of ``method="response"``, which trusts no peer, and of OpenDP's discrete Laplace noise on the pooled table. With
three parties `secure` is a fit to pairs, and its error includes what the pairs do not show.

*Linear regression.* R² on the rows left out, beside other ways to solve with an indefinite noisy matrix, all from the same
releases: a ridge, a floor under the eigenvalues, a shift of them, AdaSSP's ridge.
"""

import math
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Claim, Part, Plot, Results, Row, Table, Unavailable, above, data_file, faster
from benchmarks.frame.claims import Test
from benchmarks.frame.peers import DIFFPRIVLIB, DP_EBM
from benchmarks.frame.public import PublicData, adult, kc_house
from sklearn.linear_model import LinearRegression, LogisticRegression

import colonnade as cn
from colonnade.estimation.moments import Moments
from colonnade.estimators.frames import design_matrix
from colonnade.schema import coefficients_to_own_units, features_of

HERE = Path(__file__).parent
PUBLISHED = tomllib.loads((HERE / "published.toml").read_text())
SEED = 20_000
ALMOST_FREE = 5_000.0
TABLES = (
    ("registry.marital-status", "employer.occupation"),
    ("registry.relationship", "tax.income"),
    ("school.education", "employer.workclass"),
    ("registry.sex", "employer.workclass", "tax.income"),
)
EPSILONS = PUBLISHED["logistic"]["epsilons"]


@cache
def loaded(name: str) -> PublicData:
    return adult(data_file("adult")) if name == "Adult" else kc_house(data_file("kc_house"))


def split(data: PublicData, run: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A public 80/20 split of the rows."""
    cut, order = int(0.8 * len(data.frame)), np.random.default_rng(SEED + run).permutation(len(data.frame))
    return data.frame.iloc[order[:cut]], data.frame.iloc[order[cut:]]


def federation(data: PublicData, frame: pd.DataFrame) -> cn.Federation:
    parties = {name: cn.Party(frame[["person", *schema]], schema=schema) for name, schema in data.schemas.items()}
    return cn.Federation.simulate(parties, id="person", budget=cn.Budget(epsilon=1e4, delta=1 / len(data.frame)))


def named(data: PublicData, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the federation's column names."""
    return pd.DataFrame({f"{p}.{c}": frame[c] for p, schema in data.schemas.items() for c in schema})


# What is measured -----------------------------------------------------------------------------------------------------------


def logistic(run: int, method: str) -> Iterator[Row]:
    data = loaded("Adult")
    train, test = split(data, run)
    delta, rows = 1 / len(data.frame), named(data, test)

    def row(epsilon: float | str, accuracy: float, name: str = method) -> Row:
        return Row({"epsilon": epsilon, "method": name}, {"accuracy": accuracy})

    if method == "secure":
        with federation(data, train) as parties:
            for epsilon in (*EPSILONS, ALMOST_FREE):
                model = cn.LogisticRegression(data.target, method="secure", epsilon=epsilon, delta=delta).fit(parties)
                score = model.score(rows, rows[data.target])
                yield (
                    row("none", score, "surrogate, almost no noise") if epsilon == ALMOST_FREE else row(epsilon, score)
                )
    elif method == "scikit-learn":
        held, left, labels, truth = _coded(data, train, test)
        yield row("none", float(LogisticRegression(max_iter=3_000, C=10).fit(held, labels).score(left, truth)))
    elif method == "diffprivlib":
        held, left, labels, truth = _coded(data, train, test)
        bound = math.sqrt(sum(len(schema) for schema in data.schemas.values()) - 1)
        asked = {"train": held.tolist(), "labels": labels.tolist(), "test": left.tolist(), "truth": truth.tolist()}
        found = DIFFPRIVLIB.ask(HERE / "diffprivlib_logistic.py", epsilons=EPSILONS, bound=bound, **asked)
        yield from (row(epsilon, one) for epsilon, one in zip(EPSILONS, found, strict=True))
    else:
        columns = {name: column for schema in data.schemas.values() for name, column in schema.items()}
        target = data.target.partition(".")[2]
        positive = columns.pop(target).levels[1]
        numbers = {name: (one.low, one.high) for name, one in columns.items() if isinstance(one, cn.Numeric)}
        asked = {
            name: {column: frame[column].tolist() for column in columns}
            | {"": (frame[target] == positive).astype(int).tolist()}
            for name, frame in (("train", train), ("test", test))
        }
        found = DP_EBM.ask(HERE / "boosting.py", epsilons=EPSILONS, delta=delta, numbers=numbers, **asked)
        yield from (row(epsilon, one) for epsilon, one in zip(EPSILONS, found, strict=True))


def _coded(data: PublicData, *frames: pd.DataFrame) -> tuple[np.ndarray, ...]:
    """Coded rows of several frames, then their labels."""
    columns = {f"{p}.{c}": column for p, schema in data.schemas.items() for c, column in schema.items()}
    positive = columns.pop(data.target).levels[1]
    features, target = features_of(columns)[1:], data.target.partition(".")[2]
    coded = [design_matrix(named(data, frame), features, columns, coded=True) for frame in frames]
    return (*coded, *((frame[target] == positive).to_numpy(int) for frame in frames))


def tables(run: int, columns: str) -> Iterator[Row]:
    data, names = loaded("Adult"), columns.split(" × ")
    frame, epsilon = named(data, data.frame), PUBLISHED["tables"]["epsilon"]
    levels = {
        f"{party}.{name}": one.levels for party, schema in data.schemas.items() for name, one in schema.items()
        if isinstance(one, cn.Category)
    }  # fmt: skip
    index = pd.MultiIndex.from_product([levels[name] for name in names], names=names)
    truth = frame.groupby(names, observed=False).size().reindex(index, fill_value=0)
    labels = {"columns": columns, "cells": len(truth), "parties": len({name.partition(".")[0] for name in names})}
    found = {"OpenDP, central": _opendp(truth, epsilon)}
    with federation(data, data.frame) as parties:
        for method in ("secure", "response"):
            found[method] = cn.PatternCount(names, method=method, epsilon=epsilon).fit(parties, repeat=run).counts_
    for method, counts in found.items():
        yield Row({**labels, "method": method}, {"error": float(np.abs(counts - truth).sum() / len(frame))})


def _opendp(truth: pd.Series, epsilon: float) -> np.ndarray:
    """One curator's noisy table: one person changes one count by one, nothing is clipped."""
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError as missing:
        raise Unavailable("OpenDP is not installed: pip install colonnade[bench]") from missing
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return np.array(dp.m.make_laplace(*space, float(1 / Fraction(str(epsilon))))(truth.tolist()))


def linear(run: int, set: str, target: str) -> Iterator[Row]:  # noqa: A002  # the label on the page
    """R² by rule and ε; every rule sees the same releases."""
    data = loaded(set)
    train, test = split(data, run)
    rows, held = named(data, test), named(data, train)
    labels = {"set": set, "target": target}
    with federation(data, train) as parties:
        columns = {name: column for name, column in parties.describe().items() if name != target}
        bounds = parties.column(target)[2]
        truth = rows[target].clip(bounds.low, bounds.high)
        features = features_of(columns)[1:]
        code = lambda frame: design_matrix(frame, features, columns, coded=False)  # noqa: E731
        plain = float(LinearRegression().fit(code(held), held[target]).score(code(rows), truth))
        yield Row({**labels, "epsilon": "none", "rule": "scikit-learn"}, {"R²": plain})
        for epsilon in EPSILONS:
            release = parties.moments(epsilon=epsilon, delta=1 / len(data.frame))
            ours = cn.LinearRegression(target).fit(release).score(rows, truth)
            yield Row({**labels, "epsilon": epsilon, "rule": "ours"}, {"R²": ours})
            for rule, coefficients, intercept in rivals(release.moments, target):
                share = float(np.mean((truth - (code(rows) @ coefficients + intercept)) ** 2) / np.var(truth))
                yield Row({**labels, "epsilon": epsilon, "rule": rule}, {"R²": 1 - share})


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


# Claims -----------------------------------------------------------------------------------------------------------------------


def _bars(found: Results) -> Iterator[Test]:
    for epsilon, bar in zip(EPSILONS, PUBLISHED["logistic"]["bars"], strict=True):
        yield above(found.sample("logistic", "accuracy", method="secure", epsilon=epsilon), bar)


def _published(name: str) -> Claim:
    figures = PUBLISHED["logistic"][name]

    def tests(found: Results) -> Iterator[Test]:
        for epsilon, theirs in zip(EPSILONS, figures, strict=True):
            yield above(found.sample("logistic", "accuracy", method="secure", epsilon=epsilon), theirs)

    words = f"logistic regression on Adult: at least the published {name.replace('_', ' ')} at every ε"
    return Claim(words, ", ".join(f"{one:.4f}" for one in figures), tests, "Table III")


CLAIMS = [
    _published("functional_mechanism"),
    _published("noisy_gradients"),
    Claim(
        "logistic regression on Adult at ε of 0.1, 1 and 10",
        ", ".join(f"{bar:g}" for bar in PUBLISHED["logistic"]["bars"]),
        _bars,
        "our bars",
    ),
    Claim(
        "contingency tables: response's error over secure's",
        f"at least {PUBLISHED['tables']['bar']:g} ×",
        lambda found: [
            faster(
                *(found.sample("tables", "error", columns=" × ".join(t), method=m) for m in ("secure", "response")),
                PUBLISHED["tables"]["bar"],
            )
            for t in TABLES
        ],
        "our bar",
    ),
]
LOGISTIC = [{"method": method} for method in ("secure", "scikit-learn", "diffprivlib", "DP-EBM")]
BENCHMARK = Benchmark(
    name="moments",
    title=(
        "Regression and tables from one noisy matrix "
        "([Functional mechanism across parties](../../docs/references.md#functional), Table III; beyond it)"
    ),
    about=__doc__ or "",
    packages=("numpy", "scikit-learn", "opendp"),
    parts=[
        Part("logistic", logistic, LOGISTIC, 10, 3.0, quick=LOGISTIC),
        Part("tables", tables, [{"columns": " × ".join(one)} for one in TABLES], 10, 0.5),
        Part(
            "linear",
            linear,
            [
                {"set": "King County houses", "target": "agent.price"},
                {"set": "Adult", "target": "registry.age"},
            ],
            10,
            2.0,
        ),
    ],
    shown=[
        "## Logistic regression on Adult",
        Plot(
            "logistic",
            "logistic",
            "accuracy",
            "epsilon",
            "method",
            "Logistic regression on Adult: accuracy",
            "accuracy",
        ),
        Table(
            "logistic",
            {"accuracy": "accuracy"},
            {"epsilon": "ε"},
            across="method",
            words="ε = none is without privacy; there our surrogate has ε = 5,000.",
            roles={"secure": "ours", "diffprivlib": "peer", "DP-EBM": "peer", "scikit-learn": "plain"},
            higher=True,
        ),
        "## Contingency tables on Adult",
        Table(
            "tables",
            {"error": "ℓ1 error over people"},
            {"columns": "table", "cells": "cells", "parties": "parties"},
            across="method",
            words="ε = 0.1 per person, δ = 0; ℓ1 error over the number of people.",
            roles={"secure": "ours", "OpenDP, central": "central", "response": "peer"},
            higher=False,
        ),
        "## Linear regression",
        Plot("linear", "linear", "R²", "epsilon", "rule", "Linear regression: R²", "R²", panel="set"),
        Table(
            "linear",
            {"R²": "R²"},
            {"set": "set", "target": "target", "epsilon": "ε"},
            across="rule",
            roles={"ours": "ours", "AdaSSP": "peer", "ridge σ√d": "peer", "scikit-learn": "plain"},
            higher=True,
        ),
    ],
    claims=CLAIMS,
)
