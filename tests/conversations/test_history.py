"""Histories that only grow: whoever has the rows can show it at every size, and nobody can show it of other rows."""

import hashlib
import random

from hypothesis import given
from hypothesis import strategies as st

from colonnade.conversations import memory
from colonnade.conversations.memory import History, extends

LARGEST = 64


def digests(count: int, branch: int = 0, shared: int = 0) -> list[bytes]:
    """Rows of a history; those after the first ``shared`` belong to a branch."""
    return [hashlib.sha256(b"%d %d" % (row, branch if row >= shared else 0)).digest() for row in range(count)]


def by_definition(rows: list[bytes]) -> bytes:
    """The root by the tree of RFC 9162, with the number of rows."""
    size = len(rows).to_bytes(8, "big")
    return hashlib.sha256(b"\x02colonnade ledger root v1" + size + tree(rows)).digest()


def tree(rows: list[bytes]) -> bytes:
    if len(rows) == 1:
        return hashlib.sha256(b"\x00colonnade ledger row v1" + rows[0]).digest()
    split = 1
    while 2 * split < len(rows):
        split *= 2
    left, right = tree(rows[:split]), tree(rows[split:])
    return hashlib.sha256(b"\x01colonnade ledger node v1" + left + right).digest()


def test_every_size_extends_every_smaller_one_and_no_other_history_of_any_length_does():
    whole = History(digests(LARGEST))
    for size in range(1, LARGEST + 1):
        assert whole.root(size) == by_definition(digests(size))
        for first in range(1, size + 1):
            proof = whole.proof(first, size)
            assert extends(first, whole.root(first), size, whole.root(size), proof)
            assert len(proof) <= 2 * size.bit_length()
            for shared in {0, first - 1}:  # a branch that forgot every row, or the last one
                other = History(digests(size, 1, shared))
                assert not extends(first, whole.root(first), size, other.root(), other.proof(first))
                assert not extends(first, whole.root(first), size, other.root(), proof)
                assert not extends(first, other.root(first), size, whole.root(size), proof)


def damages(proof: tuple[bytes, ...], draw: random.Random) -> list[tuple[bytes, ...]]:
    """Proofs that are like one and not it."""
    longer = [(*proof, bytes(32)), (bytes(32), *proof), proof * 2 if proof else (b"\1" * 32,)]
    if not proof:
        return longer
    place = draw.randrange(len(proof))
    flipped = bytes([proof[place][0] ^ 1]) + proof[place][1:]
    others = [proof[:-1], proof[1:], (*proof[:place], flipped, *proof[place + 1 :]), (*proof[:-1], proof[-1][:31])]
    return [*longer, *(one for one in (*others, proof[::-1]) if one != proof)]


@given(st.integers(1, 5_000), st.integers(0, 4_999), st.randoms(use_true_random=False))
def test_no_proof_that_was_changed_anywhere_holds(first, more, draw):
    whole = History(digests(first + more))
    proof, earlier, later = whole.proof(first), whole.root(first), whole.root()
    assert extends(first, earlier, first + more, later, proof)
    for forged in damages(proof, draw):
        assert not extends(first, earlier, first + more, later, forged)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 299), st.data())
def test_a_branch_that_parted_before_what_is_remembered_shows_nothing_whatever_it_sends(first, size, shared, data):
    """It has its own hashes, all of the honest proof, and the peer's own root; it mixes them as it likes."""
    first, size = min(first, size), max(first, size)
    shared = min(shared, first - 1)
    honest, branch = History(digests(size)), History(digests(size, 1, shared))
    at_hand = [honest.root(first), honest.root(), *honest.proof(first), *branch.proof(first), branch.root(first)]
    sent = data.draw(st.lists(st.sampled_from(at_hand), max_size=12))
    for proof in (tuple(sent), branch.proof(first), honest.proof(first), ()):
        assert not extends(first, honest.root(first), size, branch.root(), proof)


def test_large_histories_have_short_proofs_and_the_same_roots_however_they_grew():
    rows = digests(20_000)
    whole, grown = History(rows), History(rows[:7])
    for row in rows[7:]:
        grown.append(row)
    assert grown.root() == whole.root()
    draw = random.Random(7)
    for _ in range(300):
        first, size = sorted(draw.randint(1, 20_000) for _ in range(2))
        proof = whole.proof(first, size)
        assert extends(first, whole.root(first), size, whole.root(size), proof)
        assert len(proof) <= 2 * 15


def test_no_inner_node_passes_for_a_row():
    """Without the two first bytes, a history of two rows would have the root of one whose only row is their hashes."""
    two = History(digests(2))
    leaves = b"".join(bytes(two._levels[0][place : place + 32]) for place in (0, 32))
    assert History([leaves]).root() != two.root()
    assert memory._leaf(leaves) != memory._node(leaves[:32], leaves[32:])
