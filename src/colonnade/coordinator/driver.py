"""The driver of a study: it runs an algorithm's rounds over a transport.

It first has every member say yes, shows all of these to everybody, then asks for releases. What the study has cost, finished
or failed, is read from the parties' accounts (`colonnade.coordinator.accounts`). Threads may run studies side by side; a member
that is busy is asked again after the time that it names.
"""

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from colonnade.conversations.consent import COORDINATORS
from colonnade.conversations.memory import addressed
from colonnade.coordinator.accounts import Auditor, CostOfCall
from colonnade.cost import NOTHING_SPENT, Cost
from colonnade.errors import (
    BudgetExceeded,
    Busy,
    ColonnadeError,
    NotEnoughComputeNodes,
    PartyAway,
    PlanMismatch,
    ProtocolError,
)
from colonnade.estimation.outcomes import estimating
from colonnade.plan import About, Plan
from colonnade.privacy.accounting import Loss, total
from colonnade.progress import Pace, Progress
from colonnade.protocol import codec, messages
from colonnade.result import COORDINATOR
from colonnade.secure.mail import Hello
from colonnade.steps.joint import JointStep
from colonnade.steps.kind import kind_of
from colonnade.transport.direct import Recorded, Transcript, Transport

__all__ = [
    "ComputeMembers",
    "Journal",
    "NoJournal",
    "Outcome",
    "Progress",
    "Quote",
    "StudyQueue",
    "agree",
    "ask",
    "propose",
    "run_study",
]

AT_ONCE = 8
"""Studies under way in one process. Members work on one request at a time, so that more would wait there instead."""
PATIENCE = 600.0
"""Seconds that a study waits for members that are busy, all its waits together."""

Requests = Mapping[str, messages.Request]
Replies = Mapping[str, messages.Reply]


class Journal(Auditor, Protocol):
    """The record of studies that the driver reports to."""

    attempts: int

    def begin(self, plan: Plan) -> None:
        """A study is about to be put to the parties."""

    def challenge(self, plan: Plan) -> bytes:
        """Return a fresh nonce, over which every member says yes too; empty where the coordinator remembers no ledgers."""
        ...

    def agreed(self, plan: Plan, nonces: Mapping[str, bytes], yeses: Mapping[str, bytes]) -> None:
        """Every member has said yes over these nonces, and where its ledger stands."""

    def sending(self, plan: Plan, requests: Requests) -> None:
        """A round is about to be sent."""

    def finish(self, plan: Plan, error: ColonnadeError | None) -> None:
        """A study has ended."""


class NoJournal:
    """A journal that keeps nothing: for simulations, whose parties end with the process."""

    attempts = 1

    def begin(self, plan: Plan) -> None:
        """Keep nothing."""

    def challenge(self, plan: Plan) -> bytes:  # noqa: ARG002
        """Return no nonce: nobody remembers where a ledger stood."""
        return b""

    def agreed(self, plan: Plan, nonces: Mapping[str, bytes], yeses: Mapping[str, bytes]) -> None:
        """Keep nothing."""

    def account_nonce(self) -> bytes:
        """Return no nonce: nothing is signed in one process."""
        return b""

    def check_account(self, party: str, nonce: bytes, account: messages.Accounted) -> None:
        """Check nothing."""

    def sending(self, plan: Plan, requests: Requests) -> None:
        """Keep nothing."""

    def finish(self, plan: Plan, error: ColonnadeError | None) -> None:
        """Keep nothing."""


