"""What a preview foretells, held against what then happens, on the demonstration's data."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.datasets.synthetic import Federated, three_organisations
from colonnade.estimators.export import design_matrix
from colonnade.estimators.study import Study
from tests import kit

PEOPLE = 10_000
FACTOR = 1.5
NUMBERS = [
    "bank.age",
    "bank.income",
    "telco.monthly_bill",
    "telco.minutes",
    "insurer.premium",
    "insurer.risk_score",
]
TWO = ["bank.segment", "telco.plan"]
THREE = [*TWO, "insurer.product"]
SUMS = ["telco.late_payments", "insurer.claims"]
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}

Measure = Callable[[Any, Any], float]


@pytest.fixture(scope="module")
def data() -> Federated:
    return three_organisations(people=PEOPLE)


@pytest.fixture
def federation(data, request):
    """One of its own for each study, so that draws do not depend on which other tests ran before."""
    key = kit.source(f"preview accuracy {request.node.name}").bytes(32)
    with data.federation(budget=cn.Budget(epsilon=5_000.0, delta=1e-3), test_key=key) as f:
        yield f


@pytest.fixture
def quiet(data):
    """Where next to no noise is added: what the same method would have returned."""
    with data.federation(budget=cn.Budget(epsilon=10_000.0, delta=0.5), test_key=b"q" * 32) as f:
        yield f


def _squared(found: Any, exact: Any) -> float:
    return float(np.mean(np.square(np.asarray(found, dtype=float) - np.asarray(exact, dtype=float))))


def _counts(study: Any, exact: Any, _: Federated) -> float:
    return _squared(study.unbiased_, exact.unbiased_)


def _value(study: Any, _: Any, data: Federated) -> float:
    joined = data.joined()
    sums = joined["telco.late_payments"].clip(0, 12) + joined["insurer.claims"].clip(0, 10)
    return (study.value_ - float((sums**study.p).sum())) ** 2


def _explained(study: Any, exact: Any, _: Federated) -> float:
    return _squared(study.explained_variance_, exact.explained_variance_)


def _predictions(study: Any, exact: Any, data: Federated) -> float:
    rows = design_matrix(data.joined(), exact._coded, exact._columns, coded=False)
    moved = rows @ np.ravel(study.coef_) - rows @ np.ravel(exact.coef_)
    return float(np.var(moved))


def _weights(study: Any, _: Any, data: Federated) -> float:
    """Compare the released weights with how many people are nearest to each local centre: pairs of parties, or one alone."""
    joined, clusters = data.joined(), study.n_local_clusters_
    labels = {}
    for party, centres in study.local_centers_.items():
        coded = [one for one in study._coded if one.column.startswith(f"{party}.")]
        scale = np.array([one.half_width for one in coded])
        points = joined[[one.column for one in coded]].to_numpy(dtype=float) / scale
        labels[party] = np.linalg.norm(points[:, None] - centres / scale, axis=2).argmin(axis=1)
    table = study.grid_weights_.reset_index()
    size = 1 if study.method == "independent" else 2
    errors = []
    for group in combinations(labels, size):
        found, true = np.zeros((clusters,) * size), np.zeros((clusters,) * size)
        np.add.at(found, tuple(table[party] for party in group), table["weight"])
        np.add.at(true, tuple(labels[party] for party in group), 1)
        errors.append(_squared(found, true))
    return float(np.mean(errors))


STUDIES: dict[str, tuple[Callable[[], Any], Callable[..., float], int]] = {
    "counts secure": (lambda: cn.PatternCount(TWO, epsilon=1.0), _counts, 12),
    "counts secure gaussian": (lambda: cn.PatternCount(TWO, **GAUSSIAN), _counts, 12),
    "counts secure three": (lambda: cn.PatternCount(THREE, epsilon=1.0), _counts, 8),
    "counts response": (lambda: cn.PatternCount(TWO, method="response", epsilon=2.0), _counts, 12),
    "counts response three": (lambda: cn.PatternCount(THREE, method="response", epsilon=3.0), _counts, 8),
    "counts independent": (lambda: cn.PatternCount(TWO, method="independent", epsilon=1.0), _counts, 20),
    "counts independent three": (lambda: cn.PatternCount(THREE, method="independent", epsilon=1.0), _counts, 20),
    "moment 1": (lambda: cn.Moment(SUMS, 1, epsilon=1.0), _value, 40),
    "moment 2": (lambda: cn.Moment(SUMS, 2, epsilon=1.0), _value, 40),
    "moment 2 bounds": (lambda: cn.Moment(SUMS, 2, change="bounds", epsilon=4.0), _value, 60),
    "moment sketch": (lambda: cn.Moment(SUMS, 2, method="sketch", **GAUSSIAN), _value, 30),
    "pca secure": (lambda: cn.PCA(3, columns=NUMBERS, **GAUSSIAN), _explained, 16),
    "pca sketch": (lambda: cn.PCA(3, columns=NUMBERS, method="sketch", **GAUSSIAN), _explained, 16),
    "pca local": (lambda: cn.PCA(3, columns=NUMBERS, method="local", **GAUSSIAN), _explained, 12),
    "linear secure": (lambda: _linear(), _predictions, 24),
    "linear sketch": (lambda: _linear(method="sketch"), _predictions, 24),
    "logistic secure": (lambda: _logistic(), _predictions, 24),
    "linear functional": (lambda: _linear(method="functional"), _predictions, 24),
    "logistic functional": (lambda: _logistic(method="functional"), _predictions, 24),
    "logistic gradient": (lambda: _logistic(method="gradient"), _predictions, 4),
    "kmeans sketch": (lambda: cn.KMeans(3, columns=NUMBERS, method="sketch", **GAUSSIAN), _weights, 4),
    "kmedian sketch": (lambda: cn.KMedian(3, columns=NUMBERS, method="sketch", **GAUSSIAN), _weights, 4),
    "kmeans secure": (lambda: cn.KMeans(3, columns=NUMBERS, **GAUSSIAN), _weights, 4),
    "kmeans response": (lambda: cn.KMeans(3, columns=NUMBERS, method="response", epsilon=4.0, delta=1e-6), _weights, 8),
    "kmeans independent": (lambda: cn.KMeans(3, columns=NUMBERS, method="independent", **GAUSSIAN), _weights, 8),
    "kmedian secure": (lambda: cn.KMedian(3, columns=NUMBERS, epsilon=2.0), _weights, 3),
    "kmedian response": (lambda: cn.KMedian(3, columns=NUMBERS, method="response", epsilon=2.0), _weights, 6),
    "kmedian independent": (lambda: cn.KMedian(3, columns=NUMBERS, method="independent", epsilon=2.0), _weights, 6),
}


def _linear(**parameters: Any) -> cn.LinearRegression:
    columns = ["bank.age", "telco.monthly_bill", "insurer.premium"]
    return cn.LinearRegression("bank.income", columns=columns, **GAUSSIAN, **parameters)


def _logistic(**parameters: Any) -> cn.LogisticRegression:
    columns = ["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"]
    return cn.LogisticRegression("bank.default", columns=columns, **GAUSSIAN, **parameters)


def _noiseless(study: Any, quiet: Any) -> Any:
    """The same method with next to no noise; for what is fitted on moments alone, the moments of the secure channel."""
    if isinstance(study, cn.Moment | cn.KMeans | cn.KMedian):
        return None
    on_moments = isinstance(study, cn.PCA | cn.LinearRegression) and study.method in ("sketch", "local")
    return study.set_params(method="secure" if on_moments else study.method, epsilon=300.0).fit(quiet)


WHOLE = (
    "counts secure gaussian",
    "counts independent three",
    "moment 2 bounds",
    "kmedian secure",
    "kmedian independent",
)
"""Left to the whole matrix: the same predictors as others, at another price."""


def test_every_private_method_of_every_estimator_is_held_to_its_prediction():
    public = [kind for name in cn.__all__ if isinstance(kind := getattr(cn, name), type) and issubclass(kind, Study)]
    private = {(kind, method.name) for kind in public for method in kind.offers if method.private}
    assert {(type(study), study.method) for study in (make() for make, _, _ in STUDIES.values())} == private


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name in WHOLE else ()) for name in STUDIES]
)
def test_the_expected_error_of_a_preview_is_within_a_factor_of_the_measured_one(name, data, federation, quiet):
    make, measure, draws = STUDIES[name]
    preview, exact = make().preview(federation), _noiseless(make(), quiet)
    squared = [measure(make().fit(federation, repeat=draw), exact, data) for draw in range(1, draws + 1)]
    measured = float(np.sqrt(np.mean(squared)))
    assert measured / FACTOR < preview.expected_error < measured * FACTOR
