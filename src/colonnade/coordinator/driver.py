"""The driver of a study: it plans, has every member say yes, runs the rounds, and says what was paid and who saw what.

*The plan* (`Driver.plan`): which parties are asked, who computes on shares, and which threshold and collusion that gives.
Beside it stand the words (`StudyDescription`) and who signs them (`Analyst`). They are no part of the request: the same plan
under another title is the same question, and gets the same answer at no further price.

*The run* (`run_study`). Every member says yes, and everybody is shown all of these, before any is asked to release. Threads may
run studies side by side; a member that is busy is asked again after the time that it names.

*The cost* (`CostOfCall`). The coordinator believes nothing about cost. A reply that was lost, a party that crashed after its
debit, an attempt that was taken up again: each would make a count of messages wrong. So every party says, when it agrees to a
plan, which row is the last of its ledger, and after the study which rows the plan has got since. Its ledger is what counts, and
the same figures stand in errors, receipts and `Federation.budget`.

* Rows of other studies are left out by the plan's hash, also those that others asked for meanwhile.
* The first agreement of a call is what counts, so attempts of one call are neither added up nor forgotten.
* A party that agreed with everything paid is not asked: nothing is ever paid twice.
* A party that does not answer has no figure. Its cost is unknown until it is back.

Across machines the account is signed over a nonce of the coordinator's, and checked against the federation's papers.

*The record* (`Findings`): the privacy statement, the traffic, the cost, and a receipt of three lines.

*Relays* (`Relay`). In a conversation of members the coordinator passes sealed letters on, turn by turn, and combines what was
opened. Products on shares, sums under masks and key agreements are relayed in the same way. Only the last turn differs.
"""

import json
import math
import os
import threading
import time
import tomllib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.conversations.agreements import SETTLES
from colonnade.conversations.endpoint import COORDINATORS
from colonnade.conversations.memory import addressed
from colonnade.conversations.products import TURNS_PER_TILE
from colonnade.conversations.sums import chunks_of
from colonnade.errors import (
    NOTHING_SPENT,
    BadInput,
    BudgetExceeded,
    Busy,
    ColonnadeError,
    Cost,
    EstimateFailed,
    NotEnoughComputeNodes,
    PartyAway,
    PlanMismatch,
    ProtocolError,
)
from colonnade.plan import EVENT, RELATION, About, Parameter, Plan, Step, checked_analyst_name, one_line
from colonnade.privacy.accounting import Loss, Price, Unit, total
from colonnade.protocol import messages
from colonnade.protocol.messages import Accounted, Described, GetAccount, GetDescription, Refused
from colonnade.result import COORDINATOR, Opening, PrivacyStatement
from colonnade.runtime.event_log import Pace, Progress
from colonnade.runtime.private_files import require_private, write_new
from colonnade.schema import Schema
from colonnade.secure.keys import Hello, Identity, PublicIdentity
from colonnade.secure.shamir import default_threshold, reconstruct
from colonnade.steps.kind import (
    LOSS,
    SMALL,
    Forecast,
    Joint,
    JointStep,
    discloses,
    kind_of,
    read_joint,
    require_known,
    uses_compute_nodes,
    whole_steps,
)
from colonnade.steps.local import GroupKey
from colonnade.steps.sums import SumTerms
from colonnade.transport.direct import Recorded, Transcript, Transport

if TYPE_CHECKING:
    from colonnade.coordinator.federation import FederationColumns


class Auditor(Protocol):
    """Who checks that an account is the party's own."""

    def account_nonce(self) -> bytes:
        """Return a fresh nonce for one account; empty where nobody checks."""
        ...

    def check_account(self, party: str, nonce: bytes, account: Accounted) -> None:
        """Return if this party signed the account over the nonce; refuse it otherwise."""


def read_accounts(
    questions: Mapping[str, GetAccount], transport: "Transport", auditor: Auditor, *, separately: bool = False
) -> dict[str, Accounted | ColonnadeError]:
    """Ask parties for their accounts; return each, or why it could not be read.

    Parameters
    ----------
    questions
        What each party is asked.
    transport, auditor
        How to reach the parties, and who checks their signatures.
    separately
        Whether somebody may be away. Each party is then asked by itself, all at the same time, because one that is away is
        waited for. Otherwise that is done only where a round to all of them fails.
    """
    nonces = {party: auditor.account_nonce() for party in questions}
    asked = {
        party: messages.encode(msgspec.structs.replace(question, nonce=nonces[party]))
        for party, question in questions.items()
    }

    def read(party: str, answers: Mapping[str, bytes] | None) -> Accounted | ColonnadeError:
        try:
            found = transport.exchange({party: asked[party]}) if answers is None else answers
            return _account_in(found, party, nonces[party], auditor)
        except ColonnadeError as error:
            return error

    if not questions:
        return {}
    try:
        answers = None if separately else transport.exchange(asked)
    except ColonnadeError:
        answers = None
    if answers is not None:
        return {party: read(party, answers) for party in questions}
    with ThreadPoolExecutor(len(questions), thread_name_prefix="colonnade") as threads:
        return dict(zip(questions, threads.map(lambda one: read(one, None), questions), strict=True))


def plan_accounts(
    plan: Plan, since: Mapping[str, int], transport: "Transport", auditor: Auditor, *, separately: bool = False
) -> dict[str, Accounted | ColonnadeError]:
    """Return what each party's ledger has got for a plan since a row, or why it could not be read."""
    digest = messages.digest(plan)
    questions = {party: GetAccount(plan=digest, since=row) for party, row in since.items()}
    return read_accounts(questions, transport, auditor, separately=separately)


