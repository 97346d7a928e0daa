"""What a preview foretells, held against what then happens, on tables that nothing was tuned to."""

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.special import logit
from sklearn.base import clone

import colonnade as cn
from colonnade.coding.columns import to_coded_units
from colonnade.estimation import expected_errors
from colonnade.estimators.export import design_matrix
from colonnade.estimators.study import Study
from tests import kit
from tests.estimators.preview_samples import Sample, sample

TWO, THREE = ["a.kind", "b.kind"], ["a.kind", "b.kind", "c.kind"]
SUMS = ["a.visits", "b.visits"]
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}
CONDITIONS = {"independent": 1.0, "ordinary": 0.05, "copies": 1e-3}
"""The variance of the faintest direction, over that of the strongest."""


@lru_cache(maxsize=4)
def _sample(condition: str) -> Sample:
    return sample(condition, faintest=CONDITIONS[condition])


def held(error: expected_errors.ExpectedError, found: float) -> bool:
    """Whether a measured error is in the range, which is at most a factor of four wide, or within a factor of two."""
    low, high = error.interval
    assert high <= 4 * low
    return low <= found <= high or error.value / 2 <= found <= 2 * error.value


# How each quantity is measured: docs/explanation/previews.md -----------------------------------------------------------------


def _counts(study: Any, exact: Any, _: Sample) -> float:
    return float(np.mean((study.unbiased_.to_numpy() - exact.unbiased_.to_numpy()) ** 2))


def _value(study: Any, _: Any, data: Sample) -> float:
    sums = data.frame[study.columns].sum(axis=1)
    return (study.value_ - float((sums**study.p).sum())) ** 2


def _explained(study: Any, exact: Any, _: Sample) -> float:
    return float(np.mean((study.explained_variance_ - exact.explained_variance_) ** 2))


def _moved(study: Any, exact: Any, data: Sample) -> tuple[float, float]:
    rows = design_matrix(data.frame, exact._coded, exact._columns, coded=False)
    private, plain = (rows @ np.ravel(one.coef_) + float(np.ravel(one.intercept_)[0]) for one in (study, exact))
    return float(np.mean((private - plain) ** 2)), float(plain.var())


def _groups(study: Any, exact: Any, _: Sample) -> float:
    return float(np.mean((study.table_["count"] - exact.table_["count"]) ** 2))


def _correlations(study: Any, exact: Any, _: Sample) -> float:
    upper = np.triu_indices(len(exact.correlation_), 1)
    return float(np.mean((study.correlation_.to_numpy() - exact.correlation_.to_numpy())[upper] ** 2))


def _relative(study: Any, exact: Any, data: Sample) -> float:
    squared, spread = _moved(study, exact, data)
    return squared / spread


def _log_odds(study: Any, exact: Any, data: Sample) -> float:
    return _moved(study, exact, data)[0]


def _shapes(study: Any, exact: Any, data: Sample) -> float:
    """Compare predictions: numbers relative to their spread, chances as log-odds."""
    if hasattr(study, "predict_proba"):
        private, plain = (logit(one.predict_proba(data.frame)[:, 1]) for one in (study, exact))
        return float(np.mean((private - plain) ** 2))
    private, plain = (one.predict(data.frame) for one in (study, exact))
    return float(np.mean((private - plain) ** 2) / np.var(plain))


def _weights(study: Any, _: Any, data: Sample) -> float:
    """Compare the released weights with how many people are nearest to each local centre: pairs of parties, or one alone."""
    rows = design_matrix(data.frame, study._coded, study._columns, coded=True)
    labels = {}
    for party, own in study.local_centers_.items():
        places = [place for place, feature in enumerate(study._coded) if feature.party == party]
        centres = to_coded_units(own, [study._coded[place] for place in places])
        labels[party] = (np.sum(centres**2, axis=1) - 2 * rows[:, places] @ centres.T).argmin(axis=1)
    table, size = study.grid_weights_.reset_index(), 1 if study.method == "independent" else 2
    errors = []
    for group in combinations(labels, size):
        found, true = (np.zeros((study.n_local_clusters_,) * size) for _ in range(2))
        np.add.at(found, tuple(table[party] for party in group), table["weight"])
        np.add.at(true, tuple(labels[party] for party in group), 1)
        errors.append(np.mean((found - true) ** 2))
    return float(np.mean(errors))


