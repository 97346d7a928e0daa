"""What a preview assumes about columns that nobody has looked at, and what noise then does to a result.

The noise of what is released is known exactly before anything runs. What it does to a result also depends on how far columns
spread between their bounds and on how they hang together, which nobody knows before. So a preview states its assumptions
(docs/explanation/previews.md). They are round numbers near what a dozen public tables have, the same for every study:

* *Spread.* The standard deviation of a number is a tenth of the distance between its bounds. Of a category's levels the k-th
  most frequent has 1/k of the people of the first (Zipf's law).
* *Directions.* The strongest principal direction has a fifth of all variance. Below it there are directions of every variance:
  as many between 0.01 and 0.02 as between 0.1 and 0.2. Tables are like that, because many columns measure nearly the same.
* *Signal.* The columns explain half of a target's variance, with coefficients that are alike in all directions.

Variances are those of coded columns (columns after scaling to [−1, 1], or indicators of levels), per person. A formula here
takes a few thousand operations for any number of columns: nothing is decomposed and nothing is drawn.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import Feature
from colonnade.errors import BadInput

__all__ = [
    "ASSUMPTIONS",
    "WIDEST",
    "AssumedColumns",
    "ExpectedError",
    "MomentNoise",
    "component_error",
    "correlation_error",
    "either_way",
    "level_shares",
    "noise_floor",
    "prediction_error",
]

Array = NDArray[np.float64]
DEVIATION = 0.1
STRONGEST = 0.2
EXPLAINED = 0.5
EITHER_WAY = 2.0
WIDEST = 4.0
"""The widest range of an expected error, highest over lowest, that is still worth saying."""
ASSUMPTIONS = (
    "numbers with a deviation of a tenth of their bounds, levels by Zipf's law, columns that partly measure the same"
)
DIRECTIONS = 400
FAINTEST = 1e-9


@dataclass(frozen=True)
class ExpectedError:
    """How far the privacy noise is expected to move one result, or the reason why that is not known.

    It is the root mean square of (what the study returns − what the same method would return without noise), over draws of the
    noise and, for a result with many entries, over the entries. It does not include the error of sampling people or of what a
    method assumes about them.

    Parameters
    ----------
    quantity
        The result that it is the error of: a fitted attribute such as ``"counts_"``, or a few words.
    value
        The expected error; positive. ``None`` if it is not known.
    unit
        The unit of the error, such as ``"people"``.
    low, high
        The range of the expected error. Both are ``value`` if the error does not depend on data.
    assumes
        The assumption about data that ``value`` rests on.
    unknown
        Why it is not known; empty if it is.

    Examples
    --------
    >>> ExpectedError("counts_", 12.5, "people", 10.0, 20.0)
    counts_: about 12.5 people (10 to 20)
    >>> ExpectedError.ranging("value_", (1.0, 2.0, 8.0), "people", "sums are small")
    value_: unknown, because it may be anything from 1 to 8 people
    """

    quantity: str
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    assumes: str = ""
    unknown: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.unknown):
            raise BadInput("An expected error has either a value or a reason why it is not known.")

    @classmethod
    def ranging(cls, quantity: str, errors: tuple[float, float, float], unit: str, assumes: str) -> "ExpectedError":
        """Return the error from its value under the assumptions (in the middle) and on both sides of them.

        If the two sides are too far apart to be of use, the error is not known.
        """
        low, high = min(errors), max(errors)
        if high > WIDEST * low:
            return cls.not_known(quantity, unit, f"it may be anything from {low:,.3g} to {high:,.3g} {unit}")
        return cls(quantity, errors[1], unit, low, high, assumes)

    @classmethod
    def not_known(cls, quantity: str, unit: str, reason: str) -> "ExpectedError":
        """Return an error that is not known, for a reason."""
        return cls(quantity, None, unit, unknown=reason)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The smallest and the largest expected error; ``None`` if it is not known."""
        if self.value is None:
            return None
        return (self.value if self.low is None else self.low, self.value if self.high is None else self.high)

    @property
    def depends(self) -> bool:
        """Whether the error depends on what is assumed about data."""
        return self.interval is not None and self.interval[0] < self.interval[1]

    def __repr__(self) -> str:
        if self.interval is None:
            return f"{self.quantity}: unknown, because {self.unknown}"
        low, high = self.interval
        span = f" ({low:,.4g} to {high:,.4g})" if high > low else ""
        return f"{self.quantity}: about {self.value:,.4g} {self.unit}{span}"


