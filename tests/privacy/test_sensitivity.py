"""Sensitivities hold in exact integers for any data, NaN and infinities included, and are reached where said to be tight."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from colonnade.errors import BadInput
from colonnade.privacy import sensitivity as sens
from colonnade.privacy.neighbours import UNITS, Neighbours, party_price, replaced_nano, replaced_rho, valid_unit
from colonnade.privacy.price import Price
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.schema import Category, Numeric

extremes = st.sampled_from([math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 5e-324, 1.0, -1.0, 0.0])
anything = extremes | st.floats(-2, 2) | st.floats(allow_nan=True, allow_infinity=True)
columns = st.tuples(st.floats(-1e300, 1e300), st.floats(1e-6, 1e6)).map(
    lambda pair: Numeric(pair[0], pair[0] + max(pair[1], abs(pair[0]) * 1e-6))
)
shapes = st.tuples(st.integers(1, 5), st.integers(1, 6))
blocks = shapes.flatmap(lambda shape: arrays.arrays(np.float64, shape, elements=anything))
scales = st.sampled_from([1, 2, 3, 7, 64, 4096, sens.LARGEST_SCALE])


def triangle(row: np.ndarray) -> list[int]:
    """(v_i v_j), i ≤ j, in Python's integers."""
    values = [int(value) for value in row]
    return [values[i] * values[j] for i in range(len(values)) for j in range(i, len(values))]


# Numbers to [-1, 1] -----------------------------------------------------------------------------------


@given(st.lists(anything, min_size=1, max_size=20), columns)
def test_clipped_values_are_within_bounds_and_never_missing(values: list[float], column: Numeric) -> None:
    clipped = sens.clip_to_bounds(values, column)
    assert np.all((clipped >= column.low) & (clipped <= column.high))


