"""Private matching of id lists: who is in every list, for any number of parties, without showing who is in which.

One party leads. It blinds its ids and sends them to every other party, each of which multiplies them by a secret of its own. The
leader takes its blinding off and so knows F_p(x) = H(x, k_p·P(x)) for its own ids x and for no others (an oblivious pseudo-random
function; Jarecki, Kiayias and Krawczyk's 2HashDH). Each party p then sends a map from F_p(y) to a *share of zero* s_p(y) for its
own ids y (`colonnade.secure.hidden_map`). A share of zero is the exclusive or of pseudo-random words under a key for each pair of
parties, so that Σ_p s_p(x) = 0, and any fewer shares are random (conditional zero-sharing; Kolesnikov, Matania, Pinkas, Rosulek
and Trieu 2017). The leader reads its ids in every map: the shares of an id add up to its own exactly if every party has the id.
Then it tells each party a tag of F_p(x) for each common x, in the order of rows that it has drawn.

*Points.* The group is the subgroup of prime order ℓ of edwards25519. Its points are written by their Montgomery coordinate
u = (1 + y)/(1 − y); u does not tell P from −P, so points and multipliers are taken up to sign.

*Hashing.* A 32-byte hash goes through Elligator 2 and times 8 (libsodium, in PyNaCl), so it lands on the curve and in the
subgroup. Raw X25519 on hashes would not do: half of all numbers are coordinates of the *twist*, multiplication keeps them there,
and everybody who sees a blinded id could read one bit of its hash. The map reaches a point (up to sign) by at most 32 of the 2²⁵⁵
hashes, four for each of the eight points that times 8 makes the same, and on average by sixteen. These preimages can be counted
and drawn. So a random oracle into it is programmed with a uniform point by rejection, two attempts on average, which is all that
the proofs here and of `colonnade.secure.union` ask for (docs/proofs/alignment.md).

*Multiplying.* X25519 (`cryptography`, OpenSSL) multiplies by numbers 8k with 2²⁵¹ ≤ k < 2²⁵². Because 2²⁵² is just below ℓ,
these are, up to sign and but for a 2⁻¹²⁶ part of them, exactly the multipliers modulo ℓ, each once. Nothing is lost by the
clamping, and every multiplier has an inverse of the same form (`Multiplier.inverse`). Times 8 also removes any part of small
order that a peer may add to a point.

*Refusing.* A received coordinate must be below 2²⁵⁵ − 19 (one form per point), must not be of small order (its multiple by 8
would be the identity, which X25519 reports), and must be on the curve: u³ + 486662u² + u is a square. Squares are recognised in
bulk: were one of the numbers not a square, the product over a random subset would not be one with probability ½, and
`REPETITIONS` subsets are drawn that the sender cannot know.

Privacy
-------
Guarantee
    Nobody sees more than the ids common to *all* parties and the public sizes, if hashing is a random oracle and Diffie–Hellman
    pairs in the group look random (DDH). *The other parties* see the leader's ids times a random multiplier: under DDH, random
    points. They see tags of ids that they have, and random words. *The leader*: values under F_p(y) for an id y it does not have
    are masked by a hash of a point that it cannot compute. For an id x of its own that p has, s_p(x) holds words under a key of p
    and every party q that is neither p nor the leader. If some such q lacks x, its word appears in no other map, so what the
    leader reads for x in p's map is uniform, as it is where p lacks x. Only if all have x do the shares cancel. All values are
    uniform but for these sums, and so are the tables (`colonnade.secure.hidden_map`), whatever the keys.
    Proof: docs/proofs/alignment.md.
Neighbours
    None: the ids in common are shown to the parties, and that is not differentially private.
Adversary
    Parties that follow the protocol and pool what they saw, while at least two besides the leader do not pool. With fewer honest
    ones (always with two parties) the pool learns which of the *leader's* ids the honest party has, and no others. A party that
    makes up ids learns which of them are common: policies bound how often it may try. The coordinator sees sealed letters.
Numerics
    128-bit shares: a wrong id is taken for a common one with probability 2⁻¹²⁸ each.
Checked by
    tests/secure/test_matching.py, tests/secure/test_points.py, tests/conversations/test_matching_run.py
"""

