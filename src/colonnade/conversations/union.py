"""Two parties agree on places for the union of their lists (`colonnade.secure.union`), in turns.

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
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import Conversation, Meeting, Member, members_of
from colonnade.conversations.matching import ListKeeper
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Blob, Posted, Reply
from colonnade.secure import keys, mail
from colonnade.secure.matching import POINT_BYTES, Points, hash_ids, padded
from colonnade.secure.union import UnionSide, require_distinct
from colonnade.steps.alignment import Matching

__all__ = ["UnionRun"]

EMPTY = np.empty((0, POINT_BYTES), dtype=np.uint8)


class UnionLetter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One party's letter to the other in one turn.

    Parameters
    ----------
    points
        A block of the list that this stretch of turns is about.
    evaluated
        The receiver's last block of blinded ids, as the sender evaluated it.
    """

    points: Blob
    evaluated: Blob


class UnionRun(Conversation):
    """One party's side.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        Our list.
    secret
        32 fresh random bytes, for this run only.
    """

    name: ClassVar[str] = "union"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: ListKeeper | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party has a list.")
        self._terms = Matching.read(plan, step)
        self._me = member.name
        self._first, self._second = self._terms.capacities
        self._part = part
        self._plan = codec.digest(plan)
        self._secret = secret
        self._meeting = Meeting(member, plan, step, run, members_of(plan, step), secret)
        self._session: mail.Session | None = None
        self._side: UnionSide | None = None
        self._evaluated = EMPTY
        self._outgoing: Points = EMPTY
        self._incoming: list[Points] = []
        self._twice: Points = EMPTY
        self._names: Points = EMPTY

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:  # noqa: ARG002
        """Take one turn."""
        if number == 0:
            return self._meeting.greet()
        if number == 1:
            self._begin(letters)
        else:
            self._take(number - 1, self._open(number - 1, letters))
        if number > self._terms.union_last_turn:
            raise ProtocolError("A turn after the end of a conversation.")
        if number == self._terms.union_last_turn:
            self.over = True
            assert self._session is not None
            identity = keys.digest("colonnade union v1", self._plan, self._session.transcript).hex()
            return self._part.keep(identity, self._order())
        if number == self._terms.telling_turn:
            self._part.tell()
        return Posted(letters=self._compose(number))

    def _begin(self, hellos: Mapping[str, Blob]) -> None:
        self._session = self._meeting.meet(hellos)
        ids = self._part.begin()
        secret = keys.Secret(keys.subseed(self._secret, "colonnade union"))
        digests = padded(hash_ids(ids, self._plan), self._terms.capacities[self._me], secret)
        self._side = UnionSide(digests, len(ids), secret)

    # Letters in ---------------------------------------------------------------------------------------------------------

    def _open(self, turn: int, letters: Mapping[str, Blob]) -> UnionLetter:
        peer = self._peer
        if self._session is None or set(letters) != {peer}:
            raise ProtocolError("The letters of a turn are not one from the other party.")
        return codec.decode(self._session.open(peer, turn, 0, letters[peer].view), UnionLetter)

    def _take(self, turn: int, letter: UnionLetter) -> None:
        side, rounds = self._joined, self._terms.rounds
        points, evaluated = _points(letter.points), _points(letter.evaluated)
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
        side, rounds = self._joined, self._terms.rounds
        if turn <= 2 * rounds + 1:
            return side.cover(points, seed)
        if self._me == self._first and turn <= 3 * rounds + 1 + self._terms.union_rounds:
            return side.uncover(points, seed)
        return points

    def _finish_stretch(self, turn: int) -> None:
        """Everything of a stretch is in: make the list that goes out in the next, and start afresh."""
        side, rounds, union = self._joined, self._terms.rounds, self._terms.union_rounds
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
            places = None if self._terms.size == "public" else sum(self._terms.capacities.values())
            fill = keys.subseed(self._secret, "colonnade union own check")
            self._outgoing = side.united(whole, self._twice, places, fill)
        elif turn == 3 * rounds + 1 + union and self._me == self._first:
            self._outgoing = self._names = side.shuffle(whole, "names")
        elif turn == 3 * rounds + 1 + 2 * union and self._me == self._second:
            self._names = whole

    def _stretch_ends(self) -> tuple[int, ...]:
        rounds, union = self._terms.rounds, self._terms.union_rounds
        return (rounds + 1, 2 * rounds + 1, 3 * rounds + 1, 3 * rounds + 1 + union, 3 * rounds + 1 + 2 * union)

    def _check_lengths(self, turn: int, points: int, evaluated: int) -> None:
        """Refuse a block of another length than its place; of the union, one that is longer than a block."""
        terms, rounds = self._terms, self._terms.rounds
        start, stop = terms.block(self._me, turn - 1) if 2 <= turn <= rounds + 1 else (0, 0)
        if evaluated != stop - start:
            raise ProtocolError("A letter holds another number of points than its place.")
        if turn <= 3 * rounds + 1:
            start, stop = self._expected(turn)
            if points != stop - start:
                raise ProtocolError("A letter holds another number of points than its place.")
        elif points > terms.points_per_block:
            raise ProtocolError("A letter holds more points than a block.")

    def _expected(self, turn: int) -> tuple[int, int]:
        """Where the block begins and ends that the other party sends in a turn before the union is known."""
        terms, rounds = self._terms, self._terms.rounds
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
        points, evaluated = self._block(turn), self._evaluated if turn <= self._terms.rounds + 1 else EMPTY
        letter = UnionLetter(points=Blob(points.tobytes()), evaluated=Blob(evaluated.tobytes()))
        return {self._peer: Blob(self._session.seal(self._peer, turn, 0, codec.encode(letter)))}

    def _block(self, turn: int) -> Points:
        terms, rounds = self._terms, self._terms.rounds
        if turn <= rounds:
            return self._joined.blinded(*terms.block(self._me, turn))
        starts = [1, *(end + 1 for end in self._stretch_ends())]
        begun = max(start for start in starts if start <= turn)
        size = terms.points_per_block
        return self._outgoing[(turn - begun) * size : (turn - begun + 1) * size]

    def _order(self) -> NDArray[np.int64]:
        if len(self._names) > sum(self._terms.capacities.values()):
            raise ProtocolError("The union is longer than both lists together.")
        return self._joined.order(self._names)

    @property
    def _peer(self) -> str:
        return self._second if self._me == self._first else self._first

    @property
    def _joined(self) -> UnionSide:
        assert self._side is not None  # turn 1 comes first
        return self._side


def _points(blob: Blob) -> Points:
    if len(blob) % POINT_BYTES:
        raise ProtocolError("A letter holds a part of a point.")
    return np.frombuffer(blob.view, dtype=np.uint8).reshape(-1, POINT_BYTES)
