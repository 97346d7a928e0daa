"""Partition sketches as a mechanism: the law of what is released, and what a person can change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.audit import distinguish
from colonnade.errors import BadInput
from colonnade.papers import laws as module
from colonnade.papers.laws import (
    PairSide,
    PartitionSketches,
    Sketching,
    phantom_values,
    real_values,
    sketch_law,
)
from colonnade.privacy.randomness import KeyedRandomness, SystemRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.runtime.spilled_rows import SpilledRows
from tests import kit

FIRST, SECOND = PairSide("pair", True), PairSide("pair", False)


def released(codes, *, sketching, clusters, side=FIRST, key=b"k" * 32):
    mechanism = PartitionSketches(sketching, "person", clusters, (side,), lambda: key)
    return mechanism.release(np.asarray(codes, dtype=np.int32), ExactSampler(SystemRandomness()))[0]


def a_key(name) -> bytes:
    return kit.source(name).bytes(32)


# The law --------------------------------------------------------------------------------------------------------------------


def expected(law, people, cells=1, phantoms=None):
    """P(value ≤ a) from the floor to one before the cap, for so many people and cells of phantoms."""
    above = law.thresholds / 2.0**64
    return (1 - above) ** (people + cells * (law.phantoms if phantoms is None else phantoms))


@pytest.mark.parametrize(("people", "phantoms"), [(0, 20), (15, 20), (40, 3), (900, 60)])
def test_values_have_the_law_of_so_many_people_and_phantoms_and_of_no_tenth_more_or_fewer(people, phantoms):
    sketching = Sketching(2, phantoms, 1 << 18)
    values = released([0] * people, sketching=sketching, clusters=1, key=a_key(f"law {people} {phantoms}"))[:, 0]
    law = sketching.law
    assert law.floor <= values.min() <= values.max() <= law.cap
    cuts = np.unique(np.searchsorted(expected(law, people, 2), np.linspace(0.02, 0.98, 25)))
    cuts = cuts[cuts < len(law.thresholds) - 1]
    observed = np.diff(np.searchsorted(np.sort(values), law.floor + np.append(cuts, 10**6), side="right"), prepend=0)

    def p_value(scale):
        cdf = expected(law, people * scale, 2, law.phantoms * scale)[cuts]
        return kit.chi_square_p(observed, np.diff(np.append(cdf, 1.0), prepend=0.0))

    assert p_value(1.0) > kit.ALPHA
    assert p_value(0.9) < kit.ALPHA
    assert p_value(1.1) < kit.ALPHA


@pytest.mark.parametrize("bits", [3, 4, 7, 10])
def test_four_sketches_that_share_a_byte_are_as_independent_as_four(bits):
    count = 1 << 20
    source = KeyedRandomness(a_key(f"bytes {bits}"))
    passed = np.arange(count, dtype=np.int64)
    places = np.empty(4 * count, dtype=np.int64)
    found = places[: module._expand(passed, source.words(count), np.uint64(bits), module._SUBSETS, places)]
    members = np.zeros(count, dtype=np.int64)
    np.bitwise_or.at(members, found // 4, 1 << (found % 4))
    p = 2.0**-bits
    sizes = np.array([int(subset).bit_count() for subset in range(16)])
    law = p**sizes * (1 - p) ** (4 - sizes) / (4 * p)
    law[0] = 1 - law[1:].sum()
    assert kit.chi_square_p(np.bincount(members, minlength=16), law) > kit.ALPHA
    skewed = law * np.where(sizes == 2, 1.3, 1.0)
    skewed[1:5] += 0.01
    assert kit.chi_square_p(np.bincount(members, minlength=16), skewed / skewed.sum()) < kit.ALPHA


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40), st.integers(1, 128))
def test_the_screen_finds_every_byte_below_the_limit_and_no_other(words, limit):
    array = np.array(words, dtype=np.uint64)
    found = np.empty(8 * len(array), dtype=np.int64)
    count = module._screen(array, np.uint64(limit), found)
    every = np.concatenate([[(word >> 8 * byte) & 255 for byte in range(8)] for word in words])
    assert found[:count].tolist() == np.flatnonzero(every < limit).tolist()


# Keys -----------------------------------------------------------------------------------------------------------------------


def test_both_parties_derive_the_same_values_and_phantoms():
    codes = kit.generator("same").integers(-1, 3, size=3_000)
    sketching = Sketching(2, 50, 256)
    one = released(codes, sketching=sketching, clusters=3)
    other = released(codes, sketching=sketching, clusters=3, side=SECOND)
    heard = np.maximum(one, other) > sketching.law.floor
    assert (one == other)[heard].mean() > 0.5  # most maxima are of cell (a, a), where everybody is


def test_a_value_is_a_function_of_key_pair_position_and_sketch_alone():
    law = sketch_law(10)
    alone = [
        real_values(law, 64, [np.where(np.arange(2_500) == who, 0, -1).astype(np.int32)], 1, KeyedRandomness(b"k" * 32))
        for who in (3, 1_700)
    ]
    both = real_values(
        law,
        64,
        [np.where(np.isin(np.arange(2_500), (3, 1_700)), 0, -1).astype(np.int32)],
        1,
        KeyedRandomness(b"k" * 32),
    )
    assert np.array_equal(np.maximum(*alone), both)
    assert not np.array_equal(*alone)


@pytest.mark.parametrize("block", [1, 700, 1_024, 2_500])
def test_people_that_are_read_some_at_a_time_are_sketched_as_all_at_once(block):
    sketching = Sketching(2, 50, 64)
    mechanism = PartitionSketches(sketching, "person", 3, (FIRST,), lambda: b"k" * 32)
    clusters = kit.generator("sketched in blocks").integers(-1, 3, 2_500)
    rows = SpilledRows(2_500, None, np.int16, memory=0)
    rows.append(clusters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("colonnade.runtime.spilled_rows.BLOCK", block)
        found = mechanism.release(rows, kit.sampler("unused"))
    assert np.array_equal(found, mechanism.release(clusters, kit.sampler("unused")))


@pytest.mark.parametrize("change", [{"key": b"l" * 32}, {"side": PairSide("another pair", True)}])
def test_another_key_or_pair_gives_other_values(change):
    codes, sketching = np.zeros(500), Sketching(2, 50, 256)
    one, other = (
        released(codes, sketching=sketching, clusters=2),
        released(codes, sketching=sketching, clusters=2, **change),
    )
    assert (one == other)[one > sketching.law.floor].mean() < 0.05


# What a person can change ---------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_record_zeroed_out_lowers_values_of_one_cluster_to_what_the_rest_have(data):
    clusters, people = 4, 60
    codes = np.array(data.draw(st.lists(st.integers(-1, clusters - 1), min_size=people, max_size=people)))
    who = data.draw(st.integers(0, people - 1))
    sketching = Sketching(2, 8, 256)
    without = codes.copy()
    without[who] = -1
    before, after = (released(one, sketching=sketching, clusters=clusters) for one in (codes, without))
    changed = np.flatnonzero((before != after).any(axis=0))
    assert set(changed) <= {codes[who]}
    assert (after <= before).all()


def single_values(people, name, phantoms, sketches=1 << 20):
    """Independent values of one cell with so many people, all of them victims of one release each."""
    law = sketch_law(phantoms)
    source = KeyedRandomness(a_key(name))
    own = phantom_values(law, sketches, 1, source)[:, 0, 0]
    return np.maximum(own, real_values(law, sketches, [np.zeros(people, dtype=np.int32)], 1, source)[:, 0])


def test_the_loss_of_a_sketch_is_not_refuted_and_half_the_phantoms_are_convicted():
    claimed = sketch_law(4).up
    honest = distinguish(
        single_values(1, "one", 4),
        single_values(0, "none", 4),
        statistic=lambda v: v > sketch_law(4).floor,
        alpha=kit.ALPHA,
    )
    assert honest.epsilon <= claimed
    halved = distinguish(
        single_values(1, "one", 2),
        single_values(0, "none", 2),
        statistic=lambda v: v > sketch_law(2).floor,
        alpha=kit.ALPHA,
    )
    assert halved.epsilon > claimed


# Refusals -------------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_sketched_is_refused_before_a_key_is_asked_for():
    def no_key():
        raise AssertionError

    with pytest.raises(BadInput):
        PartitionSketches(Sketching(3, 50, 64), "person", 2, (FIRST,), no_key)
    with pytest.raises(BadInput):
        PartitionSketches(Sketching(2, 50, 65), "person", 2, (FIRST,), no_key)
    mechanism = PartitionSketches(Sketching(2, 50, 64), "person", 2, (FIRST,), no_key)
    for codes in (np.array([0, 2], dtype=np.int32), np.zeros((2, 2), dtype=np.int32), np.array([0.5])):
        with pytest.raises(BadInput):
            mechanism.release(codes, ExactSampler(SystemRandomness()))
    assert "k" * 32 not in repr(PartitionSketches(Sketching(2, 50, 64), "person", 2, (FIRST,), lambda: b"k" * 32))
