"""Who draws how many, what a row weighs, how many are enough: against the definitions and against known answers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import ProtocolError
from colonnade.papers.estimation import (
    allocate_draws,
    checked_totals,
    estimated_size,
    largest_total,
    proved_size,
    weighted_coreset,
)
from tests.kit import ALPHA, generator


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


@pytest.mark.every(2)
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


def test_proved_sizes_follow_theorem_g2():
    def proved(task="regression", clusters=0, totals=10.0, error=0.5, outliers=0.5):
        return proved_size(task, 3, clusters, totals, 2, error=error, outliers=outliers, failure=0.1)

    gap = 2 * 5 / (0.5 * 2)
    assert proved() == math.ceil((gap * 10 / 0.5) ** 2 * (9 + math.log(10)))
    assert proved(error=0.9) < proved() < proved(outliers=0.1)
    assert proved("kmeans", 2, 12.0) == math.ceil((12 * 12 / 0.5) ** 2 * (6 + math.log(10)))


def test_an_estimated_size_keeps_its_word_on_heavy_tailed_rows():
    """The excess loss of 400 regressions on samples by leverage: as often above the error as was said, and not idle either."""
    draw = generator("estimated size")
    people, features, error, failure = 20_000, 6, 0.02, 0.1
    rows = draw.normal(size=(people, features)) * (draw.pareto(2.5, (people, 1)) + 0.3)
    design = np.column_stack([np.ones(people), rows])
    target = design @ draw.normal(size=features + 1) + draw.standard_t(4, people)
    scores = np.sum(np.linalg.qr(design)[0] ** 2, axis=1) + 2 / people  # as two parties' shares add up to
    size = estimated_size("regression", features, 0, scores.sum(), error=error, failure=failure)
    assert 8 * features < size < people / 10
    best = np.linalg.lstsq(design, target)[0]
    smallest, excess = float(np.sum((target - design @ best) ** 2)), []
    for _ in range(400):
        chosen = draw.choice(people, size, p=scores / scores.sum())
        root = np.sqrt(1 / scores[chosen])
        found = np.linalg.lstsq(design[chosen] * root[:, None], target[chosen] * root)[0]
        excess.append(float(np.sum((target - design @ found) ** 2)) / smallest - 1)
    allowed = stats.binom.isf(ALPHA, 400, failure)
    assert sum(one > error for one in excess) <= allowed
    assert np.mean(excess) > error / 20  # a size that is not a hundred times too large
