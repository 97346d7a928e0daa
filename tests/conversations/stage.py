"""Runs among made-up members, without guards or ledgers: the coordinator's part is played here, and can be played badly."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import Member
from colonnade.conversations.products import Dealer, ProductLetter, ProductRun
from colonnade.errors import ColonnadeError
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Blob, Greeted, Opened, Posted, Reply, unpack
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.secure.residues import Elements
from colonnade.secure.shamir import Dealing, default_threshold, entry_pairs, reconstruct
from colonnade.steps.kind import Joint, read_joint
from tests import kit

FEDERATION = "f0" * 32
STEP = "moments"
RUN = b"one run of many."

NAMES = ("ana", "bo", "cy", "dee", "eva", "flo", "gus", "hal")

SIZES = [(nodes, threshold) for nodes in range(3, 9) for threshold in range(1, (nodes - 1) // 2 + 1)]

Letters = dict[str, dict[str, Blob]]
Relay = Callable[[int, Letters], Letters]


def seed(*words: object) -> bytes:
    return hashlib.sha256(repr(words).encode()).digest()


@lru_cache
def _identity(name: str) -> Identity:
    return Identity.from_seed(seed("identity", name))


def members(names: Sequence[str]) -> dict[str, Member]:
    pinned = {name: PublicIdentity(_identity(name).public) for name in names}
    return {name: Member(name, _identity(name), pinned) for name in names}


def a_plan(
    widths: Mapping[str, int],
    *,
    nodes: Sequence[str] = NAMES[:3],
    threshold: int | None = None,
    people: int = 5,
    scale: int = 1,
    collusion: int = 1,
    kind: str = "gram",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    steps: Sequence[Step] = (),
    **changes: object,
) -> Plan:
    """A plan with one joint step; owners in the order of ``widths``."""
    price = Price.of(epsilon, delta)

    def parameters(width: int) -> dict[str, int]:
        gram = {"scale": scale, "row_bound": width * scale**2}
        return {"width": width} | (gram if kind == "gram" else {})

    own = [
        Step(name=STEP, party=party, kind=kind, columns=("x",), parameters=parameters(width), price=price)
        for party, width in widths.items()
    ]
    fields: dict[str, object] = {
        "price": price,
        "federation": FEDERATION,
        "alignment": "a" * 64,
        "people": people,
        "parties": tuple(widths),
        "compute_nodes": tuple(nodes),
        "threshold": default_threshold(len(nodes)) if threshold is None else threshold,
        "collusion": collusion,
    }
    return kit.written(*own, *steps, **(fields | changes))


@dataclass
class Table(Dealer):
    """A data party's part: rows by columns, its noise, and how often it was asked to pay."""

    values: NDArray[np.int64]
    noises: NDArray[np.int64]
    own_part: NDArray[np.int64] | None = None
    secret: bytes = seed("a dealer's secret")
    begun: int = 0

    def begin(self) -> bytes:
        self.begun += 1
        return self.secret

    def deal(self, dealing: Dealing, chunks: Sequence[tuple[int, int]]) -> Iterator[tuple[Elements, ...]]:
        for number, (start, stop) in enumerate(chunks, start=1):
            yield dealing.shares(number, self.values[start:stop])

    def noise(self, tile: int = 0) -> NDArray[np.int64]:
        return self.noises

    def own(self, tile: int = 0) -> NDArray[np.int64] | None:
        return self.own_part

    def opening(self, answer: bytes, tile: int = 0) -> None:
        """Nothing is kept here."""

    def opened(self) -> int:
        return 0


class Watched(ProductRun):
    """A run whose plaintext letters are kept, and which a subclass may make lie."""

    written: dict[tuple[int, str], ProductLetter]

    def alter(self, turn: int, receiver: str, letter: ProductLetter) -> ProductLetter:
        return letter

    def _letter(self, turn, point, shares, checks) -> ProductLetter:
        receiver = self.joint.nodes[point - 1]
        letter = self.alter(turn, receiver, super()._letter(turn, point, shares, checks))
        self.__dict__.setdefault("written", {})[turn, receiver] = letter
        return letter

    def _take_chunk(self, chunk, letters) -> None:
        super()._take_chunk(chunk, letters)
        self.__dict__.setdefault("held", {})[chunk] = self._pending[chunk]

    @property
    def held_shares(self) -> list[Elements]:
        """This node's shares of each owner's table, columns by rows."""
        held = self.__dict__["held"]
        return [np.concatenate(parts, axis=1) for parts in zip(*(held[chunk] for chunk in sorted(held)), strict=True)]


def altered(letter: ProductLetter, **changes: object) -> ProductLetter:
    return ProductLetter(**{name: getattr(letter, name) for name in letter.__struct_fields__} | changes)


