"""One member's end of a study: it says yes to the plan, then runs each step in its conversation; also for a member without data.

*Saying yes* (`Consents`). Every member of a plan says so, signed, and everybody has checked all of these before anybody pays.
*Round 1* (`Propose`). A member that would refuse anything refuses now. One that agrees issues a nonce (`Consents.ask`).
*Round 2* (`GetYes`). A member is shown everybody's nonces and signs its yes over the plan's hash, its name, where its ledger
stands, and all nonces (`Consents.say`). *Round 3* (`Begin`). A member is shown all yeses. It wants exactly one of every member of
the plan, by the keys in the papers, over the very nonces that it has signed itself, and checks every ledger's head
(`Consents.hear`). Only then does it pay.

The coordinator carries all of it and can do nothing with it: it has nobody's key, an old yes is over old nonces, and one that is
left out is missed. What it can do is to stop.

What waits between the rounds is kept in memory. A member that restarts meanwhile is asked anew, at no cost. That a plan has begun
is kept by a party's ledger (`colonnade.party.ledger.ledger`); a member that does not pay keeps it here.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from colonnade.conversations import agreements, matching, newton, products, sums
from colonnade.conversations.conversation import Conversation, Member, inputs_digest
from colonnade.conversations.memory import Said
from colonnade.errors import BadInput, Busy, ColonnadeError, PlanMismatch, ProtocolError, ReleaseLost
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import (
    Acknowledged,
    Agreed,
    Begin,
    Conclude,
    GetYes,
    NotKept,
    Opened,
    Post,
    Propose,
    Recall,
    Refused,
    SaidYes,
    Withdraw,
)
from colonnade.runtime.workers import keep_freed_memory
from colonnade.secure.keys import NONCE_BYTES, PublicIdentity, digest, frame, nonces_digest
from colonnade.steps.kind import (
    HashedStep,
    Registry,
    StepKind,
    is_conversation,
    kind_of,
    require_known,
    uses_compute_nodes,
)

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
        hashed = messages.digest(plan)
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
        pending.yes = messages.encode(msgspec.structs.replace(yes, signature=me.identity.sign(yes.words())))
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
        if messages.digest(plan) not in self._agreed:
            raise not_everybody()

    def _find(self, plan: bytes) -> _Pending:
        if plan not in self._pending:
            raise ProtocolError("This plan was not proposed here, or too long ago.", remedy="Start the study again.")
        return self._pending[plan]


def read_yeses(plan: bytes, members: frozenset[str], yeses: Mapping[str, bytes]) -> dict[str, Yes]:
    """Return yeses, by member, whose signatures are still to be checked; refuse all but one of every member, to this plan."""
    try:
        said = {name: messages.decode(yes, Yes) for name, yes in yeses.items()}
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


STUDIES_PER_MEMBER = 32
"""Studies under way at one member. A coordinator has fewer at once (`colonnade.coordinator.driver`): it seldom waits here."""

IDLE = 120.0
"""Seconds after which a run that nobody has asked about makes room: longer than a coordinator waits for a party that is away."""

SHORTEST_WAIT, LONGEST_WAIT = 0.2, 5.0
"""Seconds that a busy member asks to wait. Runs end before they are idle, so the longest wait is not the whole of that."""

CONVERSATIONS: Registry[str, type[Conversation]] = Registry("conversations")
CONVERSATIONS.register(
    __name__,
    {
        conversation.name: conversation
        for conversation in (
            agreements.CohortRun,
            products.GroupRun,
            agreements.KeyRun,
            matching.MatchingRun,
            newton.NewtonRun,
            products.ProductRun,
            products.ScoreRun,
            sums.SumRun,
            products.TiledRun,
            matching.UnionRun,
        )
    },
)


def conversation_kind(plan: Plan, name: str) -> type[StepKind]:
    """Return the kind of a step that members work out in conversation; a conversation is of one kind."""
    kinds = {kind_of(step) for step in plan.steps if step.name == name}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not kind.conversation:
        raise PlanMismatch("The plan has no conversation of that name, or one of two kinds.")
    return kind


@dataclass
class _Run:
    """One run under way: the last turn that was taken, and its answer, should it be asked for again."""

    step: str
    name: bytes
    conversation: Conversation | None
    touched: float
    turn: int = -1
    answer: bytes = b""

    def is_for(self, request: Post) -> bool:
        return (self.step, self.name) == (request.step, request.run)


class Runs:
    """The runs under way at one member: one per study, for a bounded number of studies.

    A study is a plan. Studies run side by side and know nothing of each other. Within one, a new run takes the place of the old
    one, whichever step it is of: so however many runs a coordinator starts of one step, no two of them are ever under way here
    together, and what was dealt in one is forgotten before anything is dealt in the next.

    A turn that is asked again is answered with the same bytes, from memory. A turn out of order is refused. After a restart the
    coordinator starts another run of the same plan, in which every member says what it said before (`RunRecords`).

    Where there is no room, a run that is over makes room for a new one, then one that nobody has asked about for a while. Else
    the member is busy, and says for how long at most.

    Parameters
    ----------
    member
        Who we are.
    fresh
        Returns fresh random bytes, as many as asked for.
    at_once
        How many runs are remembered at most.
    clock
        A monotonic clock, in seconds.
    """

    def __init__(
        self,
        member: Member,
        fresh: Callable[[int], bytes],
        *,
        at_once: int = STUDIES_PER_MEMBER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        keep_freed_memory()
        self.member = member
        self._fresh = fresh
        self._at_once = at_once
        self._clock = clock
        self._runs: dict[bytes, _Run] = {}

    def post(
        self, request: Post, join: Callable[[], Any] | None, was_begun: Callable[[], bool] = lambda: False
    ) -> bytes:
        """Take a turn, exactly once.

        Parameters
        ----------
        request
            The turn.
        join
            Gives what a data party brings to this kind of conversation, when a run begins.
        was_begun
            Returns whether its ledger says that the step was begun before.
        """
        plan = messages.digest(request.plan)
        run = self._runs.get(plan)
        if request.turn == 0 and (run is None or not run.is_for(request)):
            if run is None:
                self._make_room()
            run = self._runs[plan] = self._begin(plan, request, join, was_begun)
        if run is None or not run.is_for(request):
            raise ProtocolError("A turn belongs to a run that was never begun here.", remedy="Start the study again.")
        run.touched = self._clock()
        if request.turn == run.turn:
            return run.answer  # the same bytes again, whatever came with the question
        if run.conversation is None or not run.conversation.follows(request.turn, run.turn):
            raise ProtocolError("A turn came out of order.", remedy="Start the study again.")
        try:
            run.answer = self._take(plan, request, run.conversation)
        except BaseException:
            del self._runs[plan]  # a run that failed once is over: its masks must not meet another challenge
            raise
        run.turn = request.turn
        if run.conversation.over:
            run.conversation = None  # all that may still be asked for is the last answer
        return run.answer

    def opened(self, request: Recall) -> bytes | None:
        """Return what this member opened of a step."""
        return self.member.records.opened(messages.digest(request.plan), request.step, request.tile)

    def conclude(self, plan: Plan, step: str) -> None:
        """End the run of a study, and forget the secret of a step."""
        self._runs.pop(messages.digest(plan), None)
        self.member.records.conclude(messages.digest(plan), step)

    def _take(self, plan: bytes, request: Post, conversation: Conversation) -> bytes:
        """Take the turn. Before its answer leaves, keep what was heard and said in it; refuse to say anything else later."""
        reply = conversation.turn(request.turn, request.letters, request.inputs)
        answer, exchanged = messages.encode(reply), conversation.meeting.exchanged()
        said = answer if isinstance(reply, Opened) else b""
        if conversation.repeats and (exchanged or said or request.inputs):
            words = digest("colonnade turn v1", inputs_digest(request.inputs), exchanged, said)
            opened = (conversation.tile, said) if said and conversation.recalled else None
            self.member.records.keep(plan, request.step, request.turn, digest=words, opened=opened)
        return answer

    def _begin(self, plan: bytes, request: Post, join: Callable[[], Any] | None, was_begun: Callable[[], bool]) -> _Run:
        kind = conversation_kind(request.plan, request.step)
        if self.member.name not in kind.members(request.plan, request.step):
            raise PlanMismatch("This member has no part in the conversation of this turn.")
        talk, records = CONVERSATIONS[kind.held_in(request.plan, request.step)], self.member.records
        part, secret = None if join is None else join(), self._fresh(32)
        if talk.repeats:
            if not records.knows(plan, request.step) and was_begun():  # with another secret it would be another opening
                raise ReleaseLost(
                    "This step was begun before, and what this member said in it is not kept.",
                    remedy="Run the study again with the next repeat=, at a new price.",
                )
            secret = records.secret(plan, request.step, secret)
        conversation = talk(self.member, request.plan, request.step, request.run, part=part, secret=secret)
        conversation.meeting.seal_with(os.urandom(32))
        return _Run(request.step, request.run, conversation, self._clock())

    def _make_room(self) -> None:
        if len(self._runs) < self._at_once:
            return
        plan, run = min(self._runs.items(), key=lambda item: (item[1].conversation is not None, item[1].touched))
        idle = self._clock() - run.touched
        if run.conversation is not None and idle < IDLE:
            raise Busy(
                f"This member has {self._at_once} studies under way, and takes no more at once.",
                retry_in=min(max(IDLE - idle, SHORTEST_WAIT), LONGEST_WAIT),
            )
        del self._runs[plan]


def check_membership(plan: Plan, member: Member, federation: str) -> None:
    """Refuse a plan whose members are not those of this federation, or one below its floor."""
    plan.require_current()
    if plan.federation != federation:
        raise PlanMismatch("The plan was made for another federation.")
    members, shares = _members(HashedStep(messages.digest(plan), "", plan))
    if not members <= member.pinned.keys() or member.name not in members:
        raise PlanMismatch("The plan names members outside this federation, or leaves this one out.")
    if shares:
        member.floor.check(plan, "this federation")


@lru_cache(maxsize=64)  # every turn of a study asks again, and with many parties that is most of a turn
def _members(hashed: HashedStep) -> tuple[frozenset[str], bool]:
    """Return everybody whom a plan's conversations take, and whether any computes on shares."""
    plan = hashed.plan
    steps = {step.name for step in plan.steps if is_conversation(step)}
    members = set(plan.compute_nodes)  # of an even number of nodes a descent needs one less
    members |= {name for step in steps for name in conversation_kind(plan, step).members(plan, step)}
    return frozenset(members), uses_compute_nodes(plan.steps)


