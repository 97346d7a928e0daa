"""Means, covariances and correlations from noisy moments: what they estimate, and what their intervals cover."""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.estimation.moment_summaries import (
    MomentSummary,
    RatioNoise,
    nearest_correlation,
    ratio_error,
    ratio_interval,
)
from tests import kit
from tests.coordinator.releases import COLUMNS, FEATURES, coded, people, release
from tests.estimation.test_inference import refute_coverage
from tests.estimators.moment_samples import GENEROUS, PRICE, federation, frames, joined

DRAWS = 200
NAMES = [feature.name for feature in FEATURES[1:]]
SOME = ["bank.age", "telco.bill", "insurer.product"]


def own_units(rows):
    return rows[:, 1:] * [feature.half_width for feature in FEATURES[1:]] + [feature.centre for feature in FEATURES[1:]]


def exact(rows):
    """Mean, covariance and correlation of the same people, by pandas."""
    frame = pd.DataFrame(own_units(rows), columns=NAMES)
    return frame.mean(), frame.cov(), frame.corr()


def test_without_noise_the_figures_are_those_of_pandas():
    rows = coded(people(kit.generator("pandas"), 2_000))
    summary = MomentSummary(release(rows), COLUMNS)
    mean, covariance, correlation = exact(rows)
    np.testing.assert_allclose(summary.mean()["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(summary.covariance().values, covariance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(summary.correlation().values, correlation, atol=1e-6)
    assert (summary.correlation().stderr.to_numpy() == 0).all()


@pytest.mark.every(3)
@pytest.mark.parametrize("deviation", [3.0, 30.0, 150.0])
def test_intervals_cover_what_the_same_people_give_without_noise(deviation):
    generator = kit.generator(f"covering {deviation}")
    rows = coded(people(generator, 2_000))
    mean, covariance, correlation = exact(rows)
    upper = np.triu_indices(len(NAMES), 1)
    covered = {"mean": [], "covariance": [], "correlation": []}
    for _ in range(DRAWS):
        summary = MomentSummary(release(rows, variance=deviation**2, rng=generator), COLUMNS)
        means = summary.mean()
        covered["mean"].append((means["low"] <= mean) & (mean <= means["high"]))
        for name, truth in (("covariance", covariance), ("correlation", correlation)):
            found = getattr(summary, name)()
            within = (found.low <= truth + 1e-9) & (truth <= found.high + 1e-9)
            covered[name].append(within.to_numpy()[upper])
    for results in covered.values():
        refute_coverage(results)


def test_intervals_with_sampling_cover_the_population():
    generator = kit.generator("population")
    _, _, truth = exact(coded(people(generator, 400_000)))
    upper = np.triu_indices(len(NAMES), 1)
    covered = []
    for _ in range(DRAWS):
        found = MomentSummary(release(coded(people(generator, 500)), variance=9.0, rng=generator), COLUMNS).correlation(
            total=True
        )
        covered.append(((found.low <= truth) & (truth <= found.high)).to_numpy()[upper].mean())
    assert np.mean(covered) > 0.93  # of indicators that are rare the law of a correlation is not Gaussian


def test_where_noise_is_larger_than_the_data_a_correlation_is_left_open():
    generator = kit.generator("open")
    rows = coded(people(generator, 300))
    found = MomentSummary(release(rows, variance=3_000.0**2, rng=generator), COLUMNS).correlation()
    outside = ~np.eye(len(NAMES), dtype=bool)
    assert np.mean((found.low.to_numpy() == -1) & (found.high.to_numpy() == 1), where=outside) > 0.9
    assert np.all(np.abs(found.values.to_numpy()) <= 1)


def test_estimates_are_positive_semi_definite_however_large_the_noise():
    generator = kit.generator("definite")
    rows = coded(people(generator, 500))
    for deviation in (3.0, 50.0, 500.0):
        summary = MomentSummary(release(rows, variance=deviation**2, rng=generator), COLUMNS)
        covariance = summary.covariance().values.to_numpy()
        scales = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        for matrix in (covariance / np.outer(scales, scales), summary.correlation().values.to_numpy()):
            assert np.linalg.eigvalsh(matrix)[0] > -1e-7
        np.testing.assert_array_equal(np.diag(summary.correlation().values), 1.0)


def test_the_nearest_correlation_matrix_is_no_further_than_any_other_that_was_tried():
    generator = kit.generator("nearest")
    noisy = np.eye(5) + np.triu(generator.uniform(-1, 1, (5, 5)), 1)
    noisy = np.triu(noisy) + np.triu(noisy, 1).T
    found = np.linalg.norm(nearest_correlation(noisy) - noisy)
    for _ in range(200):
        factors = generator.standard_normal((5, 5))
        factors /= np.linalg.norm(factors, axis=1, keepdims=True)
        assert found <= np.linalg.norm(factors @ factors.T - noisy) + 1e-6


def test_fiellers_intervals_cover_a_ratio_however_small_the_denominator_is():
    generator = kit.generator("fieller")
    for denominator in (1.0, 3.0, 100.0):
        truth, draws = 0.4, 4_000
        noise = RatioNoise(np.full(draws, 2.0), np.full(draws, 1.0), np.full(draws, 0.5))
        both = generator.multivariate_normal([truth * denominator, denominator], [[2.0, 0.5], [0.5, 1.0]], draws)
        low, high = ratio_interval(both[:, 0], both[:, 1], noise, 0.95)
        refute_coverage(((low <= truth) & (truth <= high))[:, None])
    errors = (both[:, 0] / both[:, 1] - truth) / ratio_error(both[:, 0], both[:, 1], noise)
    assert abs(np.mean(errors**2) - 1) < 6 * np.sqrt(2 / draws)


# The estimator and the release ------------------------------------------------------------------------------------------------


def test_a_correlation_is_free_on_a_release_and_the_same_as_the_releases_own():
    with federation(frames(2_000)) as f:
        release_ = f.moments(SOME, **PRICE)
        before = f.budget()["spent"]
        study = cn.Correlation(SOME).fit(release_)
        assert (f.budget()["spent"] == before).all()
    pd.testing.assert_frame_equal(study.correlation_, release_.correlation().values)
    pd.testing.assert_frame_equal(study.conf_int(0.9).low, release_.correlation(0.9).low)


def test_a_share_of_a_category_that_leaves_people_out_is_one_of_those_who_have_a_level():
    tables = frames(2_000)
    tables["bank"].loc[tables["bank"].index % 2 == 0, "segment"] = None
    schemas = {"bank": cn.Schema(segment=cn.Category(["basic", "gold", "platinum"], missing="excluded"))}
    schemas |= {"telco": cn.Schema(bill=cn.Numeric(0, 200))}
    chosen = {party: tables[party] for party in schemas}
    with federation(chosen, schemas) as f:
        means = f.moments(["bank.segment", "telco.bill"], **GENEROUS).mean()
    shares = joined(tables)["bank.segment"].value_counts(normalize=True)
    for level, share in shares.items():
        row = means.loc[f"bank.segment={level}"]
        assert row["mean"] == pytest.approx(share, abs=0.01)
        assert row["low"] <= share + 1e-3
        assert row["high"] >= share - 1e-3
