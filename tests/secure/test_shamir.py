"""Sharing: exact for every (N, t), uniform for any t nodes, never opened without a mask, and checked for its degree."""

import hashlib
import inspect
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import BadInput, NotEnoughComputeNodes, ProtocolError
from colonnade.secure.residues import PRIME_SETS, Arithmetic, gram_bound
from colonnade.secure.shamir import (
    Dealing,
    ShareProduct,
    check_repetitions,
    entry_pairs,
    expand,
    reconstruct,
    require_threshold,
    verify_degree,
)
from tests import kit
from tests.secure.arithmetics import ALL, every_arithmetic

PORTABLE_RING = Arithmetic(PRIME_SETS[4])
SIZES = [(nodes, threshold) for nodes in range(3, 9) for threshold in range(1, (nodes - 1) // 2 + 1)]


def every_size(test):
    """Run a test for one size after the other: hundreds of sizes and rings are hundreds of cases, not of tests."""

    def run(**given):
        for nodes, threshold in SIZES:
            test(nodes=nodes, threshold=threshold, **given)

    taken = inspect.signature(test).parameters
    run.__signature__ = inspect.Signature([one for name, one in taken.items() if name not in ("nodes", "threshold")])
    run.__name__, run.__doc__, run.pytestmark = test.__name__, test.__doc__, getattr(test, "pytestmark", [])
    return run


def seed(*parts):
    return hashlib.sha256(repr(parts).encode()).digest()


def secure_gram(arithmetic, tables, noises, nodes, threshold, chunk_rows, within=False):
    """Run the whole computation in one place; return each node's masked product, by point."""
    widths = [table.shape[1] for table in tables]
    products = {point: ShareProduct(arithmetic, widths, within=within) for point in range(1, nodes + 1)}
    dealings = [Dealing(arithmetic, nodes=nodes, degree=threshold, seed=seed("table", q)) for q in range(len(tables))]
    for position, start in enumerate(range(0, len(tables[0]), chunk_rows)):
        rows = slice(start, start + chunk_rows)
        dealt = [d.shares(position, t[rows]) for d, t in zip(dealings, tables, strict=True)]
        for point, product in products.items():
            product.add([shares[point - 1] for shares in dealt])
    masks = [
        Dealing(arithmetic, nodes=nodes, degree=2 * threshold, seed=seed("noise", q)).shares(0, noise)
        for q, noise in enumerate(noises)
    ]
    return {point: product.masked([mask[point - 1] for mask in masks]) for point, product in products.items()}


def plain_gram(tables, noises, within=False):
    joined = np.concatenate(tables, axis=1).astype(object)
    first, second = entry_pairs([table.shape[1] for table in tables], within=within)
    return ((joined.T @ joined)[first, second] + np.sum(np.array(noises, dtype=object), axis=0)).tolist()


# Thresholds


@pytest.mark.parametrize(("nodes", "threshold"), [(2, 1), (3, 0), (3, 2), (4, 2), (5, 3), (3, -1), (3, 1.0), (3, True)])
def test_thresholds_without_secrecy_or_without_products_are_refused(nodes, threshold):
    with pytest.raises(NotEnoughComputeNodes):
        require_threshold(nodes, threshold)


# Exactness


@every_size
@every_arithmetic
def test_any_degree_plus_one_shares_open_the_secret_exactly(arithmetic, nodes, threshold):
    edge = arithmetic.largest
    secrets = np.array([[0, 1], [-1, edge], [-edge, 12345]])
    for degree in {threshold, 2 * threshold}:
        shares = Dealing(arithmetic, nodes=nodes, degree=degree, seed=seed(nodes, degree)).shares(0, secrets)
        for chosen in itertools.combinations(range(1, nodes + 1), degree + 1):
            opened = reconstruct(arithmetic, {point: shares[point - 1] for point in chosen}, degree=degree)
            assert (opened == secrets.T).all()
        opened = reconstruct(arithmetic, dict(enumerate(shares, start=1)), degree=degree)
        assert (opened == secrets.T).all()


@every_size
def test_shares_are_values_of_polynomials_of_exactly_the_degree(nodes, threshold):
    arithmetic, secrets = PORTABLE_RING, np.arange(-20, 21)
    shares = Dealing(arithmetic, nodes=nodes, degree=threshold, seed=seed(nodes)).shares(0, secrets)
    values = [[int(v) for v in secrets]] + [[int(v) for v in share] for share in shares]
    for order in range(1, nodes + 1):
        values = [
            [(b - a) % arithmetic.modulus for a, b in zip(*two, strict=True)] for two in itertools.pairwise(values)
        ]
        vanished = all(v == 0 for row in values for v in row)
        assert vanished == (order > threshold)


@every_size
@every_arithmetic
def test_the_opened_matrix_minus_noise_is_the_integer_gram_matrix(arithmetic, nodes, threshold):
    generator = kit.generator(f"gram {nodes} {threshold}")
    bound = 200
    parties = min(nodes, 4)
    tables = [generator.integers(-bound, bound + 1, (23, 1 + q)) for q in range(parties)]
    tables[0][:] = bound
    entries = len(entry_pairs([t.shape[1] for t in tables])[0])
    noises = [generator.integers(-1000, 1001, entries) for _ in tables]
    shares = secure_gram(arithmetic, tables, noises, nodes, threshold, chunk_rows=10)
    limit = gram_bound(23, bound) + 1000 * parties
    assert reconstruct(arithmetic, shares, degree=2 * threshold, bound=limit).tolist() == plain_gram(tables, noises)


@settings(max_examples=10)
@given(data=st.data())
def test_the_opened_matrix_is_exact_for_any_shape(data):
    nodes, threshold = data.draw(st.sampled_from(SIZES))
    arithmetic = data.draw(st.sampled_from(ALL))
    rows, within = data.draw(st.integers(1, 60)), data.draw(st.booleans())
    widths = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=4))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    largest = min(5000, math.isqrt(arithmetic.largest // (2 * rows)))
    tables = [generator.integers(-largest, largest + 1, (rows, width)) for width in widths]
    entries = len(entry_pairs(widths, within=within)[0])
    noise = min(10**9, arithmetic.largest // (2 * len(tables)))
    noises = [generator.integers(-noise, noise, entries) for _ in tables]
    chunk_rows = data.draw(st.integers(1, rows))
    shares = secure_gram(arithmetic, tables, noises, nodes, threshold, chunk_rows, within)
    assert reconstruct(arithmetic, shares, degree=2 * threshold).tolist() == plain_gram(tables, noises, within)


# Seeds and restarts


@every_size
@every_arithmetic
def test_exactly_degree_many_shares_are_32_bytes(arithmetic, nodes, threshold):
    dealing = Dealing(arithmetic, nodes=nodes, degree=threshold, seed=seed("s"))
    shares = dealing.shares(4, np.zeros((300, 2), dtype=np.int64))
    assert sorted(dealing.seeds) == list(range(1, threshold + 1))
    assert len({*dealing.seeds.values()}) == threshold
    for point, own in dealing.seeds.items():
        assert len(own) == 32
        assert (expand(arithmetic, own, 4, (2, 300)) == shares[point - 1]).all()


@every_size
@every_arithmetic
def test_a_dealer_that_computes_gives_seeds_to_others_and_deals_polynomials_all_the_same(arithmetic, nodes, threshold):
    secrets = kit.generator("own").integers(-100, 101, (300, 2))
    for degree in {threshold, nodes - 1}:
        for own in range(1, nodes + 1):
            dealing = Dealing(arithmetic, nodes=nodes, degree=degree, seed=seed("own"), own=own)
            shares = dealing.shares(1, secrets)
            assert len(dealing.seeds) == degree
            assert own not in dealing.seeds
            for point, one in dealing.seeds.items():
                assert (expand(arithmetic, one, 1, (2, 300)) == shares[point - 1]).all()
            opened = reconstruct(arithmetic, dict(enumerate(shares, start=1)), degree=degree)
            assert (secrets == opened.T).all()


@every_arithmetic
def test_a_restart_deals_the_same_bytes_in_any_order_of_chunks(arithmetic):
    secrets = kit.generator("restart").integers(-100, 101, (1000, 3))

    def deal(order):
        dealing = Dealing(arithmetic, nodes=5, degree=2, seed=seed("restart"))
        return {k: b"".join(map(arithmetic.to_bytes, dealing.shares(k, secrets[100 * k :][:100]))) for k in order}

    assert deal(range(10)) == deal(reversed(range(10))) == deal(range(10))
    assert len({*deal(range(10)).values()}) == 10


@pytest.mark.parametrize(
    ("ring", "digest"),
    [(4, "159b1c0f33e7852e"), (5, "6248b56de9c72e53"), (6, "1b90035fb12e533b"), (8, "a1d1284b4057e0b1")],
)
def test_the_bytes_of_a_dealing_are_pinned(ring, digest):
    """A version that dealt other bytes from a stored seed would draw twice after a restart."""
    dealing = Dealing(ALL[ring], nodes=5, degree=2, seed=bytes(range(32)))
    width = (ALL[ring].element_bits + 7) // 8
    dealt = [
        value for share in dealing.shares(9, np.arange(-6, 6).reshape(4, 3)) for value in share.reshape(-1).tolist()
    ]
    sent = b"".join(value.to_bytes(width, "little") for value in dealt)
    assert hashlib.sha256(sent).hexdigest()[:16] == digest


# Secrecy


def joint_cells(arithmetic, shares, side):
    cells = [(share.astype(object) * side // arithmetic.modulus).astype(np.int64) for share in shares]
    return np.ravel_multi_index(cells, [side] * len(shares))


@pytest.mark.parametrize(("nodes", "degree"), [(3, 1), (4, 1), (5, 2), (3, 2)])
@pytest.mark.parametrize("secret", [0, "largest"])
def test_any_degree_shares_are_jointly_uniform_and_one_more_gives_the_secret_away(nodes, degree, secret):
    arithmetic, draws, side = PORTABLE_RING, 40_000, 8
    value = arithmetic.largest if secret == "largest" else secret
    key = kit.source(f"uniform shares {nodes} {degree} {secret}").bytes(32)
    shares = Dealing(arithmetic, nodes=nodes, degree=degree, seed=key).shares(0, np.full(draws, value))
    for chosen in itertools.combinations(shares, degree):
        counts = np.bincount(joint_cells(arithmetic, chosen, side), minlength=side**degree)
        assert kit.chi_square_p(counts, np.ones(side**degree)) > kit.ALPHA
    counts = np.bincount(joint_cells(arithmetic, shares[: degree + 1], side), minlength=side ** (degree + 1))
    assert kit.chi_square_p(counts, np.ones(side ** (degree + 1))) < kit.ALPHA


def coefficients(prime, values):
    """Return the three coefficients of the parabolas through points 1, 2, 3, modulo a prime."""
    one, two, three = (np.array([int(v) % prime for v in value], dtype=object) for value in values)
    half = pow(2, -1, prime)
    square = (three - 2 * two + one) * half % prime
    linear = (two - one - 3 * square) % prime
    return (one - linear - square) % prime, linear, square


def times_split(shares):
    """How many of the opened polynomials factor: all if they are products, else one in two."""
    prime = PORTABLE_RING.moduli[0]
    constant, linear, square = coefficients(prime, shares)
    discriminant = (linear * linear - 4 * constant * square) % prime
    return sum(pow(int(d), (prime - 1) // 2, prime) <= 1 for d in discriminant)


def opened_products(trials, masked):
    """What the coordinator sees when a node's product of one row is opened, many times over: a share a point."""
    arithmetic = PORTABLE_RING
    left, right = (
        Dealing(arithmetic, nodes=3, degree=1, seed=seed("factor", q)).shares(0, np.full(trials, 1000 + q))
        for q in range(2)
    )
    noise = Dealing(arithmetic, nodes=3, degree=2, seed=seed("mask")).shares(0, np.zeros(trials, dtype=np.int64))
    seen = []
    for point in range(3):
        row = []
        for trial in range(trials):
            product = ShareProduct(arithmetic, [1, 1])
            product.add([left[point][None, trial : trial + 1], right[point][None, trial : trial + 1]])
            mask = noise[point][trial : trial + 1]
            row.append((product.masked([mask]) if masked else product._products.elements())[0])
        seen.append(np.array(row))
    return seen


def test_an_opened_product_without_a_fresh_mask_is_told_from_random_and_with_it_is_not():
    trials = 250
    plain, masked = opened_products(trials, masked=False), opened_products(trials, masked=True)
    for seen in (plain, masked):
        opened = reconstruct(PORTABLE_RING, dict(enumerate(seen, start=1)), degree=2)
        assert (opened == 1000 * 1001).all()
    assert times_split(plain) == trials  # a random polynomial does so with probability 2⁻²⁵⁰
    assert stats.binomtest(times_split(masked), trials).pvalue > kit.ALPHA


@pytest.mark.parametrize("threshold", [1, 2])
def test_masked_products_are_uniform_beyond_what_they_open(threshold):
    """Any 2t of the published values are jointly uniform: only the opened integer is determined."""
    arithmetic, side, entries = PORTABLE_RING, 4, 3000
    nodes = 2 * threshold + 1
    tables = [np.full((3, entries), 7), np.full((3, 1), -5)]
    key = kit.source(f"masked products {threshold}").bytes(32)
    shares = []
    for point in range(1, nodes + 1):
        product = ShareProduct(arithmetic, [entries, 1])
        dealt = [
            Dealing(arithmetic, nodes=nodes, degree=threshold, seed=seed(q)).shares(0, t) for q, t in enumerate(tables)
        ]
        product.add([part[point - 1] for part in dealt])
        mask = Dealing(arithmetic, nodes=nodes, degree=2 * threshold, seed=key).shares(0, np.zeros(entries, np.int64))
        shares.append(product.masked([mask[point - 1]]))
    for chosen in itertools.combinations(shares, 2 * threshold):
        counts = np.bincount(joint_cells(arithmetic, chosen, side), minlength=side ** (2 * threshold))
        assert kit.chi_square_p(counts, np.ones(side ** (2 * threshold))) > kit.ALPHA


def test_a_product_never_leaves_without_a_mask():
    product = ShareProduct(PORTABLE_RING, [1, 1])
    product.add([np.ones((1, 5), np.uint64)] * 2)
    with pytest.raises(ProtocolError):
        product.masked([])
    with pytest.raises(ProtocolError):
        product.masked([np.zeros(2, np.uint64)])
    with pytest.raises(ProtocolError):
        product.masked([np.full(1, PORTABLE_RING.modulus, np.uint64)])


# Opening


@pytest.fixture
def dealt():
    shares = Dealing(PORTABLE_RING, nodes=5, degree=2, seed=seed("dealt")).shares(0, np.array([3, -4, 5]))
    return dict(enumerate(shares, start=1))


def test_too_few_or_malformed_shares_are_refused(dealt):
    bad = [
        {1: dealt[1], 2: dealt[2]},
        {},
        {**dealt, 3: dealt[3][:2]},
        {**dealt, 3: dealt[3].astype(np.int64)},
        {**dealt, 3: np.full(3, PORTABLE_RING.modulus, np.uint64)},
        {0: dealt[1], 1: dealt[2], 2: dealt[3]},
        {-1: dealt[1], 1: dealt[2], 2: dealt[3]},
        {True: dealt[1], 2: dealt[2], 3: dealt[3]},
        {PORTABLE_RING.moduli[1]: dealt[1], 2: dealt[2], 3: dealt[3]},
    ]
    for shares in bad:
        with pytest.raises(ProtocolError):
            reconstruct(PORTABLE_RING, shares, degree=2)
    with pytest.raises(BadInput):
        reconstruct(PORTABLE_RING, dealt, degree=-1)


@every_arithmetic
def test_a_share_altered_modulo_one_prime_only_is_noticed(arithmetic):
    shares = dict(enumerate(Dealing(arithmetic, nodes=4, degree=1, seed=seed()).shares(0, np.array([9])), start=1))
    for prime in arithmetic.moduli:
        step = arithmetic.modulus // prime
        altered = {**shares, 4: arithmetic.add(shares[4], np.array([step], np.uint64))}
        with pytest.raises(ProtocolError):
            verify_degree(arithmetic, altered, 1)


# The degree of a dealing


@every_arithmetic
def test_a_check_errs_with_probability_at_most_two_to_the_minus_forty(arithmetic):
    repetitions = check_repetitions(arithmetic)
    assert (2 / min(arithmetic.moduli)) ** repetitions <= 2**-40 < (2 / min(arithmetic.moduli)) ** (repetitions - 1)


@every_arithmetic
@pytest.mark.parametrize("own", [None, 1, 2, 3])
def test_three_nodes_are_dealt_in_one_pass_what_they_are_dealt_step_by_step(arithmetic, own):
    """The loop for three nodes and degree 1 against the one for any number and any degree."""
    edges = [0, 1, -1, arithmetic.largest, -arithmetic.largest]
    secrets = np.array([*edges, *range(-500, 500)], dtype=np.int64)
    dealing = Dealing(arithmetic, nodes=3, degree=1, seed=hashlib.sha256(b"lines").digest(), own=own)
    one = np.array(dealing.shares(4, secrets))
    other = np.empty_like(one)
    dealing._deal(4, arithmetic.encode(secrets), other)
    assert np.array_equal(one, other)
    assert np.array_equal(reconstruct(arithmetic, dict(enumerate(one, start=1)), degree=1), secrets)
    with pytest.raises(BadInput, match="exceeds"):
        dealing.shares(4, np.array([arithmetic.largest + 1]))
