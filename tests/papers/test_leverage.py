"""Leverage scores against a singular value decomposition, on every kind of block that a plain factorisation gets wrong."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from colonnade.papers import private
from colonnade.runtime.spilled_rows import SpilledRows
from tests.kit import generator


def blocks_of(rows: np.ndarray, size: int = 64):
    def blocks():
        for start in range(0, len(rows), size):
            yield np.ascontiguousarray(rows[start : start + size].T)

    return blocks


def in_memory(people: int) -> private.Room:
    return lambda width, dtype: SpilledRows(people, width, dtype)


def leverage_scores(blocks, people: int) -> tuple[np.ndarray, int]:
    found = private.leverage_scores(blocks, people, in_memory(people))
    return found.nonprivate_scores.mapped(), found.rank


def reference(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """Rank-revealing, by a singular value decomposition of columns scaled to one length."""
    lengths = np.linalg.norm(rows, axis=0)
    scaled = rows[:, lengths > 0] / lengths[lengths > 0]
    if not scaled.size:
        return np.zeros(len(rows)), 0
    left, values, _ = np.linalg.svd(scaled, full_matrices=False)
    rank = int((values > values[0] * max(scaled.shape) * np.finfo(float).eps).sum())
    return (left[:, :rank] ** 2).sum(axis=1), rank


def a_block(kind: str) -> np.ndarray:
    draw = generator(f"leverage {kind}")
    base = draw.normal(size=(500, 4))
    levels = np.eye(4)[draw.integers(0, 4, 500)]
    return {
        "full rank": base,
        "a column twice": np.c_[base, base[:, 0]],
        "a sum of others": np.c_[base, base[:, 1] + base[:, 2], 3 * base[:, 3]],
        "indicators and a constant": np.c_[np.ones(500), levels, draw.normal(size=500) * 1e9],
        "a zero column": np.c_[base, np.zeros(500)],
        "nothing at all": np.zeros((500, 3)),
        "fewer rows than columns": draw.normal(size=(5, 9)),
        "a far-off mean": np.c_[np.ones(500), 1e6 + base],
        "units that differ": base * np.array([1e-9, 1.0, 1e5, 1e12]),
        "nearly dependent": np.c_[base, base[:, 0] + 1e-9 * draw.normal(size=500)],
        "graded": draw.normal(size=(500, 8)) @ np.diag(10.0 ** -np.arange(8)) @ draw.normal(size=(8, 8)),
    }[kind]


KINDS = {
    "full rank": 1e-12,
    "a column twice": 1e-12,
    "a sum of others": 1e-12,
    "indicators and a constant": 1e-12,
    "a zero column": 1e-12,
    "nothing at all": 0.0,
    "fewer rows than columns": 1e-12,
    "a far-off mean": 1e-8,
    "units that differ": 1e-12,
    "nearly dependent": 1e-6,
    "graded": 1e-9,
}


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_equal_a_rank_revealing_reference(kind):
    rows = a_block(kind)
    expected, rank = reference(rows)
    scores, found = leverage_scores(blocks_of(rows), len(rows))
    assert found == rank
    assert np.abs(scores - expected).max() <= KINDS[kind]


@given(
    rows=arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 6)), elements=st.integers(-3, 3).map(float))
)
@settings(max_examples=60, deadline=None)
def test_scores_of_any_small_block_are_between_zero_and_one_and_sum_to_its_rank(rows):
    scores, rank = leverage_scores(blocks_of(rows, 7), len(rows))
    assert rank == np.linalg.matrix_rank(rows)
    assert scores.min() >= 0.0
    assert scores.max() <= 1.0
    assert scores.sum() == pytest.approx(rank, abs=1e-8)


def test_how_rows_are_divided_into_blocks_does_not_matter():
    rows = a_block("graded")
    first, second = (leverage_scores(blocks_of(rows, size), 500)[0] for size in (1, 500))
    assert np.abs(first - second).max() < 1e-9


@pytest.mark.parametrize("memory", [None, 0])
def test_memory_is_a_few_blocks_of_rows_and_the_scores_unless_they_are_on_disk(memory):
    rows = np.asfortranarray(generator("leverage memory").normal(size=(60_000, 30)))
    scores = SpilledRows(60_000, None, np.float64, memory=memory)

    def blocks():
        for start in range(0, 60_000, 2_000):
            yield rows[start : start + 2_000].T.copy()

    tracemalloc.start()
    private.leverage_scores(blocks, 60_000, lambda *_: scores)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.15 * rows.nbytes  # four blocks of 2,000 rows: one is read, one written
