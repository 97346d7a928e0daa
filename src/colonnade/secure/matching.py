"""Who is in every list, for any number of parties, without showing who is in which.

One party leads. It blinds its ids and sends them to every other party, each of which multiplies them by a secret of its own; the
leader takes its blinding off and so knows F_p(x) = H(x, k_p·P(x)) for its own ids x and for no others (an oblivious
pseudo-random function; Jarecki, Kiayias and Krawczyk's 2HashDH, on the points of `colonnade.secure.points`). Each party p then
sends a map from F_p(y) to a *share of zero* s_p(y) for its own ids y (`colonnade.secure.hidden_map`). A share of zero is the
exclusive or of pseudo-random words under a key for each pair of parties, so that Σ_p s_p(x) = 0, and any fewer shares are random
(conditional zero-sharing; Kolesnikov, Matania, Pinkas, Rosulek and Trieu 2017). The leader reads its ids in every map: the
shares of an id add up to its own exactly if every party has the id. Then it tells each party a tag of F_p(x) for each common x,
in the order of rows that it has drawn.

Privacy
-------
Guarantee
    Nobody sees more than the ids common to *all* parties and the public sizes, if hashing is a random oracle and Diffie–Hellman
    pairs in the group look random (DDH). *The other parties* see the leader's ids times a random multiplier: under
    DDH, random points. They see tags of ids that they have, and random words. *The leader*: values under F_p(y) for an id y
    it does not have are masked by a hash of a point that it cannot compute. For an id x of its own that p has, s_p(x) holds words
    under a key of p and every party q that is neither p nor the leader. If some such q lacks x, its word appears in no other map,
    so what the leader reads for x in p's map is uniform, as it is where p lacks x. Only if all have x do the shares cancel. All
    values are uniform but for these sums, and so are the tables (`colonnade.secure.hidden_map`), whatever the keys.
Neighbours
    None: the ids in common are shown, to the parties, and that is not differentially private.
Adversary
    Parties that follow the protocol and pool what they saw, of which at least two besides the leader do not pool. With fewer
    honest ones (always with two parties) the pool learns which of the *leader's* ids the honest party has, and no others. A party
    that makes up ids learns which of them are common: policies bound how often it may try. The coordinator sees sealed letters.
Numerics
    128-bit shares: a wrong id is taken for a common one with probability 2⁻¹²⁸ each.
Checked by
    tests/secure/test_matching.py, tests/conversations/test_matching_run.py
"""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.hidden_map import HiddenMap, Words
from colonnade.secure.points import Multiplier, Points, hash_to_points, require_points
from colonnade.secure.secret import Secret
from colonnade.secure.stream import SeedStream, subseed

__all__ = ["DIGEST_BYTES", "Digests", "Follower", "Leader", "drawn_order", "hash_ids", "padded", "zero_shares"]

DIGEST_BYTES = 32

Digests = NDArray[np.uint8]
"""n × 32 bytes: the hash of an id a row."""

_KEY, _MASK, _TAG = slice(0, 2), slice(2, 4), slice(4, 6)


def hash_ids(ids: Iterable[bytes], context: bytes) -> Digests:
    """Hash ids, in their normal form, for one run of one plan."""
    start = hashlib.sha256(b"colonnade id v1\0" + len(context).to_bytes(8, "big") + context)
    hashed = []
    for one in ids:
        state = start.copy()
        state.update(one)
        hashed.append(state.digest())
    return np.frombuffer(b"".join(hashed), dtype=np.uint8).reshape(-1, DIGEST_BYTES)


def padded(digests: Digests, capacity: int, secret: Secret) -> Digests:
    """Fill a list up to its public size with hashes that are nobody's."""
    if len(digests) > capacity:
        raise BadInput("There are more ids than the public size of the list.", remedy="Declare a larger capacity.")
    filler = SeedStream(secret.derive("colonnade filler ids v1").expose())
    extra = np.frombuffer(filler.bytes((capacity - len(digests)) * DIGEST_BYTES), dtype=np.uint8)
    return np.concatenate([digests, extra.reshape(-1, DIGEST_BYTES)])


def zero_shares(digests: Digests, keys: Mapping[str, bytes]) -> Words:
    """Return one party's shares of zero for its ids: words under the key it has with each other party, added up."""
    total = np.zeros((len(digests), 2), dtype=np.uint64)
    for key in keys.values():
        rows = _rows(digests)
        words = b"".join(
            [hashlib.blake2b(row, digest_size=16, key=key, person=b"colonnade zero").digest() for row in rows]
        )
        total ^= np.frombuffer(words, dtype="<u8").reshape(-1, 2)
    return total


