"""Runs at one member: which conversation a step is held in, one run at a time, and a member without data as an endpoint."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from colonnade.conversations import agreements, gradient, matching, products, scores, sums, union
from colonnade.conversations.conversation import Conversation, Member
from colonnade.errors import ColonnadeError, PlanMismatch, ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.protocol.messages import Agreed, NotKept, Post, Propose, Recall, Refused, Reply
from colonnade.steps.kind import StepKind, is_conversation, kind_of, require_known, uses_compute_nodes

__all__ = ["CONVERSATIONS", "ComputeNode", "Runs", "check_membership", "conversation_kind"]


CONVERSATIONS: Mapping[str, type[Conversation]] = {
    conversation.name: conversation
    for conversation in (
        agreements.CohortRun,
        gradient.GradientRun,
        agreements.KeyRun,
        matching.MatchingRun,
        products.ProductRun,
        sums.SagaRun,
        scores.ScoreRun,
        sums.SumRun,
        union.UnionRun,
    )
}


def conversation_kind(plan: Plan, name: str) -> type[StepKind]:
    """Return the kind of a step that members work out in conversation; a conversation is of one kind."""
    kinds = {kind_of(step) for step in plan.steps if step.name == name}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not kind.conversation:
        raise PlanMismatch("The plan has no conversation of that name, or one of two kinds.")
    return kind


class Runs:
    """The run that is under way at one member. A new run takes the place of the old one.

    A turn that is asked again is answered with the same bytes, from memory. A turn out of order is refused. After a restart
    nothing is remembered: the coordinator starts another run of the same plan, and data parties take part in it with the seed
    that their ledger kept.

    Parameters
    ----------
    member
        Who we are.
    fresh
        Returns so many fresh random bytes.
    """

    def __init__(self, member: Member, fresh: Callable[[int], bytes]) -> None:
        self.member = member
        self._fresh = fresh
        self._key: tuple[bytes, str, bytes] | None = None
        self._run: Conversation | None = None
        self._part: Any | None = None
        self._turn = -1
        self._answer = b""
        self._opened: dict[tuple[bytes, str], bytes] = {}

    def post(self, request: Post, join: Callable[[], Any] | None) -> bytes:
        """Take a turn, exactly once. ``join`` gives what a data party brings to this kind of conversation, when it begins."""
        key = (codec.digest(request.plan), request.step, request.run)
        if request.turn == 0 and key != self._key:
            self._begin(key, request, None if join is None else join())
        if self._run is None or key != self._key:
            raise ProtocolError("A turn of a run that was never begun here.", remedy="Start the study again.")
        if request.turn == self._turn:
            return self._answer  # the same bytes again, whatever came with the question
        if request.turn != self._turn + 1:
            raise ProtocolError("A turn out of order.", remedy="Start the study again.")
        answer = codec.encode(self._take(request))
        self._remember(request, answer)
        self._turn, self._answer = request.turn, answer
        return answer

    def opened(self, plan: Plan, step: str) -> bytes | None:
        """Return what this node opened of a step while it has been running."""
        return self._opened.get((codec.digest(plan), step))

    def _remember(self, request: Post, answer: bytes) -> None:
        """Keep an opening, so that there is no second one: the same noise on a peer's other inputs would show the difference."""
        assert self._run is not None
        if request.turn != self._run.deciding_turn:
            return
        if self._part is not None:
            self._part.opening(answer if self._run.opens else codec.encode(NotKept()))
        else:
            self._opened[codec.digest(request.plan), request.step] = answer

    def _begin(self, key: tuple[bytes, str, bytes], request: Post, part: Any | None) -> None:
        if key[:2] in self._opened:
            raise ProtocolError("This step was opened before.", remedy="Ask for what was kept of it.")
        kind = conversation_kind(request.plan, request.step)
        if self.member.name not in kind.members(request.plan, request.step):
            raise PlanMismatch("A turn of a conversation in which this member has no part.")
        conversation, secret = CONVERSATIONS[kind.conversation], self._fresh(32)
        self._run = conversation(self.member, request.plan, request.step, request.run, part=part, secret=secret)
        self._key, self._part, self._turn = key, part, -1

    def _take(self, request: Post) -> Reply:
        assert self._run is not None
        try:
            return self._run.turn(request.turn, request.letters, request.inputs)
        except BaseException:
            self.forget()  # a run that failed once is over: its masks must not meet another challenge
            raise

    def forget(self) -> None:
        """End the run under way."""
        self._run, self._part, self._key, self._turn = None, None, None, -1


def check_membership(plan: Plan, member: Member, federation: str) -> None:
    """Refuse a plan whose members are not those of this federation, or one below its floor."""
    if plan.federation != federation:
        raise PlanMismatch("The plan was made for another federation.")
    steps = {step.name for step in plan.steps if is_conversation(step)}
    members = {name for step in steps for name in conversation_kind(plan, step).members(plan, step)}
    if not members <= set(member.pinned) or member.name not in members:
        raise PlanMismatch("The plan names members that this federation does not know, or not this one.")
    if uses_compute_nodes(plan.steps):
        member.floor.check(plan, "this federation")


class ComputeNode:
    """A member without data: it has no table and no ledger, and holds shares while a run lasts.

    Parameters
    ----------
    member
        Who it is.
    federation
        The federation's hash.
    fresh
        Returns so many fresh random bytes.
    """

    def __init__(self, member: Member, federation: str, fresh: Callable[[int], bytes]) -> None:
        self._member = member
        self._federation = federation
        self._runs = Runs(member, fresh)
        self._one_at_a_time = threading.Lock()

    def handle(self, data: bytes) -> bytes:
        """Answer one request; never raises."""
        with self._one_at_a_time:
            try:
                return self._answer(data)
            except ColonnadeError as error:
                return codec.encode(Refused(code=error.code, message=error.message, remedy=error.remedy))
            except Exception:  # noqa: BLE001  # the text of an unforeseen error may quote shares
                failure = ProtocolError("The node failed while answering.")
                return codec.encode(Refused(code=failure.code, message=failure.message, remedy=failure.remedy))

    def _answer(self, data: bytes) -> bytes:
        request = codec.decode_request(data)
        if isinstance(request, Propose | Post | Recall):
            require_known(request.plan)
        if isinstance(request, Propose):
            check_membership(request.plan, self._member, self._federation)
            return codec.encode(Agreed(plan_hash=codec.digest(request.plan), losses={}, unpaid=()))
        if isinstance(request, Post):
            check_membership(request.plan, self._member, self._federation)
            return self._runs.post(request, None)
        if isinstance(request, Recall):
            return self._runs.opened(request.plan, request.step) or codec.encode(NotKept())
        raise ProtocolError("A node without data answers proposals and turns, and nothing else.")
