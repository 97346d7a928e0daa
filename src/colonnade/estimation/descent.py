"""Gradient descent at the coordinator: optimisers, when to stop, and the error that noisy steps are expected to leave.

What the coordinator makes of noisy gradients (Secure PCA, Algorithm 4) is post-processing and costs nothing, whichever way it
is done: plain steps with momentum, or Adam; weights clipped to a length; and an average of the iterates in which later ones
count more, because single iterates of a noisy descent wander.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.expected_errors import AssumedColumns, ExpectedError, either_way

__all__ = [
    "Adam",
    "IterateAverage",
    "Optimiser",
    "OptimiserName",
    "Sgd",
    "StoppingRule",
    "clip_to_length",
    "expected_prediction_error",
    "optimiser_of",
]


Array = NDArray[np.float64]
OptimiserName = Literal["sgd", "adam"]


class Optimiser(Protocol):
    """A rule that turns gradients into steps."""

    def change(self, gradient: Array) -> Array:
        """Return what to add to the weights."""


@dataclass
class Sgd:
    """Gradient descent with momentum.

    Parameters
    ----------
    learning_rate
        The length of a step; with momentum m the long-run step is 1/(1 − m) times as long.
    momentum
        The share of the previous step that is kept.
    """

    learning_rate: float
    momentum: float = 0.9
    _velocity: Array | float = 0.0

    def change(self, gradient: Array) -> Array:
        """Return what to add to the weights."""
        self._velocity = self.momentum * self._velocity + gradient
        return np.asarray(-self.learning_rate * self._velocity)


@dataclass
class Adam:
    """Adam: steps scaled coordinate by coordinate [Kingma–Ba 2015].

    Parameters
    ----------
    learning_rate
        About how far a coordinate moves in a step.
    first, second
        The shares of the running means of gradients and of their squares that are kept.
    """

    learning_rate: float
    first: float = 0.9
    second: float = 0.999
    _mean: Array | float = 0.0
    _square: Array | float = 0.0
    _count: int = 0

    def change(self, gradient: Array) -> Array:
        """Return what to add to the weights."""
        self._count += 1
        self._mean = self.first * self._mean + (1 - self.first) * gradient
        self._square = self.second * self._square + (1 - self.second) * gradient**2
        mean = self._mean / (1 - self.first**self._count)
        square = self._square / (1 - self.second**self._count)
        return np.asarray(-self.learning_rate * mean / (np.sqrt(square) + 1e-8))


@dataclass
class IterateAverage:
    """A running average whose weights grow with the cube of the step [Shamir–Zhang 2013], so that early iterates fade."""

    decay: int = 3
    value: Array | None = None
    count: int = field(default=0)

    def add(self, weights: Array) -> Array:
        """Add one more iterate, and return the average."""
        self.count += 1
        part = (self.decay + 1) / (self.count + self.decay)
        self.value = weights.copy() if self.value is None else (1 - part) * self.value + part * weights
        return self.value


@dataclass
class StoppingRule:
    """The rule that ends a descent early: its average has hardly moved in the last tenth of the steps.

    Parameters
    ----------
    tolerance
        The largest move that still counts as none; 0 never stops early.
    steps
        The number of steps without an early stop.
    """

    tolerance: float
    steps: int
    _count: int = 0
    _before: Array | None = None

    def has_settled(self, average: Array) -> bool:
        """Look at the average after one more step."""
        self._count += 1
        if self.tolerance <= 0 or self._count % max(1, self.steps // 10):
            return False
        before, self._before = self._before, average.copy()
        return before is not None and float(np.linalg.norm(average - before)) < self.tolerance


def clip_to_length(weights: Array, length: float | None) -> Array:
    """Shorten weights to at most a length, if one is given."""
    norm = float(np.linalg.norm(weights))
    return weights if length is None or norm <= length else weights * (length / norm)


def optimiser_of(name: OptimiserName, learning_rate: float) -> Optimiser:
    """Return an optimiser by name.

    Examples
    --------
    >>> optimiser_of("sgd", 0.5).change(np.array([1.0, -2.0])).tolist()
    [-0.5, 1.0]
    """
    if name == "sgd":
        return Sgd(learning_rate)
    if name == "adam":
        return Adam(learning_rate)
    raise BadInput("The optimiser is 'sgd' or 'adam'.")


RESIDUAL = 0.15
"""The mean square of a person's slope, (z − 2s)²/16, where half of a class is explained."""
MOST_STEPS = 1_000
"""Steps that are followed one by one. Of more, several are taken together."""


def expected_prediction_error(
    columns: AssumedColumns, people: int, *, steps: int, rate: float, deviation: float, optimiser: Sgd
) -> ExpectedError:
    """Return the root mean square by which noise moves a score of somebody like those who took part, in log-odds.

    Where no score is clipped, steps are linear in the weights: what noise adds to a path follows the same recursion as the
    path itself, whatever the path is, with the curvature e/4 along a direction of variance e. Privacy noise is alike in all
    directions; the noise of taking batches instead of everybody grows with e. Along each direction a weight, its velocity and
    its average are three numbers; their covariance is carried through all steps. The signal does not enter: this method does
    not shrink.

    Parameters
    ----------
    columns
        The columns, as previews assume them.
    people, steps, rate
        How many people, T, and the share of people in a batch.
    deviation
        Of the privacy noise in a coordinate of a step's mean gradient.
    optimiser
        Its learning rate and momentum.
    """
    variances = columns.directions
    sampled = RESIDUAL * variances * (1 - rate) / (rate * people)
    wandered = _carried(variances / 4, deviation**2 + sampled, steps, optimiser)
    return either_way(float(np.sqrt(columns.total * np.average(wandered, weights=variances))), "in log-odds")


def _carried(curvatures: Array, noise: Array, steps: int, optimiser: Sgd) -> Array:
    """Return the variance of the averaged weight along each direction after all steps."""
    followed = min(steps, MOST_STEPS)
    together = steps / followed  # a long step in place of several, with the noise of their mean
    momentum, decay = optimiser.momentum, IterateAverage().decay
    rate = np.minimum(optimiser.learning_rate * together, (1 - momentum) / np.maximum(curvatures, 1e-300))
    covariance = np.zeros((len(curvatures), 3, 3))
    for step in range(1, followed + 1):
        part = (decay + 1) / (step + decay)
        stepped = np.stack([1 - rate * curvatures, -rate * momentum, np.zeros_like(rate)])
        velocity = np.stack([curvatures, np.full_like(rate, momentum), np.zeros_like(rate)])
        averaged = part * stepped + np.array([[0.0], [0.0], [1 - part]])
        move = np.stack([stepped, velocity, averaged]).transpose(2, 0, 1)
        kick = np.stack([-rate, np.ones_like(rate), -part * rate], axis=1)
        covariance = move @ covariance @ move.transpose(0, 2, 1)
        covariance += (noise / together)[:, None, None] * kick[:, :, None] * kick[:, None, :]
    return np.asarray(covariance[:, 2, 2])
