"""One run of Newton steps at one member: members meet, columns are dealt once, then rounds at public weights.

::

    turn 0            out: hello
    turns 1 … C       in: everyone's hello (1)    out: columns, chunk by chunk, from data parties to nodes; paid for by now
    turn C+1          in: the last chunk
    each round        for each chunk of people: parts, factors, (fold,) series, and for the curvature weigh
                      open

In a turn (`colonnade.steps.newton.NewtonTurn`) a member takes the letters of the turn before and writes its own. Weights are
public and chosen by the coordinator, who may choose any: residuals and weights come from tables that bound them.

*What nobody learns.* A score is the sum of the t maskers' numbers and of the teller's, which t + 1 evaluators are told; none of
these is a masker. Any t members lack one of the numbers, and what they have is uniform. Factors, columns and every re-dealt value
stand in shares of degree t. What a round opens is masked by all data parties' noise, dealt by fresh polynomials of degree 2t, and
nothing else is ever opened.

*Why no degree check.* Exactly N = 2t + 1 nodes compute. Every reduction and every opening takes all shares, and a series takes
those of the t + 1 evaluators, which are no more than its degree needs. The argument of
`colonnade.papers.conversations` holds for each product: a data party that deals values of no low degree turns an honest party's
number into k times itself plus known terms, or into a uniform number. In the first case it could as well have dealt another
input by the book, in the second it has spoilt the round. Nodes that deal a product again are trusted to do so as written: an
error that one adds to a person's residual amplifies that person's row. So the coordinator is no node here, and statements name
the nodes (`colonnade.steps.newton`).

*Taken up again.* Every round has turns of its own, whether or not those before it were taken in this run. So in a later run the
coordinator goes on with the first round that not all nodes have kept. Its weights and its noise are the same (`RunRecords`).
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import SEED_BYTES, Member, SteppedRun, parcel_of, share_of
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Blob, Opened, Posted, Reply, pack, unpack
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.runtime.workers import Workers
from colonnade.secure import keys, sine_link
from colonnade.secure.residues import Elements
from colonnade.secure.shamir import Dealing
from colonnade.secure.sine_link import split_parts
from colonnade.steps.newton import NewtonTerms, NewtonTurn, Phase

Integers = NDArray[np.int64]

_FIRST = 3
"""The number of the first turn: what is drawn in a turn follows from its number."""
LARGEST_WEIGHT = 2.0**20


SHARES_IN_MEMORY = 1 << 28
"""Bytes of shares of columns, which every round reads, that a node keeps in memory; more of them lie in a temporary file."""


class NewtonLearner(Protocol):
    """What a data party brings to a run; a dataless node brings none."""

    def begin(self) -> None:
        """Pay, durably."""

    def take(self, weights: NDArray[np.float64]) -> None:
        """Take the weights of a round."""

    def columns(self, start: int, stop: int) -> Integers:
        """Return some people's integer rows, a column along each row."""

    def parts(self, start: int, stop: int) -> Integers:
        """Return some people's parts of the score at the round's weights, in whole steps."""

    def labels(self, start: int, stop: int) -> Integers:
        """Return some people's targets, −1 for a person without one."""

    def noise(self, number: int) -> Integers:
        """Return this party's share of the noise of a round, the same in every run."""


class NewtonLetter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One member to another: a share, as a 32-byte seed or as elements, or a holder's numbers; and a share of noise."""

    values: Blob | None = None
    noise: Blob | None = None


