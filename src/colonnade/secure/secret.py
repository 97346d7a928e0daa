"""A secret: bytes that do not show themselves, and from which other secrets are derived by HKDF-SHA256.

Python cannot erase memory for certain; what this type prevents is the ordinary leak, a key in a log line, a traceback
or a pickled object.

Examples
--------
>>> Secret(bytes(32))
Secret(<redacted>)
"""

from typing import NoReturn

from cryptography.hazmat.primitives import constant_time, hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from colonnade.errors import BadInput
from colonnade.secure.framing import Field, frame

__all__ = ["SEED_BYTES", "Secret", "require_seed"]

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
