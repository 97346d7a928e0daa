"""Gaussian differential privacy of discrete noise: a certified μ for a release, and ε and δ from μ.

A mechanism is μ-GDP [Dong, Roth and Su] if nobody tells two neighbouring tables apart from its output more easily than N(0, 1)
from N(μ, 1). μ² adds up over releases, also where the next one is chosen after the last was seen [Smith and Thakurta 2022].

Letters: X is the noise on one number, a sum of m discrete Gaussians of parameter s² (m = 1: one discrete Gaussian). A record
moves a vector of whole numbers by d, Σ dᵢ² ≤ Δ². y(t) is the normal quantile of P[X < t].

*One number.* The best test between X and X + 1 is a threshold, so the trade-off between false alarms and misses is piecewise
linear between the points (P[X ≥ t], P[X < t − 1]). The trade-off of two Gaussians is convex. So X against X + 1 is κ-GDP with

    κ = sup over whole t of y(t) − y(t − 1),

and X against X + d is |d|κ-GDP, because these differences add up. Independent numbers: μ² = κ²·Δ².

Two ways to bound κ, both from above (docs/proofs/gaussian-losses.md):

* *small noise* (m·s² ≤ `LARGEST_TABLE`): all thresholds are looked at. Tails are sums of positive doubles, so their relative
  error
  is below 10⁻¹², wherever they are above 10⁻²⁷⁰; what lies beyond adds less than 10⁻²⁶⁰ to δ, which rounding covers.
* *large noise*: a continuous Gaussian of variance v − r², rounded at random to a whole number by a discrete Gaussian of variance
  r², is a discrete Gaussian of variance v but for factors within e^{±ε′}, ε′ < 10⁻²⁰. So κ ≤ 1/√(m·s² − r²), and ε grows by
  less than 10⁻⁹ over all numbers of all releases together.
"""

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, ndtri_exp

from colonnade.errors import BadInput

UNIT = 10**24
"""μ² is kept in whole multiples of 1/UNIT, rounded up."""
LARGEST_TABLE = 1 << 12
"""Variances up to this are looked at threshold by threshold; beyond, a sum over all of them would only take longer."""
ROUNDED = Fraction(5, 2)
"""r²: of how much variance a discrete Gaussian is taken to round a continuous one. e^{−2π²r²} is below 10⁻²¹."""
REACH, SPARE = 35.0, 3.0
"""Thresholds up to so many standard deviations, of a law that is written down for so many more: tails are above 10⁻²⁷⁰, and what
is left out of them is below 10⁻⁴⁵ of each."""
MOST_ATOMS = 20_000
"""Sums of pure losses that are told apart; beyond, a plan's pure losses count as Gaussian or by their curves."""
PAD = 1e-9
"""Relative, above any error of the tails and of their quantiles."""
BEYOND = 598.0
"""Thresholds that are not looked at have a chance of false alarms below e^−598, and each adds e^ε times that to δ at most."""
SMALL_PURE = 1e-3
"""Below it μ of a pure ε is taken as ε·√(π/2), its limit, which is never below it."""
MARGIN = 14.0
"""e^−14 of δ is left for thresholds that are not looked at. So no Gaussian noise is made smaller for an ε above some hundreds."""
LARGEST_NANO = 1 << 40
"""No ε beyond this one, in nano-units, is looked for."""
SMOOTH = 5
"""From this variance of each share on, a sum of discrete Gaussians is one within 10⁻²⁰."""


@lru_cache(maxsize=1024)
def squared_step(above: int, below: int, shares: int = 1) -> Fraction:
    """Return an upper bound on κ² of a sum of ``shares`` discrete Gaussians of parameter above/below each.

    Examples
    --------
    >>> round(float(squared_step(16, 1)), 6), round(float(squared_step(4, 1, 4)), 6)
    (0.062828, 0.062828)
    """
    variance = Fraction(above, below)
    if variance <= 0 or shares < 1:
        raise BadInput("Noise has a positive variance.")
    whole = variance * shares
    if whole > LARGEST_TABLE:
        _require_smooth(variance, shares)
        return 1 / (whole - ROUNDED)
    largest = _largest_step(float(variance), shares) * (1 + PAD)
    return Fraction(largest) ** 2


