"""Matching of lists: exact against sets, and silent about who is in which list."""

import hashlib
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import ProtocolError
from colonnade.secure.keys import Secret
from colonnade.secure.matching import Follower, Leader, drawn_order, hash_ids, padded, zero_shares
from tests import kit

CAPACITY = 24


def secret(*words: object) -> Secret:
    return Secret(hashlib.sha256(repr(words).encode()).digest())


class Table:
    """All parties of one matching, the first of them leading."""

    def __init__(self, lists: dict[str, list[bytes]], *, capacity: int = CAPACITY, run: str = "run") -> None:
        self.lists, self.names = lists, list(lists)
        self.keys: dict[str, dict[str, bytes]] = {name: {} for name in lists}
        for one, other in combinations(self.names, 2):
            self.keys[one][other] = self.keys[other][one] = secret(run, one, other).expose()
        digests = {
            name: padded(hash_ids(ids, b"plan"), capacity, secret(run, "fill", name)) for name, ids in lists.items()
        }
        first = self.names[0]
        self.leader = Leader(digests[first], len(lists[first]), secret(run, "leader"))
        self.followers = {name: Follower(digests[name], len(lists[name]), secret(run, name)) for name in self.names[1:]}
        self.blinded = self.leader.blinded(0, capacity)
        self.maps = {}
        for name, follower in self.followers.items():
            follower.hash_own(0, capacity)
            self.leader.take(name, 0, follower.evaluate(self.blinded, bytes(32)), bytes(32))
            self.maps[name] = follower.write(self.keys[name])
            self.leader.read(name, self.maps[name])

    def common(self) -> np.ndarray:
        return self.leader.common(self.keys[self.names[0]])

    def found(self) -> dict[str, list[bytes]]:
        """What each party takes for common, in the leader's order."""
        rows = self.common()
        found = {self.names[0]: [self.lists[self.names[0]][row] for row in rows]}
        for name, follower in self.followers.items():
            own = follower.rows(self.leader.tags(name, rows, secret("tags")))
            found[name] = [self.lists[name][row] if row >= 0 else b"?" for row in own]
        return found


ids = st.integers(0, 15).map(lambda number: f"id {number}".encode())
lists = st.lists(st.lists(ids, unique=True, max_size=16), min_size=2, max_size=6)


@settings(max_examples=8)
@given(lists)
def test_the_parties_find_exactly_the_intersection(drawn):
    held = {f"p{number}": some for number, some in enumerate(drawn)}
    found = Table(held).found()
    expected = set.intersection(*map(set, held.values()))
    assert all(set(some) == expected for some in found.values())
    assert len({tuple(some) for some in found.values()}) == 1  # and all in the same order


@pytest.mark.parametrize(
    "held",
    [
        [[], []],
        [[b"a"], []],
        [[b"a"], [b"a"]],
        [[b"a"], [b"b"]],
        [[b"a", b"b", b"c"], [b"b"], [b"c", b"b"]],
        [[bytes([k]) for k in range(CAPACITY)]] * 2,
    ],
)
def test_edges(held):
    found = Table({f"p{number}": some for number, some in enumerate(held)}).found()
    expected = set.intersection(*map(set, held))
    assert all(set(some) == expected for some in found.values())


def test_shares_of_zero_cancel_only_when_everybody_is_in():
    digests = hash_ids([b"a", b"b"], b"plan")
    names = ["p", "q", "r", "s"]
    keys = {name: {} for name in names}
    for one, other in combinations(names, 2):
        keys[one][other] = keys[other][one] = secret(one, other).expose()
    shares = {name: zero_shares(digests, keys[name]) for name in names}
    for size in range(1, len(names) + 1):
        for some in combinations(names, size):
            total = np.bitwise_xor.reduce([shares[name] for name in some])
            assert (total == 0).all() == (size == len(names))


PEERS = ("p", "q", "r")
HOLDERS = [frozenset(some) for size in range(3) for some in combinations(PEERS, size)]
COPIES = 60


def read_words() -> np.ndarray:
    """What the leader reads in each peer's map, without what it knows of it: by who holds the id, copy, peer and word."""
    shared = {holders: [f"{sorted(holders)} {copy}".encode() for copy in range(COPIES)] for holders in HOLDERS}
    held = {peer: [one for holders in HOLDERS if peer in holders for one in shared[holders]] for peer in PEERS}
    own = [one for holders in HOLDERS for one in shared[holders]]
    table = Table({"leader": own, **held}, capacity=len(own))
    tokens = table.leader._tokens
    known = {peer: zero_shares(table.leader._digests, {peer: table.keys["leader"][peer]}) for peer in PEERS}
    read = [table.maps[peer].read(tokens[peer][:, :2]) ^ tokens[peer][:, 2:4] ^ known[peer] for peer in PEERS]
    return np.stack(read, axis=1).reshape(len(HOLDERS), COPIES, len(PEERS), 2)


def test_the_leader_cannot_tell_which_peers_hold_an_id_that_is_not_common_to_all():
    """Of any coalition short of everyone: what the leader reads is uniform, word by word and added up in any way."""
    subsets = [some for size in range(1, 4) for some in combinations(range(3), size)]
    for read in read_words():
        for some in subsets:
            summed = np.bitwise_xor.reduce(read[:, some, :], axis=1)
            counts = np.bincount(summed.view(np.uint8).reshape(-1) >> 4, minlength=16)
            assert kit.chi_square_p(counts, np.full(16, 1 / 16)) > kit.ALPHA
            assert len(np.unique(summed[:, 0])) == COPIES


def test_the_positive_control_an_id_that_everyone_holds_does_cancel():
    table = Table({"leader": [b"shared"], "p": [b"shared"], "q": [b"shared"]}, capacity=2)
    assert table.common().tolist() == [0]


def test_a_list_shows_neither_its_length_nor_its_ids():
    """Two leaders' lists of other ids and another length: as many points, all of the group, none in common."""
    short, long = Table({"a": [b"x"], "b": [b"y"]}), Table({"a": [b"x", b"z", b"w"], "b": [b"y"]}, run="second")
    assert short.blinded.shape == long.blinded.shape == (CAPACITY, 32)
    assert not {row.tobytes() for row in short.blinded} & {row.tobytes() for row in long.blinded}
    assert short.maps["b"].table.shape == long.maps["b"].table.shape


@pytest.mark.parametrize("held", [[b"x"], [b"y"]])
def test_a_tag_for_two_places_is_refused_whether_or_not_it_is_of_an_own_id(held):
    """A refusal of the follower's own ids only would tell the leader whether it has the id that was named twice."""
    table = Table({"a": [b"x"], "b": held})
    tags = table.leader.tags("b", np.array([0, 0]), secret("tags"))
    with pytest.raises(ProtocolError, match="one tag for two places"):
        table.followers["b"].rows(tags)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 50))
def test_a_row_order_has_its_places_and_everyone_at_most_once(people, places, number):
    order = drawn_order(people, places, hashlib.sha256(bytes([number])).digest())
    present = order[order >= 0]
    assert len(order) == places
    assert len(set(present.tolist())) == len(present) == min(people, places)
    assert (order < people).all()


def test_every_row_order_is_equally_likely():
    counts = np.zeros((4, 6))
    for number in range(3_000):
        order = drawn_order(4, 6, hashlib.sha256(b"order %d" % number).digest())
        counts[order[order >= 0], np.flatnonzero(order >= 0)] += 1
    for person in counts:
        assert kit.chi_square_p(person, np.full(6, 1 / 6)) > kit.ALPHA
