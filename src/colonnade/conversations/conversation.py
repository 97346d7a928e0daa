"""What every kind of conversation between members shares: a turn a message, and a handshake in the first two turns.

A conversation is how members do something together that no single release can: multiply on shares, add up, agree on a key.
The coordinator relays it turn by turn (`Post`); letters are sealed to one receiver each.
`colonnade.conversations.endpoint.Runs` drives one side; `colonnade.conversations.registry` lists all conversations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from colonnade.conversations.ledger_heads import LedgerHeads
from colonnade.errors import PlanMismatch
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Blob, Greeted, Reply
from colonnade.secure.framing import digest
from colonnade.secure.handshake import Handshake, Hello, RunTerms
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.secure.mail import Session
from colonnade.secure.stream import subseed
from colonnade.steps.registry import kind_of

__all__ = ["Conversation", "Meeting", "Member", "members_of"]


@dataclass(frozen=True)
class Member:
    """Who one member is, who it believes the others are, and what it remembers of their ledgers.

    Without ``heads``, as in a simulation, nobody says where a ledger stands and nobody asks.
    """

    name: str
    identity: Identity
    pinned: Mapping[str, PublicIdentity]
    heads: LedgerHeads | None = None


class Conversation(Protocol):
    """One member's side of one run of one step."""

    name: ClassVar[str]
    """What kinds of step call it."""

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: Any | None, secret: bytes
    ) -> None: ...

    @property
    def deciding_turn(self) -> int | None:
        """The turn whose answer must be kept before it leaves, because it opens something that is opened once.

        ``None``, unless a kind says otherwise: nothing is opened, or the part keeps by itself what must be kept.
        """
        return None

    @property
    def opens(self) -> bool:
        """Whether the answer of the deciding turn is itself what is opened, and is kept as such."""
        return False

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn. ``inputs`` are public, from the coordinator, and as trustworthy as it is."""
        ...


class Meeting:
    """The first two turns of any conversation: everyone greets, then everyone knows everyone's keys.

    Parameters
    ----------
    member
        Who we are.
    plan, step, run
        What is being run; two steps of a plan, or two runs of a step, never understand each other.
    members
        Who takes part, in canonical order.
    secret
        32 fresh random bytes, for this run only.
    """

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, members: tuple[str, ...], secret: bytes
    ) -> None:
        terms = RunTerms.of(
            federation=bytes.fromhex(plan.federation),
            run=digest("colonnade run v1", run, step),
            parties=members,
            plan=codec.digest(plan),
        )
        self._pinned = member.pinned
        self._heads = member.heads
        head = b"" if member.heads is None else member.heads.own()
        seed = subseed(secret, "colonnade handshake")
        self._handshake = Handshake(member.identity, member.name, terms, seed, head=head)

    def greet(self) -> Greeted:
        """Turn 0: our signed ephemeral key."""
        return Greeted(hello=codec.encode(self._handshake.hello))

    def meet(self, hellos: Mapping[str, Blob]) -> Session:
        """Turn 1: everyone's signed keys; from here on, letters can be sealed and opened."""
        decoded = {name: codec.decode(blob.view, Hello) for name, blob in hellos.items()}
        session = self._handshake.agree(decoded, self._pinned)
        if self._heads is not None:  # after the signatures: only a party itself can speak for its ledger
            self._heads.observe({name: hello.head for name, hello in decoded.items()})
        return session


def members_of(plan: Plan, name: str) -> tuple[str, ...]:
    """Return who takes part in the step of a given name, in canonical order."""
    first = next((step for step in plan.steps if step.name == name), None)
    if first is None:
        raise PlanMismatch("The plan has no step of that name.")
    return kind_of(first).members(plan, name)
