"""What a preview foretells, held against what then happens: a number where the noise alone decides, and otherwise unknown."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import colonnade as cn
from colonnade.estimators.methods.method import methods_of
from colonnade.estimators.study import Study
from tests.estimators.preview_samples import Sample, sample

TWO, THREE = ["a.kind", "b.kind"], ["a.kind", "b.kind", "c.kind"]
SUMS = ["a.visits", "b.visits"]
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}
CONDITIONS = {"independent": 1.0, "ordinary": 0.05, "copies": 1e-3}
"""The variance of the faintest direction, over that of the strongest."""


@lru_cache(maxsize=4)
def _sample(condition: str) -> Sample:
    return sample(condition, faintest=CONDITIONS[condition])


def _counts(study: Any, exact: Any, _: Sample) -> float:
    return float(np.mean((study.unbiased_.to_numpy() - exact.unbiased_.to_numpy()) ** 2))


def _value(study: Any, _: Any, data: Sample) -> float:
    sums = data.frame[study.columns].sum(axis=1)
    return (study.value_ - float((sums**study.p).sum())) ** 2


def _explained(study: Any, exact: Any, _: Sample) -> float:
    return float(np.mean((study.explained_variance_ - exact.explained_variance_) ** 2))


def _groups(study: Any, exact: Any, _: Sample) -> float:
    return float(np.mean((study.table_["count"] - exact.table_["count"]) ** 2))


KNOWN: dict[str, tuple[Callable[[Sample], Any], Callable[..., float], int]] = {
    "counts secure": (lambda _: cn.PatternCount(TWO, epsilon=1.0), _counts, 8),
    "counts response": (lambda _: cn.PatternCount(TWO, method="response", epsilon=2.0), _counts, 8),
    "describe": (lambda _: cn.Describe(["a.x0", "a.x3", "a.kind", "b.kind"], epsilon=1.0), _counts, 12),
    "histogram": (lambda _: cn.Histogram("a.x0", epsilon=1.0), _counts, 20),
    "groups secure": (lambda _: cn.GroupBy(TWO, ["a.number"], **GAUSSIAN), _groups, 8),
    "moment 1": (lambda _: cn.Moment(SUMS, 1, epsilon=1.0), _value, 40),
    "pca secure": (lambda data: cn.PCA(2, columns=data.numbers, **GAUSSIAN), _explained, 16),
}
"""Studies whose error the noise alone decides, how it is measured (squared), and over how many draws."""


def _clusters(kind: type, method: str) -> Callable[[Sample], Any]:
    return lambda data: kind(3, columns=data.numbers, method=method, epsilon=4.0, delta=1e-6)


def _model(kind: type, target: str, **options: Any) -> Callable[[Sample], Any]:
    return lambda data: kind(target, columns=data.numbers, **GAUSSIAN, **options)


UNKNOWN: dict[str, Callable[[Sample], Any]] = {
    "counts secure three": lambda _: cn.PatternCount(THREE, epsilon=1.0),
    "counts independent": lambda _: cn.PatternCount(TWO, method="independent", epsilon=1.0),
    "quantiles": lambda _: cn.Quantiles("a.x0", [0.25, 0.5, 0.75], epsilon=1.0),
    "correlations": lambda data: cn.Correlation(data.numbers, **GAUSSIAN),
    "moment 2": lambda _: cn.Moment(SUMS, 2, epsilon=5.0),
    "moment sketch": lambda _: cn.Moment(SUMS, 2, method="sketch", change="bounds", **GAUSSIAN),
    "pca sketch": lambda data: cn.PCA(2, columns=data.numbers, method="sketch", **GAUSSIAN),
    "pca local": lambda data: cn.PCA(2, columns=data.numbers, method="local", **GAUSSIAN),
    **{
        f"linear {one}": _model(cn.LinearRegression, "a.number", method=one)
        for one in ("secure", "sketch", "functional")
    },
    **{
        f"logistic {one}": _model(cn.LogisticRegression, "b.answer", method=one)
        for one in ("secure", "newton", "functional", "gradient")
    },
    "shapes of a number": _model(cn.AdditiveRegressor, "a.number", bins=6),
    "shapes of chances": _model(cn.AdditiveClassifier, "b.answer", bins=6),
    "scorecard": _model(cn.Scorecard, "b.answer", bins=6),
    **{
        f"{kind.__name__} {method}": _clusters(kind, method)
        for kind in (cn.KMeans, cn.KMedian)
        for method in ("secure", "sketch", "response", "independent")
    },
}


def test_every_private_method_of_every_estimator_is_held_to_its_preview():
    public = [kind for name in cn.__all__ if isinstance(kind := getattr(cn, name), type) and issubclass(kind, Study)]
    private = {(kind, method.name) for kind in public for method in methods_of(kind) if method.private}
    asked = [make(_sample("ordinary")) for make in (*(make for make, _, _ in KNOWN.values()), *UNKNOWN.values())]
    found = {(type(study), getattr(study.method, "name", study.method)) for study in asked}
    assert found == private - {
        (cn.SyntheticTable, "secure")
    }  # its tables' noise is known; what a model makes of them is not


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("name", "condition"),
    [
        pytest.param(name, condition, marks=() if condition == "ordinary" else pytest.mark.full)
        for name in KNOWN
        for condition in CONDITIONS
        if (name, condition) != ("pca secure", "independent")  # columns that are alike have no principal components
    ],
)
def test_the_measured_error_is_the_one_predicted_whatever_the_conditioning(name, condition):
    make, measure, draws = KNOWN[name]
    data = _sample(condition)
    with data.federation(f"preview {name} {condition}") as federation:
        error = make(data).preview(federation).expected_error
        exact = _without_noise(make(data), data)
        squared = [measure(make(data).fit(federation, repeat=draw), exact, data) for draw in range(1, draws + 1)]
    assert error / 2 <= float(np.sqrt(np.mean(squared))) <= 2 * error


def _without_noise(study: Any, data: Sample) -> Any:
    """The same method with next to no noise."""
    with data.federation("quiet") as federation:
        return clone(study).set_params(epsilon=3_000.0).fit(federation)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", UNKNOWN)
def test_an_error_that_data_decides_is_unknown_with_a_reason_at_every_price(name):
    data = _sample("ordinary")
    with data.federation(name) as federation:
        preview = UNKNOWN[name](data).preview(federation)
    assert preview.expected_error is None
    assert "unknown, because" in str(preview)
    assert "unknown, because" in preview._repr_html_()
    assert preview.others.empty


@pytest.mark.full
def test_regressions_on_tables_of_one_schema_err_so_differently_that_no_preview_could_know():
    found = {}
    for condition, faintest in (("independent", 1.0), ("copies", 1e-3)):
        data = sample(condition, people=20_000, width=3, faintest=faintest)
        study = cn.LinearRegression("a.number", columns=data.numbers, epsilon=4.0, delta=1e-6)
        rows = data.frame[data.numbers]
        with data.federation(f"few {condition}") as federation:
            exact = _without_noise(study, data).predict(rows)
            moved = [study.fit(federation, repeat=draw).predict(rows) - exact for draw in range(1, 7)]
        found[condition] = float(np.sqrt(np.mean(np.square(moved)) / exact.var()))
    assert found["copies"] > 4 * found["independent"]
