"""Runs of Newton steps among made-up members: no guards, no ledgers, and a coordinator that can be played badly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from colonnade.conversations.newton import NewtonRun
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Blob, Greeted, Opened, Posted, Reply, pack, unpack
from colonnade.secure.shamir import reconstruct
from colonnade.secure.sine_link import STEPS
from colonnade.steps.newton import NewtonTerms, Phase
from tests import kit
from tests.conversations.stage import FEDERATION, RUN, members, seed

CURVATURE = 1
"""The round that opens the curvature in these runs."""

SCALE = 16
NAME = "newton 1"


def a_plan(
    widths: Mapping[str, int],
    *,
    nodes: Sequence[str],
    people: int = 40,
    own: Mapping[str, Mapping[str, object]] | None = None,
    **changes: object,
) -> Plan:
    """A plan with one run of a curvature and two steps; the first owner holds the target."""
    price = Price.of(1.0, 1e-5)
    holder = next(iter(widths))
    given = {"window": 8, "parts": (2, 1, 3), **changes.pop("parameters", {})}

    def parameters(owner: str, width: int) -> dict[str, object]:
        return {
            "scale": SCALE,
            "row_bound": SCALE**2 * width,
            "width": width,
            "target": "y" if owner == holder else "",
            "level": 1,
            "levels": (),
            **given,
            **(own or {}).get(owner, {}),
        }

    steps = [
        Step(name=NAME, party=party, kind="newton", columns=("x",), parameters=parameters(party, width), price=price)
        for party, width in widths.items()
    ]
    usual = {"method": "newton", "federation": FEDERATION, "alignment": "a" * 64, "people": people}
    return kit.written(*steps, **(usual | {"compute_nodes": tuple(nodes)} | changes))


@dataclass
class Rows:
    """A data party's part: made-up rows, parts of scores, labels and noise, and what it was asked."""

    terms: NewtonTerms
    name: str
    taken: list[np.ndarray] = field(default_factory=list)
    drawn: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        generator = np.random.default_rng(list(self.name.encode()))
        people, width = self.terms.people, self.terms.widths[self.name]
        self.rows = generator.integers(-SCALE, SCALE + 1, size=(width, people))
        self.label = generator.integers(-1, 2, size=people)
        if self.name == self.terms.holders[0]:
            self.rows[0] = SCALE * (self.label >= 0)
        if block := self.terms.asked[self.name].parameters["levels"]:
            on = generator.integers(-1, block[1], size=people)
            self.rows[block[0] : sum(block)] = SCALE * (on == np.arange(block[1])[:, None])
        self.scores = generator.integers(-9_000, 9_000, size=people)

    def begin(self) -> None:
        """Nothing is paid here."""

    def take(self, weights: np.ndarray) -> None:
        self.taken.append(weights)

    def columns(self, start: int, stop: int) -> np.ndarray:
        return self.rows[:, start:stop]

    def parts(self, start: int, stop: int) -> np.ndarray:
        return self.scores[start:stop]

    def labels(self, start: int, stop: int) -> np.ndarray:
        return self.label[start:stop]

    def noise(self, number: int) -> np.ndarray:
        generator = np.random.default_rng([number, *self.name.encode()])
        self.drawn[number] = generator.integers(-4 * 10**8, 4 * 10**8, size=self.terms.noise.entries_of(number))
        return self.drawn[number]


@dataclass
class RoundsStage:
    """All members of one run of many rounds, and a coordinator that relays and sends weights."""

    plan: Plan
    parts: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, type] = field(default_factory=dict)
    draw: object = 0

    step_name: ClassVar[str]
    terms_of: ClassVar[type]
    part_of: ClassVar[type]
    run_of: ClassVar[type]

    def __post_init__(self) -> None:
        self.terms = self.terms_of.read(self.plan, self.step_name)
        self.parts = {owner: self.parts.get(owner, self.part_of(self.terms, owner)) for owner in self.terms.owners}
        people = members(self.terms.members)
        self.runs = {
            name: self.kinds.get(name, self.run_of)(
                people[name],
                self.plan,
                self.step_name,
                RUN,
                part=self.parts.get(name),
                secret=seed("secret", self.draw, name),
            )
            for name in self.terms.members
        }
        self.number = 0
        self.letters: dict[str, dict[str, Blob]] = {}
        self.replies: list[dict[str, Reply]] = []

    def turn(self, inputs: Mapping[str, object] | None = None) -> dict[str, Reply]:
        packed = {name: pack(value) for name, value in (inputs or {}).items()}
        replies = {name: run.turn(self.number, self.letters.get(name, {}), packed) for name, run in self.runs.items()}
        self.letters = {}
        for sender, reply in replies.items():
            if isinstance(reply, Greeted):
                for receiver in self.runs:
                    self.letters.setdefault(receiver, {})[sender] = Blob(reply.hello)
            if isinstance(reply, Posted):
                for receiver, letter in reply.letters.items():
                    self.letters.setdefault(receiver, {})[sender] = letter
        self.number += 1
        self.replies.append(replies)
        return replies

    def opened(self, replies: Mapping[str, Reply], bound: int) -> list[int]:
        """What the coordinator opens of the nodes' shares."""
        shares = {}
        for point, node in enumerate(self.terms.nodes, start=1):
            reply = replies[node]
            assert isinstance(reply, Opened)
            shares[point] = unpack(reply.share).copy()
        return reconstruct(self.terms.arithmetic, shares, degree=2 * self.terms.threshold, bound=bound).tolist()


class NewtonStage(RoundsStage):
    """Newton steps."""

    step_name, terms_of, part_of, run_of = NAME, NewtonTerms, Rows, NewtonRun

    def meet(self) -> "NewtonStage":
        """Greet, and deal the columns."""
        for _ in range(2 + len(self.terms.chunks)):
            self.turn()
        return self

    def weights(self, value: float = 0.0) -> dict[str, np.ndarray]:
        return {"weights": np.full(self.terms.columns, value)}

    def until(self, phase: Phase, number: int) -> "NewtonStage":
        """Take the turns of a round up to and with a phase."""
        self.number = self.terms.first_turns[number]
        inputs: dict[str, np.ndarray] = self.weights()
        for turn in self.terms.round_turns(number):
            self.turn(inputs)
            inputs = {}
            if turn.phase == phase:
                return self
        raise AssertionError

    def round(self, number: int) -> list[int]:
        """Take one round; return what the coordinator opens."""
        self.until(Phase.OPEN, number)
        return self.open(self.replies[-1], number)

    def open(self, replies: Mapping[str, Reply], number: int) -> list[int]:
        return self.opened(replies, self.terms.bound(number))

    def plain(self, number: int) -> list[int]:
        """The same without shares, up to the rounding of the link, and with everyone's noise; floats."""
        bounds, first = self.terms.link(number), self.terms.holders[0]
        scores = sum(part.scores for part in self.parts.values())
        scores = ((scores + STEPS // 2) % STEPS - STEPS // 2) * bounds.link.step
        labels = self.parts[first].label
        chance = bounds.link.weight(scores) if number == CURVATURE else bounds.link.mean(scores) - labels
        chance = np.where(labels >= 0, chance, 0.0)
        rows = np.concatenate([self.parts[owner].rows for owner in self.terms.owners])
        noise = sum(part.drawn[number] for part in self.parts.values())
        if number == CURVATURE:
            return ((rows * chance) @ rows.T)[np.triu_indices(len(rows))] * bounds.unit + noise
        return rows @ chance * bounds.unit + noise
