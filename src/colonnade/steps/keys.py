"""Steps that rest on a secret of the parties: keys, divisions of the people, and sketches of memberships.

Agreeing on a secret releases and costs nothing. Sketches of who is in which local cluster are Private vertical clustering,
Algorithm 3, mended (docs/proofs/sketches.md).
"""

import hashlib
from collections.abc import Mapping
from itertools import combinations
from typing import ClassVar

from colonnade.errors import PlanMismatch, ProtocolError
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.sketches import PairSide, PartitionSketches, sketching
from colonnade.protocol import codec
from colonnade.result import Opening
from colonnade.schema import Schema
from colonnade.secure.mail import OVERHEAD
from colonnade.steps.kind import (
    HELLO,
    SEED,
    SMALL,
    Admission,
    Channel,
    Earlier,
    Forecast,
    RowOrderKind,
    StepKind,
    WholeStep,
    nothing_earlier,
)
from colonnade.steps.local import MEMBERSHIP, Membership
from colonnade.steps.terms import whole_parameter

__all__ = [
    "KEY_BYTES",
    "LARGEST_SKETCHES",
    "PARTS",
    "GroupKey",
    "KeyStep",
    "MembershipSketches",
    "Split",
    "key_holders",
    "part_identity",
]


KEY_BYTES = 32
PARTS = ("train", "test")


class KeyStep(StepKind):
    """One party's part in agreeing on a secret."""

    channel: ClassVar[Channel] = Channel.KEY
    admission: ClassVar[Admission] = Admission.NOTHING
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.ANY

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.members(plan, step.name)

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the parties that have the step: two or more, and none of them asked for anything else in it."""
        steps = [step for step in plan.steps if step.name == name]
        if len(steps) < 2 or any(step.kind != cls.name or step.columns or step.price is not None for step in steps):
            raise PlanMismatch("A secret is agreed on by two or more parties, and costs and releases nothing.")
        plan.require_named()
        return tuple(sorted(step.party for step in steps))

    @classmethod
    def discloses(cls, step: Step) -> bool:
        """Nothing leaves."""
        return False

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Nothing is opened."""
        return ()

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Nothing is assumed: what a key is used for says what rests on it."""
        return ()


class GroupKey(KeyStep):
    """A key that the parties share (`colonnade.conversations.agreements`)."""

    name: ClassVar[str] = "group-key"
    title: ClassVar[str] = "group key"
    conversation: ClassVar[str] = "group-key"
    keeps_key: ClassVar[bool] = True

    @classmethod
    def forecast(cls, whole: WholeStep, forecast: Forecast, *, kept: bool) -> bool:
        """Add the rounds: recall, greet, commit, reveal, settle; and in the end, forget."""
        parties = list(whole.steps)
        small, half = dict.fromkeys(parties, SMALL), dict.fromkeys(parties, SMALL // 2)
        forecast.round(small, half)
        if not kept:
            letters = dict.fromkeys(parties, (len(parties) - 1) * (OVERHEAD + 2 * SEED) + SMALL)
            forecast.round(small, dict.fromkeys(parties, HELLO + SMALL))
            forecast.round(dict.fromkeys(parties, len(parties) * HELLO), letters)
            forecast.round(letters, letters)
            forecast.round(letters, half)
        forecast.round(small, half)
        return True


class Split(KeyStep):
    """A division of the people in two by a keyed hash (`colonnade.conversations.agreements`)."""

    name: ClassVar[str] = "split"
    title: ClassVar[str] = "division of people by a keyed hash"
    conversation: ClassVar[str] = "group-key"
    parameters: ClassVar[frozenset[str]] = frozenset({"test"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.share = _share(step)

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the parties that have the step; all of them are asked for the same division."""
        members = super().members(plan, name)
        if len({_share(step) for step in plan.steps if step.name == name}) != 1:
            raise PlanMismatch("The parties are asked for different divisions.")
        return members


def part_identity(plan: Plan, part: str) -> str:
    """Return the name of a part as an order of rows: a function of the plan, which names the order that is divided."""
    return hashlib.sha256(b"colonnade split 1\0" + codec.digest(plan) + part.encode()).hexdigest()


def key_holders(plan: Plan, name: str) -> list[str]:
    """Return the parties that agree on a key in the step of a given name."""
    return [step.party for step in plan.steps if step.name == name and step.kind == GroupKey.name]


