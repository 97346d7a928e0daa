"""Exact, vectorised draws of integer noise: what comes out has the stated law to the last bit, given uniform bits.

Parameters are rational numbers, because a float is rarely what was meant (0.1 is not a tenth) and a scale that is only
nearly right makes a guarantee that is only nearly true. Results are int64 arrays.

Notes
-----
*Exactness, in short.* Uniform integers are the top bits of a word; one that is too large is drawn again. The other laws are drawn
by rejection from a table of cells with integer weights; an acceptance is decided in integers, else in float64 with a
proved error bound, else by interval arithmetic of whatever precision it takes, always on the same random bits. The
proofs are in docs/proofs/exact-samplers.md and beside the code: `colonnade.privacy._exact` (comparing a uniform real with
a real), `colonnade.privacy._envelope` (rejection and its tails), `colonnade.privacy._distributions` (the float64 error bounds).

*Two laws by subtraction.* A Skellam variable is the difference of two independent Poisson variables. A Pólya share is
the difference of two independent negative binomials with r = 1/parts and a = e^(-1/scale): their generating function
``((1-a)/(1-az))^r`` to the power ``parts`` is that of a geometric law, and the difference of two independent geometric
variables has ``P(k) ∝ a^|k|``; so ``parts`` independent shares add up to discrete Laplace noise, exactly.

*Limits.* A value outside int64 raises ``OverflowError``; at the largest scale allowed its probability is below e^-8000.
Running time varies a little with what is drawn, as it does for every rejection sampler: draw before data is touched, or
answer at fixed times, where somebody could measure it.
"""

import builtins
import math
from fractions import Fraction
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy import _distributions as distributions
from colonnade.privacy._envelope import draw
from colonnade.privacy._exact import WORD
from colonnade.privacy.laws import (
    LARGEST_MEAN,
    LARGEST_PARTS,
    LARGEST_SCALE,
    LARGEST_SIGMA_SQUARED,
    Size,
)
from colonnade.privacy.randomness import KeyedRandomness, Randomness

__all__ = [
    "LARGEST_MEAN",
    "LARGEST_PARTS",
    "LARGEST_SCALE",
    "LARGEST_SIGMA_SQUARED",
    "ExactSampler",
    "Size",
    "discrete_gaussian",
    "discrete_laplace",
    "polya_share",
    "skellam",
    "uniform_below",
]

LARGEST_BOUND = 2**63


