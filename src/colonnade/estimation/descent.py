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