def losses_in(account: Accounted) -> list[Loss]:
    """Return the losses of an account, line by line; what is not private has none."""
    return [cost for entry in account.entries if (cost := entry.cost()) is not None]


def _account_in(answers: Mapping[str, bytes], party: str, nonce: bytes, auditor: Auditor) -> Accounted:
    if party not in answers:
        raise ProtocolError(f"The transport lost the account of {party!r}.", remedy="Repeat the call.")
    reply = messages.decode_reply(answers[party])
    if isinstance(reply, Refused):
        raise reply.error(party)
    if not isinstance(reply, Accounted) or reply.party != party:
        raise ProtocolError(f"Party {party!r} answered GetAccount with something else.")
    auditor.check_account(party, nonce, reply)
    return reply


@dataclass
class CostOfCall:
    """What one call costs: the rows that its plan gets in the ledgers after its first agreement.

    Parameters
    ----------
    plan
        The study.
    transport, auditor
        How to reach the parties, and who checks their signatures.
    since
        The last row of each ledger that the study may still be charged to; ``None`` before the first agreement.
    """

    plan: Plan
    transport: "Transport"
    auditor: Auditor
    since: Mapping[str, int] | None = None

    def agreed(self, quote: "Quote") -> None:
        """Note where the ledgers stand. Later agreements of the same call change nothing."""
        if self.since is None:
            self.since = {
                party: quote.sequences[party]
                for party in self.plan.parties
                if quote.unpaid[party] or quote.disclosed.get(party)
            }

    def read(self, *, failed: bool = False) -> Cost:
        """Read the parties' accounts, and return what the call has cost by now. After a failure somebody may be away."""
        accounts = plan_accounts(self.plan, self.since or {}, self.transport, self.auditor, separately=failed)
        known = {party: account for party, account in accounts.items() if isinstance(account, Accounted)}
        losses = {party: losses_in(account) for party, account in known.items()}
        return Cost(
            spent={party: total(found).epsilon(known[party].cap_delta) for party, found in losses.items() if found},
            unknown=tuple(party for party in accounts if party not in known),
            disclosed=tuple(
                party for party, account in known.items() if any(entry.loss is None for entry in account.entries)
            ),
        )


STUDIES_PER_COORDINATOR = 8
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
        study join them, and at last the coordinator. An even node adds cost but no secrecy, so the
        last one that does not deal in every round is dropped: what a node deals itself costs least.
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
    """Studies that run side by side: at most ``at_once``, first come, first served, and never two of one plan.

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

    def __init__(self, at_once: int = STUDIES_PER_COORDINATOR) -> None:
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
        with QUEUE.turn((group, messages.digest(plan)), group, alone=alone) as turn:
            try:
                outcome = _run_once(algorithm, plan, transport, progress, journal, about, cost)
            except ColonnadeError as error:
                busy = error.retry_in if isinstance(error, Busy) and waited < PATIENCE else None
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
        if not isinstance(reply, messages.Agreed) or reply.plan_hash != messages.digest(plan):
            raise PlanMismatch(f"Party {party!r} agreed to another plan.")
        losses[party] = {step: Loss.from_bytes(loss) for step, loss in reply.losses.items()}
        unpaid[party] = frozenset(reply.unpaid)
        disclosed[party] = frozenset(reply.disclosed)
        sequences[party] = reply.sequence
        nonces[party] = reply.nonce
    return Quote(losses, unpaid, disclosed, sequences, nonces)


def agree(plan: Plan, transport: Transport, journal: Journal | None = None, about: About | None = None) -> Quote:
    """Have every member say yes, and show all of them to everybody (`colonnade.conversations.endpoint`). Nothing is spent."""
    journal = journal or NoJournal()
    try:
        quote, yeses = _yeses(plan, transport, journal, about)
        ask(dict.fromkeys(quote.nonces, messages.Begin(plan=messages.digest(plan), yeses=yeses)), transport)
    except ColonnadeError as error:
        if not isinstance(error, ProtocolError):  # a member that has begun keeps its hold: others may pay
            _withdraw(plan, transport)
        raise
    return quote


def _yeses(plan: Plan, transport: Transport, journal: Journal, about: About | None) -> tuple[Quote, dict[str, bytes]]:
    own = journal.challenge(plan)
    quote = propose(plan, transport, about, hold=True)
    hashed, nonces = messages.digest(plan), {**quote.nonces, **({COORDINATORS: own} if own else {})}
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
    return quote, yeses


def _withdraw(plan: Plan, transport: Transport) -> None:
    """Tell everybody that a study was refused, so that nobody holds anything for it. Who does not hear it waits for the end."""
    withdrawal = messages.encode(messages.Withdraw(plan=messages.digest(plan)))
    with suppress(ColonnadeError):
        transport.exchange(dict.fromkeys(plan.members, withdrawal))


def ask(requests: Requests, transport: Transport) -> dict[str, messages.Reply]:
    """Exchange one round of messages that cost nothing; raise the first refusal."""
    replies = _exchange(requests, transport)
    _raise_refusal(replies)
    return replies


def _exchange(requests: Requests, transport: Transport) -> dict[str, messages.Reply]:
    answers = transport.exchange({party: messages.encode(request) for party, request in requests.items()})
    missing = sorted(set(requests) ^ set(answers))
    if missing:
        raise ProtocolError(
            f"The transport lost the reply of {missing[0]!r}.",
            remedy="Repeat the call: what was released is not paid twice.",
        )
    replies = {party: messages.decode_reply(answers[party]) for party in requests}
    if isinstance(transport, Recorded):
        _note_traffic(transport.transcript, replies, answers)
    return replies


def _note_traffic(transcript: Transcript, replies: Replies, answers: Mapping[str, bytes]) -> None:
    """Count what a report shows: bytes by kind of message, bytes of letters that went directly, and signatures."""
    for party, reply in replies.items():
        transcript.received[str(reply.__struct_config__.tag)] += len(answers[party])
        if isinstance(reply, messages.Greeted):
            transcript.signatures[party] = messages.decode(reply.hello, Hello).signature.hex()
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


class Analyst:
    """Somebody who asks for studies, known to the parties by a public key.

    Parameters
    ----------
    name
        What the parties call them, such as ``analyst@telco``.
    identity
        Their key.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> analyst = Analyst.create(folder.name + "/analyst.key", name="analyst@telco")
    >>> Analyst.read(folder.name + "/analyst.key").public == analyst.public
    True
    >>> folder.cleanup()
    """

    def __init__(self, name: str, identity: Identity) -> None:
        self.name = checked_analyst_name(name)
        self.identity = identity

    @classmethod
    def create(cls, path: str | Path, *, name: str) -> "Analyst":
        """Make a key, in a new file for this user alone.

        Parameters
        ----------
        path
            The file. It holds the secret key: keep it, and a copy of it, safe.
        name
            The analyst's name.
        """
        seed, checked = os.urandom(32), checked_analyst_name(name)
        write_new(Path(path), f"name = {json.dumps(checked)}\nkey = {json.dumps(seed.hex())}\n".encode())
        return cls(checked, Identity.from_seed(seed))

    @classmethod
    def read(cls, path: str | Path) -> "Analyst":
        """Read a key from its file; refuse one that other users of the machine can read."""
        path = Path(path)
        require_private(path)
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            name, seed = document["name"], bytes.fromhex(document["key"])
        except (OSError, ValueError, KeyError, TypeError):
            raise BadInput(
                f"{path.name} is not an analyst's key.", remedy="Make one: colonnade analyst init FILE --name NAME"
            ) from None
        return cls(name, Identity.from_seed(seed))

    @classmethod
    def of(cls, given: "Analyst | str | Path | None") -> "Analyst | None":
        """Return an analyst from what `Federation` takes: the object, or the file of its key."""
        return given if given is None or isinstance(given, Analyst) else cls.read(given)

    @property
    def public(self) -> PublicIdentity:
        """The public key, for the federation's papers."""
        return PublicIdentity(self.identity.public)

    def __repr__(self) -> str:
        return f"Analyst({self.name!r})"


