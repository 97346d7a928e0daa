"""Linear and ridge regression as post-processing of one noisy Gram matrix (paper 003 measures it per task).

Any numeric column can be the target and any set of columns the features, at any ridge penalty, from one release. The
solve is `shrunken_solve`: never a second draw, nothing to tune.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import coefficients_to_own_units
from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.shrunken_solve import NormalEquations, Solution

__all__ = ["LinearFit", "linear_from_moments", "ridge_path"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A linear model in the columns' own units.

    Parameters
    ----------
    names
        What each coefficient belongs to: ``"party.column"`` or ``"party.column=level"``, all levels.
    coefficients, intercept
        The model.
    errors, intercept_error
        Standard errors that the privacy noise causes. Neither the sampling of people nor the bias of shrinking is in
        them.
    ridge
        The penalty, on coded weights.
    """

    names: tuple[str, ...]
    coefficients: Array
    intercept: float
    errors: Array
    intercept_error: float
    ridge: float

    def intervals(self, level: float = 0.95) -> Array:
        """Return lower and upper ends for every coefficient, for the privacy noise alone."""
        if not 0 < level < 1:
            raise BadInput("The level of an interval lies between 0 and 1.")
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self.errors
        return np.column_stack([self.coefficients - reach, self.coefficients + reach])


def linear_from_moments(
    moments: Moments, target: str, *, columns: Sequence[str] | None = None, ridge: float = 0.0
) -> LinearFit:
    """Fit one linear model.

    Parameters
    ----------
    moments
        The release.
    target
        A numeric column of it.
    columns
        The features' columns; all but the target by default.
    ridge
        Penalty on the squared coded weights (columns mapped to [−1, 1]), the intercept excepted.
    """
    return ridge_path(moments, target, [ridge], columns=columns)[0]


def ridge_path(
    moments: Moments, target: str, ridges: Sequence[float], *, columns: Sequence[str] | None = None
) -> tuple[LinearFit, ...]:
    """Fit one target at several penalties; the matrix is decomposed once."""
    place = _numeric(moments, target)
    equations = NormalEquations.of(moments, feature_places(moments, target, columns))
    weights = np.zeros(len(moments.features))
    weights[place] = 1.0
    return tuple(_fit(equations, equations.solve(weights, ridge=ridge), place, float(ridge)) for ridge in ridges)


def feature_places(moments: Moments, target: str, columns: Sequence[str] | None) -> NDArray[np.intp]:
    """Return the places of the features, which the target is not among."""
    if columns is not None and target in columns:
        raise BadInput(f"Column {target!r} is the target and a feature at once.")
    wanted = [name for name in moments.columns if name != target] if columns is None else columns
    return moments.places(wanted)


def _numeric(moments: Moments, target: str) -> int:
    (place, *others) = moments.places([target])
    if others or moments.features[place].kind != "numeric":
        raise BadInput(f"The target {target!r} is a category.", remedy="Use LogisticRegression for categories.")
    return int(place)


def _fit(equations: NormalEquations, solution: Solution, place: int, ridge: float) -> LinearFit:
    moments = equations.moments
    names, into = coefficients_to_own_units([moments.features[index] for index in equations.places])
    target = moments.features[place]
    into = into * target.half_width
    values = into @ np.append(solution.weights, solution.intercept)
    errors = standard_errors(into, equations.covariance(solution, ridge=ridge)[:-1, :-1])
    return LinearFit(names, values[:-1], float(values[-1]) + target.centre, errors[:-1], float(errors[-1]), ridge)


def standard_errors(into: Array, covariance: Array) -> Array:
    """Return the square roots of the diagonal of A·Cov·Aᵀ."""
    squared = np.einsum("ij,jk,ik->i", into, covariance, into, optimize=True)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))
