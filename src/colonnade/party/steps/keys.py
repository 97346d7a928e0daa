"""A data party's part in agreeing on a secret: a key that is kept once, or a division of the people that is kept by its parts."""

import hashlib
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from colonnade.errors import BadInput, ReleaseLost
from colonnade.party.table.row_order import Alignment
from colonnade.steps.keys import PARTS, GroupKey, Split, part_identity

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep

__all__ = ["KeyPart", "PrivateGroupKey", "PrivateSplit", "SplitPart", "belongs"]


class PrivateGroupKey(GroupKey):
    """A key, and where it is kept."""

    def join(self, admitted: "AdmittedStep") -> "KeyPart":
        """Return this party's part."""
        return KeyPart(admitted)


class PrivateSplit(Split):
    """A division of the people, and where its parts are kept."""

    def join(self, admitted: "AdmittedStep") -> "SplitPart":
        """Return this party's part."""
        return SplitPart(admitted)


class KeyPart:
    """Keeps the key once, in the ledger, under the step of the plan that it belongs to.

    Another plan is another request, so no second study ever meets this key.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted

    def begin(self) -> None:
        """Refuse if a key is kept for this step already: see `colonnade.conversations.group_key` for why it is not replaced."""
        if self._admitted.is_known():
            raise ReleaseLost(
                "The parties agreed on the key of this study before, and not all of them kept it.",
                remedy="Run the study again with the next repeat=.",
            )

    def keep(self, key: bytes) -> None:
        """Keep the key, durably, before anyone is told that it is settled."""
        self._admitted.keep_key(key)


class SplitPart:
    """Keeps two orders of rows before anyone is told, and forgets the key."""

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted

    def begin(self) -> None:
        """Refuse a second run: with another key it would give the same names to other people."""
        if self._admitted.is_known():
            raise ReleaseLost(
                "The parties divided their people before, and not all of them kept the parts.",
                remedy="Split again with the next repeat=.",
            )

    def keep(self, key: bytes) -> None:
        """Divide, and keep both parts, durably. The row in the ledger comes first: after it, no second key is ever used."""
        admitted, orders = self._admitted, self._admitted.row_orders
        whole = orders.alignment(admitted.alignment)
        second = belongs(key, whole.people, cast("PrivateSplit", admitted.half).share)
        if second.all() or not second.any():
            raise BadInput("A part of the division would be empty.", remedy="Split more people, or by another share.")
        admitted.record_order()
        for part, taken in zip(PARTS, (~second, second), strict=True):
            places = np.flatnonzero(taken)
            ids = None if whole.ids is None else whole.ids.take(pa.array(places))
            identity = part_identity(admitted.plan, part)
            orders.add(Alignment(identity, len(places), whole.order[places], ids, whole.union))
        admitted.settle_order()


def belongs(key: bytes, people: int, share: float) -> NDArray[np.bool_]:
    """Return for each place of the order whether it belongs to the second part: a keyed 64-bit hash below a threshold."""
    stream = Cipher(ChaCha20(hashlib.sha256(b"colonnade split places 1\0" + key).digest(), bytes(16)), mode=None)
    words = np.frombuffer(stream.encryptor().update(bytes(8 * people)), dtype="<u8")
    return np.asarray(words < np.uint64(int(share * 2.0**53) << 11))