@dataclass(frozen=True)
class StudyDescription:
    """What a federation says about the studies that it asks for.

    Parameters
    ----------
    title, purpose
        One line each. Without a title, the study's own name.
    analyst
        Who signs; ``None`` where the words are the coordinator's own.
    """

    title: str = ""
    purpose: str = ""
    analyst: Analyst | None = None

    def saying(self, title: str | None, purpose: str | None) -> "StudyDescription":
        """Return these words with another title or purpose; ``None`` keeps what there is."""
        said = (self.title if title is None else title, self.purpose if purpose is None else purpose)
        new = StudyDescription(*said, self.analyst)
        if not isinstance(new.title, str) or not isinstance(new.purpose, str):
            raise BadInput("A study's title and purpose are texts.", remedy='For example title="Churn by plan".')
        About(title=new.title, purpose=new.purpose)  # refuses what is too long, before anything is asked
        return new

    def about(self, plan: Plan, name: str) -> About:
        """Return what the parties are told about one study, signed where there is an analyst."""
        words = About(
            title=self.title or one_line(name),
            purpose=self.purpose,
            requester="" if self.analyst is None else self.analyst.name,
        )
        return words if self.analyst is None else words.signed(messages.digest(plan), self.analyst.identity)


_FAILED = "What the parties opened could not be turned into an answer ({})."


@contextmanager
def estimating(findings: "Findings | None" = None) -> Iterator[None]:
    """Turn any failure of the block into `EstimateFailed`: releases are noisy, so no test of ours has seen all of them.

    The failure itself is the error's cause, with its traceback. Errors of ours pass: they say what to do.

    Parameters
    ----------
    findings
        The record of the study, if it is at its end. An error then says what it cost.

    Examples
    --------
    >>> try:
    ...     with estimating():
    ...         1 / 0
    ... except EstimateFailed as error:
    ...     print(error.message)
    What the parties opened could not be turned into an answer (ZeroDivisionError).
    """
    try:
        yield
    except StopIteration:  # so an algorithm says that it has come to its end
        raise
    except Exception as error:
        failed = error if isinstance(error, ColonnadeError) else EstimateFailed(_FAILED.format(type(error).__name__))
        if findings is not None:
            failed.cost = findings.cost
        if isinstance(failed, EstimateFailed):
            failed.findings = findings
        if failed is error:
            raise
        raise failed from error