import hashlib
from collections.abc import Iterable, Mapping
from itertools import accumulate

import nacl.bindings
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.hidden_map import HiddenMap, Words
from colonnade.secure.keys import Secret, SeedStream, subseed

__all__ = [
    "DIGEST_BYTES",
    "POINT_BYTES",
    "Digests",
    "Follower",
    "Leader",
    "Multiplier",
    "Points",
    "drawn_order",
    "hash_ids",
    "hash_to_points",
    "padded",
    "require_points",
    "zero_shares",
]


POINT_BYTES = 32
REPETITIONS = 40
"""A point that is not on the curve goes unnoticed with probability 2⁻⁴⁰."""

FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE = 486662

_GROUP = 4
_SMALLEST, _LARGEST = 2**251, 2**252 - 1

Points = NDArray[np.uint8]
"""n × 32 bytes: one little-endian coordinate per row."""


def hash_to_points(digests: NDArray[np.uint8]) -> Points:
    """Map uniform 32-byte hashes to points of the group, one each.

    Parameters
    ----------
    digests
        n × 32 bytes, from a hash that nobody can steer.
    """
    mapped = b"".join(map(nacl.bindings.crypto_core_ed25519_from_uniform, _rows(digests)))
    return _montgomery(mapped)


def _montgomery(edwards: bytes) -> Points:
    """Turn Edwards points into coordinates u = (1 + y)/(1 − y), with one inversion for all of them."""
    heights = [int.from_bytes(row, "little") % 2**255 for row in _rows(_as_points(edwards))]
    below = [(1 - height) % FIELD for height in heights]
    products = [1, *accumulate(below, lambda left, right: left * right % FIELD)]
    if products[-1] == 0:
        raise BadInput("A hash maps to the identity.", remedy="Run the alignment again.")
    inverse = pow(products[-1], -1, FIELD)
    coordinates = bytearray(len(edwards))
    for place in range(len(heights) - 1, -1, -1):
        value = (1 + heights[place]) * inverse % FIELD * products[place] % FIELD
        coordinates[place * POINT_BYTES : (place + 1) * POINT_BYTES] = value.to_bytes(POINT_BYTES, "little")
        inverse = inverse * below[place] % FIELD
    return _as_points(bytes(coordinates))


class Multiplier:
    """A secret multiplier of points: uniform modulo the group's order, up to sign.

    Multipliers commute: the order in which several parties apply theirs does not matter.

    Parameters
    ----------
    number
        8k with 2²⁵¹ ≤ k < 2²⁵². Make one with `derive`.

    Examples
    --------
    >>> points = hash_to_points(np.arange(64, dtype=np.uint8).reshape(2, 32))
    >>> one, two = (Multiplier.derive(Secret(bytes(32)), name) for name in ("one", "two"))
    >>> bool((one.multiply(two.multiply(points)) == two.multiply(one.multiply(points))).all())
    True
    >>> bool((one.inverse().multiply(one.multiply(points)) == points).all())
    True
    """

    __slots__ = ("_number", "_private")

    def __init__(self, number: int) -> None:
        if number % 8 or not _SMALLEST <= number // 8 <= _LARGEST:
            raise BadInput("A multiplier is eight times a number of 252 bits.")
        self._number = number
        self._private = X25519PrivateKey.from_private_bytes(number.to_bytes(32, "little"))

    @classmethod
    def derive(cls, secret: Secret, label: str) -> "Multiplier":
        """Return the multiplier that a secret and a purpose stand for."""
        drawn = int.from_bytes(secret.derive("colonnade multiplier v1", label).expose(), "little")
        return cls(8 * (_SMALLEST + drawn % _SMALLEST))

    @classmethod
    def _of(cls, residue: int) -> "Multiplier":
        """Return the multiplier of this form that acts as a residue modulo ℓ, or as its negative: the same points."""
        reduced = residue * pow(8, -1, ORDER) % ORDER
        return cls(8 * max(reduced, ORDER - reduced))

    def inverse(self) -> "Multiplier":
        """Return the multiplier that undoes this one."""
        return self._of(pow(self._number, -1, ORDER))

    def after(self, other: "Multiplier") -> "Multiplier":
        """Return the multiplier that does what ``other`` and then this one do, in one go."""
        return self._of(self._number * other._number)  # noqa: SLF001  # its own class

    def multiply(self, points: Points) -> Points:
        """Return every point times this multiplier; refuse a point of small order."""
        exchange, point_of = self._private.exchange, X25519PublicKey.from_public_bytes
        try:
            return _as_points(b"".join([exchange(point_of(row)) for row in _rows(points)]))
        except ValueError as error:  # X25519 found the product to be the identity
            raise ProtocolError("A peer sent a point of small order.") from error

    def __repr__(self) -> str:
        return "Multiplier(<redacted>)"


