"""Sketches of who is in which local cluster, under a key that the parties of the plan share (paper 001, Algorithm 3, mended)."""

from itertools import combinations
from typing import Any

from numpy.typing import NDArray

from colonnade.errors import PlanMismatch, ProtocolError
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.centres import whole
from colonnade.party.steps.memberships import MEMBERSHIP, Earlier, Membership, nothing_earlier
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.sketch_law import sketching
from colonnade.privacy.laws.sketches import PairSide, PartitionSketches
from colonnade.privacy.price import Price
from colonnade.privacy.randomness import KEY_BYTES
from colonnade.schema import Schema

__all__ = ["MembershipSketches"]

LARGEST_SKETCHES = 2**16


class MembershipSketches:
    """The largest hash of each local cluster, M times for every pair of parties.

    The guarantee is about all parties' sketches together, so this party insists that the others are asked for the same: as many
    clusters, sketches and phantoms, under the same key, which nobody else in the plan holds. The centres and the key come from
    this party's own ledger.

    Sensitivity: under zero-out a person leaves one cell of every pair;
    `colonnade.privacy.laws.sketches.PartitionSketches` has the proof. Checked by
    tests/party/test_membership_sketches.py.
    """

    looks_back = True
    peer_loss = None
    """What a peer that sees sketches learns has no bound: every party has the key."""

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        parameters = only_parameters(step, MEMBERSHIP | {"key_of", "sketches"})
        self.category = Membership(plan, step, schema, earlier)
        self.columns = step.columns
        self.sketches = whole(parameters, "sketches", LARGEST_SKETCHES)
        self.unit = plan.unit
        self.parties = _agreeing(plan, step)
        self._key_of = str(parameters.get("key_of"))
        keyed = [one.party for one in plan.steps if one.name == self._key_of and one.statistic == "group-key"]
        if sorted(keyed) != sorted(self.parties):
            raise PlanMismatch("Sketches need a key that exactly the sketching parties agree on.")
        self.sides = tuple(
            PairSide(f"{step.name} {one}|{other}", one == step.party)  # of this step alone
            for one, other in combinations(self.parties, 2)
            if step.party in (one, other)
        )
        self._earlier = earlier

    def prepare(self, table: PrivateTable) -> None:
        """Require the centres and the key, before anything is paid."""
        self.category.prepare(table)
        self._key()

    def mechanism(self, price: Price) -> Mechanism:
        """Return the sketches with as many phantoms as this price demands."""
        bought = sketching(price, len(self.parties), self.unit, self.sketches)
        return PartitionSketches(bought, self.unit, self.category.size, self.sides, self._key)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return everybody's local cluster."""
        return self.category.codes(table)

    def _key(self) -> bytes:
        key = self._earlier(self._key_of).get("key")
        if key is None or key.nbytes != KEY_BYTES:
            raise ProtocolError("The parties have not agreed on the key of this study.")
        return key.tobytes()


def _agreeing(plan: Plan, step: Step) -> tuple[str, ...]:
    """Return the sketching parties, in the order of their steps, having checked that all are asked for the same."""
    steps = {one.party: one for one in plan.steps if one.name == step.name}
    for one in steps.values():
        if (one.statistic, one.price, one.parameters) != (step.statistic, step.price, step.parameters):
            raise PlanMismatch("The parties are asked for different sketches, which would not hide anybody.")
    if len(steps) < 2:
        raise PlanMismatch("Sketches are compared between two or more parties.")
    return tuple(steps)
