"""Private matching of id lists: who is in every list, for any number of parties, without showing who is in which.

One party leads. It blinds its ids and sends them to every other party, each of which multiplies them by a secret of its own. The
leader takes its blinding off and so knows F_p(x) = H(x, k_p·P(x)) for its own ids x and for no others (an oblivious pseudo-random
function; Jarecki, Kiayias and Krawczyk's 2HashDH). Each party p then sends a map from F_p(y) to a *share of zero* s_p(y) for its
own ids y (`HiddenMap`). A share of zero is the exclusive or of pseudo-random words under a key for each pair of
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
the proofs ask for (docs/proofs/alignment.md).

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
    uniform but for these sums, and so are the tables (`HiddenMap`), whatever the keys.
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

Places for the union of two lists, such that neither party learns who is in both.

For every id of its own, each party gets a *name* u(x) = k₁k₂·P(x) that neither could compute alone. Each gets it from the other
as an oblivious pseudo-random function (blinded, multiplied, unblinded). The union of names is found
under a second layer of multipliers e₁, e₂. The second party ends up with both lists as e₁e₂·u, each in an order that only the
first party knows. It drops what occurs twice, takes e₂ off and shuffles. The first party takes e₁ off, shuffles again and shows
the names. A place of the row order is a place in that last list, and a party knows which places are its own rows' (Buddhavarapu,
Knox, Mohassel, Sengupta, Taubeneck and Vlaskin, "Private Matching for Compute", 2020).

::

    first → second   r₁·P(x)                       second → first   r₂·P(y)
    second → first   k₂r₁·P(x)                     first → second   k₁r₂·P(y)
    first → second   e₁·u(x), shuffled             second → first   e₂·u(y), shuffled
    first → second   e₁e₂·u(y), shuffled again
    second → first   e₁·u(w) for w in the union, shuffled
    first → second   u(w), shuffled

Privacy
-------
Guarantee
    Neither party learns which of its ids the other has. Both learn the length of the union, or nothing where it is filled up to
    the sum of the lists' public lengths. The second party sees in either case how many pseudonyms coincide, which is the *number*
    of people in common. Under DDH a list times a fresh secret multiplier is a list of random points. The first party sees
    r₂·P(y), e₂·u(y) and k₂r₁·P(x), all under multipliers it does not know, and then names: its own, and random ones in random
    order. The second party sees e₁·u(x) and e₁e₂·u(y), both shuffled by the first. Equal points tell it how many are equal; which
    of its own these are it could only tell with e₁. The names come in an order drawn by the first party, so the second cannot
    tell which places it had found twice. Proof: docs/proofs/alignment.md#union.
Neighbours
    None: the number of people in common is exact towards the second party.
Adversary
    One of the two parties, following the protocol. The coordinator sees sealed letters.
Numerics
    Points are equal or not; two ids have one name only if their hashes collide.
Checked by
    tests/secure/test_union.py, tests/conversations/test_union_run.py

A map from keys to values that does not show its keys: an oblivious key-value store, by peeling.

Every key has one slot in each third of a table, and its value is the exclusive or of the three. To write a map, find a key
alone in one of its slots, set it aside, and go on until no key is left; then fill slots in the reverse order (Garimella, Pinkas,
Rosulek, Trieu, Yanai 2021, on the tables of Majewski, Wormald, Havas and Czech). Slots that no key needs are random.

*It hides its keys*: with uniform values the whole table is uniform, whatever the keys, because a table of random slots and a
linear map of full rank make each table equally likely. Reading with a key that was never written gives the exclusive or of three
slots, which looks like any other value.

*Failing tells nothing*: peeling fails for a small part of key sets (`SLACK` is above the threshold 1.222 of three slots) and is
then tried again with the next salt. Callers pass keys that are pseudo-random to a reader of the table, and always equally
many of them, so how many salts were needed says nothing about whose keys they were.
"""

import hashlib
from collections.abc import Iterable, Mapping
from itertools import accumulate

import msgspec
import nacl.bindings
import numba
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import Secret, SeedStream, WordSource, subseed

SLACK = 1.3
SPARE_PLACES = 96
MOST_SALTS = 128

Words = NDArray[np.uint64]
"""n × 2 words: a key or a value of 128 bits per row."""