@dataclass(frozen=True)
class Findings:
    """The result of a study and its record.

    Parameters
    ----------
    value
        What the algorithm learned.
    plan, privacy, transcript
        The plan that was run, its privacy statement, and the log of its messages.
    receipt
        The trust picture in two lines, and one line with the figures.
    cost
        What the call cost, by the parties' own accounts.
    """

    value: Any
    plan: Plan
    privacy: PrivacyStatement
    transcript: Transcript
    receipt: str
    cost: Cost = NOTHING_SPENT


class StudyRecord:
    """A mixin that shows the record of a study, under the attribute names that every estimator uses."""

    findings: Findings

    @property
    def privacy_(self) -> PrivacyStatement:
        """The privacy statement: who could see what, at what price."""
        return self.findings.privacy

    @property
    def transcript_(self) -> Transcript:
        """The log of messages: rounds, bytes and times."""
        return self.findings.transcript

    @property
    def receipt_(self) -> str:
        """The trust picture in two lines, and one line with the figures."""
        return self.findings.receipt

    @property
    def plan_(self) -> Plan:
        """The plan that was run."""
        return self.findings.plan


def findings_of(outcome: Outcome, schemas: Mapping[str, Schema], *, title: str, local: bool) -> Findings:
    """Return a finished study's result and record."""
    plan = outcome.plan
    statement = statement_of(plan, outcome.quote, outcome.mechanisms, schemas, local=local)
    epsilon, delta = statement.epsilon(unit=plan.unit), statement.delta(unit=plan.unit)
    replaced = statement.epsilon_if_replaced() if plan.unit == "person" else math.inf
    mu = statement.mu(unit=plan.unit)
    receipt = (
        f"{statement.trust}\n"
        f"{title}: ε={_figure(epsilon)}, δ={_figure(delta)}{f', μ={_figure(mu)}' if mu and delta else ''} per {plan.unit} "
        "towards the coordinator"
        f"{f' (ε={_figure(replaced)} if a record is replaced by another)' if math.isfinite(replaced) and replaced else ''}; "
        f"may pool: {statement.pooling}; {_paid(outcome)}; "
        f"{plan.people:,} people, {len(plan.parties)} {'party' if len(plan.parties) == 1 else 'parties'}, "
        f"{outcome.transcript.rounds} rounds, {outcome.transcript.traffic}, {outcome.transcript.wall_time:.2f} s"
    )
    return Findings(outcome.value, plan, statement, outcome.transcript, receipt, outcome.cost)


def _paid(outcome: Outcome) -> str:
    """Return what the call cost in words, by the parties' own accounts."""
    cost = outcome.cost
    if outcome.plan.price is None and any(outcome.quote.disclosed.values()):
        unread = f"; {Cost(unknown=cost.unknown).words}" if cost.unknown else ""
        return f"not differentially private, allowed by name, not covered by the budget{unread}"
    if outcome.plan.price is None:
        return "nothing to pay for"
    if cost == NOTHING_SPENT:
        return "already paid, nothing spent"
    return f"paid: {cost.words}{' (at the δ of each cap)' if outcome.plan.price.delta else ''}"


def _figure(value: float) -> str:
    return "∞ (not private)" if math.isinf(value) else f"{value:.4g}"


EVENT_LEVEL = (
    "Event level: neighbours differ in one person's value at each party by at most {change}. "
    "Steps of that size are hidden; a whole value, and the order of its size, is not."
)
NOT_PRIVATE = (
    "Not differentially private: exact values left the parties. Each party allows this by name in its policy. "
    "What is said to stay hidden does so from a coordinator that follows the protocol; one that does not can learn more, up to "
    "the rows that take part."
)


def statement_of(
    plan: Plan, quote: Quote, mechanisms: Mapping[str, str], schemas: Mapping[str, Schema], *, local: bool
) -> PrivacyStatement:
    """Return the privacy statement of a plan: who could see what, at what price.

    Parameters
    ----------
    plan, quote
        The study, and what each party computed that it costs.
    mechanisms
        The mechanism of each step, in words, where it is known.
    schemas
        What is public about the parties' columns.
    local
        Whether local differential privacy holds.
    """
    return PrivacyStatement(
        _openings(plan, quote, mechanisms, schemas),
        plan.parties,
        plan.price.delta if plan.price is not None else 0.0,
        local=local,
        assumptions=_assumptions(plan),
        relation=plan.relation,
    )


def _openings(
    plan: Plan, quote: Quote, mechanisms: Mapping[str, str], schemas: Mapping[str, Schema]
) -> tuple[Opening, ...]:
    """Return one opening per local release, and one per joint step."""
    openings: list[Opening] = []
    for whole in whole_steps(plan, schemas):
        name, quoted = whole.name, quote.losses
        losses = {party: quoted[party][name] for party in whole.steps if name in quoted.get(party, {})}
        openings += whole.kind.openings(whole, losses, mechanisms.get(name, whole.kind.title))
    return tuple(openings)


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what the guarantee of a plan rests on, in words."""
    words: list[str] = []
    if plan.relation == EVENT:
        words.append(EVENT_LEVEL.format(change=max(step.parameters.get("change", 0) for step in plan.steps)))
    if any(discloses(step) for step in plan.steps):
        words.append(NOT_PRIVATE)
    for whole in whole_steps(plan):
        words += whole.kind.assumptions(whole)
    return tuple(dict.fromkeys(words))


@dataclass(frozen=True)
class Traffic:
    """The traffic that a study will cause: rounds, and bytes to and from each member.

    Parameters
    ----------
    rounds
        Exchanges between the coordinator and the members.
    bytes_to, bytes_from
        To and from each member, in all rounds, where the coordinator relays every letter.
    direct, relayed
        Where members have addresses in the papers and serve them (``colonnade party serve --direct``): bytes of letters that go
        from one to another, and what is left to the coordinator.
    """

    rounds: int = 0
    bytes_to: Mapping[str, int] = field(default_factory=dict)
    bytes_from: Mapping[str, int] = field(default_factory=dict)
    direct: int = 0
    relayed: int = 0

    @property
    def bytes(self) -> int:
        """All bytes in both directions."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())

    @property
    def words(self) -> str:
        """The traffic in words."""
        links = f"; with every direct link up about {self.relayed:,}, and {self.direct:,} between members"
        return f"{self.rounds} rounds, about {self.bytes:,} bytes{links if self.direct else ''}"


