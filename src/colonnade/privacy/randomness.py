"""Where uniform bits come from: the operating system in production, a keyed stream in tests and for regenerable shares.

Both kinds expand a 32-byte key with ChaCha20. The system source has no state at all: every call takes a fresh key from
the operating system. So nothing is shared between threads, nothing is inherited across a fork or restored with a
snapshot of a machine, and bits that were handed out cannot be recomputed from a later dump of memory.
"""

import builtins
import os
import threading
from typing import NoReturn, Protocol, runtime_checkable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from colonnade.errors import BadInput

KEY_BYTES = 32
REKEY_AFTER = 1 << 30
"""Bytes that are drawn from one ChaCha20 key at most; far below the 2³⁸ at which its block counter would wrap."""

_DIRECT = 64  # at most this many bytes come from the operating system itself: no cheaper to expand
_ZEROS = bytes(1 << 16)  # encrypting zeros in blocks that stay in the cache is the fastest way to the key stream
_NONCE = bytes(16)  # a key is never used for a second stream, so the nonce need not vary


@runtime_checkable
class Randomness(Protocol):
    """A source of independent uniform bits. Passed as an argument wherever something is drawn, never global.

    Attributes
    ----------
    deterministic
        Whether somebody who knows a key can repeat the bits. A production ledger refuses such a source.
    """

    @property
    def deterministic(self) -> bool:
        """Whether the bits can be repeated with a key."""

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next ``count`` uniform bytes."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` uniform 64-bit words."""


class SystemRandomness:
    """Bits that nobody can repeat: ChaCha20, keyed afresh by the operating system at every call.

    Examples
    --------
    >>> source = SystemRandomness()
    >>> len(source.bytes(10)), source.words(3).shape, source.deterministic
    (10, (3,), False)
    """

    __slots__ = ()
    deterministic: bool = False

    def bytes(self, count: int) -> builtins.bytes:
        """Return ``count`` fresh uniform bytes."""
        return _fresh(_checked(count)).tobytes()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` fresh uniform 64-bit words."""
        return _as_words(_fresh(8 * _checked(count)))

    def __repr__(self) -> str:
        return "SystemRandomness()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Randomness stays where it is.")  # no worker ever draws


class KeyedRandomness:
    """A stream that its key determines: the same key gives the same bytes, however the calls divide them.

    Parameters
    ----------
    key
        32 secret bytes. Every sub-stream and every stretch of `REKEY_AFTER` bytes has a key derived from them.

    Examples
    --------
    >>> first, second = KeyedRandomness(b"k" * 32), KeyedRandomness(b"k" * 32)
    >>> first.bytes(3) + first.bytes(13) == second.words(2).tobytes()
    True
    >>> first.spawn("noise").bytes(8) == first.spawn("masks").bytes(8)
    False
    """

    __slots__ = ("_key", "_left", "_lock", "_stream", "_stretch")
    deterministic: bool = True

    def __init__(self, key: builtins.bytes) -> None:
        if not isinstance(key, builtins.bytes) or len(key) != KEY_BYTES:
            raise BadInput(f"A key is {KEY_BYTES} bytes.")
        self._key = key
        self._lock = threading.Lock()
        self._stretch = 0
        self._rekey()

    def _rekey(self) -> None:
        self._stream = _key_stream(_derive(self._key, b"stream", self._stretch.to_bytes(8, "big")))
        self._stretch += 1
        self._left = REKEY_AFTER

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next ``count`` bytes of the stream."""
        return self._next(_checked(count)).tobytes()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``8 * count`` bytes of the stream as little-endian 64-bit words."""
        return _as_words(self._next(8 * _checked(count)))

    def spawn(self, label: str) -> "KeyedRandomness":
        """Return the stream named ``label`` under this key; it does not depend on what was drawn from this one."""
        return KeyedRandomness(_derive(self._key, b"spawn", label.encode()))

    def _next(self, count: int) -> NDArray[np.uint8]:
        out = np.empty(count, dtype=np.uint8)
        with self._lock:
            done = 0
            while done < count:
                if not self._left:
                    self._rekey()
                step = min(count - done, self._left)
                _fill(self._stream, out[done : done + step])
                done += step
                self._left -= step
        return out

    def __repr__(self) -> str:
        return "KeyedRandomness(<key hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A key, and what is drawn from it, stay where they are.")


def _checked(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise BadInput("The number of random bytes or words is a non-negative whole number.")
    return int(count)


def _derive(key: bytes, purpose: bytes, detail: bytes) -> bytes:
    info = b"colonnade/randomness/" + purpose + b"/" + detail
    return HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=info).derive(key)


def _key_stream(key: bytes) -> CipherContext:
    return Cipher(ChaCha20(key, _NONCE), mode=None).encryptor()


def _fill(stream: CipherContext, out: NDArray[np.uint8]) -> None:
    view = out.data
    for start in range(0, len(view), len(_ZEROS)):
        part = view[start : start + len(_ZEROS)]
        stream.update_into(_ZEROS[: len(part)] if len(part) < len(_ZEROS) else _ZEROS, part)


def _fresh(count: int) -> NDArray[np.uint8]:
    if count <= _DIRECT:
        return np.frombuffer(bytearray(os.urandom(count)), dtype=np.uint8)
    out = np.empty(count, dtype=np.uint8)
    for start in range(0, count, REKEY_AFTER):
        _fill(_key_stream(os.urandom(KEY_BYTES)), out[start : start + REKEY_AFTER])
    return out


def _as_words(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return data.view("<u8").astype(np.uint64, copy=False)