class Follower:
    """A party that does not lead.

    Parameters
    ----------
    digests
        Its hashed ids, filled up to their public size.
    people
        How many of them are ids, and not filling.
    secret
        Fresh random bytes, for this run only.
    """

    def __init__(self, digests: Digests, people: int, secret: Secret) -> None:
        self._digests = digests
        self._people = people
        self._secret = secret
        self._multiplier = Multiplier.derive(secret, "evaluate")
        self._tokens = np.zeros((len(digests), 8), dtype=np.uint64)

    def evaluate(self, points: Points, seed: bytes) -> Points:
        """Return the leader's points times this party's secret; refuse what is not a point of the group.

        Parameters
        ----------
        points
            What the leader sent.
        seed
            Random bytes that the sender does not know.
        """
        return self._multiplier.multiply(require_points(points, seed))

    def hash_own(self, start: int, stop: int) -> None:
        """Work through a block of this party's own list."""
        digests = self._digests[start:stop]
        self._tokens[start:stop] = _tokens(digests, self._multiplier.multiply(hash_to_points(digests)))

    def write(self, keys: Mapping[str, bytes]) -> HiddenMap:
        """Return the map for the leader.

        Parameters
        ----------
        keys
            The key that this party shares with each other party, the leader included.
        """
        values = zero_shares(self._digests, keys) ^ self._tokens[:, _MASK]
        filler = SeedStream(self._secret.derive("colonnade map filler v1").expose())
        return HiddenMap.write(self._tokens[:, _KEY], values, filler)

    def rows(self, tags: Words) -> NDArray[np.int64]:
        """Return which of this party's ids each tag is of; −1 for a tag that is none of its."""
        own = {tag: row for row, tag in enumerate(map(bytes, self._tokens[: self._people, _TAG]))}
        rows = np.array([own.get(tag, -1) for tag in map(bytes, tags)], dtype=np.int64)
        found = rows[rows >= 0]
        if len(np.unique(found)) != len(found):
            raise ProtocolError("The leader named an id twice.")
        return rows


class Leader:
    """The party that finds out who is common.

    Parameters
    ----------
    digests, people, secret
        As for a `Follower`.
    """

    def __init__(self, digests: Digests, people: int, secret: Secret) -> None:
        self._digests = digests
        self._people = people
        self._blinding = Multiplier.derive(secret, "blind")
        self._unblinding = self._blinding.inverse()
        self._tokens: dict[str, Words] = {}
        self._sums = np.zeros((len(digests), 2), dtype=np.uint64)

    def blinded(self, start: int, stop: int) -> Points:
        """Return a block of this party's list as random-looking points."""
        return self._blinding.multiply(hash_to_points(self._digests[start:stop]))

    def take(self, peer: str, start: int, points: Points, seed: bytes) -> None:
        """Take a block as a peer evaluated it.

        Parameters
        ----------
        peer
            Whose secret it was multiplied by.
        start
            Where the block begins.
        points
            What the peer sent.
        seed
            Random bytes that the sender does not know.
        """
        digests = self._digests[start : start + len(points)]
        evaluated = self._unblinding.multiply(require_points(points, seed))
        tokens = self._tokens.setdefault(peer, np.zeros((len(self._digests), 8), dtype=np.uint64))
        tokens[start : start + len(points)] = _tokens(digests, evaluated)

    def read(self, peer: str, written: HiddenMap) -> None:
        """Read this party's ids in a peer's map."""
        tokens = self._tokens[peer]
        self._sums ^= written.read(tokens[:, _KEY]) ^ tokens[:, _MASK]

    def common(self, keys: Mapping[str, bytes]) -> NDArray[np.int64]:
        """Return which of this party's ids every party has, once every peer's map has been read."""
        cancelled = (self._sums == zero_shares(self._digests, keys)).all(axis=1)
        return np.flatnonzero(cancelled[: self._people])

    def tags(self, peer: str, rows: NDArray[np.int64], secret: Secret) -> Words:
        """Return what tells a peer which of its ids are at which place; random words where a row is −1."""
        drawn = SeedStream(secret.derive("colonnade null tags v1", peer).expose()).words(2 * len(rows))
        tags = drawn.reshape(-1, 2)
        tags[rows >= 0] = self._tokens[peer][rows[rows >= 0], _TAG]
        return tags


def _tokens(digests: Digests, points: Points) -> Words:
    """Hash an id and its evaluated point into everything that depends on both: eight words."""
    pairs = zip(_rows(digests), _rows(points), strict=True)
    hashed = b"".join([hashlib.blake2b(one + other, person=b"colonnade token").digest() for one, other in pairs])
    return np.frombuffer(hashed, dtype="<u8").reshape(-1, 8).astype(np.uint64)


def _rows(array: NDArray[np.uint8]) -> list[bytes]:
    data = np.ascontiguousarray(array).tobytes()
    return [data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES)]


def drawn_order(people: int, places: int, secret: bytes) -> NDArray[np.int64]:
    """Return, for each place of a row order, which of ``people`` it is for, or −1: every arrangement is equally likely."""
    words = SeedStream(subseed(secret, "colonnade row order")).words(max(people, places))
    arranged = np.argsort(words, kind="stable")[:places]
    return np.where(arranged < people, arranged, -1)
