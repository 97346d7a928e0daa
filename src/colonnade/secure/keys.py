"""Secrets that do not show themselves, and identities: Ed25519 keys that sign.

Python cannot erase memory for certain. `Secret` prevents the ordinary leak: a key in a log line, a traceback or a pickled object.
"""

from typing import NoReturn, Protocol

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import constant_time, hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.framing import Field, frame

__all__ = ["SEED_BYTES", "Identity", "PublicIdentity", "RandomBytes", "Secret", "require_seed"]


SEED_BYTES = 32


def require_seed(seed: bytes) -> bytes:
    """Return a seed of exactly `SEED_BYTES` bytes; refuse anything else."""
    if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
        raise BadInput(f"A seed is {SEED_BYTES} bytes.")
    return seed


class Secret:
    """Key material with a redacted repr and comparison in constant time.

    Parameters
    ----------
    value
        The bytes; uniformity is not needed where the secret is only derived from.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if not isinstance(value, bytes) or not value:
            raise BadInput("A secret is made of bytes.")
        self._value = value

    def expose(self) -> bytes:
        """Return the bytes, for the primitive that needs them."""
        return self._value

    def derive(self, label: str, *fields: Field, salt: bytes | None = None) -> "Secret":
        """Return an independent 32-byte secret for one purpose: HKDF-SHA256, the framed label and fields as info."""
        expansion = HKDF(algorithm=hashes.SHA256(), length=SEED_BYTES, salt=salt, info=frame(label, *fields))
        return Secret(expansion.derive(self._value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and constant_time.bytes_eq(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]  # a hash would be a function of the key that shows in a dictionary

    def __repr__(self) -> str:
        return "Secret(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret is not serialised.")


_FIELD = 2**255 - 19
_ORDER_EIGHT = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_WORTHLESS = frozenset({0, 1, _FIELD - 1, _FIELD, _FIELD + 1, _ORDER_EIGHT, _FIELD - _ORDER_EIGHT})
"""Ed25519's small-order points by y coordinate, unreduced ones included: under such a key anybody signs anything."""


class RandomBytes(Protocol):
    """The one thing that key generation needs of a source of randomness."""

    def bytes(self, count: int, /) -> bytes:
        """Return that many uniform bytes."""
        ...


class PublicIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's public Ed25519 key, as pinned in the federation's agreement.

    Parameters
    ----------
    key
        The 32 bytes of the public key. A point of small order is refused.
    """

    key: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes) or len(self.key) != SEED_BYTES:
            raise BadInput("A public identity is 32 bytes.")
        if int.from_bytes(self.key, "little") % 2**255 in _WORTHLESS:
            raise BadInput("A public identity is a point of small order.")

    def verify(self, message: bytes, signature: bytes) -> None:
        """Return if this identity signed the message; raise `ProtocolError` otherwise."""
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(signature, message)
        except (InvalidSignature, ValueError) as error:
            raise ProtocolError("A signature is not that of the party it is said to come from.") from error


class Identity:
    """A party's long-lived private key.

    Parameters
    ----------
    private
        The Ed25519 key. Make one with `generate` or `from_seed`.

    Examples
    --------
    >>> identity = Identity.from_seed(bytes(32))
    >>> PublicIdentity(identity.public).verify(b"message", identity.sign(b"message"))
    """

    __slots__ = ("_private",)

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def generate(cls, randomness: RandomBytes) -> "Identity":
        """Draw a new identity."""
        return cls.from_seed(randomness.bytes(SEED_BYTES))

    @classmethod
    def from_seed(cls, seed: bytes) -> "Identity":
        """Return the identity that a stored 32-byte seed stands for (RFC 8032 calls the seed the private key)."""
        return cls(Ed25519PrivateKey.from_private_bytes(require_seed(seed)))

    @property
    def public(self) -> bytes:
        """The 32 bytes of the public key."""
        return self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of a message, which should be a `colonnade.secure.framing.frame`."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return "Identity(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A private identity is not serialised.")
