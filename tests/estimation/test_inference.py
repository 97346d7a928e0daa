"""Intervals of regressions on noisy moments: what they cover, and when they say that nothing is known.

Coverage is tested one coefficient at a time. A test refutes it where an interval misses more often than one that covers 95 % of
the time would by chance. Intervals may cover more: that is not an error of their promise, and the benchmark records it.
"""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from colonnade.estimation.moments import Moments, pca_from_moments
from colonnade.estimation.regression import (
    Equations,
    MomentScore,
    OpenedScore,
    infer,
    infer_with_responses,
    linear_from_moments,
    linear_inference,
    logistic_from_moments,
    logistic_inference,
)
from colonnade.schema import CODINGS, INTERCEPT, Feature
from tests import kit
from tests.coordinator.releases import COLUMNS, FEATURES, coded, people, release

TARGET = "insurer.premium"
EXPLAINING = [name for name in COLUMNS if name != TARGET]
CLASSES = "telco.roaming"
DRAWS = 150


def numbers(rows, names="xyz"):
    """Features of plain numbers in [−1, 1], a constant one in front; the last is the target."""
    return (INTERCEPT, *(Feature(f"a.{name}", f"a.{name}", "numeric") for name in names)), np.column_stack(
        [np.ones(len(rows)), rows]
    )


def linear(moments, target=TARGET, *, coding="reference", ridge=0.0):
    columns = [name for name in moments.columns if name != target]
    fit = linear_from_moments(moments, target, columns=columns, ridge=ridge)
    return linear_inference(moments, target, fit.coefficients, columns=columns, coding=coding).written


def refute_coverage(covered, level=0.95):
    """Fail where a coefficient's interval covers significantly less often than it says."""
    covered = np.asarray(covered)
    missed = stats.binom.cdf(covered.sum(axis=0), len(covered), level)
    assert np.all(missed > kit.ALPHA), covered.mean(axis=0)


def within(inference, truth, **options):
    ends = inference.interval(**options)
    return (ends[:, 0] <= truth) & (truth <= ends[:, 1])


# Without noise --------------------------------------------------------------------------------------------------------------


def test_without_noise_estimates_and_sampling_errors_are_those_of_textbooks():
    table = people(kit.generator("textbook"), 2_000)
    rows = coded(table)
    found = linear(release(rows))
    kept = [place for place, feature in enumerate(FEATURES) if not feature.name.endswith(("=basic", "=no", "=east"))]
    own = coded(table, [FEATURES[place] for place in kept])[:, 1:-1] * [FEATURES[p].half_width for p in kept[1:-1]]
    model = LinearRegression().fit(own, table[TARGET])
    design = np.column_stack([own, np.ones(len(own))])
    freedom = len(own) - design.shape[1]
    variance = np.sum((table[TARGET] - model.predict(own)) ** 2) / freedom
    expected = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    places = [place - 1 for place in kept[1:-1]]
    assert np.allclose(found.estimates[places], model.coef_, rtol=1e-5)
    assert np.allclose(found.errors()[places], expected[:-1], rtol=1e-4)
    assert not found.hidden.any()
    assert np.all(found.errors(total=False) < 1e-4 * np.maximum(expected.max(), 1))
    references = [place for place in range(len(found.estimates) - 1) if place not in places]
    assert not found.estimates[references].any()
    assert not found.errors()[references].any()


def test_codings_write_the_same_model():
    table = people(kit.generator("codings"), 3_000)
    moments = release(coded(table), variance=9.0, rng=kit.generator("codings: noise"))
    found = {coding: linear(moments, coding=coding) for coding in CODINGS}
    levels = {name: [p for p, f in enumerate(FEATURES[1:-1]) if f.column == name] for name in EXPLAINING}
    for name, places in levels.items():
        if len(places) == 1:
            continue
        by_first, by_average = (found[coding].estimates[places] for coding in ("reference", "sum"))
        assert by_first[0] == 0
        # Each combination has no prior of its own, so that they agree up to a part of the noise.
        error = found["sum"].errors(total=False)[places].max()
        assert abs(by_average.sum()) < 0.2 * error, name
        assert np.allclose(by_first - by_first.mean(), by_average, atol=0.5 * error)
    assert np.array_equal(found["full"].estimates, found["reference"].estimates)


# Coverage -------------------------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("deviation", [5.0, 40.0])
def test_intervals_without_sampling_cover_what_the_same_people_give_without_noise(deviation):
    rows = coded(people(kit.generator("covered"), 20_000))
    truth = linear(release(rows)).estimates
    rng = kit.generator(f"covered: noise {deviation}")
    draws = [linear(release(rows, variance=deviation**2, rng=rng)) for _ in range(DRAWS)]
    refute_coverage([within(draw, truth, total=False) for draw in draws])
    assert np.mean([~draw.hidden for draw in draws]) > 0.9
    moved = np.std([draw.estimates for draw in draws], axis=0)
    claimed = np.median([draw.errors(total=False) for draw in draws], axis=0)
    known = moved > 0
    assert np.all(claimed[known] < 1.5 * moved[known])  # they cover, and not because they are wide


