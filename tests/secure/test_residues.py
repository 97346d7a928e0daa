"""Residue arithmetic against Python's integers: exact for every modulus at its edges, or refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure import residues as _kernels
from colonnade.secure.keys import SeedStream
from colonnade.secure.residues import PRIME_SETS, Arithmetic, gram_bound, noise_tail
from colonnade.secure.shamir import Products, entry_pairs
from tests import kit
from tests.secure.arithmetics import every_arithmetic


def elements(values):
    return np.array(values, dtype=np.uint64)


def edge_elements(arithmetic):
    """Elements whose residues are extreme: zero, one, the ends of the centred range, next to multiples and to halves."""
    modulus = arithmetic.modulus
    found = {0, 1, 2, arithmetic.largest, arithmetic.largest + 1, modulus - 2, modulus - 1}
    for prime in arithmetic.moduli:
        top = modulus // prime
        for multiple in (0, 1, 2, top // 3, top // 2, top - 2, top - 1):
            for offset in (0, 1, prime - 1, (prime - 1) // 2, (prime + 1) // 2):
                found.add(multiple * prime + offset)
    for side in itertools.product((0, 1), repeat=len(arithmetic.moduli)):
        ends = [(p - 1) // 2 + s for p, s in zip(arithmetic.moduli, side, strict=True)]
        found.add(int(arithmetic.from_residues(np.array(ends)[:, None])[0]))
    return sorted(one for one in found if 0 <= one < modulus)


def exact_products(arithmetic, chunk, within):
    columns = [[int(v) for v in column] for part in chunk for column in part]
    first, second = entry_pairs([len(part) for part in chunk], within=within)
    return [
        sum(a * b for a, b in zip(columns[i], columns[j], strict=True)) % arithmetic.modulus
        for i, j in zip(first, second, strict=True)
    ]


# The moduli


@every_arithmetic
def test_moduli_are_different_primes(arithmetic):
    sieve = np.ones(2**23, dtype=bool)
    sieve[:2] = False
    for number in range(2, 2897):
        if sieve[number]:
            sieve[number * number :: number] = False
    assert all(sieve[p] for p in arithmetic.moduli)
    assert len(set(arithmetic.moduli)) == len(arithmetic.moduli)


@pytest.mark.parametrize(
    "moduli",
    [
        (),
        (9, 7),
        (7, 7),
        (2, 7),
        (8388617,),
        (253, 251),
        (2**23 - 15, 2**23 - 21, 2**21 - 9),
        (2**23 - 15, 2**23 - 21, 17, 19),
        (2**21 - 9, 2**21 - 19, 2**21 - 21, 3),
        (7.0,),
        (True,),
    ],
)
def test_moduli_that_would_not_be_exact_are_refused(moduli):
    with pytest.raises(BadInput):
        Arithmetic(moduli)


# Headroom, at plan time


def test_the_cheapest_arithmetic_with_room_is_chosen_and_one_more_is_refused():
    for position, moduli in enumerate(PRIME_SETS):
        largest = (math.prod(moduli) - 1) // 2
        assert Arithmetic.for_headroom(largest, 8).moduli == moduli
        if position + 1 < len(PRIME_SETS):
            assert Arithmetic.for_headroom(largest + 1, 8).moduli == PRIME_SETS[position + 1]
        else:
            with pytest.raises(BadInput):
                Arithmetic.for_headroom(largest + 1, 8)


@every_arithmetic
def test_a_gram_entry_exactly_at_the_bound_decodes(arithmetic):
    rows = 700
    largest = math.isqrt(arithmetic.largest // rows)
    assert gram_bound(rows, largest) <= arithmetic.largest < gram_bound(rows, largest + 1)
    column = np.full((1, rows), largest)
    for sign in (1, -1):
        product = Products(arithmetic, [1, 1])
        product.add([arithmetic.encode(column), arithmetic.encode(sign * column)])
        bound = gram_bound(rows, largest)
        assert arithmetic.decode(product.elements(), bound).tolist() == [sign * bound]
        with pytest.raises(ProtocolError):
            arithmetic.decode(product.elements(), bound - 1)


@given(st.integers(0, 10**30))
def test_the_noise_tail_solves_its_inequality_and_is_not_wasteful(variance):
    tail = noise_tail(variance)
    assert Fraction(tail) ** 2 / (2 * (variance + Fraction(tail, 3))) >= 128
    assert tail <= 16.001 * math.sqrt(variance) + 90


def test_no_more_shares_are_added_up_than_float64_adds_exactly():
    """With primes of 23 bits 256 products of the largest residues are whole numbers below 2⁵², and 257 are not."""
    arithmetic = Arithmetic(PRIME_SETS[4])
    arithmetic.require_nodes(256)
    largest = (min(arithmetic.moduli) - 1) // 2
    shares = np.full((256, 3), largest, dtype=np.uint64)
    weights = np.full((2, 256), largest, dtype=np.int64)
    assert set(arithmetic.weighted(shares, weights).tolist()) == {256 * largest**2 % arithmetic.modulus}
    with pytest.raises(BadInput, match="small"):
        arithmetic.require_nodes(257)
    with pytest.raises(BadInput, match="small"):
        arithmetic.weighted(np.vstack([shares, shares]), np.hstack([weights, weights]))


# Integers to elements and back


@every_arithmetic
def test_integers_round_trip_at_the_edges_and_not_beyond(arithmetic):
    edges = np.array([0, 1, -1, arithmetic.largest, -arithmetic.largest])
    found = arithmetic.encode(edges)
    assert [int(e) for e in found] == [int(v) % arithmetic.modulus for v in edges]
    assert (arithmetic.decode(found) == edges).all()
    for beyond in (arithmetic.largest + 1, -arithmetic.largest - 1, 2**63 - 1, -(2**63)):
        with pytest.raises(BadInput):
            arithmetic.encode(np.array([0, beyond]))


@every_arithmetic
def test_elements_out_of_range_are_refused_everywhere(arithmetic):
    good = elements([0, arithmetic.modulus - 1])
    for wrong in (arithmetic.modulus, arithmetic.modulus + 1, 2**63, 2**64 - 1):
        bad = elements([0, wrong])
        for use in (arithmetic.require, arithmetic.decode, arithmetic.to_bytes, arithmetic.add):
            use(good)
            with pytest.raises(ProtocolError):
                use(bad)
        with pytest.raises(ProtocolError):
            arithmetic.add(good, bad)
    with pytest.raises(ProtocolError):
        arithmetic.require(np.array([1]))
    with pytest.raises(ProtocolError):
        arithmetic.add(good, elements([1]))


@every_arithmetic
def test_a_product_refuses_shares_out_of_range_or_of_another_shape(arithmetic):
    good = np.zeros((2, 600), dtype=np.uint64)
    for place in ((0, 0), (1, 511), (0, 599)):
        bad = good.copy()
        bad[place] = arithmetic.modulus
        with pytest.raises(ProtocolError):
            Products(arithmetic, [2, 2]).add([good, bad])
    for chunk in ([good], [good, good[:1]], [good, good[:, :5]], [good, good[0]], [good, good.astype(np.int64)], []):
        with pytest.raises(ProtocolError):
            Products(arithmetic, [2, 2]).add(chunk)


# Residues


@every_arithmetic
def test_planes_hold_centred_residues_at_the_edges(arithmetic):
    edges = edge_elements(arithmetic)
    values = np.concatenate([elements(edges), arithmetic.uniform(SeedStream(bytes(32)), 20_000)])[None]
    wide = arithmetic.modulus >= _kernels.LARGEST_NARROW
    for prime, high in arithmetic.constants:
        plane = np.zeros(values.shape)
        _kernels._float_plane(values, 0, values.size, prime, high, wide, plane)
        found = plane[0].astype(np.int64)
        assert (found == plane[0]).all()
        assert (np.mod(found, int(prime)) == (values[0] % np.uint64(prime)).astype(np.int64)).all()
        slack = 1 if arithmetic.modulus >= _kernels.ROUNDED_RIGHT else 0
        assert np.abs(found).max() <= (int(prime) - 1) // 2 + slack


@every_arithmetic
def test_words_are_reduced_exactly_next_to_every_kind_of_multiple(arithmetic):
    modulus = arithmetic.modulus
    top = 2**64 // modulus
    multiples = {0, 1, 2, 3, top // 2, top - 1, top}
    words = sorted({w for m in multiples for w in range(m * modulus - 3, m * modulus + 4) if 0 <= w < 2**64})
    found = elements([*words, 2**64 - 1])
    _kernels.reduce_words(found, modulus, (1 - 2.0**-50) / modulus)
    assert found.tolist() == [w % modulus for w in (*words, 2**64 - 1)]


# Products


@every_arithmetic
@pytest.mark.parametrize("rows", [1, 7, 511, 512, 513, 5000])
def test_products_of_extreme_residues_are_exact(arithmetic, rows):
    edges = elements(edge_elements(arithmetic))
    ends = [e for e in edges if all(int(e) % p in {(p - 1) // 2, (p + 1) // 2} for p in arithmetic.moduli)]
    assert len(ends) == 2 ** len(arithmetic.moduli)
    steady = np.repeat(np.resize(np.array(ends, dtype=np.uint64), 3)[:, None], rows, axis=1)
    mixed = np.stack([np.resize(np.roll(edges, shift), rows) for shift in range(2)])
    for within in (False, True):
        product = Products(arithmetic, [3, 2], within=within)
        product.add([steady, mixed])
        assert product.elements().tolist() == exact_products(arithmetic, [steady, mixed], within)


@every_arithmetic
@settings(max_examples=10)
@given(data=st.data())
def test_products_of_any_shape_are_exact(arithmetic, data):
    widths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    rows = data.draw(st.integers(1, 40))
    within = data.draw(st.booleans())
    seed = data.draw(st.binary(min_size=32, max_size=32))
    chunk = [arithmetic.uniform(SeedStream(seed, q), w * rows).reshape(w, rows) for q, w in enumerate(widths)]
    product = Products(arithmetic, widths, within=within)
    product.add(chunk)
    assert product.elements().tolist() == exact_products(arithmetic, chunk, within)


@every_arithmetic
def test_wide_products_are_exact_whatever_the_tiling(arithmetic):
    widths, rows = [37, 70, 30], 30
    chunk = [arithmetic.uniform(SeedStream(bytes(32), q), w * rows).reshape(w, rows) for q, w in enumerate(widths)]
    for within in (False, True):
        product = Products(arithmetic, widths, within=within)
        product.add(chunk)
        assert product.elements().tolist() == exact_products(arithmetic, chunk, within)


# Randomness


@every_arithmetic
def test_uniform_elements_are_uniform_and_so_are_their_residues(arithmetic):
    found = arithmetic.uniform(kit.source(f"uniform {arithmetic.moduli}"), 100_000)
    bins = (found.astype(object) * 64 // arithmetic.modulus).astype(np.int64)
    assert kit.chi_square_p(np.bincount(bins, minlength=64), np.full(64, 1 / 64)) > kit.ALPHA
    for prime in arithmetic.moduli:
        cells = min(prime, 251)
        residues = (found % np.uint64(prime)).astype(np.int64) * cells // prime
        mass = np.bincount(np.arange(prime) * cells // prime, minlength=cells)
        assert kit.chi_square_p(np.bincount(residues, minlength=cells), mass) > kit.ALPHA


class Script:
    """A source that returns prepared words."""

    def __init__(self, words):
        self._words = list(words)

    def words(self, count):
        taken, self._words = self._words[:count], self._words[count:]
        return elements(taken)

    def bytes(self, count):
        raise NotImplementedError


@every_arithmetic
def test_words_above_the_last_whole_multiple_are_drawn_again(arithmetic):
    limit = 2**64 // arithmetic.modulus * arithmetic.modulus
    script = Script([limit - 1, limit, 5, 2**64 - 1, limit, 2**64 - 1, 7, 8, 9])
    assert arithmetic.uniform(script, 4).tolist() == [arithmetic.modulus - 1, 7, 5, 8]
    assert script.words(1).tolist() == [9]


# Bytes


@every_arithmetic
@settings(max_examples=8)
@given(data=st.data())
def test_bytes_round_trip_and_are_one_stream_of_bits_lowest_first(arithmetic, data):
    values = data.draw(st.lists(st.integers(0, arithmetic.modulus - 1), max_size=150))
    sent = arithmetic.to_bytes(elements(values))
    stream = sum(value << place * arithmetic.element_bits for place, value in enumerate(values))
    assert sent == stream.to_bytes(arithmetic.packed_size(len(values)), "little")
    assert arithmetic.from_bytes(memoryview(sent), (len(values),)).tolist() == values


@every_arithmetic
def test_bytes_of_another_length_or_range_are_refused(arithmetic):
    sent = arithmetic.to_bytes(elements([1, 2, 3, 4, 5, 6]))
    assert arithmetic.from_bytes(sent, (2, 3)).tolist() == [[1, 2, 3], [4, 5, 6]]
    for wrong in (sent[:-1], sent + b"\0", b""):
        with pytest.raises(ProtocolError):
            arithmetic.from_bytes(wrong, (2, 3))
    with pytest.raises(ProtocolError):
        arithmetic.from_bytes(b"\xff" * len(sent), (6,))


@every_arithmetic
def test_sums_and_products_of_elements_are_those_of_long_integers(arithmetic):
    """At random elements and at those next to 0, to half the modulus and to the modulus, in more than one block of the loops."""
    modulus, rng = arithmetic.modulus, np.random.default_rng(11)
    edges = [0, 1, modulus - 1, modulus // 2, modulus // 2 + 1, modulus - 2]
    drawn = rng.integers(0, modulus, (5, 2_500), dtype=np.uint64)
    drawn[:, :36] = np.array(list(itertools.product(edges, edges)), dtype=np.uint64)[:, [0, 1, 0, 1, 0]].T
    whole, factors = drawn.astype(object), rng.integers(-(2**13), 2**13, drawn.shape)
    found = arithmetic.weighted_by_person(drawn, factors)
    assert found.tolist() == ((whole * factors.astype(object)).sum(axis=0) % modulus).tolist()
    assert arithmetic.scaled_columns(drawn, drawn[1]).tolist() == (whole * whole[1] % modulus).tolist()
    weights = [3, -2, modulus - 1, 7, 2]
    residues = np.array([[weight % p for weight in weights] for p in arithmetic.moduli], dtype=np.int64)
    expected = sum(weight * row for weight, row in zip(weights, whole, strict=True)) % modulus
    assert arithmetic.weighted(drawn, residues).tolist() == expected.tolist()
