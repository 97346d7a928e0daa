"""Pair tables made consistent, and joint tables fitted to them."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from colonnade.errors import BadInput
from colonnade.estimation.tables import (
    PairTableSet,
    consistent_tables,
    joint_errors,
    maximum_entropy,
    plausible_total,
    project_to_margins,
    project_to_simplex,
)
from tests import kit

CELLS = st.floats(-1e6, 1e6, allow_nan=False)


def pairwise_markov(rng: np.random.Generator, sizes: tuple[int, ...], total: float) -> np.ndarray:
    """A joint table with interactions of pairs and no higher ones."""
    joint = np.ones(sizes)
    for pair in combinations(range(len(sizes)), 2):
        shape = [size if axis in pair else 1 for axis, size in enumerate(sizes)]
        joint = joint * np.exp(rng.standard_normal(shape))
    return joint * (total / joint.sum())


def pairs_of(joint: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
    axes = range(joint.ndim)
    return {pair: joint.sum(axis=tuple(a for a in axes if a not in pair)) for pair in combinations(axes, 2)}


def noisy_pairs(joint: np.ndarray, sd: float, rng: np.random.Generator) -> PairTableSet:
    tables = {pair: table + sd * rng.standard_normal(table.shape) for pair, table in pairs_of(joint).items()}
    return PairTableSet(joint.shape, tables, dict.fromkeys(tables, sd**2))


@given(arrays(float, st.integers(1, 30), elements=CELLS), st.floats(0, 1e6))
def test_the_projection_onto_counts_is_non_negative_with_the_right_total_and_nearest(values, total):
    projected = project_to_simplex(values, total)
    assert np.all(projected >= 0)
    assert projected.sum() == pytest.approx(total, abs=1e-6)
    # Nearest: the positive cells are all shifted alike, and no zero cell would gain from the shift.
    inside = projected > 0
    if np.any(inside):
        shift = (projected - values)[inside]
        assert np.ptp(shift) <= 1e-6
        assert np.all(values[~inside] + shift.min() <= 1e-6)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(0.01, 1e4))
def test_the_projection_onto_margins_keeps_both_and_is_never_negative(rows, columns, seed, sd):
    rng = np.random.default_rng(seed)
    truth = rng.multinomial(1000, rng.dirichlet(np.full(rows * columns, 0.3))).reshape(rows, columns)
    noisy = truth + sd * rng.standard_normal((rows, columns))
    projected = project_to_margins(noisy, truth.sum(axis=1), truth.sum(axis=0))
    assert np.all(projected >= 0)
    assert np.allclose(projected.sum(axis=1), truth.sum(axis=1), atol=1e-6)
    assert np.allclose(projected.sum(axis=0), truth.sum(axis=0), atol=1e-6)
    assert np.linalg.norm(projected - truth) <= np.linalg.norm(noisy - truth) + 1e-6  # a projection onto a convex set


@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.integers(0, 2**32 - 1), st.floats(0.1, 3000))
def test_consistent_tables_agree_on_every_margin_and_total_whatever_the_noise(sizes, seed, sd):
    rng = np.random.default_rng(seed)
    tables = noisy_pairs(pairwise_markov(rng, tuple(sizes), 1000.0), sd, rng)
    result = consistent_tables(tables, 1000.0).tables
    for column in range(len(sizes)):
        margins = [table.sum(axis=1 - pair.index(column)) for pair, table in result.items() if column in pair]
        assert all(np.allclose(margin, margins[0], atol=1e-6) for margin in margins)
    assert all(np.all(table >= 0) and table.sum() == pytest.approx(1000.0) for table in result.values())


@given(
    st.lists(st.integers(2, 4), min_size=2, max_size=4), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 30.0, 3000.0])
)
def test_a_fit_to_inconsistent_tables_keeps_its_total_and_does_not_collapse(sizes, seed, sd):
    rng = np.random.default_rng(seed)
    tables = consistent_tables(noisy_pairs(pairwise_markov(rng, tuple(sizes), 1000.0), sd, rng), 1000.0)
    joint = maximum_entropy(tables, 1000.0)
    assert joint.shape == tuple(sizes)
    assert np.all(joint >= 0)
    assert joint.sum() == pytest.approx(1000.0)


def test_plain_iterative_fitting_on_the_raw_tables_does_collapse_which_is_why_they_are_made_consistent():
    rng = np.random.default_rng(5)
    truth = pairwise_markov(rng, (4, 4, 4), 1000.0)
    raw = noisy_pairs(truth, 60.0, rng)
    joint = np.full(truth.shape, 1000.0 / truth.size)
    for _ in range(2000):
        for pair, table in raw.tables.items():
            current = pairs_of(joint)[pair]
            ratio = np.divide(np.maximum(table, 0), current, out=np.zeros_like(current), where=current > 0)
            joint = joint * np.expand_dims(ratio, ({0, 1, 2} - set(pair)).pop())
    plain = np.abs(joint - truth).sum()
    ours = np.abs(maximum_entropy(consistent_tables(raw, 1000.0), 1000.0) - truth).sum()
    assert ours < plain


@pytest.mark.every(2)
@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 4, 5), (2, 3, 2, 4)])
def test_without_noise_a_pairwise_markov_table_is_recovered_exactly(sizes):
    truth = pairwise_markov(kit.generator(f"markov {sizes}"), sizes, 5000.0)
    tables = PairTableSet(sizes, pairs_of(truth), dict.fromkeys(pairs_of(truth), 0.0))
    joint = maximum_entropy(consistent_tables(tables, 5000.0), 5000.0)
    assert np.allclose(joint, truth, atol=1e-3)
    assert not np.any(joint_errors(joint, tables))


def test_the_fit_has_the_given_pairs_and_no_interaction_of_three():
    truth = np.zeros((2, 2, 2))
    truth[0, 0, 0] = truth[0, 1, 1] = truth[1, 0, 1] = truth[1, 1, 0] = (
        250.0  # exclusive or: all interaction is of three
    )
    tables = PairTableSet((2, 2, 2), pairs_of(truth), dict.fromkeys(pairs_of(truth), 0.0))
    joint = maximum_entropy(consistent_tables(tables, 1000.0), 1000.0)
    assert np.allclose(joint, 125.0, atol=1e-3)


def test_pair_tables_that_no_joint_table_has_are_fitted_as_well_as_can_be():
    agree, differ = np.array([[500.0, 0.0], [0.0, 500.0]]), np.array([[0.0, 500.0], [500.0, 0.0]])
    pairs = {(0, 1): agree, (1, 2): agree, (0, 2): differ}  # a = b, b = c, a ≠ c
    joint = maximum_entropy(PairTableSet((2, 2, 2), pairs, dict.fromkeys(pairs, 1.0)), 1000.0)
    assert joint.sum() == pytest.approx(1000.0)
    assert pairs_of(joint)[0, 1][0, 0] == pytest.approx(pairs_of(joint)[1, 2][0, 0], abs=1.0)  # no pair is favoured
    assert pairs_of(joint)[0, 1][0, 0] == pytest.approx(pairs_of(joint)[0, 2][0, 1], abs=1.0)


@pytest.mark.parametrize("sd", [5.0, 80.0])
def test_standard_errors_cover_the_error_of_the_fit(sd):
    rng = kit.generator(f"joint errors {sd}")
    truth = pairwise_markov(rng, (3, 4, 3), 100_000.0)
    fits = [consistent_tables(noisy_pairs(truth, sd, rng), 100_000.0) for _ in range(60)]
    joints = np.array([maximum_entropy(tables, 100_000.0) for tables in fits])
    errors = np.array([joint_errors(joint, tables) for joint, tables in zip(joints, fits, strict=True)])
    ratio = np.sqrt(np.mean((joints - truth) ** 2)) / np.sqrt(np.mean(errors**2))
    assert 0.8 < ratio < 1.2


def test_the_total_is_the_number_of_people_unless_the_tables_refute_it():
    truth = pairwise_markov(kit.generator("total"), (4, 4), 1000.0)
    assert plausible_total(noisy_pairs(truth, 10.0, kit.generator("total noise")), 1000) == 1000.0
    missing = plausible_total(noisy_pairs(truth, 10.0, kit.generator("total noise")), 2000)
    assert missing == pytest.approx(1000.0, abs=250)
    exact = PairTableSet((4, 4), pairs_of(truth), {(0, 1): 0.0})
    assert plausible_total(exact, 1000) == 1000.0
    assert plausible_total(exact, 1200) == pytest.approx(1000.0)


BAD_TABLES = {
    "one column": ((3,), {}, {}),
    "a missing pair": ((2, 2, 2), {(0, 1): np.eye(2)}, {(0, 1): 1.0}),
    "a wrong shape": ((2, 3), {(0, 1): np.eye(2)}, {(0, 1): 1.0}),
    "not a number": ((2, 2), {(0, 1): np.array([[1.0, np.nan], [0.0, 1.0]])}, {(0, 1): 1.0}),
    "a negative variance": ((2, 2), {(0, 1): np.eye(2)}, {(0, 1): -1.0}),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_cannot_be_meant_are_refused(name):
    with pytest.raises(BadInput):
        PairTableSet(*BAD_TABLES[name])
