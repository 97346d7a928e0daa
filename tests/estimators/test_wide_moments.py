"""Moments that are held once: the same components as from whole matrices, and closed forms that are the sums they stand for."""

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator.protocols import moment_releases
from colonnade.coordinator.protocols import moment_releases as release_module
from colonnade.errors import BadInput
from colonnade.estimation.moments import (
    MatrixNoise,
    WideMoments,
    operator_norm,
    pca_from_moments,
    pca_from_wide,
    quadratic_variance,
)
from colonnade.schema import Category, Numeric, features_of
from tests.conversations.test_tiles import in_tiles
from tests.federations import federation

COLUMNS = {
    **{f"a.n{place}": Numeric(-1, 1) for place in range(12)},
    "a.colour": Category(["red", "green", "blue"]),
    **{f"b.n{place}": Numeric(-1, 1) for place in range(9)},
    "b.size": Category(["small", "large"]),
    **{f"c.n{place}": Numeric(-1, 1) for place in range(15)},
}


def wide(between: float = 3.0, within: float = 2.0, people: int = 500) -> WideMoments:
    features = features_of(COLUMNS)
    rng, size = np.random.default_rng(5), len(features) - 1
    rows = rng.standard_normal((people, size)) * np.geomspace(2, 0.1, size) + rng.random(size)
    noise = MatrixNoise.of(features[1:], between, within)
    matrix = np.triu(rows.T @ rows + rng.standard_normal((size, size)))
    return WideMoments.of_release(np.ascontiguousarray(matrix), rows.sum(axis=0), noise, people, features)


@pytest.mark.every(2)
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_components_are_those_of_a_whole_decomposition(standardise, count):
    moments = wide()
    lean = pca_from_wide(moments, count, standardise=standardise)
    whole = pca_from_moments(moments.dense(), count, standardise=standardise)
    assert lean.names == whole.names
    assert lean.significant == whole.significant
    for name in (
        "components",
        "explained_variance",
        "explained_variance_error",
        "means",
        "coded_means",
        "noise_floor",
        "scales",
        "total_variance",
    ):
        np.testing.assert_allclose(getattr(lean, name), getattr(whole, name), rtol=1e-7, atol=1e-9, err_msg=name)


def test_sums_over_variances_are_those_of_the_matrix_of_variances():
    moments = wide()
    variance = moments.dense().variance
    rng = np.random.default_rng(1)
    weights, direction = rng.random(len(variance) - 1), rng.standard_normal(len(variance))
    np.testing.assert_allclose(moments.noise.times(weights), variance[1:, 1:] @ weights)
    assert moments.noise.mean == pytest.approx(variance[1:, 1:].mean())
    assert moments.noise.quadratic(direction[1:], direction[0]) == pytest.approx(
        quadratic_variance(variance, direction)
    )
    widest = moments.noise.times(np.ones(len(weights))).max()
    assert 2 * np.sqrt(widest) == pytest.approx(operator_norm(variance[1:, 1:]))


def test_products_of_two_levels_are_exactly_none():
    moments = wide()
    dense = moments.dense()
    names = [feature.name for feature in moments.features]
    red, green = names.index("a.colour=red"), names.index("a.colour=green")
    assert dense.matrix[red, green] == dense.variance[red, green] == moments.matrix[red - 1, green - 1] == 0.0
    assert dense.matrix[red, red] > 0.0
    assert dense.variance[red, red] > 0.0


def fitted() -> cn.PCA:
    opened = federation(300, epsilon=100.0, delta=1e-5, test_key=b"k" * 32)
    return cn.PCA(2, epsilon=20.0, delta=1e-6).fit(opened)


def everything_is_wide(patch: pytest.MonkeyPatch) -> list[object]:
    patch.setattr("colonnade.estimators.pca.WIDE_COLUMNS", 1)
    patch.setattr("colonnade.estimators.pca.MOST_COMPONENTS", 0.5)
    kinds: list[object] = []
    real = release_module.WideRelease.rounds
    patch.setattr(release_module.WideRelease, "rounds", lambda self, plan: kinds.append(self) or real(self, plan))
    return kinds


@pytest.mark.every(2)
@pytest.mark.parametrize("entries", [None, 7, 1])
def test_a_wide_release_is_the_plain_one(entries, monkeypatch):
    """Also where it comes in tiles that end in the middle of a party's own rows."""
    whole, kinds = fitted(), everything_is_wide(monkeypatch)
    if entries is not None:
        in_tiles(monkeypatch, entries)
    lean = fitted()
    assert kinds
    for name in ("components_", "explained_variance_", "explained_variance_stderr_", "mean_", "noise_floor_"):
        np.testing.assert_allclose(getattr(lean, name), getattr(whole, name), rtol=1e-7, atol=1e-9, err_msg=name)
    assert lean.n_significant_ == whole.n_significant_


@pytest.mark.parametrize(
    "study", [cn.PCA(1, epsilon=20.0, delta=1e-6), cn.LinearRegression("telco.bill", epsilon=20.0, delta=1e-6)]
)
def test_a_matrix_that_does_not_fit_is_refused_before_anybody_is_asked(study, monkeypatch):
    opened = federation(300, epsilon=100.0, delta=1e-5)
    everything_is_wide(monkeypatch)
    monkeypatch.setattr(release_module, "WIDE_COLUMNS", 1)
    monkeypatch.setattr(moment_releases, "available_memory", lambda: 1e8)
    monkeypatch.setattr(opened._driver.transport, "exchange", lambda _: pytest.fail("a party was asked"))
    for call in (study.preview, study.fit):
        with pytest.raises(BadInput, match="of memory here") as refusal:
            call(opened)
        assert "fewer columns" in refusal.value.remedy
        assert refusal.value.spent is None or not refusal.value.spent


def test_memory_grows_with_the_matrix_and_a_study_in_pieces_takes_less_than_one_of_whole_matrices():
    widths = {"a": 7_428, "b": 7_428, "c": 7_427}
    lean = moment_releases.gram_load(widths, 105, lean=True, together=True)
    assert lean.memory < 12e9
    assert lean.seconds < 900
    assert moment_releases.gram_load(widths, 105, lean=True, together=False).memory < lean.memory
    assert moment_releases.gram_load(widths, 105, lean=False, together=True).memory > 40e9
    half = moment_releases.gram_load(
        {name: width // 2 for name, width in widths.items()}, 105, lean=True, together=True
    )
    assert half.memory < lean.memory
    assert half.seconds < lean.seconds
    assert moment_releases.available_memory() is None or moment_releases.available_memory() > 0