@given(st.lists(anything, min_size=1, max_size=20), columns)
def test_mapped_values_lie_in_the_unit_interval(values: list[float], column: Numeric) -> None:
    units = sens.to_unit(values, column)
    assert np.all(np.abs(units) <= 1)
    assert np.all(units[~np.isfinite(values)] == 0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_mapping_there_and_back_is_the_identity_within_bounds(parts: list[float]) -> None:
    column = Numeric(-3, 17)
    values = -3 + 20 * np.array(parts)
    np.testing.assert_allclose(sens.from_unit(sens.to_unit(values, column), column), values, atol=1e-12)


def test_whole_number_columns_are_rounded() -> None:
    assert sens.clip_to_bounds([0.4, 2.6, 99, float("nan")], Numeric(0, 8, integer=True)).tolist() == [0, 3, 8, 4]


@given(arrays.arrays(np.float64, 10, elements=anything), st.integers(2, 9))
def test_codes_are_categories_or_missing(values: np.ndarray, levels: int) -> None:
    codes = sens.codes_or_missing(values, levels)
    assert np.all((codes >= -1) & (codes < levels))
    for value, code in zip(values.tolist(), codes.tolist(), strict=True):
        assert (code == value) if value in range(levels) else code == -1


def test_whole_number_codes_pass_through() -> None:
    assert sens.codes_or_missing(np.array([0, 3, 4, -7], dtype=np.int16), 4).tolist() == [0, 3, -1, -1]


# Fixed point: the bound holds in integers -------------------------------------------------------------


@given(blocks, scales, st.integers(0, 2**50))
def test_every_fixed_point_row_keeps_its_bound(block: np.ndarray, scale: int, bound: int) -> None:
    words = KeyedRandomness(b"w" * 32).words(block.size)
    for rows in (sens.fixed_point(block, scale, bound), sens.stochastic_fixed_point(block, scale, bound, words)):
        assert all(sum(int(v) ** 2 for v in row) <= bound for row in rows)
        assert np.abs(rows).max() <= scale + 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_contributes_nothing(bad: float) -> None:
    words = KeyedRandomness(b"w" * 32).words(2)
    for rows in (
        sens.fixed_point([[bad, 0.5]], 4, 100),
        sens.stochastic_fixed_point([[bad, 0.5]], 4, 100, words),
        sens.clip_rows([[bad, 2.0]], 2.0),
    ):
        assert rows.tolist() == [[0, 2]]


@given(arrays.arrays(np.float64, (3, 4), elements=st.floats(-1, 1)), scales)
def test_a_bound_one_below_what_a_row_has_is_kept_too(block: np.ndarray, scale: int) -> None:
    squares = (sens.fixed_point(block, scale, 2**62) ** 2).sum(axis=1)
    bound = max(int(squares.max()) - 1, 0)
    assert all(sum(int(v) ** 2 for v in row) <= bound for row in sens.fixed_point(block, scale, bound))


@given(blocks, scales, st.fractions(min_value=Fraction(1, 50), max_value=1))
def test_rows_clipped_to_their_share_keep_the_bound_of_their_rounding(
    block: np.ndarray, scale: int, share: Fraction
) -> None:
    clipped = sens.clip_rows(block, math.sqrt(share))
    truncated = sens.fixed_point(clipped, scale, 2**62)
    words = KeyedRandomness(b"v" * 32).words(block.size)
    rounded = sens.stochastic_fixed_point(clipped, scale, 2**62, words)
    slack = 1 + 1e-9  # what floating point may add, and `bound` would take away
    assert (truncated**2).sum(axis=1).max() <= sens.truncated_row_bound(scale, share) * slack + 1
    assert (rounded**2).sum(axis=1).max() <= sens.stochastic_row_bound(scale, block.shape[1], share) * slack + 1


@given(blocks, st.floats(1e-3, 1e3))
def test_clipped_rows_are_no_longer_than_allowed_and_keep_their_direction(block: np.ndarray, norm: float) -> None:
    clipped = sens.clip_rows(block, norm)
    assert np.all(np.isfinite(clipped))
    assert np.linalg.norm(clipped, axis=1).max() <= norm * (1 + 1e-12)
    finite = np.where(np.isfinite(block), block, 0.0)
    assert np.all(clipped * np.sign(finite) >= 0)


def test_rows_within_the_bound_are_not_touched() -> None:
    block = np.array([[0.6, 0.8], [0.0, 0.25]])
    np.testing.assert_array_equal(sens.fixed_point(block, 100, 10_000), [[60, 80], [0, 25]])
    np.testing.assert_array_equal(sens.clip_rows(block, 1.0), block)


def test_stochastic_rounding_is_unbiased() -> None:
    block = np.full((100_000, 1), 0.3)
    words = KeyedRandomness(b"u" * 32).words(100_000)
    rounded = sens.stochastic_fixed_point(block, 5, 100, words)
    assert set(np.unique(rounded)) == {1, 2}
    assert abs(rounded.mean() - 1.5) < 7 * 0.5 / math.sqrt(100_000)


@pytest.mark.parametrize("scale", [0, -1, 2**25, 1.5, True])
def test_scales_that_cannot_be_exact_are_refused(scale: object) -> None:
    with pytest.raises(BadInput):
        sens.fixed_point(np.zeros((1, 1)), scale, 1)


def test_a_block_has_two_dimensions_and_a_bound_is_whole() -> None:
    with pytest.raises(BadInput):
        sens.fixed_point(np.zeros(3), 4, 1)
    with pytest.raises(BadInput):
        sens.fixed_point(np.zeros((3, 1)), 4, -1)


# Row bounds -------------------------------------------------------------------------------------------


def test_known_answers_of_the_row_bounds() -> None:
    assert sens.stochastic_row_bound(4096, 117) == 16865943  # privacy.md §4.4: 16865943.028
    assert sens.truncated_row_bound(4096) == 4096**2
    assert sens.conditional_row_bound(1000, 100, math.exp(-0.5)) == 1001030
    assert sens.stochastic_row_bound(64, 117) >= 5590  # §4.2: the exact worst case in integers
    assert sens.stochastic_row_bound(4, 117) >= 162


@pytest.mark.parametrize(("scale", "columns"), [(1, 2), (2, 3), (3, 2), (4, 4), (5, 3)])
def test_no_rounding_passes_the_stochastic_bound(scale: int, columns: int) -> None:
    """Every row of floors within the norm, rounded up everywhere."""
    worst = max(
        sum((k + 1) ** 2 for k in floors)
        for floors in product(range(scale + 1), repeat=columns)
        if sum(k * k for k in floors) < scale**2
    )
    assert worst <= sens.stochastic_row_bound(scale, columns)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), scales)
def test_shares_of_the_norm_add_up_to_one(budgets: list[int], scale: int) -> None:
    shares = sens.norm_shares(budgets)
    assert sum(shares) == 1
    assert sum(sens.truncated_row_bound(scale, share) for share in shares) <= scale**2


def test_a_party_without_columns_is_refused() -> None:
    for bad in ([], [3, 0]):
        with pytest.raises(BadInput):
            sens.norm_shares(bad)


def test_the_row_budget_counts_columns_not_levels() -> None:
    adult = [Numeric(0, 1)] * 6 + [Category([str(k) for k in range(12)])] * 8
    assert sens.row_budget(adult, intercept=True) == 15
    assert Fraction(sens.schema_gram_l1(15), 8) + Fraction(15, 2) == Fraction(45, 2)  # privacy.md §1.5: 22.5


# Gram matrices ----------------------------------------------------------------------------------------

integer_rows = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*(arrays.arrays(np.int64, n, elements=st.integers(-50, 50)) for _ in range(2)))
)


@given(integer_rows)
def test_one_person_moves_a_gram_matrix_by_at_most_the_bound(rows: tuple[np.ndarray, np.ndarray]) -> None:
    bound = max(1, *(int(row @ row) for row in rows))
    n = len(rows[0])
    zeroed = triangle(rows[0])
    replaced = [a - b for a, b in zip(triangle(rows[0]), triangle(rows[1]), strict=True)]
    assert sum(v * v for v in zeroed) <= sens.gram_l2_squared(bound)
    assert sum(map(abs, zeroed)) <= sens.gram_l1(bound, n)
    assert sum(v * v for v in replaced) <= sens.gram_l2_squared(bound, Neighbours.REPLACE)
    assert sum(map(abs, replaced)) <= sens.gram_l1(bound, n, Neighbours.REPLACE)