@dataclass(frozen=True)
class ComputeMembers:
    """Who may compute on shares in a federation.

    Parameters
    ----------
    nodes
        Members without data; the coordinator among them if it is one.
    parties
        What every party tells about itself: whether it computes for others, and which nodes it accepts.
    allowed
        Who may compute by the federation's papers; ``None`` for every member.
    """

    nodes: tuple[str, ...]
    parties: Mapping[str, messages.Described]
    allowed: frozenset[str] | None = None

    def choose(self, asked: Sequence[str], threshold: int, dealing: Collection[str] = ()) -> tuple[str, ...]:
        """Choose who computes in a study, so that its threshold is at least the given one.

        These are the study's parties and the nodes without data. Until the threshold is reached, parties without a part in the
        study join them, and at last the coordinator. An even number of nodes learns no less together than one fewer, and costs
        more, so the last one stays out that does not deal in every round: what a node deals costs least.
        """
        idle = [party for party, one in self.parties.items() if party not in asked and one.compute_for_others]
        chosen: list[str] = []
        for member in (*asked, *(node for node in self.nodes if node != COORDINATOR)):
            if self._accepted(member, asked, chosen):
                chosen.append(member)
        needed = 2 * threshold + 1
        for member in (*idle, *(node for node in self.nodes if node == COORDINATOR)):
            if len(chosen) < needed and self._accepted(member, asked, chosen):
                chosen.append(member)
        if len(chosen) < needed:
            missing = needed - len([node for node in chosen if node != COORDINATOR])
            raise NotEnoughComputeNodes(
                f"A threshold of {threshold} needs {needed} compute nodes, and this study has {len(chosen)}.",
                remedy=f"Add {missing} node{'s' if missing > 1 else ''} without data (compute_nodes=[...] in a simulation, "
                "cards of compute nodes in the papers), have other parties compute for others, lower collusion, "
                "or choose a method of the local channel.",
            )
        if len(chosen) % 2 == 0:
            chosen.remove(([member for member in chosen if member not in dealing] or chosen)[-1])
        return tuple(chosen)

    def _accepted(self, member: str, asked: Sequence[str], chosen: Sequence[str]) -> bool:
        """Return whether a member may compute, and every party of the study accepts it, itself and those chosen included."""
        if self.allowed is not None and member not in self.allowed:
            return False
        judged = [(judge, member) for judge in {*asked, *chosen}] + [(member, node) for node in chosen]
        return all(self._accepts(judge, node) for judge, node in judged)

    def _accepts(self, judge: str, node: str) -> bool:
        accepted = self.parties[judge].compute_nodes if judge in self.parties else None
        return accepted is None or node == judge or node in accepted


@dataclass(frozen=True)
class Quote:
    """What a plan costs each party, by the party's own computation, and which steps are not yet paid for.

    ``disclosed`` names the steps that a party answers without differential privacy. ``sequences`` are the last rows of the
    parties' ledgers. ``nonces`` are the members', over which everybody says yes.
    """

    losses: Mapping[str, Mapping[str, Loss]]
    unpaid: Mapping[str, frozenset[str]]
    disclosed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sequences: Mapping[str, int] = field(default_factory=dict)
    nonces: Mapping[str, bytes] = field(default_factory=dict)

    def charge(self, party: str) -> Loss:
        """Return what the party's ledger would still be debited."""
        return total(loss for step, loss in self.losses[party].items() if step in self.unpaid[party])


@dataclass(frozen=True)
class Outcome:
    """What a study learned, what it cost each party by its own account, and the log of its messages."""

    value: Any
    plan: Plan
    quote: Quote
    mechanisms: Mapping[str, str]
    transcript: Transcript
    cost: Cost = NOTHING_SPENT


class StudyQueue:
    """Studies that run side by side: so many at once, first come, first served, and never two of one plan.

    Members take a bounded number of studies at once, and would tell a coordinator that starts more to come back later. It is
    fairer, and needs less memory everywhere, if studies wait here, in line.

    Two studies of one plan are one study. The second waits for the first, and is then answered from what the parties kept, at
    no price. If they ran at the same time, each would end the other's run at every member.

    A study that did not fit beside the others of its group may have met what was held for them. It waits until it has the group
    to itself (``alone``): what it is told then is true.

    Parameters
    ----------
    at_once
        How many are under way at most.

    Examples
    --------
    >>> queue = StudyQueue(at_once=2)
    >>> with queue.turn("one plan"), queue.turn("another"):
    ...     queue.under_way
    2
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._changed = threading.Condition()
        self._waiting: list[Turn] = []
        self._running: list[Turn] = []

    @property
    def under_way(self) -> int:
        """How many studies are under way."""
        return len(self._running)

    @contextmanager
    def turn(self, study: Hashable, group: Hashable = None, *, alone: bool = False) -> Iterator["Turn"]:
        """Wait until it is this study's turn, and hold a place until the block is left."""
        turn = Turn(study, group, alone)
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._next() is turn)
            finally:
                self._waiting.remove(turn)
            beside = [one for one in self._running if one.group == group]
            for one in (turn, *beside) if beside else ():
                one.shared = True
            self._running.append(turn)
            self._changed.notify_all()  # there may be room for one more
        try:
            yield turn
        finally:
            with self._changed:
                self._running.remove(turn)
                self._changed.notify_all()

    def _next(self) -> "Turn | None":
        """Return the first in line that may run beside those under way; nobody of its group passes one that waits to be alone."""
        if len(self._running) >= self._at_once:
            return None
        studies, groups = {one.study for one in self._running}, {one.group for one in self._running}
        closed = {one.group for one in self._running if one.alone}
        for turn in self._waiting:
            if turn.study not in studies and turn.group not in (groups if turn.alone else closed):
                return turn
            if turn.alone:
                closed.add(turn.group)
        return None


