"""Every estimator over a network, and its figures: for tests that disturb studies, and for the coordinator that they kill."""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.errors import ColonnadeError
from tests.federations import SCHEMAS as THREE
from tests.federations import frames

WHOLE = cn.Numeric(0, 10, integer=True)
SCHEMAS = {
    **THREE,
    "bank": cn.Schema({**THREE["bank"], "visits": WHOLE}),
    "telco": cn.Schema({**THREE["telco"], "calls": WHOLE}),
}
NUMBERS = ["bank.age", "telco.bill"]
COUNTED = ["bank.segment", "telco.plan"]
PRICE: dict[str, Any] = {"epsilon": 30.0, "delta": 1e-6}
"""So much that figures hardly move. Shares that do not belong together add up to figures that are nowhere near."""

STUDIES: dict[str, Callable[[], Any]] = {
    "PatternCount": lambda: cn.PatternCount(COUNTED, epsilon=30.0),
    "PatternCount by responses": lambda: cn.PatternCount(COUNTED, method="response", epsilon=30.0),
    "Describe": lambda: cn.Describe([*NUMBERS, *COUNTED], epsilon=30.0),
    "Histogram": lambda: cn.Histogram("bank.age", bins=4, epsilon=30.0),
    "Quantiles": lambda: cn.Quantiles("bank.age", [0.25, 0.5, 0.75], epsilon=30.0),
    "GroupBy": lambda: cn.GroupBy(["bank.segment"], ["telco.bill"], **PRICE),
    "GroupBy of three": lambda: cn.GroupBy([*COUNTED, "insurer.product"], ["telco.bill"], **PRICE),
    "Correlation": lambda: cn.Correlation(NUMBERS, **PRICE),
    "Moment": lambda: cn.Moment(["bank.visits", "telco.calls"], 2, **PRICE),
    "PCA": lambda: cn.PCA(1, columns=NUMBERS, **PRICE),
    "PCA by sketches": lambda: cn.PCA(1, columns=NUMBERS, method="sketch", **PRICE),
    "PCA by each party": lambda: cn.PCA(1, columns=NUMBERS, method="local", **PRICE),
    "LinearRegression": lambda: cn.LinearRegression("telco.bill", columns=["bank.age"], **PRICE),
    "LinearRegression by coefficients": lambda: cn.LinearRegression(
        "telco.bill", columns=["bank.age"], method="functional", epsilon=30.0
    ),
    "LogisticRegression": lambda: cn.LogisticRegression("bank.default", columns=NUMBERS, **PRICE),
    "LogisticRegression in one step": lambda: cn.LogisticRegression(
        "bank.default", columns=NUMBERS, method="secure", **PRICE
    ),
    "LogisticRegression by steps": lambda: cn.LogisticRegression(
        "bank.default", columns=["telco.bill"], method=cn.methods.Gradient(steps=4, rate=0.5), **PRICE
    ),
    "KMeans": lambda: cn.KMeans(2, columns=NUMBERS, **PRICE),
    "KMeans by sketches": lambda: cn.KMeans(2, columns=NUMBERS, method="sketch", n_local_clusters=2, **PRICE),
    "KMeans by responses": lambda: cn.KMeans(2, columns=NUMBERS, method="response", n_local_clusters=2, **PRICE),
    "KMeans by each party": lambda: cn.KMeans(2, columns=NUMBERS, method="independent", n_local_clusters=2, **PRICE),
    "KMedian": lambda: cn.KMedian(2, columns=NUMBERS, **PRICE),
    "AdditiveClassifier": lambda: cn.AdditiveClassifier("bank.default", columns=["telco.bill"], bins=4, **PRICE),
    "AdditiveRegressor": lambda: cn.AdditiveRegressor("telco.bill", columns=["bank.age"], bins=4, **PRICE),
    "Scorecard": lambda: cn.Scorecard("bank.default", columns=["telco.bill"], bins=4, **PRICE),
    "SyntheticTable": lambda: cn.SyntheticTable(COUNTED, **PRICE),
    "Coreset": lambda: cn.Coreset(30, target="telco.bill", columns=["bank.age"], allow_nonprivate=True),
}


def tables(people: int = 300) -> dict[str, pd.DataFrame]:
    """The usual tables, with whole numbers."""
    found = frames(people)
    found["bank"]["visits"] = np.arange(len(found["bank"])) % 5
    found["telco"]["calls"] = np.arange(len(found["telco"])) % 3
    return found


def figures(study: Any) -> list[float]:
    """What a study found, as numbers that are about the same whenever it is right."""
    match study:
        case cn.PatternCount() | cn.Histogram():
            found = study.unbiased_
        case cn.Describe():
            found = study.table_.loc[NUMBERS, "mean"]
        case cn.Quantiles():
            found = study.values_
        case cn.GroupBy():
            found = study.table_["count"]
        case cn.Correlation():
            found = study.correlation_
        case cn.Moment():
            found = study.value_
        case cn.PCA():
            found = study.explained_variance_
        case cn.LinearRegression() | cn.LogisticRegression():
            found = study.coef_
        case cn.AdditiveClassifier() | cn.AdditiveRegressor() | cn.Scorecard():
            found = study.intercept_
        case cn.SyntheticTable():
            found = (study.sample(2_000)["bank.segment"] == "gold").mean()
        case cn.KMeans() | cn.KMedian():
            found = np.sum(study.grid_weights_)
        case _:
            found = np.sum(study.weights_)
    return np.ravel(np.asarray(found, dtype=float)).tolist()


def outcome(federation: cn.Federation, name: str, repeat: int) -> dict[str, Any]:
    """Run a study; return its figures, or the code of the error, its text, and whose cost is not known."""
    try:
        study = STUDIES[name]().fit(federation, repeat=repeat)
    except ColonnadeError as error:
        return {"code": error.code, "text": str(error), "unknown": list(error.cost.unknown) if error.cost else []}
    return {"figures": figures(study), "parties": list(study.plan_.parties)}


def main() -> None:
    """Be a coordinator: a study per line of standard input, its outcome on a line of standard output."""
    with cn.Federation.connect(sys.argv[1], patience=60.0) as federation:
        _say({"ready": federation.budget().spent.to_dict()})
        for line in sys.stdin:
            _say(outcome(federation, **json.loads(line)))


def _say(found: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
