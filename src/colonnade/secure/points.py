"""Points of a prime-order group by their 32-byte coordinates: hash onto it, multiply by secrets, refuse what is not on it.

The group is the subgroup of prime order ℓ of edwards25519, whose points are written by their Montgomery coordinate
u = (1 + y)/(1 − y); u does not tell P from −P, so what we compute with is points up to sign and multipliers up to sign.

*Hashing.* A 32-byte hash goes through Elligator 2 and times 8 (libsodium, in PyNaCl), so it lands on the curve and in the
subgroup. Raw X25519 on hashes would not do: half of all numbers are coordinates of the *twist*, multiplication keeps them
there, and everybody who sees a blinded id could read one bit of its hash. The map reaches a point (up to sign) by at most 32 of
the 2²⁵⁵ hashes, four for each of the eight points that times 8 makes the same, and on average by sixteen; these preimages can be
counted and drawn. So a random oracle into it is programmed with a uniform point by rejection, two attempts on average, which is
all that the proofs of `colonnade.secure.matching` and `colonnade.secure.union` ask for.

*Multiplying.* X25519 (`cryptography`, OpenSSL) multiplies by numbers 8k with 2²⁵¹ ≤ k < 2²⁵². Because 2²⁵² is just below ℓ,
these are, up to sign and but for a 2⁻¹²⁶ part of them, exactly the multipliers modulo ℓ, each once: nothing is lost by the
clamping, and every multiplier has an inverse of the same form (`Multiplier.inverse`). Times 8 also removes whatever part of
small order a peer may add to a point.

*Refusing.* A received coordinate must be below 2²⁵⁵ − 19 (one form a point), must not be of small order (its multiple by 8 would
be the identity, which X25519 reports), and must be on the curve: u³ + 486662u² + u is a square. Squares are recognised in
bulk: were one of the numbers not a square, the product over a random subset would not be one with probability ½, and
`REPETITIONS` subsets are drawn that the sender cannot know.
"""

from itertools import accumulate

import nacl.bindings
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.secret import Secret
from colonnade.secure.stream import SeedStream

__all__ = ["POINT_BYTES", "Multiplier", "Points", "hash_to_points", "require_points"]

POINT_BYTES = 32
REPETITIONS = 40
"""A point that is not on the curve goes unnoticed with probability 2⁻⁴⁰."""

FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE = 486662

_GROUP = 4
_SMALLEST, _LARGEST = 2**251, 2**252 - 1

Points = NDArray[np.uint8]
"""n × 32 bytes: one little-endian coordinate a row."""


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
    """Multiply up random subsets: of each four values all sixteen products are made once and one a repetition is picked."""
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
