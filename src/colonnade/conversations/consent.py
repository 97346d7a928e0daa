"""Saying yes: every member of a plan says so, signed, and everybody has checked all of these before anybody pays.

*Round 1* (`Propose`). A member that would refuse anything refuses now. One that agrees issues a nonce (`Consents.ask`).
*Round 2* (`GetYes`). A member is shown everybody's nonces and signs its yes over the plan's hash, its name, where its ledger
stands, and all nonces (`Consents.say`). *Round 3* (`Begin`). A member is shown all yeses. It wants exactly one of every member of
the plan, by the keys in the papers, over the very nonces that it has signed itself, and checks every ledger's head
(`Consents.hear`). Only then does it pay.

The coordinator carries all of it and can do nothing with it: it has nobody's key, an old yes is over old nonces, and one that is
left out is missed. What it can do is to stop.

What waits between the rounds is kept in memory. A member that restarts meanwhile is asked anew, at no cost. A party's ledger
keeps that a plan has begun (`colonnade.party.ledger.ledger`); a member that does not pay keeps it here.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from colonnade.conversations.conversation import Member
from colonnade.conversations.memory import Said
from colonnade.errors import BadInput, ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.secure.keys import PublicIdentity, frame
from colonnade.secure.mail import NONCE_BYTES, nonces_digest

MOST_PENDING = 1024
"""Plans that may be between the rounds at one member, and plans that have begun; the oldest are forgotten first."""

SAME_NONCE = 600.0
"""Seconds for which a plan that is proposed again, and has not begun, has the same nonce. Its deadline stays where it is."""

COORDINATORS = ""
"""Under this name stands the nonce of the coordinator that asks, who remembers ledgers too. No member has it."""


class Yes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One member's yes to one plan: where its ledger stands (empty without one), and the hash of all nonces that it answers."""

    plan: bytes
    party: str
    head: bytes
    nonces: bytes
    signature: bytes

    def words(self) -> bytes:
        """Return the bytes that the signature is over."""
        return frame("colonnade yes v1", self.plan, self.party, self.head, self.nonces)


@dataclass
class _Pending:
    members: frozenset[str]
    asks_of_us: bool
    nonce: bytes
    since: float
    nonces: bytes = b""
    yes: bytes = b""
    begun: bool = False


class Consents:
    """The plans to which one member is about to say yes, has said so, or which have begun.

    Parameters
    ----------
    member
        Who we are.
    clock
        Our own clock, in seconds.
    """

    def __init__(self, member: Member, clock: Callable[[], float] = time.time) -> None:
        self._member = member
        self._clock = clock
        self._pending: OrderedDict[bytes, _Pending] = OrderedDict()
        self._agreed: OrderedDict[bytes, None] = OrderedDict()

    def ask(self, plan: Plan) -> bytes:
        """Return a nonce for a plan; for a while the same one, so that a message that comes twice changes nothing."""
        hashed = codec.digest(plan)
        pending = self._pending.pop(hashed, None)
        if pending is not None and not pending.begun and 0 <= self._clock() - pending.since < SAME_NONCE:
            self._pending[hashed] = pending
            return pending.nonce
        nonce = self._member.heads.issue(hashed)
        self._pending[hashed] = _Pending(
            frozenset(plan.members), bool(plan.steps_of(self._member.name)), nonce, self._clock()
        )
        while len(self._pending) > MOST_PENDING:
            self._pending.popitem(last=False)
        return nonce

    def asks_of_us(self, plan: bytes) -> bool:
        """Return whether a plan that was proposed has a step of ours; in others we compute at most."""
        return self._find(plan).asks_of_us

    def say(self, plan: bytes, nonces: Mapping[str, bytes]) -> bytes:
        """Sign our yes over everybody's nonces, ours among them."""
        pending, me = self._find(plan), self._member
        if (
            nonces.keys() - {COORDINATORS} != pending.members
            or nonces[me.name][:NONCE_BYTES] != pending.nonce[:NONCE_BYTES]
        ):
            raise ProtocolError(
                "The nonces are not those of this plan's members, each one's last.", remedy="Start the study again."
            )
        if pending.yes and pending.nonces == nonces_digest(nonces):
            return pending.yes  # asked a second time
        pending.nonces = nonces_digest(nonces)
        yes = Yes(plan, me.name, me.heads.own(me.name, nonces), pending.nonces, b"")
        pending.yes = codec.encode(msgspec.structs.replace(yes, signature=me.identity.sign(yes.words())))
        return pending.yes

    def hear(self, plan: bytes, yeses: Mapping[str, bytes]) -> float:
        """Check that every member has said yes, and every ledger's head; return when we issued the nonce that they answer."""
        pending, me = self._find(plan), self._member
        said = read_yeses(plan, pending.members, yeses)
        if not pending.yes or yeses[me.name] != pending.yes:
            raise ProtocolError("This member's own yes came back changed.", remedy="Start the study again.")
        for name, yes in said.items():
            if yes.nonces != pending.nonces:
                raise ProtocolError("A yes answers other nonces than these members'.", remedy="Start the study again.")
            if name != me.name:
                check_signature(name, yes, me.pinned)
        heads = {
            name: Said(yes.head, None if name == me.name else pending.nonce, yes.words(), yes.signature)
            for name, yes in said.items()
        }
        me.heads.observe(plan, heads)
        pending.begun = True
        self._agreed[plan] = None
        while len(self._agreed) > MOST_PENDING:
            self._agreed.popitem(last=False)
        return pending.since

    def withdraw(self, plan: bytes) -> None:
        """Forget a plan, unless it has begun: others rest on our yes, and may have paid."""
        if plan not in self._agreed:
            self._pending.pop(plan, None)

    def require_begun(self, plan: Plan) -> None:
        """Refuse to compute in a plan until this member has heard every yes."""
        if codec.digest(plan) not in self._agreed:
            raise not_everybody()

    def _find(self, plan: bytes) -> _Pending:
        if plan not in self._pending:
            raise ProtocolError("This plan was not proposed here, or too long ago.", remedy="Start the study again.")
        return self._pending[plan]


def read_yeses(plan: bytes, members: frozenset[str], yeses: Mapping[str, bytes]) -> dict[str, Yes]:
    """Return yeses, by member, whose signatures are still to be checked; refuse all but one of every member, to this plan."""
    try:
        said = {name: codec.decode(yes, Yes) for name, yes in yeses.items()}
    except BadInput:
        raise ProtocolError("A yes is malformed.", remedy="Start the study again.") from None
    if said.keys() != members or any((yes.plan, yes.party) != (plan, name) for name, yes in said.items()):
        raise ProtocolError("The yeses are not one of each member, to this plan.", remedy="Start the study again.")
    return said


def check_signature(name: str, yes: Yes, pinned: Mapping[str, PublicIdentity]) -> None:
    """Refuse a yes that is not its member's own, by the keys in the papers."""
    if name not in pinned:
        raise ProtocolError("A yes comes from outside this federation.", remedy="Start the study again.")
    _verify(pinned[name], yes.words(), yes.signature)


@lru_cache(maxsize=4096)  # members in one process check the same signatures; a false one raises, and is not kept
def _verify(identity: PublicIdentity, words: bytes, signature: bytes) -> None:
    identity.verify(words, signature)


def not_everybody() -> ProtocolError:
    """Return the refusal of a step whose plan has not begun here, or not in time."""
    return ProtocolError(
        "This member has not heard every member's yes to this study, or its time to pay is over; nothing was paid.",
        remedy="Start the study again: what was paid is not paid twice.",
    )
