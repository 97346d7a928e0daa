"""Uniform words from a 32-byte seed: AES-256 in counter mode, from any position of the stream.

Shares, masks and challenges are regenerated from a seed after a restart, chunk by chunk, so a stream has *positions*:
the counter block is the position (eight bytes) and a block number (eight bytes), and two positions never meet.
"""

import builtins
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.secure.keys import Secret, require_seed

__all__ = ["SeedStream", "WordSource", "subseed"]

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