def _pair_counts(study: Any, exact: Any, data: Sample) -> float:
    """Compare the tables of all pairs of columns, as the two models have them."""
    found, true = (one._model.pairs_with for one in (study, exact))
    pairs = list(combinations(study.feature_names_in_, 2))
    cells = [np.ravel(found(one)[other] - true(one)[other]) for one, other in pairs]
    return float(np.mean(np.concatenate(cells) ** 2)) * len(data.frame) ** 2


def _clusters(kind: type, method: str, **price: float) -> Callable[[Sample], Any]:
    return lambda data: kind(3, columns=data.numbers, method=method, **price)


def _linear(data: Sample, **parameters: Any) -> cn.LinearRegression:
    return cn.LinearRegression("a.number", columns=data.numbers, **GAUSSIAN, **parameters)


def _logistic(data: Sample, **parameters: Any) -> cn.LogisticRegression:
    given = {"method": "secure", **GAUSSIAN, **parameters}
    return cn.LogisticRegression("b.answer", columns=data.numbers, **given)


STUDIES: dict[str, tuple[Callable[[Sample], Any], Callable[..., float], int]] = {
    "counts secure": (lambda _: cn.PatternCount(TWO, epsilon=1.0), _counts, 8),
    "counts secure three": (lambda _: cn.PatternCount(THREE, epsilon=1.0), _counts, 6),
    "counts response": (lambda _: cn.PatternCount(TWO, method="response", epsilon=2.0), _counts, 8),
    "counts independent": (lambda _: cn.PatternCount(TWO, method="independent", epsilon=1.0), _counts, 12),
    "describe": (lambda _: cn.Describe(["a.x0", "a.x3", "a.kind", "b.kind"], epsilon=1.0), _counts, 12),
    "histogram": (lambda _: cn.Histogram("a.x0", epsilon=1.0), _counts, 20),
    "groups secure": (lambda _: cn.GroupBy(TWO, ["a.number"], **GAUSSIAN), _groups, 8),
    "correlations secure": (lambda data: cn.Correlation(data.numbers, **GAUSSIAN), _correlations, 6),
    "shapes of a number": (
        lambda data: cn.AdditiveRegressor("a.number", columns=data.numbers, bins=6, **GAUSSIAN),
        _shapes,
        4,
    ),
    "shapes of chances": (
        lambda data: cn.AdditiveClassifier("b.answer", columns=data.numbers, bins=6, **GAUSSIAN),
        _shapes,
        4,
    ),
    "scorecard": (lambda data: cn.Scorecard("b.answer", columns=data.numbers, bins=6, **GAUSSIAN), _shapes, 4),
    "moment 1": (lambda _: cn.Moment(SUMS, 1, epsilon=1.0), _value, 40),
    "moment 2": (lambda _: cn.Moment(SUMS, 2, change="bounds", epsilon=1.0), _value, 40),
    "moment sketch": (lambda _: cn.Moment(SUMS, 2, method="sketch", change="bounds", **GAUSSIAN), _value, 30),
    "pca secure": (lambda data: cn.PCA(2, columns=data.numbers, **GAUSSIAN), _explained, 16),
    "synthetic secure": (lambda _: cn.SyntheticTable([*THREE, "a.x0"], bins=4, **GAUSSIAN), _pair_counts, 2),
    "linear secure": (_linear, _relative, 6),
    "logistic secure": (_logistic, _relative, 6),
    "logistic gradient": (
        lambda data: _logistic(data, method=cn.methods.Gradient(steps=30, rate=0.05)),
        _log_odds,
        3,
    ),
    "kmeans secure": (_clusters(cn.KMeans, "secure", **GAUSSIAN), _weights, 3),
    "kmeans sketch": (_clusters(cn.KMeans, "sketch", **GAUSSIAN), _weights, 3),
    "kmeans response": (_clusters(cn.KMeans, "response", epsilon=4.0, delta=1e-6), _weights, 4),
    "kmeans independent": (_clusters(cn.KMeans, "independent", **GAUSSIAN), _weights, 4),
    "kmedian secure": (_clusters(cn.KMedian, "secure", epsilon=2.0), _weights, 3),
    "kmedian sketch": (_clusters(cn.KMedian, "sketch", epsilon=2.0, delta=1e-6), _weights, 3),
    "kmedian response": (_clusters(cn.KMedian, "response", epsilon=4.0), _weights, 4),
    "kmedian independent": (_clusters(cn.KMedian, "independent", epsilon=2.0), _weights, 4),
}
MANY_PEOPLE: dict[str, Callable[[Sample], Any]] = {
    "pca sketch": lambda data: cn.PCA(2, columns=data.numbers, method="sketch", **GAUSSIAN),
    "pca local": lambda data: cn.PCA(2, columns=data.numbers, method="local", **GAUSSIAN),
    "linear sketch": lambda data: _linear(data, method="sketch"),
    "linear functional": lambda data: _linear(data, method="functional"),
    "logistic newton": lambda data: _logistic(data, method="newton"),
    "logistic functional": lambda data: _logistic(data, method="functional"),
}
"""Methods whose noise is above everything in a table of so few people. `benchmarks/previews` has the others."""

