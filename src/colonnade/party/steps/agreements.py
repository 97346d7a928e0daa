"""A data party's part in agreements: keys, divisions of the people, and orders of rows.

Every run that shows a peer anything about this party's list is a row of the ledger before its first letter leaves: of kind
``"list"``, with a keyed hash of the list that was brought. From these rows the policy sees how often lists were matched,
and whether this party's own list has changed since: two alignments with one person between them tell anybody who compares
them where that person is.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, PolicyRefusal, ReleaseLost
from colonnade.party.table.row_order import RowOrder, normal_ids
from colonnade.protocol.messages import Described
from colonnade.steps.alignment import AligningStep, Cohort, ListMatching, UnionMatching
from colonnade.steps.keys import PARTS, GroupKey, Split, part_identity

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep
    from colonnade.party.handles import Reservation

__all__ = [
    "CohortPart",
    "KeyPart",
    "MatchingPart",
    "PrivateCohort",
    "PrivateGroupKey",
    "PrivateListMatching",
    "PrivateSplit",
    "PrivateUnionMatching",
    "SplitPart",
    "in_second_part",
]


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
        """Refuse if a key is kept for this step already: see `colonnade.conversations.agreements` for why it is not replaced."""
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
        whole = orders.order(admitted.plan.alignment)
        second = in_second_part(key, whole.people, cast("PrivateSplit", admitted.half).share)
        if second.all() or not second.any():
            raise BadInput("A part of the division would be empty.", remedy="Split more people, or by another share.")
        admitted.order_records.record_order()
        for part, taken in zip(PARTS, (~second, second), strict=True):
            places = np.flatnonzero(taken)
            ids = None if whole.ids is None else whole.ids.take(pa.array(places))
            identity = part_identity(admitted.plan, part)
            orders.add(RowOrder(identity, len(places), whole.rows[places], ids, whole.union))
        admitted.order_records.settle()


def in_second_part(key: bytes, people: int, share: float) -> NDArray[np.bool_]:
    """Return for each place of the order whether it belongs to the second part: a keyed 64-bit hash below a threshold."""
    stream = Cipher(ChaCha20(hashlib.sha256(b"colonnade split places 1\0" + key).digest(), bytes(16)), mode=None)
    words = np.frombuffer(stream.encryptor().update(bytes(8 * people)), dtype="<u8")
    return np.asarray(words < np.uint64(int(share * 2.0**53) << 11))


SALT = 16


class PrivateListMatching(ListMatching):
    """This party's list."""

    def join(self, admitted: "AdmittedStep") -> "MatchingPart":
        """Return this party's part."""
        return MatchingPart(admitted)


class PrivateUnionMatching(UnionMatching):
    """This party's list."""

    def join(self, admitted: "AdmittedStep") -> "MatchingPart":
        """Return this party's part."""
        return MatchingPart(admitted)


class PrivateCohort(Cohort):
    """This party's rows in the order of a public list."""

    def join(self, admitted: "AdmittedStep") -> "CohortPart":
        """Return this party's part."""
        return CohortPart(admitted)