def test_levels_that_add_up_make_intervals_narrower_than_leaving_one_out_does():
    rows = coded(people(kit.generator("added up"), 20_000))
    moments = release(rows, variance=30.0**2, rng=kit.generator("added up: noise"))
    found = linear(moments).errors(total=False)[:-1]
    left_out = [place for place, feature in enumerate(FEATURES) if feature.name.endswith(("=basic", "=no", "=east"))]
    kept = [place for place in range(len(FEATURES)) if place not in left_out]
    score = MomentScore(moments, np.eye(len(FEATURES))[:, [*kept[1:-1], 0]], np.eye(len(FEATURES))[-1])
    inverse = np.linalg.inv(score.design.T @ moments.matrix @ score.design)
    solved = inverse @ (score.design.T @ moments.matrix @ score.target)
    without = np.sqrt(np.diag(inverse @ score.covariance(solved, np.zeros_like(inverse)) @ inverse))[:-1]
    own = without * FEATURES[-1].half_width / [FEATURES[place].half_width for place in kept[1:-1]]
    levels = [at for at, place in enumerate(kept[1:-1]) if FEATURES[place].kind == "level"]
    assert np.all(found[np.array(kept[1:-1]) - 1][levels] < 0.85 * own[levels])


def test_shrinking_and_a_penalty_change_the_predictions_and_not_the_intervals():
    rows = coded(people(kit.generator("shrunken"), 5_000))
    moments = release(rows, variance=400.0, rng=kit.generator("shrunken: noise"))
    plain, penalised = linear(moments), linear(moments, ridge=1e5)
    assert np.array_equal(plain.interval(), penalised.interval())
    fits = [linear_from_moments(moments, TARGET, ridge=ridge).coefficients for ridge in (0.0, 1e5)]
    assert np.max(np.abs(fits[1])) < 0.5 * np.max(np.abs(fits[0]))


def test_no_estimate_is_shrunken_along_its_own_combination():
    rng = kit.generator("along")
    root = rng.normal(size=(5, 5))
    free = np.array([False, False, False, False, True])
    law = OpenedScore(400.0 * np.eye(5), np.zeros((5, 5)), np.zeros(5))
    equations = Equations(20 * root @ root.T, rng.normal(size=5), law, free, lambda _: 1.0)
    combinations = np.vstack([np.eye(5)[:4], [1.0, -1.0, 0.0, 2.0, 0.0]])
    _, responses = infer_with_responses(equations, combinations)
    along = np.einsum("ij,jk,ki->i", combinations, equations.information, responses)
    assert np.allclose(along, np.sum(combinations**2, axis=1))


def test_the_error_of_a_fitted_coefficient_counts_what_shrinking_moved():
    rows = coded(people(kit.generator("moved"), 5_000))
    exact = linear_from_moments(release(rows), TARGET).coefficients
    rng, covered = kit.generator("moved: noise"), []
    for _ in range(DRAWS):
        moments = release(rows, variance=60.0**2, rng=rng)
        fit = linear_from_moments(moments, TARGET, ridge=500.0).coefficients
        found = linear_inference(moments, TARGET, fit, columns=EXPLAINING, coding="full")
        covered.append(np.abs(fit - exact) <= 1.96 * found.errors)
    refute_coverage(covered)


def test_intervals_with_sampling_cover_the_population():
    rng, covered = kit.generator("population"), []
    slopes = np.array([0.3, -0.2, 0.0])
    for _ in range(DRAWS):
        explaining = np.clip(rng.normal(0, 0.35, (3_000, 3)) + 0.2 * rng.normal(size=(3_000, 1)), -1, 1)
        target = explaining @ slopes + 0.1 + rng.uniform(-0.3, 0.3, 3_000)
        features, rows = numbers(np.column_stack([explaining, target]), "uvwy")
        draw = linear(release(rows, features, variance=36.0, rng=rng), "a.y")
        covered.append(within(draw, [*slopes, 0.1]))
        assert np.all(draw.errors() > draw.errors(total=False))
    refute_coverage(covered)
    # Either part alone is too small: both matter here.
    parts = np.median([[draw.errors(total=False), np.sqrt(np.diag(draw.sampling))]], axis=0)
    assert np.all(parts[0][:3] > 0.3 * parts[1][:3])
    assert np.all(parts[1][:3] > 0.3 * parts[0][:3])