def slots_for(keys: int) -> int:
    """Return how many slots a map of that many keys has: a multiple of three."""
    return 3 * (int(SLACK * keys + SPARE_PLACES) // 3 + 1)


class HiddenMap(msgspec.Struct, frozen=True):
    """A written map.

    Parameters
    ----------
    salt
        Which of the public placements of keys was used.
    table
        One row of two words per slot.
    """

    salt: int
    table: Words

    @classmethod
    def write(cls, keys: Words, values: Words, randomness: WordSource) -> "HiddenMap":
        """Write a map; keys are distinct and look random to the reader, values look random to it too.

        Parameters
        ----------
        keys, values
            Equally many rows of two words.
        randomness
            What fills the slots that no key needs.
        """
        if keys.shape != values.shape or keys.ndim != 2 or keys.shape[1] != 2:
            raise BadInput("A map is written from equally many keys and values of two words.")
        table = randomness.words(2 * slots_for(len(keys))).reshape(-1, 2)
        for salt in range(MOST_SALTS):
            places = _places(keys, salt, len(table))
            order, alone = _peel(places, len(table))
            if len(order) == len(keys):
                _fill(places, np.array(values, dtype=np.uint64, order="C"), order, alone, table)
                return cls(salt, table)
        raise BadInput("A key occurs twice in a map.")

    def read(self, keys: Words) -> Words:
        """Return the values of keys; of a key that was not written, something random."""
        if not 0 <= self.salt < MOST_SALTS or self.table.ndim != 2 or len(self.table) % 3:
            raise ProtocolError("A peer's map does not have the agreed shape.")
        first, second, third = _places(keys, self.salt, len(self.table)).T
        read: Words = self.table[first] ^ self.table[second] ^ self.table[third]
        return read


def _places(keys: Words, salt: int, slots: int) -> NDArray[np.int64]:
    places: NDArray[np.int64] = _placed(
        np.array(keys, dtype=np.uint64, order="C"), np.uint64(salt), np.uint64(slots // 3)
    )
    return places


@numba.njit(cache=True, nogil=True)
def _mixed(word: np.uint64) -> np.uint64:
    """Spread one word (the finaliser of SplitMix64); the key is random already, this only makes salts independent."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@numba.njit(["int64[:, ::1](uint64[:, ::1], uint64, uint64)"], cache=True, nogil=True)
def _placed(keys: Words, salt: int, third: int) -> NDArray[np.int64]:
    """Place every key in each third of the table."""
    places = np.empty((len(keys), 3), dtype=np.int64)
    for row in range(len(keys)):
        for part in range(3):
            step = np.uint64(0x9E3779B97F4A7C15) * (salt * np.uint64(3) + np.uint64(part + 1))
            word = _mixed(keys[row, 0] + step) ^ _mixed(keys[row, 1] ^ step)
            places[row, part] = np.int64(word % third) + part * np.int64(third)
    return places


@numba.njit(
    ["Tuple((int64[::1], int64[::1]))(int64[:, ::1], int64)"],
    cache=True,
    nogil=True,
)
def _peel(places: NDArray[np.int64], slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys in the order in which they were found alone, and the slot of each; fewer than all if it fails."""
    counts = np.zeros(slots, dtype=np.int64)
    folded = np.zeros(slots, dtype=np.int64)  # the exclusive or of the keys at a slot: its only key once one is left
    for row in range(len(places)):
        for part in range(3):
            counts[places[row, part]] += 1
            folded[places[row, part]] ^= row
    order = np.empty(len(places), dtype=np.int64)
    alone = np.empty(len(places), dtype=np.int64)
    waiting = np.empty(slots, dtype=np.int64)
    found, top = 0, 0
    for slot in range(slots):
        if counts[slot] == 1:
            waiting[top] = slot
            top += 1
    while top:
        top -= 1
        slot = waiting[top]
        if counts[slot] != 1:
            continue
        row = folded[slot]
        order[found], alone[found] = row, slot
        found += 1
        for part in range(3):
            other = places[row, part]
            counts[other] -= 1
            folded[other] ^= row
            if counts[other] == 1 and other != slot:
                waiting[top] = other
                top += 1
    return order[:found].copy(), alone[:found].copy()


@numba.njit(
    ["void(int64[:, ::1], uint64[:, ::1], int64[::1], int64[::1], uint64[:, ::1])"],
    cache=True,
    nogil=True,
)
def _fill(
    places: NDArray[np.int64], values: Words, order: NDArray[np.int64], alone: NDArray[np.int64], table: Words
) -> None:
    """Set, last found first, the slot at which a key was alone, so that its three slots give its value."""
    for place in range(len(order) - 1, -1, -1):
        row, slot = order[place], alone[place]
        for word in range(2):
            total = values[row, word]
            for part in range(3):
                if places[row, part] != slot:
                    total ^= table[places[row, part], word]
            table[slot, word] = total


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
        Random bytes of this matching, the same in every run of it.
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


class UnionSide:
    """One of the two parties.

    Parameters
    ----------
    digests
        Its hashed ids, filled up to their public length.
    people
        How many of them are ids, and not filling.
    secret
        Random bytes of this matching, the same in every run of it.
    """

    def __init__(self, digests: Digests, people: int, secret: Secret) -> None:
        self._digests = digests
        self._people = people
        self._secret = secret
        self._blinding, self._naming, self._covering = (
            Multiplier.derive(secret, purpose) for purpose in ("blind", "name", "cover")
        )
        self._unblinding = self._naming.after(self._blinding.inverse())
        self.names: Points = np.empty((0, POINT_BYTES), dtype=np.uint8)

    def blinded(self, start: int, stop: int) -> Points:
        """Return r·P(x) for a block of this party's list."""
        return self._blinding.multiply(hash_to_points(self._digests[start:stop]))

    def evaluate(self, points: Points, seed: bytes) -> Points:
        """Return the other party's blinded points times this party's part of every name."""
        return self._naming.multiply(require_points(points, seed))

    def take_names(self, points: Points, seed: bytes) -> None:
        """Take the other party's part of this party's names, the next block of them."""
        found = self._unblinding.multiply(require_points(points, seed))
        self.names = np.concatenate([self.names, found])

    def covered_names(self) -> Points:
        """Return e·u(x) for this party's whole list, shuffled."""
        return self.shuffle(self._covering.multiply(self.names), "covered names")

    def cover(self, points: Points, seed: bytes) -> Points:
        """Return the other party's covered names under this party's cover too."""
        return self._covering.multiply(require_points(points, seed))

    def uncover(self, points: Points, seed: bytes) -> Points:
        """Take this party's cover off."""
        return self._covering.inverse().multiply(require_points(points, seed))

    def united(self, own: Points, other: Points, places: int | None, seed: bytes) -> Points:
        """Return the union of two lists of twice covered names without this party's cover, shuffled.

        Parameters
        ----------
        own, other
            Both lists under both covers.
        places
            To how many the union is filled up with points that are nobody's; ``None`` leaves it as long as it is.
        seed
            Random bytes that the sender does not know.
        """
        points = _distinct(own, other)
        if places is not None:
            filler = SeedStream(self._secret.derive("colonnade union filler v1").expose())
            most = places - max(
                len(own), len(other)
            )  # as many as any overlap could ask for, so that time tells nothing
            extra = np.frombuffer(filler.bytes(most * POINT_BYTES), dtype=np.uint8)
            strangers = self._blinding.multiply(hash_to_points(extra.reshape(-1, POINT_BYTES)))
            points = np.concatenate([points, strangers[: places - len(points)]])
        return self.shuffle(self.uncover(points, seed), "union")

    def shuffle(self, points: Points, purpose: str) -> Points:
        """Return points in an order that this party draws and tells nobody."""
        return points[shuffled(len(points), self._secret.derive("colonnade shuffle v1", purpose))]

    def order(self, names: Points) -> NDArray[np.int64]:
        """Return for each place which of this party's rows it is; −1 where it is none.

        A name that occurs twice is refused, no matter who has it. A row whose name is missing has no place: a refusal would tell
        a peer that left one of its own names out whether this party has it too.
        """
        shown = [name.tobytes() for name in names]
        if len(set(shown)) != len(shown):
            raise ProtocolError("The union has a name twice.")
        own = {name.tobytes(): row for row, name in enumerate(self.names[: self._people])}
        return np.array([own.get(name, -1) for name in shown], dtype=np.int64)


def require_distinct(points: Points) -> None:
    """Refuse a list of the other party's that has a point twice.

    Honest lists have none. From lists with gaps the union could not be filled up to its public length, which would then tell how
    many are in common: of the few that a party left in, so that it could ask for one.
    """
    if len({row.tobytes() for row in points}) != len(points):
        raise ProtocolError("The other party's list has a name twice.")


def _distinct(own: Points, other: Points) -> Points:
    """Every point once. The order is that of their bytes, and is shuffled before it is shown."""
    rows = sorted({row.tobytes() for row in np.concatenate([own, other])})
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, POINT_BYTES)


def shuffled(count: int, secret: Secret) -> NDArray[np.int64]:
    """Return a uniform order of a number of things."""
    return np.argsort(SeedStream(secret.expose()).words(count), kind="stable")
