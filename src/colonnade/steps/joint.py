"""Joint openings: products of parties' columns, worked out on secret shares and opened once, with noise in shares.

What a party contributes is integer rows to be shared, noise for every entry between two parties, and a part of its own,
noised by it alone. How rows are shared, multiplied and opened is said in `colonnade.conversations.products`. The debit is a
reservation: durable before the first share leaves, it keeps the seed of this party's noise. A run that was cut short is taken
up again with the same noise and fresh shares.

Every member reads the same plan and arrives at the same terms, or refuses. Nothing in them is private.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch, PolicyRefusal
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws.shared import SharedNoise
from colonnade.protocol import codec
from colonnade.protocol.agreement import FederationAgreement
from colonnade.result import COORDINATOR, COORDINATOR_ALONE, Opening
from colonnade.secure.residues import Arithmetic, gram_bound
from colonnade.secure.shamir import Rectangle, check_repetitions, cut, rectangles, require_threshold, seeded_points
from colonnade.steps.kind import (
    HELLO,
    LETTER,
    LOSS,
    SEED,
    SMALL,
    Channel,
    Forecast,
    NoiseWords,
    StepKind,
    Steps,
    WholeStep,
    kind_of,
    price_words,
)
from colonnade.steps.terms import whole_parameter

OPENED_AT_ONCE = (1 << 28) - (1 << 16)
"""Bytes of what a step opens, all parties' own parts included, up to which it is opened and kept at once."""
TILE_ENTRIES = 1 << 23
"""Entries that are opened at a time beyond that."""
HELD_SHARES = 1 << 31
"""Bytes of shares that a compute node holds at most while it opens tile after tile."""
CHUNK_ELEMENTS = 1 << 20
CHUNK_UNIT = 8_192
WORD = 8

SECURE = (
    "At most {threshold} of the compute nodes {nodes} pool their shares. "
    "Noise covers {collusion} colluding data part{ies}. "
    "Parties are semi-honest in their inputs: one that shares unclipped values could amplify another's row past the noise."
)
THIRD = f"The coordinator is itself a compute node. The guarantee {COORDINATOR_ALONE}."


@dataclass(frozen=True)
class HashedStep:
    """A step of a plan, compared by the plan's hash: equal hashes, equal plans. It is what readers of plans remember by."""

    digest: bytes
    name: str
    plan: Plan = field(compare=False)


@dataclass(frozen=True)
class Tile:
    """What is opened at a time.

    Parameters
    ----------
    blocks
        Which products, in their order.
    entries
        How many numbers are opened of them.
    own
        Which of each party's own numbers go with them.
    """

    blocks: tuple[Rectangle, ...]
    entries: int
    own: slice