def test_intervals_of_a_logistic_surrogate_cover_what_the_surrogate_gives_without_noise():
    rows = coded(people(kit.generator("surrogate"), 20_000))
    columns = [name for name in COLUMNS if name != CLASSES]

    def surrogate(moments):
        fit = logistic_from_moments(moments, CLASSES)
        return fit, logistic_inference(moments, CLASSES, fit.coefficients[0], columns=columns, coding="sum").written

    exact, truth = surrogate(release(rows))
    assert np.allclose(truth.estimates, [*exact.coefficients[0], exact.intercepts[0]], rtol=1e-5, atol=1e-7)
    rng = kit.generator("surrogate: noise")
    draws = [surrogate(release(rows, variance=100.0, rng=rng))[1] for _ in range(DRAWS)]
    refute_coverage([within(draw, truth.estimates, total=False) for draw in draws])
    assert np.mean([~draw.hidden for draw in draws]) > 0.9


def test_the_first_order_law_holds_where_the_matrix_stands_out_of_the_noise():
    rng = kit.generator("first order")
    explaining = rng.uniform(-1, 1, (20_000, 4))
    features, rows = numbers(np.column_stack([explaining, explaining @ [0.4, -0.3, 0.2, 0.1]]), "uvwxy")
    found = linear(release(rows, features, variance=20.0**2, rng=rng), "a.y")
    gram, weights = rows[:, :-1].T @ rows[:, :-1], np.array([0.0, 0.4, -0.3, 0.2, 0.1])
    inner = 20.0**2 / 2 * ((1 + weights @ weights) * np.eye(5) + np.outer(weights, weights))
    inner[0, 0] -= 20.0**2 / 2 * (2 * weights[0] ** 2)  # the number of people is exact
    first_order = np.sqrt(np.diag(np.linalg.inv(gram) @ inner @ np.linalg.inv(gram)))[1:]
    assert np.allclose(found.errors(total=False)[:-1], first_order, rtol=0.05)


def test_the_error_of_an_explained_variance_counts_the_noise_of_the_means():
    # Most people at one end of their bounds: the means are large, and so is what their noise does to centred products.
    rng = kit.generator("means")
    features, rows = numbers(np.clip(rng.normal(0.8, 0.15, (10_000, 4)) @ np.diag([1.0, 0.9, 0.8, 0.2]), -1, 1), "uvwx")
    truth = pca_from_moments(release(rows, features), 2).explained_variance
    fits = [pca_from_moments(release(rows, features, variance=9.0, rng=rng), 2) for _ in range(DRAWS)]
    refute_coverage([np.abs(fit.explained_variance - truth) <= 1.96 * fit.explained_variance_error for fit in fits])


# What is hidden -------------------------------------------------------------------------------------------------------------


def test_copies_of_a_column_are_hidden_and_others_are_not():
    rng = kit.generator("copies")
    one, other = rng.uniform(-1, 1, (2, 20_000))
    copy = one + 0.01 * rng.normal(size=20_000)
    explaining = np.clip(np.column_stack([one, copy, other]), -1, 1)
    features, rows = numbers(np.column_stack([explaining, explaining @ [0.4, 0.1, 0.3]]), "uvwy")
    draws = [linear(release(rows, features, variance=30.0**2, rng=rng), "a.y") for _ in range(DRAWS)]
    called = np.array([~draw.hidden[:3] for draw in draws])
    assert np.mean(called[:, :2]) < 0.1
    assert np.mean(called[:, 2]) > 0.95
    refute_coverage([within(draw, [0.4, 0.1, 0.3, 0.0], total=False)[2:3] for draw in draws])
    unknown = next(draw for draw in draws if draw.hidden[:2].all())
    assert np.all(np.isfinite(unknown.interval(total=False)))
    assert np.all(np.isnan(unknown.p_values()[:2]))
    assert np.all(np.isfinite(unknown.covariance()))


def test_a_column_that_its_bounds_leave_without_variation_is_hidden_and_harms_no_other():
    rng = kit.generator("wide bounds")
    explaining = np.column_stack([rng.uniform(-1, 1, (20_000, 2)), -0.95 + 0.02 * rng.uniform(-1, 1, 20_000)])
    slopes = np.array([0.3, -0.2, 2.0])  # a steep one, whose effect over the bounds' whole width nobody could see
    features, rows = numbers(np.column_stack([explaining, np.clip(explaining @ slopes + 1.9, -1, 1)]), "uvwy")
    draws = [linear(release(rows, features, variance=40.0**2, rng=rng), "a.y") for _ in range(DRAWS)]
    assert np.mean([~draw.hidden[:2] for draw in draws]) > 0.98
    assert np.mean([~draw.hidden[2] for draw in draws]) < 0.1
    refute_coverage([within(draw, [*slopes, 1.9], total=False)[:2] for draw in draws])