def _share(step: Step) -> float:
    """Return which share of people belongs to the second part."""
    share = step.parameters.get("test")
    if type(share) is not float or not 0 < share < 1:
        raise PlanMismatch("A division has a share between 0 and 1.")
    return share


LARGEST_SKETCHES = 2**16

SKETCHES = (
    "The sketches of memberships rest on a key that {parties} agreed on and the coordinator does not know, and on every one of "
    "them hashing with it. Nothing is guaranteed towards anybody who holds the key and sees sketches: a party, or the "
    "coordinator with one. A key that leaks later uncovers what was released under it. "
    "It serves this study alone, is refused for any other, "
    "and is erased at its end."
)


class MembershipSketches(StepKind):
    """The largest hash of each local cluster, M times for every pair of parties.

    The guarantee is about all parties' sketches together, so a party insists that the others are asked for the same: as many
    clusters, sketches and phantoms, under the same key, which nobody else in the plan holds. The centres and the key come from
    the party's own ledger.

    Sensitivity: under zero-out a person leaves one cell of every pair;
    `colonnade.privacy.laws.sketches.PartitionSketches` has the proof. Checked by
    tests/party/test_membership_sketches.py.
    """

    name: ClassVar[str] = "membership-sketches"
    title: ClassVar[str] = "sketches of memberships"
    parameters: ClassVar[frozenset[str]] = MEMBERSHIP | {"key_of", "sketches"}
    together: ClassVar[bool] = True

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.category = Membership(plan, step, schema, earlier)
        self.sketches = whole_parameter(step.parameters, "sketches", LARGEST_SKETCHES)
        self.unit = plan.unit
        self.parties = _agreeing(plan, step)
        self._key_of = str(step.parameters.get("key_of"))
        if sorted(key_holders(plan, self._key_of)) != sorted(self.parties):
            raise PlanMismatch("Sketches need a key that exactly the sketching parties agree on.")
        self.sides = tuple(
            PairSide(f"{step.name} {one}|{other}", one == step.party)  # of this step alone
            for one, other in combinations(self.parties, 2)
            if step.party in (one, other)
        )

    def law(self, price: Price) -> Mechanism:
        """Return the sketches with as many phantoms as this price demands."""
        bought = sketching(price, len(self.parties), self.unit, self.sketches)
        return PartitionSketches(bought, self.unit, self.category.size, self.sides, self.key)

    def key(self) -> bytes:
        """Return the key that the parties agreed on."""
        key = self.earlier(self._key_of).get("key")
        if key is None or key.nbytes != KEY_BYTES:
            raise ProtocolError("The parties have not agreed on the key of this study.")
        return key.tobytes()

    @property
    def limits_peers(self) -> bool:
        """Every party has the key, so what a peer that sees sketches learns has no bound."""
        return True

    @property
    def release_bytes(self) -> int:
        """Two bytes for every sketch of every local cluster, for every pair of parties that the party belongs to."""
        return 2 * len(self.sides) * self.sketches * self.category.size

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return one opening for all parties' sketches: they share their randomness."""
        first = whole.first
        if first.price is None:
            return super().openings(whole, losses, title)
        scope, count = tuple(whole.steps), first.parameters.get("sketches")
        bought = sketching(first.price, len(scope), whole.plan.unit, count if isinstance(count, int) else 0)
        return (
            Opening(
                mechanism=title,
                scope=scope,
                losses=(bought.loss("person"),),
                party_losses=dict.fromkeys(scope, (bought.loss("party"),)),
                replaced=(bought.replaced_loss,),
                key_holders=scope,
            ),
        )

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what rests on the key."""
        return (SKETCHES.format(parties=", ".join(whole.steps)),)


def _agreeing(plan: Plan, step: Step) -> tuple[str, ...]:
    """Return the sketching parties, in the order of their steps, having checked that all are asked for the same."""
    steps = {one.party: one for one in plan.steps if one.name == step.name}
    for one in steps.values():
        if (one.kind, one.price, one.parameters) != (step.kind, step.price, step.parameters):
            raise PlanMismatch("The parties are asked for different sketches, which would not hide anybody.")
    if len(steps) < 2:
        raise PlanMismatch("Sketches are compared between two or more parties.")
    return tuple(steps)
