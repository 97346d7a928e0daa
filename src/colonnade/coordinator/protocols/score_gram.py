"""Second moments of a public model's scores, in one joint opening: how good a model is, without anybody's score.

Each party's part of a score is *one* integer column, and the target one more, so the noise is that of a handful of columns
however many a model has. With heights in proportion to the square roots of the columns' largest magnitudes h the noise of Σ r²,
r the sum of all of them, is that of one number of sensitivity (Σh)²: the Gram matrix of the parts costs no more than opening
the sum of squares alone. (In integer units r = Σ h_j/a_j·Z_j with heights a_j; the row bound is Σa², the noise of a quadratic
form grows with Σ(h/a)², and the product of the two is least, and (Σh)², at a² ∝ h.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import places_beside_constant
from colonnade.coordinator.protocols.joint_opening import JointResult, open_jointly
from colonnade.errors import BadInput
from colonnade.estimation.additive_scores import PartyScores
from colonnade.estimation.noise_propagation import quadratic_variance
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Rounds
from colonnade.secure.products import entry_pairs
from colonnade.steps.gram import Gram
from colonnade.steps.joint import Joint

__all__ = ["SCALE", "ScoreGram", "ScoreMoments"]

SCALE = 1 << 14
"""γ: the height of the tallest column; rounding to 1/γ of a column's range is far below the noise."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScoreMoments:
    """Noisy second moments of score columns, a constant one in front, in the columns' own units.

    Parameters
    ----------
    matrix, variance
        Sums of products over people, and the variance of the noise in each.
    steps
        By how much one integer step moves each column; 0 for the constant.
    people
        How many people.
    """

    matrix: Array
    variance: Array
    steps: Array
    people: int

    def mean_square(self, direction: Array) -> tuple[float, float]:
        """Return the mean of (d·z)² over people and its standard error from noise and rounding.

        Rounding moves r = d·z by at most half a step a column, independently for practical purposes: 2·Σ r·e has the variance
        4·Σr²·Var(e), and Σe² the mean n·Var(e).
        """
        mean = float(direction @ self.matrix @ direction) / self.people
        rounding = float((direction * self.steps) ** 2 @ np.full(len(direction), 1 / 12))
        noise = quadratic_variance(self.variance, direction) / self.people**2
        return mean, float(np.sqrt(noise + (4 * max(mean, 0.0) * rounding) / self.people + rounding**2))

    def mean(self, direction: Array) -> tuple[float, float]:
        """Return the mean of d·z over people and its standard error from noise and rounding."""
        mean = float(self.matrix[0] @ direction) / self.people
        rounding = float((direction * self.steps) ** 2 @ np.full(len(direction), 1 / 12))
        noise = float(direction**2 @ self.variance[0])
        return mean, float(np.sqrt(noise / self.people**2 + rounding / self.people))


@dataclass(frozen=True)
class ScoreGram:
    """One joint opening of the second moments of score parts.

    Parameters
    ----------
    parts
        Who adds what; two parties or more. Parts that are always 0 are left out of the matrix.
    price
        What the opening offers to pay; δ must be positive.
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
        """The largest magnitude of every column, by party; at least a hair, lest a column without weight divide by 0."""
        return [np.maximum(part.largest, 1e-12 * self._tallest) for part in self.parts]

    @property
    def _tallest(self) -> float:
        return max(float(part.largest.max()) for part in self.parts) or 1.0

    @property
    def heights(self) -> list[list[int]]:
        """a: how many integer steps each column's largest magnitude is."""
        return [
            [max(1, round(SCALE * float(np.sqrt(one / self._tallest)))) for one in largest] for largest in self.largest
        ]

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party: its part in the matrix."""
        return tuple(
            Gram.ask(
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
        first, second = entry_pairs(joint.widths)
        whole = np.zeros((sum(joint.widths) + 1,) * 2)
        whole[first + 1, second + 1] = opened.cross
        for party, places in places_beside_constant(joint.owners, joint.widths).items():
            rows, columns = np.triu_indices(len(places))
            whole[places[rows[1:]], places[columns[1:]]] = opened.own[party]
        whole = np.triu(whole) + np.triu(whole, 1).T
        whole[0, 0] = joint.people * float(SCALE) ** 2
        units = np.concatenate(
            [[1 / SCALE], *(np.divide(a, b) for a, b in zip(self.largest, self.heights, strict=True))]
        )
        outer = np.outer(units, units)
        steps = np.concatenate([[0.0], units[1:]])
        return ScoreMoments(whole * outer, _variance(joint) * outer**2, steps, joint.people)


def _variance(joint: Joint) -> Array:
    noise = joint.noise
    assert isinstance(noise, GramNoise)  # the step's statistic decided
    size = sum(joint.widths) + 1
    variance, alone = np.full((size, size), noise.opened_variance), float(noise.own_variance)
    for places in places_beside_constant(joint.owners, joint.widths).values():
        variance[np.ix_(places, places)] = alone
    np.fill_diagonal(variance, 2 * alone)
    variance[0, 0] = 0.0
    return variance