def require_points(points: Points, seed: bytes) -> Points:
    """Return points as they came; refuse any that is not canonical or not on the curve. (`Multiplier` refuses small order.)

    Parameters
    ----------
    points
        What a peer sent.
    seed
        32 random bytes that the sender of the points does not know.
    """
    numbers = [int.from_bytes(row, "little") for row in _rows(points)]
    if any(number >= FIELD for number in numbers):
        raise ProtocolError("A peer sent a point in a form that is not canonical.")
    values = [number * (number * (number + CURVE) + 1) % FIELD for number in numbers]
    if any(pow(product, (FIELD - 1) // 2, FIELD) != 1 for product in _subset_products(values, seed)):
        raise ProtocolError("A peer sent a point that is not on the curve, or is of small order.")
    return points


def _subset_products(values: list[int], seed: bytes) -> list[int]:
    """Multiply up random subsets: of each four values all sixteen products are made once and one per repetition is picked."""
    totals = [1] * REPETITIONS
    groups = -(-len(values) // _GROUP)
    picks = np.frombuffer(SeedStream(seed).bytes(groups * REPETITIONS), dtype=np.uint8) & (2**_GROUP - 1)
    for group, picked in enumerate(picks.reshape(groups, REPETITIONS).tolist()):
        products = [1]
        for value in values[group * _GROUP : (group + 1) * _GROUP]:
            products += [value * product % FIELD for product in products]
        size = len(products)  # the last group may be short
        totals = [total * products[pick % size] % FIELD for total, pick in zip(totals, picked, strict=True)]
    return totals


def _rows(points: NDArray[np.uint8]) -> list[bytes]:
    if points.ndim != 2 or points.shape[1] != POINT_BYTES or points.dtype != np.uint8:
        raise BadInput("Points and hashes are rows of 32 bytes.")
    data = points.tobytes()
    return [data[start : start + POINT_BYTES] for start in range(0, len(data), POINT_BYTES)]


def _as_points(data: bytes) -> Points:
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, POINT_BYTES)


DIGEST_BYTES = 32

Digests = NDArray[np.uint8]
"""n × 32 bytes: the hash of one id per row."""

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
        rows = _point_rows(digests)
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
        named = [bytes(tag) for tag in tags]
        if len(set(named)) != len(named):  # of all tags: a refusal must not tell whether they are of this party's ids
            raise ProtocolError("The leader sent one tag for two places.")
        own = {tag: row for row, tag in enumerate(map(bytes, self._tokens[: self._people, _TAG]))}
        return np.array([own.get(tag, -1) for tag in named], dtype=np.int64)


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
    pairs = zip(_point_rows(digests), _point_rows(points), strict=True)
    hashed = b"".join([hashlib.blake2b(one + other, person=b"colonnade token").digest() for one, other in pairs])
    return np.frombuffer(hashed, dtype="<u8").reshape(-1, 8).astype(np.uint64)


def _point_rows(array: NDArray[np.uint8]) -> list[bytes]:
    data = np.ascontiguousarray(array).tobytes()
    return [data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES)]


def drawn_order(people: int, places: int, secret: bytes) -> NDArray[np.int64]:
    """Return, for each place of a row order, which of ``people`` it is for, or −1: every arrangement is equally likely."""
    words = SeedStream(subseed(secret, "colonnade row order")).words(max(people, places))
    arranged = np.argsort(words, kind="stable")[:places]
    return np.where(arranged < people, arranged, -1)
