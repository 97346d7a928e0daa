"""A data party's part in agreeing on an order of rows: check the policy, record, pay, and keep the order once.

Every run that shows a peer anything is a row of the ledger before its first letter leaves: of kind ``"list"``, with a keyed
hash of the list that was brought. From these rows the policy sees how often lists were matched, and whether this party's own list
has changed since: two alignments with one person between them tell whoever compares them where that person is.
"""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, PolicyRefusal, ReleaseLost
from colonnade.party.steps.ledger_words import label_of, row_terms
from colonnade.party.table.identifiers import normal_ids
from colonnade.party.table.row_order import Alignment
from colonnade.plan import Plan, Step
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.protocol import codec
from colonnade.protocol.messages import Described
from colonnade.secure.framing import digest
from colonnade.steps.matching_terms import UNION

if TYPE_CHECKING:
    from colonnade.party.gate import Gate

__all__ = ["AligningPart"]

SALT = 16


class AligningPart:
    """A party's list, and where the order of its rows is kept.

    Parameters
    ----------
    gate
        The party's door.
    plan, step
        What is asked.
    statistic
        Says that the step is in order: `colonnade.party.steps.aligning`.
    """

    def __init__(self, gate: "Gate", plan: Plan, step: Step, statistic: Any) -> None:
        self._gate = gate
        self._plan = plan
        self._step = step
        self._statistic = statistic
        self._request, self._body = gate.paid_as(plan, step.name)
        self._ids: list[bytes] = []
        self._noise: KeyedRandomness | None = None

    def begin(self) -> list[bytes]:
        """Refuse, or record and pay, durably; return this party's ids in their normal form."""
        self._refuse_a_kept_one()
        self._refuse_an_undeclared_size()
        listed = self._listed()
        self._check_policy(listed)
        ledger, label = self._gate.ledger, label_of(self._plan, self._step)
        fingerprint = _fingerprint(listed, self._gate.randomness.bytes(SALT))
        terms = row_terms(ledger, self._plan, self._step)
        ledger.record_list(self._new_request(), fingerprint, label=label, **terms)
        # from here on a refusal may tell something about the list: it counts as an attempt, which policies bound
        self._ids = self._normal_ids()
        if len(self._ids) > self._statistic.capacity:
            raise BadInput(
                f"Party {self._gate.terms.party!r} has more ids than the capacity that the plan gives its list.",
                remedy="Align with a larger capacity=.",
            )
        if self._statistic.matching.size == "public":
            ledger.record_nonprivate(self._new_request(), self._body, label=f"{label} size", **terms)
        self._pay(label)
        return self._ids

    def places(self, common: int) -> int:
        """Return how many places the order has: the number of people, noisy if the plan says so, or all there could be."""
        matching = self._statistic.matching
        if matching.size == "hidden":
            return int(matching.places)
        if matching.size == "declared":  # what was declared, and not what was found: nothing here depends on a list
            return min(self._declared(), int(matching.places))
        if self._statistic.mechanism is None:
            return common
        assert self._noise is not None  # the run begins first
        opened = self._gate.ledger.opening_of(self._request)
        if opened is not None:  # opened once: the same noise on another number would tell the difference
            return int.from_bytes(opened, "big")
        released = self._statistic.mechanism.release(np.array([common]), self._noise.spawn("size"))
        places = int(np.clip(released[0], 0, matching.places))
        label = label_of(self._plan, self._step)
        terms = row_terms(self._gate.ledger, self._plan, self._step)
        self._gate.ledger.record_opening(self._request, places.to_bytes(8, "big"), label=label, **terms)
        return places

    def keep(self, identity: str, order: NDArray[np.int64]) -> Described:
        """Keep the order, durably, and then say so."""
        ids = pa.array([one.decode() for one in self._ids], type=pa.large_string())
        known = ids.take(pa.array(order, mask=order < 0)) if len(order) else ids.slice(0, 0)
        return self._kept(Alignment(identity, len(order), order, known, self._step.statistic == UNION))

    def keep_cohort(self, identity: str, cohort: Sequence[str]) -> Described:
        """Keep the order of a public list: −1 where this party has no such person."""
        self._refuse_a_kept_one()
        rows = {one: row for row, one in enumerate(self._normal_ids())}
        listed = pa.array(cohort, type=pa.large_string())
        wanted = normal_ids(listed, self._statistic.rules, party="the list")
        order = np.array([rows.get(one, -1) for one in wanted], dtype=np.int64)
        ids = pa.array([one.decode() for one in wanted], type=pa.large_string())
        return self._kept(Alignment(identity, len(order), order, ids))

    def _kept(self, alignment: Alignment) -> Described:
        gate = self._gate
        assert gate.views is not None  # a gate in a conversation stands before a guard
        gate.views.add(alignment)
        terms = gate.terms
        described = Described(
            party=terms.party,
            schema=tuple(terms.schema.items()),
            alignment=alignment.identity,
            people=alignment.people,
            capacity=terms.capacity,
            union=alignment.union,
        )
        if self._step.price is not None:
            gate.ledger.commit(self._request, codec.encode(described))
        else:
            row = row_terms(gate.ledger, self._plan, self._step)
            gate.ledger.record_alignment(self._request, self._body, label=label_of(self._plan, self._step), **row)
            gate.ledger.seal(self._request, codec.encode(described))
        return described

    def _new_request(self) -> bytes:
        """A name of its own for each row that stands for a run and not for an answer."""
        return digest("colonnade alignment row v1", self._request, self._gate.ledger.head().sequence)

    def _pay(self, label: str) -> None:
        if self._step.price is None:
            return
        ledger = self._gate.ledger
        seed = ledger.seed_of(self._request)
        if seed is None:
            seed = self._gate.randomness.bytes(32)
            terms = row_terms(ledger, self._plan, self._step)
            terms["together"] = True
            ledger.reserve(self._request, self._body, self._statistic.loss, label=label, seed=seed, **terms)
        self._noise = KeyedRandomness(seed)  # a run that was cut short is taken up again with the same noise

    def _refuse_a_kept_one(self) -> None:
        if self._gate.ledger.knows(self._request) and self._gate.ledger.seed_of(self._request) is None:
            raise ReleaseLost(
                "This party keeps the row order of an earlier run of this alignment, which not all parties finished.",
                remedy="Align again with the next repeat=.",
            )

    def _normal_ids(self) -> list[bytes]:
        assert self._gate.views is not None  # a gate in a conversation stands before a guard
        ids = self._gate.views.ids
        if ids is None:
            raise PolicyRefusal("This party was opened without its id column.", remedy="Open it with ids=.")
        return normal_ids(ids, self._statistic.rules, party=self._gate.terms.party)

    def _declared(self) -> int:
        """How many people were declared public when this party was opened; not what a later alignment found."""
        assert self._gate.views is not None  # a gate in a conversation stands before a guard
        return self._gate.views.first.terms.people

    def _refuse_an_undeclared_size(self) -> None:
        if self._statistic.matching.size == "declared" and not self._declared():
            raise PlanMismatch("No number of people was declared public when this party was opened.")

    def _listed(self) -> bytes:
        """Hash the list, whatever the order of its rows and the rules of the plan. Secret: it would confirm a guess."""
        assert self._gate.views is not None
        if self._gate.views.ids is None:
            raise PolicyRefusal("This party was opened without its id column.", remedy="Open it with ids=.")
        state = hashlib.sha256(b"colonnade list v2")
        for one in sorted(self._gate.views.ids.cast(pa.large_string()).fill_null("").to_pylist()):
            encoded = one.encode()
            state.update(len(encoded).to_bytes(8, "big") + encoded)
        return state.digest()

    def _check_policy(self, listed: bytes) -> None:
        policy, ledger = self._gate.policy, self._gate.ledger
        since = ledger.now() - timedelta(days=policy.alignment_period)
        recent = [entry for entry in ledger.entries() if entry.kind == "list" and entry.when > since]
        if len(recent) >= policy.max_alignments:
            raise PolicyRefusal(
                f"This party has matched its list {len(recent)} times in {policy.alignment_period:g} days, and does so no more.",
                remedy="Use an alignment that is kept: repeated alignments tell who comes and goes.",
            )
        if any(entry.body != _fingerprint(listed, (entry.body or b"")[:SALT]) for entry in recent):
            raise PolicyRefusal(
                f"This party's list has changed since it was matched, less than {policy.alignment_period:g} days ago.",
                remedy="Use the alignment that is kept, or wait: comparing the two would tell who came or went.",
            )


def _fingerprint(listed: bytes, salt: bytes) -> bytes:
    """Return a salt and what it makes of a list: the row's hash leaves this party in the head of its ledger.

    Without a salt that stays here, whoever knows a list but for one id could try both and see which gives that hash.
    """
    return salt + hmac.new(salt, listed, hashlib.sha256).digest()[: 32 - SALT]
