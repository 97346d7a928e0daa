"""The exponential mechanism for quantiles: its weights, its draws, and what one person can do to them."""

import math
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.audit import distinguish
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.calibration import renyi_rho
from colonnade.privacy.laws import quantile_search
from colonnade.privacy.laws.quantile_search import (
    PLACES,
    Ascending,
    Positions,
    QuantileSearch,
    Question,
    search_levels,
    searched,
)
from colonnade.runtime import spilled_rows
from tests import kit

SHARES = st.sampled_from([0.005, 0.1, 1 / 3, 0.5, 0.75, 0.995])


def law(epsilon: float, *quantiles: float, delta: float = 0.0, cells: tuple[int, ...] = (8,)) -> QuantileSearch:
    return QuantileSearch(Price.of(epsilon, delta), [Positions(one) for one in cells], quantiles or (0.5,))


def chances(one: QuantileSearch, question: Question, people: np.ndarray, low: int, high: int) -> list[Fraction]:
    """Return the exact probability of every position from ``low`` up, by the definition."""
    scores = one.scores(question, len(people))
    weights = [one.weight(int(scores[np.count_nonzero(people < position)])) for position in range(low, high)]
    return [Fraction(weight, sum(weights)) for weight in weights]


# What one person can do -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 11), max_size=12), st.integers(0, 11), SHARES, st.sampled_from([0.05, 0.7, 3.0]))
def test_one_person_less_changes_no_chance_by_more_than_its_price(people, person, share, epsilon):
    one, question = law(epsilon), searched([share])
    full = chances(one, question, np.sort([*people, person]), 0, 12)
    less = chances(one, question, np.sort(np.array(people, dtype=np.int64)), 0, 12)
    losses = [math.log(a / b) for a, b in zip(full, less, strict=True)]
    step = float(one.step)
    assert max(map(abs, losses)) <= step * (1 + 1e-9)
    assert max(losses) - min(losses) <= step * (1 + 1e-9)  # the interval that the zCDP figure rests on


@given(SHARES, st.integers(0, 400), st.booleans())
def test_one_person_less_moves_a_rank_error_by_at_most_one(share, people, below):
    one, question = law(0.5), searched([share])
    before, after = one.scores(question, people + 1), one.scores(question, people)
    moved = before[1:] - after if below else before[:-1] - after
    assert np.abs(moved).max() <= 1


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 20.0])
def test_weights_are_positive_whole_numbers_that_fall_no_faster_than_allowed(epsilon):
    one = law(epsilon)
    limit = Fraction(math.exp(float(one.step) / 2)) * (1 + Fraction(1, 2**45))
    weights = [one.weight(score) for score in range(3_000)]
    assert all(type(weight) is int and weight > 0 for weight in weights)
    assert all(after <= before <= limit * after for before, after in pairwise(weights))
    assert weights[0] / weights[1] == pytest.approx(math.exp(float(one.step) / 2), rel=0.01)


@given(st.lists(st.integers(-1, 7), min_size=1, max_size=30), st.integers(1, 6))
def test_a_person_is_in_one_question_per_level(cells, quantiles):
    shares = [(place + 1) / (quantiles + 1) for place in range(quantiles)]
    one, asked = law(1.0, *shares), []
    honest = QuantileSearch.draw

    def noted(self, question, people, low, high, sampler):
        asked.append(len(people))
        return honest(self, question, people, low, high, sampler)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QuantileSearch, "draw", noted)
        found = one.release(np.array(cells)[:, None], kit.sampler("levels"))
    there = sum(cell >= 0 for cell in cells)
    assert sum(asked) <= one.levels * there
    assert len(asked) == quantiles
    assert np.all(np.diff(found[0]) >= 0)


# Where people are -----------------------------------------------------------------------------------------------------------

RUNS = st.lists(st.lists(st.integers(-5, 30), max_size=12).map(sorted), min_size=1, max_size=4)


@given(RUNS, st.data())
def test_people_in_several_runs_stand_in_the_order_of_one(runs, data):
    numbers, whole = (
        Ascending([np.array(run, dtype=np.int64) for run in runs]),
        sorted(one for run in runs for one in run),
    )
    assert len(numbers) == len(whole)
    first = data.draw(st.integers(0, len(whole)))
    last = data.draw(st.integers(first, len(whole)))
    part = numbers.part(first, last)
    assert part.read(0, len(part)).tolist() == whole[first:last]
    assert [part.below(one) for one in range(-6, 32)] == [
        sum(p < one for p in whole[first:last]) for one in range(-6, 32)
    ]


@given(
    st.lists(st.integers(0, 40), max_size=40).map(sorted),
    SHARES,
    st.sampled_from([1.0, 60.0, 400.0, 5_000.0]),
    st.integers(0, 2**32),
)
def test_a_draw_that_looks_around_one_rank_is_the_draw_among_all_people(people, share, epsilon, seed):
    """At a large price weights stop falling a few people from the rank, and most people are looked at as two stretches."""
    one, question = law(epsilon), searched([share])
    found = one.draw(question, Ascending([np.array(people, dtype=np.int64)]), 0, 41, kit.sampler(f"near {seed}"))
    assert found == everybody(one, question, np.array(people, dtype=np.int64), 0, 41, kit.sampler(f"near {seed}"))


def everybody(one, question, people, low, high, sampler):
    """Draw from the definition: every position by itself, in the order of weights and then of positions."""
    scores = one.scores(question, len(people))
    known = [(int(scores[np.count_nonzero(people < position)]), position) for position in range(low, high)]
    different = sorted({score for score, _ in known})
    upto = list(accumulate(one.weight(score) * sum(s == score for s, _ in known) for score in different))
    drawn = bisect_right(upto, quantile_search._uniform_integer(upto[-1], sampler))
    mine = [position for score, position in known if score == different[drawn]]
    return mine[int(sampler.uniform_below(len(mine), 1)[0])]