def _largest_step(variance: float, shares: int) -> float:
    """Return the largest difference of normal quantiles between neighbouring tails."""
    deviation = math.sqrt(variance * shares)
    half = math.ceil((REACH + SPARE) * deviation) + 2 * shares + 2
    places = np.arange(-half, half + 1)
    one = np.exp(-(places.astype(np.float64) ** 2) / (2 * variance))
    one /= one.sum()
    law = (places == 0).astype(np.float64)
    for bit in f"{shares:b}":  # by doubling; sums of positive numbers, so no digit is lost in the tails
        law = np.convolve(law, law)[half : half + len(one)]
        law = np.convolve(law, one)[half : half + len(one)] if bit == "1" else law
    tails = np.cumsum(law[::-1])[::-1]
    last = half + 2 + math.ceil(REACH * deviation)
    upper = tails[half + 1 : last]  # P[X ≥ 1], P[X ≥ 2], …: the law is symmetric, so these are all there are
    logs = np.log(upper[upper > 1e-270])
    if not logs.size:  # below any noise that is drawn for an ε of some hundreds: one share is 1 and the others 0
        logs = np.array([-0.5 / variance - shares * math.log(float(np.sum(np.exp(-(places**2.0) / (2 * variance)))))])
    quantiles = -ndtri_exp(logs)
    return float(max(2 * quantiles[0], np.diff(quantiles).max(initial=0.0)))


def _require_smooth(share: Fraction, shares: int) -> None:
    if shares > 1 and share < SMOOTH:
        raise BadInput("So many shares of so little noise have no certified loss.", remedy="Use a larger scale=.")


@lru_cache(maxsize=4096)
def shared_step(above: int, below: int, shares: int) -> Fraction:
    """Return an upper bound on κ² where ``shares`` parties add above/below each, or one party adds all of it alone.

    Entries with twice the variance, of which a record moves twice as much in squares, are covered too.
    """
    share = Fraction(above, below)
    alone = share * shares
    if alone > LARGEST_TABLE:
        _require_smooth(share, shares)
        return 1 / (alone - ROUNDED)
    laws = {(share, shares), (alone, 1)}
    steps = [times * squared_step(*(times * one).as_integer_ratio(), many) for one, many in laws for times in (1, 2)]
    return max(steps)


def mu_squared(moved: int | Fraction, share: Fraction, shares: int = 1) -> int:
    """Return μ² of numbers that a record moves by Σ dᵢ² ≤ ``moved``, in units of 1/`UNIT`, rounded up."""
    return math.ceil(Fraction(moved) * shared_step(*share.as_integer_ratio(), shares) * UNIT)


@lru_cache(maxsize=4096)
def mu_squared_of_pure(nano: int) -> int:
    """Return μ² of any ε-DP mechanism: randomised response is the worst of them, and its corner decides."""
    epsilon = nano / 1e9 * (1 + 1e-15)
    if epsilon < SMALL_PURE:  # the quantile cancels here, and lies below its tangent
        return math.ceil(Fraction(epsilon) ** 2 * Fraction(1.5707963268) * UNIT)
    corner = -float(ndtri_exp(-np.logaddexp(0.0, epsilon)))  # the quantile of 1/(1 + e^ε)
    return math.ceil(Fraction(2 * corner * (1 + PAD)) ** 2 * UNIT)


def delta_of(squared: int, epsilon: float) -> float:
    """Return δ at ε of a μ-GDP mechanism, rounded up.

    δ = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) [Balle and Wang 2018].
    """
    if squared == 0:
        return 0.0
    mu = math.sqrt(squared / UNIT)
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    error = 1e-14 * (1 + abs(first) + abs(second) + epsilon)
    found = math.exp(first + error) * -math.expm1(min(second - first, 0.0) - 2 * error)
    return min(1.0, found + math.exp(min(epsilon - BEYOND, 0.0)))


