"""A data party's part in agreements: keys, divisions of the people, and orders of rows.

*Attempts.* Every attempt to align, in any mode, is a row of the ledger of kind ``"list"`` before anything of the list is read.
From these rows the policy sees how often rows were aligned, and under which declared version of the data: two matchings with
one person between them tell anybody who compares them where that person is. No refusal depends on the list. Its length was
compared with the declared capacity when its owner opened the table, and ids that the plan's rules leave without a form of
their own have no place (`colonnade.party.table.row_order.comparable_ids`).

*Runs of one attempt.* A matching that was cut short is run again under the same request, and is the same attempt: nobody brings
another list to it, because everybody hears the same in every run (`colonnade.conversations.memory.RunRecords`). An alignment to a
public list tells nobody anything, and all that enters stands in the plan, so it is one attempt per request too.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, PolicyRefusal
from colonnade.party.ledger.rows import Entry
from colonnade.party.steps.participants import PrivateStep
from colonnade.party.table.private_table import among_rows
from colonnade.party.table.row_order import ComparableIds, RowOrder, comparable_ids, normal_ids
from colonnade.party.table.sources import BLOCK
from colonnade.party.table.stored_table import ids_in_memory, part_of
from colonnade.protocol.messages import Described
from colonnade.secure.keys import digest
from colonnade.steps.alignment import AligningStep, Cohort, IdRules, ListMatching, MatchingStep, UnionMatching
from colonnade.steps.local import PARTS, GroupKey, Split, part_identity

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep, Reservation
    from colonnade.party.policy import Policy


@dataclass(frozen=True)
class Attempt:
    """An attempt to align this party's rows, as its ledger records it. All of it is public."""

    name: bytes
    """What its row is called."""
    body: bytes | None
    """The hash of the request, the same for the same step of the same plan."""
    version: int | None
    """The declared version of the data."""

    @classmethod
    def within(cls, days: float, now: datetime, rows: Sequence[Entry]) -> "list[Attempt]":
        """Return the attempts of the last days from all rows of a ledger."""
        start = now - timedelta(days=days)
        recent = [row for row in rows if row.kind == "list" and row.when > start]
        return [cls(row.request or b"", row.body, row.version) for row in recent]

    @staticmethod
    def named(request: bytes, sequence: int) -> bytes:
        """Name a new attempt at a request, at the place of the ledger where its row will stand."""
        return digest("colonnade alignment row v1", request, sequence)

    @staticmethod
    def telling(name: bytes, whom: str = "peers") -> bytes:
        """Name the row which says that an attempt tells peers, or the coordinator, something exactly."""
        return digest("colonnade alignment told v1", name, whom)


class PrivateGroupKey(PrivateStep[GroupKey]):
    """A key, and where it is kept."""

    kinds = (GroupKey,)

    def join(self, admitted: "AdmittedStep") -> "KeyPart":
        """Return this party's part."""
        return KeyPart(admitted)


class PrivateSplit(PrivateStep[Split]):
    """A division of the people, and where its parts are kept."""

    kinds = (Split,)

    def join(self, admitted: "AdmittedStep") -> "SplitPart":
        """Return this party's part."""
        return SplitPart(admitted)