QUESTION, YES, HEAD = 32, 200, 240
"""Bytes of a member's question to all ledgers, of a yes, and of where a ledger stands, with a proof of the usual length."""


def forecast_traffic(
    plan: Plan, quote: Quote, schemas: Mapping[str, Schema], linked: Collection[str] = ()
) -> Traffic | None:
    """Return the traffic that running a plan will cause; ``None`` if one of its kinds of step cannot be forecast.

    Parameters
    ----------
    plan
        The study.
    quote
        What each party would be charged. A release that was paid for before is fetched, not made again.
    schemas
        The parties' public schemas.
    linked
        Members that have an address for direct links.
    """
    forecast = Forecast(len(messages.encode(messages.Propose(plan=plan))))
    forecast.round(
        dict.fromkeys((*plan.parties, *plan.compute_nodes), 0),
        {name: SMALL + sum(len(step) + LOSS + 4 for step in losses) for name, losses in quote.losses.items()},
    )
    _add_yeses(forecast, plan)
    for whole in whole_steps(plan, schemas):
        unpaid = [whole.name in quote.unpaid[party] for party in whole.steps]
        kept = not any(quote.unpaid.values()) if whole.kind.keeps_key else not any(unpaid)
        try:
            if not whole.kind.forecast(whole, forecast, kept=kept):
                return None
        except ColonnadeError:  # a parameter that the kind does not take
            return None
    pairs = [sizes for ends, sizes in forecast.letters.items() if set(ends) <= set(linked)]
    direct, tickets = sum(map(sum, pairs)), sum(map(len, pairs)) * messages.TICKET_BYTES
    every = sum(forecast.to.values()) + sum(forecast.back.values())
    return Traffic(forecast.rounds, forecast.to, forecast.back, direct, every - 2 * (direct - tickets))