@dataclass
class Stage:
    """All members of one run, and a coordinator that relays."""

    plan: Plan
    tables: Mapping[str, Table]
    kinds: Mapping[str, type[ProductRun]] = field(default_factory=dict)
    draw: object = 0
    run: bytes = RUN
    pinned: Mapping[str, Member] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.joint = read_joint(self.plan, STEP)
        people = {**members(self.joint.members), **self.pinned}
        self.runs: dict[str, ProductRun] = {
            name: self.kinds.get(name, Watched)(
                people[name],
                self.plan,
                STEP,
                self.run,
                part=self.tables.get(name),
                secret=seed("secret of a run", self.draw, name),
            )
            for name in self.joint.members
        }
        self.said: dict[str, Reply] = {}
        self.replies: list[dict[str, Reply]] = []
        self.relayed: list[Letters] = []

    def turn(self, number: int, letters: Letters) -> Letters:
        """Let everybody take a turn; return the letters of the next."""
        replies = {name: run.turn(number, letters.get(name, {}), {}) for name, run in self.runs.items()}
        self.replies.append(replies)
        return self._letters(number, replies)

    def _letters(self, number: int, replies: Mapping[str, Reply]) -> Letters:
        """Sort what was said by receiver."""
        if number == 0:
            hellos = {name: Blob(reply.hello) for name, reply in replies.items() if isinstance(reply, Greeted)}
            return {name: dict(hellos) for name in self.runs}
        relayed: Letters = {}
        for sender, reply in replies.items():
            if isinstance(reply, Posted):
                for receiver, letter in reply.letters.items():
                    relayed.setdefault(receiver, {})[sender] = letter
        return relayed

    def refusals(self, relay: Relay = lambda _, letters: letters) -> tuple[int, dict[str, ColonnadeError]]:
        """Play until somebody refuses; return the turn, and who refused in it with what."""
        letters: Letters = {}
        for number in range(len(self.joint.chunks) + 4):
            delivered = relay(number, letters) if number else {}
            refused = {}
            for name, run in self.runs.items():
                try:
                    self.said[name] = run.turn(number, delivered.get(name, {}), {})
                except ColonnadeError as error:
                    refused[name] = error
            if refused:
                return number, refused
            letters = self._letters(number, self.said)
        raise AssertionError("nobody refused")

    def play(self, relay: Relay = lambda _, letters: letters) -> "Stage":
        """Play all turns. ``relay`` sees every turn's letters before they are delivered."""
        letters: Letters = {}
        for number in range(len(self.joint.chunks) + 4):
            letters = self.turn(number, relay(number, letters) if number else {})
            self.relayed.append(letters)
        return self

    @property
    def shares(self) -> dict[int, Elements]:
        """What the nodes opened, by point."""
        opened = {name: reply for name, reply in self.replies[-1].items() if isinstance(reply, Opened)}
        return {
            number + 1: unpack(opened[node].share).copy()  # type: ignore[arg-type]
            for number, node in enumerate(self.joint.nodes)
        }

    @property
    def opened(self) -> list[int]:
        """The opened entries, exactly as the coordinator computes them."""
        degree = 2 * self.joint.threshold
        return reconstruct(self.joint.arithmetic, self.shares, degree=degree, bound=self.joint.bound).tolist()

    @property
    def plain(self) -> list[int]:
        """The same, from the plain tables, in Python's integers."""
        tables = [self.tables[owner].values for owner in self.joint.owners]
        joined = np.concatenate(tables, axis=1).astype(object)
        first, second = entry_pairs(self.joint.widths)
        noise = np.sum([self.tables[owner].noises.astype(object) for owner in self.joint.owners], axis=0)
        return ((joined.T @ joined)[first, second] + noise).tolist()


def some_tables(
    plan: Plan, generator: np.random.Generator, *, largest: int | None = None, noise: int | None = None
) -> dict[str, Table]:
    """Random tables up to the plan's largest value, with random noise up to its bound."""
    joint = read_joint(plan, STEP)
    top = joint.largest if largest is None else largest
    noise = noise_room(joint) if noise is None else noise
    return {
        owner: Table(
            generator.integers(-top, top + 1, size=(plan.people, width)),
            generator.integers(-noise, noise + 1, size=joint.entries),
            secret=seed("a dealer's secret", owner),
        )
        for owner, width in zip(joint.owners, joint.widths, strict=True)
    }


def noise_room(joint: Joint) -> int:
    """The most that one party's noise may be if everybody's is, by the plan's own bound."""
    return (joint.bound - joint.people * joint.largest**2) // len(joint.owners)
