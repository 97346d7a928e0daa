"""Keys and what is made of them: one canonical encoding, secrets, identities that sign, and uniform words from a seed.

*Encoding* (`frame`, `digest`). Everything that is signed, hashed, bound to a key or authenticated is encoded in one way.
Every field carries its kind and its length, so two different lists of fields never have the same bytes: "ab", "c" is not "a",
"bc", and a number is not its own digits. The first field is a label that says what the bytes are for, so that a signature or
a key made for one purpose is worth nothing for another.

*Secrets* (`Secret`) do not show themselves, and other secrets are derived from them by HKDF-SHA256.

*Identities* (`Identity`, `PublicIdentity`): one Ed25519 key per party, pinned by its peers in the federation's signed
agreement. The coordinator is not a trust anchor: a public identity is only ever read from what the parties themselves signed,
never from what the coordinator relays.

*Streams* (`SeedStream`): uniform words from a 32-byte seed, by AES-256 in counter mode. Shares, masks and challenges are
regenerated from a seed after a restart, chunk by chunk, so a stream has *positions*: the counter block is the position (eight
bytes) and a block number (eight bytes), and two positions never meet.

Examples
--------
>>> frame("greeting", "ab", "c") == frame("greeting", "a", "bc")
False
"""

import builtins
from functools import lru_cache
from typing import NoReturn, Protocol

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import constant_time, hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError

Field = bytes | str | int | tuple["Field", ...]

LARGEST_WORD = 2**64 - 1


def frame(label: str, *fields: Field) -> bytes:
    """Return the canonical bytes of a labelled list of fields.

    Parameters
    ----------
    label
        What the bytes are for; never empty.
    *fields
        Bytes, text (as UTF-8), whole numbers from 0 to `LARGEST_WORD`, and tuples of these.
    """
    if not label:
        raise BadInput("A frame needs a label.")
    return b"".join(_encoded(field) for field in (label, *fields))


def digest(label: str, *fields: Field) -> bytes:
    """Return the SHA-256 of a frame."""
    state = hashes.Hash(hashes.SHA256())
    state.update(frame(label, *fields))
    return state.finalize()


def _encoded(field: Field) -> bytes:
    match field:
        case bytes():
            return _prefixed(b"b", field)
        case str():
            return _prefixed(b"s", field.encode())
        case tuple():
            return _encoded_names(field) if {*map(type, field)} == {str} else _encoded_parts(field)
        case int() if not isinstance(field, bool) and 0 <= field <= LARGEST_WORD:
            return _prefixed(b"n", field.to_bytes(8, "big"))
    raise BadInput("A frame is made of bytes, text, tuples and whole numbers below 2^64.")


def _encoded_parts(fields: tuple[Field, ...]) -> bytes:
    return _prefixed(b"t", b"".join(_encoded(part) for part in fields))


@lru_cache(
    maxsize=64
)  # a run's list of members is part of all that its members sign; no other tuple is kept: True equals 1
def _encoded_names(names: tuple[str, ...]) -> bytes:
    return _encoded_parts(names)


def _prefixed(kind: bytes, content: bytes) -> bytes:
    return kind + len(content).to_bytes(8, "big") + content


SEED_BYTES = 32


def require_seed(seed: bytes) -> bytes:
    """Return a seed of exactly `SEED_BYTES` bytes; refuse anything else."""
    if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
        raise BadInput(f"A seed is {SEED_BYTES} bytes.")
    return seed


class Secret:
    """Key material with a redacted repr and comparison in constant time.

    Python cannot erase memory for certain. What this type prevents is the ordinary leak: a key in a log line, a traceback or
    a pickled object.

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
        """Return the 64-byte signature of a message, which should be a `colonnade.secure.keys.frame`."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return "Identity(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A private identity is not serialised.")


LARGEST_POSITION = 2**64 - 1

_ZEROS = bytes(1 << 16)  # encrypting zeros in blocks that stay in the cache is the fastest way to the key stream


class WordSource(Protocol):
    """A source of independent uniform bits: any randomness of the library, or a `SeedStream`."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` uniform 64-bit words."""

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next ``count`` uniform bytes."""


class SeedStream:
    """The key stream of a seed, from one position on.

    Parameters
    ----------
    seed
        32 secret uniform bytes.
    position
        Which of the 2⁶⁴ disjoint stretches of the stream; a chunk of rows has its own.

    Examples
    --------
    >>> first, again = SeedStream(bytes(32), 7), SeedStream(bytes(32), 7)
    >>> bool((first.words(5) == again.words(5)).all())
    True
    """

    __slots__ = ("_encryptor",)

    def __init__(self, seed: builtins.bytes, position: int = 0) -> None:
        if type(position) is not int or not 0 <= position <= LARGEST_POSITION:
            raise BadInput("A position of a stream is a whole number from 0 to 2^64 - 1.")
        counter = position.to_bytes(8, "big") + bytes(8)
        self._encryptor = Cipher(AES(require_seed(seed)), CTR(counter)).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words of the stream."""
        words = np.empty(count, dtype=np.uint64)
        self.fill(words)
        return words

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next ``count`` bytes of the stream."""
        return self._encryptor.update(builtins.bytes(count))

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Overwrite a contiguous array with the next words of the stream (little-endian on every machine)."""
        view = words.reshape(-1).view(np.uint8).data
        for start in range(0, len(view), len(_ZEROS)):
            part = view[start : start + len(_ZEROS)]
            self._encryptor.update_into(_ZEROS[: len(part)], part)
        if words.dtype.newbyteorder("<") != words.dtype:
            words.byteswap(inplace=True)

    def __repr__(self) -> str:
        return "SeedStream(<seed hidden>)"


def subseed(seed: builtins.bytes, label: str, index: int = 0) -> builtins.bytes:
    """Return a seed for one purpose, independent of the seeds of all other purposes and indices."""
    return Secret(require_seed(seed)).derive(label, index).expose()
