"""Every family: its series are near its model and within its bounds, and what it says of mean, weight and score agrees."""

import numpy as np
import pytest

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.families import DEFAULT, FAMILIES, WINDOW
from colonnade.families.family import Family
from colonnade.schema import Category, Numeric
from colonnade.steps.newton import family_of, family_term

LINKS = [
    pytest.param(family, window, id=f"{name} {window}") for name, family in FAMILIES.items() for window in family.links
]
EVERY = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
SCORES = np.linspace(-10, 10, 401)


@pytest.mark.parametrize(("family", "window"), LINKS)
def test_within_its_window_a_link_is_the_mean_and_its_slope(family: Family, window: int) -> None:
    link = family.link(window)
    scores = np.linspace(-window, window, 20_001)
    assert np.max(np.abs(link.mean(scores) - family.mean(scores))) < 0.0002
    assert np.max(np.abs(link.weight(scores) - family.weights(scores)[0])) < 0.0011


@pytest.mark.parametrize(("family", "window"), LINKS)
def test_over_a_whole_period_a_link_stays_near_what_means_and_weights_may_be(family: Family, window: int) -> None:
    """So that bounds, which are taken over the period, are not far above what occurs: the rest would be noise for nothing."""
    link, (low, high) = family.link(window), family.targets
    scores = np.linspace(0, link.period, 100_001)
    assert len(link.means.waves) == len(link.weights.waves)
    assert low - 0.005 <= np.min(link.mean(scores)) <= np.max(link.mean(scores)) <= high + 0.005
    most = np.max(family.weights(SCORES)[0])
    assert -0.0015 < np.min(link.weight(scores)) <= np.max(link.weight(scores)) < most + 0.0015


@EVERY
def test_what_a_family_says_of_mean_weight_and_score_agrees(family: Family) -> None:
    weights, slopes = family.weights(SCORES)
    tiny = 1e-4
    assert np.allclose((family.mean(SCORES + tiny) - family.mean(SCORES - tiny)) / (2 * tiny), weights, atol=1e-7)
    assert np.allclose(
        (family.weights(SCORES + tiny)[0] - family.weights(SCORES - tiny)[0]) / (2 * tiny), slopes, atol=1e-7
    )
    assert np.all(np.abs(slopes) <= family.steepest * weights * (1 + 1e-9))
    assert np.allclose(family.score(family.mean(SCORES)), SCORES)


@EVERY
def test_no_series_is_steeper_than_the_family_says(family: Family) -> None:
    """So its steepness times a Gram matrix bounds the curvature of what is computed on shares too."""
    for link in family.links.values():
        turns = np.linspace(-link.period / 2, link.period / 2, 20_001)
        assert np.max(np.diff(link.mean(turns)) / np.diff(turns)) <= family.steepness
    assert np.max(family.weights(SCORES)[0]) <= family.steepness


@EVERY
def test_where_a_family_starts_is_near_what_least_squares_found(family: Family) -> None:
    """If scores do not spread, they are that of the mean of the target."""
    for mean in (0.2, 0.5, 0.7):
        assert family.centre(mean, 0.0) == pytest.approx(float(family.score(mean)), abs=1e-12)


@EVERY
def test_chances_of_all_classes_add_up_to_one_and_are_the_mean_of_two(family: Family) -> None:
    two, three = family.chances(SCORES[:, None]), family.chances(np.column_stack([SCORES, SCORES[::-1], 0 * SCORES]))
    assert np.allclose(two[:, 1], family.mean(SCORES))
    assert np.allclose(two.sum(axis=1), 1)
    assert np.allclose(three.sum(axis=1), 1)
    assert np.array_equal(three.argmax(axis=1)[[0, -1]], [1, 0])


@EVERY
def test_targets_are_within_what_bounds_count_on(family: Family) -> None:
    column, (low, high) = Category(["a", "b", "c"]), family.targets
    for level in family.levels(column):
        assert family.takes(column, level)
        labels = family.labels(np.array([-1, 0, 1, 2], dtype=np.int32), level)
        assert labels[0] == -1
        assert low <= labels[1:].min() <= labels[1:].max() <= high
    assert not family.takes(column, 3)
    with pytest.raises(SchemaMismatch, match=family.title):
        family.require_target("a.x", Numeric(0, 1))


def test_a_plan_names_a_family_of_the_list_and_none_means_the_default() -> None:
    assert family_of({}) is DEFAULT
    assert all(family_of({"family": name}) is family for name, family in FAMILIES.items())
    assert all(family_of(family_term(family)) is family for family in FAMILIES.values())
    assert all(WINDOW in family.links for family in FAMILIES.values())
    with pytest.raises(BadInput, match="one of logistic"):
        family_of({"family": "os.system"})
    with pytest.raises(BadInput, match="window"):
        DEFAULT.link(9)