class ComputeNode:
    """A member without data: it has no table and no ledger, holds shares while a run lasts, and keeps what it opened.

    Parameters
    ----------
    member
        Who it is.
    federation
        The federation's hash.
    fresh
        Returns fresh random bytes, as many as asked for.
    """

    def __init__(self, member: Member, federation: str, fresh: Callable[[int], bytes]) -> None:
        self._member = member
        self._federation = federation
        self._runs = Runs(member, fresh)
        self._consents = Consents(member)
        self._one_at_a_time = threading.Lock()

    def handle(self, data: bytes) -> bytes:
        """Answer one request; never raises."""
        with self._one_at_a_time:
            try:
                return self._answer(data)
            except ColonnadeError as error:
                return messages.encode(Refused.of(error))
            except Exception:  # noqa: BLE001  # the text of an unforeseen error may quote shares
                return messages.encode(Refused.of(ProtocolError("The node failed while answering.")))

    def _answer(self, data: bytes) -> bytes:
        request = messages.decode_request(data)
        if isinstance(request, Propose | Post | Recall | Conclude):
            require_known(request.plan)
        if isinstance(request, Propose):
            check_membership(request.plan, self._member, self._federation)
            nonce = self._consents.ask(request.plan) if request.hold else b""
            return messages.encode(Agreed(plan_hash=messages.digest(request.plan), losses={}, unpaid=(), nonce=nonce))
        if isinstance(request, GetYes):
            return messages.encode(SaidYes(yes=self._consents.say(request.plan, request.nonces)))
        if isinstance(request, Begin | Withdraw):
            if isinstance(request, Begin):
                self._consents.hear(request.plan, request.yeses)
            else:
                self._consents.withdraw(request.plan)
            return messages.encode(Acknowledged())
        if isinstance(request, Post):
            check_membership(request.plan, self._member, self._federation)
            if request.turn == 0:
                self._consents.require_begun(request.plan)
            return self._runs.post(request, None)
        if isinstance(request, Recall):
            return self._runs.opened(request) or messages.encode(NotKept())
        if isinstance(request, Conclude):
            self._runs.conclude(request.plan, request.step)
            return messages.encode(Acknowledged())
        raise ProtocolError("A node without data answers proposals and turns, and nothing else.")
