"""Relaying conversations: the coordinator passes sealed letters on, turn by turn, and combines what was opened.

Products on shares, sums under masks and key agreements are relayed in the same way. Only the last turn differs.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.agreements import SETTLES
from colonnade.conversations.products import BEATS
from colonnade.conversations.sums import chunks_of
from colonnade.errors import ProtocolError
from colonnade.plan import Plan, Step
from colonnade.protocol import messages
from colonnade.result import COORDINATOR
from colonnade.secure.shamir import reconstruct
from colonnade.steps.joint import Joint, read_joint
from colonnade.steps.local import GroupKey
from colonnade.steps.sums import SumTerms


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
            relay.next_turn += BEATS * first  # each tile has turns of its own, and those before were opened
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
            raise ProtocolError(f"{node!r} opened a share of another shape.")
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
        raise ProtocolError("The kept answer of a joint step is of another shape.")
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


def relay_sum(
    plan: Plan, step: str, length: int, inputs: Mapping[str, messages.Array] | None = None
) -> messages.Rounds:
    """Run a secure sum that is opened to one of its parties. The coordinator relays letters that it cannot read."""
    terms = SumTerms.read(plan, step)
    relay = Relay(plan, step, terms.owners)
    yield from relay.greet()
    for number, _ in enumerate(chunks_of(length)):
        yield from relay.turn(inputs if number == 0 else None)
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