class NewtonRun(SteppedRun):
    """One member's side of one run."""

    terms: NewtonTerms
    _part: NewtonLearner | None

    name: ClassVar[str] = "newton"

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: NewtonLearner | None, secret: bytes
    ) -> None:
        self.terms = NewtonTerms.read(plan, step)
        super().__init__(member, plan, step, run, part=part, secret=secret)
        self._turns, self._held = self.terms.spoken_turns, len(self.terms.chunks) + 1
        self._to_self: NewtonLetter | None = None
        self._node = _Node(self.terms, self._me, member.workers) if self.point is not None else None
        self._numbers: NDArray[np.uint16] | None = None

    def follows(self, number: int, last: int) -> bool:
        """Return whether a turn may be taken after the last one: the first round of a run is any of them."""
        return super().follows(number, last) or (last == self._held and number in self.terms.first_turns)

    def _go_on(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        if number == 1 and self._part is not None:
            self._part.begin()
        if number > len(self._turns) + 1:
            raise ProtocolError("All rounds of this run were taken.", remedy="Conclude the study.")
        if number > 1 and number not in self.terms.first_turns:
            self._hear(self._turn(number - 1), number - 1, letters)
        elif letters:
            raise ProtocolError("The letters of a turn are not one from each sender.")
        if number == self._held:
            return Posted(letters={})
        turn = self._turn(number)
        self.tile, self.over = turn.round_number, number == len(self._turns) + 1
        return self._say(turn, number, inputs)

    def _turn(self, number: int) -> NewtonTurn:
        return self._turns[number - 1 - (number > self._held)]

    # A turn -------------------------------------------------------------------------------------------------------------

    def _say(self, turn: NewtonTurn, number: int, inputs: Mapping[str, Array]) -> Reply:
        takes_weights = turn.phase == Phase.PARTS and turn.chunk == 0
        if bool(inputs) != takes_weights:
            raise ProtocolError("Weights come with the first turn of a round, and with no other.")
        if takes_weights and self._part is not None:
            self._part.take(self._weights(inputs))
        if turn.phase == Phase.OPEN:
            return Posted(letters={}) if self._node is None else Opened(share=pack(self._node.opened()), own=None)
        said: dict[str, NewtonLetter] = {}
        if turn.phase == Phase.COLUMNS and self._part is not None:
            dealt = self._part.columns(*self.terms.chunks[turn.chunk])
            said = self._dealt("columns", dealt, number)
        elif turn.phase == Phase.PARTS and self._part is not None:
            said = self._split(turn, number)
        elif turn.phase == Phase.FACTORS and self._me in self.terms.maskers:
            said = self._dealt("factors", self._factors(turn), number)
        elif turn.phase == Phase.FACTORS and self._me == self.terms.teller:
            assert self._numbers is not None
            told = Blob(self._numbers.astype("<u2").tobytes())
            said = {node: NewtonLetter(values=told) for node in self.terms.evaluators}
        elif self._me in self._dealers_again(turn) and self._node is not None:
            dealing = self._dealing("again", self.terms.threshold, number)
            said = self._to_nodes(dealing, sine_link.redealt(dealing, self._node.product(turn)))
        self._to_self = said.pop(self._me, None)
        return Posted(letters={peer: self._sealed(peer, number, letter) for peer, letter in said.items()})

    def _split(self, turn: NewtonTurn, number: int) -> dict[str, NewtonLetter]:
        """Split our parts of the scores between the holders; with the last people, deal our noise to the nodes."""
        assert self._part is not None
        start, stop = self.terms.chunks[turn.chunk]
        completing = self.terms.completing(self._me)
        values = {
            holder: Blob(self._seed(f"parts {holder}", number)) for holder in self.terms.holders if holder != completing
        }
        words = np.vstack([_numbers(NewtonLetter(values=seed), stop - start) for seed in values.values()])
        rest = split_parts(self._part.parts(start, stop), words)[-1]
        values[completing] = Blob(rest.astype("<u2").tobytes())
        noise: dict[str, Blob | None] = {}
        if turn.chunk == len(self.terms.chunks) - 1:
            dealing = self._dealing("noise", 2 * self.terms.threshold, number)
            letters = self._to_nodes(dealing, dealing.shares(0, self._part.noise(turn.round_number)))
            noise = {node: letter.values for node, letter in letters.items()}
        return {peer: NewtonLetter(values=values.get(peer), noise=noise.get(peer)) for peer in self._hearers(turn)}

    def _factors(self, turn: NewtonTurn) -> Integers:
        """Look our numbers up; the first holder leaves people without a label out, and adds the labels."""
        assert self._numbers is not None
        bounds, place = self.terms.link(turn.round_number), self.terms.holders.index(self._me)
        kind = self.terms.table(turn.round_number)
        factors = bounds.factors(place, kind, self._numbers)
        if place > 0:
            return factors
        assert self._part is not None
        labels = self._part.labels(*self.terms.chunks[turn.chunk])
        held = (labels >= 0).astype(np.int64)
        offset = bounds.offset(kind) - (bounds.unit * labels if kind == "residual" else 0)
        return np.vstack([factors * held, (offset * held)[None]])

    def _hear(self, turn: NewtonTurn, number: int, letters: Mapping[str, Blob]) -> None:
        """Take the letters of the turn before."""
        senders = self._senders(turn)
        self._require(letters, senders)
        heard = {sender: self._letter(sender, number, letters) for sender in senders}
        if turn.phase == Phase.PARTS and self._me in self.terms.holders:
            self._numbers = self._summed(turn, heard)
        if self._node is not None:
            self._node.hear(turn, heard)

    def _summed(self, turn: NewtonTurn, heard: Mapping[str, NewtonLetter]) -> NDArray[np.uint16]:
        start, stop = self.terms.chunks[turn.chunk]
        total = np.zeros(stop - start, dtype=np.uint16)
        for sender, letter in heard.items():
            whole = self.terms.completing(sender) == self._me
            total += _told(letter, stop - start) if whole else _numbers(letter, stop - start)
        return total

    def _senders(self, turn: NewtonTurn) -> tuple[str, ...]:
        """Return who writes to us in a turn."""
        if self._me not in (self._hearers(turn) if turn.phase == Phase.PARTS else self.terms.nodes):
            return ()
        if turn.phase in (Phase.COLUMNS, Phase.PARTS):
            return self.terms.owners
        if turn.phase == Phase.FACTORS:
            return self.terms.holders if self._me in self.terms.evaluators else self.terms.maskers
        return self._dealers_again(turn)

    def _dealers_again(self, turn: NewtonTurn) -> tuple[str, ...]:
        if turn.phase == Phase.SERIES:
            return self.terms.evaluators
        return self.terms.nodes if turn.phase in (Phase.FOLD, Phase.WEIGH) else ()

    def _hearers(self, turn: NewtonTurn) -> tuple[str, ...]:
        """Return who is written to when parts are split."""
        last = turn.chunk == len(self.terms.chunks) - 1
        return tuple(dict.fromkeys((*self.terms.holders, *(self.terms.nodes if last else ()))))

    # Shares -------------------------------------------------------------------------------------------------------------

    def _dealt(self, what: str, values: Integers, number: int) -> dict[str, NewtonLetter]:
        dealing = self._dealing(what, self.terms.threshold, number)
        return self._to_nodes(dealing, dealing.shares(0, values.T))

    def _to_nodes(self, dealing: Dealing, shares: tuple[Elements, ...]) -> dict[str, NewtonLetter]:
        """Return one letter per node; shares at the first points but our own travel as seeds."""
        return {
            node: NewtonLetter(values=parcel_of(self.terms.arithmetic, dealing, shares, point))
            for point, node in enumerate(self.terms.nodes, start=1)
        }

    def _dealing(self, what: str, degree: int, number: int) -> Dealing:
        seed = self._seed(what, number)
        return Dealing(self.terms.arithmetic, nodes=len(self.terms.nodes), degree=degree, seed=seed, own=self.point)

    def _seed(self, what: str, number: int) -> bytes:
        spoken = number - 1 - (number > self._held) + _FIRST
        return keys.digest("colonnade newton v2", keys.subseed(self._secret, f"colonnade newton {what}"), spoken)

    def _weights(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        if set(inputs) != {"weights"}:
            raise ProtocolError("A round takes weights.")
        weights = unpack(inputs["weights"])
        if weights.dtype != np.float64 or weights.shape != (self.terms.columns,):
            raise ProtocolError("A round takes one number per weight.")
        if not np.all(np.abs(weights) <= LARGEST_WEIGHT):
            raise ProtocolError("A weight is too large, or no number.")
        return weights.astype(np.float64)

    # Letters ------------------------------------------------------------------------------------------------------------

    def _require(self, letters: Mapping[str, Blob], senders: Iterable[str]) -> None:
        if self._session is None or set(letters) != set(senders) - {self._me}:
            raise ProtocolError("The letters of a turn are not one from each sender.")

    def _letter(self, sender: str, number: int, letters: Mapping[str, Blob]) -> NewtonLetter:
        if sender != self._me:
            return self._unsealed(sender, number, letters, NewtonLetter)
        letter, self._to_self = self._to_self, None
        if letter is None:
            raise ProtocolError("A turn came before this member has said its own.")
        return letter


def _numbers(letter: NewtonLetter, people: int) -> NDArray[np.uint16]:
    """Return a uniform number per person that follows from a seed."""
    seed = letter.values
    if seed is None or len(seed) != SEED_BYTES:
        raise ProtocolError("A letter lacks the seed of a number per person.")
    return np.frombuffer(keys.SeedStream(bytes(seed.view), 0).bytes(2 * people), dtype="<u2").astype(np.uint16)


def _told(letter: NewtonLetter, people: int) -> NDArray[np.uint16]:
    """Return a number per person as a letter says it."""
    if letter.values is None or len(letter.values) != 2 * people:
        raise ProtocolError("A letter lacks a number per person.")
    return np.frombuffer(letter.values.view, dtype="<u2").astype(np.uint16)


class _Node:
    """What a compute node holds: shares of all columns, and of what the present chunk has come to."""

    def __init__(self, terms: NewtonTerms, name: str, workers: Workers | None = None) -> None:
        self._terms = terms
        self._me = name
        self._workers = workers
        self._columns = SpilledRows(terms.people, terms.columns, np.uint64, memory=SHARES_IN_MEMORY)
        self._factors: list[Elements] = []
        self._told: NDArray[np.uint16] = np.empty(0, dtype=np.uint16)
        self._running: Elements = np.empty((0, 0), dtype=np.uint64)
        self._weights: Elements = np.empty(0, dtype=np.uint64)
        self._sums: sine_link.WeightedProduct | None = None
        self._noise: list[Elements] = []

    def hear(self, turn: NewtonTurn, heard: Mapping[str, NewtonLetter]) -> None:
        """Take everyone's letters of one turn."""
        terms, people = self._terms, self._people(turn)
        if turn.phase == Phase.COLUMNS:
            shares = [self._share(heard, owner, (terms.widths[owner], people)) for owner in terms.owners]
            self._columns.append(np.concatenate(shares).reshape(people, terms.columns))  # as they are, chunk by chunk
        elif turn.phase == Phase.PARTS and heard:
            self._hear_noise(turn, heard)
        elif turn.phase == Phase.FACTORS:
            heights = [2 * terms.terms + (place == 0) for place in range(len(terms.maskers))]
            self._factors = [
                self._share(heard, masker, (height, people))
                for masker, height in zip(terms.maskers, heights, strict=True)
            ]
            self._running = self._factors[0][:-1]
            if self._me in terms.evaluators:
                self._told = _told(heard[terms.teller], people)
        elif turn.phase == Phase.FOLD:
            self._running = self._reduced(heard, (2 * terms.terms, people))
        elif turn.phase == Phase.SERIES:
            dealt = [self._share(heard, evaluator, (people,)) for evaluator in terms.evaluators]
            self._weights = terms.arithmetic.add(*dealt)
            if not terms.bends(turn.round_number):
                self._add(turn, self._weights[None])
        elif turn.phase == Phase.WEIGH:
            constant = sine_link.scaled(terms.arithmetic, self._weights, terms.scale)
            again = self._reduced(heard, (len(terms.weighed), people))
            self._add(turn, np.concatenate([constant[None], again]))

    def product(self, turn: NewtonTurn) -> Elements:
        """Return what is dealt again in this turn: a share of degree 2t, or an evaluator's part of a sum."""
        arithmetic = self._terms.arithmetic
        if turn.phase == Phase.FOLD:
            return sine_link.complex_product(arithmetic, self._running, self._factors[turn.holder])
        if turn.phase == Phase.SERIES:
            return self._series(turn)
        columns = self._shares_of(turn)[list(self._terms.weighed)]
        return sine_link.weighted_columns(arithmetic, self._weights, columns)

    def opened(self) -> Elements:
        """Return our share of the round's sums, with the noise of every data party; a node that lacks any does not open."""
        if self._sums is None or len(self._noise) != len(self._terms.owners):
            raise ProtocolError("A round is opened once, with everybody's noise.")
        sums, self._sums = self._sums, None
        noise, self._noise = self._noise, []
        return sums.masked(noise)

    def _series(self, turn: NewtonTurn) -> Elements:
        """Return our part of everyone's residual or weight: the evaluators' parts add up to it."""
        terms = self._terms
        told = terms.link(turn.round_number).factors(len(terms.maskers), terms.table(turn.round_number), self._told)
        total = sine_link.series_at(terms.arithmetic, self._running, told)
        share = terms.arithmetic.add(total, self._factors[0][-1])
        points = {node: terms.nodes.index(node) + 1 for node in terms.evaluators}
        return sine_link.own_part(terms.arithmetic, share, list(points.values()), points[self._me])

    def _hear_noise(self, turn: NewtonTurn, heard: Mapping[str, NewtonLetter]) -> None:
        if turn.chunk == len(self._terms.chunks) - 1:
            entries = (self._terms.noise.entries_of(turn.round_number),)
            self._noise = [self._share(heard, owner, entries, noise=True) for owner in self._terms.owners]

    def _add(self, turn: NewtonTurn, weighted: Elements) -> None:
        terms = self._terms
        if turn.chunk == 0:
            rows = (terms.constant, *terms.weighed) if terms.bends(turn.round_number) else None
            self._sums = sine_link.WeightedProduct(
                terms.arithmetic, rows, terms.columns, levels=terms.levels, workers=self._workers
            )
        if self._sums is None:
            raise ProtocolError("A round begins with its first people.")
        self._sums.add(weighted, self._shares_of(turn))

    def _shares_of(self, turn: NewtonTurn) -> Elements:
        """Return our shares of some people's columns, a column along each row."""
        start, stop = self._terms.chunks[turn.chunk]
        return self._columns.read(start, stop).reshape(self._terms.columns, stop - start)

    def _reduced(self, heard: Mapping[str, NewtonLetter], shape: tuple[int, ...]) -> Elements:
        nodes = enumerate(self._terms.nodes, start=1)
        shares = {point: self._share(heard, node, shape) for point, node in nodes}
        return sine_link.reduced_degree(self._terms.arithmetic, shares, self._terms.threshold)

    def _share(
        self, heard: Mapping[str, NewtonLetter], sender: str, shape: tuple[int, ...], *, noise: bool = False
    ) -> Elements:
        parcel = heard[sender].noise if noise else heard[sender].values
        if parcel is None:
            raise ProtocolError("A letter lacks a share.")
        seeded = self._terms.is_seeded(sender, self._me, (1 + noise) * self._terms.threshold)
        return share_of(self._terms.arithmetic, parcel, seeded=seeded, shape=shape)

    def _people(self, turn: NewtonTurn) -> int:
        start, stop = self._terms.chunks[turn.chunk]
        return stop - start