def _add_yeses(forecast: Forecast, plan: Plan) -> None:
    """Add the two rounds in which everybody says yes, and is shown everybody's. They carry the plan's hash, not the plan."""
    members = plan.members
    asked = SMALL + sum(len(name) + QUESTION for name in members)
    said = {name: YES + len(name) + (HEAD if name in plan.parties else 0) for name in members}
    shown = SMALL + sum(said.values())
    forecast.round(dict.fromkeys(members, asked - forecast.plan_bytes), said)
    forecast.round(dict.fromkeys(members, shown - forecast.plan_bytes), dict.fromkeys(members, SMALL // 2))


def descriptions(parties: Sequence[str], transport: Transport, alignment: str = "") -> dict[str, Described]:
    """Ask every party what is public about its columns and about an order of rows; by default the one it was opened with."""
    replies = ask(dict.fromkeys(parties, GetDescription(alignment=alignment)), transport)
    described = {party: reply for party, reply in replies.items() if isinstance(reply, Described)}
    if len(described) < len(replies):
        raise ProtocolError("A party answered GetDescription with something else.")
    return described


@runtime_checkable
class KeepsDeliveries(Protocol):
    """A party in this process that keeps what was opened to it alone."""

    def delivered(self, plan: Plan, step: str) -> pd.DataFrame:
        """Return what a step opened to this party, by its own ids."""
        ...

    def delivery_path(self, plan: Plan, step: str) -> Path | None:
        """Return the file that it is kept in; ``None`` in memory."""
        ...


@dataclass(eq=False, kw_only=True)
class Driver:
    """What a federation puts to its parties: it plans, quotes and runs studies, and reads accounts.

    A `Federation` has one, and estimators reach it there.

    Parameters
    ----------
    transport, journal
        How to reach the parties, and where studies are recorded; ``None`` for nowhere.
    parties, columns
        Their names, and the columns as they are read.
    computing, collusion, threshold
        Who may compute on shares, and how many of them may pool what they see.
    identity, linked
        The federation's name in every plan, and the members with an address for direct links.
    words
        What the parties are told about its studies.
    alignment, people, union, data_versions
        The order of rows: its name, how many people it has, whether it is a union, and the parties' versions of their data.
    """

    transport: Transport
    journal: Journal | None
    parties: tuple[str, ...]
    columns: "FederationColumns"
    computing: ComputeMembers
    collusion: int
    threshold: int
    identity: str
    linked: frozenset[str]
    words: StudyDescription
    alignment: str
    people: int
    union: bool
    data_versions: Mapping[str, int]

    def descriptions(self, alignment: str = "") -> dict[str, Described]:
        """Ask every party what is public about its columns and an order of rows; by default the one it was opened with."""
        return descriptions(self.parties, self.transport, alignment)

    def accounts(self, *, in_words: bool = False) -> dict[str, Accounted]:
        """Return every party's own account, line by line: its cap, what it has released, and what each release cost."""
        questions = dict.fromkeys(self.parties, GetAccount(in_words=in_words))
        accounts: dict[str, Accounted] = {}
        for party, found in read_accounts(questions, self.transport, self.journal or NoJournal()).items():
            if isinstance(found, ColonnadeError):
                raise found
            accounts[party] = found
        return accounts

    def plan(
        self,
        algorithm: messages.Algorithm,
        *,
        task: str,
        method: str,
        price: Price | None,
        unit: Unit,
        parameters: Mapping[str, Parameter],
        repeat: int = 1,
        relation: str = RELATION,
    ) -> Plan:
        """Return the plan of a study. The same arguments give the same plan, and the same plan is the same request."""
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise BadInput(
                "repeat must be a positive whole number.", remedy="For example repeat=2, for a new draw at a new price."
            )
        if unit not in ("person", "party"):
            raise BadInput("unit must be 'person' or 'party'.", remedy='For example unit="person".')
        steps = algorithm.steps()
        asked = tuple(name for name in self.parties if name in {step.party for step in steps})
        secure = uses_compute_nodes(steps)
        dealing = {step.party for step in steps if step.parameters.get("target")}
        nodes = self.computing.choose(asked, self.threshold, dealing) if secure else ()
        plan = Plan(
            task=task,
            method=method,
            parameters=dict(parameters),
            unit=unit,
            price=price,
            relation=relation,
            federation=self.identity,
            alignment=self.alignment,
            people=self.people,
            parties=asked,
            compute_nodes=nodes,
            threshold=default_threshold(len(nodes)) if secure else 0,
            collusion=min(self.collusion, len(asked) - 1) if secure else 0,
            steps=self.columns.as_read(steps),
            repeat=repeat,
            data_versions={name: self.data_versions[name] for name in asked},
        )
        require_known(plan)
        return plan

    def quote(self, plan: Plan) -> Quote:
        """Ask every party what a plan would cost it. Spends nothing and touches no data."""
        return propose(plan, self.transport, self.words.about(plan, plan.task))

    def run(
        self, algorithm: messages.Algorithm, plan: Plan, progress: Progress | None = None, *, title: str = ""
    ) -> Outcome:
        """Run a study. ``title`` is what it is called where nobody has said anything else (`Federation.asking`)."""
        about = self.words.about(plan, title or plan.task)
        return run_study(algorithm, plan, self.transport, progress or (lambda _: None), self.journal, about)

    def study(
        self,
        algorithm: messages.Algorithm,
        plan: Plan,
        *,
        title: str,
        name: str = "",
        local: bool = False,
        progress: Progress | None = None,
    ) -> Findings:
        """Run a study, and return its result and record. Receipts say ``title``; parties are told ``name``, if there is one."""
        outcome = self.run(algorithm, plan, progress, title=name or title)
        return findings_of(outcome, self.columns.schemas, title=title, local=local)

    def keeper(self, party: str) -> KeepsDeliveries | None:
        """Return a party's own object, which keeps what was opened to it alone; ``None`` if it is not in this process.

        What it keeps never comes through the transport: a coordinator across machines cannot ask for it.
        """
        find: Callable[[str], object] = getattr(self.transport, "endpoint", lambda _: None)
        endpoint = find(party)
        return endpoint if isinstance(endpoint, KeepsDeliveries) else None


class Relay:
    """The coordinator's side of one run of a conversation.

    Parameters
    ----------
    plan, step
        The plan, and the name of the step.
    members
        The members that take part.
    """

    def __init__(self, plan: Plan, step: str, members: Iterable[str]) -> None:
        self._plan = plan
        self._step = step
        self._members = tuple(members)
        self._run = os.urandom(16)  # public: it only keeps runs apart
        self.next_turn = 0
        self._letters: dict[str, dict[str, messages.Blob]] = {}

    def greet(self) -> messages.Rounds:
        """Turn 0: collect everyone's hello, which turn 1 then carries to everyone."""
        replies = yield self._posts({})
        hellos = {}
        for member, reply in replies.items():
            if not isinstance(reply, messages.Greeted):
                raise ProtocolError(f"{member!r} did not greet.")
            hellos[member] = messages.Blob(reply.hello)
        self._letters = dict.fromkeys(self._members, hellos)

    def turn(self, inputs: Mapping[str, messages.Array] | None = None) -> messages.Rounds:
        """Relay one turn whose answers are letters."""
        replies = yield self._posts(inputs or {})
        self._letters = _by_receiver(replies)

    def last(self, inputs: Mapping[str, messages.Array] | None = None) -> messages.Rounds:
        """Relay one turn whose answers are not letters, and return them by member."""
        replies = yield self._posts(inputs or {})
        self._letters = {}
        return replies

    def _posts(self, inputs: Mapping[str, messages.Array]) -> dict[str, messages.Post]:
        posts = {
            member: messages.Post(
                plan=self._plan,
                step=self._step,
                run=self._run,
                turn=self.next_turn,
                letters=dict(self._letters.get(member, {})),
                inputs=dict(inputs),
            )
            for member in self._members
        }
        self.next_turn += 1
        return posts


def _by_receiver(replies: Mapping[str, messages.Reply]) -> dict[str, dict[str, messages.Blob]]:
    """Turn letters by sender and receiver into letters by receiver and sender."""
    relayed: dict[str, dict[str, messages.Blob]] = {}
    for sender, reply in replies.items():
        if not isinstance(reply, messages.Posted):
            raise ProtocolError(f"{sender!r} did not take its turn.")
        for receiver, letter in reply.letters.items():
            relayed.setdefault(receiver, {})[sender] = letter
    return relayed


def key_steps(parties: Iterable[str], name: str) -> tuple[Step, ...]:
    """Return the steps in which parties agree on a key. They release nothing and cost nothing."""
    return tuple(GroupKey.ask(name=name, party=party, columns=(), price=None) for party in parties)


def agree_on_key(plan: Plan, step: str) -> messages.Rounds:
    """Have the parties of a ``group-key`` step agree on their key, if they have not before."""
    yield from settle_once(plan, step, GroupKey.members(plan, step))


def settle_once(plan: Plan, step: str, members: tuple[str, ...]) -> messages.Rounds:
    """Relay a conversation after which members keep a common key, or what follows from it, unless all of them keep it."""
    kept = yield {member: messages.Recall(plan=plan, step=step) for member in members}
    if all(isinstance(reply, messages.Settled) for reply in kept.values()):
        return
    relay = Relay(plan, step, members)
    yield from relay.greet()
    for _ in range(1, SETTLES):
        yield from relay.turn()
    replies = yield from relay.last()
    if any(not isinstance(reply, messages.Settled) for reply in replies.values()):
        raise ProtocolError("A party did not settle on the key, or on what follows from it.")


def forget_key(plan: Plan, step: str) -> messages.Rounds:
    """Have the parties erase a key that is no longer needed."""
    yield {member: messages.Conclude(plan=plan, step=step, values={}) for member in GroupKey.members(plan, step)}


def conclude_all(
    plan: Plan, step: str, replies: Mapping[str, messages.Reply], values: Mapping[str, messages.Array]
) -> messages.Rounds:
    """Have every member that does not keep the result keep it, and forget its secrets: also one that failed at this before."""
    late = [member for member, reply in replies.items() if not isinstance(reply, messages.Released)]
    asked = {one.party for one in plan.steps if one.name == step}  # a node keeps no result
    if late:
        yield {
            member: messages.Conclude(plan=plan, step=step, values=dict(values) if member in asked else {})
            for member in late
        }


@dataclass(frozen=True)
class JointResult:
    """What a joint opening released, as integers.

    Parameters
    ----------
    joint
        What was opened, read from the plan.
    cross
        One integer per entry between two parties, in the order of `colonnade.secure.shamir.entry_pairs`.
    own
        Each party's own part, where the statistic has one.
    """

    joint: Joint
    cross: NDArray[np.int64]
    own: Mapping[str, NDArray[np.int64]]


Taken = Callable[[int, NDArray[np.int64], Mapping[str, NDArray[np.int64]]], None]
"""What is done with a tile: its number, its entries between two parties, and the parties' own numbers that go with it."""


def open_jointly(plan: Plan, step: str) -> messages.Rounds:
    """Run one joint step, or return what its parties have kept of an earlier run, all of it at once.

    Secure PCA, Algorithms 1 and 2, seen from the coordinator: relay the turns, add up the shares, keep the result. We differ
    from the paper in who may know what. Noise enters as shares of degree 2t before anything is opened, and columns of one
    party are multiplied by that party alone. The coordinator sees sealed letters and, at the end, shares of an already-noised
    product.
    """
    joint = read_joint(plan, step)
    cross: list[NDArray[np.int64]] = []
    own: dict[str, list[NDArray[np.int64]]] = {}

    def take(_: int, entries: NDArray[np.int64], parts: Mapping[str, NDArray[np.int64]]) -> None:
        cross.append(entries)
        for party, part in parts.items():
            own.setdefault(party, []).append(part)

    yield from open_in_tiles(plan, step, take)
    return JointResult(joint, _joined(cross), {party: _joined(parts) for party, parts in own.items()})


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def open_in_tiles(plan: Plan, step: str, take: Taken) -> messages.Rounds:
    """Run one joint step, or recall it, and hand over what was opened tile by tile. Most steps have one tile."""
    joint = read_joint(plan, step)
    if len(joint.tiles) == 1:
        result = yield from _open_whole(plan, step, joint)
        take(0, result.cross, result.own)
        return
    first = 0
    while first < len(joint.tiles):
        kept = yield {member: messages.Recall(plan=plan, step=step, tile=first) for member in joint.members}
        if not _opened_by_all(kept):
            break
        take(first, *_tile(joint, first, kept))
        first += 1
    relay = Relay(plan, step, joint.members)
    for number in range(first, len(joint.tiles)):
        if number == first:
            yield from relay.greet()
            for _ in range(joint.turns + 1):
                yield from relay.turn()
            relay.next_turn += TURNS_PER_TILE * first  # each tile has turns of its own, and those before were opened
        yield from relay.turn()
        yield from relay.turn()
        replies = yield from relay.last()
        take(number, *_tile(joint, number, replies))
    yield {member: messages.Conclude(plan=plan, step=step, values={}) for member in joint.members}


def _tile(
    joint: Joint, number: int, replies: Mapping[str, messages.Reply]
) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]]:
    """Put the members' shares of one tile together, and check how many numbers came with them."""
    tile, own = joint.tiles[number], _own(joint, replies)
    shares = shares_of(joint.nodes, replies, tile.entries)
    for party, entries in joint.own_entries.items():
        if party not in own or own[party].shape != (len(range(*tile.own.indices(entries))),):
            raise ProtocolError(f"{party!r} opened another number of its own entries.")
    cross = reconstruct(joint.arithmetic, shares, degree=2 * joint.threshold, bound=joint.bound)
    return cross, cast("dict[str, NDArray[np.int64]]", own)


