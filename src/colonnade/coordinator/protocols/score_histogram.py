"""A noisy histogram of a public model's scores by label: who shares what, and what was opened (`colonnade.steps.score_table`)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.names import ColumnName
from colonnade.coordinator.protocols.joint_opening import JointResult, open_jointly
from colonnade.errors import BadInput
from colonnade.estimation.additive_scores import PartyScores
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Rounds
from colonnade.steps.score_table import ScoreHistogram

__all__ = ["Guess", "Histogram", "ScoreHistogramRelease", "bins_for"]

FEWEST_BINS, LARGEST_BINS = 24, 96
LARGEST_NUMBERS = 256
"""About how many bins a score has, and how many numbers left and right may hold; products on shares grow with the square."""

Array = NDArray[np.float64]


def bins_for(people: int) -> int:
    """Return about how many bins so many people are worth: finer ones would only hold noise.

    Examples
    --------
    >>> bins_for(100), bins_for(1_000), bins_for(1_000_000)
    (24, 63, 96)
    """
    return min(max(int(2 * people**0.5), FEWEST_BINS), LARGEST_BINS)


@dataclass(frozen=True, eq=False)
class Guess:
    """A label that a party makes of its own columns: of the nearest of some public points.

    Parameters
    ----------
    party
        Who.
    points
        A row a point, in the party's coded columns.
    labels
        The label that each stands for.
    """

    party: str
    points: Array
    labels: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Histogram:
    """Noisy counts of people by bin of their score and by label.

    Parameters
    ----------
    counts
        A row a bin, a column a label.
    scores
        The score that each bin stands for.
    step
        How far bins are apart.
    variance
        Of the noise in each count.
    dithered
        How many parties rounded, each up or down by a public coin: the rounding error of a score has the variance of that many
        triangular laws, a sixth of a squared step each.
    """

    counts: Array
    scores: Array
    step: float
    variance: float
    dithered: int

    def smoothed(self, values: Array) -> Array:
        """Return values by bin after rounding once more, as the parties did."""
        for _ in range(self.dithered):
            padded = np.concatenate([values[:1], values, values[-1:]])
            values = (padded[:-2] + 10 * padded[1:-1] + padded[2:]) / 12
        return values


@dataclass(frozen=True)
class ScoreHistogramRelease:
    """One joint opening of a histogram.

    Parameters
    ----------
    name
        Of the step.
    parts
        Who adds what to the score; one score.
    offset
        What is added to the sum of all parts.
    label, kept
        The label's column, or how it is guessed, and the places of the levels that are counted; people with another one are
        not. Its party is the right one.
    price
        What the opening offers to pay. A person is in one count, so Laplace noise at δ = 0 is the smaller one.
    draw
        Which draw this is; the public coins of rounding differ from draw to draw.
    largest_bins
        About how many bins there are at most.
    """

    name: str
    parts: Sequence[PartyScores]
    offset: float
    label: str | Guess
    kept: tuple[int, ...]
    price: Price
    draw: int = 1
    largest_bins: int = LARGEST_BINS

    def __post_init__(self) -> None:
        if len(self._columns) < 2:
            raise BadInput(
                "A private evaluation takes columns of at least two parties.",
                remedy="One party alone can score the model on its own rows: est.predict(frame).",
            )

    @property
    def step(self) -> float:
        """How far bins are apart."""
        spread = sum(float(part.high[0] - part.low[0]) for part in self.parts)
        bins = max(min(self.largest_bins, LARGEST_NUMBERS // (len(self._columns) - 1)), 3 * len(self._columns))
        return (spread or 1.0) / (bins - len(self.parts) - 1)

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party."""
        return tuple(self._step(party, columns) for party, columns in self._columns.items())

    def rounds(self, plan: Plan) -> Rounds:
        """Open the histogram."""
        opened = yield from open_jointly(plan, self.name)
        return self.read(opened)

    def read(self, opened: JointResult) -> Histogram:
        """Read the opened counts."""
        counts = opened.cross.reshape(self.bins, len(self.kept)).astype(np.float64)
        start = self.offset + sum(float(part.low[0]) for part in self.parts)
        scores = np.asarray(start + self.step * np.arange(self.bins), dtype=np.float64)
        return Histogram(counts, scores, self.step, opened.joint.noise.opened_variance, len(self.parts))

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return sum(count - 1 for count in self._counts.values()) + 1

    @property
    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        columns = {part.party: part.columns for part in self.parts}
        if isinstance(self.label, Guess):
            return columns
        party, label = ColumnName.of(self.label)
        return {**columns, party: (*columns.get(party, ()), label)}

    @property
    def _counts(self) -> dict[str, int]:
        """How many values each party's number can take: one more than its steps, rounded up, and 1 without a score."""
        spread = {part.party: float(part.high[0] - part.low[0]) for part in self.parts}
        return {party: floor(spread[party] / self.step) + 2 if party in spread else 1 for party in self._columns}

    def _step(self, party: str, columns: tuple[str, ...]) -> Step:
        right = self.label.party if isinstance(self.label, Guess) else ColumnName.of(self.label).party
        left = next(one for one in self._columns if one != right)
        part = next((one for one in self.parts if one.party == party), None)
        role = "right" if party == right else "left" if party == left else "giver"
        parameters: dict[str, Parameter] = {
            "role": role,
            "weights": () if part is None else tuple(part.weights[0].tolist()),
            "low": 0.0 if part is None else float(part.low[0]),
            "step": self.step,
            "parts": self._counts[party],
            "bins": self.bins,
            "labels": len(self.kept),
            "seed": hashlib.sha256(f"colonnade/dither/{self.name}/{self.draw}".encode()).hexdigest(),
        }
        if party == right:
            parameters["kept"] = self.kept
            if isinstance(self.label, Guess):
                parameters["points"] = tuple(self.label.points.ravel().tolist())
                parameters["guesses"] = self.label.labels
            else:
                parameters["label"] = ColumnName.of(self.label).column
        return ScoreHistogram.ask(
            name=self.name,
            party=party,
            columns=columns,
            parameters=parameters,
            price=self.price,
        )
