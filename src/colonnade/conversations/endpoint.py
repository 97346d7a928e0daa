"""Runs at one member: which conversation a step is held in, one run per study, and a member without data as an endpoint."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from colonnade.conversations import agreements, matching, newton, products, sums
from colonnade.conversations.consent import Consents
from colonnade.conversations.conversation import Conversation, Member, inputs_digest
from colonnade.errors import Busy, ColonnadeError, PlanMismatch, ProtocolError, ReleaseLost
from colonnade.plan import Plan
from colonnade.protocol import codec
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
from colonnade.secure.keys import digest
from colonnade.steps.kind import (
    HashedStep,
    Registry,
    StepKind,
    is_conversation,
    kind_of,
    require_known,
    uses_compute_nodes,
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
        plan = codec.digest(request.plan)
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
        return self.member.records.opened(codec.digest(request.plan), request.step, request.tile)

    def conclude(self, plan: Plan, step: str) -> None:
        """End the run of a study, and forget the secret of a step."""
        self._runs.pop(codec.digest(plan), None)
        self.member.records.conclude(codec.digest(plan), step)

    def _take(self, plan: bytes, request: Post, conversation: Conversation) -> bytes:
        """Take the turn. Before its answer leaves, keep what was heard and said in it; refuse to say anything else later."""
        reply = conversation.turn(request.turn, request.letters, request.inputs)
        answer, exchanged = codec.encode(reply), conversation.meeting.exchanged()
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
    if plan.federation != federation:
        raise PlanMismatch("The plan was made for another federation.")
    members, shares = _members(HashedStep(codec.digest(plan), "", plan))
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
                return codec.encode(Refused.of(error))
            except Exception:  # noqa: BLE001  # the text of an unforeseen error may quote shares
                return codec.encode(Refused.of(ProtocolError("The node failed while answering.")))

    def _answer(self, data: bytes) -> bytes:
        request = codec.decode_request(data)
        if isinstance(request, Propose | Post | Recall | Conclude):
            require_known(request.plan)
        if isinstance(request, Propose):
            check_membership(request.plan, self._member, self._federation)
            nonce = self._consents.ask(request.plan) if request.hold else b""
            return codec.encode(Agreed(plan_hash=codec.digest(request.plan), losses={}, unpaid=(), nonce=nonce))
        if isinstance(request, GetYes):
            return codec.encode(SaidYes(yes=self._consents.say(request.plan, request.nonces)))
        if isinstance(request, Begin | Withdraw):
            if isinstance(request, Begin):
                self._consents.hear(request.plan, request.yeses)
            else:
                self._consents.withdraw(request.plan)
            return codec.encode(Acknowledged())
        if isinstance(request, Post):
            check_membership(request.plan, self._member, self._federation)
            if request.turn == 0:
                self._consents.require_begun(request.plan)
            return self._runs.post(request, None)
        if isinstance(request, Recall):
            return self._runs.opened(request) or codec.encode(NotKept())
        if isinstance(request, Conclude):
            self._runs.conclude(request.plan, request.step)
            return codec.encode(Acknowledged())
        raise ProtocolError("A node without data answers proposals and turns, and nothing else.")
