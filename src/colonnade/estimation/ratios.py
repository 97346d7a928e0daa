"""Intervals of ratios of two noisy numbers.

A mean in a group is a noisy sum over a noisy count, and a correlation is a noisy product over a noisy spread. Where the
denominator stands far out of its noise the delta method says how far the ratio errs. Where it does not, Fieller's argument still
holds: r is the ratio exactly if numerator − r·denominator is 0, and that is a number with a known noise at every r. So the r that
noise could explain at a level are an interval, a half line, or everything (docs/proofs/group-by.md#intervals).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

__all__ = ["RatioNoise", "quantile", "ratio_error", "ratio_interval"]

Array = NDArray[np.float64]


class RatioNoise(NamedTuple):
    """The noise of numerators and denominators: their variances, and the covariance of the two."""

    numerator: Array
    denominator: Array
    covariance: Array


def quantile(level: float) -> float:
    """Return z: a normal number is within z standard deviations with this probability.

    Examples
    --------
    >>> round(quantile(0.95), 2)
    1.96
    """
    return float(norm.ppf((1 + level) / 2))


def ratio_error(numerator: Array, denominator: Array, noise: RatioNoise) -> Array:
    """Return the standard error of each ratio to first order; infinite where the denominator is not positive."""
    positive = denominator > 0
    below = np.where(positive, denominator, 1.0)
    ratio = numerator / below
    variance = noise.numerator - 2 * ratio * noise.covariance + ratio**2 * noise.denominator
    return np.where(positive, np.sqrt(np.maximum(variance, 0.0)) / below, np.inf)


def ratio_interval(
    numerator: Array, denominator: Array, noise: RatioNoise, level: float, bounds: tuple[float, float] = (-1.0, 1.0)
) -> tuple[Array, Array]:
    """Return Fieller's intervals of ratios that are known to lie within bounds.

    Parameters
    ----------
    numerator, denominator
        Unbiased estimates. The true denominators are positive, or the interval is that of bounds.
    noise
        What is known about their noise.
    level
        The probability with which each interval covers its ratio.
    bounds
        Public bounds of every ratio. Where noise could explain any ratio, they are the interval.

    Examples
    --------
    >>> noise = RatioNoise(np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.zeros(2))
    >>> low, high = ratio_interval(np.array([50.0, 1.0]), np.array([100.0, 1.0]), noise, 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.478, -1.0], [0.522, 1.0])
    """
    squared = quantile(level) ** 2
    a = denominator**2 - squared * noise.denominator
    b = numerator * denominator - squared * noise.covariance
    c = numerator**2 - squared * noise.numerator
    bounded = (a > 0) & (denominator > 0)
    width = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    below = np.where(bounded, a, 1.0)
    low = np.where(bounded, (b - width) / below, bounds[0])
    high = np.where(bounded, (b + width) / below, bounds[1])
    return np.clip(low, *bounds), np.clip(high, *bounds)