class ExactSampler:
    """The draws of this module from one source of randomness: what laws are given (`colonnade.privacy.laws.Sampler`).

    Parameters
    ----------
    randomness
        Where the bits come from. Draws take them in the order of the calls.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> ExactSampler(SystemRandomness()).discrete_laplace(Fraction(2), 3).shape
    (3,)
    """

    __slots__ = ("_randomness",)

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness

    def bytes(self, count: int) -> builtins.bytes:
        """Return ``count`` uniform bytes."""
        return self._randomness.bytes(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` uniform 64-bit words."""
        return self._randomness.words(count)

    def uniform_below(self, bound: int, size: Size) -> NDArray[np.int64]:
        """Draw as `uniform_below`."""
        return uniform_below(bound, size, self._randomness)

    def discrete_laplace(self, scale: Fraction, size: Size) -> NDArray[np.int64]:
        """Draw as `discrete_laplace`."""
        return discrete_laplace(scale, size, self._randomness)

    def discrete_gaussian(self, sigma_squared: Fraction, size: Size) -> NDArray[np.int64]:
        """Draw as `discrete_gaussian`."""
        return discrete_gaussian(sigma_squared, size, self._randomness)

    def polya_share(self, scale: Fraction, parts: int, size: Size) -> NDArray[np.int64]:
        """Draw as `polya_share`."""
        return polya_share(scale, parts, size, self._randomness)

    def skellam(self, mean: Fraction, size: Size) -> NDArray[np.int64]:
        """Draw as `skellam`."""
        return skellam(mean, size, self._randomness)

    def keyed(self, key: builtins.bytes) -> KeyedRandomness:
        """Return the stream of a key; it does not depend on this sampler's randomness."""
        return KeyedRandomness(key)

    def __repr__(self) -> str:
        return f"ExactSampler({self._randomness!r})"


def uniform_below(bound: int, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw uniformly from ``0, …, bound - 1``.

    Parameters
    ----------
    bound
        A whole number from 1 to 2^63.
    size
        How many draws: a number, or the shape of the result. The same in every function of this module.
    randomness
        Where the bits come from.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> set(uniform_below(2, 1000, SystemRandomness()).tolist())
    {0, 1}
    """
    largest = _whole(bound, "A bound", LARGEST_BOUND) - 1
    shape, count = _shape(size)
    shift = np.uint64(WORD - max(1, largest.bit_length()))
    kept = np.empty(0, dtype=np.uint64)
    while len(kept) < count:
        words = randomness.words(2 * (count - len(kept))) >> shift
        kept = np.concatenate([kept, words[words <= np.uint64(largest)]])
    return kept[:count].astype(np.int64).reshape(shape)


def discrete_laplace(scale: Fraction, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw integers with ``P(k) ∝ exp(-|k|/scale)``.

    Parameters
    ----------
    scale
        Rational, positive, at most 2^50. With ``scale = Δ₁/ε`` this is ε-DP noise.
    size, randomness
        As in `uniform_below`.
    """
    law = distributions.LaplaceDistribution(_positive(scale, "A scale", LARGEST_SCALE))
    shape, count = _shape(size)
    return draw(law, count, randomness).reshape(shape)


def discrete_gaussian(sigma_squared: Fraction, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw integers with ``P(k) ∝ exp(-k²/(2·sigma_squared))``.

    Parameters
    ----------
    sigma_squared
        Rational, positive, at most 2^100. With ``σ² = Δ₂²/2ρ`` this is ρ-zCDP noise.
    size, randomness
        As in `uniform_below`.
    """
    law = distributions.GaussianDistribution(_positive(sigma_squared, "A variance parameter", LARGEST_SIGMA_SQUARED))
    shape, count = _shape(size)
    return draw(law, count, randomness).reshape(shape)


def polya_share(scale: Fraction, parts: int, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw one party's share of discrete Laplace noise: ``parts`` independent shares add up to `discrete_laplace`.

    Parameters
    ----------
    scale
        The scale of the sum: rational, positive, at most 2^50.
    parts
        How many shares make up the noise, at least 1.
    size, randomness
        As in `uniform_below`.
    """
    exact = _positive(scale, "A scale", LARGEST_SCALE)
    law = distributions.NegativeBinomialDistribution(exact, _whole(parts, "A number of parts", LARGEST_PARTS))
    return _difference(law, size, randomness)


def skellam(mean: Fraction, size: Size, randomness: Randomness) -> NDArray[np.int64]:
    """Draw differences of two independent Poisson variables of a given mean; their variance is ``2·mean``.

    Parameters
    ----------
    mean
        The mean of each Poisson variable: rational, positive, at most 2^52.
    size, randomness
        As in `uniform_below`.
    """
    return _difference(distributions.PoissonDistribution(_positive(mean, "A mean", LARGEST_MEAN)), size, randomness)


def _difference(
    law: distributions.NegativeBinomialDistribution | distributions.PoissonDistribution,
    size: Size,
    randomness: Randomness,
) -> NDArray[np.int64]:
    shape, count = _shape(size)
    pairs = draw(law, 2 * count, randomness)
    return (pairs[:count] - pairs[count:]).reshape(shape)


def _exact(value: object, what: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Rational):
        raise BadInput(
            f"{what} must be an exact rational number, not {type(value).__name__}.",
            remedy="Pass an int or a fractions.Fraction, for example Fraction('0.1').",
        )
    return Fraction(int(value.numerator), int(value.denominator))


def _positive(value: object, what: str, largest: int) -> Fraction:
    exact = _exact(value, what)
    if not 0 < exact <= largest:
        raise BadInput(f"{what} must be positive and at most 2^{largest.bit_length() - 1}.")
    return exact


def _whole(value: object, what: str, largest: int) -> int:
    exact = _positive(value, what, largest)
    if exact.denominator != 1:
        raise BadInput(f"{what} must be a whole number.")
    return exact.numerator


def _shape(size: object) -> tuple[tuple[int, ...], int]:
    shape = size if isinstance(size, tuple) else (size,)
    if any(isinstance(side, bool) or not isinstance(side, int | np.integer) or side < 0 for side in shape):
        raise BadInput("A size is a non-negative whole number or a tuple of them.")
    return tuple(int(side) for side in shape), math.prod(int(side) for side in shape)
