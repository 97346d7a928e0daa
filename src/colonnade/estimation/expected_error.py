"""What to expect before anything is spent: predicted errors from the plan alone, no data touched.

How noisy the release will be is known exactly; what that does to a result depends on data nobody has seen yet. Each
function says what it assumes. The common assumption, *plain columns*: numbers are uniform between their bounds,
levels are equally likely, columns do not correlate, and effects are small.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import Feature, coefficients_to_own_units
from colonnade.errors import BadInput
from colonnade.estimation.noise_propagation import operator_norm

__all__ = [
    "CoefficientError",
    "ComponentsError",
    "TableError",
    "expected_coefficient_error",
    "expected_components_error",
    "expected_table_error",
    "gram_variance",
]

Array = NDArray[np.float64]


def gram_variance(row_bound: float, rho: float) -> float:
    """Return V, the noise variance of a diagonal Gram entry in coded units: Δ₂²/(2ρ) with Δ₂ the squared row bound.

    Examples
    --------
    >>> gram_variance(16, 0.5)
    256.0
    """
    if not (row_bound > 0 and rho > 0):
        raise BadInput("A row bound and rho are positive.")
    return float(row_bound) ** 2 / (2 * rho)


@dataclass(frozen=True)
class TableError:
    """Expected error of a table of counts.

    Parameters
    ----------
    cell
        The standard deviation of the noise in one cell.
    total
        The expected sum of absolute errors before projecting, at most twice the number of people; exact, no assumption.
    """

    cell: float
    total: float


def expected_table_error(cells: int, variance: float, people: int) -> TableError:
    """Predict the error of a table whose cells carry noise of the given variance."""
    if cells < 1 or not variance >= 0 or people < 1:
        raise BadInput("A table has cells and people, and its noise a variance of at least 0.")
    cell = float(np.sqrt(variance))
    return TableError(cell, min(cells * cell * float(np.sqrt(2 / np.pi)), 2.0 * people))


@dataclass(frozen=True)
class ComponentsError:
    """Expected error of principal components.

    Parameters
    ----------
    noise_norm
        The typical largest eigenvalue of the noise, per person, in coded units: smaller components drown.
    largest_loss
        At most this much variance per person is lost against the best components, whatever the data (with noise of
        that norm).
    typical_loss
        The share of captured variance lost when the components carry half of the variance of plain columns, evenly, and
        the other directions the rest.
    """

    noise_norm: float
    largest_loss: float
    typical_loss: float


def expected_components_error(
    features: Sequence[Feature], variance: Array, people: int, n_components: int
) -> ComponentsError:
    """Predict what noise of the given variances (those of the features, no intercept) costs the leading components.

    A rotation of component i towards direction j by the noise loses V_ij/(l_i − l_j) of captured variance to first
    order; for any data the loss is at most 2·k·‖E‖.
    """
    width = len(features)
    if not 1 <= n_components <= width or variance.shape != (width, width) or people < 1:
        raise BadInput("Components are between one and the number of features, with one variance a pair of them.")
    norm = operator_norm(variance) / people
    spread = float(np.sum(_plain_spread(features)))
    gap = spread / 2 / n_components - spread / 2 / max(width - n_components, 1)
    rotated = n_components * (width - n_components) * float(np.mean(variance)) / people**2
    certain = min(4 * n_components * norm / spread, 1.0)
    typical = min(2 * rotated / (gap * spread), certain) if gap > 0 else certain
    return ComponentsError(norm, 2 * n_components * norm, 0.0 if n_components == width else typical)


@dataclass(frozen=True, eq=False)
class CoefficientError:
    """Expected standard errors of coefficients from the privacy noise.

    Parameters
    ----------
    names
        As in the fitted model.
    errors
        In own units: for a numeric target its units, for a category log-odds. For plain columns, without the
        shrinking that makes them smaller where the noise is large.
    """

    names: tuple[str, ...]
    errors: Array


def expected_coefficient_error(
    features: Sequence[Feature], variance: Array, people: int, target: str
) -> CoefficientError:
    """Predict the noise in the coefficients of one target.

    Parameters
    ----------
    features
        All coded columns of the release, the intercept first.
    variance
        Their noise variances.
    people
        How many there are.
    target
        The target's column; the others are the features.
    """
    targets = [place for place, feature in enumerate(features) if feature.column == target]
    places = [place for place in range(1, len(features)) if place not in targets]
    if not targets or not places or variance.shape != (len(features), len(features)):
        raise BadInput("The target must be one of the release's columns, and not the only one.")
    chosen, scale = _target_scale([features[place] for place in targets], targets)
    noise = variance[np.ix_(places, chosen)].sum(axis=1)
    kept = [features[place] for place in places]
    coded = scale * np.sqrt(noise * _plain_response(kept)) / people
    names, into = coefficients_to_own_units(kept)
    return CoefficientError(names, np.abs(into[:-1, :-1]) @ coded)


def _target_scale(features: Sequence[Feature], places: Sequence[int]) -> tuple[list[int], float]:
    """Return the places whose noise enters, and the factor from coded least squares to the model's coefficients."""
    if features[0].kind == "numeric":
        return list(places), features[0].half_width
    if features[0].kind == "sign" or len(places) == 2:
        return list(places), 2.0
    return list(places[:1]), float(len(places))


def _plain_spread(features: Sequence[Feature]) -> Array:
    """Return the variance of each plain column: 1/3 for a number, (1 − 1/K)/K for one of K levels, 1 for a sign."""
    sizes = _levels(features)
    level = (1 - 1 / sizes) / sizes
    kinds = np.array([feature.kind for feature in features])
    return np.where(kinds == "numeric", 1 / 3, np.where(kinds == "level", level, 1.0))


def _plain_response(features: Sequence[Feature]) -> Array:
    """Return the squared solution operator on the diagonal: levels of one category are solved together, with sum 0."""
    sizes = _levels(features)
    kinds = np.array([feature.kind for feature in features])
    return np.where(kinds == "numeric", 9.0, np.where(kinds == "level", sizes**2 * (1 - 1 / sizes), 1.0))


def _levels(features: Sequence[Feature]) -> Array:
    columns = [feature.column for feature in features]
    return np.array([columns.count(column) for column in columns], dtype=np.float64)
