"""Agreeing on an order of rows, seen from the coordinator: relay sealed letters, and learn the order's name and its public size.

The papers assume aligned rows. Here the parties find them (`colonnade.secure.matching`), or agree to a public list.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from colonnade.conversations.cohort import list_hash, packed_list
from colonnade.coordinator.protocols.relay import Relay
from colonnade.errors import ProtocolError, ReleaseLost
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.price import Price
from colonnade.protocol.messages import Described, Recall, Reply
from colonnade.protocol.rounds import Rounds
from colonnade.steps.alignment import Cohort, IdRules, ListMatching, Matching

__all__ = ["STEP", "CohortAlgorithm", "MatchingAlgorithm", "Order"]

STEP = "rows"


@dataclass(frozen=True)
class Order:
    """An order of rows that all parties keep.

    Parameters
    ----------
    identity
        Its name.
    people
        How many places it has; all that the coordinator knows of it.
    """

    identity: str
    people: int


@dataclass(frozen=True)
class MatchingAlgorithm:
    """The parties match their lists.

    Parameters
    ----------
    kind
        An intersection, or a union.
    capacities
        To how many ids each party's list is filled up.
    rules
        How ids are compared.
    size
        What the coordinator is told of the number of people.
    price
        What a noisy number offers.
    announce
        Told which turn of how many is next.
    """

    kind: type[ListMatching]
    capacities: Mapping[str, int]
    rules: IdRules
    size: str
    price: Price | None
    announce: Callable[[str], None] = field(default=lambda _: None, compare=False, repr=False)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party."""
        return tuple(
            self.kind.ask(
                name=STEP,
                party=party,
                parameters={**self.rules.parameters(), "capacity": capacity, "size": self.size},
                price=self.price,
            )
            for party, capacity in self.capacities.items()
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Relay the conversation, or take up what the parties have kept of it."""
        members = self.kind.members(plan, STEP)
        kept = yield from _kept(plan, members)
        if kept is not None:
            return kept
        relay = Relay(plan, STEP, members)
        yield from relay.greet()
        turns = self.kind.last_turn(Matching.read(plan, STEP))
        for turn in range(1, turns):
            self.announce(f"turn {turn} of {turns}")
            yield from relay.turn()
        return _agreed((yield from relay.last()))


@dataclass(frozen=True)
class CohortAlgorithm:
    """The parties agree to a public list.

    Parameters
    ----------
    parties
        Everyone.
    cohort
        The list.
    rules
        How ids are compared.
    """

    parties: Sequence[str]
    cohort: Sequence[str]
    rules: IdRules

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party; the plan, and with it the list, is what everyone signs."""
        parameters: dict[str, Parameter] = {**self.rules.parameters(), "listed": list_hash(self.cohort)}
        return tuple(Cohort.ask(name=STEP, party=party, parameters=parameters, price=None) for party in self.parties)

    def rounds(self, plan: Plan) -> Rounds:
        """Show everyone the list."""
        members = Cohort.members(plan, STEP)
        kept = yield from _kept(plan, members)
        if kept is not None:
            return kept
        relay = Relay(plan, STEP, members)
        yield from relay.greet()
        return _agreed((yield from relay.last(packed_list(self.cohort))))


def _kept(plan: Plan, members: Sequence[str]) -> Rounds:
    """Return the order that all parties keep of an earlier run, if they do."""
    replies = yield {member: Recall(plan=plan, step=STEP) for member in members}
    known = [member for member in members if isinstance(replies[member], Described)]
    if len(known) == len(members):
        return _agreed(replies)
    if known:
        raise ReleaseLost(
            f"Party {known[0]!r} keeps the row order of an earlier run, which not all parties finished.",
            remedy="Align again with the next repeat=.",
        )
    return None


def _agreed(replies: Mapping[str, Reply]) -> Order:
    named = {(reply.alignment, reply.people) for reply in replies.values() if isinstance(reply, Described)}
    if len(named) != 1 or any(not isinstance(reply, Described) for reply in replies.values()):
        raise ProtocolError("The parties do not agree on one order of rows.")
    return Order(*named.pop())