def _opened_by_all(kept: Mapping[str, messages.Reply]) -> bool:
    """Return whether all members keep what they opened. If not, everybody says the same again, and the others open too."""
    return all(isinstance(reply, messages.Opened) for reply in kept.values())


def _open_whole(plan: Plan, step: str, joint: Joint) -> messages.Rounds:
    kept = yield {member: messages.Recall(plan=plan, step=step) for member in joint.members}
    for reply in kept.values():
        if isinstance(reply, messages.Released):
            yield from conclude_all(plan, step, kept, reply.values)
            return _result(joint, {name: messages.unpack(array) for name, array in reply.values.items()})
    # opened before, and lost on the way to us; or not by everybody
    replies = kept if _opened_by_all(kept) else (yield from _run(plan, step, joint))
    shares, own = shares_of(joint.nodes, replies, joint.entries), _own(joint, replies)
    cross = reconstruct(joint.arithmetic, shares, degree=2 * joint.threshold, bound=joint.bound)
    values = {"cross": cross, **{f"own.{party}": value for party, value in own.items()}}
    packed: dict[str, messages.Array] = {name: messages.pack(value) for name, value in values.items()}
    yield from conclude_all(plan, step, replies, packed)
    return _result(joint, values)


def _run(plan: Plan, step: str, joint: Joint) -> messages.Rounds:
    """Relay every turn; return the answers to the last."""
    relay = Relay(plan, step, joint.members)
    yield from relay.greet()
    for _ in range(joint.turns):
        yield from relay.turn()
    return (yield from relay.last())