def level_shares(size: int, exponent: float = 1.0) -> Array:
    """Return the assumed shares of a category's levels, the most frequent first: 1/k of the first, for the k-th.

    Parameters
    ----------
    size
        The number of levels.
    exponent
        0 for levels that are equally frequent, 1 for Zipf's law, 2 for one that falls with the square.

    Examples
    --------
    >>> level_shares(2).round(3).tolist()
    [0.667, 0.333]
    """
    weights = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class AssumedColumns:
    """Coded columns as a preview assumes them.

    Parameters
    ----------
    width
        The number of coded columns.
    total
        Their variances, added up.
    target
        The variance of the column to be explained; of one indicator, if it is a category with more than two levels.
    """

    width: int
    total: float
    target: float = 0.0

    @classmethod
    def of(cls, features: Sequence[Feature], target: str | None = None) -> "AssumedColumns":
        """Return what is assumed of some coded columns, and of the column to be explained among them."""
        groups: dict[str, list[Feature]] = {}
        for feature in features:
            if feature.kind != "intercept":
                groups.setdefault(feature.column, []).append(feature)
        explained = groups.pop(target, None) if target is not None else None
        own = 0.0 if explained is None else _variance(explained) / len(explained)
        return cls(sum(map(len, groups.values())), sum(map(_variance, groups.values())), own)

    @property
    def strongest(self) -> float:
        """The variance of the strongest direction."""
        return self.total * max(STRONGEST, 1 / self.width)

    @property
    def directions(self) -> Array:
        """Variances of directions, one per step of a logarithmic scale. Averages over them are weighted by the variances."""
        return np.asarray(self.strongest * np.geomspace(FAINTEST, 1.0, DIRECTIONS))

    def component(self, place: int) -> float:
        """Return the variance of a principal component, counted from 0: each has four fifths of the one before."""
        return self.strongest * (1 - STRONGEST) ** place


def _variance(group: Sequence[Feature]) -> float:
    """Return the assumed variance of the coded columns of one column, added up."""
    if [feature.kind for feature in group] == ["numeric"]:
        return (2 * DEVIATION) ** 2
    kinds = Counter(feature.kind for feature in group)
    numbers = kinds["numeric"] * (2 * DEVIATION) ** 2  # a coded number is 2 wide
    signs = kinds["sign"] * 4 * float(np.prod(level_shares(2)))
    levels = float(1 - np.sum(level_shares(kinds["level"]) ** 2)) if kinds["level"] else 0.0
    return numbers + signs + levels


@dataclass(frozen=True)
class MomentNoise:
    """The variance of the noise in an entry of a covariance matrix, by the variances of the two directions it belongs to.

    Parameters
    ----------
    between
        For two directions among the columns.
    with_target
        For a direction among the columns and the target.
    """

    between: Callable[[Array, float], Array]
    with_target: Callable[[Array, float], Array]

    @classmethod
    def fixed(cls, between: float, with_target: float | None = None) -> "MomentNoise":
        """Return noise that does not depend on data."""
        own = between if with_target is None else with_target
        return cls(lambda some, _: np.full_like(some, between), lambda some, _: np.full_like(some, own))

    @classmethod
    def alike(cls, variance: Callable[[Array, float], Array]) -> "MomentNoise":
        """Return noise that treats the target as any other column."""
        return cls(variance, variance)


