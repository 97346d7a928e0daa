"""Runs of a gradient descent among made-up members: no guards, no ledgers, and a coordinator that can be played badly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from colonnade.papers.conversations import GradientRun
from colonnade.papers.steps import KEY, STEP, GradientTerms
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Reply
from tests import kit
from tests.conversations.newton_stage import RoundsStage
from tests.conversations.stage import FEDERATION

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

    steps_ = [Step(name=KEY, party=party, kind="group-key", columns=(), price=None) for party in widths]
    for party, width in widths.items():
        given = parameters(party, width)
        steps_.append(Step(name=STEP, party=party, kind=STEP, columns=("x",), parameters=given, price=price))
    usual = {"method": "gradient", "federation": FEDERATION, "alignment": "a" * 64, "people": people, "price": price}
    return kit.written(*steps_, **(usual | {"compute_nodes": tuple(nodes)} | changes))


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


class GradientStage(RoundsStage):
    """Steps of a descent."""

    step_name, terms_of, part_of, run_of = STEP, GradientTerms, Columns, GradientRun

    def turn(self, weights: np.ndarray | None = None) -> dict[str, Reply]:
        return super().turn(None if weights is None else {"weights": weights})

    def meet(self) -> "GradientStage":
        for _ in range(2):
            self.turn()
        return self

    def step(self, weights: np.ndarray | None = None) -> list[int]:
        """Take one step; return what the coordinator opens."""
        self.turn(np.zeros(self.terms.columns, dtype=np.int64) if weights is None else weights)
        return self.open(self.turn())

    def open(self, replies: Mapping[str, Reply]) -> list[int]:
        return self.opened(replies, self.terms.bound)

    def plain(self, position: int) -> list[int]:
        """The same from the plain values, in Python's integers."""
        parts = [self.parts[owner].shared[position] for owner in self.terms.owners]
        scores = sum(values[0].astype(object) for values, _ in parts)
        rows = np.concatenate([values[1:] for values, _ in parts]).astype(object)
        noise = sum(noise.astype(object) for _, noise in parts)
        return (rows @ scores + noise).tolist()