def test_the_gram_bounds_are_reached() -> None:
    spike, other, flat = np.array([3, 0]), np.array([0, 3]), np.array([2, 2, 2])
    assert sum(v * v for v in triangle(spike)) == sens.gram_l2_squared(9)
    difference = [a - b for a, b in zip(triangle(spike), triangle(other), strict=True)]
    assert sum(v * v for v in difference) == sens.gram_l2_squared(9, Neighbours.REPLACE)
    assert sum(map(abs, triangle(flat))) == sens.gram_l1(12, 3)


@given(st.integers(0, 10**6), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_schema_bounds_hold_for_any_row_of_the_schema(seed: int, numbers: int, groups: int, intercept: bool) -> None:
    generator = np.random.default_rng(seed)
    schema = [Numeric(-1, 1)] * numbers + [Category(["a", "b", "c"])] * groups
    budget = sens.row_budget(schema, intercept=intercept)
    rows = []
    for _ in range(2):
        values = generator.choice([-1.0, 1.0, generator.uniform(-1, 1)], numbers)
        levels = [np.eye(3)[generator.integers(3)] * generator.integers(0, 2) for _ in range(groups)]  # or missing
        rows.append(np.concatenate([values, *levels, np.ones(int(intercept))]))
    upper = [np.outer(row, row)[np.triu_indices(len(row))] for row in rows]
    assert np.abs(upper[0]).sum() <= sens.schema_gram_l1(budget) + 1e-9
    assert (upper[0] ** 2).sum() <= sens.schema_gram_l2_squared(budget) + 1e-9
    assert ((upper[0] - upper[1]) ** 2).sum() <= sens.schema_gram_l2_squared(budget, Neighbours.REPLACE) + 1e-9


def test_the_schema_bounds_are_reached_and_half_of_the_norm_bound() -> None:
    row = np.ones(15)
    upper = np.outer(row, row)[np.triu_indices(15)]
    assert (upper**2).sum() == np.abs(upper).sum() == sens.schema_gram_l2_squared(15) == 120
    assert sens.schema_gram_l2_squared(15) < 15**2


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_one_person_moves_contingency_tables_by_at_most_the_bound(seed: int, tables: int) -> None:
    generator = np.random.default_rng(seed)
    cells = np.zeros((2, tables, 9), dtype=int)
    for side, table in product(range(2), range(tables)):
        cells[side, table, generator.integers(9)] = generator.integers(0, 2)
    zeroed, replaced = cells[0], cells[0] - cells[1]
    assert np.abs(zeroed).sum() <= sens.tables_l1(tables)
    assert (zeroed**2).sum() <= sens.tables_l2_squared(tables)
    assert np.abs(replaced).sum() <= sens.tables_l1(tables, Neighbours.REPLACE)
    assert (replaced**2).sum() <= sens.tables_l2_squared(tables, Neighbours.REPLACE)


@pytest.mark.parametrize("relation", [Neighbours.PARTY_BLOCK, Neighbours.EVENT])
def test_bounds_are_refused_for_relations_they_are_not_proved_for(relation: Neighbours) -> None:
    with pytest.raises(BadInput):
        sens.gram_l2_squared(9, relation)


# Neighbours and units ---------------------------------------------------------------------------------


def test_a_replacement_is_two_steps_of_zero_out() -> None:
    assert replaced_nano(5) == 10
    assert replaced_rho(Fraction(1, 3)) == Fraction(4, 3)


def test_relations_say_what_they_protect() -> None:
    assert {relation: relation.unit for relation in Neighbours} == {
        Neighbours.ZERO_OUT: "person",
        Neighbours.REPLACE: "person",
        Neighbours.PARTY_BLOCK: "party",
        Neighbours.EVENT: "party",
    }
    assert all(relation.meaning.endswith(".") for relation in Neighbours)


@given(st.integers(1, 10**13), st.integers(1, 50))
def test_a_promise_to_a_person_is_shared_between_the_parties(nano: int, parties: int) -> None:
    price = Price(nano, 1e-6)
    assert party_price(price, parties, "party") == price
    if nano >= parties:
        shared = party_price(price, parties, "person")
        assert shared.nano * parties <= nano
        assert shared.delta * parties <= price.delta * (1 + 1e-12)


@pytest.mark.parametrize("bad", ["people", "", None, 1, "Person"])
def test_units_are_person_or_party(bad: object) -> None:
    with pytest.raises(BadInput):
        valid_unit(bad)
    assert UNITS == ("person", "party")


def test_there_is_at_least_one_party() -> None:
    with pytest.raises(BadInput):
        party_price(Price.of(1.0), 0, "person")