VALUES_DECIDE: dict[str, Callable[[Sample], Any]] = {
    "quantiles": lambda _: cn.Quantiles("a.x0", [0.25, 0.5, 0.75], epsilon=1.0),
}
"""Methods whose error noise alone does not decide, at any price."""

SHORT = ("counts secure", "moment 2", "pca secure", "linear secure", "logistic secure", "kmeans secure")
"""The studies that are run for every condition each time."""


def test_every_private_method_of_every_estimator_is_held_to_its_preview():
    public = [kind for name in cn.__all__ if isinstance(kind := getattr(cn, name), type) and issubclass(kind, Study)]
    private = {(kind, method.name) for kind in public for method in kind.offers if method.private}
    makes = (*(make for make, _, _ in STUDIES.values()), *MANY_PEOPLE.values(), *VALUES_DECIDE.values())
    asked = [make(_sample("ordinary")) for make in makes]
    assert {(type(study), getattr(study.method, "name", study.method)) for study in asked} == private


def _marks(name: str, condition: str) -> list[pytest.MarkDecorator]:
    needs = [kit.needs_mbi] if name.startswith("synthetic") else []
    return needs if name in SHORT or condition == "ordinary" else [*needs, pytest.mark.full]


@pytest.mark.every(12)
@pytest.mark.parametrize(
    ("name", "condition"),
    [
        pytest.param(name, condition, marks=_marks(name, condition))
        for name in STUDIES
        for condition in CONDITIONS
        if (name, condition) != ("pca secure", "independent")  # columns that are alike have no principal components
    ],
)
def test_the_measured_error_lies_in_the_range_of_the_preview_whatever_the_conditioning(name, condition):
    make, measure, draws = STUDIES[name]
    data = _sample(condition)
    with data.federation(f"preview {name} {condition}") as federation:
        error = make(data).preview(federation).errors[0]
        exact = _without_noise(make(data), data)
        squared = [measure(make(data).fit(federation, repeat=draw), exact, data) for draw in range(1, draws + 1)]
    assert held(error, float(np.sqrt(np.mean(squared))))


def _without_noise(study: Any, data: Sample) -> Any:
    """The same method with next to no noise."""
    if isinstance(study, cn.Moment | cn.KMeans | cn.KMedian):
        return None
    with data.federation("quiet") as federation:
        return clone(study).set_params(epsilon=3_000.0).fit(federation)


@pytest.mark.parametrize("name", MANY_PEOPLE)
def test_a_method_that_would_return_noise_says_so_or_says_that_it_does_not_know(name):
    data = _sample("ordinary")
    with data.federation(name) as federation:
        preview = MANY_PEOPLE[name](data).preview(federation)
    assert preview.expected_error is None or preview.expected_error > 0.3 or preview.warnings


@pytest.mark.parametrize("name", VALUES_DECIDE)
def test_a_preview_says_that_it_does_not_know_what_values_decide(name):
    data = _sample("ordinary")
    with data.federation(name) as federation:
        preview = VALUES_DECIDE[name](data).preview(federation)
    assert preview.expected_error is None
    assert "it depends on the values" in str(preview)


@pytest.mark.parametrize("deviations", [10.0, 2.5])
def test_bounds_twice_as_far_apart_as_assumed_are_in_the_range_and_narrower_ones_are_not_above_it(deviations):
    data = sample(f"bounds {deviations}", bound=deviations)
    with data.federation(f"preview bounds {deviations}") as federation:
        error = _linear(data).preview(federation).errors[0]
        exact = _without_noise(_linear(data), data)
        squared = [_relative(_linear(data).fit(federation, repeat=draw), exact, data) for draw in range(1, 7)]
    found = float(np.sqrt(np.mean(squared)))
    assert found <= error.high
    assert deviations < 5 or held(error, found)


