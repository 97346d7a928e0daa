"""Is a dealing of its declared degree? Random combinations under a mask tell, and tell nothing else."""

import hashlib

import numpy as np
import pytest

from colonnade.conversations.conversation import CheckedProduct
from colonnade.errors import ProtocolError
from colonnade.secure.keys import subseed
from colonnade.secure.shamir import Dealing, check_repetitions, expand, reconstruct, verify_degree
from tests import kit
from tests.secure.arithmetics import every_arithmetic
from tests.secure.test_shamir import PORTABLE_RING, every_size, seed


def of_chunk(challenge, position):
    """Every chunk has a challenge of its own."""
    return subseed(challenge, "chunk", position)


def degree_check_share(arithmetic, chunks, challenge, mask):
    """What one node shows the others, given all chunks of its share."""
    product = CheckedProduct(arithmetic, [len(chunks[0])])
    for position, share in enumerate(chunks):
        product.combine([share], of_chunk(challenge, position))
    return product.checks([mask], challenge)[0]


def mask_shares(dealing, count):
    """Shares of uniform secrets, independent of all others: the mask of a dealing's degree check."""
    hidden = expand(dealing.arithmetic, subseed(dealing._seed, "mask value"), 0, (count,))
    own = Dealing(
        dealing.arithmetic, nodes=dealing.nodes, degree=dealing.degree, seed=subseed(dealing._seed, "mask shares")
    )
    return own.shares(0, dealing.arithmetic.decode(hidden))


def published(arithmetic, dealing, chunks, challenge, tamper=None):
    """Let every node publish its part; ``tamper`` may change the list of all nodes' chunks first."""
    dealt = [dealing.shares(position, chunk) for position, chunk in enumerate(chunks)]
    held = [[shares[node].copy() for shares in dealt] for node in range(dealing.nodes)]
    if tamper is not None:
        tamper(held)
    masks = mask_shares(dealing, check_repetitions(arithmetic))
    return {
        node + 1: degree_check_share(arithmetic, held[node], challenge, masks[node]) for node in range(dealing.nodes)
    }


@pytest.mark.every(3)
@every_size
@every_arithmetic
def test_an_honest_dealing_passes_its_check_and_a_higher_degree_does_not(arithmetic, nodes, threshold):
    chunks = [kit.generator("check").integers(-50, 51, (rows, 3)) for rows in (40, 17)]
    dealing = Dealing(arithmetic, nodes=nodes, degree=threshold, seed=seed("honest"))
    verify_degree(arithmetic, published(arithmetic, dealing, chunks, seed("challenge")), threshold)
    higher = Dealing(arithmetic, nodes=nodes, degree=threshold + 1, seed=seed("honest"))
    with pytest.raises(ProtocolError):
        verify_degree(arithmetic, published(arithmetic, higher, chunks, seed("challenge")), threshold)


@pytest.mark.every(3)
@every_arithmetic
@pytest.mark.parametrize("place", [(0, 0, 0, 0), (3, 1, 2, 16), (2, 0, 1, 39)])
def test_one_wrong_value_modulo_one_prime_is_caught(arithmetic, place):
    node, chunk, column, row = place
    chunks = [np.zeros((40, 3), dtype=np.int64), np.zeros((17, 3), dtype=np.int64)]
    dealing = Dealing(arithmetic, nodes=4, degree=1, seed=seed("wrong"))
    for prime in arithmetic.moduli:

        def tamper(held, step=arithmetic.modulus // prime):
            value = held[node][chunk][column, row]
            held[node][chunk][column, row] = (int(value) + step) % arithmetic.modulus

        with pytest.raises(ProtocolError):
            verify_degree(arithmetic, published(arithmetic, dealing, chunks, seed("c"), tamper), 1)


@pytest.mark.parametrize("other", [(1, 0, 0), (0, 1, 0), (0, 0, 1)], ids=["chunk", "column", "row"])
def test_opposite_errors_in_two_places_do_not_cancel(other):
    chunks = [np.zeros((5, 2), dtype=np.int64)] * 2
    dealing = Dealing(PORTABLE_RING, nodes=3, degree=1, seed=seed("opposite"))

    def tamper(held):
        for (chunk, column, row), change in (((0, 0, 0), 1), (other, -1)):
            value = int(held[2][chunk][column, row]) + change
            held[2][chunk][column, row] = value % PORTABLE_RING.modulus

    with pytest.raises(ProtocolError):
        verify_degree(PORTABLE_RING, published(PORTABLE_RING, dealing, chunks, seed("c"), tamper), 1)


def test_errors_that_cancel_under_one_challenge_do_not_under_another():
    """A dealer who knew the challenge could pass; one who does not cannot. (Positive control of the test above.)"""
    arithmetic, challenge = PORTABLE_RING, seed("known")
    weights = expand(arithmetic, subseed(challenge, "colonnade degree check: columns"), 0, (3, 2)).astype(object)
    row_seed = subseed(of_chunk(challenge, 0), "colonnade degree check: rows")
    rows = expand(arithmetic, row_seed, 0, (2, 40)).astype(object)
    form = [[weights[c, k] * rows[k, r] for c in range(3) for r in range(3)] for k in range(2)]
    solution = null_vector(form, arithmetic.moduli[0])
    step = arithmetic.modulus // arithmetic.moduli[0]

    def tamper(held):
        for place, amount in enumerate(solution):
            column, row = divmod(place, 3)
            value = int(held[0][0][column, row]) + amount * step
            held[0][0][column, row] = value % arithmetic.modulus

    dealing = Dealing(arithmetic, nodes=3, degree=1, seed=seed("cancel"))
    chunks = [np.zeros((40, 3), dtype=np.int64)]
    verify_degree(arithmetic, published(arithmetic, dealing, chunks, challenge, tamper), 1)
    with pytest.raises(ProtocolError):
        verify_degree(arithmetic, published(arithmetic, dealing, chunks, seed("unknown"), tamper), 1)


def null_vector(form, prime):
    """Return a non-zero solution of two linear equations modulo a prime, supported on the first three places."""
    (a, b, c), (d, e, f) = (row[:3] for row in form)
    solution = [(b * f - c * e) % prime, (c * d - a * f) % prime, (a * e - b * d) % prime]
    assert any(solution)
    return [int(s) for s in solution]


def test_what_a_check_publishes_is_uniform_whatever_was_dealt():
    arithmetic, side = PORTABLE_RING, 16
    key = kit.source("published").bytes(32)
    found = []
    for trial in range(1500):
        dealing = Dealing(arithmetic, nodes=3, degree=1, seed=hashlib.sha256(key + trial.to_bytes(2, "big")).digest())
        opened = reconstruct(
            arithmetic, published(arithmetic, dealing, [np.full((2, 1), 1)], seed("same challenge")), degree=1
        )
        found.append(opened % arithmetic.modulus)
    for column in np.array(found).T:
        cells = (column.astype(object) * side // arithmetic.modulus).astype(np.int64)
        assert kit.chi_square_p(np.bincount(cells, minlength=side), np.ones(side)) > kit.ALPHA