@dataclass(frozen=True)
class Joint:
    """The terms of one joint opening.

    Parameters
    ----------
    steps
        The steps of the data parties that share rows, by party, in the plan's order.
    widths
        How many columns each of them shares.
    noise
        How much noise, and what it costs which observer.
    nodes, threshold
        The compute nodes in the order of their points 1 … N, and t.
    people
        How many rows.
    largest, largest_other
        The largest magnitude of a shared integer, and of what it is multiplied by.
    fold
        Which products are added up before they are opened, by the place of their sum; ``None`` where each is opened by itself.
    sums
        How many sums there are then.
    redealt
        How many values per person the nodes deal again, where products are multiplied once more.
    preceding
        How many turns its conversation has before those of a plain product.
    givers
        Data parties that share no rows and add to what the others share.
    own_entries
        How many numbers each party releases of its own columns, noised by it alone.
    """

    steps: Mapping[str, Step]
    widths: list[int]
    noise: SharedNoise
    nodes: tuple[str, ...]
    threshold: int
    people: int
    largest: int
    largest_other: int
    fold: NDArray[np.int64] | None = None
    sums: int = 0
    redealt: int = 0
    preceding: int = 0
    givers: tuple[str, ...] = ()
    own_entries: Mapping[str, int] = field(default_factory=dict)

    @property
    def owners(self) -> tuple[str, ...]:
        """The data parties that share rows, in the plan's order."""
        return tuple(self.steps)

    @property
    def data_parties(self) -> tuple[str, ...]:
        """The owners and the givers."""
        return (*self.owners, *self.givers)

    @property
    def turns(self) -> int:
        """How many turns a run has before the first that opens, the greeting not counted."""
        return len(self.chunks) + 2 + self.preceding

    @cached_property
    def entries(self) -> int:
        """How many entries are opened: products between two parties, or sums of them."""
        return sum(one.entries for one in rectangles(self.widths)) if self.fold is None else self.sums

    @property
    def opened_bytes(self) -> int:
        """How large all that is opened is."""
        return WORD * (self.entries + sum(self.own_entries.values()))

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """What is opened at a time: everything, unless that is more than is kept at once."""
        if self.opened_bytes <= OPENED_AT_ONCE or self.fold is not None:
            return (Tile(tuple(rectangles(self.widths)), self.entries, slice(None)),)
        blocks: list[tuple[Rectangle, ...]] = [(tile,) for tile in cut(self.widths, TILE_ENTRIES)]
        own = -(-max(self.own_entries.values(), default=0) // TILE_ENTRIES)
        blocks += [()] * (own - len(blocks))
        return tuple(
            Tile(some, sum(one.entries for one in some), slice(place * TILE_ENTRIES, (place + 1) * TILE_ENTRIES))
            for place, some in enumerate(blocks)
        )

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Everyone who takes part, in canonical order."""
        return tuple(sorted({*self.data_parties, *self.nodes}))

    @cached_property
    def hub(self) -> frozenset[str]:
        """The members of whom every letter is from or to one: the nodes, and owners that givers write to."""
        return frozenset((*self.nodes, *(self.owners if self.givers else ())))

    def seeded(self, owner: str) -> tuple[int, ...]:
        """Return the points to which an owner's rows travel as seeds."""
        return seeded_points(self.threshold, self.nodes.index(owner) + 1 if owner in self.nodes else None)

    @cached_property
    def bound(self) -> int:
        """No opened integer exceeds this (`colonnade.secure.residues.gram_bound`)."""
        reached = self.people * self.largest * self.largest_other
        return gram_bound(reached, 1, self._tail_variance())

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """The cheapest arithmetic in which nothing can wrap: the headroom proof, when the plan is read."""
        return Arithmetic.for_headroom(self.bound, len(self.nodes))

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Ranges of rows that are shared at a time, so that memory stays bounded."""
        rows = max(1, CHUNK_ELEMENTS // (sum(self.widths) + self.redealt) // CHUNK_UNIT) * CHUNK_UNIT
        return [(start, min(start + rows, self.people)) for start in range(0, self.people, rows)]

    def _tail_variance(self) -> int:
        """A Laplace tail is exponential: P(|x| > z) = e^(-z/b), so 128·b per share covers what √(256·V) covers elsewhere."""
        if self.noise.family == "laplace":
            return 64 * math.ceil(self.noise.share * len(self.steps)) ** 2
        return math.ceil(self.noise.opened_variance)


class JointStep(StepKind):
    """A step that is opened jointly. A subclass says what its noise is and how large its integers are."""

    channel: ClassVar[Channel] = Channel.SHARES
    conversation: ClassVar[str] = "products"
    together: ClassVar[bool] = True
    in_tiles: ClassVar[bool] = False
    """Whether it may be opened in tiles: its noise can be drawn so."""
    joint: Joint

    @classmethod
    def read(cls, plan: Plan, name: str) -> Joint:
        """Read a joint opening from a plan; refuse one that could not keep its promise. A plan is read once."""
        hashed = HashedStep(codec.digest(plan), name, plan)
        return _read(cls, hashed)  # type: ignore[arg-type]  # mypy takes a class for one without a hash

    @classmethod
    def terms(cls, plan: Plan, steps: Steps) -> Joint:
        """Return the terms that the parties' steps describe together."""
        largest, other = cls.largest(plan, steps)
        joint = Joint(
            steps=steps,
            widths=[whole_parameter(step.parameters, "width") for step in steps.values()],
            noise=cls.noise(plan, steps),
            nodes=plan.compute_nodes,
            threshold=plan.threshold,
            people=plan.people,
            largest=largest,
            largest_other=other,
            own_entries=cls.own_entries(steps),
        )
        cls.require_room(joint)
        return joint

    @classmethod
    def require_room(cls, joint: Joint) -> None:
        """Refuse what the members could not keep or hold, before anything is paid."""
        opened, columns = joint.opened_bytes // WORD, sum(joint.widths)
        if joint.opened_bytes > OPENED_AT_ONCE and not cls.in_tiles:
            raise BadInput(
                f"This step would open {opened:,} numbers, more than a party keeps of one step.",
                remedy="Ask for fewer columns or levels.",
            )
        held, fitting = WORD * joint.people * columns, HELD_SHARES // WORD // joint.people
        if len(joint.tiles) > 1 and held > HELD_SHARES:
            raise BadInput(
                f"A matrix of {columns:,} columns is opened in tiles, and every compute node would hold {held:,} bytes of shares "
                "meanwhile, more than it may.",
                remedy=f"Ask for at most {fitting:,} columns of so many people, or for fewer than 8,000, which are opened at "
                "once.",
            )

    @classmethod
    def held_in(cls, plan: Plan, name: str) -> str:
        """Return the conversation: that of tiles, if it is opened in more than one."""
        return "tiles" if cls.tiles_of(plan, name) > 1 else cls.conversation

    @classmethod
    def tiles_of(cls, plan: Plan, name: str) -> int:
        """Return in how many tiles it is opened."""
        return len(cls.read(plan, name).tiles)

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return how much noise the opening has."""
        raise NotImplementedError

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:
        """Return the largest magnitudes of two shared integers that are multiplied."""
        scale = max(whole_parameter(step.parameters, "scale") for step in steps.values())
        return scale, scale

    @classmethod
    def own_entries(cls, steps: Steps) -> dict[str, int]:
        """Return how many numbers each party releases of its own columns."""
        return {}

    @classmethod
    def one_price(cls, steps: Steps) -> bool:
        """Return whether all parties must be offered the same price."""
        return True

    @property
    def loss(self) -> Loss:
        """The full loss of the opening; for the party unit, that of this party's part of a record."""
        loss = self.joint.noise.loss(party=self._owner)
        assert loss is not None  # with no more colluders than the plan allows, noise is left
        return loss

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return who takes part. The arithmetic is chosen here, so a plan in which something could wrap is refused."""
        plan.require_named()
        joint = cls.read(plan, name)
        joint.arithmetic  # noqa: B018  # the headroom proof
        return joint.members

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return one opening, whose loss grows with the colluders beyond those that the noise covers."""
        joint = cls.read(whole.plan, whole.name)
        counts = range(len(joint.data_parties))
        return (
            Opening(
                mechanism=title,
                scope=joint.data_parties,
                losses=tuple(joint.noise.loss(colluders=count) for count in counts),
                party_losses={
                    owner: tuple(joint.noise.loss(colluders=count, party=owner) for count in counts)
                    for owner in joint.data_parties
                },
                replaced=tuple(joint.noise.replaced_loss(colluders=count) for count in counts),
                nodes=joint.nodes,
                threshold=joint.threshold,
            ),
        )

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what is assumed of compute nodes, colluders and inputs."""
        return secure_words(whole.plan, whole.plan.collusion)

    @classmethod
    def noise_words(cls, whole: WholeStep) -> tuple[NoiseWords, ...]:
        """Return the noise of an opened entry."""
        first = whole.first
        joint = cls.read(whole.plan, first.name)
        noise = joint.noise
        sensitivity, scale = noise.describe()
        return (
            NoiseWords(
                step=first.name,
                parties=tuple(whole.steps),
                kind=cls.name,
                mechanism=(
                    f"{noise.family} noise in shares of {len(joint.steps)} parties, "
                    f"enough without {whole.plan.collusion} of them"
                ),
                sensitivity=sensitivity,
                scale=scale,
                price=price_words(first),
                proof=type(noise),
            ),
        )

    @classmethod
    def forecast(cls, whole: WholeStep, forecast: Forecast, *, kept: bool) -> bool:
        """Add the rounds of a joint opening: recall, greet, one turn per chunk and three more, conclude."""
        forecast_opening(cls.read(whole.plan, whole.name), forecast, kept=kept)
        return True


def read_joint(plan: Plan, name: str) -> Joint:
    """Read a joint opening from a plan."""
    kinds = {kind_of(step) for step in plan.steps if step.name == name}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not issubclass(kind, JointStep):
        raise PlanMismatch("A joint step is one kind of step at two or more parties.")
    return kind.read(plan, name)


def check_nodes(plan: Plan) -> None:
    """Refuse a plan whose compute nodes could not keep its promise."""
    nodes = plan.compute_nodes
    if len(set(nodes)) != len(nodes):
        raise PlanMismatch("A compute node is named twice.")
    require_threshold(len(nodes), plan.threshold)
    if not 0 <= plan.collusion <= plan.threshold:
        raise NotEnoughComputeNodes("The collusion bound exceeds the threshold of the secret sharing.")


@dataclass(frozen=True)
class SharingFloor:
    """The least that a federation, or one party's policy, asks of every plan that computes on shares.

    The numbers are absolute: they do not depend on how many members a plan happens to name.

    Parameters
    ----------
    threshold
        At least so many compute nodes together learn nothing.
    collusion
        The noise covers at least so many colluding data parties, or all but one of the plan's: a larger coalition has all the
        data.
    nodes
        Who may compute; ``None`` for every member.
    """

    threshold: int = 1
    collusion: int = 0
    nodes: frozenset[str] | None = None

    @classmethod
    def of_papers(cls, papers: FederationAgreement) -> "SharingFloor":
        """Return what a federation's papers ask for."""
        return cls(papers.threshold, papers.collusion, frozenset(papers.computing))

    def check(self, plan: Plan, asker: str) -> None:
        """Refuse a plan below the floor. ``asker`` says in words whose floor it is."""
        if plan.threshold < self.threshold:
            raise PolicyRefusal(
                f"The plan's threshold is below {self.threshold}, the least that {asker} asks for.",
                remedy=f"Let at least {2 * self.threshold + 1} compute nodes take part.",
            )
        if plan.collusion < min(self.collusion, len(plan.parties) - 1):
            raise PolicyRefusal(
                f"The plan's noise covers fewer colluding parties than {asker} asks for.",
                remedy=f"Open the federation with collusion={self.collusion}.",
            )
        if self.nodes is not None and not set(plan.compute_nodes) <= self.nodes:
            raise PolicyRefusal(f"The plan names a compute node that {asker} does not accept.")


NO_FLOOR = SharingFloor()
"""What every plan on shares has to reach: a threshold of one."""


def shared_price(steps: Steps) -> Price:
    """Return the price of a joint opening."""
    price = next(iter(steps.values())).price
    if price is None:
        raise PlanMismatch("A joint opening has a price.")
    return price


def secure_words(plan: Plan, collusion: int) -> tuple[str, ...]:
    """Return what a computation on shares assumes, in words."""
    words = SECURE.format(
        threshold=plan.threshold,
        nodes=", ".join(plan.compute_nodes),
        collusion=collusion,
        ies="y" if collusion == 1 else "ies",
    )
    return (words, THIRD) if COORDINATOR in plan.compute_nodes else (words,)


@lru_cache(maxsize=64)
def _read(kind: type[JointStep], hashed: HashedStep) -> Joint:
    plan, name = hashed.plan, hashed.name
    steps = {step.party: step for step in plan.steps if step.name == name}
    if len(steps) < 2 or any(step.kind != kind.name for step in steps.values()):
        raise PlanMismatch("A joint step is one kind of step at two or more parties.")
    if kind.one_price(steps) and len({step.price for step in steps.values()}) != 1:
        raise PlanMismatch("The parties of a joint step are offered different prices.")
    check_nodes(plan)
    return kind.terms(plan, steps)


GIVEN = 2
"""Bytes per person in a letter of a giver (`colonnade.conversations.products`)."""


def forecast_opening(joint: "Joint", forecast: Forecast, *, kept: bool) -> None:
    """Add the rounds of a joint opening: recall, greet, one turn per chunk and three more, conclude."""
    if len(joint.tiles) > 1:
        _forecast_tiles(joint, forecast, kept=kept)
        return
    answer = joint.opened_bytes
    if kept:
        forecast.round(dict.fromkeys(joint.members, SMALL), dict.fromkeys(joint.owners, answer + LOSS + SMALL))
        if nodes := set(joint.members) - set(
            joint.data_parties
        ):  # they cannot say that they have forgotten their secrets
            forecast.round(dict.fromkeys(nodes, SMALL), dict.fromkeys(nodes, SMALL // 2))
        return
    arriving = _forecast_sharing(joint, forecast)
    forecast.round(arriving, _opened(joint, joint.tiles[0]))
    concluded = dict.fromkeys(joint.owners, answer + SMALL)
    forecast.round(concluded, dict.fromkeys(joint.owners, answer + LOSS + SMALL))


def _forecast_sharing(joint: "Joint", forecast: Forecast) -> dict[str, int]:
    """Add the rounds up to the degree checks; return what the members are sent next."""
    members = joint.members
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, SMALL // 2))
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, HELLO + SMALL))
    arriving = dict.fromkeys(members, len(members) * HELLO)
    if joint.preceding:
        sent, received = _given_letters(joint, forecast)
        forecast.round(arriving, {member: size + SMALL for member, size in sent.items()})
        arriving = received
    for turn in range(1, len(joint.chunks) + 3):
        sent, received = _letters(joint, forecast, turn)
        forecast.round(arriving, {member: size + SMALL for member, size in sent.items()})
        arriving = received
    return arriving


def _opened(joint: "Joint", tile: "Tile") -> dict[str, int]:
    """Return the bytes that each member opens with a tile."""
    own = {member: len(range(*tile.own.indices(entries))) for member, entries in joint.own_entries.items()}
    return {
        member: SMALL + WORD * (tile.entries if member in joint.nodes else 0) + WORD * own.get(member, 0)
        for member in joint.members
    }


def _forecast_tiles(joint: "Joint", forecast: Forecast, *, kept: bool) -> None:
    """Add the rounds of an opening in tiles: three for each, or one if it was kept."""
    members = joint.members
    if not kept:
        forecast.round(_forecast_sharing(joint, forecast), dict.fromkeys(members, SMALL // 2))
    for tile in joint.tiles:
        if not kept:
            sent, received = _noise_letters(joint, forecast, tile)
            forecast.round(dict.fromkeys(members, SMALL), {name: size + SMALL for name, size in sent.items()})
            forecast.round(received, dict.fromkeys(members, SMALL // 2))
        forecast.round(dict.fromkeys(members, SMALL), _opened(joint, tile))
    forecast.round(dict.fromkeys(joint.owners, SMALL), dict.fromkeys(joint.owners, LOSS + SMALL))


def _noise_letters(joint: "Joint", forecast: Forecast, tile: "Tile") -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of noise by sender and by receiver."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for sender in joint.owners:
        for point, node in enumerate(joint.nodes, start=1):
            if node != sender:
                seeded = point <= 2 * joint.threshold
                size = LETTER + (SEED if seeded else joint.arithmetic.packed_size(tile.entries))
                forecast.letter(sender, node, size)
                sent[sender] += size
                received[node] += size
    return sent, received


def _given_letters(joint: "Joint", forecast: Forecast) -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of what givers write to the owners, by sender and by receiver."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for giver in joint.givers:
        for owner in joint.owners:
            size = LETTER + GIVEN * joint.people
            forecast.letter(giver, owner, size)
            sent[giver] += size
            received[owner] += size
    return sent, received


def _letters(joint: "Joint", forecast: Forecast, turn: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of letters by sender and by receiver in one turn."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for sender in joint.members:
        for point, node in enumerate(joint.nodes, start=1):
            if node != sender and (size := _letter(joint, sender, point, turn)):
                forecast.letter(sender, node, size)
                sent[sender] += size
                received[node] += size
    if turn == 1:
        for member in joint.members:
            if member not in joint.hub:
                received[member] += len(joint.nodes) * LETTER
        for node in joint.nodes:
            sent[node] += sum(member not in joint.hub for member in joint.members) * LETTER
    return sent, received


def _letter(joint: "Joint", sender: str, point: int, turn: int) -> int:
    deals, computes = sender in joint.owners and turn <= len(joint.chunks), sender in joint.nodes
    if not (deals or computes):
        return 0
    packed, t = joint.arithmetic.packed_size, joint.threshold
    repetitions, size = check_repetitions(joint.arithmetic), LETTER
    if deals and turn == 1:
        size += 2 * SEED
        if len(joint.tiles) == 1:
            size += SEED if point <= 2 * t else packed(joint.entries)
    if deals and point not in joint.seeded(sender):
        start, stop = joint.chunks[turn - 1]
        size += packed((stop - start) * joint.widths[joint.owners.index(sender)])
    if computes:
        size += 2 * SEED if turn == 2 else SEED
    if computes and joint.redealt and 2 <= turn <= len(joint.chunks) + 1:
        start, stop = joint.chunks[turn - 2]
        size += SEED if point <= t else packed((stop - start) * joint.redealt)
    if computes and turn == len(joint.chunks) + 2:
        size += len(joint.owners) * (packed(repetitions) + 12)
    return size
