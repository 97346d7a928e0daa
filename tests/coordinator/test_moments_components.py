"""Principal components from moments."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from colonnade.estimation.moments import pca_from_moments
from colonnade.schema import features_of
from tests import kit
from tests.coordinator.releases import COLUMNS, coded, people, release


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=20)
def test_without_noise_components_and_variances_are_those_of_scikit_learn(seed, size):
    rows = coded(people(np.random.default_rng(seed), 300))
    fit = pca_from_moments(release(rows), size)
    model = PCA(size, svd_solver="full").fit(rows[:, 1:])
    assert np.allclose(fit.explained_variance, model.explained_variance_, rtol=1e-7, atol=1e-9)
    assert np.allclose(np.abs(np.sum(fit.components * model.components_, axis=1)), 1, atol=1e-4)
    assert np.allclose(fit.coded_means, rows[:, 1:].mean(axis=0))
    assert fit.significant == size
    assert not np.any(fit.explained_variance_error)


def test_components_are_orthonormal_and_oriented_under_any_noise():
    rows = coded(people(kit.generator("orthonormal"), 200))
    for draw in range(10):
        fit = pca_from_moments(release(rows, variance=500.0**2, rng=np.random.default_rng(draw)), 4)
        assert np.allclose(fit.components @ fit.components.T, np.eye(4))
        largest = np.argmax(np.abs(fit.components), axis=1)
        assert np.all(fit.components[np.arange(4), largest] > 0)
        assert np.all(fit.explained_variance >= 0)
        assert np.all(np.diff(fit.explained_variance) <= 0)


def test_moderate_noise_still_captures_nearly_all_that_can_be_captured():
    rows = coded(people(kit.generator("captured"), 20_000))
    true = np.cov(rows[:, 1:].T)
    best = np.sort(np.linalg.eigvalsh(true))[-3:].sum()
    rng = kit.generator("captured: noise")
    for _ in range(10):
        fit = pca_from_moments(release(rows, variance=100.0**2, rng=rng), 3)
        assert np.trace(fit.components @ true @ fit.components.T) > 0.99 * best


def test_explained_variance_is_corrected_for_the_bias_of_noise():
    rng = kit.generator("bias")
    width, people_count = 150, 1000
    spectrum = np.full(width, 0.01)
    spectrum[0] = 3.0
    columns = {f"a.x{i}": COLUMNS["bank.age"] for i in range(width)}
    rows = np.column_stack([np.ones(people_count), rng.standard_normal((people_count, width)) * np.sqrt(spectrum)])
    moments = [release(rows, features_of(columns), variance=60.0**2 * 2, rng=rng) for _ in range(25)]
    exact = pca_from_moments(release(rows, features_of(columns)), 1).explained_variance[0]
    raw = [np.linalg.eigvalsh(moment.matrix[1:, 1:])[-1] / (people_count - 1) for moment in moments]
    fits = [pca_from_moments(moment, 1).explained_variance[0] for moment in moments]
    assert abs(np.mean(fits) - exact) < 0.6 * abs(np.mean(raw) - exact)


def test_components_of_pure_noise_are_not_called_significant():
    rows = coded(people(kit.generator("drowned"), 50))
    counts = [
        pca_from_moments(release(rows, variance=1e8, rng=np.random.default_rng(i)), 5).significant for i in range(20)
    ]
    assert np.mean(counts) < 0.5
