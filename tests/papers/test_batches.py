"""Batches from a key: the coins have the right probability, everyone is drawn alike, and sizes say nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import BadInput
from colonnade.papers.draws import Batches, batches_per_round
from tests import kit

KEY = b"k" * 32


@pytest.mark.parametrize("rate", [0.001, 1 / 256, 0.013, 0.5, 0.999])
def test_people_take_part_with_the_rate(rate: float) -> None:
    people, steps = 20_000, 50
    batches = Batches(KEY, people, rate, steps, "poisson")
    drawn = sum(len(batches.members(step)) for step in range(steps))
    assert stats.binomtest(drawn, people * steps, rate).pvalue > kit.ALPHA


def test_people_and_steps_are_drawn_independently() -> None:
    """Counts a person are binomial over the steps, and counts of pairs of steps are what independence says."""
    people, steps, rate = 5_000, 60, 0.05
    batches = Batches(KEY, people, rate, steps, "poisson")
    taken = np.zeros((steps, people), dtype=int)
    for step in range(steps):
        taken[step, batches.members(step)] = 1
    counts = np.bincount(taken.sum(axis=0), minlength=steps + 1)
    assert kit.chi_square_p(counts, stats.binom.pmf(np.arange(steps + 1), steps, rate)) > kit.ALPHA
    both = int(sum((taken[step] & taken[step + 1]).sum() for step in range(steps - 1)))
    assert stats.binomtest(both, people * (steps - 1), rate**2).pvalue > kit.ALPHA
    neighbours = int((taken[:, 1:] & taken[:, :-1]).sum())
    assert stats.binomtest(neighbours, (people - 1) * steps, rate**2).pvalue > kit.ALPHA


def test_the_largest_participation_is_what_counting_says_and_lies_where_the_paper_saw_it() -> None:
    """docs/proofs/gradient-steps.md: with T = 5000 and b = 0.001 the mean is 5 and the largest of 100,000 people was 17."""
    batches = Batches(KEY, 100_000, 0.001, 5_000, "poisson")
    assert 15 <= batches.largest_participation() <= 24
    small = Batches(KEY, 300, 0.1, 40, "poisson")
    counts = np.zeros(300, dtype=int)
    for step in range(40):
        counts[small.members(step)] += 1
    assert small.largest_participation() == counts.max()


@settings(max_examples=25, deadline=None)
@given(
    people=st.integers(1, 400),
    rate=st.floats(2.0**-20, 1.0),
    steps=st.integers(1, 60),
    sampling=st.sampled_from(["poisson", "balanced"]),
)
def test_batches_are_people_in_order_within_the_capacity_and_repeat_with_the_key(people, rate, steps, sampling) -> None:
    batches, again = (Batches(KEY, people, rate, steps, sampling) for _ in range(2))
    for step in {0, steps // 2, steps - 1}:
        members = batches.members(step)
        assert len(members) <= batches.capacity <= people
        assert np.array_equal(members, again.members(step))
        assert np.all(np.diff(members) > 0)
        assert members.size == 0 or 0 <= members[0] <= members[-1] < people


@pytest.mark.parametrize("rate", [0.1, 0.3, 1.0, 0.07])
def test_a_balanced_round_has_everyone_once_in_batches_of_one_size(rate: float) -> None:
    people, each = 1_003, batches_per_round(rate)
    batches = Batches(KEY, people, rate, 3 * each, "balanced")
    for number in range(3):
        parts = [batches.members(number * each + place) for place in range(each)]
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(people))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert max(map(len, parts)) == batches.capacity
    assert batches.largest_participation() == 3
    if each > 1:
        assert not np.array_equal(batches.members(0), batches.members(each))


def test_batches_that_make_no_sense_are_refused() -> None:
    for people, rate, steps, sampling in (
        (0, 0.1, 1, "poisson"),
        (5, 0.0, 1, "poisson"),
        (5, 2.0, 1, "poisson"),
        (5, 0.1, 0, "poisson"),
        (5, 0.1, 1, "fair"),
    ):
        with pytest.raises(BadInput):
            Batches(KEY, people, rate, steps, sampling)
    with pytest.raises(BadInput):
        Batches(KEY, 5, 0.5, 2, "poisson").members(2)