class KeyPart:
    """Keeps the key once, in the ledger, under the step of the plan that it belongs to.

    Another plan is another request, so no second study ever meets this key.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted

    def keep(self, key: bytes) -> None:
        """Keep the key, durably, before anyone is told that it is settled; after a crash it is kept already."""
        if not self._admitted.is_known():
            self._admitted.keep_key(key)


class SplitPart:
    """Keeps two orders of rows before anyone is told, and not the key; what it follows from is forgotten with `Conclude`."""

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted

    def keep(self, key: bytes) -> None:
        """Divide, and keep both parts, durably; after a crash, the same parts again."""
        admitted, orders = self._admitted, self._admitted.row_orders
        whole = orders.order(admitted.plan.alignment)
        second = in_second_part(key, whole.people, cast("PrivateSplit", admitted.private).step.share)
        if second.all() or not second.any():
            raise BadInput("A part of the division would be empty.", remedy="Split more people, or by another share.")
        admitted.order_records.record_order()
        for part, taken in zip(PARTS, (~second, second), strict=True):
            with among_rows():
                orders.add(part_of(whole, part_identity(admitted.plan, part), taken))
        admitted.order_records.settle()


def in_second_part(key: bytes, people: int, share: float) -> NDArray[np.bool_]:
    """Return for each place of the order whether it belongs to the second part: a keyed 64-bit hash below a threshold."""
    cipher = Cipher(ChaCha20(hashlib.sha256(b"colonnade split places 1\0" + key).digest(), bytes(16)), mode=None)
    stream, limit = cipher.encryptor(), np.uint64(int(share * 2.0**53) << 11)
    second = np.empty(people, dtype=np.bool_)
    for start in range(0, people, BLOCK):
        some = second[start : start + BLOCK]
        some[:] = np.frombuffer(stream.update(bytes(8 * len(some))), dtype="<u8") < limit
    return second


class PrivateMatching(PrivateStep[MatchingStep]):
    """This party's list."""

    kinds = (ListMatching, UnionMatching)

    def join(self, admitted: "AdmittedStep") -> "MatchingPart":
        """Return this party's part."""
        return MatchingPart(admitted)


class PrivateCohort(PrivateStep[Cohort]):
    """This party's rows in the order of a public list."""

    kinds = (Cohort,)

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
        self._step = cast("PrivateMatching", admitted.private).step
        self._own = ComparableIds([], np.empty(0, dtype=np.int64))
        self._reservation: Reservation | None = None

    def begin(self) -> list[bytes]:
        """Refuse, or record and pay, durably; return this party's ids in their normal form, each once."""
        admitted, records = self._admitted, self._admitted.order_records
        _refuse_an_undeclared_size(admitted, self._step)
        ids = _own_ids(admitted)
        attempt = _begin_attempt(admitted)
        records.disclose(Attempt.telling(attempt), self._step.told)
        if self._step.matching.size == "public":
            records.disclose(Attempt.telling(attempt, "coordinator"), "size")
        if admitted.step.price is not None and records.kept() is None:
            self._reservation = admitted.reserve()
        with among_rows():
            self._own = comparable_ids(ids_in_memory(ids), self._step.rules)
        return self._own.ids

    def places(self, common: int) -> int:
        """Return how many places the order has: the number of people, noisy if the plan says so, or all there could be."""
        matching, kept = self._step.matching, self._admitted.order_records.kept()
        if kept is not None:  # another party did not finish, and we did: the seed of the noise is gone
            return kept.people
        if matching.size == "hidden":
            return int(matching.places)
        if matching.size == "declared":  # what was declared, and not what was found: nothing here depends on a list
            return min(_declared(self._admitted), int(matching.places))
        if self._step.size_law is None:
            return common
        assert self._reservation is not None  # the run begins first
        released = self._step.size_law.release(np.array([common]), self._reservation.stream("size"))
        return int(np.clip(released[0], 0, matching.places))

    def keep(self, identity: str, order: NDArray[np.int64]) -> Described:
        """Keep the order, durably, and then say so."""
        with among_rows():
            ids = pa.array([one.decode() for one in self._own.ids], type=pa.large_string())
            known = ids.take(pa.array(order, mask=order < 0)) if len(order) else ids.slice(0, 0)
            rows = np.full(len(order), -1, dtype=np.int64)
            rows[order >= 0] = self._own.rows[order[order >= 0]]
        return self._admitted.order_records.keep(RowOrder(identity, len(order), rows, known, self._step.makes_union))