def test_a_level_that_nobody_has_and_columns_that_add_up_are_hidden():
    table = people(kit.generator("aliased"), 20_000)
    table["insurer.region"] = np.minimum(table["insurer.region"], 2)
    rows, rng = coded(table), kit.generator("aliased: noise")
    called = np.mean([~linear(release(rows, variance=25.0, rng=rng)).hidden for _ in range(30)], axis=0)
    names = [*(feature.name for feature in FEATURES[1:-1]), "intercept"]
    assert [name for name, share in zip(names, called, strict=True) if share < 0.4] == ["insurer.region=west"]
    assert np.sum(called > 0.9) == len(names) - 1
    rng = kit.generator("sum of two")
    halves = rng.uniform(-0.5, 0.5, (20_000, 2))
    features, rows = numbers(np.column_stack([halves, halves.sum(axis=1), halves @ [0.2, 0.6]]), "uvwy")
    for variance in (0.0, 25.0):
        assert linear(release(rows, features, variance=variance, rng=rng), "a.y").hidden[:3].all()


def test_noise_alone_hides_everything():
    rng = kit.generator("noise alone")
    features, rows = numbers(rng.uniform(-1, 1, (500, 4)), "uvwy")
    called = [~linear(release(rows, features, variance=2_000.0**2, rng=rng), "a.y").hidden for _ in range(DRAWS)]
    assert np.mean(called) < 0.02


# Newton steps, and the law of tied entries ----------------------------------------------------------------------------------


def test_a_noisy_newton_step_has_intervals_that_cover_where_it_would_have_ended():
    rng = kit.generator("step")
    rows = np.column_stack([rng.uniform(-1, 1, (5_000, 3)), np.ones(5_000)])
    start, end = np.array([0.3, -0.2, 0.1, 0.0]), np.array([0.5, -0.4, 0.0, 0.2])
    information = rows.T @ rows / 4
    score, weights = 15.0**2 * np.eye(4), np.full((4, 4), 100.0)
    covered = []
    for _ in range(DRAWS):
        noise = np.triu(rng.normal(0, 10.0, (4, 4)))
        seen = information + noise + np.triu(noise, 1).T
        gradient = information @ (start - end) + rng.normal(0, 15.0, 4)
        law = OpenedScore(score, weights, start)
        free = np.array([False, False, False, True])
        found = infer(Equations(seen, seen @ start - gradient, law, free, lambda _: 1.0), np.eye(4))
        assert not found.hidden.any()
        covered.append(within(found, end, total=False))
    refute_coverage(covered)


def test_an_indicator_whose_square_is_its_sum_has_one_noise():
    features = (
        INTERCEPT,
        *(Feature(f"a.b={level}", "a.b", "level") for level in "uv"),
        Feature("a.y", "a.y", "numeric"),
    )
    variance = np.full((4, 4), 4.0)
    for place in (1, 2):
        variance[place, place] = variance[0, place] = variance[place, 0] = 9.0
    matrix = np.diag([1_000.0, 300.0, 400.0, 350.0])
    matrix[0, 1:3] = matrix[1:3, 0] = 300.0, 400.0
    moments = Moments.of_release(matrix, variance, 1_000, features)
    design, target = np.eye(4)[:, [2, 0]], np.eye(4)[3]
    score = MomentScore(moments, design, target)
    assert list(score.tied) == [False, True, True, False]
    rng, theta, direction = kit.generator("tied"), score.residual(np.array([0.4, -0.3])), np.array([0.7, 0.2])
    draws = np.empty((40_000, 3))
    for draw in draws:
        noise = np.triu(rng.normal(size=(4, 4)) * np.sqrt(moments.variance))
        noise += np.triu(noise, 1).T
        noise[[1, 2], [1, 2]] = noise[0, [1, 2]]
        draw[:2], whole = design.T @ noise @ theta, design @ direction
        draw[2] = whole @ noise @ whole
    found = score.covariance(np.array([0.4, -0.3]), np.zeros((2, 2)))
    assert np.allclose(np.cov(draws[:, :2].T), found, atol=0.04 * np.max(found))
    assert draws[:, 2].var() == pytest.approx(score.information_variance(direction[:, None])[0], rel=0.04)


# Refusals -------------------------------------------------------------------------------------------------------------------


def test_what_nothing_is_known_about_is_hidden_and_stops_nobody():
    """Where nobody has a value the matrix is noise around nothing, and without noise it is nothing."""
    size = 3
    noise = OpenedScore(np.eye(size), np.zeros((size, size)), np.zeros(size))
    equations = Equations(np.zeros((size, size)), np.zeros(size), noise, np.array([True, False, False]), lambda _: 1.0)
    found = infer(equations, np.eye(size))
    assert found.hidden.all()
