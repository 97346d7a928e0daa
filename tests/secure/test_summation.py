"""Sums under pairwise masks: exact, uniform to everybody who lacks a secret, and refused where they could wrap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import Secret
from colonnade.secure.summation import PairwiseMasks, SumRing
from tests.kit import ALPHA, chi_square_p, source
from tests.secure.runs import sessions


def masks_of(names: list[str], ring: SumRing, label: str) -> dict[str, PairwiseMasks]:
    randomness = source(label)
    pairs = {(a, b): Secret(randomness.bytes(32)) for a in names for b in names if a < b}
    secrets = {a: {b: pairs[min(a, b), max(a, b)] for b in names if b != a} for a in names}
    return {name: PairwiseMasks(ring, name, secrets[name]) for name in names}


@given(
    parties=st.integers(2, 6),
    vectors=st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=40),
    position=st.integers(0, 2**40),
)
def test_masks_cancel_in_the_sum_of_all_parties(parties, vectors, position):
    ring = SumRing.for_headroom(2**40, parties)
    masks = masks_of([f"p{i}" for i in range(parties)], ring, "cancel")
    own = np.array(vectors)
    sent = [masks[name].masked(position, own * sign) for sign, name in zip([1, -1, 1, 1, -1, 1], masks, strict=False)]
    expected = own * sum([1, -1, 1, 1, -1, 1][:parties])
    assert np.array_equal(ring.decode(np.sum(sent, axis=0, dtype=ring.dtype)), expected)


@pytest.mark.parametrize("bound", [1_000, 2**50])
def test_a_masked_vector_is_uniform_whatever_is_in_it(bound):
    ring = SumRing.for_headroom(bound, 3)
    masks = masks_of(["a", "b", "c"], ring, f"uniform {bound}")
    for values in (np.zeros(200_000, dtype=np.int64), np.full(200_000, bound)):
        octets = masks["b"].masked(1, values).view(np.uint8)
        assert chi_square_p(np.bincount(octets, minlength=256), np.ones(256)) > ALPHA


def test_all_but_one_masked_vectors_are_jointly_uniform():
    """The proof's claim at its edge: with three honest parties, two masked vectors together still say nothing."""
    ring = SumRing.for_headroom(10, 3)
    masks = masks_of(["a", "b", "c"], ring, "joint")
    zeros = np.zeros(200_000, dtype=np.int64)
    first, second = (masks[name].masked(0, zeros).astype(np.int64) & 15 for name in ("a", "b"))
    assert chi_square_p(np.bincount(first * 16 + second, minlength=256), np.ones(256)) > ALPHA


def test_a_value_beyond_the_bound_is_clipped_before_it_can_wrap_the_sum():
    ring = SumRing.for_headroom(100, 2)
    masks = masks_of(["a", "b"], ring, "clipped")
    total = masks["a"].masked(0, np.array([2**62])) + masks["b"].masked(0, np.array([-3]))
    assert ring.decode(total).tolist() == [97]


@pytest.mark.parametrize(("bound", "parties"), [(2**62, 2), (2**60, 8), (0, 2), (5, 1), (True, 2)])
def test_a_sum_without_headroom_is_refused(bound, parties):
    with pytest.raises(BadInput):
        SumRing.for_headroom(bound, parties)


def test_masks_that_do_not_cancel_are_noticed():
    ring = SumRing.for_headroom(2**20, 2)
    masks = masks_of(["a", "b"], ring, "unbalanced")
    zeros = np.zeros(64, dtype=np.int64)
    with pytest.raises(ProtocolError):
        ring.decode(masks["a"].masked(0, zeros) + masks["b"].masked(1, zeros))


def test_secrets_of_a_session_are_the_same_at_both_ends_and_for_no_other_purpose():
    met = sessions(3)
    assert met["ana"].shared("bo", "x") == met["bo"].shared("ana", "x")
    assert met["ana"].shared("bo", "x") != met["ana"].shared("cy", "x")
    assert met["ana"].shared("bo", "x") != met["ana"].shared("bo", "y")
