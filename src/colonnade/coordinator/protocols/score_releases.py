"""Scores of a public model: private evaluations, by their second moments or a histogram by label; or opened to one party.

A score is a sum of parts, one per party. A part is a weighted sum of coded columns: columns after scaling to [−1, 1], or
indicators of levels.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.driver import JointResult, open_jointly, relay_sum
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments, gram_variance, opened_gram
from colonnade.estimation.scoring import (
    EvaluationResult,
    PartyScores,
    ScoreCounts,
    ScoreMoments,
    binary_metrics,
    component_metrics,
    histogram_price,
    interval_reach,
    metrics_of_classes,
    party_scores,
    regression_metrics,
    scorecard_metrics,
)
from colonnade.families import DEFAULT
from colonnade.families.family import Family
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Rounds
from colonnade.schema import Column, ColumnName, Level
from colonnade.steps import products, sums
from colonnade.steps.newton import family_term

SCALE = 1 << 14
"""γ: the number of integer steps of the largest column. Rounding to 1/γ of a column's range is far below the noise."""

Array = NDArray[np.float64]


class Release(Protocol):
    """What an evaluation opens."""

    def steps(self) -> tuple[Step, ...]: ...

    def rounds(self, plan: Plan) -> Rounds: ...


@dataclass(frozen=True)
class ScoreGram:
    """One joint opening of the second moments of score parts.

    It says how good a model is, without anybody's score. Each party's part of a score is *one* integer column, and the target
    one more, so the noise is that of a handful of columns however many a model has. With heights in proportion to the square
    roots of the columns' largest magnitudes h the noise of Σ r², r the sum of all of them, is that of one number of
    sensitivity (Σh)²: the Gram matrix of the parts costs no more than opening the sum of squares alone. (In integer units r =
    Σ h_j/a_j·Z_j with heights a_j. The row bound is Σa², the noise of a quadratic form grows with Σ(h/a)², and the product of
    the two is least, and (Σh)², at a² ∝ h.)

    Parameters
    ----------
    parts
        Each party's part; two parties or more. Parts that are always 0 are left out of the matrix.
    price
        The price of the opening; δ must be positive.
    """

    parts: Sequence[PartyScores]
    price: Price

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise BadInput(
                "A private evaluation takes columns of at least two parties.",
                remedy="One party alone can score the model on its own rows: est.predict(frame).",
            )
        if self.price.delta == 0:
            raise BadInput(
                "This evaluation needs a positive delta.", remedy="For example delta=1e-6, well below 1/people."
            )

    @property
    def largest(self) -> list[Array]:
        """The largest magnitude of every column, by party; never 0, so that a column without weight can be divided by it."""
        return [np.maximum(part.largest, 1e-12 * self._tallest) for part in self.parts]

    @property
    def _tallest(self) -> float:
        return max(float(part.largest.max()) for part in self.parts) or 1.0

    @property
    def heights(self) -> list[list[int]]:
        """a: the number of integer steps of each column's largest magnitude."""
        return [
            [max(1, round(SCALE * float(np.sqrt(one / self._tallest)))) for one in largest] for largest in self.largest
        ]

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its part in the matrix."""
        return tuple(
            products.Gram.ask(
                name="scores",
                party=part.party,
                columns=part.columns,
                parameters={
                    "scale": SCALE,
                    "row_bound": sum(height**2 for height in heights),
                    "width": len(heights),
                    "noise": "gaussian",
                    "weights": tuple(part.weights.ravel().tolist()),
                    "largest": tuple(largest.tolist()),
                    "heights": tuple(heights),
                },
                price=self.price,
            )
            for part, largest, heights in zip(self.parts, self.largest, self.heights, strict=True)
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Open the matrix and read it as moments."""
        opened = yield from open_jointly(plan, "scores")
        return self.read(opened)

    def read(self, opened: JointResult) -> ScoreMoments:
        """Put the opened entries and the parties' own parts together, in the columns' own units."""
        joint = opened.joint
        whole = opened_gram(joint, opened.cross, opened.own)
        whole[0, 0] = joint.people * float(SCALE) ** 2
        units = np.concatenate(
            [[1 / SCALE], *(np.divide(a, b) for a, b in zip(self.largest, self.heights, strict=True))]
        )
        outer = np.outer(units, units)
        steps = np.concatenate([[0.0], units[1:]])
        return ScoreMoments(whole * outer, gram_variance(joint) * outer**2, steps, joint.people)


FEWEST_BINS, LARGEST_BINS = 24, 96
LARGEST_NUMBERS = 256
"""About how many bins a score has, and how many numbers left and right may hold; products on shares grow with the square."""


def bins_for(people: int) -> int:
    """Return about how many bins a number of people is worth: finer ones would only hold noise.

    Examples
    --------
    >>> bins_for(100), bins_for(1_000), bins_for(1_000_000)
    (24, 63, 96)
    """
    return min(max(int(2 * people**0.5), FEWEST_BINS), LARGEST_BINS)


