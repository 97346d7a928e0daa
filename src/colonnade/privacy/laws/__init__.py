"""Noise laws: what each one costs and how it is drawn. Local and joint noise alike.

A law is complete before data is touched: its constructor refuses whatever it could not draw, so that the gate may debit the loss
first and draw afterwards.

Laws import no sampler and no source of randomness. A law draws from a `Sampler` that it is given. The coordinator can therefore
know a law, its loss and its variance without being able to draw from it. The one implementation of `Sampler` is
`colonnade.privacy.samplers.ExactSampler`, which only a party's gate constructs.
"""

import builtins
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.accounting import Loss

LARGEST_LAPLACE = 2**50
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

    def gaussian_pieces(self, sigma_squared: Fraction, sizes: Sequence[int]) -> Iterator[NDArray[np.int64]]:
        """Yield what one `discrete_gaussian` of all sizes together would draw, in pieces."""

    def polya_share(self, scale: Fraction, parts: int, size: Size) -> NDArray[np.int64]:
        """Draw one of ``parts`` independent shares that add up to discrete Laplace noise."""

    def skellam(self, mean: Fraction, size: Size) -> NDArray[np.int64]:
        """Draw differences of two independent Poisson variables of a given mean."""

    def keyed(self, key: builtins.bytes) -> KeyedStream:
        """Return the stream of a 32-byte key, for coins that several parties share or that are public."""


class RowBlocks(Protocol):
    """Rows of numbers that need not be in memory together: a pass yields some at a time, in the same order each time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many rows there are, and how many numbers each has; rows of single numbers have one dimension."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""

    def __iter__(self) -> Iterator[NDArray[Any]]: ...


NoiseFamily = Literal["gaussian", "laplace", "skellam"]
"""Which noise the shares of a joint law add up to."""


class Description(NamedTuple):
    """A law in words, with its numbers in them, for reports."""

    sensitivity: str
    scale: str


@runtime_checkable
class Law(Protocol):
    """What every noise law has: a name and a description. What it costs and how it is drawn differs, see below."""

    @property
    def name(self) -> str:
        """What statements call it."""

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""


@runtime_checkable
class Mechanism(Law, Protocol):
    """A law by which one party alone perturbs what it has computed."""

    @property
    def loss(self) -> Loss:
        """What one release costs."""

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[Any]:
        """Perturb."""