@lru_cache(maxsize=1024)
def _atoms(pures: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the losses of several pure mechanisms together, and how likely each is; ``None`` if there are too many."""
    losses, chances = np.zeros(1), np.ones(1)
    for nano, times in Counter(pures).items():
        heads = np.arange(times + 1)
        if len(losses) * len(heads) > MOST_ATOMS:
            return None
        epsilon = nano / 1e9 * (1 + 1e-15)
        choose = gammaln(times + 1) - gammaln(heads + 1) - gammaln(times - heads + 1)
        weights = np.exp(choose - heads * np.logaddexp(0, -epsilon) - (times - heads) * np.logaddexp(0, epsilon))
        losses = np.add.outer(losses, (2 * heads - times) * epsilon).ravel()
        chances = np.multiply.outer(chances, weights).ravel()
    return losses, chances


def delta_beside(squared: int, pures: tuple[int, ...], epsilon: float) -> float | None:
    """Return δ at ε of a μ-GDP mechanism and pure ones (ε in nano-units) in one plan, rounded up; ``None`` for too many of them.

    Each of the pure ones is at worst randomised response, whose privacy loss is ±ε. So δ is that of the Gaussian, averaged over
    their sums (docs/proofs/gaussian-losses.md#mixed).
    """
    if not pures:
        return delta_of(squared, epsilon)
    atoms = _atoms(pures)
    if atoms is None:
        return None
    losses, chances = atoms
    rest = epsilon - losses
    if squared == 0:
        found = float(chances @ -np.expm1(np.minimum(rest, 0.0)))
    else:
        mu = math.sqrt(squared / UNIT)
        first, second = log_ndtr(-rest / mu + mu / 2), rest + log_ndtr(-rest / mu - mu / 2)
        error = 1e-14 * (1 + np.abs(first) + np.abs(second) + np.abs(rest))
        found = float(chances @ (np.exp(first + error) * -np.expm1(np.minimum(second - first, 0.0) - 2 * error)))
    return min(1.0, found * (1 + 1e-7) + math.exp(min(epsilon - BEYOND, 0.0)))


def fits(squared: int, nano: int, delta: float, pures: tuple[int, ...] = ()) -> bool:
    """Return whether a μ-GDP mechanism, beside pure ones, keeps within (ε, δ); one nano-unit is for rounding large noise."""
    if not 0 < delta < 1:
        raise BadInput("A Gaussian loss has an ε at a positive delta.")
    if squared == 0 and not pures:
        return True
    if nano < 1:
        return False  # one nano-unit is always charged
    largest = BEYOND + math.log(delta) - MARGIN  # what holds at a smaller ε holds at this one
    found = delta_beside(squared, pures, min((nano - 1) / 1e9, largest))
    return found is not None and found <= delta * (1 - 1e-12)


def nano_epsilon(squared: int, delta: float, pures: tuple[int, ...] = ()) -> int | None:
    """Return the smallest ε of a μ-GDP mechanism, beside pure ones, at δ in nano-units, rounded up; 0 where it costs nothing.

    ``None`` where none is certified: beyond ε of some hundreds tails are not looked at.

    Examples
    --------
    >>> nano_epsilon(UNIT, 1e-6) / 1e9  # μ = 1
    4.886554119
    """
    if fits(squared, 0, delta, pures):
        return 0
    low, high = 0, 10**9
    while not fits(squared, high, delta, pures):
        low, high = high, 2 * high
        if high > LARGEST_NANO:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(squared, middle, delta, pures) else (middle, high)
    return high


@lru_cache(maxsize=1024)
def largest_mu_squared(nano: int, delta: float) -> int:
    """Return the most that μ² may be, in units of 1/`UNIT`, for a loss within (ε, δ)."""
    low, high = 0, UNIT
    while fits(high, nano, delta):
        low, high = high, 4 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle, nano, delta) else (low, middle)
    return low - (low >> 40)  # far above the last digit of a double, in which what fits may come and go
