"""What a release of moments is, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import BadInput
from colonnade.estimation.moments import (
    Moments,
    product_covariance,
    quadratic_variance,
)
from colonnade.schema import INTERCEPT, Feature, coefficients_to_own_units, features_of
from tests import kit
from tests.coordinator.releases import COLUMNS, FEATURES, coded, own, people, release


def test_columns_are_coded_in_schema_order_with_the_intercept_first_and_all_levels():
    names = [feature.name for feature in FEATURES]
    assert names[:5] == ["1", "bank.age", "bank.segment=basic", "bank.segment=gold", "bank.segment=platinum"]
    assert len(names) == 1 + 3 + 3 + 2 + 4


@given(st.integers(0, 2**32 - 1))
def test_no_coded_row_is_longer_than_the_row_bound(seed):
    rng = np.random.default_rng(seed)
    features = features_of(COLUMNS, signed=["telco.roaming"])
    rows = coded(people(rng, 50), features)
    assert np.max(np.sum(rows**2, axis=1)) <= len(COLUMNS) + 1 + 1e-9


def test_what_the_coding_says_replaces_what_the_noise_says():
    moments = release(coded(people(kit.generator("known entries"), 300)), variance=400.0, rng=kit.generator("noise"))
    segment = moments.places(["bank.segment"])
    block = moments.matrix[np.ix_(segment, segment)]
    assert np.array_equal(block, np.diag(np.diag(block)))
    assert moments.matrix[0, 0] == 300
    assert moments.variance[0, 0] == 0
    assert moments.variance[segment[0], segment[1]] == 0
    assert moments.variance[segment[0], segment[0]] == 400


def test_selecting_columns_keeps_their_moments():
    moments = release(coded(people(kit.generator("select"), 100)))
    part = moments.select(["telco.minutes", "bank.age"])
    assert part.columns == ("bank.age", "telco.minutes")
    assert part.matrix[1, 2] == moments.matrix[1, moments.places(["telco.minutes"])[0]]


BAD = {
    "asymmetric": (np.array([[4.0, 1.0], [2.0, 4.0]]), np.zeros((2, 2)), 4),
    "not finite": (np.array([[4.0, np.nan], [np.nan, 4.0]]), np.zeros((2, 2)), 4),
    "wrong shape": (np.eye(3), np.zeros((3, 3)), 4),
    "negative variance": (np.eye(2), -np.eye(2), 4),
    "no people": (np.eye(2), np.zeros((2, 2)), 0),
    "people as a float": (np.eye(2), np.zeros((2, 2)), 4.0),
}


@pytest.mark.parametrize("name", BAD)
def test_a_matrix_that_cannot_be_moments_is_refused(name):
    matrix, variance, count = BAD[name]
    with pytest.raises(BadInput):
        Moments(matrix, variance, count, (INTERCEPT, Feature("a.x", "a.x", "numeric")))


@given(st.integers(0, 2**32 - 1))
def test_own_units_predict_what_coded_units_predict(seed):
    rng = np.random.default_rng(seed)
    features = features_of(COLUMNS, signed=["telco.roaming"])
    table = people(rng, 30)
    weights, intercept = rng.standard_normal(len(features) - 1), float(rng.standard_normal())
    names, into = coefficients_to_own_units(features[1:])
    values = into @ np.append(weights, intercept)
    assert np.allclose(
        own(table, names) @ values[:-1] + values[-1], coded(table, features)[:, 1:] @ weights + intercept
    )


def test_noise_spreads_as_the_closed_forms_say():
    rng = kit.generator("propagation")
    variance = np.random.default_rng(11).uniform(0.5, 2.0, (4, 4))
    variance = (variance + variance.T) / 2
    left, right = np.array([1.0, -0.5, 0.8, 0.3]), np.array([-0.4, 1.1, 0.2, -0.9])
    upper = np.triu(rng.standard_normal((200_000, 4, 4)))
    noise = np.sqrt(variance) * (upper + np.transpose(np.triu(upper, 1), (0, 2, 1)))
    products = np.einsum("ni,nj->nij", noise @ left, noise @ right)
    doubt = products.std(axis=0) / np.sqrt(len(noise))
    limit = stats.norm.isf(kit.ALPHA / 32)
    assert np.all(np.abs(products.mean(axis=0) - product_covariance(variance, left, right)) < limit * doubt)
    form = np.einsum("i,nij,j->n", left, noise, left)
    assert np.isclose(form.var(), quadratic_variance(variance, left), rtol=0.03)
