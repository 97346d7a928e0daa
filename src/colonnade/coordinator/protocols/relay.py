"""Relaying a conversation between members: the coordinator passes sealed letters on, turn by turn."""

import os
from collections.abc import Iterable, Mapping

from colonnade.conversations.group_key import SETTLES
from colonnade.errors import ProtocolError, ReleaseLost
from colonnade.plan import Plan, Step
from colonnade.protocol.messages import Array, Blob, Conclude, Greeted, Post, Posted, Recall, Reply, Settled
from colonnade.protocol.rounds import Rounds
from colonnade.steps.keys import GroupKey

__all__ = ["Relay", "agree_on_key", "forget_key", "key_steps", "settle"]


class Relay:
    """One run of a conversation, seen from the coordinator.

    Parameters
    ----------
    plan, step
        What is run.
    members
        Who takes part.
    """

    def __init__(self, plan: Plan, step: str, members: Iterable[str]) -> None:
        self._plan = plan
        self._step = step
        self._members = tuple(members)
        self._run = os.urandom(16)  # public: it only keeps runs apart
        self._turn = 0
        self._letters: dict[str, dict[str, Blob]] = {}

    def greet(self) -> Rounds:
        """Turn 0: collect everyone's hello, which turn 1 then carries to everyone."""
        replies = yield self._posts({})
        hellos = {}
        for member, reply in replies.items():
            if not isinstance(reply, Greeted):
                raise ProtocolError(f"{member!r} did not greet.")
            hellos[member] = Blob(reply.hello)
        self._letters = dict.fromkeys(self._members, hellos)

    def turn(self, inputs: Mapping[str, Array] | None = None) -> Rounds:
        """Relay one turn whose answers are letters."""
        replies = yield self._posts(inputs or {})
        self._letters = _by_receiver(replies)

    def last(self, inputs: Mapping[str, Array] | None = None) -> Rounds:
        """Relay one turn, and return its answers by member, which are no letters."""
        replies = yield self._posts(inputs or {})
        self._letters = {}
        return replies

    def _posts(self, inputs: Mapping[str, Array]) -> dict[str, Post]:
        posts = {
            member: Post(
                plan=self._plan,
                step=self._step,
                run=self._run,
                turn=self._turn,
                letters=dict(self._letters.get(member, {})),
                inputs=dict(inputs),
            )
            for member in self._members
        }
        self._turn += 1
        return posts


def _by_receiver(replies: Mapping[str, Reply]) -> dict[str, dict[str, Blob]]:
    """Turn letters by sender and receiver into letters by receiver and sender."""
    relayed: dict[str, dict[str, Blob]] = {}
    for sender, reply in replies.items():
        if not isinstance(reply, Posted):
            raise ProtocolError(f"{sender!r} did not take its turn.")
        for receiver, letter in reply.letters.items():
            relayed.setdefault(receiver, {})[sender] = letter
    return relayed


def key_steps(parties: Iterable[str], name: str) -> tuple[Step, ...]:
    """Return the steps by which parties agree on a key: they cost and release nothing."""
    return tuple(GroupKey.ask(name=name, party=party, columns=(), price=None) for party in parties)


def agree_on_key(plan: Plan, step: str) -> Rounds:
    """Have the parties of a ``group-key`` step agree on their key, if they have not before."""
    lost = ReleaseLost(
        "The parties agreed on the key of this study before, and not all of them kept it.",
        remedy="Run the study again with the next repeat=.",
    )
    yield from settle(plan, step, GroupKey.members(plan, step), lost)


def settle(plan: Plan, step: str, members: tuple[str, ...], lost: ReleaseLost) -> Rounds:
    """Relay a conversation by which members come to keep a common key, or what follows from it, if they have not before.

    Parameters
    ----------
    plan, step, members
        What is run, and by whom.
    lost
        What is raised if only some of them kept it: it is never settled a second time.
    """
    kept = yield {member: Recall(plan=plan, step=step) for member in members}
    settled = [member for member in members if isinstance(kept[member], Settled)]
    if len(settled) == len(members):
        return
    if settled:
        raise lost
    relay = Relay(plan, step, members)
    yield from relay.greet()
    for _ in range(1, SETTLES):
        yield from relay.turn()
    replies = yield from relay.last()
    if any(not isinstance(reply, Settled) for reply in replies.values()):
        raise ProtocolError("A party did not settle on the key, or on what follows from it.")


def forget_key(plan: Plan, step: str) -> Rounds:
    """Have the parties erase a key that has done its work."""
    yield {member: Conclude(plan=plan, step=step, values={}) for member in GroupKey.members(plan, step)}