def test_people_on_disk_are_found_where_people_in_memory_are(monkeypatch):
    monkeypatch.setattr(spilled_rows, "NUMBERS_SORTED_AT_ONCE", 700)
    monkeypatch.setattr(spilled_rows, "BLOCK", 300)
    cells = kit.generator("on disk").integers(-1, 500, (5_000, 2))
    found = []
    for memory in (None, 0):
        rows = spilled_rows.SpilledRows(5_000, 2, np.int32, memory=memory)
        rows.append(cells)
        found.append(law(3.0, 0.1, 0.5, 0.9, cells=(500, 500)).release(rows, kit.sampler("on disk")))
    assert rows.on_disk
    assert np.array_equal(*found)


# Its law --------------------------------------------------------------------------------------------------------------------


def drawn(one: QuantileSearch, name: str, times: int = 6_000) -> np.ndarray:
    people, question, sampler = Ascending([np.array([1, 1, 2, 5, 9])]), searched([0.5]), kit.sampler(name)
    return np.array([one.draw(question, people, 0, 12, sampler) for _ in range(times)])


def test_positions_are_drawn_with_their_chances_and_not_with_those_of_another_price():
    one, other = law(1.0), law(2.0)
    counted = np.bincount(drawn(one, "law"), minlength=12)
    people, question = np.array([1, 1, 2, 5, 9]), searched([0.5])
    right, wrong = (np.array(list(map(float, chances(each, question, people, 0, 12)))) for each in (one, other))
    assert kit.chi_square_p(counted, right) > kit.ALPHA
    assert kit.chi_square_p(counted, wrong) < kit.ALPHA


def test_people_with_one_value_stand_in_any_order():
    """A lump of people is passed through place by place, whoever of them comes first."""
    sampler = kit.sampler("places")
    one = law(50.0, 0.25, 0.5, 0.75, cells=(4,))
    found = one.release(np.full((4_001, 1), 2), sampler)
    places = found[0] % PLACES / PLACES
    assert np.all(found // PLACES == 2)
    assert np.abs(places - [0.25, 0.5, 0.75]).max() < 0.06


def _found(one: QuantileSearch, people: list[int], name: str, times: int) -> np.ndarray:
    sampler, question = kit.sampler(name), searched([0.5])
    placed = Ascending([np.array(people)])
    return np.array([one.draw(question, placed, 0, 6, sampler) for _ in range(times)])


def test_the_truth_stands_and_half_the_noise_is_caught():
    claim = 2.0
    for epsilon, caught in ((claim, False), (2 * claim, True)):
        one = law(epsilon)
        first, second = (
            _found(one, people, f"audit {epsilon}", 10_000 if caught else 3_000) for people in ([0] * 4, [0] * 4 + [5])
        )
        finding = distinguish(first, second, alpha=kit.ALPHA)
        other_way = distinguish(second, first, alpha=kit.ALPHA)
        assert (max(finding.epsilon, other_way.epsilon) > claim) is caught


# Known answers --------------------------------------------------------------------------------------------------------------


def test_the_price_is_divided_between_levels_and_columns():
    assert law(1.0).step == 1
    assert law(1.0, 0.25, 0.5, 0.75).step == Fraction(1, 2)
    assert law(1.2, 0.25, 0.5, 0.75, cells=(8, 8, 8)).step == Fraction(1, 5)
    assert law(1.0, 0.25, 0.5, 0.75).loss.pure == 10**9
    assert [search_levels(number) for number in (1, 3, 4, 7, 15)] == [1, 2, 3, 3, 4]


def test_the_curve_is_that_of_an_eighth_of_the_squared_step_and_never_above_the_pure_one():
    one = law(0.6, 0.25, 0.5, 0.75)
    eighth = Loss.of_zcdp(2 * one.step**2 / 8)
    assert all(found <= bound for found, bound in zip(one.loss.renyi, eighth.renyi, strict=True))
    assert one.loss.epsilon(1e-6) <= 0.6
    gaussian = law(1.0, 0.25, 0.5, 0.75, delta=1e-6)
    assert gaussian.loss.pure is None
    assert gaussian.loss.epsilon(1e-6) <= 1.0
    assert float(2 * gaussian.step**2 / 8) == pytest.approx(float(renyi_rho(Price.of(1.0, 1e-6))), rel=1e-6)


# Positions ------------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5_000), st.integers(-3_000, 3_000), st.integers(1, 4), st.data())
def test_every_position_belongs_to_one_cell_and_rounder_numbers_have_more_of_them(cells, origin, scales, data):
    positions = Positions(cells, origin, scales)
    starts = positions.start(np.arange(cells + 1))
    widths = np.diff(starts) // PLACES
    numbers = origin + np.arange(cells)
    expected = sum(10**k * (numbers % 10**k == 0) for k in range(scales))
    np.testing.assert_array_equal(widths, expected)
    np.testing.assert_array_equal(positions.times(np.arange(cells)), expected)
    assert starts[0] == 0
    assert starts[-1] == positions.number
    cell = data.draw(st.integers(0, cells - 1))
    assert positions.cell_of(int(starts[cell])) == positions.cell_of(int(starts[cell + 1]) - 1) == cell


def test_positions_of_the_largest_column_fit_eight_bytes():
    positions = Positions(quantile_search.LARGEST_CELLS, -(10**9), quantile_search.LARGEST_SCALES)
    assert 0 < positions.number < 2**62
    assert positions.cell_of(positions.number - 1) == quantile_search.LARGEST_CELLS - 1