@dataclass(eq=False)
class Turn:
    """One study's place in the queue; ``shared`` once another one of its group was under way at the same time."""

    study: Hashable
    group: Hashable
    alone: bool
    shared: bool = False


QUEUE = StudyQueue()
"""All studies of this process."""


def run_study(
    algorithm: messages.Algorithm,
    plan: Plan,
    transport: Transport,
    progress: Progress,
    journal: Journal | None = None,
    about: About | None = None,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Run a study to its end, and take it up again after a failure of the network or of a process. No release is paid twice.

    Every member says yes, and everybody has checked all of these, before any is asked to release: a refusal costs nobody
    anything. A study waits in line while there are many under way, and while another one of the same plan is.
    """
    journal = journal or NoJournal()
    cost = CostOfCall(plan, transport, journal)
    failures, waited, alone = 0, 0.0, False
    group = id(transport)
    while True:
        # held until the cost is read: the same plan adds to it
        with QUEUE.turn((group, codec.digest(plan)), group, alone=alone) as turn:
            try:
                outcome = _run_once(algorithm, plan, transport, progress, journal, about, cost)
            except ColonnadeError as error:
                busy = error.retry_in if isinstance(error, Busy) and waited < PATIENCE else None
                if not isinstance(error, ProtocolError):
                    _withdraw(plan, transport)
                if isinstance(error, BudgetExceeded) and turn.shared:
                    alone = True  # what was held for the others may have been in the way
                    continue
                failures += busy is None
                if busy is None and (failures == journal.attempts or not _may_pass(error)):
                    error.cost = cost.read(failed=True)
                    journal.finish(plan, error)
                    raise
            else:
                journal.finish(plan, None)
                return replace(outcome, cost=cost.read())
        if busy is not None:
            waited += busy
            progress("waiting")
            pause(busy)


def _may_pass(error: ColonnadeError) -> bool:
    """Return whether another attempt may succeed: nobody refused, and nobody was waited for in vain."""
    return isinstance(error, ProtocolError) and not isinstance(error, PartyAway | Busy)


def _run_once(
    algorithm: messages.Algorithm,
    plan: Plan,
    transport: Transport,
    progress: Progress,
    journal: Journal,
    about: About | None,
    cost: CostOfCall,
) -> Outcome:
    recorded = Recorded(transport)
    journal.begin(plan)
    progress("agreeing")
    quote = agree(plan, recorded, journal, about)
    cost.agreed(quote)
    mechanisms: dict[str, str] = {}
    pace = _pace(plan, "", progress)
    rounds = algorithm.rounds(plan)
    try:
        requests = next(rounds)
        while True:
            if recorded.step != _step_name(requests):
                recorded.step = _step_name(requests)
                progress(recorded.step)
                pace = _pace(plan, recorded.step, progress)
            journal.sending(plan, requests)
            replies = _exchange(_with_description(requests, about), recorded)
            recorded.transcript.count_numbers(requests, replies)
            mechanisms |= {
                reply.step: reply.mechanism for reply in replies.values() if isinstance(reply, messages.Released)
            }
            _raise_refusal(replies)
            pace(requests)
            with estimating():
                requests = rounds.send(replies)
    except StopIteration as finished:
        return Outcome(finished.value, plan, quote, mechanisms, recorded.transcript)


def _pace(plan: Plan, step: str, progress: Progress) -> Callable[[Requests], None]:
    """Return what says how many rows members have shared in a step, if rows are shared in it, after each round."""
    kinds = {type_of for one in plan.steps if one.name == step and issubclass(type_of := kind_of(one), JointStep)}
    if len(kinds) != 1:
        return lambda _: None
    chunks = kinds.pop().read(plan, step).chunks
    pace = Pace(plan.people, progress, step)

    def heard(requests: Requests) -> None:
        turns = {request.turn for request in requests.values() if isinstance(request, messages.Post)}
        if len(turns) == 1 and 1 <= (turn := turns.pop()) <= len(chunks):
            pace.reached(chunks[turn - 1][1])

    return heard


def _with_description(requests: Requests, about: About | None) -> Requests:
    """Add the study's description to the first request of each step."""
    if about is None:
        return requests
    return {
        member: msgspec.structs.replace(request, about=about)
        if isinstance(request, messages.Ask) or (isinstance(request, messages.Post) and request.turn == 0)
        else request
        for member, request in requests.items()
    }


def propose(plan: Plan, transport: Transport, about: About | None = None, *, hold: bool = False) -> Quote:
    """Propose the plan to every member, and return what each would be charged. Nothing is spent; held only if asked to."""
    proposal = messages.Propose(plan=plan, about=about, hold=hold)
    replies = ask(dict.fromkeys(plan.members, proposal), transport)
    losses: dict[str, dict[str, Loss]] = {}
    unpaid: dict[str, frozenset[str]] = {}
    disclosed: dict[str, frozenset[str]] = {}
    sequences: dict[str, int] = {}
    nonces: dict[str, bytes] = {}
    for party, reply in replies.items():
        if not isinstance(reply, messages.Agreed) or reply.plan_hash != codec.digest(plan):
            raise PlanMismatch(f"Party {party!r} agreed to another plan.")
        losses[party] = {step: Loss.from_bytes(loss) for step, loss in reply.losses.items()}
        unpaid[party] = frozenset(reply.unpaid)
        disclosed[party] = frozenset(reply.disclosed)
        sequences[party] = reply.sequence
        nonces[party] = reply.nonce
    return Quote(losses, unpaid, disclosed, sequences, nonces)


def agree(plan: Plan, transport: Transport, journal: Journal | None = None, about: About | None = None) -> Quote:
    """Have every member say yes, and show all of them to everybody (`colonnade.conversations.consent`). Nothing is spent."""
    journal = journal or NoJournal()
    own = journal.challenge(plan)
    quote = propose(plan, transport, about, hold=True)
    hashed, nonces = codec.digest(plan), {**quote.nonces, **({COORDINATORS: own} if own else {})}
    yeses: dict[str, bytes] = {}
    requests = {
        member: messages.GetYes(plan=hashed, nonces={name: addressed(one, member) for name, one in nonces.items()})
        for member in quote.nonces
    }
    for member, reply in ask(requests, transport).items():
        if not isinstance(reply, messages.SaidYes):
            raise ProtocolError(f"{member!r} did not say yes.", remedy="Start the study again.")
        yeses[member] = reply.yes
    journal.agreed(plan, nonces, yeses)
    ask(dict.fromkeys(quote.nonces, messages.Begin(plan=hashed, yeses=yeses)), transport)
    return quote


def _withdraw(plan: Plan, transport: Transport) -> None:
    """Tell everybody that a study was refused, so that nobody holds anything for it. Who does not hear it waits for the end."""
    withdrawal = codec.encode(messages.Withdraw(plan=codec.digest(plan)))
    with suppress(ColonnadeError):
        transport.exchange(dict.fromkeys(plan.members, withdrawal))


def ask(requests: Requests, transport: Transport) -> dict[str, messages.Reply]:
    """Exchange one round of messages that cost nothing; raise the first refusal."""
    replies = _exchange(requests, transport)
    _raise_refusal(replies)
    return replies


def _exchange(requests: Requests, transport: Transport) -> dict[str, messages.Reply]:
    answers = transport.exchange({party: codec.encode(request) for party, request in requests.items()})
    missing = sorted(set(requests) ^ set(answers))
    if missing:
        raise ProtocolError(
            f"The transport lost the reply of {missing[0]!r}.",
            remedy="Repeat the call: what was released is not paid twice.",
        )
    replies = {party: codec.decode_reply(answers[party]) for party in requests}
    if isinstance(transport, Recorded):
        _note_traffic(transport.transcript, replies, answers)
    return replies


def _note_traffic(transcript: Transcript, replies: Replies, answers: Mapping[str, bytes]) -> None:
    """Count what a report shows: bytes by kind of message, bytes of letters that went directly, and signatures."""
    for party, reply in replies.items():
        transcript.received[str(reply.__struct_config__.tag)] += len(answers[party])
        if isinstance(reply, messages.Greeted):
            transcript.signatures[party] = codec.decode(reply.hello, Hello).signature.hex()
        if isinstance(reply, messages.Posted):
            for letter in reply.letters.values():
                ticket = messages.Ticket.read(letter)
                if ticket is not None:
                    transcript.direct[party] += ticket.size


def _raise_refusal(replies: Replies) -> None:
    """Raise the first refusal; that a member is busy is said only where nobody refuses, and with the longest wait."""
    errors = [reply.error(party) for party, reply in replies.items() if isinstance(reply, messages.Refused)]
    busy = sorted((error for error in errors if isinstance(error, Busy)), key=lambda error: -error.retry_in)
    for error in [*(error for error in errors if not isinstance(error, Busy)), *busy]:
        raise error


def _step_name(requests: Requests) -> str:
    first = next(iter(requests.values()))
    return (
        first.step
        if isinstance(first, messages.Ask | messages.Post | messages.Recall | messages.Conclude)
        else "negotiation"
    )
