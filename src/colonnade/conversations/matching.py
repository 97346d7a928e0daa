"""The parties of a plan find out who is in all of their lists (`colonnade.secure.matching`), in turns.

::

    turn 0              out: hello
    turn 1              in: everyone's hello         out: a key for each pair; the leader's first block of blinded ids
    turn j (2 … C+1)    in: the leader's block j-1   out: that block evaluated; the leader's block j
    turn C+1+d (1 … D)  in: evaluated blocks         out: block d of each party's map
    turn C+D+2          in: the last block of maps   out: the leader's tags, one per place of the row order
    turn C+D+3          in: tags                     out: the alignment's name and its public number of people, once kept

How many turns there are, who writes to whom, and how long every letter is follow from the plan and from the number of places,
which is what the coordinator is told anyway. Lists are worked through in blocks of fixed length, the filling included.

All runs of a matching are the same (`RunRecords`): nobody learns more from a second one. Everyone who keeps a row order keeps it
under the same name: a hash of the plan and of a number that each party has drawn for it and tells the others in turn 1.

Two parties agree on places for the union of their lists (`colonnade.secure.matching`), in turns.

::

    turns 1 … C+1          both: a block of blinded ids out; the block before, evaluated, back
    turns C+2 … 2C+1       both: their covered names, one block per turn
    turns 2C+2 … 3C+1      first → second: the second's names under both covers
    turns 3C+2 … 3C+1+D    second → first: the union under the first's cover
    turns 3C+2+D … 3C+1+2D first → second: the names of the union
    turn 3C+2+2D           both keep their order of rows

C blocks hold the longer list and D blocks the longest union there could be. Letters of empty blocks are sent too, so that who
writes when follows from the plan alone; how long the letters are follows from the plan and from the number of places.
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import Conversation, Meeting, Member, members_of
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import Array, Blob, Described, Posted, Reply
from colonnade.secure import keys
from colonnade.secure.matching import (
    POINT_BYTES,
    Follower,
    HiddenMap,
    Leader,
    Points,
    UnionSide,
    Words,
    drawn_order,
    hash_ids,
    padded,
    require_distinct,
)
from colonnade.steps.alignment import Matching

WORD_BYTES = 16


class ListKeeper(Protocol):
    """What a party brings: its list, and somewhere durable to keep the order of its rows."""

    def begin(self) -> list[bytes]:
        """Pay and record, durably; return this party's ids in their normal form, each once."""

    def places(self, common: int) -> int:
        """Return how many places the order has for a number of common people: what the coordinator will see."""

    def keep(self, identity: str, order: NDArray[np.int64]) -> Described:
        """Keep the order, durably, and return what is public of it."""