def prediction_error(columns: AssumedColumns, noise: MomentNoise) -> ExpectedError:
    """Return by how much noise moves the predictions of a regression, as a share of their own standard deviation.

    A direction of variance e has the noise b(e) of its products with all columns and a(e) of its product with the target. A
    regression that takes them into account (`colonnade.estimation.regression.NormalEquations`), with coefficients of variance
    τ², loses the share B/(e² + B) of what the direction explains, B = b + a/τ². The signal is spread evenly over variances up to
    the strongest, so the lost share of all is the average over them; its root is the error. If every column were independent of
    the others and alike, e would be the same in all directions. Where that case and the assumed one are too far apart, the
    error is not known.
    """
    spread = EXPLAINED * columns.target / columns.total
    mean = columns.total / columns.width

    def lost(variances: Array) -> Array:
        both = columns.width * noise.between(variances, mean) + noise.with_target(variances, columns.target) / spread
        return np.asarray(both / (variances**2 + both))

    expected = float(np.sqrt(np.average(lost(columns.directions), weights=columns.directions)))
    independent = float(np.sqrt(lost(np.array([mean]))[0]))
    if independent < expected / WIDEST:
        reason = (
            f"it depends on whether columns measure the same: {independent:.2g} if they are independent, {expected:.2g} if many "
            "are nearly copies of others"
        )
        return ExpectedError.not_known(PREDICTION, RELATIVE, reason)
    return either_way(expected, RELATIVE)


PREDICTION = "a prediction"
RELATIVE = "of the standard deviation of predictions"


def either_way(error: float, unit: str) -> ExpectedError:
    """Return the error of a prediction with its range, a factor of two either way."""
    return ExpectedError(PREDICTION, error, unit, error / EITHER_WAY, error * EITHER_WAY, ASSUMPTIONS)


def noise_floor(columns: AssumedColumns, noise: MomentNoise) -> float:
    """Return the variance below which a direction is lost in the noise: the largest eigenvalue of the noise, 2·σ√d."""
    mean = columns.total / columns.width
    return float(2 * np.sqrt(columns.width * noise.between(np.array([mean]), mean)[0]))


def component_error(columns: AssumedColumns, noise: MomentNoise, count: int) -> ExpectedError:
    """Return the error of the variances of the leading principal components.

    Noise of variance V in the entries moves the variance along any fixed direction by √(2V), whatever the columns are. Where
    components lie close together it also mixes them, which adds to it; the range allows for as much again. Components below the
    noise floor are noise, and their error is not known.
    """
    variances = np.array([columns.component(place) for place in range(count)])
    floor = noise_floor(columns, noise)
    if variances[-1] < floor:
        reason = f"component {count} would have a variance of about {variances[-1]:.2g}, below the noise floor of {floor:.2g}"
        return ExpectedError.not_known(COMPONENTS, SCALED, reason)
    own = [float(noise.between(np.array([variance]), float(variance))[0]) for variance in variances]
    expected = float(np.sqrt(2 * np.mean(own)))
    return ExpectedError(COMPONENTS, expected, SCALED, expected, expected * EITHER_WAY, ASSUMPTIONS)


COMPONENTS = "explained_variance_"
SCALED = "after scaling to [−1, 1]"


def correlation_error(columns: AssumedColumns, noise: MomentNoise) -> ExpectedError:
    """Return the error of a correlation: the noise of a covariance, in parts of the two columns' assumed variance.

    Where it exceeds what a correlation can be, the noise leaves correlations open.
    """
    mean = columns.total / columns.width
    expected = float(np.sqrt(noise.between(np.array([mean]), mean)[0])) / mean
    if expected > 1:
        reason = f"the noise of a covariance is {expected:.2g} times the assumed variance of a column"
        return ExpectedError.not_known(CORRELATIONS, "as a correlation", reason)
    return ExpectedError(
        CORRELATIONS, expected, "as a correlation", expected / EITHER_WAY, min(expected * EITHER_WAY, 1.0), ASSUMPTIONS
    )


CORRELATIONS = "correlation_"
