"""Runs of a gradient descent among made-up members: no guards, no ledgers, and a coordinator that can be played badly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from colonnade.papers.conversations import GradientRun
from colonnade.papers.steps import KEY, STEP, GradientTerms
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Blob, Greeted, Opened, Posted, Reply, pack, unpack
from colonnade.secure.shamir import default_threshold, reconstruct
from tests.conversations.stage import FEDERATION, RUN, members, seed

SCALE = 16


def a_plan(
    widths: Mapping[str, int],
    *,
    nodes: Sequence[str],
    people: int = 40,
    steps: int = 3,
    rate: float = 0.25,
    sampling: str = "poisson",
    **changes: object,
) -> Plan:
    """A plan with one descent; the first owner holds the target."""
    price = Price.of(1.0, 1e-5)
    holder = next(iter(widths))

    def parameters(owner: str, width: int) -> dict[str, object]:
        return {
            "scale": SCALE,
            "weight_scale": SCALE,
            "row_bound": SCALE**2 * width,
            "score_bound": 3 * SCALE**2,
            "width": width,
            "target": "y" if owner == holder else "",
            "steps": steps,
            "rate": rate,
            "sampling": sampling,
        }

    fields: dict[str, object] = {
        "task": "moments",
        "method": "gradient",
        "parameters": {},
        "unit": "person",
        "price": price,
        "federation": FEDERATION,
        "alignment": "a" * 64,
        "people": people,
        "parties": tuple(widths),
        "compute_nodes": tuple(nodes),
        "threshold": default_threshold(len(nodes)),
        "collusion": 1,
        "steps": (
            *(Step(name=KEY, party=party, kind="group-key", columns=(), price=None) for party in widths),
            *(
                Step(
                    name=STEP,
                    party=party,
                    kind=STEP,
                    columns=("x",),
                    parameters=parameters(party, width),
                    price=price,
                )
                for party, width in widths.items()
            ),
        ),
    }
    return Plan(**(fields | changes))


@dataclass
class Columns:
    """A data party's part: made-up scores, rows and noise for every step, and what it was asked."""

    terms: GradientTerms
    name: str
    key: bytes = b"key"
    asked: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    shared: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def begin(self) -> bytes:
        return self.key

    def share(self, position: int, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng([position, *self.name.encode()])
        width, bound = self.terms.widths[self.name], self.terms.noise.score_bounds[self.name]
        rows = generator.integers(-SCALE, SCALE + 1, size=(width, self.terms.capacity))
        scores = generator.integers(-bound, bound + 1, size=(1, self.terms.capacity))
        noise = generator.integers(-(10**6), 10**6, size=self.terms.columns)
        self.asked.append((position, tuple(weights.tolist())))
        self.shared[position] = np.concatenate([scores, rows]), noise
        return self.shared[position]


@dataclass
class GradientStage:
    """All members of one run, and a coordinator that relays and sends weights."""

    plan: Plan
    parts: Mapping[str, Columns] = field(default_factory=dict)
    kinds: Mapping[str, type[GradientRun]] = field(default_factory=dict)
    draw: object = 0

    def __post_init__(self) -> None:
        self.terms = GradientTerms.read(self.plan, STEP)
        self.parts = {owner: self.parts.get(owner, Columns(self.terms, owner)) for owner in self.terms.owners}
        people = members(self.terms.members)
        self.runs = {
            name: self.kinds.get(name, GradientRun)(
                people[name],
                self.plan,
                STEP,
                RUN,
                part=self.parts.get(name),
                secret=seed("secret", self.draw, name),
            )
            for name in self.terms.members
        }
        self.number = 0
        self.letters: dict[str, dict[str, Blob]] = {}
        self.replies: list[dict[str, Reply]] = []

    def turn(self, weights: np.ndarray | None = None) -> dict[str, Reply]:
        inputs = {} if weights is None else {"weights": pack(weights)}
        replies = {name: run.turn(self.number, self.letters.get(name, {}), inputs) for name, run in self.runs.items()}
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

    def meet(self) -> "GradientStage":
        for _ in range(2):
            self.turn()
        return self

    def step(self, weights: np.ndarray | None = None) -> list[int]:
        """Take one step; return what the coordinator opens."""
        self.turn(np.zeros(self.terms.columns, dtype=np.int64) if weights is None else weights)
        return self.open(self.turn())

    def open(self, replies: Mapping[str, Reply]) -> list[int]:
        shares = {}
        for point, node in enumerate(self.terms.nodes, start=1):
            reply = replies[node]
            assert isinstance(reply, Opened)
            shares[point] = unpack(reply.share).copy()
        return reconstruct(
            self.terms.arithmetic, shares, degree=2 * self.terms.threshold, bound=self.terms.bound
        ).tolist()

    def plain(self, position: int) -> list[int]:
        """The same from the plain values, in Python's integers."""
        parts = [self.parts[owner].shared[position] for owner in self.terms.owners]
        scores = sum(values[0].astype(object) for values, _ in parts)
        rows = np.concatenate([values[1:] for values, _ in parts]).astype(object)
        noise = sum(noise.astype(object) for _, noise in parts)
        return (rows @ scores + noise).tolist()