class MatchLetter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One party's letter to another in one turn. Absent parts are empty.

    Parameters
    ----------
    name
        First letter: the sender's part in the order's name.
    key
        First letter, to a party of a later name: the key under which the two make shares of zero.
    points
        A block of the leader's list, blinded, or as the sender evaluated it.
    salt, table
        A block of the sender's map, and how its keys are placed.
    tags
        One tag a place: which of the receiver's ids it is for.
    """

    name: bytes = b""
    key: bytes = b""
    points: Blob | None = None
    salt: int = 0
    table: Blob | None = None
    tags: Blob | None = None


class ListRun(Conversation):
    """One party's side of what parties find out about their lists.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        Our list.
    secret
        32 random bytes of this step: every key and every multiplier follows from them.
    """

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: ListKeeper | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party has a list.")
        self._matching = Matching.read(plan, step)
        self._me = member.name
        self._part = part
        self._plan = messages.digest(plan)
        self._secret = secret
        self.meeting = Meeting(member, plan, step, run, members_of(plan, step), secret)
        self._session: keys.Session | None = None
        self._names = {self._me: keys.subseed(secret, "colonnade order name")}  # everybody's part in the order's name

    @property
    def last_turn(self) -> int:
        """The turn in which the order is kept."""
        raise NotImplementedError

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:  # noqa: ARG002
        """Take one turn."""
        if number == 0:
            return self.meeting.greet()
        if number == 1:
            self._session = self.meeting.meet(letters)
            self._begin(self._part.begin())
        else:
            self._receive(number - 1, letters)
        if number > self.last_turn:
            raise ProtocolError("A turn came after the end of its conversation.")
        if number == self.last_turn:
            self.over = True
            identity = keys.digest("colonnade alignment v3", self._plan, *sorted(self._names.items())).hex()
            return self._part.keep(identity, self._found_order())
        return Posted(letters=self._compose(number))

    def _begin(self, ids: list[bytes]) -> None:
        """Take up our own ids, once everybody has been met."""
        raise NotImplementedError

    def _receive(self, turn: int, letters: Mapping[str, Blob]) -> None:
        """Open and take the letters of a turn."""
        raise NotImplementedError

    def _compose(self, turn: int) -> dict[str, Blob]:
        """Return our letters of a turn."""
        raise NotImplementedError

    def _found_order(self) -> NDArray[np.int64]:
        """Return which of our rows stands at each place."""
        raise NotImplementedError


class MatchingRun(ListRun):
    """One party's side of a matching."""

    name: ClassVar[str] = "matching"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: ListKeeper | None, secret: bytes
    ) -> None:
        super().__init__(member, plan, step, run, part=part, secret=secret)
        self._side: Leader | Follower | None = None
        self._keys: dict[str, bytes] = {}
        self._maps: dict[str, list[Words]] = {}
        self._map: HiddenMap | None = None
        self._evaluated: Points = np.empty((0, POINT_BYTES), dtype=np.uint8)
        self._order = np.empty(0, dtype=np.int64)

    @property
    def leads(self) -> bool:
        """Whether this party is the one that finds out first."""
        return self._me == self._matching.leader

    @property
    def last_turn(self) -> int:
        """The turn in which the order is kept."""
        return self._matching.last_turn

    def _begin(self, ids: list[bytes]) -> None:
        assert self._session is not None  # everybody was met
        secret = keys.Secret(keys.subseed(self._secret, "colonnade matching"))
        digests = padded(hash_ids(ids, self._plan), self._matching.capacities[self._me], secret)
        self._side = (Leader if self.leads else Follower)(digests, len(ids), secret)
        later = [peer for peer in self._session.peers if peer > self._me]
        self._keys = {peer: secret.derive("colonnade zero key v1", peer).expose() for peer in later}

    # Letters in ---------------------------------------------------------------------------------------------------------

    def _senders(self, turn: int) -> set[str]:
        """Who writes to us in a turn."""
        matching = self._matching
        others = set(matching.members) - {self._me}
        if turn == 1:
            return others
        if self.leads:
            return others if turn <= matching.rounds + matching.map_rounds + 1 else set()
        tells = turn <= matching.rounds or turn == matching.last_turn - 1
        return {matching.leader} if tells else set()

    def _open(self, turn: int, letters: Mapping[str, Blob]) -> dict[str, MatchLetter]:
        if self._session is None or set(letters) != self._senders(turn):
            raise ProtocolError("The letters of a turn are not one from each sender.")
        return {
            sender: messages.decode(self._session.open(sender, turn, 0, letters[sender].view), MatchLetter)
            for sender in sorted(letters)
        }

    def _receive(self, turn: int, sealed: Mapping[str, Blob]) -> None:
        letters = self._open(turn, sealed)
        if turn == 1:
            self._take_keys(letters)
        for sender, letter in letters.items():
            if isinstance(self._side, Leader):
                self._take_as_leader(self._side, turn, sender, letter)
            elif sender == self._matching.leader:
                self._take_as_follower(turn, letter)
        if isinstance(self._side, Follower) and turn <= self._matching.rounds:
            self._side.hash_own(*self._matching.block(self._me, turn))

    def _take_keys(self, letters: Mapping[str, MatchLetter]) -> None:
        for sender, letter in letters.items():
            if (len(letter.key) == keys.SEED_BYTES) != (sender < self._me):
                raise ProtocolError("A letter lacks a key, or holds one that it should not.")
            if sender < self._me:
                self._keys[sender] = letter.key
            self._names[sender] = letter.name

    def _take_as_leader(self, side: Leader, turn: int, sender: str, letter: MatchLetter) -> None:
        matching = self._matching
        if 2 <= turn <= matching.rounds + 1:
            start, stop = matching.block(self._me, turn - 1)
            points = _points(letter.points, stop - start)
            side.take(sender, start, points, self._fresh("check", turn, sender))
        elif turn > matching.rounds + 1:
            number = turn - matching.rounds - 1
            start, stop = matching.map_block(sender, number)
            self._maps.setdefault(sender, []).append(_words(letter.table, stop - start))
            if number == matching.map_rounds:
                table = np.concatenate(self._maps.pop(sender))
                side.read(sender, HiddenMap(letter.salt, table))

    def _take_as_follower(self, turn: int, letter: MatchLetter) -> None:
        assert isinstance(self._side, Follower)
        if turn <= self._matching.rounds:
            start, stop = self._matching.block(self._matching.leader, turn)
            points = _points(letter.points, stop - start)
            self._evaluated = self._side.evaluate(points, self._fresh("check", turn, self._matching.leader))
        elif letter.tags is None or not self._plausible(len(letter.tags) // WORD_BYTES):
            raise ProtocolError("The leader's letter has no tags, or more than there can be people.")
        else:
            self._order = self._side.rows(_words(letter.tags, len(letter.tags) // WORD_BYTES))

    def _plausible(self, places: int) -> bool:
        most = self._matching.places
        return places == most if self._matching.size == "hidden" else places <= most

    # Letters out --------------------------------------------------------------------------------------------------------

    def _compose(self, turn: int) -> dict[str, Blob]:
        parts = self._leader_parts(turn) if self.leads else self._follower_parts(turn)
        if turn == 1:
            members = [peer for peer in self._matching.members if peer != self._me]
            pair_keys = {peer: self._keys.get(peer, b"") if peer > self._me else b"" for peer in members}
            name = self._names[self._me]
            parts = {peer: {**parts.get(peer, {}), "key": pair_keys[peer], "name": name} for peer in members}
        assert self._session is not None
        return {
            peer: Blob(self._session.seal(peer, turn, 0, messages.encode(MatchLetter(**letter))))  # type: ignore[arg-type]  # each part is its own
            for peer, letter in sorted(parts.items())
        }

    def _leader_parts(self, turn: int) -> dict[str, dict[str, object]]:
        matching = self._matching
        assert isinstance(self._side, Leader)
        if turn <= matching.rounds:
            block = Blob(self._side.blinded(*matching.block(self._me, turn)).tobytes())
            return {peer: {"points": block} for peer in matching.followers}
        if turn < matching.last_turn - 1:
            return {}
        common = self._side.common(self._keys)
        drawn = drawn_order(len(common), self._part.places(len(common)), self._secret)
        self._order = (
            np.where(drawn >= 0, common[drawn], -1) if len(common) else np.full(len(drawn), -1, dtype=np.int64)
        )
        secret = keys.Secret(self._secret)
        return {
            peer: {"tags": Blob(self._side.tags(peer, self._order, secret).astype("<u8").tobytes())}
            for peer in matching.followers
        }

    def _follower_parts(self, turn: int) -> dict[str, dict[str, object]]:
        matching, leader = self._matching, self._matching.leader
        assert isinstance(self._side, Follower)
        if 2 <= turn <= matching.rounds + 1:
            return {leader: {"points": Blob(self._evaluated.tobytes())}}
        if not matching.rounds + 1 < turn < matching.last_turn - 1:
            return {}
        if self._map is None:
            self._map = self._side.write(self._keys)
        start, stop = matching.map_block(self._me, turn - matching.rounds - 1)
        table = Blob(self._map.table[start:stop].astype("<u8").tobytes())
        return {leader: {"table": table, "salt": self._map.salt}}

    def _found_order(self) -> NDArray[np.int64]:
        return self._order

    def _fresh(self, purpose: str, turn: int, peer: str) -> bytes:
        """Random bytes that no peer knows when it writes: this run's secret is ours alone."""
        return keys.subseed(self._secret, f"colonnade {purpose} {peer}", turn)


def _points(blob: Blob | None, count: int) -> Points:
    if blob is None or len(blob) != count * POINT_BYTES:
        raise ProtocolError("The number of points in a letter does not match its place.")
    return np.frombuffer(blob.view, dtype=np.uint8).reshape(count, POINT_BYTES)


def _words(blob: Blob | None, count: int) -> Words:
    if blob is None or len(blob) != count * WORD_BYTES:
        raise ProtocolError("The number of words in a letter does not match its place.")
    return np.frombuffer(blob.view, dtype="<u8").reshape(count, 2).astype(np.uint64)


EMPTY = np.empty((0, POINT_BYTES), dtype=np.uint8)


class UnionLetter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One party's letter to the other in one turn.

    Parameters
    ----------
    name
        First letter: the sender's part in the order's name.
    points
        A block of the list that this stretch of turns is about.
    evaluated
        The receiver's last block of blinded ids, as the sender evaluated it.
    """

    points: Blob
    evaluated: Blob
    name: bytes = b""


class UnionRun(ListRun):
    """One party's side of a union."""

    name: ClassVar[str] = "union"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: ListKeeper | None, secret: bytes
    ) -> None:
        super().__init__(member, plan, step, run, part=part, secret=secret)
        self._first, self._second = self._matching.capacities
        self._side: UnionSide | None = None
        self._evaluated = EMPTY
        self._outgoing: Points = EMPTY
        self._incoming: list[Points] = []
        self._twice: Points = EMPTY
        self._united: Points = EMPTY

    @property
    def last_turn(self) -> int:
        """The turn in which the order is kept."""
        return self._matching.union_last_turn

    def _begin(self, ids: list[bytes]) -> None:
        secret = keys.Secret(keys.subseed(self._secret, "colonnade union"))
        digests = padded(hash_ids(ids, self._plan), self._matching.capacities[self._me], secret)
        self._side = UnionSide(digests, len(ids), secret)

    # Letters in ---------------------------------------------------------------------------------------------------------

    def _open(self, turn: int, letters: Mapping[str, Blob]) -> UnionLetter:
        peer = self._peer
        if self._session is None or set(letters) != {peer}:
            raise ProtocolError("The letters of a turn are not one from the other party.")
        return messages.decode(self._session.open(peer, turn, 0, letters[peer].view), UnionLetter)

    def _receive(self, turn: int, letters: Mapping[str, Blob]) -> None:
        letter = self._open(turn, letters)
        side, rounds = self._joined, self._matching.rounds
        points, evaluated = _union_points(letter.points), _union_points(letter.evaluated)
        self._names.setdefault(self._peer, letter.name)
        self._check_lengths(turn, len(points), len(evaluated))
        seed = keys.subseed(self._secret, "colonnade union check", turn)
        if turn <= rounds:
            self._evaluated = side.evaluate(points, seed)
        if 2 <= turn <= rounds + 1:
            side.take_names(evaluated, seed)
        if turn > rounds + 1:
            self._incoming.append(self._received(turn, points, seed))
        if turn in self._stretch_ends():
            self._finish_stretch(turn)

    def _received(self, turn: int, points: Points, seed: bytes) -> Points:
        """What is done to a block as it comes in: covered, uncovered, or kept as it is."""
        side, rounds = self._joined, self._matching.rounds
        if turn <= 2 * rounds + 1:
            return side.cover(points, seed)
        if self._me == self._first and turn <= 3 * rounds + 1 + self._matching.union_rounds:
            return side.uncover(points, seed)
        return points

    def _finish_stretch(self, turn: int) -> None:
        """Everything of a stretch is in: make the list that goes out in the next, and start afresh."""
        side, rounds, union = self._joined, self._matching.rounds, self._matching.union_rounds
        whole = np.concatenate([EMPTY, *self._incoming])
        require_distinct(whole)
        self._incoming = []
        self._outgoing = EMPTY
        if turn == rounds + 1:
            self._outgoing = side.covered_names()
        elif turn == 2 * rounds + 1:
            self._twice = whole
            self._outgoing = side.shuffle(whole, "other's names") if self._me == self._first else EMPTY
        elif turn == 3 * rounds + 1 and self._me == self._second:
            places = None if self._matching.size == "public" else sum(self._matching.capacities.values())
            fill = keys.subseed(self._secret, "colonnade union own check")
            self._outgoing = side.united(whole, self._twice, places, fill)
        elif turn == 3 * rounds + 1 + union and self._me == self._first:
            self._outgoing = self._united = side.shuffle(whole, "names")
        elif turn == 3 * rounds + 1 + 2 * union and self._me == self._second:
            self._united = whole

    def _stretch_ends(self) -> tuple[int, ...]:
        rounds, union = self._matching.rounds, self._matching.union_rounds
        return (rounds + 1, 2 * rounds + 1, 3 * rounds + 1, 3 * rounds + 1 + union, 3 * rounds + 1 + 2 * union)

    def _check_lengths(self, turn: int, points: int, evaluated: int) -> None:
        """Refuse a block of another length than its place; of the union, one that is longer than a block."""
        terms, rounds = self._matching, self._matching.rounds
        start, stop = terms.block(self._me, turn - 1) if 2 <= turn <= rounds + 1 else (0, 0)
        if evaluated != stop - start:
            raise ProtocolError("The number of points in a letter does not match its place.")
        if turn <= 3 * rounds + 1:
            start, stop = self._expected(turn)
            if points != stop - start:
                raise ProtocolError("The number of points in a letter does not match its place.")
        elif points > terms.points_per_block:
            raise ProtocolError("A letter holds more points than a block.")

    def _expected(self, turn: int) -> tuple[int, int]:
        """Where the block begins and ends that the other party sends in a turn before the union is known."""
        terms, rounds = self._matching, self._matching.rounds
        if turn <= rounds:
            return terms.block(self._peer, turn)
        if turn == rounds + 1:
            return 0, 0
        if turn <= 2 * rounds + 1:
            return terms.block(self._peer, turn - rounds - 1)
        return terms.block(self._me, turn - 2 * rounds - 1) if self._me == self._second else (0, 0)

    # Letters out --------------------------------------------------------------------------------------------------------

    def _compose(self, turn: int) -> dict[str, Blob]:
        assert self._session is not None
        points, evaluated = self._block(turn), self._evaluated if turn <= self._matching.rounds + 1 else EMPTY
        name = self._names[self._me] if turn == 1 else b""
        letter = UnionLetter(points=Blob(points.tobytes()), evaluated=Blob(evaluated.tobytes()), name=name)
        return {self._peer: Blob(self._session.seal(self._peer, turn, 0, messages.encode(letter)))}

    def _block(self, turn: int) -> Points:
        terms, rounds = self._matching, self._matching.rounds
        if turn <= rounds:
            return self._joined.blinded(*terms.block(self._me, turn))
        starts = [1, *(end + 1 for end in self._stretch_ends())]
        begun = max(start for start in starts if start <= turn)
        size = terms.points_per_block
        return self._outgoing[(turn - begun) * size : (turn - begun + 1) * size]

    def _found_order(self) -> NDArray[np.int64]:
        if len(self._united) > sum(self._matching.capacities.values()):
            raise ProtocolError("The union is longer than both lists together.")
        return self._joined.order(self._united)

    @property
    def _peer(self) -> str:
        return self._second if self._me == self._first else self._first

    @property
    def _joined(self) -> UnionSide:
        assert self._side is not None  # turn 1 comes first
        return self._side


def _union_points(blob: Blob) -> Points:
    if len(blob) % POINT_BYTES:
        raise ProtocolError("A letter holds a part of a point.")
    return np.frombuffer(blob.view, dtype=np.uint8).reshape(-1, POINT_BYTES)