class MatchingPart:
    """A party's list, and where the order of its rows is kept.

    Parameters
    ----------
    admitted
        The step.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted
        self._half = cast("ListMatching", admitted.half)
        self._ids: list[bytes] = []
        self._reservation: Reservation | None = None

    def begin(self) -> list[bytes]:
        """Refuse, or record and pay, durably; return this party's ids in their normal form."""
        admitted = self._admitted
        _refuse_a_kept_one(admitted)
        self._refuse_an_undeclared_size()
        listed = _list_hash(admitted)
        self._check_policy(listed)
        admitted.order_records.record_attempt(_fingerprint(listed, admitted.random_bytes(SALT)))
        # from here on a refusal may tell something about the list: it counts as an attempt, which policies bound
        self._ids = _normal_ids(admitted, self._half)
        if len(self._ids) > self._half.capacity:
            raise BadInput(
                f"Party {admitted.party!r} has more ids than the capacity that the plan gives its list.",
                remedy="Align with a larger capacity=.",
            )
        if self._half.matching.size == "public":
            admitted.order_records.disclose_size()
        if admitted.step.price is not None:
            self._reservation = admitted.reserve()
        return self._ids

    def places(self, common: int) -> int:
        """Return how many places the order has: the number of people, noisy if the plan says so, or all there could be."""
        matching = self._half.matching
        if matching.size == "hidden":
            return int(matching.places)
        if matching.size == "declared":  # what was declared, and not what was found: nothing here depends on a list
            return min(_declared(self._admitted), int(matching.places))
        if self._half.size_law is None:
            return common
        assert self._reservation is not None  # the run begins first
        opened = self._admitted.opened()
        if opened is not None:  # opened once: the same noise on another number would tell the difference
            return int.from_bytes(opened, "big")
        released = self._half.size_law.release(np.array([common]), self._reservation.stream("size"))
        places = int(np.clip(released[0], 0, matching.places))
        self._admitted.open_once(places.to_bytes(8, "big"))
        return places

    def keep(self, identity: str, order: NDArray[np.int64]) -> Described:
        """Keep the order, durably, and then say so."""
        ids = pa.array([one.decode() for one in self._ids], type=pa.large_string())
        known = ids.take(pa.array(order, mask=order < 0)) if len(order) else ids.slice(0, 0)
        return self._admitted.order_records.keep(RowOrder(identity, len(order), order, known, self._half.makes_union))

    def _refuse_an_undeclared_size(self) -> None:
        if self._half.matching.size == "declared" and not _declared(self._admitted):
            raise PlanMismatch("No number of people was declared public when this party was opened.")

    def _check_policy(self, listed: bytes) -> None:
        policy = self._admitted.policy
        attempts = self._admitted.order_records.attempts(policy.alignment_period)
        if len(attempts) >= policy.max_alignments:
            raise PolicyRefusal(
                f"This party has matched its list {len(attempts)} times in {policy.alignment_period:g} days. That is the limit.",
                remedy="Use an alignment that is kept: repeated alignments tell who comes and goes.",
            )
        if any(attempt != _fingerprint(listed, attempt[:SALT]) for attempt in attempts):
            raise PolicyRefusal(
                f"This party's list has changed since it was matched, less than {policy.alignment_period:g} days ago.",
                remedy="Use the alignment that is kept, or wait: comparing the two would tell who came or went.",
            )


class CohortPart:
    """A party's rows in the order of a public list, kept once."""

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted

    def keep_cohort(self, identity: str, cohort: Sequence[str]) -> Described:
        """Keep the order of a public list: −1 where this party has no such person."""
        _refuse_a_kept_one(self._admitted)
        half = cast("Cohort", self._admitted.half)
        rows = {one: row for row, one in enumerate(_normal_ids(self._admitted, half))}
        wanted = normal_ids(pa.array(cohort, type=pa.large_string()), half.rules, party="the list")
        order = np.array([rows.get(one, -1) for one in wanted], dtype=np.int64)
        ids = pa.array([one.decode() for one in wanted], type=pa.large_string())
        return self._admitted.order_records.keep(RowOrder(identity, len(order), order, ids))


def _refuse_a_kept_one(admitted: "AdmittedStep") -> None:
    if admitted.is_known() and not admitted.is_paid():
        raise ReleaseLost(
            "This party keeps the row order of an earlier run of this alignment, which not all parties finished.",
            remedy="Align again with the next repeat=.",
        )


def _own_ids(admitted: "AdmittedStep") -> pa.Array:
    ids = admitted.row_orders.ids
    if ids is None:
        raise PolicyRefusal("This party was opened without its id column.", remedy="Open it with ids=.")
    return ids


def _normal_ids(admitted: "AdmittedStep", half: AligningStep) -> list[bytes]:
    return normal_ids(_own_ids(admitted), half.rules, party=admitted.party)


def _declared(admitted: "AdmittedStep") -> int:
    """How many people were declared public when this party was opened; not what a later alignment found."""
    return admitted.row_orders.first.terms.people


def _list_hash(admitted: "AdmittedStep") -> bytes:
    """Hash the list, whatever the order of its rows and the rules of the plan. Secret: it would confirm a guess."""
    state = hashlib.sha256(b"colonnade list v2")
    for one in sorted(_own_ids(admitted).cast(pa.large_string()).fill_null("").to_pylist()):
        encoded = one.encode()
        state.update(len(encoded).to_bytes(8, "big") + encoded)
    return state.digest()


def _fingerprint(listed: bytes, salt: bytes) -> bytes:
    """Return a salt and what it makes of a list: the row's hash leaves this party in the head of its ledger.

    Without a salt that stays here, somebody who knows a list but for one id could try both and see which gives that hash.
    """
    return salt + hmac.new(salt, listed, hashlib.sha256).digest()[: 32 - SALT]
