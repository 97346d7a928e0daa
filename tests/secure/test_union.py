"""Places in the union of two lists: right, and silent about who is in both."""

import hashlib

import numpy as np
import pytest
from hypothesis import strategies as st

from colonnade.errors import ProtocolError
from colonnade.secure.keys import Secret
from colonnade.secure.matching import UnionSide, hash_ids, padded, shuffled
from tests import kit

CAPACITY = 12
SEED = bytes(32)


def secret(*words: object) -> Secret:
    return Secret(hashlib.sha256(repr(words).encode()).digest())


class Pair:
    """Both sides of one union, with everything that passes between them."""

    def __init__(self, first: list[bytes], second: list[bytes], *, filled: bool = True, run: str = "run") -> None:
        self.lists = (first, second)
        sides = []
        for name, ids in (("first", first), ("second", second)):
            digests = padded(hash_ids(ids, b"plan"), CAPACITY, secret(run, "fill", name))
            sides.append(UnionSide(digests, len(ids), secret(run, name)))
        self.one, self.two = one, two = sides
        one.take_names(two.evaluate(one.blinded(0, CAPACITY), SEED), SEED)
        two.take_names(one.evaluate(two.blinded(0, CAPACITY), SEED), SEED)
        self.from_first, self.from_second = one.covered_names(), two.covered_names()
        self.twice_first = two.cover(self.from_first, SEED)
        self.twice_second = one.shuffle(one.cover(self.from_second, SEED), "other's names")
        self.united = two.united(self.twice_second, self.twice_first, 2 * CAPACITY if filled else None, SEED)
        self.names = one.shuffle(one.uncover(self.united, SEED), "names")
        self.orders = (one.order(self.names), two.order(self.names))

    def placed(self) -> list[tuple[bytes | None, bytes | None]]:
        pairs = zip(*self.orders, strict=True)
        return [
            tuple(ids[row] if row >= 0 else None for ids, row in zip(self.lists, pair, strict=True)) for pair in pairs
        ]


ids = st.lists(st.integers(0, 15).map(lambda number: b"%d" % number), unique=True, max_size=CAPACITY)


def test_a_filled_union_has_one_length_whatever_the_overlap():
    assert {len(Pair([b"1", b"2"], other).names) for other in ([], [b"1"], [b"1", b"2"])} == {2 * CAPACITY}


def test_the_second_party_cannot_link_coinciding_pseudonyms_to_its_own_rows():
    """Which places coincide in what comes back has nothing to do with which of its own rows are in common."""
    hits, shared = np.zeros(CAPACITY), [b"%d" % number for number in range(4)]
    for number in range(15):
        pair = Pair(shared, shared, run=f"run {number}")
        known = {row.tobytes() for row in pair.twice_first}
        places = [place for place, row in enumerate(pair.twice_second) if row.tobytes() in known]
        assert len(places) == len(shared)
        hits[places] += 1
    assert kit.chi_square_p(hits, np.full(CAPACITY, 1 / CAPACITY)) > kit.ALPHA


def test_the_order_of_names_does_not_follow_the_order_that_the_second_party_sent():
    pair = Pair([b"x"], [b"x", b"y"])
    first = UnionSide(
        padded(hash_ids([b"x"], b"plan"), CAPACITY, secret("run", "fill", "first")), 1, secret("run", "first")
    )
    assert (first.uncover(pair.united, SEED) != pair.names).any()


def test_no_list_that_passes_shares_a_point_with_another():
    """But for the union under the first party's cover, of which the second has seen that part before."""
    pair = Pair([b"x", b"y"], [b"x", b"z"])
    lists = (pair.from_first, pair.from_second, pair.twice_first, pair.names)
    seen = [{row.tobytes() for row in some} for some in lists]
    assert all(not one & other for k, one in enumerate(seen) for other in seen[k + 1 :])


@pytest.mark.parametrize("twice", [b"x", b"y"])
def test_a_name_at_two_places_is_refused_whoever_has_it(twice):
    pair = Pair([b"x", b"y"], [b"x", b"z"])
    again = pair.one.names[[b"x", b"y"].index(twice)]
    with pytest.raises(ProtocolError, match="name twice"):
        pair.two.order(np.concatenate([pair.names, again[None]]))


def test_orders_are_uniform():
    counts = np.zeros((4, 4))
    for number in range(2_000):
        counts[np.arange(4), shuffled(4, secret("order", number))] += 1
    for row in counts:
        assert kit.chi_square_p(row, np.full(4, 0.25)) > kit.ALPHA
