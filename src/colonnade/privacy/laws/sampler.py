"""What a law needs in order to draw: a sampler, given to it by code that may draw.

Laws import no sampler and no source of randomness. The coordinator can therefore know a law, its loss and its variance without
being able to draw from it. The one implementation is `colonnade.privacy.samplers.ExactSampler`; a party's gate constructs it.
"""

import builtins
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGEST_MEAN",
    "LARGEST_PARTS",
    "LARGEST_SCALE",
    "LARGEST_SIGMA_SQUARED",
    "KeyedStream",
    "Sampler",
    "Size",
]

LARGEST_SCALE = 2**50
"""The largest scale of Laplace noise that can be drawn."""
LARGEST_SIGMA_SQUARED = 2**100
"""The largest variance parameter of a discrete Gaussian that can be drawn."""
LARGEST_MEAN = 2**52
"""The largest mean of each of the two Poisson variables of Skellam noise that can be drawn."""
LARGEST_PARTS = 2**30
"""The largest number of Pólya shares that make up discrete Laplace noise."""

Size = int | tuple[int, ...]
"""How many draws: a number, or the shape of the result."""


class KeyedStream(Protocol):
    """A stream of uniform words that follows from a key: everyone who has the key reads the same words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` uniform 64-bit words."""

    def spawn(self, label: str) -> "KeyedStream":
        """Return the stream named ``label`` under this key."""


class Sampler(Protocol):
    """Exact draws of integer noise, and the uniform bits behind them."""

    def bytes(self, count: int) -> builtins.bytes:
        """Return ``count`` uniform bytes."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` uniform 64-bit words."""

    def uniform_below(self, bound: int, size: Size) -> NDArray[np.int64]:
        """Draw uniformly from ``0, …, bound - 1``."""

    def discrete_laplace(self, scale: Fraction, size: Size) -> NDArray[np.int64]:
        """Draw integers with ``P(k) ∝ exp(-|k|/scale)``."""

    def discrete_gaussian(self, sigma_squared: Fraction, size: Size) -> NDArray[np.int64]:
        """Draw integers with ``P(k) ∝ exp(-k²/(2·sigma_squared))``."""

    def polya_share(self, scale: Fraction, parts: int, size: Size) -> NDArray[np.int64]:
        """Draw one of ``parts`` independent shares that add up to discrete Laplace noise."""

    def skellam(self, mean: Fraction, size: Size) -> NDArray[np.int64]:
        """Draw differences of two independent Poisson variables of a given mean."""

    def keyed(self, key: builtins.bytes) -> KeyedStream:
        """Return the stream of a 32-byte key, for coins that several parties share or that are public."""
