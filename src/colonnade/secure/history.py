"""A history that can show that it only grew: a Merkle tree over rows, its root at every size, and proofs from size to size.

The tree is the one of certificate transparency (RFC 9162, section 2.1): the left part of n leaves is the largest power of two
below n. A root stands for all rows in their order. A consistency proof of about log₂ n hashes shows that the rows of one root are
the first rows of another. Nobody who has forgotten or exchanged a row can make one (docs/proofs/ledger-history.md).

A leaf is a digest of a row under a secret salt of its ledger, so a proof shows nothing but how many rows there are. Leaves, inner
nodes and roots are hashed under different first bytes, and a root with the number of its rows: no node passes for a leaf, and no
history for one of another length.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from colonnade.errors import BadInput

HASH_BYTES = 32
MOST_HASHES = 128
"""Of a proof between sizes below 2⁶³."""


class Earlier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a root was at an earlier row, and the proof that the present one extends it."""

    sequence: int
    root: bytes
    proof: tuple[bytes, ...]

    def __post_init__(self) -> None:
        sound = self.sequence >= 0 and len(self.proof) <= MOST_HASHES
        if not sound or any(len(one) != HASH_BYTES for one in (self.root, *self.proof)):
            raise BadInput("An earlier root is a row's number, a hash, and a proof of hashes.")


class History:
    """All rows of one history, as a tree. Memory: 64 bytes a row.

    Examples
    --------
    >>> history = History(bytes([row]) * 32 for row in range(7))
    >>> proof = history.proof(3)
    >>> extends(3, history.root(3), 7, history.root(), proof)
    True
    >>> extends(3, bytes(32), 7, history.root(), proof)
    False
    """

    def __init__(self, digests: Iterable[bytes] = ()) -> None:
        self._levels: list[bytearray] = [
            bytearray()
        ]  # level k: the roots of whole subtrees of 2^k leaves, one after another
        for digest in digests:
            self.append(digest)

    def __len__(self) -> int:
        return len(self._levels[0]) // HASH_BYTES

    def append(self, digest: bytes) -> None:
        """Add a row by its salted digest; takes one hash more for every subtree that it completes."""
        position, level, node = len(self), 0, _leaf(digest)
        while True:
            self._levels[level] += node
            if position % 2 == 0:
                return
            node = _node(self._at(level, position - 1), node)
            position, level = position // 2, level + 1
            if level == len(self._levels):
                self._levels.append(bytearray())

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the first ``size`` rows; by default of all."""
        rows = self._checked(len(self) if size is None else size)
        return _root(rows, self._subtree(0, rows))

    def proof(self, first: int, second: int | None = None) -> tuple[bytes, ...]:
        """Return the proof that the first ``second`` rows, by default all, begin with the first ``first``."""
        last = self._checked(len(self) if second is None else second)
        if self._checked(first) > last:
            raise BadInput("A history grows: the earlier size is the smaller one.")
        return tuple(self._steps(first, 0, last))

    def _steps(self, first: int, begin: int, end: int) -> list[bytes]:
        """Return the proof for the first rows of a subtree."""
        if first == end - begin:
            return [self._subtree(begin, end)]
        middle = begin + _split(end - begin)
        if first <= middle - begin:
            return [*self._steps(first, begin, middle), self._subtree(middle, end)]
        return [*self._steps(first - (middle - begin), middle, end), self._subtree(begin, middle)]

    def _subtree(self, begin: int, end: int) -> bytes:
        size = end - begin
        if size & (size - 1) == 0:  # whole subtrees begin at multiples of their size, and are kept
            return self._at(size.bit_length() - 1, begin // size)
        middle = begin + _split(size)
        return _node(self._subtree(begin, middle), self._subtree(middle, end))

    def _at(self, level: int, position: int) -> bytes:
        return bytes(self._levels[level][position * HASH_BYTES : (position + 1) * HASH_BYTES])

    def _checked(self, size: int) -> int:
        if not 1 <= size <= len(self):
            raise BadInput("A history has a root at each of its sizes, from one row on.")
        return size


def extends(first: int, earlier: bytes, second: int, later: bytes, proof: tuple[bytes, ...]) -> bool:
    """Return whether a proof shows that ``second`` rows of root ``later`` begin with ``first`` rows of root ``earlier``."""
    if not 1 <= first <= second or any(len(one) != HASH_BYTES for one in (earlier, later, *proof)):
        return False
    path = list(reversed(proof))
    try:
        part, whole = _subtrees(first, second, path)
    except IndexError:  # it ends too early
        return False
    return not path and (_root(first, part), _root(second, whole)) == (earlier, later)


def _subtrees(first: int, size: int, path: list[bytes]) -> tuple[bytes, bytes]:
    """Return two nodes that a proof is about in a subtree of ``size`` rows: over its first rows, and over all."""
    if first == size:
        node = path.pop()
        return node, node
    middle = _split(size)
    if first <= middle:
        part, left = _subtrees(first, middle, path)
        return part, _node(left, path.pop())
    part, right = _subtrees(first - middle, size - middle, path)
    left = path.pop()
    return _node(left, part), _node(left, right)


def _split(size: int) -> int:
    """Return the largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def _leaf(digest: bytes) -> bytes:
    return hashlib.sha256(b"\x00colonnade ledger row v1" + digest).digest()


def _root(size: int, node: bytes) -> bytes:
    return hashlib.sha256(b"\x02colonnade ledger root v1" + size.to_bytes(8, "big") + node).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01colonnade ledger node v1" + left + right).digest()
