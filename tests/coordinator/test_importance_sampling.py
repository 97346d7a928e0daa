"""Who draws how many, what a row weighs, how many are enough: against the definitions and against known answers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.coresets import (
    allocate_draws,
    checked_totals,
    kmeans_size,
    largest_total,
    regression_size,
    weighted_coreset,
)
from tests.kit import ALPHA, chi_square_p, generator


@given(
    people=st.integers(2, 30),
    size=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_merged_duplicates_weigh_as_much_as_their_occurrences(people, size, seed):
    draw = np.random.default_rng(seed)
    scores, sample = draw.uniform(0.1, 2.0, people), draw.integers(0, people, size)
    coreset = weighted_coreset(sample, scores[sample], scores.sum())
    cost = draw.uniform(0, 5, people)
    each = scores.sum() / (size * scores[sample])
    assert coreset.size == size
    assert coreset.weights @ cost[coreset.rows] == pytest.approx(each @ cost[sample])
    assert len(set(coreset.rows.tolist())) == len(coreset.rows)


def test_weights_are_unbiased_and_the_two_wrong_readings_are_not():
    """Dividing by distinct rows gives about 0.73 of the cost (docs/proofs/non-private.md#weights);
    reading the formula left to right about 0.35."""
    draw = generator("multiset")
    scores = draw.pareto(1.2, 300) + 0.02
    cost = scores * draw.uniform(0.5, 1.5, 300)
    probabilities = scores / scores.sum()
    right, distinct, literal = [], [], []
    for _ in range(3_000):
        sample = draw.choice(300, 200, p=probabilities)
        coreset = weighted_coreset(sample, scores[sample], scores.sum())
        right.append(coreset.weights @ cost[coreset.rows])
        once = scores.sum() / (len(coreset.rows) * scores[coreset.rows])
        distinct.append(once @ cost[coreset.rows])
        literal.append(scores.sum() / len(coreset.rows) * (scores[coreset.rows] @ cost[coreset.rows]))
    assert np.mean(right) / cost.sum() == pytest.approx(1.0, abs=0.01)
    assert abs(np.mean(distinct) / cost.sum() - 1) > 0.03
    assert abs(np.mean(literal) / cost.sum() - 1) > 0.3


def test_draws_are_allocated_in_proportion_to_totals():
    totals = {"bank": 4.0, "telco": 1.0, "insurer": 5.0}
    shares = allocate_draws(totals, generator("allocation").random(100_000))
    assert chi_square_p(np.array(list(shares.values())), np.array([0.4, 0.1, 0.5])) > ALPHA
    assert sum(shares.values()) == 100_000


@pytest.mark.parametrize("claim", [math.nan, math.inf, -1.0, 0.0, 8.1, 1e12])
def test_a_greedy_or_malformed_total_is_refused(claim):
    maxima = {"bank": largest_total("regression", 6, 1_000, 0, target=False), "telco": 3.0}
    assert maxima["bank"] == 8.0
    with pytest.raises(ProtocolError, match="'bank'"):
        checked_totals({"bank": claim, "telco": 3.0}, maxima)


def test_within_its_maximum_a_party_cannot_take_more_than_its_columns_are_worth():
    maxima = {party: largest_total("kmeans", 3, 100, 5, target=False) for party in ("a", "b", "c")}
    shares = allocate_draws(
        checked_totals({"a": 12.0, "b": 12.0, "c": 4.0}, maxima), generator("greedy").random(20_000)
    )
    assert shares["a"] / 20_000 == pytest.approx(12 / 28, abs=0.02)


@pytest.mark.parametrize(
    ("task", "width", "people", "clusters", "target", "expected"),
    [
        ("regression", 4, 1_000, 0, False, 6.0),
        ("regression", 4, 1_000, 0, True, 7.0),
        ("regression", 40, 10, 0, True, 11.0),
        ("kmeans", 4, 1_000, 10, False, 22.0),
    ],
)
def test_public_maxima_are_rank_plus_one_and_twice_k_plus_one(task, width, people, clusters, target, expected):
    assert largest_total(task, width, people, clusters, target=target) == expected


def test_sizes_follow_theorem_g2():
    size = regression_size(3, 10.0, 2, error=0.5, outliers=0.5, failure=0.1)
    gap = 2 * 5 / (0.5 * 2)
    assert size == math.ceil((gap * 10 / 0.5) ** 2 * (9 + math.log(10)))
    smaller = regression_size(3, 10.0, 2, error=0.9, outliers=0.5, failure=0.1)
    assert smaller < size < regression_size(3, 10.0, 2, error=0.5, outliers=0.1, failure=0.1)
    assert kmeans_size(3, 2, 12.0, 2, error=0.5, outliers=0.5, failure=0.1) == math.ceil(
        (12 * 12 / 0.5) ** 2 * (6 + math.log(10))
    )


@pytest.mark.parametrize("changes", [{"error": 0.0}, {"outliers": 1.0}, {"failure": "x"}, {"error": True}])
def test_sizes_refuse_shares_outside_zero_and_one(changes):
    with pytest.raises(BadInput):
        regression_size(3, 10.0, 2, **({"error": 0.1, "outliers": 0.1, "failure": 0.1} | changes))


@pytest.mark.parametrize("scores", [[1.0, 0.0], [1.0, math.nan], [1.0]])
def test_scores_that_cannot_be_are_refused(scores):
    with pytest.raises(ProtocolError):
        weighted_coreset(np.array([1, 2]), np.array(scores), 3.0)