class CohortPart:
    """A party's rows in the order of a public list, kept once."""

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted

    def keep_cohort(self, identity: str, cohort: Sequence[str]) -> Described:
        """Keep the order of a public list: −1 where this party has no such person, or cannot tell which row is meant."""
        admitted, rules = self._admitted, cast("PrivateCohort", self._admitted.private).step.rules
        listed, ids = _public_ids(cohort, rules), _own_ids(admitted)
        _begin_attempt(admitted)
        with among_rows():
            own = comparable_ids(ids_in_memory(ids), rules)
            rows = dict(zip(own.ids, own.rows.tolist(), strict=True))
            order = np.array([rows.get(one.encode(), -1) for one in listed.to_pylist()], dtype=np.int64)
        return admitted.order_records.keep(RowOrder(identity, len(order), order, listed))


def may_align(admitted: "AdmittedStep", step: AligningStep, pending: int) -> bool:
    """Return whether rows are still to be aligned in a step, and not kept already; refuse as the step itself would.

    ``pending`` other alignments have been agreed to and not begun. Each of them will be an attempt.
    """
    if admitted.order_records.kept() is not None:
        return False
    if isinstance(step, MatchingStep):
        _refuse_an_undeclared_size(admitted, step)
    _own_ids(admitted)
    _attempt_to_take_up(admitted, pending)
    return True


def _begin_attempt(admitted: "AdmittedStep") -> bytes:
    """Count an attempt, durably, unless one is taken up again; refuse one too many. Return its name."""
    return _attempt_to_take_up(admitted) or admitted.order_records.record_attempt()


def _attempt_to_take_up(admitted: "AdmittedStep", pending: int = 0) -> bytes | None:
    """Return the attempt that was made at this request; ``None`` where one more may be made; refuse one too many."""
    attempts, version = admitted.order_records.attempts(), admitted.row_orders.first.terms.version
    for attempt in attempts:
        if attempt.body == admitted.body:
            return attempt.name
    check_attempt(admitted.policy, cast("AligningStep", admitted.private.step), attempts, version, pending)
    return None


def check_attempt(
    policy: "Policy", step: AligningStep, earlier: Sequence[Attempt], version: int, pending: int = 0
) -> None:
    """Refuse one more attempt to align.

    Parameters
    ----------
    policy, step
        This party's rules, and what is asked.
    earlier
        The attempts, in any mode, within the policy's period.
    version
        The declared version of the data.
    pending
        How many more have been agreed to.
    """
    if len(earlier) + pending >= policy.max_alignments:
        raise PolicyRefusal(
            f"This party's policy allows {policy.max_alignments} alignments in {policy.alignment_period:g} days.",
            remedy="Use an alignment that is kept: repeated ones tell who comes and goes (max_alignments, alignment_period).",
        )
    if step.told and any(attempt.version != version for attempt in earlier):
        raise PolicyRefusal(
            f"This party was aligned under another data version, less than {policy.alignment_period:g} days ago.",
            remedy='Wait, or align to a public list (mode="cohort"): two matchings would tell who came or went.',
        )


def _public_ids(cohort: Sequence[str], rules: IdRules) -> pa.Array:
    """Return the ids of a public list in their normal form. What is refused here is the list that the coordinator sent."""
    listed = normal_ids(pa.array(cohort, type=pa.large_string()), rules)
    if listed.null_count or len(listed.unique()) != len(listed):
        raise BadInput(
            "The public list has ids that are empty, not whole numbers, or equal, once they are compared as the plan says.",
            remedy="List every person once, or compare ids in another way (kind=, form=, strip=, case=).",
        )
    return listed


def _own_ids(admitted: "AdmittedStep") -> Any:
    ids = admitted.row_orders.ids
    if ids is None:
        raise PolicyRefusal("This party was opened without its id column.", remedy="Open it with ids=.")
    return ids


def _refuse_an_undeclared_size(admitted: "AdmittedStep", step: MatchingStep) -> None:
    if step.matching.size == "declared" and not _declared(admitted):
        raise PlanMismatch("No number of people was declared public when this party was opened.")


def _declared(admitted: "AdmittedStep") -> int:
    """How many people were declared public when this party was opened; not what a later alignment found."""
    return admitted.row_orders.first.terms.people