# What it does not know -------------------------------------------------------------------------------------------------------


def test_with_few_columns_it_depends_on_whether_they_are_copies_and_the_preview_says_that_it_does_not_know():
    """Both tables have the same schema and the same noise, and errors that are further apart than any useful range."""
    found = {}
    for condition, faintest in (("independent", 1.0), ("copies", 1e-3)):
        data = sample(condition, people=20_000, width=3, faintest=faintest)
        study = cn.LinearRegression("a.number", columns=data.numbers, epsilon=4.0, delta=1e-6)
        with data.federation(f"few {condition}") as federation:
            error = study.preview(federation).errors[0]
            exact = _without_noise(study, data)
            squared = [_relative(study.fit(federation, repeat=draw), exact, data) for draw in range(1, 7)]
        found[condition] = float(np.sqrt(np.mean(squared)))
        assert error.value is None
        assert "copies" in error.unknown
    assert found["copies"] > 4 * found["independent"]


def test_components_below_the_noise_are_not_foretold_and_the_strong_ones_are():
    data = _sample("ordinary")
    with data.federation("components") as federation:
        strong, weak = (cn.PCA(count, columns=data.numbers, **GAUSSIAN).preview(federation) for count in (2, 12))
    assert strong.expected_error > 0
    assert weak.expected_error is None
    assert "below the noise floor" in weak.errors[0].unknown
    assert "unknown, because" in str(weak)
    assert "unknown, because" in weak._repr_html_()


def test_the_error_of_a_moment_is_known_where_noise_decides_it_and_not_where_the_largest_sums_do():
    data = _sample("ordinary")
    with data.federation("orders") as federation:
        sums, squares, high = (cn.Moment(SUMS, p, epsilon=5.0).preview(federation) for p in (1, 2, 6))
        hidden = cn.Moment(SUMS, 2, change="bounds", epsilon=5.0).preview(federation)
    assert sums.errors[0].interval == (sums.expected_error, sums.expected_error)
    assert hidden.expected_error > 0  # the noise is above every value
    for unknown in (squares, high):
        assert unknown.expected_error is None
        assert unknown.others.empty


def test_an_error_that_is_not_known_has_a_reason_and_one_that_is_known_has_none():
    with pytest.raises(cn.BadInput):
        expected_errors.ExpectedError("counts_", None, "people")
    with pytest.raises(cn.BadInput):
        expected_errors.ExpectedError("counts_", 1.0, "people", unknown="nobody knows")


# The formulas under it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [3, 30, 300])
def test_less_noise_never_means_a_larger_error_and_no_noise_none(width):
    columns = expected_errors.AssumedColumns(width, 0.04 * width, 0.04)
    noises = [expected_errors.MomentNoise.fixed(variance) for variance in np.geomspace(1e-14, 1.0, 15)]
    errors = [expected_errors.prediction_error(columns, noise) for noise in noises]
    known = [error.value for error in errors if error.value is not None]
    assert known == sorted(known)
    assert known[-1] == pytest.approx(1.0, abs=0.01)  # everything is lost, and nothing is made up
    floors = [expected_errors.noise_floor(columns, noise) for noise in noises]
    assert floors == sorted(floors)


def test_the_share_lost_is_that_of_the_best_estimate_of_each_direction():
    """Against draws: coefficients alike in all directions, each seen through noise, and shrunk as well as can be."""
    rng = kit.generator("lost share")
    columns, variance = expected_errors.AssumedColumns(40, 1.6, 0.04), 4e-6
    found = expected_errors.prediction_error(columns, expected_errors.MomentNoise.fixed(variance)).value
    directions = columns.strongest * rng.uniform(size=200_000)  # the signal is spread evenly over variances
    spread = expected_errors.EXPLAINED * columns.target / columns.total
    coefficients = rng.normal(size=len(directions)) * np.sqrt(spread)
    noise = variance * (columns.width * spread + 1)
    seen = directions * coefficients + rng.normal(size=len(directions)) * np.sqrt(noise)
    best = seen * directions * spread / (directions**2 * spread + noise)
    lost = np.mean((best - coefficients) ** 2) / spread
    assert found == pytest.approx(np.sqrt(lost), rel=0.02)


def test_levels_follow_the_stated_law():
    assert expected_errors.level_shares(4, 0.0).tolist() == [0.25] * 4
    shares = expected_errors.level_shares(5)
    assert shares[0] / shares == pytest.approx([1, 2, 3, 4, 5])