def shares_of(
    nodes: Sequence[str], replies: Mapping[str, messages.Reply], entries: int
) -> dict[int, NDArray[np.uint64]]:
    """Return the shares that all nodes opened, by evaluation point: the nodes in order, from 1 on."""
    shares = {}
    for point, node in enumerate(nodes, start=1):
        reply = replies[node]
        if not isinstance(reply, messages.Opened) or reply.share is None:
            raise ProtocolError(f"{node!r} did not open its share.")
        share = messages.unpack(reply.share)
        if share.shape != (entries,) or share.dtype != np.uint64:
            raise ProtocolError(
                f"{node!r} opened {share.size} {share.dtype} numbers; the plan says {entries} of uint64."
            )
        shares[point] = share.astype(np.uint64)  # a copy: compiled kernels take writable arrays
    return shares


def _own(joint: Joint, replies: Mapping[str, messages.Reply]) -> dict[str, NDArray[np.generic]]:
    own = {}
    for owner in joint.owners:
        reply = replies[owner]
        if not isinstance(reply, messages.Opened):
            raise ProtocolError(f"{owner!r} did not open its own part.")
        if reply.own is not None:
            own[owner] = messages.unpack(reply.own)
    return own


def _result(joint: Joint, values: Mapping[str, NDArray[np.generic]]) -> JointResult:
    opened = cast("Mapping[str, NDArray[np.int64]]", values)  # what is opened are whole numbers
    if "cross" not in opened or opened["cross"].shape != (joint.entries,):
        raise ProtocolError(f"The kept answer of a joint step is not the {joint.entries} numbers that the plan says.")
    own = {name.removeprefix("own."): value for name, value in opened.items() if name.startswith("own.")}
    return JointResult(joint, opened["cross"], own)


def open_sum(plan: Plan, step: str, length: int, inputs: Mapping[str, messages.Array] | None = None) -> messages.Rounds:
    """Run a secure sum that is opened to the coordinator, and return it as integers."""
    terms = SumTerms.read(plan, step)
    relay = Relay(plan, step, terms.owners)
    yield from relay.greet()
    sums = np.empty(length, dtype=np.int64)
    for number, (start, stop) in enumerate(chunks_of(length)):
        replies = yield from relay.last(inputs if number == 0 else None)
        sums[start:stop] = unmasked_sum(terms, replies, stop - start)
    return sums


def relay_sum(plan: Plan, step: str, length: int) -> messages.Rounds:
    """Run a secure sum that is opened to one of its parties. The coordinator relays letters that it cannot read."""
    terms = SumTerms.read(plan, step)
    relay = Relay(plan, step, terms.owners)
    yield from relay.greet()
    for _ in chunks_of(length):
        yield from relay.turn()
    replies = yield from relay.last()
    if any(not isinstance(reply, messages.Opened) for reply in replies.values()):
        raise ProtocolError("A party did not finish its part of a sum.")


def unmasked_sum(terms: SumTerms, replies: Mapping[str, messages.Reply], count: int) -> NDArray[np.int64]:
    """Add up one chunk of every party's masked values; the masks cancel."""
    total = np.zeros(count, dtype=terms.ring.dtype)
    for party in terms.owners:
        reply = replies[party]
        letter = reply.letters.get(COORDINATOR) if isinstance(reply, messages.Posted) else None
        if letter is None:
            raise ProtocolError(f"Party {party!r} did not add to a sum.")
        total += terms.ring.from_bytes(letter.view, count)
    return terms.ring.decode(total)