@dataclass(frozen=True, eq=False)
class GuessedLabel:
    """A label that a party guesses from its own columns: that of the nearest of some public points.

    Parameters
    ----------
    party
        The party that guesses.
    points
        One row per point, in the party's coded columns.
    labels
        The label of each point.
    """

    party: str
    points: Array
    labels: tuple[int, ...]


@dataclass(frozen=True)
class ScoreHistogramRelease:
    """One joint opening of a histogram of scores by label.

    Parameters
    ----------
    name
        The name of the step.
    parts
        Each party's part of the score; one score.
    offset
        The number that is added to the sum of all parts.
    label, kept
        The label's column, or how it is guessed, and the places of the levels that are counted. People with another level are
        not counted. The label's party has the role "right".
    price
        The price of the opening. A person is in one count, so Laplace noise at δ = 0 is the smaller one.
    draw
        The number of the draw; the public coins of rounding differ from draw to draw.
    largest_bins
        About the largest number of bins.
    """

    name: str
    parts: Sequence[PartyScores]
    offset: float
    label: str | GuessedLabel
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
    def span(self) -> tuple[float, float]:
        """The smallest and the largest score that the schema allows."""
        low = sum(float(part.low[0]) for part in self.parts)
        high = sum(float(part.high[0]) for part in self.parts)
        return self.offset + low, self.offset + high

    @property
    def step(self) -> float:
        """The distance between bins."""
        spread = sum(float(part.high[0] - part.low[0]) for part in self.parts)
        bins = max(min(self.largest_bins, LARGEST_NUMBERS // (len(self._columns) - 1)), 3 * len(self._columns))
        return (spread or 1.0) / (bins - len(self.parts) - 1)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party."""
        return tuple(self._step(party, columns) for party, columns in self._columns.items())

    def rounds(self, plan: Plan) -> Rounds:
        """Open the histogram."""
        opened = yield from open_jointly(plan, self.name)
        return self.read(opened)

    def read(self, opened: JointResult) -> ScoreCounts:
        """Read the opened counts."""
        counts = opened.cross.reshape(self.bins, len(self.kept)).astype(np.float64)
        scores = np.asarray(self.span[0] + self.step * np.arange(self.bins), dtype=np.float64)
        return ScoreCounts(counts, scores, self.step, opened.joint.noise.opened_variance, len(self.parts))

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return sum(count - 1 for count in self._counts.values()) + 1

    @property
    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        columns = {part.party: part.columns for part in self.parts}
        if isinstance(self.label, GuessedLabel):
            return columns
        party, label = ColumnName.of(self.label)
        return {**columns, party: (*columns.get(party, ()), label)}

    @property
    def _counts(self) -> dict[str, int]:
        """How many values each party's number can take: one more than its steps, rounded up, and 1 without a score."""
        spread = {part.party: float(part.high[0] - part.low[0]) for part in self.parts}
        return {party: math.floor(spread[party] / self.step) + 2 if party in spread else 1 for party in self._columns}

    def _step(self, party: str, columns: tuple[str, ...]) -> Step:
        right = self.label.party if isinstance(self.label, GuessedLabel) else ColumnName.of(self.label).party
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
            if isinstance(self.label, GuessedLabel):
                parameters["points"] = tuple(self.label.points.ravel().tolist())
                parameters["guesses"] = self.label.labels
            else:
                parameters["label"] = ColumnName.of(self.label).column
        return products.ScoreHistogram.ask(
            name=self.name,
            party=party,
            columns=columns,
            parameters=parameters,
            price=self.price,
        )


RESOLUTION = 40
"""Scores are rounded to 2⁻⁴⁰ of the largest part's power of two."""


@dataclass(frozen=True)
class Prediction:
    """The scores of all people, opened to one party.

    Each party multiplies its own columns by its weights. The parts are added under pairwise masks
    (`colonnade.conversations.sums`) and the sums are opened to the recipient; the coordinator relays what it cannot read.
    This is an individual-level output: outside the differential-privacy promise, and allowed by every party's policy by model
    and by recipient.

    Parameters
    ----------
    parts
        Each party's part.
    offsets
        The numbers that are added to the sums of all parts, one per score.
    recipient
        The party to which scores are opened.
    reading
        How the recipient reads them: ``"numbers"``, ``"classes"``, ``"chances"``, ``"components"`` or ``"clusters"``.
    names
        The names of the columns, or of the classes.
    family
        What makes chances of scores.
    """

    parts: Sequence[PartyScores]
    offsets: Array
    recipient: str
    reading: str
    names: Sequence[Level]
    family: Family = DEFAULT

    def __post_init__(self) -> None:
        if len({part.party for part in self.parts} | {self.recipient}) < 2:
            raise BadInput(
                "The model uses no column of another party than the recipient.",
                remedy="That party can score its own rows by itself: est.predict(frame).",
            )

    @property
    def name(self) -> str:
        """The name of the step, in plans and ledgers."""
        return f"scores-to-{self.recipient}"

    @property
    def scale(self) -> float:
        """How many integer steps one unit of a score is: a power of two."""
        largest = max((float(part.largest.max()) for part in self.parts), default=0.0) or 1.0
        return 2.0 ** (RESOLUTION - math.ceil(math.log2(largest)))

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party; a recipient without columns of its own adds nothing."""
        bound = max(math.ceil(float(part.largest.max()) * self.scale) for part in self.parts) + 1
        own = {part.party: part for part in self.parts}
        parties = [*own, *([] if self.recipient in own else [self.recipient])]
        return tuple(self._step(party, own.get(party), bound) for party in parties)

    def rounds(self, plan: Plan) -> Rounds:
        """Relay the sum; nothing comes back."""
        yield from relay_sum(plan, self.name, len(self.offsets) * plan.people)

    def _step(self, party: str, part: PartyScores | None, bound: int) -> Step:
        parameters: dict[str, Parameter] = {
            "recipient": self.recipient,
            "bound": bound,
            "outputs": len(self.offsets),
            "weights": () if part is None else tuple(part.weights.ravel().tolist()),
            "scale": self.scale,
            "offsets": tuple(self.offsets.tolist()),
            "reading": self.reading,
            **family_term(self.family),
            "names": tuple(self.names),
        }
        columns = () if part is None else part.columns
        return sums.Predictions.ask(name=self.name, party=party, columns=columns, parameters=parameters, price=None)


@dataclass(frozen=True)
class MeasuredReleases:
    """Releases, and what is measured on them: how good a fitted model is.

    Parameters
    ----------
    releases
        What is opened, one after the other.
    measure
        What turns what was opened into metrics.
    price
        The price of all of them.
    """

    releases: Sequence[Release]
    measure: Callable[..., EvaluationResult]
    price: Price

    def steps(self) -> tuple[Step, ...]:
        """Return everything the parties will be asked to release."""
        return tuple(step for release in self.releases for step in release.steps())

    def rounds(self, plan: Plan) -> Rounds:
        """Open everything, and compute the metrics."""
        opened = []
        for release in self.releases:
            opened.append((yield from release.rounds(plan)))  # noqa: PERF401  # a generator cannot be a comprehension
        return self.measure(*opened)


def classifier_evaluation(
    columns: Mapping[str, Column],
    weights: Array,
    intercepts: Array,
    *,
    target: str,
    classes: tuple[str, ...],
    price: Price,
    level: float,
    repeat: int,
    people: int,
    scorecard: bool = False,
) -> MeasuredReleases:
    """Return the evaluation of scores of coded columns: one row of weights per class, or one of log-odds for two.

    There is one histogram for the log-odds of the second class, or one for every pair of classes (k, l), k < l: of s_l − s_k,
    among people of these two. They divide the price.
    """
    interval_reach(level)  # refuses a level outside (0, 1)
    if len(weights) == 1:
        weights, intercepts = np.vstack([0 * weights, weights]), np.append(0.0, intercepts)
    pairs = list(combinations(range(len(weights)), 2))
    share = histogram_price(price, len(pairs))
    histograms = [
        ScoreHistogramRelease(
            f"{k}-{m}",
            party_scores(columns, (weights[m] - weights[k])[None]),
            float(intercepts[m] - intercepts[k]),
            target,
            (k, m),
            share,
            repeat,
            bins_for(people),
        )
        for k, m in pairs
    ]

    def measure(*opened: ScoreCounts) -> EvaluationResult:
        if scorecard:
            return scorecard_metrics(opened[0], classes, histograms[0].span, level)
        return (
            binary_metrics(opened[0], classes, level)
            if len(classes) == 2
            else metrics_of_classes(opened, classes, level)
        )

    return MeasuredReleases(histograms, measure, Price(price.nano, price.delta if share.delta else 0.0))


def regression_evaluation(
    columns: Mapping[str, Column], weights: Array, intercept: float, price: Price, level: float
) -> MeasuredReleases:
    """Return the evaluation of a linear model on coded columns, in the own units of the target, which is the last column.

    Two scores are opened together: the prediction's parts, and the target, which one party holds whole.
    """
    interval_reach(level)  # refuses a level outside (0, 1)
    target = list(columns.values())[-1]
    assert target.is_number  # the estimator was fitted on it
    wide = np.zeros((2, len(weights) + 1))
    wide[0, :-1], wide[1, -1] = weights, target.half_range
    gram = ScoreGram(party_scores(columns, wide), price)
    return MeasuredReleases([gram], partial(regression_metrics, offset=target.midpoint - intercept, level=level), price)


def component_evaluation(
    gram: GramRelease, components: Array, means: Array, scales: Array, level: float
) -> MeasuredReleases:
    """Return the evaluation of components, which divide every coded column by its scale (1 if they do not)."""
    interval_reach(level)  # refuses a level outside (0, 1)

    def measure(moments: Moments) -> EvaluationResult:
        return component_metrics(moments.divided(scales), components, means, level)

    return MeasuredReleases([gram], measure, gram.price)
